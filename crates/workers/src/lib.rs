//! The workers of a database: how many there are and where, how classes share them, and which part of the shared caches each
//! may fill.
//!
//! [`Workers`] is what a database is told of its workers; [`Crew`] starts them with the first statement that needs them and
//! changes them while statements run; [`Matrix`] is what `halcyon lab interference` measured of operators beside each
//! other.
//!
//! Knows no statement, plan or class: whoever starts a group of tasks says how the group uses the cache.

#![forbid(unsafe_code)]

mod config;
mod crew;
mod masks;
mod matrix;

pub use config::{Bed, Workers};
pub use crew::Crew;
pub use matrix::{Matrix, MatrixError, MatrixRow, use_of};
