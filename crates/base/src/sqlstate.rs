//! SQLSTATEs: the five-character codes by which SQL names an error.
//!
//! Source: PostgreSQL 17, appendix A; the names are PostgreSQL's. Only codes that some other file
//! names stand here (`cargo xtask check claims`), and docs/guide/errors.md lists them all.

use std::fmt;

/// An SQLSTATE: five of `0-9A-Z`, of which the first two are the class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    /// The code written as text, as `b"23505"`.
    ///
    /// Panics (at compile time in a constant): if it is not five of `0-9A-Z`.
    pub const fn new(code: &[u8; 5]) -> Self {
        let mut at = 0;
        while at < code.len() {
            assert!(code[at].is_ascii_digit() || code[at].is_ascii_uppercase());
            at += 1;
        }
        SqlState(*code)
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// The code's class, as `b"23"`.
    pub fn class(&self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }

    /// True if the same transaction may succeed when it is run again from its beginning.
    pub fn is_retryable(&self) -> bool {
        matches!(*self, Self::SERIALIZATION_FAILURE | Self::DEADLOCK_DETECTED)
    }
}

impl Default for SqlState {
    /// XX000: an error without a code is a broken invariant.
    fn default() -> Self {
        SqlState::INTERNAL_ERROR
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlState({})", self.as_str())
    }
}

