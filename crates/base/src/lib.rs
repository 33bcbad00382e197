//! The base of all other crates: identifiers, SQL state codes, the door to locks, atomics and
//! threads, threads on duty, the progress of work that lasts, random numbers, clocks and checksums.
//!
//! This crate knows nothing of Halcyon's other crates, and holds no policy.

#![forbid(unsafe_code)]

pub mod clock;
pub mod crc32c;
pub mod duty;
pub mod ids;
pub mod interrupt;
pub mod memory;
#[cfg(shuttle)]
pub mod model;
pub mod parking;
pub mod planted;
pub mod progress;
pub mod rng;
pub mod sqlstate;
pub mod sync;

pub use ids::{IndexId, PartitionId, RowId, SessionId, TableId, TxnId};
pub use sqlstate::SqlState;
