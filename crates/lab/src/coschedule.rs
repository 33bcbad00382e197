//! Co-scheduling (P3 §5.3, Figure 6): graph algorithms in pairs, placed by the operating system
//! and as task groups on disjoint islands.
//!
//! Three programs, PageRank, hop distance and single-source shortest paths, run over and over on
//! one compressed graph. *Alone*, a program has half of the cores. *Together*, two programs have
//! all of them: as threads, twice as many as cores, wherever the operating system puts them; or as
//! groups, each on an island of half of the cores that it owns (`Locality::Dedicated`). Slowdown is
//! the time of a run together divided by the time alone. *By processor time* it leaves out waiting
//! for a core, so it shows what two programs take from each other's caches and memory; for programs
//! that own their cores both slowdowns are the same, unless other processes use the machine. How
//! much these matter is shown by the slowdown of a program beside nobody: alone once more, in the
//! same round.
//!
//! Arms: `bare` is the GAP suite's published algorithm for one thread in plain memory, `os` and
//! `groups` are the same algorithms in phases (crate `graphs`). Checked: before anything is measured,
//! every program's answer for every source against a slow twin, in every placement; afterwards the
//! last answer of each run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use halcyon_graphs::graph::{Graph, Vertex};
use halcyon_graphs::hops::{self, Hops};
use halcyon_graphs::pagerank::{self, PageRank};
use halcyon_graphs::paths::{self, Paths};
use halcyon_graphs::phases::{Algorithm, Crew, Worked, on_threads};
use halcyon_task::{Annotation, Config, Context, IslandId, Locality, Morsels, Runtime, measure};
use halcyon_task::{Pull, WorkerConfig, WorkerId, WorkerKind};
use serde_json::json;

use crate::heatmap::{self, Matrix};
use crate::measure::Rounds;
use crate::point::positive;
use crate::{Arm, Failure, Reporter, Result};

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
/// Names in the figure: PageRank, hop distance, shortest paths.
const LABELS: [&str; 3] = ["PR", "HD", "SSSP"];
const TITLES: [&str; 2] = ["(a) threads placed by the OS", "(b) groups on islands"];
/// Sources that searches take turns with.
const SOURCES: usize = 8;

/// The placement of programs.
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

