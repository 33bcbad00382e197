//! `halcyon doctor`: what is misconfigured, why that matters, and what to do.
//!
//! [`host`] looks at the machine, [`folder`] at folders, [`setup`] at the options of a server, [`running`] at a server
//! that runs; what each finds goes to a [`diagnosis::Diagnosis`]. What cannot be read is told as not known. Nothing is
//! changed.

mod diagnosis;
mod folder;
mod host;
mod running;
mod setup;
mod size;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use halcyon_machine::conditions::Conditions;
use halcyon_machine::{Topology, recorded, report};

use crate::serve;
use diagnosis::{Diagnosis, Severity};
use host::Host;

const STATUS: &str = "Exit status: 0 without errors and warnings, 1 with warnings, 2 with errors (and for a command line \
                      that is wrong).";

/// Options of `halcyon doctor`.
#[derive(Args, Debug, Clone)]
#[command(after_help = STATUS)]
pub struct Options {
    /// The folder of the database; by default that of the server's options
    #[arg(value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Ask this server too, as postgresql://user@127.0.0.1:5433/halcyon
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// Look at the server that runs as this process: its command line and its limits
    #[arg(long, value_name = "PID", conflicts_with = "serve")]
    pub process: Option<u32>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The options that halcyon serve is started with
    #[arg(last = true, value_name = "OPTIONS OF SERVE")]
    pub serve: Vec<String>,
}

/// Looks at everything that the options name, and prints what was found.
pub fn run(options: &Options) -> ExitCode {
    let mut found = Diagnosis::default();
    let process = options.process.map_or_else(|| "self".to_owned(), |process| process.to_string());
    let serve = server_options(options, &mut found);
    let root = Path::new("/");
    let host = Host {
        topology: Topology::of_this_machine_or_flat(),
        features: recorded(root),
        conditions: Conditions::read(root, &process),
    };
    host::examine(&host, serve.as_ref(), &mut found);
    let data = options.data.as_ref().or(serve.as_ref().and_then(|serve| serve.data.as_ref()));
    if let Some(data) = data {
        folder::data(data, &host.conditions, &mut found);
    }
    if let Some(serve) = &serve {
        if let Some(spill) = &serve.spill {
            folder::spill(spill, &host.conditions, &mut found);
        }
        setup::examine(serve, || report().features, &mut found);
    }
    if let Some(url) = &options.connect {
        // The limit of another process's control group is known only if that process is named.
        let memory_max = options.process.and(host.conditions.memory_max);
        running::examine(url, memory_max, &mut found);
    }
    let text = match options.json {
        true => format!("{:#}\n", found.json()),
        false => found.render(),
    };
    print!("{text}");
    found.status()
}

/// The options of the server: those given, or those of a process; `None` if they are not known.
fn server_options(options: &Options, found: &mut Diagnosis) -> Option<serve::Options> {
    let about = "options of the server";
    let parsed = match (options.process, options.serve.as_slice()) {
        (Some(process), _) => of_process(process),
        (None, []) => {
            let remedy = "halcyon doctor --process PID of a running server, or halcyon doctor -- OPTIONS OF SERVE";
            found.unknown(about, "none were given", remedy);
            return None;
        }
        (None, words) => setup::parse(words),
    };
    match parsed {
        Ok(serve) => Some(serve),
        Err(error) => {
            let error = error.trim();
            let error = error.strip_prefix("error: ").unwrap_or(error);
            let error = error.lines().next().unwrap_or_default();
            let why = "the server does not start with them, and nothing else of them was looked at";
            found.find(Severity::Error, about, error, why, "halcyon serve --help");
            None
        }
    }
}

/// The options of a running server, with its folders as seen from here.
fn of_process(process: u32) -> Result<serve::Options, String> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let line =
        fs::read(folder.join("cmdline")).map_err(|error| format!("process {process}: {error}"))?;
    let words = String::from_utf8_lossy(&line);
    let mut words = words.trim_end_matches('\0').split('\0').skip(1);
    if words.next() != Some("serve") {
        return Err(format!("process {process} is no halcyon serve"));
    }
    let mut serve = setup::parse(&words.collect::<Vec<_>>())?;
    // Without the right to look there, paths that do not begin at the root are looked for from here.
    let place = fs::read_link(folder.join("cwd")).unwrap_or_default();
    let paths = [&mut serve.data, &mut serve.spill, &mut serve.tls_cert, &mut serve.tls_key];
    let paths = paths.into_iter().chain([&mut serve.password_file, &mut serve.unix_socket]);
    paths.flatten().for_each(|path| *path = place.join(&*path));
    Ok(serve)
}
