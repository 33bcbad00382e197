//! `\d name`, `\?`, `\h`, and the names for completion.

use super::backend::Result;
use super::complete::Names;
use super::print::{Column, ColumnKind, Printer, Style};
use super::{Shell, Stop, meta};

type Rows = Vec<Vec<Option<String>>>;

/// The list of backslash commands.
pub fn help() -> String {
    let line = |(name, arguments, about): &(&str, &str, &str)| {
        format!("  {:<34} {about}\n", format!("{name} {arguments}"))
    };
    let commands: String = meta::COMMANDS.iter().map(line).collect();
    format!("{commands}  {:<34} statements end with ; and may span lines\n", "SELECT …;")
}

/// Shapes of the statements whose name starts with `word`.
pub fn sql_help(word: &str) -> String {
    let wanted = word.to_uppercase();
    let fits = |name: &str| name.starts_with(&wanted) || wanted.starts_with(name);
    let found: Vec<_> = meta::SQL_HELP.iter().filter(|(name, _)| fits(name)).collect();
    match found.as_slice() {
        _ if word.is_empty() => {
            let names: Vec<&str> = meta::SQL_HELP.iter().map(|(name, _)| *name).collect();
            format!("\\h WORD, with one of: {}\n", names.join(", "))
        }
        [] => format!("no help for {word:?}; \\h lists what there is\n"),
        found => found.iter().map(|(_, shape)| format!("{shape}\n")).collect(),
    }
}

/// Relations and columns, for completion.
pub fn names(mut ask: impl FnMut(&str) -> Result<Rows>) -> Result<Names> {
    let text = "SELECT c.relname, a.attname FROM pg_catalog.pg_class c \
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid \
                WHERE c.relkind IN ('r', 'v', 'm') AND a.attnum > 0 AND n.nspname \
                NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2";
    let mut names = Names::default();
    for row in ask(text)? {
        let [Some(relation), Some(column)] = row.as_slice() else { continue };
        if names.relations.last() != Some(relation) {
            names.relations.push(relation.clone());
        }
        names.columns.push((relation.clone(), column.clone()));
    }
    Ok(names)
}

fn text(row: &[Option<String>], at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or("")
}

fn is_true(row: &[Option<String>], at: usize) -> bool {
    matches!(text(row, at), "t" | "true")
}

impl Shell {
    /// `\d name`: everything about the relations of that name.
    pub(super) fn describe(&mut self, name: &str) -> Result<(), Stop> {
        let shown = match self.ask(&meta::find_query(name)) {
            Ok(found) if found.is_empty() => {
                return self.complain(&format!("there is no relation named \"{name}\""));
            }
            Ok(found) => found.iter().map(|row| self.describe_one(row)).collect::<Result<_>>(),
            Err(error) => Err(error),
        };
        match shown {
            Ok(shown) => {
                let shown: String = shown;
                self.print(&shown)
            }
            Err(error) => self.report(&error, ""),
        }
    }

    /// One relation, given as (oid, schema, name, kind).
    fn describe_one(&mut self, relation: &[Option<String>]) -> Result<String> {
        let oid = text(relation, 0);
        let kind = match text(relation, 3) {
            "r" => "Table",
            "v" => "View",
            "m" => "Materialized view",
            "i" => "Index",
            "S" => "Sequence",
            _ => "Relation",
        };
        let mut shown = format!("{kind} \"{}.{}\"\n", text(relation, 1), text(relation, 2));
        let columns = self.ask(&meta::columns_query(oid))?;
        shown.push_str(&table(&["Column", "Type", "Nullable", "Default"], columns));
        match kind {
            "Table" => shown.push_str(&self.keys_and_constraints(oid)?),
            "View" => {
                let definition = self.ask(&meta::view_query(oid))?;
                let definition = definition.first().map_or("", |row| text(row, 0));
                shown.push_str(&format!("Definition:\n  {}\n", definition.replace('\n', "\n  ")));
            }
            _ => {}
        }
        shown.push('\n');
        Ok(shown)
    }

    fn keys_and_constraints(&mut self, oid: &str) -> Result<String> {
        let mut shown = String::new();
        let indexes = self.ask(&meta::indexes_query(oid))?;
        if !indexes.is_empty() {
            shown.push_str("Indexes:\n");
        }
        for index in &indexes {
            let role = match (is_true(index, 1), is_true(index, 2)) {
                (true, _) => "PRIMARY KEY, ",
                (false, true) => "UNIQUE, ",
                (false, false) => "",
            };
            // `CREATE INDEX … USING btree (a, b)`: what follows USING says it all.
            let definition = text(index, 3);
            let how = definition.split_once(" USING ").map_or(definition, |(_, how)| how);
            shown.push_str(&format!("    \"{}\" {role}{how}\n", text(index, 0)));
        }
        let constraints = self.ask(&meta::constraints_query(oid))?;
        let headings = [
            ("Check constraints", 'c', true),
            ("Foreign-key constraints", 'f', true),
            ("Referenced by", 'f', false),
        ];
        for (heading, kind, own) in headings {
            let fits = |row: &&Vec<Option<String>>| {
                text(row, 1).starts_with(kind) && is_true(row, 4) == own
            };
            let lines: String = constraints
                .iter()
                .filter(fits)
                .map(|row| {
                    let table =
                        if own { String::new() } else { format!("TABLE \"{}\" ", text(row, 3)) };
                    format!("    {table}\"{}\" {}\n", text(row, 0), text(row, 2))
                })
                .collect();
            if !lines.is_empty() {
                shown.push_str(&format!("{heading}:\n{lines}"));
            }
        }
        Ok(shown)
    }
}

/// Rows as an aligned table without its count.
fn table(headings: &[&str], rows: Rows) -> String {
    let column = |name: &&str| Column { name: (*name).to_owned(), kind: ColumnKind::Text };
    let mut out = Vec::new();
    let style = Style::default();
    let columns = headings.iter().map(column).collect();
    let mut printer =
        Printer::new(&mut out, &style, columns).expect("writing to memory does not fail");
    for row in rows {
        printer.row(&mut out, &style, row).expect("writing to memory does not fail");
    }
    printer.end(&mut out, &style).expect("writing to memory does not fail");
    let text = String::from_utf8(out).expect("made of text");
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let kept = lines.len().saturating_sub(1);
    lines[..kept].iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_and_shape() {
        for (name, ..) in meta::COMMANDS {
            assert!(help().contains(name), "{name}");
        }
        assert!(sql_help("create index").starts_with("CREATE [UNIQUE] INDEX"));
        assert!(sql_help("create").lines().count() > 4);
        assert!(sql_help("frobnicate").starts_with("no help"));
        assert!(sql_help("").contains("SAVEPOINT"));
    }

    #[test]
    fn a_table_within_a_description_has_no_count() {
        let rows = vec![vec![Some("id".to_owned()), Some("integer".to_owned())]];
        assert_eq!(
            table(&["Column", "Type"], rows),
            " Column |  Type   \n--------+---------\n id     | integer\n"
        );
    }
}
