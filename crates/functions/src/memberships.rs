//! `x = ANY (array)`: the type in which its items are compared, and `x IN (…)` in its place in an execution, where the array
//! is known: scans, zone maps and joins know lists, and a list is searched by its hash, an array from its begin for each row.

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
    let is_hashed = match values.data_type() {
        DataType::Interval(_) | DataType::List(_) => false,
        ty => !ty.is_floating(),
    };
    if !is_hashed || values.is_empty() || values.len() > LIST_MAX {
        return Ok(None);
    }
    let literal = |at| Ok(Expr::Literal(ScalarValue::try_from_array(&values, at)?, None));
    (0..values.len()).map(literal).collect::<Result<Vec<_>>>().map(Some)
}
