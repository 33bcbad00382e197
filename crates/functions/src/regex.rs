//! Regular expressions of PostgreSQL, as the crate `regex` takes them.
//!
//! Deviations: of alternatives the first that fits is taken, in PostgreSQL the one with the longest
//! match; back-references and look-around are refused.

use std::cell::RefCell;
use std::sync::Arc;

use regex::RegexBuilder;
use regex_automata::util::syntax;

use super::error;
use super::search::{Expression, Search, Source};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Options of a regular expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// `g`: all matches.
    pub(super) global: bool,
    ignore_case: bool,
    expanded: bool,
    literal: bool,
    /// A point and a negated class do not match a newline.
    stops_at_lines: bool,
    /// `^` and `$` match at every line.
    anchors_at_lines: bool,
}

impl Options {
    /// Reads the letters. Errors: 22023.
    pub(super) fn parse(text: &str) -> Result<Options> {
        let mut options = Options::default();
        for letter in text.chars() {
            match letter {
                'g' => options.global = true,
                'b' | 'c' | 'e' | 't' if letter == 'b' => {
                    return Err(SqlError::unsupported("a basic regular expression"));
                }
                'c' => options.ignore_case = false,
                'e' | 't' => {}
                'i' => options.ignore_case = true,
                'm' | 'n' => (options.stops_at_lines, options.anchors_at_lines) = (true, true),
                'p' => (options.stops_at_lines, options.anchors_at_lines) = (true, false),
                'q' => options.literal = true,
                's' => (options.stops_at_lines, options.anchors_at_lines) = (false, false),
                'w' => (options.stops_at_lines, options.anchors_at_lines) = (false, true),
                'x' => options.expanded = true,
                other => {
                    let message = format!("invalid regular expression option: \"{other}\"");
                    return Err(error(SqlState::INVALID_PARAMETER_VALUE, message));
                }
            }
        }
        Ok(options)
    }

    /// Refuses `g` for a function that finds one match. Errors: 22023.
    pub(super) fn without_global(
        text: &str,
        function: &str,
        hint: Option<&str>,
    ) -> Result<Options> {
        let options = Options::parse(text)?;
        if !options.global {
            return Ok(options);
        }
        let message = format!("{function}() does not support the \"global\" option");
        let told = error(SqlState::INVALID_PARAMETER_VALUE, message);
        Err(match hint {
            Some(hint) => told.hint(hint),
            None => told,
        })
    }
}

type Known = (String, Options, Arc<Expression>);

thread_local! {
    /// The expressions compiled last, the newest at the end.
    static COMPILED: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// Expressions that a thread remembers.
const REMEMBERED: usize = 16;

/// Compiles an expression, or finds the one that was compiled before. Errors: 2201B, 0A000.
pub(super) fn compile(pattern: &str, options: Options) -> Result<Arc<Expression>> {
    COMPILED.with_borrow_mut(|known| {
        let found = known.iter().find(|(text, with, _)| text == pattern && *with == options);
        if let Some((.., regex)) = found {
            return Ok(Arc::clone(regex));
        }
        let regex = Arc::new(build(pattern, options)?);
        if known.len() == REMEMBERED {
            known.remove(0);
        }
        known.push((pattern.to_owned(), options, Arc::clone(&regex)));
        Ok(regex)
    })
}

fn build(pattern: &str, mut options: Options) -> Result<Expression> {
    let mut pattern = pattern;
    if let Some(rest) = pattern.strip_prefix("***=") {
        (pattern, options.literal) = (rest, true);
    } else if let Some(rest) = pattern.strip_prefix("***:") {
        pattern = rest;
    }
    // Letters at the start that overrule the options.
    if let Some((letters, rest)) = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !letters.is_empty()
        && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        let own = Options::parse(letters)?;
        options.ignore_case = own.ignore_case || options.ignore_case && !letters.contains('c');
        options.stops_at_lines |= own.stops_at_lines;
        options.anchors_at_lines |= own.anchors_at_lines;
        options.expanded |= own.expanded;
        options.literal |= own.literal;
        pattern = rest;
    }
    let text = match options.literal {
        true => regex::escape(pattern),
        false => translated(pattern, options.stops_at_lines)?,
    };
    let build = |text: &str| {
        RegexBuilder::new(text)
            .case_insensitive(options.ignore_case)
            .dot_matches_new_line(!options.stops_at_lines)
            .multi_line(options.anchors_at_lines)
            .ignore_whitespace(options.expanded)
            .build()
    };
    let syntax = syntax::Config::new()
        .case_insensitive(options.ignore_case)
        .dot_matches_new_line(!options.stops_at_lines)
        .multi_line(options.anchors_at_lines)
        .ignore_whitespace(options.expanded);
    Expression::new(Source { text, syntax }, build).map_err(|error| not_compiled(&error))
}

