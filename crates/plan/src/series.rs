//! `generate_series`: numbers and moments from a start to an end by a step, as the rows of a table and
//! as an array, which a SELECT list unnests.
//!
//! | arguments | elements |
//! |---|---|
//! | INTEGER | INTEGER |
//! | BIGINT, beside INTEGER too | BIGINT |
//! | NUMERIC, beside integers too | NUMERIC |
//! | TIMESTAMP, TIMESTAMP, INTERVAL | TIMESTAMP |
//! | TIMESTAMPTZ or DATE, twice, INTERVAL | TIMESTAMPTZ |
//!
//! NULL as an argument gives no elements. Errors: 22023 for a step of zero, 54000 for arrays that
//! are too large.
//!
//! Cost: O(1) memory for rows of constants, which are made batch by batch; an array is made whole, and so are
//! rows in FROM whose arguments are not constants ([`halcyon_names::function_tables`]).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TableType,
    Volatility,
};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use halcyon_store::{Interval, Value, ValueRef};
use halcyon_value::calendar::shift;
use parking_lot::RwLock;

use crate::interrupts;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::meeting_types::series_types;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::shown_type;
use halcyon_sql::values::{ArrayWriter, from_scalar, sql_type_of_arrow, value_at};

/// The function's name, in FROM and in expressions.
pub(crate) const NAME: &str = "generate_series";

/// The most bytes that the arrays of one call may have, over all rows of a batch.
const BYTES_MAX: usize = 256 << 20;

/// Elements of an array between two looks whether the statement is to end.
const ELEMENTS_PER_LOOK: usize = 1 << 14;

/// The rest of a series.
#[derive(Clone, Debug)]
enum Series {
    Empty,
    /// Integers, or decimals without their point.
    Numbers {
        next: i128,
        end: i128,
        step: i128,
    },
    /// Microseconds.
    Moments {
        next: i64,
        end: i64,
        step: Interval,
    },
}

