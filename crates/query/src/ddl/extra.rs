//! PostgreSQL's statements that the SQL parser has no tree for.
//!
//! They travel from the parser to the binder inside a statement that nobody can type: a PRAGMA of
//! a name of ours, with the text as its value.

use datafusion::sql::sqlparser::ast::{
    AlterRoleOperation, CreateTable, DataType, Expr, Ident, ObjectName, Query, Statement,
    UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::sequence::Wish;
use super::{Ddl, DdlContext, Done, alter, fold, materialized, parts, role, sequence, sql_type};
use crate::error::Result;

/// Name of the carrying statement; no identifier can be typed with it.
const CARRIER: &str = "\u{1}ddl";

/// A statement of our own syntax.
#[derive(Clone, Debug)]
pub enum Extra {
    /// ALTER SEQUENCE with options.
    AlterSequence {
        /// The sequence.
        name: Vec<String>,
        /// It need not exist.
        if_exists: bool,
        /// What is to change.
        wish: Wish,
        /// OWNED BY.
        owned_by: Option<Vec<String>>,
    },
    /// RENAME TO, OWNER TO, SET SCHEMA of any kind of relation.
    Move {
        /// `TABLE`, `VIEW`, `SEQUENCE`, `INDEX`.
        kind: &'static str,
        /// The relation.
        name: Vec<String>,
        /// It need not exist.
        if_exists: bool,
        /// What is to change.
        to: MoveTo,
    },
    /// GRANT or REVOKE of role membership.
    Membership {
        /// Roles given or taken.
        roles: Vec<String>,
        /// Who gets or loses them.
        members: Vec<String>,
        /// GRANT, else REVOKE.
        grant: bool,
    },
    /// CREATE USER in PostgreSQL's syntax.
    CreateRole {
        /// Its name.
        name: String,
        /// Options as of ALTER ROLE.
        operation: Box<AlterRoleOperation>,
        /// Whether it may log in unless the options say otherwise.
        login: bool,
    },
    /// CREATE STREAM, as the CREATE TABLE that it looks like.
    CreateStream(Box<CreateTable>),
    /// CREATE ASSERTION name CHECK (NOT EXISTS (query)).
    CreateAssertion {
        /// Its name.
        name: Vec<String>,
        /// What must have no row.
        query: Box<Query>,
    },
    /// DROP ASSERTION.
    DropAssertion {
        /// Its name.
        name: Vec<String>,
        /// It need not exist.
        if_exists: bool,
    },
    /// ALTER USER.
    AlterRole {
        /// Its name.
        name: String,
        /// What is to change.
        operation: Box<AlterRoleOperation>,
    },
}

/// Where [`Extra::Move`] moves to.
#[derive(Clone, Debug)]
pub enum MoveTo {
    /// RENAME TO.
    Name(String),
    /// OWNER TO.
    Owner(String),
    /// SET SCHEMA.
    Schema(String),
}

/// The carrier of a text, if it begins like a statement of ours.
pub(crate) fn carrier(text: &str) -> Option<Statement> {
    parse(text).ok()?;
    Some(Statement::Pragma {
        name: ObjectName::from(vec![Ident::new(CARRIER)]),
        value: Some(ValueWithSpan {
            value: Value::SingleQuotedString(text.to_owned()),
            span: datafusion::sql::sqlparser::tokenizer::Span::empty(),
        }),
        is_eq: false,
    })
}

/// The statement in a carrier, with its tag.
pub(super) fn unpack(statement: &Statement) -> Option<(Ddl, &'static str)> {
    let Statement::Pragma { name, value: Some(value), .. } = statement else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    if parts(name).ok()? != [CARRIER] {
        return None;
    }
    let extra = parse(text).ok()?;
    let tag = extra.tag();
    Some((Ddl::Extra(Box::new(extra)), tag))
}

fn parse(text: &str) -> Result<Extra, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?;
    let extra = match parser.parse_one_of_keywords(&[
        Keyword::ALTER,
        Keyword::CREATE,
        Keyword::DROP,
        Keyword::GRANT,
        Keyword::REVOKE,
    ]) {
        Some(Keyword::ALTER) => parse_alter(&mut parser),
        Some(Keyword::CREATE) if eats(&mut parser, "stream") => parse_stream(&mut parser, text),
        Some(Keyword::CREATE) if eats(&mut parser, "assertion") => parse_assertion(&mut parser),
        Some(Keyword::CREATE) => parse_create_user(&mut parser),
        Some(Keyword::DROP) if eats(&mut parser, "assertion") => {
            let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            name(&mut parser).map(|name| Extra::DropAssertion { name, if_exists })
        }
        Some(Keyword::GRANT) => parse_membership(&mut parser, true),
        Some(Keyword::REVOKE) => parse_membership(&mut parser, false),
        _ => Err(ParserError::ParserError("not ours".to_owned())),
    }?;
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(extra),
        other => Err(ParserError::ParserError(format!("unexpected {other}"))),
    }
}

