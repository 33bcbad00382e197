//! Patterns of `to_char`, `to_date`, `to_timestamp` and `to_number`, as PostgreSQL reads them.
//!
//! Words: a *pattern* is a text of *keywords* (`YYYY`, `9`) and of other characters, which stand for
//! themselves. A [`Node`] is a keyword with its modifiers or one other character.
//! Moments have their keywords in `moment`, numbers in `number`; `reading` turns text into moments.
//! Cost: a pattern is read once per call. Source: PostgreSQL's `formatting.c`, whose answers to odd
//! patterns are kept (`tests/sql/functions/patterns.slt`).

pub mod moment;
pub mod number;
pub mod reading;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::error::{ValueError, Worded};

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Node<K> {
    /// A keyword with its modifiers.
    Keyword(K, Modifiers),
    /// A character that stands for itself; `quoted` if double quotes or a backslash say so.
    Character { character: char, quoted: bool },
}

/// What stands before and after a keyword.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Modifiers {
    /// `FM`: no blanks and zeros that only fill.
    fill: bool,
    /// `TM`: the name in the locale's language, which is English here.
    translated: bool,
    /// `TH` or `th`: an ordinal's ending, in upper case if true.
    ordinal: Option<bool>,
}

/// Reads a pattern. `keyword` finds the keyword at the start of a text, with its length; with
/// `modified`, keywords have modifiers.
fn nodes<K>(
    pattern: &str,
    modified: bool,
    keyword: impl Fn(&str) -> Option<(K, usize)>,
) -> Vec<Node<K>> {
    let mut nodes = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let mut modifiers = Modifiers::default();
        if modified {
            rest = prefix(rest, &mut modifiers);
        }
        if let Some((keyword, length)) = keyword(rest) {
            rest = &rest[length..];
            if modified {
                rest = suffix(rest, &mut modifiers);
            }
            nodes.push(Node::Keyword(keyword, modifiers));
        } else if let Some(text) = rest.strip_prefix('"') {
            rest = quoted(text, &mut nodes);
        } else {
            let text = rest.strip_prefix('\\').filter(|text| text.starts_with('"'));
            let quoted = text.is_some();
            let text = text.unwrap_or(rest);
            let mut characters = text.chars();
            if let Some(character) = characters.next() {
                nodes.push(Node::Character { character, quoted });
            }
            rest = characters.as_str();
        }
    }
    nodes
}

/// Takes `FM` or `TM` from the start.
fn prefix<'a>(text: &'a str, modifiers: &mut Modifiers) -> &'a str {
    for (word, fill) in [("FM", true), ("fm", true), ("TM", false), ("tm", false)] {
        if let Some(rest) = text.strip_prefix(word) {
            *(if fill { &mut modifiers.fill } else { &mut modifiers.translated }) = true;
            return rest;
        }
    }
    text
}

/// Takes `TH`, `th` or `SP` from the start; the last one means nothing.
fn suffix<'a>(text: &'a str, modifiers: &mut Modifiers) -> &'a str {
    for (word, ordinal) in [("TH", Some(true)), ("th", Some(false)), ("SP", None)] {
        if let Some(rest) = text.strip_prefix(word) {
            modifiers.ordinal = ordinal;
            return rest;
        }
    }
    text
}

/// Takes the characters up to the closing quote.
fn quoted<'a, K>(text: &'a str, nodes: &mut Vec<Node<K>>) -> &'a str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            '"' => break,
            '\\' => match characters.next() {
                Some(next) => next,
                None => break,
            },
            other => other,
        };
        nodes.push(Node::Character { character, quoted: true });
    }
    characters.as_str()
}

/// The longest keyword at the start of a text, of a table in which a keyword stands before its own
/// beginnings.
fn longest<K: Copy>(table: &[(&'static str, K)], text: &str) -> Option<(K, usize)> {
    table.iter().find(|(word, _)| text.starts_with(word)).map(|(word, key)| (*key, word.len()))
}

/// The ending of an ordinal number: `st`, `nd`, `rd` or `th`.
fn ordinal(digits: &str, upper: bool) -> &'static str {
    let bytes = digits.as_bytes();
    let teens = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match (bytes.last().filter(|_| !teens), upper) {
        (Some(b'1'), true) => "ST",
        (Some(b'2'), true) => "ND",
        (Some(b'3'), true) => "RD",
        (_, true) => "TH",
        (Some(b'1'), false) => "st",
        (Some(b'2'), false) => "nd",
        (Some(b'3'), false) => "rd",
        (_, false) => "th",
    }
}

/// An error with a message of its own.
fn worded(state: [u8; 5], message: impl ToString) -> Box<Worded> {
    Box::new(Worded { state, message: message.to_string(), detail: None, hint: None })
}

/// 22007 with a message and a hint.
fn invalid(message: impl ToString, detail: Option<String>, hint: Option<&str>) -> ValueError {
    let mut error = worded(*b"22007", message);
    error.detail = detail;
    error.hint = hint.map(ToOwned::to_owned);
    ValueError::Worded(error)
}
