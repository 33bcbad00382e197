//! Statements that concern the session itself: transaction control, settings, prepared texts.
//!
//! Binding is here; carrying them out is the door's, which owns the session.

use datafusion::sql::sqlparser::ast::{self, Expr, ObjectName, Value as AstValue};
use halcyon_txn::Isolation;

use crate::coerce::zone::posix_name;
use crate::error::{Result, SqlError, SqlState};
use crate::identifier::{fold, parts};
use crate::syntax::{
    CursorStatement, DeclareCursor, Discarded, DoBlock, SessionStatement, Step, SystemChange,
    Upkeep, UpkeepObject, UpkeepVerb, is_executed,
};

/// A bound session statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Utility {
    /// BEGIN, START TRANSACTION.
    Begin(Modes),
    /// COMMIT [AND CHAIN], END.
    Commit {
        /// Whether a new transaction with the same modes follows.
        chain: bool,
    },
    /// ROLLBACK [AND CHAIN], ABORT.
    Rollback {
        /// Whether a new transaction with the same modes follows.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// SET TRANSACTION …: of the transaction in progress.
    SetTransaction(Modes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION …: of those to come.
    SetSessionTransaction(Modes),
    /// SET CONSTRAINTS.
    SetConstraints {
        /// Which ones, by names that may have a schema; `None` for ALL.
        names: Option<Vec<Vec<String>>>,
        /// DEFERRED, else IMMEDIATE.
        deferred: bool,
    },
    /// SET name = value; `None` means DEFAULT.
    Set {
        /// Lower-case name.
        name: String,
        /// Value as text.
        value: Option<String>,
        /// SET LOCAL: until the transaction ends.
        local: bool,
    },
    /// RESET name, RESET ALL.
    Reset(Option<String>),
    /// SHOW name, SHOW ALL.
    Show(Option<String>),
    /// SET ROLE, SET SESSION AUTHORIZATION.
    SetRole {
        /// The role; `None` goes back to the login role.
        role: Option<String>,
        /// SET LOCAL: until the transaction ends.
        local: bool,
    },
    /// PREPARE name (types) AS statement.
    Prepare {
        /// Name it is executed by.
        name: String,
        /// Declared parameter types.
        types: Vec<ast::DataType>,
        /// The statement's text.
        text: String,
    },
    /// EXECUTE name (arguments).
    Execute {
        /// Name given to PREPARE.
        name: String,
        /// Constant expressions.
        arguments: Vec<Expr>,
    },
    /// CREATE TABLE … AS EXECUTE.
    CreateExecuted(Box<ast::CreateTable>),
    /// DEALLOCATE name, DEALLOCATE ALL.
    Deallocate(Option<String>),
    /// DISCARD.
    Discard(Discarded),
    /// LOCK TABLE.
    Lock {
        /// Tables as written.
        tables: Vec<Vec<String>>,
        /// The mode, ACCESS EXCLUSIVE if none was written.
        mode: ast::LockTableMode,
    },
    /// CHECKPOINT, and BACKUP TO 'folder'.
    Checkpoint {
        /// Where the backup goes.
        to: Option<String>,
    },
    /// EXPORT DATABASE TO 'folder'.
    Export(String),
    /// IMPORT DATABASE FROM 'folder'.
    Import(String),
    /// DO.
    Do(DoBlock),
    /// ALTER SYSTEM SET name = value, RESET name (no value), RESET ALL (no value, name `all`).
    AlterSystem {
        /// Lower-case name.
        name: String,
        /// Value as text.
        value: Option<String>,
    },
    /// VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW: their objects must exist, and nothing is
    /// done.
    Upkeep {
        /// The statement.
        verb: UpkeepVerb,
        /// Tables as written, with columns of them.
        tables: Vec<(Vec<String>, Vec<String>)>,
        /// Indexes as written.
        indexes: Vec<Vec<String>>,
        /// Schemas.
        schemas: Vec<String>,
    },
    /// DECLARE.
    Declare(DeclareCursor),
    /// FETCH and MOVE.
    Fetch {
        /// The cursor.
        cursor: String,
        /// Where it goes.
        step: Step,
        /// MOVE: rows are counted, not given.
        moves_only: bool,
    },
    /// CLOSE name, CLOSE ALL.
    Close(Option<String>),
    /// LISTEN.
    Listen(String),
    /// UNLISTEN channel, UNLISTEN *.
    Unlisten(Option<String>),
    /// NOTIFY.
    Notify {
        /// Whom it concerns.
        channel: String,
        /// What is told.
        payload: String,
    },
}

/// What BEGIN and SET TRANSACTION may say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modes {
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
}

