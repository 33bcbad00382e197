//! Statements of ours about materialized views, and the COPY that feeds them orders.

use std::fmt;

use datafusion::sql::sqlparser::ast::{self, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::reader::{Reader, is_at_end};
use super::session::quote;
use crate::error::Result;

/// A statement about a materialized view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewStatement {
    /// `SUBSCRIBE [TO] name [FROM position]`.
    Subscribe {
        /// The view.
        view: ObjectName,
        /// Behind which change it goes on; without, it begins with the view's rows.
        from: Option<u64>,
    },
    /// EXPLAIN MAINTENANCE view.
    Maintenance(ObjectName),
    /// EXPLAIN (TRIGGERS) of a view or a query.
    Triggers(Explained),
}

/// What EXPLAIN (TRIGGERS) explains.
#[derive(Clone, Debug, PartialEq)]
pub enum Explained {
    /// A view of this name.
    View(ObjectName),
    /// A statement; only a query has triggers.
    Statement(Box<ast::Statement>),
}

/// COPY table FROM 'file' | STDIN WITH (FORMAT orderbook, book 'side', brokers n).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrders {
    /// The table or stream.
    pub table: ObjectName,
    /// The file; without, the client sends the messages.
    pub path: Option<String>,
    /// Whose events are told.
    pub book: Side,
    /// An order's broker is its id modulo this.
    pub brokers: u64,
}

/// A side of an order book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Orders to buy.
    Bids,
    /// Orders to sell.
    Asks,
}

/// Brokers of an order book whose COPY does not say how many there are.
const BROKERS: u64 = 10;

/// Behind SUBSCRIBE.
pub(super) fn subscribe(reader: &mut Reader<'_>) -> Result<ViewStatement> {
    reader.eats("TO");
    let view = reader.name()?;
    let from = match reader.eats("FROM") {
        true => Some(reader.unsigned()?),
        false => None,
    };
    Ok(ViewStatement::Subscribe { view, from })
}

/// Behind EXPLAIN MAINTENANCE.
pub(super) fn maintenance(reader: &mut Reader<'_>) -> Result<ViewStatement> {
    reader.name().map(ViewStatement::Maintenance)
}

/// Behind EXPLAIN, if TRIGGERS is among the options. Other options say nothing about triggers.
pub(super) fn triggers(reader: &mut Reader<'_>) -> Result<ViewStatement> {
    reader.sql(|parser| parser.parse_utility_options())?;
    // A name is followed by nothing; what is no name begins a statement.
    let names = reader.ahead().step_by(2).all(|token| matches!(token, Token::Word(_)));
    let periods = reader.ahead().skip(1).step_by(2).all(|token| *token == Token::Period);
    if names && periods {
        return reader.name().map(|view| ViewStatement::Triggers(Explained::View(view)));
    }
    let statement = reader.sql_with_joins(|parser| {
        let statement = parser.parse_statement()?;
        match is_at_end(parser) {
            true => Ok(statement),
            false => parser.expected("end of statement", parser.peek_token()),
        }
    })?;
    Ok(ViewStatement::Triggers(Explained::Statement(Box::new(statement))))
}

/// Behind COPY, if FORMAT orderbook is among the options.
pub(super) fn copy_orders(reader: &mut Reader<'_>) -> Result<CopyOrders> {
    let table = reader.name()?;
    reader.expect("FROM")?;
    let path = match reader.eats("STDIN") {
        true => None,
        false => Some(reader.string()?),
    };
    reader.eats("WITH");
    reader.expect_token(&Token::LParen)?;
    let (mut book, mut brokers) = (None, BROKERS);
    loop {
        match reader.expect_one_of(&["FORMAT", "BOOK", "BROKERS"])? {
            "FORMAT" => reader.expect("ORDERBOOK")?,
            "BOOK" => book = Some(side(reader)?),
            _ => brokers = broker_count(reader)?,
        }
        if !reader.eats_token(&Token::Comma) {
            break;
        }
    }
    let Some(book) = book else { return Err(reader.unexpected("the option book")) };
    reader.expect_token(&Token::RParen)?;
    Ok(CopyOrders { table, path, book, brokers })
}

fn side(reader: &mut Reader<'_>) -> Result<Side> {
    let refused = reader.unexpected("'bids' or 'asks'");
    match reader.string()?.as_str() {
        "bids" => Ok(Side::Bids),
        "asks" => Ok(Side::Asks),
        _ => Err(refused),
    }
}

/// At least one, and an id may be divided by it.
fn broker_count(reader: &mut Reader<'_>) -> Result<u64> {
    let refused = reader.unexpected("a number of brokers");
    match reader.unsigned()? {
        count @ 1.. if i64::try_from(count).is_ok() => Ok(count),
        _ => Err(refused),
    }
}

impl fmt::Display for ViewStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewStatement::Subscribe { view, from: None } => write!(f, "SUBSCRIBE TO {view}"),
            ViewStatement::Subscribe { view, from: Some(from) } => {
                write!(f, "SUBSCRIBE TO {view} FROM {from}")
            }
            ViewStatement::Maintenance(view) => write!(f, "EXPLAIN MAINTENANCE {view}"),
            ViewStatement::Triggers(Explained::View(view)) => {
                write!(f, "EXPLAIN (TRIGGERS) {view}")
            }
            ViewStatement::Triggers(Explained::Statement(statement)) => {
                write!(f, "EXPLAIN (TRIGGERS) {statement}")
            }
        }
    }
}

impl fmt::Display for CopyOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COPY {} FROM ", self.table)?;
        match &self.path {
            Some(path) => write!(f, "{}", quote(path))?,
            None => f.write_str("STDIN")?,
        }
        let book = match self.book {
            Side::Bids => "bids",
            Side::Asks => "asks",
        };
        write!(f, " WITH (FORMAT orderbook, book '{book}', brokers {})", self.brokers)
    }
}
