//! Groups of tasks: placed together, awaited together, aborted together (P3 §5, Figure 5).
//!
//! | P3 | here |
//! |---|---|
//! | `bas_task_create` | [`Group::task`], [`Group::pull`] |
//! | `bas_ptask_create` | [`crate::Runtime::group`] |
//! | `bas_ptask_enqueue(ptask, locality)` | [`Group::enqueue`] |
//! | `bas_wait` | [`RunningGroup::wait`], or awaiting it |
//! | `bas_abort` | [`RunningGroup::abort`] |
//!
//! A task that a task of the group spawns belongs to the group. The group lives in a table of the
//! runtime (`group_table`), and tasks name it by number.

use crate::annotation::{Annotation, CacheUse, ClassId, IslandId, Priority, TaskPlace, WorkerId};
use crate::future::{FutureHandle, future_task};
use crate::group_table::{EnqueueError, GroupError, GroupId, GroupState};
use crate::morsel::{Morsels, Puller};
use crate::worker::limits::QuotaId;
use crate::worker::shared::Shared;
use crate::worker::sleeper::{Sleeper, Suspendable};
use crate::worker::slot::TaskRef;
use crate::worker::task::{Once, Task};
use crate::worker::{Context, outside_workers};
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Polled, Poll};
use std::time::Duration;

/// A lease: the right to name a group. The number is given back with the last lease.
struct Lease {
    shared: Arc<Shared>,
    id: GroupId,
}

impl Lease {
    fn state(&self) -> &GroupState {
        self.shared.groups.state(self.id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = self.state();
        let mut inner = state.inner.lock();
        if state.live.load(Ordering::SeqCst) == 0 {
            if state.limited() {
                self.shared.limits.remove(self.id);
            }
            self.shared.groups.recycle(self.id, &mut inner);
        } else {
            inner.released = true;
        }
    }
}

/// Where a group's tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// All tasks on one island, the least busy one (P3's rule) of those where the group has fewest neighbours that its
    /// use of the cache hurts or that hurt it ([`Group::cache`]).
    OneIsland,
    /// All tasks on this island.
    Island(IslandId),
    /// Anywhere.
    Spread,
    /// On `workers` workers of this island that no other group uses until this one ends. Other
    /// tasks whose resource is at home there wait as long.
    Dedicated {
        /// The island.
        island: IslandId,
        /// Number of the island's workers.
        workers: usize,
    },
}

/// A quota: how many workers may run tasks of several groups at once. Clones are the same quota; without a handle
/// left there is none.
#[derive(Clone)]
pub struct Quota(Arc<OwnQuota>);

struct OwnQuota {
    shared: Arc<Shared>,
    id: QuotaId,
}

impl Quota {
    pub(crate) fn new(shared: &Arc<Shared>, workers: usize) -> Quota {
        let id = shared.limits.add_quota(workers);
        Quota(Arc::new(OwnQuota { shared: Arc::clone(shared), id }))
    }

    /// Changes the quota. Workers that are too many end their steps, and take no new ones. With a quota of 0 nothing
    /// runs until it is changed again, for which the caller takes care.
    pub fn set(&self, workers: usize) {
        let OwnQuota { shared, id } = &*self.0;
        let ready = shared.limits.change_quota(*id, workers);
        ready.into_iter().for_each(|task| shared.inject_counted(task));
    }
}

impl Drop for OwnQuota {
    fn drop(&mut self) {
        let ready = self.shared.limits.remove_quota(self.id);
        ready.into_iter().for_each(|task| self.shared.inject_counted(task));
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota").finish_non_exhaustive()
    }
}

/// Makes a worker's share in a source of morsels.
type MakePuller = Box<dyn Fn(WorkerId, &Arc<Shared>) -> TaskRef + Send>;

/// A group that is being composed.
pub struct Group {
    lease: Arc<Lease>,
    composed: Vec<TaskRef>,
    pulls: Vec<MakePuller>,
    limit: Option<usize>,
    quotas: Vec<Quota>,
    cache: CacheUse,
    /// Something follows the group's end.
    continues: bool,
}

impl Group {
    pub(crate) fn new(shared: &Arc<Shared>) -> Group {
        let lease = Arc::new(Lease { shared: Arc::clone(shared), id: shared.groups.take() });
        Group {
            lease,
            composed: Vec::new(),
            pulls: Vec::new(),
            limit: None,
            quotas: Vec::new(),
            cache: CacheUse::Adaptive,
            continues: false,
        }
    }

