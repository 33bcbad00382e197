//! Workload classes and mappings: CREATE, ALTER, DROP, GRANT USAGE, the brake, and session variables.
//!
//! The words are those of SAP HANA; rules, the brake and rights are ours. Which keys and values there are
//! is said by the crate that knows what classes do.

use std::fmt;

use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName, Query, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::moves::maybe;
use super::reader::Reader;
use super::session::quote;
use super::with_commas;
use crate::error::Result;

/// Keys in upper case, and their values as text.
pub type WorkloadSettings = Vec<(String, String)>;

/// A statement about workload classes or mappings.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadStatement {
    /// CREATE WORKLOAD CLASS, CREATE WORKLOAD MAPPING.
    Create {
        /// Which of both.
        kind: WorkloadKind,
        /// It may exist.
        if_not_exists: bool,
        /// Its name.
        name: Ident,
        /// A class's parent; the class that a mapping leads to, which is always there.
        class: Option<Ident>,
        /// SET.
        settings: WorkloadSettings,
        /// WITH WILDCARD: the character that stands for any text.
        wildcard: Option<char>,
    },
    /// ALTER WORKLOAD CLASS, ALTER WORKLOAD MAPPING.
    Alter {
        /// Which of both.
        kind: WorkloadKind,
        /// Its name; `None` for all classes, which are enabled or disabled.
        name: Option<Ident>,
        /// What is to change.
        change: WorkloadChange,
    },
    /// DROP WORKLOAD CLASS, DROP WORKLOAD MAPPING.
    Drop {
        /// Which of both.
        kind: WorkloadKind,
        /// They need not exist.
        if_exists: bool,
        /// Their names.
        names: Vec<Ident>,
    },
    /// GRANT or REVOKE of USAGE ON WORKLOAD CLASS.
    Usage {
        /// GRANT, else REVOKE.
        grant: bool,
        /// The classes.
        classes: Vec<Ident>,
        /// Who gets or loses the right.
        roles: Vec<Ident>,
    },
    /// ALTER SYSTEM SET WORKLOAD BRAKE: OFF, LIGHT or FULL.
    Brake(&'static str),
}

/// What a statement about workload is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A class.
    Class,
    /// A mapping.
    Mapping,
}

/// What ALTER WORKLOAD CLASS or MAPPING changes.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadChange {
    /// SET.
    Set(WorkloadSettings),
    /// UNSET: keys in upper case.
    Unset(Vec<String>),
    /// ENABLE, else DISABLE.
    Enable(bool),
    /// PARENT of a class, WORKLOAD CLASS of a mapping; `None` for NO PARENT.
    Class(Option<Ident>),
    /// ADD RULE of a class.
    AddRule {
        /// Its name.
        name: Ident,
        /// Behind WHEN: words in upper case, and `>` or `>=`, with single blanks.
        measure: String,
        /// Behind the sign: a number, perhaps with a unit.
        value: String,
        /// Behind THEN.
        action: RuleAction,
        /// DRY RUN.
        dry_run: bool,
    },
    /// DROP RULE of a class.
    DropRule(Ident),
}

/// What a rule does with a statement that it is about.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleAction {
    /// LOG.
    Log,
    /// CANCEL.
    Cancel,
    /// SWITCH TO a class.
    Switch(Ident),
    /// THROTTLE to so many hundredths.
    Throttle(u64),
}

impl WorkloadKind {
    /// SQL's word for it.
    pub fn word(self) -> &'static str {
        match self {
            WorkloadKind::Class => "CLASS",
            WorkloadKind::Mapping => "MAPPING",
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.expect_one_of(&["CLASS", "MAPPING"])? {
            "CLASS" => Ok(WorkloadKind::Class),
            _ => Ok(WorkloadKind::Mapping),
        }
    }
}

