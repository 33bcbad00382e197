//! RENAME TO, OWNER TO and SET SCHEMA, which objects of all kinds have.

use std::fmt;

use datafusion::sql::sqlparser::ast::Ident;

use super::reader::Reader;
use crate::error::Result;

/// Where [`super::DdlStatement::Move`] moves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// RENAME TO.
    Name(Ident),
    /// OWNER TO.
    Owner(Ident),
    /// SET SCHEMA.
    Schema(Ident),
}

pub(super) fn move_to(reader: &mut Reader<'_>) -> Result<MoveTo> {
    match reader.expect_one_of(&["RENAME", "OWNER", "SET"])? {
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
            MoveTo::Owner(name) => write!(f, "OWNER TO {name}"),
            MoveTo::Schema(name) => write!(f, "SET SCHEMA {name}"),
        }
    }
}
