//! Members of a `json` by their places in its text, which is well formed.
//!
//! Cost: the text is read from its begin to the end of the document.

use crate::binary::Kind;
use crate::error::{JsonError, Result};
use crate::parse::{Nothing, Parser, Token};

/// The kind of the value. The text is well formed, so its first sign says it.
pub fn kind(text: &str) -> Kind {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// Whether it is neither an array nor an object.
pub fn is_scalar(text: &str) -> bool {
    !matches!(kind(text), Kind::Array | Kind::Object)
}

/// Keys and texts of the values of an object, in their order, repeated keys included.
/// Errors: 22P05 for a key that no text can be.
pub fn pairs(text: &str) -> Result<Vec<(String, &str)>> {
    let mut pairs = Vec::new();
    if kind(text) != Kind::Object {
        return Ok(pairs);
    }
    let mut parser = Parser::new(text);
    parser.token(false)?;
    while parser.key(true, pairs.is_empty())? {
        let key = parser.take_string();
        parser.colon()?;
        let from = parser.place();
        parser.value::<Nothing>()?;
        pairs.push((key, &text[from..parser.after()]));
        if !parser.goes_on()? {
            break;
        }
    }
    Ok(pairs)
}

/// The texts of the elements of an array.
pub fn elements(text: &str) -> Result<Vec<&str>> {
    let mut elements = Vec::new();
    if kind(text) != Kind::Array {
        return Ok(elements);
    }
    let mut parser = Parser::new(text);
    parser.token(false)?;
    let from = parser.place();
    if text.as_bytes().get(from) == Some(&b']') {
        return Ok(elements);
    }
    loop {
        let from = parser.place();
        parser.value::<Nothing>()?;
        elements.push(&text[from..parser.after()]);
        if parser.token(false)? != Token::Sign(b',') {
            return Ok(elements);
        }
    }
}

/// The value of a key of an object: the last one of that key.
pub fn get<'a>(text: &'a str, key: &str) -> Result<Option<&'a str>> {
    Ok(pairs(text)?.into_iter().rev().find(|(own, _)| own == key).map(|(_, value)| value))
}

/// The element of an array; below zero counted from its end.
pub fn at(text: &str, index: i64) -> Result<Option<&str>> {
    let elements = elements(text)?;
    let index = if index < 0 { index + elements.len() as i64 } else { index };
    Ok(usize::try_from(index).ok().and_then(|index| elements.get(index).copied()))
}

/// What `->>` gives of a value: a string without its quotes, nothing of null, other values as they
/// are. Errors: 22P05 for a string that no text can be.
pub fn plain(text: &str) -> Result<Option<String>> {
    match kind(text) {
        Kind::Null => Ok(None),
        Kind::String => {
            let mut parser = Parser::new(text);
            parser.token(true)?;
            Ok(Some(parser.take_string()))
        }
        _ => Ok(Some(text.trim_matches([' ', '\t', '\n', '\r']).to_owned())),
    }
}

/// The text without the pairs of objects whose value is null, and without blanks.
pub fn without_nulls(text: &str) -> Result<String> {
    let mut out = String::new();
    put_without_nulls(text, &mut out)?;
    Ok(out)
}

fn put_without_nulls(text: &str, out: &mut String) -> Result<()> {
    match kind(text) {
        Kind::Object => {
            out.push('{');
            let mut is_first = true;
            for (key, value) in pairs(text)? {
                if kind(value) == Kind::Null {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    out.push(',');
                }
                crate::string::quoted(&key, out);
                out.push(':');
                put_without_nulls(value, out)?;
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (at, element) in elements(text)?.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put_without_nulls(element, out)?;
            }
            out.push(']');
        }
        Kind::String => {
            let mut parser = Parser::new(text);
            parser.token(true)?;
            crate::string::quoted(&parser.take_string(), out);
        }
        _ => out.push_str(text.trim_matches([' ', '\t', '\n', '\r'])),
    }
    Ok(())
}

/// Errors: 22023 unless the value is an array: `cannot … a scalar`, `cannot … a non-array`.
pub fn require_array(kind: Kind, action: &str) -> Result<()> {
    match kind {
        Kind::Array => Ok(()),
        Kind::Object => Err(JsonError::invalid(format!("cannot {action} a non-array"))),
        _ => Err(JsonError::invalid(format!("cannot {action} a scalar"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_the_text() {
        let text = r#" { "a" : [1, {"b": "x\ny"} , null ] , "é\u0041": 2 , "a": 3.50 } "#;
        assert_eq!(get(text, "a").unwrap(), Some("3.50"));
        assert_eq!(get(text, "éA").unwrap(), Some("2"));
        assert_eq!(pairs(text).unwrap().len(), 3);
        let array = pairs(text).unwrap()[0].1;
        assert_eq!(array, r#"[1, {"b": "x\ny"} , null ]"#);
        assert_eq!(at(array, 1).unwrap(), Some(r#"{"b": "x\ny"}"#));
        assert_eq!(at(array, -1).unwrap(), Some("null"));
        assert_eq!(at(array, 3).unwrap(), None);
        assert_eq!(plain(r#""x\ny""#).unwrap().as_deref(), Some("x\ny"));
        assert_eq!(plain(" null").unwrap(), None);
        assert!(elements("[ ]").unwrap().is_empty());
        assert_eq!(without_nulls(text).unwrap(), r#"{"a":[1,{"b":"x\ny"},null],"éA":2,"a":3.50}"#);
    }
}