/// Behind CREATE WORKLOAD.
pub(super) fn create(reader: &mut Reader<'_>) -> Result<WorkloadStatement> {
    let kind = WorkloadKind::read(reader)?;
    let if_not_exists = reader.eats("IF NOT EXISTS");
    let name = reader.ident()?;
    let (mut class, mut settings, mut wildcard) = (None, Vec::new(), None);
    match kind {
        WorkloadKind::Class => {
            if reader.eats("PARENT") {
                class = Some(reader.ident()?);
            }
            if reader.eats("SET") {
                settings = read_settings(reader)?;
            }
        }
        WorkloadKind::Mapping => {
            reader.expect("WORKLOAD CLASS")?;
            class = Some(reader.ident()?);
            reader.expect("SET")?;
            settings = read_settings(reader)?;
            if reader.eats("WITH WILDCARD") {
                wildcard = Some(if reader.is_at_text() { read_character(reader)? } else { '%' });
            }
        }
    }
    Ok(WorkloadStatement::Create { kind, if_not_exists, name, class, settings, wildcard })
}

/// Behind ALTER WORKLOAD.
pub(super) fn alter(reader: &mut Reader<'_>) -> Result<WorkloadStatement> {
    let kind = WorkloadKind::read(reader)?;
    let is_class = kind == WorkloadKind::Class;
    let name = if is_class && reader.eats("ALL") { None } else { Some(reader.ident()?) };
    let change = if reader.eats("ENABLE") {
        WorkloadChange::Enable(true)
    } else if reader.eats("DISABLE") {
        WorkloadChange::Enable(false)
    } else if name.is_none() {
        return Err(reader.unexpected("ENABLE, DISABLE"));
    } else if reader.eats("SET") {
        WorkloadChange::Set(read_settings(reader)?)
    } else if reader.eats("UNSET") {
        WorkloadChange::Unset(listed(reader, read_key)?)
    } else if is_class {
        change_of_class(reader)?
    } else {
        reader.expect("WORKLOAD CLASS")?;
        WorkloadChange::Class(Some(reader.ident()?))
    };
    Ok(WorkloadStatement::Alter { kind, name, change })
}

fn change_of_class(reader: &mut Reader<'_>) -> Result<WorkloadChange> {
    Ok(match reader.expect_one_of(&["PARENT", "NO", "DROP", "ADD"])? {
        "PARENT" => WorkloadChange::Class(Some(reader.ident()?)),
        "NO" => {
            reader.expect("PARENT")?;
            WorkloadChange::Class(None)
        }
        "DROP" => {
            reader.expect("RULE")?;
            WorkloadChange::DropRule(reader.ident()?)
        }
        _ => {
            reader.expect("RULE")?;
            add_rule(reader)?
        }
    })
}

fn add_rule(reader: &mut Reader<'_>) -> Result<WorkloadChange> {
    let name = reader.ident()?;
    reader.expect("WHEN")?;
    let mut measure = reader.ident()?.value.to_uppercase();
    while !matches!(reader.ahead().next(), Some(Token::Gt | Token::GtEq)) {
        measure = format!("{measure} {}", reader.ident()?.value.to_uppercase());
    }
    let at_least = reader.eats_token(&Token::GtEq);
    let _ = at_least || reader.eats_token(&Token::Gt);
    measure.push_str(if at_least { " >=" } else { " >" });
    let value = read_value(reader)?;
    reader.expect("THEN")?;
    let action = match reader.expect_one_of(&["LOG", "CANCEL", "SWITCH", "THROTTLE"])? {
        "LOG" => RuleAction::Log,
        "CANCEL" => RuleAction::Cancel,
        "SWITCH" => {
            reader.expect("TO")?;
            RuleAction::Switch(reader.ident()?)
        }
        _ => {
            let percent = reader.unsigned()?;
            reader.expect_token(&Token::Mod)?;
            RuleAction::Throttle(percent)
        }
    };
    let dry_run = reader.eats("DRY RUN");
    Ok(WorkloadChange::AddRule { name, measure, value, action, dry_run })
}

/// Behind DROP WORKLOAD.
pub(super) fn drop(reader: &mut Reader<'_>) -> Result<WorkloadStatement> {
    let kind = WorkloadKind::read(reader)?;
    let if_exists = reader.if_exists();
    Ok(WorkloadStatement::Drop { kind, if_exists, names: reader.idents()? })
}

/// Behind GRANT USAGE ON WORKLOAD CLASS, or REVOKE.
pub(super) fn usage(reader: &mut Reader<'_>, grant: bool) -> Result<WorkloadStatement> {
    let classes = reader.idents()?;
    reader.expect(if grant { "TO" } else { "FROM" })?;
    Ok(WorkloadStatement::Usage { grant, classes, roles: reader.idents()? })
}

