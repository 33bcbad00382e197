//! The waker of a thread: what a future that the thread polls itself wakes it by.
//!
//! Invariant, checked by the model `each_thread_is_woken_by_its_own_waker`: a thread that parks after a poll that
//! left its waker is unparked by a wake-up after that poll, however the two meet.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::planted::{self, Bug};
use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;

/// The bug that the models must find when planted.
const WAKES_ITSELF: Bug = Bug("a waker unparks the thread that wakes instead of its own");

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        match planted::is(WAKES_ITSELF) {
            true => thread::current().unpark(),
            false => self.0.unpark(),
        }
    }
}

thread_local!(static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current()))));

/// Unparks the calling thread. A thread that parks may wake up for no reason, and polls again.
pub fn waker() -> Waker {
    WAKER.with(Waker::clone)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_waker_unparks_its_thread() {
        let own = waker();
        let other = std::thread::spawn(move || {
            assert!(!own.will_wake(&waker()), "a thread has a waker of its own");
            own.wake();
        });
        std::thread::park();
        other.join().expect("no panic");
        assert!(waker().will_wake(&waker()));
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use super::*;
    use crate::model::Check;
    use crate::sync::Mutex;
    use std::task::{Context, Poll};

    /// A value that comes once.
    #[derive(Default)]
    struct Gift {
        has_come: bool,
        waker: Option<Waker>,
    }

    fn poll(gift: &Mutex<Gift>, context: &mut Context<'_>) -> Poll<()> {
        let mut gift = gift.lock();
        match gift.has_come {
            true => Poll::Ready(()),
            false => {
                gift.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Two threads wait, each for what the other gives afterwards or has given before.
    fn each_gives_and_waits() {
        let gifts = <[Arc<Mutex<Gift>>; 2]>::default();
        let run = |own: usize| {
            let (mine, theirs) = (Arc::clone(&gifts[own]), Arc::clone(&gifts[1 - own]));
            let give = move || {
                let mut theirs = theirs.lock();
                theirs.has_come = true;
                let waiting = theirs.waker.take();
                drop(theirs);
                waiting.into_iter().for_each(Waker::wake);
            };
            move || {
                if own == 0 {
                    give();
                }
                let waker = waker();
                while poll(&mine, &mut Context::from_waker(&waker)).is_pending() {
                    thread::park();
                }
                if own == 1 {
                    give();
                }
            }
        };
        let other = thread::spawn(run(1));
        run(0)();
        other.join().expect("no panic");
    }

    #[test]
    fn each_thread_is_woken_by_its_own_waker() {
        Check::new(300).run(each_gives_and_waits);
    }

    #[test]
    fn canary_a_waker_of_another_thread_is_caught() {
        Check::new(300).canary(WAKES_ITSELF, each_gives_and_waits);
    }
}
