//! Workloads in a cell: the same tuples as natively, stamped within the cell by the counter that the host has too.
//!
//! A cell that is measured has its processor to itself: it does not sleep before tenths of a second without work have
//! passed, and its host waits on the other processors. Its events lie in its memory before the first of them begins.

use std::sync::Arc;

use halcyon_cell::abi::samples::checksum;
use halcyon_cell::{Cell, CellError, Run};
pub use halcyon_cell::{Place, Script, available};
use halcyon_noise::{Exits, Runner, Stamps};

/// Memory of a cell, bytes.
const MEMORY_BYTES: u64 = 256 << 20;
/// Turns without work after which a cell sleeps: about a tenth of a second, longer than any wait of the host between two
/// messages, so that no exit falls into a run, and short enough that a forgotten cell gives its processor back.
const IDLE_TURNS: u64 = 1 << 21;

/// Where the cell of a measurement runs.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// In a machine, or in a thread that does the same.
    pub place: Place,
    /// The processor to which the cell is bound.
    pub cpu: Option<u32>,
    /// Its real-time priority, if it has one.
    pub fifo: Option<u8>,
}

impl Seat {
    fn start(self) -> Result<Cell, CellError> {
        let builder = Cell::builder().place(self.place).memory(MEMORY_BYTES);
        let mut builder = builder.idle_after(IDLE_TURNS).log_bytes(u64::MAX);
        if let Some(cpu) = self.cpu {
            builder = builder.cpu(cpu);
        }
        if let Some(priority) = self.fifo {
            builder = builder.fifo(priority);
        }
        builder.start()
    }
}

/// The reason why a workload does not run in a cell here: there are no cells, or a cell refuses the view's program.
pub fn missing(script: Option<&Script>) -> Option<String> {
    let processors = halcyon_machine::affinity::get().map_or(1, |cpus| cpus.len());
    if processors < 2 {
        return Some("needs a cell and so a second processor, on which its host waits".into());
    }
    let seat = Seat { place: Place::Machine, cpu: None, fifo: None };
    let tried = seat.start().and_then(|mut cell| {
        match script {
            Some(script) => script.load(&mut cell)?,
            None => cell.ping()?,
        }
        cell.stop();
        Ok(())
    });
    tried.err().map(|error| format!("needs a cell: {error}"))
}

/// What the tuples of a cell are.
enum Tuples {
    /// Those of a workload without a program ([`halcyon_cell::abi::message::work`]).
    Work(u64),
    /// Events of a view, from this one on.
    Events(Arc<Script>, usize),
}

/// A workload in a cell.
struct InCell {
    seat: Seat,
    tuples: Tuples,
    cell: Option<Cell>,
    thread: Option<u32>,
    exits: Option<Exits>,
    checksum: u64,
}

/// The events of a view in a cell; those before the event of number `warm` have no stamps.
pub fn events(seat: Seat, script: Arc<Script>, warm: usize) -> Box<dyn Runner> {
    Box::new(InCell::new(seat, Tuples::Events(script, warm)))
}

/// A workload without a program in a cell.
pub fn work(seat: Seat, number: u64) -> Box<dyn Runner> {
    Box::new(InCell::new(seat, Tuples::Work(number)))
}

impl InCell {
    fn new(seat: Seat, tuples: Tuples) -> InCell {
        InCell { seat, tuples, cell: None, thread: None, exits: None, checksum: 0 }
    }

    fn started(&self) -> Result<(Cell, u64), CellError> {
        let mut cell = self.seat.start()?;
        let checksum = match &self.tuples {
            Tuples::Work(number) => cell.run_work(*number, 0)?.checksum,
            Tuples::Events(script, warm) => {
                script.load(&mut cell)?;
                for batch in script.batches(0..*warm) {
                    cell.feed(&batch)?;
                }
                for batch in script.batches(*warm..script.len()) {
                    cell.hold(&batch)?;
                }
                cell.ping()?;
                0
            }
        };
        Ok((cell, checksum))
    }

    fn cell(&mut self) -> Result<&mut Cell, String> {
        self.cell.as_mut().ok_or_else(|| "the cell was not prepared".to_owned())
    }
}

/// The kernel's counters over a run.
fn exits(run: &Run) -> Option<Exits> {
    let interrupts = run.counted("irq_exits")?;
    let own = run.counted("exits")?.saturating_sub(interrupts);
    Some(Exits { own, interrupts, page_faults: run.counted("pf_taken")? })
}

