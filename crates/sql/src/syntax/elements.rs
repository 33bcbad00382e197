//! `SET a[2] = x`: an element of an array as what is assigned.
//!
//! The SQL parser takes columns alone, so the element becomes a call on the other side: `SET a = "…element"(2, x)`.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;

/// The function of a subscript and a value that stands for the assignment to an element.
const ELEMENT: &str = "\u{1}element";

/// The subscript and the value, if what is assigned to a column is one of its elements.
pub fn assigned_element(value: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(function) = value else { return None };
    let [name] = &function.name.0[..] else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(subscript)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
        ] if name.as_ident()?.value == ELEMENT => Some((subscript, value)),
        _ => None,
    }
}

/// Other texts of words, each by its number among the words.
#[derive(Default)]
pub(super) struct Edits {
    /// What stands in the places of brackets and of what ends the values.
    pub made: Vec<(usize, String)>,
    /// The words that go.
    pub gone: Vec<usize>,
}

/// The other texts of a list of assignments behind the word SET at `words[set]`, if some are to elements.
pub(super) fn known(tokens: &[TokenWithSpan], words: &[usize], set: usize) -> Option<Edits> {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let mut edits = Edits::default();
    let mut at = set + 1;
    loop {
        let mut is_element = false;
        if matches!(token(at), Some(Token::Word(_))) && token(at + 1) == Some(&Token::LBracket) {
            let close = closing(&token, at + 1)?;
            if token(close + 1) != Some(&Token::Eq) {
                return None;
            }
            edits.made.push((at + 1, format!(" = \"{ELEMENT}\"(")));
            edits.made.push((close, ",".to_owned()));
            edits.gone.push(close + 1);
            is_element = true;
            at = close + 1;
        }
        let end = end_of_value(&token, at)?;
        let ends = token(end)?;
        if is_element {
            edits.made.push((end, format!(") {ends}")));
        }
        if *ends != Token::Comma {
            break;
        }
        at = end + 1;
    }
    (!edits.made.is_empty()).then_some(edits)
}

/// The bracket that closes the one at a place.
fn closing<'t>(token: &impl Fn(usize) -> Option<&'t Token>, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in open.. {
        match token(at)? {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            // A slice is no element.
            Token::Colon if depth == 1 => return None,
            _ => {}
        }
    }
    None
}

/// What follows the value that begins, or has begun, at a place.
fn end_of_value<'t>(token: &impl Fn(usize) -> Option<&'t Token>, begin: usize) -> Option<usize> {
    let (mut depth, mut cases) = (0usize, 0usize);
    for at in begin.. {
        let next = token(at)?;
        match next {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth == 0 => return Some(at),
            Token::RParen | Token::RBracket => depth -= 1,
            Token::SemiColon | Token::EOF => return Some(at),
            _ if depth > 0 => {}
            Token::Comma => return Some(at),
            _ if is_word(next, "CASE") => cases += 1,
            _ if is_word(next, "END") => cases = cases.saturating_sub(1),
            _ if is_word(next, "WHEN") && cases == 0 => return Some(at),
            _ if is_word(next, "FROM")
                && !token(at - 1).is_some_and(|token| is_word(token, "DISTINCT")) =>
            {
                return Some(at);
            }
            _ if is_word(next, "WHERE") || is_word(next, "RETURNING") => return Some(at),
            _ => {}
        }
    }
    None
}
