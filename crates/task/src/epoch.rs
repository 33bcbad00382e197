//! Reclamation by epochs: when memory that tasks may still see can be freed.
//!
//! Words: the *epoch* is a count that all workers see; a worker *announces* it between tasks, when
//! it holds no reference; a worker that parks is *offline*. A task that *carries references*
//! (addresses in its captures or its annotation) has a *tag*, the epoch from which they may be.
//! Garbage is stamped with the epoch in which it was retired.
//!
//! Between tasks a worker holds nothing, so running to completion makes reclamation free: no
//! pin per operation. But a task that waits may carry an address across that point; so tasks
//! that carry references are counted by tag, and the epoch waits for them too.
//!
//! Invariants, checked by the model `retired_memory_waits_for_tasks_that_refer_to_it`, in which a
//! planted bug is found (`canary_epoch_that_ignores_tasks_is_caught`):
//! 1. The epoch goes from `g` to `g + 1` only when every worker and guard has announced `g` or is
//!    offline, and every task that carries references has tag `g`.
//! 2. A task's tag is at most the epoch of the references that it carries: a task that is spawned
//!    inherits the tag of a spawner that carries references, else it has its worker's epoch.
//! 3. Garbage with stamp `e` is freed at epoch `e + 2` or later.
//!
//! Why that is enough: a reference obtained in epoch `e` is held by a running task, whose worker
//! has announced at most `e`, or carried by a task with a tag of at most `e` (2). By (1) neither is
//! left at `e + 2`. A task that begins at `e + 1` cannot find memory that was unlinked before a
//! worker read `e` as the epoch: the fences in `announce` and `stamp` order the two.
//!
//! Tasks are counted per worker by two counts that only grow. Ended are summed first and begun
//! afterwards, so equal sums prove that there was a moment without any (Mattern 1987).
//! Cost: a load per turn, two plain additions per task that carries references.
//! Source: quiescent-state reclamation (McKenney 1998); three epochs: Fraser 2004.

use halcyon_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use halcyon_base::sync::{Mutex, hint};
use std::collections::VecDeque;

use crate::planted;

/// Tags are epochs modulo this.
const TAGS: usize = 4;
const OFFLINE: u64 = u64::MAX;
/// Guards that outside threads can hold at once.
const GUARDS: usize = 64;

/// The announcement of one worker to the others.
#[repr(align(128))]
struct Announcement {
    epoch: AtomicU64,
    begun: [AtomicU64; TAGS],
    ended: [AtomicU64; TAGS],
}

impl Announcement {
    fn offline() -> Announcement {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Announcement { epoch: AtomicU64::new(OFFLINE), begun: zeros(), ended: zeros() }
    }
}

/// The epoch, and every worker's announcement.
pub(crate) struct Epochs {
    global: AtomicU64,
    /// Announcements, one per worker, and a last one for tasks that come from outside.
    announcements: Box<[Announcement]>,
    guards: Box<[AtomicU64]>,
    /// Garbage of workers that sleep or have ended.
    orphans: Mutex<Limbo>,
    orphan_count: AtomicUsize,
}

/// Low bits of an epoch.
#[inline]
pub(crate) fn tag_of(epoch: u64) -> u8 {
    (epoch % TAGS as u64) as u8
}

