//! Types of users: CREATE TYPE … AS ENUM, CREATE DOMAIN, and what changes and drops them.

use std::fmt;

use datafusion::sql::sqlparser::ast::{ColumnOptionDef, DataType, Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::moves::{MoveTo, maybe, move_to};
use super::reader::Reader;
use super::with_commas;
use crate::error::{Result, SqlError};
use crate::identifier::quote_literal;

/// A statement about a type that a user defines.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeStatement {
    /// CREATE TYPE … AS ENUM.
    CreateEnum {
        /// Its name.
        name: ObjectName,
        /// Its labels in order.
        labels: Vec<String>,
    },
    /// CREATE DOMAIN.
    CreateDomain {
        /// Its name.
        name: ObjectName,
        /// The type of its values.
        data_type: DataType,
        /// DEFAULT, NOT NULL, CHECK and the like, as they may stand behind a column.
        options: Vec<ColumnOptionDef>,
    },
    /// ALTER TYPE and ALTER DOMAIN.
    Alter {
        /// DOMAIN, else TYPE.
        domain: bool,
        /// The type.
        name: ObjectName,
        /// What is to change.
        change: Box<TypeChange>,
    },
    /// DROP TYPE and DROP DOMAIN.
    Drop {
        /// DOMAIN, else TYPE.
        domain: bool,
        /// They need not exist.
        if_exists: bool,
        /// The types.
        names: Vec<ObjectName>,
        /// With all that depends on them.
        cascade: bool,
    },
}

/// What ALTER TYPE and ALTER DOMAIN change.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeChange {
    /// ADD VALUE, of an enumeration.
    AddValue {
        /// It may exist.
        if_not_exists: bool,
        /// The label.
        label: String,
        /// The label that it comes before, or after; none: it comes last.
        place: Option<(Side, String)>,
    },
    /// RENAME VALUE, of an enumeration.
    RenameValue {
        /// The label.
        from: String,
        /// What it is to be.
        to: String,
    },
    /// SET DEFAULT, of a domain; without an expression, DROP DEFAULT.
    Default(Option<Expr>),
    /// SET NOT NULL, of a domain; else DROP NOT NULL.
    NotNull(bool),
    /// ADD, of a domain.
    AddConstraint {
        /// The constraint, as it may stand behind a column.
        constraint: Box<ColumnOptionDef>,
        /// NOT VALID: values that there are need not satisfy it.
        not_valid: bool,
    },
    /// DROP CONSTRAINT, of a domain.
    DropConstraint {
        /// It need not exist.
        if_exists: bool,
        /// Its name.
        name: Ident,
    },
    /// VALIDATE CONSTRAINT, of a domain.
    ValidateConstraint(Ident),
    /// RENAME CONSTRAINT, of a domain.
    RenameConstraint {
        /// Its name.
        from: Ident,
        /// Its new name.
        to: Ident,
    },
    /// RENAME TO, OWNER TO, SET SCHEMA.
    Move(MoveTo),
}

/// On which side of another a label is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// BEFORE.
    Before,
    /// AFTER.
    After,
}

impl TypeStatement {
    /// The command tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            TypeStatement::CreateEnum { .. } => "CREATE TYPE",
            TypeStatement::CreateDomain { .. } => "CREATE DOMAIN",
            TypeStatement::Alter { domain: true, .. } => "ALTER DOMAIN",
            TypeStatement::Alter { .. } => "ALTER TYPE",
            TypeStatement::Drop { domain: true, .. } => "DROP DOMAIN",
            TypeStatement::Drop { .. } => "DROP TYPE",
        }
    }
}

/// Behind CREATE TYPE. Errors: 0A000 for types that are no enumerations.
pub(super) fn create_type(reader: &mut Reader<'_>) -> Result<TypeStatement> {
    let name = reader.name()?;
    if !reader.eats("AS ENUM") {
        return Err(SqlError::unsupported("CREATE TYPE of another kind than ENUM")
            .hint("Tables, JSON and domains say what composite, range and base types say."));
    }
    reader.expect_token(&Token::LParen)?;
    let mut labels = Vec::new();
    while !reader.eats_token(&Token::RParen) {
        if !labels.is_empty() {
            reader.expect_token(&Token::Comma)?;
        }
        labels.push(reader.string()?);
    }
    Ok(TypeStatement::CreateEnum { name, labels })
}

/// Behind CREATE DOMAIN.
pub(super) fn create_domain(reader: &mut Reader<'_>) -> Result<TypeStatement> {
    let name = reader.name()?;
    reader.eats("AS");
    let data_type = reader.sql(Parser::parse_data_type)?;
    let mut options = Vec::new();
    while !reader.is_at_end() {
        options.push(option(reader)?);
    }
    Ok(TypeStatement::CreateDomain { name, data_type, options })
}

/// DEFAULT, COLLATE, or a constraint with or without a name.
fn option(reader: &mut Reader<'_>) -> Result<ColumnOptionDef> {
    let name = if reader.eats("CONSTRAINT") { Some(reader.ident()?) } else { None };
    match reader.sql(Parser::parse_optional_column_option)? {
        Some(option) => Ok(ColumnOptionDef { name, option }),
        None => Err(reader.unexpected("DEFAULT or a constraint")),
    }
}

