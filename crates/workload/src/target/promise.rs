//! One class's targets: what is measured against them, and what follows.

use std::time::Duration;

use super::{ClassObservation, EventKind, READY_WAIT_TARGET, SECOND_NS, State};
use crate::latency::{Measured, SECONDS};
use crate::limits::Quantile;

/// Weight of a step's quantile in its average.
const SMOOTHING: f64 = 0.3;
/// Weight of a quantile on an idle machine in its average, if it is worse than that; better ones count as others do.
const LEARNING: f64 = 0.02;
/// A target has to be so many times the quantile on an idle machine.
const HEADROOM: f64 = 1.25;
/// Below this share of the target there is room.
const ROOM: f64 = 0.8;
/// A ratio below this share of the one when cutting began is an improvement.
const IMPROVED: f64 = 0.9;
/// Windows without improvement after which cutting is given up.
const FRUITLESS_MAX: u32 = 3;
/// Time until cutting is tried again, ns: at first, and at the most.
const RETRY_NS: (u64, u64) = (120 * SECOND_NS, 960 * SECOND_NS);

/// What follows from a step's measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Stay,
    /// The target is missed by this factor.
    Cut(f64),
    /// There is room; `is_idle` if the class runs nothing at all.
    Raise {
        is_idle: bool,
    },
    /// Cutting lower classes does not help any more; `is_restored` if it never did.
    GiveUp {
        is_restored: bool,
    },
    /// The target is still missed after that.
    Shed,
}

/// A class's targets and what is known about them. Times in ns.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    targets: [Option<f64>; 4],
    smoothed: [Option<f64>; 4],
    current: [Option<f64>; 4],
    unloaded: [Option<f64>; 4],
    is_tight: [bool; 4],
    told_tight: [bool; 4],
    state: State,
    told_reached: bool,
    quiet_since_ns: Option<u64>,
    /// The last step of an actuator, and the window in which the quantiles are measured.
    stepped_ns: Option<u64>,
    window_ns: u64,
    /// The ratio when cutting began, and windows since then without improvement or at the floor.
    begun: f64,
    marked_ns: u64,
    fruitless: u32,
    at_floor: u32,
    has_helped: bool,
    retry_ns: u64,
    backoff_ns: u64,
    /// The limit of the class's own statements, and what it began with.
    concurrency: Option<(u32, u32)>,
}

impl Promise {
    pub(super) fn new(targets: &[Option<Duration>; 4]) -> Self {
        Promise {
            targets: targets.map(|target| target.map(|target| target.as_nanos() as f64)),
            smoothed: [None; 4],
            current: [None; 4],
            unloaded: [None; 4],
            is_tight: [false; 4],
            told_tight: [false; 4],
            state: State::Kept,
            told_reached: true,
            quiet_since_ns: None,
            stepped_ns: None,
            window_ns: SECOND_NS,
            begun: 0.0,
            marked_ns: 0,
            fruitless: 0,
            at_floor: 0,
            has_helped: false,
            retry_ns: 0,
            backoff_ns: RETRY_NS.0,
            concurrency: None,
        }
    }

    /// Takes a step's quantiles. `is_quiet`: the machine is the class's alone. `is_light`: the class leaves most of it
    /// idle.
    pub(super) fn learn(
        &mut self,
        now_ns: u64,
        own: Option<&ClassObservation>,
        is_quiet: bool,
        is_light: bool,
    ) {
        let quiet_since_ns =
            if is_quiet { Some(*self.quiet_since_ns.get_or_insert(now_ns)) } else { None };
        self.quiet_since_ns = quiet_since_ns;
        self.window_ns = SECOND_NS;
        for place in 0..4 {
            let measured = own
                .and_then(|own| own.quantiles[place])
                .filter(|measured| is_usable(place, measured));
            let (Some(measured), Some(target)) = (measured, self.targets[place]) else {
                self.smoothed[place] = None;
                self.current[place] = None;
                continue;
            };
            let value = measured.value.as_nanos() as f64;
            self.current[place] = Some(value);
            average(&mut self.smoothed[place], value, SMOOTHING);
            let window_ns = u64::from(measured.seconds.max(1)) * SECOND_NS;
            self.window_ns = self.window_ns.max(window_ns);
            // The whole window has to have been quiet, and the class's own load too light to queue for workers.
            let is_unloaded =
                quiet_since_ns.is_some_and(|since| now_ns.saturating_sub(since) >= window_ns);
            if is_unloaded && is_light {
                // What slows the class down for a while is no property of an idle machine.
                let is_better = self.unloaded[place].is_none_or(|unloaded| value < unloaded);
                average(
                    &mut self.unloaded[place],
                    value,
                    if is_better { SMOOTHING } else { LEARNING },
                );
            }
            self.is_tight[place] =
                self.unloaded[place].is_some_and(|unloaded| target < HEADROOM * unloaded);
        }
    }

