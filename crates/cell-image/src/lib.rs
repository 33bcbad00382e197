//! What runs in a cell: the command loop over the `view` engine, and the heap of the image.
//!
//! The loop is a library without an operating system, so that a thread of a process can run it as
//! well: as the twin that tests and measurements compare a cell with, and on machines without cells.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[allow(unsafe_code, reason = "an allocator")]
pub mod heap;
pub mod plain;
pub mod selftest;
pub mod server;
