//! COPY with a file on this side: `\copy`, and `COPY … FROM 'file'` into an embedded database,
//! whose data the shell reads itself so that a bar can show the progress.

/// The source or destination of a COPY's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPlace {
    /// A file of this machine.
    File(String),
    /// Standard input or output.
    Standard,
}

/// A COPY split into the statement for the database and the place on this side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// `COPY … FROM STDIN …` or `COPY … TO STDOUT …`.
    pub statement: String,
    /// Whether data go into the database.
    pub into: bool,
    /// The source or destination on this side.
    pub place: CopyPlace,
}

/// Reads the rest of a `\copy` line.
pub fn client_side(rest: &str) -> Result<Copy, String> {
    let (what, into, after) = split(rest).ok_or("\\copy: TABLE FROM FILE, or TABLE TO FILE")?;
    let (place, options) = place(after);
    if place == CopyPlace::File(String::new()) {
        return Err("\\copy: which file?".to_owned());
    }
    Ok(Copy { statement: statement(what, into, options), into, place })
}

/// Reads a `COPY … FROM 'file'` statement in a text format; `None` for anything else. Parquet is
/// excluded, because it is not read from front to back.
pub fn from_file(text: &str) -> Option<Copy> {
    let text = super::scan::statements(text).first()?.1.trim_end_matches(';');
    let rest =
        text.get(..4).filter(|word| word.eq_ignore_ascii_case("copy")).map(|_| &text[4..])?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let (what, into, after) = split(rest)?;
    let (place, options) = place(after);
    let is_parquet = after.to_ascii_lowercase().contains("parquet");
    match &place {
        CopyPlace::File(_) if into && after.starts_with('\'') && !is_parquet => {
            Some(Copy { statement: statement(what, into, options), into, place })
        }
        _ => None,
    }
}

/// Whether `text` is a COPY whose data follow in the input.
pub fn is_from_stdin(text: &str) -> bool {
    let Some((_, text)) = super::scan::statements(text).first().copied() else { return false };
    let is_copy = text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("copy "));
    is_copy
        && split(&text[5..]).is_some_and(|(_, into, after)| {
            into && after.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("stdin"))
        })
}

/// A writer that keeps nothing back.
pub struct Prompt<'a>(pub &'a mut dyn std::io::Write);

impl std::io::Write for Prompt<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.0.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Whether `text` is a SUBSCRIBE.
pub fn is_subscription(text: &str) -> bool {
    first_word(text).is_some_and(|(word, _)| word.eq_ignore_ascii_case("subscribe"))
}

/// The first word of a statement, and what follows it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let (_, text) = super::scan::statements(text).first().copied()?;
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(text.split_at(end))
}

/// Whether `text` is a statement that answers with data of a COPY: `COPY … TO STDOUT` and SUBSCRIBE.
pub fn is_to_stdout(text: &str) -> bool {
    let Some((word, rest)) = first_word(text) else { return false };
    let is_copy = word.eq_ignore_ascii_case("copy");
    let out = |(_, into, after): (&str, bool, &str)| {
        !into && after.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("stdout"))
    };
    is_subscription(text) || is_copy && split(rest).is_some_and(out)
}

fn statement(what: &str, into: bool, options: &str) -> String {
    let end = if into { "FROM STDIN" } else { "TO STDOUT" };
    format!("COPY {} {end} {options}", what.trim()).trim_end().to_owned()
}

/// Splits a COPY at FROM or TO: the text before, which of the two it is, and the text behind.
/// Parentheses and quotes are skipped.
fn split(text: &str) -> Option<(&str, bool, &str)> {
    let (mut depth, mut quote) = (0_i32, None);
    let mut word_start = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        let within = quote.is_some() || depth > 0 || !c.is_alphanumeric() && c != '_';
        if !within {
            word_start.get_or_insert(at);
            continue;
        }
        if let Some(start) = word_start.take() {
            let into = text[start..at].eq_ignore_ascii_case("from");
            if (into || text[start..at].eq_ignore_ascii_case("to")) && c.is_whitespace() {
                return Some((&text[..start], into, text[at..].trim_start()));
            }
        }
    }
    None
}

/// Splits off the file or STDIN at the start of `text`; returns it and the rest.
fn place(text: &str) -> (CopyPlace, &str) {
    if let Some(rest) = text.strip_prefix('\'') {
        let mut end = rest.len();
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\'' && chars.next_if(|(_, next)| *next == '\'').is_none() {
                end = at;
                break;
            }
        }
        let options = rest.get(end + 1..).unwrap_or("").trim();
        return (CopyPlace::File(rest[..end].replace("''", "'")), options);
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, options) = (&text[..end], text[end..].trim());
    let standard = ["stdin", "stdout", "pstdin", "pstdout"];
    if standard.contains(&word.to_ascii_lowercase().as_str()) {
        return (CopyPlace::Standard, options);
    }
    (CopyPlace::File(word.to_owned()), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(statement: &str, into: bool, file: &str) -> Copy {
        Copy { statement: statement.into(), into, place: CopyPlace::File(file.into()) }
    }

    #[test]
    fn client_side_copies_become_copies_with_standard_streams() {
        let cases = [
            (
                "t from 'a b.csv' with (format csv)",
                copy("COPY t FROM STDIN with (format csv)", true, "a b.csv"),
            ),
            ("t(a, b) FROM x.csv csv", copy("COPY t(a, b) FROM STDIN csv", true, "x.csv")),
            (
                "(SELECT ' to ' FROM t) TO 'o''x.csv'",
                copy("COPY (SELECT ' to ' FROM t) TO STDOUT", false, "o'x.csv"),
            ),
            ("\"from\" to y", copy("COPY \"from\" TO STDOUT", false, "y")),
        ];
        for (line, expected) in cases {
            assert_eq!(client_side(line), Ok(expected), "{line}");
        }
        assert_eq!(client_side("t to stdout").unwrap().place, CopyPlace::Standard);
        assert!(client_side("t").is_err());
        assert!(client_side("t from ").is_err());
    }

    #[test]
    fn only_text_files_into_the_database_are_fed_from_here() {
        let fed = from_file("COPY t FROM 'x.csv' WITH (FORMAT csv);");
        assert_eq!(fed, Some(copy("COPY t FROM STDIN WITH (FORMAT csv)", true, "x.csv")));
        for text in [
            "COPY t FROM 'x.parquet'",
            "COPY t FROM 'x' (FORMAT PARQUET)",
            "COPY t TO 'x.csv'",
            "COPY t FROM STDIN",
            "COPYING t FROM 'x'",
            "SELECT 1",
        ] {
            assert_eq!(from_file(text), None, "{text}");
        }
    }

    #[test]
    fn a_copy_whose_data_follow_is_known() {
        assert!(is_from_stdin("copy t (a) from stdin with (format csv);"));
        assert!(!is_from_stdin("COPY t FROM 'stdin'"));
        assert!(!is_from_stdin("COPY t TO STDOUT"));
        for text in
            ["COPY t TO STDOUT", "copy(select ' to ' x)to stdout (format csv);", "SUBSCRIBE v"]
        {
            assert!(is_to_stdout(text), "{text}");
        }
        for text in ["COPY t FROM STDIN", "COPY t TO '/tmp/stdout'", "SELECT 1", "SUBSCRIBER"] {
            assert!(!is_to_stdout(text), "{text}");
        }
    }
}