impl Epochs {
    pub(crate) fn new(workers: usize) -> Epochs {
        Epochs {
            global: AtomicU64::new(2),
            announcements: (0..=workers).map(|_| Announcement::offline()).collect(),
            guards: (0..GUARDS).map(|_| AtomicU64::new(OFFLINE)).collect(),
            orphans: Mutex::default(),
            orphan_count: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.global.load(Ordering::Acquire)
    }

    /// Counts a task that comes from outside and returns its tag: one that is older than any
    /// reference its maker's guard can have given it.
    pub(crate) fn begin_outside(&self) -> u8 {
        let guard = self.enter();
        let epoch = self.guards[guard].load(Ordering::Relaxed);
        let tag = tag_of(epoch - 1);
        let outside = self.announcements.last().expect("there is one more than workers");
        outside.begun[usize::from(tag)].fetch_add(1, Ordering::SeqCst);
        self.depart(guard);
        tag
    }

    /// Counts the end of a task that no worker has run.
    pub(crate) fn end_outside(&self, tag: u8) {
        let outside = self.announcements.last().expect("there is one more than workers");
        outside.ended[usize::from(tag)].fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a guard's place and announces the epoch there.
    pub(crate) fn enter(&self) -> usize {
        loop {
            let epoch = self.now();
            let free = self.guards.iter().position(|guard| {
                guard.load(Ordering::Relaxed) == OFFLINE
                    && guard
                        .compare_exchange(OFFLINE, epoch, Ordering::SeqCst, Ordering::Relaxed)
                        .is_ok()
            });
            let Some(place) = free else {
                hint::spin_loop();
                continue;
            };
            fence(Ordering::SeqCst);
            if self.now() == epoch {
                return place;
            }
            self.guards[place].store(OFFLINE, Ordering::Release);
        }
    }

    /// Gives back a place that [`Epochs::enter`] has taken.
    pub(crate) fn depart(&self, place: usize) {
        self.guards[place].store(OFFLINE, Ordering::Release);
    }

    /// Goes to the next epoch if invariant 1 allows it. Any thread.
    pub(crate) fn try_advance(&self) -> bool {
        let epoch = self.global.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let here = |announced: &AtomicU64| {
            let at = announced.load(Ordering::SeqCst);
            at == epoch || at == OFFLINE
        };
        let quiet = self.announcements.iter().all(|worker| here(&worker.epoch))
            && self.guards.iter().all(here)
            && (planted::is(planted::EPOCH_IGNORES_TASKS)
                || (0..TAGS)
                    .all(|tag| tag == usize::from(tag_of(epoch)) || self.none_carries(tag)));
        quiet
            && self
                .global
                .compare_exchange(epoch, epoch + 1, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether a worker has left garbage to the others.
    #[inline]
    pub(crate) fn has_orphans(&self) -> bool {
        self.orphan_count.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn free_orphans(&self) -> u64 {
        let Some(mut orphans) = self.orphans.try_lock() else { return 0 };
        let freed = free(&mut orphans, self.now());
        self.orphan_count.store(orphans.len(), Ordering::Relaxed);
        freed
    }

    /// Drops all garbage: there is no task left, and no guard.
    pub(crate) fn clear(&self) {
        self.orphans.lock().clear();
    }

    /// Whether there was a moment in this call without a task of this tag.
    fn none_carries(&self, tag: usize) -> bool {
        let ended: u64 = self.sum(|worker| &worker.ended[tag]);
        fence(Ordering::SeqCst);
        let begun: u64 = self.sum(|worker| &worker.begun[tag]);
        ended == begun
    }

    fn sum(&self, count: impl Fn(&Announcement) -> &AtomicU64) -> u64 {
        let counts = self.announcements.iter().map(|worker| count(worker).load(Ordering::SeqCst));
        counts.fold(0, u64::wrapping_add)
    }
}

/// A value to be dropped once no task can see it.
pub(crate) type Garbage = Box<dyn Retired>;

/// Anything that can be dropped on another thread.
pub(crate) trait Retired: Send {}
impl<T: Send> Retired for T {}

/// Retired values with the epoch of their retirement, oldest first.
type Limbo = VecDeque<(u64, Garbage)>;

/// A worker's part in reclamation.
pub(crate) struct Local {
    worker: usize,
    announced: u64,
    begun: [u64; TAGS],
    ended: [u64; TAGS],
    limbo: Limbo,
}

impl Local {
    pub(crate) fn new(worker: usize) -> Local {
        let limbo = Limbo::new();
        Local { worker, announced: OFFLINE, begun: [0; TAGS], ended: [0; TAGS], limbo }
    }

    /// Announces the epoch. Only between tasks.
    #[inline]
    pub(crate) fn announce(&mut self, epochs: &Epochs) {
        let now = epochs.now();
        if now != self.announced {
            self.announce_changed(epochs, now);
        }
    }

    #[cold]
    fn announce_changed(&mut self, epochs: &Epochs, mut now: u64) {
        let place = &epochs.announcements[self.worker].epoch;
        loop {
            place.store(now, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let later = epochs.now();
            if later == now {
                break;
            }
            now = later;
        }
        self.announced = now;
    }

    /// Announces that this worker holds no reference until its next announcement. Only between
    /// tasks.
    pub(crate) fn go_offline(&mut self, epochs: &Epochs) {
        self.announced = OFFLINE;
        epochs.announcements[self.worker].epoch.store(OFFLINE, Ordering::SeqCst);
    }

    /// Tag for a task whose spawner carries no references.
    #[inline]
    pub(crate) fn tag(&self) -> u8 {
        tag_of(self.announced)
    }

    /// Counts a task that carries references. Called before any other worker can see the task.
    #[inline]
    pub(crate) fn begin(&mut self, tag: u8, epochs: &Epochs) {
        let begun = &mut self.begun[usize::from(tag)];
        *begun += 1;
        let place = &epochs.announcements[self.worker].begun[usize::from(tag)];
        place.store(*begun, Ordering::Release);
    }

    /// Counts the end of a task that carried references.
    #[inline]
    pub(crate) fn end(&mut self, tag: u8, epochs: &Epochs) {
        let ended = &mut self.ended[usize::from(tag)];
        *ended += 1;
        let place = &epochs.announcements[self.worker].ended[usize::from(tag)];
        place.store(*ended, Ordering::Release);
    }

    pub(crate) fn retire(&mut self, garbage: Garbage, epochs: &Epochs) {
        fence(Ordering::SeqCst);
        self.limbo.push_back((epochs.now(), garbage));
    }

    pub(crate) fn garbage(&self) -> usize {
        self.limbo.len()
    }

    /// Frees the values that no task can see, after an attempt to go on to the next epoch. Returns
    /// their number.
    pub(crate) fn collect(&mut self, epochs: &Epochs) -> u64 {
        epochs.try_advance();
        let orphans = if epochs.has_orphans() { epochs.free_orphans() } else { 0 };
        orphans + free(&mut self.limbo, epochs.now())
    }

    /// Leaves values that cannot be freed yet to other workers: a worker that sleeps or has ended
    /// frees nothing.
    pub(crate) fn leave(&mut self, epochs: &Epochs) {
        let mut orphans = epochs.orphans.lock();
        orphans.append(&mut self.limbo);
        orphans.make_contiguous().sort_by_key(|(stamp, _)| *stamp);
        epochs.orphan_count.store(orphans.len(), Ordering::Relaxed);
    }
}

/// Drops the values that were retired two epochs ago or earlier.
fn free(limbo: &mut Limbo, now: u64) -> u64 {
    let mut freed = 0;
    while limbo.front().is_some_and(|(stamp, _)| stamp + 2 <= now) {
        limbo.pop_front();
        freed += 1;
    }
    freed
}
