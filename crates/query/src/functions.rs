//! Functions of PostgreSQL that DataFusion lacks or means differently.
//!
//! Functions of the *execution* (`now()`, `nextval`, `current_user`, …) are known by name while a
//! plan is made and refuse to be evaluated then; [`bind_call`] puts in the value, or a function
//! that carries the session, when a statement runs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    AggregateUDF, Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use halcyon_store::ValueRef;
use halcyon_value::calendar::{US_NS, day_of, difference, time_of};
use halcyon_value::{Interval, interval};

use crate::coerce;
use crate::coerce::zone::TimeZone;
use crate::diagnose::external;
use crate::error::{SqlError, SqlState};
use crate::exec::Env;
use crate::types::SqlType;
use crate::values::{ArrayWriter, to_scalar, value_at};

/// Our scalar functions, to be registered over DataFusion's.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<Arc<ScalarUDF>> = OF_EXECUTION
        .iter()
        .map(|(name, ty, volatile)| {
            Arc::new(ScalarUDF::new_from_impl(Unbound::new(name, *ty, *volatile)))
        })
        .collect();
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
// Functions of the execution

/// Name, type, and whether each call gives another value.
const OF_EXECUTION: &[(&str, SqlType, bool)] = &[
    ("now", SqlType::TimestampTz, false),
    ("current_timestamp", SqlType::TimestampTz, false),
    ("transaction_timestamp", SqlType::TimestampTz, false),
    ("statement_timestamp", SqlType::TimestampTz, false),
    ("clock_timestamp", SqlType::TimestampTz, false),
    ("localtimestamp", SqlType::Timestamp, false),
    ("current_date", SqlType::Date, false),
    ("today", SqlType::Date, false),
    ("current_time", SqlType::Time, false),
    ("localtime", SqlType::Time, false),
    ("current_user", SqlType::Text, false),
    ("user", SqlType::Text, false),
    ("current_role", SqlType::Text, false),
    ("session_user", SqlType::Text, false),
    ("current_database", SqlType::Text, false),
    ("current_catalog", SqlType::Text, false),
    ("current_schema", SqlType::Text, false),
    ("pg_backend_pid", SqlType::Integer, false),
    ("nextval", SqlType::BigInt, true),
    ("currval", SqlType::BigInt, true),
    ("setval", SqlType::BigInt, true),
    ("lastval", SqlType::BigInt, true),
];

/// Whether a function's value belongs to one execution and must not be kept in a plan.
pub fn belongs_to_execution(name: &str) -> bool {
    OF_EXECUTION.iter().any(|(own, ..)| *own == name)
}

/// A function of the execution before there is one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unbound {
    name: &'static str,
    ty: SqlType,
    signature: Signature,
}

/// None, one or many, of any type.
fn any_arguments(volatility: Volatility) -> Signature {
    Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], volatility)
}

impl Unbound {
    fn new(name: &'static str, ty: SqlType, volatile: bool) -> Self {
        // Stable functions may be pushed down; that they fail while planning keeps the optimizer
        // from folding them.
        let volatility = if volatile { Volatility::Volatile } else { Volatility::Stable };
        Unbound { name, ty, signature: any_arguments(volatility) }
    }
}

impl ScalarUDFImpl for Unbound {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.arrow())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{}() cannot be used where nothing is executed", self.name),
        )))
    }
}

/// The call with what belongs to the execution put in.
pub fn bind_call(call: ScalarFunction, env: &Env<'_>) -> crate::error::Result<Expr> {
    let zone = TimeZone::parse(&env.session.time_zone)?;
    let local = |us: i64| zone.to_local(us).unwrap_or(us);
    let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
    let tz = |us| to_scalar(ValueRef::TimestampTz(us), SqlType::TimestampTz);
    let value = match call.name() {
        "now" | "current_timestamp" | "transaction_timestamp" => tz(env.clock.transaction_us()),
        "statement_timestamp" => tz(env.clock.statement_us()),
        "clock_timestamp" => tz(halcyon_base::clock::wall_us()),
        "localtimestamp" => {
            to_scalar(ValueRef::Timestamp(local(env.clock.transaction_us())), SqlType::Timestamp)
        }
        "current_date" | "today" => to_scalar(
            ValueRef::Date(day_of(local(env.clock.transaction_us())) as i32),
            SqlType::Date,
        ),
        "current_time" | "localtime" => {
            to_scalar(ValueRef::Time(time_of(local(env.clock.transaction_us()))), SqlType::Time)
        }
        "current_user" | "user" | "current_role" => text(&env.session.user),
        "session_user" => text(&env.session.session_user),
        "current_database" | "current_catalog" => text(&env.session.database),
        "current_schema" => {
            let exists = |schema: &&String| env.catalog.schemas.contains_key(*schema);
            ScalarValue::Utf8View(env.session.search_path.iter().find(exists).cloned())
        }
        "pg_backend_pid" => ScalarValue::Int32(Some(env.session.session_id as i32)),
        _ => return crate::functions::sequence_call(call, env),
    };
    Ok(Expr::Literal(value, None))
}

