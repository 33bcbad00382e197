//! Tables as queries read them: a source for DataFusion's planner, what is estimated of a table's rows, and the
//! scan that reads a snapshot's segments and keeps the rows that its conditions hold for.
//!
//! [`provider`] shows the planner our tables, [`scan`] reads them, [`reach`] brings the conditions of a plan to its
//! scans, [`mod@sample`] has a few rows of each table, on which conditions are tried and distinct values counted before a
//! plan is chosen. [`forgetting`] keeps plans from knowing too much of aggregates by several sets and of outer joins, and
//! [`keys`] of what is grouped above joins.
//!
//! **Invariant**, checked by `cargo xtask check claims`: nothing here acquires or changes a partition; a scan reads
//! the roots that its execution brings.
#![forbid(unsafe_code)]

mod bounds;
mod conditions;
mod estimates;
pub mod forgetting;
pub mod keys;
pub mod lazy;
mod members;
pub mod provider;
mod ranges;
pub mod reach;
pub mod sample;
pub mod scan;
pub mod snapshot;
mod typed;
pub mod wide;
