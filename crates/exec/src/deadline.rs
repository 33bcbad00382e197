//! Statement timeouts: one sleeping thread per database cancels statements that have run too long.
//!
//! The thread exists from the first statement with a timeout until the database is dropped. A
//! statement that ends in time removes its entry; the thread wakes only for the earliest entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_sql::error::{SqlError, SqlState};
use halcyon_txn::CancelToken;
use parking_lot::{Condvar, Mutex};

/// Deadlines of running statements.
#[derive(Default)]
pub struct Deadlines {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<DueTokens>,
    changed: Condvar,
}

#[derive(Default)]
struct DueTokens {
    started: bool,
    stopped: bool,
    next: u64,
    due: BTreeMap<(Instant, u64), CancelToken>,
}

/// A deadline in force; dropping it removes it.
pub struct Deadline {
    inner: Arc<Inner>,
    key: (Instant, u64),
}

impl Deadline {
    /// Whether the deadline has passed, so that the statement was cancelled.
    pub fn passed(&self) -> bool {
        !self.inner.state.lock().due.contains_key(&self.key)
    }
}

impl Deadline {
    /// The error of a statement that its deadline cancelled.
    pub fn name(error: SqlError) -> SqlError {
        match error.state() {
            SqlState::QUERY_CANCELED => SqlError::new(
                SqlState::QUERY_CANCELED,
                "canceling statement due to statement timeout",
            ),
            _ => error,
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.inner.state.lock().due.remove(&self.key);
    }
}

impl Deadlines {
    /// Cancels `token` after `timeout`, unless the returned deadline is dropped before.
    pub fn set(&self, timeout: Duration, token: CancelToken) -> Deadline {
        let mut state = self.inner.state.lock();
        let key = (Instant::now() + timeout, state.next);
        state.next += 1;
        state.due.insert(key, token);
        if !state.started {
            state.started = true;
            let inner = self.inner.clone();
            std::thread::Builder::new()
                .name("halcyon-deadlines".into())
                .spawn(move || watch(&inner))
                .expect("a thread for statement timeouts");
        }
        drop(state);
        self.inner.changed.notify_one();
        Deadline { inner: self.inner.clone(), key }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.inner.state.lock().stopped = true;
        self.inner.changed.notify_one();
    }
}

fn watch(inner: &Inner) {
    let mut state = inner.state.lock();
    while !state.stopped {
        let now = Instant::now();
        match state.due.first_key_value().map(|(key, _)| *key) {
            Some(key) if key.0 <= now => {
                state.due.remove(&key).expect("just seen").cancel();
            }
            Some((at, _)) => {
                inner.changed.wait_until(&mut state, at);
            }
            None => inner.changed.wait(&mut state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_cancels_and_a_struck_one_does_not() {
        let deadlines = Deadlines::default();
        let (late, early) = (CancelToken::new(), CancelToken::new());
        drop(deadlines.set(Duration::from_millis(5), early.clone()));
        let kept = deadlines.set(Duration::from_millis(10), late.clone());
        while !late.is_cancelled() {
            std::thread::yield_now();
        }
        assert!(kept.passed());
        assert!(!early.is_cancelled());
    }
}
