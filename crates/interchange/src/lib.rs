//! Arrow in and out of a database, as the packages for other languages have it: batches that become rows of tables,
//! results whose arrays are Arrow's lists, and placeholders of other drivers.
//!
//! What crosses a language's border (capsules of Python, structures of C) belongs to the crates `python` and `adbc`.
//!
//! Invariant: the engine is reached through the crate `halcyon` alone (checked by `cargo xtask check layers`).
#![forbid(unsafe_code)]

pub mod cells;
pub mod inputs;
pub mod lists;
pub mod load;
pub mod placeholders;
pub mod results;
pub mod transactions;
