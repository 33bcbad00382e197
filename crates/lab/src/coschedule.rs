//! Co-scheduling (P3 §5.3, Figure 6): graph algorithms in pairs, placed by the operating system
//! and as task groups on disjoint islands.
//!
//! Three programs, PageRank, hop distance and single-source shortest paths, run over and over on
//! one compressed graph. *Alone*, a program has half of the cores. *Together*, two programs have
//! all of them: as threads, twice as many as cores, wherever the operating system puts them; or as
//! groups, each on an island that is half of the cores and that it owns (`Locality::Dedicated`).
//! Slowdown is the time of a run together divided by the time alone.
//!
//! Arms: `bare` is the GAP suite's published algorithm for one thread in plain memory, `os` and
//! `groups` are the same algorithms in phases (`phases`). Checked: before anything is measured,
//! every program's answer for every source against a slow twin, in every placement; afterwards the
//! last answer of each run.

mod graph;
mod heatmap;
mod hops;
mod pagerank;
mod paths;
mod phases;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use clap::Args;
use halcyon_task::{Annotation, Config, Context, IslandId, Locality, Morsels, Runtime};
use halcyon_task::{WorkerConfig, WorkerId, WorkerKind};
use serde_json::json;

use crate::measure::Rounds;
use crate::point::positive;
use crate::report::{Arm, Reporter};
use crate::{Failure, Result};
use graph::{Graph, Vertex};
use hops::Hops;
use pagerank::PageRank;
use paths::Paths;
use phases::{Algorithm, Crew, Worked, on_threads};

/// Options of `halcyon lab coschedule`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Binary logarithm of the Kronecker graph's vertices
    #[arg(long, default_value_t = 17, value_parser = clap::value_parser!(u32).range(4..=28))]
    pub scale: u32,
    /// Edges per vertex of the Kronecker graph, each in both directions
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub degree: u32,
    /// Seed of the Kronecker graph and of the sources
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// File of lines `from to [weight]` to read instead of generating a graph
    #[arg(long)]
    pub graph: Option<PathBuf>,
    /// The file's edges lead one way only
    #[arg(long, requires = "graph")]
    pub directed: bool,
    /// Width of a bin of delta-stepping
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub delta: u32,
    /// Seconds that each program, and each pair, runs per round
    #[arg(long, default_value_t = 0.7, value_parser = positive)]
    pub seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// File for the two matrices as heat maps
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// Names of the programs, in the paper's order.
const NAMES: [&str; 3] = ["pagerank", "hops", "sssp"];
/// Sources that searches take turns with.
const SOURCES: usize = 8;

/// How programs are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placement {
    /// Threads, wherever the operating system puts them.
    Os,
    /// A group on an island that it owns.
    Groups,
}

const PLACEMENTS: [Placement; 2] = [Placement::Os, Placement::Groups];

impl Placement {
    fn engine(self) -> &'static str {
        match self {
            Placement::Os => "os",
            Placement::Groups => "groups",
        }
    }
}

/// Graph, sources and right answers.
struct Ground {
    graph: Arc<Graph>,
    sources: Vec<Vertex>,
    distances: Vec<Vec<Option<u32>>>,
    lengths: Vec<Vec<u32>>,
    delta: u32,
}

/// Half of the machine: cores, and workers on them.
struct Half {
    runtime: Arc<Runtime>,
    island: IslandId,
    first_worker: usize,
    workers: usize,
}

/// One program with its own state, so that two of a kind can run at once.
enum Program {
    PageRank(Arc<PageRank>),
    Hops(Arc<Hops>),
    Paths(Arc<Paths>),
}

impl Program {
    fn new(name: usize, ground: &Ground, workers: usize) -> Program {
        let graph = Arc::clone(&ground.graph);
        match name {
            0 => Program::PageRank(Arc::new(PageRank::new(graph))),
            1 => Program::Hops(Arc::new(Hops::new(graph, workers))),
            _ => Program::Paths(Arc::new(Paths::new(graph, workers, ground.delta))),
        }
    }

