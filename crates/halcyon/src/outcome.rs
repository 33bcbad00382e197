//! Outcomes: what a caller gets for a statement.

use std::fmt;

use crate::rows::Rows;

/// The outcome of a statement.
pub enum Outcome {
    /// Rows, which the caller reads.
    Rows {
        /// The rows.
        rows: Rows,
        /// First words of the tag: `SELECT`, `INSERT 0`, ….
        tag: &'static str,
        /// Number of rows written, if the statement writes and returns rows.
        written: Option<u64>,
    },
    /// Only a tag.
    Done(Tag),
    /// COPY FROM STDIN: the caller gives data by [`crate::Session::copy_data`].
    CopyIn {
        /// Number of columns.
        columns: usize,
        /// Whether the data is binary.
        binary: bool,
    },
    /// COPY TO STDOUT: the caller fetches data by [`crate::Session::copy_out`].
    CopyOut {
        /// Number of columns.
        columns: usize,
        /// Whether the data is binary.
        binary: bool,
    },
}

/// The command tag: the command, and the number of rows that it concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The command: `INSERT`, `CREATE TABLE`, ….
    pub name: &'static str,
    /// Number of rows concerned, for commands that count them.
    pub rows: Option<u64>,
}

impl Tag {
    /// A tag without a count.
    pub fn plain(name: &'static str) -> Self {
        Tag { name, rows: None }
    }

    /// A tag with a count.
    pub fn counted(name: &'static str, rows: u64) -> Self {
        Tag { name, rows: Some(rows) }
    }
}

impl fmt::Display for Tag {
    /// Prints the tag as PostgreSQL spells it; INSERT carries the zero that once was an object id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.rows) {
            ("INSERT", Some(rows)) => write!(f, "INSERT 0 {rows}"),
            (name, Some(rows)) => write!(f, "{name} {rows}"),
            (name, None) => f.write_str(name),
        }
    }
}
