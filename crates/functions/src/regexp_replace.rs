//! `regexp_replace`: matches replaced.

use super::growing_text::GrowingText;
use super::regex::{Match, Matches, Options, at_least, compile, start};
use super::{Arguments, Gives, Kind, Row, error, text};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlState};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "regexp_replace",
        "The text with the first match replaced, or with the option `g` each one.",
        &[Kind::Text, Kind::Text, Kind::Text, Kind::Text],
        Gives::Text,
        |args| {
            let letters = args.text(3);
            if letters.starts_with(|c: char| c.is_ascii_digit()) {
                let message = format!("invalid regular expression option: \"{}\"", &letters[..1]);
                let hint = "If you meant to use regexp_replace() with a start parameter, cast the \
                            fourth argument to integer explicitly.";
                return Err(error(SqlState::INVALID_PARAMETER_VALUE, message).hint(hint));
            }
            let options = Options::parse(letters)?;
            replaced(args, options, 0, if options.global { 0 } else { 1 })
        },
    )
    .optional(1),
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
            replaced(args, options, from, if all { 0 } else { number })
        },
    )
    .optional(2),
];

/// Replaces the match of a number, or with 0 all.
fn replaced(
    args: &Arguments<'_>,
    options: Options,
    from: usize,
    number: i64,
) -> Result<ScalarValue> {
    let (whole, replacement) = (args.text(0), args.text(2));
    let regex = compile(args.text(1), options)?;
    let mut out = GrowingText::with_capacity(whole.len())?;
    let mut copied = 0;
    for (at, found) in Matches::new(regex, whole, from).enumerate() {
        let found = found?;
        if number > 0 && (at as i64) + 1 < number {
            continue;
        }
        out.push_str(&whole[copied..found.whole.0])?;
        push(&mut out, replacement, whole, &found)?;
        copied = found.whole.1;
        if number > 0 {
            break;
        }
    }
    out.push_str(&whole[copied..])?;
    Ok(text(out.into_string()))
}

/// Appends a replacement, in which `\1` is the first part in parentheses and `\&` the match.
fn push(out: &mut GrowingText, replacement: &str, whole: &str, found: &Match) -> Result<()> {
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at])?;
        rest = &rest[at + 1..];
        let place = match rest.bytes().next() {
            Some(digit @ b'1'..=b'9') => {
                found.parts.get(usize::from(digit - b'1')).copied().flatten()
            }
            Some(b'&') => Some(found.whole),
            Some(b'\\') => {
                out.push('\\')?;
                None
            }
            _ => {
                out.push('\\')?;
                continue;
            }
        };
        if let Some((from, to)) = place {
            out.push_str(&whole[from..to])?;
        }
        rest = &rest[1..];
    }
    out.push_str(rest)
}
