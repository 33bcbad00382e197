//! Builds the image of a cell and hands its file to the library (`HALCYON_CELL_IMAGE_FILE`).
//!
//! The image has a profile of its own, in which a panic ends the program, and is linked without an
//! operating system: only another run of cargo can build it. That run has a target folder of its own
//! below this package's output, since the cargo that runs this script holds the lock of the usual one,
//! and none of the outer run's settings, which are for programs of an operating system. With the
//! variable `HALCYON_CELL_IMAGE` an image that lies there already is taken.
//! Where no cell can run the file is empty, and the library says so.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the image is made of, besides this workspace's manifest.
const SOURCES: [&str; 5] = ["cell-image", "cell-abi", "view/src", "value/src", "view/Cargo.toml"];

/// Variables that the inner run keeps of those that cargo knows.
const KEPT: [&str; 3] = ["CARGO_HOME", "RUSTC", "RUSTUP_TOOLCHAIN"];
/// Beginnings of the names of variables that would change the inner run.
const REMOVED: [&str; 5] = ["CARGO", "RUST", "__CARGO", "CLIPPY", "MAKEFLAGS"];

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    let workspace = crates.join("..");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", workspace.join("Cargo.toml").display());
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", crates.join(source).display());
    }
    println!("cargo:rerun-if-env-changed=HALCYON_CELL_IMAGE");
    let out = PathBuf::from(variable("OUT_DIR"));
    let is_native = variable("HOST") == variable("TARGET");
    let has_cells = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    let given = variable("HALCYON_CELL_IMAGE");
    let image = if !given.is_empty() {
        PathBuf::from(given)
    } else if is_native && has_cells {
        build(&workspace, &out.join("cell-target"))
    } else {
        let empty = out.join("no-image");
        std::fs::write(&empty, []).expect("the output folder can be written");
        empty
    };
    println!("cargo:rustc-env=HALCYON_CELL_IMAGE_FILE={}", image.display());
}

fn build(workspace: &Path, target: &Path) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if REMOVED.iter().any(|start| text.starts_with(start)) && !KEPT.contains(&&*text) {
            cargo.env_remove(&name);
        }
    }
    cargo
        .args(["build", "--quiet", "--locked", "--offline", "--package", "halcyon-cell-image"])
        .args(["--bin", "halcyon-cell-image", "--profile", "cell", "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .current_dir(workspace);
    let output = cargo.output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the image of cells cannot be built:\n{errors}");
    target.join("cell/halcyon-cell-image")
}
