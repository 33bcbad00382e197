//! `halcyon shield`, and the shield of `halcyon serve --shield`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Subcommand;
use halcyon_machine::{Feature, Topology, affinity, memory};
use halcyon_shield::command::{self, Stay};
use halcyon_shield::guard::{self, Config, FOLDER, Shield};
use halcyon_shield::journal::Place;
use halcyon_shield::{Kernel, Request};

use crate::logs;
use crate::processors::{Processors, any_processors};

/// What is done with a shield.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// Whether a shield is up, and what this kernel can do
    Status {
        /// Processors that a shield is wanted for: 2,4-7; else the last one
        #[arg(value_name = "LIST", value_parser = any_processors, default_value = "")]
        cpus: Processors,
    },
    /// Shield processors until a signal comes, or a command that runs on them ends; root only
    Up {
        /// The processors: 2,4-7
        #[arg(value_name = "LIST", value_parser = any_processors)]
        cpus: Processors,
        /// Go on although other programs use the processors, or may go on to
        #[arg(long)]
        force: bool,
        /// Seconds without a sign of life after which the guardian kills this program and restores
        #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=3_600))]
        dead_man: u64,
        /// Priority (1 to 99) of the command under SCHED_FIFO
        #[arg(long, value_name = "PRIORITY", requires = "command", value_parser = clap::value_parser!(u8).range(1..=99))]
        fifo: Option<u8>,
        /// A command to run on these processors, with its arguments
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// End the shield that is up, and wait until everything is as it was
    Down,
    /// Undo what a killed shield has left; nothing if there is nothing
    Restore,
    /// What a shield starts to be restored by
    #[command(hide = true)]
    Guardian {
        /// The process that is watched
        #[arg(long)]
        owner: u32,
        /// Milliseconds without a sign of life
        #[arg(long)]
        dead_man_ms: u64,
    },
}

/// Time that one who takes a shield down gets.
const WAIT: Duration = Duration::from_secs(30);
/// Priority of workers on shielded processors.
const PRIORITY: u8 = 50;

fn config(dead_man: u64) -> Result<Config, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    Ok(Config {
        kernel: Kernel::running(),
        place: Place::new(FOLDER),
        guardian: vec![own.into(), "shield".into(), "guardian".into()],
        dead_man: Duration::from_secs(dead_man),
    })
}

/// Runs one of the commands.
pub fn run(action: &Action) -> ExitCode {
    match act(action) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: &Action) -> Result<u8, String> {
    let told = |text: String| {
        println!("{text}");
        0
    };
    match action {
        Action::Status { cpus } => Ok(told(command::status(&config(30)?, &cpus.0))),
        Action::Up { cpus, force, dead_man, fifo, command } => {
            let request = Request { cpus: cpus.0.clone(), is_forced: *force };
            let stay = Stay { request, command: command.clone(), fifo: *fifo };
            let ended = command::up(&config(*dead_man)?, &stay, &mut std::io::stdout());
            ended.map_err(|error| error.to_string())
        }
        Action::Down => command::down(&config(30)?, WAIT).map(told),
        Action::Restore => command::restore(&config(30)?, WAIT).map(told),
        Action::Guardian { owner, dead_man_ms } => {
            let config = config(30)?;
            let dead_man = Duration::from_millis(*dead_man_ms);
            let guarded = guard::guard(&config.kernel, &config.place, *owner, dead_man);
            guarded.map(|()| 0).map_err(|error| error.to_string())
        }
    }
}

/// What this kernel can do about other work on a processor.
pub fn features(topology: &Topology) -> Vec<Feature> {
    command::features(&Kernel::running(), topology, &[])
}

/// The priority under SCHED_FIFO of workers on shielded processors, if they spin unhindered with one.
///
/// Before Linux 6.12 a real-time thread that never sleeps is stopped for 50 ms of every second, even if nobody
/// else wants its processor; and nobody does on a shielded one, so that the ordinary policy is as good there.
pub fn priority(cpus: &[u32]) -> Option<u8> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    (!cpus.is_empty() && is_since_6_12(&release)).then_some(PRIORITY)
}

fn is_since_6_12(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= (6, 12),
        _ => false,
    }
}

/// A server's shield: up while this exists.
pub struct Shielded {
    end: Option<Sender<()>>,
    heart: Option<JoinHandle<()>>,
}

impl Shielded {
    /// Raises the shield that a server is to have; of no processors none. `dead_man`: time without a sign of life
    /// after which the guardian kills the server.
    ///
    /// Errors: in words; nothing is changed then.
    pub fn up(
        cpus: &[u32],
        is_forced: bool,
        dead_man: Duration,
    ) -> Result<Option<Shielded>, String> {
        if cpus.is_empty() {
            return Ok(None);
        }
        let config = config(dead_man.as_secs())?;
        let request = Request { cpus: cpus.to_vec(), is_forced };
        let shield = Shield::up(&config, &request).map_err(|error| format!("--shield: {error}"))?;
        for line in command::raised_text(&shield).lines() {
            logs::remark(line);
        }
        let door = shield.door().clone();
        affinity::prepare_by(Box::new(move |cpus| door.pass(cpus)));
        if let Err(error) = lock_memory() {
            logs::remark(&format!("memory is not locked: {error}"));
        }
        let (end, ended) = channel();
        let period = (config.dead_man / 10).min(Duration::from_secs(1));
        let heart = std::thread::Builder::new().name("shield".to_owned());
        let heart = heart.spawn(move || beat(shield, period, &ended));
        let heart = heart.map_err(|error| format!("--shield: no thread: {error}"))?;
        Ok(Some(Shielded { end: Some(end), heart: Some(heart) }))
    }
}

impl Drop for Shielded {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(heart) = self.heart.take() {
            let _ = heart.join();
        }
    }
}

/// Locks the process's memory, and touches what it has now, which is its program and the allocator's first
/// reserve, where that is no more than half of what is available.
fn lock_memory() -> std::io::Result<()> {
    let kib = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let (own, available) =
        (kib("/proc/self/status", "VmSize:"), kib("/proc/meminfo", "MemAvailable:"));
    match own.zip(available) {
        Some((own, available)) if own <= available / 2 => memory::touch_and_lock_process(),
        _ => {
            logs::remark(
                "memory is short: it is locked when it is first touched, and not touched beforehand",
            );
            memory::lock_process()
        }
    }
}

/// Beats until the server ends, and takes the shield down.
fn beat(mut shield: Shield, period: Duration, ended: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(period) {
        if shield.beat().is_err() {
            logs::failure(
                "the shield's guardian is gone: the shield is taken down, the server goes on without",
            );
            break;
        }
    }
    let down = shield.down();
    match down.is_whole {
        true => logs::remark(&format!("the shield is down: {}", down.text)),
        false => logs::failure(&format!("the shield: {}", down.text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_real_time_threads_are_stopped_by_kernels_before_6_12() {
        for (release, is_since) in [
            ("6.12.0", true),
            ("6.18.3-cloud\n", true),
            ("7.0-rc1", true),
            ("6.1.0-56-amd64", false),
            ("5.15", false),
            ("odd", false),
        ] {
            assert_eq!(is_since_6_12(release), is_since, "{release}");
        }
        assert_eq!(priority(&[]), None);
    }
}
