//! The numbers beside the rows of `unnest(…) WITH ORDINALITY`, as a list that becomes rows with the others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_dialect::ORDINALS;

/// The function that [`halcyon_dialect`] puts beside the lists.
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Ordinals { signature }))
}

/// From lists to the list 1, 2, … that is as long as the longest of them. NULL has no elements.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordinals {
    signature: Signature,
}

impl ScalarUDFImpl for Ordinals {
    fn name(&self) -> &str {
        ORDINALS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(item()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let mut longest = vec![0; rows];
        for arg in &args.args {
            let lists = arg.to_array(rows)?;
            for (longest, length) in longest.iter_mut().zip(lengths(&lists)?) {
                *longest = length.max(*longest);
            }
        }
        let numbers: Int64Array =
            longest.iter().flat_map(|length| (1_i64..).take(*length)).collect::<Vec<_>>().into();
        let offsets = OffsetBuffer::from_lengths(longest);
        let lists: ArrayRef = Arc::new(ListArray::new(item(), offsets, Arc::new(numbers), None));
        match is_scalar {
            true => ScalarValue::try_from_array(&lists, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(lists)),
        }
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Int64, true))
}

/// Elements of each list.
fn lengths(lists: &ArrayRef) -> Result<Vec<usize>> {
    let length = |row: usize| match lists.data_type() {
        _ if lists.is_null(row) => Ok(0),
        DataType::List(_) => Ok(lists.as_list::<i32>().value_length(row) as usize),
        DataType::LargeList(_) => Ok(lists.as_list::<i64>().value_length(row) as usize),
        DataType::FixedSizeList(_, length) => Ok(*length as usize),
        DataType::Null => Ok(0),
        other => exec_err!("unnest of a value of type {other}"),
    };
    (0..lists.len()).map(length).collect()
}
