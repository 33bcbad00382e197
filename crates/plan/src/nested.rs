//! Arrays and rows in expressions: their text, their dimensions, and arrays from constants in quotes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use halcyon_sql::coerce::nested::{is_nested, parse_list, write_cell};
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::values::sql_type_of_arrow;

/// The text of an array or a row; `zone` is the session's.
pub(crate) fn text_of(value: Expr, zone: &str) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = NestedText { of: Written::Value, zone: zone.to_owned(), signature };
    ScalarUDF::new_from_impl(function).call(vec![value])
}

/// `array_dims`: the bounds of each dimension, as `[1:2][1:3]`.
pub(crate) fn array_dims() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = NestedText { of: Written::Dimensions, zone: String::new(), signature };
    Arc::new(ScalarUDF::new_from_impl(function))
}

/// An array constant from its text. Errors: 22P02, 0A000, those of the items' type.
pub(crate) fn list_constant(text: &str, ty: &DataType, zone: &TimeZone) -> Result<Expr> {
    let item = match ty {
        DataType::List(item) => sql_type_of_arrow(item.data_type()),
        _ => None,
    };
    let Some(item) = item else {
        return Err(external(SqlError::unsupported("reading an array of arrays")));
    };
    let list = parse_list(text, item, zone).map_err(external)?;
    Ok(Expr::Literal(ScalarValue::try_from_array(&list, 0)?, None))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Written {
    Value,
    Dimensions,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    of: Written,
    zone: String,
    signature: Signature,
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        match self.of {
            Written::Value => "nested_text",
            Written::Dimensions => "array_dims",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if is_nested(ty) => Ok(types.to_vec()),
            _ => Err(external(
                SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {} does not exist for these arguments", self.name()),
                )
                .hint("It takes one array."),
            )),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(1)?;
        let zone = match self.of {
            Written::Value => TimeZone::parse(&self.zone).map_err(external)?,
            Written::Dimensions => TimeZone::UTC,
        };
        let mut builder = StringViewBuilder::with_capacity(array.len());
        let mut text = String::new();
        for row in 0..array.len() {
            text.clear();
            let is_there = array.is_valid(row)
                && match self.of {
                    Written::Value => {
                        write_cell(array.as_ref(), row, &zone, &mut text);
                        true
                    }
                    Written::Dimensions => dimensions(&array.slice(row, 1), &mut text),
                };
            builder.append_option(is_there.then_some(text.as_str()));
        }
        let texts: ArrayRef = Arc::new(builder.finish());
        match args.args[0] {
            ColumnarValue::Scalar(_) => {
                ScalarValue::try_from_array(&texts, 0).map(ColumnarValue::Scalar)
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(texts)),
        }
    }
}

/// Appends the bounds of the list in an array of one row; false if the list is empty.
fn dimensions(lists: &ArrayRef, out: &mut String) -> bool {
    let Some(lists) = lists.as_list_opt::<i32>() else { return !out.is_empty() };
    if lists.is_empty() || lists.is_null(0) || lists.value(0).is_empty() {
        return !out.is_empty();
    }
    let items = lists.value(0);
    out.push_str(&format!("[1:{}]", items.len()));
    dimensions(&items.slice(0, 1), out)
}
