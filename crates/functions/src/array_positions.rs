//! `array_positions`: the places of a value in an array.

use super::{Gives, Kind, Row, integer, list};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

pub(super) const ROWS: &[Row] = &[Row::new(
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
.of_null()];
