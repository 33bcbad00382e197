//! A Markdown page as a list of pieces that can be run or checked.
//!
//! The pieces that run, in the order of the page:
//! - a `sql` block: by `halcyon shell`. It prints the `text` block that follows; without one, it
//!   prints no error. In the expected text `…` stands for anything within a line, and a line that
//!   is `…` alone for any lines;
//! - a `sh` block that a `text` block follows: by `sh`, in the page's folder;
//! - a table whose first two headings are `statement` and `answer`: see [`crate::answers`];
//! - a table under a comment `rows: SELECT …`: its cells are the rows of that query;
//! - a comment `serve: FLAGS`: from here on, the page uses a new server with these flags.
//!
//! Blocks of other languages are kept for the tests that compile or parse them.

/// One piece of a page, and the line that it begins at.
#[derive(Debug)]
pub struct Piece {
    /// Line of the page, from 1.
    pub line: usize,
    /// Kind and content.
    pub content: Content,
}

/// Kind and content of a piece.
#[derive(Debug)]
pub enum Content {
    /// A fenced block, and the `text` block right after it.
    Block { language: String, text: String, expected: Option<String> },
    /// A table, and the query of the comment above it.
    Table { query: Option<String>, header: Vec<String>, rows: Vec<TableRow> },
    /// Flags of the server that the page uses from here on.
    Serve(String),
}

/// A row of a table below its header.
#[derive(Debug)]
pub struct TableRow {
    /// Line of the page, from 1.
    pub line: usize,
    /// Texts of its cells, without escapes.
    pub cells: Vec<String>,
}

/// Splits `document` into pieces; prose is left out.
pub fn pieces(document: &str) -> Vec<Piece> {
    let lines: Vec<&str> = document.lines().collect();
    let mut found: Vec<Piece> = Vec::new();
    let mut query = None;
    let mut at = 0;
    while at < lines.len() {
        let line = at + 1;
        if let Some(language) = lines[at].strip_prefix("```") {
            let text = fenced(&lines, &mut at);
            match found.last_mut().map(|piece| &mut piece.content) {
                Some(Content::Block { expected, language: before, .. })
                    if language == "text" && expected.is_none() && before != "text" =>
                {
                    *expected = Some(text);
                }
                _ => {
                    let language = language.to_owned();
                    let content = Content::Block { language, text, expected: None };
                    found.push(Piece { line, content });
                }
            }
        } else if lines[at].starts_with('|') {
            let header = cells(lines[at]);
            at += 2;
            let mut rows = Vec::new();
            while at < lines.len() && lines[at].starts_with('|') {
                rows.push(TableRow { line: at + 1, cells: cells(lines[at]) });
                at += 1;
            }
            let content = Content::Table { query: query.take(), header, rows };
            found.push(Piece { line, content });
        } else {
            match comment(lines[at]) {
                Some(("rows", text)) => query = Some(text.to_owned()),
                Some(("serve", text)) => {
                    found.push(Piece { line, content: Content::Serve(text.to_owned()) });
                }
                _ => {}
            }
            at += 1;
        }
    }
    found
}

/// Key and value of a line `<!-- key: value -->`.
fn comment(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")?.split_once(": ")
}

/// Text of the fenced block that begins at `at`, which moves behind the block's end.
fn fenced(lines: &[&str], at: &mut usize) -> String {
    let mut text = String::new();
    *at += 1;
    while *at < lines.len() && lines[*at] != "```" {
        text.push_str(lines[*at]);
        text.push('\n');
        *at += 1;
    }
    *at += 1;
    text
}

/// Cells of a table's line; `\|` is a bar within a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\0");
    let line = line.strip_suffix('|').unwrap_or(&line).to_owned();
    line.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// Texts between backticks.
pub fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether `printed` is what `expected` shows: blanks at the ends of lines do not count, `…` stands
/// for anything.
pub fn agrees(expected: &str, printed: &str) -> bool {
    lines_agree(&visible(expected), &visible(printed))
}

fn lines_agree(expected: &[&str], printed: &[&str]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => {
            (0..=printed.len()).any(|skipped| lines_agree(rest, &printed[skipped..]))
        }
        (Some((left, expected)), Some((right, printed))) => {
            line_agrees(left, right) && lines_agree(expected, printed)
        }
        _ => false,
    }
}

fn line_agrees(expected: &str, printed: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return expected == printed };
    let Some(printed) = printed.strip_prefix(start) else { return false };
    (0..=printed.len())
        .filter(|&skipped| printed.is_char_boundary(skipped))
        .any(|skipped| line_agrees(rest, &printed[skipped..]))
}

fn visible(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

#[test]
fn a_page_is_read_as_it_is_written() {
    let page = "# Head\n\n```sql\nSELECT 1;\n```\n\n```text\n1\n```\n<!-- rows: SELECT a -->\n\
                | a | `b` |\n|---|---|\n| x \\| y | 2 |\n<!-- serve: --demo -->\n";
    let found = format!("{:?}", pieces(page));
    for part in [
        r#"line: 3, content: Block { language: "sql", text: "SELECT 1;\n", expected: Some("1\n") }"#,
        r#"query: Some("SELECT a"), header: ["a", "`b`"], rows: [TableRow { line: 13, cells: ["x | y", "2"] }]"#,
        r#"line: 14, content: Serve("--demo")"#,
    ] {
        assert!(found.contains(part), "{found}\nlacks {part}");
    }
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(agrees("a … c\n…\nend  ", "a b c\n1\n2\nend\n"));
    assert!(!agrees("a … c", "a b d"));
    assert!(!agrees("a", "a\nb"));
    assert!(!agrees("a\nb", "a"));
}
