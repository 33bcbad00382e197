//! Limits of workers: of a group, and of quotas that several groups share; who runs, and which tasks wait for
//! their turn.
//!
//! A *seat* is the right of one worker to run one step of a task. A step of a limited group takes a seat of the
//! group and one of each of its quotas, or none: the task waits at the first that has none left. A step of a group that
//! pollutes the cache takes a seat of the island besides that it runs on.
//!
//! Invariants, checked by the models `limited_group_keeps_its_limit` and `groups_share_a_quota`, with a planted
//! bug:
//! 1. `taken` is the number of workers that run a task under the limit; it rises only while it is below `limit`.
//! 2. A task waits for a seat only while all are taken, none is there (a quota of 0), or its group is stopped: the
//!    worker that gives a seat back, and one whose task was called for a seat and does not take it, call the next task.
//! 3. Who stops a group says so first and makes its waiting tasks ready then; a task is laid down
//!    only after a look whether anybody said so, under the same lock.

use super::slot::TaskRef;
use crate::annotation::IslandId;
use crate::group_table::{GroupId, GroupTable};
use crate::planted;
use halcyon_base::sync::{Arc, Mutex};
use std::collections::{HashMap, VecDeque};

/// Seats, and the tasks that wait for one.
struct Seats {
    limit: usize,
    taken: usize,
    waiting: VecDeque<TaskRef>,
}

impl Seats {
    fn new(limit: usize) -> Self {
        assert!(limit > 0, "a task runs on at least one worker");
        Seats { limit, taken: 0, waiting: VecDeque::new() }
    }

    fn is_full(&self) -> bool {
        self.taken >= self.limit && !planted::is(planted::LIMIT_IGNORED)
    }

    /// Takes the waiting tasks of a group, or all.
    fn take_of(&mut self, group: Option<GroupId>, taken: &mut Vec<TaskRef>) {
        for task in std::mem::take(&mut self.waiting) {
            match group.is_none_or(|group| group == task.header().group()) {
                true => taken.push(task),
                false => self.waiting.push_back(task),
            }
        }
    }

    /// The next task, if there is a seat for it.
    fn call(&mut self) -> Option<TaskRef> {
        if self.is_full() { None } else { self.waiting.pop_front() }
    }
}

/// A group's seats, and the quotas that it shares with others.
struct Limited {
    seats: Seats,
    /// One for each island if the group pollutes the cache, else one.
    quotas: Box<[Quotas]>,
}

/// The quotas of a group on an island.
#[derive(Clone)]
pub(crate) struct Quotas {
    /// Quotas of which a step takes a seat.
    takes: Arc<[QuotaId]>,
    /// Quotas whose waiting tasks are called: of all islands, since a task may have been called here and waits there.
    calls: Arc<[QuotaId]>,
}

impl Quotas {
    /// The quotas of a group by island, or the only ones.
    fn of_group(own: &[QuotaId], islands: &[QuotaId]) -> Box<[Quotas]> {
        let calls: Arc<[QuotaId]> = own.iter().chain(islands).copied().collect();
        if islands.is_empty() {
            return Box::new([Quotas { takes: Arc::clone(&calls), calls }]);
        }
        let takes = |island| own.iter().chain([island]).copied().collect();
        islands.iter().map(|island| Quotas { takes: takes(island), calls: calls.clone() }).collect()
    }
}

/// The number of a quota; none comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuotaId(u64);

#[derive(Default)]
struct State {
    groups: HashMap<u32, Limited>,
    quotas: HashMap<QuotaId, Seats>,
    next: u64,
    /// Quotas of the groups that pollute the cache, by island.
    islands: Vec<QuotaId>,
}

impl State {
    fn add_quota(&mut self, limit: usize) -> QuotaId {
        let id = QuotaId(self.next);
        self.next += 1;
        self.quotas.insert(id, Seats::new(limit));
        id
    }

    /// The quotas of a group on an island; none for a group without a limit.
    fn quotas_of(&self, group: GroupId, island: IslandId) -> Quotas {
        let none = || Quotas { takes: Arc::from([]), calls: Arc::from([]) };
        self.groups.get(&group.0).map_or_else(none, |Limited { quotas, .. }| {
            quotas[usize::from(island.0).min(quotas.len() - 1)].clone()
        })
    }

    /// The seats of a group, unless it has ended, and those of the quotas.
    fn each_seats(&mut self, group: GroupId, own: &[QuotaId], mut each: impl FnMut(&mut Seats)) {
        let State { groups, quotas, .. } = self;
        if let Some(limited) = groups.get_mut(&group.0) {
            each(&mut limited.seats);
        }
        for quota in own.iter() {
            if let Some(seats) = quotas.get_mut(quota) {
                each(seats);
            }
        }
    }

    /// Calls a task for each of these seats that is free.
    fn call(&mut self, group: GroupId, own: &[QuotaId]) -> Vec<TaskRef> {
        let mut called = Vec::new();
        self.each_seats(group, own, |seats| called.extend(seats.call()));
        called
    }
}

/// The limits of a runtime.
pub(crate) struct Limits(Mutex<State>);

/// The outcome of an attempt to run a task.
pub(crate) enum Turn {
    /// The task may run; [`Limits::leave`] follows, with these quotas.
    Runs(TaskRef, Quotas),
    /// The task waits for a seat. The tasks were called for seats that it has not taken.
    Waits(Vec<TaskRef>),
    /// The task's group was stopped: the task is to be dropped.
    Stopped(TaskRef),
}

