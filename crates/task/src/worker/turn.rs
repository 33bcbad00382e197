//! How a worker takes turns.
//!
//! Words: a *turn* is a batch of tasks of one band and class; time is read once per *chunk* of
//! at most 32 tasks or a microsecond, so once per task where tasks take that long.

use super::Context;
use super::limits::Turn;
use super::shared::{HomeMode, PARKED, STOPPING};
use super::sleeper;
use super::slot::{self, HOLDS_CREDIT, Header, TaskRef};
use super::task::Step;
use crate::annotation::{Annotation, BANDS, TargetKind, WorkerId};
use crate::counters::bump;
use crate::group_table::GroupId;
use crate::planted;
use crate::timers::NEVER;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Tasks taken from one inbox per turn.
const DRAIN: usize = 128;
/// Retired things before a worker tries to free some.
const GARBAGE: usize = 64;

impl Context {
    /// Runs a batch of tasks; false if there was none.
    pub(crate) fn turn(&mut self) -> bool {
        self.epoch.announce(&self.shared.epochs);
        self.stays = GroupId::NONE;
        self.look_at_owner();
        if self.shared.shares_version.load(Ordering::Relaxed) != self.shares_version {
            self.follow_shares();
        }
        self.any_moved = self.shared.groups.any_moved() && !planted::is(planted::MOVE_UNSEEN);
        if self.shared.groups.moves() != self.moves && !planted::is(planted::MOVE_UNSEEN) {
            self.follow_moves();
        }
        self.drain();
        self.dropping = self.shared.phase.load(Ordering::Relaxed) == STOPPING;
        let Some(ring) = self.queues.choose() else {
            if self.shared.timers.next_ticks() != NEVER {
                self.queues.now = self.clock.ticks();
            }
            self.end_turn();
            if self.me().mode() != HomeMode::Scheduled {
                self.look_at_delay();
            }
            return false;
        };
        if self.marked_idle {
            let waiting = self.queues.ring(ring);
            let short = (1..=self.limits.chunk).contains(&waiting.ticks_per_task);
            if !short || waiting.len() > 8 {
                self.unmark_idle();
            }
        }
        self.run_turn(ring);
        self.end_turn();
        true
    }

    /// Follows shares that were changed.
    #[cold]
    fn follow_shares(&mut self) {
        let shared = Arc::clone(&self.shared);
        let shares = shared.shares.lock();
        self.shares_version = shared.shares_version.load(Ordering::Relaxed);
        self.queues.share(&shares);
    }

    /// Sorts the waiting tasks of groups that were moved.
    #[cold]
    fn follow_moves(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.moves = shared.groups.moves();
        let is_elsewhere = |task: &TaskRef| {
            let header = task.header();
            shared.groups.moved(header.group(), &header.annotation).is_some()
        };
        let mut others = Vec::new();
        self.queues.take(is_elsewhere, |task| others.push(task));
        for mut task in others {
            let annotation = self.placed(&mut task);
            self.queues.push(task, &annotation);
        }
    }

    /// Gives a task the band and the class that its group was moved to; its annotation then.
    fn placed(&self, task: &mut TaskRef) -> Annotation {
        let header = task.header_mut();
        if let Some(annotation) = self.shared.groups.moved(header.group(), &header.annotation) {
            header.annotation = annotation;
        }
        header.annotation
    }

    /// Takes tasks from the inboxes into the queues.
    fn drain(&mut self) {
        for band in 0..BANDS {
            for _ in 0..DRAIN {
                let inbox = &self.shared.workers[usize::from(self.id.0)].inboxes.0[band];
                let Some(mut task) = self.receivers[band].pop(inbox, &mut self.pool) else { break };
                if self.any_moved {
                    self.placed(&mut task);
                }
                let header = *task.header();
                if self.owner != GroupId::NONE && self.owner != header.group() {
                    self.dispatch_far(task);
                } else {
                    self.queues.push(task, &header.annotation);
                }
            }
        }
    }

    /// Notices that a dedicated group has taken this worker, or left it.
    #[inline]
    fn look_at_owner(&mut self) {
        let owner = self.me().owner();
        if owner != self.owner {
            self.change_owner(owner);
        }
    }

