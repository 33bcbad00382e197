//! `halcyon lab` hands over to the binary `halcyon-lab`, or says how to build it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the binary `halcyon` alone.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_halcyon"), folder.join("halcyon")).unwrap();
        Installed(folder)
    }

    fn with_lab(self, script: &str) -> Self {
        script_at(&self.0, script);
        self
    }

    fn run(&self, arguments: &[&str], path: &Path) -> Output {
        let mut command = Command::new(self.0.join("halcyon"));
        command.args(arguments).env("PATH", path).output().unwrap()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn script_at(folder: &Path, script: &str) {
    let file = folder.join("halcyon-lab");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

const NOWHERE: &str = "/nonexistent";

#[test]
fn the_lab_beside_the_binary_gets_all_arguments_and_gives_output_and_status() {
    let installed = Installed::new("beside").with_lab("echo \"got $*\"; exit 7");
    for arguments in ["point --rows 10 --json", "--json point", "--help", "point --help", ""] {
        let mut all = vec!["lab"];
        all.extend(arguments.split_whitespace());
        let output = installed.run(&all, Path::new(NOWHERE));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("got {arguments}\n"));
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn the_lab_is_looked_for_on_the_path_last() {
    let installed = Installed::new("path");
    let elsewhere = installed.0.join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    script_at(&elsewhere, "echo on the path");
    let output = installed.run(&["lab", "point"], &elsewhere);
    assert_eq!(output.stdout, b"on the path\n");
    let installed = installed.with_lab("echo beside");
    assert_eq!(installed.run(&["lab", "point"], &elsewhere).stdout, b"beside\n");
}

#[test]
fn without_the_lab_the_answer_is_how_to_build_it() {
    let output = Installed::new("missing").run(&["lab", "point"], Path::new(NOWHERE));
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.ends_with("hint: cargo build --release --package halcyon-lab\n"), "{told}");
}

#[test]
fn a_lab_that_cannot_be_started_is_told() {
    let installed = Installed::new("broken").with_lab("echo never");
    fs::set_permissions(installed.0.join("halcyon-lab"), fs::Permissions::from_mode(0o644))
        .unwrap();
    let output = installed.run(&["lab"], Path::new(NOWHERE));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("halcyon-lab: "));
}
