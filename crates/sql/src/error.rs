//! The error a statement ends with: what PostgreSQL's clients expect to be told.
//!
//! Inner operations have small enums of their own; they become a [`SqlError`] where the
//! statement's context (which table, which constraint) is known.

use std::fmt;

use halcyon_base::memory::{self, Bound, Refusal};
pub use halcyon_base::sqlstate::SqlState;
use halcyon_json::JsonError;
use halcyon_value::ValueError;

/// Result of anything a statement can fail at.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// An error with SQLSTATE, message, detail, hint and position (in characters, from 1).
///
/// One pointer wide, so that `Result` stays cheap on the statement path.
#[derive(Clone)]
pub struct SqlError(Box<Fields>);

/// What may be done when all memory is in use.
pub(crate) const FREE_MEMORY: &str = "Try again when others have ended, free memory, or raise memory_limit. \
                                      halcyon.memory_accounts shows who has how much.";

/// A number of bytes in the largest unit that leaves three digits.
fn size_text(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("kB", 10)];
    let unit = units.into_iter().find(|(_, bits)| bytes >> bits >= 100);
    let (name, bits) = unit.unwrap_or(if bytes >> 20 > 0 { ("MB", 20) } else { ("kB", 10) });
    format!("{} {name}", bytes >> bits)
}

/// What a [`SqlError`] tells; the names are those of PostgreSQL's protocol.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Five characters that programs decide by.
    pub state: SqlState,
    /// One line, lower case, no full stop.
    pub message: String,
    /// The values and names behind the message.
    pub detail: Option<String>,
    /// What the user may do about it.
    pub hint: Option<String>,
    /// Character of the statement's text, counted from 1.
    pub position: Option<u32>,
    /// Where the error arose within generated or nested work, such as a line of COPY.
    pub context: Option<String>,
    /// Schema of the object concerned.
    pub schema: Option<String>,
    /// Table concerned.
    pub table: Option<String>,
    /// Column concerned.
    pub column: Option<String>,
    /// Constraint concerned.
    pub constraint: Option<String>,
    /// The relation whose values the detail shows (schema, name): the detail is for those who may
    /// read it. Not sent.
    pub detail_shows: Option<(String, String)>,
}

