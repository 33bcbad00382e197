//! Response times of web beside a load that grows from step to step.

mod summary;

use std::time::{Duration, Instant};

use halcyon_base::rng::Rng;
use serde_json::json;

use super::background::{Background, Counts};
use super::classes::{self, ClassArm};
use super::statements::{self, Sizes, WebClient};
use super::{Engine, Options, ms};
use crate::open_loop::{self, Outcome, Phase, Sent, Terms, schedule, sleep_until, soon};
use crate::programs::{self, Program};
use crate::statistics::{mean, quantile};
use crate::{Arm, Failure, Reporter, Result, responses};

/// What is promised in the arm with a target: the 99th percentile of an idle machine times this.
const TARGET_OF_IDLE: f64 = 1.5;

/// Steps of the idle machine that count as one: all other steps are compared with these.
const IDLE_STEPS: usize = 3;

/// A step, measured after its settling.
#[derive(Debug, Clone, Default)]
struct Step {
    /// Connections of report, and as many of etl.
    connections: u32,
    /// Latencies of web's statements that were due in the step, ms; lower bounds of those never sent.
    web_ms: Vec<f64>,
    /// Web's statements that the server had no room for.
    rejected: usize,
    /// Web's statements that found no free connection before the load ended.
    unsent: usize,
    /// Time between due and sent, ms: waiting for a connection, and the client's own lateness.
    sent_after_ms: Vec<f64>,
    /// Length of the measured part, s.
    seconds: f64,
    /// Statements of the other applications that ended.
    counts: Counts,
    /// The server's share of all processors' time.
    server_busy: f64,
    /// The share of all processors' time in which any process ran.
    machine_busy: f64,
    /// The same without the server and the clients: what others did meanwhile.
    others_busy: f64,
}

impl Step {
    /// Two steps with the same connections as one.
    fn and(mut self, next: Step) -> Step {
        let whole = self.seconds + next.seconds;
        let both = |own: f64, next_own: f64| (own * self.seconds + next_own * next.seconds) / whole;
        self.server_busy = both(self.server_busy, next.server_busy);
        self.machine_busy = both(self.machine_busy, next.machine_busy);
        self.others_busy = both(self.others_busy, next.others_busy);
        self.seconds = whole;
        self.web_ms.extend(next.web_ms);
        self.sent_after_ms.extend(next.sent_after_ms);
        self.rejected += next.rejected;
        self.unsent += next.unsent;
        self.counts.reports += next.counts.reports;
        self.counts.etl += next.counts.etl;
        self.counts.rejected += next.counts.rejected;
        self
    }

    /// Statements of report and etl per second.
    fn background_per_s(&self) -> f64 {
        (self.counts.reports + self.counts.etl) as f64 / self.seconds
    }
}

/// An arm's whole ramp.
struct Ramp {
    engine: Engine,
    arm: String,
    /// The step in which web is alone, then those of the ramp.
    steps: Vec<Step>,
    /// Web's statements of the ramp, in the order in which they were due.
    sent: Vec<Sent>,
    /// The last step's connections without web, then with web again.
    without_web: Step,
    with_web: Step,
    /// The server's processor time of a web statement on an idle machine, ms.
    web_processor_ms: f64,
    /// The promised 99th percentile, ms.
    target_ms: Option<f64>,
    /// The reason why the ramp ended early.
    failure: Option<Failure>,
}

/// Runs the ramps of all arms, one after the other, each with a server of its own.
pub fn run(options: &Options, engines: &[Engine], reporter: &mut Reporter) -> Result<()> {
    let mut ramps = Vec::new();
    let halcyon = options.arms.iter().map(|arm| (Engine::Halcyon, Some(*arm)));
    let postgres = [(Engine::Postgres, None)];
    for (engine, arm) in halcyon.chain(postgres).filter(|(engine, _)| engines.contains(engine)) {
        let mut ramp = Ramp::new(engine, arm);
        reporter.progress(format_args!("figure1: {} {}", engine.name(), ramp.arm));
        ramp.failure = ramp.climb(arm, options, reporter).err();
        ramp.report_steps(options, reporter);
        ramps.push(ramp);
    }
    summary::report(&ramps, options, reporter);
    if let Some(path) = &options.svg {
        std::fs::write(path, responses::svg(&curves(&ramps)))?;
    }
    Ok(())
}

/// What the figure shows of the ramps; an arm that runs once more is left out.
fn curves(ramps: &[Ramp]) -> Vec<responses::Curve> {
    let shown = ramps.iter().filter(|ramp| ramp.arm != ClassArm::Again.name());
    let curve = |ramp: &Ramp| {
        let of = |figure: fn(&[f64]) -> Option<f64>| {
            let steps = ramp.steps.iter();
            steps.filter_map(|step| Some((2 * step.connections, figure(&step.web_ms)?))).collect()
        };
        responses::Curve {
            name: ramp.title(),
            mean_ms: of(mean),
            p99_ms: of(|all| quantile(all, 0.99)),
        }
    };
    shown.map(curve).collect()
}

