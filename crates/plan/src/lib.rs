//! From syntax to plans of queries: names and types bound to a catalog, PostgreSQL's meaning put in,
//! DataFusion's optimizer run; and scalar expressions compiled for a row at a time.
//!
//! [`bind`] drives DataFusion's planner over our catalog, [`semantics`] puts PostgreSQL's meaning in
//! (checked arithmetic, types of literals, functions), [`setup`] makes the DataFusion that all of it
//! shares, [`provider`] shows tables to it, [`scalar`] compiles expressions to closures.
//!
//! **Invariant**, checked by `cargo xtask check layers`: a plan made here reads nothing; what runs it
//! lies above.
#![forbid(unsafe_code)]

pub mod aggregates;
pub mod arithmetic;
pub mod bind;
mod dates;
pub mod engine;
pub mod env;
mod estimates;
pub mod execution;
pub mod functions;
mod growing;
pub mod like;
pub mod pg_functions;
pub mod provider;
pub mod scalar;
pub mod semantics;
mod semi_joins;
pub mod setup;
pub mod stored_names;
pub mod system_names;
mod unnest;
