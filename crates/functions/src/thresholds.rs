//! `width_bucket(value, thresholds)`: the bucket of a histogram whose bounds are listed.

use super::{Gives, Kind, Row, error, integer};
use halcyon_sql::error::SqlState;

pub(super) const ROWS: &[Row] = &[Row::new(
    "bucket_of_thresholds",
    "How many of the sorted thresholds are not above the value, as `width_bucket` with an array.",
    &[Kind::Element, Kind::List],
    Gives::Integer,
    |args| {
        let thresholds = args.list(1)?.unwrap_or_default();
        if thresholds.iter().any(datafusion::common::ScalarValue::is_null) {
            let message = "thresholds array must not contain NULLs";
            return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        let value = &args.values[0];
        let below = thresholds.iter().filter(|threshold| {
            threshold.partial_cmp(&value).is_some_and(std::cmp::Ordering::is_le)
        });
        Ok(integer(below.count()))
    },
)];
