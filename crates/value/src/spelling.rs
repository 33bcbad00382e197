//! The text of types that need no module of their own (truth values, bytes, UUIDs), and helpers
//! that all readers share.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Result, TextProblem, ValueError};

/// The text without the blanks that PostgreSQL's input functions skip.
pub fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

/// Whether the text begins with a minus, and the text behind the sign.
pub fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

fn invalid(ty: &'static str, text: &str) -> ValueError {
    ValueError::text(TextProblem::Syntax, ty, text)
}

/// Reads a BOOLEAN: `true`, `yes`, `on`, `1` and their opposites, or the beginning of one. Errors:
/// 22P02.
pub fn parse_bool(text: &str) -> Result<bool> {
    let word = trim(text);
    let begins = |full: &str, least: usize| {
        let prefix = full.get(..word.len());
        word.len() >= least && prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(word))
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        return Ok(true);
    }
    if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        return Ok(false);
    }
    Err(invalid("boolean", text))
}

/// Reads a BYTEA in hex (`\x4142`) or escape format (`\\`, `\101`, plain bytes). Errors: 22023,
/// 22P02.
pub fn parse_bytes(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => return Err(invalid("bytea", text)),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

fn parse_hex(hex: &str) -> Result<Vec<u8>> {
    let digits: Vec<u8> =
        hex.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ValueError::text(TextProblem::OddHex, "bytea", hex));
    }
    pairs.iter().map(|[high, low]| Ok(hex_digit(*high)? << 4 | hex_digit(*low)?)).collect()
}

fn hex_digit(byte: u8) -> Result<u8> {
    let digit = char::from(byte).to_digit(16).map(|digit| digit as u8);
    digit.ok_or_else(|| {
        let shown = char::from(byte);
        ValueError::text(TextProblem::HexDigit, "bytea", shown.encode_utf8(&mut [0; 4]))
    })
}

/// Writes a BYTEA in hex.
pub fn write_bytes(bytes: &[u8], out: &mut String) {
    out.reserve(2 + 2 * bytes.len());
    out.push_str("\\x");
    bytes.iter().for_each(|byte| push_hex(*byte, out));
}

fn push_hex(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)].into());
    out.push(DIGITS[usize::from(byte & 15)].into());
}

/// Reads a UUID: 32 hex digits, optionally in braces, with a hyphen after any group of four.
/// Errors: 22P02.
pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || invalid("uuid", text);
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut uuid = [0; 16];
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for byte in inner.bytes() {
        if byte == b'-' && hyphen_allowed {
            hyphen_allowed = false;
            continue;
        }
        let digit = char::from(byte).to_digit(16).ok_or_else(bad)? as u8;
        *uuid.get_mut(digits / 2).ok_or_else(bad)? |= digit << (4 - 4 * (digits % 2));
        digits += 1;
        hyphen_allowed = digits % 4 == 0 && digits < 32;
    }
    if digits == 32 { Ok(uuid) } else { Err(bad()) }
}

/// Writes a UUID in its canonical form.
pub fn write_uuid(uuid: &[u8; 16], out: &mut String) {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        push_hex(*byte, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_know_prefixes() {
        for text in ["t", "TRUE", " tr ", "y", "yes", "on", "1"] {
            assert_eq!(parse_bool(text), Ok(true), "{text:?}");
        }
        for text in ["f", "False", "n", "no", "of", "off", "0"] {
            assert_eq!(parse_bool(text), Ok(false), "{text:?}");
        }
        for text in ["", "o", "2", "truee", "nope", "ä"] {
            assert_eq!(parse_bool(text), Err(invalid("boolean", text)), "{text:?}");
        }
    }

    #[test]
    fn bytea_reads_hex_and_escapes_and_writes_hex() {
        let show = |text: &str| {
            let mut out = String::new();
            parse_bytes(text).map(|bytes| {
                write_bytes(&bytes, &mut out);
                out
            })
        };
        assert_eq!(show("\\xDEADbeef").as_deref(), Ok("\\xdeadbeef"));
        assert_eq!(show("\\x").as_deref(), Ok("\\x"));
        assert_eq!(show("\\x de ad").as_deref(), Ok("\\xdead"));
        assert_eq!(show("a\\\\b\\001").as_deref(), Ok("\\x615c6201"));
        assert_eq!(show("\\x1"), Err(ValueError::text(TextProblem::OddHex, "bytea", "1")));
        assert_eq!(show("\\xzz"), Err(ValueError::text(TextProblem::HexDigit, "bytea", "z")));
        assert_eq!(show("a\\9"), Err(invalid("bytea", "a\\9")));
    }

    #[test]
    fn uuids_read_in_all_spellings() {
        let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            canonical,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            let mut out = String::new();
            write_uuid(&parse_uuid(text).expect(text), &mut out);
            assert_eq!(out, canonical);
        }
        for text in [
            "",
            "a0",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1122",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert_eq!(parse_uuid(text), Err(invalid("uuid", text)));
        }
    }
}
