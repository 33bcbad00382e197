//! Functions of PostgreSQL that DataFusion lacks or defines differently: the list of all, and those
//! into which operators and casts are translated. By topic: [`crate::execution`] (clock, session,
//! sequences), [`halcyon_functions::table_functions`] (functions of their arguments), [`halcyon_aggregates`].

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TableType, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use halcyon_catalog::Sequence;
use halcyon_catalog::sequence::position;
use halcyon_store::ValueRef;
use halcyon_value::pattern::number;

use halcyon_sql::coerce;
use halcyon_sql::coerce::nested::is_nested;
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::misfits::no_function;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, shown_type, value_at};

use halcyon_functions::table_functions;

/// Halcyon's scalar functions, to be registered over DataFusion's.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = crate::execution::functions();
    functions.extend(table_functions::all());
    functions.extend(halcyon_functions::all());
    functions.extend(halcyon_functions::zoned::all());
    functions.push(Arc::new(halcyon_functions::zone_function::function()));
    functions.push(crate::ordinals::function());
    functions.push(halcyon_names::told_casts::function());
    functions
}

/// Halcyon's aggregates.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    halcyon_aggregates::all()
}

/// Functions that DataFusion gives formats of its own for texts, which are read where they are constants
/// and fail, or are not looked at, elsewhere.
const READ_ONE: &[&str] = &[
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
];

/// Whether DataFusion's function would take an array, a row, a number, a moment or a truth value for a text.
fn takes_for_text(func: &ScalarUDF, types: &[DataType]) -> bool {
    let is_other = |ty: &DataType| {
        is_nested(ty) || ty.is_numeric() || ty.is_temporal() || *ty == DataType::Boolean
    };
    if !types.iter().any(is_other) {
        return false;
    }
    let field = |ty: &DataType| Arc::new(Field::new("", ty.clone(), true));
    let given: Vec<FieldRef> = types.iter().map(field).collect();
    let taken = fields_with_udf(&given, func).unwrap_or_default();
    let mut pairs = types.iter().zip(&taken);
    pairs.any(|(from, to)| is_other(from) && to.data_type().is_string())
}

/// Adapts a call to the arguments that DataFusion's function expects, or its result to
/// PostgreSQL's.
///
/// Errors: 42883 for more arguments than the function reads in every row.
pub fn adjust(func: Arc<ScalarUDF>, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if READ_ONE.contains(&func.name()) && args.len() > 1 || takes_for_text(&func, &types) {
        let types: Vec<String> = types.iter().map(shown_type).collect();
        return Err(external(no_function(func.name(), &types)));
    }
    let mut args = args;
    // A decimal that is rounded may have one digit more.
    if let (
        "ceil" | "floor" | "round",
        [DataType::Decimal128(precision @ ..=37, scale @ 1..), ..],
    ) = (func.name(), types.as_slice())
    {
        let wider = DataType::Decimal128(precision + 1, *scale);
        args[0] = Expr::Cast(Cast::new(Box::new(std::mem::take(&mut args[0])), wider));
    }
    // Decimals rounded to whole numbers have no places.
    let whole = match (func.name(), args.as_slice()) {
        // Bits are inverted as those of BIGINT.
        ("bitwise_not", _) if matches!(types[0], DataType::Int16 | DataType::Int32) => {
            Some(types[0].clone())
        }
        ("ceil" | "floor" | "trunc" | "round", [arg]) => match arg.get_type(schema)? {
            DataType::Decimal128(precision, scale) if scale > 0 => {
                let digits = (i16::from(precision) - i16::from(scale) + 1).clamp(1, 38);
                Some(DataType::Decimal128(digits as u8, 0))
            }
            _ => None,
        },
        ("trunc", [number, places]) => match (number.get_type(schema)?, whole_constant(places)) {
            (DataType::Decimal128(precision, scale), Some(places)) => {
                let kept = places.clamp(0, scale.max(0).into()) as i8;
                Some(DataType::Decimal128(precision, kept))
            }
            _ => None,
        },
        // Moments have microseconds, whatever the function counts in.
        ("to_timestamp_millis" | "to_timestamp_nanos" | "to_timestamp_seconds", _) => {
            Some(SqlType::TimestampTz.arrow())
        }
        ("to_number", [_, Expr::Literal(pattern, _)]) => pattern
            .try_as_str()
            .flatten()
            .map(|pattern| DataType::Decimal128(38, number::places(pattern))),
        _ => None,
    };
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    Ok(match whole {
        Some(ty) => Expr::Cast(Cast::new(Box::new(call), ty)),
        None => call,
    })
}

/// The value of an expression that is an integer constant.
fn whole_constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) if value.data_type().is_integer() => value.to_string().parse().ok(),
        Expr::Negative(inner) => whole_constant(inner).map(|value| -value),
        Expr::Cast(Cast { expr, .. }) => whole_constant(expr),
        _ => None,
    }
}

// ---------------------------------------------------------------------------------------------
// Sequences

/// A sequence read as a table: `last_value`, `log_cnt`, `is_called`. A plan that has it may outlive the values, which are
/// those of the moment at which a statement begins to read.
pub(crate) struct SequenceTable {
    sequence: Arc<Sequence>,
    schema: SchemaRef,
}

impl SequenceTable {
    pub fn new(sequence: &Arc<Sequence>) -> Self {
        let schema = Schema::new(vec![
            Field::new("last_value", DataType::Int64, false),
            Field::new("log_cnt", DataType::Int64, false),
            Field::new("is_called", DataType::Boolean, false),
        ]);
        SequenceTable { sequence: Arc::clone(sequence), schema: Arc::new(schema) }
    }
}

impl fmt::Debug for SequenceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SequenceTable({})", self.sequence.name)
    }
}

#[async_trait]
impl TableProvider for SequenceTable {
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
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (last, called) = position(&self.sequence);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![last])),
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(BooleanArray::from(vec![called])),
        ];
        let row = RecordBatch::try_new(self.schema(), columns)?;
        let table = MemTable::try_new(self.schema(), vec![vec![row]])?;
        table.scan(state, projection, filters, limit).await
    }
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
    /// A conversion; `zone` is the session's, for TIMESTAMPTZ. Other conversions are equal in every zone.
    pub fn new(from: SqlType, to: SqlType, zone: &str) -> Self {
        let reads_zone = [from, to].contains(&SqlType::TimestampTz);
        PgCast {
            from,
            to,
            zone: if reads_zone { zone } else { "UTC" }.to_owned(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The conversion that a call is.
    pub fn of(call: &ScalarFunction) -> Option<&PgCast> {
        call.func.inner().downcast_ref::<PgCast>()
    }

    /// The types between which it converts.
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
            (Json | Jsonb, _) | (_, Json | Jsonb) => true,
            (from, to) if from.is_address() || to.is_address() => true,
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

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(self.to.field(self.name(), nullable)))
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
    mut convert: impl FnMut(ValueRef<'_>, &mut ArrayWriter) -> halcyon_sql::error::Result<()>,
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

/// The interval between two timestamps.
pub fn timestamp_difference(left: Expr, right: Expr) -> Expr {
    table_functions::call("timestamp_difference", vec![left, right])
}

/// The interval between two times of day.
pub fn time_difference(left: Expr, right: Expr) -> Expr {
    table_functions::call("time_difference", vec![left, right])
}

/// An interval times, or divided by, a double.
pub fn scale_interval(interval: Expr, by: Expr, divide: bool) -> Expr {
    let name = if divide { "interval_divide" } else { "interval_multiply" };
    table_functions::call(name, vec![interval, by])
}
