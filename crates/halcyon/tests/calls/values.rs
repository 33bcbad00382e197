//! Extreme and odd values of every type, and the table that holds them.
//!
//! Every type of `pg_type` that a cast takes a text to is one of them, so that a new type is among the arguments
//! by itself. Texts of its values are those of all other types that it takes; who adds a type lists its ends in
//! [`LISTED`] as well.

use std::sync::OnceLock;

use arrow::datatypes::DataType;
use halcyon::{Session, Value};
use halcyon_base::rng::Rng;

/// A type whose values' ends are known.
struct Listed {
    name: &'static str,
    catalog_name: &'static str,
    values: &'static [&'static str],
}

const fn listed(
    name: &'static str,
    catalog_name: &'static str,
    values: &'static [&'static str],
) -> Listed {
    Listed { name, catalog_name, values }
}

/// A type of arguments.
pub struct Type {
    /// The name in SQL.
    pub name: String,
    /// The name in `pg_type`.
    pub catalog_name: String,
    /// How the planner sees a column of the type. `None`: no column has it.
    pub arrow: Option<DataType>,
    /// Texts of values that the type has.
    values: Vec<&'static str>,
}

static TYPES: OnceLock<Vec<Type>> = OnceLock::new();

/// The types of arguments, the same list in every process.
///
/// Panics: before [`Values::fill`].
pub fn types() -> &'static [Type] {
    TYPES.get().expect("the values are filled first")
}

const JSON: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "1e400",
    "1.00",
    "\"\"",
    "\"\\u0000\"",
    "\"😀\"",
    "[]",
    "{}",
    "[[[]]]",
    "[1, null, \"a\", {}]",
    "{\"a\": 1, \"a\": 2}",
    "{\"\": {\"a\": [1, {\"b\": null}]}}",
    "99999999999999999999999999999999999999999",
    "[{\"a\": 1, \"b\": \"x\"}, {\"a\": null}]",
];

const ADDRESSES: &[&str] = &[
    "0.0.0.0/0",
    "255.255.255.255",
    "10.0.0.0/8",
    "10.1.2.3/8",
    "::/0",
    "::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "::ffff:1.2.3.4/128",
    "fe80::/10",
    "10",
    "192.168.1.0/31",
];

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

/// Types whose ends are known, with the texts of their values as a cast takes them. They come first, so that the
/// numbers of their columns are known to [`crate::cases`].
#[rustfmt::skip]
const LISTED: &[Listed] = &[
    listed("boolean", "bool", &["true", "false"]),
    listed("smallint", "int2", &["0", "1", "-1", "7", "32767", "-32768", "2", "100"]),
    listed("integer", "int4", &[
        "0", "1", "-1", "2", "7", "64", "2147483647", "-2147483648", "1000000", "-7", "31",
    ]),
    listed("bigint", "int8", &[
        "0", "1", "-1", "3", "63", "4294967296", "9223372036854775807", "-9223372036854775808", "20",
        "9223372036854775", "-9223372036854776", "86400000000", "1114112", "55296",
    ]),
    listed("real", "float4", FLOATS),
    listed("double precision", "float8", DOUBLES),
    listed("numeric(30, 8)", "numeric", &[
        "0", "1", "-1", "0.5", "-2.5", "1e21", "-1e21", "9999999999999999999999.99999999",
        "0.00000001", "170", "3", "NaN",
    ]),
    listed("numeric(38, 0)", "numeric", &[
        "0", "1", "-1", "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999", "9223372036854775808", "2",
    ]),
    listed("numeric(38, 38)", "numeric", &[
        "0", "0.99999999999999999999999999999999999999", "-0.5",
        "0.00000000000000000000000000000000000001",
    ]),
    listed("numeric(10, 2)", "numeric", &["0", "1.25", "-2.5", "99999999.99", "-99999999.99"]),
    listed("text", "text", &[
        "", "a", "  A b ", "äÖ€", "😀", "e\u{301}\u{202e}\u{200d}", "İıßſ", "%", "_%_%a", "\\", "''",
        "(a*)*b", "[", "(?<n>x)", "1", "-1", "1e400", "NaN", "infinity", "true", "{1,2,NULL}", "{",
        "[1:2]={1,2}", "2024-02-29", "2024-02-29 25:00", "24:00:00", "1 day", "P1Y2M3DT4H", "UTC",
        "Europe/Berlin", "+14:59", "day", "century", "epoch", "timezone", "microseconds", "pg_class",
        "t", "base64", "hex", "escape", "sha256", "%Y-%m-%d %H", "YYYY", "g", "\\1\\&", "%s %I %L %%",
        "\\x00", "abc,def", "9223372036854775808", "00000000-0000-0000-0000-00000000000g", "\u{7f}\u{1}",
    ]),
    listed("varchar(5)", "varchar", &["", "abc", "ä€😀", "12345"]),
    listed("char(3)", "bpchar", &["", "a", "ab ", "😀"]),
    listed("bytea", "bytea", &["\\x", "\\x00", "\\xff00fe", "\\x61626364", "abc"]),
    listed("date", "date", DAYS),
    listed("time", "time", &["00:00", "23:59:59.999999", "24:00:00", "12:34:56.7"]),
    listed("timestamp", "timestamp", MOMENTS),
    listed("timestamp with time zone", "timestamptz", MOMENTS),
    listed("interval", "interval", &[
        "0", "1 day", "-1 mon", "1 mon -1 day 3 hours", "2147483647 months", "-2147483648 months",
        "2147483647 days", "-2147483648 days", "9223372036854775807 microseconds", "1 microsecond",
        "-9223372036854775807 microseconds", "178000000 years", "infinity", "0.5 seconds", "1 week",
    ]),
    listed("uuid", "uuid", &[
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ]),
    listed("json", "json", JSON), listed("jsonb", "jsonb", JSON),
    listed("inet", "inet", ADDRESSES), listed("cidr", "cidr", ADDRESSES),
    listed("macaddr", "macaddr", &[
        "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "08-00-2b-01-02-03", "08002b010203", "0800.2b01.0203",
    ]),
    listed("mood", "mood", &["", "glad", "sad 😀", "NULL"]),
    listed("small", "small", &["0", "1", "99", "-1"]),
    listed("regclass", "regclass", &["t", "pg_class", "0", "4294967295", "-"]),
    listed("jsonpath", "jsonpath", &[
        "$", "strict $.a[*] ? (@ > 1)", "$.**{2 to last}", "$[last - 9223372036854775807]", "-$[*]", "$.type()",
        "$ ? (@ like_regex \"(a*)*b\" flag \"q\")", "$.double()", "1e400", "$x.y", "$.keyvalue()",
    ]),
];

