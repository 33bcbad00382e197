//! `halcyon shield` without the rest of Halcyon: small enough for the memory disk of a guest, and with a tree of
//! copied knobs for tests of processes (`--root`, `--run`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use halcyon_machine::topology::list;
use halcyon_shield::command::{self, Stay};
use halcyon_shield::guard::{self, Config, DEAD_MAN, FOLDER};
use halcyon_shield::journal::Place;
use halcyon_shield::{Kernel, Request};

struct Options {
    root: PathBuf,
    run: PathBuf,
    dead_man: Duration,
    owner: u32,
    is_forced: bool,
    fifo: Option<u8>,
    cpus: Vec<u32>,
    command: Vec<OsString>,
}

fn options(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
    let mut options = Options {
        root: "/".into(),
        run: FOLDER.into(),
        dead_man: DEAD_MAN,
        owner: 0,
        is_forced: false,
        fifo: None,
        cpus: Vec::new(),
        command: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy().into_owned();
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: OsString| {
            text.to_string_lossy().parse::<u64>().map_err(|error| error.to_string())
        };
        match argument.as_str() {
            "--root" => options.root = value()?.into(),
            "--run" => options.run = value()?.into(),
            "--dead-man-ms" => options.dead_man = Duration::from_millis(number(value()?)?),
            "--owner" => options.owner = number(value()?)? as u32,
            "--fifo" => options.fifo = Some(number(value()?)? as u8),
            "--force" => options.is_forced = true,
            "--" => {
                options.command = arguments.collect();
                break;
            }
            cpus => options.cpus = list(cpus).map_err(|error| error.to_string())?,
        }
    }
    Ok(options)
}

fn run() -> Result<u8, String> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default().to_string_lossy().into_owned();
    let options = options(arguments)?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let (root, folder) = (options.root.clone(), options.run.clone());
    let guardian: Vec<OsString> = vec![
        own.into(),
        "guardian".into(),
        "--root".into(),
        root.into(),
        "--run".into(),
        folder.into(),
    ];
    let config = Config {
        kernel: Kernel::below(&options.root),
        place: Place::new(&options.run),
        guardian,
        dead_man: options.dead_man,
    };
    let wait = Duration::from_secs(30);
    match name.as_str() {
        "guardian" => {
            let guarded =
                guard::guard(&config.kernel, &config.place, options.owner, options.dead_man);
            guarded.map(|()| 0).map_err(|error| error.to_string())
        }
        "up" => {
            let request = Request { cpus: options.cpus, is_forced: options.is_forced };
            let stay = Stay { request, command: options.command, fifo: options.fifo };
            command::up(&config, &stay, &mut std::io::stdout()).map_err(|error| error.to_string())
        }
        "down" => command::down(&config, wait).map(|text| {
            println!("{text}");
            0
        }),
        "restore" => command::restore(&config, wait).map(|text| {
            println!("{text}");
            0
        }),
        "status" => {
            println!("{}", command::status(&config, &options.cpus));
            Ok(0)
        }
        _ => Err("status | up CPUS [--force] [-- COMMAND] | down | restore".to_owned()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
