//! What a statement comes to.

use std::fmt;

use crate::rows::Rows;

/// What a statement comes to.
pub enum Outcome {
    /// Rows, to be read.
    Rows {
        /// The rows.
        rows: Rows,
        /// The tag's words: `SELECT`, `INSERT 0`, ….
        tag: &'static str,
        /// Rows written, if the statement writes and returns rows.
        written: Option<u64>,
    },
    /// Nothing to be read.
    Done(Tag),
    /// COPY FROM STDIN: data is to be given by [`crate::Session::copy_data`].
    CopyIn {
        /// Number of columns.
        columns: usize,
        /// Whether the data is binary.
        binary: bool,
    },
    /// COPY TO STDOUT: data is to be fetched by [`crate::Session::copy_out`].
    CopyOut {
        /// Number of columns.
        columns: usize,
        /// Whether the data is binary.
        binary: bool,
    },
}

/// The command tag: what was done, to how many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `INSERT`, `CREATE TABLE`, ….
    pub name: &'static str,
    /// Rows concerned, for commands that count them.
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
    /// As PostgreSQL spells it; INSERT carries the zero that once was an object id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.rows) {
            ("INSERT", Some(rows)) => write!(f, "INSERT 0 {rows}"),
            (name, Some(rows)) => write!(f, "{name} {rows}"),
            (name, None) => f.write_str(name),
        }
    }
}
