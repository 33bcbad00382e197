//! Words that PostgreSQL takes for names where the SQL parser, which reads many dialects, sees an operator or a clause:
//! `SELECT m.member member, …`, `FROM visits start JOIN …`, `SELECT interval FROM candles`.
//!
//! Checked by `words_of_other_dialects_are_names`, over the words of PostgreSQL's list and those of other dialects.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Aliases without AS, where an alias may end.
const ALIASES: &[&str] = &[
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
pub(crate) fn marked(tokens: &mut [TokenWithSpan]) {
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
fn is_name<'t>(
    word: &str,
    before: Option<&Token>,
    behind: &mut dyn Iterator<Item = &'t Token>,
) -> bool {
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
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
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
        ALL, AND, ANY, AS, BETWEEN, BY, CASE, DELETE, DISTINCT, ELSE, EXCEPT, FROM, HAVING, ILIKE,
        IN, INSERT, INTERSECT, INTO, IS, JOIN, LIKE, LIMIT, NOT, OFFSET, ON, ONLY, OR, RETURNING,
        SELECT, SET, THEN, UNION, UPDATE, USING, VALUES, WHEN, WHERE, WITH,
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
fn ends_alias<'t>(next: Option<&Token>, behind: &mut dyn Iterator<Item = &'t Token>) -> bool {
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

#[cfg(test)]
mod tests {
    use crate::parse::parse_tokens;

    #[test]
    fn words_of_other_dialects_are_names() {
        let forms = [
            "SELECT 1 {k}, 2",
            "SELECT 1 {k}",
            "SELECT x.c {k}, x.c FROM (SELECT 1 AS c) x",
            "SELECT abs(1) {k} FROM (SELECT 1) y",
            "SELECT CASE WHEN a THEN b END {k}, x IS NULL {k}, $1 {k}, 'a' {k} FROM t",
            "SELECT 1 AS {k}, 2",
            "SELECT {k}, 1 + {k} FROM t ORDER BY {k}",
            "SELECT {k}.c FROM (SELECT 1 AS c) {k}",
            "SELECT {k}.c FROM t {k} JOIN u ON u.c = {k}.c",
            "SELECT {k}.c FROM t {k} LEFT OUTER JOIN u {k} USING (c) WHERE true",
            "WITH q AS (SELECT c {k} FROM t {k}) SELECT * FROM q {k} FOR UPDATE",
            "INSERT INTO t SELECT c {k} FROM u {k} RETURNING c",
            "UPDATE t SET {k} = 1 FROM u {k} WHERE {k}.a = t.a",
            "CREATE VIEW v AS SELECT c {k} FROM t {k} UNION SELECT 1 {k}",
            "DELETE FROM t USING u {k} WHERE {k}.a = t.a",
        ];
        let taken = ["lateral", "analyze", "format", "values", "operator"];
        let words = super::ALIASES.iter().filter(|word| !taken.contains(word)).copied();
        let nobodys = [
            "name", "value", "type", "status", "key", "year", "zone", "level", "data", "first",
            "rows",
        ];
        for word in words.chain(["top"]).chain(nobodys) {
            for form in forms {
                let text = form.replace("{k}", word);
                // A written text means the same when it is read again, as a view's is.
                let parsed = parse_tokens(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                let shown = format!("{:?}", parsed[0].statement);
                assert!(
                    shown.contains(&format!("value: \"{word}\"")),
                    "{text} lost a name: {shown}"
                );
            }
        }
        for word in ["interval", "trim", "exists", "top"] {
            for text in [
                "SELECT {k}, {k} = 1 FROM t WHERE {k} > 2",
                "UPDATE t SET {k} = {k} + 1",
                "SELECT t.{k} FROM t",
            ] {
                let text = text.replace("{k}", word);
                parse_tokens(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }

    #[test]
    fn clauses_stay_clauses() {
        let texts = [
            "SELECT sum(a) OVER (PARTITION BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
            "INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2",
            "UPDATE t x SET a = 1",
            "SELECT * FROM a, LATERAL (SELECT 1) l",
            "SELECT a OPERATOR(pg_catalog.=) b FROM t",
            "SELECT interval '1 day', interval '1' hour, x::interval, CAST(x AS interval), now() - interval '1 day' FROM t",
            "SELECT * FROM f() AS t(a interval, b int)",
            "SELECT trim(both 'x' from a) FROM t WHERE EXISTS (SELECT 1) AND NOT EXISTS (SELECT 2)",
            "CREATE TABLE t (a int REFERENCES u (a) MATCH FULL ON DELETE SET NULL, b interval, c int)",
            "ALTER TABLE t SET SCHEMA s",
            "EXPLAIN (ANALYZE, FORMAT TEXT) SELECT 1",
            "CREATE TABLE IF NOT EXISTS t AS SELECT 1",
        ];
        for text in texts {
            parse_tokens(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}
