//! Advisory locks: locks on numbers whose meaning only the application knows (`pg_advisory_lock`
//! and its kin).
//!
//! A lock is held by a session until it has been released as often as it was taken, or until the
//! session ends; or it is held by a transaction until that ends. Shared locks exclude exclusive
//! ones only, and a session never excludes itself.
//!
//! A wait that would close a circle of sessions waiting for advisory locks fails with 40P01. Circles
//! that pass through locks of tables are not found; `lock_timeout` ends them.
//!
//! Invariant, checked by `locks_exclude_each_other_and_are_counted`: the holders of one key all
//! hold it shared, or are all the same session.
//!
//! A wait belongs to a thread, which a condition variable wakes, or to a task ([`AdvisoryLocks::take_or_queue`]),
//! whose waker the release of its key calls: that of the one who has waited longest, and of all who want the key shared if
//! that one does. Who goes away has the next one woken.
//!
//! Cost: one mutex for all keys; the end of a transaction or session O(its locks); a release O(waiters).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use halcyon_pgcatalog::{AdvisoryKey, AdvisoryRequest as Request, AdvisoryRow};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::CancelToken;
use parking_lot::{Condvar, Mutex};

/// Time between two checks for cancellation during a wait.
const LOOK: Duration = Duration::from_millis(20);

/// One session's hold on a key.
#[derive(Debug)]
struct Holder {
    session: u32,
    shared: bool,
    of_transaction: bool,
    count: u32,
}

#[derive(Default)]
struct LockTable {
    held: HashMap<AdvisoryKey, Vec<Holder>>,
    /// The keys that each session holds, for itself and for its transaction.
    keys: HashMap<u32, Keys>,
    /// What each waiting session waits for.
    waiting: HashMap<u32, Waiter>,
    /// How many have begun to wait.
    tickets: u64,
}

/// A session that waits.
struct Waiter {
    request: Request,
    /// The session's place among all who wait.
    ticket: u64,
    /// The task that waits; `None` for a thread, or before the task has looked.
    waker: Option<Waker>,
}

/// The keys that a session holds.
#[derive(Default)]
struct Keys {
    own: HashSet<AdvisoryKey>,
    of_transaction: HashSet<AdvisoryKey>,
}

/// All advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    /// Whether any lock was ever taken; in most databases none is.
    is_used: AtomicBool,
    state: Mutex<LockTable>,
    released: Condvar,
}

impl LockTable {
    /// Sessions whose holds exclude a session from a key.
    fn blockers(&self, session: u32, key: AdvisoryKey, shared: bool) -> Vec<u32> {
        let holders = self.held.get(&key).into_iter().flatten();
        let conflicts = |holder: &&Holder| holder.session != session && !(shared && holder.shared);
        holders.filter(conflicts).map(|holder| holder.session).collect()
    }

    fn grant(&mut self, session: u32, request: Request) {
        self.waiting.remove(&session);
        let Request { key, shared, of_transaction } = request;
        let keys = self.keys.entry(session).or_default();
        if of_transaction { &mut keys.of_transaction } else { &mut keys.own }.insert(key);
        let holders = self.held.entry(key).or_default();
        let same = |holder: &&mut Holder| {
            (holder.session, holder.shared, holder.of_transaction)
                == (session, shared, of_transaction)
        };
        match holders.iter_mut().find(same) {
            Some(holder) => holder.count += 1,
            None => holders.push(Holder { session, shared, of_transaction, count: 1 }),
        }
    }

    /// Whether the wait of `session` for the request would close a circle of waiting sessions.
    fn closes_circle(&self, session: u32, request: Request) -> bool {
        let mut open = self.blockers(session, request.key, request.shared);
        let mut seen = Vec::new();
        while let Some(blocker) = open.pop() {
            if blocker == session {
                return true;
            }
            if seen.contains(&blocker) {
                continue;
            }
            seen.push(blocker);
            if let Some(waits) = self.waiting.get(&blocker) {
                let Request { key, shared, .. } = waits.request;
                open.extend(self.blockers(blocker, key, shared));
            }
        }
        false
    }

