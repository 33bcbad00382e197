//! Vectors of a segment in the types that expressions have: documents and arrays lie in segments as texts and
//! bytes do, labels as integers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type, TimestampSecondType};
use datafusion::common::Result;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{addresses, lists, sql_type_of_arrow};

/// A segment's vector in the type of its column.
pub(crate) fn typed(values: ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if values.data_type() == ty {
        return Ok(values);
    }
    Ok(match sql_type_of_arrow(ty) {
        Some(SqlType::Array(element)) => Arc::new(lists(values.as_binary_view().iter(), element)),
        Some(ty) if ty.is_address() => addresses(values.as_binary_view(), ty),
        Some(SqlType::Enum(_)) => {
            let positions = values.as_primitive::<Int64Type>();
            let labels = positions.reinterpret_cast::<TimestampSecondType>();
            Arc::new(labels.with_data_type(ty.clone()))
        }
        _ => arrow::compute::cast(&values, ty)?,
    })
}
