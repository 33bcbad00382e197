//! `x = ANY (array)`: the type in which its items are compared, and `x IN (…)` in its place in an execution, where the array
//! is known: scans, zone maps and joins know lists, and a list is searched by its hash, an array from its begin for each row.
//!
//! While a statement is planned, the other way round: a long list of constants is one constant, an array
//! ([`crate::long_lists`]).

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use halcyon_sql::meeting_types::{Beside, common_type};

/// Elements of an array that becomes a list: each is an expression then.
const LIST_MAX: usize = 131_072;

/// The fewest constants of a list that are an array while the statement is planned.
const ARRAY_LEAST: usize = 128;

/// The type to which `=` converts a value, or the items of an array that it is compared with, or both; `None` if they are
/// of one type, or of two that do not compare.
pub fn compared_as(item: &DataType, of: &DataType) -> Option<DataType> {
    if item == of {
        return None;
    }
    match common_type([item, of].into_iter(), Beside::Compared) {
        Some((common, is_converted)) if is_converted(item) || is_converted(of) => Some(common),
        _ => comparison_coercion(item, of),
    }
}

/// The call as a list if it is `array_has` of an array that is known; as it was else: of no array, an empty one (in
/// which NULL is not, either), one of many elements, and one of elements that no hash tells apart as `=` does.
pub fn as_list(call: ScalarFunction) -> Result<Transformed<Expr>> {
    let list = match (call.func.name(), call.args.as_slice()) {
        ("array_has", [array, _]) => elements(array)?,
        _ => None,
    };
    let Some(list) = list else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
    let of = call.args.into_iter().nth(1).expect("just seen");
    Ok(Transformed::yes(Expr::InList(InList { expr: Box::new(of), list, negated: false })))
}

fn elements(array: &Expr) -> Result<Option<Vec<Expr>>> {
    let array = match array {
        Expr::Literal(array, _) => array.clone(),
        Expr::Cast(Cast { expr, field }) => match &**expr {
            Expr::Literal(array, _) => array.cast_to(field.data_type())?,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let ScalarValue::List(array) = array else { return Ok(None) };
    if array.is_null(0) {
        return Ok(None);
    }
    let values = array.value(0);
    if !is_hashed(values.data_type()) || values.is_empty() || values.len() > LIST_MAX {
        return Ok(None);
    }
    let literal = |at| Ok(Expr::Literal(ScalarValue::try_from_array(&values, at)?, None));
    (0..values.len()).map(literal).collect::<Result<Vec<_>>>().map(Some)
}

/// Whether a hash tells values of a type apart as `=` does.
pub(crate) fn is_hashed(ty: &DataType) -> bool {
    !matches!(ty, DataType::Interval(_) | DataType::List(_)) && !ty.is_floating()
}

/// Whether so many constants are one array while a statement is planned.
pub(crate) fn are_many(count: usize) -> bool {
    (ARRAY_LEAST..=LIST_MAX).contains(&count)
}

/// Whether a call asks for a value in a long constant array.
pub fn is_of_long_array(call: &ScalarFunction) -> bool {
    call.func.name() == "array_has" && call.args.first().is_some_and(is_long_array)
}

/// Whether an expression is a constant array that stays one while a statement is planned.
pub(crate) fn is_long_array(array: &Expr) -> bool {
    let Expr::Literal(ScalarValue::List(array), _) = array else { return false };
    array.is_valid(0) && is_hashed(&array.value_type()) && are_many(array.value(0).len())
}

/// The call as a list if its array is a long constant one.
pub fn as_long_list(array: &Expr, of: &Expr) -> Result<Option<InList>> {
    let list = if is_long_array(array) { elements(array)? } else { None };
    Ok(list.map(|list| InList { expr: Box::new(of.clone()), list, negated: false }))
}
