//! Databases in a folder: opening one, and looking at one that nobody has open.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use halcyon::{Database, DatabaseOptions, Opened, Opening, SqlError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Flags of a database; they stand above what ALTER SYSTEM set.
#[derive(Args, Debug, Clone, Default)]
pub struct Tuning {
    /// Longest time between two checkpoints, as 5min
    #[arg(long, value_name = "TIME", requires = "data")]
    checkpoint_timeout: Option<String>,
    /// Size of the log after which there is a checkpoint, as 1GB
    #[arg(long, value_name = "SIZE", requires = "data")]
    max_wal_size: Option<String>,
    /// Longest time that a commit which is not waited for stays in memory, as 200ms
    #[arg(long, value_name = "TIME", requires = "data")]
    wal_writer_delay: Option<String>,
    /// Memory that the maps of materialized views may take together, as 4GB; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    view_memory: Option<String>,
}

impl Tuning {
    fn options(&self) -> Result<DatabaseOptions, SqlError> {
        let mut options = DatabaseOptions::default();
        for (name, value) in [
            ("checkpoint_timeout", &self.checkpoint_timeout),
            ("max_wal_size", &self.max_wal_size),
            ("wal_writer_delay", &self.wal_writer_delay),
            ("view_memory", &self.view_memory),
        ] {
            if let Some(value) = value {
                options.set(name, value)?;
            }
        }
        Ok(options)
    }
}

/// A database in memory, or the one in a folder, with a bar on stderr if opening takes a while.
/// Errors are told.
pub fn open(folder: Option<&Path>, tuning: &Tuning) -> Result<Database, ExitCode> {
    let options = tuning.options().map_err(|error| {
        tell(&error);
        ExitCode::from(2)
    })?;
    let Some(folder) = folder else { return Ok(Database::with_options(options)) };
    let bar = Bar::new();
    let opened = Database::open_with(folder, options, &|step| bar.tell(step));
    bar.end();
    opened.map_err(|error| {
        tell(&error);
        ExitCode::FAILURE
    })
}

/// `halcyon check`: reads a database that nobody has open, and says whether it is whole.
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
    eprintln!("error: {}", error.message());
    for (name, part) in [("detail", &error.fields().detail), ("hint", &error.fields().hint)] {
        if let Some(part) = part {
            eprintln!("{name}: {part}");
        }
    }
}

/// What opening does, on a terminal's stderr.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(1);
        let target = match std::io::stderr().is_terminal() {
            // What is quick shows nothing.
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        bar.set_draw_target(target);
        let template = "{msg} {bar:40} {percent}% {elapsed}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        Bar(bar)
    }

    fn tell(&self, step: Opening) {
        if self.0.elapsed() < Duration::from_millis(300) {
            return;
        }
        let (message, done, total) = match step {
            Opening::Checkpoint(done, total) => ("reading the checkpoint", done, total),
            // Where the log ends is known at its end.
            Opening::Log(done) => ("doing the log again", done, done.max(1)),
            Opening::Indexes(done, total) => ("building indexes", done, total),
        };
        self.0.set_message(message);
        self.0.set_length(total.max(1));
        self.0.set_position(done);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
