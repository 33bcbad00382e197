//! LIKE of bytes, which the function `bytealike` is: `%`, `_` and the backslash as in texts, a byte at a time.

use super::{Gives, Kind, Row};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlError, SqlState};

pub(super) const ROWS: &[Row] = &[Row::new(
    "bytealike",
    "Whether bytes match a pattern, as LIKE.",
    &[Kind::Bytes, Kind::Bytes],
    Gives::Bool,
    |args| Ok(ScalarValue::Boolean(Some(matches(args.bytes(0), args.bytes(1))?))),
)];

/// Whether bytes match a pattern. Errors: 22025 if the pattern ends with the escape and the match gets there.
///
/// Cost: O(bytes x pattern) at worst, since what stands behind the last `%` alone is tried again.
fn matches(bytes: &[u8], pattern: &[u8]) -> Result<bool> {
    let (mut at, mut of) = (0, 0);
    // Where to go on if what stands behind the last `%` does not fit: one byte further.
    let mut again: Option<(usize, usize)> = None;
    loop {
        match pattern.get(of) {
            Some(b'%') => {
                of += 1;
                again = Some((at, of));
                continue;
            }
            None if at == bytes.len() => return Ok(true),
            Some(_) if at == bytes.len() => return Ok(false),
            Some(b'_') => {
                (at, of) = (at + 1, of + 1);
                continue;
            }
            Some(b'\\') => {
                let Some(byte) = pattern.get(of + 1) else {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
                };
                if bytes[at] == *byte {
                    (at, of) = (at + 1, of + 2);
                    continue;
                }
            }
            Some(byte) if bytes[at] == *byte => {
                (at, of) = (at + 1, of + 1);
                continue;
            }
            _ => {}
        }
        match &mut again {
            Some((from, behind)) if *from < bytes.len() => {
                *from += 1;
                (at, of) = (*from, *behind);
            }
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn bytes_match_as_texts_of_the_same_letters_do() {
        let mut random = Rng::new(7);
        let mut word = |letters: &[u8], most: u64| -> Vec<u8> {
            let count = random.below(most + 1);
            (0..count).map(|_| letters[random.below(letters.len() as u64) as usize]).collect()
        };
        for _ in 0..20_000 {
            let (bytes, pattern) = (word(b"ab", 6), word(b"ab%_\\", 6));
            let text = std::str::from_utf8(&bytes).expect("letters");
            let like = std::str::from_utf8(&pattern).expect("letters");
            let of_texts = halcyon_value::like::matches(text, like, Some('\\'), false);
            assert_eq!(matches(&bytes, &pattern).ok(), of_texts.ok(), "{text} {like}");
        }
        assert!(matches(&[0xff, 0, 0xfe], &[0xff, b'_', 0xfe]).expect("no escape"));
        let state = |bytes, pattern| matches(bytes, pattern).map_err(|error| error.state());
        assert_eq!(state(b"ab", b"a\\"), Err(SqlState::INVALID_ESCAPE_SEQUENCE));
        assert_eq!(state(b"b", b"a\\"), Ok(false));
    }
}
