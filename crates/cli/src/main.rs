//! The binary `halcyon`: shell and server behind one command line (DESIGN §11). The experiments are
//! a binary of their own, `halcyon-lab`, which `halcyon lab` starts.
#![deny(unsafe_code)]

#[allow(unsafe_code)] // the allocator is C
mod allocator;
mod data;
mod demo;
mod doctor;
mod lab;
mod logs;
mod manuals;
mod processors;
mod serve;
mod service;
mod shell;
mod shield;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// An in-memory SQL database that keeps its promises while the machine is busy.
#[derive(Parser, Debug)]
#[command(name = "halcyon", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// A shell on an embedded database or on a server
    Shell(shell::Options),
    /// A server that PostgreSQL's clients talk to
    Serve(Box<serve::Options>),
    /// Read a database that nobody has open, and say whether it is whole
    Check {
        /// The database's folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Cut the log of a damaged database behind the last commit that can be reached
    Repair {
        /// The database's folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Give up the commits that cannot be reached any more
        #[arg(long, required = true)]
        accept_loss: bool,
    },
    /// Copy a database, as it is at one moment, into a folder that can be opened
    Backup {
        /// The folder of the copy, on the server's machine; made if need be
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The server whose database is copied
        #[arg(long, value_name = "URL", required_unless_present = "data")]
        connect: Option<String>,
        /// The database that is copied, if nobody has it open
        #[arg(long, value_name = "DIR", conflicts_with = "connect")]
        data: Option<PathBuf>,
    },
    /// Write a database, as it is at one moment, as SQL scripts and Parquet files
    Export {
        /// The folder to be made, on the server's machine
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The server whose database is exported
        #[arg(long, value_name = "URL", required_unless_present = "data")]
        connect: Option<String>,
        /// The database that is exported, if nobody has it open
        #[arg(long, value_name = "DIR", conflicts_with = "connect")]
        data: Option<PathBuf>,
    },
    /// Add an exported database to one, wholly or not at all
    Import {
        /// The folder that was exported, on the server's machine
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The server whose database takes it
        #[arg(long, value_name = "URL", required_unless_present = "data")]
        connect: Option<String>,
        /// The database that takes it, if nobody has it open; made if need be
        #[arg(long, value_name = "DIR", conflicts_with = "connect")]
        data: Option<PathBuf>,
    },
    /// What the machine has and withholds, why, and what Halcyon does about it
    Machine {
        /// One JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Keep everything else off some processors while something that must not be late runs there
    #[command(subcommand)]
    Shield(shield::Action),
    /// Say what is misconfigured: of the machine, the folder, the server's options, a running server
    Doctor(doctor::Options),
    /// Print the script by which a shell completes halcyon's command lines
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: manuals::CompletedShell,
    },
    /// Write the manual pages, one per subcommand
    Man {
        /// The folder that they go to, made if need be; without it they are printed
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Experiments: measured arms beside rivals, every answer checked (starts halcyon-lab)
    #[command(disable_help_flag = true)]
    Lab {
        /// The experiment and its options; --help lists them
        #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    allocator::configure();
    halcyon::set_memory_collector(allocator::give_back);
    logs::begin(match &arguments.command {
        Some(Command::Serve(options)) => options.log_format,
        _ => logs::LogFormat::Text,
    });
    match arguments.command.unwrap_or_else(|| Command::Shell(shell::Options::default())) {
        Command::Shell(options) => shell::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Check { data } => data::check(&data),
        Command::Repair { data, accept_loss: _ } => data::repair(&data),
        Command::Backup { folder, connect, data } => about("BACKUP TO", &folder, connect, data),
        Command::Export { folder, connect, data } => {
            about("EXPORT DATABASE TO", &folder, connect, data)
        }
        Command::Import { folder, connect, data } => {
            about("IMPORT DATABASE FROM", &folder, connect, data)
        }
        Command::Machine { json } => machine(json),
        Command::Shield(action) => shield::run(&action),
        Command::Doctor(options) => doctor::run(&options),
        Command::Completions { shell } => manuals::completions(shell, Arguments::command()),
        Command::Man { folder } => manuals::man(folder.as_deref(), Arguments::command()),
        Command::Lab { arguments } => lab::run(&arguments),
    }
}

/// Prints what the machine has.
fn machine(json: bool) -> ExitCode {
    let mut report = halcyon_machine::report();
    report.features.extend(shield::features(&report.topology));
    let text = if json {
        serde_json::to_string_pretty(&report).map_err(|error| error.to_string())
    } else {
        Ok(report.render())
    };
    match text {
        Ok(text) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a statement about a folder in a database, which alone knows the data of one moment.
fn about(
    statement: &str,
    folder: &Path,
    connect: Option<String>,
    data: Option<PathBuf>,
) -> ExitCode {
    let folder = match std::path::absolute(folder) {
        Ok(folder) => folder.display().to_string(),
        Err(error) => {
            eprintln!("error: {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let command = format!("{statement} '{}'", folder.replace('\'', "''"));
    shell::run(&shell::Options {
        data,
        connect,
        commands: vec![command],
        ..shell::Options::default()
    })
}
