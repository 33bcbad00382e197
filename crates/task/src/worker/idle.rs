//! How a worker lives with a thread of its own, and what it does when it has nothing to do: it looks
//! at its inboxes for a while, then sleeps until somebody pushes.

use super::shared::{BUSY, HomeMode, PARKED, RUNNING, SPINNING, STOPPING};
use super::{Context, ON_WORKER};
use crate::annotation::BANDS;
use crate::config::WorkerKind;
use crate::counters::bump;
use crate::group_table::GroupId;
use crate::planted;
use crate::timers::NEVER;
use halcyon_base::sync::atomic::{Ordering, fence};
use halcyon_base::sync::{hint, thread};
use halcyon_machine::counters::SchedStat;
use std::time::Duration;

impl Context {
    /// The life of a worker with a thread of its own.
    pub(crate) fn work(mut self: Box<Self>) {
        if !cfg!(shuttle) {
            self.schedstat = SchedStat::of_this_thread().ok();
        }
        ON_WORKER.set(true);
        loop {
            if self.turn() {
                continue;
            }
            if self.shared.phase.load(Ordering::SeqCst) != RUNNING && self.may_end() {
                break;
            }
            if self.may_leave() {
                match self.leave() {
                    Some(worker) => self = worker,
                    None => return ON_WORKER.set(false),
                }
                continue;
            }
            self.idle();
        }
        self.epoch.go_offline(&self.shared.epochs);
        self.epoch.leave(&self.shared.epochs);
        ON_WORKER.set(false);
    }

    fn may_end(&mut self) -> bool {
        if self.shared.phase.load(Ordering::SeqCst) == STOPPING {
            for task in std::mem::take(&mut self.aside) {
                let annotation = task.header().annotation;
                self.queues.push(task, &annotation);
            }
        }
        !self.has_work() && self.shared.quiescent()
    }

    /// What a simulated worker does where one with a thread would spin or sleep.
    pub(crate) fn rest(&mut self) {
        if !self.has_work() {
            self.epoch.go_offline(&self.shared.epochs);
        }
    }

    /// Looks at the inboxes for a while, then sleeps until somebody pushes.
    fn idle(&mut self) {
        self.purse.settle(&self.shared.credits, true);
        if self.epoch.garbage() > 0 || self.shared.epochs.has_orphans() {
            self.collect();
        }
        self.mark_idle();
        let phase = self.shared.phase.load(Ordering::SeqCst);
        if phase != RUNNING {
            return thread::yield_now();
        }
        let start = self.clock.ticks();
        let mut spins = 0u32;
        while !self.awake(phase) {
            hint::spin_loop();
            self.epoch.announce(&self.shared.epochs);
            spins += 1;
            let mut over = cfg!(shuttle);
            if spins.is_multiple_of(16) {
                let now = self.clock.ticks();
                if now >= self.shared.timers.next_ticks() {
                    return;
                }
                over |= now.wrapping_sub(start) > self.limits.spin;
            }
            let latched = self.me().mode() != HomeMode::Scheduled;
            if latched && over {
                self.look_at_delay();
            }
            if self.kind == WorkerKind::Shared && over && !(cfg!(shuttle) && latched) {
                return self.park(phase);
            }
        }
    }

    /// Whether there is a reason to take a turn.
    #[inline]
    fn awake(&self, phase: u32) -> bool {
        self.arrived(0..BANDS)
            || self.shared.phase.load(Ordering::Relaxed) != phase
            || self.me().owner() != self.owner
    }

    fn park(&mut self, phase: u32) {
        self.leave_garbage();
        self.epoch.go_offline(&self.shared.epochs);
        let me = self.me();
        me.state.activity.store(PARKED, Ordering::SeqCst);
        // A task whose producer pushed before this and saw no parked worker is seen here, and so is
        // a deadline.
        fence(Ordering::SeqCst);
        let may_sleep = self.quiet() && !self.awake(phase);
        if !may_sleep && !planted::is(planted::NO_SECOND_LOOK) {
            me.state.activity.store(BUSY, Ordering::SeqCst);
        } else {
            bump(&me.counters.parks, 1);
            self.shared.config.on_rest.into_iter().for_each(|on_rest| on_rest());
        }
        let keeps = !planted::is(planted::NO_KEEPER) && self.shared.timers.keep(self.id.0);
        while me.state.activity.load(Ordering::SeqCst) == PARKED {
            if keeps {
                self.sleep_until_deadline();
                break;
            } else if me.mode() == HomeMode::Scheduled || cfg!(shuttle) {
                thread::park();
            } else {
                // Nobody sends it the tasks of its resources: it has to look itself.
                thread::park_timeout(self.shared.config.run_delay_period);
                break;
            }
        }
        if keeps {
            self.shared.timers.leave();
        }
        self.unmark_idle();
    }

    /// Sleeps as the one worker that looks at deadlines.
    fn sleep_until_deadline(&self) {
        let (now, next) = (self.clock.ticks(), self.shared.timers.next_ticks());
        if cfg!(shuttle) {
            // The model has no time: what it waits for comes at once.
            self.clock.pass(if next == NEVER { 0 } else { next.saturating_sub(now) });
        } else if next > now {
            let latched = self.me().mode() != HomeMode::Scheduled;
            let most = if latched {
                self.shared.config.run_delay_period
            } else {
                Duration::from_secs(3600)
            };
            thread::park_timeout(Duration::from_nanos(self.clock.ns(next - now)).min(most));
        }
    }

    /// Tells others that this worker has nothing to do. It stays told while single short tasks
    /// come in: the line that tells is theirs to read.
    fn mark_idle(&mut self) {
        let me = &self.shared.workers[usize::from(self.id.0)];
        let idle = &self.shared.islands[usize::from(self.island.0)].idle;
        if self.owner == GroupId::NONE && idle.load(Ordering::Relaxed) & me.bit == 0 {
            idle.fetch_or(me.bit, Ordering::AcqRel);
        }
        if !self.marked_idle {
            me.state.activity.store(SPINNING, Ordering::SeqCst);
            self.marked_idle = true;
        }
    }

    #[cold]
    pub(super) fn unmark_idle(&mut self) {
        let me = &self.shared.workers[usize::from(self.id.0)];
        let idle = &self.shared.islands[usize::from(self.island.0)].idle;
        me.state.activity.store(BUSY, Ordering::SeqCst);
        idle.fetch_and(!me.bit, Ordering::AcqRel);
        self.marked_idle = false;
    }

    /// A worker that sleeps frees nothing: others get its garbage.
    fn leave_garbage(&mut self) {
        for _ in 0..3 {
            if self.epoch.garbage() == 0 {
                return;
            }
            self.collect();
        }
        self.epoch.leave(&self.shared.epochs);
    }
}