    /// Runs to the end; searches start from the source whose `turn` it is.
    fn run(&self, ground: &Ground, turn: usize, on: &dyn Fn(Work<'_>)) {
        let source = ground.sources[turn % SOURCES];
        match self {
            Program::PageRank(rank) => {
                rank.restart();
                on(Work::PageRank(rank));
            }
            Program::Hops(hops) => {
                hops.restart(source);
                on(Work::Hops(hops));
            }
            Program::Paths(paths) => {
                paths.restart(source);
                on(Work::Paths(paths));
            }
        }
    }

    /// Compares the last run's answer with the twin's.
    fn verify(&self, ground: &Ground, turn: usize) -> std::result::Result<(), String> {
        let wrong = |name| Err(format!("{name} from {} is wrong", ground.sources[turn % SOURCES]));
        match self {
            Program::PageRank(rank) => pagerank::verify(&ground.graph, &rank.scores()),
            Program::Hops(hops) if hops.distances() != ground.distances[turn % SOURCES] => {
                wrong("hop distance")
            }
            Program::Paths(paths) if paths.distances() != ground.lengths[turn % SOURCES] => {
                wrong("shortest path")
            }
            Program::Hops(_) | Program::Paths(_) => Ok(()),
        }
    }
}

/// An algorithm that is ready to start.
enum Work<'a> {
    PageRank(&'a Arc<PageRank>),
    Hops(&'a Arc<Hops>),
    Paths(&'a Arc<Paths>),
}

impl Work<'_> {
    fn on_threads(&self, threads: usize) {
        match self {
            Work::PageRank(rank) => on_threads(rank, threads),
            Work::Hops(hops) => on_threads(hops, threads),
            Work::Paths(paths) => on_threads(paths, threads),
        }
    }

    fn on_island(&self, half: &Half) {
        match self {
            Work::PageRank(rank) => half.run(rank),
            Work::Hops(hops) => half.run(hops),
            Work::Paths(paths) => half.run(paths),
        }
    }
}

/// A group's share of an algorithm, pulled by its workers.
struct Pulled<A> {
    crew: Crew<A>,
    first_worker: usize,
}

impl<A: Algorithm> Morsels for Pulled<A> {
    fn run(&self, worker: WorkerId, _cx: &mut Context) -> bool {
        match self.crew.work(usize::from(worker.0) - self.first_worker) {
            Worked::Morsel => true,
            Worked::Nothing => {
                std::hint::spin_loop();
                true
            }
            Worked::Ended => false,
        }
    }
}

impl Half {
    /// Two islands of half of the processors each.
    fn both() -> Result<[Half; 2]> {
        let cpus = halcyon_machine::affinity::get()?;
        let half = cpus.len() / 2;
        if half == 0 {
            return Err(Failure::Engine("two programs need two processors".into()));
        }
        let worker = |island, cpu| WorkerConfig {
            kind: WorkerKind::Shared,
            cpus: vec![cpu],
            island: IslandId(island),
        };
        let placed = cpus.iter().take(2 * half).enumerate();
        let workers = placed.map(|(at, &cpu)| worker((at / half) as u16, cpu)).collect();
        let runtime = Runtime::new(Config::new(workers));
        let runtime = Arc::new(runtime.map_err(|error| Failure::Engine(error.to_string()))?);
        Ok([0, 1].map(|island| Half {
            runtime: Arc::clone(&runtime),
            island: IslandId(island),
            first_worker: usize::from(island) * half,
            workers: half,
        }))
    }

    fn run<A: Algorithm>(&self, algorithm: &Arc<A>) {
        let crew = Crew::new(Arc::clone(algorithm));
        let mut group = self.runtime.group();
        group.pull(Annotation::new(), Arc::new(Pulled { crew, first_worker: self.first_worker }));
        let locality = Locality::Dedicated { island: self.island, workers: self.workers };
        let running = group.enqueue(locality).expect("nobody else uses this island");
        running.wait().expect("algorithms do not panic");
    }
}

/// Where a program runs, with how many threads.
#[derive(Clone, Copy)]
enum Place<'a> {
    Threads(usize),
    Island(&'a Half),
}

impl Place<'_> {
    fn workers(self) -> usize {
        match self {
            Place::Threads(threads) => threads,
            Place::Island(half) => half.workers,
        }
    }

    fn run(self, work: Work<'_>) {
        match self {
            Place::Threads(threads) => work.on_threads(threads),
            Place::Island(half) => work.on_island(half),
        }
    }
}

impl Ground {
    fn new(options: &Options, reporter: &Reporter) -> Result<Ground> {
        reporter.progress("coschedule: making the graph");
        let graph = match &options.graph {
            Some(path) => Graph::read(path, options.directed).map_err(Failure::Io)?,
            None => Graph::kronecker(options.scale, options.degree as usize, options.seed),
        };
        if graph.edges() == 0 {
            return Err(Failure::Io("the graph has no edges".into()));
        }
        let sources = graph.sources(SOURCES, options.seed);
        reporter.progress("coschedule: asking the slow twins");
        let distances = sources.iter().map(|&source| hops::twin(&graph, source)).collect();
        let lengths = sources.iter().map(|&source| paths::twin(&graph, source)).collect();
        Ok(Ground { graph: Arc::new(graph), sources, distances, lengths, delta: options.delta })
    }