impl Modes {
    fn from_ast(modes: &[ast::TransactionMode]) -> Result<Self> {
        use ast::{TransactionAccessMode, TransactionIsolationLevel as Level, TransactionMode};
        let mut out = Modes::default();
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => {
                    out.read_only = Some(true);
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    out.read_only = Some(false);
                }
                TransactionMode::IsolationLevel(level) => {
                    out.isolation = Some(match level {
                        Level::ReadUncommitted => Isolation::ReadUncommitted,
                        Level::ReadCommitted => Isolation::ReadCommitted,
                        Level::RepeatableRead => Isolation::RepeatableRead,
                        Level::Serializable => Isolation::Serializable,
                        Level::Snapshot => {
                            return Err(SqlError::unsupported("isolation level SNAPSHOT")
                                .hint("Use READ ONLY for a snapshot, or SERIALIZABLE."));
                        }
                    });
                }
            }
        }
        Ok(out)
    }
}

/// Isolation level as SQL spells it, for SHOW and SET.
pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

/// Isolation level from SQL's spelling.
pub fn parse_isolation(text: &str) -> Option<Isolation> {
    match text.to_ascii_lowercase().as_str() {
        "read uncommitted" => Some(Isolation::ReadUncommitted),
        "read committed" => Some(Isolation::ReadCommitted),
        "repeatable read" => Some(Isolation::RepeatableRead),
        "serializable" => Some(Isolation::Serializable),
        _ => None,
    }
}

/// Binds a statement of ours about the session or the whole database, and gives its command tag.
pub fn bind_own(statement: &SessionStatement) -> Result<(Utility, &'static str)> {
    Ok(match statement {
        SessionStatement::Checkpoint => (Utility::Checkpoint { to: None }, "CHECKPOINT"),
        SessionStatement::Backup(folder) => {
            (Utility::Checkpoint { to: Some(folder.clone()) }, "BACKUP")
        }
        SessionStatement::Export(folder) => (Utility::Export(folder.clone()), "EXPORT"),
        SessionStatement::Import(folder) => (Utility::Import(folder.clone()), "IMPORT"),
        SessionStatement::AlterSystem(change) => (bind_alter_system(change)?, "ALTER SYSTEM"),
        SessionStatement::Prepare { name, types, text } => {
            let (types, text) = (types.clone(), text.clone());
            (Utility::Prepare { name: fold(name), types, text }, "PREPARE")
        }
        SessionStatement::Abort { chain } => (Utility::Rollback { chain: *chain }, "ROLLBACK"),
        SessionStatement::Cursor(statement) => bind_cursor(statement),
        SessionStatement::Upkeep(upkeep) => (bind_upkeep(upkeep)?, upkeep.verb.name()),
        SessionStatement::Listen(channel) => (Utility::Listen(fold(channel)), "LISTEN"),
        SessionStatement::Unlisten(channel) => {
            (Utility::Unlisten(channel.as_ref().map(fold)), "UNLISTEN")
        }
        SessionStatement::Notify { channel, payload } => {
            (Utility::Notify { channel: fold(channel), payload: payload.clone() }, "NOTIFY")
        }
        SessionStatement::SetConstraints { names, deferred } => {
            let names = names.iter().map(parts).collect::<Result<Vec<_>>>()?;
            let names = (!names.is_empty()).then_some(names);
            (Utility::SetConstraints { names, deferred: *deferred }, "SET CONSTRAINTS")
        }
        SessionStatement::Do(block) => (Utility::Do(block.clone()), "DO"),
        SessionStatement::Discard(what) => (Utility::Discard(*what), what.tag()),
    })
}

fn bind_cursor(statement: &CursorStatement) -> (Utility, &'static str) {
    match statement {
        CursorStatement::Declare(declare) => (Utility::Declare(declare.clone()), "DECLARE CURSOR"),
        CursorStatement::Fetch { cursor, step, moves_only } => {
            let tag = if *moves_only { "MOVE" } else { "FETCH" };
            let (cursor, step, moves_only) = (fold(cursor), *step, *moves_only);
            (Utility::Fetch { cursor, step, moves_only }, tag)
        }
        CursorStatement::Close(Some(name)) => (Utility::Close(Some(fold(name))), "CLOSE CURSOR"),
        CursorStatement::Close(None) => (Utility::Close(None), "CLOSE CURSOR ALL"),
    }
}