    /// Takes the lock for a session, or has it wait: whether it has the lock.
    ///
    /// Errors: 40P01, 57014, 55P03; the session waits no more then.
    fn take_or_queue(
        &mut self,
        session: u32,
        request: Request,
        cancel: &CancelToken,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        if self.blockers(session, request.key, request.shared).is_empty() {
            self.grant(session, request);
            return Ok(true);
        }
        let failed = if self.closes_circle(session, request) {
            Some((SqlState::DEADLOCK_DETECTED, "deadlock detected"))
        } else if cancel.is_cancelled() {
            Some((SqlState::QUERY_CANCELED, "canceling statement due to user request"))
        } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some((SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"))
        } else {
            None
        };
        if let Some((state, message)) = failed {
            self.leave(session);
            return Err(SqlError::new(state, message));
        }
        let tickets = &mut self.tickets;
        self.waiting.entry(session).or_insert_with(|| {
            *tickets += 1;
            Waiter { request, ticket: *tickets, waker: None }
        });
        Ok(false)
    }

    /// Has a session wait no more, and wakes the next.
    fn leave(&mut self, session: u32) {
        if let Some(waiter) = self.waiting.remove(&session) {
            self.wake(waiter.request.key);
        }
    }

    /// Wakes the tasks whose turn it is to take a key. Threads look for themselves.
    fn wake(&mut self, key: AdvisoryKey) {
        let mut waiters: Vec<&mut Waiter> =
            self.waiting.values_mut().filter(|waiter| waiter.request.key == key).collect();
        waiters.sort_unstable_by_key(|waiter| waiter.ticket);
        let all = waiters.first().is_some_and(|first| first.request.shared);
        let turn = waiters.into_iter().enumerate();
        let turn = turn.filter(|(at, waiter)| *at == 0 || all && waiter.request.shared);
        turn.filter_map(|(_, waiter)| waiter.waker.take()).for_each(Waker::wake);
    }
}

impl AdvisoryLocks {
    /// Takes a lock if no holder excludes it.
    pub fn try_lock(&self, session: u32, request: Request) -> bool {
        let mut state = self.state.lock();
        self.is_used.store(true, Ordering::Release);
        let free = state.blockers(session, request.key, request.shared).is_empty();
        if free {
            state.grant(session, request);
        }
        free
    }

    /// Takes a lock, waiting until no holder excludes it.
    ///
    /// Errors: 40P01 for a circle of waits, 57014 cancelled, 55P03 after `timeout`.
    pub fn lock(
        &self,
        session: u32,
        request: Request,
        cancel: &CancelToken,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        self.is_used.store(true, Ordering::Release);
        while !state.take_or_queue(session, request, cancel, deadline)? {
            self.released.wait_for(&mut state, LOOK);
        }
        Ok(())
    }

    /// Takes a lock for a task, or has its session wait ([`AdvisoryLocks::poll`]): whether it has the lock.
    ///
    /// Errors: those of [`AdvisoryLocks::lock`]; the session waits no more then.
    pub fn take_or_queue(
        &self,
        session: u32,
        request: Request,
        cancel: &CancelToken,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        let mut state = self.state.lock();
        self.is_used.store(true, Ordering::Release);
        state.take_or_queue(session, request, cancel, deadline)
    }

