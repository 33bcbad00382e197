//! Run time of incremental views: trigger programs, their maps, and their executors.
//!
//! Built on `no_std + alloc`, with no dependency but `halcyon_value`, which defines what operations
//! on values mean and has no dependency itself: the same code runs inside the database and in a
//! cell of a partitioning hypervisor without an operating system.
//!
//! Where to start: [`program`], the form in which the compiler describes a view's maintenance;
//! [`Engine`], which runs a program.

#![no_std]
#![cfg_attr(not(feature = "native"), forbid(unsafe_code))]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "native"))]
extern crate std;

pub mod program;

mod call;
mod check;
mod dictionary;
mod display;
mod engine;
mod error;
mod eval;
mod interpret;
mod machine;
#[cfg(not(feature = "maps"))]
mod maps;
#[cfg(feature = "maps")]
#[allow(clippy::len_without_is_empty, missing_docs, reason = "open for measuring alone")]
pub mod maps;
#[cfg(test)]
mod programs_fuzz;
#[cfg(test)]
mod random;
pub mod scalar;
mod value;
mod walk;

pub use dictionary::Dictionary;
pub use engine::{Change, Engine, Executor, MapStatistics, Options, Statistics};
pub use error::{ApplyError, EvalError, ProgramError};
