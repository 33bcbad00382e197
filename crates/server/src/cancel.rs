//! Keys by which another connection may cancel a statement (CancelRequest).

use std::collections::HashMap;
use std::sync::Mutex;

use halcyon::CancelHandle;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of a connection's secret in protocol 3.0; from 3.2 on secrets may be longer.
const SECRET_BYTES: usize = 4;
const SECRET_BYTES_LONG: usize = 32;

/// The secrets of all connections, by session number.
#[derive(Default)]
pub(crate) struct CancelKeys {
    keys: Mutex<HashMap<u32, (Vec<u8>, CancelHandle)>>,
}

impl CancelKeys {
    /// Makes a secret for a session.
    pub(crate) fn add(&self, session: u32, long: bool, handle: CancelHandle) -> Vec<u8> {
        let mut secret = vec![0; if long { SECRET_BYTES_LONG } else { SECRET_BYTES }];
        SystemRandom::new().fill(&mut secret).expect("the system has random numbers");
        self.lock().insert(session, (secret.clone(), handle));
        secret
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, session: u32) {
        self.lock().remove(&session);
    }

    /// Cancels the statement of a session, if the secret is right. The answer does not say whether
    /// it was.
    pub(crate) fn cancel(&self, session: u32, secret: &[u8]) {
        if let Some((expected, handle)) = self.lock().get(&session)
            && expected == secret
        {
            handle.cancel();
        }
    }

    /// Cancels the running statements of all sessions.
    pub(crate) fn cancel_all(&self) {
        self.lock().values().for_each(|(_, handle)| handle.cancel());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (Vec<u8>, CancelHandle)>> {
        self.keys.lock().expect("no holder of this lock panics")
    }
}
