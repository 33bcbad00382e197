//! Texts of statements without what they are about: literals become `?`, as the semantic conventions have it, since
//! they may be anybody's secrets; comments go.

/// The text with `?` for every string and number. A text that is cut off is read as far as it goes.
pub fn sanitised(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => literal(&mut out, quoted(rest, '\'', false)),
            '"' => copied(&mut out, rest, quoted(rest, '"', false)),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '$' => match dollar_quoted(rest) {
                Some(length) => literal(&mut out, length),
                None => copied(&mut out, rest, 1 + run(&rest[1..], |c| c.is_ascii_digit())),
            },
            '0'..='9' => literal(&mut out, number(rest)),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                literal(&mut out, number(rest))
            }
            first if is_word(first) => {
                let length = run(rest, |c| is_word(c) || c == '$');
                let (word, behind) = rest.split_at(length);
                match (word.to_ascii_lowercase().as_str(), behind.starts_with('\'')) {
                    ("e", true) => literal(&mut out, length + quoted(behind, '\'', true)),
                    ("b" | "x" | "n", true) => {
                        literal(&mut out, length + quoted(behind, '\'', false))
                    }
                    _ => copied(&mut out, rest, length),
                }
            }
            first => copied(&mut out, rest, first.len_utf8()),
        };
        rest = &rest[length..];
    }
    out.truncate(out.trim_end().len());
    out
}

fn literal(out: &mut String, length: usize) -> usize {
    out.push('?');
    length
}

fn copied(out: &mut String, rest: &str, length: usize) -> usize {
    out.push_str(&rest[..length]);
    length
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Bytes of the characters at the start that are of a kind.
fn run(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

/// Bytes up to the closing quote, which doubled is a quote within; with `escapes` a backslash hides the next byte.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' if escapes && at + 1 < bytes.len() => 2,
            byte if byte == quote as u8 && bytes.get(at + 1) == Some(&byte) => 2,
            byte if byte == quote as u8 => return at + 1,
            _ => 1,
        };
        // A backslash may hide the first byte of a longer character.
        while at < bytes.len() && !text.is_char_boundary(at) {
            at += 1;
        }
    }
    bytes.len()
}

/// Bytes of a string in dollar quotes; `None` if there is none.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = 1 + run(&text[1..], is_word);
    let is_tag = !text[1..].starts_with(|c: char| c.is_ascii_digit());
    let quote = text.get(..=tag).filter(|quote| is_tag && quote.ends_with('$'))?;
    let behind = &text[quote.len()..];
    Some(behind.find(quote).map_or(text.len(), |end| quote.len() + end + quote.len()))
}

/// Bytes of a number.
fn number(text: &str) -> usize {
    let digits = |text: &str| run(text, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    let length = digits(text);
    // The sign of an exponent is part of the number.
    let signed = text[..length].ends_with(['e', 'E']) && !text.starts_with("0x");
    match text[length..].strip_prefix(['+', '-']).filter(|_| signed) {
        Some(behind) if behind.starts_with(|c: char| c.is_ascii_digit()) => {
            length + 1 + digits(behind)
        }
        _ => length,
    }
}

/// Bytes of a comment, which may have others within.
fn comment(text: &str) -> usize {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn literals_become_placeholders_and_names_stay() {
        for (text, expected) in [
            ("SELECT a1, \"b 2\" FROM t WHERE id = 7", "SELECT a1, \"b 2\" FROM t WHERE id = ?"),
            ("SELECT 'it''s', E'a\\'b', x'ff', $$c$$, $q$ $$ $q$", "SELECT ?, ?, ?, ?, ?"),
            ("SELECT -1.5e-3 + .5 + 0xff - 1_000", "SELECT -? + ? + ? - ?"),
            (
                "UPDATE t SET a = $1 /* /* 'x' */ 2 */ WHERE b < $12",
                "UPDATE t SET a = $1  WHERE b < $12",
            ),
            ("SELECT 1 -- 'secret'\n+ 2", "SELECT ? \n+ ?"),
            ("ALTER ROLE a PASSWORD 'hush'", "ALTER ROLE a PASSWORD ?"),
            ("SELECT 'cut of", "SELECT ?"),
            ("SELECT a$1, été FROM t1", "SELECT a$1, été FROM t1"),
        ] {
            assert_eq!(sanitised(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_no_string_gets_through(
            text in "(\\PC|['\"$/*-]|e'|\\\\){0,40}",
            secret in "[a-z]{12}",
        ) {
            sanitised(&text);
            let told = sanitised(&format!("SELECT 1, '{secret}', {}", "a"));
            prop_assert!(!told.contains(&secret), "{}", told);
        }
    }
}
