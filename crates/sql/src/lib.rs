//! SQL as text and as values: syntax, types, rows, text of values, errors.
//!
//! A text becomes tokens, and these a [`syntax::Statement`] ([`parse`]): sqlparser's tree for what
//! sqlparser can say, a tree of our own for the rest. [`dialect`] rewrites sqlparser's trees into what
//! DataFusion's planner takes, [`diagnose`] makes SQL errors of the planner's.
//!
//! **Invariant**, checked by `cargo xtask check layers` and `claims`: nothing here knows what exists
//! (tables, roles) or how anything runs. Of `halcyon_txn` only the names of isolation levels are used.
#![forbid(unsafe_code)]

mod array_syntax;
pub mod client_types;
pub mod coerce;
pub mod diagnose;
pub mod dialect;
pub mod enums;
pub mod error;
mod groupings;
pub mod hints;
mod hypothetical;
pub mod identifier;
pub mod inference;
pub mod locking;
pub mod made;
pub mod many_rows;
pub mod parse;
mod postgresql;
mod records;
mod recursive_types;
mod row_bounds;
pub mod rows;
mod set_names;
mod sorted_input;
pub mod stack;
mod standard_json;
mod symmetric;
pub mod syntax;
pub mod type_names;
pub mod types;
pub mod utility;
pub mod values;
pub mod volatile_ctes;
mod whole_rows;
mod wildcards;
mod windows;

pub use error::{Result, SqlError, SqlState};
