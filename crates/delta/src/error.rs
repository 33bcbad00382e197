//! The refusal of a query that cannot be maintained.

use core::fmt;

/// A refusal: the query has a construct that trigger programs cannot maintain. Clients see SQLSTATE
/// 0A000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The construct's name, as in "… is not supported in a materialized view".
    pub construct: String,
    /// Advice: another way to write the query, if there is one.
    pub hint: Option<String>,
}

/// Result of compiling.
pub type Result<T> = core::result::Result<T, Unsupported>;

impl Unsupported {
    /// A refusal without advice.
    pub fn new(construct: impl Into<String>) -> Self {
        Unsupported { construct: construct.into(), hint: None }
    }

    /// Adds advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported in a materialized view", self.construct)
    }
}

impl std::error::Error for Unsupported {}

impl From<datafusion::common::DataFusionError> for Unsupported {
    fn from(error: datafusion::common::DataFusionError) -> Self {
        Unsupported::new(format!("an expression without a type ({})", error.strip_backtrace()))
    }
}
