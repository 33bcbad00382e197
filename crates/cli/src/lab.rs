//! `halcyon lab`: starts the binary `halcyon-lab` in place of this process.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Name of the binary with the experiments.
const NAME: &str = "halcyon-lab";

/// Becomes `halcyon-lab ARGUMENTS…`: the binary beside this executable, otherwise the first one on
/// PATH. Returns only if neither can be started, with status 2, as after a wrong command line.
pub fn run(arguments: &[OsString]) -> ExitCode {
    for program in beside().into_iter().chain([PathBuf::from(NAME)]) {
        let error = Command::new(&program).args(arguments).exec();
        if error.kind() != ErrorKind::NotFound {
            eprintln!("error: {}: {error}", program.display());
            return ExitCode::from(2);
        }
    }
    eprintln!(
        "error: the experiments are a binary of their own, {NAME}, which is neither beside this one \
         nor on PATH\nhint: cargo build --release --package {NAME}"
    );
    ExitCode::from(2)
}

/// The path of the binary if it was built or installed together with this one.
fn beside() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.with_file_name(OsStr::new(NAME)))
}
