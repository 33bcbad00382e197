//! Annotations: a task's own account of its resource, urgency and place, by which the runtime
//! places, orders and synchronises the task.
//!
//! Source: P4 §4.2 ("MxTasks can be coupled with precise metadata"); the choice of a
//! synchronisation from isolation and access pattern follows MxTasks' published runtime.

use std::fmt;
use std::num::NonZeroU64;

/// A worker of a runtime, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

/// An island of a runtime, counted from 0: workers whose cores share a last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IslandId(pub u16);

/// A workload class, below [`CLASSES`]; classes of one priority share the time by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// How many classes there are.
pub const CLASSES: usize = 64;

/// How many priorities there are.
pub const BANDS: usize = 4;

/// The band that a task waits in. A higher band goes first; each lower one keeps a floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Latency-critical and short.
    Urgent = 0,
    /// Before ordinary work.
    High = 1,
    /// Ordinary work.
    #[default]
    Normal = 2,
    /// Work that may wait: maintenance, batch.
    Low = 3,
}

/// The kind of access of a task to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The task only reads the resource.
    Read,
    /// The task may change the resource.
    Write,
}

/// How accesses to a resource are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Synchronisation {
    /// The resource never changes: every task goes anywhere.
    ReadOnly = 0,
    /// All tasks run on the home worker, one after the other.
    Scheduling = 1,
    /// Tasks that write run on the home worker; readers run anywhere, are checked by version and
    /// retried.
    SchedulingWriters = 2,
    /// Tasks go anywhere; writers take the version's latch, readers are checked and retried.
    Optimistic = 3,
    /// Tasks go anywhere and take the latch.
    Latched = 4,
}

/// How often something happens to a resource, for [`Synchronisation::choose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frequency {
    /// Never.
    Never,
    /// Now and then.
    Rarely,
    /// Often.
    Often,
}

impl Synchronisation {
    /// The synchronisation for a resource that is read and written this often, if its readers can
    /// do with a version check (`optimistic_readers`).
    pub fn choose(reads: Frequency, writes: Frequency, optimistic_readers: bool) -> Self {
        match (reads, writes) {
            (_, Frequency::Never) => Synchronisation::ReadOnly,
            (_, Frequency::Rarely) if optimistic_readers => Synchronisation::Optimistic,
            (Frequency::Rarely | Frequency::Often, _) if optimistic_readers => {
                Synchronisation::SchedulingWriters
            }
            _ => Synchronisation::Scheduling,
        }
    }
}

/// A resource: data that tasks name in their annotation, by its home worker and the way in which
/// accesses are kept apart. A plain value of four bytes; any number of resources may share a home.
///
/// Made by [`crate::Runtime::resource`]. A resource orders tasks; the data itself is guarded by
/// [`crate::Owned`], or by a [`crate::Version`] inside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub(crate) home: WorkerId,
    pub(crate) synchronisation: Synchronisation,
}

impl Resource {
    /// A resource at a worker that the caller chooses.
    pub const fn new(home: WorkerId, synchronisation: Synchronisation) -> Self {
        Resource { home, synchronisation }
    }

    /// The worker whose tasks may write the resource.
    pub fn home(self) -> WorkerId {
        self.home
    }

    /// The way in which accesses to the resource are kept apart.
    pub fn synchronisation(self) -> Synchronisation {
        self.synchronisation
    }

    /// Whether a task with this access has to run at home.
    #[inline]
    pub(crate) const fn goes_home(self, access: Access) -> bool {
        match self.synchronisation {
            Synchronisation::Scheduling => true,
            Synchronisation::SchedulingWriters => matches!(access, Access::Write),
            _ => false,
        }
    }
}

/// The place of a task without a home: where it may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskPlace {
    /// On the worker that spawned the task, or on an idle worker of its island.
    #[default]
    Any,
    /// On this worker, nowhere else.
    Worker(WorkerId),
    /// On some worker of this island.
    Island(IslandId),
    /// On some worker of this plane.
    Plane(Plane),
}

/// The two parts of the machine (P3 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Plane {
    /// Workers that share their cores with everything else ([`crate::WorkerKind::Shared`]).
    Control = 0,
    /// Workers that own their cores ([`crate::WorkerKind::Dedicated`]).
    Compute = 1,
}

/// A task's use of the shared cache, for a scheduler that places classes on cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CacheUse {
    /// The use depends on the data.
    #[default]
    Adaptive = 0,
    /// The task lives from the cache: hash tables, trees.
    Sensitive = 1,
    /// The task fills the cache with data that is not read again: scans.
    Polluting = 2,
}

