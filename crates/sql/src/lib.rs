//! SQL as text and as values: syntax, types, rows, text of values, errors.
//!
//! A text becomes tokens, and these a [`syntax::Statement`] ([`parse`]): sqlparser's tree for what
//! sqlparser can say, a tree of our own for the rest. Crate `halcyon-dialect` rewrites sqlparser's trees into what
//! DataFusion's planner takes, [`diagnose`] makes SQL errors of the planner's.
//!
//! **Invariant**, checked by `cargo xtask check layers` and `claims`: nothing here knows what exists
//! (tables, roles) or how anything runs. Of `halcyon_txn` only the names of isolation levels are used.
#![forbid(unsafe_code)]

pub mod client_types;
pub mod coerce;
pub mod diagnose;
pub mod enums;
pub mod error;
pub mod hints;
pub mod identifier;
pub mod inference;
pub mod meeting_types;
pub mod misfits;
pub mod parse;
mod postgresql;
pub mod repeated;
pub mod rows;
pub mod stack;
pub mod syntax;
pub mod type_names;
pub mod types;
mod unicode;
pub mod utility;
pub mod values;

pub use error::{Result, SqlError, SqlState};