/// A statement that has nothing to do.
fn nothing() -> Utility {
    let (tables, indexes, schemas) = (Vec::new(), Vec::new(), Vec::new());
    Utility::Upkeep { verb: UpkeepVerb::Analyze, tables, indexes, schemas }
}

fn bind_upkeep(upkeep: &Upkeep) -> Result<Utility> {
    let (mut tables, mut indexes, mut schemas) = (Vec::new(), Vec::new(), Vec::new());
    for object in &upkeep.objects {
        match object {
            UpkeepObject::Table(name, columns) => {
                tables.push((parts(name)?, columns.iter().map(fold).collect()));
            }
            UpkeepObject::Index(name) => indexes.push(parts(name)?),
            UpkeepObject::Schema(name) => schemas.push(fold(name)),
            UpkeepObject::Statistics(_) => {}
        }
    }
    Ok(Utility::Upkeep { verb: upkeep.verb, tables, indexes, schemas })
}

/// Binds a statement of the SQL parser if it concerns the session itself, and gives its command
/// tag.
pub fn bind(statement: &ast::Statement) -> Result<Option<(Utility, &'static str)>> {
    use ast::Statement;
    let bound = match statement {
        Statement::StartTransaction { modes, .. } => {
            (Utility::Begin(Modes::from_ast(modes)?), "BEGIN")
        }
        Statement::Commit { chain, .. } => (Utility::Commit { chain: *chain }, "COMMIT"),
        Statement::Rollback { savepoint: Some(name), .. } => {
            (Utility::RollbackTo(fold(name)), "ROLLBACK")
        }
        Statement::Rollback { chain, .. } => (Utility::Rollback { chain: *chain }, "ROLLBACK"),
        Statement::Savepoint { name } => (Utility::Savepoint(fold(name)), "SAVEPOINT"),
        Statement::ReleaseSavepoint { name } => (Utility::Release(fold(name)), "RELEASE"),
        Statement::Set(set) => (bind_set(set)?, "SET"),
        Statement::Reset(reset) => {
            let name = match &reset.reset {
                ast::Reset::ALL => None,
                ast::Reset::ConfigurationParameter(name) => Some(setting_name(name)),
            };
            match name.as_deref() {
                Some("role" | "session_authorization") => {
                    (Utility::SetRole { role: None, local: false }, "RESET")
                }
                _ => (Utility::Reset(name), "RESET"),
            }
        }
        Statement::ShowVariable { variable } => (bind_show(variable), "SHOW"),
        Statement::Execute { name: Some(name), parameters, .. } => {
            let execute =
                Utility::Execute { name: setting_name(name), arguments: parameters.clone() };
            (execute, "EXECUTE")
        }
        Statement::CreateTable(create) if is_executed(create) => {
            (Utility::CreateExecuted(Box::new(create.clone())), "SELECT")
        }
        Statement::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            (Utility::Deallocate((!all).then(|| fold(name))), "DEALLOCATE")
        }
        Statement::Lock(lock) => (bind_lock(lock), "LOCK TABLE"),
        // There are none of these kinds, so there is none of this name either.
        Statement::DropFunction(drop) if drop.if_exists => (nothing(), "DROP FUNCTION"),
        Statement::DropProcedure { if_exists: true, .. } => (nothing(), "DROP PROCEDURE"),
        Statement::DropTrigger(drop) if drop.if_exists => (nothing(), "DROP TRIGGER"),
        Statement::DropPolicy(drop) if drop.if_exists => (nothing(), "DROP POLICY"),
        _ => return Ok(None),
    };
    Ok(Some(bound))
}

fn bind_lock(lock: &ast::Lock) -> Utility {
    let names = |table: &ast::LockTableTarget| {
        table.name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect()
    };
    let mode = lock.lock_mode.clone().unwrap_or(ast::LockTableMode::AccessExclusive);
    Utility::Lock { tables: lock.tables.iter().map(names).collect(), mode }
}

fn bind_alter_system(change: &SystemChange) -> Result<Utility> {
    let (name, value) = match change {
        SystemChange::ResetAll => ("all".to_owned(), None),
        SystemChange::Reset(name) => (setting_name(name), None),
        SystemChange::Set { name, values } => {
            let name = setting_name(name);
            let value = setting_value(&name, values)?;
            (name, value)
        }
    };
    Ok(Utility::AlterSystem { name, value })
}