/// Behind ALTER TYPE.
pub(super) fn alter_type(reader: &mut Reader<'_>) -> Result<TypeStatement> {
    let name = reader.name()?;
    let change = if reader.eats("ADD VALUE") {
        let if_not_exists = reader.eats("IF NOT EXISTS");
        let label = reader.string()?;
        let place = if reader.eats("BEFORE") {
            Some((Side::Before, reader.string()?))
        } else if reader.eats("AFTER") {
            Some((Side::After, reader.string()?))
        } else {
            None
        };
        TypeChange::AddValue { if_not_exists, label, place }
    } else if reader.eats("RENAME VALUE") {
        let from = reader.string()?;
        reader.expect("TO")?;
        TypeChange::RenameValue { from, to: reader.string()? }
    } else {
        TypeChange::Move(move_to(reader)?)
    };
    Ok(TypeStatement::Alter { domain: false, name, change: change.into() })
}

/// Behind ALTER DOMAIN.
pub(super) fn alter_domain(reader: &mut Reader<'_>) -> Result<TypeStatement> {
    let name = reader.name()?;
    let change = if reader.eats("SET DEFAULT") {
        TypeChange::Default(Some(reader.sql(Parser::parse_expr)?))
    } else if reader.eats("DROP DEFAULT") {
        TypeChange::Default(None)
    } else if reader.eats("SET NOT NULL") {
        TypeChange::NotNull(true)
    } else if reader.eats("DROP NOT NULL") {
        TypeChange::NotNull(false)
    } else if reader.eats("ADD") {
        let constraint = Box::new(option(reader)?);
        TypeChange::AddConstraint { constraint, not_valid: reader.eats("NOT VALID") }
    } else if reader.eats("DROP CONSTRAINT") {
        let if_exists = reader.if_exists();
        let name = reader.ident()?;
        let _ = reader.eats("CASCADE") || reader.eats("RESTRICT");
        TypeChange::DropConstraint { if_exists, name }
    } else if reader.eats("VALIDATE CONSTRAINT") {
        TypeChange::ValidateConstraint(reader.ident()?)
    } else if reader.eats("RENAME CONSTRAINT") {
        let from = reader.ident()?;
        reader.expect("TO")?;
        TypeChange::RenameConstraint { from, to: reader.ident()? }
    } else {
        TypeChange::Move(move_to(reader)?)
    };
    Ok(TypeStatement::Alter { domain: true, name, change: change.into() })
}

/// Behind DROP TYPE and DROP DOMAIN.
pub(super) fn drop_types(reader: &mut Reader<'_>, domain: bool) -> Result<TypeStatement> {
    let (if_exists, names, cascade) = dropped(reader)?;
    Ok(TypeStatement::Drop { domain, if_exists, names, cascade })
}

/// Behind DROP and the kind of an object: IF EXISTS, names, CASCADE.
pub(super) fn dropped(reader: &mut Reader<'_>) -> Result<(bool, Vec<ObjectName>, bool)> {
    let if_exists = reader.if_exists();
    let mut names = vec![reader.name()?];
    while reader.eats_token(&Token::Comma) {
        names.push(reader.name()?);
    }
    let cascade = reader.eats("CASCADE");
    let _ = !cascade && reader.eats("RESTRICT");
    Ok((if_exists, names, cascade))
}

impl fmt::Display for TypeStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag();
        match self {
            TypeStatement::CreateEnum { name, labels } => {
                let labels: Vec<_> = labels.iter().map(|label| quote_literal(label)).collect();
                write!(f, "{tag} {name} AS ENUM ({})", with_commas(&labels))
            }
            TypeStatement::CreateDomain { name, data_type, options } => {
                write!(f, "{tag} {name} AS {data_type}")?;
                options.iter().try_for_each(|option| write!(f, " {option}"))
            }
            TypeStatement::Alter { name, change, .. } => write!(f, "{tag} {name} {change}"),
            TypeStatement::Drop { if_exists, names, cascade, .. } => {
                let if_exists = maybe(*if_exists, "IF EXISTS ");
                write!(f, "{tag} {if_exists}{}{}", with_commas(names), maybe(*cascade, " CASCADE"))
            }
        }
    }
}

impl fmt::Display for TypeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeChange::AddValue { if_not_exists, label, place } => {
                let if_not_exists = maybe(*if_not_exists, "IF NOT EXISTS ");
                write!(f, "ADD VALUE {if_not_exists}{}", quote_literal(label))?;
                match place {
                    Some((Side::Before, other)) => write!(f, " BEFORE {}", quote_literal(other)),
                    Some((Side::After, other)) => write!(f, " AFTER {}", quote_literal(other)),
                    None => Ok(()),
                }
            }
            TypeChange::RenameValue { from, to } => {
                write!(f, "RENAME VALUE {} TO {}", quote_literal(from), quote_literal(to))
            }
            TypeChange::Default(Some(expr)) => write!(f, "SET DEFAULT {expr}"),
            TypeChange::Default(None) => f.write_str("DROP DEFAULT"),
            TypeChange::NotNull(true) => f.write_str("SET NOT NULL"),
            TypeChange::NotNull(false) => f.write_str("DROP NOT NULL"),
            TypeChange::AddConstraint { constraint, not_valid } => {
                write!(f, "ADD {constraint}{}", maybe(*not_valid, " NOT VALID"))
            }
            TypeChange::DropConstraint { if_exists, name } => {
                write!(f, "DROP CONSTRAINT {}{name}", maybe(*if_exists, "IF EXISTS "))
            }
            TypeChange::ValidateConstraint(name) => write!(f, "VALIDATE CONSTRAINT {name}"),
            TypeChange::RenameConstraint { from, to } => {
                write!(f, "RENAME CONSTRAINT {from} TO {to}")
            }
            TypeChange::Move(to) => to.fmt(f),
        }
    }
}
