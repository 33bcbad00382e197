//! Extreme and odd values of every type, and the table that holds them.

use arrow::datatypes::DataType;
use halcyon::{Session, SqlType};
use halcyon_base::rng::Rng;

/// A type that columns may have, with the texts of its values as a cast takes them.
pub struct Type {
    /// The name in SQL.
    pub name: &'static str,
    /// The name in `pg_type`.
    pub catalog_name: &'static str,
    pub sql: SqlType,
    values: &'static [&'static str],
}

impl Type {
    pub fn arrow(&self) -> DataType {
        self.sql.arrow()
    }
}

const fn ty(
    name: &'static str,
    catalog_name: &'static str,
    sql: SqlType,
    values: &'static [&'static str],
) -> Type {
    Type { name, catalog_name, sql, values }
}

const fn decimal(precision: u8, scale: i8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

const FLOATS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "-2.5",
    "7",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e30",
    "-1e-30",
    "3.4028235e38",
    "1e-45",
    "9223372036854775807",
    "170",
];

const DOUBLES: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "-2.5",
    "7",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e30",
    "-1e-30",
    "1.7976931348623157e308",
    "5e-324",
    "9223372036854775807",
    "-9223372036854775809",
    "170",
    "1e6",
];

/// Moments of days that dates and timestamps share.
const DAYS: &[&str] = &[
    "1970-01-01",
    "1969-12-31",
    "2024-02-29",
    "2000-01-01",
    "0001-01-01",
    "9999-12-31",
    "0001-12-31 BC",
    "4713-01-01 BC",
    "262142-12-31",
    "99999-12-31",
    "infinity",
    "-infinity",
    "5874897-12-31",
    "1883-11-18",
    "2024-03-31",
];

const MOMENTS: &[&str] = &[
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "2024-02-29 12:34:56.789012",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "4713-01-01 00:00:00 BC",
    "262142-12-31 23:59:59.999999",
    "294246-01-10 04:00:54.775807",
    "294276-12-31 23:59:59.999999",
    "infinity",
    "-infinity",
    "0044-03-15 12:00:00 BC",
    "2024-03-31 02:30:00",
    "1677-09-21 00:12:43",
    "2262-04-11 23:47:17",
];

/// The types of columns.
#[rustfmt::skip]
pub const TYPES: &[Type] = &[
    ty("boolean", "bool", SqlType::Boolean, &["true", "false"]),
    ty("smallint", "int2", SqlType::SmallInt, &["0", "1", "-1", "7", "32767", "-32768", "2", "100"]),
    ty("integer", "int4", SqlType::Integer, &[
        "0", "1", "-1", "2", "7", "64", "2147483647", "-2147483648", "1000000", "-7", "31",
    ]),
    ty("bigint", "int8", SqlType::BigInt, &[
        "0", "1", "-1", "3", "63", "4294967296", "9223372036854775807", "-9223372036854775808", "20",
        "9223372036854775", "-9223372036854776", "86400000000", "1114112", "55296",
    ]),
    ty("real", "float4", SqlType::Real, FLOATS),
    ty("double precision", "float8", SqlType::Double, DOUBLES),
    ty("numeric(30, 8)", "numeric", decimal(30, 8), &[
        "0", "1", "-1", "0.5", "-2.5", "1e21", "-1e21", "9999999999999999999999.99999999",
        "0.00000001", "170", "3", "NaN",
    ]),
    ty("numeric(38, 0)", "numeric", decimal(38, 0), &[
        "0", "1", "-1", "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999", "9223372036854775808", "2",
    ]),
    ty("numeric(38, 38)", "numeric", decimal(38, 38), &[
        "0", "0.99999999999999999999999999999999999999", "-0.5",
        "0.00000000000000000000000000000000000001",
    ]),
    ty("numeric(10, 2)", "numeric", decimal(10, 2), &["0", "1.25", "-2.5", "99999999.99", "-99999999.99"]),
    ty("text", "text", SqlType::Text, &[
        "", "a", "  A b ", "äÖ€", "😀", "e\u{301}\u{202e}\u{200d}", "İıßſ", "%", "_%_%a", "\\", "''",
        "(a*)*b", "[", "(?<n>x)", "1", "-1", "1e400", "NaN", "infinity", "true", "{1,2,NULL}", "{",
        "[1:2]={1,2}", "2024-02-29", "2024-02-29 25:00", "24:00:00", "1 day", "P1Y2M3DT4H", "UTC",
        "Europe/Berlin", "+14:59", "day", "century", "epoch", "timezone", "microseconds", "pg_class",
        "t", "base64", "hex", "escape", "sha256", "%Y-%m-%d %H", "YYYY", "g", "\\1\\&", "%s %I %L %%",
        "\\x00", "abc,def", "9223372036854775808", "00000000-0000-0000-0000-00000000000g", "\u{7f}\u{1}",
    ]),
    ty("varchar(5)", "varchar", SqlType::Varchar(Some(5)), &["", "abc", "ä€😀", "12345"]),
    ty("char(3)", "bpchar", SqlType::Char(Some(3)), &["", "a", "ab ", "😀"]),
    ty("bytea", "bytea", SqlType::Bytea, &["\\x", "\\x00", "\\xff00fe", "\\x61626364", "abc"]),
    ty("date", "date", SqlType::Date, DAYS),
    ty("time", "time", SqlType::Time, &["00:00", "23:59:59.999999", "24:00:00", "12:34:56.7"]),
    ty("timestamp", "timestamp", SqlType::Timestamp, MOMENTS),
    ty("timestamp with time zone", "timestamptz", SqlType::TimestampTz, MOMENTS),
    ty("interval", "interval", SqlType::Interval, &[
        "0", "1 day", "-1 mon", "1 mon -1 day 3 hours", "2147483647 months", "-2147483648 months",
        "2147483647 days", "-2147483648 days", "9223372036854775807 microseconds", "1 microsecond",
        "-9223372036854775807 microseconds", "178000000 years", "infinity", "0.5 seconds", "1 week",
    ]),
    ty("uuid", "uuid", SqlType::Uuid, &[
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ]),
];

