//! Arrays with elements added, taken away and replaced.

use super::{Arguments, Gives, Kind, Row, error, list, list_of};
use datafusion::common::ScalarValue;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::values::stored;

/// The most elements that an assignment to one of them makes.
const ELEMENTS_MAX: usize = 1 << 20;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "array_append",
        "The array with an element at the end.",
        &[Kind::List, Kind::Element],
        Gives::List,
        |args| {
            let mut items = args.list(0)?.unwrap_or_default();
            items.push(args.values[1].clone());
            Ok(list(&items, &args.element(0)))
        },
    )
    .of_null(),
    Row::new(
        "array_prepend",
        "The array with an element at the start.",
        &[Kind::Element, Kind::List],
        Gives::List,
        |args| {
            let mut items = args.list(1)?.unwrap_or_default();
            items.insert(0, args.values[0].clone());
            Ok(list(&items, &args.element(1)))
        },
    )
    .of_null(),
    Row::new(
        "array_cat",
        "Both arrays, one after the other.",
        &[Kind::List, Kind::List],
        Gives::List,
        |args| {
            let (Some(mut left), Some(right)) = (args.list(0)?, args.list(1)?) else {
                return Ok(args.values[usize::from(args.is_null(0))].clone());
            };
            // `array || array` of arrays with one dimension less is one element more.
            let is_element = list_of(args.element(1)) == args.element(0);
            match is_element {
                true => left.push(args.values[1].clone()),
                false => left.extend(right),
            }
            Ok(list(&left, &args.element(0)))
        },
    )
    .of_null(),
    Row::new(
        "array_remove",
        "The array without the elements that equal a value.",
        &[Kind::List, Kind::Element],
        Gives::List,
        |args| changed(args, |_| None),
    )
    .of_null(),
    Row::new(
        "array_replace",
        "The array with the elements that equal a value replaced by another one.",
        &[Kind::List, Kind::Element, Kind::Element],
        Gives::List,
        |args| changed(args, |args| Some(args.values[2].clone())),
    )
    .of_null(),
    // `array[lower:upper]`, which has no NULL for what lies beyond the array's ends.
    Row::new(
        "array\u{1}slice",
        "The elements between two subscripts.",
        &[Kind::List, Kind::Integer, Kind::Integer],
        Gives::List,
        |args| {
            let mut items = args.list(0)?.unwrap_or_default();
            let place = |at| usize::try_from(args.integer(at)).unwrap_or(0);
            items.truncate(place(2));
            let items = items.get(place(1).max(1) - 1..).unwrap_or_default();
            Ok(list(items, &args.element(0)))
        },
    ),
    // `SET a[2] = x`.
    Row::new(
        "array\u{1}set",
        "The array with another element at a subscript.",
        &[Kind::List, Kind::Integer, Kind::Element],
        Gives::List,
        |args| {
            if args.is_null(1) {
                let message = "array subscript in assignment must not be null";
                return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            let mut items = args.list(0)?.unwrap_or_default();
            let place = usize::try_from(args.integer(1)).ok().and_then(|at| at.checked_sub(1));
            let Some(place) = place.filter(|place| *place == 0 || !items.is_empty()) else {
                return Err(SqlError::unsupported("an array whose subscripts do not begin at 1"));
            };
            if place >= ELEMENTS_MAX {
                let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
                return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            if place >= items.len() {
                let bytes = (place as u64 + 1) * size_of::<ScalarValue>() as u64;
                SqlError::unless_refused(bytes.saturating_mul(2))?;
                let null = ScalarValue::try_from(&args.element(0))
                    .map_err(|error| sql_error(error, ""))?;
                items.resize(place + 1, null);
            }
            items[place] = args.values[2].clone();
            Ok(list(&items, &args.element(0)))
        },
    )
    .of_null(),
    // `ARRAY(SELECT …)`: what was gathered, which is NULL where there was no row.
    Row::new(
        "array\u{1}gathered",
        "The array, empty where it is NULL.",
        &[Kind::List],
        Gives::List,
        |args| match args.is_null(0) {
            true => Ok(list(&[], &args.element(0))),
            false => Ok(args.values[0].clone()),
        },
    )
    .of_null(),
    // The bytes by which arrays are compared.
    Row::new(
        "array\u{1}key",
        "Bytes that order as the arrays do.",
        &[Kind::List],
        Gives::Bytes,
        |args| {
            let column = args.values[0].to_array().map_err(|error| sql_error(error, ""))?;
            let key = stored(&column);
            ScalarValue::try_from_array(&key, 0).map_err(|error| sql_error(error, ""))
        },
    ),
    Row::new(
        "trim_array",
        "The array without so many elements at the end.",
        &[Kind::List, Kind::Integer],
        Gives::List,
        |args| {
            let mut items = args.list(0)?.unwrap_or_default();
            let kept = usize::try_from(args.integer(1)).ok();
            let Some(kept) = kept.and_then(|count| items.len().checked_sub(count)) else {
                let most = items.len();
                let message = format!("number of elements to trim must be between 0 and {most}");
                return Err(error(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            };
            items.truncate(kept);
            Ok(list(&items, &args.element(0)))
        },
    ),
];

/// The array with elements that equal the second argument, NULL among them, taken away or replaced.
fn changed(
    args: &Arguments<'_>,
    by: fn(&Arguments<'_>) -> Option<ScalarValue>,
) -> Result<ScalarValue> {
    let Some(items) = args.list(0)? else { return Ok(ScalarValue::Null) };
    let new = |item: ScalarValue| if item == args.values[1] { by(args) } else { Some(item) };
    let items: Vec<ScalarValue> = items.into_iter().filter_map(new).collect();
    Ok(list(&items, &args.element(0)))
}
