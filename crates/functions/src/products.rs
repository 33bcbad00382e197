//! Functions of DataFusion's that take time up to the product of the sizes of two arguments, evaluated in time that
//! grows with their sum wherever the product is large: `strpos`, `array_has_all` (`@>`) and `array_has_any` (`&&`).
//!
//! Two arrays of 300,000 elements are 90 billion comparisons, which nobody can end: the function works within one
//! step of a worker, and two such statements leave no worker for anybody else.
//! An element that is NULL equals none, as in SQL; for DataFusion's functions it equals another NULL.
//! Invariant, checked by `large_and_small_arguments_have_the_same_answers`: the answers are DataFusion's.
//! Cost: O(sum of the sizes); looks between elements whether the statement is to end.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, filter, is_not_null};
use arrow::datatypes::{DataType, FieldRef};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use memchr::memmem;

use super::go_on;

/// Products of sizes in a row from which on DataFusion's function is not asked.
const PRODUCT_LARGE: u64 = 1 << 16;

/// Elements between two looks whether the statement is to end.
const ELEMENTS_PER_LOOK: usize = 1 << 14;

/// The function, with another evaluation for large arguments if it is one of those here.
pub fn bounded(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    let evaluate = match function.name() {
        "strpos" => positions,
        "array_has_all" => has_all,
        "array_has_any" => has_any,
        _ => return None,
    };
    let inner = Arc::clone(function);
    Some(Arc::new(ScalarUDF::new_from_impl(Product { inner, evaluate: Evaluate(evaluate) })))
}

/// The values for arrays of two arguments; `None` for types that are not known here.
#[derive(Clone, Copy, Debug)]
struct Evaluate(fn(&ArrayRef, &ArrayRef) -> Result<Option<ArrayRef>>);

#[derive(Debug)]
struct Product {
    inner: Arc<ScalarUDF>,
    evaluate: Evaluate,
}

impl PartialEq for Product {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Product {}

impl std::hash::Hash for Product {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

/// Bytes of a text, or elements of an array, in a row.
fn size(array: &ArrayRef, row: usize) -> u64 {
    let size = match array.data_type() {
        _ if array.is_null(row) => 0,
        DataType::Utf8View => array.as_string_view().value(row).len(),
        DataType::Utf8 => array.as_string::<i32>().value(row).len(),
        DataType::List(_) => array.as_list::<i32>().value(row).len(),
        _ => 0,
    };
    u64::try_from(size).expect("a size of something in memory")
}

impl ScalarUDFImpl for Product {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_list = |arg: &ColumnarValue| matches!(arg.data_type(), DataType::List(_));
        if args.args.len() == 2 && args.args.iter().all(is_list) {
            let wanted = args.args[1].to_array(1)?;
            if let Some(known) = without_nulls(wanted.as_list::<i32>())? {
                let is_scalar = matches!(args.args[1], ColumnarValue::Scalar(_));
                let known: ArrayRef = Arc::new(known);
                args.args[1] = match is_scalar {
                    true => ColumnarValue::Scalar(ScalarValue::try_from_array(&known, 0)?),
                    false => ColumnarValue::Array(known),
                };
                let found = self.invoke_with_args(args)?;
                return match self.name() {
                    "array_has_all" => false_where_null(found, wanted.as_list::<i32>()),
                    _ => Ok(found),
                };
            }
        }
        let [left, right] = args.args.as_slice() else { return self.inner.invoke_with_args(args) };
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let are_scalars = is_scalar(left) && is_scalar(right);
        let one = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(scalar) => scalar.to_array(),
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        };
        let (left, right) = (one(left)?, one(right)?);
        let most = |array: &ArrayRef| (0..array.len()).map(|row| size(array, row)).max();
        let product = most(&left).unwrap_or(0).saturating_mul(most(&right).unwrap_or(0));
        if product < PRODUCT_LARGE {
            return self.inner.invoke_with_args(args);
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        match self.evaluate.0(&arrays[0], &arrays[1])? {
            Some(found) if are_scalars => {
                ScalarValue::try_from_array(&found, 0).map(ColumnarValue::Scalar)
            }
            Some(found) => Ok(ColumnarValue::Array(found)),
            None => self.inner.invoke_with_args(args),
        }
    }
}

/// The lists without their elements that are NULL, which equal nothing; `None` if there are none.
fn without_nulls(lists: &ListArray) -> Result<Option<ListArray>> {
    if lists.values().logical_null_count() == 0 {
        return Ok(None);
    }
    let DataType::List(item) = lists.data_type() else { return Ok(None) };
    let kept = is_not_null(lists.values())?;
    let length = |row: usize| {
        let (from, until) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
        kept.slice(from as usize, (until - from) as usize).true_count()
    };
    let offsets = OffsetBuffer::from_lengths((0..lists.len()).map(length));
    // Values before the first list and behind the last belong to none.
    let (from, until) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
    let span = (until - from) as usize;
    let values = lists.values().slice(from as usize, span);
    let values = filter(&values, &kept.slice(from as usize, span))?;
    let lists = ListArray::try_new(Arc::clone(item), offsets, values, lists.nulls().cloned())?;
    Ok(Some(lists))
}

/// Answers, false in rows whose list has an element that is NULL.
fn false_where_null(found: ColumnarValue, lists: &ListArray) -> Result<ColumnarValue> {
    let rows = match &found {
        ColumnarValue::Array(found) => found.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let has_null = |row: usize| {
        let row = if lists.len() == 1 { 0 } else { row };
        lists.is_valid(row) && lists.value(row).logical_null_count() > 0
    };
    let answers = found.to_array(rows)?;
    let settled: BooleanArray = (answers.as_boolean().iter().enumerate())
        .map(|(row, answer)| answer.map(|answer| answer && !has_null(row)))
        .collect();
    match found {
        ColumnarValue::Scalar(_) => {
            ScalarValue::try_from_array(&settled, 0).map(ColumnarValue::Scalar)
        }
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(settled))),
    }
}