impl Series {
    /// A series of elements of type `ty`. The arguments are of [`series_types`] types.
    fn new(ty: SqlType, args: &[ValueRef<'_>]) -> halcyon_sql::error::Result<Series> {
        if args.iter().any(ValueRef::is_null) {
            return Ok(Series::Empty);
        }
        let unit = match ty {
            SqlType::Decimal { scale, .. } => 10_i128.pow(scale.unsigned_abs().into()),
            _ => 1,
        };
        let series = match (args[0], args[1], args.get(2)) {
            (
                ValueRef::Timestamp(next) | ValueRef::TimestampTz(next),
                ValueRef::Timestamp(end) | ValueRef::TimestampTz(end),
                Some(ValueRef::Interval(step)),
            ) => Series::Moments { next, end, step: *step },
            (start, end, step) => Series::Numbers {
                next: number(start),
                end: number(end),
                step: step.map_or(unit, |step| number(*step)),
            },
        };
        if series.direction() == 0 {
            let message = "step size cannot equal zero";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(series)
    }

    /// A number of elements that the series has at least.
    fn least_count(&self) -> usize {
        match self {
            Series::Numbers { next, end, step } => {
                let apart =
                    if *step > 0 { end.saturating_sub(*next) } else { next.saturating_sub(*end) };
                usize::try_from(apart / step.saturating_abs()).unwrap_or(if apart < 0 {
                    0
                } else {
                    usize::MAX
                })
            }
            Series::Empty => 0,
            Series::Moments { next, end, step } => {
                // A month counts as 30 days in the key, and has at most 31.
                let each = step.sort_key().saturating_abs().saturating_mul(31) / 30 + 1;
                let apart = i128::from(*end) - i128::from(*next);
                let apart = if self.direction() > 0 { apart } else { -apart };
                usize::try_from(apart / each).unwrap_or(if apart < 0 { 0 } else { usize::MAX })
            }
        }
    }

    /// Above 0 if the series ascends, below if it descends.
    fn direction(&self) -> i128 {
        match self {
            Series::Empty => 1,
            Series::Numbers { step, .. } => *step,
            Series::Moments { step, .. } => step.sort_key(),
        }
    }
}

impl Iterator for Series {
    type Item = i128;

    /// The next element; a series ends where the next one would be beyond its type.
    fn next(&mut self) -> Option<i128> {
        let ascends = self.direction() > 0;
        let (now, after) = match self {
            Series::Empty => return None,
            Series::Numbers { next, end, step } => {
                if if ascends { *next > *end } else { *next < *end } {
                    return None;
                }
                let now = *next;
                (now, next.checked_add(*step).map(|after| *next = after))
            }
            Series::Moments { next, end, step } => {
                if if ascends { *next > *end } else { *next < *end } {
                    return None;
                }
                let now = *next;
                (now.into(), shift(now, *step, false).ok().map(|after| *next = after))
            }
        };
        if after.is_none() {
            *self = Series::Empty;
        }
        Some(now)
    }
}

fn number(value: ValueRef<'_>) -> i128 {
    match value {
        ValueRef::Int16(value) => value.into(),
        ValueRef::Int32(value) => value.into(),
        ValueRef::Int64(value) => value.into(),
        ValueRef::Decimal(value) => value,
        _ => 0,
    }
}

/// An element as a value of its type.
fn element(value: i128, ty: SqlType) -> ValueRef<'static> {
    match ty {
        SqlType::Integer => ValueRef::Int32(value as i32),
        SqlType::BigInt => ValueRef::Int64(value as i64),
        SqlType::Timestamp => ValueRef::Timestamp(value as i64),
        SqlType::TimestampTz => ValueRef::TimestampTz(value as i64),
        _ => ValueRef::Decimal(value),
    }
}

/// 42883: no series takes these types.
fn no_series(types: &[DataType]) -> SqlError {
    let types: Vec<String> = types.iter().map(shown_type).collect();
    let message = format!("function {NAME}({}) does not exist", types.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint("There are series of integers, of NUMERIC, and of moments by an INTERVAL.")
}

fn elements_of(ty: &DataType) -> SqlType {
    sql_type_of_arrow(ty).unwrap_or(SqlType::BigInt)
}

// ---------------------------------------------------------------------------------------------
// As an array

/// The function in expressions, which gives an array.
pub(crate) fn array_function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(ArrayFunction { signature });
    Arc::new(function.with_aliases([halcyon_names::function_tables::SERIES]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayFunction {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        series_types(types).ok_or_else(|| external(no_series(types)))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(types[0].clone(), true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays[0].len();
        let ty = elements_of(arrays[0].data_type());
        let mut writer = ArrayWriter::new(ty, 0);
        let (mut lengths, mut valid) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut total = 0_usize;
        for row in 0..rows {
            let cells = arrays.iter().map(|array| value_at(array, row).unwrap_or(ValueRef::Null));
            let cells: Vec<ValueRef<'_>> = cells.collect();
            let before = total;
            let series = Series::new(ty, &cells).map_err(external)?;
            if series.least_count() > BYTES_MAX / size_of::<i64>() {
                return Err(external(too_large()));
            }
            for value in series {
                total += 1;
                if total.is_multiple_of(ELEMENTS_PER_LOOK) {
                    interrupts::go_on()?;
                }
                if total * size_of::<i64>() > BYTES_MAX {
                    return Err(external(too_large()));
                }
                writer.push(element(value, ty)).map_err(external)?;
            }
            lengths.push(total - before);
            valid.push(!cells.iter().any(ValueRef::is_null));
        }
        let item = Arc::new(Field::new_list_field(ty.arrow(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::new(item, offsets, writer.finish(), Some(NullBuffer::from(valid)));
        if is_scalar {
            return ScalarValue::try_from_array(&lists, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(Arc::new(lists)))
    }
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("{NAME} would give more than {BYTES_MAX} bytes at once."))
        .hint("In FROM, rows are made one after the other.")
}

// ---------------------------------------------------------------------------------------------
// As a table

/// The function in FROM.
#[derive(Debug)]
pub(crate) struct SeriesFunction;

impl TableFunctionImpl for SeriesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let constant = |expr: &Expr| match expr {
            Expr::Literal(value, _) => Ok(value.clone()),
            _ => Err(external(
                SqlError::unsupported(format!("{NAME} in FROM of what is not constant"))
                    .hint("Use unnest(generate_series(…)) in the SELECT list."),
            )),
        };
        let args = args.exprs().iter().map(constant).collect::<Result<Vec<_>>>()?;
        let types: Vec<DataType> = args.iter().map(ScalarValue::data_type).collect();
        let wanted = series_types(&types).ok_or_else(|| external(no_series(&types)))?;
        let ty = elements_of(&wanted[0]);
        let values = args.iter().zip(&wanted).map(|(value, wanted)| read(value, wanted));
        let values = values.collect::<Result<Vec<Value>>>()?;
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let series = Series::new(ty, &values).map_err(external)?;
        let schema = Arc::new(Schema::new(vec![Field::new("value", ty.arrow(), false)]));
        Ok(Arc::new(SeriesTable { series, ty, schema }))
    }
}

/// A constant in the type that a series wants.
fn read(value: &ScalarValue, wanted: &DataType) -> Result<Value> {
    let text = match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
        _ => None,
    };
    let value = match text {
        Some(text) => match crate::semantics::typed_constant(text, wanted)? {
            Expr::Literal(value, _) => value,
            _ => ScalarValue::from(text).cast_to(wanted)?,
        },
        None => value.cast_to(wanted)?,
    };
    Ok(from_scalar(&value).unwrap_or(Value::Null))
}

#[derive(Debug)]
struct SeriesTable {
    series: Series,
    ty: SqlType,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Rows {
            start: self.series.clone(),
            rest: self.series.clone(),
            ty: self.ty,
            schema: Arc::clone(&self.schema),
            batch_rows: state.config_options().execution.batch_size.get(),
        };
        let exec = LazyMemoryExec::try_new(self.schema(), vec![Arc::new(RwLock::new(rows))])?;
        let mut exec = exec.with_projection(projection.cloned());
        if !exec.schema().fields().is_empty() {
            let column = Arc::new(Column::new("value", 0));
            let descending = self.series.direction() < 0;
            let options = SortOptions { descending, nulls_first: false };
            exec.add_ordering([PhysicalSortExpr::new(column, options)]);
        }
        Ok(Arc::new(exec))
    }
}

/// The rows of a series, batch by batch.
#[derive(Clone, Debug)]
struct Rows {
    start: Series,
    rest: Series,
    ty: SqlType,
    schema: SchemaRef,
    batch_rows: usize,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl LazyBatchGenerator for Rows {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        interrupts::go_on()?;
        let mut writer = ArrayWriter::new(self.ty, self.batch_rows);
        let mut rows = 0;
        for value in self.rest.by_ref().take(self.batch_rows) {
            writer.push(element(value, self.ty)).map_err(external)?;
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let values: ArrayRef = writer.finish();
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Rows { rest: self.start.clone(), ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::IntervalUnit;

    fn numbers(next: i128, end: i128, step: i128) -> Vec<i128> {
        Series::Numbers { next, end, step }.collect()
    }

    #[test]
    fn a_series_ends_at_its_end_or_at_that_of_its_type() {
        assert_eq!(numbers(1, 5, 2), [1, 3, 5]);
        assert_eq!(numbers(5, 1, -2), [5, 3, 1]);
        assert_eq!(numbers(1, 0, 1), Vec::<i128>::new());
        assert_eq!(numbers(i128::MAX, i128::MAX, 1), [i128::MAX]);
        let zero = Series::new(SqlType::Integer, &[1, 2, 0].map(ValueRef::Int32));
        assert!(zero.is_err());
        let month = Interval { months: 1, ..Interval::default() };
        let day = halcyon_value::calendar::DAY_US;
        let ends_of_months = Series::Moments { next: 30 * day, end: 90 * day, step: month };
        // The 31st of January, then the 28th of February and of March.
        let days: Vec<i128> = ends_of_months.map(|us| us / i128::from(day)).collect();
        assert_eq!(days, [30, 58, 86]);
    }

    #[test]
    fn elements_have_the_type_that_all_arguments_fit() {
        use DataType::{Date32, Decimal128, Float64, Int32, Int64, Utf8};
        let of = |types: &[DataType]| series_types(types).map(|types| types[0].clone());
        assert_eq!(of(&[Int32, Int32]), Some(Int32));
        assert_eq!(of(&[Int32, Int64, Int32]), Some(Int64));
        assert_eq!(of(&[Int32, Decimal128(3, 1)]), Some(Decimal128(38, 1)));
        assert_eq!(of(&[Int32, Utf8]), Some(Int32));
        assert_eq!(of(&[Float64, Int32]), None);
        assert_eq!(of(&[Date32, Date32]), None);
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        assert_eq!(of(&[Date32, Date32, interval]), Some(SqlType::TimestampTz.arrow()));
    }
}