    #[cold]
    fn change_owner(&mut self, owner: GroupId) {
        self.owner = owner;
        let mut others = std::mem::take(&mut self.aside);
        if owner != GroupId::NONE {
            self.queues.take(|task| task.header().group() != owner, |task| others.push(task));
        }
        if owner == GroupId::ABSENT {
            self.latch_resources();
        }
        for task in others {
            self.dispatch_far(task);
        }
    }

    fn run_turn(&mut self, ring: usize) {
        let start = self.clock.ticks();
        let (mut before, mut tasks, mut longest) = (start, 0, 0);
        loop {
            let limit = self.queues.ring(ring).chunk;
            let count = self.run_chunk(ring, limit);
            let now = self.clock.ticks_after(count);
            self.queues.now = now;
            let ticks = now.wrapping_sub(before);
            self.account(ring, count, ticks);
            if let Some(came) = self.queues.ring(ring).sampled() {
                self.me().classes[ring / BANDS].waited(before.saturating_sub(came));
            }
            (before, tasks, longest) = (now, tasks + count, ticks.max(longest));
            let over = now.wrapping_sub(start) >= self.limits.turn;
            if count < limit || over || self.interrupted(ring % BANDS) {
                break;
            }
        }
        let taken = before.wrapping_sub(start);
        self.queues.charge(ring, taken);
        self.queues.sample();
        bump(&self.counters().busy_ticks, taken);
        bump(&self.counters().turns, 1);
        let class = &self.me().classes[ring / BANDS];
        bump(&class.busy_ticks, taken);
        bump(&class.tasks, tasks as u64);
        if longest > class.longest_ticks.load(Ordering::Relaxed) {
            class.longest_ticks.store(longest, Ordering::Relaxed);
        }
    }

    /// Whether the turn should end before its time: something more urgent is there, or a worker
    /// of the island has nothing to do.
    #[inline]
    fn interrupted(&self, band: usize) -> bool {
        self.queues.goes_before(band)
            || self.arrived(0..band)
            || self.others_idle()
            || self.shared.phase.load(Ordering::Relaxed) == STOPPING
    }

    #[inline]
    fn others_idle(&self) -> bool {
        let island = &self.shared.islands[usize::from(self.island.0)];
        let idle = island.idle.load(Ordering::Relaxed) & !self.me().bit;
        idle != 0 && (!self.shared.parts.are_on() || self.shared.takers(self.id, idle) != 0)
    }

    /// Runs up to `limit` tasks of a ring; a panic ends its task alone.
    fn run_chunk(&mut self, ring: usize, limit: usize) -> usize {
        let mut count = 0;
        loop {
            let all = catch_unwind(AssertUnwindSafe(|| {
                while count < limit {
                    let Some(task) = self.queues.pop(ring) else {
                        break;
                    };
                    self.kinds[count] = task.kind();
                    count += 1;
                    self.run_task(task);
                }
            }));
            match all {
                Ok(()) => return count,
                Err(payload) => self.panicked(payload),
            }
        }
    }

    #[inline]
    fn run_task(&mut self, task: TaskRef) {
        self.current = *task.header();
        if self.current.annotation.is(TargetKind::Home) && self.sent_elsewhere() {
            return self.dispatch_far(task);
        }
        self.running = Some(task);
        let rare = !self.shared.groups.state(self.current.group()).plain() || self.dropping;
        if rare && !self.may_run() {
            return;
        }
        match slot::run(self) {
            Step::Done => {
                let task = self.running.take().expect("it has run");
                self.pool.finish(task);
                self.uncount();
            }
            Step::Again(annotation) => self.again(annotation),
        }
        if rare {
            self.leave_turn();
        }
    }

    /// Whether the task that `running` holds runs now: else it was dropped, or waits for its turn in
    /// its group.
    #[cold]
    #[inline(never)]
    fn may_run(&mut self) -> bool {
        let group = self.current.group();
        let shared = Arc::clone(&self.shared);
        if self.dropping || shared.groups.state(group).stopped() {
            self.drop_of_group(group);
            return false;
        }
        if let Some(target) = shared.other_part(group, self.id, &self.current.annotation) {
            let task = self.running.take().expect("it is to run");
            self.send(target, self.current.annotation.band(), task);
            return false;
        }
        if !shared.groups.state(group).limited() {
            return true;
        }
        // A task that waits may be made ready by any worker: it is counted before.
        if self.delta.1 > 0 {
            self.settle_group();
        }
        self.counters().spawned.store(self.spawned, Ordering::Release);
        let task = self.running.take().expect("it is to run");
        let task = self.pool.detach(task);
        match shared.limits.enter(group, self.island, task, &shared.groups) {
            Turn::Waits(called) => {
                self.dispatch_called(called);
                false
            }
            Turn::Stopped(task) => {
                self.running = Some(task);
                self.drop_of_group(group);
                false
            }
            Turn::Runs(task, quotas) => {
                self.holds_turn = Some((group, quotas));
                self.running = Some(task);
                true
            }
        }
    }

