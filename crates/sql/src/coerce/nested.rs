//! Arrays and rows as text, in PostgreSQL's notation: `{1,NULL,"a b"}`, `(1,,"a b")`; arrays of text.
//!
//! Arrow's lists and structs are not among [`SqlType`]s: columns have no such types, but expressions do.

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;

use super::{Arena, TimeZone, parse, write};
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;
use crate::values::{ArrayWriter, sql_type_of_arrow, value_at};

/// Whether values of a type are written here.
pub fn is_nested(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
    )
}

fn is_null(array: &dyn Array, row: usize) -> bool {
    array.is_null(row) || array.data_type() == &DataType::Null
}

/// Appends a cell as text; nothing for NULL. Panics: if `row` is out of range.
pub fn write_cell(array: &dyn Array, row: usize, zone: &TimeZone, out: &mut String) {
    if is_null(array, row) {
        return;
    }
    match array.data_type() {
        DataType::List(_) => write_items(array.as_list::<i32>().value(row).as_ref(), zone, out),
        DataType::LargeList(_) => {
            write_items(array.as_list::<i64>().value(row).as_ref(), zone, out);
        }
        DataType::FixedSizeList(..) => {
            write_items(array.as_fixed_size_list().value(row).as_ref(), zone, out);
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns();
            out.push('(');
            for (at, field) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let mut text = String::new();
                write_cell(field.as_ref(), row, zone, &mut text);
                let special = |c: char| c.is_ascii_whitespace() || "\"\\(),".contains(c);
                match !is_null(field, row) && (text.is_empty() || text.contains(special)) {
                    true => quote(&text, "\"\"", out),
                    false => out.push_str(&text),
                }
            }
            out.push(')');
        }
        ty => {
            if let (Some(value), Some(ty)) = (value_at(array, row), sql_type_of_arrow(ty)) {
                write(value, ty, zone, out);
            }
        }
    }
}

fn write_items(items: &dyn Array, zone: &TimeZone, out: &mut String) {
    out.push('{');
    for row in 0..items.len() {
        if row > 0 {
            out.push(',');
        }
        if is_null(items, row) {
            out.push_str("NULL");
            continue;
        }
        if matches!(items.data_type(), DataType::List(_)) {
            write_cell(items, row, zone, out);
            continue;
        }
        let mut text = String::new();
        write_cell(items, row, zone, &mut text);
        let special = |c: char| c.is_ascii_whitespace() || "{}\",\\".contains(c);
        let must = text.is_empty() || text.contains(special) || text.eq_ignore_ascii_case("null");
        if must { quote(&text, "\\\"", out) } else { out.push_str(&text) }
    }
    out.push('}');
}

/// The text between double quotes; `quoted` stands for one of them within.
fn quote(text: &str, quoted: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str(quoted),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Reads an array of one dimension: `{1,NULL,"a b"}`, as an array of one list.
///
/// Errors: 22P02 if it is none; those of the items; 0A000 for arrays of arrays.
pub fn parse_list(text: &str, item: SqlType, zone: &TimeZone) -> Result<ArrayRef> {
    let malformed = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
    };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let inner = trimmed
        .strip_prefix('{')
        .ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let mut writer = ArrayWriter::new(item, 0);
    let mut items = Items { rest: inner };
    let mut count = 0;
    while let Some(found) = items.next().map_err(malformed)? {
        let arena = Arena::new();
        match &found {
            Item::Null => writer.push(halcyon_store::ValueRef::Null)?,
            Item::Text(text) => writer.push(parse(text, item, zone, &arena)?)?,
            Item::List => return Err(SqlError::unsupported("reading an array of arrays")),
        }
        count += 1;
    }
    let field = Arc::new(Field::new_list_field(item.arrow(), true));
    let offsets = OffsetBuffer::from_lengths([count]);
    Ok(Arc::new(ListArray::new(field, offsets, writer.finish(), None)))
}

enum Item {
    Null,
    Text(String),
    List,
}

/// What follows the opening brace.
struct Items<'a> {
    rest: &'a str,
}

impl Items<'_> {
    /// The next item; `None` at the closing brace. Errors: what is wrong.
    fn next(&mut self) -> Result<Option<Item>, &'static str> {
        let blank = |c: char| c.is_ascii_whitespace();
        self.rest = self.rest.trim_start_matches(blank);
        if let Some(after) = self.rest.strip_prefix('}') {
            return match after.trim_matches(blank).is_empty() {
                true => Ok(None),
                false => Err("Junk after closing right brace."),
            };
        }
        if self.rest.starts_with('{') {
            return Ok(Some(Item::List));
        }
        let mut text = String::new();
        let (mut in_quotes, mut was_quoted, mut solid) = (false, false, 0);
        let mut chars = self.rest.char_indices();
        loop {
            let Some((at, c)) = chars.next() else { return Err("Unexpected end of input.") };
            match c {
                '\\' => {
                    let Some((_, c)) = chars.next() else { return Err("Unexpected end of input.") };
                    text.push(c);
                    (was_quoted, solid) = (true, text.len());
                }
                '"' => {
                    (in_quotes, was_quoted, solid) = (!in_quotes, true, text.len());
                }
                ',' | '}' if !in_quotes => {
                    text.truncate(text.trim_end_matches(blank).len().max(solid));
                    if text.is_empty() && !was_quoted {
                        return Err("Unexpected delimiter or brace.");
                    }
                    self.rest = match c {
                        ',' if self.rest[at + 1..].trim_start_matches(blank).starts_with('}') => {
                            return Err("Unexpected \"}\" character.");
                        }
                        ',' => &self.rest[at + 1..],
                        _ => &self.rest[at..],
                    };
                    let is_null = !was_quoted && text.eq_ignore_ascii_case("null");
                    return Ok(Some(if is_null { Item::Null } else { Item::Text(text) }));
                }
                '{' if !in_quotes => return Err("Unexpected \"{\" character."),
                c => {
                    text.push(c);
                    if in_quotes {
                        solid = text.len();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(text: &str, item: SqlType) -> Result<String> {
        let lists = parse_list(text, item, &TimeZone::UTC)?;
        let mut out = String::new();
        write_cell(lists.as_ref(), 0, &TimeZone::UTC, &mut out);
        Ok(out)
    }

    #[test]
    fn arrays_are_read_and_written_as_postgresql_does() {
        for (text, item, expected) in [
            ("{}", SqlType::Integer, "{}"),
            (" { 1 , NULL,3 } ", SqlType::Integer, "{1,NULL,3}"),
            (
                r#"{a,"b c",null,"NULL","","x\"y","{"}"#,
                SqlType::Text,
                r#"{a,"b c",NULL,"NULL","","x\"y","{"}"#,
            ),
            (r"{a\ b , c d }", SqlType::Text, r#"{"a b","c d"}"#),
            ("{t,false}", SqlType::Boolean, "{t,f}"),
            ("{2020-01-01 00:00}", SqlType::Timestamp, r#"{"2020-01-01 00:00:00"}"#),
        ] {
            assert_eq!(through(text, item).ok().as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in ["", "1", "{1", "{1,}", "{,1}", "{1}x", "{x}", "{\"1"] {
            let error = through(text, SqlType::Integer).expect_err(text);
            assert_eq!(error.state(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        let nested = through("{{1}}", SqlType::Integer).expect_err("two dimensions");
        assert_eq!(nested.state(), SqlState::FEATURE_NOT_SUPPORTED);
    }
}
