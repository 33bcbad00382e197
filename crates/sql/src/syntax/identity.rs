//! Identities of columns: ALTER TABLE … ALTER … about them.

use std::fmt;

use datafusion::sql::sqlparser::ast::{AlterTableOperation, Ident, ObjectName};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::moves::maybe;
use super::reader::{Reader, is_word};
use super::sequence_options::{SequenceOptions, sequence_option};
use crate::error::Result;

/// ALTER TABLE with a change of an identity among its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterIdentities {
    /// The table.
    pub table: ObjectName,
    /// It need not exist.
    pub if_exists: bool,
    /// What is to change, in this order.
    pub changes: Vec<TableChange>,
}

/// One change of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    /// The identity of a column.
    Identity(Ident, Box<IdentityChange>),
    /// What the SQL parser has a tree for.
    Other(Box<AlterTableOperation>),
}

/// What ALTER TABLE … ALTER says of a column's identity.
#[derive(Clone, Debug, PartialEq)]
pub enum IdentityChange {
    /// ADD GENERATED … AS IDENTITY.
    Add {
        /// ALWAYS, else BY DEFAULT.
        always: bool,
        /// SEQUENCE NAME.
        sequence: Option<ObjectName>,
        /// What the sequence is like.
        options: SequenceOptions,
    },
    /// DROP IDENTITY.
    Drop {
        /// The column need not have one.
        if_exists: bool,
    },
    /// SET GENERATED, SET with an option of the sequence, RESTART.
    Set {
        /// ALWAYS or BY DEFAULT.
        always: Option<bool>,
        /// What is to change of the sequence.
        options: SequenceOptions,
    },
}

/// Behind ALTER TABLE, if an identity is added, dropped or changed.
pub(super) fn alter_identities(reader: &mut Reader<'_>) -> Result<AlterIdentities> {
    let if_exists = reader.if_exists();
    reader.eats("ONLY");
    let table = reader.name()?;
    let mut changes = vec![change(reader)?];
    while reader.eats_token(&Token::Comma) {
        changes.push(change(reader)?);
    }
    Ok(AlterIdentities { table, if_exists, changes })
}

fn change(reader: &mut Reader<'_>) -> Result<TableChange> {
    if !is_of_identity(reader) {
        let other = reader.sql(Parser::parse_alter_table_operation)?;
        return Ok(TableChange::Other(Box::new(other)));
    }
    reader.expect("ALTER")?;
    reader.eats("COLUMN");
    let column = reader.ident()?;
    let change = if reader.eats("ADD GENERATED") {
        let always = reader.expect_one_of(&["ALWAYS", "BY DEFAULT"])? == "ALWAYS";
        reader.expect("AS IDENTITY")?;
        let (sequence, options) = options(reader)?;
        IdentityChange::Add { always, sequence, options }
    } else if reader.eats("DROP IDENTITY") {
        IdentityChange::Drop { if_exists: reader.if_exists() }
    } else {
        settings(reader)?
    };
    Ok(TableChange::Identity(column, Box::new(change)))
}

/// Options that may follow SET or stand alone in a change of an identity.
const SETTINGS: &[&str] =
    &["GENERATED", "INCREMENT", "MINVALUE", "MAXVALUE", "START", "RESTART", "CACHE", "CYCLE", "NO"];

/// Whether `ALTER [COLUMN] name` follows, and then words about an identity.
fn is_of_identity(reader: &Reader<'_>) -> bool {
    let mut ahead = reader.ahead();
    if !ahead.next().is_some_and(|token| is_word(token, "ALTER")) {
        return false;
    }
    let Some(mut name) = ahead.next() else { return false };
    if is_word(name, "COLUMN") {
        let Some(behind) = ahead.next() else { return false };
        name = behind;
    }
    let (first, second) = (ahead.next(), ahead.next());
    let is = |token: Option<&Token>, word| token.is_some_and(|token| is_word(token, word));
    matches!(name, Token::Word(_))
        && (is(first, "ADD") && is(second, "GENERATED")
            || is(first, "DROP") && is(second, "IDENTITY")
            || is(first, "SET") && SETTINGS.iter().any(|word| is(second, word))
            || is(first, "RESTART"))
}

/// The options of a new identity in brackets, if there are any.
fn options(reader: &mut Reader<'_>) -> Result<(Option<ObjectName>, SequenceOptions)> {
    let (mut sequence, mut options) = (None, SequenceOptions::default());
    if reader.eats_token(&Token::LParen) {
        while !reader.eats_token(&Token::RParen) {
            match reader.eats("SEQUENCE NAME") {
                true => sequence = Some(reader.name()?),
                false => sequence_option(reader, &mut options)?,
            }
        }
    }
    Ok((sequence, options))
}

fn settings(reader: &mut Reader<'_>) -> Result<IdentityChange> {
    let (mut always, mut options) = (None, SequenceOptions::default());
    loop {
        if reader.eats("SET GENERATED") {
            always = Some(reader.expect_one_of(&["ALWAYS", "BY DEFAULT"])? == "ALWAYS");
        } else if reader.is("RESTART") || reader.eats("SET") {
            sequence_option(reader, &mut options)?;
        } else {
            return Ok(IdentityChange::Set { always, options });
        }
    }
}

impl fmt::Display for AlterIdentities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let if_exists = maybe(self.if_exists, "IF EXISTS ");
        let changes = super::with_commas(&self.changes);
        write!(f, "ALTER TABLE {if_exists}{} {changes}", self.table)
    }
}

impl fmt::Display for TableChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableChange::Identity(column, change) => write!(f, "ALTER COLUMN {column} {change}"),
            TableChange::Other(operation) => operation.fmt(f),
        }
    }
}

impl fmt::Display for IdentityChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |always: bool| if always { "ALWAYS" } else { "BY DEFAULT" };
        match self {
            IdentityChange::Add { always, sequence, options } => {
                write!(f, "ADD GENERATED {} AS IDENTITY", when(*always))?;
                let name = sequence.as_ref().map(|name| format!("SEQUENCE NAME {name}"));
                let all = format!("{}{options}", name.unwrap_or_default());
                match all.trim_start() {
                    "" => Ok(()),
                    all => write!(f, " ({all})"),
                }
            }
            IdentityChange::Drop { if_exists } => {
                write!(f, "DROP IDENTITY{}", maybe(*if_exists, " IF EXISTS"))
            }
            IdentityChange::Set { always, options } => {
                let mut between = "";
                if let Some(always) = always {
                    write!(f, "SET GENERATED {}", when(*always))?;
                    between = " ";
                }
                for option in options.each() {
                    let set = maybe(!option.starts_with(" RESTART"), "SET");
                    let option = if set.is_empty() { option.trim_start() } else { &option };
                    write!(f, "{between}{set}{option}")?;
                    between = " ";
                }
                Ok(())
            }
        }
    }
}