fn not_compiled(why: &regex::Error) -> SqlError {
    let why = why.to_string();
    let known = [
        ("unclosed group", "parentheses () not balanced"),
        ("unopened group", "parentheses () not balanced"),
        ("unclosed character class", "brackets [] not balanced"),
        ("missing expression", "quantifier operand invalid"),
        ("escape sequence", "invalid escape \\ sequence"),
        ("character class range", "invalid character range"),
        ("repetition quantifier", "invalid repetition count(s)"),
        ("repetition", "braces {} not balanced"),
        ("size limit", "regular expression is too complex"),
    ];
    if why.contains("look-around") || why.contains("backreferences") {
        return SqlError::unsupported("a regular expression with look-around or back-references");
    }
    let told = known.iter().find(|(part, _)| why.contains(part));
    let told = told.map_or("invalid regular expression syntax", |(_, told)| told);
    error(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {told}"))
}

/// An advanced regular expression in the notation of the crate `regex`.
fn translated(pattern: &str, stops_at_lines: bool) -> Result<String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\\' => escape(after, &mut out)?,
            '[' => bracket(after, stops_at_lines, &mut out),
            // A brace before anything but a digit stands for itself.
            '{' if !after.starts_with(|c: char| c.is_ascii_digit()) => {
                out.push_str("\\{");
                after
            }
            other => {
                out.push(other);
                after
            }
        };
    }
    Ok(out)
}

/// Translates what follows a backslash outside of brackets, and returns the rest.
fn escape<'a>(text: &'a str, out: &mut String) -> Result<&'a str> {
    let Some(character) = text.chars().next() else {
        out.push('\\');
        return Ok(text);
    };
    match character {
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'Z' => out.push_str("\\z"),
        'B' => out.push_str("\\\\"),
        'e' => out.push_str("\\x1B"),
        'b' => out.push_str("\\x08"),
        '0' => out.push_str("\\x00"),
        '1'..='9' => {
            return Err(SqlError::unsupported("a regular expression with back-references"));
        }
        other if other.is_alphanumeric() => out.extend(['\\', other]),
        other => out.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
    }
    Ok(&text[character.len_utf8()..])
}

/// Translates a bracket expression behind its opening bracket, and returns the rest.
fn bracket<'a>(text: &'a str, stops_at_lines: bool, out: &mut String) -> &'a str {
    for (word, boundary) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
        if let Some(rest) = text.strip_prefix(word) {
            out.push_str(boundary);
            return rest;
        }
    }
    out.push('[');
    let mut rest = text;
    if let Some(negated) = rest.strip_prefix('^') {
        out.push_str(if stops_at_lines { "^\\n" } else { "^" });
        rest = negated;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        match character {
            ']' => {
                out.push(']');
                return after;
            }
            '[' if after.starts_with(':') && after.contains(":]") => {
                let end = after.find(":]").map_or(after.len(), |at| at + 2);
                out.push('[');
                out.push_str(&after[..end]);
                rest = &after[end..];
                continue;
            }
            '[' | '&' | '~' => out.extend(['\\', character]),
            '\\' => {
                out.push('\\');
                let escaped = after.chars().next().unwrap_or('\\');
                out.push(escaped);
                rest = after.get(escaped.len_utf8()..).unwrap_or_default();
                continue;
            }
            other => out.push(other),
        }
        rest = after;
    }
    rest
}

