//! Run time of incremental views: trigger programs, their maps, and their executors.
//!
//! `no_std + alloc`, without dependencies but `halcyon_value`, which says what operations on values
//! mean and has none: the same code runs inside the database and in a cell.
//!
//! Where to start: [`program`], the form in which a view's maintenance comes from the compiler;
//! [`Engine`], which runs one.

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