impl CacheUse {
    /// All uses, in the order of their numbers.
    pub const ALL: [CacheUse; 3] = [CacheUse::Adaptive, CacheUse::Sensitive, CacheUse::Polluting];

    /// The use's name.
    pub const fn name(self) -> &'static str {
        match self {
            CacheUse::Adaptive => "adaptive",
            CacheUse::Sensitive => "sensitive",
            CacheUse::Polluting => "polluting",
        }
    }
}

/// The annotation of a task. Sixteen bytes; built by chaining.
///
/// ```
/// use halcyon_task::{Access, Annotation, Priority, Resource, Synchronisation, WorkerId};
/// let resource = Resource::new(WorkerId(1), Synchronisation::SchedulingWriters);
/// let node = [0u64; 128];
/// let annotation =
///     Annotation::new().priority(Priority::High).on(resource, Access::Write).prefetch(&node, 256);
/// assert_eq!(annotation.home(), Some(WorkerId(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Annotation {
    /// Cache lines to fetch before the task runs.
    ahead: Ahead,
    /// All other properties, packed, so that a task is made and dispatched from registers. Never 0:
    /// a step's result (`Step`) then fits into two registers as well.
    word: NonZeroU64,
}

/// Set in every word, so that it is not 0.
const SET: u64 = 1 << 63;
/// Places in [`Annotation`]'s word: home, worker, island or plane at 0, what that is at 16.
const KIND: u32 = 16;
const CARRIES: u64 = 1 << 19;
/// Band and class are given; else they are those of the task that spawns.
const BAND_GIVEN: u64 = 1 << 20;
const CLASS_GIVEN: u64 = 1 << 21;
/// Two bits of band, then six of class: together the number of the ring.
const BAND: u32 = 22;
const CLASS: u32 = 24;
const CACHE: u32 = 30;
const TARGET_BITS: u64 = 0xffff | 7 << KIND;
const BAND_BITS: u64 = BAND_GIVEN | 3 << BAND;
const CLASS_BITS: u64 = CLASS_GIVEN | (CLASSES as u64 - 1) << CLASS;

const _: () = assert!(BANDS == 4 && CLASSES == 64, "two bits and six");
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Option<Annotation>>() == 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TargetKind {
    Any = 0,
    Worker = 1,
    Island = 2,
    Plane = 3,
    /// Home of a resource.
    Home = 4,
    /// Nowhere, until the task is woken: what a step that suspends returns.
    Suspended = 5,
}

/// Bytes that one prefetch fetches.
pub(crate) const LINE_BYTES: usize = 64;

/// What to fetch ahead: from bit [`AHEAD_LINES`] on the number of lines, at most 64; below it the
/// address of the first one, whose upper bits are 0 for memory of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ahead(u64);

const AHEAD_LINES: u32 = 57;

impl Ahead {
    #[inline(always)]
    pub(crate) const fn lines(self) -> usize {
        (self.0 >> AHEAD_LINES) as usize
    }

    #[inline(always)]
    pub(crate) const fn address(self) -> usize {
        (self.0 & ((1 << AHEAD_LINES) - 1)) as usize
    }
}

impl Default for Annotation {
    fn default() -> Self {
        Self::new()
    }
}

impl Annotation {
    /// A task without a resource that may run anywhere. Priority and class are those of the task
    /// that spawns it; from outside, normal and 0.
    pub const fn new() -> Self {
        Annotation { ahead: Ahead(0), word: NonZeroU64::new(SET).expect("a bit is set") }
    }

    #[inline(always)]
    const fn word(&self) -> u64 {
        self.word.get()
    }

    #[inline(always)]
    const fn with(mut self, bits: u64, value: u64) -> Self {
        self.word = NonZeroU64::new(self.word() & !bits | value | SET).expect("a bit is set");
        self
    }

    /// The task uses `resource`. Where that sends it home, [`Annotation::place`] has no say.
    ///
    /// Such a task is taken to carry references into structures whose memory is reclaimed: memory
    /// that was retired while the task waited stays until the task has ended
    /// ([`crate::Context::retire`]).
    #[inline]
    pub const fn on(self, resource: Resource, access: Access) -> Self {
        let carries = self.with(CARRIES, CARRIES);
        if resource.goes_home(access) {
            carries.at(TargetKind::Home, resource.home.0)
        } else if self.is(TargetKind::Home) {
            carries.at(TargetKind::Any, 0)
        } else {
            carries
        }
    }

