//! Whether loads and stores that are meant to leave the caches alone spare a neighbour: an aggregation that visits a
//! table at random, beside a scan with and without `prefetchnta`, and beside output with plain and with
//! streaming stores.
//!
//! The aggregation and its partner have a processor each. The table has a quarter of the last-level cache to all of it.
//! Partners change from turn to turn, and each round begins with another one. Slowdown is the time of an
//! access beside a partner by that beside nobody in the same round; beside nobody once more is the A/A pair. A
//! difference within the A/A spread is none.
//!
//! What other processes do in the meantime is counted. If they had more than a tenth of the processors' time, the
//! threads could not be pinned, or the processor has no such instructions, nothing can be concluded, and every arm says so.
//!
//! Checked: sums of the aggregation's accesses and groups, of each piece of the scan, and each word of the output.

mod streams;
mod work;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use halcyon_gauge::measure::Rounds;
use halcyon_gauge::{Arm, Reporter};
use halcyon_machine::{Topology, affinity};
use serde_json::json;

use self::work::{Column, PIECE_WORDS, Partner, Table};
use crate::foreign::{Busy, FOREIGN_MAX};
use crate::{Failure, Result};

/// Options of `halcyon lab nontemporal`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Sizes of the table in percent of the last-level cache, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [25, 50, 75, 100], value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub percents: Vec<u64>,
    /// MiB of the column and of the output
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    pub mib: u64,
    /// Bytes of the last-level cache; the system's, if not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1 << 16..=1 << 34))]
    pub cache_bytes: Option<u64>,
    /// Seconds of a turn, and a third of it before, which are not counted
    #[arg(long, default_value_t = 0.3, value_parser = crate::positive)]
    pub seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

/// What is compared: a plain partner and the one that is meant to spare the cache.
const PAIRS: [(Partner, Partner); 2] =
    [(Partner::Scan, Partner::ScanNonTemporal), (Partner::Output, Partner::OutputStreaming)];

/// A turn: time of an access, and what the partner moved.
struct Turn {
    ns: f64,
    gb_per_s: f64,
}

/// The turns of one size, by partner as in [`Partner::ALL`].
struct Found {
    turns: Vec<Vec<Turn>>,
    foreign: f64,
    conclusive: bool,
}

/// Measures, and prints an arm for each size and partner, and one for each pair.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let topology = Topology::of_this_machine_or_flat();
    let cache_bytes = options.cache_bytes.unwrap_or_else(|| {
        let last = topology.caches.iter().max_by_key(|cache| cache.level);
        last.map_or(32 << 20, |cache| cache.bytes)
    });
    let pair = processors(&topology);
    if pair.is_none() {
        reporter.progress("inconclusive: no two processors with one last-level cache");
    }
    let pieces = (options.mib << 20) / (PIECE_WORDS as u64 * 8);
    let mut column = Column::new(usize::try_from(pieces).expect("it fits in memory"));
    for &percent in &options.percents {
        let table = Table::new(cache_bytes * percent / 100);
        reporter.progress(format!("a table of {percent} % of {} KiB", cache_bytes >> 10));
        let found = measured(options, pair, &table, &mut column)?;
        report(&found, percent, cache_bytes, reporter);
    }
    Ok(())
}

/// Two processors, of different cores, that share a last-level cache.
fn processors(topology: &Topology) -> Option<[u32; 2]> {
    let cores = topology.one_per_core();
    let mut pairs = cores.iter().flat_map(|one| cores.iter().map(move |other| (one, other)));
    let pair = pairs.find(|(one, other)| one.cpu < other.cpu && one.island == other.island)?;
    Some([pair.0.cpu, pair.1.cpu])
}

fn measured(
    options: &Options,
    pair: Option<[u32; 2]>,
    table: &Table,
    column: &mut Column,
) -> Result<Found> {
    let count = Partner::ALL.len();
    let mut turns: Vec<Vec<Turn>> = Partner::ALL.iter().map(|_| Vec::new()).collect();
    let mut pinned = pair.is_some();
    let before = Busy::now();
    for round in 0..options.rounds as usize {
        for step in 0..count {
            let at = (round + step) % count;
            let (turn, was_pinned) = turn(pair, Partner::ALL[at], table, column, options.seconds)?;
            pinned &= was_pinned;
            turns[at].push(turn);
        }
    }
    let foreign = Busy::foreign_between(before, Busy::now());
    let conclusive = pinned && foreign <= FOREIGN_MAX && streams::AVAILABLE;
    Ok(Found { turns, foreign, conclusive })
}

/// Runs the aggregation beside a partner, each on a thread of its own; whether both were pinned.
fn turn(
    pair: Option<[u32; 2]>,
    partner: Partner,
    table: &Table,
    column: &mut Column,
    seconds: f64,
) -> Result<(Turn, bool)> {
    let (start, stop) = (Barrier::new(2), AtomicBool::new(false));
    let pin = |at: usize| pair.is_some_and(|pair| affinity::set(&[pair[at]]).is_ok());
    let aggregate = || {
        let pinned = pin(0);
        start.wait();
        // The table comes into the cache, and the partner gets going.
        let ns = table.aggregate(seconds / 3.0).and_then(|_| table.aggregate(seconds));
        stop.store(true, Ordering::Relaxed);
        (ns, pinned)
    };
    let work = || {
        let pinned = pin(1);
        start.wait();
        let began = std::time::Instant::now();
        let bytes = column.work(partner, &stop);
        (bytes, began.elapsed().as_nanos() as f64, pinned)
    };
    let (aggregation, partner) = std::thread::scope(|scope| {
        let (aggregation, partner) = (scope.spawn(aggregate), scope.spawn(work));
        (aggregation.join(), partner.join())
    });
    let panicked = |_| Failure::Engine("a thread panicked".into());
    let (ns, first_pinned) = aggregation.map_err(panicked)?;
    let (bytes, partner_ns, second_pinned) = partner.map_err(panicked)?;
    let turn = Turn { ns: ns?, gb_per_s: bytes? as f64 / partner_ns };
    Ok((turn, first_pinned && second_pinned))
}

