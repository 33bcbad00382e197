//! Text to statements: tokens, one statement after the other, and a bound on nesting. What a
//! statement says is [`crate::syntax`]'s.
//!
//! Invariants, checked by `depth_is_bounded_whatever_makes_it` and `statements_keep_their_own_text_and_offset`:
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
use crate::hints::{self, Hints};
pub use crate::stack::with_stack;
use crate::stack::with_stack_for_tokens;
use crate::syntax::{self, Lines, Statement, at, from_tokenizer, too_deep};
pub use crate::syntax::{DEPTH_MAX, NESTING_MAX};
use crate::unicode;
pub use halcyon_quick::frames;
use halcyon_quick::plain_words;

/// A statement and where it came from.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// What it says; spans refer to `text`.
    pub statement: Statement,
    /// The statement's own text, with its hints.
    pub text: &'a str,
    /// What its hints ask for.
    pub hints: Hints,
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
    let parsed = Parsed { statement, text: &text[place], hints: Hints::default(), offset };
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
    let mut tokens = with_signs_apart(tokens);
    plain_words::marked(&mut tokens);
    unicode::settle(&mut tokens)?;
    frames::settle(&mut tokens);
    let lines = Lines::of(text);
    let mut statements = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((own, after)) = next_statement(rest) {
        rest = after;
        let Some(own) = trim(own) else { continue };
        let (first, last) = (&own[0], &own[own.len() - 1]);
        let (start, offset) = lines.place(first.span.start);
        let (end, _) = lines.place(last.span.end);
        let text = &text[start..end];
        let parsed = hints::taken_off(own).and_then(|(own, hints)| {
            Ok(Parsed { statement: parse_one(own, text)?, text, hints, offset })
        });
        statements.push(parsed.map_err(|error| shift(error, offset))?);
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
    check_parameters(tokens, text)?;
    check_numbers(tokens, text)?;
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

/// Errors: 42P02 for a parameter that is none of the 65,535 that a client may give; what is kept of a statement has a
/// place for every parameter up to the highest. 42601 for `$` before anything but digits.
fn check_parameters(tokens: &[TokenWithSpan], text: &str) -> Result<()> {
    let mut given = tokens.iter().filter_map(|token| match &token.token {
        Token::Placeholder(name) => Some((name, name.strip_prefix('$')?, token.span.start)),
        _ => None,
    });
    given.try_for_each(|(name, digits, place)| {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = format!("syntax error at or near \"{name}\"");
            return Err(at(SqlError::new(SqlState::SYNTAX_ERROR, message), Some(place), text));
        }
        match digits.parse::<u16>() {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => {
                let message = format!("there is no parameter {name}");
                Err(at(SqlError::new(SqlState::UNDEFINED_PARAMETER, message), Some(place), text))
            }
        }
    })
}

/// Errors: 42601 for a number that goes on as a word (`1a`), but in statements of ours, which have units (`30s`).
fn check_numbers(tokens: &[TokenWithSpan], text: &str) -> Result<()> {
    let first = tokens.first().map(|first| first.token.to_string().to_ascii_uppercase());
    let asks = matches!(first.as_deref(), Some("SELECT" | "WITH" | "VALUES" | "INSERT" | "UPDATE"));
    let joined = tokens.windows(2).filter(|_| asks).find(|pair| {
        matches!((&pair[0].token, &pair[1].token), (Token::Number(..), Token::Word(_)))
            && pair[0].span.end == pair[1].span.start
    });
    let Some([number, word]) = joined else { return Ok(()) };
    let message = format!("trailing junk after numeric literal at or near \"{number}{word}\"");
    Err(at(SqlError::new(SqlState::SYNTAX_ERROR, message), Some(number.span.start), text))
}

fn shift(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.position(position + offset),
        None => error,
    }
}
