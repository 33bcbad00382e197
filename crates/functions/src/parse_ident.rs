//! `parse_ident`: a qualified name as its parts.

use super::{Gives, Kind, Row, error, texts};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlError, SqlState};

pub(super) const ROWS: &[Row] = &[Row::new(
    "parse_ident",
    "The parts of a qualified name, folded to lower case where they have no quotes.",
    &[Kind::Text, Kind::Bool],
    Gives::Texts,
    |args| {
        let strict = !matches!(args.values.get(1), Some(ScalarValue::Boolean(Some(false))));
        let parts = parts(args.text(0), strict)?;
        let parts: Vec<Option<&str>> = parts.iter().map(|part| Some(part.as_str())).collect();
        texts(&parts)
    },
)
.optional(1)];

fn parts(whole: &str, strict: bool) -> Result<Vec<String>> {
    let wrong = || {
        let message = format!("string is not a valid identifier: \"{whole}\"");
        error(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let mut parts = Vec::new();
    let mut rest = whole.trim_start();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted).ok_or_else(wrong)?,
            None => {
                let is_part =
                    |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                (rest[..end].to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
            return Err(wrong());
        }
        SqlError::unless_refused((size_of::<String>() + part.len()) as u64)?;
        parts.push(part);
        let after = after.trim_start();
        rest = match after.strip_prefix('.') {
            Some(rest) => rest.trim_start(),
            None if after.is_empty() || !strict => return Ok(parts),
            None => return Err(wrong()),
        };
    }
}

/// A part behind its opening quote, and the rest.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('"')?;
        part.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                part.push('"');
                rest = after;
            }
            None => return Some((part, rest)),
        }
    }
}
