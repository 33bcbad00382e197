//! Functions of PostgreSQL that DataFusion lacks or means differently: all together, and those that
//! operators and casts become. By topic: [`crate::execution`] (clock, session, sequences),
//! [`crate::pg_functions`] (strings, numbers, dates), [`crate::aggregates`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    AggregateUDF, Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use halcyon_store::ValueRef;
use halcyon_value::calendar::{US_NS, difference};
use halcyon_value::{Interval, interval};

use crate::coerce;
use crate::coerce::zone::TimeZone;
use crate::diagnose::external;
use crate::error::SqlError;
use crate::types::SqlType;
use crate::values::{ArrayWriter, value_at};

/// Our scalar functions, to be registered over DataFusion's.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = crate::execution::functions();
    functions.extend(crate::pg_functions::all());
    functions
}

/// Our aggregates.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    crate::aggregates::all()
}

/// Adapts a call to what DataFusion's function of that name expects, or its result to PostgreSQL's.
pub fn adjust(func: Arc<ScalarUDF>, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    // DataFusion's read other patterns than PostgreSQL's, and would answer wrongly.
    if matches!(func.name(), "to_char" | "to_date" | "to_timestamp") && args.len() > 1 {
        let called = format!("{} with a pattern", func.name());
        return Err(external(SqlError::unsupported(called)));
    }
    // Whole decimals have no places.
    let whole = match (func.name(), args.as_slice()) {
        ("ceil" | "floor" | "trunc" | "round", [arg]) => match arg.get_type(schema)? {
            DataType::Decimal128(precision, scale) if scale > 0 => {
                let digits = (i16::from(precision) - i16::from(scale) + 1).clamp(1, 38);
                Some(DataType::Decimal128(digits as u8, 0))
            }
            _ => None,
        },
        _ => None,
    };
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    Ok(match whole {
        Some(ty) => Expr::Cast(Cast::new(Box::new(call), ty)),
        None => call,
    })
}

// ---------------------------------------------------------------------------------------------
// Sequences

/// A sequence read as a table: `last_value`, `log_cnt`, `is_called`.
pub fn sequence_table(
    sequence: &crate::catalog::Sequence,
) -> crate::error::Result<Arc<dyn datafusion::catalog::TableProvider>> {
    use arrow::datatypes::{Field, Schema};
    let schema = Arc::new(Schema::new(vec![
        Field::new("last_value", DataType::Int64, false),
        Field::new("log_cnt", DataType::Int64, false),
        Field::new("is_called", DataType::Boolean, false),
    ]));
    let (last, called) = crate::catalog::sequence::position(sequence);
    let batch = arrow::array::RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![last])),
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(arrow::array::BooleanArray::from(vec![called])),
        ],
    );
    let table = batch
        .map_err(Into::into)
        .and_then(|batch| datafusion::datasource::MemTable::try_new(schema, vec![vec![batch]]));
    table.map(|table| Arc::new(table) as _).map_err(|error| crate::diagnose::sql_error(error, ""))
}

// ---------------------------------------------------------------------------------------------
// Casts

/// A conversion by PostgreSQL's rules, value by value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PgCast {
    from: SqlType,
    to: SqlType,
    zone: String,
    signature: Signature,
}

