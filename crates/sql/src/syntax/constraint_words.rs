//! Words of constraints that the SQL parser lacks, in CREATE TABLE and ALTER TABLE.
//!
//! - `FOREIGN KEY (a, b) … ON DELETE SET NULL (b)`: the list becomes the name of an index behind KEY, which
//!   PostgreSQL has not: see [`set_on_delete`].
//! - `CHECK (…) NO INHERIT` loses what is behind the condition: no table inherits here.
//! - A constraint of a new table loses NOT VALID: there are no rows that it could pass over.

use datafusion::sql::sqlparser::ast::{ForeignKeyConstraint, Ident};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, replaced};
use crate::error::{Result, SqlError, SqlState};

/// Begins the name that stands for the columns; each column follows behind [`BEFORE`].
const ON_DELETE: &str = "\u{1}on delete";
const BEFORE: char = '\u{1f}';

/// The columns that ON DELETE SET NULL or SET DEFAULT names; none: all of the key.
///
/// Errors: 42601 for the name of an index behind FOREIGN KEY.
pub fn set_on_delete(key: &ForeignKeyConstraint) -> Result<Vec<Ident>> {
    let Some(name) = &key.index_name else { return Ok(Vec::new()) };
    let Some(columns) = name.value.strip_prefix(ON_DELETE) else {
        let message = format!("syntax error at or near \"{}\"", name.value);
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    };
    Ok(columns.split(BEFORE).skip(1).map(|name| Ident::with_quote('"', name)).collect())
}

/// The tokens of a statement, with such words in forms that the SQL parser knows.
pub(super) fn settled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    let follows = |at: usize, list: &[&str]| {
        list.iter().enumerate().all(|(offset, word)| is(at + offset, word))
    };
    let creates = is(0, "CREATE") && (1..4).any(|at| is(at, "TABLE"));
    if !creates && !follows(0, &["ALTER", "TABLE"]) {
        return tokens;
    }
    let (mut edits, mut depth) = (Vec::new(), 0_usize);
    // KEY of the foreign key that is being read, with the number of open brackets there.
    let mut key = None;
    for at in 0..words.len() {
        match token(at) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => {
                depth = depth.saturating_sub(1);
                if follows(at + 1, &["NO", "INHERIT"]) {
                    edits.push((words[at + 1], words[at + 2], Vec::new()));
                }
            }
            Some(Token::Comma) if key.is_some_and(|(_, inside)| inside == depth) => key = None,
            Some(Token::Word(_))
                if creates
                    && depth == 1
                    && follows(at, &["NOT", "VALID"])
                    && matches!(token(at + 2), Some(Token::Comma | Token::RParen)) =>
            {
                edits.push((words[at], words[at + 1], Vec::new()));
            }
            Some(Token::Word(_)) if follows(at, &["FOREIGN", "KEY"]) => {
                key = (token(at + 2) == Some(&Token::LParen)).then_some((at + 1, depth));
            }
            _ => {}
        }
        let sets =
            follows(at, &["ON", "DELETE", "SET"]) && (is(at + 3, "NULL") || is(at + 3, "DEFAULT"));
        if let (true, Some((key, _))) = (sets, key)
            && let Some((name, end)) = listed(&token, at + 4)
        {
            let word = |name: &str, quote| Token::make_word(name, quote);
            edits.push((words[key], words[key], vec![word("KEY", None), word(&name, Some('"'))]));
            edits.push((words[at + 4], words[end], Vec::new()));
        }
    }
    edits.sort_unstable_by_key(|(first, ..)| *first);
    replaced(tokens, edits.into_iter())
}

/// The name that stands for the columns in brackets from `open` on, and the place of the closing bracket.
fn listed<'t>(token: &impl Fn(usize) -> Option<&'t Token>, open: usize) -> Option<(String, usize)> {
    if token(open) != Some(&Token::LParen) {
        return None;
    }
    let mut name = ON_DELETE.to_owned();
    for at in (open + 1..).step_by(2) {
        let Some(Token::Word(word)) = token(at) else { return None };
        name.push(BEFORE);
        match word.quote_style {
            Some(_) => name.push_str(&word.value),
            None => name.push_str(&word.value.to_lowercase()),
        }
        match token(at + 1) {
            Some(Token::Comma) => {}
            Some(Token::RParen) => return Some((name, at + 1)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::syntax::Statement;
    use datafusion::sql::sqlparser::ast::{Statement as Sql, TableConstraint};

    #[test]
    fn the_list_behind_set_null_belongs_to_its_foreign_key() {
        let text = "CREATE TABLE t (a INT CHECK (a > 0) NO INHERIT, b INT REFERENCES u ON DELETE SET NULL, \
                    FOREIGN KEY (a, b) REFERENCES u (x, y) ON DELETE SET NULL (A, \"B\") ON UPDATE CASCADE, \
                    CHECK (b > 0) NO INHERIT, FOREIGN KEY (b) REFERENCES u ON DELETE SET DEFAULT)";
        let found = parse(text).expect(text).remove(0).statement;
        let Statement::Sql(sql) = found else { panic!("{text}") };
        let Sql::CreateTable(create) = *sql else { panic!("{text}") };
        let lists: Vec<Vec<String>> = create
            .constraints
            .iter()
            .filter_map(|constraint| match constraint {
                TableConstraint::ForeignKey(key) => {
                    let names = set_on_delete(key).expect("it has no index");
                    Some(names.into_iter().map(|name| name.value).collect())
                }
                _ => None,
            })
            .collect();
        assert_eq!(lists, [vec!["a".to_owned(), "B".to_owned()], vec![]]);
    }

    #[test]
    fn lists_elsewhere_are_mistakes() {
        for wrong in [
            "FOREIGN KEY (a) REFERENCES u ON DELETE SET NULL ()",
            "FOREIGN KEY (a) REFERENCES u ON DELETE SET NULL (a",
            "FOREIGN KEY (a) REFERENCES u ON DELETE CASCADE (a)",
            "FOREIGN KEY (a) REFERENCES u, b INT REFERENCES u ON DELETE SET NULL (b)",
            "CHECK NO INHERIT",
        ] {
            assert!(parse(&format!("CREATE TABLE t (a INT, {wrong})")).is_err(), "{wrong}");
        }
    }
}