impl Limits {
    /// Limits of a runtime of so many islands, on which all workers may run groups that pollute the cache.
    pub(crate) fn new(islands: usize) -> Limits {
        let mut state = State::default();
        state.islands = (0..islands).map(|_| state.add_quota(usize::MAX)).collect();
        Limits(Mutex::new(state))
    }

    /// Gives a group a limit and quotas, and one of each island if it pollutes the cache. Panics: if the limit is 0.
    pub(crate) fn set(&self, group: GroupId, limit: usize, quotas: &[QuotaId], pollutes: bool) {
        let seats = Seats::new(limit);
        let mut state = self.0.lock();
        let islands = if pollutes { &state.islands[..] } else { &[] };
        let quotas = Quotas::of_group(quotas, islands);
        state.groups.insert(group.0, Limited { seats, quotas });
    }

    /// The quota of the groups that pollute the cache of an island.
    pub(crate) fn polluters_of(&self, island: IslandId) -> QuotaId {
        self.0.lock().islands[usize::from(island.0)]
    }

    /// Puts a group under other quotas; steps that run keep the seats that they have. Returns tasks that may run now.
    pub(crate) fn change_quotas(&self, group: GroupId, quotas: &[QuotaId]) -> Vec<TaskRef> {
        let mut state = self.0.lock();
        let State { groups, islands, .. } = &mut *state;
        let Some(limited) = groups.get_mut(&group.0) else { return Vec::new() };
        let pollutes = limited.quotas[0].calls.last().is_some_and(|last| islands.contains(last));
        let quotas = Quotas::of_group(quotas, if pollutes { islands } else { &[] });
        let before = std::mem::replace(&mut limited.quotas, quotas);
        // Who waits for a seat of a quota that is left asks again.
        let mut ready = Vec::new();
        for quota in before[0].calls.iter() {
            if let Some(seats) = state.quotas.get_mut(quota) {
                seats.take_of(Some(group), &mut ready);
            }
        }
        ready
    }

    /// A group's number is given back.
    pub(crate) fn remove(&self, group: GroupId) {
        self.0.lock().groups.remove(&group.0);
    }

    /// A new quota of so many workers. Panics: if it is 0.
    pub(crate) fn add_quota(&self, limit: usize) -> QuotaId {
        self.0.lock().add_quota(limit)
    }

    /// Changes a quota; steps that run go on. Returns tasks that may run now: none while the quota is 0.
    pub(crate) fn change_quota(&self, quota: QuotaId, limit: usize) -> Vec<TaskRef> {
        let mut state = self.0.lock();
        let Some(seats) = state.quotas.get_mut(&quota) else { return Vec::new() };
        seats.limit = limit;
        let free = limit.saturating_sub(seats.taken).min(seats.waiting.len());
        seats.waiting.drain(..free).collect()
    }

    /// Takes a quota away; its groups have none from now on. Returns the tasks that wait for it.
    pub(crate) fn remove_quota(&self, quota: QuotaId) -> Vec<TaskRef> {
        let removed = self.0.lock().quotas.remove(&quota);
        removed.map(|seats| seats.waiting.into()).unwrap_or_default()
    }

    /// Takes seats for a task, or lays it down. A task of a stopped group gets none, which the others may have
    /// meanwhile.
    pub(crate) fn enter(
        &self,
        group: GroupId,
        island: IslandId,
        task: TaskRef,
        groups: &GroupTable,
    ) -> Turn {
        let mut state = self.0.lock();
        let quotas = state.quotas_of(group, island);
        let stopped = groups.state(group).stopped();
        if stopped && !planted::is(planted::STOPPED_RUNS) {
            return Turn::Stopped(task);
        }
        let mut task = Some(task);
        if !stopped {
            state.each_seats(group, &quotas.takes, |seats| {
                if seats.is_full() {
                    seats.waiting.extend(task.take());
                }
            });
        }
        let Some(task) = task else { return Turn::Waits(state.call(group, &quotas.calls)) };
        state.each_seats(group, &quotas.takes, |seats| seats.taken += 1);
        Turn::Runs(task, quotas)
    }

    /// A step of a task of the group has ended: returns the tasks that are next. The group may have ended
    /// meanwhile, so the quotas are given.
    pub(crate) fn leave(&self, group: GroupId, quotas: &Quotas) -> Vec<TaskRef> {
        let mut state = self.0.lock();
        state.each_seats(group, &quotas.takes, |seats| seats.taken -= 1);
        state.call(group, &quotas.calls)
    }

    /// The quotas of a group, for [`Limits::pass`].
    pub(crate) fn quotas_of(&self, group: GroupId, island: IslandId) -> Quotas {
        self.0.lock().quotas_of(group, island)
    }

    /// A task of the group was dropped, which may have been called for a seat: returns the tasks that are next.
    pub(crate) fn pass(&self, group: GroupId, quotas: &Quotas) -> Vec<TaskRef> {
        self.0.lock().call(group, &quotas.calls)
    }

    /// Takes the waiting tasks of a group that was stopped, or of all groups.
    pub(crate) fn take_waiting(&self, group: Option<GroupId>) -> Vec<TaskRef> {
        let mut state = self.0.lock();
        let State { groups, quotas, .. } = &mut *state;
        let own = groups.values_mut().map(|limited| &mut limited.seats);
        let mut taken = Vec::new();
        own.chain(quotas.values_mut()).for_each(|seats| seats.take_of(group, &mut taken));
        taken
    }
}
