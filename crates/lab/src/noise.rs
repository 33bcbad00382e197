//! Noise (P2): the time of every event of incremental views in the paper's scenarios, which crate `scenarios` has.

use std::sync::Arc;

use halcyon_noise::{Runner, Stamps};
use halcyon_scenarios::in_cell::{self, Script, Seat};
use halcyon_scenarios::work::{Family, Plain, Work};
pub use halcyon_scenarios::{Guardian, Options, guard, stressors};

use crate::views::events::Events;
use crate::views::halcyon::{How, Maintained};
use crate::views::measure::Taker;
use crate::views::queries::{self, Query, Source};
use crate::views::{orderbook, tpch};
use crate::{Failure, Reporter, Result};

/// Queries of the experiment.
const QUERIES: [&str; 12] = [
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

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let all = Plain::ALL.iter().map(Work::name).chain(QUERIES);
    let wanted: Vec<&str> = match options.query.is_empty() {
        true => all.collect(),
        false => options.query.iter().map(String::as_str).collect(),
    };
    let mut works = Vec::new();
    for name in wanted {
        reporter.progress(format_args!("noise: making the tuples of {name}"));
        works.push(named(name, options)?);
    }
    Ok(halcyon_scenarios::run(options, &works, reporter)?)
}

/// The workload of a name.
fn named(name: &str, options: &Options) -> Result<Box<dyn Work>> {
    if let Some(plain) = Plain::ALL.into_iter().find(|plain| plain.name() == name) {
        return Ok(Box::new(plain));
    }
    let query = queries::find(name).filter(|_| QUERIES.contains(&name)).ok_or_else(|| {
        let known = Plain::ALL.iter().map(Work::name).chain(QUERIES).collect::<Vec<_>>();
        Failure::Engine(format!("no workload {name}; there are {}", known.join(", ")))
    })?;
    let tuples = options.tuples as usize;
    let (events, warm) = match query.source {
        // Of a view that reads one side of the books, the events of that side are the tuples.
        Source::Book => orderbook::synthetic(LIVE_ORDERS, 2 * tuples + 1000, options.seed),
        Source::Tpch(tables) => {
            let events = tpch::inserts(options.sf, Query::relations(tables));
            let warm = WARM.min(events.len() / 10);
            (events, warm)
        }
    };
    let (mut events, warm) = events.read(warm, |stream| query.sql.contains(stream));
    events.truncate(warm + tuples);
    Ok(Box::new(ViewEvents { query, events, warm }))
}

/// Events of a view.
struct ViewEvents {
    query: &'static Query,
    events: Events,
    /// Number of events before the first measured one.
    warm: usize,
}

impl Work for ViewEvents {
    fn name(&self) -> &str {
        self.query.name
    }

    fn family(&self) -> Family {
        match self.query.source {
            Source::Book => Family::Finance,
            Source::Tpch(_) => Family::Tpch,
        }
    }

    fn tuples_max(&self, tuples: usize) -> usize {
        tuples.min(self.events.len() - self.warm)
    }

    fn runner(&self) -> Box<dyn Runner + '_> {
        let ViewEvents { query, events, warm } = self;
        Box::new(View { query, events, warm: *warm, taker: None, next: 0 })
    }

    fn cell_missing(&self) -> Option<String> {
        self.script().map_or_else(Some, |script| in_cell::missing(Some(&script)))
    }

    fn cell(&self, seat: Seat) -> Result<Box<dyn Runner + '_>, String> {
        Ok(in_cell::events(seat, Arc::new(self.script()?), self.warm))
    }
}

impl ViewEvents {
    /// The view's program and all its events, for a cell.
    fn script(&self) -> Result<Script, String> {
        let how = How { executor: "operations", batch: 1 };
        let maintained = Maintained::new(self.query, &self.events, how, false);
        maintained.and_then(|view| view.script()).map_err(|error| error.to_string())
    }
}

struct View<'a> {
    query: &'static Query,
    events: &'a Events,
    warm: usize,
    taker: Option<Maintained<'a>>,
    next: usize,
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
        taker.checksum().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use halcyon_scenarios::in_cell::{Place, available};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_same_events_give_the_same_checksum_and_others_another() {
        let options = Line::parse_from(["noise", "--tuples", "600", "--sf", "0.001"]).options;
        for name in ["axfinder", "countone", "q11a", "q1"] {
            let work = named(name, &options).expect("a known name");
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
            // A cell has the same rows, be it a thread or, where there are machines, a machine.
            for place in [Place::Thread, Place::Machine] {
                if available(place).is_err() {
                    continue;
                }
                let mut cell = work.cell(Seat { place, cpu: None, fifo: None }).expect("a cell");
                let mut stamps = Stamps::new(tuples);
                cell.prepare().expect("it can be made ready");
                cell.run(tuples, &mut stamps).expect("it runs");
                assert_eq!((cell.checksum(), stamps.tuples()), (Ok(whole), tuples), "{name}");
            }
            assert_ne!(run(&[tuples / 2]), whole, "{name}");
        }
        assert!(named("q2", &options).is_err());
    }
}
