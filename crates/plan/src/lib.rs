//! From syntax to plans of queries: names and types bound to a catalog, PostgreSQL's meaning put in,
//! DataFusion's optimizer run; and scalar expressions compiled for a row at a time.
//!
//! [`bind`] drives DataFusion's planner over our catalog, [`semantics`] puts PostgreSQL's meaning in
//! (checked arithmetic, types of literals, functions), [`setup`] makes the DataFusion that all of it
//! shares, [`provider`] shows tables to it, [`scalar`] compiles expressions to closures, [`mod@env`]
//! has what a running statement sees, asks for and reads. Names of system schemas are asked of the trait
//! [`system_names::SystemSchemas`]: their tables are written above.
//!
//! **Invariant**, checked by `cargo xtask check claims`: nothing here acquires or changes a partition;
//! a scan reads the roots that its execution brings. What runs a plan lies above.
#![forbid(unsafe_code)]

pub mod aggregates;
pub mod arithmetic;
pub mod bind;
mod brief;
mod corrected;
mod dates;
pub mod engine;
pub mod env;
mod estimates;
pub mod execution;
pub mod functions;
mod growing;
pub mod intervals;
mod join_keys;
mod levels;
pub mod like;
mod mended_rules;
mod merged_columns;
mod nested;
mod operands;
pub mod origin;
pub mod phases;
pub mod provider;
mod recursion;
mod row_sets;
pub mod scalar;
pub mod semantics;
mod semi_joins;
mod series;
mod set_operations;
pub mod setup;
pub mod stored_names;
pub mod system_names;
pub mod table_functions;
mod unnest;
mod variance;
mod windows;
pub mod zone_function;
