//! Incremental views: events per second and intrinsic latency, beside the same views by hand and
//! recomputation (P2; DBToaster's finance queries and TPC-H variants).
//!
//! Arms: `compiled`, `operations` and `interpreted` are Halcyon, through the handle of a stream;
//! `bare` is DBToaster's plan for the query, by hand over hash maps; `recompute` loads the rows
//! into tables and runs the query after every thousand events; `dbsp` computes the view by batches
//! (`dbsp.rs`). Events lie packed in memory before the clock starts; a rate is events per second of
//! processor time, over all events and including any work of the view at the end. Views are checked
//! at two points: after the first 5,000 events against the query over tables, and after as many
//! events as the view by hand takes in `--seconds` against that view.
//!
//! *Intrinsic* latency is the smallest time of each event over several passes: noise hits other
//! events in every pass, and what remains belongs to the program (P2 removes noise by a partition
//! of the machine).

pub mod bare;
mod dbsp;
pub mod events;
pub(crate) mod halcyon;
pub(crate) mod measure;
pub mod orderbook;
pub mod queries;
mod recompute;
pub(crate) mod tpch;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::measure::Rounds;
use crate::{Arm, Failure, Reporter, Result};
use bare::Answer;
use events::Events;
use halcyon::How;
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
    /// Read views of one row after every batch: some of their work is done when they are read
    #[arg(long)]
    pub read_each: bool,
    /// Events that compiled triggers and dbsp are given at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000])]
    pub batch: Vec<usize>,
    /// Seed of what is made up
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// An arm.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Halcyon, compiled triggers: machine code
    Compiled,
    /// Halcyon, compiled triggers without machine code
    Operations,
    /// Halcyon, interpreted triggers
    Interpreted,
    /// DBToaster's plan by hand
    Bare,
    /// The analytical engine after every thousand events
    Recompute,
    /// The crate dbsp; built when first asked for by name, which takes minutes
    Dbsp,
}

/// An engine, with the way in which it takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Halcyon(How),
    Bare,
    Recompute,
    /// dbsp, with batches of this many events.
    Dbsp(usize),
}

impl Contender {
    /// The arms to run. dbsp is among them by default only if it has been built.
    fn all(options: &Options) -> Vec<Self> {
        let wanted = |engine: Engine| match engine {
            Engine::Dbsp if options.engine.is_empty() => dbsp::is_built(),
            _ => options.engine.is_empty() || options.engine.contains(&engine),
        };
        let quick = |executor| {
            let each = options.batch.iter();
            each.map(move |&batch| Self::Halcyon(How { executor, batch })).collect::<Vec<_>>()
        };
        let interpreted = Self::Halcyon(How { executor: "interpreted", batch: 1 });
        let all = [
            (Engine::Compiled, quick("compiled")),
            (Engine::Operations, quick("operations")),
            (Engine::Interpreted, vec![interpreted]),
            (Engine::Bare, vec![Self::Bare]),
            (Engine::Recompute, vec![Self::Recompute]),
            (Engine::Dbsp, options.batch.iter().map(|&batch| Self::Dbsp(batch)).collect()),
        ];
        let wanted = all.into_iter().filter(|(engine, _)| wanted(*engine));
        wanted.flat_map(|(_, contenders)| contenders).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Halcyon(how) => how.executor,
            Self::Bare => "bare",
            Self::Recompute => "recompute",
            Self::Dbsp(_) => "dbsp",
        }
    }

    fn ask(self, what: Ask, query: &Query, events: &Events, read_each: bool) -> Result<Given> {
        match self {
            Self::Halcyon(how) => halcyon::ask(what, query, events, how, read_each),
            Self::Bare => (query.bare)(what, events),
            Self::Recompute => recompute::ask(what, query, events),
            Self::Dbsp(batch) => dbsp::ask(what, query, events, batch),
        }
    }

    /// Whether the engine takes events one by one, in this process; one arm of a kind is enough.
    fn has_latency(self) -> bool {
        match self {
            Self::Halcyon(how) => how.batch == 1,
            other => other == Self::Bare,
        }
    }
}