fn name(parser: &mut Parser<'_>) -> Result<Vec<String>, ParserError> {
    let name = parser.parse_object_name(false)?;
    parts(&name).map_err(|error| ParserError::ParserError(error.message().to_owned()))
}

/// Whether the next word is this one, which is then behind us.
fn eats(parser: &mut Parser<'_>, word: &str) -> bool {
    let is = matches!(&parser.peek_token().token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
    if is {
        parser.next_token();
    }
    is
}

/// The rest of CREATE STREAM, read by the parser's own CREATE TABLE.
fn parse_stream(parser: &mut Parser<'_>, text: &str) -> Result<Extra, ParserError> {
    let lower = text.to_ascii_lowercase();
    let at = lower.find("stream").expect("the parser has just met the word");
    let as_table = format!("CREATE TABLE {}", &text[at + "stream".len()..]);
    while !matches!(parser.peek_token().token, Token::EOF) {
        parser.next_token();
    }
    match Parser::parse_sql(&PostgreSqlDialect {}, &as_table)?.pop() {
        Some(Statement::CreateTable(create)) => Ok(Extra::CreateStream(Box::new(create))),
        _ => Err(ParserError::ParserError("expected columns of a stream".to_owned())),
    }
}

fn parse_assertion(parser: &mut Parser<'_>) -> Result<Extra, ParserError> {
    let name = name(parser)?;
    parser.expect_keyword(Keyword::CHECK)?;
    parser.expect_token(&Token::LParen)?;
    let condition = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    let query = match condition {
        Expr::Exists { subquery, negated: true } => subquery,
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => match *expr {
            Expr::Exists { subquery, negated: false } => subquery,
            _ => return Err(ParserError::ParserError("expected NOT EXISTS".to_owned())),
        },
        _ => return Err(ParserError::ParserError("expected NOT EXISTS".to_owned())),
    };
    Ok(Extra::CreateAssertion { name, query })
}

fn parse_alter(parser: &mut Parser<'_>) -> Result<Extra, ParserError> {
    if parser.parse_keyword(Keyword::USER) {
        let name = fold(&parser.parse_identifier()?);
        return Ok(Extra::AlterRole { operation: Box::new(role_options(parser)?), name });
    }
    let kind = match parser.parse_one_of_keywords(&[
        Keyword::SEQUENCE,
        Keyword::MATERIALIZED,
        Keyword::VIEW,
        Keyword::TABLE,
        Keyword::INDEX,
    ]) {
        Some(Keyword::SEQUENCE) => "SEQUENCE",
        Some(Keyword::MATERIALIZED) => {
            parser.expect_keyword(Keyword::VIEW)?;
            "MATERIALIZED VIEW"
        }
        Some(Keyword::VIEW) => "VIEW",
        Some(Keyword::TABLE) => "TABLE",
        Some(Keyword::INDEX) => "INDEX",
        _ => return Err(ParserError::ParserError("not ours".to_owned())),
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let relation = name(parser)?;
    if let Some(to) = parse_move(parser)? {
        return Ok(Extra::Move { kind, name: relation, if_exists, to });
    }
    if kind != "SEQUENCE" {
        return Err(ParserError::ParserError("not ours".to_owned()));
    }
    let (wish, owned_by) = parse_sequence_options(parser)?;
    Ok(Extra::AlterSequence { name: relation, if_exists, wish, owned_by })
}

fn parse_move(parser: &mut Parser<'_>) -> Result<Option<MoveTo>, ParserError> {
    let to = if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        MoveTo::Name(fold(&parser.parse_identifier()?))
    } else if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
        MoveTo::Owner(fold(&parser.parse_identifier()?))
    } else if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        MoveTo::Schema(fold(&parser.parse_identifier()?))
    } else {
        return Ok(None);
    };
    Ok(Some(to))
}