/// Behind ALTER SYSTEM SET WORKLOAD BRAKE.
pub(super) fn brake(reader: &mut Reader<'_>) -> Result<WorkloadStatement> {
    let _ = reader.eats("TO") || reader.eats_token(&Token::Eq);
    reader.expect_one_of(&["OFF", "LIGHT", "FULL"]).map(WorkloadStatement::Brake)
}

/// Behind SET, SET SESSION or SET LOCAL: `'NAME' = 'value'` sets `session_context.name`.
pub(super) fn set_variable(reader: &mut Reader<'_>) -> Result<ast::Statement> {
    let local = !reader.eats("SESSION") && reader.eats("LOCAL");
    let variable = read_variable(reader)?;
    reader.expect_token(&Token::Eq)?;
    let value = ValueWithSpan::from(quote(&read_value(reader)?));
    Ok(ast::Statement::Set(ast::Set::SingleAssignment {
        scope: local.then_some(ast::ContextModifier::Local),
        hivevar: false,
        variable,
        values: vec![ast::Expr::Value(value)],
    }))
}

/// Behind UNSET, UNSET SESSION: `'NAME'`, which is RESET of `session_context.name`.
pub(super) fn unset_variable(reader: &mut Reader<'_>) -> Result<ast::Statement> {
    reader.eats("SESSION");
    let reset = ast::Reset::ConfigurationParameter(read_variable(reader)?);
    Ok(ast::Statement::Reset(ast::ResetStatement { reset }))
}

/// The setting that a variable of the session is.
fn read_variable(reader: &mut Reader<'_>) -> Result<ObjectName> {
    let unexpected = reader.unexpected("the name of a variable of the session");
    let name = reader.string()?.to_lowercase();
    let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match is_plain {
        true => Ok(vec![Ident::new("session_context"), Ident::new(name)].into()),
        false => Err(unexpected),
    }
}

/// Behind EXPLAIN WORKLOAD: the query that answers.
pub(super) fn explain(reader: &mut Reader<'_>) -> Result<Box<Query>> {
    let session = match reader.eats("FOR SESSION") {
        true => reader.unsigned()?.to_string(),
        false => "pg_backend_pid()".to_owned(),
    };
    let text =
        format!("SELECT * FROM halcyon.m_workload_effective WHERE connection_id = {session}");
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text);
    Ok(parser.and_then(|mut parser| parser.parse_query()).expect("the engine writes SQL"))
}

/// One thing or several with commas between them.
fn listed<T>(
    reader: &mut Reader<'_>,
    one: impl Fn(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = vec![one(reader)?];
    while reader.eats_token(&Token::Comma) {
        found.push(one(reader)?);
    }
    Ok(found)
}

fn read_settings(reader: &mut Reader<'_>) -> Result<WorkloadSettings> {
    listed(reader, |reader| {
        let key = read_key(reader)?;
        reader.expect_token(&Token::Eq)?;
        Ok((key, read_value(reader)?))
    })
}

fn read_key(reader: &mut Reader<'_>) -> Result<String> {
    reader.string().map(|key| key.to_uppercase())
}

/// A text in quotes, or a number that a unit may follow.
fn read_value(reader: &mut Reader<'_>) -> Result<String> {
    let Some(Token::Number(digits, _)) = reader.ahead().next() else { return reader.string() };
    reader.skip();
    let unit = match reader.ahead().next() {
        Some(Token::Mod) => "%",
        Some(Token::Word(word)) if is_unit(&word.value) => word.value.as_str(),
        _ => return Ok(digits.clone()),
    };
    reader.skip();
    Ok(format!("{digits}{unit}"))
}

/// Whether a word behind a number is its unit: of time or of memory.
fn is_unit(word: &str) -> bool {
    let units = ["us", "ms", "s", "min", "h", "d", "b", "kb", "mb", "gb", "tb"];
    units.iter().any(|unit| word.eq_ignore_ascii_case(unit))
}

fn read_character(reader: &mut Reader<'_>) -> Result<char> {
    let unexpected = reader.unexpected("one character in quotes");
    let text = reader.string()?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(unexpected),
    }
}