impl Found {
    fn of(&self, partner: Partner) -> &[Turn] {
        let at = Partner::ALL.iter().position(|&other| other == partner);
        &self.turns[at.expect("all partners are there")]
    }

    /// A figure of two partners by round.
    fn rounds(&self, one: Partner, other: Partner, of: impl Fn(&Turn, &Turn) -> f64) -> Rounds {
        let mut rounds = Rounds::default();
        for (one, other) in self.of(one).iter().zip(self.of(other)) {
            rounds.push(of(one, other));
        }
        rounds
    }

    /// Slowdowns of the aggregation beside a partner.
    fn slowdowns(&self, partner: Partner) -> Rounds {
        self.rounds(partner, Partner::Nobody, |beside, alone| beside.ns / alone.ns)
    }

    /// What is to be said of a pair with this gain.
    fn verdict(&self, plain: Partner, gain: f64) -> &'static str {
        let again = self.slowdowns(Partner::NobodyAgain);
        let spread = again.spread().max((again.median() - 1.0).abs());
        match () {
            () if !self.conclusive => "inconclusive",
            () if self.slowdowns(plain).median() - 1.0 <= spread => "no harm to avert",
            () if gain > spread => "gain",
            () if gain < -spread => "loss",
            () => "no difference seen",
        }
    }
}

fn report(found: &Found, percent: u64, cache_bytes: u64, reporter: &mut Reporter) {
    let arm = |partner: &str| {
        let mut arm = Arm::new(
            "nontemporal",
            "bare",
            json!({"table_percent_of_cache": percent, "cache_bytes": cache_bytes, "partner": partner}),
        );
        arm.rounded("foreign_share", found.foreign);
        arm.figure("conclusive", found.conclusive);
        arm
    };
    for partner in Partner::ALL {
        let (slowdowns, same) = (found.slowdowns(partner), |turn: &Turn, _: &Turn| turn.ns);
        let mut arm = arm(partner.name());
        arm.rounded("slowdown", slowdowns.median());
        arm.rounded("slowdown_spread", slowdowns.spread());
        arm.rounded("access_ns", found.rounds(partner, partner, same).median());
        let moved = found.rounds(partner, partner, |turn, _| turn.gb_per_s);
        arm.rounded("partner_gb_per_s", moved.median());
        reporter.arm(arm);
    }
    for (plain, sparing) in PAIRS {
        let gains = found.rounds(plain, sparing, |plain, sparing| plain.ns / sparing.ns - 1.0);
        let speeds =
            found.rounds(plain, sparing, |plain, sparing| sparing.gb_per_s / plain.gb_per_s);
        // The spread of gains around their middle is that of the ratios, which are never near zero.
        let ratios = found.rounds(plain, sparing, |plain, sparing| plain.ns / sparing.ns);
        let mut arm = arm(&format!("{} in place of {}", sparing.name(), plain.name()));
        arm.rounded("aggregation_gain", gains.median());
        arm.rounded("aggregation_gain_spread", ratios.spread());
        arm.rounded("partner_speed", speeds.median());
        arm.rounded("aa_spread", found.slowdowns(Partner::NobodyAgain).spread());
        arm.figure("verdict", found.verdict(plain, gains.median()));
        reporter.arm(arm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partner_is_measured_beside_every_table() {
        let options = Options {
            percents: vec![50, 100],
            mib: 2,
            cache_bytes: Some(1 << 18),
            seconds: 0.002,
            rounds: 2,
        };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("all answers are right");
        assert_eq!(reporter.arms().len(), 2 * (Partner::ALL.len() + PAIRS.len()));
        for arm in reporter.arms() {
            let verdict = arm.figures.get("verdict").and_then(|verdict| verdict.as_str());
            let slowdown = arm.figures.get("slowdown").and_then(|slowdown| slowdown.as_f64());
            assert!(verdict.is_some() || slowdown > Some(0.0), "{arm:?}");
            if arm.figures["conclusive"] == false {
                assert!(verdict.is_none_or(|verdict| verdict == "inconclusive"), "{arm:?}");
            }
        }
    }

    #[test]
    fn a_verdict_needs_harm_and_more_than_the_difference_of_nothing() {
        let verdict = |conclusive, again: [f64; 2], scan: f64, sparing: f64| {
            let ns = [[10.0; 2], again, [scan; 2], [sparing; 2], [10.0; 2], [10.0; 2]];
            let turn = |ns| Turn { ns, gb_per_s: 1.0 };
            let turns = ns.into_iter().map(|rounds| rounds.map(turn).into()).collect();
            let found = Found { turns, foreign: 0.0, conclusive };
            found.verdict(Partner::Scan, scan / sparing - 1.0)
        };
        let quiet = [10.0, 10.1];
        assert_eq!(verdict(true, quiet, 15.0, 11.0), "gain");
        assert_eq!(verdict(true, quiet, 15.0, 20.0), "loss");
        assert_eq!(verdict(true, quiet, 15.0, 15.1), "no difference seen");
        assert_eq!(verdict(true, [10.0, 14.0], 15.0, 12.0), "no difference seen");
        assert_eq!(verdict(true, quiet, 10.05, 9.0), "no harm to avert");
        assert_eq!(verdict(false, quiet, 15.0, 11.0), "inconclusive");
    }
}
