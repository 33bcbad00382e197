//! The run time links without std and without a C library, and a view works there.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::process::Command;

#[test]
fn a_view_is_maintained_without_any_library() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("freestanding/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("freestanding");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        // The tests' own compiler flags must not reach this build.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("cargo starts");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let program = target.join("debug/halcyon-view-freestanding");
    let status = Command::new(program).status().expect("the program starts");
    assert_eq!(status.code(), Some(0));
}
