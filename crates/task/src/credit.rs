//! Back-pressure: how many root tasks of a class may be under way.
//!
//! Credits are taken where a request enters, and nowhere else, so that no task ever waits for
//! another one to end: bounded queues between workers deadlock, unbounded roots eat memory.

use crate::annotation::{CLASSES, ClassId};
use crate::planted;
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::task::Waker;

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

/// The credits of one class.
///
/// Invariants, checked by the models `credits_are_given_in_order` and `credit_of_who_left_is_given_on`,
/// with planted bugs:
/// 1. Credits that are free, held, and granted to somebody in the line sum up to the class's limit.
/// 2. While somebody stands in the line no newcomer takes a credit, and no credit stays free: who gives
///    one back adds it first and looks for a line then, who lines up does so first and looks for a
///    credit then.
#[repr(align(128))]
pub(crate) struct Credits {
    free: AtomicI64,
    /// How many stand in the line.
    waiting: AtomicU32,
    line: Mutex<Line>,
}

/// Who waits for a credit, in order.
#[derive(Default)]
struct Line {
    next: u64,
    waiters: BTreeMap<u64, Waker>,
    /// Who has been granted a credit and does not know yet.
    granted: BTreeSet<u64>,
    closed: bool,
}

/// The state of somebody who waits for a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A credit is taken.
    Taken,
    /// In the line, with this number.
    Waits(u64),
    /// The runtime is shutting down.
    Closed,
}

impl Credits {
    pub(crate) fn new(limit: u32) -> Credits {
        Credits {
            free: AtomicI64::new(i64::from(limit)),
            waiting: AtomicU32::new(0),
            line: Mutex::default(),
        }
    }

    pub(crate) fn by_class(limits: [u32; CLASSES]) -> Box<[Credits]> {
        limits.iter().map(|&limit| Credits::new(limit)).collect()
    }

    /// Takes up to `wanted` credits, unless somebody stands in the line before.
    pub(crate) fn try_take(&self, wanted: i64) -> i64 {
        if self.waiting.load(Ordering::SeqCst) > 0 { 0 } else { self.take_free(wanted) }
    }

    fn take_free(&self, wanted: i64) -> i64 {
        let mut free = self.free.load(Ordering::SeqCst);
        loop {
            let taken = free.min(wanted);
            if taken <= 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(
                free,
                free - taken,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
    }

    /// Takes a credit, or goes to the end of the line.
    pub(crate) fn line_up(&self, waker: &Waker) -> Place {
        let mut line = self.line.lock();
        if line.closed {
            return Place::Closed;
        }
        let number = line.next;
        line.next += 1;
        line.waiters.insert(number, waker.clone());
        self.waiting.store(line.waiters.len() as u32, Ordering::SeqCst);
        // Pairs with `give`, which adds first and looks for a line then.
        let woken =
            if planted::is(planted::NO_LOOK_IN_LINE) { vec![] } else { self.grant(&mut line) };
        let place = if line.granted.remove(&number) { Place::Taken } else { Place::Waits(number) };
        drop(line);
        woken.into_iter().for_each(Waker::wake);
        place
    }

    /// Looks again from the line; `waker` is to be woken from now on.
    pub(crate) fn look(&self, number: u64, waker: &Waker) -> Place {
        let mut line = self.line.lock();
        if line.granted.remove(&number) {
            return Place::Taken;
        }
        match line.waiters.get_mut(&number) {
            Some(before) => {
                before.clone_from(waker);
                Place::Waits(number)
            }
            None => Place::Closed,
        }
    }

    /// Leaves the line; a credit that was granted meanwhile goes to the next.
    pub(crate) fn leave(&self, number: u64) {
        let mut line = self.line.lock();
        let waker = line.waiters.remove(&number);
        self.waiting.store(line.waiters.len() as u32, Ordering::SeqCst);
        let granted = line.granted.remove(&number);
        drop(line);
        drop(waker);
        if granted && !planted::is(planted::CREDIT_LOST) {
            self.give(1);
        }
    }

    pub(crate) fn give(&self, count: i64) {
        self.free.fetch_add(count, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let mut line = self.line.lock();
            let woken = self.grant(&mut line);
            drop(line);
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// Grants free credits to the first in the line; returns whom to wake.
    fn grant(&self, line: &mut Line) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(first) = line.waiters.first_entry()
            && self.take_free(1) == 1
        {
            line.granted.insert(*first.key());
            woken.push(first.remove());
        }
        self.waiting.store(line.waiters.len() as u32, Ordering::SeqCst);
        woken
    }

    /// Refuses all callers in the line, and all that come.
    #[cold]
    pub(crate) fn close(&self) {
        let mut line = self.line.lock();
        line.closed = true;
        let waiters = std::mem::take(&mut line.waiters);
        self.waiting.store(0, Ordering::SeqCst);
        drop(line);
        waiters.into_values().for_each(Waker::wake);
    }
}

/// Credits that a worker holds for its own tasks, or owes, by class.
pub(crate) struct CreditPurse {
    held: Box<[i64; CLASSES]>,
    /// Classes of which it may hold some, a bit each.
    some: u64,
}

/// How many credits a worker takes at once.
const HANDFUL: i64 = 32;

impl CreditPurse {
    pub(crate) fn new() -> CreditPurse {
        CreditPurse { held: Box::new([0; CLASSES]), some: 0 }
    }

    /// A credit for a task of `class`, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, class: ClassId, all: &[Credits]) -> bool {
        let held = &mut self.held[usize::from(class.0)];
        if *held == 0 {
            *held = all[usize::from(class.0)].try_take(HANDFUL);
            self.some |= 1 << class.0;
        }
        let taken = *held > 0;
        *held -= i64::from(taken);
        taken
    }

    #[inline]
    pub(crate) fn give(&mut self, class: ClassId) {
        self.held[usize::from(class.0)] += 1;
        self.some |= 1 << class.0;
    }

    /// Gives back the credits beyond a handful, or all.
    pub(crate) fn settle(&mut self, all: &[Credits], everything: bool) {
        let mut left = self.some;
        while left != 0 {
            let class = left.trailing_zeros() as usize;
            left &= left - 1;
            let (held, credits) = (&mut self.held[class], &all[class]);
            let wanted = everything || credits.waiting.load(Ordering::Relaxed) > 0;
            let keep = if wanted { 0 } else { HANDFUL };
            if *held > keep {
                credits.give(*held - keep);
                *held = keep;
            }
            if *held == 0 {
                self.some &= !(1 << class);
            }
        }
    }
}
