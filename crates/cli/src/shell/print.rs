//! Printed results: aligned tables in psql's form, records, CSV, JSON.

use std::io::{self, Write};

use serde_json::Value as Json;
use unicode_width::UnicodeWidthStr;

/// How results are printed.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// An array of one object per row
    Json,
}

/// The kind of a column's values, as far as printing needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Right-aligned, bare in JSON.
    Number,
    /// `true` or `false` in JSON.
    Boolean,
    /// Left-aligned.
    Text,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Kind of its values.
    pub kind: ColumnKind,
}

/// The style of printed results.
#[derive(Debug, Clone)]
pub struct Style {
    /// Shape.
    pub format: Format,
    /// One line per column instead of one per row (`\x`).
    pub expanded: bool,
    /// The text for NULL in tables.
    pub null: String,
    /// Columns of the terminal, if tables wider than that are to be printed as records.
    pub width: Option<usize>,
}

impl Default for Style {
    fn default() -> Self {
        Style { format: Format::Table, expanded: false, null: "NULL".into(), width: None }
    }
}

/// A row: text, or NULL.
pub type TextRow = Vec<Option<String>>;

/// A printer of one result: row by row where the format allows, otherwise at the end.
pub struct Printer {
    columns: Vec<Column>,
    /// Rows that a table keeps until it knows how wide its columns are.
    kept: Vec<TextRow>,
    count: u64,
}

impl Printer {
    /// Begins a result.
    pub fn new(out: &mut dyn Write, style: &Style, columns: Vec<Column>) -> io::Result<Self> {
        match style.format {
            Format::Table => {}
            Format::Csv => {
                let names: TextRow =
                    columns.iter().map(|column| Some(column.name.clone())).collect();
                csv(out, &names)?;
            }
            Format::Json => write!(out, "[")?,
        }
        Ok(Printer { columns, kept: Vec::new(), count: 0 })
    }

    /// Prints or keeps a row.
    pub fn row(&mut self, out: &mut dyn Write, style: &Style, row: TextRow) -> io::Result<()> {
        self.count += 1;
        match style.format {
            Format::Table => self.kept.push(row),
            Format::Csv => csv(out, &row)?,
            Format::Json => self.json(out, &row)?,
        }
        Ok(())
    }

    /// Ends the result; returns how many rows it had.
    pub fn end(mut self, out: &mut dyn Write, style: &Style) -> io::Result<u64> {
        match style.format {
            Format::Table => self.table(out, style)?,
            Format::Csv => {}
            Format::Json => writeln!(out, "]")?,
        }
        Ok(self.count)
    }

    fn json(&mut self, out: &mut dyn Write, row: &TextRow) -> io::Result<()> {
        let separator = if self.count > 1 { ",\n " } else { "" };
        write!(out, "{separator}{{")?;
        for (place, (column, cell)) in self.columns.iter().zip(row).enumerate() {
            let separator = if place > 0 { ", " } else { "" };
            let name = Json::from(column.name.as_str());
            write!(out, "{separator}{name}: {}", json_cell(column.kind, cell.as_deref()))?;
        }
        write!(out, "}}")
    }

    fn table(&mut self, out: &mut dyn Write, style: &Style) -> io::Result<()> {
        let null = &style.null;
        let rows: Vec<Vec<String>> = self
            .kept
            .drain(..)
            .map(|row| row.into_iter().map(|cell| cell.unwrap_or_else(|| null.clone())).collect())
            .collect();
        let widths = widths(&self.columns, &rows);
        let total: usize = widths.iter().sum::<usize>() + 3 * widths.len();
        let too_wide = style.width.is_some_and(|width| total > width + 1);
        if style.expanded || (too_wide && !rows.is_empty()) {
            return records(out, &self.columns, &rows);
        }
        aligned(out, &self.columns, &rows, &widths)
    }
}

fn csv(out: &mut dyn Write, row: &TextRow) -> io::Result<()> {
    let cells: Vec<String> = row.iter().map(|cell| csv_cell(cell.as_deref())).collect();
    writeln!(out, "{}", cells.join(","))
}

fn widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.name.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.lines().map(UnicodeWidthStr::width).max().unwrap_or(0));
        }
    }
    widths
}

/// Prints a table as psql does: headings centred, numbers to the right, further lines of a cell below,
/// marked `+`.
fn aligned(
    out: &mut dyn Write,
    columns: &[Column],
    rows: &[Vec<String>],
    widths: &[usize],
) -> io::Result<()> {
    if !columns.is_empty() {
        let headings: Vec<String> = columns
            .iter()
            .zip(widths)
            .map(|(column, width)| {
                let free = width - column.name.width();
                format!(" {}{}{} ", " ".repeat(free / 2), column.name, " ".repeat(free - free / 2))
            })
            .collect();
        writeln!(out, "{}", headings.join("|"))?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        writeln!(out, "{}", rules.join("+"))?;
    }
    for row in rows {
        let cells: Vec<Vec<&str>> = row.iter().map(|cell| cell.split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut text = String::new();
            for (place, lines) in cells.iter().enumerate() {
                let piece = lines.get(line).copied().unwrap_or("");
                let pad = " ".repeat(widths[place].saturating_sub(piece.width()));
                let more = if line + 1 < lines.len() { '+' } else { ' ' };
                let right = columns[place].kind == ColumnKind::Number;
                let cell = if right { format!("{pad}{piece}") } else { format!("{piece}{pad}") };
                text.push_str(&format!(" {cell}{more}"));
                if place + 1 < cells.len() {
                    text.push('|');
                }
            }
            writeln!(out, "{}", text.trim_end())?;
        }
    }
    let count = rows.len();
    writeln!(out, "({count} row{})\n", if count == 1 { "" } else { "s" })
}

