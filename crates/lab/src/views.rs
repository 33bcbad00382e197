//! Incremental views: events per second and intrinsic latency, beside the same views by hand and
//! recomputation (P2; DBToaster's finance queries and TPC-H variants).
//!
//! Arms: `compiled` and `interpreted` are Halcyon, through the handle of a stream; `bare` is
//! DBToaster's plan for the query, by hand over hash maps; `recompute` loads the rows into tables and
//! runs the query after every thousand events. Events lie packed in memory before the clock starts;
//! a rate is events per second of the thread's processor time, over all of them, with whatever the
//! view must do at the end. Views are checked at two places: after the first 5,000 events against the
//! query over tables, and after as many as the view by hand takes in `--seconds` against that.
//!
//! *Intrinsic* latency is the smallest time of each event over several passes: noise strikes another
//! event in every pass, what is left belongs to the program (P2 takes noise away with a partition).

pub mod bare;
pub mod events;
mod halcyon;
mod measure;
pub mod orderbook;
pub mod queries;
mod recompute;
mod tpch;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::measure::Rounds;
use crate::report::{Arm, Reporter};
use crate::{Failure, Result};
use bare::Answer;
use events::Events;
use measure::{Ask, Figures, Given};
use queries::{Query, Source};

/// Options of `halcyon lab views`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Only these queries
    #[arg(long, value_delimiter = ',')]
    pub query: Vec<String>,
    /// Only these arms
    #[arg(long, value_enum, value_delimiter = ',')]
    pub engine: Vec<Engine>,
    /// Messages of an exchange, a line each: t,order,action,volume,price; made up without it
    #[arg(long)]
    pub book: Option<PathBuf>,
    /// How many times the order book is replayed into the same view
    #[arg(long, default_value_t = 100)]
    pub repeat: usize,
    /// Instead of a recorded book: so many live orders, and as many events after they are in
    #[arg(long, conflicts_with = "book")]
    pub live: Option<usize>,
    /// Scale factor of TPC-H
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// TPC-H with deletions: every third insert is followed by the delete of some row
    #[arg(long)]
    pub deletions: bool,
    /// Rounds of rates; arms take turns
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Passes for intrinsic latency; 0: none
    #[arg(long, default_value_t = 5)]
    pub passes: usize,
    /// An arm takes events for at most this long in a round
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Read views of one row after every event: some of their work is done when they are read
    #[arg(long)]
    pub read_each: bool,
    /// Seed of what is made up
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// An arm.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Halcyon, compiled triggers
    Compiled,
    /// Halcyon, interpreted triggers
    Interpreted,
    /// DBToaster's plan by hand
    Bare,
    /// The analytical engine after every thousand events
    Recompute,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Compiled => "compiled",
            Self::Interpreted => "interpreted",
            Self::Bare => "bare",
            Self::Recompute => "recompute",
        }
    }

    fn ask(self, what: Ask, query: &Query, events: &Events, read_each: bool) -> Result<Given> {
        match self {
            Self::Compiled => halcyon::ask(what, query, events, "compiled", read_each),
            Self::Interpreted => halcyon::ask(what, query, events, "interpreted", read_each),
            Self::Bare => (query.bare)(what, events),
            Self::Recompute => recompute::ask(what, query, events),
        }
    }
}

/// A query's events, and from which one on latency counts.
struct Work {
    query: &'static Query,
    events: Events,
    warm: usize,
    params: Value,
    read_each: bool,
}

impl Work {
    fn new(query: &'static Query, options: &Options) -> Result<Self> {
        let mut warm = 0;
        let (events, params) = match query.source {
            Source::Book => {
                let (once, name) = match (&options.book, options.live) {
                    (Some(path), _) => {
                        (orderbook::read(&std::fs::read_to_string(path)?)?, path_name(path))
                    }
                    (None, live) => {
                        let live = live.unwrap_or(4_000);
                        let (events, filled) = orderbook::synthetic(live, live, options.seed);
                        warm = filled;
                        (events, format!("{live} live orders"))
                    }
                };
                let repeat = if options.live.is_some() { 1 } else { options.repeat };
                (once.repeated(repeat), json!({ "book": name, "repeat": repeat }))
            }
            Source::Tpch(tables) => {
                let inserts = tpch::inserts(options.sf, Query::relations(tables));
                let events = match options.deletions {
                    true => tpch::with_deletions(&inserts, options.seed),
                    false => inserts,
                };
                (events, json!({ "sf": options.sf, "deletions": options.deletions }))
            }
        };
        Ok(Self { query, events, warm, params, read_each: options.read_each })
    }

