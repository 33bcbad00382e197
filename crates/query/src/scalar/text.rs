//! Text: patterns, parts, and the order of values.
//!
//! The order of text is that of its bytes (collation C), which is that of its code points.

use std::cmp::Ordering;

use bumpalo::collections::String as ArenaString;
use halcyon_store::ValueRef;

use super::Arena;

/// A pattern of LIKE, taken apart once if it is a constant.
pub(super) enum Pattern {
    Exactly(Box<str>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Contains(Box<str>),
    General { pattern: Box<str>, escape: char },
}

impl Pattern {
    pub(super) fn new(pattern: &str, escape: char) -> Pattern {
        let plain = |part: &str| !part.contains(['%', '_', escape]);
        let (open, body) = match pattern.strip_prefix('%') {
            Some(body) => (true, body),
            None => (false, pattern),
        };
        match (open, body.strip_suffix('%')) {
            _ if escape == '%' || escape == '_' => {}
            (true, Some(body)) if plain(body) => return Pattern::Contains(body.into()),
            (false, Some(body)) if plain(body) => return Pattern::Prefix(body.into()),
            (true, None) if plain(body) => return Pattern::Suffix(body.into()),
            (false, None) if plain(body) => return Pattern::Exactly(body.into()),
            _ => {}
        }
        Pattern::General { pattern: pattern.into(), escape }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Exactly(part) => text == &**part,
            Pattern::Prefix(part) => text.starts_with(&**part),
            Pattern::Suffix(part) => text.ends_with(&**part),
            Pattern::Contains(part) => text.contains(&**part),
            Pattern::General { pattern, escape } => like(text, pattern, *escape, false),
        }
    }
}

/// Whether text matches a pattern of LIKE; `folded` ignores case.
///
/// Only the last `%` seen need ever be tried again, so this is O(text × pattern) at worst.
pub(super) fn like(text: &str, pattern: &str, escape: char, folded: bool) -> bool {
    let same = |a: char, b: char| a == b || folded && a.to_lowercase().eq(b.to_lowercase());
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    let mut retry = None;
    loop {
        let (text_here, pattern_here) = (text.clone(), pattern.clone());
        let matched = match pattern.next() {
            Some(next) if next == escape && pattern.as_str() != "" => {
                let wanted = pattern.next();
                text.next().zip(wanted).is_some_and(|(a, b)| same(a, b))
            }
            Some('%') if escape != '%' => {
                if pattern.as_str().is_empty() {
                    return true;
                }
                retry = Some((text_here, pattern_here));
                text = retry.as_ref().expect("just set").0.clone();
                true
            }
            Some('_') if escape != '_' => text.next().is_some(),
            Some(wanted) => text.next().is_some_and(|got| same(got, wanted)),
            None => {
                if text.as_str().is_empty() {
                    return true;
                }
                false
            }
        };
        if !matched {
            // One more character goes to the last `%`.
            let Some((from, at)) = &mut retry else { return false };
            if from.next().is_none() {
                return false;
            }
            text = from.clone();
            pattern = at.clone();
            pattern.next();
        }
    }
}

/// `substr(text, start, count)`, counted from 1; `start` may lie before the text. None if `count`
/// is negative.
pub(super) fn substr(text: &str, start: i64, count: Option<i64>) -> Option<&str> {
    let end = match count {
        Some(count) if count < 0 => return None,
        Some(count) => start.saturating_add(count),
        None => i64::MAX,
    };
    let from = place(text, start.saturating_sub(1));
    let to = place(text, end.saturating_sub(1));
    Some(text.get(from..to).unwrap_or(""))
}

/// The first `count` characters, or all but the last `-count`.
pub(super) fn left(text: &str, count: i64) -> &str {
    let kept = if count < 0 { text.chars().count() as i64 + count } else { count };
    &text[..place(text, kept)]
}

/// The last `count` characters, or all but the first `-count`.
pub(super) fn right(text: &str, count: i64) -> &str {
    let skipped =
        if count < 0 { count.saturating_neg() } else { text.chars().count() as i64 - count };
    &text[place(text, skipped)..]
}