impl WorkloadStatement {
    /// The command tag.
    pub(super) fn tag(&self) -> &'static str {
        use WorkloadKind::{Class, Mapping};
        match self {
            WorkloadStatement::Create { kind: Class, .. } => "CREATE WORKLOAD CLASS",
            WorkloadStatement::Create { kind: Mapping, .. } => "CREATE WORKLOAD MAPPING",
            WorkloadStatement::Alter { kind: Class, .. } => "ALTER WORKLOAD CLASS",
            WorkloadStatement::Alter { kind: Mapping, .. } => "ALTER WORKLOAD MAPPING",
            WorkloadStatement::Drop { kind: Class, .. } => "DROP WORKLOAD CLASS",
            WorkloadStatement::Drop { kind: Mapping, .. } => "DROP WORKLOAD MAPPING",
            WorkloadStatement::Usage { grant: true, .. } => "GRANT",
            WorkloadStatement::Usage { .. } => "REVOKE",
            WorkloadStatement::Brake(_) => "ALTER SYSTEM",
        }
    }
}

impl fmt::Display for WorkloadStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag();
        match self {
            WorkloadStatement::Create { kind, if_not_exists, name, class, settings, wildcard } => {
                write!(f, "{tag} {}{name}", maybe(*if_not_exists, "IF NOT EXISTS "))?;
                if let Some(class) = class {
                    let word =
                        if *kind == WorkloadKind::Class { "PARENT" } else { "WORKLOAD CLASS" };
                    write!(f, " {word} {class}")?;
                }
                if !settings.is_empty() {
                    write!(f, " SET {}", settings_text(settings))?;
                }
                match wildcard {
                    Some(c) => write!(f, " WITH WILDCARD {}", quote(&c.to_string())),
                    None => Ok(()),
                }
            }
            WorkloadStatement::Alter { kind, name, change } => {
                match name {
                    Some(name) => write!(f, "{tag} {name} ")?,
                    None => write!(f, "{tag} ALL ")?,
                }
                change_text(*kind, change, f)
            }
            WorkloadStatement::Drop { if_exists, names, .. } => {
                write!(f, "{tag} {}{}", maybe(*if_exists, "IF EXISTS "), with_commas(names))
            }
            WorkloadStatement::Usage { grant, classes, roles } => {
                let (between, classes) = (if *grant { "TO" } else { "FROM" }, with_commas(classes));
                write!(
                    f,
                    "{tag} USAGE ON WORKLOAD CLASS {classes} {between} {}",
                    with_commas(roles)
                )
            }
            WorkloadStatement::Brake(word) => write!(f, "{tag} SET WORKLOAD BRAKE = {word}"),
        }
    }
}

fn settings_text(settings: &[(String, String)]) -> String {
    let one = |(key, value): &(String, String)| format!("{} = {}", quote(key), quote(value));
    with_commas(&settings.iter().map(one).collect::<Vec<_>>())
}

fn change_text(
    kind: WorkloadKind,
    change: &WorkloadChange,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match change {
        WorkloadChange::Set(settings) => write!(f, "SET {}", settings_text(settings)),
        WorkloadChange::Unset(keys) => {
            let keys: Vec<_> = keys.iter().map(|key| quote(key)).collect();
            write!(f, "UNSET {}", with_commas(&keys))
        }
        WorkloadChange::Enable(enable) => f.write_str(if *enable { "ENABLE" } else { "DISABLE" }),
        WorkloadChange::Class(None) => f.write_str("NO PARENT"),
        WorkloadChange::Class(Some(class)) if kind == WorkloadKind::Class => {
            write!(f, "PARENT {class}")
        }
        WorkloadChange::Class(Some(class)) => write!(f, "WORKLOAD CLASS {class}"),
        WorkloadChange::AddRule { name, measure, value, action, dry_run } => {
            let (value, dry_run) = (quote(value), maybe(*dry_run, " DRY RUN"));
            write!(f, "ADD RULE {name} WHEN {measure} {value} THEN {action}{dry_run}")
        }
        WorkloadChange::DropRule(name) => write!(f, "DROP RULE {name}"),
    }
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleAction::Log => f.write_str("LOG"),
            RuleAction::Cancel => f.write_str("CANCEL"),
            RuleAction::Switch(class) => write!(f, "SWITCH TO {class}"),
            RuleAction::Throttle(percent) => write!(f, "THROTTLE {percent}%"),
        }
    }
}