    fn arm(&self, engine: Engine, event_count: usize) -> Arm {
        let mut params = self.params.clone();
        params["query"] = json!(self.query.name);
        params["events"] = json!(event_count);
        params["read_each"] = json!(self.read_each);
        Arm::new("views", engine.name(), params)
    }
}

fn path_name(path: &std::path::Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let unknown = options.query.iter().find(|name| queries::find(name).is_none());
    if let Some(name) = unknown {
        let known: Vec<_> = queries::QUERIES.iter().map(|query| query.name).collect();
        return Err(Failure::Engine(format!("no query {name}; there are {}", known.join(", "))));
    }
    let wanted = |query: &&Query| {
        options.query.is_empty() || options.query.iter().any(|name| name == query.name)
    };
    for query in queries::QUERIES.iter().filter(wanted) {
        reporter.progress(format_args!("views: making the events of {}", query.name));
        let work = Work::new(query, options)?;
        measure_query(&work, options, reporter)?;
    }
    Ok(())
}

/// What the rounds of an arm gave.
#[derive(Default)]
struct Measured {
    events_per_s: Rounds,
    ns_per_event: Rounds,
    page_faults: Option<u64>,
    event_count: usize,
}

fn measure_query(work: &Work, options: &Options, reporter: &mut Reporter) -> Result<()> {
    let all = [Engine::Compiled, Engine::Interpreted, Engine::Bare, Engine::Recompute];
    let engines: Vec<Engine> = all
        .into_iter()
        .filter(|engine| options.engine.is_empty() || options.engine.contains(engine))
        .collect();
    let mut measured: Vec<Measured> = engines.iter().map(|_| Measured::default()).collect();
    for round in 1..=options.rounds {
        reporter.progress(format_args!("{}: round {round} of {}", work.query.name, options.rounds));
        for (&engine, measured) in engines.iter().zip(&mut measured) {
            rate(work, engine, options, measured)?;
        }
    }
    for (&engine, measured) in engines.iter().zip(measured) {
        let mut arm = work.arm(engine, measured.event_count);
        arm.rounded("events_per_s", measured.events_per_s.median());
        arm.rounded("events_per_s_spread", measured.events_per_s.spread());
        arm.rounded("ns_per_event", measured.ns_per_event.median());
        if let Some(page_faults) = measured.page_faults {
            arm.figure("page_faults", page_faults);
        }
        if let Some(wrong) = verify(work, engine, options)? {
            arm.check = wrong;
        }
        if options.passes > 0 && engine != Engine::Recompute && arm.check == "ok" {
            reporter.progress(format_args!("{}: latency of {}", work.query.name, engine.name()));
            latency(work, engine, options, measured.event_count, &mut arm)?;
        }
        reporter.arm(arm);
    }
    Ok(())
}

fn rate(work: &Work, engine: Engine, options: &Options, measured: &mut Measured) -> Result<()> {
    let given =
        engine.ask(Ask::Rate(options.seconds), work.query, &work.events, options.read_each)?;
    let Given::Rate(pass, _) = given else { unreachable!("a rate was asked for") };
    measured.events_per_s.push(pass.event_count as f64 / (pass.cpu_ns as f64 / 1e9));
    measured.ns_per_event.push(pass.cpu_ns as f64 / pass.event_count as f64);
    measured.event_count = pass.event_count;
    if engine != Engine::Recompute {
        let faults = measured.page_faults.unwrap_or(u64::MAX);
        measured.page_faults = Some(faults.min(pass.page_faults));
    }
    Ok(())
}

/// How many events the query itself can look at in reasonable time, by joins and all.
const RECOMPUTED_EVENTS: usize = 5_000;

/// What is wrong with an arm's view: the view by hand must be what the query says of the first
/// events, and the arm's what the view by hand is after as many as that takes in `seconds`.
fn verify(work: &Work, engine: Engine, options: &Options) -> Result<Option<String>> {
    let first = |count: usize| {
        let mut events = work.events.clone();
        events.truncate(count);
        events
    };
    let view = |engine: Engine, events: &Events, seconds: f64| match engine.ask(
        Ask::Rate(seconds),
        work.query,
        events,
        options.read_each,
    )? {
        Given::Rate(pass, answer) => Ok::<_, Failure>((pass.event_count, answer)),
        Given::Latency(..) => unreachable!("a rate was asked for"),
    };
    let few = first(RECOMPUTED_EVENTS);
    let expected = recompute::once(work.query, &few)?;
    let (_, answer) = view(engine, &few, f64::INFINITY)?;
    if engine == Engine::Bare || engine == Engine::Recompute {
        return Ok(difference(&answer, &expected));
    }
    let (event_count, by_hand) = view(Engine::Bare, &work.events, options.seconds)?;
    let (_, many) = view(engine, &first(event_count), f64::INFINITY)?;
    Ok(difference(&answer, &expected).or_else(|| difference(&many, &by_hand)))
}