fn parse_sequence_options(
    parser: &mut Parser<'_>,
) -> Result<(Wish, Option<Vec<String>>), ParserError> {
    let mut wish = Wish::default();
    let mut owned_by = None;
    loop {
        if parser.parse_keyword(Keyword::AS) {
            let ty: DataType = parser.parse_data_type()?;
            let ty = sql_type(&ty);
            wish.ty = Some(ty.map_err(|e| ParserError::ParserError(e.message().to_owned()))?);
        } else if parser.parse_keyword(Keyword::INCREMENT) {
            let _ = parser.parse_keyword(Keyword::BY);
            wish.increment = Some(signed(parser)?);
        } else if parser.parse_keyword(Keyword::MINVALUE) {
            wish.min = Some(Some(signed(parser)?));
        } else if parser.parse_keyword(Keyword::MAXVALUE) {
            wish.max = Some(Some(signed(parser)?));
        } else if parser.parse_keyword(Keyword::START) {
            let _ = parser.parse_keyword(Keyword::WITH);
            wish.start = Some(signed(parser)?);
        } else if parser.parse_keyword(Keyword::RESTART) {
            let with = parser.parse_keyword(Keyword::WITH);
            let number = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus);
            wish.restart = Some(if with || number { Some(signed(parser)?) } else { None });
        } else if parser.parse_keyword(Keyword::CACHE) {
            signed(parser)?;
        } else if parser.parse_keyword(Keyword::CYCLE) {
            wish.cycle = Some(true);
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
            wish.cycle = Some(false);
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
            wish.min = Some(None);
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
            wish.max = Some(None);
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            owned_by = Some(name(parser)?);
        } else {
            return Ok((wish, owned_by));
        }
    }
}

fn signed(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let negative = parser.consume_token(&Token::Minus);
    let _ = !negative && parser.consume_token(&Token::Plus);
    let token = parser.next_token().token;
    let Token::Number(digits, _) = &token else {
        return Err(ParserError::ParserError(format!("expected a number, found {token}")));
    };
    let text = if negative { format!("-{digits}") } else { digits.clone() };
    text.parse().map_err(|_| ParserError::ParserError(format!("{text} is out of range")))
}

fn parse_create_user(parser: &mut Parser<'_>) -> Result<Extra, ParserError> {
    let login = match parser.parse_one_of_keywords(&[Keyword::USER, Keyword::ROLE, Keyword::GROUP])
    {
        Some(Keyword::USER) => true,
        Some(_) => false,
        None => return Err(ParserError::ParserError("not ours".to_owned())),
    };
    let name = fold(&parser.parse_identifier()?);
    Ok(Extra::CreateRole { name, operation: Box::new(role_options(parser)?), login })
}

/// Options of a role, read by the parser's own ALTER ROLE.
fn role_options(parser: &mut Parser<'_>) -> Result<AlterRoleOperation, ParserError> {
    let mut text = "ALTER ROLE r".to_owned();
    loop {
        match parser.next_token().token {
            Token::EOF | Token::SemiColon => break,
            token => text.push_str(&format!(" {token}")),
        }
    }
    if text == "ALTER ROLE r" || text == "ALTER ROLE r WITH" {
        return Ok(AlterRoleOperation::WithOptions { options: Vec::new() });
    }
    let text = text.replace(" ENCRYPTED PASSWORD ", " PASSWORD ");
    match Parser::parse_sql(&PostgreSqlDialect {}, &text)?.pop() {
        Some(Statement::AlterRole { operation, .. }) => Ok(operation),
        _ => Err(ParserError::ParserError("expected options of a role".to_owned())),
    }
}

fn parse_membership(parser: &mut Parser<'_>, grant: bool) -> Result<Extra, ParserError> {
    let names = |parser: &mut Parser<'_>| {
        parser.parse_comma_separated(|parser| parser.parse_identifier().map(|name| fold(&name)))
    };
    let roles = names(parser)?;
    parser.expect_keyword(if grant { Keyword::TO } else { Keyword::FROM })?;
    let members = names(parser)?;
    let _ = parser.parse_keywords(&[Keyword::WITH, Keyword::ADMIN, Keyword::OPTION]);
    Ok(Extra::Membership { roles, members, grant })
}

