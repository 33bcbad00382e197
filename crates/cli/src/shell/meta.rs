//! Backslash commands: their names, the parsing of their lines, the queries of `\d`.
//!
//! The queries use `pg_catalog` as psql's do, in simpler forms, so they serve an embedded
//! database, a Halcyon server and PostgreSQL alike.

/// A backslash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    /// `\q`
    Quit,
    /// `\?`
    Help,
    /// `\h [word]`
    SqlHelp(String),
    /// `\d name`: a table, view, index or sequence in full.
    Describe(String),
    /// `\d`, `\dt`, `\di`, `\dv`, `\ds`, with an optional pattern: kinds as in `pg_class.relkind`.
    List { kinds: &'static str, pattern: String },
    /// `\dn`
    Schemas,
    /// `\du`
    Roles,
    /// `\l`
    Databases,
    /// `\timing [on|off]`
    Timing(Option<bool>),
    /// `\x [on|off|auto]`
    Expanded(Option<Expanded>),
    /// `\format [table|csv|json]`
    Format(String),
    /// `\null TEXT`, `\pset null TEXT`
    Null(String),
    /// `\i FILE`
    Include(String),
    /// `\copy …`
    Copy(String),
    /// `\conninfo`
    Connection,
    /// `\echo TEXT`
    Echo(String),
}

/// The argument of `\x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// Always records.
    On,
    /// Always tables.
    Off,
    /// Records where a table would be wider than the terminal.
    Auto,
}

/// Names, arguments and purposes, for `\?` and completion.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("\\d", "[NAME]", "tables, views, indexes and sequences; or one of them in full"),
    ("\\dt", "[PATTERN]", "tables"),
    ("\\dv", "[PATTERN]", "views"),
    ("\\di", "[PATTERN]", "indexes"),
    ("\\ds", "[PATTERN]", "sequences"),
    ("\\dn", "", "schemas"),
    ("\\du", "", "roles"),
    ("\\l", "", "databases"),
    ("\\timing", "[on|off]", "show how long statements take"),
    ("\\x", "[on|off|auto]", "one line per column"),
    ("\\format", "[table|csv|json]", "how results are printed"),
    ("\\null", "TEXT", "what stands for NULL in tables"),
    ("\\i", "FILE", "run the statements of a file"),
    ("\\copy", "TABLE FROM|TO FILE …", "COPY between a table and a file of this machine"),
    ("\\conninfo", "", "which database this is"),
    ("\\echo", "TEXT", "print it"),
    ("\\h", "[WORD]", "shape of a SQL statement"),
    ("\\?", "", "this list"),
    ("\\q", "", "leave"),
];

/// Reads a line that starts with a backslash.
pub fn parse(line: &str) -> Result<Meta, String> {
    let line = line.trim();
    let (command, rest) = match line.find(char::is_whitespace) {
        Some(end) => (&line[..end], line[end..].trim()),
        None => (line, ""),
    };
    let argument = unquote(rest.trim_end_matches(';').trim_end());
    let command = command.trim_end_matches(';');
    let list = |kinds| Ok(Meta::List { kinds, pattern: argument.clone() });
    // `\dt+` and `\dtS` ask psql for more; here the list is the same.
    match command.trim_end_matches(['+', 'S']) {
        "\\q" => Ok(Meta::Quit),
        "\\?" => Ok(Meta::Help),
        "\\h" => Ok(Meta::SqlHelp(argument)),
        "\\d" if !argument.is_empty() => Ok(Meta::Describe(argument)),
        "\\d" => list("rvmS"),
        "\\dt" => list("r"),
        "\\dv" => list("v"),
        "\\di" => list("i"),
        "\\ds" => list("S"),
        "\\dn" => Ok(Meta::Schemas),
        "\\du" | "\\dg" => Ok(Meta::Roles),
        "\\l" => Ok(Meta::Databases),
        "\\timing" => Ok(Meta::Timing(switch("\\timing", &argument)?)),
        "\\x" if argument == "auto" => Ok(Meta::Expanded(Some(Expanded::Auto))),
        "\\x" => Ok(Meta::Expanded(
            switch("\\x", &argument)?.map(|on| if on { Expanded::On } else { Expanded::Off }),
        )),
        "\\format" => Ok(Meta::Format(argument)),
        "\\null" => Ok(Meta::Null(argument)),
        "\\pset" => match rest.split_once(char::is_whitespace) {
            Some(("null", text)) => Ok(Meta::Null(unquote(text.trim()))),
            _ => Err("\\pset: only `null` can be set here".into()),
        },
        "\\i" if argument.is_empty() => Err("\\i: which file?".into()),
        "\\i" => Ok(Meta::Include(argument)),
        "\\copy" => Ok(Meta::Copy(rest.trim_end_matches(';').to_owned())),
        "\\conninfo" => Ok(Meta::Connection),
        "\\echo" => Ok(Meta::Echo(unquote(rest))),
        other => Err(format!("there is no command {other}; \\? lists them")),
    }
}

