//! Waiting: a one-shot event, the limits of a wait, and the token that ends one from outside.
//!
//! Words: an event is *clear*, *awaited* (its waiter has gone to sleep) or *set*. Only its one
//! waiter clears it, before anybody could set it. A waiter spins shortly, since most waits here
//! end within the microsecond that a statement takes, and then sleeps: it never spins for long.
//! Cost: `set` is one swap, and a wake-up only if the waiter sleeps. Threads: one waiter, any number of
//! setters.

use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use halcyon_base::sync::{Arc, Condvar, Mutex, hint};
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
}

/// When a wait is given up.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits<'a> {
    /// Longest time to wait; `None` waits as long as it takes.
    pub timeout: Option<Duration>,
    /// Ends the wait from another thread.
    pub cancel: &'a CancelToken,
}

const CLEAR: u32 = 0;
const AWAITED: u32 = 1;
const SET: u32 = 2;

/// Something that happens once and that one thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Event {
    state: AtomicU32,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Event {
    /// Forgets that it was set. For its waiter, while nobody can set it.
    pub(crate) fn clear(&self) {
        self.state.store(CLEAR, Ordering::Relaxed);
    }

    /// Whether it has happened. Pairs with the swap in [`Event::set`].
    pub(crate) fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    /// Lets it happen, and wakes the waiter if it sleeps.
    pub(crate) fn set(&self) {
        if self.mark() {
            self.nudge();
        }
    }

    /// Lets it happen. True if the waiter may sleep and must be [nudged](Event::nudge).
    ///
    /// What happened belongs to one wait, a nudge to none: whoever decides under a latch marks
    /// under it too, or the mark might reach the waiter's next wait.
    #[must_use = "a waiter may sleep"]
    pub(crate) fn mark(&self) -> bool {
        self.state.swap(SET, Ordering::AcqRel) == AWAITED
    }

    /// Makes the waiter look again, if it sleeps.
    pub(crate) fn nudge(&self) {
        // Holding the mutex means that the waiter has not looked yet, or sleeps already.
        drop(self.sleeping.lock());
        self.wake.notify_all();
    }

    /// Waits until it is set, asleep.
    pub(crate) fn wait_for_it(&self) {
        let mut sleeping = self.sleeping.lock();
        loop {
            // Fails only if it is set, or awaited already after a wake-up for nothing.
            let _ =
                self.state.compare_exchange(CLEAR, AWAITED, Ordering::AcqRel, Ordering::Acquire);
            if self.is_set() {
                return;
            }
            self.wake.wait(&mut sleeping);
        }
    }

    /// Waits until it is set or `limits` end the wait: `spins` looks first, then asleep.
    pub(crate) fn wait(self: &Arc<Self>, limits: &WaitLimits<'_>, spins: u32) -> Waited {
        for _ in 0..spins {
            if self.is_set() {
                return Waited::Set;
            }
            hint::spin_loop();
        }
        let deadline = limits.timeout.map(|timeout| clock::now().plus(timeout));
        limits.cancel.enlist(self);
        let waited = self.sleep(deadline, limits.cancel);
        limits.cancel.delist(self);
        waited
    }

    fn sleep(&self, deadline: Option<Moment>, cancel: &CancelToken) -> Waited {
        let mut sleeping = self.sleeping.lock();
        loop {
            // Fails only if it is set, or awaited already after a wake-up for nothing.
            let _ =
                self.state.compare_exchange(CLEAR, AWAITED, Ordering::AcqRel, Ordering::Acquire);
            if self.is_set() {
                return Waited::Set;
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
        }
    }
}

/// Asks whoever works or waits under it to stop; clones are the same token.
///
/// A session has one for life and [resets](CancelToken::reset) it between statements.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Cancel>);

#[derive(Debug, Default)]
struct Cancel {
    cancelled: AtomicBool,
    waiting: Mutex<Vec<Arc<Event>>>,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, and wakes those who wait under this token.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        for event in self.0.waiting.lock().iter() {
            event.nudge();
        }
    }

    /// Whether it was cancelled and not reset since. One load.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Makes the token usable for the next statement.
    pub fn reset(&self) {
        self.0.cancelled.store(false, Ordering::Release);
    }

    fn enlist(&self, event: &Arc<Event>) {
        self.0.waiting.lock().push(Arc::clone(event));
    }

    fn delist(&self, event: &Arc<Event>) {
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

    fn limits(cancel: &CancelToken, timeout: Option<Duration>) -> WaitLimits<'_> {
        WaitLimits { timeout, cancel }
    }

    #[test]
    fn waiter_wakes_when_set_before_during_and_after_its_sleep_begins() {
        let cancel = CancelToken::new();
        for delay_us in [0, 50, 2_000] {
            let event = Arc::new(Event::default());
            let setter = {
                let event = Arc::clone(&event);
                thread::spawn(move || {
                    thread::sleep(Duration::from_micros(delay_us));
                    event.set();
                })
            };
            assert_eq!(event.wait(&limits(&cancel, None), 10), Waited::Set);
            setter.join().expect("the setter does not panic");
        }
    }

    #[test]
    fn wait_ends_by_time_and_by_cancel_and_leaves_the_token_empty() {
        let cancel = CancelToken::new();
        let event = Arc::new(Event::default());
        let short = Some(Duration::from_millis(2));
        assert_eq!(event.wait(&limits(&cancel, short), 0), Waited::TimedOut);
        let canceller = {
            let cancel = cancel.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(2));
                cancel.cancel();
            })
        };
        assert_eq!(event.wait(&limits(&cancel, None), 0), Waited::Cancelled);
        canceller.join().expect("the canceller does not panic");
        assert!(cancel.is_cancelled() && cancel.0.waiting.lock().is_empty());
        cancel.reset();
        event.set();
        assert_eq!(event.wait(&limits(&cancel, None), 0), Waited::Set);
        event.clear();
        assert!(!event.is_set());
    }
}