    /// Drops the task that `running` holds instead of running it. The task may have been called for a seat of its
    /// group, which goes to the next one.
    fn drop_of_group(&mut self, group: GroupId) {
        let shared = Arc::clone(&self.shared);
        bump(&self.counters().dropped, 1);
        let quotas = shared.limits.quotas_of(group, self.island);
        self.end_task();
        let next = shared.limits.pass(group, &quotas);
        self.dispatch_called(next);
    }

    /// Queues tasks that were called for seats.
    fn dispatch_called(&mut self, called: Vec<TaskRef>) {
        for mut task in called {
            self.placed(&mut task);
            let header = *task.header();
            self.dispatch(task, &header.annotation, header.group());
        }
    }

    /// The step of a limited group's task has ended: the next one may run.
    #[inline(never)]
    fn leave_turn(&mut self) {
        if let Some((group, quotas)) = self.holds_turn.take() {
            let next = self.shared.limits.leave(group, &quotas);
            self.dispatch_called(next);
        }
    }

    /// Whether the running task came here while its home was latched, and has to go home now.
    #[inline]
    fn sent_elsewhere(&self) -> bool {
        let home = self.current.annotation.target();
        home != self.id.0 && self.mode_of(WorkerId(home)) != HomeMode::Latched
    }

    #[inline(always)]
    fn again(&mut self, annotation: Annotation) {
        if !annotation.is(TargetKind::Any) {
            if annotation.is(TargetKind::Suspended) {
                return self.rest_task();
            }
            self.shared.check_place(&annotation);
        }
        let mut task = self.running.take().expect("it has run");
        let mut annotation = self.resolve(annotation);
        if self.any_moved {
            let moved = self.shared.groups.moved(self.current.group(), &annotation);
            annotation = moved.unwrap_or(annotation);
        }
        let header = task.header_mut();
        if !annotation.carries_as(&header.annotation) {
            if annotation.carries() {
                header.set_tag(self.epoch.tag());
                self.epoch.begin(header.tag(), &self.shared.epochs);
            } else {
                self.epoch.end(header.tag(), &self.shared.epochs);
            }
        }
        header.annotation = annotation;
        let group = self.current.group();
        self.dispatch(task, &annotation, group);
    }

    /// Lays the running task down until it is woken.
    #[inline(never)]
    fn rest_task(&mut self) {
        let sleeper = self.sleeper.take().expect("a step that suspends has a sleeper");
        let task = self.running.take().expect("it has run");
        let mut task = self.pool.detach(task);
        let header = task.header_mut();
        if header.annotation.carries() {
            self.epoch.end(header.tag(), &self.shared.epochs);
            header.annotation = header.annotation.carries_references(false);
        }
        self.placed(&mut task);
        let header = *task.header();
        bump(&self.me().classes[usize::from(header.annotation.class_id().0)].suspensions, 1);
        // Who wakes the task may run it elsewhere at once: it has to be counted before.
        if self.delta.1 > 0 && !planted::is(planted::SLEEPS_UNCOUNTED) {
            self.settle_group();
        }
        self.counters().spawned.store(self.spawned, Ordering::Release);
        if let Err(task) = sleeper.rest(task) {
            self.dispatch(task, &header.annotation, header.group());
        }
    }

    /// Drops the task that `running` holds.
    #[inline]
    fn end_task(&mut self) {
        let task = self.running.take().expect("it has run");
        self.pool.release(task);
        self.uncount();
    }

