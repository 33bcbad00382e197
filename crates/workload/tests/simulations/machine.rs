//! A machine in virtual time: cores that run morsels of statements by priority, behind the gate.
//!
//! A core takes the statement of the highest band that waits, and within a band the one that waits longest, for at most
//! a millisecond. Nothing else is modelled: no memory, no locks, no cost of switching.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use halcyon_base::rng::Rng;
use halcyon_workload::gate::{Arrival, Gate, Grant, Observation, Ready, Request, Ticket, Woken};
use halcyon_workload::latency::{Histogram, Windows};
use halcyon_workload::target::{self, Action, Actuator, ClassObservation, Targets};
use halcyon_workload::{Band, CLASSES, ClassId, Definitions, Machine, Quantile, Snapshot, band};

/// A millisecond in the machine's time.
pub const MS: u64 = 1_000_000;
/// A second.
pub const S: u64 = 1_000 * MS;
/// The longest time that a core runs one statement.
const MORSEL_NS: u64 = MS;
const TICK_NS: u64 = 10 * MS;

/// A load: statements of one class that arrive at random, with exponential processor times.
#[derive(Clone, Debug)]
pub struct Load {
    pub class: String,
    /// Statements per second.
    pub rate: f64,
    /// Shares and mean processor times, ns.
    pub mix: Vec<(f64, f64)>,
    /// Threads that a statement asks for.
    pub threads: u32,
    /// The load begins and ends, ns.
    pub from_ns: u64,
    pub to_ns: u64,
    /// With so many clients that each wait for their answer, instead of a rate; 0: a rate.
    pub clients: u32,
    /// Statements of the load pollute the shared cache.
    pub pollutes: bool,
}

impl Load {
    /// A load for ever.
    pub fn new(class: &str, rate: f64, mix: &[(f64, f64)]) -> Load {
        Load {
            class: class.to_owned(),
            rate,
            mix: mix.to_vec(),
            threads: 1,
            from_ns: 0,
            to_ns: u64::MAX,
            clients: 0,
            pollutes: false,
        }
    }

    /// So many clients, each with one statement at a time.
    pub fn closed(class: &str, clients: u32, mean_ns: f64) -> Load {
        Load { clients, ..Load::new(class, 0.0, &[(1.0, mean_ns)]) }
    }
}

/// What became of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub load: usize,
    pub arrived_ns: u64,
    pub ended_ns: u64,
    pub is_served: bool,
}

struct Statement {
    load: usize,
    arrived_ns: u64,
    left_ns: u64,
    /// Morsels of the statement on cores now.
    on_cores: u32,
    grant: Option<Grant>,
    ready_ns: u64,
    is_ready: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A core is done with a morsel.
    Core(usize),
    Arrival(usize),
    Tick,
}

pub struct Sim {
    pub gate: Gate,
    pub now: u64,
    pub done: Vec<Done>,
    /// Time that cores spent per class, ns.
    pub busy_ns: Vec<u64>,
    /// Limits of the first load's class that its controller found, by tick.
    pub limits: Vec<u32>,
    /// Longest wait in a queue that the gate ended in any way, ns.
    pub longest_wait_ns: u64,
    rng: Rng,
    loads: Vec<Load>,
    classes: Vec<ClassId>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    statements: HashMap<u64, Statement>,
    next: u64,
    queued: HashMap<Ticket, u64>,
    ready: [VecDeque<(u64, ClassId)>; 4],
    cores: Vec<Option<(u64, u64)>>,
    steps: Vec<u64>,
    wait_sums: Vec<u64>,
    in_use: [u32; CLASSES],
    /// A statement of the first load takes up to so many times longer when all other cores run others' statements.
    pub interference: f64,
    /// A statement of the first load takes up to so many times longer when all other cores run polluting statements.
    pub pollution: f64,
    /// Cores that polluting statements may use, as the controller holds them.
    pub polluters: Option<u32>,
    /// A statement of the first load takes so many times longer anyhow (a lock, say).
    pub slowness: f64,
    /// The controller of latency targets, if there is one, and what it has asked for.
    pub targets: Option<Targets>,
    pub actions: Vec<(u64, Action)>,
    /// Threads that others have in all, as the controller caps them: thousandths of a thread's time.
    caps: [Option<f64>; CLASSES],
    /// Time of the second that is used of the caps, ns.
    used_ns: [u64; CLASSES],
    latencies: Vec<Windows>,
    ready_waits: Vec<Histogram>,
    second_busy: Vec<u64>,
    seconds: u64,
}

