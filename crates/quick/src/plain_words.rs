//! Words that PostgreSQL takes for names where the SQL parser, which reads many dialects, sees an operator or a clause:
//! `SELECT m.member member, …`, `FROM visits start JOIN …`, `SELECT interval FROM candles`.
//!
//! Checked by `words_of_other_dialects_are_names` of crate `sql`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Aliases without AS, where an alias may end.
pub const ALIASES: &[&str] = &[
    "analyze",
    "anti",
    "asof",
    "cluster",
    "connect",
    "distribute",
    "div",
    "exclude",
    "explain",
    "format",
    "global",
    "lateral",
    "match",
    "member",
    "minus",
    "operator",
    "partition",
    "pivot",
    "prewhere",
    "qualify",
    "regexp",
    "rlike",
    "sample",
    "semi",
    "set",
    "settings",
    "sort",
    "start",
    "unpivot",
    "values",
    "view",
    "xor",
];

/// Marks the words of a text's tokens that are names.
pub fn marked(tokens: &mut [TokenWithSpan]) {
    let mut at_begin = true;
    // Within a query, or a statement that writes rows: definitions have words of their own.
    let mut is_of_rows = false;
    let mut before = None;
    for at in 0..tokens.len() {
        let is_name = match &tokens[at].token {
            Token::Whitespace(_) => continue,
            Token::SemiColon => {
                (at_begin, is_of_rows, before) = (true, false, None);
                continue;
            }
            Token::Word(word) if word.quote_style.is_none() => {
                use Keyword::{DELETE, INSERT, MERGE, SELECT, UPDATE, WITH};
                is_of_rows |= word.keyword == SELECT
                    || at_begin && matches!(word.keyword, INSERT | UPDATE | DELETE | MERGE | WITH);
                is_of_rows && word.keyword != Keyword::NoKeyword && {
                    let mut behind = tokens[at + 1..].iter().map(|token| &token.token);
                    let mut behind =
                        behind.by_ref().filter(|token| !matches!(token, Token::Whitespace(_)));
                    is_name(&word.value, before.map(|at: usize| &tokens[at].token), &mut behind)
                }
            }
            _ => false,
        };
        (at_begin, before) = (false, Some(at));
        if let (true, Token::Word(word)) = (is_name, &mut tokens[at].token) {
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Whether a word is a name between such tokens.
fn is_name(word: &str, before: Option<&Token>, behind: &mut dyn Iterator<Item = &Token>) -> bool {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
    if is(&["top"]) {
        return true;
    }
    let next = behind.next();
    if is(&["exists", "trim"]) {
        return next != Some(&Token::LParen);
    }
    if is(&["interval"]) {
        return !ends_operand(before)
            && !matches!(before, Some(Token::DoubleColon))
            && !before.is_some_and(|token| is_keyword(token, &[Keyword::AS]))
            && next.is_none_or(|next| !begins_span(next));
    }
    is(ALIASES) && ends_operand(before) && ends_alias(next, behind)
}

fn is_keyword(token: &Token, list: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if list.contains(&word.keyword))
}

/// Whether an interval's constant may go on with a token.
fn begins_span(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(word.keyword, Keyword::NoKeyword | Keyword::INTERVAL),
        Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Number(..)
        | Token::Placeholder(_)
        | Token::LParen => true,
        _ => false,
    }
}

/// Whether an expression or a table may end with a token.
fn ends_operand(token: Option<&Token>) -> bool {
    use Keyword::*;
    const GOES_ON: &[Keyword] = &[
        ALL, AND, ANY, AS, BETWEEN, BY, CASE, DEFAULT, DELETE, DISTINCT, ELSE, EXCEPT, FROM,
        HAVING, ILIKE, IN, INSERT, INTERSECT, INTO, IS, JOIN, LIKE, LIMIT, NOT, OFFSET, ON, ONLY,
        OR, RETURNING, SELECT, SET, THEN, UNION, UPDATE, USING, VALUES, WHEN, WHERE, WITH,
    ];
    match token {
        Some(Token::Word(word)) => word.quote_style.is_some() || !GOES_ON.contains(&word.keyword),
        Some(
            Token::RParen
            | Token::RBracket
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Mul,
        ) => true,
        _ => false,
    }
}

/// Whether an alias may end before a token.
fn ends_alias(next: Option<&Token>, behind: &mut dyn Iterator<Item = &Token>) -> bool {
    use Keyword::*;
    const ENDS: &[Keyword] = &[
        CROSS, EXCEPT, FETCH, FOR, FROM, GROUP, HAVING, INTERSECT, INTO, JOIN, LIMIT, NATURAL,
        OFFSET, ON, ORDER, RETURNING, UNION, USING, WHERE, WINDOW,
    ];
    match next {
        None | Some(Token::Comma | Token::RParen | Token::SemiColon | Token::EOF) => true,
        // MATCH FULL is something else.
        Some(next) if is_keyword(next, &[INNER, LEFT, RIGHT, FULL]) => {
            behind.next().is_some_and(|token| is_keyword(token, &[JOIN, OUTER]))
        }
        Some(next) => is_keyword(next, ENDS),
    }
}
