//! `unistr`: escapes of characters replaced.

use super::growing_text::GrowingText;
use super::{Gives, Kind, Row, error, text};
use halcyon_sql::error::{Result, SqlState};

pub(super) const ROWS: &[Row] = &[Row::new(
    "unistr",
    "The text with `\\XXXX`, `\\+XXXXXX`, `\\uXXXX` and `\\UXXXXXXXX` replaced by characters.",
    &[Kind::Text],
    Gives::Text,
    |args| {
        let mut out = GrowingText::with_capacity(args.text(0).len())?;
        let mut rest = args.text(0);
        while let Some(at) = rest.find('\\') {
            out.push_str(&rest[..at])?;
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('\\') {
                out.push('\\')?;
                rest = after;
                continue;
            }
            let (character, after) = escaped(rest)?;
            out.push(character)?;
            rest = after;
        }
        out.push_str(rest)?;
        Ok(text(out.into_string()))
    },
)];

/// The character of an escape behind its backslash, and the rest.
fn escaped(text: &str) -> Result<(char, &str)> {
    let forms = [("+", 6), ("u", 4), ("U", 8), ("", 4)];
    for (prefix, length) in forms {
        let digits = text.strip_prefix(prefix).and_then(|rest| rest.get(..length));
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            continue;
        };
        let character = char::from_u32(code).filter(|character| *character != '\0');
        let character = character.ok_or_else(|| {
            let message = format!("invalid Unicode code point: {code:04X}");
            error(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        return Ok((character, &text[prefix.len() + length..]));
    }
    Err(error(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
        .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX."))
}