impl Ramp {
    fn new(engine: Engine, arm: Option<ClassArm>) -> Self {
        Ramp {
            engine,
            arm: arm.map_or_else(|| "plain".to_owned(), ClassArm::name),
            steps: Vec::new(),
            sent: Vec::new(),
            without_web: Step::default(),
            with_web: Step::default(),
            web_processor_ms: 0.0,
            target_ms: None,
            failure: None,
        }
    }

    /// Name of the curve.
    fn title(&self) -> String {
        match self.engine {
            Engine::Halcyon => format!("Halcyon, {}", self.arm),
            Engine::Postgres => "PostgreSQL".to_owned(),
        }
    }

    /// Starts the server and takes the load from nobody to the last step, then web away and back.
    fn climb(
        &mut self,
        arm: Option<ClassArm>,
        options: &Options,
        reporter: &Reporter,
    ) -> Result<()> {
        let program = self.engine.start(options)?;
        let sizes = options.sizes();
        statements::load(&program, sizes)?;
        classes::define(&program, &arm.map(ClassArm::definitions).unwrap_or_default())?;
        let mut load = Load::new(&program, sizes, options)?;
        // Plans and caches are made before anything counts.
        load.play(&[0], true)?;
        let used = program.processor_time();
        let (idle, sent) = load.play(&[0; IDLE_STEPS], true)?;
        let used = program.processor_time().saturating_sub(used);
        self.web_processor_ms = ms(used) / sent.len().max(1) as f64;
        self.steps.extend(idle.into_iter().reduce(Step::and));
        if arm == Some(ClassArm::Target) {
            let idle_ms = quantile(&self.steps[0].web_ms, 0.99).unwrap_or_default();
            let target_ms = TARGET_OF_IDLE * idle_ms;
            classes::define(&program, &[classes::target(target_ms)])?;
            self.target_ms = Some(target_ms);
        }
        let adds = vec![options.per_step; options.steps as usize];
        let (steps, sent) = load.play(&adds, true)?;
        self.steps.extend(steps);
        self.sent = sent;
        reporter.progress("figure1: without web, and with web again");
        self.without_web = load.play(&[0], false)?.0.remove(0);
        self.with_web = load.play(&[0], true)?.0.remove(0);
        Ok(())
    }

    /// Prints a step each.
    fn report_steps(&self, options: &Options, reporter: &mut Reporter) {
        for (number, step) in self.steps.iter().enumerate() {
            let mut arm = self.arm(options, json!({ "step": number }));
            step.report(&mut arm);
            reporter.arm(arm);
        }
        if self.failure.is_none() {
            for (name, step) in [("without_web", &self.without_web), ("again", &self.with_web)] {
                let mut arm = self.arm(options, json!({ "step": name }));
                step.report(&mut arm);
                reporter.arm(arm);
            }
        }
    }

    /// An arm of the report with the ramp's parameters and some more.
    fn arm(&self, options: &Options, more: serde_json::Value) -> Arm {
        let own = json!({
            "rate": options.rate, "per_step": options.per_step, "web_rows": options.web_rows,
            "rows": options.rows, "etl_rows": options.etl_rows, "connections": options.connections,
        });
        options.arm(self.engine, "figure1", &self.arm, &[own, more])
    }
}

impl Step {
    fn report(&self, arm: &mut Arm) {
        arm.figure("reports", self.connections);
        arm.figure("etl", self.connections);
        if let Some(web_mean) = mean(&self.web_ms) {
            arm.rounded("web_mean_ms", web_mean);
            for (name, q) in [("web_p50_ms", 0.5), ("web_p99_ms", 0.99), ("web_max_ms", 1.0)] {
                arm.rounded(name, quantile(&self.web_ms, q).unwrap_or_default());
            }
            arm.figure("web_statements", self.web_ms.len());
            arm.figure("web_rejected", self.rejected);
            arm.figure("web_unsent", self.unsent);
            let sent_after = quantile(&self.sent_after_ms, 0.99).unwrap_or_default();
            arm.rounded("web_sent_after_p99_ms", sent_after);
        }
        arm.rounded("report_per_s", self.counts.reports as f64 / self.seconds);
        arm.rounded("etl_per_s", self.counts.etl as f64 / self.seconds);
        arm.figure("background_rejected", self.counts.rejected);
        arm.rounded("server_busy", self.server_busy);
        arm.rounded("machine_busy", self.machine_busy);
        arm.rounded("others_busy", self.others_busy);
    }
}

/// What is read at the begin and at the end of the measured part of a step.
struct Reading {
    at: Instant,
    counts: Counts,
    processor: Duration,
    clients: Duration,
    machine: Machine,
}

/// Processor time of the whole machine since its start, in ticks of all processors.
struct Machine {
    busy: u64,
    all: u64,
}

impl Machine {
    /// The first line of `/proc/stat`; without one nothing is busy.
    fn read() -> Machine {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // After the name: user, nice, system, idle, iowait, irq, softirq, steal; then times that are in user.
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Machine { busy: all - idle, all }
    }
}

/// All clients of a server.
struct Load<'a> {
    program: &'a Program,
    options: &'a Options,
    web: Vec<WebClient>,
    background: Background,
    connections: u32,
    plays: u64,
}

