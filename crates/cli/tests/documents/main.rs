//! The documents are true: the examples and claims of README, the guide and the status page are
//! run.
//!
//! [`page`] says which pieces of a page run, and how the expected answer is written. Every page of
//! the guide has at least one such piece. `cargo test --workspace --test documents PAGE` runs one
//! page; `HALCYON_WRITE_DOCUMENTS=1` rewrites tables under a comment `rows: …`.

mod answers;
mod code;
mod commands;
mod files;
mod lists;
mod manual;
mod page;
mod server;
mod tour;

use answers::Asker;
use files::{read, relative_paths, root};
use page::{Content, Piece, TableRow, agrees, pieces};
use server::{Folder, Server};

/// A page under test: its server, its folder, and the errors found.
struct Reading {
    path: &'static str,
    folder: Folder,
    /// `None` only while one server replaces another.
    server: Option<Server>,
    executed: usize,
    offences: Vec<String>,
    /// Tables to be rewritten: first line below the header, number of rows, lines.
    tables: Vec<(usize, usize, Vec<String>)>,
}

impl Reading {
    fn new(path: &'static str) -> Reading {
        let folder = Folder::new(&path.replace('/', "-"));
        let server = Some(Server::start(folder.path(), "--data page"));
        Reading { path, folder, server, executed: 0, offences: Vec::new(), tables: Vec::new() }
    }

    fn address(&self) -> &str {
        self.server.as_ref().expect("a page speaks to one server at a time").address()
    }

    fn piece(&mut self, piece: &Piece) {
        match &piece.content {
            Content::Serve(flags) => {
                // The old and the new server may want the same folder.
                drop(self.server.take());
                self.server = Some(Server::start(self.folder.path(), flags));
            }
            Content::Block { language, text, expected } => match (language.as_str(), expected) {
                ("sql", expected) => self.sql(piece.line, text, expected.as_deref()),
                ("sh", Some(expected)) => {
                    let printed = server::sh(self.folder.path(), self.address(), text);
                    self.compare(piece.line, expected, &printed);
                }
                _ => {}
            },
            Content::Table { query: Some(query), rows, .. } => self.rows(piece.line, query, rows),
            Content::Table { header, rows, .. } if is_statements(header) => self.statements(rows),
            Content::Table { .. } => {}
        }
    }

    fn statements(&mut self, rows: &[TableRow]) {
        let asker = Asker::new(self.address());
        for row in rows {
            self.executed += 1;
            if let Some(wrong) = asker.wrong(row) {
                self.offence(row.line, wrong);
            }
        }
    }

    fn sql(&mut self, line: usize, text: &str, expected: Option<&str>) {
        let printed = server::shell(self.folder.path(), Some(self.address()), text);
        match expected {
            Some(expected) => self.compare(line, expected, &printed),
            None => {
                self.executed += 1;
                if printed.lines().any(|line| line.starts_with("ERROR:")) {
                    self.offence(line, format!("the block prints\n{printed}"));
                }
            }
        }
    }

    fn compare(&mut self, line: usize, expected: &str, printed: &str) {
        self.executed += 1;
        if !agrees(expected, printed) {
            self.offence(line, format!("the block prints\n{printed}\nthe page has\n{expected}"));
        }
    }

    fn rows(&mut self, line: usize, query: &str, rows: &[TableRow]) {
        self.executed += 1;
        let answer = Asker::new(self.address()).rows(query);
        if answer.iter().ne(rows.iter().map(|row| &row.cells)) {
            let lines = answer.iter().map(|row| table_line(row)).collect();
            self.tables.push((line + 2, rows.len(), lines));
            let remedy = "HALCYON_WRITE_DOCUMENTS=1 writes it anew";
            self.offence(line, format!("the table is not what {query:?} gives; {remedy}"));
        }
    }

    fn offence(&mut self, line: usize, message: String) {
        self.offences.push(format!("{}:{line}: {message}", self.path));
    }

    fn finish(self) {
        if std::env::var_os("HALCYON_WRITE_DOCUMENTS").is_some() {
            self.write_tables();
        }
        assert!(self.offences.is_empty(), "{}", self.offences.join("\n\n"));
        assert!(self.executed > 0, "{}: nothing of this page is run; see page.rs", self.path);
    }

    fn write_tables(&self) {
        let text = read(self.path);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (first, count, rows) in self.tables.iter().rev() {
            lines.splice(first - 1..first - 1 + count, rows.iter().cloned());
        }
        std::fs::write(root().join(self.path), lines.join("\n") + "\n").expect("a page is written");
    }
}

/// Whether a table's rows are statements and their answers.
fn is_statements(header: &[String]) -> bool {
    header.iter().take(2).eq(["statement", "answer"])
}

fn table_line(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", cells.join(" | "))
}

fn check(path: &'static str) {
    let mut reading = Reading::new(path);
    for piece in &pieces(&read(path)) {
        reading.piece(piece);
    }
    reading.finish();
}

/// One test per page, so that pages run in parallel and each can run alone.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test] fn $name() { check($path); })*
    };
}

pages! {
    architecture: "ARCHITECTURE.md",
    status: "docs/status.md",
    guide: "docs/guide/README.md",
    console: "docs/guide/console.md",
    embedding: "docs/guide/embedding.md",
    errors: "docs/guide/errors.md",
    examples: "docs/guide/examples.md",
    first_minutes: "docs/guide/first-minutes.md",
    server_page: "docs/guide/server.md",
    shield: "docs/guide/shield.md",
    shell: "docs/guide/shell.md",
    sql: "docs/guide/sql.md",
    tools: "docs/guide/tools.md",
    system_views: "docs/guide/system-views.md",
    views: "docs/guide/views.md",
    workload: "docs/guide/workload.md",
}

/// Pages that another test writes and compares, and those whose Python `tests/python` and `tests/adbc` run.
const OTHERS: &[&str] = &[
    "docs/guide/functions.md",
    "docs/guide/settings.md",
    "docs/guide/python.md",
    "docs/guide/adbc.md",
];

#[test]
fn every_page_of_the_guide_is_run_and_listed() {
    let index = read("docs/guide/README.md");
    for path in relative_paths().iter().filter(|path| path.starts_with("docs/guide/")) {
        assert!(
            PAGES.contains(&path.as_str()) || OTHERS.contains(&path.as_str()),
            "{path} is not in `pages!`"
        );
        let name = path.trim_start_matches("docs/guide/");
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "{name} is not listed"
        );
    }
}

#[test]
fn a_false_page_fails() {
    let mut reading = Reading::new("docs/guide/README.md");
    let page = "```sql\nSELECT 1 AS a;\n```\n```text\n a\n---\n 2\n(1 row)\n```\n\
                ```sql\nSELECT nothing;\n```\n```sh\necho a\n```\n```text\nb\n```\n\
                | statement | answer |\n|---|---|\n| `SELECT 1` | `2` |\n| `SELECT 1` | `1` |\n\
                | `SELEC` | `0A000` |\n| `SELEC` | `42601` |\n\
                <!-- rows: SELECT 1, NULL -->\n| a | b |\n|---|---|\n| 2 | NULL |\n";
    for piece in &pieces(page) {
        reading.piece(piece);
    }
    let places: Vec<&str> =
        reading.offences.iter().map(|offence| offence.split(": ").next().unwrap()).collect();
    let expected = [1, 10, 13, 21, 23, 26].map(|line| format!("docs/guide/README.md:{line}"));
    assert_eq!(places, expected, "{}", reading.offences.join("\n"));
    assert_eq!(reading.executed, 8);
}
