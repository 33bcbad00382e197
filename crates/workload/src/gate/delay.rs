//! L1: how many statements of a class run at a time, steered by the delay that they meet.
//!
//! Every 10 ms the class's limit goes up while it binds and delays are short, and down by a factor while they are long.
//! A class with a latency target aims at a statement's whole wait for processors; for other classes the wait before a
//! single step is enough, since nobody asked for more than that the machine is not thrashed.
//!
//! While statements of a class with a target wait longer than they should, the queue turns round: the newest goes first,
//! since the oldest have lost their time already, and those that cannot make their target are discarded. Early
//! rejection keeps the queue so short that few are.
//!
//! Source: Breakwater (OSDI 2020) for the factors and for rejection at twice the delay; Facebook's adaptive LIFO and
//! CoDel for the queue; which of them does what, and the numbers, from simulation (tests/simulations/overload.rs).

use crate::limits::{Band, Limits, Machine, band};

/// Time between steps, ns.
pub(super) const STEP_NS: u64 = 10_000_000;
/// Delay that a class without a target aims at, ns.
const DELAY_NS: u64 = 10_000_000;
/// Time for which the oldest has to be late until the queue turns round, ns.
const LATE_NS: u64 = 100_000_000;
/// The largest limit on a small machine.
const CAP_MIN: u32 = 1_024;
/// The largest limit, per thread.
const CAP_PER_THREAD: u32 = 64;
/// Share of the aimed delay that may be spent waiting for processors; the rest is for the queue. The smaller, the shorter
/// is P99 under overload and the more is rejected just below capacity: chosen by simulation, 2 to 16 cores, 0.7 to 2 times
/// their capacity.
const READY_SHARE: f64 = 0.15;
/// Weight of a step's measurements in their averages.
const STEP_WEIGHT: f64 = 0.1;
/// Weight of one statement in averages over statements.
const STATEMENT_WEIGHT: f64 = 0.05;
/// Ended statements per step below which a statement's whole wait is not known.
const ENDED_MIN: f64 = 0.05;

/// What a class's controller aims at, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Aims {
    /// The delay, ns.
    pub(super) delay_ns: u64,
    /// The longest time from arrival to end that is of use, ns; `None` for a class without a target.
    pub(super) deadline_ns: Option<u64>,
    pub(super) floor: f64,
    pub(super) cap: f64,
}

impl Aims {
    pub(super) fn of(limits: &Limits, machine: &Machine) -> Aims {
        let targets = || limits.targets.iter().flatten().map(|target| nanoseconds(*target));
        let delay_ns =
            targets().min().map_or(DELAY_NS, |target| (target / 5).clamp(1_000_000, 50_000_000));
        let deadline_ns = targets().max();
        let threads = machine.threads.max(1);
        // CONCURRENCY LIMIT holds beside the limit found here, so that raising it has effect at once.
        let cap = f64::from(CAP_MIN.max(threads.saturating_mul(CAP_PER_THREAD)));
        let is_high = matches!(band(limits.priority), Band::Urgent | Band::High);
        // Fewer than there are cores would leave some idle, and a promise cannot be kept by idling.
        let floor = if is_high || deadline_ns.is_some() { f64::from(threads) } else { 1.0 };
        Aims { delay_ns, deadline_ns, floor: floor.min(cap), cap }
    }

    /// The wait after which a queued statement is given up while the queue is turned round, ns: half of the target,
    /// since a statement that has no time left would waste that of others.
    pub(super) fn give_up_ns(&self) -> Option<u64> {
        self.deadline_ns.map(|target| target / 2)
    }

    /// Expected wait from which a new statement is rejected, ns; `None` for a class that queues instead.
    pub(super) fn reject_ns(&self) -> Option<u64> {
        self.deadline_ns.map(|_| 2 * self.delay_ns)
    }
}

/// What was measured of a class's statements since the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ready {
    /// Mean time that a task of the class was ready and did not run before a step, ns.
    pub wait_ns: u64,
    /// Steps of the class's tasks.
    pub steps: u64,
}

