//! The state that all connections of a server share: database, configuration, connection limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use halcyon::Database;
use halcyon_traces::Tracer;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{Notify, watch};

use crate::antechamber::{Antechamber, Failures, Places};
use crate::cancel::CancelKeys;
use crate::config::ServerConfig;
use crate::tls::Tls;

/// The state that all connections share.
pub(crate) struct Shared {
    pub db: Database,
    pub config: ServerConfig,
    pub tls: Option<Tls>,
    /// Where statements are recorded; `None`: nowhere.
    pub tracer: Option<Arc<Tracer>>,
    pub keys: CancelKeys,
    pub antechamber: Antechamber,
    pub places: Arc<Places>,
    pub failures: Failures,
    /// From which salts are made for roles that do not exist.
    pub scram_secret: [u8; 32],
    /// Becomes true once: from then on nobody logs in.
    pub stopping: watch::Sender<bool>,
    /// Whether connections end when they are idle.
    ends_idle: AtomicBool,
    /// What wakes the connections that have logged in, by address.
    wakers: Mutex<HashMap<usize, Arc<Notify>>>,
    /// Open sockets, including those that have not logged in.
    pub sockets: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(
        db: Database,
        config: ServerConfig,
        tls: Option<Tls>,
        tracer: Option<Arc<Tracer>>,
    ) -> Arc<Self> {
        let mut scram_secret = [0; 32];
        SystemRandom::new().fill(&mut scram_secret).expect("the system has random numbers");
        Arc::new(Shared {
            db,
            antechamber: Antechamber::new(config.logins_max),
            places: Places::new(config.connections_max, config.superuser_reserved_connections),
            failures: Failures::default(),
            config,
            tls,
            tracer,
            keys: CancelKeys::default(),
            scram_secret,
            stopping: watch::Sender::new(false),
            ends_idle: AtomicBool::new(false),
            wakers: Mutex::default(),
            sockets: AtomicUsize::new(0),
        })
    }

    /// Ends the connections that are idle, now and from now on.
    pub(crate) fn stop(&self) {
        // A connection that sees its notification sees the word, too: `Notify` synchronises.
        self.ends_idle.store(true, Ordering::Release);
        self.stopping.send_replace(true);
        self.wakers().values().for_each(|waker| waker.notify_one());
    }

    /// Whether connections end when they are idle. A word that is written once: connections look at it
    /// before every wait, and a channel's list of listeners would be written at every look.
    pub(crate) fn ends_idle(&self) -> bool {
        self.ends_idle.load(Ordering::Acquire)
    }

    /// Has `waker` notified when the server stops, for as long as the answer lives.
    pub(crate) fn wake_at_end(self: &Arc<Self>, waker: &Arc<Notify>) -> WokenAtEnd {
        let key = Arc::as_ptr(waker) as usize;
        self.wakers().insert(key, Arc::clone(waker));
        WokenAtEnd { shared: Arc::clone(self), key }
    }

    fn wakers(&self) -> MutexGuard<'_, HashMap<usize, Arc<Notify>>> {
        self.wakers.lock().expect("no holder of this lock panics")
    }
}

/// A connection's entry among those that the server's end wakes.
pub(crate) struct WokenAtEnd {
    shared: Arc<Shared>,
    key: usize,
}

impl Drop for WokenAtEnd {
    fn drop(&mut self) {
        self.shared.wakers().remove(&self.key);
    }
}