/// Types that the catalog does not have by itself, which the listed ones name.
const DEFINED: &str = "CREATE TYPE mood AS ENUM ('', 'glad', 'sad 😀', 'NULL'); \
    CREATE DOMAIN small AS integer CHECK (VALUE < 100)";

/// Texts of arrays of any type.
const ARRAYS: &[&str] = &[
    "{}",
    "{NULL}",
    "{1}",
    "{0,1,NULL}",
    "{1.5,-1.5}",
    "{a,\"\",NULL}",
    "{t,f}",
    "{2024-02-29,infinity,NULL}",
    "{12:34,24:00:00}",
    "{1 day,-1 mon,NULL}",
    "{\"\\\\x00\",NULL}",
    "{00000000-0000-0000-0000-000000000000,NULL}",
    "{10.0.0.0/8,::1}",
    "{08:00:2b:01:02:03,NULL}",
    "{\"[1]\",\"{}\",NULL}",
    "{glad,NULL,\"NULL\"}",
    "{t,pg_class}",
    "{9223372036854775807,-9223372036854775808}",
    "{NaN,Infinity,-0}",
    "{$,$.a}",
    "{{1,2},{3,4}}",
    "1 2",
    "",
];

/// Columns of each type in the table.
pub const COLUMNS: usize = 2;

/// Rows of the table.
pub const ROWS: usize = 40;

/// The name of a type's column.
fn name(ty: usize, number: usize) -> String {
    format!("c{ty}_{number}")
}

/// A type's column. Types that no column has are kept as texts.
pub fn column(ty: usize, number: usize) -> String {
    let name = name(ty, number);
    match &types()[ty] {
        ty if ty.arrow.is_none() => format!("CAST({name} AS {})", ty.name),
        _ => name,
    }
}

