//! Ordered-set aggregates: `percentile_cont`, `percentile_disc` and `mode`, each `WITHIN GROUP (ORDER BY x)`.
//!
//! DataFusion puts the ordered value before the other arguments. NULLs are left out. The fraction may
//! be an array; the result is an array then. Cost: all values of a group are kept, and sorted once.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use halcyon_value::{Interval, interval};

use crate::sums::no_aggregate;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

/// All of these functions.
pub fn all() -> impl Iterator<Item = Arc<AggregateUDF>> {
    [Kind::Continuous, Kind::Discrete, Kind::Mode].into_iter().map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(OrderedSet { kind, signature }))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A value between the two that lie around the fraction.
    Continuous,
    /// The first value at or behind the fraction.
    Discrete,
    /// The value that is there most often, the first one of several.
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
}

fn span() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

fn list_of(ty: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(ty.clone(), true)))
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Continuous => "percentile_cont",
            Kind::Discrete => "percentile_disc",
            Kind::Mode => "mode",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let refused = |ty: &DataType| external(no_aggregate(self.name(), ty));
        let (value, fraction) = match (self.kind, types) {
            (Kind::Mode, [value]) => return Ok(vec![value.clone()]),
            (Kind::Continuous | Kind::Discrete, [value, fraction]) => (value, fraction),
            _ => return Err(refused(types.first().unwrap_or(&DataType::Null))),
        };
        let value = match value {
            ty if self.kind == Kind::Discrete || *ty == span() => ty.clone(),
            ty if ty.is_numeric() || ty.is_null() => DataType::Float64,
            other => return Err(refused(other)),
        };
        let fraction = match fraction {
            DataType::List(_) => list_of(&DataType::Float64),
            ty if ty.is_numeric() || ty.is_null() || ty.is_string() => DataType::Float64,
            other => return Err(refused(other)),
        };
        Ok(vec![value, fraction])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.get(1) {
            Some(DataType::List(_)) => list_of(&types[0]),
            _ => types[0].clone(),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].data_type();
        let name = |part: &str| format_state_name(args.name, part);
        let mut fields = vec![Field::new(name("values"), list_of(value), true).into()];
        if let Some(fraction) = args.input_fields.get(1) {
            fields.push(Field::new(name("fraction"), fraction.data_type().clone(), true).into());
        }
        Ok(fields)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let message = format!("{}(DISTINCT …)", self.name());
            return Err(external(SqlError::unsupported(message)));
        }
        Ok(Box::new(Values {
            kind: self.kind,
            descending: args.order_bys.first().is_some_and(|order| order.options.descending),
            ty: args.expr_fields[0].data_type().clone(),
            fraction_type: args.expr_fields.get(1).map(|field| field.data_type().clone()),
            values: Vec::new(),
            fraction: None,
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    kind: Kind,
    descending: bool,
    ty: DataType,
    fraction_type: Option<DataType>,
    values: Vec<ScalarValue>,
    fraction: Option<ScalarValue>,
}

impl Values {
    fn take(&mut self, values: &ArrayRef) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            self.values.push(ScalarValue::try_from_array(values, row)?);
        }
        Ok(())
    }

    fn take_fraction(&mut self, fractions: Option<&ArrayRef>) -> Result<()> {
        let (None, Some(fractions)) = (&self.fraction, fractions) else { return Ok(()) };
        // A state without rows has none.
        if let Some(row) = (0..fractions.len()).find(|row| fractions.is_valid(*row)) {
            self.fraction = Some(ScalarValue::try_from_array(fractions, row)?);
        }
        Ok(())
    }

    /// The value at a fraction of the sorted values.
    fn at(&self, fraction: f64) -> Result<ScalarValue> {
        if !(0.0..=1.0).contains(&fraction) {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            return Err(external(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)));
        }
        let count = self.values.len();
        if self.kind == Kind::Discrete {
            let at = (fraction * count as f64).ceil() as usize;
            return Ok(self.values[at.saturating_sub(1).min(count - 1)].clone());
        }
        let place = fraction * (count - 1) as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        between(&self.values[low], &self.values[high], place - place.floor())
    }

    fn most_frequent(&self) -> Option<&ScalarValue> {
        let runs = self.values.chunk_by(|a, b| a == b);
        let longest = runs.reduce(|best, next| if next.len() > best.len() { next } else { best });
        longest.and_then(<[ScalarValue]>::first)
    }
}

