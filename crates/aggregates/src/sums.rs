//! Aggregates with PostgreSQL's types: no sum of integers wraps, no average of integers is a float.
//!
//! | argument | `sum` | `avg` |
//! |---|---|---|
//! | SMALLINT, INTEGER | BIGINT | NUMERIC with sixteen places |
//! | BIGINT | NUMERIC | NUMERIC with sixteen places |
//! | NUMERIC(p, s) | NUMERIC(min(p + 10, 38), s), refused beyond 38 digits | NUMERIC with sixteen places, or s if that is more |
//! | REAL, DOUBLE PRECISION | DOUBLE PRECISION | DOUBLE PRECISION |
//! | INTERVAL | INTERVAL | INTERVAL |
//!
//! Variances and deviations: [`mod@crate::variance`].
//!
//! Sums of small types cannot overflow within the rows that a table can have, so DataFusion's own
//! accumulators are used for them; only decimals that are already near 38 digits are added with a
//! check.

use std::collections::HashSet;
use std::mem::size_of_val;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use halcyon_value::calendar::DAY_NS;
use halcyon_value::{Interval, decimal, interval};

use halcyon_sql::diagnose::{external, out_of_range};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::misfits::no_function;
use halcyon_sql::values::shown_type;

/// `sum` and `avg`.
pub fn all() -> Vec<Arc<AggregateUDF>> {
    vec![
        Arc::new(AggregateUDF::new_from_impl(Sum::new())),
        Arc::new(AggregateUDF::new_from_impl(Avg::new())),
    ]
}

/// Places of an average, unless its argument has more.
const AVG_PLACES: i8 = 16;

/// 42883: there is no such aggregate of this type.
pub(crate) fn no_aggregate(name: &str, ty: &DataType) -> SqlError {
    let shown = shown_type(ty);
    no_function(name, &[shown])
}

