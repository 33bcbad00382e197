//! Statements about views that the SQL parser has no tree for: SUBSCRIBE, EXPLAIN MAINTENANCE and
//! EXPLAIN (TRIGGERS) of a name. As DDL of ours they travel inside a PRAGMA that nobody can type.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement, Value, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use crate::copy::{CopyOrders, Side};
use crate::identifier::parts;

/// Name of the carrying statement; no identifier can be typed with it.
const CARRIER: &str = "\u{1}view";

/// A statement about a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewStatement {
    /// EXPLAIN (TRIGGERS) name.
    Triggers(Vec<String>),
    /// EXPLAIN MAINTENANCE name.
    Maintenance(Vec<String>),
    /// `SUBSCRIBE [TO] name [FROM position]`.
    Subscribe {
        /// The view.
        name: Vec<String>,
        /// Behind which change it goes on; without, it begins with the view's rows.
        from: Option<u64>,
    },
    /// COPY … (FORMAT orderbook).
    CopyOrders(CopyOrders),
}

/// The carrier of a text, if it is a statement of ours.
pub(crate) fn carrier(text: &str) -> Option<Statement> {
    parse(text).ok()?;
    Some(Statement::Pragma {
        name: ObjectName::from(vec![Ident::new(CARRIER)]),
        value: Some(ValueWithSpan {
            value: Value::SingleQuotedString(text.to_owned()),
            span: Span::empty(),
        }),
        is_eq: false,
    })
}

/// The statement in a carrier, or in a text that the parser took for one about a table.
pub(crate) fn unpack(statement: &Statement, text: &str) -> Option<ViewStatement> {
    if let Statement::ExplainTable { .. } = statement {
        return parse(text).ok();
    }
    let Statement::Pragma { name, value: Some(value), .. } = statement else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    if parts(name).ok()? != [CARRIER] {
        return None;
    }
    parse(text).ok()
}

fn parse(text: &str) -> Result<ViewStatement, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?;
    let statement = if parser.parse_keyword(Keyword::EXPLAIN) {
        if eats(&mut parser, "maintenance") {
            ViewStatement::Maintenance(name(&mut parser)?)
        } else {
            parser.expect_token(&Token::LParen)?;
            expect(&mut parser, "triggers")?;
            parser.expect_token(&Token::RParen)?;
            ViewStatement::Triggers(name(&mut parser)?)
        }
    } else if parser.parse_keyword(Keyword::COPY) {
        ViewStatement::CopyOrders(copy_orders(&mut parser)?)
    } else {
        expect(&mut parser, "subscribe")?;
        let _ = parser.parse_keyword(Keyword::TO);
        let name = name(&mut parser)?;
        let from = match parser.parse_keyword(Keyword::FROM) {
            true => Some(parser.parse_literal_uint()?),
            false => None,
        };
        ViewStatement::Subscribe { name, from }
    };
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(statement),
        other => Err(ParserError::ParserError(format!("unexpected {other}"))),
    }
}

/// `name FROM 'file' | STDIN [WITH] (FORMAT orderbook, book 'bids' | 'asks' [, brokers n])`.
fn copy_orders(parser: &mut Parser<'_>) -> Result<CopyOrders, ParserError> {
    let table = name(parser)?;
    parser.expect_keyword(Keyword::FROM)?;
    let path = match parser.parse_keyword(Keyword::STDIN) {
        true => None,
        false => Some(parser.parse_literal_string()?),
    };
    let _ = parser.parse_keyword(Keyword::WITH);
    parser.expect_token(&Token::LParen)?;
    let (mut is_orderbook, mut book, mut brokers) = (false, None, 10);
    loop {
        if parser.parse_keyword(Keyword::FORMAT) {
            expect(parser, "orderbook")?;
            is_orderbook = true;
        } else if eats(parser, "book") {
            book = Some(match parser.parse_literal_string()?.as_str() {
                "bids" => Side::Bids,
                "asks" => Side::Asks,
                other => return Err(ParserError::ParserError(format!("no book \"{other}\""))),
            });
        } else {
            expect(parser, "brokers")?;
            brokers = parser.parse_literal_uint()?;
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    match (is_orderbook, book) {
        (true, Some(book)) if (1..=i64::MAX as u64).contains(&brokers) => {
            Ok(CopyOrders { table, path, book, brokers })
        }
        _ => Err(ParserError::ParserError("not an order book".to_owned())),
    }
}

fn eats(parser: &mut Parser<'_>, word: &str) -> bool {
    let is = matches!(&parser.peek_token().token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
    if is {
        parser.next_token();
    }
    is
}

fn expect(parser: &mut Parser<'_>, word: &str) -> Result<(), ParserError> {
    match eats(parser, word) {
        true => Ok(()),
        false => Err(ParserError::ParserError(format!("expected {word}"))),
    }
}

fn name(parser: &mut Parser<'_>) -> Result<Vec<String>, ParserError> {
    let name = parser.parse_object_name(false)?;
    parts(&name).map_err(|error| ParserError::ParserError(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_without_a_tree_are_recognised() {
        let name = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        for (text, expected) in [
            ("SUBSCRIBE v", ViewStatement::Subscribe { name: name(&["v"]), from: None }),
            (
                "subscribe to public.V from 17",
                ViewStatement::Subscribe { name: name(&["public", "v"]), from: Some(17) },
            ),
            (
                "COPY bids FROM 'x.csv' WITH (FORMAT orderbook, book 'asks', brokers 7)",
                ViewStatement::CopyOrders(CopyOrders {
                    table: name(&["bids"]),
                    path: Some("x.csv".to_owned()),
                    book: Side::Asks,
                    brokers: 7,
                }),
            ),
            (
                "copy bids from stdin (format orderbook, book 'bids')",
                ViewStatement::CopyOrders(CopyOrders {
                    table: name(&["bids"]),
                    path: None,
                    book: Side::Bids,
                    brokers: 10,
                }),
            ),
            ("EXPLAIN MAINTENANCE \"V\"", ViewStatement::Maintenance(name(&["V"]))),
            ("explain (triggers) a.v", ViewStatement::Triggers(name(&["a", "v"]))),
        ] {
            assert_eq!(
                carrier(text).and_then(|found| unpack(&found, "")),
                Some(expected),
                "{text}"
            );
        }
        for text in ["SUBSCRIBE", "SUBSCRIBE v FROM x", "EXPLAIN (TRIGGERS) SELECT 1", "SELECT 1"] {
            assert_eq!(carrier(text), None, "{text}");
        }
    }
}