/// The character at which each text has the other one, counted from 1; 0 if nowhere.
fn positions(texts: &ArrayRef, wanted: &ArrayRef) -> Result<Option<ArrayRef>> {
    let is_text =
        |array: &ArrayRef| matches!(array.data_type(), DataType::Utf8 | DataType::Utf8View);
    if !is_text(texts) || !is_text(wanted) {
        return Ok(None);
    }
    let views = [texts, wanted].map(|array| cast(array, &DataType::Utf8View));
    let [texts, wanted] = views;
    let (texts, wanted) = (texts?, wanted?);
    let place = |(text, wanted): (Option<&str>, Option<&str>)| {
        let Some((text, wanted)) = text.zip(wanted) else { return Ok(None) };
        go_on()?;
        let found = memmem::find(text.as_bytes(), wanted.as_bytes());
        let character = found.map_or(0, |at| text[..at].chars().count() + 1);
        Ok(Some(i32::try_from(character).expect("texts have less than 2 GB")))
    };
    let places = texts.as_string_view().iter().zip(wanted.as_string_view());
    Ok(Some(Arc::new(places.map(place).collect::<Result<Int32Array>>()?)))
}

fn has_all(arrays: &ArrayRef, wanted: &ArrayRef) -> Result<Option<ArrayRef>> {
    by_elements(arrays, wanted, |found, wanted| {
        for (at, element) in wanted.iter().enumerate() {
            if at % ELEMENTS_PER_LOOK == 0 {
                go_on()?;
            }
            if !found.contains(element.as_ref()) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn has_any(arrays: &ArrayRef, wanted: &ArrayRef) -> Result<Option<ArrayRef>> {
    by_elements(arrays, wanted, |found, wanted| {
        for (at, element) in wanted.iter().enumerate() {
            if at % ELEMENTS_PER_LOOK == 0 {
                go_on()?;
            }
            if found.contains(element.as_ref()) {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// What `test` says of the set of the elements of each array and the elements that are wanted; NULLs are equal.
fn by_elements(
    arrays: &ArrayRef,
    wanted: &ArrayRef,
    test: impl Fn(&HashSet<&[u8]>, &Rows) -> Result<bool>,
) -> Result<Option<ArrayRef>> {
    let (DataType::List(item), DataType::List(other)) = (arrays.data_type(), wanted.data_type())
    else {
        return Ok(None);
    };
    if item.data_type() != other.data_type() {
        return Ok(None);
    }
    let converter = RowConverter::new(vec![SortField::new(item.data_type().clone())])?;
    let (arrays, wanted) = (arrays.as_list::<i32>(), wanted.as_list::<i32>());
    let row = |row: usize| {
        if arrays.is_null(row) || wanted.is_null(row) {
            return Ok(None);
        }
        go_on()?;
        let elements = converter.convert_columns(&[arrays.value(row)])?;
        let wanted = converter.convert_columns(&[wanted.value(row)])?;
        let mut set = HashSet::with_capacity(elements.num_rows());
        for (at, element) in elements.iter().enumerate() {
            if at % ELEMENTS_PER_LOOK == 0 {
                go_on()?;
            }
            set.insert(element.data());
        }
        test(&set, &wanted).map(Some)
    };
    let found = (0..arrays.len()).map(row).collect::<Result<BooleanArray>>()?;
    Ok(Some(Arc::new(found)))
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::datatypes::Int64Type;
    use datafusion::functions::unicode::strpos;
    use datafusion::functions_nested::array_has::{array_has_all_udf, array_has_any_udf};

    use super::*;

    /// The values of DataFusion's function and of the evaluation for large arguments.
    fn both(function: &Arc<ScalarUDF>, evaluate: &[ArrayRef; 2]) -> (ArrayRef, ArrayRef) {
        let field = |array: &ArrayRef| -> FieldRef {
            Arc::new(arrow::datatypes::Field::new("a", array.data_type().clone(), true))
        };
        let arg_fields: Vec<FieldRef> = evaluate.iter().map(field).collect();
        let scalar_arguments = vec![None; 2];
        let asked =
            ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalar_arguments };
        let return_field = function.return_field_from_args(asked).expect("a type");
        let args = evaluate.iter().map(|array| ColumnarValue::Array(Arc::clone(array))).collect();
        let number_rows = evaluate[0].len();
        let config_options = Arc::default();
        let args =
            ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
        let theirs = function.invoke_with_args(args).expect("values");
        let theirs = theirs.into_array(number_rows).expect("an array");
        let ours = match function.name() {
            "strpos" => positions(&evaluate[0], &evaluate[1]),
            "array_has_all" => has_all(&evaluate[0], &evaluate[1]),
            _ => has_any(&evaluate[0], &evaluate[1]),
        };
        (theirs, ours.expect("values").expect("known types"))
    }

    #[test]
    fn large_and_small_arguments_have_the_same_answers() {
        let texts = ["", "a", "äöü", "aaab", "😀b"].map(Some);
        let pairs = texts
            .iter()
            .chain([&None])
            .flat_map(|a| texts.iter().chain([&None]).map(move |b| (*a, *b)));
        let (left, right): (Vec<_>, Vec<_>) = pairs.unzip();
        let arrays: [ArrayRef; 2] =
            [Arc::new(StringViewArray::from(left)), Arc::new(StringViewArray::from(right))];
        let (theirs, ours) = both(&strpos(), &arrays);
        assert_eq!(&theirs, &ours);
        let lists = [
            Some(vec![]),
            Some(vec![None]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(2), None, Some(1), Some(1)]),
            Some(vec![Some(3)]),
            None,
        ];
        let pairs = lists.iter().flat_map(|a| lists.iter().map(move |b| (a.clone(), b.clone())));
        let (left, right): (Vec<_>, Vec<_>) = pairs.unzip();
        let arrays: [ArrayRef; 2] = [left, right].map(|lists| {
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)) as ArrayRef
        });
        for function in [array_has_all_udf(), array_has_any_udf()] {
            let (theirs, ours) = both(&function, &arrays);
            assert_eq!(&theirs, &ours, "{}", function.name());
        }
    }
}
