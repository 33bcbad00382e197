//! LIKE and ILIKE: patterns, parsed once.
//!
//! `%` stands for any characters, `_` for one, the escape makes the next character stand for
//! itself. An escape at the end of a pattern is an error, raised by a match that gets there with some of the text
//! left, as in PostgreSQL: `'ab' LIKE 'a\'` fails, `'b' LIKE 'a\'` is false.
//! ILIKE compares lower-case letters, character by character, as PostgreSQL does where the locale
//! is C.UTF-8.
//!
//! If `%` is the only wildcard, the parts between must occur in order, and the first place of each
//! part leaves the most room for the next: searches for substrings are enough. The caller provides
//! that search ([`Search`]).
//!
//! Cost: O(bytes) per text for such patterns, otherwise O(characters × pattern) at worst: of
//! several `%`, only the last one met ever needs another try. What takes that long can be ended
//! ([`Pattern::matches_while`]).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::error::{Result, ValueError};

/// Characters that are compared between two looks whether the comparison is to end.
pub const TRIES: u32 = 1 << 16;

/// A search for one substring in many texts.
pub trait Search {
    /// Prepares the search for a substring.
    fn new(part: &str) -> Self;
    /// The byte at which the substring first begins.
    fn find(&self, text: &str) -> Option<usize>;
    /// Number of bytes of the substring.
    fn len(&self) -> usize;
    /// Whether the substring is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The search of the standard library.
#[derive(Clone, Debug)]
pub struct Plain(Box<str>);

impl Search for Plain {
    fn new(part: &str) -> Self {
        Plain(part.into())
    }