    /// Takes the current task out of all counts.
    #[inline(always)]
    fn uncount(&mut self) {
        self.finished += 1;
        if self.current.annotation.carries() {
            self.epoch.end(self.current.tag(), &self.shared.epochs);
        }
        if self.current.has(HOLDS_CREDIT) {
            self.purse.give(self.current.annotation.class_id());
        }
        self.count(self.current.group(), -1);
    }

    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>) {
        let message = message_of(&*payload);
        bump(&self.counters().panics, 1);
        self.sleeper = None;
        sleeper::none_runs();
        self.counters().group.store(GroupId::NONE.0, Ordering::Relaxed);
        match self.current.group() {
            GroupId::NONE => *self.shared.incidents.last_panic.lock() = Some(message),
            group => {
                self.shared.groups.state(group).fail(&message);
                if self.holds_turn.is_some() {
                    self.shared.free_waiting(Some(group));
                }
            }
        }
        if let Some(task) = self.running.take() {
            // What a destructor panics with is dropped too: the task has failed already.
            let pool = &mut self.pool;
            let _ = catch_unwind(AssertUnwindSafe(|| pool.release(task)));
        }
        self.uncount();
        self.leave_turn();
    }

    /// Notes what a chunk took.
    #[inline]
    fn account(&mut self, ring: usize, count: usize, ticks: u64) {
        if count == 0 {
            return;
        }
        self.queues.ring(ring).measured(count, ticks, self.limits.chunk);
        if ticks > self.limits.long_task {
            self.note_long(count, ticks);
        }
    }

    /// Names what took so long. A chunk of more than one type names each: one of them did it, and
    /// the next chunks of this ring are single tasks, as its tasks now count as slow.
    #[cold]
    fn note_long(&self, count: usize, ticks: u64) {
        let mut named: Vec<&'static str> = self.kinds[..count].iter().map(|k| k.name()).collect();
        named.sort_unstable();
        named.dedup();
        for name in named {
            self.shared.incidents.long_task(name, self.clock.ns(ticks));
        }
    }

    /// What is due between turns.
    fn end_turn(&mut self) {
        self.current = Header::OUTSIDE;
        self.turns += 1;
        if self.queues.now >= self.shared.timers.next_ticks() {
            self.wake_due();
        }
        self.flush();
        self.pool.flush();
        let counters = self.counters();
        counters.spawned.store(self.spawned, Ordering::Release);
        counters.finished.store(self.finished, Ordering::Release);
        if self.delta.1 != 0 {
            self.settle_group();
        }
        self.purse.settle(&self.shared.credits, false);
        let garbage = self.epoch.garbage() >= GARBAGE || self.shared.epochs.has_orphans();
        if garbage && self.turns.is_multiple_of(8) {
            self.collect();
        }
        if self.others_idle() {
            self.give();
        }
        if cfg!(shuttle) || self.turns.is_multiple_of(32) {
            self.look_at_delay();
        }
    }

    /// Wakes the tasks whose deadlines have passed.
    #[cold]
    pub(super) fn wake_due(&mut self) {
        let due = self.shared.timers.take_due(self.queues.now);
        due.into_iter().for_each(Waker::wake);
    }

    pub(super) fn collect(&mut self) {
        let freed = self.epoch.collect(&self.shared.epochs);
        bump(&self.counters().freed, freed);
    }

    /// Gives half of what waits to a worker of the island that has nothing to do, if it is worth it.
    #[cold]
    fn give(&mut self) {
        if self.owner != GroupId::NONE {
            return;
        }
        let (tasks, ticks) = self.queues.backlog();
        if tasks < 2 || ticks < self.limits.give_spinning {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let island = &shared.islands[usize::from(self.island.0)];
        let idle = island.idle.load(Ordering::Relaxed) & !self.me().bit;
        let idle = shared.takers(self.id, idle);
        let found = island.workers.iter().copied().find(|&id| {
            let worker = shared.worker(id);
            idle & worker.bit != 0 && worker.owner() == GroupId::NONE
        });
        let Some(target) = found else { return };
        let worker = shared.worker(target);
        let parked = worker.state.activity.load(Ordering::Relaxed) == PARKED;
        if parked && ticks < self.limits.give_parked {
            return;
        }
        if island.idle.fetch_and(!worker.bit, Ordering::AcqRel) & worker.bit == 0 {
            return;
        }
        let mut given = Vec::new();
        self.queues.give((tasks / 2).min(64), |task| given.push(task));
        bump(&self.counters().given, given.len() as u64);
        for task in given {
            let band = task.header().annotation.band();
            self.send(target, band, task);
        }
        self.flush();
    }
}

/// Text of a panic.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is no text".to_owned())
}
