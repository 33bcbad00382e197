//! The ADBC driver of Halcyon: the library `adbc_driver_halcyon` that driver managers of C, C++, Python, R, Go, Java, C#
//! and Rust load, with an embedded database behind it.
//!
//! Source: Apache Arrow ADBC, specification 1.1.0 and `adbc.h`. The crates `adbc_core` and `adbc_ffi` have the
//! standard's structures and turn the traits implemented here into its table of functions.
//!
//! Invariants: no panic leaves a function of the table, and the engine is reached through the crate `halcyon` alone
//! (checked by `cargo xtask check layers`). `unsafe` is in `abi` and
//! `imported` alone.
#![deny(unsafe_code)]

pub mod abi;
mod binding;
mod connections;
mod databases;
mod errors;
mod imported;
mod info;
mod ingest;
mod objects;
mod options;
mod reading;
mod sessions;
mod sharing;
mod statements;
mod tree;

pub use connections::Connection;
pub use databases::{Database, Driver};
pub use statements::Statement;

/// The library's own memory is counted, without which the limits of memory hold for nobody; the program's is not.
#[global_allocator]
static ALLOCATOR: halcyon::Counted<halcyon::Mapped<std::alloc::System>> =
    halcyon::Counted(halcyon::Mapped(std::alloc::System));