/// A query's events, and the index from which latency counts.
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

    fn arm(&self, contender: Contender, event_count: usize) -> Arm {
        let mut params = self.params.clone();
        params["query"] = json!(self.query.name);
        params["events"] = json!(event_count);
        params["read_each"] = json!(self.read_each);
        if let Contender::Dbsp(batch) | Contender::Halcyon(How { batch, .. }) = contender {
            params["batch"] = json!(batch);
        }
        Arm::new("views", contender.name(), params)
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
    if options.batch.contains(&0) {
        return Err(Failure::Engine("a batch has at least one event".into()));
    }
    if options.engine.contains(&Engine::Dbsp) && !dbsp::is_built() {
        reporter.progress("views: building dbsp, which takes minutes");
        dbsp::build()?;
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

/// The results of an arm's rounds.
#[derive(Default)]
struct Measured {
    events_per_s: Rounds,
    ns_per_event: Rounds,
    page_faults: Option<u64>,
    /// Share of processor time of threads that do not take events.
    helpers_share: Rounds,
    event_count: usize,
}

fn measure_query(work: &Work, options: &Options, reporter: &mut Reporter) -> Result<()> {
    let contenders = Contender::all(options);
    let mut measured: Vec<Measured> = contenders.iter().map(|_| Measured::default()).collect();
    for round in 1..=options.rounds {
        reporter.progress(format_args!("{}: round {round} of {}", work.query.name, options.rounds));
        for (&contender, measured) in contenders.iter().zip(&mut measured) {
            rate(work, contender, options, measured)?;
        }
    }
    for (&contender, measured) in contenders.iter().zip(measured) {
        let mut arm = work.arm(contender, measured.event_count);
        arm.rounded("events_per_s", measured.events_per_s.median());
        arm.rounded("events_per_s_spread", measured.events_per_s.spread());
        arm.rounded("ns_per_event", measured.ns_per_event.median());
        if let Some(page_faults) = measured.page_faults {
            arm.figure("page_faults", page_faults);
        }
        if let Contender::Dbsp(_) = contender {
            arm.rounded("helpers_share", measured.helpers_share.median());
        }
        if let Some(wrong) = verify(work, contender, options)? {
            arm.check = wrong;
        }
        if options.passes > 0 && contender.has_latency() && arm.check == "ok" {
            let name = contender.name();
            reporter.progress(format_args!("{}: latency of {name}", work.query.name));
            latency(work, contender, options, measured.event_count, &mut arm)?;
        }
        reporter.arm(arm);
    }
    Ok(())
}

fn rate(
    work: &Work,
    contender: Contender,
    options: &Options,
    measured: &mut Measured,
) -> Result<()> {
    let given =
        contender.ask(Ask::Rate(options.seconds), work.query, &work.events, options.read_each)?;
    let Given::Rate(pass, _) = given else { unreachable!("a rate was asked for") };
    measured.events_per_s.push(pass.event_count as f64 / (pass.cpu_ns as f64 / 1e9));
    measured.ns_per_event.push(pass.cpu_ns as f64 / pass.event_count as f64);
    measured.helpers_share.push(pass.helpers_cpu_ns as f64 / pass.cpu_ns as f64);
    measured.event_count = pass.event_count;
    if contender.has_latency() {
        let faults = measured.page_faults.unwrap_or(u64::MAX);
        measured.page_faults = Some(faults.min(pass.page_faults));
    }
    Ok(())
}

/// The number of events that the query itself can evaluate in reasonable time, with all its joins.
const RECOMPUTED_EVENTS: usize = 5_000;

/// Returns what is wrong with an arm's view. The view by hand must equal the query over the first
/// events, and the arm's view must equal the view by hand after as many events as the slower of the
/// two takes in `seconds`.
fn verify(work: &Work, contender: Contender, options: &Options) -> Result<Option<String>> {
    let first = |count: usize| {
        let mut events = work.events.clone();
        events.truncate(count);
        events
    };
    let view = |contender: Contender, events: &Events, seconds: f64| match contender.ask(
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
    let (_, answer) = view(contender, &few, f64::INFINITY)?;
    let (many, by_hand) = match contender {
        Contender::Bare | Contender::Recompute => return Ok(difference(&answer, &expected)),
        Contender::Halcyon(_) => {
            let (event_count, by_hand) = view(Contender::Bare, &work.events, options.seconds)?;
            (view(contender, &first(event_count), f64::INFINITY)?.1, by_hand)
        }
        Contender::Dbsp(_) => {
            let (event_count, many) = view(contender, &work.events, options.seconds)?;
            (many, view(Contender::Bare, &first(event_count), f64::INFINITY)?.1)
        }
    };
    Ok(difference(&answer, &expected).or_else(|| difference(&many, &by_hand)))
}

fn latency(
    work: &Work,
    contender: Contender,
    options: &Options,
    event_count: usize,
    arm: &mut Arm,
) -> Result<()> {
    let mut events = work.events.clone();
    events.truncate(event_count);
    let given = contender.ask(
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

/// Returns what is wrong with an answer. A group whose values are all zero may be missing, because
/// a ring of sums cannot tell it from no group.
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
            batch: vec![1, 1_000],
            seed: 7,
        }
    }

    /// Views by hand equal their queries, with deletions and without.
    #[test]
    fn views_by_hand_are_right() {
        for query in queries::QUERIES {
            for deletions in [false, true] {
                let options = options(0.002, deletions);
                let mut work = Work::new(query, &options).expect("events can be made");
                work.events.truncate(3_000);
                let wrong = verify(&work, Contender::Bare, &options).expect("the query can be run");
                assert_eq!(wrong, None, "{} deletions: {deletions}", query.name);
            }
        }
    }

    /// Every query through the handles of streams, with all executors, with deletions.
    #[test]
    fn views_of_halcyon_are_right() {
        for query in queries::QUERIES {
            let executors =
                [("compiled", 1), ("compiled", 100), ("operations", 100), ("interpreted", 1)];
            for (executor, batch) in executors {
                let how = How { executor, batch };
                let read_each = executor == "interpreted";
                let options = Options { read_each, ..options(0.001, true) };
                let mut work = Work::new(query, &options).expect("events can be made");
                work.events.truncate(1_200);
                let wrong = verify(&work, Contender::Halcyon(how), &options);
                let wrong = wrong.expect("the query can be run");
                assert_eq!(wrong, None, "{} {how:?}", query.name);
            }
        }
    }

    #[test]
    fn recomputation_in_batches_is_right() {
        let query = queries::find("q12").expect("it is listed");
        let mut work = Work::new(query, &options(0.001, true)).expect("events can be made");
        work.events.truncate(3_500);
        let wrong = verify(&work, Contender::Recompute, &options(0.001, true));
        assert_eq!(wrong.expect("the query can be run"), None);
    }

    #[test]
    fn dbsp_is_asked_for_by_name_and_has_an_arm_per_batch() {
        let mut options = options(0.001, false);
        options.engine = vec![Engine::Dbsp, Engine::Bare];
        let expected = [Contender::Bare, Contender::Dbsp(1), Contender::Dbsp(1_000)];
        assert_eq!(Contender::all(&options), expected);
        options.engine = Vec::new();
        let in_all = Contender::all(&options).contains(&Contender::Dbsp(1));
        assert_eq!(in_all, dbsp::is_built());
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
