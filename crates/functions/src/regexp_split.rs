//! `regexp_split_to_array`: a text cut at the matches.

use super::regex::{Matches, Options, compile};
use super::{Gives, Kind, Row, texts};

pub(super) const ROWS: &[Row] = &[Row::new(
    "regexp_split_to_array",
    "The parts of the text between the matches. `regexp_split_to_table` gives them as rows.",
    &[Kind::Text, Kind::Text, Kind::Text],
    Gives::Texts,
    |args| {
        let options = Options::without_global(args.text(2), "regexp_split_to_array", None)?;
        let whole = args.text(0);
        let (mut parts, mut last) = (Vec::new(), 0);
        for found in Matches::new(compile(args.text(1), options)?, whole, 0) {
            let (from, to) = found?.whole;
            // An empty match at an end of the text, or behind another match, separates nothing.
            if from < whole.len() && to > last {
                parts.push(Some(&whole[last..from]));
                last = to;
            }
        }
        parts.push(Some(&whole[last..]));
        texts(&parts)
    },
)
.optional(1)];
