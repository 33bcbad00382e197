//! The commands `halcyon shield status|up|down|restore`, for every program that offers them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use halcyon_machine::schedule::{self, Policy};
use halcyon_machine::topology::list_text;
use halcyon_machine::{Availability, Feature, Topology, affinity};

use crate::guard::{self, Config, GuardianLost, Outcome, Shield, UpError};
use crate::knobs::Kernel;
use crate::plan::{BootSetting, BootState, Plan, Request, plan};
use crate::process::{self, Process};
use crate::survey::{Cpusets, Survey};

/// Time between two looks at signals and at the command.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a command inside gets to end when the shield's owner is told to.
const COMMAND_WAIT: Duration = Duration::from_secs(10);

/// A shield that stays up until a signal comes, or until a command that runs inside ends.
#[derive(Clone, Debug, Default)]
pub struct Stay {
    /// The shield.
    pub request: Request,
    /// Program and arguments of the command; empty: none.
    pub command: Vec<OsString>,
    /// The command's priority under `SCHED_FIFO`.
    pub fifo: Option<u8>,
}

/// Raises a shield and holds it. Gives the command's exit code; without a command 0, or 1 if something did not
/// come back.
///
/// Errors: see [`UpError`].
pub fn up(config: &Config, stay: &Stay, out: &mut dyn Write) -> Result<u8, UpError> {
    process::note_endings();
    let mut shield = Shield::up(config, &stay.request)?;
    let _ = writeln!(out, "{}", raised_text(&shield));
    let child = match stay.command.is_empty() {
        true => None,
        false => {
            let started = start_inside(&shield, stay);
            Some(started.map_err(|error| UpError::System("the command", error))?)
        }
    };
    let _ = writeln!(out, "up; guardian {}", shield.guardian());
    let _ = out.flush();
    let code = hold(config, &mut shield, child, out);
    let down = shield.down();
    let _ = writeln!(out, "down: {}", down.text);
    Ok(code.unwrap_or(u8::from(!down.is_whole)))
}