/// A class's controller.
#[derive(Clone, Debug)]
pub(super) struct QueueDelay {
    limit: f64,
    stepped_ns: u64,
    /// Averages per step of time: waits of all steps, ns, and statements ended times their threads.
    waits_ns: f64,
    ended: f64,
    ended_since: u32,
    delay_ns: f64,
    /// Average time between the ends of two statements while others wait, ns.
    gap_ns: f64,
    last_end_ns: Option<u64>,
    late_since_ns: Option<u64>,
    is_turned: bool,
    last: Step,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the limit does not bind, and delays are short.
    #[default]
    Stay,
    /// More statements may run.
    Up,
    /// Fewer statements may run.
    Down,
}

impl QueueDelay {
    pub(super) fn new(now_ns: u64, aims: &Aims) -> Self {
        QueueDelay {
            limit: aims.cap,
            stepped_ns: now_ns,
            waits_ns: 0.0,
            ended: 0.0,
            ended_since: 0,
            delay_ns: 0.0,
            gap_ns: 0.0,
            last_end_ns: None,
            late_since_ns: None,
            is_turned: false,
            last: Step::Stay,
        }
    }

    /// How many statements may run at a time.
    pub(super) fn limit(&self, aims: &Aims) -> u32 {
        // Within 1 and 2^32.
        self.limit.clamp(aims.floor, aims.cap) as u32
    }

    /// The delay that statements meet once they run, ns.
    pub(super) fn delay_ns(&self) -> u64 {
        self.delay_ns as u64
    }

    pub(super) fn last(&self) -> Step {
        self.last
    }

    /// Whether the newest goes first.
    pub(super) fn is_turned(&self) -> bool {
        self.is_turned
    }

    /// When the next step is due, ns.
    pub(super) fn due_ns(&self) -> u64 {
        self.stepped_ns.saturating_add(STEP_NS)
    }

    /// The wait that a statement expects behind so many others, ns.
    pub(super) fn expected_ns(&self, now_ns: u64, queued: usize) -> u64 {
        if queued == 0 {
            return 0;
        }
        let silence_ns = self.last_end_ns.map_or(0, |last| now_ns.saturating_sub(last));
        ((self.gap_ns * queued as f64) as u64).max(silence_ns)
    }

    /// A statement with so many threads has ended; `others_wait` says whether some are queued.
    pub(super) fn ended(&mut self, now_ns: u64, threads: u32, others_wait: bool) {
        self.ended_since = self.ended_since.saturating_add(threads);
        if !others_wait {
            self.last_end_ns = None;
            return;
        }
        if let Some(last) = self.last_end_ns {
            let gap_ns = now_ns.saturating_sub(last) as f64;
            let weight = if self.gap_ns > 0.0 { STATEMENT_WEIGHT } else { 1.0 };
            average(&mut self.gap_ns, gap_ns, weight);
        }
        self.last_end_ns = Some(now_ns);
    }

    /// A statement begins to wait; the first one starts the clock of silence.
    pub(super) fn queued(&mut self, now_ns: u64, is_first: bool) {
        if is_first {
            self.last_end_ns = Some(now_ns);
        }
    }

    /// One step. `oldest_ns`: the arrival of the oldest that waits.
    pub(super) fn step(
        &mut self,
        now_ns: u64,
        aims: &Aims,
        running: u32,
        oldest_ns: Option<u64>,
        ready: Option<Ready>,
    ) -> Step {
        let elapsed = now_ns.saturating_sub(self.stepped_ns).clamp(STEP_NS, 10 * STEP_NS) as f64
            / STEP_NS as f64;
        self.stepped_ns = now_ns;
        self.measure(aims, ready.unwrap_or_default());
        self.turn(now_ns, aims, oldest_ns);
        let aim_ns =
            aims.delay_ns as f64 * if aims.deadline_ns.is_some() { READY_SHARE } else { 1.0 };
        self.limit = self.limit.clamp(aims.floor, aims.cap);
        let binds = oldest_ns.is_some() || f64::from(running) + 1.0 > self.limit;
        self.last = if self.delay_ns > aim_ns {
            let factor = (1.0 - 0.02 * (self.delay_ns - aim_ns) / aim_ns).max(0.5);
            // A limit that nothing reaches would take long to come down to where it binds.
            let in_use = f64::from(running.max(1)).min(self.limit);
            self.limit = (in_use * factor).clamp(aims.floor, aims.cap);
            Step::Down
        } else if binds {
            let room = 1.0 - self.delay_ns / aim_ns;
            self.limit = (self.limit + elapsed * (0.1 + 0.9 * room)).min(aims.cap);
            Step::Up
        } else {
            Step::Stay
        };
        self.last
    }

