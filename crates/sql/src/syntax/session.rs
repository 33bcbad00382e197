//! Statements of ours about the session and about the whole database.

use std::fmt;

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, Value};
use datafusion::sql::sqlparser::parser::Parser;

use super::reader::Reader;
use crate::error::Result;

/// A statement about the session or the whole database that the SQL parser has no tree for.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionStatement {
    /// CHECKPOINT.
    Checkpoint,
    /// BACKUP TO 'folder'.
    Backup(String),
    /// `EXPORT DATABASE [TO] 'folder'`.
    Export(String),
    /// `IMPORT DATABASE [FROM] 'folder'`.
    Import(String),
    /// ALTER SYSTEM.
    AlterSystem(SystemChange),
    /// `PREPARE name [(types)] AS statement`.
    Prepare {
        /// Name it is executed by.
        name: Ident,
        /// Declared parameter types.
        types: Vec<DataType>,
        /// The statement's text. It is one that parses; its tree is made when its first execution
        /// asks the statement cache for it.
        text: String,
    },
}

/// What ALTER SYSTEM does to a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SystemChange {
    /// SET name = values; DEFAULT is an identifier.
    Set {
        /// The setting.
        name: ObjectName,
        /// Its value, of which settings like `search_path` have several.
        values: Vec<Expr>,
    },
    /// RESET name.
    Reset(ObjectName),
    /// RESET ALL.
    ResetAll,
}

/// Behind BACKUP.
pub(super) fn backup(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    reader.expect("TO")?;
    reader.string().map(SessionStatement::Backup)
}

/// Behind EXPORT DATABASE.
pub(super) fn export(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    reader.eats("TO");
    reader.string().map(SessionStatement::Export)
}

/// Behind IMPORT DATABASE.
pub(super) fn import(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    reader.eats("FROM");
    reader.string().map(SessionStatement::Import)
}

/// Behind ALTER SYSTEM: what the SQL parser takes for a SET or RESET of the session.
pub(super) fn alter_system(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let refused = reader.unexpected("SET name = value, RESET name or RESET ALL");
    if !reader.is("SET") && !reader.is("RESET") {
        return Err(refused);
    }
    let change = match reader.sql(Parser::parse_statement)? {
        ast::Statement::Set(ast::Set::SingleAssignment {
            scope: None,
            hivevar: false,
            variable,
            values,
        }) => SystemChange::Set { name: variable, values },
        ast::Statement::Reset(reset) => match reset.reset {
            ast::Reset::ALL => SystemChange::ResetAll,
            ast::Reset::ConfigurationParameter(name) => SystemChange::Reset(name),
        },
        _ => return Err(refused),
    };
    Ok(SessionStatement::AlterSystem(change))
}

impl fmt::Display for SessionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionStatement::Checkpoint => f.write_str("CHECKPOINT"),
            SessionStatement::Backup(folder) => write!(f, "BACKUP TO {}", quote(folder)),
            SessionStatement::Export(folder) => write!(f, "EXPORT DATABASE TO {}", quote(folder)),
            SessionStatement::Import(folder) => write!(f, "IMPORT DATABASE FROM {}", quote(folder)),
            SessionStatement::AlterSystem(change) => write!(f, "ALTER SYSTEM {change}"),
            SessionStatement::Prepare { name, types, text } => {
                write!(f, "PREPARE {name}")?;
                if !types.is_empty() {
                    write!(f, " ({})", super::with_commas(types))?;
                }
                write!(f, " AS {text}")
            }
        }
    }
}

impl fmt::Display for SystemChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SystemChange::Set { name, values } => {
                write!(f, "SET {name} = {}", super::with_commas(values))
            }
            SystemChange::Reset(name) => write!(f, "RESET {name}"),
            SystemChange::ResetAll => f.write_str("RESET ALL"),
        }
    }
}

/// A text as a constant of SQL.
pub(super) fn quote(text: &str) -> Value {
    Value::SingleQuotedString(text.to_owned())
}