fn bind_set(set: &ast::Set) -> Result<Utility> {
    use ast::{ContextModifier, Set};
    Ok(match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let name = setting_name(variable);
            let local = matches!(scope, Some(ContextModifier::Local));
            set_value(name, values, local)?
        }
        Set::SetTimeZone { local, value } => {
            let offset = zone_of_interval(value)?;
            let value = offset.map_or_else(|| value.clone(), Expr::value);
            set_value("timezone".into(), std::slice::from_ref(&value), *local)?
        }
        Set::SetTransaction { snapshot: Some(_), .. } => {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT")
                .hint("A READ ONLY transaction reads a snapshot of its own."));
        }
        Set::SetTransaction { modes, session: true, .. } => {
            Utility::SetSessionTransaction(Modes::from_ast(modes)?)
        }
        Set::SetTransaction { modes, .. } => Utility::SetTransaction(Modes::from_ast(modes)?),
        Set::SetRole { context_modifier, role_name } => Utility::SetRole {
            role: role_name.as_ref().map(fold),
            local: matches!(context_modifier, Some(ContextModifier::Local)),
        },
        Set::SetSessionAuthorization(to) => Utility::SetRole {
            role: match &to.kind {
                ast::SetSessionAuthorizationParamKind::Default => None,
                ast::SetSessionAuthorizationParamKind::User(user) => Some(fold(user)),
            },
            local: matches!(to.scope, ContextModifier::Local),
        },
        Set::SetNames { charset_name, .. } => Utility::Set {
            name: "client_encoding".into(),
            value: Some(charset_name.value.clone()),
            local: false,
        },
        Set::SetNamesDefault {} => {
            Utility::Set { name: "client_encoding".into(), value: None, local: false }
        }
        other => return Err(SqlError::unsupported(format!("{other}"))),
    })
}

fn set_value(name: String, values: &[Expr], local: bool) -> Result<Utility> {
    let value = setting_value(&name, values)?;
    Ok(match name.as_str() {
        "role" => {
            let role = value.filter(|role| !role.eq_ignore_ascii_case("none"));
            Utility::SetRole { role, local }
        }
        _ => Utility::Set { name, value, local },
    })
}

/// What a setting is set to, as text; `None` for DEFAULT.
fn setting_value(name: &str, values: &[Expr]) -> Result<Option<String>> {
    let texts = values.iter().map(setting_text).collect::<Result<Vec<_>>>()?;
    let is_default = values.len() == 1
        && matches!(&values[0], Expr::Identifier(i) if i.quote_style.is_none()
            && (i.value.eq_ignore_ascii_case("default")
                || name == "timezone" && i.value.eq_ignore_ascii_case("local")));
    Ok((!is_default).then(|| texts.join(", ")))
}

/// The zone that `SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE` names, whose offset counts eastwards; `None` for other
/// values. Errors: 22023 for days and months.
fn zone_of_interval(value: &Expr) -> Result<Option<AstValue>> {
    let Expr::Interval(interval) = value else { return Ok(None) };
    let text = setting_text(&interval.value)?;
    // `INTERVAL '2' HOUR`, where the number is without a unit.
    let unit = match (&interval.leading_field, text.trim().parse::<f64>()) {
        (Some(ast::DateTimeField::Hour), Ok(_)) => " hours",
        _ => "",
    };
    let span = halcyon_value::interval::parse(&format!("{text}{unit}"))?;
    if span.months != 0 || span.days != 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid interval value for time zone: {value}"),
        ));
    }
    let seconds = i32::try_from(span.nanos / 1_000_000_000).unwrap_or(i32::MAX);
    Ok(Some(AstValue::SingleQuotedString(posix_name(seconds))))
}

/// A setting's value as text: `on`, `'UTC'`, `-3`, `public`.
fn setting_text(value: &Expr) -> Result<String> {
    match value {
        Expr::Identifier(name) => Ok(name.value.clone()),
        Expr::Value(value) => Ok(match &value.value {
            AstValue::SingleQuotedString(text)
            | AstValue::DoubleQuotedString(text)
            | AstValue::EscapedStringLiteral(text) => text.clone(),
            other => other.to_string(),
        }),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            Ok(format!("-{}", setting_text(expr)?))
        }
        Expr::UnaryOp { op: ast::UnaryOperator::Plus, expr } => setting_text(expr),
        other => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("a setting's value must be a constant, not \"{other}\""),
        )),
    }
}

fn bind_show(variable: &[ast::Ident]) -> Utility {
    let words: Vec<String> = variable.iter().map(|word| word.value.to_ascii_lowercase()).collect();
    match words.join(" ").as_str() {
        "all" => Utility::Show(None),
        "time zone" => Utility::Show(Some("timezone".into())),
        "transaction isolation level" => Utility::Show(Some("transaction_isolation".into())),
        "session authorization" => Utility::Show(Some("session_authorization".into())),
        _ => Utility::Show(Some(words.join("."))),
    }
}

