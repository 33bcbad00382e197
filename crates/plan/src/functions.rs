//! Functions of PostgreSQL that DataFusion lacks or defines differently: the list of all, and those
//! into which operators are translated; casts: [`halcyon_functions::casts`]. By topic: [`crate::execution`] (clock, session,
//! sequences), [`halcyon_functions::table_functions`] (functions of their arguments), [`halcyon_aggregates`].

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{AggregateUDF, Cast, Expr, ExprSchemable, ScalarUDF, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halcyon_catalog::Sequence;
use halcyon_catalog::sequence::position;
use halcyon_value::pattern::number;

use halcyon_sql::coerce::nested::is_nested;
use halcyon_sql::diagnose::external;
use halcyon_sql::misfits::no_function;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::shown_type;

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
