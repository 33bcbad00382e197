//! Links the program as an image without an operating system, in the profile `cell` alone.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cell.ld");
    println!("cargo:rustc-check-cfg=cfg(cell_image)");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    // …/<profile>/build/<package>/out: build scripts are not told the profile's name otherwise, and
    // cargo tells them of the panic strategy of `dev` in every profile.
    let profile = Path::new(&out).ancestors().nth(3).and_then(|folder| folder.file_name());
    if profile.is_none_or(|profile| profile != "cell") {
        return;
    }
    println!("cargo:rustc-cfg=cell_image");
    // A copy: what is built stays right where another clone goes on with the target folder.
    let script = Path::new(&out).join("cell.ld");
    std::fs::copy("cell.ld", &script).expect("the linker's script can be copied");
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,-z,max-page-size=4096",
        "-Wl,--build-id=none",
        "-Wl,-z,norelro",
        "-Wl,--no-eh-frame-hdr",
        "-Wl,--gc-sections",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
