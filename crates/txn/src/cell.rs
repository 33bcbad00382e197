//! A partition and its lock: the one place where a root is reached, and the guards that prove it.
//!
//! Words: the *root* is the partition's value; a *share* is the handle by which the sessions of
//! one reader slot keep the partition alive.
//! Invariants, checked by the twin of module `root` (feature `checked-root`), which panics where a
//! guard breaks them; every model runs on it, above all `lock_excludes_and_wakes_every_waiter`:
//! 1. A [`SharedGuard`] exists only while its slot of the lock counts it, or, from the grant of
//!    its upgrade, while its participant is the owner.
//! 2. An [`ExclusiveGuard`] exists only while its participant is the owner and has entered, and
//!    there is one.
//!
//! The guards are the only source of `&Partition` and `&mut Partition`; they are made here, after
//! the lock was granted, and are used up when it is given back. So the compiler carries the proof
//! that storage needs no concurrency control (P1 §4): a writer needs `&mut` of its guard.
//! Why shares: counting references of the partition in one place would make all readers write
//! one cache line, and undo what the reader slots are for.
//!
//! The root behind a lock needs `unsafe`: module `root` is the only one of this crate. Its safe
//! twin (feature `checked-root`, and always under the model checker) hands out reference-counted
//! roots instead and panics wherever a guard would break the rules; every test can run on it.
//! What the unsafe one gains is printed by `cargo run --release -p halcyon-txn --example locks`, with
//! and without `--features checked-root`: the twin takes a mutex per access, so its readers
//! write a shared line and cannot scale. No difference was seen on a machine with other tenants
//! (`docs/experiments/locks.md`); a quiet one has not been asked yet.

use crate::lock::{Granted, Latch, Lock, ParticipantId, Want, default_slots};
use crate::log::Lsn;
use crate::planted;
use halcyon_base::PartitionId;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_store::{Partition, Schema};
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A partition of the database: its value and the lock that guards it.
///
/// The catalog holds it; transactions reach the value by [`crate::Transaction::lock`] and
/// snapshots by [`crate::cut()`].
pub struct PartitionCell {
    /// The partition's number, which gives the order of locks.
    pub id: PartitionId,
    shares: Box<[Arc<Share>]>,
}

/// Whether changes of a partition's rows are written to the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Logged {
    Yes,
    /// The rows follow from rows of other partitions, and are made anew from these.
    Derived,
}

/// Keeps the partition alive for the sessions of one slot, with a count in a line of its own.
#[repr(align(128))]
pub(crate) struct Share {
    core: Arc<Core>,
    slot: usize,
}

struct Core {
    id: PartitionId,
    logged: Logged,
    lock: Lock,
    /// Where the log ends that holds the last commit which changed the partition. Written under the
    /// latch by the owner; read under the lock or the latch.
    changed: AtomicU64,
    root: root::Root,
}

impl PartitionCell {
    /// An unlocked partition with as many reader slots as the machine has cores (at most 64).
    pub fn new(id: PartitionId, root: Partition) -> Self {
        Self::with_slots(id, root, default_slots())
    }

    /// As [`PartitionCell::new`], for rows that follow from rows of other partitions: the log and
    /// checkpoints have it without them, and opening the database makes them again.
    pub fn derived(id: PartitionId, root: Partition) -> Self {
        Self::made(id, root, default_slots(), Logged::Derived)
    }

    /// As [`PartitionCell::new`] with `slot_count` reader slots, a power of two.
    pub fn with_slots(id: PartitionId, root: Partition, slot_count: usize) -> Self {
        Self::made(id, root, slot_count, Logged::Yes)
    }

    fn made(id: PartitionId, root: Partition, slot_count: usize, logged: Logged) -> Self {
        let core = {
            let lock = Lock::new(slot_count);
            Arc::new(Core {
                id,
                logged,
                lock,
                changed: AtomicU64::new(0),
                root: root::Root::new(root),
            })
        };
        let share = |slot| {
            let core = Arc::clone(&core);
            Arc::new(Share { core, slot })
        };
        PartitionCell { id, shares: (0..slot_count).map(share).collect() }
    }