macro_rules! states {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        impl SqlState {
            $(#[doc = $doc] pub const $name: SqlState = SqlState::new($code);)*
        }
        /// Every code above, for the test that they differ.
        #[cfg(test)]
        const ALL: &[SqlState] = &[$(SqlState::$name),*];
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000", "No error.";
    WARNING = b"01000", "A notice that is a warning.";
    NO_DATA = b"02000", "Nothing was found where one row was asked for.";
    PROTOCOL_VIOLATION = b"08P01", "A message breaks the wire protocol.";
    FEATURE_NOT_SUPPORTED = b"0A000", "Understood, and not offered.";
    INVALID_GRANT_OPERATION = b"0LP01", "A privilege that the object does not know.";
    CARDINALITY_VIOLATION = b"21000", "More rows than the place allows.";
    DATA_EXCEPTION = b"22000", "A value is wrong in a way that has no code of its own.";
    STRING_DATA_RIGHT_TRUNCATION = b"22001", "A string is longer than its column.";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003", "A number does not fit its type.";
    NULL_VALUE_NO_INDICATOR_PARAMETER = b"22002", "A NULL was read into something that cannot hold it.";
    NULL_VALUE_NOT_ALLOWED = b"22004", "An argument must not be NULL.";
    INVALID_DATETIME_FORMAT = b"22007", "Not a date or time.";
    DATETIME_FIELD_OVERFLOW = b"22008", "A date or time outside what can be kept.";
    DIVISION_BY_ZERO = b"22012", "Division by zero.";
    INTERVAL_FIELD_OVERFLOW = b"22015", "An interval that cannot be kept.";
    INVALID_REGULAR_EXPRESSION = b"2201B", "Not a regular expression.";
    INVALID_ARGUMENT_FOR_LOGARITHM = b"2201E", "The logarithm of nothing or less.";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F", "A root or power that no real number is.";
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = b"2201G", "Buckets without a width.";
    INVALID_ARGUMENT_FOR_NTILE_FUNCTION = b"22014", "A division into less than one part.";
    INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION = b"22016", "A row before the first of a window.";
    ARRAY_SUBSCRIPT_ERROR = b"2202E", "A place that an array or a row of bytes does not have.";
    INVALID_TABLESAMPLE_ARGUMENT = b"2202H", "A share of rows that is no percentage.";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = b"2201W", "A negative LIMIT.";
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = b"2201X", "A negative OFFSET.";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021", "Bytes that are not UTF-8, or a zero byte.";
    INVALID_PARAMETER_VALUE = b"22023", "A parameter or setting has a value that it cannot have.";
    INVALID_ESCAPE_SEQUENCE = b"22025", "A pattern ends in an escape character.";
    SUBSTRING_ERROR = b"22011", "A substring of negative length.";
    UNTRANSLATABLE_CHARACTER = b"22P05", "A character that an encoding lacks.";
    INVALID_TEXT_REPRESENTATION = b"22P02", "Text that is no value of the type.";
    INVALID_BINARY_REPRESENTATION = b"22P03", "Bytes that are no value of the type.";
    BAD_COPY_FILE_FORMAT = b"22P04", "A line of COPY data is malformed.";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H", "A sequence has reached its end.";
    NOT_NULL_VIOLATION = b"23502", "NULL in a column that forbids it.";
    FOREIGN_KEY_VIOLATION = b"23503", "A reference without what it refers to.";
    UNIQUE_VIOLATION = b"23505", "A key that exists already.";
    CHECK_VIOLATION = b"23514", "A CHECK is false.";
    ACTIVE_SQL_TRANSACTION = b"25001", "Not inside a transaction.";
    READ_ONLY_SQL_TRANSACTION = b"25006", "The transaction may only read.";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01", "Only inside a transaction.";
    IN_FAILED_SQL_TRANSACTION = b"25P02", "The transaction failed; only ROLLBACK helps.";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03", "A transaction was idle for too long.";
    INVALID_SQL_STATEMENT_NAME = b"26000", "No prepared statement of this name.";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000", "The user may not log in.";
    INVALID_PASSWORD = b"28P01", "Wrong user or password.";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01", "Something depends on it.";
    INVALID_CURSOR_NAME = b"34000", "No cursor or portal of this name.";
    INVALID_CATALOG_NAME = b"3D000", "No database of this name.";
    INVALID_SCHEMA_NAME = b"3F000", "No schema of this name.";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001", "No savepoint of this name.";
    SERIALIZATION_FAILURE = b"40001", "No serial order exists; run it again.";
    DEADLOCK_DETECTED = b"40P01", "The transactions wait for each other; run it again.";
    WITH_CHECK_OPTION_VIOLATION = b"44000", "A row that the view through which it is written would not show.";
    SYNTAX_ERROR = b"42601", "Not SQL.";
    INSUFFICIENT_PRIVILEGE = b"42501", "The role lacks the right.";
    CANNOT_COERCE = b"42846", "No cast between these types.";
    GROUPING_ERROR = b"42803", "A column is neither grouped nor aggregated.";
    WINDOWING_ERROR = b"42P20", "A window function where none can be.";
    INVALID_RECURSION = b"42P19", "A recursion of a form that cannot be run.";
    INVALID_FOREIGN_KEY = b"42830", "A foreign key that refers to no unique key.";
    INVALID_NAME = b"42602", "Not a name.";
    NAME_TOO_LONG = b"42622", "A name that is too long.";
    RESERVED_NAME = b"42939", "A name kept for the system.";
    DATATYPE_MISMATCH = b"42804", "An expression of the wrong type.";
    COLLATION_MISMATCH = b"42P21", "Collations that exclude each other.";
    INDETERMINATE_COLLATION = b"42P22", "A comparison of texts whose collation cannot be found.";
    INDETERMINATE_DATATYPE = b"42P18", "A parameter whose type cannot be found.";
    WRONG_OBJECT_TYPE = b"42809", "An object of another kind.";
    GENERATED_ALWAYS = b"428C9", "A generated column was given a value.";
    UNDEFINED_COLUMN = b"42703", "No column of this name.";
    UNDEFINED_FUNCTION = b"42883", "No function of this name and these types.";
    AMBIGUOUS_FUNCTION = b"42725", "Several functions or operators would do.";
    UNDEFINED_TABLE = b"42P01", "No table of this name.";
    UNDEFINED_PARAMETER = b"42P02", "No parameter of this number.";
    UNDEFINED_OBJECT = b"42704", "No object of this name.";
    DUPLICATE_COLUMN = b"42701", "A column named twice.";
    DUPLICATE_CURSOR = b"42P03", "A cursor of this name exists.";
    DUPLICATE_PREPARED_STATEMENT = b"42P05", "A prepared statement of this name exists.";
    DUPLICATE_SCHEMA = b"42P06", "A schema of this name exists.";
    DUPLICATE_TABLE = b"42P07", "A table of this name exists.";
    DUPLICATE_ALIAS = b"42712", "An alias used twice.";
    DUPLICATE_OBJECT = b"42710", "An object of this name exists.";
    AMBIGUOUS_COLUMN = b"42702", "More than one column has this name.";
    INVALID_COLUMN_REFERENCE = b"42P10", "A column where it cannot be referred to.";
    INVALID_SCHEMA_DEFINITION = b"42P15", "A schema that cannot be defined so.";
    INVALID_TABLE_DEFINITION = b"42P16", "A table that cannot be defined so.";
    INVALID_OBJECT_DEFINITION = b"42P17", "An object that cannot be defined so.";
    INSUFFICIENT_RESOURCES = b"53000", "The system gives no more of what is needed.";
    QUEUE_FULL = b"53W01", "As many statements of the workload class wait as may.";
    QUEUE_TIMEOUT = b"53W02", "The statement has waited for its workload class for too long.";
    DISK_FULL = b"53100", "The disk is full.";
    OUT_OF_MEMORY = b"53200", "Memory, or the statement's share of it, is used up.";
    TOO_MANY_CONNECTIONS = b"53300", "No more connections.";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400", "A configured limit is reached.";
    PROGRAM_LIMIT_EXCEEDED = b"54000", "More than the engine can do.";
    STATEMENT_TOO_COMPLEX = b"54001", "A statement nested too deeply, or with too many tables.";
    TOO_MANY_COLUMNS = b"54011", "Too many columns.";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000", "The object cannot do that now.";
    OBJECT_IN_USE = b"55006", "The object is in use.";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02", "A setting that cannot change now.";
    LOCK_NOT_AVAILABLE = b"55P03", "The lock did not come in time.";
    QUERY_CANCELED = b"57014", "The statement was cancelled.";
    ADMIN_SHUTDOWN = b"57P01", "The server ends.";
    CANNOT_CONNECT_NOW = b"57P03", "The server is not ready yet.";
    IDLE_SESSION_TIMEOUT = b"57P05", "The session was idle for too long.";
    IO_ERROR = b"58030", "Reading or writing failed.";
    UNDEFINED_FILE = b"58P01", "No such file.";
    DUPLICATE_FILE = b"58P02", "The file exists.";
    INTERNAL_ERROR = b"XX000", "An invariant of the engine is broken.";
    DATA_CORRUPTED = b"XX001", "Stored data are damaged.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_distinct_and_print_as_written() {
        let distinct: BTreeSet<_> = ALL.iter().collect();
        assert_eq!(distinct.len(), ALL.len());
        assert_eq!(SqlState::UNIQUE_VIOLATION.to_string(), "23505");
        assert_eq!(format!("{:?}", SqlState::DEADLOCK_DETECTED), "SqlState(40P01)");
        assert_eq!(SqlState::UNIQUE_VIOLATION.class(), *b"23");
    }

    #[test]
    fn only_lost_races_are_retryable() {
        let retryable: Vec<_> = ALL.iter().filter(|state| state.is_retryable()).collect();
        assert_eq!(retryable, [&SqlState::SERIALIZATION_FAILURE, &SqlState::DEADLOCK_DETECTED]);
    }
}
