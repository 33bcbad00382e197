//! Who has logged in: tokens, their ends, and what each viewer may have open.
//!
//! A *viewer* is one login. The browser has a random token in a cookie that no script reads; here is only the
//! token's hash. A second random value, the *form token*, is given to the page's scripts and asked for by
//! every request that changes something.
//!
//! A login ends at logout, when nothing has used it for a while, at an age, and when the role is dropped, may
//! not log in any more or has another password. Invariant, checked by `logins_end_in_time_and_make_room`:
//! there are never more viewers than the limit.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use halcyon::Database;
use halcyon_server::Seat;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::editors::Editors;

/// Streams that one viewer may have open.
const STREAMS_MAX: usize = 12;

type TokenHash = [u8; 32];

/// All viewers.
pub(crate) struct Viewers {
    most: usize,
    idle_max: Duration,
    login_max: Duration,
    by_token: Mutex<HashMap<TokenHash, Arc<Viewer>>>,
}

/// A login.
pub(crate) struct Viewer {
    pub role: String,
    /// Address that the login came from, for the system views.
    pub client: String,
    /// The token that requests which change something repeat.
    pub form_token: String,
    /// The verifier of the password at the login: another one ends the login.
    verifier: Option<String>,
    began: Instant,
    used: Mutex<Instant>,
    has_ended: AtomicBool,
    streams: AtomicUsize,
    pub editors: Editors,
    _seat: Seat,
}

/// An open stream of a viewer; dropping it makes room.
pub(crate) struct OpenStream(Arc<Viewer>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Viewer {
    /// Takes one of the viewer's streams; `None` if all are open.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Option<OpenStream> {
        let next = |open| (open < STREAMS_MAX).then_some(open + 1);
        let taken = self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.ok().map(|_| OpenStream(Arc::clone(self)))
    }

    /// Whether the role is what it was at the login; being asked counts as use.
    fn holds(&self, database: &Database) -> bool {
        let holds = self.is_as_it_was(database);
        if holds {
            *lock(&self.used) = Instant::now();
        }
        holds
    }

    fn is_as_it_was(&self, database: &Database) -> bool {
        !self.has_ended.load(Ordering::Acquire)
            && database.password_verifier(&self.role) == self.verifier
            && database.may_log_in(&self.role)
    }

    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.editors.end();
    }
}

impl Viewers {
    pub(crate) fn new(most: usize, idle_max: Duration, login_max: Duration) -> Self {
        Viewers { most, idle_max, login_max, by_token: Mutex::default() }
    }

    /// Makes a viewer of a role that has proved who it is. `verifier`: that of the role's password, read before
    /// the proof, so that a password which changes meanwhile ends the login. Returns the viewer and the cookie's
    /// token; `None` if there is no room.
    pub(crate) fn add(
        &self,
        verifier: Option<String>,
        role: &str,
        peer: IpAddr,
        seat: Seat,
    ) -> Option<(Arc<Viewer>, String)> {
        let token = random_token();
        let now = Instant::now();
        let viewer = Arc::new(Viewer {
            role: role.to_owned(),
            client: peer.to_canonical().to_string(),
            form_token: random_token(),
            verifier,
            began: now,
            used: Mutex::new(now),
            has_ended: AtomicBool::new(false),
            streams: AtomicUsize::new(0),
            editors: Editors::default(),
            _seat: seat,
        });
        let mut viewers = lock(&self.by_token);
        if viewers.len() >= self.most {
            return None;
        }
        viewers.insert(hash(&token), Arc::clone(&viewer));
        Some((viewer, token))
    }

    /// The viewer with a token whose login still holds; using it keeps it from ending.
    pub(crate) fn find(&self, database: &Database, token: &str) -> Option<Arc<Viewer>> {
        let viewer = lock(&self.by_token).get(&hash(token)).cloned()?;
        (self.is_in_time(&viewer) && viewer.holds(database)).then_some(viewer)
    }

    /// Whether a login still holds, asked by an open stream, which counts as use.
    pub(crate) fn still_holds(&self, viewer: &Viewer, database: &Database) -> bool {
        self.is_in_time(viewer) && viewer.holds(database)
    }

    /// Ends a login.
    pub(crate) fn remove(&self, token: &str) {
        if let Some(viewer) = lock(&self.by_token).remove(&hash(token)) {
            viewer.end();
        }
    }

    /// Ends the logins whose time is over, and sessions of SQL pages that nobody uses.
    pub(crate) fn sweep(&self, database: &Database) {
        let mut over = Vec::new();
        lock(&self.by_token).retain(|_, viewer| {
            let stays = self.is_in_time(viewer) && viewer.is_as_it_was(database);
            if !stays {
                over.push(Arc::clone(viewer));
            }
            stays
        });
        over.iter().for_each(|viewer| viewer.end());
        let all: Vec<_> = lock(&self.by_token).values().cloned().collect();
        all.iter().for_each(|viewer| viewer.editors.sweep());
    }

    /// Ends all logins.
    pub(crate) fn end(&self) {
        let all = std::mem::take(&mut *lock(&self.by_token));
        all.values().for_each(|viewer| viewer.end());
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_token).len()
    }

    fn is_in_time(&self, viewer: &Viewer) -> bool {
        lock(&viewer.used).elapsed() < self.idle_max && viewer.began.elapsed() < self.login_max
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random_token() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Tokens are looked up by their hash: neither memory nor the time of a look-up gives one away.
fn hash(token: &str) -> TokenHash {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares in constant time.
pub(crate) fn is_same_token(left: &str, right: &str) -> bool {
    hash(left) == hash(right)
}
