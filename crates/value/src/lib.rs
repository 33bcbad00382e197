//! The meaning of SQL's scalar values, in one place: what `+` gives, what LIKE matches, which day a
//! number is, and how values of each type are spelled.
//!
//! Every evaluator builds on this crate: closures of point plans and the functions of analytical
//! plans (`plan`), the folding of constants (`delta`), and the interpreter, the operations and the
//! machine code of views (`view`). Where speed matters, evaluators call the small inline functions
//! of the modules here; everywhere else they use [`functions`], the table of all functions by name.
//!
//! Meanings are PostgreSQL's; a deviation is named where it is made. NULL is for the caller to
//! treat: functions take values and return values. Only functions of the table say themselves what
//! NULL gives.
//!
//! `no_std + alloc` (except with the feature `math`), no dependencies, no unsafe code, no clock, no
//! time zone and no catalog: where one of these is needed, the caller passes it in
//! ([`datetime::Zone`]) or a crate above adds it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "math"))]
extern crate std;

pub mod abbreviations;
pub mod array;
pub mod calendar;
pub mod cast;
pub mod compare;
pub mod datetime;
pub mod decimal;
mod error;
pub mod float;
pub mod functions;
pub mod integer;
pub mod interval;
pub mod like;
pub mod network;
pub mod pattern;
pub mod spelling;
pub mod text;
mod types;
mod value;

pub use error::{Refusal, Result, TextError, TextProblem, ValueError, Worded};
pub use types::Type;
pub use value::{Interval, Value, ValueRef};

/// Arithmetic on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Arith {
    Add,
    Sub,
    Mul,
    /// Division. Integers are truncated towards zero, decimals at the result's scale.
    Div,
    /// Remainder, with the dividend's sign.
    Rem,
}