fn unquote(text: &str) -> String {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inner.map_or_else(|| text.to_owned(), |inner| inner.replace("''", "'"))
}

fn switch(command: &str, argument: &str) -> Result<Option<bool>, String> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" | "true" | "1" => Ok(Some(true)),
        "off" | "false" | "0" => Ok(Some(false)),
        other => Err(format!("{command}: {other:?} is neither on nor off")),
    }
}

/// A name as a SQL literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Schema and name of a pattern; each is a LIKE pattern made of psql's `*` and `?`.
fn split_pattern(pattern: &str) -> (Option<String>, Option<String>) {
    let like = |part: &str| {
        let part = match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => part.to_lowercase(),
        };
        let escaped = part.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        escaped.replace('*', "%").replace('?', "_")
    };
    match pattern.split_once('.') {
        _ if pattern.is_empty() => (None, None),
        Some((schema, name)) => (Some(like(schema)), Some(like(name))),
        None => (None, Some(like(pattern))),
    }
}

/// The condition on `n.nspname` and `c.relname` for a pattern.
fn condition(pattern: &str) -> String {
    let (schema, name) = split_pattern(pattern);
    let schema = match schema {
        Some(schema) => format!("n.nspname LIKE {}", literal(&schema)),
        None => "n.nspname NOT IN ('pg_catalog', 'information_schema', 'halcyon')".to_owned(),
    };
    match name {
        Some(name) => format!("{schema} AND c.relname LIKE {}", literal(&name)),
        None => schema,
    }
}

/// The list of relations of some kinds.
pub fn list_query(kinds: &str, pattern: &str) -> String {
    let kinds: Vec<String> = kinds.chars().map(|kind| format!("'{kind}'")).collect();
    let table = if kinds == ["'i'"] {
        (
            ", t.relname AS \"Table\"",
            " JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid \
              JOIN pg_catalog.pg_class t ON t.oid = i.indrelid",
        )
    } else {
        ("", "")
    };
    format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", CASE c.relkind WHEN 'r' THEN \
         'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' \
         WHEN 'S' THEN 'sequence' ELSE 'other' END AS \"Type\", \
         pg_catalog.pg_get_userbyid(c.relowner) AS \"Owner\"{} \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace{} \
         WHERE c.relkind IN ({}) AND {} ORDER BY 1, 2",
        table.0,
        table.1,
        kinds.join(", "),
        condition(pattern),
    )
}

/// `\dn`
pub const SCHEMAS: &str = "SELECT n.nspname AS \"Name\", \
    pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\" FROM pg_catalog.pg_namespace n \
    WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1";

/// `\du`
pub const ROLES: &str = "SELECT r.rolname AS \"Role\", r.rolsuper AS \"Superuser\", \
    r.rolcanlogin AS \"Login\" FROM pg_catalog.pg_roles r ORDER BY 1";

/// `\l`
pub const DATABASES: &str = "SELECT d.datname AS \"Name\", \
    pg_catalog.pg_encoding_to_char(d.encoding) AS \"Encoding\", d.datcollate AS \"Collate\" \
    FROM pg_catalog.pg_database d ORDER BY 1";

/// Relations that a name given to `\d` means: oid, schema, name, kind.
pub fn find_query(name: &str) -> String {
    format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {} \
         ORDER BY 2, 3",
        condition(name),
    )
}

