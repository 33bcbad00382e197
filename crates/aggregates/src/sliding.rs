//! Aggregates over frames of windows that leave rows behind: `ROWS BETWEEN 2 PRECEDING AND CURRENT ROW`.
//!
//! DataFusion asks an accumulator to take out what has left the frame, and refuses frames where it cannot:
//! `string_agg`, `array_agg`, those of a set. Here such an aggregate keeps the frame's rows and begins anew for
//! every row ([`Retained`]), as PostgreSQL does. Sums and averages of floats can take out all but infinities
//! and NaN, of which nothing comes back: these are counted beside the sum ([`Finite`]).
//!
//! Cost: [`Retained`] takes the frame's size for every row, [`Finite`] one more pass over the values.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

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
        Some(adds) => Box::new(Finite { inner, adds, count: 0, apart: [0; 3] }),
        None => inner,
    })
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

/// An accumulator of finite floats; others are counted.
#[derive(Debug)]
struct Finite {
    inner: Box<dyn Accumulator>,
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