    /// Number `id` in a catalog whose partitions are still being built; its owner puts the built
    /// one in its place before anybody else sees the catalog.
    pub fn unbuilt(id: PartitionId) -> Self {
        Self::with_slots(id, Partition::new(Schema::new(Vec::new())), 1)
    }

    /// A copy of the root, if no transaction holds the partition exclusively: for opening a
    /// database, before any session uses it.
    pub fn root_if_free(&self) -> Option<Partition> {
        self.latch().free_root()
    }

    /// Whether the log has the partition's rows.
    pub fn is_logged(&self) -> bool {
        self.shares[0].core.logged == Logged::Yes
    }

    /// The handle for the sessions that `slot` stands for.
    #[inline]
    pub(crate) fn share(&self, slot: usize) -> &Arc<Share> {
        &self.shares[slot & (self.shares.len() - 1)]
    }

    pub(crate) fn latch(&self) -> CellLatch<'_> {
        self.shares[0].latch()
    }

    /// Panics unless the invariants of the lock hold and it is free, and then checks the root.
    pub fn check(&self) {
        let latch = self.latch();
        latch.lock.check();
        latch.free_root().expect("nobody holds it exclusively").check();
    }
}

impl fmt::Debug for PartitionCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        f.debug_struct("PartitionCell").field("id", id).finish_non_exhaustive()
    }
}

impl Share {
    #[inline]
    pub(crate) fn id(&self) -> PartitionId {
        self.core.id
    }

    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    pub(crate) fn latch(&self) -> CellLatch<'_> {
        CellLatch { lock: self.core.lock.latch(), core: &self.core }
    }

    /// Relaxed: the lock orders this value as it orders the root.
    #[inline]
    fn changed(&self) -> Lsn {
        Lsn(self.core.changed.load(Ordering::Relaxed))
    }

    /// Takes the partition shared if that is possible and fair: by the slot alone if the lock is
    /// not barred.
    #[inline]
    pub(crate) fn try_shared(self: &Arc<Self>, participant: ParticipantId) -> Option<SharedGuard> {
        let entered = self.core.lock.try_shared(self.slot) || self.shared_by_latch(participant);
        entered.then(|| SharedGuard::made(self))
    }

    #[cold]
    fn shared_by_latch(&self, participant: ParticipantId) -> bool {
        let mut latch = self.core.lock.latch();
        // A writer may have counted this reader and wait for no other.
        let granted = latch.serve();
        let admitted = latch.admit(Want::Shared, self.slot, participant);
        drop(latch);
        granted.wake();
        admitted
    }

    /// Takes the partition under its latch if that is possible and fair.
    #[inline]
    pub(crate) fn try_exclusive(
        self: &Arc<Self>,
        participant: ParticipantId,
    ) -> Option<ExclusiveGuard> {
        let mut latch = self.core.lock.latch();
        let admitted = latch.admit(Want::Exclusive, self.slot, participant);
        admitted.then(|| ExclusiveGuard::made(self, participant))
    }
}

/// Read access to a partition that is locked shared.
pub(crate) struct SharedGuard {
    access: root::Read,
    share: Arc<Share>,
}

impl SharedGuard {
    /// The guard of a reader that its slot has just counted.
    #[inline]
    fn made(share: &Arc<Share>) -> Self {
        // SAFETY: the slot counts us, so no exclusive guard exists or is made until `release`
        // (invariants 1 and 2), and `share` keeps the root alive as long as the access.
        let access = unsafe { share.core.root.read() };
        SharedGuard { access, share: Arc::clone(share) }
    }

    /// The guard of a reader whose place in the queue has been granted.
    pub(crate) fn granted(share: &Arc<Share>) -> Self {
        Self::made(share)
    }

