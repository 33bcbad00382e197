//! Words among the tokens of a statement, and others in their places.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a token is this word, in any case but without quotes.
pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The tokens with others from one place to another, in one pass: a text may have tens of thousands of such places.
///
/// Shape: `pieces` holds (first, last, tokens), sorted by the first; of two that overlap the first is taken.
pub(super) fn replaced(
    tokens: Vec<TokenWithSpan>,
    pieces: impl Iterator<Item = (usize, usize, Vec<Token>)>,
) -> Vec<TokenWithSpan> {
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len());
    let mut next = 0;
    for (first, last, made) in pieces.filter(|(first, last, _)| first <= last) {
        if first < next {
            continue;
        }
        let span = tokens[first].span;
        all.extend_from_slice(&tokens[next..first]);
        all.extend(made.into_iter().map(|token| TokenWithSpan::new(token, span)));
        next = last + 1;
    }
    all.extend_from_slice(&tokens[next..]);
    all
}
