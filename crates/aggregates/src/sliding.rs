//! Aggregates over frames of windows that leave rows behind: `ROWS BETWEEN 2 PRECEDING AND CURRENT ROW`.
//!
//! DataFusion asks an accumulator to take out what has left the frame, and refuses frames where it cannot:
//! `string_agg`, `array_agg`, those of a set. Here such an aggregate keeps the frame's rows and begins anew for
//! every row ([`Retained`]), as PostgreSQL does. Sums and averages of floats can take out all but infinities
//! and NaN, of which nothing comes back: these are counted beside the sum ([`Finite`]). Small frames of floats begin
//! anew, too, since a rest is left of what is taken out.
//!
//! Cost: [`Retained`] takes the frame's size for every row, [`Finite`] one more pass over the values.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{
    DataType, FieldRef, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Schema,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use halcyon_value::Interval;

/// An accumulator of a frame that leaves rows behind.
pub(crate) fn sliding(
    function: &Arc<AggregateUDF>,
    args: AccumulatorArgs<'_>,
) -> Result<Box<dyn Accumulator>> {
    let kept = Arguments::of(&args);
    let is_float = matches!(args.expr_fields, [field] if field.data_type() == &DataType::Float64);
    let of = match function.name() {
        "sum" | "avg" if is_float && !args.is_distinct => Some(true),
        "stddev" | "stddev_pop" | "var" | "var_pop" if is_float && !args.is_distinct => Some(false),
        _ => None,
    };
    let inner = function.create_sliding_accumulator(args)?;
    if !inner.supports_retract_batch() {
        let function = Arc::clone(function);
        return Ok(Box::new(Retained { function, args: kept, rows: VecDeque::new() }));
    }
    Ok(match of {
        Some(adds) => {
            let anew = Some((Arc::clone(function), kept, VecDeque::new()));
            Box::new(Finite { inner, anew, adds, count: 0, apart: [0; 3] })
        }
        None => inner,
    })
}

/// The accumulator of `min` and `max` of intervals as window functions, which DataFusion compares month by month;
/// `None` for all else.
pub(crate) fn of_intervals(name: &str, args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
    let is_least = match name {
        "min" => true,
        "max" => false,
        _ => return None,
    };
    let [field] = args.expr_fields else { return None };
    matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano)).then(|| {
        Box::new(Spans { is_least, rows: VecDeque::new(), best: None }) as Box<dyn Accumulator>
    })
}

/// The least or the greatest interval of a frame.
#[derive(Debug)]
struct Spans {
    is_least: bool,
    /// Intervals of the frame as they came, oldest first; NULL is none.
    rows: VecDeque<Option<IntervalMonthDayNano>>,
    /// The first of those that are to be found, if it is known.
    best: Option<IntervalMonthDayNano>,
}

fn key(span: IntervalMonthDayNano) -> i128 {
    let (months, days, nanos) = (span.months, span.days, span.nanoseconds);
    Interval { months, days, nanos }.sort_key()
}

impl Spans {
    fn is_better(&self, new: IntervalMonthDayNano, old: IntervalMonthDayNano) -> bool {
        if self.is_least { key(new) < key(old) } else { key(new) > key(old) }
    }
}

