//! Statements of ours about the session and about the whole database.

use std::fmt;

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, Value};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::CursorStatement;
use super::do_block::DoBlock;
use super::reader::Reader;
use super::upkeep::Upkeep;
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
    /// ABORT, which is ROLLBACK.
    Abort {
        /// Whether a new transaction with the same modes follows.
        chain: bool,
    },
    /// `SET CONSTRAINTS ALL|names DEFERRED|IMMEDIATE`.
    SetConstraints {
        /// Which constraints; none means all.
        names: Vec<ObjectName>,
        /// DEFERRED.
        deferred: bool,
    },
    /// A statement about a cursor.
    Cursor(CursorStatement),
    /// VACUUM and the like.
    Upkeep(Upkeep),
    /// LISTEN channel.
    Listen(Ident),
    /// UNLISTEN channel; without one, UNLISTEN *.
    Unlisten(Option<Ident>),
    /// NOTIFY channel [, 'payload'].
    Notify {
        /// Whom it concerns.
        channel: Ident,
        /// What is told; empty if nothing is.
        payload: String,
    },
    /// DO with a block of plain statements.
    Do(DoBlock),
    /// `DISCARD ALL|PLANS|SEQUENCES|TEMP`.
    Discard(Discarded),
}

/// What DISCARD forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// ALL: everything that the session has set, prepared and opened.
    All,
    /// PLANS, which are the database's and stay right by themselves.
    Plans,
    /// SEQUENCES: what `currval` and `lastval` would tell.
    Sequences,
    /// TEMP: the session's temporary tables.
    Temp,
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

impl Discarded {
    /// The command tag, and how the statement is written.
    pub fn tag(self) -> &'static str {
        match self {
            Discarded::All => "DISCARD ALL",
            Discarded::Plans => "DISCARD PLANS",
            Discarded::Sequences => "DISCARD SEQUENCES",
            Discarded::Temp => "DISCARD TEMP",
        }
    }
}

/// Behind ABORT.
pub(super) fn abort(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let _ = reader.eats("WORK") || reader.eats("TRANSACTION");
    let chain = !reader.eats("AND NO CHAIN") && reader.eats("AND CHAIN");
    Ok(SessionStatement::Abort { chain })
}

/// Behind SET CONSTRAINTS.
pub(super) fn set_constraints(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let mut names = Vec::new();
    if !reader.eats("ALL") {
        names.push(reader.name()?);
        while reader.eats_token(&Token::Comma) {
            names.push(reader.name()?);
        }
    }
    let deferred = reader.expect_one_of(&["DEFERRED", "IMMEDIATE"])? == "DEFERRED";
    Ok(SessionStatement::SetConstraints { names, deferred })
}

/// Behind LISTEN.
pub(super) fn listen(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    reader.ident().map(SessionStatement::Listen)
}

/// Behind UNLISTEN.
pub(super) fn unlisten(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    match reader.eats_token(&Token::Mul) {
        true => Ok(SessionStatement::Unlisten(None)),
        false => reader.ident().map(Some).map(SessionStatement::Unlisten),
    }
}

/// Behind NOTIFY.
pub(super) fn notify(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let channel = reader.ident()?;
    let payload = match reader.eats_token(&Token::Comma) {
        true => reader.string()?,
        false => String::new(),
    };
    Ok(SessionStatement::Notify { channel, payload })
}

/// Behind DISCARD.
pub(super) fn discard(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let what = match reader.expect_one_of(&["ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP"])? {
        "ALL" => Discarded::All,
        "PLANS" => Discarded::Plans,
        "SEQUENCES" => Discarded::Sequences,
        _ => Discarded::Temp,
    };
    Ok(SessionStatement::Discard(what))
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

/// Behind SET LOCAL SESSION AUTHORIZATION, as SET LOCAL ROLE.
pub(super) fn set_local_authorization(reader: &mut Reader<'_>) -> Result<ast::Statement> {
    let role_name = match (reader.eats("DEFAULT"), reader.is_at_text()) {
        (true, _) => None,
        (false, true) => Some(ast::Ident::with_quote('"', reader.string()?)),
        (false, false) => Some(reader.ident()?),
    };
    let context_modifier = Some(ast::ContextModifier::Local);
    Ok(ast::Statement::Set(ast::Set::SetRole { context_modifier, role_name }))
}

/// RESET SESSION AUTHORIZATION, as SET SESSION AUTHORIZATION DEFAULT.
pub(super) fn reset_authorization() -> ast::Statement {
    let scope = ast::ContextModifier::Session;
    let kind = ast::SetSessionAuthorizationParamKind::Default;
    let to = ast::SetSessionAuthorizationParam { scope, kind };
    ast::Statement::Set(ast::Set::SetSessionAuthorization(to))
}

/// Behind ALTER SYSTEM: what the SQL parser takes for a SET or RESET of the session.
pub(super) fn alter_system(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let refused = reader.unexpected("SET name = value, RESET name or RESET ALL");
    if !reader.is("SET") && !reader.is("RESET") {
        return Err(refused);
    }
    let change = match reader.sql_with_joins(Parser::parse_statement)? {
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
            SessionStatement::Abort { chain } => {
                write!(f, "ABORT{}", if *chain { " AND CHAIN" } else { "" })
            }
            SessionStatement::SetConstraints { names, deferred } => {
                let when = if *deferred { "DEFERRED" } else { "IMMEDIATE" };
                match names.as_slice() {
                    [] => write!(f, "SET CONSTRAINTS ALL {when}"),
                    names => write!(f, "SET CONSTRAINTS {} {when}", super::with_commas(names)),
                }
            }
            SessionStatement::Do(block) => block.fmt(f),
            SessionStatement::Cursor(statement) => statement.fmt(f),
            SessionStatement::Upkeep(statement) => statement.fmt(f),
            SessionStatement::Listen(channel) => write!(f, "LISTEN {channel}"),
            SessionStatement::Unlisten(Some(channel)) => write!(f, "UNLISTEN {channel}"),
            SessionStatement::Unlisten(None) => f.write_str("UNLISTEN *"),
            SessionStatement::Notify { channel, payload } if payload.is_empty() => {
                write!(f, "NOTIFY {channel}")
            }
            SessionStatement::Notify { channel, payload } => {
                write!(f, "NOTIFY {channel}, {}", quote(payload))
            }
            SessionStatement::Discard(what) => f.write_str(what.tag()),
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
