//! Running plans: row at a time, vectorised, writes.
//!
//! - [`point`]: queries whose every access is a bounded index lookup, row at a time over locked
//!   partitions;
//! - [`analytic`]: all others, by DataFusion's operators over the vectors of a snapshot;
//! - [`dml`]: INSERT, UPDATE, DELETE, with [`constraints`], [`deferrable`] ones, and the [`upkeep`] of materialized views.
//!
//! **Invariant**, checked by `cargo xtask check claims` and `layers`: partitions are reached through
//! `halcyon_txn` alone; nothing here knows sockets or DDL, and of a session its variables alone.
#![forbid(unsafe_code)]

pub mod analytic;
pub mod constraints;
pub mod deadline;
pub mod deferrable;
pub mod dml;
pub mod executor;
pub mod key_types;
mod lookups;
mod outline;
pub mod point;
mod referrers;
mod scratch;
mod sharing;
pub mod turns;
pub mod upkeep;
pub mod view_errors;
mod waiting;