    fn find(&self, text: &str) -> Option<usize> {
        text.find(&*self.0)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A parsed pattern, to be matched with any number of texts.
#[derive(Clone, Debug)]
pub struct Pattern<S = Plain> {
    kind: PatternKind<S>,
}

#[derive(Clone, Debug)]
enum PatternKind<S> {
    Exactly(Box<str>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Contains(S),
    /// Literal parts between `%`; the first and the last may be empty.
    Parts {
        prefix: Box<str>,
        between: Box<[S]>,
        suffix: Box<str>,
    },
    General {
        tokens: Box<[Token]>,
        ignore_case: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// `%`: any number of characters.
    Any,
    /// `_`: one character.
    One,
    Char(char),
    /// An escape at the end of the pattern.
    Dangling,
}

impl<S: Search> Pattern<S> {
    /// Parses a pattern. With an escape of `None` no character is an escape.
    pub fn new(pattern: &str, escape: Option<char>, ignore_case: bool) -> Self {
        let tokens = tokens(pattern, escape, ignore_case);
        if ignore_case || tokens.iter().any(|token| matches!(token, Token::One | Token::Dangling)) {
            return Pattern { kind: PatternKind::General { tokens: tokens.into(), ignore_case } };
        }
        let mut parts: Vec<String> = tokens.split(|token| *token == Token::Any).map(text).collect();
        let last = parts.pop().unwrap_or_default();
        if parts.is_empty() {
            return Pattern { kind: PatternKind::Exactly(last.into()) };
        }
        let first = parts.remove(0);
        parts.retain(|part| !part.is_empty());
        let kind = match (first.is_empty(), parts.as_slice(), last.is_empty()) {
            (_, [], true) => PatternKind::Prefix(first.into()),
            (true, [], _) => PatternKind::Suffix(last.into()),
            (true, [part], true) => PatternKind::Contains(S::new(part)),
            _ => PatternKind::Parts {
                prefix: first.into(),
                between: parts.iter().map(|part| S::new(part)).collect(),
                suffix: last.into(),
            },
        };
        Pattern { kind }
    }

    /// Whether the whole text matches. Errors: 22025 as for [`Pattern::matches_while`].
    #[inline]
    pub fn matches(&self, text: &str) -> Result<bool> {
        Ok(self.matches_while(text, || true)?.expect("nothing ends it"))
    }

    /// Whether the whole text matches; `None` if `go_on` said no, which is asked once in
    /// [`TRIES`] tries. Errors: 22025 if the pattern ends with the escape and the match gets there.
    #[inline]
    pub fn matches_while(&self, text: &str, go_on: impl FnMut() -> bool) -> Result<Option<bool>> {
        Ok(Some(match &self.kind {
            PatternKind::Exactly(part) => text == &**part,
            PatternKind::Prefix(part) => behind(text, part).is_some(),
            PatternKind::Suffix(part) => before(text, part).is_some(),
            PatternKind::Contains(part) => part.find(text).is_some(),
            PatternKind::Parts { prefix, between, suffix } => {
                in_order(text, prefix, between, suffix)
            }
            PatternKind::General { tokens, ignore_case: false } => {
                return general(text, tokens, |c| c, go_on);
            }
            PatternKind::General { tokens, ignore_case: true } => {
                return general(text, tokens, fold, go_on);
            }
        }))
    }
}

/// The text behind a prefix.
///
/// An empty prefix has no memory, and its address is none. The C library's comparison reads there under
/// an empty mask of AVX-512, which the processor carries out by a trap of its own: half a microsecond for
/// each text. So nothing is compared with an empty prefix.
#[inline]
fn behind<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    if prefix.is_empty() { Some(text) } else { text.strip_prefix(prefix) }
}

/// The text before a suffix; an empty one is not compared, as in [`behind`].
#[inline]
fn before<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    if suffix.is_empty() { Some(text) } else { text.strip_suffix(suffix) }
}

#[inline]
fn in_order<S: Search>(text: &str, prefix: &str, between: &[S], suffix: &str) -> bool {
    let Some(rest) = behind(text, prefix) else { return false };
    let Some(mut rest) = before(rest, suffix) else { return false };
    for part in between {
        let Some(at) = part.find(rest) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether a text matches a pattern, for patterns that are needed once. Errors: 22025 as for
/// [`Pattern::matches_while`].
pub fn matches(text: &str, pattern: &str, escape: Option<char>, ignore_case: bool) -> Result<bool> {
    let found = matches_while(text, pattern, escape, ignore_case, || true)?;
    Ok(found.expect("nothing ends it"))
}

/// As [`matches()`], with its errors; `None` as for [`Pattern::matches_while`].
pub fn matches_while(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    ignore_case: bool,
    go_on: impl FnMut() -> bool,
) -> Result<Option<bool>> {
    let tokens = tokens(pattern, escape, ignore_case);
    match ignore_case {
        true => general(text, &tokens, fold, go_on),
        false => general(text, &tokens, |c| c, go_on),
    }
}

/// The lower-case form of a letter, or its first character if that form has several.
#[inline]
fn fold(c: char) -> char {
    if c.is_ascii() { c.to_ascii_lowercase() } else { c.to_lowercase().next().unwrap_or(c) }
}

fn tokens(pattern: &str, escape: Option<char>, ignore_case: bool) -> Vec<Token> {
    let mut chars = pattern.chars();
    let mut tokens = Vec::with_capacity(pattern.len());
    while let Some(c) = chars.next() {
        let literal = |c| Token::Char(if ignore_case { fold(c) } else { c });
        tokens.push(match c {
            c if Some(c) == escape => chars.next().map_or(Token::Dangling, literal),
            '%' => Token::Any,
            '_' => Token::One,
            c => literal(c),
        });
    }
    tokens
}

fn text(tokens: &[Token]) -> String {
    let chars = tokens.iter().filter_map(|token| match token {
        Token::Char(c) => Some(*c),
        _ => None,
    });
    chars.collect()
}

#[inline]
fn general(
    text: &str,
    tokens: &[Token],
    fold: impl Fn(char) -> char,
    mut go_on: impl FnMut() -> bool,
) -> Result<Option<bool>> {
    let mut left = TRIES;
    let mut rest = text.chars();
    let mut at = 0;
    // Where to continue if the current attempt fails: the token after the last `%`, and the text
    // behind the character that this `%` takes next.
    let mut retry: Option<(usize, core::str::Chars<'_>)> = None;
    loop {
        let matched = match tokens.get(at) {
            Some(Token::Any) => {
                at += 1;
                if at == tokens.len() {
                    return Ok(Some(true));
                }
                retry = Some((at, rest.clone()));
                continue;
            }
            Some(Token::One) => rest.next().is_some(),
            Some(Token::Char(want)) => rest.next().is_some_and(|c| fold(c) == *want),
            Some(Token::Dangling) if !rest.as_str().is_empty() => return Err(ends_with_escape()),
            None if rest.as_str().is_empty() => return Ok(Some(true)),
            Some(Token::Dangling) | None => false,
        };
        left -= 1;
        if left == 0 {
            if !go_on() {
                return Ok(None);
            }
            left = TRIES;
        }
        if matched {
            at += 1;
            continue;
        }
        let Some((token, start)) = &mut retry else { return Ok(Some(false)) };
        if start.next().is_none() {
            return Ok(Some(false));
        }
        at = *token;
        rest = start.clone();
    }
}

/// The error of a match that gets to an escape with nothing behind.
#[cold]
fn ends_with_escape() -> ValueError {
    ValueError::worded(b"22025", "LIKE pattern must not end with escape character".into())
}

/// The escape that a string names; none if the string is empty. Errors: 22025.
pub fn escape_of(text: &str) -> Result<Option<char>> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (escape, None) => Ok(escape),
        _ => Err(ValueError::EscapeLength),
    }
}

/// The pattern rewritten to use backslash as its escape.
pub fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            out.push('\\');
            out.extend(chars.next());
        } else {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}

/// The regular expression for a pattern of SIMILAR TO. An escape at its end stands for nothing, as in PostgreSQL.
pub fn similar_to(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("^(?:");
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                out.extend(chars.next().into_iter().flat_map(|next| ['\\', next]));
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
            }
            ']' if in_class => {
                in_class = false;
                out.push(c);
            }
            c if in_class => out.push(c),
            '%' => out.push_str("(?s:.*)"),
            '_' => out.push_str("(?s:.)"),
            '.' | '^' | '$' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    out
}

/// The regular expression whose first part in parentheses is what SUBSTRING … SIMILAR gives: the text between the two
/// marks of the pattern, which are the escape and a double quote, or all of it. What stands before takes as little as
/// it can.
///
/// Errors: 2200C for more than two marks.
pub fn similar_parts(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut parts = vec![String::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escape = Some(c) == escape;
        if is_escape && chars.next_if_eq(&'"').is_some() {
            parts.push(String::new());
            continue;
        }
        let part = parts.last_mut().expect("there is a first");
        part.push(c);
        if is_escape {
            part.extend(chars.next());
        }
    }
    let translated = |part: &str, lazily: bool| {
        let whole = similar_to(part, escape);
        let inner = whole.trim_start_matches("^(?:");
        let inner = &inner[..inner.len() - ")$".len()];
        let mut out = String::new();
        let (mut in_class, mut in_escape) = (false, false);
        let mut all = inner.chars().peekable();
        while let Some(c) = all.next() {
            out.push(c);
            match c {
                _ if in_escape => in_escape = false,
                '\\' => in_escape = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class && all.peek() != Some(&'?') => out.push_str("?:"),
                '*' | '+' | '}' if !in_class && lazily => out.push('?'),
                _ => {}
            }
        }
        out
    };
    Ok(match parts.as_slice() {
        [all] => format!("^({})$", translated(all, false)),
        [before, wanted] => {
            format!("^(?:{})({})$", translated(before, true), translated(wanted, false))
        }
        [before, wanted, behind] => {
            let [wanted, behind] = [wanted, behind].map(|part| translated(part, false));
            format!("^(?:{})({wanted})(?:{behind})$", translated(before, true))
        }
        _ => {
            let message = "SQL regular expression may not contain more than two escape-double-quote separators";
            return Err(ValueError::worded(b"2200C", message.into()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIKE by recursion over all splits; `None` if one of them gets to an escape at the end.
    fn slow_like(pattern: &[char], text: &[char]) -> Option<bool> {
        Some(match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => {
                let splits = (0..=text.len()).map(|skip| slow_like(rest, &text[skip..]));
                splits.collect::<Option<Vec<bool>>>()?.contains(&true)
            }
            ['_', rest @ ..] => !text.is_empty() && slow_like(rest, &text[1..])?,
            ['\\'] if text.is_empty() => false,
            ['\\'] => return None,
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                text.first() == Some(c) && slow_like(rest, &text[1..])?
            }
        })
    }

    #[test]
    fn like_is_what_trying_every_split_gives() {
        let alphabet = ['a', 'b', 'é', '%', '_', '\\'];
        let words = |length: u32, letters: usize| {
            (0..letters.pow(length)).map(move |mut number| {
                let mut word = Vec::new();
                for _ in 0..length {
                    word.push(alphabet[number % letters]);
                    number /= letters;
                }
                word
            })
        };
        let (mut matched, mut failed) = (0, 0);
        for pattern in (0..5).flat_map(|length| words(length, 6)) {
            let taken_apart: String = pattern.iter().collect();
            let like: Pattern = Pattern::new(&taken_apart, Some('\\'), false);
            for text in (0..4).flat_map(|length| words(length, 4)) {
                let expected = slow_like(&pattern, &text);
                let text: String = text.iter().collect();
                assert_eq!(like.matches(&text).ok(), expected, "{text:?} like {pattern:?}");
                let once = matches(&text, &taken_apart, Some('\\'), false).ok();
                assert_eq!(once, expected, "{text:?} like {pattern:?}, once");
                matched += usize::from(expected == Some(true));
                failed += usize::from(expected.is_none());
            }
        }
        assert!(matched > 1000 && failed > 1000);
    }

    #[test]
    fn like_matches_as_the_standard_says() {
        let cases = [
            ("abc", "a%", true),
            ("", "%", true),
            ("", "_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "%X%X%", true),
            ("mississippi", "m%iss%pi", true),
            ("mississippi", "m%iss%pa", false),
            ("äöü", "_ö_", true),
            ("ab", "a%b%c", false),
            ("abab", "%ab", true),
            ("a\nb", "a_b", true),
        ];
        for (text, pattern, expected) in cases {
            let like: Pattern = Pattern::new(pattern, Some('\\'), false);
            assert_eq!(like.matches(text), Ok(expected), "{text} LIKE {pattern}");
        }
        let with = |escape, text, pattern| {
            let like: Pattern = Pattern::new(pattern, escape, false);
            like.matches(text).expect("ends well")
        };
        assert!(with(Some('!'), "50%", "50!%") && !with(Some('!'), "50x", "50!%"));
        assert!(with(Some('%'), "a%", "a%%") && !with(Some('%'), "ab", "a%%"));
        assert!(with(None, "a\\b", "a\\_") && !with(None, "a_", "a\\_"));
    }

    /// Expected answers are those of PostgreSQL 15 in the locale C.UTF-8.
    #[test]
    fn ilike_compares_lower_case_letters() {
        for (text, pattern, expected) in [
            ("xpromo1ä", "%PROMO_Ä", true),
            ("İ", "i", true),
            ("ſ", "s", false),
            ("\u{212a}", "k", true),
            ("ΑΣ", "ασ", true),
            ("50%", "50\\%", true),
        ] {
            let like: Pattern = Pattern::new(pattern, Some('\\'), true);
            assert_eq!(like.matches(text), Ok(expected), "{text} ILIKE {pattern}");
            assert_eq!(
                matches(text, pattern, Some('\\'), true),
                Ok(expected),
                "{text} ILIKE {pattern}"
            );
        }
        assert_eq!(matches("a", "A", None, false), Ok(false));
    }

    /// Expected answers are those of PostgreSQL 15.
    #[test]
    fn an_escape_at_the_end_is_an_error_where_the_match_gets_there() {
        for (text, pattern, expected) in [
            ("a\\", "a\\", None),
            ("ab", "a\\", None),
            ("ab", "%\\", None),
            ("a", "a\\", Some(false)),
            ("b", "a\\", Some(false)),
            ("", "\\", Some(false)),
            ("", "%\\", Some(false)),
            ("a\\", "a\\\\", Some(true)),
        ] {
            for ignore_case in [false, true] {
                let like: Pattern = Pattern::new(pattern, Some('\\'), ignore_case);
                assert_eq!(like.matches(text).ok(), expected, "{text} LIKE {pattern}");
                let once = matches(text, pattern, Some('\\'), ignore_case);
                assert_eq!(once.clone().ok(), expected, "{text} LIKE {pattern}, once");
                assert!(once.is_ok() || once.is_err_and(|error| error.state() == *b"22025"));
            }
        }
    }

    #[test]
    fn patterns_are_translated() {
        let like = |pattern, escape| escape_of(escape).map(|e| with_backslashes(pattern, e));
        assert_eq!(like("a!%\\", "!").as_deref(), Ok("a\\%\\\\"));
        assert_eq!(like("a%", "").as_deref(), Ok("a%"));
        assert_eq!(like("a", "xy"), Err(ValueError::EscapeLength));
        let similar = similar_to("(a|b)%_.[^.]\\%", Some('\\'));
        assert_eq!(similar, "^(?:(a|b)(?s:.*)(?s:.)\\.[^.]\\%)$");
        assert_eq!(similar_to("a\\", Some('\\')), "^(?:a)$");
    }
}
