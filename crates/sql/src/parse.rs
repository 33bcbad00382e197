//! Text to statements: tokens, one statement after the other, and a bound on nesting. What a
//! statement says is [`crate::syntax`]'s.
//!
//! Invariants, checked by the tests at the end:
//! 1. No text makes parser, planner or destructors overflow the stack: trees of more than
//!    [`DEPTH_MAX`] levels are refused (54001) as soon as they are parsed, on a stack that grows with the
//!    text; chains of AND and OR, which have no limit, are balanced (`syntax::depth`).
//! 2. `Parsed::text` is the statement's own text: no semicolon, no surrounding blanks.
//!
//! Positions inside a statement count characters of its own text, from 1.

pub use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use halcyon_base::interrupt::{self, watching};

use crate::error::{Result, SqlError, SqlState};
pub use crate::stack::with_stack;
use crate::stack::with_stack_for_tokens;
use crate::syntax::{self, Lines, Statement, from_tokenizer, too_deep};
pub use crate::syntax::{DEPTH_MAX, NESTING_MAX};

/// A statement and where it came from.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// What it says; spans refer to `text`.
    pub statement: Statement,
    /// The statement's own text.
    pub text: &'a str,
    /// Characters of the whole text before it, to be added to positions in errors.
    pub offset: u32,
}

/// Parses a text of any number of statements.
pub fn parse(text: &str) -> Result<Vec<Parsed<'_>>> {
    match parse_everyday(text) {
        Some(parsed) => Ok(vec![parsed]),
        None => parse_tokens(text),
    }
}

/// The statement of an everyday text; `None` if the text is none, or is to be left to [`parse`].
///
/// No stack is needed, neither here nor to walk, copy or drop the tree.
pub fn parse_everyday(text: &str) -> Option<Parsed<'_>> {
    // A statement that is to end is left to the SQL parser, which ends.
    let (statement, place) = halcyon_quick::statement(text).filter(|_| !interrupt::is_pending())?;
    let offset = u32::try_from(place.start).expect("the text is short");
    let statement = Statement::Sql(Box::new(statement));
    let parsed = Parsed { statement, text: &text[place], offset };
    debug_assert!(is_that_of_the_parser(text, &parsed), "{text}");
    Some(parsed)
}

/// Whether the SQL parser reads what was read quickly; also if the statement is to end, so that the SQL
/// parser reads nothing.
fn is_that_of_the_parser(text: &str, quick: &Parsed<'_>) -> bool {
    match parse_tokens(text).as_deref() {
        // Places in the text are seen only so.
        Ok([slow]) => format!("{slow:?}") == format!("{quick:?}"),
        Ok(_) => false,
        Err(_) => interrupt::is_pending(),
    }
}

/// Parses a text of any number of statements as [`parse`] does, always by the SQL parser.
pub fn parse_tokens(text: &str) -> Result<Vec<Parsed<'_>>> {
    let mut tokens = Vec::new();
    Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| from_tokenizer(error, text))?;
    let tokens = with_signs_apart(tokens);
    let lines = Lines::of(text);
    let mut statements = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((own, after)) = next_statement(rest) {
        rest = after;
        let Some(own) = trim(own) else { continue };
        let (first, last) = (&own[0], &own[own.len() - 1]);
        let (start, offset) = lines.place(first.span.start);
        let (end, _) = lines.place(last.span.end);
        let parsed = parse_one(own, &text[start..end]).map_err(|error| shift(error, offset))?;
        statements.push(Parsed { statement: parsed, text: &text[start..end], offset });
    }
    Ok(statements)
}

/// The tokens with signs behind an operator as tokens of their own: PostgreSQL ends no operator with a
/// sign unless it has one of the characters that arithmetic has not (`->>-1`, but `@-`).
fn with_signs_apart(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let own = |token: &TokenWithSpan| match &token.token {
        Token::CustomBinaryOperator(text) => {
            let rest = text.trim_end_matches(['+', '-']);
            let splits = rest.len() < text.len() && !rest.is_empty();
            let keeps = rest.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']);
            (splits && !keeps).then_some(rest.len())
        }
        _ => None,
    };
    if !tokens.iter().any(|token| own(token).is_some()) {
        return tokens;
    }
    let mut apart = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        let (Some(at), Token::CustomBinaryOperator(text)) = (own(&token), &token.token) else {
            apart.push(token);
            continue;
        };
        let (operator, signs) = text.split_at(at);
        let operator = Tokenizer::new(&PostgreSqlDialect {}, operator).tokenize();
        let signs = signs.chars().map(|sign| if sign == '-' { Token::Minus } else { Token::Plus });
        let parts = operator.unwrap_or_default().into_iter().chain(signs);
        apart.extend(parts.map(|part| TokenWithSpan { token: part, span: token.span }));
    }
    apart
}