/// Columns of a relation.
pub fn columns_query(oid: &str) -> String {
    format!(
        "SELECT a.attname AS \"Column\", pg_catalog.format_type(a.atttypid, a.atttypmod) AS \
         \"Type\", CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS \"Nullable\", \
         CASE WHEN a.attidentity = 'a' THEN 'generated always as identity' \
         WHEN a.attidentity = 'd' THEN 'generated by default as identity' \
         ELSE COALESCE(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') END AS \"Default\" \
         FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d \
         ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
}

/// Indexes of a table: name, primary, unique, definition.
pub fn indexes_query(oid: &str) -> String {
    format!(
        "SELECT c.relname, i.indisprimary, i.indisunique, \
         pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = {oid} \
         ORDER BY i.indisprimary DESC, c.relname"
    )
}

/// Constraints of a table other than keys, and those of others that point at it:
/// name, kind, definition, table.
pub fn constraints_query(oid: &str) -> String {
    format!(
        "SELECT r.conname, r.contype, pg_catalog.pg_get_constraintdef(r.oid), t.relname, \
         r.conrelid = {oid} FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_class t \
         ON t.oid = r.conrelid WHERE (r.conrelid = {oid} AND r.contype IN ('c', 'f')) \
         OR (r.confrelid = {oid} AND r.contype = 'f') ORDER BY 5 DESC, 2, 1"
    )
}

/// Text of a view.
pub fn view_query(oid: &str) -> String {
    format!("SELECT pg_catalog.pg_get_viewdef({oid})")
}

/// Shapes of statements, for `\h`.
pub const SQL_HELP: &[(&str, &str)] = &[
    (
        "SELECT",
        "[WITH …] SELECT expr [AS name], … FROM table [JOIN …] WHERE … GROUP BY … HAVING … ORDER BY … LIMIT n OFFSET n [FOR UPDATE]",
    ),
    (
        "INSERT",
        "INSERT INTO table [(column, …)] VALUES (…), … | SELECT … [ON CONFLICT (…) DO NOTHING | DO UPDATE SET …] [RETURNING …]",
    ),
    ("UPDATE", "UPDATE table SET column = expr, … [FROM …] [WHERE …] [RETURNING …]"),
    ("DELETE", "DELETE FROM table [USING …] [WHERE …] [RETURNING …]"),
    (
        "COPY",
        "COPY table [(column, …)] | (query) FROM | TO 'file' | STDIN | STDOUT [WITH (FORMAT csv | parquet, HEADER, DELIMITER ',', NULL '…')]",
    ),
    (
        "CREATE TABLE",
        "CREATE TABLE name (column type [NOT NULL] [DEFAULT expr] [PRIMARY KEY | UNIQUE | CHECK (…) | REFERENCES table], …) [WITH (partition_by = 'column', partitions = n)]",
    ),
    ("CREATE INDEX", "CREATE [UNIQUE] INDEX [name] ON table (column [DESC], …)"),
    ("CREATE VIEW", "CREATE [OR REPLACE] VIEW name AS SELECT …"),
    ("CREATE SEQUENCE", "CREATE SEQUENCE name [START n] [INCREMENT n]"),
    ("CREATE SCHEMA", "CREATE SCHEMA name"),
    ("CREATE ROLE", "CREATE ROLE name [LOGIN] [PASSWORD '…']"),
    (
        "ALTER TABLE",
        "ALTER TABLE name ADD COLUMN … | DROP COLUMN … | ALTER COLUMN … | RENAME … | ADD CONSTRAINT …",
    ),
    ("GRANT", "GRANT SELECT | INSERT | UPDATE | DELETE | ALL ON table TO role"),
    ("BEGIN", "BEGIN [ISOLATION LEVEL SERIALIZABLE | READ COMMITTED] [READ ONLY]"),
    ("COMMIT", "COMMIT"),
    ("ROLLBACK", "ROLLBACK [TO SAVEPOINT name]"),
    ("SAVEPOINT", "SAVEPOINT name"),
    ("EXPLAIN", "EXPLAIN [ANALYZE] statement"),
    ("TRUNCATE", "TRUNCATE table"),
    ("DROP", "DROP TABLE | INDEX | VIEW | SEQUENCE | SCHEMA | ROLE [IF EXISTS] name [CASCADE]"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_their_arguments() {
        let cases = [
            ("\\q", Meta::Quit),
            ("\\d item", Meta::Describe("item".into())),
            ("\\d+ item;", Meta::Describe("item".into())),
            ("\\d", Meta::List { kinds: "rvmS", pattern: String::new() }),
            ("\\dt+ shop.*", Meta::List { kinds: "r", pattern: "shop.*".into() }),
            ("\\timing on", Meta::Timing(Some(true))),
            ("\\timing", Meta::Timing(None)),
            ("\\x auto", Meta::Expanded(Some(Expanded::Auto))),
            ("\\i 'a file.sql'", Meta::Include("a file.sql".into())),
            ("\\pset null '-'", Meta::Null("-".into())),
            ("\\copy t from 'x.csv' csv", Meta::Copy("t from 'x.csv' csv".into())),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert!(parse("\\nonsense").unwrap_err().contains("there is no command \\nonsense"));
        assert!(parse("\\timing maybe").is_err());
        assert!(parse("\\i").is_err());
    }

    #[test]
    fn patterns_become_like() {
        assert_eq!(condition("shop.o*_?"), "n.nspname LIKE 'shop' AND c.relname LIKE 'o%\\__'");
        assert!(condition("It's").ends_with("c.relname LIKE 'it''s'"));
        assert!(condition("\"It\"").ends_with("c.relname LIKE 'It'"));
    }

    #[test]
    fn every_command_in_the_list_is_known() {
        for (name, ..) in COMMANDS {
            let line = if *name == "\\i" { "\\i f" } else { name };
            assert!(parse(line).is_ok(), "{name}");
        }
    }
}
