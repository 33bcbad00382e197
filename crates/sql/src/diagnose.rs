//! DataFusion's errors told as PostgreSQL tells them: SQLSTATE, one plain line, hint, position.
//!
//! Wrong input must never look like a broken engine, so every message that a text or its data can
//! cause has a rule here; what no rule knows is reported by the class of DataFusion's error.

use std::io;

use arrow::error::ArrowError;
use datafusion::common::{Column, Diagnostic};
use datafusion::common::{DataFusionError, SchemaError};
use halcyon_value::ValueError;

use crate::error::{self, SqlError, SqlState};
use crate::misfits;
use crate::repeated::shown_name;
use crate::syntax::position_of;

/// The beginning of what an operator says that found the limit of all memory in use up, and not its
/// statement's own.
pub const SHORT_OF_ALL: &str = "all memory is in use: ";

/// Carries an error of ours through DataFusion.
pub fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error as the client gets it; `text` is the statement's, for positions.
pub fn sql_error(error: DataFusionError, text: &str) -> SqlError {
    let place = find_diagnostic(&error).and_then(|diagnostic| diagnostic.span).and_then(|span| {
        let location = datafusion::sql::sqlparser::tokenizer::Location {
            line: span.start.line,
            column: span.start.column,
        };
        position_of(text, location)
    });
    let told = tell(&error);
    match (place, told.fields().position) {
        (Some(place), None) => told.position(place),
        _ => told,
    }
}

fn find_diagnostic(error: &DataFusionError) -> Option<&Diagnostic> {
    match error {
        DataFusionError::Diagnostic(diagnostic, _) => Some(diagnostic),
        DataFusionError::Context(_, inner) => find_diagnostic(inner),
        DataFusionError::Collection(errors) => errors.iter().find_map(find_diagnostic),
        DataFusionError::Shared(inner) => find_diagnostic(inner),
        _ => None,
    }
}

fn tell(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => tell(inner),
        DataFusionError::Shared(inner) => tell(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => tell(first),
            None => SqlError::new(SqlState::INTERNAL_ERROR, "an empty list of errors"),
        },
        DataFusionError::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(own) => own.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => tell(inner),
                None => from_text(&inner.to_string(), SqlState::DATA_EXCEPTION),
            },
        },
        DataFusionError::ArrowError(inner, _) => arrow_error(inner),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::SQL(inner, _) => SqlError::new(
            SqlState::SYNTAX_ERROR,
            inner.to_string().replace("sql parser error: ", ""),
        ),
        DataFusionError::NotImplemented(message) => {
            from_text(message, SqlState::FEATURE_NOT_SUPPORTED)
        }
        DataFusionError::ResourcesExhausted(message) if message.starts_with(SHORT_OF_ALL) => {
            let asked = &message[SHORT_OF_ALL.len()..];
            SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
                .detail(format!(
                    "{}; all statements and tables together have no more within memory_limit.",
                    first_line(asked)
                ))
                .hint(error::FREE_MEMORY)
        }
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(SqlState::OUT_OF_MEMORY, "the statement's memory limit is used up")
                .detail(first_line(message))
                .hint("Raise the session's memory limit or ask for less at once.")
        }
        DataFusionError::IoError(error) => io_error(error),
        DataFusionError::Plan(message) => from_text(message, SqlState::SYNTAX_ERROR),
        DataFusionError::Configuration(message) => {
            from_text(message, SqlState::INVALID_PARAMETER_VALUE)
        }
        DataFusionError::Execution(message) => from_text(message, SqlState::DATA_EXCEPTION),
        DataFusionError::ExecutionJoin(error) => {
            SqlError::new(SqlState::INTERNAL_ERROR, format!("a worker failed: {error}"))
        }
        DataFusionError::Internal(message) => from_text(message, SqlState::FEATURE_NOT_SUPPORTED),
        other => from_text(&other.strip_backtrace(), SqlState::FEATURE_NOT_SUPPORTED),
    }
}

