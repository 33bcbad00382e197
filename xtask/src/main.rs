//! `cargo xtask check`: what this repository demands of itself, each rule with a message that
//! says what to do instead. The same command runs here and in CI.
//!
//! Two kinds of steps: *tools* (rustfmt, clippy, rustdoc) are run as they are; *rules* are ours,
//! pure functions from text to offences, each with a test that plants an offence.

#![forbid(unsafe_code)]

mod rules;
mod workspace;

use std::process::{Command, ExitCode};

use rules::Offence;
use workspace::Workspace;

/// A part of `cargo xtask check`.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Vec<Offence>,
}

/// Cheap rules first, so that a misplaced link is not reported after ten minutes of clippy.
const STEPS: &[Step] = &[
    Step { name: "format", about: "rustfmt --check", run: format },
    Step { name: "layers", about: "crates depend downwards only", run: rules::layers::check },
    Step {
        name: "circles",
        about: "modules of a crate depend in one direction",
        run: rules::circles::check,
    },
    Step {
        name: "invariants",
        about: "heads that claim an invariant name its check",
        run: rules::invariants::check,
    },
    Step { name: "sizes", about: "no crate over 15,000 lines", run: rules::sizes::check },
    Step {
        name: "claims",
        about: "crates do without what ARCHITECTURE.md says they do",
        run: rules::claims::check,
    },
    Step {
        name: "links",
        about: "links, paths and names in documents lead somewhere",
        run: rules::links::check,
    },
    Step {
        name: "dead-files",
        about: "every *.rs file belongs to a target",
        run: rules::dead_files::check,
    },
    Step { name: "licences", about: "licences of dependencies", run: rules::licences::check },
    Step {
        name: "words",
        about: "words that must not stand in the repository",
        run: rules::words::check,
    },
    Step {
        name: "reasons",
        about: "every dependency states its reason",
        run: rules::reasons::check,
    },
    Step {
        name: "prices",
        about: "what docs/contributing.md says that a change costs was paid once",
        run: rules::prices::check,
    },
    Step {
        name: "manifests",
        about: "crates use the workspace's lints",
        run: rules::manifests::check,
    },
    Step { name: "clippy", about: "clippy, warnings denied", run: clippy },
    Step { name: "docs", about: "rustdoc, warnings denied", run: docs },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.split_first() {
        Some((&"check", names)) => check(names),
        Some((&"knots", [name])) => knots(name),
        _ => {
            usage();
            ExitCode::from(2)
        }
    }
}

fn usage() {
    eprintln!("usage: cargo xtask check [STEP]…   (all steps if none is named)");
    eprintln!(
        "       cargo xtask knots CRATE     (imports that hold its modules in circles)\nsteps:"
    );
    for step in STEPS {
        eprintln!("  {:<11} {}", step.name, step.about);
    }
}

fn check(names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        eprintln!("there is no step {unknown:?}");
        usage();
        return ExitCode::from(2);
    }
    let workspace = match Workspace::load() {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut offences = 0;
    for step in STEPS.iter().filter(|step| names.is_empty() || names.contains(&step.name)) {
        let found = (step.run)(&workspace);
        eprintln!("{} {}", if found.is_empty() { "ok    " } else { "FAILED" }, step.name);
        for offence in &found {
            eprintln!("  {offence}");
        }
        offences += found.len();
    }
    if offences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists the imports that hold a crate's modules in circles.
fn knots(name: &str) -> ExitCode {
    match Workspace::load().and_then(|workspace| rules::circles::knots(&workspace, name)) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn format(workspace: &Workspace) -> Vec<Offence> {
    tool(workspace, &["fmt", "--all", "--check"], "", "run `cargo fmt --all`")
}

fn clippy(workspace: &Workspace) -> Vec<Offence> {
    let args = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    tool(workspace, &args, "", "mend what clippy names, or `#[expect]` it with a reason")
}

fn docs(workspace: &Workspace) -> Vec<Offence> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
    tool(
        workspace,
        &args,
        "-D warnings -A rustdoc::private-intra-doc-links",
        "mend the doc comments named above",
    )
}

/// Runs cargo; its output goes to the terminal as it comes.
fn tool(workspace: &Workspace, args: &[&str], rustdoc_flags: &str, remedy: &str) -> Vec<Offence> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(&workspace.root);
    if !rustdoc_flags.is_empty() {
        command.env("RUSTDOCFLAGS", rustdoc_flags);
    }
    let command_line = format!("cargo {}", args.join(" "));
    match command.status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(status) => vec![Offence::new(command_line, format!("{status}; {remedy}"))],
        Err(error) => vec![Offence::new(command_line, format!("does not start: {error}"))],
    }
}
