//! What can be wrong with a database's files, in words for its administrator.

use std::fmt;
use std::io;

/// Reasons for which a database folder cannot be opened.
#[derive(Debug)]
pub enum Damage {
    /// The system refused.
    Io {
        /// The file.
        path: String,
        /// What it said.
        error: io::Error,
    },
    /// Bytes differ from those that were written.
    Corrupt {
        /// The file.
        path: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Something that must be there is not.
    Missing {
        /// What.
        what: String,
    },
}

impl Damage {
    pub(crate) fn io(path: &str) -> impl FnOnce(io::Error) -> Damage {
        move |error| match error.kind() {
            io::ErrorKind::NotFound => Damage::Missing { what: format!("the file {path}") },
            _ => Damage::Io { path: path.to_owned(), error },
        }
    }

    pub(crate) fn corrupt(path: &str, offset: u64, what: impl Into<String>) -> Damage {
        Damage::Corrupt { path: path.to_owned(), offset, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Io { path, error } => write!(f, "{path}: {error}"),
            Damage::Corrupt { path, offset, what } => {
                write!(f, "{path} is damaged at byte {offset}: {what}")
            }
            Damage::Missing { what } => write!(f, "{what} is missing"),
        }
    }
}

impl std::error::Error for Damage {}
