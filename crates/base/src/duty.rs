//! Threads on duty: a thread that others rely on is relieved of them before it waits or computes for
//! long.
//!
//! A thread that serves sockets must neither wait for a lock nor run for milliseconds: clients whose
//! messages it would read next wait too. Handing its other clients to another thread costs two context
//! switches and more time than a short statement takes, and most statements neither wait nor last.
//! So a server runs its statements [`on_duty`], with the function that relieves it, and code that is
//! about to wait or to compute for long says so ([`relieved`]). A statement that finds its lock free and
//! its row in memory pays nothing. Nobody knows beforehand how many rows a statement visits: loops over rows say so
//! when they have come far ([`lasts`]), and the thread leaves its duty in the middle.
//!
//! Invariant, checked by `a_thread_is_relieved_once_and_only_on_duty` and `a_thread_leaves_its_duty_once`: a thread is
//! relieved at most once at a time, and only within [`on_duty`]; one that has left is not relieved before the duty ends.
//! Threads that are on no duty pay one look at a thread-local word. Cost on duty: the function's.

use std::cell::Cell;

/// Runs the work it is given on the calling thread, after others have been found to do what the
/// thread does besides.
pub type Relief = fn(&mut dyn FnMut());

/// Has others do what the calling thread does besides, until its duty ends. Returns once they do.
pub type Leave = fn();

thread_local!(static RELIEF: Cell<Option<Relief>> = const { Cell::new(None) });
thread_local!(static LEAVE: Cell<Option<Leave>> = const { Cell::new(None) });

/// Sets the thread's duty back at the end of a call, panics included.
struct Restore(Option<Relief>, Option<Leave>);

impl Drop for Restore {
    fn drop(&mut self) {
        RELIEF.set(self.0);
        LEAVE.set(self.1);
    }
}

fn with_duty<T>(relief: Option<Relief>, leave: Option<Leave>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(RELIEF.replace(relief), LEAVE.replace(leave));
    work()
}

/// Runs `work`, in which the thread is relieved by `relief` before it waits or lasts, and leaves its duty by `leave`
/// when it has lasted.
#[inline]
pub fn on_duty<T>(relief: Relief, leave: Leave, work: impl FnOnce() -> T) -> T {
    with_duty(Some(relief), Some(leave), work)
}

/// Puts the calling thread on duty until it ends: for threads of a pool, which run what others give
/// them.
pub fn stay_on_duty(relief: Relief) {
    RELIEF.set(Some(relief));
}

/// Whether the thread is on duty, and not relieved.
#[inline]
pub fn is_on_duty() -> bool {
    RELIEF.get().is_some()
}

/// Says that the calling thread has computed for long and goes on: a thread on duty leaves it for the rest of its work.
#[inline]
pub fn lasts() {
    if LEAVE.get().is_some() {
        leave();
    }
}

#[cold]
fn leave() {
    RELIEF.set(None);
    if let Some(leave) = LEAVE.take() {
        leave();
    }
}

/// Runs work that may wait or last: a thread on duty is relieved first, another just runs it.
#[inline]
pub fn relieved<T>(work: impl FnOnce() -> T) -> T {
    match RELIEF.get() {
        None => work(),
        Some(relief) => relieved_by(relief, work),
    }
}

/// As [`relieved`] if `lasts`, else the work alone.
#[inline]
pub fn relieved_if<T>(lasts: bool, work: impl FnOnce() -> T) -> T {
    match lasts {
        true => relieved(work),
        false => work(),
    }
}

#[cold]
fn relieved_by<T>(relief: Relief, work: impl FnOnce() -> T) -> T {
    let mut work = Some(work);
    let mut done = None;
    relief(&mut || {
        let work = work.take().expect("a relief runs its work once");
        done = Some(with_duty(None, None, work));
    });
    done.expect("a relief runs its work")
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local!(static RELIEVED: Cell<u32> = const { Cell::new(0) });

    thread_local!(static LEFT: Cell<u32> = const { Cell::new(0) });

    fn relief(work: &mut dyn FnMut()) {
        RELIEVED.set(RELIEVED.get() + 1);
        work();
    }

    fn left() {
        LEFT.set(LEFT.get() + 1);
    }

    #[test]
    fn a_thread_leaves_its_duty_once() {
        lasts();
        assert_eq!(LEFT.get(), 0, "not on duty");
        on_duty(relief, left, || {
            relieved(lasts);
            assert_eq!((LEFT.get(), RELIEVED.get()), (0, 1), "already relieved");
            lasts();
            lasts();
            assert!(!is_on_duty());
            relieved(|| {});
            assert_eq!((LEFT.get(), RELIEVED.get()), (1, 1), "nobody is left to be relieved of");
        });
        on_duty(relief, left, lasts);
        assert_eq!(LEFT.get(), 2, "each duty is left by itself");
        stay_on_duty(relief);
        lasts();
        assert_eq!(LEFT.get(), 2, "threads of a pool stay");
    }

    #[test]
    fn a_thread_is_relieved_once_and_only_on_duty() {
        assert_eq!(relieved(|| 1), 1);
        assert_eq!(RELIEVED.get(), 0, "not on duty");
        let answer = on_duty(relief, left, || {
            assert!(is_on_duty());
            assert_eq!(relieved_if(false, || RELIEVED.get()), 0);
            relieved(|| {
                assert!(!is_on_duty(), "already relieved");
                relieved(|| RELIEVED.get())
            })
        });
        assert_eq!(answer, 1, "relieved once for nested waits");
        assert!(!is_on_duty());
        on_duty(relief, left, || {
            relieved(|| {});
            relieved(|| {});
        });
        assert_eq!(RELIEVED.get(), 3, "each wait of its own is relieved");
    }

    #[test]
    fn a_thread_of_a_pool_stays_on_duty() {
        stay_on_duty(relief);
        relieved(|| assert!(!is_on_duty()));
        assert!(is_on_duty());
        assert_eq!(RELIEVED.get(), 1);
    }

    #[test]
    fn a_panic_leaves_the_duty_as_it_was() {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            on_duty(relief, left, || {
                let inner = catch_unwind(AssertUnwindSafe(|| relieved(|| panic!("within"))));
                assert!(inner.is_err() && is_on_duty());
                panic!("on duty")
            })
        }));
        assert!(panicked.is_err() && !is_on_duty());
    }
}