/// Parses exactly one query, as stored for a view.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    let query = parse(text)?.pop().and_then(|parsed| parsed.statement.into_query());
    match query {
        Some(query) => Ok(*query),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a query was expected")),
    }
}

/// Parses exactly one scalar expression, as stored for a DEFAULT or a CHECK.
pub fn parse_expr(text: &str) -> Result<Expr> {
    let mut query = parse_query(&format!("SELECT {text}"))?;
    if let ast::SetExpr::Select(select) = query.body.as_mut()
        && select.projection.len() == 1
        && let Some(ast::SelectItem::UnnamedExpr(expr)) = select.projection.pop()
    {
        return Ok(expr);
    }
    Err(SqlError::new(SqlState::SYNTAX_ERROR, "an expression was expected"))
}

/// Parses a query that the engine wrote, also for a statement that is to end: an error here would be taken
/// for one of the engine's.
///
/// Panics: if the text is no query.
pub fn parse_own_query(text: &str) -> ast::Query {
    watching(|| false, || parse_query(text)).expect("the engine writes SQL")
}

/// Parses an expression that the engine wrote or has stored, as [`parse_own_query`] a query.
pub fn parse_own_expr(text: &str) -> Expr {
    watching(|| false, || parse_expr(text)).expect("the engine writes and stores SQL")
}

fn parse_one(tokens: &[TokenWithSpan], text: &str) -> Result<Statement> {
    check_brackets(tokens)?;
    with_stack_for_tokens(tokens.len(), || syntax::parse(tokens, text))
}

/// The tokens up to the next semicolon, and those after it.
fn next_statement(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], &[TokenWithSpan])> {
    if tokens.is_empty() {
        return None;
    }
    match tokens.iter().position(|token| token.token == Token::SemiColon) {
        Some(at) => Some((&tokens[..at], &tokens[at + 1..])),
        None => Some((tokens, &[])),
    }
}

/// Without the blanks and comments around it; `None` if nothing is left.
fn trim(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let counts = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let first = tokens.iter().position(counts)?;
    let last = tokens.iter().rposition(counts)?;
    Some(&tokens[first..=last])
}

