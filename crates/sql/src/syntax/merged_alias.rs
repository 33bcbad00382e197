//! `JOIN … USING (a) AS j`: a name for the merged columns of a join.
//!
//! The SQL parser knows no such name, but takes names of several parts between the brackets. So the alias is one of
//! these: `USING (a, "…as".j)`, of which no column has the first part.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;

/// The first part of the name that stands for the alias.
const ALIAS: &str = "\u{1}as";

/// The alias among the columns of USING, if there is one: it is the last.
pub fn merged_alias(columns: &[ObjectName]) -> Option<&Ident> {
    let [mark, alias] = &columns.last()?.0[..] else { return None };
    (mark.as_ident()?.value == ALIAS).then(|| alias.as_ident())?
}

/// What stands in the place of the tokens from the bracket that ends the columns of USING to the alias: the
/// first and the last of these among `words`, and a text. `at`: the word USING.
pub(super) fn known(
    tokens: &[TokenWithSpan],
    words: &[usize],
    at: usize,
) -> Option<(usize, usize, String)> {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    if token(at + 1) != Some(&Token::LParen) || !is_of_join(tokens, words, at) {
        return None;
    }
    let is_name = |at: &usize| matches!(token(*at), Some(Token::Word(_) | Token::Comma));
    let close = (at + 2..words.len()).find(|at| !is_name(at))?;
    if token(close) != Some(&Token::RParen) || !is_word(token(close + 1)?, "AS") {
        return None;
    }
    let Token::Word(alias) = token(close + 2)? else { return None };
    Some((close, close + 2, format!(", \"{ALIAS}\".{alias})")))
}

/// Whether the USING at a word belongs to a join, not to DELETE, MERGE or an index.
fn is_of_join(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let mut depth = 0usize;
    for at in (0..at).rev() {
        match &tokens[words[at]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            token if depth == 0 && is_word(token, "JOIN") => return true,
            token
                if depth == 0
                    && ["FROM", "INTO", "ON", "SELECT"].iter().any(|word| is_word(token, word)) =>
            {
                return false;
            }
            _ => {}
        }
    }
    false
}