fn setting_name(name: &ObjectName) -> String {
    let parts: Vec<String> =
        name.0.iter().filter_map(|part| part.as_ident()).map(|i| i.value.to_lowercase()).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::syntax::Statement;

    fn bound_with_tag(text: &str) -> (Utility, &'static str) {
        match parse(text).expect(text).remove(0).statement {
            Statement::Session(own) => bind_own(&own).expect(text),
            Statement::Sql(statement) => {
                bind(&statement).expect(text).expect("a session statement")
            }
            other => panic!("{other:?}"),
        }
    }

    fn bound(text: &str) -> Utility {
        bound_with_tag(text).0
    }

    #[test]
    fn transaction_control_is_bound() {
        let modes = Modes { isolation: Some(Isolation::ReadUncommitted), read_only: Some(true) };
        assert_eq!(
            bound("BEGIN ISOLATION LEVEL READ UNCOMMITTED READ ONLY"),
            Utility::Begin(modes)
        );
        assert_eq!(bound("COMMIT"), Utility::Commit { chain: false });
        assert_eq!(bound("ROLLBACK AND CHAIN"), Utility::Rollback { chain: true });
        assert_eq!(bound("SAVEPOINT A"), Utility::Savepoint("a".into()));
        assert_eq!(bound("ROLLBACK TO SAVEPOINT \"A\""), Utility::RollbackTo("A".into()));
        assert_eq!(bound("RELEASE SAVEPOINT a"), Utility::Release("a".into()));
    }

    #[test]
    fn settings_are_bound_as_text() {
        let set = |name: &str, value: Option<&str>, local| Utility::Set {
            name: name.into(),
            value: value.map(Into::into),
            local,
        };
        assert_eq!(bound("SET lock_timeout = 50"), set("lock_timeout", Some("50"), false));
        assert_eq!(bound("SET LOCAL x.y TO 'on'"), set("x.y", Some("on"), true));
        assert_eq!(bound("SET search_path TO a, \"B\""), set("search_path", Some("a, B"), false));
        assert_eq!(bound("SET search_path TO DEFAULT"), set("search_path", None, false));
        assert_eq!(bound("SET TIME ZONE 'UTC'"), set("timezone", Some("UTC"), false));
        assert_eq!(bound("SHOW TIME ZONE"), Utility::Show(Some("timezone".into())));
        assert_eq!(bound("RESET ALL"), Utility::Reset(None));
    }

    #[test]
    fn statements_about_the_whole_database_are_bound() {
        let bound = bound_with_tag;
        let altered = |name: &str, value: Option<&str>| {
            let (name, value) = (name.to_owned(), value.map(Into::into));
            (Utility::AlterSystem { name, value }, "ALTER SYSTEM")
        };
        assert_eq!(bound("ALTER SYSTEM SET a = '5 min'"), altered("a", Some("5 min")));
        assert_eq!(bound("alter system set A to 5;"), altered("a", Some("5")));
        assert_eq!(bound("ALTER SYSTEM SET a = DEFAULT"), altered("a", None));
        assert_eq!(bound("ALTER SYSTEM RESET a"), altered("a", None));
        assert_eq!(bound("ALTER SYSTEM RESET ALL"), altered("all", None));
        let folder = || "it's".to_owned();
        for text in ["EXPORT DATABASE TO 'it''s'", "export database 'it''s'"] {
            assert_eq!(bound(text), (Utility::Export(folder()), "EXPORT"));
        }
        for text in ["IMPORT DATABASE FROM 'it''s';", "import database 'it''s'"] {
            assert_eq!(bound(text), (Utility::Import(folder()), "IMPORT"));
        }
        let backup = Utility::Checkpoint { to: Some(folder()) };
        assert_eq!(bound("BACKUP TO 'it''s'"), (backup, "BACKUP"));
        assert_eq!(bound("CHECKPOINT"), (Utility::Checkpoint { to: None }, "CHECKPOINT"));
    }

    #[test]
    fn prepare_keeps_the_text_after_as() {
        match bound("PREPARE \"as\" (int, numeric(3,1)) AS SELECT $1 AS x") {
            Utility::Prepare { name, types, text } => {
                assert_eq!((name.as_str(), types.len()), ("as", 2));
                assert_eq!(text, "SELECT $1 AS x");
            }
            other => panic!("{other:?}"),
        }
    }
}
