//! Arrays as PostgreSQL writes them: `{1,2,NULL,"a,b"}`.
//!
//! One dimension; text that has more, or bounds of its own (`[0:1]={…}`), is refused.
//! Source: PostgreSQL's documentation, "Array Input and Output Syntax".

use halcyon_base::interrupt::Pace;
use halcyon_store::{Value, ValueRef};
use halcyon_value::array;

use crate::coerce::{self, Arena, TimeZone};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Element, SqlType};

/// The elements of an array's text; `None` stands for NULL.
///
/// Errors: 22P02 malformed, 0A000 for more than one dimension.
pub fn parse(text: &str) -> Result<Vec<Option<String>>> {
    let mut elements = Vec::new();
    for_each(text, |element| {
        elements.push(element.map(str::to_owned));
        Ok(())
    })?;
    Ok(elements)
}

/// The bytes of an array, as columns store them, from its text. Errors: those of [`parse`] and of reading an
/// element.
pub fn encode(text: &str, element: Element, zone: &TimeZone) -> Result<Vec<u8>> {
    let (mut out, ty) = (Vec::new(), element.ty());
    for_each(text, |element| {
        let arena = Arena::new();
        let value = match element {
            Some(element) => coerce::parse(element, ty, zone, &arena)?,
            None => ValueRef::Null,
        };
        array::push(&mut out, value);
        Ok(())
    })?;
    Ok(out)
}

/// Appends the text of an array of which these are the bytes.
pub fn write(bytes: &[u8], element: Element, zone: &TimeZone, out: &mut String) {
    let ty = element.ty();
    let mut text = String::new();
    out.push('{');
    let start = out.len();
    let written: Result<()> = array::each(bytes, ty.storage(), |value| {
        if out.len() > start {
            out.push(',');
        }
        text.clear();
        coerce::write(value, ty, zone, &mut text);
        push_element(out, (!value.is_null()).then_some(&text));
        Ok(())
    });
    written.expect("writing does not fail");
    out.push('}');
}

/// Appends an element to an array's text, quoted where PostgreSQL quotes it.
pub fn push_element(out: &mut String, element: Option<&str>) {
    let Some(element) = element else { return out.push_str("NULL") };
    let special = |c: char| c.is_ascii_whitespace() || "{}\",\\".contains(c);
    if element.is_empty() || element.contains(special) || element.eq_ignore_ascii_case("null") {
        quote(element, "\\\"", out);
    } else {
        out.push_str(element);
    }
}

/// The text between double quotes; `quoted` stands for one of them within.
pub(super) fn quote(text: &str, quoted: &str, out: &mut String) {
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

/// The value of an element from its text, moments as UTC. Errors: those of a literal.
pub fn element(text: &str, ty: SqlType) -> Result<Value> {
    coerce::parse_owned(text, ty, &TimeZone::UTC)
}

/// Gives the elements of an array's text to `each`; `None` stands for NULL.
///
/// Errors: 22P02 malformed, 0A000 for more than one dimension; the first of `each`; 57014, 53200.
fn for_each(text: &str, mut each: impl FnMut(Option<&str>) -> Result<()>) -> Result<()> {
    let malformed = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
    };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if trimmed.starts_with('[') {
        return Err(SqlError::unsupported("an array with bounds of its own"));
    }
    let inner = trimmed
        .strip_prefix('{')
        .ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let mut items = Items { rest: inner };
    let pace = Pace::default();
    while let Some(found) = items.next().map_err(malformed)? {
        if pace.is_over() {
            SqlError::unless_interrupted()?;
        }
        match &found {
            Item::Null => each(None)?,
            Item::Text(text) => each(Some(text))?,
            Item::List => return Err(SqlError::unsupported("an array of several dimensions")),
        }
    }
    Ok(())
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
        let (mut is_closed, wrong) = (false, "Incorrectly quoted array element.");
        let mut chars = self.rest.char_indices();
        loop {
            let Some((at, c)) = chars.next() else { return Err("Unexpected end of input.") };
            match c {
                '\\' if is_closed => return Err(wrong),
                '\\' => {
                    let Some((_, c)) = chars.next() else { return Err("Unexpected end of input.") };
                    text.push(c);
                    (was_quoted, solid) = (true, text.len());
                }
                '"' if !in_quotes && (is_closed || !text.is_empty()) => return Err(wrong),
                '"' => {
                    is_closed = in_quotes;
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
                c if is_closed && !blank(c) => return Err(wrong),
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
        let element = Element::of(item).expect("no array");
        let mut out = String::new();
        write(&encode(text, element, &TimeZone::UTC)?, element, &TimeZone::UTC, &mut out);
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
            ("{1.5,2}", SqlType::Decimal { precision: 5, scale: 2 }, "{1.50,2.00}"),
            ("{a}", SqlType::Char(Some(2)), r#"{"a "}"#),
            (r#"{"{\"b\": 1, \"a\":2}"}"#, SqlType::Jsonb, r#"{"{\"a\": 2, \"b\": 1}"}"#),
        ] {
            assert_eq!(through(text, item).ok().as_deref(), Some(expected), "{text}");
        }
        assert_eq!(
            parse(r#"{a,null,"null"}"#).ok(),
            Some(vec![Some("a".to_owned()), None, Some("null".to_owned())])
        );
    }

    #[test]
    fn a_long_array_is_read_no_further_than_its_interrupt() {
        let text = format!("{{{}1}}", "1,".repeat(100_000));
        let read = || encode(&text, Element::of(SqlType::Integer).unwrap(), &TimeZone::UTC);
        assert!(read().is_ok());
        let refused = halcyon_base::interrupt::watching(|| true, read).expect_err("interrupted");
        assert_eq!(refused.state(), SqlState::QUERY_CANCELED);
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in [
            "",
            "1",
            "{1",
            "{1,}",
            "{,1}",
            "{1}x",
            "{x}",
            "{\"1",
            "{1}}",
            "{1{",
            "{\"1\"2}",
            "{1\"2\"}",
            "{\"1\"\"2\"}",
            "{\"1\"\\2}",
        ] {
            let error = through(text, SqlType::Integer).expect_err(text);
            assert_eq!(error.state(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        for text in ["{{1}}", "[0:1]={1,2}"] {
            let refused = through(text, SqlType::Integer).expect_err(text);
            assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
    }
}