impl Extra {
    fn tag(&self) -> &'static str {
        match self {
            Extra::AlterSequence { .. } => "ALTER SEQUENCE",
            Extra::Move { kind: "VIEW", .. } => "ALTER VIEW",
            Extra::Move { kind: "MATERIALIZED VIEW", .. } => "ALTER MATERIALIZED VIEW",
            Extra::Move { kind: "SEQUENCE", .. } => "ALTER SEQUENCE",
            Extra::Move { kind: "INDEX", .. } => "ALTER INDEX",
            Extra::Move { .. } => "ALTER TABLE",
            Extra::Membership { grant: true, .. } => "GRANT ROLE",
            Extra::Membership { .. } => "REVOKE ROLE",
            Extra::CreateRole { .. } => "CREATE ROLE",
            Extra::AlterRole { .. } => "ALTER ROLE",
            Extra::CreateStream(_) => "CREATE STREAM",
            Extra::CreateAssertion { .. } => "CREATE ASSERTION",
            Extra::DropAssertion { .. } => "DROP ASSERTION",
        }
    }

    /// Carries it out.
    pub(super) fn run(&self, cx: &mut DdlContext<'_>) -> Result<Done> {
        match self {
            Extra::AlterSequence { name, if_exists, wish, owned_by } => {
                if !(*if_exists && cx.catalog.resolve(name, cx.search_path()).is_none()) {
                    sequence::alter(cx, name, wish, owned_by.as_deref())?;
                }
            }
            Extra::Move { kind, name, if_exists, to } => {
                if !(*if_exists && cx.catalog.resolve(name, cx.search_path()).is_none()) {
                    alter::relocate(cx, kind, name, to)?;
                }
            }
            Extra::Membership { roles, members, grant } => {
                role::membership(cx, roles, members, *grant)?;
            }
            Extra::CreateRole { name, operation, login } => {
                role::create_with(cx, name, operation, *login)?;
            }
            Extra::AlterRole { name, operation } => role::alter(cx, name, operation)?,
            Extra::CreateStream(create) => {
                materialized::create_stream(cx, create)?;
            }
            Extra::CreateAssertion { name, query } => {
                materialized::create_assertion(cx, name, query)?;
            }
            Extra::DropAssertion { name, if_exists } => {
                materialized::drop_assertion(cx, name, *if_exists)?;
            }
        }
        Ok((self.tag(), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> Option<&'static str> {
        unpack(&carrier(text)?).map(|(_, tag)| tag)
    }

    #[test]
    fn statements_without_a_tree_are_recognised() {
        for (text, expected) in [
            ("ALTER SEQUENCE s RESTART WITH 10", "ALTER SEQUENCE"),
            ("alter sequence if exists a.s increment by -1 no maxvalue cycle", "ALTER SEQUENCE"),
            ("ALTER SEQUENCE s OWNED BY t.c", "ALTER SEQUENCE"),
            ("ALTER SEQUENCE s RENAME TO r", "ALTER SEQUENCE"),
            ("ALTER VIEW v SET SCHEMA other", "ALTER VIEW"),
            ("ALTER TABLE t SET SCHEMA other", "ALTER TABLE"),
            ("GRANT staff, boss TO bob", "GRANT ROLE"),
            ("REVOKE staff FROM bob", "REVOKE ROLE"),
            ("CREATE USER alice WITH PASSWORD 'x' CREATEDB", "CREATE ROLE"),
            ("CREATE USER alice", "CREATE ROLE"),
            ("ALTER USER alice PASSWORD 'y'", "ALTER ROLE"),
            ("CREATE STREAM IF NOT EXISTS a.s (x int NOT NULL, CHECK (x > 0))", "CREATE STREAM"),
            ("ALTER MATERIALIZED VIEW v RENAME TO w", "ALTER MATERIALIZED VIEW"),
            (
                "create assertion a check (not exists (select 1 from v where x > 1))",
                "CREATE ASSERTION",
            ),
            ("DROP ASSERTION IF EXISTS public.a", "DROP ASSERTION"),
        ] {
            assert_eq!(tag(text), Some(expected), "{text}");
        }
        for text in
            ["ALTER TABLE t ADD COLUMN a int", "SELECT 1", "ALTER SEQUENCE s RESTART WITH x"]
        {
            assert_eq!(tag(text), None, "{text}");
        }
    }
}
