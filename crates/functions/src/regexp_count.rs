//! `regexp_count` and `regexp_like`: how many matches there are, and whether there is one.

use super::regex::{Matches, Options, compile, start};
use super::{Gives, Kind, Row, integer};
use datafusion::common::ScalarValue;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "regexp_count",
        "How many matches there are from a character on.",
        &[Kind::Text, Kind::Text, Kind::Integer, Kind::Text],
        Gives::Integer,
        |args| {
            let from = start(args.text(0), args.integer_or(2, 1))?;
            let options = Options::without_global(args.text(3), "regexp_count", None)?;
            let regex = compile(args.text(1), options)?;
            let Some(from) = from else { return Ok(integer(0)) };
            let mut matches = Matches::new(regex, args.text(0), from);
            let count = matches.try_fold(0, |count, found| found.map(|_| count + 1))?;
            Ok(integer(count))
        },
    )
    .optional(2),
    Row::new(
        "regexp_like",
        "Whether there is a match.",
        &[Kind::Text, Kind::Text, Kind::Text],
        Gives::Bool,
        |args| {
            let options = Options::without_global(args.text(2), "regexp_like", None)?;
            let regex = compile(args.text(1), options)?;
            Ok(ScalarValue::Boolean(Some(regex.is_match(args.text(0))?)))
        },
    )
    .optional(1),
];
