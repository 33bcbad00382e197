//! From syntax to plans of queries: names and types are bound to a catalog, PostgreSQL's meaning is
//! put in, DataFusion's optimizer runs; and scalar expressions are compiled for evaluation row by
//! row.
//!
//! [`bind`] runs DataFusion's planner over our catalog, [`semantics`] puts in PostgreSQL's meaning
//! (checked arithmetic, types of literals, functions), [`setup`] makes the DataFusion instance that
//! all statements share, [`scalar`] compiles expressions to
//! closures, [`mod@env`] has what a running statement sees, asks for and reads. Names in the system
//! schemas are resolved by the trait [`system_names::SystemSchemas`]: these tables are implemented
//! in a crate above.
//!
//! **Invariant**, checked by `cargo xtask check claims`: nothing here acquires or changes a
//! partition; a scan reads the roots that its execution brings. Plans are run by crates above.
#![forbid(unsafe_code)]

mod accounts;
mod addresses;
pub mod arithmetic;
pub mod bind;
mod brief;
pub mod callables;
mod concatenation;
mod dates;
mod documents;
pub mod domains;
pub mod effects_last;
pub mod engine;
pub mod env;
pub mod execution;
pub mod executions;
pub mod functions;
mod growing;
mod guards;
pub mod interrupts;
pub mod intervals;
mod join_keys;
mod levels;
mod limits;
mod mended_rules;
mod narrow;
mod operands;
pub mod ordinals;
mod origin;
pub mod phases;
pub mod quotas;
mod recursion;
pub mod repeatable;
mod row_sets;
pub mod scalar;
pub mod semantics;
mod semi_joins;
mod series;
mod session_zone;
pub mod setup;
mod single_table;
pub mod sizes;
pub mod stored_names;
pub mod system_names;
pub mod updatable_views;
pub mod user_types;
mod values_lists;
mod windows;
pub use halcyon_catalog::lock_errors;
pub use halcyon_workers as workers;