impl Accumulator for Spans {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for span in values[0].as_primitive::<IntervalMonthDayNanoType>() {
            // Of a frame whose best has left, the new best is looked for when it is asked for.
            let was_known = self.best.is_some() || self.rows.iter().all(Option::is_none);
            if let Some(span) = span.filter(|_| was_known)
                && self.best.is_none_or(|best| self.is_better(span, best))
            {
                self.best = Some(span);
            }
            self.rows.push_back(span);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for left in self.rows.drain(..values[0].len()).flatten() {
            if self.best.is_some_and(|best| key(best) == key(left)) {
                self.best = None;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.best.is_none() {
            let known = self.rows.iter().copied().flatten();
            self.best =
                known.reduce(|best, next| if self.is_better(next, best) { next } else { best });
        }
        Ok(ScalarValue::IntervalMonthDayNano(self.best))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * size_of::<Option<IntervalMonthDayNano>>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        unreachable!("a window has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        unreachable!("a window has no partial states")
    }
}

/// The arguments of an accumulator, kept to make others.
#[derive(Debug)]
struct Arguments {
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Arguments {
    fn of(args: &AccumulatorArgs<'_>) -> Self {
        Arguments {
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn lent(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        }
    }
}

/// An accumulator that begins anew over the rows of its frame.
#[derive(Debug)]
struct Retained {
    function: Arc<AggregateUDF>,
    args: Arguments,
    /// Rows of the frame as they came, oldest first.
    rows: VecDeque<Vec<ArrayRef>>,
}

fn rows_of(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |values| values.len())
}

impl Accumulator for Retained {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if rows_of(values) > 0 {
            self.rows.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Rows leave in the order in which they came.
        let mut left = rows_of(values);
        while left > 0 {
            let Some(oldest) = self.rows.front_mut() else { break };
            let rows = rows_of(oldest);
            if rows <= left {
                left -= rows;
                self.rows.pop_front();
            } else {
                for column in oldest.iter_mut() {
                    *column = column.slice(left, rows - left);
                }
                left = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut of_frame = self.function.accumulator(self.args.lent())?;
        for rows in &self.rows {
            of_frame.update_batch(rows)?;
        }
        of_frame.evaluate()
    }

    fn size(&self) -> usize {
        let columns = self.rows.iter().flatten();
        size_of_val(self) + columns.map(|column| column.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        unreachable!("a window has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        unreachable!("a window has no partial states")
    }
}

/// Rows of a frame of floats up to which its value is computed anew for each row: what is added and taken out again
/// leaves a rest, which is seen where values of very different size pass by.
const ANEW_MAX: usize = 64;

/// An accumulator of finite floats; others are counted.
#[derive(Debug)]
struct Finite {
    inner: Box<dyn Accumulator>,
    /// The aggregate and the rows of the frame, while it has had few.
    anew: Option<(Arc<AggregateUDF>, Arguments, VecDeque<Option<f64>>)>,
    /// Whether an infinity is the result, as that of a sum; or NaN, as of deviations.
    adds: bool,
    /// Values that are not NULL.
    count: i64,
    /// How many values are infinite, infinite and negative, and NaN.
    apart: [i64; 3],
}

impl Finite {
    /// The finite values; the others are counted by `sign`, and NULL.
    fn finite(&mut self, values: &[ArrayRef], sign: i64) -> Vec<ArrayRef> {
        let floats = values[0].as_primitive::<Float64Type>();
        if let Some((_, _, rows)) = &mut self.anew {
            match sign {
                1 => rows.extend(floats),
                _ => drop(rows.drain(..floats.len())),
            }
            if rows.len() > ANEW_MAX {
                self.anew = None;
            }
        }
        self.count += sign * (floats.len() - floats.null_count()) as i64;
        if floats.values().iter().all(|value| value.is_finite()) {
            return values.to_vec();
        }
        for value in floats.iter().flatten().filter(|value| !value.is_finite()) {
            let which = match value {
                f64::INFINITY => 0,
                f64::NEG_INFINITY => 1,
                _ => 2,
            };
            self.apart[which] += sign;
        }
        let finite: Float64Array =
            floats.iter().map(|value| value.filter(|value| value.is_finite())).collect();
        vec![Arc::new(finite)]
    }
}

impl Accumulator for Finite {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let finite = self.finite(values, 1);
        self.inner.update_batch(&finite)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let finite = self.finite(values, -1);
        self.inner.retract_batch(&finite)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = match self.apart {
            [0, 0, 0] if let Some((function, args, rows)) = &self.anew => {
                let mut of_frame = function.accumulator(args.lent())?;
                let floats: Float64Array = rows.iter().copied().collect();
                of_frame.update_batch(&[Arc::new(floats)])?;
                return of_frame.evaluate();
            }
            [0, 0, 0] => return self.inner.evaluate(),
            [_, 0, 0] if self.adds => f64::INFINITY,
            [0, _, 0] if self.adds => f64::NEG_INFINITY,
            _ => f64::NAN,
        };
        // A deviation of one value has none, whatever the value is.
        let of_one = self.inner.evaluate()?.is_null() && !self.adds && self.count < 2;
        Ok(ScalarValue::Float64(if of_one { None } else { Some(found) }))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::array_agg::array_agg_udaf;
    use datafusion::functions_aggregate::sum::sum_udaf;
    use datafusion::physical_expr::expressions::Column;

    use arrow::datatypes::Field;

    fn of_floats(function: &Arc<AggregateUDF>) -> Box<dyn Accumulator> {
        let field = Arc::new(Field::new("x", DataType::Float64, true));
        let schema = Schema::new(vec![Arc::clone(&field)]);
        let return_field = function.return_field(&[Arc::clone(&field)]).unwrap();
        let exprs: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new("x", 0))];
        let args = AccumulatorArgs {
            return_field,
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: "x",
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &[field],
        };
        sliding(function, args).unwrap()
    }

    fn floats(values: &[f64]) -> [ArrayRef; 1] {
        [Arc::new(Float64Array::from(values.to_vec()))]
    }

    #[test]
    fn infinities_leave_a_frame() {
        let mut sum = of_floats(&sum_udaf());
        let mut now = |came: &[f64], left: &[f64]| {
            sum.update_batch(&floats(came)).unwrap();
            sum.retract_batch(&floats(left)).unwrap();
            match sum.evaluate().unwrap() {
                ScalarValue::Float64(sum) => sum,
                other => panic!("{other}"),
            }
        };
        assert_eq!(now(&[1.0, f64::INFINITY], &[]), Some(f64::INFINITY));
        assert!(now(&[f64::NEG_INFINITY], &[]).unwrap().is_nan());
        assert_eq!(now(&[2.0], &[1.0, f64::INFINITY]), Some(f64::NEG_INFINITY));
        assert_eq!(now(&[], &[f64::NEG_INFINITY]), Some(2.0));
        assert!(now(&[f64::NAN], &[2.0]).unwrap().is_nan());
    }

    #[test]
    fn nothing_is_left_of_what_has_left_a_small_frame() {
        let mut sum = of_floats(&sum_udaf());
        sum.update_batch(&floats(&[1e20, 1.0])).unwrap();
        sum.retract_batch(&floats(&[1e20])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
        // A frame that has been large takes out what has left it.
        let mut sum = of_floats(&sum_udaf());
        sum.update_batch(&floats(&[1.0])).unwrap();
        let many = vec![2.0; 2 * ANEW_MAX];
        sum.update_batch(&floats(&many)).unwrap();
        sum.retract_batch(&floats(&[1.0])).unwrap();
        sum.retract_batch(&floats(&many[1..])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Float64(Some(2.0)));
    }

    #[test]
    fn the_least_interval_of_a_frame_is_by_its_length() {
        let spans = |days: &[(i32, i32)]| -> [ArrayRef; 1] {
            let span = |(months, days): &(i32, i32)| IntervalMonthDayNano::new(*months, *days, 0);
            let all = days.iter().map(span);
            [Arc::new(arrow::array::IntervalMonthDayNanoArray::from_iter_values(all))]
        };
        let mut least = Spans { is_least: true, rows: VecDeque::new(), best: None };
        let mut now = |came: &[(i32, i32)], left: &[(i32, i32)]| {
            least.update_batch(&spans(came)).unwrap();
            least.retract_batch(&spans(left)).unwrap();
            match least.evaluate().unwrap() {
                ScalarValue::IntervalMonthDayNano(span) => {
                    span.map(|span| (span.months, span.days))
                }
                other => panic!("{other}"),
            }
        };
        assert_eq!(now(&[(1, 0), (0, 40)], &[]), Some((1, 0)));
        assert_eq!(now(&[(0, 29)], &[(1, 0)]), Some((0, 29)));
        assert_eq!(now(&[(2, 0)], &[(0, 40), (0, 29)]), Some((2, 0)));
        assert_eq!(now(&[], &[(2, 0)]), None);
    }

    #[test]
    fn what_cannot_be_taken_out_begins_anew() {
        let mut gathered = of_floats(&array_agg_udaf());
        gathered.update_batch(&floats(&[1.0, 2.0, 3.0])).unwrap();
        gathered.update_batch(&floats(&[4.0])).unwrap();
        gathered.retract_batch(&floats(&[1.0, 2.0])).unwrap();
        let ScalarValue::List(list) = gathered.evaluate().unwrap() else { panic!("a list") };
        assert_eq!(list.value(0).as_primitive::<Float64Type>().values(), &[3.0, 4.0]);
        gathered.retract_batch(&floats(&[3.0, 4.0])).unwrap();
        gathered.update_batch(&floats(&[5.0])).unwrap();
        let ScalarValue::List(list) = gathered.evaluate().unwrap() else { panic!("a list") };
        assert_eq!(list.value(0).as_primitive::<Float64Type>().values(), &[5.0]);
    }
}
