//! DO with a block of one shape: plain statements, and errors that are passed over.
//!
//! `BEGIN statement; … [EXCEPTION WHEN condition [OR condition] THEN NULL; …] END` is what migrations write to
//! make what may be there already. All else of PL/pgSQL is refused (0A000): there is no procedural language.

use std::fmt;

use datafusion::sql::sqlparser::ast::Value;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::errors::Lines;
use super::reader::{Reader, is_word};
use crate::error::{Result, SqlError, SqlState};

/// The statements of a block, and which errors end it without being told.
#[derive(Clone, Debug, PartialEq)]
pub struct DoBlock {
    /// The block as it was written.
    pub text: String,
    /// Texts of the statements.
    pub statements: Vec<String>,
    /// Errors that undo the block and are passed over.
    pub passed_over: Vec<Condition>,
}

/// A condition of EXCEPTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// OTHERS: every error but a cancelled statement.
    Others,
    /// One error.
    State(SqlState),
}

impl DoBlock {
    /// Whether an error is passed over.
    pub fn passes_over(&self, state: SqlState) -> bool {
        self.passed_over.iter().any(|condition| match condition {
            Condition::Others => state != SqlState::QUERY_CANCELED,
            Condition::State(own) => *own == state,
        })
    }
}

/// Statements that a block may have, by their first word. Others are PL/pgSQL's, or give rows to nobody.
const PLAIN: &[&str] = &[
    "ALTER", "COMMENT", "CREATE", "DELETE", "DROP", "GRANT", "INSERT", "LOCK", "MERGE", "NOTIFY",
    "REFRESH", "REVOKE", "SET", "TRUNCATE", "UPDATE",
];

/// Conditions by PL/pgSQL's names.
const CONDITIONS: &[(&str, SqlState)] = &[
    ("check_violation", SqlState::CHECK_VIOLATION),
    ("duplicate_column", SqlState::DUPLICATE_COLUMN),
    ("duplicate_object", SqlState::DUPLICATE_OBJECT),
    ("duplicate_schema", SqlState::DUPLICATE_SCHEMA),
    ("duplicate_table", SqlState::DUPLICATE_TABLE),
    ("foreign_key_violation", SqlState::FOREIGN_KEY_VIOLATION),
    ("insufficient_privilege", SqlState::INSUFFICIENT_PRIVILEGE),
    ("invalid_schema_name", SqlState::INVALID_SCHEMA_NAME),
    ("invalid_table_definition", SqlState::INVALID_TABLE_DEFINITION),
    ("not_null_violation", SqlState::NOT_NULL_VIOLATION),
    ("undefined_column", SqlState::UNDEFINED_COLUMN),
    ("undefined_function", SqlState::UNDEFINED_FUNCTION),
    ("undefined_object", SqlState::UNDEFINED_OBJECT),
    ("undefined_table", SqlState::UNDEFINED_TABLE),
    ("unique_violation", SqlState::UNIQUE_VIOLATION),
];

/// Behind DO.
pub(super) fn do_block(reader: &mut Reader<'_>) -> Result<DoBlock> {
    let mut language = language(reader)?;
    let text = reader.string()?;
    if language.is_none() {
        language = self::language(reader)?;
    }
    if language.is_some_and(|language| language != "plpgsql") {
        return Err(refused());
    }
    block(text)
}

/// LANGUAGE name, if it comes next.
fn language(reader: &mut Reader<'_>) -> Result<Option<String>> {
    if !reader.eats("LANGUAGE") {
        return Ok(None);
    }
    let name = match reader.is_at_text() {
        true => reader.string()?,
        false => crate::identifier::fold(&reader.ident()?),
    };
    Ok(Some(name))
}

/// 0A000.
fn refused() -> SqlError {
    SqlError::unsupported("DO").hint(
        "There is no procedural language: programs run where the client is, and send SQL. A block of \
         plain statements is taken, with EXCEPTION WHEN … THEN NULL behind them.",
    )
}

fn block(text: String) -> Result<DoBlock> {
    let mut tokens = Vec::new();
    let tokenized = Tokenizer::new(&PostgreSqlDialect {}, &text)
        .tokenize_with_location_into_buf(&mut tokens)
        .is_ok();
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    if tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    if !tokenized || tokens.len() < 2 || !is(0, "BEGIN") || !is(tokens.len() - 1, "END") {
        return Err(refused());
    }
    let mut rest = &tokens[1..tokens.len() - 1];
    let lines = Lines::of(&text);
    let mut statements = Vec::new();
    while let Some(first) = rest.first().filter(|first| !is_word(&first.token, "EXCEPTION")) {
        let end = rest.iter().position(|token| token.token == Token::SemiColon);
        let end = end.ok_or_else(refused)?;
        let (own, behind) = (&rest[..end], &rest[end + 1..]);
        rest = behind;
        if own.len() == 1 && is_word(&first.token, "NULL") {
            continue;
        }
        let Some(last) = own.last() else { return Err(refused()) };
        let is_assignment = own.get(1).is_some_and(|t| matches!(t.token, Token::Assignment));
        if !PLAIN.iter().any(|word| is_word(&first.token, word)) || is_assignment {
            return Err(refused());
        }
        let (from, to) = (lines.place(first.span.start).0, lines.place(last.span.end).0);
        statements.push(text[from..to].to_owned());
    }
    let passed_over = match rest {
        [] => Vec::new(),
        [_, handlers @ ..] => conditions(handlers)?,
    };
    Ok(DoBlock { text, statements, passed_over })
}

/// The conditions of `WHEN a OR b THEN NULL; WHEN …`. Errors: 0A000, 42704 for a condition that is not known.
fn conditions(mut rest: &[TokenWithSpan]) -> Result<Vec<Condition>> {
    let is = |rest: &[TokenWithSpan], at: usize, word| {
        rest.get(at).is_some_and(|token: &TokenWithSpan| is_word(&token.token, word))
    };
    let mut found = Vec::new();
    while !rest.is_empty() {
        if !is(rest, 0, "WHEN") {
            return Err(refused());
        }
        loop {
            let (condition, width) = condition(&rest[1..])?;
            found.push(condition);
            rest = &rest[1 + width..];
            if !is(rest, 0, "OR") {
                break;
            }
        }
        let ends = rest.get(2).is_some_and(|token| token.token == Token::SemiColon);
        if !is(rest, 0, "THEN") || !is(rest, 1, "NULL") || !ends {
            return Err(refused());
        }
        rest = &rest[3..];
    }
    match found.is_empty() {
        true => Err(refused()),
        false => Ok(found),
    }
}

/// A condition, and of how many tokens it is.
fn condition(rest: &[TokenWithSpan]) -> Result<(Condition, usize)> {
    let (Some(Token::Word(word)), next) =
        (rest.first().map(|token| &token.token), rest.get(1).map(|token| &token.token))
    else {
        return Err(refused());
    };
    let name = word.value.to_lowercase();
    if let ("sqlstate", Some(Token::SingleQuotedString(state))) = (name.as_str(), next) {
        let known = CONDITIONS.iter().find(|(_, known)| known.as_str() == state);
        return known.map(|(_, state)| (Condition::State(*state), 2)).ok_or_else(refused);
    }
    if name == "others" {
        return Ok((Condition::Others, 1));
    }
    let known = CONDITIONS.iter().find(|(known, _)| *known == name);
    known.map(|(_, state)| (Condition::State(*state), 1)).ok_or_else(|| {
        let message = format!("unrecognized exception condition \"{name}\"");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

impl fmt::Display for DoBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DO {}", Value::SingleQuotedString(self.text.clone()))
    }
}
