//! `ROWS FROM (f(…), g(…))`: the rows of several functions beside each other.
//!
//! The SQL parser has no such clause. Its words become a name, so that the clause is the call of a function in FROM,
//! whose arguments are the calls within.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;

/// The name of the function in FROM that stands for ROWS FROM.
pub const ROWS_FROM: &str = "\u{1}rows from";

/// Whether the word at `words[at]` is the first one of the clause.
pub(super) fn begins(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word| token(at).is_some_and(|token| is_word(token, word));
    let stands_in_from = at > 0
        && (["FROM", "JOIN", "LATERAL"].iter().any(|word| is(at - 1, word))
            || matches!(token(at - 1), Some(Token::Comma | Token::LParen)));
    is(at + 1, "FROM") && token(at + 2) == Some(&Token::LParen) && stands_in_from
}

/// What stands in the place of both words.
pub(super) fn call() -> String {
    format!("\"{ROWS_FROM}\"")
}