fn arrow_error(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range")
                .detail(first_line(message))
        }
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => tell(inner),
            None => match inner.downcast_ref::<SqlError>() {
                Some(own) => own.clone(),
                None => from_text(&inner.to_string(), SqlState::DATA_EXCEPTION),
            },
        },
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::CastError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message)
        | ArrowError::ParseError(message) => from_text(message, SqlState::DATA_EXCEPTION),
        ArrowError::NotYetImplemented(message) => {
            from_text(message, SqlState::FEATURE_NOT_SUPPORTED)
        }
        other => from_text(&other.to_string(), SqlState::DATA_EXCEPTION),
    }
}

/// An error of reading or writing, which may carry one of ours.
fn io_error(error: &io::Error) -> SqlError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>()) {
        Some(own) => own.clone(),
        None => SqlError::new(SqlState::IO_ERROR, error.to_string()),
    }
}

/// 22012.
pub fn division_by_zero() -> SqlError {
    ValueError::DivisionByZero.into()
}

/// 22003 for a type by PostgreSQL's name.
pub fn out_of_range(type_name: &'static str) -> SqlError {
    ValueError::OutOfRange(type_name).into()
}

fn schema_error(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, .. } if field.name.starts_with("outer_ref(") => {
            from_text(&field.name, SqlState::FEATURE_NOT_SUPPORTED)
        }
        SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", shown_name(&field.name)),
        ),
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column name \"{}\" stands more than once", shown_name(name)),
        ),
    }
}

fn no_column(field: &Column, valid: &[Column]) -> SqlError {
    let shown = match &field.relation {
        Some(relation) => format!("{}.{}", relation.table(), field.name),
        None => format!("\"{}\"", field.name),
    };
    let tables: Vec<&str> =
        valid.iter().filter_map(|c| c.relation.as_ref()).map(|r| r.table()).collect();
    if let Some(relation) = &field.relation
        && !tables.iter().any(|table| *table == relation.table())
    {
        return SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{}\"", relation.table()),
        );
    }
    let error = SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {shown} does not exist"));
    match nearest(&field.name, valid.iter().map(|column| column.name.as_str())) {
        Some(name) => {
            let owner = valid.iter().find(|column| column.name == name);
            let table = owner.and_then(|c| c.relation.as_ref()).map(|r| format!("{}.", r.table()));
            error.hint(format!(
                "Perhaps you meant to reference the column \"{}{}\".",
                table.unwrap_or_default(),
                shown_name(name)
            ))
        }
        None => error,
    }
}

/// The candidate that differs least from `name`, if it differs by a third at most.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let allowed = (length / 3).max(if length >= 4 { 2 } else { 1 });
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// What DataFusion does not offer, by the words of its message, and how it is told: 0A000.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("outerreferencecolumn", "a subquery that refers to its outer query in this way"),
    ("outer_ref(", "a subquery that refers to its outer query in this way"),
    ("distinct aggregate should have exactly one argument", "DISTINCT with several arguments"),
    ("must be a literal", "this aggregate with an argument that is no constant"),
    ("must be non-null scalar", "date_trunc with a field that is no constant"),
];

