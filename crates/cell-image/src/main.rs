//! The image of a cell, if it is built in the profile `cell`; otherwise a program that says so.
//!
//! `cargo build -p halcyon-cell-image --profile cell` makes the image; the build of crate `cell` does
//! that and takes it in.

#![cfg_attr(cell_image, no_std)]
#![cfg_attr(cell_image, no_main)]

#[cfg(cell_image)]
mod image;

#[cfg(not(cell_image))]
fn main() {
    eprintln!("this is no image: build it with `--profile cell`");
    std::process::exit(2);
}
