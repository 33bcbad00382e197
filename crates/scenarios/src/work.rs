//! What tuples do: workloads as the experiment takes them, and two that need no engine.

use halcyon_cell::abi::message::work;
use halcyon_cell_image::plain;
use halcyon_noise::{Runner, Stamps};

use crate::in_cell::{self, Seat};

/// A workload: makes runners, which all do the same.
pub trait Work: Sync {
    /// Name in reports.
    fn name(&self) -> &str;
    /// The drawing that it belongs to.
    fn family(&self) -> Family;
    /// Number of measured tuples that there are, at most `tuples`.
    fn tuples_max(&self, tuples: usize) -> usize;
    /// A runner on the calling thread.
    fn runner(&self) -> Box<dyn Runner + '_>;
    /// The reason why the workload does not run in a cell here.
    fn cell_missing(&self) -> Option<String> {
        Some("needs a cell, which this workload does not run in".into())
    }
    /// A runner in a cell.
    ///
    /// Errors: says what is missing.
    fn cell(&self, _seat: Seat) -> Result<Box<dyn Runner + '_>, String> {
        Err(self.cell_missing().unwrap_or_default())
    }
}

/// Workloads that are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Those that need no engine.
    Plain,
    /// Views over order books (P2, Figure 3).
    Finance,
    /// Views over TPC-H's tables (P2, Figure 4).
    Tpch,
}

/// A workload that needs no engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A few steps of a generator of numbers in registers: nothing but the processor.
    Loop,
    /// An update of a hash map with 65,536 entries.
    Map,
}

impl Plain {
    /// Both.
    pub const ALL: [Plain; 2] = [Plain::Loop, Plain::Map];

    /// The workload's number in messages to a cell.
    pub fn number(self) -> u64 {
        match self {
            Plain::Loop => work::LOOP,
            Plain::Map => work::MAP,
        }
    }

    /// The workload, before its first tuple.
    fn begun(self) -> plain::Plain {
        plain::Plain::of(self.number()).expect("the image has both workloads")
    }
}

impl Work for Plain {
    fn name(&self) -> &str {
        match self {
            Plain::Loop => "loop",
            Plain::Map => "map",
        }
    }

    fn family(&self) -> Family {
        Family::Plain
    }

    fn tuples_max(&self, tuples: usize) -> usize {
        tuples
    }

    fn runner(&self) -> Box<dyn Runner + '_> {
        Box::new(Native { plain: *self, work: self.begun() })
    }

    fn cell_missing(&self) -> Option<String> {
        in_cell::missing(None)
    }

    fn cell(&self, seat: Seat) -> Result<Box<dyn Runner + '_>, String> {
        Ok(in_cell::work(seat, self.number()))
    }
}

/// A workload of the image in a thread of this process.
struct Native {
    plain: Plain,
    work: plain::Plain,
}

impl Runner for Native {
    fn prepare(&mut self) -> Result<(), String> {
        self.work = self.plain.begun();
        Ok(())
    }

    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String> {
        stamps.begin();
        self.work.run(tuples, || stamps.stamp());
        Ok(())
    }

    fn checksum(&mut self) -> Result<u64, String> {
        Ok(self.work.checksum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tuples_give_the_same_checksum_and_others_another() {
        for work in Plain::ALL {
            let run = |parts: &[usize]| {
                let (mut runner, mut stamps) = (work.runner(), Stamps::new(600));
                runner.prepare().expect("it can be made ready");
                parts.iter().for_each(|&part| runner.run(part, &mut stamps).expect("it runs"));
                assert_eq!(stamps.tuples(), parts.iter().sum::<usize>());
                runner.checksum().expect("it has one")
            };
            assert_eq!(run(&[100, 500]), run(&[600]), "{work:?}");
            assert_ne!(run(&[300]), run(&[600]), "{work:?}");
        }
    }
}
