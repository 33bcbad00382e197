//! The options of CREATE VIEW, brought to forms that the SQL parser knows.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;

/// Words that go, and texts in the place of words.
type KnownOptions = (Range<usize>, Vec<(usize, String)>);

/// What the SQL parser does not know of the options of CREATE VIEW, in a form that it knows: WITH CHECK OPTION behind the
/// query becomes an option before it, and an option alone is on.
///
/// Gives the words that go, and texts in the place of words.
/// `words`: where the statement's words are among its tokens.
pub(super) fn known_options(tokens: &[TokenWithSpan], words: &[usize]) -> Option<KnownOptions> {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    let view = (1..6).find(|at| is(*at, "VIEW")).filter(|_| is(0, "CREATE"))?;
    let mut depth = 0;
    let query = (view..words.len()).find(|at| {
        match token(*at) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth -= 1,
            _ => {}
        }
        depth == 0 && is(*at, "AS")
    })?;
    let mut edits = Vec::new();
    let options = (view..query).find(|at| is(*at, "WITH"));
    for at in options.map_or(query, |with| with + 2)..query {
        let begins = matches!(token(at - 1), Some(Token::LParen | Token::Comma));
        let ends = matches!(token(at + 1), Some(Token::RParen | Token::Comma));
        if let (true, true, Some(Token::Word(word))) = (begins, ends, token(at)) {
            edits.push((at, format!("{word} = true")));
        }
    }
    let mut gone = 0..0;
    if let Some((said, value)) = check_option(tokens, words).filter(|(said, _)| query < said.start)
    {
        gone = said;
        edits.push(match options {
            Some(_) => (query - 1, format!(", check_option = {value})")),
            None => (query, format!("WITH (check_option = {value}) AS")),
        });
    }
    Some((gone, edits))
}

/// The words of WITH CHECK OPTION at the end of a statement, and the option's value.
fn check_option(tokens: &[TokenWithSpan], words: &[usize]) -> Option<(Range<usize>, String)> {
    let is = |at: Option<usize>, word: &str| {
        at.and_then(|at| words.get(at)).is_some_and(|at| is_word(&tokens[*at].token, word))
    };
    let ends = |at: &usize| matches!(tokens[words[*at]].token, Token::EOF | Token::SemiColon);
    let last = (0..words.len()).rev().find(|at| !ends(at))?;
    if !is(Some(last), "OPTION") || !is(last.checked_sub(1), "CHECK") {
        return None;
    }
    let before = last.checked_sub(2)?;
    let named = ["LOCAL", "CASCADED"].into_iter().find(|word| is(Some(before), word));
    let with = before.checked_sub(usize::from(named.is_some()))?;
    let value = named.unwrap_or("CASCADED").to_lowercase();
    is(Some(with), "WITH").then(|| (with..last + 1, value))
}
