//! DataFusion's aggregates with what they lack: `min` and `max` of floats by group know infinities
//! and NaN, approximate percentiles refuse digests that no memory holds, `string_agg` gives a text, or takes and gives
//! BYTEA.
//!
//! DataFusion begins the least float of a group with the largest finite one, so a group of
//! infinities alone would answer with that; and keeps whichever came last beside NaN. Here NaN is
//! above all, as for PostgreSQL. [`watched`] makes of any aggregate one that looks whether its statement is to
//! end.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, Volatility,
};

use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::meeting_types::is_text;
use halcyon_sql::types::{OID_ALIAS_KEY, PG_TYPE_KEY};

use crate::bytes::{self, are_bytes};
use crate::ordered::{Gathered, Ordered};
use crate::sliding::{of_intervals, sliding};

/// The most centroids of a digest.
const CENTROIDS_MAX: i128 = 100_000;

/// The aggregates of `all` that are corrected, to be registered over the others.
pub fn corrected(all: &[Arc<AggregateUDF>]) -> Vec<Arc<AggregateUDF>> {
    let wrap = |function: &Arc<AggregateUDF>| {
        let correction = match function.name() {
            "min" => Correction::Extreme(Extreme::Least),
            "max" => Correction::Extreme(Extreme::Greatest),
            "approx_percentile_cont" | "approx_percentile_cont_with_weight" => {
                Correction::Centroids
            }
            "string_agg" => Correction::Texts,
            "array_agg" => Correction::Named,
            _ => return None,
        };
        let inner = Arc::clone(function);
        Some(Arc::new(AggregateUDF::new_from_impl(Corrected { inner, correction })))
    };
    all.iter().filter_map(wrap).collect()
}

