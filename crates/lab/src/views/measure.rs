//! Rate and intrinsic latency of anything that takes events one by one.

use std::ops::Range;

use halcyon_machine::clock;
use halcyon_machine::counters::{self, ThreadCounts};

use super::bare::{Answer, Bare};
use super::events::Events;
use crate::Result;

/// A taker of events, which are named by their indexes.
pub trait Taker {
    /// Takes one event.
    fn take(&mut self, index: usize) -> Result<()>;
    /// Takes several events, in portions of its own choice.
    #[inline]
    fn take_run(&mut self, mut run: Range<usize>) -> Result<()> {
        run.try_for_each(|index| self.take(index))
    }
    /// The present answer of the view.
    fn answer(&mut self) -> Result<Answer>;
}

/// The results of a pass over all events.
pub struct Pass {
    /// CPU time of the events, ns.
    pub cpu_ns: u64,
    /// The part of this time that other threads took than the one that takes events.
    pub helpers_cpu_ns: u64,
    /// Page faults of the thread.
    pub page_faults: u64,
    /// How many events were taken.
    pub event_count: usize,
}

/// Takes events until all are taken or `seconds_max` have passed, reading the clock only once in
/// 1,024 events.
pub fn pass(taker: &mut impl Taker, event_count: usize, seconds_max: f64) -> Result<Pass> {
    let faults = || ThreadCounts::now().map_or(0, |counts| counts.minor_faults);
    let cpu_ns = || counters::thread_cpu_ns().unwrap_or_default();
    let deadline = clock::monotonic_ns().saturating_add((seconds_max * 1e9) as u64);
    let (faults_before, start_ns) = (faults(), cpu_ns());
    let mut taken = 0;
    while taken < event_count && (taken == 0 || clock::monotonic_ns() < deadline) {
        let end = event_count.min(taken + 1024);
        taker.take_run(taken..end)?;
        taken = end;
    }
    let cpu_ns = cpu_ns() - start_ns;
    let page_faults = faults() - faults_before;
    Ok(Pass { cpu_ns, helpers_cpu_ns: 0, page_faults, event_count: taken })
}

/// The smallest time of each event over several passes, in ticks. That removes the noise of the
/// machine, which hits other events in every pass (P2 measures on a partition of its own instead).
#[derive(Default)]
pub struct Intrinsic {
    least_ticks: Vec<u32>,
}

impl Intrinsic {
    /// Adds a pass by a new `taker`.
    pub fn pass(&mut self, taker: &mut impl Taker, event_count: usize) -> Result<()> {
        self.least_ticks.resize(event_count, u32::MAX);
        for (index, least) in self.least_ticks.iter_mut().enumerate() {
            let start = clock::ticks();
            taker.take(index)?;
            let ticks = clock::ticks() - start;
            *least = (*least).min(u32::try_from(ticks).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Nanoseconds at the 50th, 99th, 99.9th and 100th percentile of the events from index `from`
    /// on, and the index of the slowest.
    pub fn figures(&self, from: usize) -> Figures {
        let events = &self.least_ticks[from.min(self.least_ticks.len())..];
        let Some((slowest, _)) = events.iter().enumerate().max_by_key(|&(_, ticks)| ticks) else {
            return Figures::default();
        };
        let mut sorted = events.to_vec();
        sorted.sort_unstable();
        let calibration = clock::calibration();
        let at = |share: f64| {
            let index = ((sorted.len() as f64 * share) as usize).min(sorted.len() - 1);
            calibration.ns(u64::from(sorted[index]))
        };
        Figures {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
            slowest: from + slowest,
        }
    }
}

/// Percentiles of intrinsic latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Slowest event.
    pub max_ns: u64,
    /// Index of the slowest event.
    pub slowest: usize,
}

/// A view by hand, together with its events.
pub struct ByHand<'a, B> {
    view: B,
    events: &'a Events,
}

impl<'a, B: Bare + Default> ByHand<'a, B> {
    /// An empty view.
    pub fn new(events: &'a Events) -> Self {
        let mut view = B::default();
        view.prepare(events);
        Self { view, events }
    }
}

impl<B: Bare> Taker for ByHand<'_, B> {
    #[inline]
    fn take(&mut self, index: usize) -> Result<()> {
        self.view.apply(self.events.get(index));
        Ok(())
    }

    fn answer(&mut self) -> Result<Answer> {
        Ok(self.view.answer())
    }
}

/// The measurement that an arm is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// The rate, in one pass of at most so many seconds.
    Rate(f64),
    /// Intrinsic latency over so many passes, with figures from the event at this index on.
    Latency(usize, usize),
}

/// The result of a measurement.
pub enum Given {
    /// A pass, and the view after it.
    Rate(Pass, Answer),
    /// Figures, and the view after the last pass.
    Latency(Figures, Answer),
}

/// Measures an arm; `make` makes an empty one.
pub fn ask<T: Taker>(
    what: Ask,
    event_count: usize,
    mut make: impl FnMut() -> Result<T>,
) -> Result<Given> {
    match what {
        Ask::Rate(seconds_max) => {
            let mut taker = make()?;
            let pass = pass(&mut taker, event_count, seconds_max)?;
            Ok(Given::Rate(pass, taker.answer()?))
        }
        Ask::Latency(passes, from) => {
            let mut intrinsic = Intrinsic::default();
            let mut answer = Answer::new();
            for _ in 0..passes {
                let mut taker = make()?;
                intrinsic.pass(&mut taker, event_count)?;
                answer = taker.answer()?;
            }
            Ok(Given::Latency(intrinsic.figures(from), answer))
        }
    }
}

/// Asks a view by hand.
pub fn ask_by_hand<B: Bare + Default>(what: Ask, events: &Events) -> Result<Given> {
    ask(what, events.len(), || Ok(ByHand::<B>::new(events)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow(u64);

    impl Taker for Slow {
        fn take(&mut self, index: usize) -> Result<()> {
            // One event is slow by itself in every pass, and another only in the first.
            if index == 700 || (index == 300 && self.0 == 0) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Ok(())
        }

        fn answer(&mut self) -> Result<Answer> {
            Ok(Answer::new())
        }
    }

    #[test]
    fn only_what_every_pass_shows_is_intrinsic() {
        let mut intrinsic = Intrinsic::default();
        (0..3).for_each(|pass| intrinsic.pass(&mut Slow(pass), 1000).expect("it takes events"));
        let figures = intrinsic.figures(0);
        assert_eq!(figures.slowest, 700);
        assert!(figures.max_ns >= 4_000_000, "{figures:?}");
        assert_eq!(intrinsic.figures(1000), Figures::default());
    }
}
