//! Statements that concern the session itself: transaction control, settings, prepared texts.
//!
//! Binding is here; carrying them out is the door's, which owns the session.

use datafusion::sql::sqlparser::ast::{self, Expr, ObjectName, Statement, Value as AstValue};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use halcyon_txn::Isolation;

use crate::error::{Result, SqlError, SqlState};

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
    /// SET ROLE, SET SESSION AUTHORIZATION; `None` goes back to the login role.
    SetRole(Option<String>),
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
    /// DEALLOCATE name, DEALLOCATE ALL.
    Deallocate(Option<String>),
    /// DISCARD ALL and its parts.
    Discard,
    /// LOCK TABLE … IN SHARE or EXCLUSIVE MODE.
    Lock {
        /// Tables as written.
        tables: Vec<Vec<String>>,
        /// Whether others may still read.
        exclusive: bool,
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
    /// ALTER SYSTEM SET name = value, RESET name (no value), RESET ALL (no value, name `all`).
    AlterSystem {
        /// Lower-case name.
        name: String,
        /// Value as text.
        value: Option<String>,
    },
    /// VACUUM, ANALYZE, LISTEN …: accepted, nothing to do; the tag is returned.
    Nothing(&'static str),
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

/// Statements about the whole database, which the parser does not know, carried by a statement of
/// its own that PostgreSQL's dialect does not have: CHECKPOINT, BACKUP TO 'folder', EXPORT DATABASE
/// \[TO\] 'folder', IMPORT DATABASE \[FROM\] 'folder'.
pub(crate) fn carrier(tokens: &[TokenWithSpan]) -> Option<Statement> {
    if let Some(altered) = alter_system(tokens) {
        return Some(altered);
    }
    let words: Vec<&Token> = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let (words, folder) = match words.as_slice() {
        [words @ .., Token::SingleQuotedString(folder)] => (words, Some(folder.clone())),
        words => (words, None),
    };
    let mut text = Vec::new();
    for word in words {
        match word {
            Token::Word(word) if word.quote_style.is_none() => text.push(word.value.to_lowercase()),
            _ => return None,
        }
    }
    let text: Vec<&str> = text.iter().map(String::as_str).collect();
    let (object_type, export) = match (text.as_slice(), &folder) {
        (["checkpoint"], None) | (["backup", "to"], Some(_)) => (ast::FlushType::Logs, false),
        (["export", "database"] | ["export", "database", "to"], Some(_)) => {
            (ast::FlushType::Tables, true)
        }
        (["import", "database"] | ["import", "database", "from"], Some(_)) => {
            (ast::FlushType::Tables, false)
        }
        _ => return None,
    };
    Some(Statement::Flush {
        object_type,
        location: None,
        channel: folder,
        read_lock: false,
        export,
        tables: Vec::new(),
    })
}

/// ALTER SYSTEM, as a SET of a kind that nobody can type: GLOBAL, and of Hive.
fn alter_system(tokens: &[TokenWithSpan]) -> Option<Statement> {
    let rest: Vec<TokenWithSpan> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .cloned()
        .collect();
    let is = |at: usize, wanted: &str| match rest.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
        }
        _ => false,
    };
    if !(is(0, "alter") && is(1, "system")) {
        return None;
    }
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest[2..].to_vec());
    let (variable, values) = match parser.parse_statement().ok()? {
        Statement::Set(ast::Set::SingleAssignment { scope: None, variable, values, .. }) => {
            (variable, values)
        }
        Statement::Reset(reset) => match reset.reset {
            ast::Reset::ALL => (ObjectName::from(vec![ast::Ident::new("all")]), Vec::new()),
            ast::Reset::ConfigurationParameter(name) => (name, Vec::new()),
        },
        _ => return None,
    };
    if !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        return None;
    }
    let scope = Some(ast::ContextModifier::Global);
    let set = ast::Set::SingleAssignment { scope, hivevar: true, variable, values };
    Some(Statement::Set(set))
}