/// The aggregate as a window function, which ends with its statement.
pub fn watched(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let inner = Arc::clone(function);
    Arc::new(AggregateUDF::new_from_impl(Corrected { inner, correction: Correction::Watched }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Correction {
    Extreme(Extreme),
    /// The last argument, if an integer, is bounded.
    Centroids,
    /// The result is a text: DataFusion gives `LargeUtf8`, which is `json` here. Of BYTEA it is one ([`mod@bytes`]).
    Texts,
    /// The result's field names the type of arrays of what only system tables have.
    Named,
    /// Accumulators look whether the statement is to end.
    Watched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    /// Whether a value takes the place of another: NaN is above all, 0 and -0 are equal.
    fn takes_place(self, new: f64, old: f64) -> bool {
        match self {
            Extreme::Least => new < old || (old.is_nan() && !new.is_nan()),
            Extreme::Greatest => new > old || (new.is_nan() && !old.is_nan()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Corrected {
    inner: Arc<AggregateUDF>,
    correction: Correction,
}

impl Corrected {
    fn looking(&self, accumulator: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        match self.correction {
            Correction::Watched => crate::watched::watched(accumulator, self.inner.name()),
            Correction::Texts => Box::new(Texts(accumulator)),
            _ => accumulator,
        }
    }

    /// Whether this is `string_agg` of values that are BYTEA.
    fn gathers_bytes(&self, first: Option<&DataType>) -> bool {
        self.correction == Correction::Texts && first.is_some_and(are_bytes)
    }

    /// Whether this is `string_agg` of such arguments.
    fn takes_bytes(&self, args: &AccumulatorArgs<'_>) -> bool {
        self.gathers_bytes(args.expr_fields.first().map(|field| field.data_type()))
    }

    /// An accumulator of values in an order, if the aggregate gathers them and can keep them as bytes.
    fn ordered(&self, args: &AccumulatorArgs<'_>) -> Result<Option<Ordered>> {
        let gathered = match self.correction {
            Correction::Texts => Gathered::text(args),
            Correction::Named => Some(Gathered::Array),
            _ => None,
        };
        gathered.map_or(Ok(None), |gathered| Ordered::of(args, gathered))
    }

    /// Errors: 22023 for a digest of too many centroids.
    fn check(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        if self.correction != Correction::Centroids {
            return Ok(());
        }
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        for argument in args.exprs.iter().skip(1) {
            // A value of the execution is a constant below a cast. The percentage and the values are no integers, or columns.
            let Ok(ColumnarValue::Scalar(value)) = argument.evaluate(&nothing) else { continue };
            let count = match value {
                value if value.data_type().is_integer() => value.cast_to(&DataType::Int64)?,
                _ => continue,
            };
            if let ScalarValue::Int64(Some(count)) = count
                && i128::from(count) > CENTROIDS_MAX
            {
                let message = format!("a digest has at most {CENTROIDS_MAX} centroids");
                let state = SqlState::INVALID_PARAMETER_VALUE;
                return Err(external(SqlError::new(state, message)));
            }
        }
        Ok(())
    }
}

/// The type of arrays of what a column of a system table holds, if only system tables have it: `pg_typeof` tells it.
fn list_type(field: &Field) -> Option<&'static str> {
    match field.metadata().get(PG_TYPE_KEY).map(String::as_str) {
        Some("name") => Some("name[]"),
        Some("char") => Some("char[]"),
        Some(_) => None,
        None => field.metadata().contains_key(OID_ALIAS_KEY).then_some("oid[]"),
    }
}

impl AggregateUDFImpl for Corrected {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        static OWN: LazyLock<Signature> =
            LazyLock::new(|| Signature::user_defined(Volatility::Immutable));
        match self.correction {
            Correction::Texts => &OWN,
            _ => self.inner.signature(),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.gathers_bytes(types.first()) {
            return Ok(DataType::BinaryView);
        }
        if self.correction == Correction::Texts {
            return Ok(DataType::Utf8View);
        }
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(fields)?;
        Ok(match self.correction {
            Correction::Texts => {
                let types: Vec<DataType> =
                    fields.iter().map(|field| field.data_type().clone()).collect();
                Arc::new(field.as_ref().clone().with_data_type(self.return_type(&types)?))
            }
            Correction::Named => match fields.first().and_then(|of| list_type(of)) {
                Some(told) => {
                    let told = [(PG_TYPE_KEY.to_owned(), told.to_owned())].into();
                    Arc::new(field.as_ref().clone().with_metadata(told))
                }
                None => field,
            },
            _ => field,
        })
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.check(&args)?;
        if self.takes_bytes(&args) {
            let made = bytes::of_texts(args, |args| self.inner.accumulator(args))?;
            return Ok(Box::new(made));
        }
        if let Some(ordered) = self.ordered(&args)? {
            return Ok(Box::new(ordered));
        }
        let own = match self.correction {
            Correction::Watched => of_intervals(self.inner.name(), &args),
            _ => None,
        };
        Ok(self.looking(match own {
            Some(own) => own,
            None => self.inner.accumulator(args)?,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if self.gathers_bytes(args.input_fields.first().map(|field| field.data_type())) {
            let mut input_fields = args.input_fields.to_vec();
            input_fields[0] = bytes::field_of_texts(&input_fields[0]);
            return self
                .inner
                .state_fields(StateFieldsArgs { input_fields: &input_fields, ..args });
        }
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.check(&args)?;
        if self.takes_bytes(&args) {
            let made = bytes::of_texts(args, |args| self.inner.create_groups_accumulator(args))?;
            return Ok(Box::new(made));
        }
        let ty = args.return_field.data_type();
        match self.correction {
            Correction::Extreme(extreme) if matches!(ty, DataType::Float32 | DataType::Float64) => {
                Ok(Box::new(Extremes { extreme, found: Vec::new(), ty: ty.clone() }))
            }
            Correction::Texts => Ok(Box::new(Texts(self.inner.create_groups_accumulator(args)?))),
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.check(&args)?;
        if self.correction == Correction::Watched {
            let accumulator = match of_intervals(self.inner.name(), &args) {
                Some(own) => own,
                None => sliding(&self.inner, args)?,
            };
            return Ok(self.looking(accumulator));
        }
        if self.takes_bytes(&args) {
            return self.accumulator(args);
        }
        Ok(self.looking(self.inner.create_sliding_accumulator(args)?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // `string_agg` orders its values by itself, as `array_agg` does, of which DataFusion makes it; so several with
        // different orders stand beside each other.
        if self.correction == Correction::Texts {
            return AggregateOrderSensitivity::SoftRequirement;
        }
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        if self.correction == Correction::Texts {
            return Ok(Some(self));
        }
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(beneficial)?;
        Ok(inner.map(|inner| {
            let (inner, correction) = (Arc::new(inner), self.correction);
            Arc::new(Corrected { inner, correction }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        if self.correction == Correction::Texts {
            return ReversedUDAF::NotSupported;
        }
        self.inner.reverse_udf()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.correction != Correction::Texts {
            return self.inner.coerce_types(types);
        }
        // A constant in quotes is a text until it gets its type.
        let may_be = |ty: &DataType| are_bytes(ty) || is_text(ty) || ty.is_null();
        if types.len() == 2 && types.iter().any(are_bytes) && types.iter().all(may_be) {
            return Ok(vec![DataType::BinaryView; 2]);
        }
        let field = |ty: &DataType| Arc::new(Field::new("", ty.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        if self.correction == Correction::Texts {
            return ScalarValue::try_from(ty);
        }
        self.inner.default_value(ty)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

/// An accumulator whose results become texts.
#[derive(Debug)]
struct Texts<T>(T);

impl Accumulator for Texts<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()?.cast_to(&DataType::Utf8View)
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

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

impl GroupsAccumulator for Texts<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, group_count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate(emit)?, &DataType::Utf8View)?)
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
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The least or the greatest float of each group.
struct Extremes {
    extreme: Extreme,
    found: Vec<Option<f64>>,
    ty: DataType,
}

impl Extremes {
    fn array(&self, found: impl Iterator<Item = Option<f64>>) -> Result<ArrayRef> {
        let floats: ArrayRef = Arc::new(found.collect::<Float64Array>());
        Ok(cast(&floats, &self.ty)?)
    }
}

impl GroupsAccumulator for Extremes {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.found.resize(group_count, None);
        let floats = cast(&values[0], &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        let is_taken = |row| filter.is_none_or(|kept| kept.is_valid(row) && kept.value(row));
        for (row, &group) in groups.iter().enumerate() {
            if floats.is_null(row) || !is_taken(row) {
                continue;
            }
            let (new, place) = (floats.value(row), &mut self.found[group]);
            if place.is_none_or(|old| self.extreme.takes_place(new, old)) {
                *place = Some(new);
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
        let found = emit.take_needed(&mut self.found);
        self.array(found.into_iter())
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(kept) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let floats = cast(&values[0], &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        let is_taken = |row: usize| kept.is_valid(row) && kept.value(row);
        let rows = floats.iter().enumerate();
        Ok(vec![self.array(rows.map(|(row, value)| value.filter(|_| is_taken(row))))?])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<Option<f64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_group(extreme: Extreme, values: &[f64], groups: &[usize]) -> Vec<f64> {
        let mut extremes = Extremes { extreme, found: Vec::new(), ty: DataType::Float64 };
        let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        extremes.update_batch(&[values], groups, None, 2).unwrap();
        let state = extremes.state(EmitTo::All).unwrap();
        let mut merged = Extremes { extreme, found: Vec::new(), ty: DataType::Float64 };
        merged.merge_batch(&state, &[0, 1], 2).unwrap();
        let found = merged.evaluate(EmitTo::All).unwrap();
        found.as_primitive::<Float64Type>().values().to_vec()
    }

    #[test]
    fn infinities_and_nan_are_found_by_group() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(by_group(Extreme::Least, &[inf, inf, nan, 2.0], &[0, 0, 1, 1]), [inf, 2.0]);
        let greatest = by_group(Extreme::Greatest, &[-inf, nan, 2.0, nan], &[0, 1, 1, 1]);
        assert_eq!(greatest[0], -inf);
        assert!(greatest[1].is_nan());
        assert!(by_group(Extreme::Least, &[nan, 1.0], &[0, 1])[0].is_nan());
    }
}
