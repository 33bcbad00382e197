//! What tuples do: a bare loop, an update of a hash map, the events of incremental views.

use std::hint::black_box;

use halcyon_base::rng::{Rng, splitmix64};
use halcyon_noise::{Runner, Stamps};

use crate::views::bare::{Answer, Map};
use crate::views::events::Events;
use crate::views::halcyon::{How, Maintained};
use crate::views::measure::Taker;
use crate::views::queries::{self, Query, Source};
use crate::views::{orderbook, tpch};
use crate::{Failure, Result};

/// Names of the two workloads that are no views.
pub const PLAIN: [&str; 2] = ["loop", "map"];
/// Queries of the experiment, those of the order book first.
pub const QUERIES: [&str; 12] = [
    "countone",
    "axfinder",
    "pricespread",
    "brokerspread",
    "missedtrades",
    "vwap",
    "q1",
    "q6",
    "q12",
    "q14",
    "q11a",
    "q18a",
];
/// Live orders in the books while tuples are measured.
const LIVE_ORDERS: usize = 4_000;
/// TPC-H events before the first measured one, if there are enough (P2 drops the first 10,000).
const WARM: usize = 10_000;
/// Entries of the hash map.
const ENTRIES: u64 = 1 << 16;

/// A workload: makes runners, which all do the same.
pub enum Work {
    /// A few steps of a generator of numbers in registers: nothing but the processor.
    Loop,
    /// An update of a hash map with 65,536 entries.
    Map,
    /// Events of a view.
    View {
        /// The view.
        query: &'static Query,
        /// The events.
        events: Events,
        /// Number of events before the first measured one.
        warm: usize,
    },
}

impl Work {
    /// The workload of a name, with so many measured tuples or fewer.
    ///
    /// Errors: there is no such workload.
    pub fn named(name: &str, tuples: usize, scale: f64, seed: u64) -> Result<Work> {
        match name {
            "loop" => return Ok(Work::Loop),
            "map" => return Ok(Work::Map),
            _ => {}
        }
        let query = queries::find(name).filter(|_| QUERIES.contains(&name)).ok_or_else(|| {
            let known = [&PLAIN[..], &QUERIES[..]].concat().join(", ");
            Failure::Engine(format!("no workload {name}; there are {known}"))
        })?;
        let (mut events, warm) = match query.source {
            Source::Book => orderbook::synthetic(LIVE_ORDERS, tuples, seed),
            Source::Tpch(tables) => {
                let events = tpch::inserts(scale, Query::relations(tables));
                let warm = WARM.min(events.len() / 10);
                (events, warm)
            }
        };
        events.truncate(warm + tuples);
        Ok(Work::View { query, events, warm })
    }

    /// Number of measured tuples at most.
    pub fn tuples_max(&self, tuples: usize) -> usize {
        match self {
            Work::Loop | Work::Map => tuples,
            Work::View { events, warm, .. } => tuples.min(events.len() - warm),
        }
    }

    /// A runner on the calling thread.
    pub fn runner(&self) -> Box<dyn Runner + '_> {
        match self {
            Work::Loop => Box::new(Loop { steps: 16, state: 0 }),
            Work::Map => Box::new(HashMap { map: Map::default(), rng: Rng::new(1) }),
            Work::View { query, events, warm } => {
                Box::new(View { query, events, warm: *warm, taker: None, next: 0 })
            }
        }
    }
}

/// A loop in registers.
pub struct Loop {
    /// Steps of a tuple.
    pub steps: u32,
    /// The numbers' state.
    pub state: u64,
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

struct HashMap {
    map: Map<u64, u64>,
    rng: Rng,
}

impl Runner for HashMap {
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

/// A hash of two words.
fn mixed(a: u64, b: u64) -> u64 {
    let mut state = a ^ b.rotate_left(32);
    splitmix64(&mut state)
}

struct View<'a> {
    query: &'static Query,
    events: &'a Events,
    warm: usize,
    taker: Option<Maintained<'a>>,
    next: usize,
}

/// A number that follows from a view's rows.
fn checksum(answer: &Answer) -> u64 {
    let mut sum = 0;
    for (keys, values) in answer {
        keys.iter().flat_map(|key| key.bytes()).for_each(|byte| sum = mixed(sum, u64::from(byte)));
        values.iter().for_each(|value| sum = mixed(sum, value.to_bits()));
    }
    sum
}

impl Runner for View<'_> {
    fn prepare(&mut self) -> Result<(), String> {
        // The memory of the view before is given back first.
        self.taker = None;
        let how = How { executor: "compiled", batch: 1 };
        let mut taker = Maintained::new(self.query, self.events, how, false)
            .map_err(|error| error.to_string())?;
        taker.take_run(0..self.warm).map_err(|error| error.to_string())?;
        (self.taker, self.next) = (Some(taker), self.warm);
        Ok(())
    }

    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String> {
        let taker = self.taker.as_mut().ok_or("the view was not prepared")?;
        let end = self.next + tuples;
        stamps.begin();
        for index in self.next..end {
            taker.take(index).map_err(|error| error.to_string())?;
            stamps.stamp();
        }
        self.next = end;
        Ok(())
    }

    fn checksum(&mut self) -> Result<u64, String> {
        let taker = self.taker.as_mut().ok_or("the view was not prepared")?;
        taker.answer().map(|answer| checksum(&answer)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tuples_give_the_same_checksum_and_others_another() {
        for name in [&PLAIN[..], &["axfinder", "q11a"][..]].concat() {
            let work = Work::named(name, 600, 0.001, 1).expect("a known name");
            let tuples = work.tuples_max(600);
            let run = |parts: &[usize]| {
                let (mut runner, mut stamps) = (work.runner(), Stamps::new(tuples));
                runner.prepare().expect("it can be made ready");
                parts.iter().for_each(|&part| runner.run(part, &mut stamps).expect("it runs"));
                assert_eq!(stamps.tuples(), parts.iter().sum::<usize>());
                runner.checksum().expect("it has one")
            };
            let whole = run(&[tuples]);
            assert_eq!(run(&[100, tuples - 100]), whole, "{name}");
            assert_ne!(run(&[tuples / 2]), whole, "{name}");
        }
        assert!(Work::named("q2", 1, 0.001, 1).is_err());
    }
}
