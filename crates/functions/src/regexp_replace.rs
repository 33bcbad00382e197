//! `regexp_replace`: matches replaced.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewBuilder};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use halcyon_sql::error::{Result, SqlError, SqlState};

use super::growing_text::GrowingText;
use super::regex::{Options, at_least, compile, next_match, start};
use super::search::Search;
use super::{Arguments, BYTES_MAX, Gives, Kind, Row, error, text};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "regexp_replace",
        "The text with the first match replaced, or with the option `g` each one.",
        &[Kind::Text, Kind::Text, Kind::Text, Kind::Text],
        Gives::Text,
        |args| {
            let options = letters(args.text(3))?;
            replaced(args, options, Wanted { from: 0, number: u32::from(!options.global) })
        },
    )
    .optional(1)
    .by_batch(of_batch),
    Row::new(
        "regexp_replace",
        "The text with the match of a number replaced, counted from a character on; of number 0, each.",
        &[Kind::Text, Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Text],
        Gives::Text,
        |args| {
            let options = Options::parse(args.text(5))?;
            let number = args.integer_or(4, 1);
            let Some(from) = start(args.text(0), args.integer(3))? else {
                return Ok(text(args.text(0)));
            };
            at_least(number, 0, "n")?;
            let all = options.global && !args.has(4);
            let number = if all { 0 } else { u32::try_from(number).unwrap_or(u32::MAX) };
            replaced(args, options, Wanted { from, number })
        },
    )
    .optional(2),
];

/// The matches of a text that are replaced.
#[derive(Clone, Copy)]
struct Wanted {
    /// The byte from which on matches count.
    from: usize,
    /// The number of the one that is replaced; 0: each.
    number: u32,
}

/// Replaces matches.
fn replaced(args: &Arguments<'_>, options: Options, wanted: Wanted) -> Result<ScalarValue> {
    let mut search = Search::new(compile(args.text(1), options)?);
    let mut out = GrowingText::with_capacity(args.text(0).len())?;
    replace(&mut search, args.text(0), wanted, &Replacement::of(args.text(2)), &mut out)?;
    Ok(text(out.into_string()))
}

/// Texts of a batch with the matches of one expression replaced; `None` if more than the texts differs from row to row.
fn of_batch(args: &[ColumnarValue], rows: usize) -> Result<Option<ArrayRef>> {
    let ColumnarValue::Array(texts) = &args[0] else { return Ok(None) };
    let constants = args[1..].iter().map(|arg| match arg {
        ColumnarValue::Scalar(value) => value.try_as_str().flatten(),
        ColumnarValue::Array(_) => None,
    });
    let Some(constants) = constants.collect::<Option<Vec<&str>>>() else { return Ok(None) };
    let (Some(texts), Ok(options)) =
        (texts.as_string_view_opt(), letters(constants.get(2).copied().unwrap_or_default()))
    else {
        return Ok(None);
    };
    let wanted = Wanted { from: 0, number: u32::from(!options.global) };
    // A wrong expression is no mistake where all texts are NULL.
    let mut search = None;
    let replacement = Replacement::of(constants[1]);
    let mut out = GrowingText::default();
    let mut made = StringViewBuilder::with_capacity(rows);
    let mut bytes = 0;
    let mut before = None;
    for whole in texts {
        SqlError::unless_interrupted()?;
        let Some(whole) = whole else {
            made.append_null();
            continue;
        };
        // Rows beside each other often have the same text.
        if before != Some(whole) {
            out.clear();
            let search = match &mut search {
                Some(search) => search,
                none => none.insert(Search::new(compile(constants[0], options)?)),
            };
            replace(search, whole, wanted, &replacement, &mut out)?;
            before = Some(whole);
        }
        bytes += size_of::<ScalarValue>() + out.as_str().len();
        if bytes > BYTES_MAX {
            let message = "requested length too large";
            return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        made.append_value(out.as_str());
    }
    Ok(Some(Arc::new(made.finish())))
}

/// The options of a call. Errors: 22023.
fn letters(letters: &str) -> Result<Options> {
    if letters.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid regular expression option: \"{}\"", &letters[..1]);
        let hint = "If you meant to use regexp_replace() with a start parameter, cast the \
                    fourth argument to integer explicitly.";
        return Err(error(SqlState::INVALID_PARAMETER_VALUE, message).hint(hint));
    }
    Options::parse(letters)
}

