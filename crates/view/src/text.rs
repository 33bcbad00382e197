//! Strings: SQL's LIKE and SUBSTRING. Characters are Unicode scalar values.

use alloc::vec::Vec;

/// A pattern of LIKE, read once.
#[derive(Clone, Debug)]
pub struct LikePattern {
    tokens: Vec<Token>,
    ignore_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    /// `%`
    Any,
    /// `_`
    One,
    Char(char),
}

impl LikePattern {
    /// `\` takes the next character as it stands; at the end it stands for itself.
    pub fn new(pattern: &str, ignore_case: bool) -> Self {
        let mut chars = pattern.chars();
        let mut tokens = Vec::new();
        while let Some(c) = chars.next() {
            tokens.push(match c {
                '%' => Token::Any,
                '_' => Token::One,
                '\\' => Token::Char(chars.next().unwrap_or('\\')),
                c => Token::Char(c),
            });
        }
        if ignore_case {
            for token in &mut tokens {
                if let Token::Char(c) = token {
                    c.make_ascii_lowercase();
                }
            }
        }
        LikePattern { tokens, ignore_case }
    }

    /// Whether the whole text matches. O(text · pattern) at worst: only the last `%` is tried again.
    pub fn matches(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to go on if the current attempt fails: the token after the last `%`, and the text
        // without the character that the `%` takes next.
        let mut retry: Option<(usize, core::str::Chars<'_>)> = None;
        loop {
            let before = rest.clone();
            let matched = match (self.tokens.get(at), rest.next()) {
                (None, None) => return true,
                (Some(Token::Any), _) => {
                    at += 1;
                    rest = before.clone();
                    retry = Some((at, before));
                    continue;
                }
                (Some(Token::One), Some(_)) => true,
                (Some(Token::Char(want)), Some(c)) => {
                    *want == if self.ignore_case { c.to_ascii_lowercase() } else { c }
                }
                _ => false,
            };
            if matched {
                at += 1;
                continue;
            }
            match &mut retry {
                None => return false,
                Some((token, start)) => {
                    if start.next().is_none() {
                        return false;
                    }
                    at = *token;
                    rest = start.clone();
                }
            }
        }
    }
}

/// Characters `start` (from 1) to `start + length`, as far as there are any.
pub fn substring(text: &str, start: i64, length: Option<i64>) -> &str {
    let end = length.map(|length| start.saturating_add(length));
    let byte_of = |character: i64| {
        let skip = usize::try_from(character.saturating_sub(1)).unwrap_or(0);
        text.char_indices().nth(skip).map_or(text.len(), |(byte, _)| byte)
    };
    let from = byte_of(start);
    let to = end.map_or(text.len(), byte_of);
    text.get(from..to).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// LIKE by recursion over all splits.
    fn slow_like(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skip| slow_like(rest, &text[skip..])),
            ['_', rest @ ..] => !text.is_empty() && slow_like(rest, &text[1..]),
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                text.first() == Some(c) && slow_like(rest, &text[1..])
            }
        }
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
        let mut matched = 0;
        for pattern in (0..5).flat_map(|length| words(length, 6)) {
            if pattern.last() == Some(&'\\') {
                continue;
            }
            let like = LikePattern::new(&pattern.iter().collect::<String>(), false);
            for text in (0..4).flat_map(|length| words(length, 4)) {
                let expected = slow_like(&pattern, &text);
                let text: String = text.iter().collect();
                assert_eq!(like.matches(&text), expected, "{text:?} like {pattern:?}");
                matched += usize::from(expected);
            }
        }
        assert!(matched > 1000);
    }

    #[test]
    fn ilike_folds_ascii_only() {
        assert!(LikePattern::new("%PROMO_ä", true).matches("xpromo1ä"));
        assert!(!LikePattern::new("Ä", true).matches("ä"));
        assert!(!LikePattern::new("A", false).matches("a"));
    }

    #[test]
    fn substring_counts_characters_from_one() {
        let check = |start, length, expected: &str| {
            assert_eq!(substring("aéb", start, length), expected, "{start} {length:?}");
        };
        check(1, Some(2), "aé");
        check(2, None, "éb");
        check(0, Some(2), "a");
        check(-5, Some(3), "");
        check(3, Some(9), "b");
        check(4, None, "");
        check(i64::MIN, Some(i64::MAX), "");
        check(1, Some(i64::MAX), "aéb");
    }
}
