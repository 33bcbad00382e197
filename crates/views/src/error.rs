//! Errors of views: why a view could not follow a change, and what a client is told.

use std::fmt;

use halcyon_base::SqlState;
use halcyon_view::{ApplyError, EvalError, ProgramError};

/// Why a view could not be made, changed or read. Its engine has not changed if an operation ends
/// with this error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// An event could not be applied, or an expression over aggregates could not be computed.
    Engine(ApplyError),
    /// A program keeps the rules, but is too large for its executor.
    ProgramTooLarge(ProgramError),
    /// A value does not fit the words of the program, or a sum does not fit its column.
    OutOfRange,
    /// A value is of a type that no program can hold.
    UnsupportedType,
    /// All views together would use more memory than their limit.
    OutOfMemory {
        /// Bytes that all views would use.
        used: i64,
        /// The limit, in bytes.
        max: u64,
    },
    /// The statement was cancelled, by its client or by a timeout.
    Cancelled,
    /// No cell can be had for the view, for this reason.
    CellUnavailable(String),
    /// No cell can run the view's program, for this reason.
    CellProgram(String),
    /// The view's cell breaks again and again, the last time for this reason.
    CellDown(String),
    /// The maps of the view's cell have reached their memory.
    CellFull,
    /// An event or a text has more words than a cell takes at once.
    CellTooLarge,
    /// A function of the view's program failed in its cell.
    CellRejected,
    /// A row was looked up by a key of the wrong width.
    KeyWidth {
        /// Columns of the view's key.
        expected: usize,
        /// Columns of the key given.
        given: usize,
    },
}

impl ViewError {
    /// The SQLSTATE of the error.
    pub fn sql_state(&self) -> SqlState {
        match self {
            Self::Engine(ApplyError::Eval(EvalError::DivisionByZero)) => SqlState::DIVISION_BY_ZERO,
            Self::Engine(ApplyError::Eval(EvalError::Value(error))) => SqlState(error.state()),
            Self::Engine(ApplyError::MemoryBudget { .. }) | Self::OutOfMemory { .. } => {
                SqlState::OUT_OF_MEMORY
            }
            Self::CellFull => SqlState::OUT_OF_MEMORY,
            Self::CellTooLarge => SqlState::PROGRAM_LIMIT_EXCEEDED,
            Self::CellRejected => SqlState::DATA_EXCEPTION,
            Self::CellDown(_) => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::Engine(_) | Self::OutOfRange => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            Self::ProgramTooLarge(_)
            | Self::UnsupportedType
            | Self::CellProgram(_)
            | Self::CellUnavailable(_) => SqlState::FEATURE_NOT_SUPPORTED,
            Self::Cancelled => SqlState::QUERY_CANCELED,
            Self::KeyWidth { .. } => SqlState::INVALID_PARAMETER_VALUE,
        }
    }

    /// The error's detail: the values behind the message.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::OutOfMemory { used, max } => {
                Some(format!("They would take {used} bytes; the limit is {max}."))
            }
            Self::CellUnavailable(reason) | Self::CellProgram(reason) | Self::CellDown(reason) => {
                Some(format!("{reason}."))
            }
            _ => None,
        }
    }

    /// The error's hint: advice to the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OutOfMemory { .. } => Some("Raise view_memory by ALTER SYSTEM, or drop a view."),
            Self::CellUnavailable(_) => Some(
                "halcyon machine says whether cells can be had. Without the option place a view runs in \
                 the process; place = 'thread' is for tests.",
            ),
            Self::CellProgram(_) => {
                Some("Leave the option place out: in the process the view runs.")
            }
            Self::CellDown(_) => {
                Some("Nothing that was accepted is lost; halcyon.cells has the cell's last fault.")
            }
            Self::CellFull => Some(
                "Create the view with more cell_memory: maps may take a quarter of a cell's heap.",
            ),
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
            Self::CellUnavailable(_) => {
                f.write_str("a cell for a materialized view cannot be had on this machine")
            }
            Self::CellProgram(_) => f.write_str("a cell cannot run this materialized view"),
            Self::CellDown(_) => {
                f.write_str("the cell of a materialized view cannot be kept running")
            }
            Self::CellFull => f.write_str("the cell of a materialized view has no memory left"),
            Self::CellTooLarge => {
                f.write_str("a row is too large for the cell of a materialized view")
            }
            Self::CellRejected => {
                f.write_str("a function of a materialized view failed in its cell")
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

/// Why changes were not written to a view's rows. `E`: the error of the judge, who approves new
/// rows.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// The view failed.
    View(ViewError),
    /// The judge of new rows refused a row.
    Judge(E),
}

impl<E> From<ViewError> for Refused<E> {
    fn from(error: ViewError) -> Self {
        Refused::View(error)
    }
}

impl Refused<std::convert::Infallible> {
    /// The view's error, for judges that cannot refuse.
    pub(crate) fn view(self) -> ViewError {
        match self {
            Refused::View(error) => error,
            Refused::Judge(never) => match never {},
        }
    }
}