/// Appends a text with matches replaced.
fn replace(
    search: &mut Search,
    whole: &str,
    wanted: Wanted,
    replacement: &Replacement<'_>,
    out: &mut GrowingText,
) -> Result<()> {
    let (mut copied, mut from, mut count) = (0, wanted.from, 0_u32);
    while let Some(found) = next_match(search, whole, &mut from, &mut count)? {
        if count < wanted.number {
            continue;
        }
        out.push_str(&whole[copied..found.0])?;
        replacement.push(search, whole, out)?;
        copied = found.1;
        if wanted.number > 0 {
            break;
        }
    }
    out.push_str(&whole[copied..])
}

/// A text that takes the place of matches.
struct Replacement<'a>(Vec<Part<'a>>);

enum Part<'a> {
    Text(&'a str),
    /// A part of the match; 0: all of it.
    OfMatch(usize),
}

impl<'a> Replacement<'a> {
    /// Reads a text in which `\1` is the first part in parentheses and `\&` the match.
    fn of(text: &'a str) -> Self {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find('\\') {
            parts.push(Part::Text(&rest[..at]));
            let after = &rest[at + 1..];
            let (part, read) = match after.bytes().next() {
                Some(digit @ b'1'..=b'9') => (Part::OfMatch(usize::from(digit - b'0')), 1),
                Some(b'&') => (Part::OfMatch(0), 1),
                Some(b'\\') => (Part::Text("\\"), 1),
                _ => (Part::Text("\\"), 0),
            };
            parts.push(part);
            rest = &after[read..];
        }
        parts.push(Part::Text(rest));
        Replacement(parts)
    }

    /// Appends the replacement of the match that was found last.
    fn push(&self, search: &Search, whole: &str, out: &mut GrowingText) -> Result<()> {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text)?,
                Part::OfMatch(part) => {
                    let place =
                        if *part < search.parts() { search.place(*part, whole) } else { None };
                    if let Some((from, to)) = place {
                        out.push_str(&whole[from..to])?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, StringViewArray};

    use super::*;

    #[test]
    fn a_batch_has_what_each_value_gives() {
        let texts =
            [Some("http://www.a.de/x/y"), None, Some(""), Some("aab"), Some("aab"), Some("b\\1")];
        let column = ColumnarValue::Array(Arc::new(StringViewArray::from(texts.to_vec())));
        let scalar = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        let mut compared = 0;
        for pattern in ["^http://(?:www\\.)?([^/]+)/.*$", "a", "(a)|(b)", "", "x*", "(", "a.*"] {
            for replacement in ["", "\\1", "<\\2\\&>", "\\", "\\\\1", "\\9ü"] {
                for letters in ["", "g", "i", "1", "z"] {
                    let constants = [pattern, replacement, letters].map(scalar);
                    let mut args = vec![column.clone()];
                    args.extend(constants.clone().map(ColumnarValue::Scalar));
                    let whole = of_batch(&args, texts.len());
                    let one = |text: &str| {
                        let values = [&[scalar(text)], &constants[..]].concat();
                        (ROWS[0].eval)(&Arguments { values: &values })
                    };
                    let expected: Result<Vec<_>> =
                        texts.iter().map(|text| text.map(one).transpose()).collect();
                    match (whole, expected) {
                        (Ok(Some(whole)), Ok(expected)) => {
                            for (at, expected) in expected.into_iter().enumerate() {
                                let got = ScalarValue::try_from_array(&whole, at).expect("a row");
                                let null = ScalarValue::Utf8View(None);
                                assert_eq!(
                                    got,
                                    expected.unwrap_or(null),
                                    "{pattern} {replacement}"
                                );
                            }
                            assert_eq!(whole.len(), texts.len());
                            compared += 1;
                        }
                        // Letters that are none are told by the first row.
                        (whole, expected) => {
                            expected.expect_err("refused");
                            assert!(!matches!(whole, Ok(Some(_))));
                        }
                    }
                }
            }
        }
        assert_eq!(compared, 6 * 6 * 3);
    }
}
