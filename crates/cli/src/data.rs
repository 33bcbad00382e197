//! Databases in a folder: opening one, and checking or repairing one that no process has open.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use halcyon::{
    Database, DatabaseOptions, Opened, Opening, SqlError, SystemSetting, Workers, system_settings,
};
use halcyon_base::progress::{self, Kind, Phase, Unit, Work};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Flags of a database, one per setting of the whole database; they take precedence over ALTER
/// SYSTEM.
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    /// Settings by name, with their texts.
    given: Vec<(&'static str, String)>,
}

impl Args for Tuning {
    fn augment_args(command: Command) -> Command {
        system_settings().fold(command, |command, setting| {
            let mut flag = Arg::new(setting.name).long(setting.flag).value_name("VALUE");
            let purpose = setting.purpose.trim_end_matches('.');
            flag = flag.help(format!("{purpose} (default {})", setting.default));
            command.arg(if setting.needs_folder { flag.requires("data") } else { flag })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Tuning {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: SystemSetting| {
            Some((setting.name, matches.get_one::<String>(setting.name)?.clone()))
        };
        Ok(Tuning { given: system_settings().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Tuning {
    /// The value that was given for a setting, as SHOW prints it; `None` without one, or if one is refused.
    pub fn given(&self, name: &str) -> Option<String> {
        Some(self.options().ok()?.settings.get(name)?.to_owned())
    }

    fn options(&self) -> Result<DatabaseOptions, SqlError> {
        let mut options = DatabaseOptions::default();
        self.given.iter().try_for_each(|(name, value)| options.set(name, value))?;
        Ok(options)
    }
}

/// Opens the database in a folder, or makes one in memory, with a bar on stderr if opening takes a
/// while. `spill`: the folder for what statements cannot hold. Errors are printed.
pub fn open(
    folder: Option<&Path>,
    tuning: &Tuning,
    workers: Workers,
    spill: Option<&Path>,
) -> Result<Database, ExitCode> {
    let mut options = tuning.options().map_err(|error| {
        tell(&error);
        ExitCode::from(2)
    })?;
    options.workers = workers;
    if let Some(spill) = spill {
        options.spill_into(spill).map_err(|error| {
            tell(&error);
            ExitCode::FAILURE
        })?;
    }
    let Some(folder) = folder else { return Ok(Database::with_options(options)) };
    let bar = Bar::new();
    // What this thread does itself, such as filling views, counts for the opening.
    let within = bar.work.enter();
    let opened = Database::open_with(folder, options, &|step| bar.tell(step));
    drop(within);
    bar.end();
    opened.map_err(|error| {
        tell(&error);
        ExitCode::FAILURE
    })
}

/// `halcyon check`: reads a database that no process has open, and reports whether it is whole.
pub fn check(folder: &Path) -> ExitCode {
    let bar = Bar::new();
    let checked = Database::check(folder, &|step| bar.tell(step));
    bar.end();
    match checked {
        Ok(found) => {
            println!("{}", report(&found));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

/// `halcyon repair --accept-loss`: cuts the log of a database that no process has open, and says what
/// is lost by that.
pub fn repair(folder: &Path) -> ExitCode {
    match Database::repair_accepting_loss(folder) {
        Ok(None) => {
            println!("nothing is wrong with the log, and nothing was changed");
            ExitCode::SUCCESS
        }
        Ok(Some(repair)) => {
            println!("found: {}", repair.damage);
            println!("kept: everything up to {}", repair.end);
            println!(
                "lost: the log from {} at least to {}, where {} commits can still be seen",
                repair.end, repair.known, repair.commits
            );
            println!("set aside: the log's files, in {}", folder.join(repair.kept_in).display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

fn report(found: &Opened) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let tail = match found.torn {
        true => "; it ends in a commit that was never acknowledged",
        false => "",
    };
    format!(
        "ok: checkpoint of {:.1} MiB, log of {:.1} MiB with {} commits{tail}",
        mib(found.checkpoint_bytes),
        mib(found.log_bytes),
        found.commits
    )
}

fn tell(error: &SqlError) {
    let parts = [("detail", &error.fields().detail), ("hint", &error.fields().hint)];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)));
    let message = parts.fold(error.message().to_string(), |message, (name, part)| {
        format!("{message}\n{name}: {part}")
    });
    crate::logs::failure(&message);
}

/// Time between two lines of the log that say how far the opening is.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// The progress of opening: on a terminal's stderr, else in the log, and for who asks the console whether the server is
/// ready.
struct Bar {
    bar: ProgressBar,
    work: Work,
    told: Mutex<Told>,
}

/// What was told of the opening.
struct Told {
    phase: Phase,
    /// When a line of the log was written last, or the opening began.
    at: Instant,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(1);
        let target = match std::io::stderr().is_terminal() {
            // Quick work shows nothing.
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        bar.set_draw_target(target);
        let template = "{msg} {bar:40} {percent}% {elapsed}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        let told = Told { phase: Phase::Initializing, at: Instant::now() };
        Bar { bar, work: progress::begin(Kind::Recovery, None), told: Mutex::new(told) }
    }

    /// Several threads tell of steps that each make progress of their own.
    fn tell(&self, step: Opening) {
        let (phase, unit, done, total) = match step {
            Opening::Checkpoint(done, all) => (Phase::ReadingCheckpoint, Unit::Bytes, done, all),
            Opening::Log(done, all) => (Phase::ReplayingLog, Unit::Bytes, done, all),
            Opening::Indexes(done, all) => (Phase::BuildingIndexes, Unit::Partitions, done, all),
        };
        let Ok(mut told) = self.told.lock() else { return };
        if told.phase != phase {
            told.phase = phase;
            self.work.stage(phase, unit, Some(total));
        }
        self.work.reach(done);
        if self.bar.is_hidden() && told.at.elapsed() >= TOLD_EVERY {
            told.at = Instant::now();
            let (phase, unit) = (phase.name(), unit.name());
            tracing::info!(phase, unit, done, total, "the database is being opened");
        }
        if self.bar.elapsed() >= Duration::from_millis(300) {
            self.bar.set_message(phase.name());
            self.bar.set_length(total.max(1));
            self.bar.set_position(done);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_is_a_work_that_the_console_can_tell_of() {
        let bar = Bar::new();
        bar.tell(Opening::Checkpoint(10, 40));
        bar.tell(Opening::Checkpoint(5, 40));
        let shown = bar.work.shown();
        assert_eq!((shown.kind, shown.phase), (Kind::Recovery, Phase::ReadingCheckpoint));
        assert_eq!((shown.done, shown.total), (10, Some(40)), "threads tell out of order");
        bar.tell(Opening::Log(7, 100));
        let shown = bar.work.shown();
        assert_eq!((shown.phase, shown.percent()), (Phase::ReplayingLog, Some(7.0)));
        bar.tell(Opening::Indexes(1, 2));
        assert_eq!(bar.work.shown().unit, Unit::Partitions);
        bar.end();
    }
}