/// Prints one line per column, as psql does after `\x`.
fn records(out: &mut dyn Write, columns: &[Column], rows: &[Vec<String>]) -> io::Result<()> {
    let names = columns.iter().map(|column| column.name.width()).max().unwrap_or(0);
    let lines = rows.iter().flatten().flat_map(|cell| cell.lines());
    let values = lines.map(UnicodeWidthStr::width).max().unwrap_or(0).min(60);
    if rows.is_empty() {
        return writeln!(out, "(0 rows)\n");
    }
    for (number, row) in rows.iter().enumerate() {
        let head = format!("-[ RECORD {} ]", number + 1);
        let rule = "-".repeat((names + 1).saturating_sub(head.len()));
        let tail = "-".repeat((names + 3 + values).saturating_sub(head.len() + rule.len() + 1));
        writeln!(out, "{head}{rule}{}{tail}", if rule.is_empty() { "-" } else { "+" })?;
        for (column, cell) in columns.iter().zip(row) {
            let pad = " ".repeat(names - column.name.width());
            let text = cell.replace('\n', &format!("\n{} | ", " ".repeat(names)));
            writeln!(out, "{}", format!("{}{pad} | {text}", column.name).trim_end())?;
        }
    }
    writeln!(out)
}

/// A cell of CSV, quoted if it must be; NULL is nothing, an empty text is `""`.
fn csv_cell(cell: Option<&str>) -> String {
    match cell {
        None => String::new(),
        Some("") => "\"\"".to_owned(),
        Some(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    }
}

/// A cell of JSON: numbers unchanged (so that no digit is lost) where JSON can hold them, otherwise
/// text.
fn json_cell(kind: ColumnKind, cell: Option<&str>) -> String {
    let Some(text) = cell else { return "null".to_owned() };
    match (kind, text) {
        (ColumnKind::Boolean, "t" | "true") => "true".to_owned(),
        (ColumnKind::Boolean, "f" | "false") => "false".to_owned(),
        (ColumnKind::Number, number) if is_json_number(number) => number.to_owned(),
        _ => Json::from(text).to_string(),
    }
}

fn is_json_number(text: &str) -> bool {
    !text.starts_with('+') && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        vec![
            column("id", ColumnKind::Number),
            column("name", ColumnKind::Text),
            column("ok", ColumnKind::Boolean),
        ]
    }

    fn print(style: &Style, rows: &[[Option<&str>; 3]]) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(&mut out, style, columns()).unwrap();
        for row in rows {
            let row = row.iter().map(|cell| cell.map(str::to_owned)).collect();
            printer.row(&mut out, style, row).unwrap();
        }
        printer.end(&mut out, style).unwrap();
        String::from_utf8(out).unwrap()
    }

    const ROWS: &[[Option<&str>; 3]] =
        &[[Some("1"), Some("tea"), Some("t")], [Some("23"), None, Some("f")]];

    #[test]
    fn tables_align_numbers_right_and_show_null() {
        let text = print(&Style::default(), ROWS);
        assert_eq!(
            text,
            " id | name | ok \n----+------+----\n  1 | tea  | t\n 23 | NULL | f\n(2 rows)\n\n"
        );
    }

    #[test]
    fn wide_characters_and_lines_within_cells_keep_columns_straight() {
        let text = print(&Style::default(), &[[Some("1"), Some("茶\nzwei"), Some("t")]]);
        assert_eq!(
            text,
            " id | name | ok \n----+------+----\n  1 | 茶  +| t\n    | zwei |\n(1 row)\n\n"
        );
    }

    #[test]
    fn expanded_output_has_a_line_per_column() {
        let style = Style { expanded: true, ..Style::default() };
        let text = print(&style, &ROWS[..1]);
        assert_eq!(text, "-[ RECORD 1 ]-\nid   | 1\nname | tea\nok   | t\n\n");
    }

    #[test]
    fn a_table_wider_than_the_terminal_becomes_records() {
        let style = Style { width: Some(10), ..Style::default() };
        assert!(print(&style, ROWS).starts_with("-[ RECORD 1 ]"));
    }

    #[test]
    fn csv_tells_null_from_empty_and_quotes() {
        let style = Style { format: Format::Csv, ..Style::default() };
        let text =
            print(&style, &[[None, Some(""), Some("t")], [Some("2"), Some("a,\"b\""), None]]);
        assert_eq!(text, "id,name,ok\n,\"\",t\n2,\"a,\"\"b\"\"\",\n");
    }

    #[test]
    fn json_keeps_every_digit_and_quotes_what_is_no_number() {
        let style = Style { format: Format::Json, ..Style::default() };
        let rows = [
            [Some("12345678901234567890.123456789"), Some("x\"y"), Some("t")],
            [Some("NaN"), None, None],
        ];
        let text = print(&style, &rows);
        assert_eq!(
            text,
            "[{\"id\": 12345678901234567890.123456789, \"name\": \"x\\\"y\", \"ok\": true},\n \
             {\"id\": \"NaN\", \"name\": null, \"ok\": null}]\n"
        );
        serde_json::from_str::<Json>(&text).unwrap();
        assert_eq!(print(&style, &[]), "[]\n");
    }
}