impl Sim {
    pub fn new(cores: u32, definitions: &Definitions, loads: Vec<Load>, seed: u64) -> Sim {
        let machine = Machine { threads: cores, memory_bytes: 1 << 30 };
        let snapshot =
            Snapshot::new(definitions, &machine, None).expect("the definitions are right");
        let classes = loads
            .iter()
            .map(|load| snapshot.by_name(&load.class).expect("the class exists").id)
            .collect();
        let mut sim = Sim {
            gate: Gate::new(Arc::new(snapshot)),
            now: 0,
            done: Vec::new(),
            busy_ns: vec![0; CLASSES],
            limits: Vec::new(),
            longest_wait_ns: 0,
            rng: Rng::new(seed),
            classes,
            events: BinaryHeap::new(),
            order: 0,
            statements: HashMap::new(),
            next: 0,
            queued: HashMap::new(),
            ready: Default::default(),
            cores: vec![None; cores as usize],
            steps: vec![0; CLASSES],
            wait_sums: vec![0; CLASSES],
            in_use: [0; CLASSES],
            interference: 0.0,
            pollution: 0.0,
            polluters: None,
            slowness: 1.0,
            targets: None,
            actions: Vec::new(),
            caps: [None; CLASSES],
            used_ns: [0; CLASSES],
            latencies: vec![Windows::default(); CLASSES],
            ready_waits: vec![Histogram::default(); CLASSES],
            second_busy: vec![0; CLASSES],
            seconds: 0,
            loads,
        };
        sim.push(TICK_NS, Event::Tick);
        for load in 0..sim.loads.len() {
            let from_ns = sim.loads[load].from_ns;
            for _ in 0..sim.loads[load].clients.max(1) {
                sim.push(from_ns, Event::Arrival(load));
            }
        }
        sim
    }