    /// What has to be told of since the last step.
    pub(super) fn news(&mut self) -> Vec<EventKind> {
        let mut news = Vec::new();
        for (place, quantile) in Quantile::ALL.into_iter().enumerate() {
            let is_new = self.is_tight[place] && !self.told_tight[place];
            self.told_tight[place] = self.is_tight[place];
            if let (true, Some(unloaded), Some(target)) =
                (is_new, self.unloaded[place], self.targets[place])
            {
                let [unloaded, target] = [unloaded, target].map(duration);
                news.push(EventKind::TargetTooTight { quantile, unloaded, target });
            }
        }
        if self.state == State::Kept && !self.told_reached {
            self.told_reached = true;
            news.push(EventKind::TargetReached);
        }
        news
    }

    /// What follows; at most one step of an actuator per window, or per second while tasks wait for workers.
    pub(super) fn decide(
        &mut self,
        now_ns: u64,
        own: Option<&ClassObservation>,
        at_floor: bool,
    ) -> Verdict {
        let steered =
            (0..4).filter(|place| self.targets[*place].is_some() && !self.is_tight[*place]);
        if steered.count() == 0 {
            self.state = State::TooTight;
            return Verdict::Raise { is_idle: true };
        }
        let has_quantile = self.smoothed.iter().any(Option::is_some);
        let is_idle = !has_quantile && own.is_none_or(|own| own.running == 0);
        let Some((_, ratio)) = self.worst_ratio(f64::min).filter(|_| !is_idle) else {
            if is_idle {
                self.settle();
            }
            return if is_idle && self.is_due(now_ns, SECOND_NS) {
                self.stepped_ns = Some(now_ns);
                Verdict::Raise { is_idle }
            } else {
                Verdict::Stay
            };
        };
        if ratio <= 1.0 {
            self.settle();
            if self.has_room() && self.is_due(now_ns, self.window_ns) {
                self.stepped_ns = Some(now_ns);
                return Verdict::Raise { is_idle };
            }
            return Verdict::Stay;
        }
        self.missed(now_ns, own, ratio, at_floor)
    }

    /// The target is missed.
    fn missed(
        &mut self,
        now_ns: u64,
        own: Option<&ClassObservation>,
        ratio: f64,
        at_floor: bool,
    ) -> Verdict {
        if self.state == State::Unreachable && now_ns < self.retry_ns {
            return if self.is_due(now_ns, self.window_ns) {
                self.stepped_ns = Some(now_ns);
                Verdict::Shed
            } else {
                Verdict::Stay
            };
        }
        if self.state != State::Steering {
            self.begin(now_ns, ratio);
            return Verdict::Cut(ratio);
        }
        let is_window = now_ns.saturating_sub(self.marked_ns) >= self.window_ns;
        if is_window {
            self.mark(now_ns, ratio, at_floor);
            let is_fruitless = self.fruitless >= FRUITLESS_MAX;
            if is_fruitless || self.at_floor >= FRUITLESS_MAX {
                return self.give_up(now_ns);
            }
        }
        let waits =
            own.and_then(|own| own.ready_wait_p99).is_some_and(|wait| wait > READY_WAIT_TARGET);
        let pace_ns = if waits { SECOND_NS } else { self.window_ns };
        if self.is_due(now_ns, pace_ns) {
            self.stepped_ns = Some(now_ns);
            return Verdict::Cut(ratio);
        }
        Verdict::Stay
    }

    /// Another actuator begins: the windows without improvement count from now on.
    pub(super) fn count_anew(&mut self) {
        (self.fruitless, self.at_floor) = (0, 0);
    }

    fn begin(&mut self, now_ns: u64, ratio: f64) {
        // Caps that have helped are still there, so that the next attempt goes on from them.
        let goes_on = self.state == State::Unreachable && self.has_helped;
        if !goes_on {
            self.begun = ratio;
            self.has_helped = false;
        }
        self.state = State::Steering;
        self.stepped_ns = Some(now_ns);
        self.marked_ns = now_ns;
        self.fruitless = 0;
        self.at_floor = 0;
    }

    fn mark(&mut self, now_ns: u64, ratio: f64, at_floor: bool) {
        self.marked_ns = now_ns;
        let is_improved = ratio < IMPROVED * self.begun;
        self.has_helped |= is_improved;
        self.fruitless = if is_improved { 0 } else { self.fruitless + 1 };
        self.at_floor = if at_floor { self.at_floor + 1 } else { 0 };
        // The first window may have begun before the trouble did, so that its ratio was too low to compare with.
        if !self.has_helped && self.fruitless == 1 {
            self.begun = self.begun.max(ratio);
        }
    }