    /// LSN behind the last commit that is read under this guard.
    #[inline]
    pub(crate) fn changed(&self) -> Lsn {
        self.share.changed()
    }

    /// Gives the lock back.
    #[inline]
    pub(crate) fn release(self) {
        let SharedGuard { access, share } = self;
        access.end();
        share.core.lock.release_shared(share.slot);
    }

    /// Exclusive access, after an upgrade was granted under `latch` or before.
    fn upgraded(self, participant: ParticipantId) -> ExclusiveGuard {
        let SharedGuard { access, share } = self;
        access.end();
        ExclusiveGuard::made(&share, participant)
    }

    /// Upgrades at once if no other reader is there, else gives the guard back.
    pub(crate) fn try_upgrade(self, participant: ParticipantId) -> Result<ExclusiveGuard, Self> {
        let mut latch = self.share.core.lock.latch();
        if !latch.admit(Want::Upgrade, self.share.slot, participant) {
            drop(latch);
            return Err(self);
        }
        drop(latch);
        Ok(self.upgraded(participant))
    }

    /// Exclusive access for a reader whose upgrade was granted while it stood in the queue.
    pub(crate) fn enter_upgraded(self, participant: ParticipantId) -> ExclusiveGuard {
        self.share.core.lock.latch().enter(participant);
        self.upgraded(participant)
    }
}

impl Deref for SharedGuard {
    type Target = Partition;
    #[inline]
    fn deref(&self) -> &Partition {
        &self.access
    }
}

/// Read and write access to a partition that is locked exclusively.
pub(crate) struct ExclusiveGuard {
    access: root::Write,
    share: Arc<Share>,
    participant: ParticipantId,
}

impl ExclusiveGuard {
    /// The guard of a participant that has just become the owner and has entered.
    #[inline]
    fn made(share: &Arc<Share>, participant: ParticipantId) -> Self {
        // SAFETY: the participant is the owner and has entered, which happens once per grant, so
        // this is the only guard (invariants 1 and 2) until `release`; `share` keeps the root
        // alive as long as the access.
        let access = unsafe { share.core.root.write() };
        ExclusiveGuard { access, share: Arc::clone(share), participant }
    }

    /// The guard of a writer whose place in the queue has been granted and whose thread has woken
    /// up.
    pub(crate) fn enter(share: &Arc<Share>, participant: ParticipantId) -> Self {
        share.core.lock.latch().enter(participant);
        Self::made(share, participant)
    }

    pub(crate) fn id(&self) -> PartitionId {
        self.share.id()
    }

    pub(crate) fn is_logged(&self) -> bool {
        self.share.core.logged == Logged::Yes
    }

    /// LSN behind the last commit that changed the partition before this owner.
    pub(crate) fn changed(&self) -> Lsn {
        self.share.changed()
    }
}

/// A guard on its way out, under the latch of its partition.
pub(crate) struct Releasing<'a> {
    latch: CellLatch<'a>,
    access: &'a mut root::Write,
    participant: ParticipantId,
}

impl<'a> Releasing<'a> {
    #[inline]
    fn latched(guard: &'a mut ExclusiveGuard) -> Self {
        Releasing {
            latch: guard.share.latch(),
            access: &mut guard.access,
            participant: guard.participant,
        }
    }

    pub(crate) fn id(&self) -> PartitionId {
        self.latch.core.id
    }

    pub(crate) fn root(&self) -> &Partition {
        self.access
    }

    /// Notes that the partition's last change stands in the log before `end`.
    pub(crate) fn logged(&self, end: Lsn) {
        self.latch.core.changed.store(end.0, Ordering::Relaxed);
    }
}