    #[inline]
    const fn at(self, kind: TargetKind, target: u16) -> Self {
        self.with(TARGET_BITS, target as u64 | (kind as u64) << KIND)
    }

    #[inline(always)]
    pub(crate) const fn is(&self, kind: TargetKind) -> bool {
        self.word() >> KIND & 7 == kind as u64
    }

    /// Where the task may run, unless its resource decides.
    #[inline]
    pub const fn place(self, place: TaskPlace) -> Self {
        if self.is(TargetKind::Home) {
            return self;
        }
        match place {
            TaskPlace::Any => self.at(TargetKind::Any, 0),
            TaskPlace::Worker(worker) => self.at(TargetKind::Worker, worker.0),
            TaskPlace::Island(island) => self.at(TargetKind::Island, island.0),
            TaskPlace::Plane(plane) => self.at(TargetKind::Plane, plane as u16),
        }
    }

    /// The band that the task waits in.
    #[inline]
    pub const fn priority(self, band: Priority) -> Self {
        self.with(BAND_BITS, BAND_GIVEN | (band as u64) << BAND)
    }

    /// The class that pays for the task.
    ///
    /// Panics: if there is no such class.
    #[inline]
    pub const fn class(self, class: ClassId) -> Self {
        assert!((class.0 as usize) < CLASSES, "there are 64 classes");
        self.with(CLASS_BITS, CLASS_GIVEN | (class.0 as u64) << CLASS)
    }

    /// The task's use of the cache.
    #[inline]
    pub const fn cache(self, cache: CacheUse) -> Self {
        self.with(3 << CACHE, (cache as u64) << CACHE)
    }

    /// Fetches the first `bytes` at `data` into the cache shortly before the task runs; at most 64
    /// lines. The address is a hint: it is never read, and may be stale.
    #[inline]
    pub fn prefetch<T: ?Sized>(mut self, data: *const T, bytes: usize) -> Self {
        let lines = bytes.div_ceil(LINE_BYTES).min(64) as u64;
        self.ahead = Ahead(
            (data.cast::<u8>().addr() as u64 & ((1 << AHEAD_LINES) - 1)) | (lines << AHEAD_LINES),
        );
        self
    }

    /// Whether the task carries references into structures whose memory is reclaimed. On for tasks
    /// with a resource.
    #[inline]
    pub const fn carries_references(self, carries: bool) -> Self {
        self.with(CARRIES, if carries { CARRIES } else { 0 })
    }

    /// The worker to which the task's resource sends it, if it does.
    pub fn home(&self) -> Option<WorkerId> {
        self.is(TargetKind::Home).then_some(WorkerId(self.target()))
    }

    /// The task's use of the cache.
    pub fn cache_use(&self) -> CacheUse {
        match self.word() >> CACHE & 3 {
            1 => CacheUse::Sensitive,
            2 => CacheUse::Polluting,
            _ => CacheUse::Adaptive,
        }
    }

    /// The annotation, completed from that of the spawning task. Bits of properties that are not
    /// given are 0.
    #[inline(always)]
    pub(crate) const fn or(self, spawner: &Annotation) -> Self {
        const INHERITED: [u64; 4] = [BAND_BITS | CLASS_BITS, CLASS_BITS, BAND_BITS, 0];
        let inherited = INHERITED[(self.word() / BAND_GIVEN % 4) as usize];
        self.with(0, spawner.word() & inherited)
    }

    /// Whether both or none carry references.
    #[inline(always)]
    pub(crate) const fn carries_as(&self, other: &Annotation) -> bool {
        (self.word() ^ other.word()) & CARRIES == 0
    }

    /// The annotation of the outside, where no task runs: normal priority and class 0.
    pub(crate) const OUTSIDE: Annotation =
        Annotation::new().priority(Priority::Normal).class(ClassId(0));

    /// What a step that suspends returns.
    pub(crate) const SUSPENDED: Annotation = Annotation::new().at(TargetKind::Suspended, 0);

    #[inline(always)]
    pub(crate) const fn target(&self) -> u16 {
        self.word() as u16
    }

    #[inline(always)]
    pub(crate) const fn target_kind(&self) -> TargetKind {
        match self.word() >> KIND & 7 {
            0 => TargetKind::Any,
            1 => TargetKind::Worker,
            2 => TargetKind::Island,
            3 => TargetKind::Plane,
            4 => TargetKind::Home,
            _ => TargetKind::Suspended,
        }
    }

