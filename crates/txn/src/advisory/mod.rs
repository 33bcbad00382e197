//! Advisory locks: locks on keys whose meaning only the application knows.
//!
//! A lock is held by a session until it has been released as often as it was taken, or until the
//! session ends; or it is held by a transaction until that ends. Shared locks exclude exclusive
//! ones only, and a session never excludes itself.
//!
//! A wait that would close a circle of sessions waiting for advisory locks fails, and so does one in a circle that also
//! passes through other waits ([`circles`]).
//!
//! A wait belongs to a thread, which a condition variable wakes, or to a task ([`AdvisoryLocks::take_or_queue`]),
//! whose waker a release of its key calls: that of the first who can take the key, by the order in which they have come,
//! and of all who can if that one wants the key shared. Who goes away has the next one woken. [`Awaiting`] is the wait as
//! a statement sees it.
//!
//! Invariants, checked by `locks_exclude_each_other_and_are_counted` (1) and by the models in `advisory/models.rs`,
//! `every_wait_for_an_advisory_lock_ends` and its neighbours (1, 2):
//! 1. The holders of one key all hold it shared, or are all the same session.
//! 2. No task waits for a lock that it could take, unless another that could take the lock too was woken and has not
//!    looked yet.
//!
//! Cost: one mutex for all keys; the end of a transaction or session O(its locks); a release O(waiters).

mod awaiting;
mod circles;
#[cfg(all(test, shuttle))]
mod models;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use halcyon_base::SqlState;
use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::atomic::{AtomicBool, Ordering};
use halcyon_base::sync::{Condvar, Mutex};

use crate::event::CancelToken;
use crate::planted;

pub use awaiting::{Awaiting, Step};

/// Time between two checks for cancellation during a wait.
const LOOK: Duration = Duration::from_millis(20);

/// A request for an advisory lock.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryRequest<K> {
    /// What is to be locked.
    pub key: K,
    /// Others may hold it shared too.
    pub shared: bool,
    /// Held until the transaction ends, else until it is given back.
    pub of_transaction: bool,
}

/// An advisory lock, held or awaited.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryLock<K> {
    /// What is locked.
    pub key: K,
    /// The session that holds or awaits it.
    pub session: u32,
    /// Shared or exclusive.
    pub shared: bool,
    /// Held or awaited.
    pub granted: bool,
}

/// Why a session has not got an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryError {
    /// The wait would have closed a circle of sessions that wait for each other.
    Deadlock,
    /// The token was cancelled.
    Cancelled,
    /// The time of the wait is over.
    Timeout,
}

impl AdvisoryError {
    /// SQL code of the error.
    pub fn sql_state(self) -> SqlState {
        match self {
            AdvisoryError::Deadlock => SqlState::DEADLOCK_DETECTED,
            AdvisoryError::Cancelled => SqlState::QUERY_CANCELED,
            AdvisoryError::Timeout => SqlState::LOCK_NOT_AVAILABLE,
        }
    }
}

impl fmt::Display for AdvisoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdvisoryError::Deadlock => "deadlock detected",
            AdvisoryError::Cancelled => "canceling statement due to user request",
            AdvisoryError::Timeout => "canceling statement due to lock timeout",
        })
    }
}

impl std::error::Error for AdvisoryError {}

/// One session's hold on a key.
#[derive(Debug)]
struct Holder {
    session: u32,
    shared: bool,
    of_transaction: bool,
    count: u32,
}

struct LockTable<K> {
    held: HashMap<K, Vec<Holder>>,
    /// The keys that each session holds, for itself and for its transaction.
    keys: HashMap<u32, Keys<K>>,
    /// What each waiting session waits for.
    waiting: HashMap<u32, Waiter<K>>,
    /// How many have begun to wait.
    tickets: u64,
}

/// A session that waits.
struct Waiter<K> {
    request: AdvisoryRequest<K>,
    /// The session's place among all who wait.
    ticket: u64,
    /// The task that waits; `None` for a thread, or before the task has looked.
    waker: Option<Waker>,
    /// The wait is part of a circle, and is to end.
    refused: bool,
}

/// The keys that a session holds.
struct Keys<K> {
    own: HashSet<K>,
    of_transaction: HashSet<K>,
}

