//! Syntax errors in PostgreSQL's words, with the character they are about.
//!
//! Positions count characters of the statement's own text, from 1.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, TokenizerError};

use crate::error::{SqlError, SqlState};
pub use crate::stack::DEPTH_MAX;

/// Brackets that may enclose a place of a statement.
pub const NESTING_MAX: usize = 256;

/// 54001: the statement's tree would be deeper than anything recursive may walk.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
        .detail(format!(
            "At most {NESTING_MAX} brackets may enclose a place, and {DEPTH_MAX} operators, calls and \
             subqueries may stand within each other."
        ))
        .hint("Use IN, arrays or a temporary table instead of generated nesting.")
}

/// 42601: `found` stands where `expected` should.
pub(crate) fn near(found: &TokenWithSpan, expected: &str, text: &str) -> SqlError {
    if matches!(found.token, Token::EOF | Token::SemiColon) {
        return at_end(expected, text);
    }
    unexpected(&found.token.to_string(), expected, Some(found.span.start), text)
}

fn unexpected(found: &str, expected: &str, location: Option<Location>, text: &str) -> SqlError {
    let message = format!("syntax error at or near \"{found}\"");
    let error =
        SqlError::new(SqlState::SYNTAX_ERROR, message).detail(format!("Expected {expected}."));
    at(error, location, text)
}

fn at_end(expected: &str, text: &str) -> SqlError {
    let error = SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input");
    at(error.detail(format!("Expected {expected}.")), None, text)
}

/// `error` at a place of `text`; without one, behind its end.
pub(crate) fn at(error: SqlError, location: Option<Location>, text: &str) -> SqlError {
    match location.and_then(|location| position_of(text, location)) {
        Some(position) => error.position(position),
        None => error.position(text.chars().count() as u32 + 1),
    }
}

/// What the tokenizer says about `text`.
pub(crate) fn from_tokenizer(error: TokenizerError, text: &str) -> SqlError {
    let position = position_of(text, error.location);
    let message = error.message.trim_end_matches(['.', ' ']);
    let error = SqlError::new(SqlState::SYNTAX_ERROR, decapitalize(message));
    match position {
        Some(position) => error.position(position),
        None => error,
    }
}

/// What the SQL parser says about `text`.
pub(crate) fn from_parser(error: ParserError, text: &str) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (message, location) = split_location(&message);
    match message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) {
        Some((expected, "EOF" | ";")) => at_end(expected, text),
        Some((expected, found)) => unexpected(found, expected, location, text),
        None => {
            let message = format!("syntax error: {}", decapitalize(message));
            at(SqlError::new(SqlState::SYNTAX_ERROR, message), location, text)
        }
    }
}

/// Splits the parser's ` at Line: 1, Column: 8` off its message.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let Some((head, place)) = message.rsplit_once(" at Line: ") else { return (message, None) };
    let Some((line, column)) = place.split_once(", Column: ") else { return (message, None) };
    match (line.parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (head, Some(Location { line, column })),
        _ => (message, None),
    }
}

fn decapitalize(message: &str) -> String {
    let mut chars = message.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => message.to_owned(),
    }
}

/// Characters between two marks of [`Lines`].
const MARK: usize = 256;

/// Where lines begin, to turn line and column into byte and character offsets.
///
/// Cost: one pass over the text, then [`MARK`] characters a place, so that the places of all statements of a
/// text cost no more than the text.
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// Character offset of each line's first character.
    starts: Vec<usize>,
    /// Byte offset of every [`MARK`]th character.
    marks: Vec<usize>,
    /// Characters of the text.
    chars: usize,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Self {
        let (mut starts, mut marks, mut chars) = (vec![0], Vec::new(), 0);
        for (at, c) in text.char_indices() {
            if chars % MARK == 0 {
                marks.push(at);
            }
            chars += 1;
            if c == '\n' {
                starts.push(chars);
            }
        }
        Lines { text, starts, marks, chars }
    }

    /// Byte offset and character offset, both from 0; a place behind the last line is the text's end.
    pub fn place(&self, location: Location) -> (usize, u32) {
        let line = (location.line.max(1) - 1) as usize;
        let Some(start) = self.starts.get(line).copied() else {
            return (self.text.len(), self.chars as u32);
        };
        let char = start + (location.column.max(1) - 1) as usize;
        (self.byte_of(char), char as u32)
    }

    /// Byte offset of a character; of one behind the text, the text's end.
    fn byte_of(&self, char: usize) -> usize {
        let Some(mark) = self.marks.get(char / MARK).copied() else { return self.text.len() };
        let within = self.text[mark..].char_indices().nth(char % MARK);
        within.map_or(self.text.len(), |(at, _)| mark + at)
    }
}

/// Position (characters from 1) of a place given as line and column, in `text`.
pub fn position_of(text: &str, location: Location) -> Option<u32> {
    (location.line > 0).then(|| Lines::of(text).place(location).1 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place by a walk from the text's beginning.
    fn place_by_walking(text: &str, location: Location) -> (usize, u32) {
        let lines = text.split_inclusive('\n').take(location.line as usize - 1);
        let start: usize = lines.map(str::len).sum();
        let column = location.column as usize - 1;
        let within = text[start..].char_indices().nth(column);
        let chars = text[..start].chars().count() + column;
        (start + within.map_or(text.len() - start, |(at, _)| at), chars as u32)
    }

    #[test]
    fn places_are_those_of_a_walk_from_the_beginning() {
        let lines = ["", "short", "größer", "語", &"x".repeat(3 * MARK), &"ü€".repeat(MARK)];
        let text = lines.map(|line| format!("{line}\n")).concat() + "no end";
        let places = Lines::of(&text);
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count() as u64;
            for column in (1..=columns + 1).step_by(7).chain([1, columns.max(1), columns + 1]) {
                let location = Location { line: at as u64 + 1, column };
                assert_eq!(places.place(location), place_by_walking(&text, location));
            }
        }
        let behind = Location { line: 99, column: 3 };
        assert_eq!(places.place(behind), (text.len(), text.chars().count() as u32));
    }
}
