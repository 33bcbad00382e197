//! COMMENT ON: objects of every kind that has comments.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Value};

use super::moves::maybe;
use super::reader::Reader;
use crate::error::{Result, SqlError};

/// COMMENT ON object IS text.
#[derive(Clone, Debug, PartialEq)]
pub struct CommentOn {
    /// What the comment is on.
    pub object: Commented,
    /// The object need not exist.
    pub if_exists: bool,
    /// The comment; `None` takes it away.
    pub text: Option<String>,
}

/// What has a comment.
#[derive(Clone, Debug, PartialEq)]
pub enum Commented {
    /// A relation or a type. `kind`: the statement's word for it, in capitals.
    Relation {
        /// TABLE, VIEW, TYPE and the like.
        kind: &'static str,
        /// Its name.
        name: ObjectName,
    },
    /// A column, by the name of its relation and its own.
    Column(ObjectName),
    /// A constraint of a table or of a domain.
    Constraint {
        /// Its name.
        name: Ident,
        /// The table or domain.
        of: ObjectName,
        /// Of a domain.
        domain: bool,
    },
    /// A schema.
    Schema(Ident),
    /// A role.
    Role(Ident),
    /// A database.
    Database(Ident),
    /// An extension, of which there are none.
    Extension(Ident),
}

/// Kinds of relations and types, as COMMENT ON names them.
const KINDS: &[&str] =
    &["TABLE", "VIEW", "MATERIALIZED VIEW", "SEQUENCE", "INDEX", "TYPE", "DOMAIN", "STREAM"];

/// Kinds of objects that nobody makes here.
const WITHOUT: &[&str] = &[
    "ACCESS METHOD",
    "AGGREGATE",
    "CAST",
    "COLLATION",
    "CONVERSION",
    "EVENT TRIGGER",
    "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE",
    "FUNCTION",
    "LANGUAGE",
    "LARGE OBJECT",
    "OPERATOR",
    "POLICY",
    "PROCEDURAL LANGUAGE",
    "PROCEDURE",
    "PUBLICATION",
    "ROUTINE",
    "RULE",
    "SERVER",
    "STATISTICS",
    "SUBSCRIPTION",
    "TABLESPACE",
    "TEXT SEARCH",
    "TRANSFORM",
    "TRIGGER",
];

/// Behind COMMENT.
pub(super) fn comment(reader: &mut Reader<'_>) -> Result<CommentOn> {
    let if_exists = reader.if_exists();
    reader.expect("ON")?;
    let object = commented(reader)?;
    reader.expect("IS")?;
    let text = match reader.eats("NULL") {
        true => None,
        false => Some(reader.string()?),
    };
    Ok(CommentOn { object, if_exists, text })
}

fn commented(reader: &mut Reader<'_>) -> Result<Commented> {
    if let Some(kind) = KINDS.iter().find(|kind| reader.eats(kind)) {
        return Ok(Commented::Relation { kind, name: reader.name()? });
    }
    if let Some(kind) = WITHOUT.iter().find(|kind| reader.eats(kind)) {
        return Err(SqlError::unsupported(format!("COMMENT ON {kind}")));
    }
    let kinds = ["COLUMN", "CONSTRAINT", "SCHEMA", "ROLE", "USER", "DATABASE", "EXTENSION"];
    Ok(match reader.expect_one_of(&kinds)? {
        "COLUMN" => Commented::Column(reader.name()?),
        "CONSTRAINT" => {
            let name = reader.ident()?;
            reader.expect("ON")?;
            let domain = reader.eats("DOMAIN");
            Commented::Constraint { name, of: reader.name()?, domain }
        }
        "SCHEMA" => Commented::Schema(reader.ident()?),
        "ROLE" | "USER" => Commented::Role(reader.ident()?),
        "DATABASE" => Commented::Database(reader.ident()?),
        _ => Commented::Extension(reader.ident()?),
    })
}

impl fmt::Display for CommentOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COMMENT {}ON {} IS ", maybe(self.if_exists, "IF EXISTS "), self.object)?;
        match &self.text {
            Some(text) => Value::SingleQuotedString(text.clone()).fmt(f),
            None => f.write_str("NULL"),
        }
    }
}

impl fmt::Display for Commented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Commented::Relation { kind, name } => write!(f, "{kind} {name}"),
            Commented::Column(name) => write!(f, "COLUMN {name}"),
            Commented::Constraint { name, of, domain } => {
                write!(f, "CONSTRAINT {name} ON {}{of}", maybe(*domain, "DOMAIN "))
            }
            Commented::Schema(name) => write!(f, "SCHEMA {name}"),
            Commented::Role(name) => write!(f, "ROLE {name}"),
            Commented::Database(name) => write!(f, "DATABASE {name}"),
            Commented::Extension(name) => write!(f, "EXTENSION {name}"),
        }
    }
}
