//! Parts of texts. Characters are Unicode scalar values, counted from 1.

use crate::error::{Result, ValueError};

/// `substr(text, start, count)`; `start` may lie before the text. Errors: 22011 if `count` is below
/// zero.
pub fn substr(text: &str, start: i64, count: Option<i64>) -> Result<&str> {
    let end = match count {
        Some(count) if count < 0 => return Err(ValueError::NegativeLength),
        Some(count) => start.saturating_add(count),
        None => i64::MAX,
    };
    let from = place(text, start.saturating_sub(1));
    let to = place(text, end.saturating_sub(1));
    Ok(text.get(from..to).unwrap_or(""))
}

/// The first `count` characters, or all but the last `-count`.
pub fn left(text: &str, count: i64) -> &str {
    let kept = if count < 0 { text.chars().count() as i64 + count } else { count };
    &text[..place(text, kept)]
}

/// The last `count` characters, or all but the first `-count`.
pub fn right(text: &str, count: i64) -> &str {
    let skipped =
        if count < 0 { count.saturating_neg() } else { text.chars().count() as i64 - count };
    &text[place(text, skipped)..]
}

/// The byte at which character number `chars` (from 0) begins; 0 for numbers before the text, its
/// length for numbers behind it.
fn place(text: &str, chars: i64) -> usize {
    let Ok(chars) = usize::try_from(chars) else { return 0 };
    if text.is_ascii() {
        return text.len().min(chars);
    }
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// Number of characters.
pub fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

/// The place of `part` in `text`, in characters from 1; 0 if it does not occur.
pub fn position(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| length(&text[..at]) + 1)
}

/// The text without the characters of `set` at its beginning, its end, or both.
#[inline]
pub fn trim<'a>(mut text: &'a str, set: &str, start: bool, end: bool) -> &'a str {
    let in_set = |c: char| set.contains(c);
    if start {
        text = text.trim_start_matches(in_set);
    }
    if end {
        text = text.trim_end_matches(in_set);
    }
    text
}

/// The text as VARCHAR(`length`) stores it, or as CHAR(`length`), without blanks at the end: blanks
/// beyond the length are cut. `None` if the text is too long.
pub fn fit(text: &str, length: u32, without_blanks: bool) -> Option<&str> {
    let text = if without_blanks { text.trim_end_matches(' ') } else { text };
    // A text has no more characters than bytes, so nearly every text passes without counting.
    if text.len() <= length as usize {
        return Some(text);
    }
    match text.char_indices().nth(length as usize) {
        None => Some(text),
        Some((end, _)) if text[end..].bytes().all(|byte| byte == b' ') => Some(&text[..end]),
        Some(_) => None,
    }
}

/// The text cut to VARCHAR(`length`), or CHAR(`length`), as an explicit cast does.
pub fn cut(text: &str, length: u32, without_blanks: bool) -> &str {
    let end = text.char_indices().nth(length as usize).map_or(text.len(), |(end, _)| end);
    if without_blanks { text[..end].trim_end_matches(' ') } else { &text[..end] }
}

/// Number of blanks that CHAR(`length`) shows behind its text.
pub fn padding(text: &str, length: u32) -> usize {
    (length as usize).saturating_sub(text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_in_characters() {
        assert_eq!(substr("äöü", 2, Some(1)), Ok("ö"));
        assert_eq!(substr("abc", -1, Some(3)), Ok("a"));
        assert_eq!(substr("abc", 2, None), Ok("bc"));
        assert_eq!(substr("abc", 9, None), Ok(""));
        assert_eq!(substr("aéb", 0, Some(2)), Ok("a"));
        assert_eq!(substr("aéb", i64::MIN, Some(i64::MAX)), Ok(""));
        assert_eq!(substr("aéb", 1, Some(i64::MAX)), Ok("aéb"));
        assert_eq!(substr("abc", 1, Some(-1)), Err(ValueError::NegativeLength));
        assert_eq!((left("äöü", 2), left("äöü", -2), left("ä", i64::MIN)), ("äö", "ä", ""));
        assert_eq!((right("äöü", 1), right("äöü", -1), right("ä", i64::MIN)), ("ü", "öü", ""));
        assert_eq!((position("äöü", "ü"), position("abc", "x"), position("abc", "")), (3, 0, 1));
        assert_eq!(trim("xäx", "xy", true, true), "ä");
        assert_eq!((trim(" a ", " ", true, false), trim(" a ", " ", false, true)), ("a ", " a"));
    }

    #[test]
    fn texts_lose_only_blanks_where_they_are_kept_and_anything_where_they_are_cut() {
        assert_eq!(fit("abc  ", 3, false), Some("abc"));
        assert_eq!(fit("ab  ", 3, false), Some("ab "));
        assert_eq!(fit("äöü", 3, false), Some("äöü"));
        assert_eq!(fit("abcd", 3, false), None);
        assert_eq!(fit("ab   ", 3, true), Some("ab"));
        assert_eq!((cut("äöüx", 3, false), cut("a bc", 2, true)), ("äöü", "a"));
        assert_eq!((padding("ab", 4), padding("abc", 2)), (2, 0));
    }
}