    fn give_up(&mut self, now_ns: u64) -> Verdict {
        self.state = State::Unreachable;
        self.told_reached = false;
        self.stepped_ns = Some(now_ns);
        self.retry_ns = now_ns.saturating_add(self.backoff_ns);
        self.backoff_ns = (self.backoff_ns * 2).min(RETRY_NS.1);
        Verdict::GiveUp { is_restored: !self.has_helped }
    }

    /// The target is met, or there is nobody whom to keep it for.
    fn settle(&mut self) {
        self.state = State::Kept;
        if self.has_room() {
            self.backoff_ns = RETRY_NS.0;
        }
    }

    fn is_due(&self, now_ns: u64, pace_ns: u64) -> bool {
        self.stepped_ns.is_none_or(|stepped| now_ns.saturating_sub(stepped) >= pace_ns)
    }

    /// Whether lower classes may have more, as far as this class goes.
    pub(super) fn has_room(&self) -> bool {
        self.worst_ratio(f64::max).is_none_or(|(_, ratio)| ratio < ROOM)
    }

    /// The quantile that is furthest from its target, and by which factor. Of its value now and its average `of` chooses:
    /// the smaller one for a miss, so that neither a single window nor one that is past makes a cut, and the larger one
    /// for room.
    fn worst_ratio(&self, of: fn(f64, f64) -> f64) -> Option<(usize, f64)> {
        let ratio = |place: usize| {
            let target = self.targets[place].filter(|_| !self.is_tight[place])?;
            Some((place, of(self.smoothed[place]?, self.current[place]?) / target))
        };
        (0..4).filter_map(ratio).max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The quantile that is furthest from its target, its value, and the target.
    pub(super) fn worst(&self) -> Option<(Quantile, Duration, Duration)> {
        let (place, ratio) = self.worst_ratio(f64::min)?;
        let target = self.targets[place]?;
        Some((Quantile::ALL[place], duration(ratio * target), duration(target)))
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn unloaded(&self) -> [Option<Duration>; 4] {
        self.unloaded.map(|unloaded| unloaded.map(duration))
    }

    pub(super) fn concurrency(&self) -> Option<u32> {
        self.concurrency.map(|(limit, _)| limit)
    }

    /// A lower limit for the class's own statements, at least one for each thread; `None` if nothing changes.
    pub(super) fn shed(&mut self, running: u32, threads: u32) -> Option<u32> {
        let (limit, begun) = self.concurrency.unwrap_or((running, running));
        // A share of a number below 2^32.
        let lower = (f64::from(limit.min(running)) * 0.8) as u32;
        let lower = lower.max(threads);
        if lower >= limit {
            return None;
        }
        self.concurrency = Some((lower, begun));
        Some(lower)
    }

    /// A higher limit for the class's own statements, or none (`Some(None)`) once it is as high as before.
    pub(super) fn relax(&mut self) -> Option<Option<u32>> {
        let (limit, begun) = self.concurrency?;
        let higher = limit.saturating_add(limit / 4 + 1);
        self.concurrency = (higher < begun).then_some((higher, begun));
        Some(self.concurrency())
    }

    /// Why something is done, in words.
    pub(super) fn reason(&self, name: &str) -> String {
        match self.worst() {
            Some((quantile, value, target)) => {
                let ms = |time: Duration| time.as_micros() as f64 / 1e3;
                format!(
                    "{} of {name} is {:.1} ms, target {:.1} ms",
                    quantile.name(),
                    ms(value),
                    ms(target)
                )
            }
            None => format!("{name} has a latency target"),
        }
    }
}

/// Whether a quantile may be steered by: it has values enough, or it is of a whole minute and the rarest of its values
/// has been seen at least once. A class of few statements is steered slowly instead of never.
fn is_usable(place: usize, measured: &Measured) -> bool {
    let rarest = 1.0 / (1.0 - Quantile::ALL[place].share());
    let is_whole = usize::try_from(measured.seconds).is_ok_and(|seconds| seconds + 1 >= SECONDS);
    measured.is_enough || (is_whole && measured.samples as f64 >= rarest)
}

fn average(average: &mut Option<f64>, value: f64, weight: f64) {
    let before = average.unwrap_or(value);
    *average = Some(before + weight * (value - before));
}

fn duration(nanoseconds: f64) -> Duration {
    // Within 0 and some hours.
    Duration::from_nanos(nanoseconds.max(0.0) as u64)
}