    fn measure(&mut self, aims: &Aims, ready: Ready) {
        average(&mut self.waits_ns, ready.wait_ns as f64 * ready.steps as f64, STEP_WEIGHT);
        average(&mut self.ended, f64::from(self.ended_since), STEP_WEIGHT);
        self.ended_since = 0;
        let is_known = aims.deadline_ns.is_some() && self.ended >= ENDED_MIN;
        if is_known {
            self.delay_ns = self.waits_ns / self.ended;
        } else {
            average(&mut self.delay_ns, ready.wait_ns as f64, STEP_WEIGHT);
        }
    }

    /// Decides which end of the queue goes first.
    fn turn(&mut self, now_ns: u64, aims: &Aims, oldest_ns: Option<u64>) {
        let is_late = |arrived: &u64| now_ns.saturating_sub(*arrived) > aims.delay_ns;
        if aims.deadline_ns.is_none() || oldest_ns.filter(is_late).is_none() {
            self.late_since_ns = None;
            self.is_turned = false;
            return;
        }
        let since = *self.late_since_ns.get_or_insert(now_ns);
        self.is_turned |= now_ns.saturating_sub(since) >= LATE_NS;
    }
}

/// Moves an average towards a value.
fn average(average: &mut f64, value: f64, weight: f64) {
    *average += weight * (value - *average);
}

/// Nanoseconds of a time; 584 years at most.
pub(super) fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;
    use std::time::Duration;

    const MACHINE: Machine = Machine { threads: 4, memory_bytes: 1 << 30 };

    fn aims(target_ms: Option<u64>) -> Aims {
        let targets = [None, None, target_ms.map(Duration::from_millis), None];
        Aims::of(&Limits { targets, ..Limits::default() }, &MACHINE)
    }

    #[test]
    fn the_delay_is_a_fifth_of_the_target_within_bounds() {
        let delay_ms = |target: Option<u64>| aims(target).delay_ns / 1_000_000;
        assert_eq!([None, Some(2), Some(100), Some(10_000)].map(delay_ms), [10, 1, 20, 50]);
        assert_eq!((aims(Some(100)).floor, aims(None).floor), (4.0, 1.0));
        assert_eq!((aims(None).reject_ns(), aims(Some(100)).reject_ns()), (None, Some(40_000_000)));
    }

    fn any(rng: &mut Rng) -> u64 {
        let bits = rng.below(64);
        rng.next_u64() >> bits
    }

    #[test]
    fn the_limit_stays_within_its_bounds_whatever_is_observed() {
        let mut rng = Rng::new(3);
        for trace in 0..10_000_u64 {
            let target = (trace % 2 == 0).then(|| 1 + rng.below(1_000));
            let aims = aims(target);
            let mut now_ns = rng.below(1 << 40);
            let mut control = QueueDelay::new(now_ns, &aims);
            for _ in 0..20 {
                let bits = 10 + rng.below(30);
                now_ns = now_ns.saturating_add(rng.below(1 << bits));
                let [wait_ns, steps] = [any(&mut rng), any(&mut rng)];
                let ready = (rng.below(4) > 0).then_some(Ready { wait_ns, steps });
                let oldest_ns =
                    (rng.below(2) > 0).then(|| now_ns.saturating_sub(rng.below(1 << 36)));
                if rng.below(2) > 0 {
                    control.ended(now_ns, 1 + rng.next_u32() % 8, oldest_ns.is_some());
                }
                control.step(now_ns, &aims, rng.next_u32() % 2_000, oldest_ns, ready);
                let limit = f64::from(control.limit(&aims));
                assert!((aims.floor..=aims.cap).contains(&limit), "{limit} {aims:?}");
            }
        }
    }

    #[test]
    fn the_queue_turns_round_while_the_oldest_is_late() {
        let aims = aims(Some(100));
        let mut control = QueueDelay::new(0, &aims);
        for step in 1..=15_u64 {
            control.step(step * STEP_NS, &aims, 4, Some(0), None);
            // Late from 30 ms on, and for 100 ms at 130 ms.
            assert_eq!(control.is_turned(), step >= 13, "{step}");
        }
        control.step(16 * STEP_NS, &aims, 4, Some(15 * STEP_NS), None);
        assert!(!control.is_turned());
    }
}
