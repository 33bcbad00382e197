//! Arrays without bytes that none of their rows refers to.
//!
//! Rows that are taken out of a batch share its texts: written as they stand, each piece would have all of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// The array with texts of its own alone, at every depth.
pub(crate) fn compacted(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        ty if !ty.is_nested() => Ok(Arc::clone(array)),
        _ => {
            let data = array.to_data();
            let children = data.child_data().iter();
            let children =
                children.map(|child| Ok(compacted(&make_array(child.clone()))?.to_data()));
            let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
    }
}