/// All advisory locks of a database.
pub struct AdvisoryLocks<K> {
    /// Whether any lock was ever taken; in most databases none is.
    is_used: AtomicBool,
    state: Mutex<LockTable<K>>,
    released: Condvar,
    /// Whom a session waits for by other means.
    beside: OnceLock<circles::Blockers>,
}

impl<K> Default for AdvisoryLocks<K> {
    fn default() -> Self {
        let state = LockTable {
            held: HashMap::new(),
            keys: HashMap::new(),
            waiting: HashMap::new(),
            tickets: 0,
        };
        AdvisoryLocks {
            is_used: AtomicBool::new(false),
            state: Mutex::new(state),
            released: Condvar::new(),
            beside: OnceLock::new(),
        }
    }
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Keys { own: HashSet::new(), of_transaction: HashSet::new() }
    }
}

/// Sessions whose holds exclude a session from a key.
fn blockers<K: Hash + Eq>(
    held: &HashMap<K, Vec<Holder>>,
    session: u32,
    key: &K,
    shared: bool,
) -> Vec<u32> {
    let holders = held.get(key).into_iter().flatten();
    let conflicts = |holder: &&Holder| holder.session != session && !(shared && holder.shared);
    holders.filter(conflicts).map(|holder| holder.session).collect()
}

impl<K: Copy + Eq + Hash> LockTable<K> {
    fn blockers(&self, session: u32, key: K, shared: bool) -> Vec<u32> {
        blockers(&self.held, session, &key, shared)
    }

    fn grant(&mut self, session: u32, request: AdvisoryRequest<K>) {
        self.waiting.remove(&session);
        let AdvisoryRequest { key, shared, of_transaction } = request;
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
        let is_alone = holders.iter().all(|holder| holder.session == session);
        assert!(is_alone || holders.iter().all(|holder| holder.shared), "holders share the key");
        // One who wants it alone may have been woken before, and those who want it shared passed over.
        if shared && !self.waiting.is_empty() {
            self.wake(key);
        }
    }

    /// Whether the wait of `session` for the request would close a circle of waiting sessions.
    fn closes_circle(&self, session: u32, request: AdvisoryRequest<K>) -> bool {
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
                let AdvisoryRequest { key, shared, .. } = waits.request;
                open.extend(self.blockers(blocker, key, shared));
            }
        }
        false
    }

    /// Takes the lock for a session, or has it wait: whether it has the lock.
    ///
    /// Errors: [`AdvisoryError`]; the session waits no more then.
    fn take_or_queue(
        &mut self,
        session: u32,
        request: AdvisoryRequest<K>,
        cancel: &CancelToken,
        deadline: Option<Moment>,
    ) -> Result<bool, AdvisoryError> {
        if self.blockers(session, request.key, request.shared).is_empty() {
            self.grant(session, request);
            return Ok(true);
        }
        let is_refused = self.waiting.get(&session).is_some_and(|waiter| waiter.refused);
        let failed = if is_refused || self.closes_circle(session, request) {
            Some(AdvisoryError::Deadlock)
        } else if cancel.is_cancelled() {
            Some(AdvisoryError::Cancelled)
        } else if deadline.is_some_and(|deadline| clock::now() >= deadline) {
            Some(AdvisoryError::Timeout)
        } else {
            None
        };
        if let Some(failed) = failed {
            self.leave(session);
            return Err(failed);
        }
        let tickets = &mut self.tickets;
        self.waiting.entry(session).or_insert_with(|| {
            *tickets += 1;
            Waiter { request, ticket: *tickets, waker: None, refused: false }
        });
        Ok(false)
    }

    /// Has a session wait no more, and wakes the next.
    fn leave(&mut self, session: u32) {
        if let Some(waiter) = self.waiting.remove(&session)
            && !planted::is(planted::TURN_NOT_HANDED_ON)
        {
            self.wake(waiter.request.key);
        }
    }

    /// Wakes the tasks whose turn it is to take a key. Threads look for themselves.
    fn wake(&mut self, key: K) {
        let held = &self.held;
        let can_take = |session: u32, shared| blockers(held, session, &key, shared).is_empty();
        let mut able: Vec<&mut Waiter<K>> = self
            .waiting
            .iter_mut()
            .filter(|(_, waiter)| waiter.request.key == key)
            .filter(|(session, waiter)| {
                planted::is(planted::FIRST_ONLY) || can_take(**session, waiter.request.shared)
            })
            .map(|(_, waiter)| waiter)
            .collect();
        able.sort_unstable_by_key(|waiter| waiter.ticket);
        let all = able.first().is_some_and(|first| first.request.shared);
        let turn = able.into_iter().enumerate();
        let turn = turn.filter(|(at, waiter)| *at == 0 || all && waiter.request.shared);
        turn.filter_map(|(_, waiter)| waiter.waker.take()).for_each(Waker::wake);
    }
}

