//! `array_fill`: an array of one value.

use super::{Gives, Kind, Row, error, list};
use halcyon_sql::error::{SqlError, SqlState};

/// The most elements of an array.
const MOST: i64 = 1 << 20;

pub(super) const ROWS: &[Row] = &[Row::new(
    "array_fill",
    "The array that has a value as often as the one element of the second argument says.",
    &[Kind::Each, Kind::Each],
    Gives::Filled,
    |args| {
        let Some(counts) = args.list(1)? else {
            let message = "dimension array or low bound array cannot be null";
            return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        let [count] = &counts[..] else {
            return Err(SqlError::unsupported("array_fill with several dimensions"));
        };
        let count: i64 = count.to_string().parse().unwrap_or(0);
        if count > MOST {
            let message = format!("array size exceeds the maximum allowed ({MOST})");
            return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let bytes = (args.values[0].size() as u64).saturating_mul(count.max(0) as u64);
        // The values and the array of them.
        SqlError::unless_refused(bytes.saturating_mul(2))?;
        let items = vec![args.values[0].clone(); usize::try_from(count).unwrap_or(0)];
        Ok(list(&items, &args.values[0].data_type()))
    },
)
.of_null()];
