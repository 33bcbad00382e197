//! Bounds of a query's rows and its locking clauses, brought to the order and the spellings that the SQL
//! parser knows.
//!
//! - `FETCH FIRST (n) ROWS ONLY` is `LIMIT (n)`, and with ties `LIMIT "…" (n)`: see [`TIES`]. A plain number that has
//!   WITH TIES behind it keeps its words, unless OFFSET follows.
//! - `FOR UPDATE OF a, b` is `FOR UPDATE OF a FOR UPDATE OF b`.
//! - `FOR UPDATE LIMIT 1` is `LIMIT 1 FOR UPDATE`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The function whose call in LIMIT says that rows equal to the last one count too.
pub const TIES: &str = "\u{1}ties";

/// The tokens of a statement with bounds before locking clauses.
pub(super) fn settled(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |token: &TokenWithSpan| matches!(keyword(token), Keyword::FETCH | Keyword::FOR);
    if tokens.iter().any(begins) {
        fetches_as_limits(&mut tokens);
        name_one_table_each(&mut tokens);
        locks_behind_bounds(&mut tokens);
    }
    tokens
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// The place of the next token that is no blank.
fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let counts = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    (at + 1..tokens.len()).find(counts)
}

/// The place behind `at` of one of these words.
fn follows(tokens: &[TokenWithSpan], at: usize, words: &[Keyword]) -> Option<usize> {
    next(tokens, at).filter(|at| words.contains(&keyword(&tokens[*at])))
}

/// The first place from `from` on, outside brackets that open behind it, that `ends` names; the end of the
/// brackets around it and of the statement too.
fn end_of_level(
    tokens: &[TokenWithSpan],
    from: usize,
    ends: impl Fn(&[TokenWithSpan], usize) -> bool,
) -> usize {
    let mut depth = 0usize;
    for at in from..tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return at,
            Token::RParen => depth -= 1,
            Token::SemiColon | Token::EOF => return at,
            _ if depth == 0 && ends(tokens, at) => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// `FETCH FIRST n ROWS ONLY` as `LIMIT n`. A statement that begins with FETCH is about a cursor.
fn fetches_as_limits(tokens: &mut [TokenWithSpan]) {
    use Keyword::{FETCH, FIRST, NEXT, ONLY, ROW, ROWS, WITH};
    let blank = || Token::Whitespace(Whitespace::Space);
    for at in 1..tokens.len() {
        if keyword(&tokens[at]) != FETCH {
            continue;
        }
        let Some(first) = follows(tokens, at, &[FIRST, NEXT]) else { continue };
        let is_rows =
            |tokens: &[TokenWithSpan], at: usize| matches!(keyword(&tokens[at]), ROW | ROWS);
        let rows = end_of_level(tokens, first + 1, is_rows);
        if rows == tokens.len() || !is_rows(tokens, rows) {
            continue;
        }
        if let Some(only) = follows(tokens, rows, &[ONLY]) {
            tokens[at].token = Token::make_keyword("LIMIT");
            tokens[first].token = match next(tokens, first) == Some(rows) {
                true => Token::Number("1".to_owned(), false),
                false => blank(),
            };
            tokens[rows].token = blank();
            tokens[only].token = blank();
        } else if let Some(with) = follows(tokens, rows, &[WITH])
            && let Some(ties) = next(tokens, with)
            && let Some(count) = next(tokens, first)
        {
            let has_brackets = tokens[count].token == Token::LParen;
            if !has_brackets && follows(tokens, ties, &[Keyword::OFFSET]).is_none() {
                continue;
            }
            tokens[at].token = Token::make_keyword("LIMIT");
            tokens[first].token = Token::make_word(TIES, Some('"'));
            for at in [rows, with, ties] {
                tokens[at].token = blank();
            }
            // The blank before a number has room for a bracket.
            if !has_brackets && count != rows {
                tokens[count - 1].token = Token::LParen;
                tokens[rows].token = Token::RParen;
            }
        }
    }
}

/// The parts of a locking clause.
struct Lock {
    /// The word OF, if tables are named.
    of: Option<usize>,
    /// Commas between the names of tables.
    commas: Vec<usize>,
    /// Where NOWAIT or SKIP LOCKED begins.
    patience: Option<usize>,
    last: usize,
}

/// The locking clause that begins at `at`.
fn lock_at(tokens: &[TokenWithSpan], at: usize) -> Option<Lock> {
    use Keyword::{FOR, KEY, LOCKED, NO, NOWAIT, OF, SHARE, SKIP, UPDATE};
    if keyword(&tokens[at]) != FOR {
        return None;
    }
    let mut place = at;
    if let Some(no) = follows(tokens, place, &[NO]) {
        place = no;
    }
    if let Some(key) = follows(tokens, place, &[KEY]) {
        place = key;
    }
    let mut last = follows(tokens, place, &[UPDATE, SHARE])?;
    let of = follows(tokens, last, &[OF]);
    let mut commas = Vec::new();
    if let Some(of) = of {
        last = of;
        while let Some(name) = next(tokens, last)
            && matches!(tokens[name].token, Token::Word(_))
        {
            last = name;
            match next(tokens, last) {
                Some(comma) if tokens[comma].token == Token::Comma => {
                    commas.push(comma);
                    last = comma;
                }
                Some(period) if tokens[period].token == Token::Period => last = period,
                _ => break,
            }
        }
    }
    let skip = follows(tokens, last, &[SKIP]);
    let locked = skip.and_then(|skip| follows(tokens, skip, &[LOCKED]));
    let patience = locked.and(skip).or_else(|| follows(tokens, last, &[NOWAIT]));
    last = locked.or(patience).unwrap_or(last);
    Some(Lock { of, commas, patience, last })
}

/// A locking clause for each table that one of them names.
fn name_one_table_each(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        let Some(Lock { of: Some(of), commas, patience, last }) = lock_at(tokens, at) else {
            continue;
        };
        let words = tokens[at..=of].to_vec();
        let patience = patience.map_or(Vec::new(), |first| tokens[first..=last].to_vec());
        for comma in commas.into_iter().rev() {
            let again = patience.iter().chain(&words).cloned();
            tokens.splice(comma..=comma, again.collect::<Vec<_>>());
        }
    }
}