impl<K: Copy + Eq + Hash> AdvisoryLocks<K> {
    /// Takes a lock if no holder excludes it.
    pub fn try_lock(&self, session: u32, request: AdvisoryRequest<K>) -> bool {
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
    /// Errors: [`AdvisoryError`].
    pub fn lock(
        &self,
        session: u32,
        request: AdvisoryRequest<K>,
        cancel: &CancelToken,
        timeout: Option<Duration>,
    ) -> Result<(), AdvisoryError> {
        let deadline = timeout.map(|timeout| clock::now().plus(timeout));
        let mut state = self.state.lock();
        self.is_used.store(true, Ordering::Release);
        let mut has_looked = false;
        while !state.take_or_queue(session, request, cancel, deadline)? {
            if std::mem::replace(&mut has_looked, true) {
                self.released.wait_for(&mut state, LOOK);
                continue;
            }
            drop(state);
            self.refuse_circles(session);
            state = self.state.lock();
        }
        Ok(())
    }

    /// Takes a lock for a task, or has its session wait ([`AdvisoryLocks::poll`]): whether it has the lock.
    ///
    /// Errors: [`AdvisoryError`]; the session waits no more then.
    pub fn take_or_queue(
        &self,
        session: u32,
        request: AdvisoryRequest<K>,
        cancel: &CancelToken,
        deadline: Option<Moment>,
    ) -> Result<bool, AdvisoryError> {
        if planted::is(planted::CIRCLE_BEFORE_QUEUE) {
            self.refuse_circles(session);
        }
        let mut state = self.state.lock();
        self.is_used.store(true, Ordering::Release);
        let has = state.take_or_queue(session, request, cancel, deadline)?;
        drop(state);
        if !has && !planted::is(planted::CIRCLE_BEFORE_QUEUE) {
            self.refuse_circles(session);
        }
        Ok(has)
    }

    /// Ready once the lock that the session waits for can be taken, or the wait has been refused.
    pub fn poll(&self, session: u32, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        let Some(waiter) = state.waiting.get(&session) else { return Poll::Ready(()) };
        let AdvisoryRequest { key, shared, .. } = waiter.request;
        if waiter.refused || state.blockers(session, key, shared).is_empty() {
            return Poll::Ready(());
        }
        if planted::is(planted::LATE_ADVISORY_WAKER) {
            drop(state);
            state = self.state.lock();
        }
        if let Some(waiter) = state.waiting.get_mut(&session) {
            waiter.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// The sessions that hold what a session waits for.
    #[cfg(all(test, shuttle))]
    fn blockers_of(&self, session: u32) -> Vec<u32> {
        let state = self.state.lock();
        let Some(Waiter { request, .. }) = state.waiting.get(&session) else { return Vec::new() };
        state.blockers(session, request.key, request.shared)
    }

    /// Has a session wait no more.
    pub fn leave(&self, session: u32) {
        self.state.lock().leave(session);
    }

    /// All locks that are held or awaited.
    pub fn all(&self) -> Vec<AdvisoryLock<K>> {
        let state = self.state.lock();
        let held = state.held.iter().flat_map(|(key, holders)| {
            let row = |holder: &Holder| AdvisoryLock {
                key: *key,
                session: holder.session,
                shared: holder.shared,
                granted: true,
            };
            holders.iter().map(row)
        });
        let awaited = state.waiting.iter().map(|(session, waiter)| AdvisoryLock {
            key: waiter.request.key,
            session: *session,
            shared: waiter.request.shared,
            granted: false,
        });
        held.chain(awaited).collect()
    }

    /// Releases a lock of the session once; false if the session does not hold it.
    pub fn unlock(&self, session: u32, key: K, shared: bool) -> bool {
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

    /// Releases the locks that a session holds for itself.
    pub fn unlock_all(&self, session: u32) {
        self.give_back(session, |keys| &mut keys.own, false);
    }

    /// Gives back the locks of a session on the keys that `which` says.
    fn give_back(
        &self,
        session: u32,
        which: impl Fn(&mut Keys<K>) -> &mut HashSet<K>,
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
            if !planted::is(planted::UNTOLD_RELEASE) {
                state.wake(*key);
            }
        }
        if !keys.is_empty() {
            self.released.notify_all();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn request(key: i64, shared: bool, of_transaction: bool) -> AdvisoryRequest<i64> {
        AdvisoryRequest { key, shared, of_transaction }
    }

    #[test]
    fn locks_exclude_each_other_and_are_counted() {
        let locks = AdvisoryLocks::default();
        let exclusive = request(1, false, false);
        assert!(locks.try_lock(1, exclusive) && locks.try_lock(1, exclusive));
        assert!(!locks.try_lock(2, exclusive) && !locks.try_lock(2, request(1, true, false)));
        assert!(locks.unlock(1, 1, false));
        assert!(!locks.try_lock(2, exclusive), "it was taken twice");
        assert!(locks.unlock(1, 1, false));
        assert!(!locks.unlock(1, 1, false), "not held any more");
        assert!(
            locks.try_lock(2, request(1, true, true)) && locks.try_lock(3, request(1, true, false))
        );
        assert!(!locks.try_lock(1, exclusive));
        locks.end_transaction(2);
        assert!(!locks.try_lock(1, exclusive), "3 holds it");
        locks.unlock_all(3);
        assert!(locks.try_lock(1, exclusive));
        assert!(locks.try_lock(2, request(2, false, false)));
    }

    #[test]
    fn waits_end_by_release_timeout_cancelling_and_circles() {
        let locks = AdvisoryLocks::default();
        let (never, cancelled) = (CancelToken::new(), CancelToken::new());
        cancelled.cancel();
        assert!(locks.try_lock(1, request(1, false, false)));
        let soon = Some(Duration::from_millis(1));
        let wanted = request(1, false, false);
        assert_eq!(locks.lock(2, wanted, &never, soon), Err(AdvisoryError::Timeout));
        assert_eq!(locks.lock(2, wanted, &cancelled, None), Err(AdvisoryError::Cancelled));
        assert!(locks.try_lock(2, request(2, false, false)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.lock(2, wanted, &never, None));
            while !locks.state.lock().waiting.contains_key(&2) {
                std::thread::yield_now();
            }
            // From now on session 2 waits for session 1.
            let circle = locks.lock(1, request(2, false, false), &never, None);
            assert_eq!(circle, Err(AdvisoryError::Deadlock));
            locks.release(1);
            waiter.join().expect("no panic").expect("1 gave it back");
        });
    }

    /// Session 1 holds a key in both modes, and gives the exclusive one back: a session that wants the key shared can have
    /// it, though one that wants it alone has come before.
    #[test]
    fn those_who_can_take_a_key_are_woken_behind_one_who_cannot() {
        use std::sync::Arc;
        use std::sync::atomic::AtomicUsize;
        use std::task::Wake;

        #[derive(Default)]
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let locks = AdvisoryLocks::default();
        let never = CancelToken::new();
        assert!(locks.try_lock(1, request(1, false, false)));
        assert!(locks.try_lock(1, request(1, true, false)));
        let (alone, sharing) = <(Arc<Count>, Arc<Count>)>::default();
        for (session, shared, count) in [(2, false, &alone), (3, true, &sharing)] {
            let wanted = request(1, shared, false);
            assert_eq!(locks.take_or_queue(session, wanted, &never, None), Ok(false));
            let waker = Waker::from(Arc::clone(count));
            assert!(locks.poll(session, &mut Context::from_waker(&waker)).is_pending());
        }
        assert!(locks.unlock(1, 1, false));
        let woken = |count: &Arc<Count>| count.0.load(Ordering::Relaxed);
        assert_eq!((woken(&alone), woken(&sharing)), (0, 1));
    }
}
