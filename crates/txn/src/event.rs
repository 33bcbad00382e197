//! Waiting: a one-shot event, the limits of a wait, and the token that ends one from outside.
//!
//! Words: an event is *clear*, *awaited* (its waiter has gone to sleep), *watched* (its waiter is a task, which
//! is told by its waker), *refused* (it is not to be waited for any longer) or *set*. Its one waiter clears the
//! event before anybody could set it. An event that is
//! set stays set; one that is refused may still be set before its waiter looks. A waiter looks a while
//! before it sleeps ([`Patience`]), since most waits here end within the microseconds that a statement
//! takes. A sleeper that is *alerted* looks again before it goes on sleeping: so it is awake when its event
//! comes. A task has other work for its thread meanwhile: it neither looks for a while nor is alerted.
//! Cost: `set` is one swap, and a wake-up only if the waiter sleeps or is a task. Threads: one waiter, any
//! number of setters and alerters. Models: `lock_excludes_and_wakes_every_waiter` for threads,
//! `tasks_that_wait_come_to_their_locks` for tasks.

use crate::planted;
use halcyon_base::clock::{self, Moment};
use halcyon_base::duty;
use halcyon_base::memory::AccountId;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use halcyon_base::sync::{Arc, Condvar, Mutex, hint, thread};
use std::task::{Context, Waker};
use std::time::Duration;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The event was set.
    Set,
    /// The time of [`WaitLimits::timeout`] passed first.
    TimedOut,
    /// [`CancelToken::cancel`] was called first.
    Cancelled,
    /// [`Event::refuse`] was called first.
    Refused,
}

/// When a wait is given up.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits<'a> {
    /// Longest time to wait; `None` waits as long as it takes.
    pub timeout: Option<Duration>,
    /// Ends the wait from another thread.
    pub cancel: &'a CancelToken,
}

/// How long a waiter looks before it sleeps. Going to sleep and being woken costs waiter and waker
/// ten microseconds together, on a virtual machine fifty: more than most transactions hold a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Looks without a pause.
    pub(crate) looks: u32,
    /// Looks after that, each after yielding the processor to another thread. At most one waiter
    /// fewer than there are cores does so at a time; the others sleep at once.
    pub(crate) offers: u32,
}

/// Spins between two offers of the processor: about a microsecond.
const SPINS_PER_OFFER: u32 = 40;

/// The right to keep a core while waiting.
#[derive(Debug)]
struct Watch;

/// How many waiters are awake between two offers.
static WATCHING: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

impl Watch {
    /// The right, or `None` if as many waiters keep a core as may.
    fn take() -> Option<Watch> {
        let watching = WATCHING.fetch_add(1, Ordering::Relaxed);
        let watch = Watch;
        (watching < watchers_max()).then_some(watch)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Most waiters that look between offers at a time.
pub(crate) fn watchers_max() -> usize {
    static MAX: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, usize::from);
    *MAX.get_or_init(|| count().saturating_sub(1))
}

const CLEAR: u32 = 0;
const AWAITED: u32 = 1;
const SET: u32 = 2;
const REFUSED: u32 = 3;
const WATCHED: u32 = 4;

/// An event that happens once and that one thread or task waits for.
#[derive(Debug, Default)]
pub(crate) struct Event {
    state: AtomicU32,
    /// Held by a thread but while it sleeps. The waker is that of a task.
    sleeping: Mutex<Option<Waker>>,
    wake: Condvar,
}

impl Event {
    /// Makes the event clear again. For its waiter, while no other thread can set it.
    pub(crate) fn clear(&self) {
        // A waker of a wait that was given up would be woken instead of a thread.
        *self.sleeping.lock() = None;
        self.state.store(CLEAR, Ordering::Relaxed);
    }

    /// Whether the waiter sleeps, or is about to.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Relaxed) == AWAITED
    }

    /// Whether the event has happened. Pairs with the swap in [`Event::set`].
    pub(crate) fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    /// Lets the event happen, and wakes the waiter if it sleeps.
    pub(crate) fn set(&self) {
        if self.mark() {
            self.nudge();
        }
    }

    /// Lets the event happen. True if the waiter may sleep or is a task, and must be
    /// [nudged](Event::nudge).
    ///
    /// A mark belongs to one wait, a nudge to none: a thread that grants under a latch marks under
    /// the latch too, or the mark might reach the waiter's next wait.
    #[must_use = "a waiter may sleep"]
    pub(crate) fn mark(&self) -> bool {
        matches!(self.state.swap(SET, Ordering::AcqRel), AWAITED | WATCHED)
    }

    /// Ends the wait for the event. False if the event has happened already.
    pub(crate) fn refuse(&self) -> bool {
        let next = |state| (state != SET).then_some(REFUSED);
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if matches!(before, Ok(AWAITED | WATCHED)) {
            self.nudge();
        }
        before.is_ok()
    }