/// A value between two, by the share of the second one.
fn between(low: &ScalarValue, high: &ScalarValue, share: f64) -> Result<ScalarValue> {
    Ok(match (low, high) {
        (ScalarValue::Float64(Some(low)), ScalarValue::Float64(Some(high))) => {
            ScalarValue::Float64(Some(low + share * (high - low)))
        }
        (
            ScalarValue::IntervalMonthDayNano(Some(low)),
            ScalarValue::IntervalMonthDayNano(Some(high)),
        ) => {
            let parts = |value: &arrow::datatypes::IntervalMonthDayNano| Interval {
                months: value.months,
                days: value.days,
                nanos: value.nanoseconds,
            };
            let (low, high) = (parts(low), parts(high));
            let far = || external(halcyon_value::ValueError::OutOfRange("interval").into());
            let step = Interval {
                months: high.months.checked_sub(low.months).ok_or_else(far)?,
                days: high.days.checked_sub(low.days).ok_or_else(far)?,
                nanos: high.nanos.checked_sub(low.nanos).ok_or_else(far)?,
            };
            let step =
                interval::multiply(step, share).map_err(|error| external(SqlError::from(error)))?;
            ScalarValue::new_interval_mdn(
                low.months + step.months,
                low.days + step.days,
                low.nanos + step.nanos,
            )
        }
        _ => low.clone(),
    })
}

impl Accumulator for Values {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.take_fraction(columns.get(1))?;
        self.take(&columns[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.take_fraction(states.get(1))?;
        let lists = states[0].as_list::<i32>();
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            self.take(&lists.value(row))?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = ScalarValue::new_list_nullable(&self.values, &self.ty);
        let mut state = vec![ScalarValue::List(values)];
        if let Some(ty) = &self.fraction_type {
            let none = ScalarValue::try_from(ty)?;
            state.push(self.fraction.clone().unwrap_or(none));
        }
        Ok(state)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let descending = self.descending;
        self.values.sort_by(|a, b| {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if descending { order.reverse() } else { order }
        });
        let null = || ScalarValue::try_from(&self.ty);
        match (self.kind, &self.fraction) {
            (Kind::Mode, _) => self.most_frequent().cloned().map_or_else(null, Ok),
            (_, Some(ScalarValue::List(fractions))) if !self.values.is_empty() => {
                let fractions = fractions.value(0);
                let value = |row| match ScalarValue::try_from_array(&fractions, row)? {
                    ScalarValue::Float64(Some(fraction)) => self.at(fraction),
                    _ => null(),
                };
                let values = (0..fractions.len()).map(value).collect::<Result<Vec<_>>>()?;
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.ty)))
            }
            (_, Some(ScalarValue::Float64(Some(fraction)))) if !self.values.is_empty() => {
                self.at(*fraction)
            }
            _ => match &self.fraction_type {
                Some(DataType::List(_)) => ScalarValue::try_from(&list_of(&self.ty)),
                _ => null(),
            },
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    #[test]
    fn states_are_merged_in_any_order() {
        let new = || Values {
            kind: Kind::Discrete,
            descending: false,
            ty: DataType::Int64,
            fraction_type: Some(DataType::Float64),
            values: Vec::new(),
            fraction: None,
        };
        let (mut empty, mut full) = (new(), new());
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=9));
        let fractions: ArrayRef = Arc::new(Float64Array::from_iter_values([0.5; 9]));
        full.update_batch(&[values, fractions]).expect("values");
        let states = [empty.state().expect("a state"), full.state().expect("a state")];
        for order in [[0, 1], [1, 0]] {
            let column = |number: usize| {
                let cells = order.map(|state: usize| states[state][number].clone());
                ScalarValue::iter_to_array(cells).expect("cells of one type")
            };
            let mut merged = new();
            merged.merge_batch(&[column(0), column(1)]).expect("states");
            assert_eq!(merged.evaluate().expect("a value"), ScalarValue::Int64(Some(5)));
        }
    }
}
