//! The end of a statement in the text typed so far.
//!
//! The scanner knows only the lexical rules that this needs: quotes of all kinds, dollar quotes,
//! and comments (which nest); parentheses do not matter. A statement ends at a `;` outside all of
//! these.

/// The construct that is open at the end of an unfinished text; the prompt shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// None: a statement without its `;`, or no statement.
    Nothing,
    /// `'…`
    Quote,
    /// `"…`
    Identifier,
    /// `$tag$…`
    Dollar,
    /// `/* …`
    Comment,
}

/// The result of a search for the end of the first statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// The statement's `;` stands before this byte.
    Complete(usize),
    /// No `;` yet.
    Incomplete(Open),
}

/// Looks for the end of the first statement of `text`.
pub fn scan(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let step = match bytes[at] {
            b';' => return Scan::Complete(at + 1),
            b'\'' => quoted(rest, '\'', is_escape_string(&text[..at])).ok_or(Open::Quote),
            b'"' => quoted(rest, '"', false).ok_or(Open::Identifier),
            b'$' if !follows_word(&text[..at]) => dollar(rest),
            b'-' if rest.starts_with("--") => Ok(rest.find('\n').unwrap_or(rest.len())),
            b'/' if rest.starts_with("/*") => comment(rest).ok_or(Open::Comment),
            _ => Ok(rest.chars().next().map_or(1, char::len_utf8)),
        };
        match step {
            Ok(step) => at += step,
            Err(open) => return Scan::Incomplete(open),
        }
    }
    Scan::Incomplete(Open::Nothing)
}

/// Splits a whole script into its statements, each with the byte it starts at; the last may lack
/// its `;`. Pieces that hold nothing but blanks and comments are left out.
pub fn statements(script: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < script.len() {
        let end = match scan(&script[start..]) {
            Scan::Complete(length) => start + length,
            Scan::Incomplete(_) => script.len(),
        };
        let piece = &script[start..end];
        let offset = leading(piece);
        if !is_blank(piece) {
            found.push((start + offset, piece[offset..].trim_end()));
        }
        start = end;
    }
    found
}

/// Whether `text` holds nothing but blanks, comments and a `;`.
pub fn is_blank(text: &str) -> bool {
    matches!(text[leading(text)..].trim_end(), "" | ";")
}

/// Length of the blanks and comments that `text` starts with.
fn leading(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        let rest = &rest[blank..];
        let comment = if rest.starts_with("--") {
            rest.find('\n').map_or(rest.len(), |end| end + 1)
        } else if rest.starts_with("/*") {
            comment(rest).unwrap_or(rest.len())
        } else {
            0
        };
        at += blank + comment;
        if comment == 0 {
            return at;
        }
    }
}

/// Length of a quoted piece, its quotes included; a doubled quote stands for itself.
fn quoted(text: &str, quote: char, backslashes: bool) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslashes {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => drop(chars.next()),
                _ => return Some(at + 1),
            }
        }
    }
    None
}

/// Whether the quote after `before` opens an `E'…'` string, in which backslashes escape.
fn is_escape_string(before: &str) -> bool {
    let mut chars = before.chars().rev();
    matches!(chars.next(), Some('e' | 'E'))
        && !chars.next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn follows_word(before: &str) -> bool {
    before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Length of a dollar-quoted piece, or 1 if the `$` does not begin one (as in `$1`).
fn dollar(text: &str) -> Result<usize, Open> {
    let Some(length) = text[1..].find('$') else { return Ok(1) };
    let tag = &text[..length + 2];
    let name = &tag[1..tag.len() - 1];
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if !starts_well || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Ok(1);
    }
    match text[tag.len()..].find(tag) {
        Some(end) => Ok(tag.len() + end + tag.len()),
        None => Err(Open::Dollar),
    }
}

/// Length of a comment; comments nest.
fn comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_a_statement_only_outside_quotes_and_comments() {
        let complete = [
            "SELECT 1;",
            "SELECT ';';",
            "SELECT 'it''s; so';",
            r"SELECT E'\'; x';",
            r"SELECT name'\';",
            "SELECT \"a;b\";",
            "SELECT 1 -- no; end\n;",
            "SELECT /* ; /* ; */ ; */ 1;",
            "SELECT $$ ; ' $$;",
            "SELECT $x$ ; $$ ; $x$;",
            "SELECT $1;",
            "SELECT a$b$c;",
            "SELECT 'ä;ö' , '€';",
        ];
        for text in complete {
            assert_eq!(scan(text), Scan::Complete(text.len()), "{text}");
        }
    }

    #[test]
    fn what_stands_open_is_named() {
        let cases = [
            ("SELECT 1", Open::Nothing),
            ("", Open::Nothing),
            ("SELECT 'a;", Open::Quote),
            (r"SELECT E'\';", Open::Quote),
            ("SELECT \"a;", Open::Identifier),
            ("SELECT $t$ ;", Open::Dollar),
            ("SELECT /* /* */ ;", Open::Comment),
            ("SELECT 1 -- ;", Open::Nothing),
        ];
        for (text, open) in cases {
            assert_eq!(scan(text), Scan::Incomplete(open), "{text}");
        }
    }

    #[test]
    fn a_script_falls_into_its_statements() {
        let script = "-- head\nSELECT 1; ; /* x */ SELECT ';'\n;\n\nSELECT 3 -- tail";
        let found: Vec<&str> = statements(script).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["SELECT 1;", "SELECT ';'\n;", "SELECT 3 -- tail"]);
        assert_eq!(statements(script)[0].0, 8);
        assert!(statements("  -- nothing\n ; ").is_empty());
    }
}
