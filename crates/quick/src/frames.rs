//! `EXCLUDE CURRENT ROW`, `GROUP` and `TIES` behind the frame of a window, which the SQL parser does not know: the window
//! gets a name that says so, as if it started from another one (`OVER ("…TIES" ORDER BY a ROWS …)`). `EXCLUDE NO OTHERS`
//! excludes nothing.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Stands between the name of the window that a window starts from, which may be empty, and what its frame excludes.
const MARK: char = '\u{1}';

/// The name of the window that a window starts from, and what its frame excludes, taken apart.
pub fn excluded(name: &Ident) -> Option<(Option<Ident>, String)> {
    let (base, kind) = name.value.split_once(MARK)?;
    let base = (!base.is_empty()).then(|| Ident { value: base.to_owned(), ..name.clone() });
    Some((base, kind.to_owned()))
}

/// Takes the words out of a text's tokens and names the windows.
pub fn settle(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        if !is(&tokens[at], "EXCLUDE") {
            continue;
        }
        let behind = |tokens: &[TokenWithSpan], from: usize| {
            (from..tokens.len()).find(|at| !is_blank(&tokens[*at]))
        };
        let ends_frame =
            tokens[..at].iter().rev().find(|token| !is_blank(token)).is_some_and(|last| {
                ["ROW", "PRECEDING", "FOLLOWING"].iter().any(|word| is(last, word))
            });
        let Some(first) = behind(tokens, at + 1).filter(|_| ends_frame) else { continue };
        let kinds = [("NO", "OTHERS"), ("CURRENT", "ROW"), ("GROUP", ""), ("TIES", "")];
        let kind = kinds.iter().find(|(word, _)| is(&tokens[first], word));
        let Some((kind, second)) = kind else { continue };
        let last = match second.is_empty() {
            true => Some(first),
            false => behind(tokens, first + 1).filter(|at| is(&tokens[*at], second)),
        };
        let Some(last) = last else { continue };
        let closes = behind(tokens, last + 1).is_some_and(|at| tokens[at].token == Token::RParen);
        let Some(open) = opening(&tokens[..at]).filter(|_| closes) else { continue };
        tokens.drain(at..=last);
        if *kind != "NO" {
            name(tokens, open, kind);
        }
    }
}

/// Names the window whose bracket opens at `open`.
fn name(tokens: &mut Vec<TokenWithSpan>, open: usize, kind: &str) {
    let first = (open + 1..tokens.len()).find(|at| !is_blank(&tokens[*at]));
    let starts = ["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"];
    let base = first.filter(|at| !starts.iter().any(|word| is(&tokens[*at], word)));
    let named = |base: &str| {
        let value = format!("{base}{MARK}{kind}");
        Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword })
    };
    let Some(at) = base else {
        let token = TokenWithSpan { token: named(""), span: tokens[open].span };
        tokens.insert(open + 1, token);
        return;
    };
    if let Token::Word(word) = &tokens[at].token {
        tokens[at].token = match word.quote_style {
            None => named(&word.value.to_lowercase()),
            Some(_) => named(&word.value),
        };
    }
}

/// The bracket that is open at the end.
fn opening(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut closed = 0;
    (0..tokens.len()).rev().find(|at| match tokens[*at].token {
        Token::RParen => {
            closed += 1;
            false
        }
        Token::LParen if closed > 0 => {
            closed -= 1;
            false
        }
        Token::LParen => true,
        _ => false,
    })
}

fn is(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn windows_are_named_by_what_their_frames_exclude() {
        for (text, wanted) in [
            (
                "(ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)",
                "(\"\u{1}TIES\"ORDER BY a ROWS 1 PRECEDING )",
            ),
            (
                "( W ROWS CURRENT ROW EXCLUDE CURRENT ROW )",
                "( \"w\u{1}CURRENT\" ROWS CURRENT ROW  )",
            ),
            ("(ROWS CURRENT ROW EXCLUDE NO OTHERS)", "(ROWS CURRENT ROW )"),
            ("(a EXCLUDE TIES)", "(a EXCLUDE TIES)"),
            ("row exclude group", "row exclude group"),
        ] {
            let mut tokens = Vec::new();
            let dialect = PostgreSqlDialect {};
            let mut reader = Tokenizer::new(&dialect, text);
            reader.tokenize_with_location_into_buf(&mut tokens).expect("tokens");
            settle(&mut tokens);
            let shown: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
