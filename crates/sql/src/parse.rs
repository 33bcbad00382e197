//! Text to statements: tokens, one statement after the other, and a bound on nesting. What a
//! statement says is [`crate::syntax`]'s.
//!
//! Words: a *chain* is a run of binary operators of one level, which parses into a tree as deep
//! as it is long; *nesting* is depth of brackets, CASE and prefix operators.
//! Invariants, checked by the tests at the end:
//! 1. No text makes parser, planner or destructors overflow the stack: nesting beyond
//!    [`NESTING_MAX`] and chains beyond [`CHAIN_MAX`] are refused (54001) before anything
//!    recursive sees them, and chains of AND and OR, which have no limit, are balanced as soon
//!    as they are parsed (`syntax::balance`).
//! 2. `Parsed::text` is the statement's own text: no semicolon, no surrounding blanks.
//!
//! Positions inside a statement count characters of its own text, from 1.

pub use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{Result, SqlError, SqlState};
use crate::syntax::{self, Lines, Statement, from_tokenizer, too_deep};
pub use crate::syntax::{CHAIN_MAX, NESTING_MAX};

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
    let mut tokens = Vec::new();
    Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| from_tokenizer(error, text))?;
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

/// Runs `work` with enough stack for anything that [`parse`] lets through.
///
/// Planner and optimizer guard most of their recursion themselves; comparing, hashing, cloning
/// and dropping trees is left, and is bounded by [`NESTING_MAX`] and [`CHAIN_MAX`].
pub fn with_stack<R>(work: impl FnOnce() -> R) -> R {
    const RESERVE: usize = 3 << 20;
    const SEGMENT: usize = 64 << 20;
    stacker::maybe_grow(RESERVE, SEGMENT, work)
}

fn parse_one(tokens: &[TokenWithSpan], text: &str) -> Result<Statement> {
    check_depth(tokens)?;
    with_stack(|| syntax::parse(tokens, text))
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

/// Refuses what would become too deep a tree. One pass over the tokens, no recursion.
fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut nesting = 0usize;
    let mut prefixes = 0usize;
    let mut links = 0usize;
    let mut chains = vec![0usize];
    let mut after_operand = false;
    for token in tokens {
        let chain = chains.last_mut().expect("one per open bracket, and the outermost");
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => {
                nesting += 1;
                chains.push(0);
                after_operand = false;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                nesting = nesting.saturating_sub(1);
                if chains.len() > 1 {
                    chains.pop();
                }
                after_operand = true;
                prefixes = 0;
            }
            Token::Comma => {
                *chain = 0;
                prefixes = 0;
                after_operand = false;
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::SELECT => after_operand = false,
                // A clause's expressions begin anew. FROM does not say so: IS DISTINCT FROM.
                Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::ORDER => {
                    *chain = 0;
                    prefixes = 0;
                    after_operand = false;
                }
                Keyword::CASE => {
                    nesting += 1;
                    chains.push(0);
                    after_operand = false;
                }
                Keyword::END => {
                    nesting = nesting.saturating_sub(1);
                    if chains.len() > 1 {
                        chains.pop();
                    }
                    after_operand = true;
                    prefixes = 0;
                }
                // The branches of a CASE are a list, however long.
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => {
                    *chain = 0;
                    prefixes = 0;
                    after_operand = false;
                }
                Keyword::NOT => prefixes += 1,
                Keyword::AND | Keyword::OR => {
                    prefixes = 0;
                    *chain = 0;
                    after_operand = false;
                }
                Keyword::JOIN | Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                    links += 1;
                    *chain = 0;
                }
                Keyword::IS | Keyword::COLLATE | Keyword::AT => *chain += 1,
                _ => after_operand = true,
            },
            Token::Plus | Token::Minus | Token::Tilde if !after_operand => prefixes += 1,
            Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) => {
                after_operand = true;
                prefixes = 0;
            }
            _ => {
                *chain += 1;
                after_operand = false;
            }
        }
        let deepest = (nesting + prefixes).max(links * NESTING_MAX / CHAIN_MAX);
        if deepest > NESTING_MAX || chains.last().is_some_and(|chain| *chain > CHAIN_MAX) {
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
    fn nesting_is_bounded_and_never_overflows_the_stack() {
        for depth in [NESTING_MAX + 1, 10_000, 200_000] {
            for (open, middle, close) in [
                ("(", "1", ")"),
                ("- ", "1", ""),
                ("NOT ", "true", ""),
                ("CASE WHEN true THEN ", "1", " END"),
                ("abs(", "1", ")"),
                ("(SELECT ", "1", ")"),
                ("1 + (", "1", ")"),
                ("ARRAY[", "1", "]"),
            ] {
                let text = format!("SELECT {}{middle}{}", open.repeat(depth), close.repeat(depth));
                assert_eq!(error(&text).state(), SqlState::STATEMENT_TOO_COMPLEX, "{open}");
            }
            for link in [" + 1", " || 'a'", "::text", " UNION SELECT 1", " IS NULL"] {
                let text = format!("SELECT 1{}", link.repeat(CHAIN_MAX + depth));
                assert_eq!(error(&text).state(), SqlState::STATEMENT_TOO_COMPLEX, "{link}");
            }
        }
    }

    #[test]
    fn what_is_allowed_parses_on_a_small_stack() {
        let work = || {
            let deep = format!("SELECT {}1{}", "(".repeat(250), ")".repeat(250));
            let cases =
                format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(250), " END".repeat(250));
            // As many branches as one likes; what stands around the CASE is still counted.
            let branches = "WHEN a = 1 THEN -1 ".repeat(2 * CHAIN_MAX);
            assert!(parse(&format!("SELECT CASE {branches}END FROM t")).is_ok());
            let terms = " + CASE WHEN a THEN 1 END".repeat(CHAIN_MAX + 1);
            assert_eq!(
                error(&format!("SELECT 1{terms} FROM t")).state(),
                SqlState::STATEMENT_TOO_COMPLEX
            );
            let chain = format!("SELECT 1{}", " + 1".repeat(CHAIN_MAX));
            let logic = format!("SELECT true{}", " AND a = 1 OR b < 2".repeat(50_000));
            let list = format!("SELECT 1 IN (0{})", ", 1".repeat(300_000));
            for text in [deep, cases, chain, logic, list] {
                assert_eq!(parse(&text).expect("allowed").len(), 1);
            }
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
        thread.expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn copy_from_stdin_needs_no_data() {
        let parsed = parse("COPY t FROM STDIN WITH (FORMAT csv); SELECT 1").expect("two");
        assert_eq!(parsed.len(), 2);
        let Statement::Sql(copy) = &parsed[0].statement else { panic!("{parsed:?}") };
        assert!(matches!(**copy, ast::Statement::Copy { .. }));
    }
}