    /// Ready once the lock that the session waits for can be taken.
    pub fn poll(&self, session: u32, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        let Some(waiter) = state.waiting.get(&session) else { return Poll::Ready(()) };
        let Request { key, shared, .. } = waiter.request;
        if state.blockers(session, key, shared).is_empty() {
            return Poll::Ready(());
        }
        if let Some(waiter) = state.waiting.get_mut(&session) {
            waiter.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Has a session wait no more.
    pub fn leave(&self, session: u32) {
        self.state.lock().leave(session);
    }

    /// All locks that are held or awaited.
    pub fn all(&self) -> Vec<AdvisoryRow> {
        let state = self.state.lock();
        let held = state.held.iter().flat_map(|(key, holders)| {
            let row = |holder: &Holder| AdvisoryRow {
                key: *key,
                session: holder.session,
                shared: holder.shared,
                granted: true,
            };
            holders.iter().map(row)
        });
        let awaited = state.waiting.iter().map(|(session, waiter)| AdvisoryRow {
            key: waiter.request.key,
            session: *session,
            shared: waiter.request.shared,
            granted: false,
        });
        held.chain(awaited).collect()
    }

    /// Releases a lock of the session once; false if the session does not hold it.
    pub fn unlock(&self, session: u32, key: AdvisoryKey, shared: bool) -> bool {
        let mut state = self.state.lock();
        let Some(holders) = state.held.get_mut(&key) else { return false };
        let mine = |holder: &Holder| {
            !holder.of_transaction && (holder.session, holder.shared) == (session, shared)
        };
        let Some(at) = holders.iter().position(mine) else { return false };
        holders[at].count -= 1;
        if holders[at].count == 0 {
            holders.swap_remove(at);
            let is_own = |holder: &Holder| !holder.of_transaction && holder.session == session;
            if !holders.iter().any(is_own)
                && let Some(keys) = state.keys.get_mut(&session)
            {
                keys.own.remove(&key);
            }
            if state.held.get(&key).is_some_and(Vec::is_empty) {
                state.held.remove(&key);
            }
            state.wake(key);
            self.released.notify_all();
        }
        true
    }

    /// Releases the locks of a session's transaction. One load if there are no advisory locks at
    /// all.
    #[inline]
    pub fn end_transaction(&self, session: u32) {
        if self.is_used.load(Ordering::Acquire) {
            self.give_back(session, |keys| &mut keys.of_transaction, true);
        }
    }

    /// Releases all locks of a session that has ended.
    pub fn release(&self, session: u32) {
        if self.is_used.load(Ordering::Acquire) {
            self.give_back(session, |keys| &mut keys.of_transaction, true);
            self.unlock_all(session);
            self.state.lock().keys.remove(&session);
        }
    }

    /// Releases the locks that a session holds for itself: `pg_advisory_unlock_all`.
    pub fn unlock_all(&self, session: u32) {
        self.give_back(session, |keys| &mut keys.own, false);
    }

    /// Gives back the locks of a session on the keys that `which` says.
    fn give_back(
        &self,
        session: u32,
        which: impl Fn(&mut Keys) -> &mut HashSet<AdvisoryKey>,
        of_transaction: bool,
    ) {
        let mut state = self.state.lock();
        let Some(keys) = state.keys.get_mut(&session).map(|keys| std::mem::take(which(keys)))
        else {
            return;
        };
        for key in &keys {
            let Some(holders) = state.held.get_mut(key) else { continue };
            let goes = |holder: &Holder| {
                (holder.session, holder.of_transaction) == (session, of_transaction)
            };
            holders.retain(|holder| !goes(holder));
            if holders.is_empty() {
                state.held.remove(key);
            }
            state.wake(*key);
        }
        if !keys.is_empty() {
            self.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: i64, shared: bool, of_transaction: bool) -> Request {
        Request { key: AdvisoryKey::One(key), shared, of_transaction }
    }

    #[test]
    fn locks_exclude_each_other_and_are_counted() {
        let locks = AdvisoryLocks::default();
        let exclusive = request(1, false, false);
        assert!(locks.try_lock(1, exclusive) && locks.try_lock(1, exclusive));
        assert!(!locks.try_lock(2, exclusive) && !locks.try_lock(2, request(1, true, false)));
        assert!(locks.unlock(1, AdvisoryKey::One(1), false));
        assert!(!locks.try_lock(2, exclusive), "it was taken twice");
        assert!(locks.unlock(1, AdvisoryKey::One(1), false));
        assert!(!locks.unlock(1, AdvisoryKey::One(1), false), "not held any more");
        assert!(
            locks.try_lock(2, request(1, true, true)) && locks.try_lock(3, request(1, true, false))
        );
        assert!(!locks.try_lock(1, exclusive));
        locks.end_transaction(2);
        assert!(!locks.try_lock(1, exclusive), "3 holds it");
        locks.unlock_all(3);
        assert!(locks.try_lock(1, exclusive));
        assert!(locks.try_lock(2, Request { key: AdvisoryKey::Two(0, 1), ..exclusive }));
    }

    #[test]
    fn waits_end_by_release_timeout_cancelling_and_circles() {
        let locks = AdvisoryLocks::default();
        let (never, cancelled) = (CancelToken::new(), CancelToken::new());
        cancelled.cancel();
        assert!(locks.try_lock(1, request(1, false, false)));
        let soon = Some(Duration::from_millis(1));
        let state = |done: Result<()>| done.expect_err("taken").state();
        let wanted = request(1, false, false);
        assert_eq!(state(locks.lock(2, wanted, &never, soon)), SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(state(locks.lock(2, wanted, &cancelled, None)), SqlState::QUERY_CANCELED);
        assert!(locks.try_lock(2, request(2, false, false)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.lock(2, wanted, &never, None));
            while !locks.state.lock().waiting.contains_key(&2) {
                std::thread::yield_now();
            }
            // From now on session 2 waits for session 1.
            let circle = locks.lock(1, request(2, false, false), &never, None);
            assert_eq!(state(circle), SqlState::DEADLOCK_DETECTED);
            locks.release(1);
            waiter.join().expect("no panic").expect("1 gave it back");
        });
    }
}
