//! The state that all connections of a server share: database, configuration, connection limits.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use halcyon::Database;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;

use crate::antechamber::{Antechamber, Failures, Places};
use crate::cancel::CancelKeys;
use crate::config::ServerConfig;
use crate::tls::Tls;

/// The state that all connections share.
pub(crate) struct Shared {
    pub db: Database,
    pub config: ServerConfig,
    pub tls: Option<Tls>,
    pub keys: CancelKeys,
    pub antechamber: Antechamber,
    pub places: Arc<Places>,
    pub failures: Failures,
    /// From which salts are made for roles that do not exist.
    pub scram_secret: [u8; 32],
    /// Becomes true once: from then on connections end when they are idle.
    pub stopping: watch::Sender<bool>,
    /// Open sockets, including those that have not logged in.
    pub sockets: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(db: Database, config: ServerConfig, tls: Option<Tls>) -> Arc<Self> {
        let mut scram_secret = [0; 32];
        SystemRandom::new().fill(&mut scram_secret).expect("the system has random numbers");
        Arc::new(Shared {
            db,
            antechamber: Antechamber::new(config.logins_max),
            places: Places::new(config.connections_max, config.superuser_reserved_connections),
            failures: Failures::default(),
            config,
            tls,
            keys: CancelKeys::default(),
            scram_secret,
            stopping: watch::Sender::new(false),
            sockets: AtomicUsize::new(0),
        })
    }
}
