//! Comments that drivers and frameworks put behind a statement to say where it comes from, in the form that
//! sqlcommenter has given them: `SELECT 1 /*route='%2Fhome',traceparent='00-…-…-01'*/`.
//!
//! Keys and values are URL-encoded, and quotes within a value are written `\'`.

use crate::context::Context;

/// The longest comment that is looked at, in bytes.
const BYTES_MAX: usize = 4096;

/// A statement's text in front of its comment, and the comment's pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commented<'t> {
    /// The text without the comment.
    pub text: &'t str,
    pairs: &'t str,
}

impl<'t> Commented<'t> {
    /// Divides a text that ends with such a comment; `None` if it ends otherwise. Of a text without one only the end
    /// is looked at.
    ///
    /// The text in front means the same to the parser: a comment that begins within a string or another comment is
    /// followed by the rest of that, so that a text whose last bytes are this one's is unfinished either way.
    pub fn divide(text: &'t str) -> Option<Commented<'t>> {
        let end = text.trim_end_matches([' ', '\t', '\r', '\n', ';']);
        let inner = end.strip_suffix("*/")?;
        let from = inner.len().saturating_sub(BYTES_MAX);
        let begin = from + inner.as_bytes()[from..].windows(2).rposition(|two| two == b"/*")?;
        let pairs = inner[begin + 2..].trim_matches([' ', '\t', '\r', '\n']);
        let is_one = !pairs.is_empty() && Pairs(pairs).all(|pair| pair.is_some());
        is_one.then(|| Commented { text: &text[..begin], pairs })
    }

    /// The decoded value of a key; `None` if the comment has no such key.
    pub fn value(&self, key: &str) -> Option<String> {
        let mut pairs = Pairs(self.pairs).flatten();
        pairs.find(|(name, _)| decoded(name) == key).map(|(_, value)| decoded(value))
    }

    /// The client's span, if the comment has a `traceparent`, with its `tracestate`.
    pub fn context(&self) -> Option<Context> {
        let context = Context::parse(&self.value("traceparent")?)?;
        Some(match self.value("tracestate") {
            Some(state) => context.with_state(&state),
            None => context,
        })
    }
}

/// The pairs of a comment, encoded; a `None` ends them if there is something else.
struct Pairs<'t>(&'t str);

impl<'t> Iterator for Pairs<'t> {
    type Item = Option<(&'t str, &'t str)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let pair = pair(self.0);
        match pair {
            Some((_, _, rest)) => self.0 = rest,
            None => self.0 = "",
        }
        Some(pair.map(|(key, value, _)| (key, value)))
    }
}

/// Key and value of the pair that a text begins with, and the text behind the pair and its comma.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = text.split_once('=')?;
    let key = key.trim_matches([' ', '\t', '\r', '\n']);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.%~".contains(&byte);
    let rest = rest.strip_prefix('\'').filter(|_| !key.is_empty() && key.bytes().all(is_plain))?;
    let bytes = rest.as_bytes();
    let mut at = 0;
    while *bytes.get(at)? != b'\'' {
        // A star or a backslash at the wrong place may belong to something else than a comment's value.
        at += match bytes[at] {
            b'\\' if bytes.get(at + 1) == Some(&b'\'') => 2,
            b'\\' | b'*' | b'"' | b'$' => return None,
            _ => 1,
        };
    }
    let behind = rest[at + 1..].trim_start_matches([' ', '\t', '\r', '\n']);
    match behind.strip_prefix(',') {
        Some(more) if !more.trim().is_empty() => Some((key, &rest[..at], more)),
        None if behind.is_empty() => Some((key, &rest[..at], behind)),
        _ => None,
    }
}

/// What an encoded text stands for; bytes that are no UTF-8 become question marks of Unicode.
fn decoded(text: &str) -> String {
    let text = text.replace("\\'", "'");
    percent_decoded(&text)
}

/// A text with `%2F` and the like replaced by the bytes that they stand for.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = (first == b'%').then(|| behind.get(..2)).flatten();
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn comments_of_frameworks_are_divided_from_the_statement() {
        let text = format!(
            "SELECT 1 /*db_driver='django%3A2.2',route='%2Fa%20b',traceparent='{PARENT}',tracestate='congo%3Dt61'*/ ; "
        );
        let commented = Commented::divide(&text).expect("a comment");
        assert_eq!(commented.text, "SELECT 1 ");
        assert_eq!(commented.value("db_driver").as_deref(), Some("django:2.2"));
        assert_eq!(commented.value("route").as_deref(), Some("/a b"));
        assert_eq!(commented.value("else"), None);
        let context = commented.context().expect("a context");
        assert_eq!((context.to_string().as_str(), &*context.state), (PARENT, "congo=t61"));
        let quoted = Commented::divide(r"SELECT 1/* k='it\'s' */").expect("blanks and a quote");
        assert_eq!(quoted.value("k").as_deref(), Some("it's"));
        assert_eq!(quoted.context(), None);
    }

    #[test]
    fn what_is_no_such_comment_stays() {
        let others = [
            "SELECT 1",
            "SELECT 1 /* why */",
            "SELECT 1 /**/",
            "SELECT 1 /*+ hint */",
            "SELECT 1 /*k=1*/",
            "SELECT 1 /*k='1'",
            "SELECT 1 /*k='1',*/",
            "SELECT 1 /*k='1' j='2'*/",
            "SELECT 1 /*k='a*b'*/",
            "SELECT '/*k='1'*/'",
            "*/",
            "/*/",
            "",
        ];
        for text in others {
            assert_eq!(Commented::divide(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(
            before in "\\PC{0,20}",
            inner in "[a-z=',%/*\\\\ é0-9-]{0,40}",
            after in "[ ;]{0,2}",
        ) {
            let text = format!("{before}/*{inner}*/{after}");
            if let Some(commented) = Commented::divide(&text) {
                let _ = (commented.context(), commented.value("k"));
                prop_assert!(text.starts_with(commented.text));
            }
            let _ = Commented::divide(&before);
            let _ = Commented::divide(&inner);
            percent_decoded(&inner);
        }

        #[test]
        fn a_written_comment_is_read(value in "\\PC{0,20}") {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let text = format!("SELECT 1 /*k='{encoded}'*/");
            let commented = Commented::divide(&text).expect("a comment");
            prop_assert_eq!(commented.value("k"), Some(value));
        }
    }
}
