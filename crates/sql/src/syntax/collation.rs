//! CREATE COLLATION and DROP COLLATION.

use std::fmt;

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::moves::maybe;
use super::reader::Reader;
use super::with_commas;
use crate::error::Result;
use crate::identifier::{fold, quote_ident, quote_literal};

/// A statement about a collation that a user defines.
#[derive(Clone, Debug, PartialEq)]
pub enum CollationStatement {
    /// CREATE COLLATION.
    Create {
        /// It may exist.
        if_not_exists: bool,
        /// Its name.
        name: ObjectName,
        /// FROM: the collation that it is a copy of.
        from: Option<ObjectName>,
        /// What stands in brackets instead: names and values.
        options: Vec<(String, String)>,
    },
    /// DROP COLLATION.
    Drop {
        /// They need not exist.
        if_exists: bool,
        /// The collations.
        names: Vec<ObjectName>,
        /// With all that depends on them.
        cascade: bool,
    },
}

/// Behind CREATE COLLATION.
pub(super) fn create(reader: &mut Reader<'_>) -> Result<CollationStatement> {
    let if_not_exists = reader.eats("IF NOT EXISTS");
    let name = reader.name()?;
    let mut options = Vec::new();
    if reader.eats("FROM") {
        let from = Some(reader.name()?);
        return Ok(CollationStatement::Create { if_not_exists, name, from, options });
    }
    reader.expect_token(&Token::LParen)?;
    while !reader.eats_token(&Token::RParen) {
        if !options.is_empty() {
            reader.expect_token(&Token::Comma)?;
        }
        let option = fold(&reader.ident()?);
        reader.expect_token(&Token::Eq)?;
        let is_text = reader.is_at_text();
        options.push((option, if is_text { reader.string()? } else { fold(&reader.ident()?) }));
    }
    Ok(CollationStatement::Create { if_not_exists, name, from: None, options })
}

/// Behind DROP COLLATION.
pub(super) fn drop(reader: &mut Reader<'_>) -> Result<CollationStatement> {
    let (if_exists, names, cascade) = super::types::dropped(reader)?;
    Ok(CollationStatement::Drop { if_exists, names, cascade })
}

impl CollationStatement {
    /// The command tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            CollationStatement::Create { .. } => "CREATE COLLATION",
            CollationStatement::Drop { .. } => "DROP COLLATION",
        }
    }
}

impl fmt::Display for CollationStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag();
        match self {
            CollationStatement::Create { if_not_exists, name, from, options } => {
                write!(f, "{tag} {}{name} ", maybe(*if_not_exists, "IF NOT EXISTS "))?;
                if let Some(from) = from {
                    return write!(f, "FROM {from}");
                }
                let option = |(name, value): &(String, String)| {
                    format!("{} = {}", quote_ident(name), quote_literal(value))
                };
                write!(f, "({})", with_commas(&options.iter().map(option).collect::<Vec<_>>()))
            }
            CollationStatement::Drop { if_exists, names, cascade } => {
                let if_exists = maybe(*if_exists, "IF EXISTS ");
                write!(f, "{tag} {if_exists}{}{}", with_commas(names), maybe(*cascade, " CASCADE"))
            }
        }
    }
}
