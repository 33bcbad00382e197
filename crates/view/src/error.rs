//! Errors of programs: found when a program is loaded, and raised while it runs.

use alloc::string::String;
use core::fmt;
use halcyon_value::ValueError;

/// The error of a program that breaks a rule of [`crate::program`]: the compiler that made it is
/// broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// Where, for people: `trigger of bids, statement 2 (…)`.
    pub place: String,
    /// The mistake at that place.
    pub problem: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl core::error::Error for ProgramError {}

/// Why a value could not be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// An integer does not fit its type.
    Overflow,
    /// A floating-point number is infinite, NaN or too large for an exact sum (±2⁸⁶).
    OutOfRange,
    /// Division by zero.
    DivisionByZero,
    /// Any other error that a function of the program raised.
    Value(ValueError),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => f.write_str("integer out of range"),
            Self::OutOfRange => f.write_str("floating-point value out of range"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::Value(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EvalError {}

impl From<ValueError> for EvalError {
    #[cold]
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::DivisionByZero => Self::DivisionByZero,
            ValueError::FloatOverflow => Self::OutOfRange,
            ValueError::OutOfRange(_) => Self::Overflow,
            other => Self::Value(other),
        }
    }
}

/// Why an event was not applied. Nothing has changed if an event ends with this error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// A value could not be computed, or a sum does not fit its component.
    Eval(EvalError),
    /// The maps would take more memory than they are allowed.
    MemoryBudget {
        /// Bytes that maps and strings are allowed to take.
        bytes_max: u64,
    },
}

impl From<EvalError> for ApplyError {
    fn from(error: EvalError) -> Self {
        Self::Eval(error)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eval(error) => error.fmt(f),
            Self::MemoryBudget { bytes_max } => {
                write!(f, "the view's maps would exceed their {bytes_max} bytes")
            }
        }
    }
}

impl core::error::Error for ApplyError {}