/// Locking clauses behind LIMIT, OFFSET and FETCH.
fn locks_behind_bounds(tokens: &mut [TokenWithSpan]) {
    let mut at = 0;
    while at < tokens.len() {
        let mut last = None;
        while let Some(lock) = match last {
            None => lock_at(tokens, at),
            Some(last) => next(tokens, last).and_then(|next| lock_at(tokens, next)),
        } {
            last = Some(lock.last);
        }
        if let Some(last) = last {
            let bounds = [Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH];
            if let Some(bound) = follows(tokens, last, &bounds) {
                let end = end_of_level(tokens, bound, |tokens, at| lock_at(tokens, at).is_some());
                tokens[at..end].rotate_left(bound - at);
                continue;
            }
        }
        at = last.unwrap_or(at) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut tokens = Vec::new();
        Tokenizer::new(&PostgreSqlDialect {}, text)
            .tokenize_with_location_into_buf(&mut tokens)
            .expect(text);
        let settled = settled(tokens);
        let text: String = settled.iter().map(|token| token.token.to_string()).collect();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn bounds_and_locks_are_spelled_as_the_parser_knows_them() {
        check("s fetch first (1+1) rows only", "s LIMIT (1+1)");
        check("s offset 2 rows fetch next row only", "s offset 2 rows LIMIT 1");
        check("s fetch first (2) rows with ties", "s LIMIT \"\u{1}ties\" (2)");
        check("fetch first from c", "fetch first from c");
        check("s for update limit 1", "s limit 1for update");
        check(
            "(s for update of a limit (1) offset 2) x",
            "(s limit (1) offset 2for update of a ) x",
        );
        check(
            "s for no key update of a, b skip locked",
            "s for no key update of askip lockedfor no key update of b skip locked",
        );
        check("s for update for share of b limit 1", "s limit 1for update for share of b");
    }
}
