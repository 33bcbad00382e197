//! `regexp_match`, `regexp_matches`, `substring(text FROM pattern)`: the first match, or all.

use super::regex::{Match, Matches, Options, compile};
use super::{Arguments, Gives, Kind, Row, list, list_of, text, texts};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use halcyon_sql::error::Result;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "regexp_match",
        "The parts in parentheses of the first match, or the match itself.",
        &[Kind::Text, Kind::Text, Kind::Text],
        Gives::Texts,
        |args| {
            let hint = Some("Use the regexp_matches function instead.");
            let options = Options::without_global(args.text(2), "regexp_match", hint)?;
            let found = matches(args, options)?.next().transpose()?;
            found.map_or(Ok(ScalarValue::Null), |found| parts(args.text(0), &found))
        },
    )
    .optional(1),
    Row::new(
        "regexp_match_lists",
        "The parts in parentheses of each match, as the rows of `regexp_matches`.",
        &[Kind::Text, Kind::Text, Kind::Text],
        Gives::ListsOfTexts,
        |args| {
            let options = Options::parse(args.text(2))?;
            let count = if options.global { usize::MAX } else { 1 };
            let found = matches(args, options)?.take(count);
            let found: Vec<ScalarValue> =
                found.map(|found| parts(args.text(0), &found?)).collect::<Result<_>>()?;
            Ok(list(&found, &list_of(DataType::Utf8View)))
        },
    )
    .optional(1),
    Row::new(
        "substring_by_pattern",
        "The first match, or the first part of the match in parentheses. As `substring` by a pattern.",
        &[Kind::Text, Kind::Text],
        Gives::Text,
        |args| {
            let Some(found) = matches(args, Options::default())?.next().transpose()? else {
                return Ok(ScalarValue::Null);
            };
            let part = found.parts.first().copied().unwrap_or(Some(found.whole));
            Ok(part.map_or(ScalarValue::Null, |(from, to)| text(&args.text(0)[from..to])))
        },
    ),
];

fn matches<'a>(args: &'a Arguments<'_>, options: Options) -> Result<Matches<'a>> {
    Ok(Matches::new(compile(args.text(1), options)?, args.text(0), 0))
}

/// The parts of a match; without parentheses the match itself.
fn parts(whole: &str, found: &Match) -> Result<ScalarValue> {
    let part = |place: &Option<(usize, usize)>| place.map(|(from, to)| &whole[from..to]);
    match found.parts.is_empty() {
        true => texts(&[part(&Some(found.whole))]),
        false => texts(&found.parts.iter().map(part).collect::<Vec<_>>()),
    }
}
