//! Text to statements: PostgreSQL's dialect, positions in errors, and a bound on nesting.
//!
//! Words: a *chain* is a run of binary operators of one level, which parses into a tree as deep
//! as it is long; *nesting* is depth of brackets, CASE and prefix operators.
//! Invariants, checked by the tests at the end:
//! 1. No text makes parser, planner or destructors overflow the stack: nesting beyond
//!    [`NESTING_MAX`] and chains beyond [`CHAIN_MAX`] are refused (54001) before anything
//!    recursive sees them, and chains of AND and OR, which have no limit, are balanced as soon
//!    as they are parsed.
//! 2. `Parsed::text` is the statement's own text: no semicolon, no surrounding blanks.
//!
//! Positions inside a statement count characters of its own text, from 1.

use std::ops::ControlFlow;

pub use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError,
};

use crate::error::{Result, SqlError, SqlState};
use crate::late_conditions::LateConditions;

/// Brackets, CASEs and prefix operators that may enclose a place of a statement.
pub const NESTING_MAX: usize = 256;

/// Binary operators other than AND and OR in a row; also joins and set operations in a statement.
pub const CHAIN_MAX: usize = 1_000;

/// A statement and where it came from.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The syntax tree; its spans refer to `text`.
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
    match parse(text)?.pop() {
        Some(Parsed { statement: Statement::Query(query), .. }) => Ok(*query),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a query was expected")),
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
    let origin = tokens[0].span.start;
    let own = || -> Vec<TokenWithSpan> {
        let own = |token: &TokenWithSpan| {
            TokenWithSpan::new(token.token.clone(), relative(token.span, origin))
        };
        // COPY … FROM STDIN is parsed with the data that would follow; there is none.
        let end = TokenWithSpan::wrap(Token::SemiColon);
        tokens.iter().map(own).chain([end]).collect()
    };
    with_stack(|| {
        let mut parser = parser(&PostgreSqlDialect {}, own());
        let statement = match parser.parse_statement() {
            Ok(statement)
                if at_end(&parser)
                    && !matches!(statement, Statement::AlterUser(_) | Statement::CreateUser(_)) =>
            {
                statement
            }
            other => {
                let carrier = crate::utility::carrier(tokens);
                let carrier = carrier.or_else(|| crate::ddl::carrier(text));
                if let Some(carrier) = carrier.or_else(|| crate::views::carrier(text)) {
                    return Ok(carrier);
                }
                match with_late_conditions(own()) {
                    Some(statement) => return Ok(with_balance(statement)),
                    None => other.map_err(|e| from_parser(e, text))?,
                }
            }
        };
        if !at_end(&parser) {
            let next = parser.peek_token();
            return Err(near(&next.token, "end of statement", Some(next.span.start), text));
        }
        Ok(with_balance(statement))
    })
}

fn parser(dialect: &dyn Dialect, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
    Parser::new(dialect).with_recursion_limit(8 * NESTING_MAX).with_tokens_with_locations(tokens)
}

fn at_end(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token().token, Token::SemiColon | Token::EOF)
}

/// The statement, if it is one with conditions of joins that come late.
fn with_late_conditions(tokens: Vec<TokenWithSpan>) -> Option<Statement> {
    let joins = tokens
        .iter()
        .filter(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::JOIN));
    if joins.count() < 2 {
        return None;
    }
    let mut parser = parser(&LateConditions, tokens);
    parser.parse_statement().ok().filter(|_| at_end(&parser))
}

fn with_balance(mut statement: Statement) -> Statement {
    let _: ControlFlow<()> = VisitMut::visit(&mut statement, &mut Balance);
    statement
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

fn relative(span: Span, origin: Location) -> Span {
    let shift = |place: Location| Location {
        line: place.line.saturating_sub(origin.line) + 1,
        column: if place.line == origin.line {
            place.column.saturating_sub(origin.column) + 1
        } else {
            place.column
        },
    };
    Span { start: shift(span.start), end: shift(span.end) }
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

fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
        .detail(format!(
            "At most {NESTING_MAX} levels of brackets and {CHAIN_MAX} operators in a row are taken."
        ))
        .hint("Use IN, arrays or a temporary table instead of generated nesting.")
}

/// Makes `a AND b AND c …`, parsed as deep as it is long, a balanced tree. The visitor sees a
/// node before its children, so nothing recursive ever walks the deep form.
struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, op, .. } = expr
            && matches!(op, BinaryOperator::And | BinaryOperator::Or)
            && matches!(left.as_ref(), Expr::BinaryOp { op: below, .. } if below == op)
        {
            let op = op.clone();
            let terms = terms_of(std::mem::replace(expr, null()), &op);
            *expr = balanced(terms, &op);
        }
        ControlFlow::Continue(())
    }
}

