//! The deadlines of a runtime, and who looks at them.
//!
//! Words: the *keeper* is the one parked worker that sleeps no longer than until the next deadline.
//!
//! Invariant, checked by the model `deadline_passes_while_workers_park` with a planted bug: while a
//! deadline is set, some worker is not parked, or one parked worker is the keeper and sleeps until
//! the next deadline at most. A worker says that it parks first and looks for deadlines then; who
//! sets a deadline says so first and looks for parked workers then: one sees the other.
//! Threads: workers that run tasks look between turns, so a deadline is late by at most the stretch
//! of the worker that looks; no thread exists for deadlines alone.

use crate::wheel::{Key, Precision, Wheel};
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

/// No deadline is set.
pub(crate) const NEVER: u64 = u64::MAX;
/// No worker keeps time.
const NOBODY: u32 = u32::MAX;

pub(crate) struct Timers {
    wheel: Mutex<Wheel<Waker>>,
    /// When to look next, ticks. Written under the lock; at most the earliest deadline.
    next_ticks: AtomicU64,
    keeper: AtomicU32,
    /// The runtime has ended: nothing is waited for any more.
    over: AtomicBool,
}

/// The outcome of setting a deadline.
pub(crate) enum Set {
    /// Workers look in time anyway.
    InTime(Key),
    /// Workers look later than that: they have to be told.
    Earlier(Key),
    /// The runtime has ended.
    Over,
}

impl Timers {
    pub(crate) fn new(unit_ticks: u64, now_ticks: u64) -> Timers {
        Timers {
            wheel: Mutex::new(Wheel::new(unit_ticks, now_ticks)),
            next_ticks: AtomicU64::new(NEVER),
            keeper: AtomicU32::new(NOBODY),
            over: AtomicBool::new(false),
        }
    }

    /// When to look next.
    #[inline(always)]
    pub(crate) fn next_ticks(&self) -> u64 {
        self.next_ticks.load(Ordering::Relaxed)
    }

    pub(crate) fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Sets a deadline.
    pub(crate) fn set(&self, due_ticks: u64, precision: Precision, waker: &Waker) -> Set {
        let mut wheel = self.wheel.lock();
        if self.over() {
            return Set::Over;
        }
        let key = wheel.set(due_ticks, precision, waker.clone());
        let next = wheel.next_ticks().unwrap_or(NEVER);
        if next < self.next_ticks() {
            self.next_ticks.store(next, Ordering::SeqCst);
            return Set::Earlier(key);
        }
        Set::InTime(key)
    }

    /// Another waker for a deadline; false if it has passed.
    pub(crate) fn replace(&self, key: Key, waker: &Waker) -> bool {
        self.wheel.lock().replace(key, waker.clone())
    }

    /// Nobody waits for a deadline any more. When to look next stays as it is.
    pub(crate) fn cancel(&self, key: Key) {
        let waker = self.wheel.lock().cancel(key);
        drop(waker);
    }

    /// Takes the wakers whose deadlines have passed.
    #[cold]
    pub(crate) fn take_due(&self, now_ticks: u64) -> Vec<Waker> {
        let mut due = Vec::new();
        let Some(mut wheel) = self.wheel.try_lock() else { return due };
        wheel.take_due(now_ticks, &mut due);
        self.next_ticks.store(wheel.next_ticks().unwrap_or(NEVER), Ordering::SeqCst);
        due
    }

    /// Ends all waiting.
    pub(crate) fn end(&self) {
        let mut wheel = self.wheel.lock();
        self.over.store(true, Ordering::SeqCst);
        self.next_ticks.store(NEVER, Ordering::SeqCst);
        let all = wheel.take_all();
        drop(wheel);
        all.into_iter().for_each(Waker::wake);
    }

    /// Makes a worker that has said that it parks the keeper, if there is something to keep and no
    /// other keeper.
    pub(crate) fn keep(&self, worker: u16) -> bool {
        let wanted = self.next_ticks.load(Ordering::SeqCst) != NEVER;
        let (from, to) = (NOBODY, u32::from(worker));
        wanted && self.keeper.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The keeper wakes up.
    pub(crate) fn leave(&self) {
        self.keeper.store(NOBODY, Ordering::SeqCst);
    }

    /// The worker that sleeps until the next deadline.
    pub(crate) fn keeper(&self) -> Option<u16> {
        u16::try_from(self.keeper.load(Ordering::SeqCst)).ok()
    }
}
