//! Why a view could not follow a change, with what a client is told of it.

use std::fmt;

use halcyon_base::SqlState;
use halcyon_view::{ApplyError, EvalError, ProgramError};

/// Why a view could not be made, changed or read. Nothing has changed in its engine then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// An event could not be applied, or an expression over aggregates could not be computed.
    Engine(ApplyError),
    /// A program makes sense, but is too large for what runs it.
    ProgramTooLarge(ProgramError),
    /// A value does not fit the words of the program, or a sum does not fit its column.
    OutOfRange,
    /// A value is of a type that no program can hold.
    UnsupportedType,
    /// All views together would take more memory than they may.
    OutOfMemory {
        /// The memory that all views would take, in bytes.
        used: i64,
        /// The memory that all views may take, in bytes.
        max: u64,
    },
    /// The statement was cancelled, by its client or for its time.
    Cancelled,
    /// A row was asked for by a key of another width.
    KeyWidth {
        /// Columns of the view's key.
        expected: usize,
        /// Columns that were given.
        given: usize,
    },
}

impl ViewError {
    /// The state that programs decide by.
    pub fn sql_state(&self) -> SqlState {
        match self {
            Self::Engine(ApplyError::Eval(EvalError::DivisionByZero)) => SqlState::DIVISION_BY_ZERO,
            Self::Engine(ApplyError::Eval(EvalError::Value(error))) => SqlState(error.state()),
            Self::Engine(ApplyError::MemoryBudget { .. }) | Self::OutOfMemory { .. } => {
                SqlState::OUT_OF_MEMORY
            }
            Self::Engine(_) | Self::OutOfRange => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            Self::ProgramTooLarge(_) | Self::UnsupportedType => SqlState::FEATURE_NOT_SUPPORTED,
            Self::Cancelled => SqlState::QUERY_CANCELED,
            Self::KeyWidth { .. } => SqlState::INVALID_PARAMETER_VALUE,
        }
    }

    /// The values behind the message.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::OutOfMemory { used, max } => {
                Some(format!("They would take {used} bytes; the limit is {max}."))
            }
            _ => None,
        }
    }

    /// Advice to the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OutOfMemory { .. } => Some("Raise view_memory by ALTER SYSTEM, or drop a view."),
            _ => None,
        }
    }
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::ProgramTooLarge(error) => {
                write!(f, "a view of this size ({error}) is not supported")
            }
            Self::OutOfRange => f.write_str("value out of range in a materialized view"),
            Self::UnsupportedType => {
                f.write_str("this type of column in a materialized view is not supported")
            }
            Self::OutOfMemory { .. } => {
                f.write_str("materialized views would take more memory than they may")
            }
            Self::Cancelled => f.write_str("canceling statement due to user request"),
            Self::KeyWidth { expected, given } => {
                write!(f, "the view has a key of {expected} columns, not {given}")
            }
        }
    }
}

impl std::error::Error for ViewError {}

impl From<ApplyError> for ViewError {
    fn from(error: ApplyError) -> Self {
        Self::Engine(error)
    }
}

/// Why changes were not written to a view's rows. `E`: what the judge of new rows says.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// The view refused.
    View(ViewError),
    /// The judge of new rows refused.
    Judge(E),
}

impl<E> From<ViewError> for Refused<E> {
    fn from(error: ViewError) -> Self {
        Refused::View(error)
    }
}

impl Refused<std::convert::Infallible> {
    /// The view's error: a judge that cannot refuse has not.
    pub(crate) fn view(self) -> ViewError {
        match self {
            Refused::View(error) => error,
            Refused::Judge(never) => match never {},
        }
    }
}
