//! The database as the shell needs it: embedded in this process, or reached over the wire.

use std::io::{Read, Write};
use std::sync::Arc;

use super::print::Column;

/// Result of a back end's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A receiver of a result as it arrives. Its errors (a closed pipe) end the statement.
pub trait Sink {
    /// A result with these columns begins.
    fn columns(&mut self, columns: Vec<Column>) -> std::io::Result<()>;
    /// The next row of the result.
    fn row(&mut self, row: Vec<Option<String>>) -> std::io::Result<()>;
}

/// The state of a session's transaction, for the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// No transaction is in progress.
    Idle,
    /// A transaction is in progress.
    InTransaction,
    /// A transaction is in progress that can only be rolled back.
    Failed,
    /// The connection is gone.
    Gone,
}

/// The outcome of a statement, behind its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The command tag, as PostgreSQL spells it.
    pub tag: String,
    /// Whether the statement had a result, so that its tag is not printed.
    pub had_rows: bool,
}

/// A session.
pub trait Backend {
    /// Runs one statement.
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<Done>;

    /// Runs `COPY … FROM STDIN` with the bytes of `data`; returns the rows copied.
    fn copy_in(&mut self, text: &str, data: &mut dyn Read) -> Result<u64>;

    /// Runs `COPY … TO STDOUT`, its bytes to `out`; returns the rows copied, if known.
    fn copy_out(&mut self, text: &str, out: &mut dyn Write) -> Result<Option<u64>>;

    /// Notices since the last call.
    fn take_notices(&mut self) -> Vec<Message>;

    /// The way to look at the session's statements while they run; `None` if there is none.
    fn onlooker(&self) -> Option<Onlooker>;

    /// A function that ends the running statement from another thread.
    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// The state of the session's transaction.
    fn state(&self) -> BlockState;

    /// Name of the database, for the prompt.
    fn database(&self) -> String;
}

/// The way to look at a statement that runs: a second session, which asks for the first one's work.
pub struct Onlooker {
    /// Number of the session that runs the statement.
    pub session: u32,
    /// Opens the second session, on the thread that will use it; `None` if there can be none.
    pub open: Box<dyn FnOnce() -> Option<Box<dyn Backend>> + Send>,
}

/// A receiver that keeps all rows.
#[derive(Default)]
pub struct Collected(pub Vec<Vec<Option<String>>>);

impl Sink for Collected {
    fn columns(&mut self, _: Vec<Column>) -> std::io::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: Vec<Option<String>>) -> std::io::Result<()> {
        self.0.push(row);
        Ok(())
    }
}

/// An error or notice, with the fields that psql shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// `ERROR`, `NOTICE`, `WARNING`, ….
    pub severity: String,
    /// The SQLSTATE, five characters.
    pub state: String,
    /// The message itself, one line.
    pub message: String,
    /// The detail line.
    pub detail: Option<String>,
    /// The hint line.
    pub hint: Option<String>,
    /// The context line.
    pub context: Option<String>,
    /// Position of the error in the statement: a character, counted from 1.
    pub position: Option<usize>,
}

/// Why a statement failed.
#[derive(Debug)]
pub enum Error {
    /// The database refused the statement.
    Statement(Box<Message>),
    /// Reading or writing on this side failed.
    Io(std::io::Error),
    /// The connection broke or could not be made.
    Connection(String),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}

impl Error {
    /// The error as psql shows it. `text`: the statement, whose line with the error is shown.
    pub fn show(&self, text: &str) -> String {
        match self {
            Error::Statement(message) => message.show(text),
            Error::Io(error) => format!("error: {error}\n"),
            Error::Connection(what) => format!("connection: {what}\n"),
        }
    }

    /// Whether the error is a closed pipe on output, as in `halcyon … | head`.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl Message {
    /// The message as psql shows it.
    pub fn show(&self, text: &str) -> String {
        let mut shown = format!("{}:  {}\n", self.severity, self.message);
        if let Some(position) = self.position {
            shown.push_str(&pointer(text, position));
        }
        let parts = [("DETAIL", &self.detail), ("HINT", &self.hint), ("CONTEXT", &self.context)];
        for (name, part) in parts {
            if let Some(part) = part {
                shown.push_str(&format!("{name}:  {part}\n"));
            }
        }
        shown
    }
}

/// Characters of a line that are shown on either side of an error.
const AROUND: usize = 56;

/// `LINE n: …` and a `^` below the character at `position`.
fn pointer(text: &str, position: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = position.saturating_sub(1).min(characters.len());
    let line_number = characters[..at].iter().filter(|c| **c == '\n').count() + 1;
    let start = characters[..at].iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1);
    let length = characters[start..].iter().position(|c| *c == '\n');
    let line = &characters[start..length.map_or(characters.len(), |length| start + length)];
    let column = at - start;
    let from = if line.len() > 2 * AROUND { column.saturating_sub(AROUND) } else { 0 };
    let to = if line.len() > 2 * AROUND { (column + AROUND).min(line.len()) } else { line.len() };
    let (before, after) =
        (if from > 0 { "..." } else { "" }, if to < line.len() { "..." } else { "" });
    let shown: String = line[from..to].iter().map(|c| if *c == '\t' { ' ' } else { *c }).collect();
    let head = format!("LINE {line_number}: {before}");
    let wide = |c: &char| unicode_width::UnicodeWidthChar::width(*c).unwrap_or(0);
    let indent: usize = head.chars().count() + line[from..column].iter().map(wide).sum::<usize>();
    format!("{head}{shown}{after}\n{}^\n", " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_error_is_pointed_at() {
        assert_eq!(pointer("SELECT x", 8), "LINE 1: SELECT x\n               ^\n");
        assert_eq!(pointer("SELECT\n  x\nFROM t", 10), "LINE 2:   x\n          ^\n");
        assert_eq!(
            pointer("SELECT '茶', x", 13),
            "LINE 1: SELECT '茶', x\n                     ^\n"
        );
        assert_eq!(pointer("SELECT", 99), "LINE 1: SELECT\n              ^\n");
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides() {
        let text = format!("SELECT {} oops {}", "a".repeat(300), "b".repeat(300));
        let shown = pointer(&text, 310);
        let (line, caret) = shown.split_once('\n').unwrap();
        assert!(line.starts_with("LINE 1: ...aaa") && line.ends_with("bbb..."), "{line}");
        assert_eq!(line.chars().nth(caret.find('^').unwrap()), Some('o'));
    }

    #[test]
    fn fields_come_in_psqls_order() {
        let message = Message {
            severity: "ERROR".into(),
            message: "no".into(),
            detail: Some("d".into()),
            hint: Some("h".into()),
            context: Some("c".into()),
            ..Message::default()
        };
        assert_eq!(message.show(""), "ERROR:  no\nDETAIL:  d\nHINT:  h\nCONTEXT:  c\n");
    }
}