/// What a message means, by the words in it. First match wins.
const RULES: &[(&str, SqlState)] = &[
    ("assertion failed", SqlState::INTERNAL_ERROR),
    ("divide by zero", SqlState::DIVISION_BY_ZERO),
    ("division by zero", SqlState::DIVISION_BY_ZERO),
    ("to timestamp(us): converted value exceeds", SqlState::DATETIME_FIELD_OVERFLOW),
    ("overflow", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ("too large to store in a decimal", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ("too small to store in a decimal", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ("out of range", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ("can't cast value", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ("cannot cast string", SqlState::INVALID_TEXT_REPRESENTATION),
    ("error parsing", SqlState::INVALID_DATETIME_FORMAT),
    ("parser error: ", SqlState::INVALID_DATETIME_FORMAT),
    ("negative count not allowed", SqlState::SUBSTRING_ERROR),
    ("cannot cast to decimal", SqlState::INVALID_TEXT_REPRESENTATION),
    ("unary operator 'not'", SqlState::DATATYPE_MISMATCH),
    ("unary operator", SqlState::UNDEFINED_FUNCTION),
    ("regex", SqlState::INVALID_REGULAR_EXPRESSION),
    ("regular expression", SqlState::INVALID_REGULAR_EXPRESSION),
    ("date part", SqlState::INVALID_PARAMETER_VALUE),
    ("field position must not be zero", SqlState::INVALID_PARAMETER_VALUE),
    ("cannot automatically convert", SqlState::UNDEFINED_FUNCTION),
    ("order by column out of bounds", SqlState::INVALID_COLUMN_REFERENCE),
    ("for select distinct, order by", SqlState::INVALID_COLUMN_REFERENCE),
    ("must match initial order by", SqlState::INVALID_COLUMN_REFERENCE),
    ("cannot find column with position", SqlState::INVALID_COLUMN_REFERENCE),
    ("must be in the group by", SqlState::GROUPING_ERROR),
    ("must appear in the group by", SqlState::GROUPING_ERROR),
    ("could not be resolved from available columns", SqlState::GROUPING_ERROR),
    ("references non-aggregate values", SqlState::GROUPING_ERROR),
    ("aggregate functions are not allowed", SqlState::GROUPING_ERROR),
    ("nested aggregate", SqlState::GROUPING_ERROR),
    ("aggregate function calls cannot", SqlState::GROUPING_ERROR),
    ("invalid function", SqlState::UNDEFINED_FUNCTION),
    ("function", SqlState::UNDEFINED_FUNCTION),
    ("call to", SqlState::UNDEFINED_FUNCTION),
    ("more than one row", SqlState::CARDINALITY_VIOLATION),
    ("too many columns", SqlState::SYNTAX_ERROR),
    ("columns but only", SqlState::INVALID_COLUMN_REFERENCE),
    ("have different number of columns", SqlState::SYNTAX_ERROR),
    ("same number of columns", SqlState::SYNTAX_ERROR),
    ("inconsistent data length", SqlState::SYNTAX_ERROR),
    ("cannot coerce arithmetic", SqlState::UNDEFINED_FUNCTION),
    ("cannot coerce", SqlState::DATATYPE_MISMATCH),
    ("coercion", SqlState::DATATYPE_MISMATCH),
    ("cannot infer common", SqlState::UNDEFINED_FUNCTION),
    ("unsupported cast", SqlState::CANNOT_COERCE),
    ("casting from", SqlState::CANNOT_COERCE),
    ("incompatible", SqlState::DATATYPE_MISMATCH),
    ("cannot create filter with non-boolean", SqlState::DATATYPE_MISMATCH),
    ("non-boolean", SqlState::DATATYPE_MISMATCH),
    ("duplicate expression name", SqlState::AMBIGUOUS_COLUMN),
    ("require unique expression names", SqlState::AMBIGUOUS_COLUMN),
    ("ambiguous", SqlState::AMBIGUOUS_COLUMN),
    ("with query name", SqlState::DUPLICATE_ALIAS),
    ("specified more than once", SqlState::DUPLICATE_ALIAS),
    ("placeholder", SqlState::INDETERMINATE_DATATYPE),
    ("not found", SqlState::UNDEFINED_COLUMN),
    ("recursive", SqlState::INVALID_RECURSION),
    ("offset must be", SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
    ("limit must be", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
    ("expected limit", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
    ("window", SqlState::WINDOWING_ERROR),
];

fn from_text(message: &str, otherwise: SqlState) -> SqlError {
    if let Some(told) = misfits::told(message) {
        return told;
    }
    let line = plain(message);
    let lower = line.to_lowercase();
    if let Some((_, what)) = NOT_OFFERED.iter().find(|(words, _)| lower.contains(words)) {
        return SqlError::unsupported(what);
    }
    if lower.contains("grouping_sets exceeds the maximum limit") {
        let message = "too many grouping sets present (maximum 4096)";
        return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message);
    }
    if lower.contains("scalar subquery returned more than one row") {
        let message = "more than one row returned by a subquery used as an expression";
        return SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
    }
    let state = RULES.iter().find(|(words, _)| lower.contains(words)).map(|(_, state)| *state);
    match state {
        Some(SqlState::DIVISION_BY_ZERO) => division_by_zero(),
        Some(SqlState::NUMERIC_VALUE_OUT_OF_RANGE) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").detail(line)
        }
        Some(SqlState::DATETIME_FIELD_OVERFLOW) => {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range").detail(line)
        }
        Some(SqlState::SUBSTRING_ERROR) => ValueError::NegativeLength.into(),
        Some(SqlState::UNDEFINED_FUNCTION) => undefined_function(&line),
        Some(SqlState::INVALID_TEXT_REPRESENTATION) => invalid_text(&line),
        Some(state) => SqlError::new(state, lower_first(&line)),
        None => SqlError::new(otherwise, lower_first(&line)),
    }
}

/// Functions that are called over windows alone.
#[rustfmt::skip] // as many names in a line as fit
const WINDOW_FUNCTIONS: [&str; 10] = [
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value", "last_value",
];

/// `Invalid function 'foo'.` and DataFusion's complaints about arguments.
fn undefined_function(line: &str) -> SqlError {
    let name = line.split('\'').nth(1).filter(|_| line.starts_with("Invalid function"));
    match name {
        Some(name) if WINDOW_FUNCTIONS.contains(&name.to_lowercase().as_str()) => {
            let message = format!("window function {name} requires an OVER clause");
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        }
        Some(name) => misfits::no_such_function(name),
        None => SqlError::new(SqlState::UNDEFINED_FUNCTION, lower_first(line))
            .hint("You might need to add explicit type casts."),
    }
}

/// Arrow's `Cannot cast string 'x' to value of Int32 type`, as PostgreSQL says it.
fn invalid_text(line: &str) -> SqlError {
    let cut = line.find("string '").and_then(|at| {
        let rest = &line[at + "string '".len()..];
        rest.rfind("' to value of ").map(|end| (&rest[..end], &rest[end + 14..]))
    });
    match cut {
        Some((value, rest)) => SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!(
                "invalid input syntax for type {}: \"{value}\"",
                type_word(rest.split(' ').next().unwrap_or(rest))
            ),
        ),
        None => SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, lower_first(line)),
    }
}

fn type_word(arrow: &str) -> &str {
    match arrow.split('(').next().unwrap_or(arrow) {
        "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        word if word.starts_with("Decimal") => "numeric",
        word => word,
    }
}

/// The message without DataFusion's preambles, names of internals and invisible tails.
fn plain(message: &str) -> String {
    let mut line = first_line(message);
    for preamble in [
        "Internal error: ",
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "Cast error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "This feature is not implemented: ",
        "type_coercion\ncaused by\n",
        "Optimizer rule ",
    ] {
        while let Some(rest) = line.strip_prefix(preamble) {
            line = rest.to_owned();
        }
    }
    if let Some(at) = line.find(". This issue was likely caused by") {
        line.truncate(at);
    }
    let mut clean = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1}' {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else {
            clean.push(c);
        }
    }
    clean.trim_end_matches(['.', ' ']).to_owned()
}

fn first_line(message: &str) -> String {
    let head = message.split("\n\nbacktrace").next().unwrap_or(message);
    head.lines().next().unwrap_or_default().trim().to_owned()
}

fn lower_first(line: &str) -> String {
    let mut chars = line.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_close_or_none() {
        let names = ["customer", "custom", "order_id"];
        assert_eq!(nearest("custmer", names.into_iter()), Some("customer"));
        assert_eq!(nearest("orderid", names.into_iter()), Some("order_id"));
        assert_eq!(nearest("price", names.into_iter()), None);
    }

    #[test]
    fn messages_become_states() {
        for (error, state, message) in [
            (
                DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None),
                "22012",
                "division by zero",
            ),
            (
                DataFusionError::Plan("Invalid function 'foo'.\nDid you mean 'f'?".into()),
                "42883",
                "function foo does not exist",
            ),
            (
                DataFusionError::ArrowError(
                    Box::new(ArrowError::CastError(
                        "Cannot cast string 'x' to value of Int32 type".into(),
                    )),
                    None,
                ),
                "22P02",
                "invalid input syntax for type integer: \"x\"",
            ),
        ] {
            let told = sql_error(error.context("somewhere"), "");
            assert_eq!((told.state().as_str(), told.message()), (state, message));
        }
    }
}
