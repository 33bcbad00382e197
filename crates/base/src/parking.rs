//! The waker of a thread: what a future that the thread polls itself wakes it by.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local!(static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current()))));

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