    /// Runs every program from every source in `place`, and compares.
    fn verify(&self, place: Place<'_>) -> Result<()> {
        for name in 0..NAMES.len() {
            let program = Program::new(name, self, place.workers());
            for turn in 0..SOURCES {
                program.run(self, turn, &|work| place.run(work));
                program.verify(self, turn).map_err(Failure::WrongAnswer)?;
            }
        }
        Ok(())
    }
}

/// Runs programs side by side for `limit`, and returns the mean time of a run of each. All of them
/// go on until the last one has reached the limit, and only runs that began before count.
fn together(ground: &Ground, programs: &[(usize, Place<'_>)], limit: Duration) -> Result<Vec<f64>> {
    let (barrier, running) = (Barrier::new(programs.len()), AtomicUsize::new(programs.len()));
    let failed = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let (barrier, running, failed) = (&barrier, &running, &failed);
        let mut threads = Vec::new();
        for &(name, place) in programs {
            threads.push(scope.spawn(move || {
                let program = Program::new(name, ground, place.workers());
                program.run(ground, 0, &|work| place.run(work));
                barrier.wait();
                let start = Instant::now();
                let (mut runs, mut time, mut turn) = (0, Duration::ZERO, 0);
                while running.load(Relaxed) > 0 {
                    program.run(ground, turn, &|work| place.run(work));
                    turn += 1;
                    // Whole turns of all sources, so that every mean is over the same work.
                    if turn % SOURCES == 0 || matches!(program, Program::PageRank(_)) {
                        let counts = time < limit;
                        (runs, time) = if counts { (turn, start.elapsed()) } else { (runs, time) };
                        if counts && time >= limit {
                            running.fetch_sub(1, Relaxed);
                        }
                    }
                }
                if program.verify(ground, turn - 1).is_err() {
                    failed.store(true, Relaxed);
                }
                time.as_secs_f64() * 1e3 / runs as f64
            }));
        }
        threads.into_iter().map(|thread| thread.join().expect("programs do not panic")).collect()
    });
    if failed.load(Relaxed) {
        return Err(Failure::WrongAnswer(format!(
            "a last answer of {programs:?}",
            programs = programs.iter().map(|&(name, _)| NAMES[name]).collect::<Vec<_>>()
        )));
    }
    Ok(times)
}

/// Mean time of the published algorithm on one thread, ms.
fn bare(ground: &Ground, name: usize, limit: Duration) -> Result<f64> {
    let (mut scores, mut shares) = (Vec::new(), Vec::new());
    let (mut hops, mut paths) = (hops::Bare::default(), paths::Bare::default());
    let mut run = |turn: usize| {
        let source = ground.sources[turn % SOURCES];
        match name {
            0 => pagerank::bare(&ground.graph, &mut scores, &mut shares),
            1 => hops.search(&ground.graph, source),
            _ => paths.search(&ground.graph, source, ground.delta),
        }
    };
    run(0);
    let (start, mut turn) = (Instant::now(), 0);
    while start.elapsed() < limit || (name > 0 && turn % SOURCES != 0) {
        run(turn);
        turn += 1;
    }
    let mean = start.elapsed().as_secs_f64() * 1e3 / turn as f64;
    let last = (turn - 1) % SOURCES;
    let right = match name {
        0 => pagerank::verify(&ground.graph, &scores).is_ok(),
        1 => hops.distances() == ground.distances[last],
        _ => paths.distances == ground.lengths[last],
    };
    if right { Ok(mean) } else { Err(Failure::WrongAnswer(format!("bare {}", NAMES[name]))) }
}

/// Times of all rounds.
#[derive(Default)]
struct Times {
    bare: [Rounds; 3],
    /// By placement and program.
    alone: [[Rounds; 3]; 2],
    /// By placement, program and partner.
    slowdown: [[[Rounds; 3]; 3]; 2],
    versus_bare: [Rounds; 3],
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let ground = Ground::new(options, reporter)?;
    let halves = Half::both()?;
    let cores = 2 * halves[0].workers;
    reporter.progress("coschedule: verifying every program in every placement");
    ground.verify(Place::Threads(cores))?;
    halves.iter().try_for_each(|half| ground.verify(Place::Island(half)))?;
    let mut times = Times::default();
    for round in 0..options.rounds {
        reporter.progress(format_args!("coschedule: round {} of {}", round + 1, options.rounds));
        times.round(&ground, &halves, Duration::from_secs_f64(options.seconds))?;
    }
    times.report(options, &ground, cores, reporter);
    if let Some(path) = &options.svg {
        std::fs::write(path, heatmap::svg(&times.medians()))?;
    }
    Ok(())
}

impl Times {
    fn round(&mut self, ground: &Ground, halves: &[Half; 2], limit: Duration) -> Result<()> {
        let half = halves[0].workers;
        for (number, placement) in PLACEMENTS.into_iter().enumerate() {
            let alone = |name| match placement {
                Placement::Os => together(ground, &[(name, Place::Threads(half))], limit),
                Placement::Groups => together(ground, &[(name, Place::Island(&halves[0]))], limit),
            };
            let mut alone_ms = [0.0; 3];
            for (name, ms) in alone_ms.iter_mut().enumerate() {
                *ms = alone(name)?[0];
                self.alone[number][name].push(*ms);
                if placement == Placement::Groups {
                    let bare_ms = bare(ground, name, limit)?;
                    self.bare[name].push(bare_ms);
                    // One thread: with more, the groups have more cores than the bare arm.
                    self.versus_bare[name].push(bare_ms / *ms);
                }
            }
            for (first, second) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)] {
                let places = match placement {
                    Placement::Os => [Place::Threads(2 * half); 2],
                    Placement::Groups => [Place::Island(&halves[0]), Place::Island(&halves[1])],
                };
                let pair = [(first, places[0]), (second, places[1])];
                let both = together(ground, &pair, limit)?;
                self.slowdown[number][first][second].push(both[0] / alone_ms[first]);
                self.slowdown[number][second][first].push(both[1] / alone_ms[second]);
            }
        }
        Ok(())
    }

    fn medians(&self) -> [[[f64; 3]; 3]; 2] {
        std::array::from_fn(|p| {
            std::array::from_fn(|a| std::array::from_fn(|b| self.slowdown[p][a][b].median()))
        })
    }

    fn report(&self, options: &Options, ground: &Ground, cores: usize, reporter: &mut Reporter) {
        let graph = json!({
            "vertices": ground.graph.vertices(), "edges": ground.graph.edges(), "cores": cores,
            "rounds": options.rounds, "seconds": options.seconds,
        });
        let with = |more: serde_json::Value| {
            let mut params = graph.clone();
            let (target, more) = (params.as_object_mut(), more);
            let target = target.expect("it was made above");
            target.extend(more.as_object().expect("so was this").clone());
            params
        };
        for (bare, algorithm) in self.bare.iter().zip(NAMES) {
            let mut arm = Arm::new("coschedule", "bare", with(json!({"algorithm": algorithm})));
            arm.rounded("alone_ms", bare.median());
            reporter.arm(arm);
        }
        for (number, placement) in PLACEMENTS.into_iter().enumerate() {
            let engine = placement.engine();
            for (name, algorithm) in NAMES.into_iter().enumerate() {
                let params = with(json!({"algorithm": algorithm}));
                let mut arm = Arm::new("coschedule", engine, params);
                arm.rounded("alone_ms", self.alone[number][name].median());
                arm.rounded("alone_ms_spread", self.alone[number][name].spread());
                if placement == Placement::Groups {
                    arm.rounded("speed_versus_bare", self.versus_bare[name].median());
                }
                reporter.arm(arm);
                for (slowdown, partner) in self.slowdown[number][name].iter().zip(NAMES) {
                    let pair = json!({"algorithm": algorithm, "partner": partner});
                    let mut arm = Arm::new("coschedule", engine, with(pair));
                    arm.rounded("slowdown", slowdown.median());
                    arm.rounded("slowdown_spread", slowdown.spread());
                    reporter.arm(arm);
                }
            }
        }
        for (placement, matrix) in PLACEMENTS.into_iter().zip(self.medians()) {
            let params = with(json!({"algorithm": "all"}));
            let mut arm = Arm::new("coschedule", placement.engine(), params);
            let worst = matrix.iter().flatten().copied().fold(0.0, f64::max);
            arm.rounded("slowdown_worst", worst);
            reporter.arm(arm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiment_ends_with_right_answers_on_a_small_graph() {
        let options = Options {
            scale: 7,
            degree: 8,
            seed: 1,
            graph: None,
            directed: false,
            delta: 16,
            seconds: 0.002,
            rounds: 1,
            svg: None,
        };
        let mut reporter = Reporter::new(true);
        match run(&options, &mut reporter) {
            Err(Failure::Engine(why)) => assert!(why.contains("two processors"), "{why}"),
            done => {
                done.expect("answers are right");
                assert_eq!(reporter.arms().len(), 3 + 2 * (3 + 9) + 2);
            }
        }
    }
}
