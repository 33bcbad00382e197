//! The measurement whether a worker's core is its own: if the worker waits for the core too often,
//! its resources are latched instead of synchronised by scheduling (`HomeMode`, in `shared`).

use super::Context;
use super::shared::HomeMode;
use crate::counters::bump;
use crate::group_table::GroupId;
use crate::planted;
use halcyon_base::sync::atomic::Ordering;
use halcyon_machine::counters::RunTimes;

/// The last measurement of the run delay.
#[derive(Default)]
pub(super) struct RunDelay {
    due_ticks: u64,
    last: RunTimes,
    /// Measurements in a row that found the core to be the worker's own.
    quiet: u32,
    /// Epoch at which draining began.
    draining_since: u64,
}

/// Quiet measurements before a worker trusts its core again.
const QUIET: u32 = 3;

impl Context {
    /// Measures now and then whether this worker waits for its core.
    pub(super) fn look_at_delay(&mut self) {
        let never = self.shared.config.run_delay_per_mille == 0;
        if never && self.me().mode() == HomeMode::Scheduled || self.owner == GroupId::ABSENT {
            return;
        }
        if self.me().mode() == HomeMode::Draining {
            self.end_draining();
        }
        let now = self.clock.ticks();
        if now >= self.delay.due_ticks {
            self.delay.due_ticks = now + self.limits.delay_period;
            self.measure_delay();
        }
    }

    #[cold]
    fn measure_delay(&mut self) {
        let times = match &self.schedstat {
            Some(stat) => stat.read().unwrap_or(self.delay.last),
            None => self.me().simulated_times(),
        };
        let waited = times.waiting_ns.saturating_sub(self.delay.last.waiting_ns);
        let ran = times.running_ns.saturating_sub(self.delay.last.running_ns);
        self.delay.last = times;
        self.counters().run_delay_ns.store(times.waiting_ns, Ordering::Relaxed);
        let limit = u64::from(self.shared.config.run_delay_per_mille);
        let preempted = limit > 0 && waited * 1000 > (waited + ran) * limit;
        self.delay.quiet = if preempted { 0 } else { self.delay.quiet + 1 };
        match self.me().mode() {
            HomeMode::Scheduled | HomeMode::Draining if preempted => {
                self.change_mode(HomeMode::Latched)
            }
            HomeMode::Latched if self.delay.quiet >= QUIET => {
                self.change_mode(HomeMode::Draining);
                self.delay.draining_since = self.shared.epochs.now();
            }
            _ => {}
        }
    }

    /// The worker goes away: tasks of its resources run anywhere from now on, with the latch.
    pub(super) fn latch_resources(&mut self) {
        if self.me().mode() != HomeMode::Latched {
            self.change_mode(HomeMode::Latched);
        }
    }

    fn change_mode(&mut self, mode: HomeMode) {
        self.scheduled = mode == HomeMode::Scheduled;
        let me = self.me();
        // Release: accesses by scheduling happen before all that a latch guards from now on.
        me.state.mode.store(mode as u8, Ordering::SeqCst);
        bump(&me.counters.switches, 1);
    }

    /// Goes back to synchronisation by scheduling once every worker was between tasks.
    #[cold]
    fn end_draining(&mut self) {
        self.shared.epochs.try_advance();
        let passed = self.shared.epochs.now() >= self.delay.draining_since + 2;
        if passed || planted::is(planted::NO_DRAIN) {
            self.change_mode(HomeMode::Scheduled);
        }
    }
}