impl SqlError {
    /// An error with state and message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        SqlError(Box::new(Fields { state, message: message.into(), ..Fields::default() }))
    }

    /// Errors: 57014 if the statement that this thread works for is to end, 53200 if it was refused memory.
    pub fn unless_interrupted() -> Result<()> {
        if halcyon_base::interrupt::is_pending() || memory::is_ended() {
            return Err(Self::cancelled());
        }
        match memory::current().refusal() {
            Some(refusal) => Err(Self::out_of_memory(&refusal)),
            None => Ok(()),
        }
    }

    /// 57014: the statement was cancelled, or its time is over.
    pub fn cancelled() -> Self {
        Self::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
    }

    /// 53200: a statement was refused more memory.
    #[cold]
    pub fn out_of_memory(refusal: &Refusal) -> Self {
        let Refusal { by, statement, total, limit } = *refusal;
        let error = Self::new(SqlState::OUT_OF_MEMORY, "out of memory");
        let [statement, total, limit] = [statement, total, limit].map(size_text);
        let (detail, hint) = match by {
            Bound::Statement => (
                format!("The statement asked for {statement}; halcyon.memory gives it {limit}."),
                "Ask for less at once, or raise halcyon.memory or the limit of its workload class.",
            ),
            Bound::Class => (
                format!(
                    "The statements of its workload class would take more than {limit}, {statement} of it this one."
                ),
                "Wait for other statements of the class, or raise its TOTAL STATEMENT MEMORY LIMIT.",
            ),
            Bound::Total => (
                format!(
                    "All statements and tables together would take {total}, {statement} of it this \
                     statement; memory_limit is {limit}."
                ),
                FREE_MEMORY,
            ),
        };
        error.detail(detail).hint(hint)
    }

    /// Errors: 53200 if the statement that this thread works for may not have so many bytes more.
    pub fn unless_refused(bytes: u64) -> Result<()> {
        memory::request(bytes).map_err(|refusal| Self::out_of_memory(&refusal))
    }

    /// Errors: 53200 if the statement that this thread works for may not have values of so many bytes, and
    /// the copies that are made of large ones on their way.
    pub fn unless_value_refused(bytes: u64) -> Result<()> {
        memory::request_value(bytes).map_err(|refusal| Self::out_of_memory(&refusal))
    }

    /// 0A000: `what` is not offered.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Gives the error another message.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds the detail line.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a detail line that shows values of a relation's rows, for those who may read it.
    pub fn detail_of_rows(
        mut self,
        schema: impl Into<String>,
        relation: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        self.0.detail_shows = Some((schema.into(), relation.into()));
        self.detail(detail)
    }

    /// Takes the detail line away, from those who may not see it.
    pub fn without_detail(mut self) -> Self {
        (self.0.detail, self.0.detail_shows) = (None, None);
        self
    }

    /// Adds the hint line.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the position, in characters from 1.
    pub fn position(mut self, position: u32) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Takes the position away, where the text is not the client's own.
    pub fn without_position(mut self) -> Self {
        self.0.position = None;
        self
    }

    /// Adds the context line.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        let context = context.into();
        self.0.context = Some(match self.0.context.take() {
            Some(inner) => format!("{inner}\n{context}"),
            None => context,
        });
        self
    }

    /// Names the table concerned.
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Names the column concerned.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Names the constraint concerned.
    pub fn constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// The state that programs decide by.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// The message line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Every field.
    pub fn fields(&self) -> &Fields {
        &self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state, self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for SqlError {}

impl From<JsonError> for SqlError {
    #[cold]
    fn from(error: JsonError) -> Self {
        if error.is_interrupt() {
            return Self::unless_interrupted().err().unwrap_or_else(Self::cancelled);
        }
        let told = error.told();
        let mut fields = Fields { message: told.message.clone(), ..Fields::default() };
        fields.state = SqlState::new(&told.state);
        (fields.detail, fields.hint) = (told.detail.clone(), told.hint.clone());
        fields.context.clone_from(&told.context);
        SqlError(Box::new(fields))
    }
}

impl From<ValueError> for SqlError {
    #[cold]
    fn from(error: ValueError) -> Self {
        let state = SqlState::new(&error.state());
        let told = SqlError::new(state, error.to_string());
        let told = match error.detail() {
            Some(detail) => told.detail(detail),
            None => told,
        };
        match error.hint() {
            Some(hint) => told.hint(hint),
            None => told,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_value::TextProblem;

    #[test]
    fn states_of_values_errors_are_named_here() {
        let state = |error: ValueError| SqlError::from(error).state();
        for (error, expected) in [
            (ValueError::DivisionByZero, SqlState::DIVISION_BY_ZERO),
            (ValueError::OutOfRange("bigint"), SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            (ValueError::OutOfRange("interval"), SqlState::DATETIME_FIELD_OVERFLOW),
            (ValueError::FloatOverflow, SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            (ValueError::MomentOutOfRange("date"), SqlState::DATETIME_FIELD_OVERFLOW),
            (ValueError::NegativeLength, SqlState::SUBSTRING_ERROR),
            (ValueError::EscapeLength, SqlState::INVALID_ESCAPE_SEQUENCE),
            (ValueError::Mismatch("abs"), SqlState::UNDEFINED_FUNCTION),
        ] {
            assert_eq!(state(error.clone()), expected, "{error}");
        }
        let text = |problem| state(ValueError::text(problem, "date", "x"));
        for (problem, expected) in [
            (TextProblem::Syntax, SqlState::INVALID_TEXT_REPRESENTATION),
            (TextProblem::MomentSyntax, SqlState::INVALID_DATETIME_FORMAT),
            (TextProblem::FloatRange, SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            (TextProblem::FieldRange, SqlState::DATETIME_FIELD_OVERFLOW),
            (TextProblem::IntervalRange, SqlState::INTERVAL_FIELD_OVERFLOW),
            (TextProblem::Infinite, SqlState::FEATURE_NOT_SUPPORTED),
            (TextProblem::OddHex, SqlState::INVALID_PARAMETER_VALUE),
        ] {
            assert_eq!(text(problem), expected, "{problem:?}");
        }
        // The states of functions' own errors.
        let known = [
            SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
        ];
        for error in halcyon_value::functions::all().flat_map(|function| function.errors) {
            let state = SqlState::new(&error.state);
            let is_known = state == SqlState::NUMERIC_VALUE_OUT_OF_RANGE || known.contains(&state);
            assert!(is_known, "{state}: {}", error.message);
        }
        let field = SqlError::from(ValueError::DecimalField { precision: 5, scale: 2 });
        assert_eq!(field.message(), "numeric field overflow");
        assert!(field.fields().detail.as_ref().is_some_and(|detail| detail.contains("10^3")));
        assert!(SqlError::from(ValueError::EscapeLength).fields().hint.is_some());
    }
}
