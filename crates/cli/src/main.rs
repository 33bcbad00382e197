//! The binary `halcyon`: shell, server and lab behind one command line (DESIGN §11).
#![forbid(unsafe_code)]

mod demo;
mod serve;
mod shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    Serve(serve::Options),
    /// What the machine has and withholds, why, and what Halcyon does about it
    Machine {
        /// One JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Experiments: measured arms beside rivals, every answer checked
    Lab {
        #[command(flatten)]
        common: halcyon_lab::Common,
        #[command(subcommand)]
        experiment: halcyon_lab::Experiment,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("HALCYON_LOG")
                .unwrap_or_else(|_| "warn".into()),
        )
        .init();
    match arguments.command.unwrap_or_else(|| Command::Shell(shell::Options::default())) {
        Command::Shell(options) if options.data.is_some() => refuse_data(),
        Command::Shell(options) => shell::run(&options),
        Command::Serve(options) if options.data.is_some() => refuse_data(),
        Command::Serve(options) => serve::run(&options),
        Command::Machine { json } => machine(json),
        Command::Lab { common, experiment } => halcyon_lab::run(&experiment, common),
    }
}

/// Prints what the machine has.
fn machine(json: bool) -> ExitCode {
    let report = halcyon_machine::report();
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

/// A database that outlives its process is not built yet; pretending would lose data.
fn refuse_data() -> ExitCode {
    eprintln!("error: --data needs the redo log, which this version does not have; leave it out");
    ExitCode::from(2)
}