/// Binds `statement` if it concerns the session itself, and gives its command tag.
///
/// `text` is the statement's own text; PREPARE keeps the part after AS.
pub fn bind(statement: &Statement, text: &str) -> Result<Option<(Utility, &'static str)>> {
    let bound = match statement {
        Statement::StartTransaction { modes, .. } => {
            (Utility::Begin(Modes::from_ast(modes)?), "BEGIN")
        }
        Statement::Commit { chain, .. } => (Utility::Commit { chain: *chain }, "COMMIT"),
        Statement::Rollback { savepoint: Some(name), .. } => {
            (Utility::RollbackTo(ident(name)), "ROLLBACK")
        }
        Statement::Rollback { chain, .. } => (Utility::Rollback { chain: *chain }, "ROLLBACK"),
        Statement::Savepoint { name } => (Utility::Savepoint(ident(name)), "SAVEPOINT"),
        Statement::ReleaseSavepoint { name } => (Utility::Release(ident(name)), "RELEASE"),
        Statement::Set(ast::Set::SingleAssignment {
            scope: Some(ast::ContextModifier::Global),
            hivevar: true,
            variable,
            values,
        }) => (bind_alter_system(variable, values)?, "ALTER SYSTEM"),
        Statement::Set(set) => (bind_set(set)?, "SET"),
        Statement::Reset(reset) => {
            let name = match &reset.reset {
                ast::Reset::ALL => None,
                ast::Reset::ConfigurationParameter(name) => Some(setting_name(name)),
            };
            match name.as_deref() {
                Some("role" | "session_authorization") => (Utility::SetRole(None), "RESET"),
                _ => (Utility::Reset(name), "RESET"),
            }
        }
        Statement::ShowVariable { variable } => (bind_show(variable), "SHOW"),
        Statement::Prepare { name, data_types, .. } => {
            let prepare = Utility::Prepare {
                name: ident(name),
                types: data_types.clone(),
                text: after_as(text)?,
            };
            (prepare, "PREPARE")
        }
        Statement::Execute { name: Some(name), parameters, .. } => {
            let execute =
                Utility::Execute { name: setting_name(name), arguments: parameters.clone() };
            (execute, "EXECUTE")
        }
        Statement::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            (Utility::Deallocate((!all).then(|| ident(name))), "DEALLOCATE")
        }
        Statement::Discard { .. } => (Utility::Discard, "DISCARD ALL"),
        Statement::Lock(lock) => (bind_lock(lock), "LOCK TABLE"),
        Statement::Flush {
            object_type: ast::FlushType::Tables,
            export,
            channel: Some(folder),
            ..
        } => match export {
            true => (Utility::Export(folder.clone()), "EXPORT"),
            false => (Utility::Import(folder.clone()), "IMPORT"),
        },
        Statement::Flush { channel, .. } => {
            let tag = if channel.is_some() { "BACKUP" } else { "CHECKPOINT" };
            (Utility::Checkpoint { to: channel.clone() }, tag)
        }
        Statement::Vacuum { .. } => (Utility::Nothing("VACUUM"), "VACUUM"),
        Statement::Analyze { .. } => (Utility::Nothing("ANALYZE"), "ANALYZE"),
        _ => return Ok(None),
    };
    Ok(Some(bound))
}

fn bind_lock(lock: &ast::Lock) -> Utility {
    use ast::LockTableMode::{AccessShare, RowShare, Share};
    let shared = matches!(lock.lock_mode, Some(AccessShare | RowShare | Share));
    let names = |table: &ast::LockTableTarget| {
        table.name.0.iter().filter_map(|part| part.as_ident().map(ident)).collect()
    };
    Utility::Lock { tables: lock.tables.iter().map(names).collect(), exclusive: !shared }
}

fn bind_alter_system(variable: &ObjectName, values: &[Expr]) -> Result<Utility> {
    let name = setting_name(variable);
    Ok(match values.is_empty() {
        true => Utility::AlterSystem { name, value: None },
        false => match set_value(name.clone(), values, false)? {
            Utility::Set { value, .. } => Utility::AlterSystem { name, value },
            _ => Utility::AlterSystem { name, value: None },
        },
    })
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
            set_value("timezone".into(), std::slice::from_ref(value), *local)?
        }
        Set::SetTransaction { modes, session: true, .. } => {
            Utility::SetSessionTransaction(Modes::from_ast(modes)?)
        }
        Set::SetTransaction { modes, .. } => Utility::SetTransaction(Modes::from_ast(modes)?),
        Set::SetRole { role_name, .. } => Utility::SetRole(role_name.as_ref().map(ident)),
        Set::SetSessionAuthorization(to) => match &to.kind {
            ast::SetSessionAuthorizationParamKind::Default => Utility::SetRole(None),
            ast::SetSessionAuthorizationParamKind::User(user) => {
                Utility::SetRole(Some(ident(user)))
            }
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
    let texts = values.iter().map(setting_text).collect::<Result<Vec<_>>>()?;
    let is_default = values.len() == 1
        && matches!(&values[0], Expr::Identifier(i) if i.quote_style.is_none()
            && (i.value.eq_ignore_ascii_case("default")
                || name == "timezone" && i.value.eq_ignore_ascii_case("local")));
    let value = (!is_default).then(|| texts.join(", "));
    Ok(match name.as_str() {
        "role" => Utility::SetRole(value.filter(|role| !role.eq_ignore_ascii_case("none"))),
        _ => Utility::Set { name, value, local },
    })
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
        Expr::Interval(interval) => setting_text(&interval.value),
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

fn ident(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

fn setting_name(name: &ObjectName) -> String {
    let parts: Vec<String> =
        name.0.iter().filter_map(|part| part.as_ident()).map(|i| i.value.to_lowercase()).collect();
    parts.join(".")
}

/// The statement of `PREPARE name [(types)] AS statement`, from the text after the first AS
/// outside parentheses and quotes.
fn after_as(text: &str) -> Result<String> {
    let mut depth = 0usize;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '"' => while chars.next().is_some_and(|(_, c)| c != '"') {},
            'a' | 'A' if depth == 0 && is_word(text, at, "as") => {
                return Ok(text[at + 2..].trim().to_owned());
            }
            _ => {}
        }
    }
    Err(SqlError::new(SqlState::SYNTAX_ERROR, "PREPARE needs AS and a statement"))
}

fn is_word(text: &str, at: usize, word: &str) -> bool {
    let bytes = text.as_bytes();
    let part = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    bytes[at..].get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
        && !(at > 0 && part(bytes.get(at - 1)))
        && !part(bytes.get(at + word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Utility {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, text).expect(text);
        bind(&statements.remove(0), text).expect(text).expect("a session statement").0
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
        let bound = |text: &str| {
            let mut parsed = crate::parse::parse(text).expect(text);
            bind(&parsed.remove(0).statement, text).expect(text).expect("a session statement")
        };
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
        for text in ["EXPORT DATABASE", "EXPORT 'x'", "ALTER SYSTEM a = 1", "BACKUP DATABASE 'x'"] {
            assert!(crate::parse::parse(text).is_err(), "{text}");
        }
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