    /// What the runtime's parts share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.lease.shared
    }

    /// Adds a task. The task holds no credit: a group's memory is bounded by the tasks that were
    /// composed.
    ///
    /// Panics: if the runtime has no such worker, island or plane as the annotation asks for.
    pub fn task<F>(&mut self, annotation: Annotation, function: F)
    where
        F: FnOnce(&mut Context) + Send + 'static,
    {
        self.step_task(annotation, Once(Some(function)));
    }

    /// As [`Group::task`], for a [`Task`].
    pub fn step_task<T: Task>(&mut self, annotation: Annotation, task: T) {
        self.lease.shared.check_place(&annotation);
        let task = self.lease.shared.make_outside(annotation, self.lease.id, false, task);
        self.composed.push(task);
    }

    /// Adds a future, which runs as a task of the group.
    ///
    /// Panics: as [`Group::task`].
    pub fn future<F>(&mut self, annotation: Annotation, future: F) -> FutureHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, handle) = future_task(&self.lease.shared, self.lease.id, future);
        self.step_task(annotation, task);
        handle
    }

    /// Lets at most `workers` workers run tasks of the group at once. Pulled work is queued on no
    /// more workers than that.
    ///
    /// Panics: if `workers` is 0.
    pub fn limit(&mut self, workers: usize) {
        assert!(workers > 0, "a group runs on at least one worker");
        self.limit = Some(workers);
    }

    /// Lets the tasks of the group run only as the quota allows, besides its other limits.
    pub fn under(&mut self, quota: &Quota) {
        self.quotas.push(quota.clone());
    }

    /// Says how the group's tasks use the cache, which decides about the island of [`Locality::OneIsland`], and on a divided
    /// runtime ([`crate::Runtime::divide`]) about the workers. A group that
    /// pollutes the cache runs on no more workers of an island than [`crate::Runtime::limit_polluters`] allows.
    pub fn cache(&mut self, cache: CacheUse) {
        self.cache = cache;
    }

    /// Spawns a task with the group's outcome once all tasks of the group have ended, also if they
    /// were dropped. The task belongs to no group; of several only the last one given runs.
    ///
    /// Panics: if the runtime has no such worker, island or plane as the annotation asks for.
    pub fn then<F>(&mut self, annotation: Annotation, function: F)
    where
        F: FnOnce(&mut Context, Result<(), GroupError>) + Send + 'static,
    {
        let shared = Arc::clone(&self.lease.shared);
        shared.check_place(&annotation);
        self.continues = true;
        self.lease.state().inner.lock().then = Some(Box::new(move |outcome| {
            let task = Once(Some(move |cx: &mut Context| function(cx, outcome)));
            shared.inject_counted(shared.make_outside(annotation, GroupId::NONE, false, task));
        }));
    }

    /// Adds work that is pulled: every worker that the group gets asks `source` for morsels until
    /// there are no more. Only one task per worker is queued.
    pub fn pull<M: Morsels>(&mut self, annotation: Annotation, source: Arc<M>) {
        let id = self.lease.id;
        self.pulls.push(Box::new(move |worker, shared| {
            let annotation = annotation.place(TaskPlace::Worker(worker));
            let puller = Puller::new(Arc::clone(&source), annotation);
            let puller = Suspendable::new(puller, Sleeper::new(shared, id));
            shared.make_outside(annotation, id, false, puller)
        }));
    }

    /// Hands the tasks to the workers that `locality` names.
    ///
    /// Errors: see [`EnqueueError`]; nothing has run then, and the tasks are dropped.
    pub fn enqueue(mut self, locality: Locality) -> Result<RunningGroup, EnqueueError> {
        let shared = Arc::clone(&self.lease.shared);
        if !shared.accepts() {
            return Err(EnqueueError::ShutDown);
        }
        self.lease.state().use_cache(self.cache);
        let mut workers = self.place(locality)?;
        let pollutes = self.cache == CacheUse::Polluting;
        if self.limit.is_some() || !self.quotas.is_empty() || pollutes {
            let quotas: Vec<QuotaId> = self.quotas.iter().map(|quota| quota.0.id).collect();
            let limit = self.limit.unwrap_or(usize::MAX);
            shared.limits.set(self.lease.id, limit, &quotas, pollutes);
            self.lease.state().limit();
        }
        if let Some(limit) = self.limit
            && !self.pulls.is_empty()
        {
            workers.truncate(limit);
        }
        if self.continues {
            // Counted from now on, so that no shutdown comes between the group and what follows.
            shared.injected.fetch_add(1, Ordering::SeqCst);
        }
        for make in std::mem::take(&mut self.pulls) {
            self.composed.extend(workers.iter().map(|&worker| make(worker, &shared)));
        }
        let running = RunningGroup { lease: Arc::clone(&self.lease) };
        let tasks = std::mem::take(&mut self.composed);
        let state = running.lease.state();
        if tasks.is_empty() {
            state.add(1);
            shared.groups.subtract(running.lease.id, 1, |worker| shared.release_worker(worker));
            return Ok(running);
        }
        state.add(tasks.len() as i64);
        shared.inject_spread(tasks, &workers);
        Ok(running)
    }

    /// The workers that the group may use, and that suit it.
    fn place(&self, locality: Locality) -> Result<Vec<WorkerId>, EnqueueError> {
        let workers = self.allowed(locality)?;
        let (shared, id) = (&self.lease.shared, self.lease.id);
        if !shared.parts.are_on() {
            return Ok(workers);
        }
        let suited = workers.iter().copied().filter(|worker| shared.suits(id, *worker));
        let suited: Vec<WorkerId> = suited.collect();
        Ok(if suited.is_empty() { workers } else { suited })
    }

    /// The workers that the group may use.
    fn allowed(&self, locality: Locality) -> Result<Vec<WorkerId>, EnqueueError> {
        let (shared, state) = (&self.lease.shared, self.lease.state());
        let known = |island: IslandId| {
            let known = usize::from(island.0) < shared.islands.len();
            if known { Ok(island) } else { Err(EnqueueError::NoSuchIsland(island)) }
        };
        let island = match locality {
            Locality::Spread => {
                state.island.store(0, Ordering::SeqCst);
                shared.groups.count_neighbour(self.lease.id, None, self.cache);
                return Ok(shared.free_workers(None));
            }
            Locality::OneIsland => shared.best_island(self.cache),
            Locality::Island(island) => known(island)?,
            Locality::Dedicated { island, workers } => {
                let island = known(island)?;
                let owned = shared.own_workers(island, workers, self.lease.id)?;
                state.island.store(u32::from(island.0) + 1, Ordering::SeqCst);
                state.inner.lock().owned.extend(&owned);
                return Ok(owned);
            }
        };
        state.island.store(u32::from(island.0) + 1, Ordering::SeqCst);
        shared.groups.count_neighbour(self.lease.id, Some(island), self.cache);
        let free = shared.free_workers(Some(island));
        Ok(if free.is_empty() {
            shared.islands[usize::from(island.0)].workers.clone()
        } else {
            free
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for task in self.composed.drain(..) {
            self.lease.shared.discard_outside(task);
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("tasks", &self.composed.len()).finish_non_exhaustive()
    }
}

impl Context {
    /// A new group, to be enqueued from here or handed on. No worker waits for a group.
    pub fn group(&self) -> Group {
        Group::new(&self.shared)
    }
}

/// A group whose tasks were handed to workers. Dropping it lets the group go on; clones are the
/// same group.
#[derive(Clone)]
pub struct RunningGroup {
    lease: Arc<Lease>,
}

impl RunningGroup {
    /// Waits until every task has ended.
    ///
    /// Panics: on a worker, which must never wait.
    pub fn wait(&self) -> Result<(), GroupError> {
        self.wait_for(Duration::MAX)
    }

    /// As [`RunningGroup::wait`], for at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Result<(), GroupError> {
        outside_workers("waits for a group");
        let state = self.lease.state();
        if let Some(result) = self.lease.shared.simulate_until(|| self.is_done()) {
            result.map_err(|()| GroupError::Stuck)?;
        }
        let until = std::time::Instant::now().checked_add(limit);
        let mut inner = state.inner.lock();
        while state.live.load(Ordering::SeqCst) != 0 {
            let left = match until {
                None => Duration::from_secs(3600),
                Some(until) => until.saturating_duration_since(std::time::Instant::now()),
            };
            if left.is_zero() {
                return Err(GroupError::TimedOut);
            }
            state.done.wait_for(&mut inner, left);
        }
        state.outcome(&inner)
    }

    /// Whether every task has ended.
    pub fn is_done(&self) -> bool {
        self.lease.state().live.load(Ordering::SeqCst) == 0
    }

    /// The group's number, which no other group has as long as a handle is left.
    pub fn number(&self) -> u32 {
        self.lease.id.0
    }

    /// How many tasks of the group have not ended; workers tell late, so at most as many.
    pub fn live(&self) -> u64 {
        self.lease.state().live.load(Ordering::SeqCst).max(0) as u64
    }

    /// Puts the group under other quotas from its next steps on; without effect on a group that was enqueued without
    /// a limit.
    pub fn under(&self, quotas: &[Quota]) {
        let shared = &self.lease.shared;
        let quotas: Vec<QuotaId> = quotas.iter().map(|quota| quota.0.id).collect();
        let ready = shared.limits.change_quotas(self.lease.id, &quotas);
        ready.into_iter().for_each(|task| shared.inject_counted(task));
    }

    /// Gives the tasks of the group another priority and class than those of their annotations: steps that run end as
    /// they began, waiting tasks are sorted in at the next turns of their workers, and what they spawn follows.
    ///
    /// Panics: if there is no such class.
    pub fn move_to(&self, priority: Priority, class: ClassId) {
        let annotation = Annotation::new().priority(priority).class(class);
        self.lease.shared.groups.move_to(self.lease.id, &annotation);
    }

    /// Stops the group: tasks that wait are dropped, running ones see [`crate::Context::should_stop`].
    /// Returns at once; [`RunningGroup::wait`] tells when all is quiet.
    pub fn abort(&self) {
        let state = self.lease.state();
        state.abort();
        if state.limited() {
            self.lease.shared.free_waiting(Some(self.lease.id));
        }
    }
}

impl fmt::Debug for RunningGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningGroup").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Awaits the group's end.
impl Future for RunningGroup {
    type Output = Result<(), GroupError>;

    fn poll(self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<Self::Output> {
        let state = self.lease.state();
        let mut inner = state.inner.lock();
        if state.live.load(Ordering::SeqCst) == 0 {
            return Poll::Ready(state.outcome(&inner));
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(polled.waker())) {
            inner.wakers.push(polled.waker().clone());
        }
        Poll::Pending
    }
}