fn null() -> Expr {
    Expr::Value(ast::Value::Null.with_empty_span())
}

fn terms_of(expr: Expr, op: &BinaryOperator) -> Vec<Expr> {
    let mut terms = Vec::new();
    let mut rest = expr;
    loop {
        match rest {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                terms.push(*right);
                rest = *left;
            }
            last => {
                terms.push(last);
                break;
            }
        }
    }
    terms.reverse();
    terms
}

fn balanced(mut terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
    if terms.len() <= 2 {
        let right = terms.pop().expect("a chain has terms");
        return match terms.pop() {
            None => right,
            Some(left) => {
                Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
            }
        };
    }
    let upper = terms.split_off(terms.len() / 2);
    Expr::BinaryOp {
        left: Box::new(balanced(terms, op)),
        op: op.clone(),
        right: Box::new(balanced(upper, op)),
    }
}

/// Where lines begin, to turn line and column into byte and character offsets.
struct Lines<'a> {
    text: &'a str,
    /// Byte and character offset of each line's first character.
    starts: Vec<(usize, u32)>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let mut starts = vec![(0, 0)];
        let mut chars = 0;
        for (at, c) in text.char_indices() {
            chars += 1;
            if c == '\n' {
                starts.push((at + 1, chars));
            }
        }
        Lines { text, starts }
    }

    /// Byte offset and character offset, both from 0.
    fn place(&self, location: Location) -> (usize, u32) {
        let line = (location.line.max(1) - 1) as usize;
        let Some((start, chars)) = self.starts.get(line).copied() else {
            return (self.text.len(), self.text.chars().count() as u32);
        };
        let column = location.column.max(1) - 1;
        let rest = &self.text[start..];
        let within = rest.char_indices().nth(column as usize).map_or(rest.len(), |(at, _)| at);
        (start + within, chars + column as u32)
    }
}

/// Position (characters from 1) of a place given as line and column, in `text`.
pub fn position_of(text: &str, location: Location) -> Option<u32> {
    (location.line > 0).then(|| Lines::of(text).place(location).1 + 1)
}

fn shift(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.position(position + offset),
        None => error,
    }
}

fn from_tokenizer(error: TokenizerError, text: &str) -> SqlError {
    let position = position_of(text, error.location);
    let message = error.message.trim_end_matches(['.', ' ']);
    let error = SqlError::new(SqlState::SYNTAX_ERROR, decapitalize(message));
    match position {
        Some(position) => error.position(position),
        None => error,
    }
}

fn from_parser(error: ParserError, text: &str) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (message, location) = split_location(&message);
    match message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) {
        Some((expected, "EOF" | ";")) => at(
            SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")
                .detail(format!("Expected {expected}.")),
            None,
            text,
        ),
        Some((expected, found)) => at(
            SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{found}\""))
                .detail(format!("Expected {expected}.")),
            location,
            text,
        ),
        None => at(
            SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("syntax error: {}", decapitalize(message)),
            ),
            location,
            text,
        ),
    }
}

fn near(token: &Token, expected: &str, location: Option<Location>, text: &str) -> SqlError {
    let message = format!("syntax error at or near \"{token}\"");
    let error =
        SqlError::new(SqlState::SYNTAX_ERROR, message).detail(format!("Expected {expected}."));
    at(error, location, text)
}

fn at(error: SqlError, location: Option<Location>, text: &str) -> SqlError {
    match location.and_then(|location| position_of(text, location)) {
        Some(position) => error.position(position),
        None => error.position(text.chars().count() as u32 + 1),
    }
}

/// Splits the parser's ` at Line: 1, Column: 8` off its message.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let Some((head, place)) = message.rsplit_once(" at Line: ") else { return (message, None) };
    let Some((line, column)) = place.split_once(", Column: ") else { return (message, None) };
    match (line.parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (head, Some(Location { line, column })),
        _ => (message, None),
    }
}

fn decapitalize(message: &str) -> String {
    let mut chars = message.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => message.to_owned(),
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
        assert!(matches!(parsed[0].statement, Statement::Copy { .. }));
    }
}
