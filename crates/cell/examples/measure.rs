//! What a cell costs: events per second through rings, and round trips, beside a thread of this
//! process; one JSON line each.
//!
//! `cargo run --release -p halcyon-cell --example measure -- [--rounds N] [--events N] [--feeder CPU]
//! [--cell CPU] [--fifo PRIORITY]`
//!
//! Every round runs all variants of a view one after the other, in an order that turns from round to
//! round, and checks that all have the same rows. `direct`: the engine is called in this thread with
//! events prepared in memory, by operations or by machine code. `thread` and `machine`: a cell at that
//! place gets the same events through its rings in batches, `events_per_s` is from the first batch to
//! the answer of a question behind the last one. `ratio`: the median over the rounds of this variant's
//! rate over that of `thread` in the same round. `foreign`: processors that others used meanwhile.
//! With `--fifo` the cell's thread has that real-time priority while it lives, and this thread while it
//! is timed: tenths of a second each, on processors that nothing else must have just then.

use std::time::Instant;

use halcyon_cell::abi::events::{Batch, Events, row_words};
use halcyon_cell::abi::samples::{Sample, checksum};
use halcyon_cell::{Cell, Place, available};
use halcyon_machine::{affinity, clock, counters, schedule};
use halcyon_view::{Engine, Executor, Options};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    Direct(Executor),
    Ring(Place),
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Direct(Executor::Compiled) => "direct, machine code",
            Variant::Direct(_) => "direct, operations",
            Variant::Ring(Place::Machine) => "machine",
            Variant::Ring(Place::Thread) => "thread",
        }
    }
}

struct Setup {
    rounds: usize,
    events: u64,
    feeder: Option<u32>,
    cell: Option<u32>,
    fifo: Option<u8>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let setup = Setup {
        rounds: option("--rounds").unwrap_or(7) as usize,
        events: option("--events").unwrap_or(400_000),
        feeder: option("--feeder").map(|cpu| cpu as u32),
        cell: option("--cell").map(|cpu| cpu as u32),
        fifo: option("--fifo").map(|priority| priority as u8),
    };
    if let Some(cpu) = setup.feeder {
        affinity::set(&[cpu]).expect("the feeder's processor");
    }
    let has_machines = available(Place::Machine);
    if let Err(why) = &has_machines {
        println!("{}", json!({ "experiment": "cell", "skipped": "machine", "why": why }));
    }
    for sample in Sample::ALL {
        for batch in [16, 64, 256, 1024] {
            rates(&setup, sample, batch, has_machines.is_ok());
        }
    }
    round_trips(&setup, has_machines.is_ok());
}

fn start(setup: &Setup, place: Place) -> Cell {
    let mut builder = Cell::builder().place(place).memory(64 << 20).idle_after(0);
    if let Some(cpu) = setup.cell {
        builder = builder.cpu(cpu);
    }
    if let Some(priority) = setup.fifo {
        builder = builder.fifo(priority);
    }
    // All messages are kept, so that no saving falls into the measurement.
    builder.log_bytes(u64::MAX).start().expect("a cell")
}

/// Seconds that some work takes; this thread has the cell's priority meanwhile, some ten milliseconds.
fn timed(setup: &Setup, work: impl FnOnce()) -> f64 {
    if let Some(priority) = setup.fifo {
        let _ = schedule::set(schedule::Policy::Fifo(priority));
    }
    let begin = Instant::now();
    work();
    let took = begin.elapsed().as_secs_f64();
    if setup.fifo.is_some() {
        let _ = schedule::set(schedule::Policy::Fair);
    }
    took
}