/// Errors: 54001 if a place has more than [`NESTING_MAX`] brackets around it.
///
/// Within brackets the SQL parser often tries one way of reading first and then another, so their depth
/// is what its time grows with.
fn check_brackets(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut nesting = 0usize;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => nesting += 1,
            Token::RParen | Token::RBracket | Token::RBrace => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > NESTING_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn shift(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.position(position + offset),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> SqlError {
        parse(text).map(|_| ()).expect_err(&text[..text.len().min(80)])
    }

    #[test]
    fn statements_keep_their_own_text_and_offset() {
        let parsed = parse(" SELECT 'é;' ;\n-- nothing\n; select 2 -- end\n ;;").expect("two");
        let texts: Vec<_> = parsed.iter().map(|p| (p.text, p.offset)).collect();
        assert_eq!(texts, [("SELECT 'é;'", 1), ("select 2", 28)]);
        assert!(parse(" ; -- nothing\n").expect("empty").is_empty());
    }

    #[test]
    fn syntax_errors_name_the_place() {
        for (text, state, position, message) in [
            ("SELEC 1", "42601", Some(1), "syntax error at or near \"SELEC\""),
            ("SELECT 1;\n SELECT (1", "42601", Some(21), "syntax error at end of input"),
            ("SELECT 1 FROM t WHERE )", "42601", Some(23), "syntax error at or near \")\""),
            ("SELECT 'abc", "42601", Some(8), "unterminated string literal"),
            ("SELECT 1 1", "42601", Some(10), "syntax error at or near \"1\""),
        ] {
            let error = error(text);
            assert_eq!(error.state().as_str(), state, "{text}");
            assert_eq!(error.message().to_lowercase(), message.to_lowercase(), "{text}");
            assert_eq!(error.fields().position, position, "{text}: {error:?}");
        }
    }

    #[test]
    fn depth_is_bounded_whatever_makes_it() {
        let work = || {
            for depth in [DEPTH_MAX + 1, 20_000] {
                for (open, middle, close) in [
                    ("(", "1", ")"),
                    ("- ", "1", ""),
                    ("NOT ", "true", ""),
                    ("INTERVAL ", "'1 day'", ""),
                    ("CASE WHEN true THEN ", "1", " END"),
                    ("abs(", "1", ")"),
                    ("(SELECT ", "1", ")"),
                    ("1 + (", "1", ")"),
                    ("ARRAY[", "1", "]"),
                ] {
                    let (opened, closed) = (open.repeat(depth), close.repeat(depth));
                    let error = error(&format!("SELECT {opened}{middle}{closed}"));
                    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{depth} {open}");
                }
                for link in [
                    " + 1",
                    " || 'a'",
                    "::text",
                    " UNION SELECT 1",
                    " IS NULL",
                    " NOTNULL",
                    " LIKE 'a'",
                    " IN (true)",
                    " XOR true",
                    " OPERATOR(+) 1",
                    " BETWEEN 1 AND 2",
                    " IS DISTINCT FROM 1",
                ] {
                    // Two set operations count for one level.
                    let error = error(&format!("SELECT 1{}", link.repeat(2 * depth)));
                    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{depth} {link}");
                }
            }
            for (text, state) in [
                (format!("{}SELECT 1", "EXPLAIN ".repeat(20_000)), "54001"),
                (format!("{}SELECT 1", "DESCRIBE ".repeat(200_000)), "54001"),
                (format!("{}SELECT 1", "DESC ".repeat(200_000)), "54001"),
                (format!("SELECT CAST(1 AS {}int", "ARRAY<".repeat(20_000)), "54001"),
                (format!("SELECT 1::int{}", "[]".repeat(200_000)), "54001"),
                // What was read until the error is dropped by the parser.
                (format!("SELECT 1{} AND", " AND a = 1".repeat(200_000)), "42601"),
                (format!("SELECT 1{} +", " NOTNULL".repeat(200_000)), "42601"),
            ] {
                assert_eq!(error(&text).state().as_str(), state, "{}", &text[..30]);
            }
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
        thread.expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn what_is_allowed_parses_on_a_small_stack() {
        let work = || {
            let deep = format!("SELECT {}1{}", "(".repeat(250), ")".repeat(250));
            let cases =
                format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(250), " END".repeat(250));
            // As many branches as one likes; what stands around the CASE is still counted.
            let branches = "WHEN a = 1 THEN -1 ".repeat(2 * DEPTH_MAX);
            assert!(parse(&format!("SELECT CASE {branches}END FROM t")).is_ok());
            let terms = " + CASE WHEN a THEN 1 END".repeat(DEPTH_MAX + 1);
            assert_eq!(
                error(&format!("SELECT 1{terms} FROM t")).state(),
                SqlState::STATEMENT_TOO_COMPLEX
            );
            let chain = format!("SELECT 1{}", " + 1".repeat(DEPTH_MAX - 10));
            let logic = format!("SELECT true{}", " AND a = 1 OR b < 2".repeat(50_000));
            let list = format!("SELECT 1 IN (0{})", ", 1".repeat(300_000));
            for text in [deep, cases, chain, logic, list] {
                assert_eq!(parse(&text).expect("allowed").len(), 1);
            }
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
        thread.expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn a_statement_that_is_to_end_ends_its_parser() {
        let text = format!("SELECT 1 IN (0{})", ", 1".repeat(1_000));
        let ended = halcyon_base::interrupt::watching(|| true, || parse(&text).map(|_| ()));
        assert_eq!(ended.expect_err("ended").state(), SqlState::QUERY_CANCELED);
        let own = || (parse_own_query("SELECT 1").to_string(), parse_own_expr("a + 1").to_string());
        let own = halcyon_base::interrupt::watching(|| true, own);
        assert_eq!(own, ("SELECT 1".into(), "a + 1".into()));
    }

    #[test]
    fn copy_from_stdin_needs_no_data() {
        let parsed = parse("COPY t FROM STDIN WITH (FORMAT csv); SELECT 1").expect("two");
        assert_eq!(parsed.len(), 2);
        let Statement::Sql(copy) = &parsed[0].statement else { panic!("{parsed:?}") };
        assert!(matches!(**copy, ast::Statement::Copy { .. }));
    }
}
