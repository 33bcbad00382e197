//! RENAME TO, OWNER TO and SET SCHEMA, which objects of all kinds have, and another name for a view's column.

use std::fmt;

use datafusion::sql::sqlparser::ast::Ident;

use super::reader::Reader;
use crate::error::Result;

/// Where [`super::DdlStatement::Move`] moves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// RENAME TO.
    Name(Ident),
    /// RENAME COLUMN … TO.
    Column(Ident, Ident),
    /// OWNER TO.
    Owner(Ident),
    /// SET SCHEMA.
    Schema(Ident),
}

pub(super) fn move_to(reader: &mut Reader<'_>) -> Result<MoveTo> {
    read(reader, false)
}

/// As [`move_to`], of what may have columns.
pub(super) fn move_with_columns(reader: &mut Reader<'_>) -> Result<MoveTo> {
    read(reader, true)
}

fn read(reader: &mut Reader<'_>, takes_columns: bool) -> Result<MoveTo> {
    match reader.expect_one_of(&["RENAME", "OWNER", "SET"])? {
        "RENAME" if reader.eats("TO") => reader.ident().map(MoveTo::Name),
        "RENAME" if takes_columns => {
            reader.eats("COLUMN");
            let from = reader.ident()?;
            reader.expect("TO")?;
            Ok(MoveTo::Column(from, reader.ident()?))
        }
        "RENAME" => {
            reader.expect("TO")?;
            reader.ident().map(MoveTo::Name)
        }
        "OWNER" => {
            reader.expect("TO")?;
            reader.ident().map(MoveTo::Owner)
        }
        _ => {
            reader.expect("SCHEMA")?;
            reader.ident().map(MoveTo::Schema)
        }
    }
}

pub(super) fn maybe(said: bool, words: &'static str) -> &'static str {
    if said { words } else { "" }
}

impl fmt::Display for MoveTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveTo::Name(name) => write!(f, "RENAME TO {name}"),
            MoveTo::Column(from, to) => write!(f, "RENAME COLUMN {from} TO {to}"),
            MoveTo::Owner(name) => write!(f, "OWNER TO {name}"),
            MoveTo::Schema(name) => write!(f, "SET SCHEMA {name}"),
        }
    }
}