/// Events per second, and the checksum of the rows.
fn run(setup: &Setup, sample: Sample, batches: &[Batch], variant: Variant) -> (f64, u64) {
    match variant {
        Variant::Direct(executor) => {
            let options = Options { executor, ..Options::default() };
            let mut engine = Engine::new(sample.program(), options).expect("a sound program");
            let widths = row_words(&sample.program());
            let took = timed(setup, || {
                for batch in batches {
                    let events = Events::new(batch.words(), &widths).map(Some);
                    engine.apply_all(events).expect("sums fit");
                }
            });
            let mut rows = Vec::new();
            engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
            (setup.events as f64 / took, checksum(rows.iter().map(|row| &row[..])))
        }
        Variant::Ring(place) => {
            let mut cell = start(setup, place);
            cell.load(&sample.program()).expect("a sound program");
            cell.ping().expect("the cell answers");
            let took = timed(setup, || {
                for batch in batches {
                    cell.feed(batch).expect("accepted");
                }
                cell.ping().expect("the cell answers");
            });
            let rows = cell.read().expect("the cell answers");
            assert_eq!(cell.restarts(), 0, "{:?}", cell.fault());
            (setup.events as f64 / took, checksum(rows.iter()))
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn spread(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, values.iter().copied().fold(0.0, f64::max)]
}

fn rates(setup: &Setup, sample: Sample, batch: usize, has_machines: bool) {
    let batches = sample.batches(setup.events, batch);
    let mut variants = vec![
        Variant::Direct(Executor::Operations),
        Variant::Direct(Executor::Compiled),
        Variant::Ring(Place::Thread),
    ];
    if has_machines {
        variants.push(Variant::Ring(Place::Machine));
    }
    let mut found = vec![Vec::new(); variants.len()];
    let mut sums = Vec::new();
    let foreign = Foreign::begin();
    for round in 0..setup.rounds {
        for step in 0..variants.len() {
            let at = (round + step) % variants.len();
            let (rate, sum) = run(setup, sample, &batches, variants[at]);
            found[at].push(rate);
            sums.push(sum);
        }
    }
    assert!(sums.iter().all(|sum| *sum == sums[0]), "all variants have the same rows");
    let foreign = foreign.end();
    for (variant, rates) in variants.iter().zip(&found) {
        let ratios: Vec<f64> = rates.iter().zip(&found[2]).map(|(rate, of)| rate / of).collect();
        let line = json!({
            "experiment": "cell", "measure": "rate", "view": sample.name(), "batch": batch,
            "variant": variant.name(), "events": setup.events, "rounds": setup.rounds,
            "events_per_s": median(rates).round(), "events_per_s_spread": spread(rates),
            "ratio": median(&ratios), "ratio_spread": spread(&ratios),
            "foreign": foreign, "fifo": setup.fifo, "checksum": format!("{:#x}", sums[0]),
        });
        println!("{line}");
    }
}

const TRIPS: usize = 20_000;

fn round_trips(setup: &Setup, has_machines: bool) {
    let mut places = vec![Place::Thread];
    if has_machines {
        places.push(Place::Machine);
    }
    let ns = |ticks: u64| clock::calibration().ns(ticks);
    let mut found: Vec<[Vec<f64>; 2]> = places.iter().map(|_| [vec![], vec![]]).collect();
    let foreign = Foreign::begin();
    for round in 0..setup.rounds {
        for step in 0..places.len() {
            let at = (round + step) % places.len();
            let mut cell = start(setup, places[at]);
            let mut trips: Vec<u64> = Vec::with_capacity(TRIPS);
            timed(setup, || {
                trips.extend((0..TRIPS).map(|_| {
                    let begin = clock::ticks();
                    cell.ping().expect("the cell answers");
                    clock::ticks() - begin
                }));
            });
            trips.sort_unstable();
            found[at][0].push(ns(trips[TRIPS / 2]) as f64);
            found[at][1].push(ns(trips[TRIPS / 1000 * 999]) as f64);
        }
    }
    let foreign = foreign.end();
    for (place, [middle, late]) in places.iter().zip(&found) {
        let ratios: Vec<f64> =
            middle.iter().zip(&found[0][0]).map(|(trip, of)| trip / of).collect();
        let line = json!({
            "experiment": "cell", "measure": "round trip", "variant": Variant::Ring(*place).name(),
            "trips": TRIPS, "rounds": setup.rounds, "p50_ns": median(middle),
            "p50_ns_spread": spread(middle), "p999_ns": median(late), "ratio": median(&ratios),
            "ratio_spread": spread(&ratios), "foreign": foreign, "fifo": setup.fifo,
        });
        println!("{line}");
    }
}

/// What others use of the processors, from the kernel's counts.
struct Foreign {
    begin: Instant,
    busy_s: f64,
    own_s: f64,
}

impl Foreign {
    fn begin() -> Foreign {
        Foreign { begin: Instant::now(), busy_s: busy_s(), own_s: own_s() }
    }

    /// Processors that others kept busy on average; `null` where the kernel does not tell.
    fn end(&self) -> Option<f64> {
        let (busy, own) = (busy_s() - self.busy_s, own_s() - self.own_s);
        let share = (busy - own) / self.begin.elapsed().as_secs_f64();
        (busy > 0.0).then_some((share.max(0.0) * 100.0).round() / 100.0)
    }
}

fn own_s() -> f64 {
    counters::process_cpu_ns().unwrap_or(0) as f64 / 1e9
}

/// Seconds that all processors have been busy since the start (ticks of 10 ms).
fn busy_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<f64> =
        line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // User, nice, system, (idle, waiting,) interrupts, soft ones, stolen; guests are part of user.
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).sum::<f64>() / 100.0
}
