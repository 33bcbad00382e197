//! `U&'…'` and `U&"…"`: texts and names with characters by their numbers, which begin with a backslash or with what
//! UESCAPE names.
//!
//! The SQL parser's tokens have the numbers behind backslashes in texts read already.

use std::mem::take;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::error::{Result, SqlError, SqlState};
use crate::syntax::is_word;

/// Makes plain texts and names of such tokens, which DataFusion's planner does not know.
///
/// Errors: 42601 for a character that UESCAPE may not name, and for numbers that are none.
pub(crate) fn settle(tokens: &mut [TokenWithSpan]) -> Result<()> {
    for at in 0..tokens.len() {
        let is_name = begins_name(&tokens[at..]);
        let place = if is_name { at + 2 } else { at };
        let mut text = match &mut tokens[place].token {
            Token::UnicodeStringLiteral(text) => take(text),
            Token::Word(name) if is_name => take(&mut name.value),
            _ => continue,
        };
        let mut named = is_name.then(|| "\\".to_owned());
        let blank = |token: &Token| matches!(token, Token::Whitespace(_));
        let next = |from: usize| (from..tokens.len()).find(|at| !blank(&tokens[*at].token));
        let word = next(place + 1).filter(|at| is_word(&tokens[*at].token, "UESCAPE"));
        let escape = word.and_then(|word| next(word + 1));
        if let (Some(word), Some(escape)) = (word, escape)
            && let Token::SingleQuotedString(given) = &tokens[escape].token
        {
            named = Some(given.clone());
            for gone in [word, escape] {
                tokens[gone].token = Token::Whitespace(Whitespace::Space);
            }
        }
        if let Some(named) = named {
            text = read(&text, &named)?;
        }
        match &mut tokens[place].token {
            Token::Word(name) => name.value = text,
            token => *token = Token::SingleQuotedString(text),
        }
        for gone in &mut tokens[at..place] {
            gone.token = Token::Whitespace(Whitespace::Space);
        }
    }
    Ok(())
}

/// Whether the tokens begin with `U&"…"`, which has no blank in it.
fn begins_name(tokens: &[TokenWithSpan]) -> bool {
    matches!(tokens, [u, and, name, ..]
        if matches!(&u.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("u"))
            && and.token == Token::Ampersand
            && matches!(&name.token, Token::Word(word) if word.quote_style == Some('"'))
            && u.span.end == and.span.start
            && and.span.end == name.span.start)
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// The text with its numbers read.
fn read(text: &str, named: &str) -> Result<String> {
    let mut letters = named.chars();
    let escape = letters
        .next()
        .filter(|c| !c.is_ascii_hexdigit() && !c.is_whitespace() && !['+', '\'', '"'].contains(c));
    let Some(escape) = escape.filter(|_| letters.next().is_none()) else {
        return Err(wrong("invalid Unicode escape character"));
    };
    let (mut out, mut rest) = (String::new(), text.chars().peekable());
    let mut high: Option<u32> = None;
    while let Some(c) = rest.next() {
        if c != escape || rest.next_if_eq(&escape).is_some() {
            if high.is_some() {
                return Err(wrong("invalid Unicode surrogate pair"));
            }
            out.push(c);
            continue;
        }
        let digits = if rest.next_if_eq(&'+').is_some() { 6 } else { 4 };
        let mut number = 0;
        for _ in 0..digits {
            let digit = rest.next().and_then(|c| c.to_digit(16));
            number = number * 16 + digit.ok_or_else(|| wrong("invalid Unicode escape"))?;
        }
        match (high.take(), number) {
            (None, 0xD800..=0xDBFF) => high = Some(number),
            (Some(high), 0xDC00..=0xDFFF) => {
                let both = 0x10000 + ((high - 0xD800) << 10) + (number - 0xDC00);
                out.extend(char::from_u32(both));
            }
            (None, number) if number > 0 && char::from_u32(number).is_some() => {
                out.extend(char::from_u32(number));
            }
            (None, 0xDC00..=0xDFFF) | (Some(_), _) => {
                return Err(wrong("invalid Unicode surrogate pair"));
            }
            _ => return Err(wrong("invalid Unicode escape value")),
        }
    }
    match high {
        Some(_) => Err(wrong("invalid Unicode surrogate pair")),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn numbers_behind_any_escape_are_characters() {
        let pairs = [("d!0061t!+000061", "!", "data"), ("a*D83D*DE00**", "*", "a\u{1f600}*")];
        for (text, escape, wanted) in pairs {
            assert_eq!(read(text, escape).ok().as_deref(), Some(wanted), "{text}");
        }
        for text in ["!00", "!D83D", "!DE00", "!D83Dx", "!0000"] {
            assert!(read(text, "!").is_err(), "{text}");
        }
        assert!(["+", "f", "ab", ""].iter().all(|escape| read("a", escape).is_err()));
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let mut rng = Rng::new(11);
        for _ in 0..20_000 {
            let letters = ['!', '+', '0', 'D', '8', 'C', 'f', 'é', 'x'];
            let text: String = (0..rng.below(16)).map(|_| *rng.pick(&letters)).collect();
            let _ = read(&text, "!");
        }
    }
}
