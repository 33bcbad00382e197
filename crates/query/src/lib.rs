//! SQL over partitions: catalog, binding, point plans, analytical plans, writes.
//!
//! A statement's way: text → [`parse`] → [`bind`] (DataFusion's planner, our catalog) → a
//! [`plan::Plan`] in the statement cache → lock set → execution by the *point* executor
//! ([`point`], row at a time over locked partitions) or the *analytical* one ([`analytic`],
//! vectorised over a snapshot); writes go through [`dml`].
//!
//! **Invariant**, checked by `cargo xtask check layers`: nothing here knows sockets; partitions are
//! reached through `txn` alone.
#![forbid(unsafe_code)]

pub mod aggregates;
pub mod analytic;
pub mod arithmetic;
pub mod bind;
pub mod cache;
pub mod catalog;
pub mod coerce;
pub mod constraints;
pub mod copy;
mod dates;
pub mod ddl;
pub mod diagnose;
pub mod dialect;
pub mod dml;
pub mod engine;
pub mod error;
mod estimates;
pub mod exec;
pub mod execution;
pub mod export;
pub mod functions;
mod growing;
pub mod identifier;
mod late_conditions;
mod like;
pub mod parse;
pub mod pg_functions;
pub mod plan;
pub mod point;
pub mod prepare;
pub mod provider;
pub mod rows;
pub mod scalar;
mod scratch;
pub mod semantics;
mod semi_joins;
pub mod session_vars;
pub mod setup;
pub mod stored_names;
pub mod system_names;
pub mod types;
mod unnest;
pub mod utility;
pub mod values;
pub mod views;

pub use error::{Result, SqlError};