// ---------------------------------------------------------------------------------------------
// Sequences

/// A sequence function with its session.
struct BoundSequence {
    name: &'static str,
    catalog: Arc<crate::catalog::Catalog>,
    search_path: Vec<String>,
    values: Arc<parking_lot::Mutex<Vec<(u32, i64)>>>,
    signature: Signature,
}

impl std::fmt::Debug for BoundSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for BoundSequence {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for BoundSequence {}

impl std::hash::Hash for BoundSequence {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        Arc::as_ptr(&self.values).hash(state);
    }
}

fn sequence_call(call: ScalarFunction, env: &Env<'_>) -> crate::error::Result<Expr> {
    let known = OF_EXECUTION.iter().find(|(name, ..)| *name == call.name());
    let (name, ..) = known.expect("asked for functions of the execution only");
    let function = BoundSequence {
        name,
        catalog: Arc::clone(env.catalog),
        search_path: env.session.search_path.clone(),
        values: Arc::clone(&env.session.sequence_values),
        signature: any_arguments(Volatility::Volatile),
    };
    Ok(ScalarUDF::new_from_impl(function).call(call.args))
}

impl ScalarUDFImpl for BoundSequence {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = (0..rows).map(|row| {
            let cells: Vec<ValueRef<'_>> = arrays
                .iter()
                .map(|array| value_at(array.as_ref(), row).unwrap_or(ValueRef::Null))
                .collect();
            self.value(&cells).map_err(external)
        });
        let array: Int64Array = values.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(array)))
    }
}

impl BoundSequence {
    fn value(&self, cells: &[ValueRef<'_>]) -> crate::error::Result<Option<i64>> {
        let wrong = || {
            SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {} does not take these arguments", self.name),
            )
        };
        match (self.name, cells) {
            ("lastval", []) => {
                let last = self.values.lock().last().map(|(_, value)| *value);
                last.map(Some).ok_or_else(|| {
                    SqlError::new(
                        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "lastval is not yet defined in this session",
                    )
                })
            }
            (_, [ValueRef::Null, ..]) => Ok(None),
            ("nextval", [ValueRef::Text(name)]) => {
                let sequence = self.find(name)?;
                let value = crate::catalog::sequence::next(&sequence)?;
                self.note(sequence.oid, value);
                Ok(Some(value))
            }
            ("currval", [ValueRef::Text(name)]) => {
                let sequence = self.find(name)?;
                let values = self.values.lock();
                let found = values.iter().find(|(oid, _)| *oid == sequence.oid);
                found.map(|(_, value)| Some(*value)).ok_or_else(|| {
                    SqlError::new(
                        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                        format!(
                            "currval of sequence \"{}\" is not yet defined in this session",
                            sequence.name
                        ),
                    )
                })
            }
            ("setval", [ValueRef::Text(name), value, rest @ ..]) => {
                let value = match value {
                    ValueRef::Int64(value) => *value,
                    ValueRef::Int32(value) => i64::from(*value),
                    ValueRef::Null => return Ok(None),
                    _ => return Err(wrong()),
                };
                let called = match rest {
                    [] => true,
                    [ValueRef::Bool(called)] => *called,
                    _ => return Err(wrong()),
                };
                let sequence = self.find(name)?;
                crate::catalog::sequence::set(&sequence, value, called)?;
                if called {
                    self.note(sequence.oid, value);
                }
                Ok(Some(value))
            }
            _ => Err(wrong()),
        }
    }

    fn note(&self, oid: u32, value: i64) {
        let mut values = self.values.lock();
        values.retain(|(known, _)| *known != oid);
        values.push((oid, value));
    }

    fn find(&self, text: &str) -> crate::error::Result<Arc<crate::catalog::Sequence>> {
        let (schema, name) = split_name(text);
        let schemas: Vec<&str> = match &schema {
            Some(schema) => vec![schema.as_str()],
            None => self.search_path.iter().map(String::as_str).collect(),
        };
        let found = schemas
            .into_iter()
            .find_map(|schema| self.catalog.schemas.get(schema)?.relations.get(name.as_str()));
        match found {
            Some(crate::catalog::Relation::Sequence(sequence)) => Ok(Arc::clone(sequence)),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a sequence"),
            )),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{text}\" does not exist"),
            )),
        }
    }
}

/// `schema.name` in a string, with quotes where a name has them.
fn split_name(text: &str) -> (Option<String>, String) {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for c in text.chars() {
        match c {
            '"' => inside = !inside,
            '.' if !inside => parts.push(String::new()),
            c => {
                let part = parts.last_mut().expect("never empty");
                if inside { part.push(c) } else { part.extend(c.to_lowercase()) }
            }
        }
    }
    let name = parts.pop().expect("never empty");
    (parts.pop(), name)
}

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
