//! Line editing: completion of keywords, names and commands, and the test whether a statement is
//! complete.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::meta;
use super::scan::{self, Scan};

/// Names that completion offers, as last read from the catalog.
#[derive(Debug, Default)]
pub struct Names {
    /// Relations, as they are written.
    pub relations: Vec<String>,
    /// (relation, column).
    pub columns: Vec<(String, String)>,
}

/// Names shared between the shell, which reads the catalog, and the line editor.
pub type SharedNames = Arc<Mutex<Names>>;

/// The helper of the line editor rustyline.
pub struct Assistant {
    names: SharedNames,
    files: FilenameCompleter,
}

impl Assistant {
    /// An assistant that knows `names`.
    pub fn new(names: SharedNames) -> Self {
        Assistant { names, files: FilenameCompleter::new() }
    }
}

/// Words of SQL that are worth completing.
const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASCADE",
    "CASE",
    "CAST",
    "CHAR",
    "CHECK",
    "COLUMN",
    "COMMENT",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DO",
    "DOUBLE PRECISION",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FOR UPDATE",
    "FOREIGN KEY",
    "FROM",
    "FULL",
    "GENERATED",
    "GRANT",
    "GROUP BY",
    "HAVING",
    "IDENTITY",
    "IF EXISTS",
    "IF NOT EXISTS",
    "IN",
    "INDEX",
    "INNER",
    "INSERT INTO",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "ISOLATION LEVEL",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS FIRST",
    "NULLS LAST",
    "NUMERIC",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OUTER",
    "PARTITION BY",
    "PREPARE",
    "PRIMARY KEY",
    "READ COMMITTED",
    "READ ONLY",
    "REAL",
    "REFERENCES",
    "RENAME",
    "RESTRICT",
    "RETURNING",
    "REVOKE",
    "RIGHT",
    "ROLE",
    "ROLLBACK",
    "SAVEPOINT",
    "SCHEMA",
    "SELECT",
    "SEQUENCE",
    "SERIALIZABLE",
    "SET",
    "SHOW",
    "SMALLINT",
    "TABLE",
    "TEXT",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "UUID",
    "VALUES",
    "VARCHAR",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The start of the word before the cursor, and the words that may stand there.
pub fn candidates(line: &str, names: &Names) -> (usize, Vec<String>) {
    let start = line
        .rfind(|c: char| !is_name(c))
        .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
    if line.starts_with('\\') && !line.contains(char::is_whitespace) {
        let commands = meta::COMMANDS.iter().map(|(name, ..)| (*name).to_owned());
        return (0, commands.filter(|name| name.starts_with(line)).collect());
    }
    let word = line[start..].to_lowercase();
    let fits = |name: &str| name.to_lowercase().starts_with(&word);
    let before = &line[..start];
    if let Some(before) = before.strip_suffix('.') {
        let qualifier = before.rsplit(|c| !is_name(c)).next().unwrap_or("");
        let is_of = |name: &str| name.eq_ignore_ascii_case(qualifier);
        let columns = names.columns.iter().filter(|(table, name)| is_of(table) && fits(name));
        return (start, sorted(columns.map(|(_, name)| quoted(name))));
    }
    let relations = names.relations.iter().filter(|name| fits(name)).map(|name| quoted(name));
    if line.starts_with("\\d") {
        return (start, sorted(relations));
    }
    if word.is_empty() {
        return (start, Vec::new());
    }
    let columns = names.columns.iter().filter(|(_, name)| fits(name)).map(|(_, name)| quoted(name));
    let lower = line[start..].chars().any(char::is_lowercase);
    let spelled = |keyword: &&str| if lower { keyword.to_lowercase() } else { (*keyword).into() };
    let keywords = KEYWORDS.iter().filter(|keyword| fits(keyword)).map(spelled);
    (start, sorted(relations.chain(columns).chain(keywords)))
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// The name as SQL must write it.
pub fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Whether Enter ends the input: a command, nothing, or statements that all have their `;`.
pub fn is_whole(input: &str) -> bool {
    if input.trim_start().starts_with('\\') {
        return true;
    }
    let mut rest = input;
    loop {
        match scan::scan(rest) {
            Scan::Complete(end) => rest = &rest[end..],
            Scan::Incomplete(scan::Open::Nothing) => return scan::is_blank(rest),
            Scan::Incomplete(_) => return false,
        }
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let names_file = ["\\i ", "\\copy "].iter().any(|command| line.starts_with(command));
        if names_file && line[..position].trim_end().len() < position
            || line[..position].starts_with("\\i ")
        {
            return self.files.complete(line, position, context);
        }
        let names = self.names.lock().expect("nobody panics with it");
        let (start, found) = candidates(&line[..position], &names);
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        Cow::Owned(format!("\x1b[1m{prompt}\x1b[m"))
    }
}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let column = |table: &str, name: &str| (table.to_owned(), name.to_owned());
        Names {
            relations: vec!["orders".into(), "Odd Name".into(), "item".into()],
            columns: vec![column("orders", "o_id"), column("item", "price"), column("item", "id")],
        }
    }

    fn complete(line: &str) -> Vec<String> {
        candidates(line, &names()).1
    }

    #[test]
    fn keywords_follow_the_case_typed() {
        assert_eq!(complete("SEL"), ["SELECT"]);
        assert_eq!(complete("select * from t gro"), ["group by"]);
    }

    #[test]
    fn names_of_tables_and_columns_are_offered_and_quoted_where_needed() {
        assert_eq!(complete("SELECT * FROM ord"), ["order by", "orders"]);
        assert_eq!(complete("SELECT * FROM od"), ["\"Odd Name\""]);
        assert_eq!(complete("SELECT item."), ["id", "price"]);
        assert_eq!(complete("SELECT item.p"), ["price"]);
        assert_eq!(candidates("SELECT item.p", &names()).0, 12);
    }

    #[test]
    fn commands_and_their_arguments_are_offered() {
        assert_eq!(complete("\\ti"), ["\\timing"]);
        assert_eq!(complete("\\d it"), ["item"]);
        assert_eq!(complete("\\d "), ["\"Odd Name\"", "item", "orders"]);
    }

    #[test]
    fn enter_ends_the_input_when_every_statement_has_its_semicolon() {
        for whole in ["", "  ", "\\d", "SELECT 1;", "SELECT 1; SELECT 2;  -- done", "SELECT ';';"] {
            assert!(is_whole(whole), "{whole}");
        }
        for part in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "SELECT $$;", "/* ;"] {
            assert!(!is_whole(part), "{part}");
        }
    }
}