/// The values that are in the table `t`.
pub struct Values {
    /// By type, column and row; `None` is NULL.
    cells: Vec<[Vec<Option<&'static str>>; COLUMNS]>,
    /// The columns that are in `u` too: those of types of which a materialized view makes columns.
    viewed: Vec<String>,
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether the statement is answered.
fn runs(session: &mut Session, text: &str) -> bool {
    session.query(text, &[]).and_then(|rows| rows.collect()).is_ok()
}

/// Names of the types that a cast takes some text to, of elements and of arrays, but for those of the catalog's rows.
fn catalog_names(session: &mut Session) -> Vec<String> {
    let text = "SELECT t.typname FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem \
                WHERE t.typtype IN ('b', 'e', 'd', 'r', 'm') AND COALESCE(e.typtype, 'b') <> 'c' \
                AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace n WHERE n.oid = t.typnamespace \
                    AND n.nspname = 'information_schema') \
                ORDER BY t.oid";
    let rows = session.query(text, &[]).and_then(|rows| rows.collect()).expect("types");
    let name = |row: &Vec<Value>| match &row[0] {
        Value::Text(name) => name.to_string(),
        other => panic!("the name of a type is {other:?}"),
    };
    // The cast is to the type "char", whose name without quotes is another's.
    rows.iter().map(name).filter(|name| name != "char").collect()
}

/// How the planner sees a column of a type, which `t` gets and gives back.
fn arrow(session: &mut Session, name: &str) -> Option<DataType> {
    session.batch(&format!("CREATE TABLE t (x {name})")).ok()?;
    let rows = session.query("SELECT x FROM t", &[]).expect("a column");
    let ty = rows.columns()[0].ty;
    drop(rows);
    session.batch("DROP TABLE t").expect("the table is there");
    ty.map(|ty| ty.arrow())
}

/// All types: the listed ones, then those that the catalog has beside them.
fn collect_types(session: &mut Session) -> Vec<Type> {
    session.batch(DEFINED).expect("the types of this test");
    let mut all: Vec<Type> = Vec::new();
    let mut add =
        |session: &mut Session, name: &str, catalog_name: &str, texts: &[&'static str]| {
            println!("type {catalog_name}");
            if !runs(session, &format!("SELECT CAST(NULL AS {name})")) {
                // Only a name in the catalog.
                return;
            }
            let taken =
                |text: &&&str| runs(session, &format!("SELECT CAST({} AS {name})", quoted(text)));
            let values: Vec<&'static str> = texts.iter().filter(taken).copied().collect();
            if !values.is_empty() {
                let (name, catalog_name) = (name.to_owned(), catalog_name.to_owned());
                let arrow = arrow(session, &name);
                all.push(Type { name, catalog_name, arrow, values });
            }
        };
    for ty in LISTED {
        add(session, ty.name, ty.catalog_name, ty.values);
    }
    let mut texts: Vec<&str> = LISTED.iter().flat_map(|ty| ty.values).copied().collect();
    texts.sort_unstable();
    texts.dedup();
    texts.extend(ARRAYS);
    for catalog_name in catalog_names(session) {
        let is_listed = LISTED.iter().any(|ty| ty.catalog_name == catalog_name);
        match catalog_name.strip_prefix('_') {
            Some(_) => add(session, &catalog_name, &catalog_name, ARRAYS),
            None if is_listed => {}
            None => add(session, &catalog_name, &catalog_name, &texts),
        }
    }
    assert!(all.len() > LISTED.len());
    all
}

impl Values {
    /// The table `t` with ROWS rows of values, and `u` of the same columns that views hold, empty. Values that a
    /// type does not have are left out, and so are long texts.
    pub fn fill(session: &mut Session, rng: &mut Rng) -> Self {
        let types = TYPES.get_or_init(|| collect_types(session));
        let mut cells = Vec::new();
        for ty in types {
            let mut values: Vec<Option<&str>> =
                ty.values.iter().map(|value| Some(*value)).collect();
            values.push(None);
            let in_turn = |row| values[row % values.len()];
            cells.push([
                (0..ROWS).map(in_turn).collect(),
                (0..ROWS).map(|_| *rng.pick(&values)).collect(),
            ]);
        }
        let declared = |(ty, number): (usize, usize)| match &types[ty] {
            Type { arrow: None, .. } => format!("{} text", name(ty, number)),
            Type { name: of, .. } => format!("{} {of}", name(ty, number)),
        };
        let columns: Vec<String> = all_columns().map(declared).collect();
        let table = |name: &str, columns: &[String]| {
            format!("CREATE TABLE {name} (id integer PRIMARY KEY, {})", columns.join(", "))
        };
        session.batch(&table("t", &columns)).expect("a table");
        let is_viewed = |ty: &usize| {
            let column = column(*ty, 0);
            let view = format!(
                "CREATE MATERIALIZED VIEW v AS SELECT id, {column} AS x FROM t GROUP BY id, {column}"
            );
            let is_viewed =
                session.batch(&table("t", &[declared((*ty, 0))]).replace(" t ", " w ")).is_ok()
                    && session.batch(&view.replace("FROM t", "FROM w")).is_ok();
            session.batch("DROP TABLE IF EXISTS w CASCADE").expect("dropped");
            is_viewed
        };
        let viewed: Vec<usize> = (0..types.len()).filter(is_viewed).collect();
        let viewed = all_columns().filter(|(ty, _)| viewed.contains(ty));
        let (viewed, of_u): (Vec<_>, Vec<_>) =
            viewed.map(|(ty, number)| (name(ty, number), declared((ty, number)))).unzip();
        session.batch(&table("u", &of_u)).expect("a table");
        let values = Values { cells, viewed };
        for row in 0..ROWS {
            let cells = all_columns().map(|(ty, number)| match types[ty].arrow {
                None => values.bare(ty, number, row),
                Some(_) => values.constant(ty, number, row),
            });
            let cells: Vec<String> = cells.collect();
            let text = format!("INSERT INTO t VALUES ({row}, {})", cells.join(", "));
            session.batch(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
        values
    }

    /// The columns of `u` but the key, in a list.
    pub fn viewed(&self) -> String {
        self.viewed.join(", ")
    }

    /// A column's value in a row as a constant of its type.
    pub fn constant(&self, ty: usize, number: usize, row: usize) -> String {
        format!("CAST({} AS {})", self.bare(ty, number, row), types()[ty].name)
    }

    /// A column's value in a row as a constant of no type.
    pub fn bare(&self, ty: usize, number: usize, row: usize) -> String {
        self.cells[ty][number][row].map_or("NULL".to_owned(), quoted)
    }
}

/// Types and numbers of all columns.
fn all_columns() -> impl Iterator<Item = (usize, usize)> {
    (0..types().len()).flat_map(|ty| (0..COLUMNS).map(move |number| (ty, number)))
}