impl PgCast {
    /// A conversion; `zone` is the session's, for TIMESTAMPTZ.
    pub fn new(from: SqlType, to: SqlType, zone: &str) -> Self {
        PgCast {
            from,
            to,
            zone: zone.to_owned(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The types it converts between.
    pub fn types(&self) -> (SqlType, SqlType) {
        (self.from, self.to)
    }

    /// Whether Arrow's conversion differs from PostgreSQL's, or does not exist.
    pub fn differs(from: SqlType, to: SqlType) -> bool {
        use SqlType::*;
        if from == to {
            return false;
        }
        let text = |ty| matches!(ty, Char(_) | Varchar(_) | Text);
        let float = |ty| matches!(ty, Real | Double);
        let integer = |ty| matches!(ty, SmallInt | Integer | BigInt);
        match (from, to) {
            (from, Char(Some(_)) | Varchar(Some(_))) if text(from) => true,
            (from, to) if text(from) && text(to) => false,
            (from, to) if text(from) => !text(to),
            (SmallInt | Integer | BigInt | Decimal { .. } | Boolean, Text | Varchar(None)) => false,
            (_, to) if text(to) => true,
            (from, to) if float(from) && (integer(to) || matches!(to, Decimal { .. })) => true,
            (Decimal { .. }, to) if integer(to) => true,
            (Double, Real) => true,
            (Boolean, Integer) | (Integer, Boolean) => false,
            (Uuid | Bytea | Interval | Time, _) | (_, Uuid | Bytea | Interval | Time) => true,
            (TimestampTz, Date | Timestamp) | (Date | Timestamp, TimestampTz) => true,
            (Timestamp, Date) => true,
            (Boolean, _) | (_, Boolean) => true,
            (Date | Timestamp | TimestampTz, to) if integer(to) || float(to) => true,
            (from, Date | Timestamp | TimestampTz) if integer(from) || float(from) => true,
            _ => false,
        }
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        "pg_cast"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", args[0].human_display(), self.to))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", args[0].schema_name(), self.to))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = TimeZone::parse(&self.zone).map_err(external)?;
        convert_column(&args.args[0], self.to, |value, writer| {
            let arena = coerce::Arena::new();
            writer.push(coerce::cast(value, self.from, self.to, &zone, &arena)?)
        })
    }
}

/// Maps one column to another of type `to`, a row at a time; NULL stays NULL.
fn convert_column(
    column: &ColumnarValue,
    to: SqlType,
    mut convert: impl FnMut(ValueRef<'_>, &mut ArrayWriter) -> crate::error::Result<()>,
) -> Result<ColumnarValue> {
    let is_scalar = matches!(column, ColumnarValue::Scalar(_));
    let array = column.to_array(1)?;
    let mut writer = ArrayWriter::new(to, array.len());
    for row in 0..array.len() {
        match value_at(array.as_ref(), row) {
            Some(ValueRef::Null) | None => writer.push(ValueRef::Null),
            Some(value) => convert(value, &mut writer),
        }
        .map_err(external)?;
    }
    finish(writer.finish(), is_scalar)
}

fn finish(array: ArrayRef, is_scalar: bool) -> Result<ColumnarValue> {
    if is_scalar {
        return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
    }
    Ok(ColumnarValue::Array(array))
}

// ---------------------------------------------------------------------------------------------
// Intervals

/// Arithmetic that yields an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum IntervalOp {
    /// Timestamp − timestamp, in days and a rest.
    Moments,
    /// Time − time.
    Times,
    /// Interval × number.
    Times2,
    /// Interval ÷ number.
    Divided,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalFunction {
    op: IntervalOp,
    signature: Signature,
}

fn interval_call(op: IntervalOp, left: Expr, right: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(IntervalFunction { op, signature }).call(vec![left, right])
}

/// The interval between two timestamps.
pub fn timestamp_difference(left: Expr, right: Expr) -> Expr {
    interval_call(IntervalOp::Moments, left, right)
}

/// The interval between two times of day.
pub fn time_difference(left: Expr, right: Expr) -> Expr {
    interval_call(IntervalOp::Times, left, right)
}

/// An interval times, or divided by, a double.
pub fn scale_interval(interval: Expr, by: Expr, divide: bool) -> Expr {
    interval_call(if divide { IntervalOp::Divided } else { IntervalOp::Times2 }, interval, by)
}

impl ScalarUDFImpl for IntervalFunction {
    fn name(&self) -> &str {
        match self.op {
            IntervalOp::Moments => "timestamp_difference",
            IntervalOp::Times => "time_difference",
            IntervalOp::Times2 => "interval_multiply",
            IntervalOp::Divided => "interval_divide",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays[0].len();
        let values = (0..rows).map(|row| {
            let left = value_at(arrays[0].as_ref(), row);
            let right = value_at(arrays[1].as_ref(), row);
            self.value(left, right).map_err(external)
        });
        let array: IntervalMonthDayNanoArray = values.collect::<Result<_>>()?;
        finish(Arc::new(array), is_scalar)
    }
}

impl IntervalFunction {
    fn value(
        &self,
        left: Option<ValueRef<'_>>,
        right: Option<ValueRef<'_>>,
    ) -> crate::error::Result<Option<IntervalMonthDayNano>> {
        let span = match (left, right) {
            (
                Some(ValueRef::Timestamp(a) | ValueRef::TimestampTz(a)),
                Some(ValueRef::Timestamp(b) | ValueRef::TimestampTz(b)),
            ) => difference(a, b)?,
            (Some(ValueRef::Time(a)), Some(ValueRef::Time(b))) => {
                Interval { nanos: (a - b) * US_NS, ..Interval::default() }
            }
            (Some(ValueRef::Interval(value)), Some(ValueRef::Float64(by))) => match self.op {
                IntervalOp::Divided => interval::divide(value, by)?,
                _ => interval::multiply(value, by)?,
            },
            _ => return Ok(None),
        };
        Ok(Some(IntervalMonthDayNano::new(span.months, span.days, span.nanos)))
    }
}
