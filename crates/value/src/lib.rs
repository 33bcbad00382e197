//! What SQL's scalar values mean: the one place that says what `+` gives, what LIKE matches, which
//! day a number is and how each type is spelled.
//!
//! Every evaluator stands on this crate: closures of point plans and the functions of analytical
//! plans (`plan`), the folding of constants (`delta`), and the interpreter, the operations and the
//! machine code of views (`view`). Where it matters how fast one of them is, it calls the small
//! inline functions of the modules here; [`functions`] is the table of all functions by name, which
//! every evaluator goes by where it has no quicker code of its own.
//!
//! Meanings are PostgreSQL's; a deviation is named where it is made. NULL is the caller's: functions
//! take values, and answer for values, but those of the table, which say themselves what NULL gives.
//!
//! `no_std + alloc` (but for the feature `math`), no dependencies, no unsafe code, no clock, no time zone and no catalog: whatever
//! needs one of those is passed in ([`datetime::Zone`]) or stands above.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "math"))]
extern crate std;

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
pub mod spelling;
pub mod text;
mod types;
mod value;

pub use error::{Refusal, Result, TextError, TextProblem, ValueError};
pub use types::Type;
pub use value::{Interval, Value, ValueRef};

/// Arithmetic on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Arith {
    Add,
    Sub,
    Mul,
    /// Integers are cut off towards zero, decimals at the result's scale.
    Div,
    /// The sign is the dividend's.
    Rem,
}
