//! `array_position` and `array_positions`: the places of a value in an array.

use super::{Arguments, Gives, Kind, Row, error, integer, list};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlState};

const POSITION: Row = Row::new(
    "array_position",
    "The first subscript, from the third argument on, at which a value stands in the array.",
    &[Kind::List, Kind::Element, Kind::Integer],
    Gives::Integer,
    position,
)
.optional(1)
.of_null();

const POSITIONS: Row = Row::new(
    "array_positions",
    "The subscripts at which a value stands in the array.",
    &[Kind::List, Kind::Element],
    Gives::Integers,
    |args| {
        let Some(items) = args.list(0)? else { return Ok(ScalarValue::Null) };
        let found = items.iter().enumerate().filter(|(_, item)| **item == args.values[1]);
        let places: Vec<ScalarValue> = found.map(|(at, _)| integer(at + 1)).collect();
        Ok(list(&places, &DataType::Int32))
    },
)
.of_null();

pub(super) const ROWS: &[Row] = &[POSITION, POSITIONS];

fn position(args: &Arguments<'_>) -> Result<ScalarValue> {
    let Some(items) = args.list(0)? else { return Ok(ScalarValue::Null) };
    let begin = match args.has(2) {
        true if args.values[2].is_null() => {
            let message = "initial position must not be null";
            return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        true => usize::try_from(args.integer(2).saturating_sub(1)).unwrap_or(0),
        false => 0,
    };
    let mut items = items.iter().enumerate().skip(begin);
    let found = items.find(|(_, item)| **item == args.values[1]);
    Ok(found.map_or(ScalarValue::Null, |(at, _)| integer(at + 1)))
}
