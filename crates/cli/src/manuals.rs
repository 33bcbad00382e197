//! Completions for shells and manual pages, made of the command line itself.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;

/// A shell that completions can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    /// Bash, with or without the package bash-completion
    Bash,
    /// Zsh, as a file `_halcyon` in a folder of `$fpath`
    Zsh,
    /// Fish
    Fish,
}

/// Prints the script that completes `command`'s subcommands, options and values in a shell.
pub fn completions(shell: CompletedShell, mut command: Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    match shell {
        CompletedShell::Bash => clap_complete::generate(Bash, &mut command, name, &mut script),
        CompletedShell::Zsh => clap_complete::generate(Zsh, &mut command, name, &mut script),
        CompletedShell::Fish => clap_complete::generate(Fish, &mut command, name, &mut script),
    }
    ended(io::stdout().write_all(&script))
}

/// Writes a manual page per subcommand, and one of the whole, into a folder, which is made if need be; without one
/// prints them one after the other.
pub fn man(folder: Option<&Path>, command: Command) -> ExitCode {
    ended(match folder {
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder))
            .map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
            }),
        None => pages(command).and_then(|pages| io::stdout().write_all(&pages)),
    })
}

/// The page of a command and those of its subcommands.
fn pages(command: Command) -> io::Result<Vec<u8>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut text = Vec::new();
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    for page in std::iter::once(&command).chain(subcommands) {
        Man::new(page.clone()).render(&mut text)?;
    }
    Ok(text)
}

/// Exit status of a write. A reader that has seen enough, as `head`, is no failure.
fn ended(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