fn latency(
    work: &Work,
    engine: Engine,
    options: &Options,
    event_count: usize,
    arm: &mut Arm,
) -> Result<()> {
    let mut events = work.events.clone();
    events.truncate(event_count);
    let given = engine.ask(
        Ask::Latency(options.passes, work.warm),
        work.query,
        &events,
        options.read_each,
    )?;
    let Given::Latency(figures, _) = given else { unreachable!("latency was asked for") };
    let Figures { p50_ns, p99_ns, p999_ns, max_ns, slowest } = figures;
    arm.figure("intrinsic_ns_p50", p50_ns);
    arm.figure("intrinsic_ns_p99", p99_ns);
    arm.figure("intrinsic_ns_p999", p999_ns);
    arm.figure("intrinsic_ns_max", max_ns);
    arm.figure("slowest_event", slowest as u64);
    arm.figure("passes", options.passes as u64);
    Ok(())
}

/// What is wrong with an answer. A group whose values are all zero may be missing: a ring has no
/// place for it.
fn difference(answer: &Answer, expected: &Answer) -> Option<String> {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    let zero: Vec<f64> = Vec::new();
    let keys = answer.keys().chain(expected.keys());
    for key in keys {
        let (ours, theirs) = (answer.get(key).unwrap_or(&zero), expected.get(key).unwrap_or(&zero));
        let length = ours.len().max(theirs.len());
        let value = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
        if (0..length).any(|index| !close(value(ours, index), value(theirs, index))) {
            return Some(format!("group {key:?} is {ours:?}, not {theirs:?}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(sf: f64, deletions: bool) -> Options {
        Options {
            query: Vec::new(),
            engine: Vec::new(),
            book: None,
            repeat: 2,
            live: None,
            sf,
            deletions,
            rounds: 1,
            passes: 2,
            seconds: 5.0,
            read_each: false,
            seed: 7,
        }
    }

    /// Views by hand are what the queries say, with deletions and without.
    #[test]
    fn views_by_hand_are_right() {
        for query in queries::QUERIES {
            for deletions in [false, true] {
                let options = options(0.002, deletions);
                let mut work = Work::new(query, &options).expect("events can be made");
                work.events.truncate(3_000);
                let wrong = verify(&work, Engine::Bare, &options).expect("the query can be run");
                assert_eq!(wrong, None, "{} deletions: {deletions}", query.name);
            }
        }
    }

    /// Every query through the handles of streams, with both executors, with deletions.
    #[test]
    fn views_of_halcyon_are_right() {
        for query in queries::QUERIES {
            for (engine, read_each) in [(Engine::Compiled, false), (Engine::Interpreted, true)] {
                let options = Options { read_each, ..options(0.001, true) };
                let mut work = Work::new(query, &options).expect("events can be made");
                work.events.truncate(1_200);
                let wrong = verify(&work, engine, &options).expect("the query can be run");
                assert_eq!(wrong, None, "{} {engine:?}", query.name);
            }
        }
    }

    #[test]
    fn recomputation_in_batches_is_right() {
        let query = queries::find("q12").expect("it is listed");
        let mut work = Work::new(query, &options(0.001, true)).expect("events can be made");
        work.events.truncate(3_500);
        let wrong = verify(&work, Engine::Recompute, &options(0.001, true));
        assert_eq!(wrong.expect("the query can be run"), None);
    }

    #[test]
    fn wrong_groups_are_told_and_empty_ones_may_be_missing() {
        let answer = |value: f64| Answer::from([(vec!["a".to_owned()], vec![value])]);
        assert_eq!(difference(&answer(1.0), &answer(1.0 + 1e-12)), None);
        assert_eq!(difference(&answer(0.0), &Answer::new()), None);
        let wrong = difference(&answer(1.0), &answer(2.0)).expect("they differ");
        assert_eq!(wrong, "group [\"a\"] is [1.0], not [2.0]");
    }
}
