//! Back-pressure: how many root tasks of a class may be under way.
//!
//! Credits are taken where a request enters, and nowhere else, so that no task ever waits for
//! another one to end: bounded queues between workers deadlock, unbounded roots eat memory.

use crate::annotation::{CLASSES, ClassId};
use halcyon_base::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use halcyon_base::sync::{Condvar, Mutex};
use std::error::Error;
use std::fmt;

/// A class has no credit left, or the runtime is shutting down; the task comes back.
pub struct Busy<T> {
    /// The class without credit.
    pub class: ClassId,
    /// The task that was to be spawned.
    pub task: T,
}

impl<T> fmt::Display for Busy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {} has no credit left", self.class.0)
    }
}

impl<T> fmt::Debug for Busy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy").field("class", &self.class).finish_non_exhaustive()
    }
}

impl<T> Error for Busy<T> {}

#[repr(align(128))]
pub(crate) struct Credits {
    free: AtomicI64,
    waiting: AtomicU32,
    gate: Mutex<()>,
    returned: Condvar,
}

impl Credits {
    pub(crate) fn new(limit: u32) -> Credits {
        Credits {
            free: AtomicI64::new(i64::from(limit)),
            waiting: AtomicU32::new(0),
            gate: Mutex::new(()),
            returned: Condvar::new(),
        }
    }

    pub(crate) fn by_class(limits: [u32; CLASSES]) -> Box<[Credits]> {
        limits.iter().map(|&limit| Credits::new(limit)).collect()
    }

    /// Takes up to `wanted` credits, without waiting.
    pub(crate) fn try_take(&self, wanted: i64) -> i64 {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            let taken = free.min(wanted);
            if taken <= 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(
                free,
                free - taken,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
    }

    /// Takes a credit; waits for one while `go_on`.
    pub(crate) fn take(&self, go_on: impl Fn() -> bool) -> bool {
        if self.try_take(1) == 1 {
            return true;
        }
        let mut gate = self.gate.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let taken = loop {
            // Pairs with `give`, which adds first and looks for waiters then.
            if self.try_take(1) == 1 {
                break true;
            }
            if !go_on() {
                break false;
            }
            self.returned.wait(&mut gate);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    pub(crate) fn give(&self, count: i64) {
        self.free.fetch_add(count, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    /// Makes every waiting thread look again.
    #[cold]
    pub(crate) fn wake(&self) {
        let _gate = self.gate.lock();
        self.returned.notify_all();
    }
}

/// Credits that a worker holds for its own tasks, or owes, by class.
pub(crate) struct CreditPurse {
    held: [i64; CLASSES],
}

/// How many credits a worker takes at once.
const HANDFUL: i64 = 32;

impl CreditPurse {
    pub(crate) fn new() -> CreditPurse {
        CreditPurse { held: [0; CLASSES] }
    }

    /// A credit for a task of `class`, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, class: ClassId, all: &[Credits]) -> bool {
        let held = &mut self.held[usize::from(class.0)];
        if *held == 0 {
            *held = all[usize::from(class.0)].try_take(HANDFUL);
        }
        let taken = *held > 0;
        *held -= i64::from(taken);
        taken
    }

    #[inline]
    pub(crate) fn give(&mut self, class: ClassId) {
        self.held[usize::from(class.0)] += 1;
    }

    /// Gives back the credits beyond a handful, or all.
    pub(crate) fn settle(&mut self, all: &[Credits], everything: bool) {
        for (held, credits) in self.held.iter_mut().zip(all) {
            let wanted = everything || credits.waiting.load(Ordering::Relaxed) > 0;
            let keep = if wanted { 0 } else { HANDFUL };
            if *held > keep {
                credits.give(*held - keep);
                *held = keep;
            }
        }
    }
}