    #[inline(always)]
    pub(crate) const fn band(&self) -> usize {
        (self.word() >> BAND & 3) as usize
    }

    #[inline(always)]
    pub(crate) const fn class_id(&self) -> ClassId {
        ClassId((self.word() >> CLASS) as u8 & (CLASSES as u8 - 1))
    }

    /// Band and class as one number below `BANDS * CLASSES`: the band in its low bits.
    #[inline(always)]
    pub(crate) const fn ring(&self) -> usize {
        (self.word() >> BAND) as usize & (BANDS * CLASSES - 1)
    }

    #[inline(always)]
    pub(crate) const fn carries(&self) -> bool {
        self.word() & CARRIES != 0
    }

    /// The annotation with the band and the class of a ring.
    pub(crate) const fn of_ring(self, ring: usize) -> Self {
        self.with(BAND_BITS | CLASS_BITS, BAND_GIVEN | CLASS_GIVEN | (ring as u64) << BAND)
    }

    /// Cache lines to fetch before the task runs.
    #[inline(always)]
    pub(crate) const fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// Whether another worker of the island may take the task over.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.is(TargetKind::Any) || self.is(TargetKind::Island)
    }
}

impl fmt::Debug for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotation")
            .field("band", &self.band())
            .field("class", &self.class_id())
            .field("target", &(self.target_kind(), self.target()))
            .field("cache", &self.cache_use())
            .field("lines", &self.ahead.lines())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_for_writers_only_where_readers_are_optimistic() {
        let home = |synchronisation, access| {
            Annotation::new().on(Resource::new(WorkerId(3), synchronisation), access).home()
        };
        let at = Some(WorkerId(3));
        assert_eq!(home(Synchronisation::Scheduling, Access::Read), at);
        assert_eq!(home(Synchronisation::SchedulingWriters, Access::Write), at);
        assert_eq!(home(Synchronisation::SchedulingWriters, Access::Read), None);
        assert_eq!(home(Synchronisation::Optimistic, Access::Write), None);
        assert_eq!(home(Synchronisation::ReadOnly, Access::Read), None);
    }

    #[test]
    fn resource_overrides_place_and_the_next_one_overrides_it() {
        let write = Resource::new(WorkerId(1), Synchronisation::SchedulingWriters);
        let at_home =
            Annotation::new().on(write, Access::Write).place(TaskPlace::Worker(WorkerId(9)));
        assert_eq!(at_home.home(), Some(WorkerId(1)));
        assert_eq!(at_home.on(write, Access::Read).home(), None);
    }

    #[test]
    fn what_is_not_given_is_the_spawners() {
        let spawner = Annotation::new().priority(Priority::Urgent).class(ClassId(9));
        let inherits = Annotation::new().cache(CacheUse::Polluting).or(&spawner);
        assert_eq!((inherits.band(), inherits.class_id()), (0, ClassId(9)));
        assert_eq!(inherits.cache_use(), CacheUse::Polluting);
        let own = Annotation::new().priority(Priority::Low).class(ClassId(63)).or(&spawner);
        let own = own.cache(CacheUse::Sensitive);
        assert_eq!((own.band(), own.class_id(), own.ring()), (3, ClassId(63), 255));
        assert_eq!(own.cache_use(), CacheUse::Sensitive);
        assert_eq!(Annotation::new().or(&Annotation::OUTSIDE).ring(), Priority::Normal as usize);
    }

    #[test]
    fn lines_to_fetch_are_whole_and_at_most_64() {
        let data = [0u8; 8192];
        let lines = |bytes| Annotation::new().prefetch(&data, bytes).ahead().lines();
        assert_eq!([0, 1, 64, 65, 4096, 8192].map(lines), [0, 1, 1, 2, 64, 64]);
        assert_eq!(Annotation::new().prefetch(&data, 1).ahead().address(), data.as_ptr().addr());
    }

    #[test]
    fn synchronisation_follows_the_access_pattern() {
        use Frequency::*;
        assert_eq!(Synchronisation::choose(Often, Never, false), Synchronisation::ReadOnly);
        assert_eq!(Synchronisation::choose(Often, Rarely, true), Synchronisation::Optimistic);
        assert_eq!(Synchronisation::choose(Often, Often, true), Synchronisation::SchedulingWriters);
        assert_eq!(Synchronisation::choose(Often, Often, false), Synchronisation::Scheduling);
    }
}
