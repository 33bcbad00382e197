//! Words among the tokens of a statement.

use datafusion::sql::sqlparser::tokenizer::Token;

/// Whether a token is this word, in any case but without quotes.
pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