/// The place of a match, and of the parenthesised parts, in bytes.
pub(super) struct Match {
    pub(super) whole: (usize, usize),
    pub(super) parts: Vec<Option<(usize, usize)>>,
}

/// The place behind the next character.
fn behind(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(at + 1, |character| at + character.len_utf8())
}

/// Matches from a byte on, each behind the one before. Empty ones are found everywhere, as PostgreSQL
/// finds them. Errors: 57014, 53200 if the statement is to end.
pub(super) struct Matches<'a> {
    search: Search,
    text: &'a str,
    from: usize,
    /// Searches so far.
    count: u32,
}

impl<'a> Matches<'a> {
    pub(super) fn new(regex: Arc<Expression>, text: &'a str, from: usize) -> Self {
        Matches { search: Search::new(regex), text, from, count: 0 }
    }
}

/// Matches between two looks whether the statement is to end, or was refused memory.
const MATCHES_PER_LOOK: u32 = 4096;

impl Iterator for Matches<'_> {
    type Item = Result<Match>;

    fn next(&mut self) -> Option<Result<Match>> {
        match next_match(&mut self.search, self.text, &mut self.from, &mut self.count) {
            Ok(None) => None,
            Err(error) => Some(Err(error)),
            Ok(Some(whole)) => {
                let place = |part| self.search.place(part, self.text);
                Some(Ok(Match { whole, parts: (1..self.search.parts()).map(place).collect() }))
            }
        }
    }
}

/// The place of the next match, if there is one: at or behind `from`, which becomes the place for the one after.
/// `count`: matches with this one. Errors: as [`Matches`].
pub(super) fn next_match(
    search: &mut Search,
    text: &str,
    from: &mut usize,
    count: &mut u32,
) -> Result<Option<(usize, usize)>> {
    if *from > text.len() {
        return Ok(None);
    }
    *count = count.wrapping_add(1);
    if count.is_multiple_of(MATCHES_PER_LOOK) {
        SqlError::unless_interrupted()?;
    }
    if !search.find(text, *from)? {
        return Ok(None);
    }
    let place = search.place(0, text);
    *from = place.map_or(*from, |(begin, end)| if begin == end { behind(text, end) } else { end });
    Ok(place)
}

/// The byte at which a character, counted from 1, begins. `None` beyond the text's end.
/// Errors: 22023 for numbers below 1.
pub(super) fn start(text: &str, character: i64) -> Result<Option<usize>> {
    at_least(character, 1, "start")?;
    let before = usize::try_from(character - 1).unwrap_or(usize::MAX);
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(places.nth(before))
}

/// Checks a parameter. Errors: 22023.
pub(super) fn at_least(value: i64, least: i64, name: &str) -> Result<()> {
    if value >= least {
        return Ok(());
    }
    let message = format!("invalid value for parameter \"{name}\": {value}");
    Err(error(SqlState::INVALID_PARAMETER_VALUE, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_translated() {
        for (pattern, expected) in [
            (r"\mab\M", r"\b{start}ab\b{end}"),
            (r"[]a&&b]", r"[\]a\&\&b]"),
            (r"[[:alpha:]_]", r"[[:alpha:]_]"),
            (r"[[:<:]]x", r"\b{start}x"),
            ("a{x", r"a\{x"),
            ("a{2}", "a{2}"),
            (r"\.\-", r"\.\-"),
        ] {
            assert_eq!(translated(pattern, false).unwrap(), expected, "{pattern}");
            assert!(compile(pattern, Options::default()).is_ok(), "{pattern}");
        }
        assert!(translated(r"(a)\1", false).is_err());
    }
}