/// Beats until the end; the code of the command, if there is one.
fn hold(
    config: &Config,
    shield: &mut Shield,
    mut child: Option<Child>,
    out: &mut dyn Write,
) -> Option<u8> {
    let period = (config.dead_man / 10).clamp(LOOK, Duration::from_secs(1));
    let mut beaten = Instant::now();
    loop {
        if let Some(child) = &mut child
            && let Ok(Some(status)) = child.try_wait()
        {
            return Some(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        if process::is_ending() {
            child.as_mut().map(end);
            return None;
        }
        if beaten.elapsed() >= period {
            beaten = Instant::now();
            if let Err(GuardianLost) = shield.beat() {
                let _ = writeln!(out, "THE GUARDIAN IS GONE: the shield is taken down");
                // A command inside goes on, without a shield; nobody waits for it.
                return Some(1);
            }
        }
        thread::sleep(LOOK.min(period));
    }
}

/// Asks a command to end, and ends it.
fn end(child: &mut Child) {
    if let Ok(command) = Process::open(child.id()) {
        let _ = command.signal(libc::SIGTERM);
        if !command.has_ended(COMMAND_WAIT) {
            let _ = child.kill();
        }
    }
    let _ = child.wait();
}

/// Starts a command from a thread inside, from which it has group, processors and policy.
fn start_inside(shield: &Shield, stay: &Stay) -> io::Result<Child> {
    let [program, arguments @ ..] = stay.command.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    };
    let door = shield.door();
    let cpus = &shield.plan().shielded;
    let start = || {
        door.pass(cpus)?;
        affinity::set(cpus)?;
        if let Some(priority) = stay.fifo {
            schedule::set(Policy::Fifo(priority))?;
        }
        Command::new(program).args(arguments).spawn()
    };
    thread::scope(|scope| {
        let started = scope.spawn(start).join();
        started.unwrap_or_else(|_| Err(io::Error::other("the starting thread ended")))
    })
}

/// What a shield has come to, in lines.
pub fn raised_text(shield: &Shield) -> String {
    let (plan, raised) = (shield.plan(), shield.raised());
    let mut lines = Vec::new();
    if *shield.before() != Outcome::Nothing {
        lines.push(format!("an earlier shield: {}", shield.before()));
    }
    lines.push(format!("shielded: processors {}", list_text(&plan.shielded)));
    if plan.covered != plan.shielded {
        lines.push(format!("kept empty beside them: all of {}", list_text(&plan.covered)));
    }
    if let Some(entrance) = &plan.entrance {
        lines.push(format!("threads get in by {}", entrance.inside));
    }
    if raised.moved + raised.bound > 0 {
        let (moved, bound) = (raised.moved, raised.bound);
        lines.push(format!("{moved} tasks were moved off them, {bound} are bound to theirs"));
    }
    lines.extend(raised.withheld.iter().map(|withheld| format!("withheld: {withheld}")));
    lines.extend(plan.gaps.iter().map(|gap| format!("not kept away: {gap}")));
    lines.extend(boot_lines(plan));
    lines.join("\n")
}

fn boot_lines(plan: &Plan) -> Vec<String> {
    let line = |boot: &BootSetting| match &boot.state {
        BootState::Lacking(line) => {
            Some(format!("only at the kernel's start: {line} ({})", boot.gain))
        }
        BootState::There | BootState::Unknown => None,
    };
    plan.boot.iter().filter_map(line).collect()
}

/// Whether a shield is up, and what this kernel can do, for the processors of `cpus` or for the last one.
pub fn status(config: &Config, cpus: &[u32]) -> String {
    let mut lines = Vec::new();
    let journal = config.place.read();
    let is_there = config.place.folder().join("lock").exists();
    let lock = if is_there { guard::lock(&config.place) } else { Ok(None) };
    lines.push(match (&lock, &journal) {
        (Err(error), _) => format!("it cannot be told whether a shield is up: {error}"),
        (_, Err(error)) => format!("the journal cannot be read: {error}"),
        (Ok(None), Ok(Some(Ok(journal)))) if is_there => {
            let cpus = list_text(&journal.cpus);
            format!("up, or being taken down: processors {cpus}, by process {}", journal.owner)
        }
        (Ok(None), _) if is_there => "being raised or taken down".to_owned(),
        (_, Ok(None)) => "down".to_owned(),
        (_, Ok(Some(Ok(_)))) => {
            "DOWN, AND NOT UNDONE: owner and guardian were killed; halcyon shield restore"
                .to_owned()
        }
        (_, Ok(Some(Err(damage)))) => format!("down, with a journal that is {damage:?}"),
    });
    let topology = topology(&config.kernel);
    let features = features(&config.kernel, &topology, cpus);
    for Feature { name, state, why, action } in features {
        lines.push(format!("{state:<13}  {name}\n    because  {why}\n    so       {action}"));
    }
    lines.join("\n")
}

fn topology(kernel: &Kernel) -> Topology {
    let allowed = affinity::get().unwrap_or_default();
    Topology::read(&kernel.place("/"), &allowed).unwrap_or_else(|_| Topology::flat(&allowed))
}

/// What this kernel can do about noise on processors, and what only its start could change.
pub fn features(kernel: &Kernel, topology: &Topology, cpus: &[u32]) -> Vec<Feature> {
    let survey = Survey::of(kernel);
    let last = topology.processors.last().map_or(1, |processor| processor.cpu);
    let wanted = if cpus.is_empty() { vec![last] } else { cpus.to_vec() };
    let named = list_text(&wanted);
    let planned = plan(topology, &survey, &Request { cpus: wanted, is_forced: false });
    let forced = |cpus: Vec<u32>| plan(topology, &survey, &Request { cpus, is_forced: true });
    let (state, why) = match (&planned, &survey.cpusets) {
        (Err(refusal), _) => (Availability::Absent, format!("processors {named}: {refusal}")),
        (Ok(_), Cpusets::V2 { root, .. }) => {
            (Availability::Present, format!("{root} can have an isolated partition"))
        }
        (Ok(_), Cpusets::V1 { root, .. }) => {
            (Availability::Present, format!("{root} can be divided in two cpusets"))
        }
        (Ok(_), Cpusets::Missing(why)) => (Availability::Absent, why.clone()),
    };
    let mut features = vec![Feature {
        name: "shield of processors",
        state,
        why,
        action: match state {
            Availability::Present => "halcyon shield up, or halcyon serve --shield, as root",
            _ => "tasks of others cannot be kept off these processors",
        },
    }];
    features.push(masks(&survey));
    let shown = planned.or_else(|_| forced(vec![last]));
    for boot in shown.iter().flat_map(|plan| &plan.boot) {
        features.push(Feature {
            name: boot.name,
            state: match boot.state {
                BootState::There => Availability::Present,
                BootState::Lacking(_) | BootState::Unknown => Availability::Absent,
            },
            why: match &boot.state {
                BootState::There => "the kernel was started with it".to_owned(),
                BootState::Lacking(line) => format!("the kernel's command line lacks {line}"),
                BootState::Unknown => "the kernel was built without it".to_owned(),
            },
            action: boot.gain,
        });
    }
    features
}

/// The masks of interrupts, workqueues and watchdog.
fn masks(survey: &Survey) -> Feature {
    let count = |part: &str| survey.masks.iter().filter(|knob| knob.path.contains(part)).count();
    let (irqs, queues) = (count("/irq/"), count("/workqueue/"));
    let watchdog = if count("watchdog") > 0 { "watchdog" } else { "no watchdog" };
    let latency = if survey.has_latency { "sleep latency" } else { "no sleep latency" };
    let interval = if survey.stat_interval.is_some() { "interval" } else { "no interval" };
    let any = irqs + queues > 0;
    Feature {
        name: "kernel work that can be moved",
        state: if any { Availability::Present } else { Availability::Absent },
        why: format!(
            "{irqs} masks of interrupts, {queues} of workqueues, {watchdog}, {latency}, {interval} of statistics"
        ),
        action: "a shield sends it to the other processors; interrupts that drivers manage stay",
    }
}

/// Ends the shield that is up, by asking its owner to end, and waits until everything is restored.
///
/// Errors: in words; the shield may be up still.
pub fn down(config: &Config, wait: Duration) -> Result<String, String> {
    if !config.place.folder().exists() {
        return Ok(Outcome::Nothing.to_string());
    }
    if let Some(lock) = guard::lock(&config.place).map_err(|error| error.to_string())? {
        drop(lock);
        return restore(config, wait);
    }
    let journal = config.place.read().map_err(|error| error.to_string())?;
    if let Some(Ok(journal)) = journal
        && process::started(journal.owner) == Some(journal.started)
    {
        let owner = Process::open(journal.owner).map_err(|error| error.to_string())?;
        // The number was the owner's before the descriptor was opened and is now: so is the descriptor.
        if process::started(journal.owner) == Some(journal.started) {
            owner.signal(libc::SIGTERM).map_err(|error| error.to_string())?;
        }
        if !owner.has_ended(wait) {
            return Err(format!("process {} does not end", journal.owner));
        }
    }
    restore(config, wait)
}

/// Undoes what a killed shield has left; waits for one that is being taken down.
///
/// Errors: in words: a shield is up, or something did not come back.
pub fn restore(config: &Config, wait: Duration) -> Result<String, String> {
    let begin = Instant::now();
    if !config.place.folder().exists() {
        return Ok(Outcome::Nothing.to_string());
    }
    let lock = loop {
        match guard::lock(&config.place).map_err(|error| error.to_string())? {
            Some(lock) => break lock,
            None if begin.elapsed() < wait => thread::sleep(Duration::from_millis(50)),
            None => return Err("a shield is up: halcyon shield down ends it".to_owned()),
        }
    };
    let outcome =
        guard::settle(&config.kernel, &config.place).map_err(|error| error.to_string())?;
    drop(lock);
    match outcome.is_whole() {
        true => Ok(outcome.to_string()),
        false => Err(outcome.to_string()),
    }
}
