//! Aggregates with PostgreSQL's types: no sum of integers wraps, no average of integers is a float.
//!
//! | argument | `sum` | `avg` |
//! |---|---|---|
//! | SMALLINT, INTEGER | BIGINT | NUMERIC with sixteen places |
//! | BIGINT | NUMERIC | NUMERIC with sixteen places |
//! | NUMERIC(p, s) | NUMERIC(min(p + 10, 38), s), refused beyond 38 digits | NUMERIC |
//! | REAL, DOUBLE PRECISION | DOUBLE PRECISION | DOUBLE PRECISION |
//!
//! Sums of small types cannot overflow within 2^32 rows of a partition's reach, so DataFusion's
//! own accumulators serve; only decimals that are near 38 digits already are added with a check.

use std::collections::HashSet;
use std::mem::size_of_val;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
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
use halcyon_value::decimal;

use halcyon_sql::diagnose::{external, out_of_range};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::values::sql_type_of_arrow;

/// All of them.
pub fn all() -> Vec<Arc<AggregateUDF>> {
    vec![
        Arc::new(AggregateUDF::new_from_impl(Sum::new())),
        Arc::new(AggregateUDF::new_from_impl(Avg::new())),
    ]
}

/// Places of an average of integers.
const AVG_PLACES: i8 = 16;

fn no_aggregate(name: &str, ty: &DataType) -> SqlError {
    let shown = sql_type_of_arrow(ty).map_or_else(|| ty.to_string(), |ty| ty.to_string());
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}({shown}) does not exist"))
        .hint("No function of this name takes this type. You might need an explicit cast.")
}

/// `sum`: DataFusion's over arguments that leave it room.
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

/// Decimals of so many digits stay below 38 when ten thousand million of them are added.
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

/// The same, by group.
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

/// A sum of decimals that are checked one by one.
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

/// The same, by group.
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
            for (&group, &value) in groups.iter().zip(values.values()) {
                self.sums[group] = added(self.sums[group], value)?;
                self.seen[group] = true;
            }
            return Ok(());
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

/// `avg`: of integers by us, of anything else DataFusion's.
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

fn of_integers(args: &AccumulatorArgs<'_>) -> bool {
    args.expr_fields[0].data_type() == &DataType::Int64
}

fn average_type() -> DataType {
    DataType::Decimal128(38, AVG_PLACES)
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
        match &args[0] {
            DataType::Int64 => Ok(average_type()),
            _ => self.inner.return_type(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if of_integers(&args) {
            let distinct = args.is_distinct.then(HashSet::new);
            return Ok(Box::new(IntegerAverage { sum: 0, count: 0, distinct }));
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.input_fields[0].data_type() != &DataType::Int64 {
            return self.inner.state_fields(args);
        }
        if args.is_distinct {
            let item = Field::new_list_field(DataType::Int64, true);
            let name = format_state_name(args.name, "avg distinct");
            return Ok(vec![Arc::new(Field::new_list(name, item, false))]);
        }
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "count"), DataType::Int64, true)),
            Arc::new(Field::new(
                format_state_name(args.name, "sum"),
                DataType::Decimal128(38, 0),
                true,
            )),
        ])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        if of_integers(&args) {
            !args.is_distinct
        } else {
            self.inner.groups_accumulator_supported(args)
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if of_integers(&args) {
            return Ok(Box::new(IntegerAverages { counts: Vec::new(), sums: Vec::new() }));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if of_integers(&args) {
            self.accumulator(args)
        } else {
            self.inner.create_sliding_accumulator(args)
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        datafusion::logical_expr::utils::AggregateOrderSensitivity::Insensitive
    }
}

/// `sum / count` with [`AVG_PLACES`]; NULL of nothing.
fn average(sum: i128, count: i64) -> Option<i128> {
    decimal::average(sum, count, AVG_PLACES as u8)
}

/// An average of integers; the sum of 2^63 of them fits.
#[derive(Debug)]
struct IntegerAverage {
    sum: i128,
    count: i64,
    /// The values so far, for DISTINCT.
    distinct: Option<HashSet<i64>>,
}

impl IntegerAverage {
    fn add(&mut self, value: i64) {
        if self.distinct.as_mut().is_none_or(|seen| seen.insert(value)) {
            self.sum += i128::from(value);
            self.count += 1;
        }
    }
}

impl Accumulator for IntegerAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Int64Type>().iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Int64Type>().iter().flatten() {
            self.sum -= i128::from(value);
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
        let counts = states[0].as_primitive::<Int64Type>();
        let sums = states[1].as_primitive::<Decimal128Type>();
        self.count += counts.iter().flatten().sum::<i64>();
        self.sum += sums.iter().flatten().sum::<i128>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128(average(self.sum, self.count), 38, AVG_PLACES))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.distinct {
            let values: Vec<ScalarValue> =
                seen.iter().map(|value| ScalarValue::Int64(Some(*value))).collect();
            let list = ScalarValue::new_list_nullable(&values, &DataType::Int64);
            return Ok(vec![ScalarValue::List(list)]);
        }
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Decimal128(Some(self.sum), 38, 0),
        ])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.distinct.as_ref().map_or(0, |seen| seen.capacity() * 9)
    }
}

/// The same, by group.
struct IntegerAverages {
    counts: Vec<i64>,
    sums: Vec<i128>,
}

impl IntegerAverages {
    fn grow(&mut self, group_count: usize) {
        self.counts.resize(group_count, 0);
        self.sums.resize(group_count, 0);
    }
}

impl GroupsAccumulator for IntegerAverages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let values = values[0].as_primitive::<Int64Type>();
        if values.null_count() == 0 && filter.is_none() {
            for (&group, &value) in groups.iter().zip(values.values()) {
                self.counts[group] += 1;
                self.sums[group] += i128::from(value);
            }
            return Ok(());
        }
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && passes(filter, row) {
                self.counts[group] += 1;
                self.sums[group] += i128::from(values.value(row));
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
                self.sums[group] += sums.value(row);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let counts = emit.take_needed(&mut self.counts);
        let sums = emit.take_needed(&mut self.sums);
        let averages: Decimal128Array =
            sums.into_iter().zip(counts).map(|(sum, count)| average(sum, count)).collect();
        Ok(Arc::new(averages.with_data_type(average_type())))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = Int64Array::from(emit.take_needed(&mut self.counts));
        let sums = Decimal128Array::from(emit.take_needed(&mut self.sums));
        let sums = sums.with_data_type(DataType::Decimal128(38, 0));
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Int64Type>();
        let kept = |row: usize| values.is_valid(row) && passes(filter, row);
        let rows = 0..values.len();
        let counts: Int64Array = rows.clone().map(|row| Some(i64::from(kept(row)))).collect();
        let sums: Decimal128Array = rows
            .map(|row| Some(if kept(row) { i128::from(values.value(row)) } else { 0 }))
            .collect();
        let sums = sums.with_data_type(DataType::Decimal128(38, 0));
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn size(&self) -> usize {
        self.counts.capacity() * 8 + self.sums.capacity() * 16
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
        assert_eq!(average(0, 0), None);
        assert_eq!(average(7, 2), Some(35 * unit / 10));
        assert_eq!(average(-7, 2), Some(-35 * unit / 10));
        assert_eq!(average(2, 3), Some(6_666_666_666_666_667));
        assert_eq!(average(i128::from(i64::MAX) * 4, 4), Some(i128::from(i64::MAX) * unit));
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
