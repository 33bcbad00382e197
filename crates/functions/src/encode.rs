//! `encode` and `decode`: bytes as text and back.

use super::growing_text::GrowingText;
use super::{Arguments, Gives, Kind, Row, error, text};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlError, SqlState};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "encode",
        "The bytes as text: `hex`, `base64` or `escape`.",
        &[Kind::Bytes, Kind::Text],
        Gives::Text,
        |args| {
            let ScalarValue::BinaryView(Some(bytes)) = &args.values[0] else {
                return Ok(ScalarValue::Null);
            };
            let mut out = GrowingText::default();
            match args.text(1).to_lowercase().as_str() {
                "hex" => write_hex(bytes, &mut out)?,
                "base64" => write_base64(bytes, &mut out)?,
                "escape" => write_escaped(bytes, &mut out)?,
                _ => return Err(unknown(args)),
            }
            Ok(text(out.into_string()))
        },
    ),
    Row::new(
        "decode",
        "The bytes that a text writes: `hex`, `base64` or `escape`.",
        &[Kind::Text, Kind::Text],
        Gives::Bytes,
        |args| {
            let bytes = match args.text(1).to_lowercase().as_str() {
                "hex" => from_hex(args.text(0))?,
                "base64" => from_base64(args.text(0))?,
                "escape" => from_escaped(args.text(0))?,
                _ => return Err(unknown(args)),
            };
            Ok(ScalarValue::BinaryView(Some(bytes)))
        },
    ),
    Row::new(
        "convert_to",
        "The text's bytes in an encoding: `UTF8`, `SQL_ASCII`, `LATIN1`.",
        &[Kind::Text, Kind::Text],
        Gives::Bytes,
        |args| Ok(ScalarValue::BinaryView(Some(converted(args.text(0), encoding(args.text(1))?)?))),
    ),
    Row::new(
        "convert_from",
        "The text that bytes are in an encoding: `UTF8`, `SQL_ASCII`, `LATIN1`.",
        &[Kind::Bytes, Kind::Text],
        Gives::Text,
        |args| {
            let ScalarValue::BinaryView(Some(bytes)) = &args.values[0] else {
                return Ok(ScalarValue::Null);
            };
            Ok(text(match encoding(args.text(1))? {
                Encoding::Utf8 => String::from_utf8(bytes.clone()).map_err(|wrong| {
                    let at = wrong.utf8_error().valid_up_to();
                    let message =
                        format!("invalid byte sequence for encoding \"UTF8\": 0x{:02x}", bytes[at]);
                    error(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
                })?,
                Encoding::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            }))
        },
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    Latin1,
}

/// An encoding by one of its names. Errors: 22023.
fn encoding(name: &str) -> Result<Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_lowercase().as_str() {
        "utf8" | "unicode" | "sqlascii" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        _ => Err(invalid(format!("invalid destination encoding name \"{name}\""))),
    }
}

fn converted(text: &str, to: Encoding) -> Result<Vec<u8>> {
    if to == Encoding::Utf8 {
        return Ok(text.as_bytes().to_vec());
    }
    let byte = |c: char| {
        u8::try_from(u32::from(c)).map_err(|_| {
            let message = format!(
                "character with byte sequence {:#04x} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
                u32::from(c)
            );
            error(SqlState::UNTRANSLATABLE_CHARACTER, message)
        })
    };
    text.chars().map(byte).collect()
}

fn invalid(message: impl Into<String>) -> SqlError {
    error(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn unknown(args: &Arguments<'_>) -> SqlError {
    invalid(format!("unrecognized encoding: \"{}\"", args.text(1)))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base 64 in lines of 76 characters.
fn write_base64(bytes: &[u8], out: &mut GrowingText) -> Result<()> {
    for (at, group) in bytes.chunks(3).enumerate() {
        if at > 0 && at % 19 == 0 {
            out.push('\n')?;
        }
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= group.len() { char::from(DIGITS[value]) } else { '=' })?;
        }
    }
    Ok(())
}

/// An empty result with room for the bytes that a text may stand for. Errors: 53200.
fn room(bytes: usize) -> Result<Vec<u8>> {
    SqlError::unless_refused(bytes as u64)?;
    Ok(Vec::with_capacity(bytes))
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut out = room(text.len() / 4 * 3)?;
    let (mut word, mut count, mut ends) = (0_u32, 0, 0);
    for character in text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let value = match character {
            '=' if count >= 2 => {
                ends += 1;
                0
            }
            '=' => return Err(invalid("unexpected \"=\" while decoding base64 sequence")),
            other => {
                let value = DIGITS.iter().position(|digit| char::from(*digit) == other);
                let value = value.filter(|_| ends == 0).ok_or_else(|| {
                    let message = "found while decoding base64 sequence";
                    invalid(format!("invalid symbol \"{other}\" {message}"))
                })?;
                value as u32
            }
        };
        word = word << 6 | value;
        count += 1;
        if count == 4 {
            let bytes = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
            out.extend(&bytes[..3 - ends.min(2)]);
            (word, count) = (0, 0);
        }
    }
    if count != 0 {
        let hint = "Input data is missing padding, is truncated, or is otherwise corrupted.";
        return Err(invalid("invalid base64 end sequence").hint(hint));
    }
    Ok(out)
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let (mut out, mut first) = (room(text.len() / 2)?, None);
    for character in text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let digit = character.to_digit(16);
        let wrong = || invalid(format!("invalid hexadecimal digit: \"{character}\""));
        let digit = digit.ok_or_else(wrong)? as u8;
        match first.take() {
            None => first = Some(digit),
            Some(first) => out.push(first << 4 | digit),
        }
    }
    match first {
        None => Ok(out),
        Some(_) => Err(invalid("invalid hexadecimal data: odd number of digits")),
    }
}

fn write_hex(bytes: &[u8], out: &mut GrowingText) -> Result<()> {
    bytes.iter().try_for_each(|byte| out.push_str(&format!("{byte:02x}")))
}

fn write_escaped(bytes: &[u8], out: &mut GrowingText) -> Result<()> {
    bytes.iter().try_for_each(|byte| match byte {
        b'\\' => out.push_str("\\\\"),
        0 | 128.. => out.push_str(&format!("\\{byte:03o}")),
        byte => out.push(char::from(*byte)),
    })
}

fn from_escaped(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (room(bytes.len())?, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
        } else if bytes.get(at + 1) == Some(&b'\\') {
            out.push(b'\\');
            at += 2;
        } else {
            let digits = bytes.get(at + 1..at + 4).unwrap_or_default();
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            let byte = u8::from_str_radix(digits, 8).ok().filter(|_| digits.len() == 3);
            let wrong = || {
                error(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")
            };
            out.push(byte.ok_or_else(wrong)?);
            at += 4;
        }
    }
    Ok(out)
}