    /// Wakes a waiter, thread or task, to look again.
    pub(crate) fn nudge(&self) {
        // Holding the mutex means that the waiter has not looked yet, or sleeps already.
        let waker = self.sleeping.lock().take();
        match waker {
            Some(waker) => waker.wake(),
            None => {
                self.wake.notify_all();
            }
        }
    }

    /// How the event has ended, if it has: set or refused.
    pub(crate) fn ended(&self) -> Option<Waited> {
        match self.state.load(Ordering::Acquire) {
            SET => Some(Waited::Set),
            REFUSED => Some(Waited::Refused),
            _ => None,
        }
    }

    /// Has the task woken once the event is set or refused, and by every nudge. The event may have
    /// [ended](Event::ended) before: the waiter looks behind this call.
    pub(crate) fn watch(&self, context: &mut Context<'_>) {
        *self.sleeping.lock() = Some(context.waker().clone());
        // Fails only if the event is set or refused, or watched already after a wake-up for nothing.
        let _ = self.state.compare_exchange(CLEAR, WATCHED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Has a sleeping waiter look again before it goes on sleeping. Costs a load if it is awake.
    pub(crate) fn alert(&self) {
        if !self.is_awaited() {
            return;
        }
        // A setter that comes between the exchange and the nudge leaves the waking to this thread.
        let (old, new) = (AWAITED, CLEAR);
        let taken = self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() && !planted::is(planted::SILENT_ALERT) {
            self.nudge();
        }
    }

    /// Waits until the event is set or `limits` end the wait: looking as `patience` says, then asleep,
    /// and looking as `alerted` says whenever the waiter is alerted.
    pub(crate) fn wait(
        self: &Arc<Self>,
        limits: &WaitLimits<'_>,
        patience: Patience,
        alerted: Patience,
    ) -> Waited {
        if self.look_often(patience.looks) {
            return Waited::Set;
        }
        // A thread on duty may be the one that would serve those waited for.
        duty::relieved(|| {
            if self.look_between_offers(patience.offers) {
                return Waited::Set;
            }
            let deadline = limits.timeout.map(|timeout| clock::now().plus(timeout));
            limits.cancel.enlist(self);
            let waited = self.sleep(deadline, limits.cancel, alerted);
            limits.cancel.delist(self);
            waited
        })
    }

    /// Whether the event was set within so many looks without a pause.
    fn look_often(&self, looks: u32) -> bool {
        (0..looks).any(|_| {
            hint::spin_loop();
            self.is_set()
        })
    }

    /// Whether the event was set within so many offers of the processor to others.
    fn look_between_offers(&self, offers: u32) -> bool {
        if offers == 0 {
            return false;
        }
        let Some(_watch) = Watch::take() else { return false };
        (0..offers).any(|_| {
            thread::yield_now();
            (0..SPINS_PER_OFFER).for_each(|_| hint::spin_loop());
            self.is_set()
        })
    }

    fn sleep(&self, deadline: Option<Moment>, cancel: &CancelToken, alerted: Patience) -> Waited {
        let mut sleeping = self.sleeping.lock();
        loop {
            // Fails only if the event is set, or awaited already after a wake-up for nothing.
            let _ =
                self.state.compare_exchange(CLEAR, AWAITED, Ordering::AcqRel, Ordering::Acquire);
            match self.state.load(Ordering::Acquire) {
                SET => return Waited::Set,
                REFUSED => return Waited::Refused,
                _ => {}
            }
            if cancel.is_cancelled() {
                return Waited::Cancelled;
            }
            match deadline {
                None => self.wake.wait(&mut sleeping),
                Some(deadline) => {
                    let left = deadline.since(clock::now());
                    if left.is_zero() {
                        return Waited::TimedOut;
                    }
                    self.wake.wait_for(&mut sleeping, left);
                }
            }
            if self.state.load(Ordering::Relaxed) == CLEAR {
                drop(sleeping);
                let _ = self.look_often(alerted.looks) || self.look_between_offers(alerted.offers);
                sleeping = self.sleeping.lock();
            }
        }
    }
}

/// A token that asks the work and the waits under it to stop; clones are the same token.
///
/// A session has one for life and [resets](CancelToken::reset) it between statements.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Cancel>);

/// In cache lines of its own: every statement of a session writes the flag, and sessions that one
/// thread has made lie beside each other. Two lines, because neighbours are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cancel {
    cancelled: AtomicBool,
    /// The account of the work, which ends when it is refused memory; nobody's is never refused.
    account: AccountId,
    waiting: Mutex<Vec<Arc<Event>>>,
    /// Tasks and threads that read what is computed under the token.
    readers: Mutex<Vec<Waker>>,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token of work that counts its memory in an account: it counts as cancelled, too, when more is
    /// refused.
    pub fn of(account: AccountId) -> Self {
        CancelToken(Arc::new(Cancel { account, ..Cancel::default() }))
    }

    /// The account of the work.
    pub fn account(&self) -> AccountId {
        self.0.account
    }

    /// Cancels, and wakes those who wait under this token.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        for event in self.0.waiting.lock().iter() {
            event.nudge();
        }
        let readers = std::mem::take(&mut *self.0.readers.lock());
        readers.into_iter().for_each(Waker::wake);
    }

    /// Has a task woken when the token is cancelled, once; the caller looks whether it
    /// [is](CancelToken::is_cancelled) behind this call. A refusal of memory wakes nobody: who runs the work
    /// finds it.
    pub fn watch(&self, context: &Context<'_>) {
        let mut readers = self.0.readers.lock();
        if !readers.iter().any(|reader| reader.will_wake(context.waker())) {
            readers.push(context.waker().clone());
        }
    }

    /// Whether the token was cancelled and not reset since, or its work was refused memory. Two loads.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire) || self.0.account.is_refused()
    }

    /// Makes the token usable for the next statement.
    pub fn reset(&self) {
        self.0.cancelled.store(false, Ordering::Release);
    }

    pub(crate) fn enlist(&self, event: &Arc<Event>) {
        self.0.waiting.lock().push(Arc::clone(event));
    }

    pub(crate) fn delist(&self, event: &Arc<Event>) {
        let mut waiting = self.0.waiting.lock();
        if let Some(position) = waiting.iter().position(|other| Arc::ptr_eq(other, event)) {
            waiting.swap_remove(position);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use halcyon_base::sync::thread;

    const ASLEEP: Patience = Patience { looks: 0, offers: 0 };

    fn limits(cancel: &CancelToken, timeout: Option<Duration>) -> WaitLimits<'_> {
        WaitLimits { timeout, cancel }
    }

    #[test]
    fn waiter_wakes_when_set_before_during_and_after_its_sleep_begins() {
        let cancel = CancelToken::new();
        for (delay_us, offers) in [(0, 0), (50, 0), (50, 200), (2_000, 0), (2_000, 20)] {
            let event = Arc::new(Event::default());
            let setter = {
                let event = Arc::clone(&event);
                thread::spawn(move || {
                    thread::sleep(Duration::from_micros(delay_us));
                    event.set();
                })
            };
            assert_eq!(
                event.wait(&limits(&cancel, None), Patience { looks: 10, offers }, ASLEEP),
                Waited::Set
            );
            setter.join().expect("the setter does not panic");
        }
    }

    #[test]
    fn an_alerted_sleeper_looks_and_sleeps_on() {
        let cancel = CancelToken::new();
        for alerted in [ASLEEP, Patience { looks: 100, offers: 0 }] {
            let event = Arc::new(Event::default());
            event.alert();
            let waiter = {
                let (event, cancel) = (Arc::clone(&event), cancel.clone());
                thread::spawn(move || event.wait(&limits(&cancel, None), ASLEEP, alerted))
            };
            for _ in 0..3 {
                while !event.is_awaited() {
                    thread::yield_now();
                }
                event.alert();
            }
            assert!(!waiter.is_finished());
            event.set();
            assert_eq!(waiter.join().expect("the waiter does not panic"), Waited::Set);
        }
    }

    #[test]
    fn watches_are_fewer_than_cores() {
        let watches: Vec<_> = std::iter::from_fn(Watch::take).take(watchers_max() + 1).collect();
        assert!(watches.len() <= watchers_max(), "{}", watches.len());
    }

    #[test]
    fn wait_ends_by_time_and_by_cancel_and_leaves_the_token_empty() {
        let cancel = CancelToken::new();
        let event = Arc::new(Event::default());
        let short = Some(Duration::from_millis(2));
        assert_eq!(event.wait(&limits(&cancel, short), ASLEEP, ASLEEP), Waited::TimedOut);
        let canceller = {
            let cancel = cancel.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(2));
                cancel.cancel();
            })
        };
        assert_eq!(event.wait(&limits(&cancel, None), ASLEEP, ASLEEP), Waited::Cancelled);
        canceller.join().expect("the canceller does not panic");
        assert!(cancel.is_cancelled() && cancel.0.waiting.lock().is_empty());
        cancel.reset();
        event.set();
        assert_eq!(event.wait(&limits(&cancel, None), ASLEEP, ASLEEP), Waited::Set);
        event.clear();
        assert!(!event.is_set());
    }

    #[test]
    fn a_refused_wait_ends_unless_its_event_has_happened() {
        let cancel = CancelToken::new();
        let event = Arc::new(Event::default());
        let refuser = {
            let event = Arc::clone(&event);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(2));
                assert!(event.refuse());
            })
        };
        assert_eq!(event.wait(&limits(&cancel, None), ASLEEP, ASLEEP), Waited::Refused);
        refuser.join().expect("the refuser does not panic");
        event.set();
        assert_eq!(
            event.wait(&limits(&cancel, None), ASLEEP, ASLEEP),
            Waited::Set,
            "a grant counts"
        );
        assert!(!event.refuse());
        assert!(event.is_set());
    }
}
