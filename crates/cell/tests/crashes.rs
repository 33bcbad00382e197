//! A cell that is fed while another thread breaks it at random moments: no accepted event is lost, none is there twice, and
//! the rows are those of an engine of this process with the same events, whenever they are read.
//!
//! Every test runs with a thread that does what a cell does, and where machines can be had with a machine; else it says so.
//! `HALCYON_CELL_ROUNDS` is the number of cells that are broken (docs/testing.md).

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use halcyon_base::rng::Rng;
use halcyon_cell::abi::events::{Batch, Events, row_words};
use halcyon_cell::abi::samples::{Sample, checksum};
use halcyon_cell::{Breaking, Cell, CellError, Place, available};
use halcyon_view::{Engine, Executor, Options};

fn rounds() -> u64 {
    let asked = std::env::var("HALCYON_CELL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    asked.unwrap_or(4)
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The view in this process.
struct Native {
    engine: Engine,
    widths: Vec<usize>,
    events: u64,
}

impl Native {
    fn new(sample: Sample) -> Native {
        let options = Options { executor: Executor::Operations, ..Options::default() };
        let engine = Engine::new(sample.program(), options).expect("a sound program");
        Native { engine, widths: row_words(&sample.program()), events: 0 }
    }

    fn take(&mut self, batch: &Batch) {
        for (relation, row, weight) in Events::new(batch.words(), &self.widths) {
            self.engine.apply(relation, row, weight).expect("sums fit");
            self.events += 1;
        }
    }

    fn checksum(&mut self) -> u64 {
        let mut rows = Vec::new();
        self.engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
        checksum(rows.iter().map(|row| &row[..]))
    }
}

/// What a round has come to.
#[derive(Default)]
struct Counts {
    events: u64,
    broken: [u64; 3],
    restarts: u64,
    reads: u64,
}

const WAYS: [Breaking; 3] = [Breaking::Kill, Breaking::Crash, Breaking::Scribble];

/// Reads the cell's rows, and compares them with those of this process after the same events.
fn compare(cell: &mut Cell, native: &mut Native, last: u64, what: &str) {
    // A cell that is broken again and again while it is started gives up, and is there for the next call.
    let rows = loop {
        match cell.read() {
            Ok(rows) => break rows,
            Err(CellError::Down(_)) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    };
    assert_eq!(rows.sequence, last, "{what}: the rows have all that was accepted");
    assert_eq!(checksum(rows.iter()), native.checksum(), "{what}: the native view's rows");
}

/// One cell, broken some times at random moments while it is fed and read.
fn round(place: Place, number: u64, counts: &mut Counts) {
    let mut rng = Rng::new(1_000 + number);
    let sample = Sample::ALL[(number % 2) as usize];
    let what = format!("{place:?}, round {number}");
    let batches = sample.batches(60_000, 20 + rng.below(60) as usize);
    let mut native = Native::new(sample);
    let builder = Cell::builder().place(place).memory(32 << 20).log_bytes(100_000);
    let mut cell = builder.start().expect("a cell");
    cell.load(&sample.program()).expect("a sound program");
    let (breaker, breaks) = (cell.breaker(), 1 + rng.below(4));
    let (done, mut last) = (AtomicU64::new(0), 0);
    let mut ways = Vec::new();
    let moments: Vec<(Duration, Breaking)> = (0..breaks)
        .map(|_| {
            let way = rng.below(3) as usize;
            ways.push(way);
            (Duration::from_micros(rng.below(30_000)), WAYS[way])
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (after, way) in &moments {
                std::thread::sleep(*after);
                breaker.break_cell(*way);
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (mut fed, mut behind) = (batches.iter(), 0);
        // On until some batches behind the last break, or until there are no more.
        while behind < 20 {
            behind += u64::from(done.load(Ordering::SeqCst) == breaks);
            let Some(batch) = fed.next() else { break };
            last = match cell.feed(batch) {
                Ok(sequence) => sequence,
                // Accepted, although no cell can be kept running just now.
                Err(CellError::Down(_)) => cell.sequence(),
                Err(error) => panic!("{what}: {error}"),
            };
            native.take(batch);
            match rng.below(40) {
                0 => {
                    compare(&mut cell, &mut native, last, &what);
                    counts.reads += 1;
                }
                1..10 => std::thread::sleep(Duration::from_micros(rng.below(300))),
                _ => {}
            }
        }
    });
    compare(&mut cell, &mut native, last, &what);
    let report = cell.report().expect("the cell answers");
    assert_eq!((report.events, report.rejected), (native.events, 0), "{what}: each event once");
    counts.events += native.events;
    counts.restarts += cell.restarts();
    ways.iter().for_each(|way| counts.broken[*way] += 1);
    // What the last state and the log have between them is all there is.
    cell.kill();
    compare(&mut cell, &mut native, last, &what);
}

#[test]
fn a_cell_that_breaks_at_any_moment_while_it_is_fed_loses_no_accepted_event() {
    for place in [Place::Thread, Place::Machine] {
        if let Err(why) = available(place) {
            say(&format!("skipped: cells in machines: {why}"));
            continue;
        }
        let (begun, mut counts) = (Instant::now(), Counts::default());
        (0..rounds()).for_each(|number| round(place, number, &mut counts));
        assert!(counts.restarts > 0, "{place:?}: some break is noticed");
        let Counts { events, broken: [killed, crashed, scribbled], restarts, reads } = counts;
        say(&format!(
            "{place:?}: {} rounds, {killed} kills, {crashed} crashes, {scribbled} rings overwritten, {restarts} cells \
             started anew; {events} events accepted, none lost, none twice; {reads} reads meanwhile, all as the native \
             view; {:.0} s",
            rounds(),
            begun.elapsed().as_secs_f64()
        ));
    }
}
