//! `string_agg` of BYTEA by DataFusion's `string_agg` of texts.
//!
//! Each byte goes as the character of its number (U+0000 to U+00FF): what is equal, what comes first and what stands
//! one behind the other is then of the texts what it is of the bytes. States of accumulators hold such texts.
//!
//! Cost: a copy of the values, in which bytes from 128 on take two, and one of the results.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, RecordBatch, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, ColumnarValue, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::expressions::Literal;

/// Whether values are BYTEA.
pub(crate) fn are_bytes(ty: &DataType) -> bool {
    matches!(ty, DataType::Binary | DataType::BinaryView)
}

/// The field as one of texts.
pub(crate) fn field_of_texts(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
}

/// The bytes as characters.
fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The inverse of [`text`]. Panics: for characters that are no bytes.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).expect("every character stands for a byte")).collect()
}

/// Arguments whose values are texts.
fn texts(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let given = cast(&values[0], &DataType::BinaryView)?;
    let mut out = StringViewBuilder::with_capacity(given.len());
    given.as_binary_view().iter().for_each(|value| out.append_option(value.map(text)));
    let mut values = values.to_vec();
    values[0] = Arc::new(out.finish());
    Ok(values)
}

/// Makes an accumulator of texts for arguments that are bytes. The separator is a constant, NULL being none.
pub(crate) fn of_texts<T>(
    args: AccumulatorArgs<'_>,
    make: impl FnOnce(AccumulatorArgs<'_>) -> Result<T>,
) -> Result<Bytes<T>> {
    let (mut exprs, mut fields) = (args.exprs.to_vec(), args.expr_fields.to_vec());
    fields[0] = field_of_texts(&fields[0]);
    // A value of the execution is a constant below a cast.
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    if let Ok(ColumnarValue::Scalar(separator)) = exprs[1].evaluate(&nothing) {
        let ScalarValue::BinaryView(separator) = separator.cast_to(&DataType::BinaryView)? else {
            unreachable!("it was cast");
        };
        let separator = separator.map(|separator| text(&separator));
        exprs[1] = Arc::new(Literal::new(ScalarValue::Utf8View(separator)));
        fields[1] = field_of_texts(&fields[1]);
    }
    let return_field = args.return_field.as_ref().clone().with_data_type(DataType::LargeUtf8);
    let args = AccumulatorArgs {
        exprs: &exprs,
        expr_fields: &fields,
        return_field: Arc::new(return_field),
        ..args
    };
    make(args).map(Bytes)
}

/// An accumulator of texts that takes bytes and gives bytes.
#[derive(Debug)]
pub(crate) struct Bytes<T>(T);

impl Accumulator for Bytes<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&texts(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = self.0.evaluate()?.cast_to(&DataType::Utf8View)?;
        let ScalarValue::Utf8View(found) = found else { unreachable!("it was cast") };
        Ok(ScalarValue::BinaryView(found.map(|found| bytes(&found))))
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

impl GroupsAccumulator for Bytes<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.update_batch(&texts(values)?, groups, filter, group_count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let found = cast(&self.0.evaluate(emit)?, &DataType::Utf8View)?;
        let mut out = BinaryViewBuilder::with_capacity(found.len());
        found.as_string_view().iter().for_each(|found| out.append_option(found.map(bytes)));
        Ok(Arc::new(out.finish()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, groups, group_count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&texts(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_and_texts_stand_in_the_order_of_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&text(&all)), all);
        let each: Vec<String> = all.iter().map(|byte| text(&[*byte])).collect();
        assert!(each.is_sorted());
    }
}