    /// Runs until `end_ns`.
    pub fn run(&mut self, end_ns: u64) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > end_ns {
                break;
            }
            self.events.pop();
            self.now = at;
            match event {
                Event::Core(core) => self.core_is_free(core),
                Event::Arrival(load) => self.arrival(load),
                Event::Tick => self.tick(),
            }
            self.dispatch();
        }
        self.now = end_ns;
    }

    fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    /// An exponential time of that mean.
    fn exponential(&mut self, mean: f64) -> u64 {
        let unit = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (-mean * (1.0 - unit).ln()) as u64
    }

    fn arrival(&mut self, load: usize) {
        let of = self.loads[load].clone();
        if self.now >= of.to_ns {
            return;
        }
        if of.clients == 0 {
            let gap_ns = self.exponential(1e9 / of.rate);
            self.push(self.now + gap_ns, Event::Arrival(load));
        }
        let mut pick = self.rng.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        let mut mean_ns = of.mix[0].1;
        for (share, mean) in &of.mix {
            mean_ns = *mean;
            pick -= share;
            if pick < 0.0 {
                break;
            }
        }
        let left_ns = self.exponential(mean_ns).max(1_000);
        let id = self.next;
        self.next += 1;
        let statement = Statement {
            load,
            arrived_ns: self.now,
            left_ns,
            on_cores: 0,
            grant: None,
            ready_ns: self.now,
            is_ready: false,
        };
        self.statements.insert(id, statement);
        let request = Request {
            class: self.classes[load],
            threads_wanted: of.threads,
            session: id as u32,
            limits: None,
            text_hash: 0,
            holds_locks: false,
        };
        match self.gate.arrive(self.now, request) {
            Arrival::Admitted(grant) => self.start(id, grant),
            Arrival::Queued(ticket) => {
                self.queued.insert(ticket, id);
            }
            Arrival::Rejected(_) => self.end(id, false),
        }
    }

    fn start(&mut self, id: u64, grant: Grant) {
        let class = grant.class;
        let Some(statement) = self.statements.get_mut(&id) else { return };
        statement.grant = Some(grant);
        statement.ready_ns = self.now;
        self.make_ready(id, class);
    }

    fn make_ready(&mut self, id: u64, class: ClassId) {
        let place = match band(self.gate.snapshot().class(class).limits.priority) {
            Band::Urgent => 0,
            Band::High => 1,
            Band::Normal => 2,
            Band::Low => 3,
        };
        self.ready[place].push_back((id, class));
        if let Some(statement) = self.statements.get_mut(&id) {
            statement.is_ready = true;
        }
    }

    fn end(&mut self, id: u64, is_served: bool) {
        let Some(statement) = self.statements.remove(&id) else { return };
        let Statement { load, arrived_ns, grant, .. } = statement;
        self.done.push(Done { load, arrived_ns, ended_ns: self.now, is_served });
        if is_served {
            let class = self.classes[load].0 as usize;
            self.latencies[class].record(self.now, Duration::from_nanos(self.now - arrived_ns));
        }
        if let Some(grant) = grant {
            let woken = self.gate.leave(self.now, grant);
            self.woken(woken);
        }
        if self.loads[load].clients > 0 {
            let pause_ns = if is_served { 0 } else { 10 * MS };
            self.push(self.now + pause_ns, Event::Arrival(load));
        }
    }

    fn woken(&mut self, woken: Vec<Woken>) {
        for woken in woken {
            let Some(id) = self.queued.remove(&woken.ticket) else { continue };
            let arrived_ns =
                self.statements.get(&id).map_or(self.now, |statement| statement.arrived_ns);
            self.longest_wait_ns = self.longest_wait_ns.max(self.now - arrived_ns);
            match woken.result {
                Ok(grant) => self.start(id, grant),
                Err(_) => self.end(id, false),
            }
        }
    }

    /// Gives free cores work.
    fn dispatch(&mut self) {
        for core in 0..self.cores.len() {
            if self.cores[core].is_some() {
                continue;
            }
            let Some(id) = self.take_ready() else { return };
            let statement = self.statements.get_mut(&id).expect("the statement is ready");
            statement.is_ready = false;
            let class = self.classes[statement.load];
            let waited_ns = self.now - statement.ready_ns;
            self.wait_sums[class.0 as usize] += waited_ns;
            self.steps[class.0 as usize] += 1;
            self.ready_waits[class.0 as usize].record(Duration::from_nanos(waited_ns));
            let load = statement.load;
            let work_ns = statement.left_ns.min(MORSEL_NS);
            statement.left_ns -= work_ns;
            statement.on_cores += 1;
            self.in_use[class.0 as usize] += 1;
            // A statement with several threads is on several cores at once.
            let threads = statement.grant.as_ref().map_or(1, |grant| grant.threads);
            if statement.left_ns > 0 && statement.on_cores < threads {
                statement.ready_ns = self.now;
                self.make_ready(id, class);
            }
            let slice_ns = (work_ns as f64 * self.slowdown(load)) as u64;
            self.used_ns[class.0 as usize] += slice_ns;
            self.cores[core] = Some((id, slice_ns));
            self.push(self.now + slice_ns, Event::Core(core));
        }
    }

    fn take_ready(&mut self) -> Option<u64> {
        for band in 0..4 {
            let can_run =
                |(id, class): &(u64, ClassId)| self.may_run(*class) && self.may_pollute(*id);
            if let Some(place) = self.ready[band].iter().position(can_run) {
                return self.ready[band].remove(place).map(|(id, _)| id);
            }
        }
        None
    }

    /// How many times longer a statement of the load takes.
    fn slowdown(&self, load: usize) -> f64 {
        if load > 0 {
            return 1.0;
        }
        let own = self.in_use[self.classes[0].0 as usize];
        let others = self.in_use.iter().sum::<u32>() - own;
        let share = |count: u32| f64::from(count) / (self.cores.len() - 1) as f64;
        let disturbed =
            self.interference * share(others) + self.pollution * share(self.polluting());
        self.slowness * (1.0 + disturbed)
    }

    /// Cores that run polluting statements.
    fn polluting(&self) -> u32 {
        let ids = self.cores.iter().flatten().map(|(id, _)| id);
        ids.filter(|id| self.pollutes(**id)).count() as u32
    }

    fn pollutes(&self, id: u64) -> bool {
        self.statements.get(&id).is_some_and(|statement| self.loads[statement.load].pollutes)
    }

    /// Whether a statement may have a core as far as the limit of polluting ones goes: the machine is one island.
    fn may_pollute(&self, id: u64) -> bool {
        self.polluters.is_none_or(|most| !self.pollutes(id) || self.polluting() < most)
    }

    /// A cap is kept over ten milliseconds: a class with 1.5 threads has 15 ms of processor time in each ten.
    fn may_run(&self, class: ClassId) -> bool {
        let class = class.0 as usize;
        let Some(cap) = self.caps[class] else { return true };
        f64::from(self.in_use[class]) < cap.ceil()
            && (self.used_ns[class] as f64) < cap * TICK_NS as f64
    }

    fn core_is_free(&mut self, core: usize) {
        let (id, slice_ns) = self.cores[core].take().expect("the core was busy");
        let statement = self.statements.get_mut(&id).expect("the statement ran");
        let class = self.classes[statement.load];
        self.busy_ns[class.0 as usize] += slice_ns;
        self.in_use[class.0 as usize] -= 1;
        statement.on_cores -= 1;
        if statement.left_ns > 0 {
            if !statement.is_ready {
                statement.ready_ns = self.now;
                self.make_ready(id, class);
            }
        } else if statement.on_cores == 0 {
            self.end(id, true);
        }
    }

    fn tick(&mut self) {
        self.push(self.now + TICK_NS, Event::Tick);
        let busy = self.cores.iter().filter(|core| core.is_some()).count();
        let percent = 100.0 * busy as f64 / self.cores.len() as f64;
        let mut observation = Observation::new(percent, 0.0);
        for class in 0..CLASSES {
            let steps = self.steps[class];
            let wait_ns = self.wait_sums[class].checked_div(steps);
            observation.ready[class] = wait_ns.map(|wait_ns| Ready { wait_ns, steps });
            self.steps[class] = 0;
            self.wait_sums[class] = 0;
        }
        let woken = self.gate.tick(self.now, &observation);
        self.woken(woken);
        self.gate.check();
        let first = self.classes[0];
        let controllers = self.gate.controllers(self.now);
        self.limits.extend(controllers.iter().find(|of| of.class == first).map(|of| of.limit));
        for (used_ns, cap) in self.used_ns.iter_mut().zip(self.caps) {
            let granted_ns = cap.map_or(u64::MAX, |cap| (cap * TICK_NS as f64) as u64);
            *used_ns = used_ns.saturating_sub(granted_ns);
        }
        if self.now / S > self.seconds {
            self.seconds = self.now / S;
            self.steer();
        }
    }

    /// Once a second: what was measured goes to the controller of targets, and its actions are done.
    fn steer(&mut self) {
        let Some(mut targets) = self.targets.take() else { return };
        let polluting_workers = self.cores.len() as u32;
        let mut observation =
            target::Observation { now_ns: self.now, classes: Vec::new(), polluting_workers };
        let mut classes = self.classes.clone();
        classes.dedup();
        for class in classes {
            let index = class.0 as usize;
            let is_waiting = self.ready.iter().flatten().any(|(_, of)| *of == class);
            let busy_ns = self.busy_ns[index] - self.second_busy[index];
            self.second_busy[index] = self.busy_ns[index];
            observation.classes.push(ClassObservation {
                class,
                quantiles: Quantile::ALL
                    .map(|quantile| self.latencies[index].quantile(self.now, quantile.share())),
                ready_wait_p99: self.ready_waits[index].quantile(0.99),
                running: self.gate.statistics(class).running,
                slots: busy_ns as f64 / S as f64,
                is_waiting,
                is_polluting: self.statements.values().any(|statement| {
                    self.classes[statement.load] == class && self.loads[statement.load].pollutes
                }),
            });
            self.ready_waits[index].clear();
        }
        for action in targets.step(&observation) {
            let index = action.class.0 as usize;
            match action.actuator {
                Actuator::Threads(slots) => self.caps[index] = Some(slots),
                Actuator::Free => self.caps[index] = None,
                Actuator::Polluters(limit) => self.polluters = limit,
                Actuator::Concurrency(limit) => {
                    let woken = self.gate.restrain(self.now, action.class, limit);
                    self.woken(woken);
                }
            }
            self.actions.push((self.now, action));
        }
        targets.check();
        self.targets = Some(targets);
    }

    /// Latencies, ms, of the served statements of a load that arrived within the time, sorted.
    pub fn latencies(&self, load: usize, from_ns: u64, to_ns: u64) -> Vec<f64> {
        let within = |done: &&Done| {
            done.load == load && done.is_served && (from_ns..to_ns).contains(&done.arrived_ns)
        };
        let latency = |done: &Done| (done.ended_ns - done.arrived_ns) as f64 / 1e6;
        let mut latencies: Vec<f64> = self.done.iter().filter(within).map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

/// The quantile of sorted values; 0 without any.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or(0.0)
}

/// Classes by name and settings.
pub fn define(classes: &[(&str, &[(&str, &str)])]) -> Definitions {
    let mut definitions = Definitions::default();
    for (name, settings) in classes {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        definitions.create_class(name, None, &settings).expect("the class is right");
    }
    definitions
}
