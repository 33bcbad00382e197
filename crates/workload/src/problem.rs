//! The error of a change of definitions.

use std::error::Error;
use std::fmt;

/// Reason for which a definition is refused, told as SQL tells errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind, by which a caller chooses an SQLSTATE.
    pub kind: ProblemKind,
    /// One line, lower case, no full stop.
    pub message: String,
    /// What is known beyond that.
    pub detail: Option<String>,
    /// What may be done about the problem.
    pub hint: Option<String>,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// No setting has that name.
    UnknownKey,
    /// The text is no value of the setting, or out of the setting's range.
    BadValue,
    /// Settings, or definitions, contradict each other.
    Conflict,
    /// A class is named that is not there.
    UnknownClass,
    /// The tree of classes would have more than three levels.
    TooDeep,
    /// Something names the class that should go.
    InUse,
    /// A definition of the name is there already.
    Exists,
    /// No definition has the name.
    Missing,
    /// The text of a rule does not follow the grammar.
    Syntax,
    /// More classes, mappings or rules than there may be.
    Limit,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Problem { kind, message: message.into(), detail: None, hint: None }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Problem {}