impl<'a> Load<'a> {
    fn new(program: &'a Program, sizes: Sizes, options: &'a Options) -> Result<Self> {
        let web = (0..options.connections).map(|_| WebClient::new(program, sizes));
        Ok(Load {
            program,
            options,
            web: web.collect::<Result<_>>()?,
            background: Background::new(program, sizes)?,
            connections: 0,
            plays: 0,
        })
    }

    /// Goes through steps that begin with so many more connections each, with web or without.
    fn play(&mut self, adds: &[u32], with_web: bool) -> Result<(Vec<Step>, Vec<Sent>)> {
        let step = self.options.step();
        let phase = Phase { rate: self.options.rate, time: step };
        let mut rng = Rng::new(self.options.seed.wrapping_add(self.plays << 32));
        self.plays += 1;
        let phases = if with_web { vec![phase; adds.len()] } else { Vec::new() };
        let due = schedule(self.options.arrivals, &phases, &mut rng);
        let terms = Terms { start: soon(), end: step * adds.len() as u32, patience: None };
        let mut web = std::mem::take(&mut self.web);
        let (steps, sent) = std::thread::scope(|scope| {
            let clients = web.iter_mut().map(|client| |number| client.run(number));
            let mut clients: Vec<_> = clients.collect();
            let due = &due;
            let sending = scope.spawn(move || open_loop::run(due, terms, &mut clients));
            let steps = self.watch(adds, terms.start);
            (steps, sending.join().expect("clients do not panic"))
        });
        self.web = web;
        let (mut steps, sent) = (steps?, sent?);
        for (number, measured) in steps.iter_mut().enumerate() {
            let begin = step * number as u32;
            let counted = begin + self.options.settling()..begin + step;
            measured.take(sent.iter().filter(|sent| counted.contains(&sent.due)));
        }
        Ok((steps, sent))
    }

    /// Adds the connections of each step and measures what is not web's.
    fn watch(&mut self, adds: &[u32], start: Instant) -> Result<Vec<Step>> {
        let (step, mut steps) = (self.options.step(), Vec::new());
        for (number, add) in adds.iter().enumerate() {
            let begin = start + step * number as u32;
            sleep_until(begin);
            self.background.add(*add);
            self.connections += add;
            sleep_until(begin + self.options.settling());
            let before = self.read()?;
            sleep_until(begin + step);
            steps.push(self.read()?.since(&before, self.connections));
        }
        Ok(steps)
    }

    fn read(&self) -> Result<Reading> {
        Ok(Reading {
            at: Instant::now(),
            counts: self.background.counts()?,
            processor: self.program.processor_time(),
            clients: programs::own_processor_time(),
            machine: Machine::read(),
        })
    }
}

impl Reading {
    /// The step between two readings, without web's part.
    fn since(&self, before: &Reading, connections: u32) -> Step {
        let seconds = (self.at - before.at).as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let processor = self.processor.saturating_sub(before.processor);
        let share = |time: Duration| time.as_secs_f64() / (seconds * processors);
        let (server, clients) =
            (share(processor), share(self.clients.saturating_sub(before.clients)));
        let all = self.machine.all - before.machine.all;
        let machine = (self.machine.busy - before.machine.busy) as f64 / all.max(1) as f64;
        Step {
            connections,
            seconds,
            counts: Counts {
                reports: self.counts.reports - before.counts.reports,
                etl: self.counts.etl - before.counts.etl,
                rejected: self.counts.rejected - before.counts.rejected,
            },
            server_busy: server,
            machine_busy: machine,
            others_busy: (machine - server - clients).max(0.0),
            ..Step::default()
        }
    }
}

impl Step {
    /// Takes the statements of web that were due in the step.
    fn take<'a>(&mut self, due: impl Iterator<Item = &'a Sent>) {
        for sent in due {
            self.sent_after_ms.push(ms(sent.sent.saturating_sub(sent.due)));
            match sent.outcome {
                Outcome::Rejected => self.rejected += 1,
                Outcome::Answered => self.web_ms.push(sent.latency_ms()),
                Outcome::GivenUp | Outcome::Unsent => {
                    self.unsent += 1;
                    self.web_ms.push(sent.latency_ms());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_were_never_sent_count_for_as_long_as_they_waited() {
        let at = Duration::from_millis;
        let sent = |outcome, due, sent, ended| Sent {
            due: at(due),
            sent: at(sent),
            ended: at(ended),
            outcome,
        };
        let mut step = Step::default();
        let all = [
            sent(Outcome::Answered, 100, 110, 130),
            sent(Outcome::Rejected, 100, 100, 101),
            sent(Outcome::Unsent, 100, 900, 900),
        ];
        step.take(all.iter());
        assert_eq!((step.web_ms, step.rejected, step.unsent), (vec![30.0, 800.0], 1, 1));
        assert_eq!(step.sent_after_ms, [10.0, 0.0, 800.0]);
    }

    #[test]
    fn the_machine_tells_its_processor_time() {
        let before = Machine::read();
        assert!(before.all > before.busy && before.busy > 0);
        assert!(Machine::read().all >= before.all);
    }
}