impl Runner for InCell {
    fn prepare(&mut self) -> Result<(), String> {
        // The memory of the cell before is given back first.
        self.cell = None;
        let (cell, checksum) = self.started().map_err(|error| error.to_string())?;
        (self.cell, self.checksum) = (Some(cell), checksum);
        Ok(())
    }

    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String> {
        let number = match self.tuples {
            Tuples::Work(number) => Some(number),
            Tuples::Events(..) => None,
        };
        let cell = self.cell()?;
        let run = match number {
            Some(number) => cell.run_work(number, tuples),
            None => cell.run_held(tuples),
        };
        let run = run.map_err(|error| error.to_string())?;
        if run.stamps.len() != tuples + 1 {
            return Err(format!("the cell has {} of {tuples} tuples", run.stamps.len() - 1));
        }
        let thread = cell.thread().filter(|_| run.shares_counter());
        (self.thread, self.exits, self.checksum) = (thread, exits(&run), run.checksum);
        stamps.extend(&run.stamps);
        Ok(())
    }

    fn checksum(&mut self) -> Result<u64, String> {
        if let Tuples::Work(_) = self.tuples {
            return Ok(self.checksum);
        }
        let cell = self.cell()?;
        let rows = cell.read().map_err(|error| error.to_string())?;
        match cell.rejections().first() {
            None => Ok(checksum(rows.iter())),
            Some(rejection) => Err(format!("the cell rejected an event: {}", rejection.reason)),
        }
    }

    fn thread(&self) -> Option<u32> {
        self.thread
    }

    fn exits(&self) -> Option<Exits> {
        self.exits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Plain, Work};
    use halcyon_cell::abi::events::{Events, row_words};
    use halcyon_cell::abi::samples::Sample;

    /// Runs a test in a thread, and in a machine where there are machines.
    fn at_every_place(test: impl Fn(Seat)) {
        for place in [Place::Thread, Place::Machine] {
            match halcyon_cell::available(place) {
                Ok(()) => test(Seat { place, cpu: None, fifo: None }),
                Err(why) => eprintln!("skipped: cells in machines: {why}"),
            }
        }
    }

    /// Stamps and checksum of runs one after the other.
    fn ran(mut runner: Box<dyn Runner + '_>, parts: &[usize]) -> (Vec<u64>, u64) {
        let mut stamps = Stamps::new(parts.iter().sum());
        runner.prepare().expect("it can be made ready");
        for &part in parts {
            runner.run(part, &mut stamps).expect("it runs");
        }
        assert!(stamps.all().is_sorted() && stamps.room() == 0);
        (stamps.all().to_vec(), runner.checksum().expect("it has one"))
    }

    #[test]
    fn plain_workloads_give_the_same_checksum_in_a_cell_as_in_this_process() {
        at_every_place(|seat| {
            for plain in Plain::ALL {
                let (_, native) = ran(plain.runner(), &[700]);
                let (stamps, found) = ran(work(seat, plain.number()), &[200, 500]);
                assert_eq!((stamps.len(), found), (701, native), "{plain:?} {seat:?}");
                assert_ne!(ran(work(seat, plain.number()), &[701]).1, native);
            }
        });
    }

    fn script(sample: Sample, count: u64) -> Arc<Script> {
        let widths = row_words(&sample.program());
        let mut script = Script::new(sample.program(), Vec::new());
        for batch in sample.batches(count, 100) {
            for (relation, row, weight) in Events::new(batch.words(), &widths) {
                script.push(relation, row, weight);
            }
        }
        Arc::new(script)
    }

    #[test]
    fn stamped_events_leave_the_rows_that_fed_ones_leave() {
        at_every_place(|seat| {
            for sample in Sample::ALL {
                let script = script(sample, 3_000);
                let (_, fed) = ran(events(seat, Arc::clone(&script), 3_000), &[]);
                let (stamps, found) = ran(events(seat, Arc::clone(&script), 400), &[1_000, 1_600]);
                assert_eq!((stamps.len(), found), (2_601, fed), "{sample:?} {seat:?}");
                let mut short = events(seat, Arc::clone(&script), 2_990);
                short.prepare().expect("it can be made ready");
                let error = short.run(11, &mut Stamps::new(11)).expect_err("there are ten");
                assert_eq!(error, "the cell has 10 of 11 tuples");
            }
        });
    }
}
