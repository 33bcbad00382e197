//! Arrays as PostgreSQL writes them: `{1,2,NULL,"a,b"}`.
//!
//! One dimension; text that has more, or bounds of its own (`[0:1]={…}`), is refused.
//! Source: PostgreSQL's documentation, "Array Input and Output Syntax".

use std::sync::Arc;

use arrow::array::{Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use halcyon_store::{Value, ValueRef};

use crate::coerce::{self, TimeZone};
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;
use crate::values::ArrayWriter;

/// The elements of an array's text; `None` stands for NULL.
///
/// Errors: 22P02 malformed, 0A000 for more than one dimension.
pub fn parse(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail.to_owned())
    };
    let body = text.trim();
    if body.starts_with('[') {
        return Err(SqlError::unsupported("an array with bounds of its own"));
    }
    let Some(body) = body.strip_prefix('{') else {
        return Err(malformed("Array value must start with \"{\" or dimension information."));
    };
    let mut elements = Vec::new();
    let mut chars = body.chars().peekable();
    let skip_blanks = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
    };
    skip_blanks(&mut chars);
    if chars.next_if_eq(&'}').is_none() {
        loop {
            skip_blanks(&mut chars);
            let (mut element, mut quoted) = (String::new(), false);
            match chars.peek() {
                Some('{') => return Err(SqlError::unsupported("an array of several dimensions")),
                Some('"') => {
                    quoted = true;
                    chars.next();
                    loop {
                        match chars.next() {
                            Some('"') => break,
                            Some('\\') => element.extend(chars.next()),
                            Some(c) => element.push(c),
                            None => return Err(malformed("Unexpected end of input.")),
                        }
                    }
                    skip_blanks(&mut chars);
                }
                _ => {
                    while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}' | '{' | '"')) {
                        match c {
                            '\\' => element.extend(chars.next()),
                            c => element.push(c),
                        }
                    }
                    element.truncate(element.trim_end().len());
                    if element.is_empty() {
                        return Err(malformed("An element is missing."));
                    }
                }
            }
            let is_null = !quoted && element.eq_ignore_ascii_case("null");
            elements.push((!is_null).then_some(element));
            match chars.next() {
                Some(',') => {}
                Some('}') => break,
                Some(_) => return Err(malformed("Unexpected array element.")),
                None => return Err(malformed("Unexpected end of input.")),
            }
        }
    }
    match chars.all(char::is_whitespace) {
        true => Ok(elements),
        false => Err(malformed("Junk after closing right brace.")),
    }
}

/// Appends an element to an array's text, quoted where PostgreSQL quotes it.
pub fn push_element(out: &mut String, element: Option<&str>) {
    let Some(element) = element else {
        out.push_str("NULL");
        return;
    };
    let special = |c: char| c.is_whitespace() || "{}\",\\".contains(c);
    if element.is_empty() || element.contains(special) || element.eq_ignore_ascii_case("null") {
        out.push('"');
        for c in element.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    } else {
        out.push_str(element);
    }
}

/// The value of an element from its text, moments as UTC. Errors: those of a literal.
pub fn element(text: &str, ty: SqlType) -> Result<Value> {
    coerce::parse_owned(text, ty, &TimeZone::UTC)
}

/// An array's text as a constant of DataFusion, with elements of type `element`; NULL without a text.
///
/// Errors: those of [`parse`] and of reading an element.
pub fn to_scalar(text: Option<&str>, element: SqlType, zone: &TimeZone) -> Result<ScalarValue> {
    let item = Arc::new(Field::new_list_field(element.arrow(), true));
    let Some(text) = text else {
        return Ok(ScalarValue::List(Arc::new(ListArray::new_null(item, 1))));
    };
    let elements = parse(text)?;
    let mut values = ArrayWriter::new(element, elements.len());
    for text in &elements {
        match text {
            None => values.push(ValueRef::Null)?,
            Some(text) => {
                values.push(coerce::parse_owned(text, element, zone)?.as_ref())?;
            }
        }
    }
    let values = values.finish();
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    Ok(ScalarValue::List(Arc::new(ListArray::new(item, offsets, values, None))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_they_are_written() {
        let some = |texts: &[&str]| texts.iter().map(|t| Some((*t).to_owned())).collect::<Vec<_>>();
        for (text, elements) in [
            ("{}", vec![]),
            (" { a , b c } ", some(&["a", "b c"])),
            (r#"{"a,b","null","q\"q",""}"#, some(&["a,b", "null", "q\"q", ""])),
            ("{1,NULL,null}", vec![Some("1".to_owned()), None, None]),
        ] {
            let read = parse(text).expect(text);
            assert_eq!(read, elements, "{text}");
            let mut written = String::from("{");
            for (at, element) in read.iter().enumerate() {
                if at > 0 {
                    written.push(',');
                }
                push_element(&mut written, element.as_deref());
            }
            written.push('}');
            assert_eq!(parse(&written).expect("as written"), elements, "{written}");
        }
        for text in ["", "a", "{", "{a", "{a,}", "{a}b", "{\"a", "{a\"b\"}"] {
            assert_eq!(
                parse(text).expect_err(text).state(),
                SqlState::INVALID_TEXT_REPRESENTATION,
                "{text}"
            );
        }
        for text in ["{{1},{2}}", "[0:1]={1,2}"] {
            assert_eq!(parse(text).expect_err(text).state(), SqlState::FEATURE_NOT_SUPPORTED);
        }
    }

    #[test]
    fn elements_get_their_type() {
        let list = to_scalar(Some("{1,NULL,3}"), SqlType::Integer, &TimeZone::UTC).expect("a list");
        assert_eq!(list.to_string(), "[1, , 3]");
        let bad =
            to_scalar(Some("{1,x}"), SqlType::Integer, &TimeZone::UTC).expect_err("no number");
        assert_eq!(bad.state(), SqlState::INVALID_TEXT_REPRESENTATION);
        assert!(to_scalar(None, SqlType::Text, &TimeZone::UTC).expect("NULL").is_null());
    }
}