/// The byte at which character number `chars` begins; 0 before the text, its end behind it.
fn place(text: &str, chars: i64) -> usize {
    if chars <= 0 {
        return 0;
    }
    if text.is_ascii() {
        return text.len().min(usize::try_from(chars).unwrap_or(usize::MAX));
    }
    text.char_indices().nth(chars as usize).map_or(text.len(), |(at, _)| at)
}

/// Where `part` begins in `text`, in characters from 1; 0 if nowhere.
pub(super) fn position(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1)
}

/// Lower case, in the arena.
pub(super) fn lower<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    if text.is_ascii() {
        let made = arena.alloc_str(text);
        made.make_ascii_lowercase();
        return made;
    }
    arena.alloc_str(&text.to_lowercase())
}

/// Upper case, in the arena.
pub(super) fn upper<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    if text.is_ascii() {
        let made = arena.alloc_str(text);
        made.make_ascii_uppercase();
        return made;
    }
    arena.alloc_str(&text.to_uppercase())
}

/// Every `from` as `to`, in the arena.
pub(super) fn replace<'a>(text: &'a str, from: &str, to: &str, arena: &'a Arena) -> &'a str {
    if from.is_empty() || !text.contains(from) {
        return text;
    }
    let mut made = ArenaString::with_capacity_in(text.len(), arena);
    for (piece_idx, piece) in text.split(from).enumerate() {
        if piece_idx > 0 {
            made.push_str(to);
        }
        made.push_str(piece);
    }
    made.into_bump_str()
}

/// An empty string that grows in the arena.
pub(super) fn builder(arena: &Arena) -> ArenaString<'_> {
    ArenaString::new_in(arena)
}

/// The order of two values of one kind, neither NULL; PostgreSQL's for floats: -0 equals 0, NaN
/// equals itself and is above all. Panics if the kinds differ.
#[inline]
pub(crate) fn compare_values(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
        (ValueRef::Int32(a), ValueRef::Int32(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
        (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
        (ValueRef::Interval(a), ValueRef::Interval(b)) => a.sort_key().cmp(&b.sort_key()),
        (ValueRef::Uuid(a), ValueRef::Uuid(b)) => a.cmp(&b),
        (a, b) => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare_floats(float(a), float(b)),
        },
    }
}

/// PostgreSQL's order of floats.
#[inline]
pub(super) fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// The number in a value that is kept as a whole number.
#[inline]
pub(super) fn integer(value: ValueRef<'_>) -> Option<i64> {
    Some(match value {
        ValueRef::Int16(value) => value as i64,
        ValueRef::Int32(value) | ValueRef::Date(value) => value as i64,
        ValueRef::Int64(value)
        | ValueRef::Time(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value) => value,
        _ => return None,
    })
}

#[inline]
fn float(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Float32(value) => value as f64,
        ValueRef::Float64(value) => value,
        other => panic!("{other:?} compared with another kind of value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_matches_as_the_standard_says() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "_", false),
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
        ];
        for (text, pattern, expected) in cases {
            assert_eq!(
                Pattern::new(pattern, '\\').matches(text),
                expected,
                "{text} LIKE {pattern}"
            );
            assert_eq!(like(text, pattern, '\\', false), expected, "{text} LIKE {pattern}");
        }
        assert!(like("ÄBC", "ä%c", '\\', true));
        assert!(like("50%", "50!%", '!', false));
    }

    #[test]
    fn parts_are_counted_in_characters() {
        assert_eq!(substr("äöü", 2, Some(1)), Some("ö"));
        assert_eq!(substr("abc", -1, Some(3)), Some("a"));
        assert_eq!(substr("abc", 2, None), Some("bc"));
        assert_eq!(substr("abc", 9, None), Some(""));
        assert_eq!(substr("abc", 1, Some(-1)), None);
        assert_eq!(
            (left("äöü", 2), left("äöü", -2), right("äöü", 1), right("äöü", -1)),
            ("äö", "ä", "ü", "öü")
        );
        assert_eq!((position("äöü", "ü"), position("abc", "x"), position("abc", "")), (3, 0, 1));
    }
}
