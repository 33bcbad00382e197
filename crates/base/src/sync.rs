//! Locks, atomics and threads for crates that a model checker looks at: shuttle can stand behind
//! them.
//!
//! Normally this is `parking_lot` and `std`. Built with `--cfg shuttle` it is the `shuttle` model
//! checker with the same interface (that of `parking_lot`: no poisoning, guards by reference in
//! [`Condvar`]), and code that takes its locks here can be run under every schedule that shuttle
//! chooses. There a wait of less than a minute may time out at any moment, and then its time has passed on
//! [`crate::clock`]; a longer one never does, so a wake-up that is missing shows. `sleep` only yields.

pub use imp::*;

#[cfg(not(shuttle))]
mod imp {
    pub use parking_lot::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    };
    pub use std::sync::{Arc, Weak, atomic};
    pub use std::{hint, thread, thread_local};
}

#[cfg(shuttle)]
mod imp {
    use crate::clock;
    pub use shuttle::sync::{Arc, RwLockReadGuard, RwLockWriteGuard, Weak, atomic};
    pub use shuttle::thread_local;
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    /// The pause of a spinning thread between two looks.
    pub mod hint {
        /// Lets the model run another thread.
        pub fn spin_loop() {
            shuttle::thread::yield_now();
        }
    }

    /// Timed waits that are at least so long never time out.
    const ENDLESS: Duration = Duration::from_secs(60);

    /// Lets others run for as long as the model likes, and `timeout` pass.
    fn time_out(timeout: Duration) {
        thread::yield_now();
        clock::pass(timeout);
    }

    /// Threads of the model.
    pub mod thread {
        pub use shuttle::thread::*;
        use std::time::Duration;

        /// As [`park`]; a timeout of less than a minute may be over at any moment.
        pub fn park_timeout(timeout: Duration) {
            match timeout < super::ENDLESS {
                true => super::time_out(timeout),
                false => park(),
            }
        }
    }

    /// Mutual exclusion; a panic inside does not poison it.
    #[derive(Debug, Default)]
    pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An unlocked mutex around `value`.
        pub const fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        /// The value; no other thread can hold the lock, which is consumed.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T: ?Sized> Mutex<T> {
        /// Waits until the value is free.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard { held: Some(held), mutex: &self.0 }
        }

        /// The value, unless another thread holds the lock.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = match self.0.try_lock() {
                Ok(held) => held,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some(MutexGuard { held: Some(held), mutex: &self.0 })
        }

        /// The value; `&mut` proves that nobody else holds it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A guard: access to the value in a [`Mutex`].
    pub struct MutexGuard<'a, T: ?Sized> {
        /// Missing only while a [`Condvar`] waits with the guard.
        held: Option<shuttle::sync::MutexGuard<'a, T>>,
        mutex: &'a shuttle::sync::Mutex<T>,
    }

    const HELD: &str = "a guard is empty only inside Condvar::wait";

    impl<T: ?Sized> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.held.as_ref().expect(HELD)
        }
    }

    impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect(HELD)
        }
    }

    impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (**self).fmt(f)
        }
    }

    /// Whether a timed wait ended by time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// True if nobody notified in time.
        pub fn timed_out(&self) -> bool {
            self.0
        }
    }

    /// A condition variable: a place to wait for a change of the value in a [`Mutex`].
    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        /// A condition without waiters.
        pub const fn new() -> Self {
            Condvar(shuttle::sync::Condvar::new())
        }

        /// Gives the mutex back, waits for a notification, takes the mutex again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect(HELD);
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// As [`Condvar::wait`]; a timeout of less than a minute is over after what others do meanwhile.
        pub fn wait_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            timeout: Duration,
        ) -> WaitTimeoutResult {
            if timeout >= ENDLESS {
                self.wait(guard);
                return WaitTimeoutResult(false);
            }
            drop(guard.held.take());
            time_out(timeout);
            guard.held = Some(guard.mutex.lock().unwrap_or_else(PoisonError::into_inner));
            WaitTimeoutResult(true)
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Many readers or one writer; a panic inside does not poison it.
    #[derive(Debug, Default)]
    pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// An unlocked lock around `value`.
        pub const fn new(value: T) -> Self {
            RwLock(shuttle::sync::RwLock::new(value))
        }

        /// The value; no other thread can hold the lock, which is consumed.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T: ?Sized> RwLock<T> {
        /// Waits until no writer holds the value.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Waits until no other thread holds the value.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }

        /// The value; `&mut` proves that nobody else holds it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::{Arc, Condvar, Mutex, thread};
    use std::time::Duration;

    #[test]
    fn waiter_sees_what_the_notifier_wrote() {
        let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            *other.0.lock() = 7;
            other.1.notify_all();
        });
        let mut value = shared.0.lock();
        while *value != 7 {
            shared.1.wait(&mut value);
        }
        drop(value);
        writer.join().expect("the writer does not panic");
        assert!(shared.1.wait_for(&mut shared.0.lock(), Duration::from_millis(1)).timed_out());
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use super::{Arc, Condvar, Mutex, RwLock, thread};
    use crate::clock;
    use std::time::Duration;

    #[test]
    fn waiter_sees_what_the_notifier_wrote_under_every_schedule() {
        let model = || {
            let shared = Arc::new((Mutex::new(0u32), Condvar::new(), RwLock::new(0u32)));
            let other = Arc::clone(&shared);
            let writer = thread::spawn(move || {
                *other.2.write() = 1;
                *other.0.lock() = 7;
                other.1.notify_all();
            });
            let mut value = shared.0.lock();
            while *value != 7 {
                shared.1.wait(&mut value);
            }
            assert_eq!(*shared.2.read(), 1);
            drop(value);
            assert!(shared.0.try_lock().is_some());
            writer.join().expect("the writer does not panic");
        };
        crate::model::Check::new(200).run(model);
    }

    #[test]
    fn a_short_wait_ends_by_time_and_its_time_has_passed() {
        let model = || {
            let shared = (Mutex::new(0u32), Condvar::new());
            let (before, second) = (clock::now(), Duration::from_secs(1));
            assert!(shared.1.wait_for(&mut shared.0.lock(), second).timed_out());
            thread::park_timeout(second);
            assert!(clock::now() - before >= 2 * second);
        };
        crate::model::Check::new(20).run(move || {
            let other = thread::spawn(model);
            model();
            other.join().expect("no panic");
        });
    }
}
