//! What tuples do: workloads as the experiment takes them, and two that need no engine.

use std::collections::HashMap;
use std::hint::black_box;

use foldhash::fast::FixedState;
use halcyon_base::rng::{Rng, splitmix64};
use halcyon_noise::{Runner, Stamps};

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
    /// A runner in a cell.
    ///
    /// Errors: says what is missing.
    fn cell(&self) -> Result<Box<dyn Runner + '_>, String> {
        Err("needs a cell, which this workload does not run in".into())
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
        match self {
            Plain::Loop => Box::new(Loop { steps: 16, state: 0 }),
            Plain::Map => Box::new(Map { map: HashMap::default(), rng: Rng::new(1) }),
        }
    }
}

/// Entries of the hash map.
const ENTRIES: u64 = 1 << 16;

/// A loop in registers.
pub(crate) struct Loop {
    /// Steps of a tuple.
    pub(crate) steps: u32,
    /// The numbers' state.
    pub(crate) state: u64,
}

impl Runner for Loop {
    fn prepare(&mut self) -> Result<(), String> {
        self.state = 7;
        Ok(())
    }

    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String> {
        stamps.begin();
        for _ in 0..tuples {
            for _ in 0..self.steps {
                black_box(splitmix64(&mut self.state));
            }
            stamps.stamp();
        }
        Ok(())
    }

    fn checksum(&mut self) -> Result<u64, String> {
        Ok(self.state)
    }
}

struct Map {
    map: HashMap<u64, u64, FixedState>,
    rng: Rng,
}

impl Runner for Map {
    fn prepare(&mut self) -> Result<(), String> {
        self.rng = Rng::new(1);
        self.map = (0..ENTRIES).map(|key| (key, 0)).collect();
        Ok(())
    }

    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String> {
        stamps.begin();
        for _ in 0..tuples {
            let key = self.rng.next_u64() % ENTRIES;
            *self.map.entry(key).or_default() += key | 1;
            stamps.stamp();
        }
        Ok(())
    }

    fn checksum(&mut self) -> Result<u64, String> {
        let entries = self.map.iter();
        Ok(entries.fold(0, |sum: u64, (&key, &value)| sum.wrapping_add(mixed(key, value))))
    }
}

/// A hash of two words, for checksums.
pub fn mixed(a: u64, b: u64) -> u64 {
    let mut state = a ^ b.rotate_left(32);
    splitmix64(&mut state)
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