/// `sum`: DataFusion's function for arguments whose sums have room in its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Sum {
    fn new() -> Self {
        Sum { inner: sum_udaf(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// Decimals of this many digits stay below 38 digits when ten thousand million of them are added.
const DIGITS_WITH_ROOM: u8 = 28;

fn is_tight(args: &AccumulatorArgs<'_>) -> bool {
    matches!(args.expr_fields[0].data_type(),
        DataType::Decimal128(precision, _) if *precision > DIGITS_WITH_ROOM)
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let [ty] = args else {
            return Err(external(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "sum takes one argument",
            )));
        };
        Ok(vec![match ty {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int32,
            DataType::UInt8 | DataType::UInt16 => DataType::Int32,
            DataType::Int64 | DataType::UInt32 => DataType::Decimal128(19, 0),
            DataType::UInt64 => DataType::Decimal128(20, 0),
            DataType::Null | DataType::Float16 | DataType::Float32 => DataType::Float64,
            DataType::Float64 | DataType::Decimal128(..) | DataType::Interval(_) => ty.clone(),
            DataType::Decimal256(_, scale) => DataType::Decimal128(38, *scale),
            other => return Err(external(no_aggregate("sum", other))),
        }])
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match &args[0] {
            DataType::Int32 => Ok(DataType::Int64),
            _ => self.inner.return_type(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_tight(&args) && !args.is_distinct {
            return Ok(Box::new(TightSum { sum: None, ty: args.return_field.data_type().clone() }));
        }
        let widens = is_small(&args);
        let inner = self.inner.accumulator(args)?;
        Ok(if widens { Box::new(Widened(inner)) } else { inner })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if is_tight(&args) {
            let ty = args.return_field.data_type().clone();
            return Ok(Box::new(TightSums { sums: Vec::new(), seen: Vec::new(), ty }));
        }
        let widens = is_small(&args);
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(if widens { Box::new(WidenedGroups(inner)) } else { inner })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let widens = is_small(&args);
        let inner = self.inner.create_sliding_accumulator(args)?;
        Ok(if widens { Box::new(Widened(inner)) } else { inner })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        datafusion::logical_expr::utils::AggregateOrderSensitivity::Insensitive
    }
}

fn is_small(args: &AccumulatorArgs<'_>) -> bool {
    args.expr_fields[0].data_type() == &DataType::Int32
}

fn widened(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    Ok(vec![arrow::compute::cast(&values[0], &DataType::Int64)?])
}

/// A sum of BIGINT fed with INTEGER.
#[derive(Debug)]
struct Widened(Box<dyn Accumulator>);

impl Accumulator for Widened {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&widened(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&widened(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Sums of BIGINT fed with INTEGER, by group.
struct WidenedGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for WidenedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.update_batch(&widened(values)?, groups, filter, group_count)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, groups, group_count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&widened(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

fn added(sum: i128, value: i128) -> Result<i128> {
    use decimal::LIMIT;
    match sum.checked_add(value) {
        Some(sum) if -LIMIT < sum && sum < LIMIT => Ok(sum),
        _ => Err(external(out_of_range("numeric"))),
    }
}

/// Values below this bound are added without wrapping, whatever batch they come in.
const SMALL: u128 = 1 << 100;
/// As many values below this bound as a batch may have rows are added in 64 bits.
const NARROW: u128 = 1 << 47;
const ROWS_NARROW: usize = 1 << 14;
/// Groups up to which sums of a batch are kept apart: an addition need not wait for the one before.
const GROUPS_FEW: usize = 64;

/// Adds each value to the sum of its group.
///
/// Errors: 22003 if a sum has more than 38 digits, at any time or at the end of the batch.
fn add_all(sums: &mut [i128], groups: &[usize], values: &[i128]) -> Result<()> {
    use decimal::LIMIT;
    let is_narrow = |bound: u128| {
        values.iter().fold(true, |narrow, value| narrow & (value.unsigned_abs() < bound))
    };
    if sums.len() <= GROUPS_FEW && values.len() <= ROWS_NARROW && is_narrow(NARROW) {
        let mut parts = [[0_i64; 2]; GROUPS_FEW];
        let (pairs, last) = groups.as_chunks::<2>();
        let (values, last_value) = values.as_chunks::<2>();
        for (groups, values) in pairs.iter().zip(values) {
            parts[groups[0]][0] += values[0] as i64;
            parts[groups[1]][1] += values[1] as i64;
        }
        if let (Some(&group), Some(&value)) = (last.first(), last_value.first()) {
            parts[group][0] += value as i64;
        }
        for (sum, parts) in sums.iter_mut().zip(parts) {
            *sum = added(*sum, i128::from(parts[0]) + i128::from(parts[1]))?;
        }
        return Ok(());
    }
    if !is_narrow(SMALL) {
        for (&group, &value) in groups.iter().zip(values) {
            sums[group] = added(sums[group], value)?;
        }
        return Ok(());
    }
    let mut fits = true;
    for (&group, &value) in groups.iter().zip(values) {
        let sum = sums[group].wrapping_add(value);
        fits &= -LIMIT < sum && sum < LIMIT;
        sums[group] = sum;
    }
    match fits {
        true => Ok(()),
        false => Err(external(out_of_range("numeric"))),
    }
}

/// A sum of decimals, each addition checked.
#[derive(Debug)]
struct TightSum {
    sum: Option<i128>,
    ty: DataType,
}

impl TightSum {
    fn scalar(&self) -> ScalarValue {
        match self.ty {
            DataType::Decimal128(precision, scale) => {
                ScalarValue::Decimal128(self.sum, precision, scale)
            }
            _ => ScalarValue::Decimal128(self.sum, 38, 0),
        }
    }
}

impl Accumulator for TightSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = Some(added(self.sum.unwrap_or(0), value)?);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.scalar())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.scalar()])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sums of decimals by group, each addition checked.
struct TightSums {
    sums: Vec<i128>,
    seen: Vec<bool>,
    ty: DataType,
}

impl TightSums {
    fn array(&self, values: Decimal128Array) -> ArrayRef {
        Arc::new(values.with_data_type(self.ty.clone()))
    }
}

impl GroupsAccumulator for TightSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.sums.resize(group_count, 0);
        self.seen.resize(group_count, false);
        let values = values[0].as_primitive::<Decimal128Type>();
        if values.null_count() == 0 && filter.is_none() {
            groups.iter().for_each(|&group| self.seen[group] = true);
            return add_all(&mut self.sums, groups, values.values());
        }
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && passes(filter, row) {
                self.sums[group] = added(self.sums[group], values.value(row))?;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.update_batch(values, groups, None, group_count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        let seen = emit.take_needed(&mut self.seen);
        let values = sums.into_iter().zip(seen).map(|(sum, seen)| seen.then_some(sum)).collect();
        Ok(self.array(values))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Decimal128Type>();
        let kept = (0..values.len())
            .map(|row| (values.is_valid(row) && passes(filter, row)).then(|| values.value(row)));
        Ok(vec![self.array(kept.collect())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * 16 + self.seen.capacity()
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// `avg`: of integers, decimals and intervals computed here, of floats by DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Avg {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Avg {
    fn new() -> Self {
        Avg { inner: avg_udaf(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The type of an average that is computed here; `None` for other arguments.
fn average_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Int64 => Some(DataType::Decimal128(38, AVG_PLACES)),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(38, AVG_PLACES.max(*scale))),
        _ => None,
    }
}

/// The number of digits behind the point that an average has beyond its argument's.
fn places_more(of: &DataType) -> u8 {
    let scale = match of {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    (AVG_PLACES - scale).clamp(0, AVG_PLACES) as u8
}

/// The types by which an average of numbers is computed.
struct OfNumbers {
    /// Type of the argument.
    argument: DataType,
    /// Type of the average.
    result: DataType,
}

impl OfNumbers {
    /// `None` if the argument is neither an integer nor a decimal.
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        let argument = args.expr_fields[0].data_type();
        let result = average_type(argument)?;
        Some(OfNumbers { argument: argument.clone(), result })
    }

    /// `sum / count`; NULL for no values. Errors: 22003.
    fn average(&self, sum: i128, count: i64) -> Result<Option<i128>> {
        if count == 0 {
            return Ok(None);
        }
        let average = decimal::average(sum, count, places_more(&self.argument));
        let average = average.filter(|average| decimal::fits(*average, decimal::DIGITS_MAX));
        average.map(Some).ok_or_else(|| external(out_of_range("numeric")))
    }

    /// The type in which one accumulator hands its sum to another.
    fn sum_type(&self) -> DataType {
        match self.argument {
            DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
            _ => DataType::Decimal128(38, 0),
        }
    }

    fn scalar(&self, value: Option<i128>, ty: &DataType) -> ScalarValue {
        match ty {
            DataType::Decimal128(precision, scale) => {
                ScalarValue::Decimal128(value, *precision, *scale)
            }
            other => unreachable!("{other} is no type of sums and averages"),
        }
    }
}

/// The sum of values without NULL, if no order of additions can exceed 38 digits.
fn sum_of(values: &dyn Array) -> Option<i128> {
    if let Some(values) = values.as_primitive_opt::<Int64Type>() {
        return Some(values.values().iter().map(|&value| i128::from(value)).sum());
    }
    let values = values.as_primitive_opt::<Decimal128Type>()?.values();
    let is_small = values.len() <= 1 << 24
        && values.iter().fold(true, |small, value| small & (value.unsigned_abs() < SMALL));
    is_small.then(|| values.iter().sum())
}

/// The value of a row of BIGINT or decimals, which is not NULL.
fn number_at(array: &dyn Array, row: usize) -> i128 {
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        _ => array.as_primitive::<Decimal128Type>().value(row),
    }
}

impl AggregateUDFImpl for Avg {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let [ty] = args else {
            return Err(external(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "avg takes one argument",
            )));
        };
        Ok(vec![match ty {
            ty if ty.is_integer() && *ty != DataType::UInt64 => DataType::Int64,
            DataType::UInt64 => DataType::Decimal128(20, 0),
            DataType::Null | DataType::Float16 | DataType::Float32 => DataType::Float64,
            DataType::Float64 | DataType::Decimal128(..) | DataType::Interval(_) => ty.clone(),
            DataType::Decimal256(_, scale) => DataType::Decimal128(38, *scale),
            other => return Err(external(no_aggregate("avg", other))),
        }])
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match (&args[0], average_type(&args[0])) {
            (interval @ DataType::Interval(_), _) => Ok(interval.clone()),
            (_, Some(ours)) => Ok(ours),
            _ => self.inner.return_type(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if matches!(args.expr_fields[0].data_type(), DataType::Interval(_)) {
            let distinct = args.is_distinct.then(HashSet::new);
            return Ok(Box::new(IntervalAverage { sum: [0; 3], count: 0, distinct }));
        }
        if let Some(of) = OfNumbers::of(&args) {
            let distinct = args.is_distinct.then(HashSet::new);
            return Ok(Box::new(Average { sum: 0, count: 0, distinct, of }));
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields[0].data_type();
        let is_interval = matches!(argument, DataType::Interval(_));
        if !is_interval && average_type(argument).is_none() {
            return self.inner.state_fields(args);
        }
        if args.is_distinct {
            let item = Field::new_list_field(argument.clone(), true);
            let name = format_state_name(args.name, "avg distinct");
            return Ok(vec![Arc::new(Field::new_list(name, item, false))]);
        }
        let field = |name, ty| Arc::new(Field::new(format_state_name(args.name, name), ty, true));
        let mut fields = vec![field("count", DataType::Int64)];
        let sum = |scale| DataType::Decimal128(38, scale);
        match argument {
            DataType::Decimal128(_, scale) => fields.push(field("sum", sum(*scale))),
            DataType::Interval(_) => {
                fields.extend(["months", "days", "time"].map(|part| field(part, sum(0))));
            }
            _ => fields.push(field("sum", sum(0))),
        }
        Ok(fields)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match (args.expr_fields[0].data_type(), OfNumbers::of(&args)) {
            (DataType::Interval(_), _) => false,
            (_, Some(_)) => !args.is_distinct,
            _ => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(of) = OfNumbers::of(&args) {
            return Ok(Box::new(Averages { counts: Vec::new(), sums: Vec::new(), of }));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 => self.inner.create_sliding_accumulator(args),
            _ => self.accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        datafusion::logical_expr::utils::AggregateOrderSensitivity::Insensitive
    }
}

/// An average of integers or decimals.
struct Average {
    sum: i128,
    count: i64,
    /// The values so far, for DISTINCT.
    distinct: Option<HashSet<i128>>,
    of: OfNumbers,
}

impl std::fmt::Debug for Average {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Average({} / {})", self.sum, self.count)
    }
}

impl Accumulator for Average {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_ref();
        if self.distinct.is_none()
            && values.null_count() == 0
            && let Some(sum) = sum_of(values)
        {
            self.sum = added(self.sum, sum)?;
            self.count += values.len() as i64;
            return Ok(());
        }
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = number_at(values, row);
            if self.distinct.as_mut().is_none_or(|seen| seen.insert(value)) {
                self.sum = added(self.sum, value)?;
                self.count += 1;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_ref();
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            self.sum -= number_at(values, row);
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.distinct.is_none()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.distinct.is_some() {
            for list in states[0].as_list::<i32>().iter().flatten() {
                self.update_batch(&[list])?;
            }
            return Ok(());
        }
        self.count += states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        for sum in states[1].as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = added(self.sum, sum)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let average = self.of.average(self.sum, self.count)?;
        Ok(self.of.scalar(average, &self.of.result))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.distinct {
            let argument = &self.of.argument;
            let value = |value: &i128| match argument {
                DataType::Int64 => ScalarValue::Int64(Some(*value as i64)),
                decimal => self.of.scalar(Some(*value), decimal),
            };
            let values: Vec<ScalarValue> = seen.iter().map(value).collect();
            let list = ScalarValue::new_list_nullable(&values, argument);
            return Ok(vec![ScalarValue::List(list)]);
        }
        let sum = self.of.scalar(Some(self.sum), &self.of.sum_type());
        Ok(vec![ScalarValue::Int64(Some(self.count)), sum])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.distinct.as_ref().map_or(0, |seen| seen.capacity() * 17)
    }
}

/// Averages of integers or decimals, by group.
struct Averages {
    counts: Vec<i64>,
    sums: Vec<i128>,
    of: OfNumbers,
}

impl Averages {
    fn grow(&mut self, group_count: usize) {
        self.counts.resize(group_count, 0);
        self.sums.resize(group_count, 0);
    }

    fn sums_array(&self, sums: Decimal128Array) -> ArrayRef {
        Arc::new(sums.with_data_type(self.of.sum_type()))
    }
}

impl GroupsAccumulator for Averages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let values = values[0].as_ref();
        if values.null_count() == 0
            && filter.is_none()
            && let Some(values) = values.as_primitive_opt::<Int64Type>()
        {
            for (&group, &value) in groups.iter().zip(values.values()) {
                self.counts[group] += 1;
                self.sums[group] += i128::from(value);
            }
            return Ok(());
        }
        if values.null_count() == 0
            && filter.is_none()
            && let Some(values) = values.as_primitive_opt::<Decimal128Type>()
        {
            groups.iter().for_each(|&group| self.counts[group] += 1);
            return add_all(&mut self.sums, groups, values.values());
        }
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && passes(filter, row) {
                self.counts[group] += 1;
                self.sums[group] = added(self.sums[group], number_at(values, row))?;
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let counts = values[0].as_primitive::<Int64Type>();
        let sums = values[1].as_primitive::<Decimal128Type>();
        for (row, &group) in groups.iter().enumerate() {
            if counts.is_valid(row) {
                self.counts[group] += counts.value(row);
                self.sums[group] = added(self.sums[group], sums.value(row))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let counts = emit.take_needed(&mut self.counts);
        let sums = emit.take_needed(&mut self.sums);
        let averages = sums.into_iter().zip(counts).map(|(sum, count)| self.of.average(sum, count));
        let averages: Decimal128Array = averages.collect::<Result<_>>()?;
        Ok(Arc::new(averages.with_data_type(self.of.result.clone())))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = Int64Array::from(emit.take_needed(&mut self.counts));
        let sums = Decimal128Array::from(emit.take_needed(&mut self.sums));
        Ok(vec![Arc::new(counts), self.sums_array(sums)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_ref();
        let kept = |row: usize| values.is_valid(row) && passes(filter, row);
        let rows = 0..values.len();
        let counts: Int64Array = rows.clone().map(|row| Some(i64::from(kept(row)))).collect();
        let sums: Decimal128Array =
            rows.map(|row| Some(if kept(row) { number_at(values, row) } else { 0 })).collect();
        Ok(vec![Arc::new(counts), self.sums_array(sums)])
    }

    fn size(&self) -> usize {
        self.counts.capacity() * 8 + self.sums.capacity() * 16
    }
}

/// An average of intervals: months, days and time are added up, and the sum is divided.
#[derive(Debug)]
struct IntervalAverage {
    /// Months, days and nanoseconds.
    sum: [i128; 3],
    count: i64,
    /// The values so far, for DISTINCT, as sort keys: equal intervals may have different parts.
    distinct: Option<HashSet<i128>>,
}

impl IntervalAverage {
    fn add(&mut self, value: Interval, sign: i128) {
        if self.distinct.as_mut().is_none_or(|seen| seen.insert(value.sort_key())) {
            let parts: [i128; 3] = [value.months.into(), value.days.into(), value.nanos.into()];
            for (sum, part) in self.sum.iter_mut().zip(parts) {
                *sum += sign * part;
            }
            self.count += sign as i64;
        }
    }

    fn add_all(&mut self, values: &ArrayRef, sign: i128) {
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
            self.add(Interval { months, days, nanos }, sign);
        }
    }
}

impl Accumulator for IntervalAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.distinct.is_none()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.distinct.is_some() {
            for list in states[0].as_list::<i32>().iter().flatten() {
                self.add_all(&list, 1);
            }
            return Ok(());
        }
        self.count += states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        for (sum, parts) in self.sum.iter_mut().zip(&states[1..]) {
            *sum += parts.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        }
        Ok(())
    }

    /// Errors: 22008 if the sum is no interval.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let far = |_| external(out_of_range("interval"));
        let [months, days, nanos] = self.sum;
        let sum = Interval {
            months: months.try_into().map_err(far)?,
            days: days.try_into().map_err(far)?,
            nanos: nanos.try_into().map_err(far)?,
        };
        let average = interval::divide(sum, self.count as f64);
        let Interval { months, days, nanos } = average.map_err(|error| external(error.into()))?;
        let average = IntervalMonthDayNano::new(months, days, nanos);
        Ok(ScalarValue::IntervalMonthDayNano(Some(average)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.distinct {
            // An interval of the length that the key gives, in days and time.
            let value = |key: &i128| {
                let (days, nanos) = (key.div_euclid(DAY_NS.into()), key.rem_euclid(DAY_NS.into()));
                let value = IntervalMonthDayNano::new(0, days as i32, nanos as i64);
                ScalarValue::IntervalMonthDayNano(Some(value))
            };
            let values: Vec<ScalarValue> = seen.iter().map(value).collect();
            let interval = DataType::Interval(IntervalUnit::MonthDayNano);
            let list = ScalarValue::new_list_nullable(&values, &interval);
            return Ok(vec![ScalarValue::List(list)]);
        }
        let sums = self.sum.map(|sum| ScalarValue::Decimal128(Some(sum), 38, 0));
        Ok([ScalarValue::Int64(Some(self.count))].into_iter().chain(sums).collect())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.distinct.as_ref().map_or(0, |seen| seen.capacity() * 17)
    }
}

/// The value of a group's only row; NULL without one.
///
/// Errors, when run: 21000 for a group of two rows.
pub fn only(value: Expr) -> Expr {
    static ONLY: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        Arc::new(AggregateUDF::new_from_impl(Only(Signature::any(1, Volatility::Immutable))))
    });
    let call =
        AggregateFunction::new_udf(Arc::clone(&ONLY), vec![value], false, None, vec![], None);
    Expr::AggregateFunction(call)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Only(Signature);

impl AggregateUDFImpl for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(args[0].as_ref().clone().with_name("only").with_nullable(true)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.expr_fields[0].data_type())?;
        Ok(Box::new(OnlyRow { value, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "value"), value, true)),
            Arc::new(Field::new(format_state_name(args.name, "rows"), DataType::Int64, false)),
        ])
    }
}

#[derive(Debug)]
struct OnlyRow {
    value: ScalarValue,
    rows: i64,
}

impl OnlyRow {
    fn add(&mut self, values: &ArrayRef, at: usize, rows: i64) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 {
            return Err(external(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            )));
        }
        self.value = ScalarValue::try_from_array(values, at)?;
        Ok(())
    }
}

impl Accumulator for OnlyRow {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values[0].len() {
            0 => Ok(()),
            rows => self.add(&values[0], 0, rows as i64),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        let some = (0..counts.len()).filter(|at| counts.value(*at) > 0);
        for at in some {
            self.add(&states[0], at, counts.value(at))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.rows))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_round_half_away_from_zero() {
        let unit = 10i128.pow(16);
        let of = |argument: DataType| {
            let result = average_type(&argument).expect("ours");
            OfNumbers { argument, result }
        };
        let integers = of(DataType::Int64);
        let average = |sum, count| integers.average(sum, count).expect("fits");
        assert_eq!(average(0, 0), None);
        assert_eq!(average(7, 2), Some(35 * unit / 10));
        assert_eq!(average(-7, 2), Some(-35 * unit / 10));
        assert_eq!(average(2, 3), Some(6_666_666_666_666_667));
        assert_eq!(average(i128::from(i64::MAX) * 4, 4), Some(i128::from(i64::MAX) * unit));
        let decimals = of(DataType::Decimal128(9, 2));
        assert_eq!(decimals.average(200, 3).expect("fits"), Some(6_666_666_666_666_667));
        assert!(decimals.average(10i128.pow(37), 1).is_err());
    }

    #[test]
    fn averages_of_whole_batches_are_those_of_their_rows() {
        let mut rng = halcyon_base::rng::Rng::new(5);
        for case in 0..200 {
            let is_decimal = rng.chance(1, 2);
            let argument = if is_decimal { DataType::Decimal128(38, 0) } else { DataType::Int64 };
            let result = average_type(&argument).expect("ours");
            let of = OfNumbers { argument, result };
            let mut average = Average { sum: 0, count: 0, distinct: None, of };
            let (mut sum, mut count) = (0_i128, 0);
            for _ in 0..3 {
                let has_nulls = rng.chance(1, 2);
                let value = |rng: &mut halcyon_base::rng::Rng| {
                    let value = rng.next_u64() as i64;
                    (!has_nulls || rng.chance(1, 2)).then_some(value)
                };
                let values: Vec<Option<i64>> =
                    (0..rng.below(40)).map(|_| value(&mut rng)).collect();
                let factor = if is_decimal { 1 << 40 } else { 1 };
                let wide = values.iter().map(|value| value.map(|v| i128::from(v) * factor));
                let array: ArrayRef = match is_decimal {
                    true => Arc::new(wide.clone().collect::<Decimal128Array>()),
                    false => Arc::new(values.iter().copied().collect::<Int64Array>()),
                };
                sum += wide.flatten().sum::<i128>();
                count += values.iter().flatten().count() as i64;
                average.update_batch(&[array]).expect("fits");
            }
            assert_eq!((average.sum, average.count), (sum, count), "case {case}");
        }
    }

    #[test]
    fn values_added_together_are_those_added_one_by_one() {
        let mut rng = halcyon_base::rng::Rng::new(11);
        let (mut summed, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let digits = *rng.pick(&[3, 17, 29, 31, 36, 38]);
            let value = |rng: &mut halcyon_base::rng::Rng| {
                let value = i128::from(rng.next_u64()) * i128::from(rng.next_u64() >> 2);
                let value = value % 10_i128.pow(digits);
                if rng.chance(1, 2) { -value } else { value }
            };
            let rows = 1 + rng.below(60) as usize;
            let groups: Vec<usize> = (0..rows).map(|_| rng.below(3) as usize).collect();
            let values: Vec<i128> = (0..rows).map(|_| value(&mut rng)).collect();
            let before: Vec<i128> = (0..3).map(|_| value(&mut rng)).collect();
            let mut expected = Ok(before.clone());
            for (&group, &value) in groups.iter().zip(&values) {
                if let Ok(sums) = &mut expected {
                    match added(sums[group], value) {
                        Ok(sum) => sums[group] = sum,
                        Err(error) => expected = Err(error),
                    }
                }
            }
            let mut sums = before;
            match (add_all(&mut sums, &groups, &values), expected) {
                (Ok(()), Ok(expected)) => assert_eq!(sums, expected),
                (got, expected) => assert_eq!(got.is_err(), expected.is_err()),
            }
            summed += usize::from(digits < 31);
            refused += usize::from(digits == 38);
        }
        assert!(summed > 100 && refused > 100);
    }

    #[test]
    fn tight_sums_are_refused_beyond_38_digits() {
        let large = 6 * 10i128.pow(37);
        let array: ArrayRef = Arc::new(
            Decimal128Array::from(vec![large, large]).with_data_type(DataType::Decimal128(38, 0)),
        );
        let mut sum = TightSum { sum: None, ty: DataType::Decimal128(38, 0) };
        assert!(sum.update_batch(std::slice::from_ref(&array)).is_err());
        let mut sums =
            TightSums { sums: Vec::new(), seen: Vec::new(), ty: DataType::Decimal128(38, 0) };
        assert!(sums.update_batch(std::slice::from_ref(&array), &[0, 1], None, 2).is_ok());
        assert!(sums.update_batch(&[array], &[0, 1], None, 2).is_err());
    }
}
