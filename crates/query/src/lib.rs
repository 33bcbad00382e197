//! SQL over partitions: catalog, binding, point plans, analytical plans, writes.
//!
//! A statement's way: text → [`parse`] → [`bind`] (DataFusion's planner, our catalog) → a
//! [`plan::Plan`] in the statement cache → lock set → execution by the *point* executor
//! ([`point`], row at a time over locked partitions) or the *analytical* one ([`analytic`],
//! vectorised over a snapshot); writes go through [`dml`].
//!
//! **Invariant:** nothing here knows sockets; partitions are reached through `txn` alone.
#![forbid(unsafe_code)]

pub mod analytic;
pub mod catalog;
pub mod copy;
pub mod ddl;
pub mod dml;
pub mod error;
pub mod exec;
pub mod plan;
pub mod point;
pub mod rows;
pub mod system;
pub mod types;
pub mod utility;

pub use error::{Result, SqlError};
