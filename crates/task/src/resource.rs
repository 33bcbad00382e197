//! Data behind resources: versions for optimistic readers, and values owned by a worker.
//!
//! While a home worker's core is its own, writers are kept apart by running there one after the
//! other: a version is changed by plain stores. Once the worker finds that it is being preempted,
//! it lets tasks of its resources run anywhere, and the same version is taken as a latch instead
//! (`HomeMode`, in `shared`). Writers ask for the mode; readers never need to know.

use crate::annotation::{Resource, Synchronisation, WorkerId};
use crate::worker::Context;
use crate::worker::shared::HomeMode;
use halcyon_base::sync::atomic::{AtomicU64, Ordering, fence};
use halcyon_base::sync::{hint, thread};
use std::cell::UnsafeCell;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A version: the number of changes of the guarded data, odd while a change is under way.
///
/// Put a version beside fields that are atomics (read and written `Relaxed`): readers may then look
/// at any time, and learn afterwards whether the values they saw belong together.
#[derive(Default)]
pub struct Version(AtomicU64);

/// A reader met a change: the values it saw may not belong together. Worth retrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a writer came between")
    }
}

impl Error for Changed {}

/// Number of looks before a spinning thread yields its core.
const SPINS: u32 = 64;

impl Version {
    /// A version of data that is not being changed.
    pub const fn new() -> Version {
        Version(AtomicU64::new(0))
    }

    /// Calls `look` and returns its result, unless a writer came between. `look` gets no context,
    /// so an attempt that fails has done nothing.
    #[inline]
    pub fn try_read<R>(&self, look: impl FnOnce() -> R) -> Result<R, Changed> {
        let before = self.begin()?;
        let seen = look();
        self.validate(before)?;
        Ok(seen)
    }

    /// As [`Version::try_read`], again until no writer comes between.
    #[inline]
    pub fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let mut attempts = 0;
        loop {
            if let Ok(seen) = self.try_read(&mut look) {
                return seen;
            }
            relax(&mut attempts);
        }
    }

    /// The version, if no change is under way. Pairs with the release of the writer that was last.
    #[inline]
    pub fn begin(&self) -> Result<u64, Changed> {
        let version = self.0.load(Ordering::Acquire);
        if version.is_multiple_of(2) { Ok(version) } else { Err(Changed) }
    }

    /// Whether nothing changed since [`Version::begin`] returned `before`. Pairs with the writer's
    /// release fence: a reader that saw one of the writer's stores sees its odd version here.
    #[inline]
    pub fn validate(&self, before: u64) -> Result<(), Changed> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == before { Ok(()) } else { Err(Changed) }
    }

    /// Begins a change of the data of `resource`; readers retry until the guard is dropped.
    ///
    /// Panics: where the resource is synchronised by scheduling and this is not its home.
    #[inline]
    pub fn write<'a>(&'a self, resource: Resource, cx: &Context) -> WriteGuard<'a> {
        if by_scheduling(resource, cx) { self.write_alone() } else { self.lock() }
    }

    /// Begins a change where the caller is the only writer there can be.
    #[inline]
    fn write_alone(&self) -> WriteGuard<'_> {
        let version = self.0.load(Ordering::Relaxed);
        debug_assert!(version.is_multiple_of(2), "two writers at one home");
        self.0.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        WriteGuard { version: self, next: version + 2 }
    }

    /// Begins a change after any other writer. From anywhere; spins, then gives the core away.
    #[inline]
    pub fn lock(&self) -> WriteGuard<'_> {
        let mut attempts = 0;
        loop {
            if let Ok(version) = self.begin()
                && let Some(guard) = self.try_lock_at(version)
            {
                return guard;
            }
            relax(&mut attempts);
        }
    }

    /// Begins a change if nothing changed since [`Version::begin`] returned `before`.
    #[inline]
    pub fn try_lock_at(&self, before: u64) -> Option<WriteGuard<'_>> {
        let taken =
            self.0.compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed);
        fence(Ordering::Release);
        // Lazily: a guard that is made and dropped ends a change.
        taken.is_ok().then(|| WriteGuard { version: self, next: before + 2 })
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Version").field(&self.0.load(Ordering::Relaxed)).finish()
    }
}