/// Columns of each type in the table.
pub const COLUMNS: usize = 2;

/// Rows of the table.
pub const ROWS: usize = 40;

/// The name of a type's column.
pub fn column(ty: usize, number: usize) -> String {
    format!("c{ty}_{number}")
}

/// The values that are in the table `t`.
pub struct Values {
    /// By type, column and row; `None` is NULL.
    cells: Vec<[Vec<Option<&'static str>>; COLUMNS]>,
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Values {
    /// The table `t` with ROWS rows of values, and `u` of the same columns, empty. Values that a type
    /// does not have are left out, and so are long texts.
    pub fn fill(session: &mut Session, rng: &mut Rng) -> Self {
        let mut cells = Vec::new();
        for ty in TYPES {
            let taken = |value: &&&str| {
                let text = format!("SELECT CAST({} AS {})", quoted(value), ty.name);
                session.query(text.as_str(), &[]).and_then(|rows| rows.collect()).is_ok()
            };
            let mut session_values: Vec<Option<&str>> =
                ty.values.iter().filter(taken).map(|value| Some(*value)).collect();
            assert!(!session_values.is_empty(), "no value of {}", ty.name);
            session_values.push(None);
            let in_turn = |row| session_values[row % session_values.len()];
            cells.push([
                (0..ROWS).map(in_turn).collect(),
                (0..ROWS).map(|_| *rng.pick(&session_values)).collect(),
            ]);
        }
        let values = Values { cells };
        let columns = all_columns().map(|(ty, number)| (ty, column(ty, number)));
        let columns: Vec<String> =
            columns.map(|(ty, name)| format!("{name} {}", TYPES[ty].name)).collect();
        for table in ["t", "u"] {
            let columns = columns.join(", ");
            let text = format!("CREATE TABLE {table} (id integer PRIMARY KEY, {columns})");
            session.batch(&text).expect("a table");
        }
        for row in 0..ROWS {
            let cells = all_columns().map(|(ty, number)| values.constant(ty, number, row));
            let cells: Vec<String> = cells.collect();
            let text = format!("INSERT INTO t VALUES ({row}, {})", cells.join(", "));
            session.batch(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
        values
    }

    /// A column's value in a row as a constant of its type.
    pub fn constant(&self, ty: usize, number: usize, row: usize) -> String {
        format!("CAST({} AS {})", self.bare(ty, number, row), TYPES[ty].name)
    }

    /// A column's value in a row as a constant of no type.
    pub fn bare(&self, ty: usize, number: usize, row: usize) -> String {
        self.cells[ty][number][row].map_or("NULL".to_owned(), quoted)
    }
}

/// Types and numbers of all columns.
pub fn all_columns() -> impl Iterator<Item = (usize, usize)> {
    (0..TYPES.len()).flat_map(|ty| (0..COLUMNS).map(move |number| (ty, number)))
}