/// The ground of the experiment: graph, sources and right answers.
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

    /// Runs to the end; a search starts from the source of its `turn`. Returns the run's processor
    /// time, ns.
    fn run(&self, ground: &Ground, turn: usize, on: &dyn Fn(Work<'_>) -> u64) -> u64 {
        let source = ground.sources[turn % SOURCES];
        match self {
            Program::PageRank(rank) => {
                rank.restart();
                on(Work::PageRank(rank))
            }
            Program::Hops(hops) => {
                hops.restart(source);
                on(Work::Hops(hops))
            }
            Program::Paths(paths) => {
                paths.restart(source);
                on(Work::Paths(paths))
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

/// An algorithm that is ready to run.
enum Work<'a> {
    PageRank(&'a Arc<PageRank>),
    Hops(&'a Arc<Hops>),
    Paths(&'a Arc<Paths>),
}

impl Work<'_> {
    fn on_threads(&self, threads: usize) -> u64 {
        match self {
            Work::PageRank(rank) => on_threads(rank, threads),
            Work::Hops(hops) => on_threads(hops, threads),
            Work::Paths(paths) => on_threads(paths, threads),
        }
    }

    fn on_island(&self, half: &Half) -> u64 {
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
    /// Processor time of each worker at its first morsel, ns.
    start_ns: Vec<OnceLock<u64>>,
}

impl<A: Algorithm> Morsels for Pulled<A> {
    fn run(&self, worker: WorkerId, _cx: &mut Context) -> Pull {
        let number = usize::from(worker.0) - self.first_worker;
        let start_ns = *self.start_ns[number].get_or_init(measure::thread_cpu_ns);
        match self.crew.work(number) {
            Worked::Morsel => Pull::More,
            Worked::Nothing => {
                std::hint::spin_loop();
                Pull::More
            }
            Worked::Ended => {
                self.crew.spent(start_ns);
                Pull::End
            }
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

    fn run<A: Algorithm>(&self, algorithm: &Arc<A>) -> u64 {
        let crew = Crew::new(Arc::clone(algorithm));
        let start_ns = (0..self.workers).map(|_| OnceLock::new()).collect();
        let pulled = Arc::new(Pulled { crew, first_worker: self.first_worker, start_ns });
        let mut group = self.runtime.group();
        group.pull(Annotation::new(), Arc::clone(&pulled));
        let locality = Locality::Dedicated { island: self.island, workers: self.workers };
        let running = group.enqueue(locality).expect("nobody else uses this island");
        running.wait().expect("algorithms do not panic");
        pulled.crew.cpu_ns()
    }
}

/// The place where a program runs, and its number of threads.
#[derive(Clone, Copy)]
enum RunsOn<'a> {
    Threads(usize),
    Island(&'a Half),
}

impl RunsOn<'_> {
    fn workers(self) -> usize {
        match self {
            RunsOn::Threads(threads) => threads,
            RunsOn::Island(half) => half.workers,
        }
    }

    fn run(self, work: Work<'_>) -> u64 {
        match self {
            RunsOn::Threads(threads) => work.on_threads(threads),
            RunsOn::Island(half) => work.on_island(half),
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
    fn verify(&self, place: RunsOn<'_>) -> Result<()> {
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

/// Mean times of a run, ms.
#[derive(Clone, Copy, Debug)]
struct Took {
    wall_ms: f64,
    cpu_ms: f64,
}

impl Took {
    fn new(wall: Duration, cpu_ns: u64, runs: usize) -> Took {
        let runs = runs as f64;
        Took { wall_ms: wall.as_secs_f64() * 1e3 / runs, cpu_ms: cpu_ns as f64 / 1e6 / runs }
    }
}

/// Runs programs side by side for `limit`, and returns the mean times of a run of each. All
/// programs go on until the last one has reached the limit, and only runs that began before the
/// limit count.
fn together(
    ground: &Ground,
    programs: &[(usize, RunsOn<'_>)],
    limit: Duration,
) -> Result<Vec<Took>> {
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
                let (mut runs, mut time, mut cpu_ns) = (0, Duration::ZERO, 0);
                let (mut turn, mut used_ns) = (0, 0);
                while running.load(Relaxed) > 0 {
                    used_ns += program.run(ground, turn, &|work| place.run(work));
                    turn += 1;
                    // Each mean is over whole turns of all sources, so that it is over the same
                    // work.
                    if turn % SOURCES == 0 || matches!(program, Program::PageRank(_)) {
                        let counts = time < limit;
                        if counts {
                            (runs, time, cpu_ns) = (turn, start.elapsed(), used_ns);
                        }
                        if counts && time >= limit {
                            running.fetch_sub(1, Relaxed);
                        }
                    }
                }
                if program.verify(ground, turn - 1).is_err() {
                    failed.store(true, Relaxed);
                }
                Took::new(time, cpu_ns, runs)
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

/// Mean times of the published algorithm on one thread.
fn bare(ground: &Ground, name: usize, limit: Duration) -> Result<Took> {
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
    let (start, start_ns, mut turn) = (Instant::now(), measure::thread_cpu_ns(), 0);
    // At least one: a thread can lose its core for longer than the limit before it begins.
    while turn == 0 || start.elapsed() < limit || (name > 0 && turn % SOURCES != 0) {
        run(turn);
        turn += 1;
    }
    let mean = Took::new(start.elapsed(), measure::thread_cpu_ns() - start_ns, turn);
    let last = (turn - 1) % SOURCES;
    let right = match name {
        0 => pagerank::verify(&ground.graph, &scores).is_ok(),
        1 => hops.distances() == ground.distances[last],
        _ => paths.distances == ground.lengths[last],
    };
    if right { Ok(mean) } else { Err(Failure::WrongAnswer(format!("bare {}", NAMES[name]))) }
}

/// Times or ratios of all rounds: by the clock, and by processor time.
#[derive(Default)]
struct Both {
    wall: Rounds,
    cpu: Rounds,
}

impl Both {
    fn time(&mut self, took: Took) {
        self.wall.push(took.wall_ms);
        self.cpu.push(took.cpu_ms);
    }

    fn ratio(&mut self, took: Took, of: Took) {
        self.wall.push(took.wall_ms / of.wall_ms);
        self.cpu.push(took.cpu_ms / of.cpu_ms);
    }

    fn report(&self, arm: &mut Arm, name: &str) {
        arm.rounded(name, self.wall.median());
        arm.rounded(&format!("{name}_low"), self.wall.decile());
        arm.rounded(&format!("{name}_spread"), self.wall.spread());
        arm.rounded(&format!("{name}_cpu"), self.cpu.median());
        arm.rounded(&format!("{name}_cpu_spread"), self.cpu.spread());
    }
}

/// Times of all rounds.
#[derive(Default)]
struct Times {
    bare: [Both; 3],
    /// By placement and program.
    alone: [[Both; 3]; 2],
    /// By placement, program and partner; the last partner is nobody.
    slowdown: [[[Both; 4]; 3]; 2],
    versus_bare: [Both; 3],
}

/// Partners of a program.
const PARTNERS: [&str; 4] = [NAMES[0], NAMES[1], NAMES[2], "nobody"];

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let ground = Ground::new(options, reporter)?;
    let halves = Half::both()?;
    let cores = 2 * halves[0].workers;
    reporter.progress("coschedule: verifying every program in every placement");
    ground.verify(RunsOn::Threads(cores))?;
    halves.iter().try_for_each(|half| ground.verify(RunsOn::Island(half)))?;
    let mut times = Times::default();
    for round in 0..options.rounds {
        reporter.progress(format_args!("coschedule: round {} of {}", round + 1, options.rounds));
        times.round(&ground, &halves, Duration::from_secs_f64(options.seconds))?;
    }
    times.report(options, &ground, cores, reporter);
    if let Some(path) = &options.svg {
        let medians = times.medians(|both| &both.wall);
        let matrices: Vec<Matrix<'_>> = TITLES
            .iter()
            .zip(medians)
            .map(|(title, medians)| Matrix {
                title,
                rows: &LABELS,
                columns: &LABELS,
                slowdowns: medians.iter().map(|row| row.to_vec()).collect(),
            })
            .collect();
        std::fs::write(path, heatmap::svg(&matrices))?;
    }
    Ok(())
}

impl Times {
    fn round(&mut self, ground: &Ground, halves: &[Half; 2], limit: Duration) -> Result<()> {
        let half = halves[0].workers;
        for (number, placement) in PLACEMENTS.into_iter().enumerate() {
            let alone = |name| match placement {
                Placement::Os => together(ground, &[(name, RunsOn::Threads(half))], limit),
                Placement::Groups => together(ground, &[(name, RunsOn::Island(&halves[0]))], limit),
            };
            let mut alone_took = Vec::new();
            for name in 0..NAMES.len() {
                let took = alone(name)?[0];
                alone_took.push(took);
                self.alone[number][name].time(took);
                if placement == Placement::Groups {
                    let bare_took = bare(ground, name, limit)?;
                    self.bare[name].time(bare_took);
                    // One thread: with more, the groups would have more cores than the bare arm.
                    self.versus_bare[name].ratio(bare_took, took);
                }
                let once_more = alone(name)?[0];
                self.slowdown[number][name][3].ratio(once_more, took);
            }
            for (first, second) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)] {
                let places = match placement {
                    Placement::Os => [RunsOn::Threads(2 * half); 2],
                    Placement::Groups => [RunsOn::Island(&halves[0]), RunsOn::Island(&halves[1])],
                };
                let pair = [(first, places[0]), (second, places[1])];
                let both = together(ground, &pair, limit)?;
                self.slowdown[number][first][second].ratio(both[0], alone_took[first]);
                self.slowdown[number][second][first].ratio(both[1], alone_took[second]);
            }
        }
        Ok(())
    }

    /// Median slowdowns by placement, program and partner.
    fn medians(&self, of: fn(&Both) -> &Rounds) -> [[[f64; 3]; 3]; 2] {
        std::array::from_fn(|p| {
            std::array::from_fn(|a| std::array::from_fn(|b| of(&self.slowdown[p][a][b]).median()))
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
            bare.report(&mut arm, "alone_ms");
            reporter.arm(arm);
        }
        for (number, placement) in PLACEMENTS.into_iter().enumerate() {
            let engine = placement.engine();
            for (name, algorithm) in NAMES.into_iter().enumerate() {
                let params = with(json!({"algorithm": algorithm}));
                let mut arm = Arm::new("coschedule", engine, params);
                self.alone[number][name].report(&mut arm, "alone_ms");
                if placement == Placement::Groups {
                    self.versus_bare[name].report(&mut arm, "speed_versus_bare");
                }
                reporter.arm(arm);
                for (slowdown, partner) in self.slowdown[number][name].iter().zip(PARTNERS) {
                    let pair = json!({"algorithm": algorithm, "partner": partner});
                    let mut arm = Arm::new("coschedule", engine, with(pair));
                    slowdown.report(&mut arm, "slowdown");
                    reporter.arm(arm);
                }
            }
        }
        let (wall, cpu) = (self.medians(|both| &both.wall), self.medians(|both| &both.cpu));
        for (number, placement) in PLACEMENTS.into_iter().enumerate() {
            let params = with(json!({"algorithm": "all"}));
            let mut arm = Arm::new("coschedule", placement.engine(), params);
            for (name, matrix) in [("", wall[number]), ("_cpu", cpu[number])] {
                let worst = matrix.iter().flatten().copied().fold(0.0, f64::max);
                arm.rounded(&format!("slowdown_worst{name}"), worst);
            }
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
                assert_eq!(reporter.arms().len(), 3 + 2 * (3 + 12) + 2);
            }
        }
    }
}
