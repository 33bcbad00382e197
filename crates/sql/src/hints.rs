//! Hints: `WITH HINT (…)` at the end of a query or a write, as SAP HANA has them.
//!
//! `WORKLOAD_CLASS("name")` is the only one that means something here; the others are told and passed over, so
//! that statements written for HANA run.
//!
//! Invariant, checked by `hints_are_taken_off_the_end_alone`: a statement says the same with its hints and
//! without them.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, SqlState};
use crate::syntax::is_word;

/// What a statement's hints ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The workload class in which the statement is to run.
    pub workload_class: Option<String>,
    /// The names of hints that nobody here knows.
    pub unknown: Vec<String>,
}

/// Words with which statements begin that may have hints.
const BEGINNINGS: &[&str] = &[
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "EXPLAIN",
    "PREPARE", "DECLARE",
];

/// The tokens of a statement without its hints, and these. Errors: 42601.
pub(crate) fn taken_off(tokens: &[TokenWithSpan]) -> Result<(&[TokenWithSpan], Hints)> {
    let Some(begin) = begin_of_hints(tokens) else { return Ok((tokens, Hints::default())) };
    let inner = tokens[begin..tokens.len() - 1].iter().map(|token| &token.token);
    let inner: Vec<&Token> = inner.filter(|token| !is_blank(token)).skip(3).collect();
    let hints = read(&inner)
        .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in WITH HINT"))?;
    let end = tokens[..begin].iter().rposition(|token| !is_blank(&token.token));
    Ok((&tokens[..end.map_or(0, |last| last + 1)], hints))
}

/// Where the hints begin, with the word WITH.
fn begin_of_hints(tokens: &[TokenWithSpan]) -> Option<usize> {
    let is_bracket = |token: &Token| *token == Token::RParen;
    let first = &tokens.first()?.token;
    let may_have = *first == Token::LParen || BEGINNINGS.iter().any(|word| is_word(first, word));
    if !may_have || !is_bracket(&tokens.last()?.token) {
        return None;
    }
    let mut depth = 0usize;
    let mut before = tokens.iter().enumerate().rev().filter(|(_, token)| !is_blank(&token.token));
    loop {
        match before.next()?.1.token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let (_, hint) = before.next()?;
    let (at, with) = before.next()?;
    (is_word(&hint.token, "HINT") && is_word(&with.token, "WITH") && at > 0).then_some(at)
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// Reads names with or without something in brackets, and commas between them.
fn read(tokens: &[&Token]) -> Option<Hints> {
    let mut hints = Hints::default();
    let mut rest = tokens;
    loop {
        let [Token::Word(name), behind @ ..] = rest else { return None };
        rest = behind;
        let mut within: &[&Token] = &[];
        if let [Token::LParen, ..] = rest {
            let close = rest.iter().position(|token| **token == Token::RParen)?;
            (within, rest) = (&rest[1..close], &rest[close + 1..]);
        }
        match name.value.eq_ignore_ascii_case("workload_class") {
            true => hints.workload_class = Some(class_of(within)?),
            false => hints.unknown.push(name.value.to_uppercase()),
        }
        match rest {
            [] => return Some(hints),
            [Token::Comma, behind @ ..] => rest = behind,
            _ => return None,
        }
    }
}

/// The class that is named: an identifier, or a text in quotes.
fn class_of(tokens: &[&Token]) -> Option<String> {
    match tokens {
        [Token::Word(word)] if word.quote_style.is_some() => Some(word.value.clone()),
        [Token::Word(word)] => Some(word.value.to_lowercase()),
        [Token::SingleQuotedString(text)] => Some(text.clone()),
        _ => None,
    }
}
