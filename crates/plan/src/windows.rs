//! Window functions with PostgreSQL's types and errors.
//!
//! DataFusion numbers rows by unsigned integers, which SQL does not have, and accepts only
//! constants as offsets of `lead` and `lag`.
//!
//! | function | type |
//! |---|---|
//! | `row_number`, `rank`, `dense_rank` | BIGINT |
//! | `ntile` | INTEGER |
//! | `lead`, `lag` | the common type of value and default |
//!
//! Cost: O(rows) of a partition; `lead` and `lag` hold it whole.

use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, new_null_array};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::misfits;

use crate::semantics::is_text;
use halcyon_sql::values::shown_type;

/// All window functions: DataFusion's, and Halcyon's in place of those with the same name.
pub(crate) fn functions() -> Vec<Arc<WindowUDF>> {
    let all = SessionStateDefaults::default_window_functions();
    all.into_iter()
        .map(|function| match function.name() {
            "row_number" | "rank" | "dense_rank" => Arc::new(WindowUDF::from(Counted(function))),
            "nth_value" => Arc::new(WindowUDF::from(NthValue(function))),
            "ntile" => Arc::new(WindowUDF::from(Ntile(of_any_types()))),
            "lead" => Arc::new(WindowUDF::from(Shift { ahead: true, signature: of_any_types() })),
            "lag" => Arc::new(WindowUDF::from(Shift { ahead: false, signature: of_any_types() })),
            _ => function,
        })
        .collect()
}

fn of_any_types() -> Signature {
    Signature::user_defined(Volatility::Immutable)
}

/// 42883: no function of this name takes these types.
fn no_function(name: &str, types: &[DataType]) -> SqlError {
    let types: Vec<String> = types.iter().map(shown_type).collect();
    misfits::no_function(name, &types)
}

/// A row-counting function of DataFusion, with BIGINT as its result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted(Arc<WindowUDF>);

impl WindowUDFImpl for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(CountedRows(self.0.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int64, false)))
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct CountedRows(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for CountedRows {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &DataType::Int64)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(rows, ranks)?, &DataType::Int64)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}

/// `nth_value`, which counts from 1.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NthValue(Arc<WindowUDF>);

impl WindowUDFImpl for NthValue {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let place = args.input_exprs().get(1).and_then(|expr| expr.downcast_ref::<Literal>());
        if place.is_some_and(|place| {
            matches!(place.value().cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(..=0))))
        }) {
            return Err(external(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION,
                "argument of nth_value must be greater than zero",
            )));
        }
        self.0.partition_evaluator_factory(args)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.0.field(args)
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
    }
}

/// `ntile(n)`: rows divided into `n` parts whose sizes differ by one at most, larger ones first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ntile(Signature);

impl WindowUDFImpl for Ntile {
    fn name(&self) -> &str {
        "ntile"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if ty.is_integer() || ty.is_null() => Ok(vec![DataType::Int64]),
            _ => Err(external(no_function("ntile", types))),
        }
    }

    fn partition_evaluator(
        &self,
        _: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Parts))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int32, true)))
    }
}

#[derive(Debug)]
struct Parts;

impl PartitionEvaluator for Parts {
    /// The number of parts is taken from the first row.
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let parts = values[0].as_primitive::<Int64Type>();
        if rows == 0 || parts.is_null(0) {
            return Ok(new_null_array(&DataType::Int32, rows));
        }
        let parts = usize::try_from(parts.value(0)).ok().filter(|parts| *parts > 0);
        let Some(parts) = parts else {
            return Err(external(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_NTILE_FUNCTION,
                "argument of ntile must be greater than zero",
            )));
        };
        let (size, larger) = (rows / parts, rows % parts);
        let part_of = |row: usize| match row < larger * (size + 1) {
            true => row / (size + 1),
            false => larger + (row - larger * (size + 1)) / size,
        };
        let part_of = |row| i32::try_from(part_of(row) + 1).unwrap_or(i32::MAX);
        Ok(Arc::new(Int32Array::from_iter_values((0..rows).map(part_of))))
    }
}

/// `lead(value, offset, default)` and `lag`: the value of another row of the partition.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    ahead: bool,
    signature: Signature,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        if self.ahead { "lead" } else { "lag" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let refused = || external(no_function(self.name(), types));
        let is_offset = |ty: &DataType| ty.is_integer() || ty.is_null();
        Ok(match types {
            [value] => vec![value.clone()],
            [value, offset] if is_offset(offset) => vec![value.clone(), DataType::Int64],
            [value, offset, default] if is_offset(offset) => {
                let both = match (value, default) {
                    (value, default) if value == default || default.is_null() => value.clone(),
                    (value, default) if value.is_null() => default.clone(),
                    // A constant in quotes is read as the value's type.
                    (value, default) if is_text(default) => value.clone(),
                    (value, default)
                        if value.is_numeric() && default.is_floating()
                            || value.is_floating() && default.is_numeric() =>
                    {
                        DataType::Float64
                    }
                    (value, default) => {
                        let both = type_union_resolution(&[value.clone(), default.clone()]);
                        both.filter(|both| !is_text(both)).ok_or_else(refused)?
                    }
                };
                vec![both.clone(), DataType::Int64, both]
            }
            _ => return Err(refused()),
        })
    }

    fn partition_evaluator(
        &self,
        _: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Shifted { ahead: self.ahead }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let value = args.input_fields()[0].as_ref().clone();
        Ok(Arc::new(value.with_name(args.name()).with_nullable(true)))
    }
}

#[derive(Debug)]
struct Shifted {
    ahead: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let value = &values[0];
        let nothing = new_null_array(value.data_type(), 1);
        let default = values.get(2);
        let offsets = values.get(1).map(|offsets| offsets.as_primitive::<Int64Type>());
        // The choice between value, default and NULL, and the row of it.
        let place = |row: usize| {
            let offset = match offsets {
                None => 1,
                Some(offsets) if offsets.is_null(row) => return (2, 0),
                Some(offsets) => i128::from(offsets.value(row)),
            };
            let other = row as i128 + if self.ahead { offset } else { -offset };
            match usize::try_from(other) {
                Ok(other) if other < rows => (0, other),
                _ if default.is_some() => (1, row),
                _ => (2, 0),
            }
        };
        let places: Vec<(usize, usize)> = (0..rows).map(place).collect();
        let default = default.unwrap_or(&nothing);
        Ok(interleave(&[value.as_ref(), default.as_ref(), nothing.as_ref()], &places)?)
    }
}
