//! ALTER VIEW … SET (…), RESET (…) and ALTER COLUMN: options of views and defaults of their columns.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::materialized::option_value;
use super::reader::Reader;
use super::session::quote;
use crate::error::Result;
use crate::identifier::{fold, quote_ident};

/// A change of a view's options or of the defaults of its columns.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewChange {
    /// SET: options with their values.
    Set(Vec<(String, String)>),
    /// RESET: names of options.
    Reset(Vec<String>),
    /// ALTER COLUMN … SET DEFAULT, and DROP DEFAULT without a value.
    Default(Ident, Option<Box<Expr>>),
}

/// Behind the view's name; `None` if none of these follows.
pub(super) fn change(reader: &mut Reader<'_>) -> Result<Option<ViewChange>> {
    let opens = reader.ahead().nth(1) == Some(&Token::LParen);
    if reader.is("SET") && opens {
        reader.skip();
        reader.skip();
        let set = list(reader, |reader| {
            let name = fold(&reader.ident()?);
            // An option alone is on.
            let value = match reader.eats_token(&Token::Eq) {
                true => option_value(reader)?,
                false => "true".to_owned(),
            };
            Ok((name, value))
        })?;
        return Ok(Some(ViewChange::Set(set)));
    }
    if reader.eats("RESET") {
        reader.expect_token(&Token::LParen)?;
        return list(reader, |reader| reader.ident().map(|name| fold(&name)))
            .map(|names| Some(ViewChange::Reset(names)));
    }
    if reader.eats("ALTER") {
        reader.eats("COLUMN");
        let column = reader.ident()?;
        let value = match reader.expect_one_of(&["SET", "DROP"])? {
            "SET" => {
                reader.expect("DEFAULT")?;
                Some(Box::new(reader.sql(|parser| parser.parse_expr())?))
            }
            _ => {
                reader.expect("DEFAULT")?;
                None
            }
        };
        return Ok(Some(ViewChange::Default(column, value)));
    }
    Ok(None)
}

/// The rest of a list in brackets.
fn list<T>(
    reader: &mut Reader<'_>,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut items = vec![item(reader)?];
    while reader.eats_token(&Token::Comma) {
        items.push(item(reader)?);
    }
    reader.expect_token(&Token::RParen)?;
    Ok(items)
}

impl fmt::Display for ViewChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewChange::Set(options) => {
                let shown: Vec<String> = options
                    .iter()
                    .map(|(name, value)| format!("{} = {}", quote_ident(name), quote(value)))
                    .collect();
                write!(f, "SET ({})", shown.join(", "))
            }
            ViewChange::Reset(names) => {
                let names: Vec<String> = names.iter().map(|name| quote_ident(name)).collect();
                write!(f, "RESET ({})", names.join(", "))
            }
            ViewChange::Default(column, Some(value)) => {
                write!(f, "ALTER COLUMN {column} SET DEFAULT {value}")
            }
            ViewChange::Default(column, None) => write!(f, "ALTER COLUMN {column} DROP DEFAULT"),
        }
    }
}
