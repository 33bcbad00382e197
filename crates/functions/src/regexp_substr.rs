//! `regexp_substr` and `regexp_instr`: a match of a number, and its place.

use super::regex::{Matches, Options, at_least, compile, start};
use super::{Arguments, Gives, Kind, Row, integer, text};
use datafusion::common::ScalarValue;
use halcyon_sql::error::Result;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "regexp_substr",
        "The match of a number from a character on, or one of the match's parts in parentheses.",
        &[Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Text, Kind::Integer],
        Gives::Text,
        |args| {
            let place = find(args, "regexp_substr", 4)?;
            Ok(place.map_or(ScalarValue::Null, |(from, to)| text(&args.text(0)[from..to])))
        },
    )
    .optional(4),
    Row::new(
        "regexp_instr",
        "The character at which the match begins, or with 1 as fifth argument the one behind.",
        &[
            Kind::Text,
            Kind::Text,
            Kind::Integer,
            Kind::Integer,
            Kind::Integer,
            Kind::Text,
            Kind::Integer,
        ],
        Gives::Integer,
        |args| {
            let end = args.integer_or(4, 0);
            let place = find(args, "regexp_instr", 5)?;
            let characters = |to: usize| args.text(0)[..to].chars().count() + 1;
            Ok(integer(place.map_or(0, |(from, to)| characters(if end == 1 { to } else { from }))))
        },
    )
    .optional(5),
];

/// The place of the match, or of a part. `letters`: the argument with the options; a part's number
/// follows.
fn find(args: &Arguments<'_>, function: &str, letters: usize) -> Result<Option<(usize, usize)>> {
    let from = start(args.text(0), args.integer_or(2, 1))?;
    let number = args.integer_or(3, 1);
    at_least(number, 1, "n")?;
    if letters == 5 {
        let end = args.integer_or(4, 0);
        at_least(if end > 1 { -end } else { end }, 0, "endoption").map_err(|error| {
            let message = format!("invalid value for parameter \"endoption\": {end}");
            super::error(error.state(), message)
        })?;
    }
    let part = args.integer_or(letters + 1, 0);
    at_least(part, 0, "subexpr")?;
    let options = Options::without_global(args.text(letters), function, None)?;
    let regex = compile(args.text(1), options)?;
    let Some(from) = from else { return Ok(None) };
    let nth = usize::try_from(number - 1).unwrap_or(usize::MAX);
    let mut found = None;
    for (at, one) in Matches::new(regex, args.text(0), from).enumerate() {
        let one = one?;
        if at == nth {
            found = Some(one);
            break;
        }
    }
    let Some(found) = found else { return Ok(None) };
    Ok(match usize::try_from(part).unwrap_or(usize::MAX).checked_sub(1) {
        None => Some(found.whole),
        Some(at) => found.parts.get(at).copied().flatten(),
    })
}