/// Spins a little, then lets other threads run.
fn relax(attempts: &mut u32) {
    *attempts += 1;
    if *attempts < SPINS { hint::spin_loop() } else { thread::yield_now() }
}

/// Whether the caller is kept apart from other writers by running at the resource's home.
#[inline(always)]
fn by_scheduling(resource: Resource, cx: &Context) -> bool {
    let scheduled = matches!(
        resource.synchronisation,
        Synchronisation::Scheduling | Synchronisation::SchedulingWriters
    );
    if scheduled && cx.worker() == resource.home && cx.scheduled {
        return true;
    }
    check_writer(resource, cx);
    false
}

/// Panics: where a writer relies on scheduling and is not at home; where no task may write.
#[inline]
fn check_writer(resource: Resource, cx: &Context) {
    match resource.synchronisation {
        Synchronisation::Scheduling | Synchronisation::SchedulingWriters => {
            let scheduled = cx.mode_of(resource.home) == HomeMode::Scheduled;
            assert!(!scheduled, "a writer is not at home");
        }
        Synchronisation::Optimistic | Synchronisation::Latched => {}
        Synchronisation::ReadOnly => panic!("a read-only resource is written"),
    }
}

/// The guard of a change under way, which ends with the guard.
#[must_use]
pub struct WriteGuard<'a> {
    version: &'a Version,
    next: u64,
}

impl Drop for WriteGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.version.0.store(self.next, Ordering::Release);
    }
}

impl fmt::Debug for WriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard").finish_non_exhaustive()
    }
}

/// Another name for [`Version`] where there are no optimistic readers.
pub type Latch = Version;

/// A value that the tasks of its home worker change without a latch (P4 §4.2).
///
/// The value of one resource of one runtime. Any type will do, since no other task reads the value
/// meanwhile.
pub struct Owned<T> {
    resource: Resource,
    runtime: u64,
    latch: Latch,
    value: UnsafeCell<T>,
}

// SAFETY: `get` is the only way to the value through a shared reference, and it gives it to one
// thread at a time (see there), so sharing an `Owned` hands the value from thread to thread: that
// is what `T: Send` allows.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T: Send> Owned<T> {
    pub(crate) fn new(resource: Resource, runtime: u64, value: T) -> Owned<T> {
        Owned { resource, runtime, latch: Latch::new(), value: UnsafeCell::new(value) }
    }

    /// The resource that tasks name in their annotation to use this value.
    pub fn resource(&self) -> Resource {
        self.resource
    }

    /// The worker at home.
    pub fn home(&self) -> WorkerId {
        self.resource.home
    }

    /// The value. The context is lent for as long, so a task holds one such value at a time and
    /// spawns further tasks afterwards.
    ///
    /// Panics: on a context of another runtime, and away from home while the home's core is its own.
    #[inline]
    pub fn get<'a>(&'a self, cx: &'a mut Context) -> OwnedGuard<'a, T> {
        assert_eq!(self.runtime, cx.runtime_id(), "a value of another runtime");
        let latched = if by_scheduling(self.resource, cx) { None } else { Some(self.latch.lock()) };
        // SAFETY: exclusive. By scheduling: the caller is the home worker of this runtime, which is
        // one thread with one `Context`, lent to the guard for `'a`, so no second guard without
        // latch exists; and none with latch does, because a mode becomes `Scheduled` only after
        // every worker has passed a point between tasks since it was not (`HomeMode`). Otherwise:
        // the latch excludes other holders of it, and the home worker takes it too until the
        // mode is `Scheduled`.
        let value = unsafe { &mut *self.value.get() };
        OwnedGuard { value, _latched: latched }
    }

    /// The value back.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// Access to an [`Owned`] value.
pub struct OwnedGuard<'a, T> {
    value: &'a mut T,
    _latched: Option<WriteGuard<'a>>,
}

impl<T> Deref for OwnedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for OwnedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> fmt::Debug for OwnedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedGuard").finish_non_exhaustive()
    }
}
