//! Errors of the engine as ADBC's: status, SQLSTATE, and the fields behind the message as details.

use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use arrow::error::ArrowError;
use halcyon::{SqlError, SqlState};

/// An error of a function of the driver.
pub type Result<T> = std::result::Result<T, Error>;

/// The ADBC error for an error of the engine. Details have the names that libpq gives PostgreSQL's fields
/// (`PG_DIAG_MESSAGE_HINT`), as those of the ADBC driver for PostgreSQL; detail and hint also stand below the message.
pub fn told(error: SqlError) -> Error {
    let fields = error.fields();
    let mut message = error.message().to_owned();
    for (name, text) in [("DETAIL", &fields.detail), ("HINT", &fields.hint)] {
        if let Some(text) = text {
            message.push_str(&format!("\n{name}: {text}"));
        }
    }
    let position = fields.position.map(|position| position.to_string());
    let details = [
        ("PG_DIAG_MESSAGE_PRIMARY", Some(error.message())),
        ("PG_DIAG_MESSAGE_DETAIL", fields.detail.as_deref()),
        ("PG_DIAG_MESSAGE_HINT", fields.hint.as_deref()),
        ("PG_DIAG_STATEMENT_POSITION", position.as_deref()),
        ("PG_DIAG_CONTEXT", fields.context.as_deref()),
        ("PG_DIAG_SCHEMA_NAME", fields.schema.as_deref()),
        ("PG_DIAG_TABLE_NAME", fields.table.as_deref()),
        ("PG_DIAG_COLUMN_NAME", fields.column.as_deref()),
        ("PG_DIAG_CONSTRAINT_NAME", fields.constraint.as_deref()),
    ];
    let details = details
        .into_iter()
        .filter_map(|(name, text)| text.map(|text| (name.to_owned(), text.as_bytes().to_vec())));
    Error {
        details: Some(details.collect()),
        sqlstate: characters(error.state()),
        // A zero byte ends a text of C.
        ..Error::with_message_and_status(message.replace('\0', "\u{FFFD}"), status(&error))
    }
}

/// An SQLSTATE as C has it.
fn characters(state: SqlState) -> [c_char; 5] {
    state.0.map(|byte| byte as c_char)
}

/// An error of the driver's own with an SQLSTATE.
pub fn own(status: Status, state: SqlState, message: impl Into<String>) -> Error {
    Error { sqlstate: characters(state), ..Error::with_message_and_status(message, status) }
}

/// An argument that cannot be.
pub fn invalid(message: impl Into<String>) -> Error {
    own(Status::InvalidArguments, SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A call that cannot come now.
pub fn out_of_turn(message: impl Into<String>) -> Error {
    own(Status::InvalidState, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// A part of the standard that the driver does not have.
pub fn missing(what: &str) -> Error {
    own(
        Status::NotImplemented,
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{what}: the driver has none"),
    )
}

/// An error of a stream: the engine's behind it, if there is one.
pub fn of_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<SqlError>() {
            Ok(error) => told(*error),
            Err(inner) => own(Status::InvalidData, SqlState::DATA_EXCEPTION, inner.to_string()),
        },
        other => own(Status::InvalidData, SqlState::DATA_EXCEPTION, other.to_string()),
    }
}

/// The status for an SQLSTATE.
fn status(error: &SqlError) -> Status {
    let state = error.state();
    match state {
        SqlState::QUERY_CANCELED if error.message().contains("timeout") => Status::Timeout,
        SqlState::QUERY_CANCELED => Status::Cancelled,
        SqlState::INSUFFICIENT_PRIVILEGE => Status::Unauthorized,
        // Parameters are missing.
        SqlState::PROTOCOL_VIOLATION => Status::InvalidArguments,
        _ => match &state.0 {
            b"42P01" | b"42703" | b"42704" | b"42883" | b"3F000" | b"3D000" => Status::NotFound,
            b"42P04" | b"42P06" | b"42P07" | b"42710" | b"42723" => Status::AlreadyExists,
            _ => of_class(&state.class()),
        },
    }
}

/// The status for a class of SQLSTATEs.
fn of_class(class: &[u8; 2]) -> Status {
    match class {
        b"0A" => Status::NotImplemented,
        b"22" => Status::InvalidData,
        b"23" | b"40" | b"44" => Status::Integrity,
        b"28" => Status::Unauthenticated,
        b"08" | b"24" | b"25" | b"26" | b"34" | b"3B" | b"55" => Status::InvalidState,
        b"02" | b"0L" | b"21" | b"2B" | b"42" => Status::InvalidArguments,
        b"53" | b"57" | b"58" => Status::IO,
        _ => Status::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_state_and_its_fields() {
        let error = SqlError::new(SqlState::UNIQUE_VIOLATION, "a key exists")
            .detail("Key (id)=(1)")
            .hint("Take another.")
            .table("public", "t")
            .position(7);
        let told = told(error);
        assert_eq!(told.status, Status::Integrity);
        assert_eq!(told.sqlstate.map(|c| c as u8), *b"23505");
        assert_eq!(told.message, "a key exists\nDETAIL: Key (id)=(1)\nHINT: Take another.");
        let details = told.details.expect("details");
        let find = |name: &str| details.iter().find(|(key, _)| key == name).map(|(_, v)| &v[..]);
        assert_eq!(find("PG_DIAG_MESSAGE_HINT"), Some(&b"Take another."[..]));
        assert_eq!(find("PG_DIAG_TABLE_NAME"), Some(&b"t"[..]));
        assert_eq!(find("PG_DIAG_STATEMENT_POSITION"), Some(&b"7"[..]));
        assert_eq!(find("PG_DIAG_CONTEXT"), None);
    }

    #[test]
    fn a_zero_byte_does_not_end_the_message() {
        let told = told(SqlError::new(SqlState::SYNTAX_ERROR, "near \0x"));
        assert_eq!(told.message, "near \u{FFFD}x");
        assert_eq!(told.status, Status::InvalidArguments);
    }

    #[test]
    fn states_have_the_statuses_that_programs_decide_by() {
        for (state, expected) in [
            (SqlState::FEATURE_NOT_SUPPORTED, Status::NotImplemented),
            (SqlState::DIVISION_BY_ZERO, Status::InvalidData),
            (SqlState::QUERY_CANCELED, Status::Cancelled),
            (SqlState::INSUFFICIENT_PRIVILEGE, Status::Unauthorized),
            (SqlState::INVALID_AUTHORIZATION_SPECIFICATION, Status::Unauthenticated),
            (SqlState::INVALID_SCHEMA_NAME, Status::NotFound),
            (SqlState::INTERNAL_ERROR, Status::Internal),
        ] {
            assert_eq!(status(&SqlError::new(state, "x")), expected, "{state}");
        }
        let late = SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to timeout");
        assert_eq!(status(&late), Status::Timeout);
    }
}