/// Gives exclusive locks back, all at one moment: no cut sees some of them held and others not.
///
/// Shape: `guards` are sorted by id, and the caller drops them next. `at_that_moment` runs under
/// the latches of all these partitions, before any other participant can enter.
#[inline]
pub(crate) fn release_together<R>(
    guards: &mut [ExclusiveGuard],
    at_that_moment: impl FnOnce(&[Releasing<'_>]) -> R,
) -> R {
    debug_assert!(guards.is_sorted_by_key(ExclusiveGuard::id));
    if planted::is(planted::TORN_COMMIT) && guards.len() > 1 {
        let (first, rest) = guards.split_at_mut(1);
        release_latched([Releasing::latched(&mut first[0])], |_| ());
        return release_latched([Releasing::latched(&mut rest[0])], at_that_moment);
    }
    match guards {
        [only] => release_latched([Releasing::latched(only)], at_that_moment),
        _ => {
            // On the stack for most transactions, which lock a handful.
            let latched: SmallVec<[Releasing<'_>; 8]> =
                guards.iter_mut().map(Releasing::latched).collect();
            release_latched(latched, at_that_moment)
        }
    }
}

fn release_latched<'a, R>(
    mut latched: impl AsMut<[Releasing<'a>]> + AsRef<[Releasing<'a>]>,
    at_that_moment: impl FnOnce(&[Releasing<'_>]) -> R,
) -> R {
    let result = at_that_moment(latched.as_ref());
    let mut granted = Granted::default();
    for releasing in latched.as_mut() {
        releasing.latch.core.root.put_back(releasing.access);
        granted.append(releasing.latch.lock.release_exclusive(releasing.participant));
    }
    drop(latched);
    granted.wake();
    result
}

impl Deref for ExclusiveGuard {
    type Target = Partition;
    #[inline]
    fn deref(&self) -> &Partition {
        &self.access
    }
}

impl DerefMut for ExclusiveGuard {
    #[inline]
    fn deref_mut(&mut self) -> &mut Partition {
        &mut self.access
    }
}

/// A partition's latch, with a view of the root while no writer can touch it.
pub(crate) struct CellLatch<'a> {
    pub(crate) lock: Latch<'a>,
    core: &'a Core,
}

impl CellLatch<'_> {
    /// Where the log ends that holds the last commit which changed the partition.
    pub(crate) fn changed(&self) -> Lsn {
        Lsn(self.core.changed.load(Ordering::Relaxed))
    }

    /// A copy of the root, unless an owner has entered; no owner can enter while the latch is held.
    pub(crate) fn free_root(&self) -> Option<Partition> {
        if self.lock.owner().is_some_and(|owner| owner.entered) {
            return None;
        }
        // SAFETY: an exclusive guard is made only for an owner that has entered (invariant 2),
        // which takes this latch; there is none now, and we drop the access before the latch.
        let access = unsafe { self.core.root.read() };
        Some(Partition::clone(&access))
    }
}

#[cfg(not(any(shuttle, feature = "checked-root")))]
mod root {
    //! The root in an `UnsafeCell`: access costs nothing.

    use super::Partition;
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};
    use std::ptr::NonNull;

    pub(super) struct Root(UnsafeCell<Partition>);

    // SAFETY: a root is reached only by `read` and `write`, whose callers promise many readers or
    // one writer; both kinds of reference may cross threads, since `Partition: Send + Sync`.
    unsafe impl Sync for Root {}

    const _: () = {
        const fn crosses_threads<T: Send + Sync>() {}
        crosses_threads::<Partition>();
    };

    impl Root {
        pub(super) fn new(partition: Partition) -> Self {
            Root(UnsafeCell::new(partition))
        }

        /// # Safety
        /// Until the result is dropped the root is neither dropped nor written: the caller's lock
        /// excludes every [`Write`].
        #[inline]
        pub(super) unsafe fn read(&self) -> Read {
            Read(NonNull::from(&self.0).cast())
        }

        /// # Safety
        /// Until the result is put back the root is not dropped, and no other access to it exists:
        /// the caller's lock excludes every [`Read`] and [`Write`]. Then it is not used any more.
        #[inline]
        pub(super) unsafe fn write(&self) -> Write {
            Write(NonNull::from(&self.0).cast())
        }

        #[inline]
        pub(super) fn put_back(&self, _access: &mut Write) {}
    }

    pub(super) struct Read(NonNull<Partition>);

    impl Read {
        /// Before the lock is given back; the safe twin counts accesses.
        #[inline]
        pub(super) fn end(self) {}
    }

    // SAFETY: it is a `&Partition` whose lifetime the maker vouches for, and `Partition: Sync`.
    unsafe impl Send for Read {}
    // SAFETY: as above.
    unsafe impl Sync for Read {}

    impl Deref for Read {
        type Target = Partition;
        #[inline]
        fn deref(&self) -> &Partition {
            // SAFETY: the caller of `Root::read` promised that the root lives and is not written
            // as long as `self`. `UnsafeCell<T>` has the layout of `T`.
            unsafe { self.0.as_ref() }
        }
    }

    pub(super) struct Write(NonNull<Partition>);

    // SAFETY: it is a `&mut Partition` whose lifetime and uniqueness the maker vouches for, and
    // `Partition: Send`.
    unsafe impl Send for Write {}
    // SAFETY: a `&Write` only gives `&Partition`, and `Partition: Sync`.
    unsafe impl Sync for Write {}

    impl Deref for Write {
        type Target = Partition;
        #[inline]
        fn deref(&self) -> &Partition {
            // SAFETY: the caller of `Root::write` promised that this is the only access as long as
            // `self`; `&self` excludes `deref_mut`.
            unsafe { self.0.as_ref() }
        }
    }

    impl DerefMut for Write {
        #[inline]
        fn deref_mut(&mut self) -> &mut Partition {
            // SAFETY: as in `deref`; `&mut self` excludes every other reference made by `self`.
            unsafe { self.0.as_mut() }
        }
    }
}

#[cfg(any(shuttle, feature = "checked-root"))]
mod root {
    //! The safe twin: readers count references to the root, a writer takes it out and must then be
    //! the only one who has it. A lock that lets two writers in panics here.
    //!
    //! `read` and `write` are `unsafe` only to have the same interface.

    use super::Partition;
    use halcyon_base::sync::Mutex;
    use std::ops::{Deref, DerefMut};
    use triomphe::Arc;

    pub(super) struct Root(Mutex<Option<Arc<Partition>>>);

    impl Root {
        pub(super) fn new(partition: Partition) -> Self {
            Root(Mutex::new(Some(Arc::new(partition))))
        }

        /// # Safety
        /// None needed.
        pub(super) unsafe fn read(&self) -> Read {
            let root = self.0.lock();
            Read(Arc::clone(root.as_ref().expect("a reader entered beside the writer")))
        }

        /// # Safety
        /// None needed.
        pub(super) unsafe fn write(&self) -> Write {
            let mut root = self.0.lock().take().expect("a second writer entered");
            assert!(Arc::get_mut(&mut root).is_some(), "a writer entered beside a reader");
            Write(Some(root))
        }

        pub(super) fn put_back(&self, access: &mut Write) {
            let root = access.0.take().expect(UNUSED);
            let before = self.0.lock().replace(root);
            assert!(before.is_none(), "the root was there while a writer had it");
        }
    }

    pub(super) struct Read(Arc<Partition>);

    impl Read {
        /// Before the lock is given back, or the next writer finds a reader.
        pub(super) fn end(self) {}
    }

    impl Deref for Read {
        type Target = Partition;
        fn deref(&self) -> &Partition {
            &self.0
        }
    }

    /// Empty once it is put back.
    pub(super) struct Write(Option<Arc<Partition>>);

    const UNUSED: &str = "an access is not used after it was put back";

    impl Deref for Write {
        type Target = Partition;
        fn deref(&self) -> &Partition {
            self.0.as_ref().expect(UNUSED)
        }
    }

    impl DerefMut for Write {
        fn deref_mut(&mut self) -> &mut Partition {
            Arc::get_mut(self.0.as_mut().expect(UNUSED)).expect("the writer is alone")
        }
    }
}
