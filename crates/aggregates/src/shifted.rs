//! Sums of a value and constants (`sum(x), sum(x + 1), sum(x + 2) …`) as one sum and one count: `sum(x + k)` is
//! `sum(x) + k · count(x)`, unless some `x + k` has no room in its type, as the least and the greatest `x` tell.
//!
//! The slow twin is the plan as it was. Invariant, checked by `shifted_sums_are_those_of_each_value`: values and
//! errors are the same.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::{external, out_of_range};

/// Sums of one value from which on the four aggregates that replace them are less work.
const SUMS_MIN: usize = 4;

/// The plan with sums of one value and several constants computed from the same four aggregates.
pub fn with_shared_sums(plan: LogicalPlan) -> Result<LogicalPlan> {
    let shared = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => shared(aggregate),
        other => Ok(Transformed::no(other)),
    });
    shared.data()
}

/// The sum of an INTEGER and a constant.
struct Shifted<'a> {
    call: &'a AggregateFunction,
    value: &'a Expr,
    constant: i64,
}

impl<'a> Shifted<'a> {
    fn of(expr: &'a Expr, aggregate: &Aggregate) -> Result<Option<Shifted<'a>>> {
        let called = match expr {
            Expr::Alias(named) => &*named.expr,
            other => other,
        };
        let Expr::AggregateFunction(call) = called else { return Ok(None) };
        let params = &call.params;
        let [Expr::BinaryExpr(BinaryExpr { left, op, right })] = &params.args[..] else {
            return Ok(None);
        };
        let (value, constant) = match (&**left, op, &**right) {
            (value, Operator::Plus, Expr::Literal(ScalarValue::Int32(Some(constant)), _))
            | (Expr::Literal(ScalarValue::Int32(Some(constant)), _), Operator::Plus, value) => {
                (value, i64::from(*constant))
            }
            (value, Operator::Minus, Expr::Literal(ScalarValue::Int32(Some(constant)), _)) => {
                (value, -i64::from(*constant))
            }
            _ => return Ok(None),
        };
        let is_plain = call.func.name() == "sum"
            && !params.distinct
            && params.order_by.is_empty()
            && !value.is_volatile()
            && value.get_type(aggregate.input.schema())? == DataType::Int32;
        Ok(is_plain.then_some(Shifted { call, value, constant }))
    }

    fn is_beside(&self, other: &Shifted<'_>) -> bool {
        self.value == other.value && self.call.params.filter == other.call.params.filter
    }

    /// An aggregate of the value alone, over the same rows.
    fn of_value(&self, func: Arc<AggregateUDF>) -> Expr {
        let mut call = self.call.clone();
        (call.func, call.params.args) = (func, vec![self.value.clone()]);
        Expr::AggregateFunction(call)
    }
}

fn shared(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let found = aggregate.aggr_expr.iter().map(|expr| Shifted::of(expr, &aggregate));
    let found: Vec<Option<Shifted<'_>>> = found.collect::<Result<_>>()?;
    let is_worth_it = |sum: &Shifted<'_>| {
        found.iter().flatten().filter(|other| sum.is_beside(other)).count() >= SUMS_MIN
    };
    // Sums that stand for all of their value, each with the place of its first aggregate.
    let mut heads: Vec<(&Shifted<'_>, usize)> = Vec::new();
    let mut aggregates: Vec<Expr> = Vec::new();
    for (expr, sum) in aggregate.aggr_expr.iter().zip(&found) {
        match sum.as_ref().filter(|sum| is_worth_it(sum)) {
            None => aggregates.push(expr.clone()),
            Some(sum) if heads.iter().any(|(head, _)| head.is_beside(sum)) => {}
            Some(sum) => {
                heads.push((sum, aggregates.len()));
                let functions = [Arc::clone(&sum.call.func), count_udaf(), min_udaf(), max_udaf()];
                let new = functions.into_iter().enumerate().map(|(at, function)| {
                    let name = format!("__shifted_{}_{at}", heads.len());
                    sum.of_value(function).alias(name)
                });
                aggregates.extend(new);
            }
        }
    }
    if heads.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let fields = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let input =
        Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), aggregates)?;
    let column = |at: usize| Expr::Column(Column::from(input.schema.qualified_field(at)));
    let mut kept = fields;
    let mut exprs: Vec<Expr> = (0..fields).map(column).collect();
    let mut done = 0;
    for (at, sum) in found.iter().enumerate() {
        let head = sum.as_ref().and_then(|sum| {
            let place = heads.iter().position(|(head, _)| head.is_beside(sum))?;
            Some((place, fields + heads[place].1, sum.constant))
        });
        let Some((place, first, constant)) = head else {
            exprs.push(column(kept));
            kept += 1;
            continue;
        };
        if place == done {
            (done, kept) = (done + 1, kept + 4);
        }
        let mut args: Vec<Expr> = (first..first + 4).map(column).collect();
        args.push(Expr::Literal(ScalarValue::Int64(Some(constant)), None));
        let (qualifier, field) = aggregate.schema.qualified_field(fields + at);
        exprs.push(shifted().call(args).alias_qualified(qualifier.cloned(), field.name()));
    }
    let plan = Projection::try_new_with_schema(
        exprs,
        Arc::new(LogicalPlan::Aggregate(input)),
        Arc::clone(&aggregate.schema),
    )?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

fn shifted() -> &'static ScalarUDF {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
        ScalarUDF::new_from_impl(ShiftedSum(Signature::any(5, Volatility::Immutable)))
    });
    &FUNCTION
}

/// The sum of values to each of which a constant is added, from their sum, number, least and greatest.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShiftedSum(Signature);

impl ScalarUDFImpl for ShiftedSum {
    fn name(&self) -> &str {
        "shifted_sum"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays: Vec<ArrayRef> =
            (args.args[..4].iter()).map(|column| column.to_array(rows)).collect::<Result<_>>()?;
        let ColumnarValue::Scalar(ScalarValue::Int64(Some(constant))) = &args.args[4] else {
            return internal_err!("what is added is a constant");
        };
        let [sums, counts] = [0, 1].map(|at| arrays[at].as_primitive::<Int64Type>());
        let [least, greatest] = [2, 3].map(|at| arrays[at].as_primitive::<Int32Type>());
        let one = |row: usize| {
            if sums.is_null(row) {
                return Ok(None);
            }
            for end in [least.value(row), greatest.value(row)] {
                i32::try_from(i64::from(end) + constant)
                    .map_err(|_| external(out_of_range("integer")))?;
            }
            let sum =
                i128::from(sums.value(row)) + i128::from(*constant) * i128::from(counts.value(row));
            i64::try_from(sum).map(Some).map_err(|_| external(out_of_range("bigint")))
        };
        let shifted = (0..rows).map(one).collect::<Result<Int64Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(shifted)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, RecordBatch};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::executor::block_on;
    use halcyon_base::rng::Rng;

    use super::*;

    #[test]
    fn shifted_sums_are_those_of_each_value() {
        let mut rng = Rng::new(7);
        let mut shared = 0;
        for _ in 0..60 {
            let rows = rng.below(40) as usize;
            let value = |rng: &mut Rng| (!rng.chance(1, 5)).then(|| rng.next_u64() as i32 >> 2);
            let keys: Int32Array = (0..rows).map(|_| Some(rng.below(3) as i32)).collect();
            let values: Int32Array = (0..rows).map(|_| value(&mut rng)).collect();
            let columns = [("k", Arc::new(keys) as ArrayRef, true), ("x", Arc::new(values), true)];
            let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("two columns");
            let texts: Vec<String> = (0..rng.below(8))
                .map(|_| {
                    let constant = rng.below(1 << 28);
                    let text = match rng.below(3) {
                        0 => format!("sum(x - CAST({constant} AS INT))"),
                        1 => format!("sum(CAST({constant} AS INT) + x)"),
                        _ => format!("sum(x + CAST({constant} AS INT))"),
                    };
                    let filter = if rng.chance(1, 6) { " FILTER (WHERE x > 0)" } else { "" };
                    text + filter
                })
                .chain(["count(*)".to_owned(), "sum(x)".to_owned()])
                .collect();
            let text = format!("SELECT k, {} FROM t GROUP BY k ORDER BY k", texts.join(", "));
            let config = SessionConfig::new().with_target_partitions(1);
            let context = SessionContext::new_with_config(config);
            context.register_udaf(crate::sums::all()[0].as_ref().clone());
            context.register_batch("t", batch).expect("a table");
            let plan = block_on(context.state().create_logical_plan(&text)).expect("planned");
            let plan = context.state().optimize(&plan).expect("optimised");
            let other = with_shared_sums(plan.clone()).expect("rewritten");
            shared += usize::from(other.to_string().contains("shifted_sum"));
            assert_eq!(other.schema(), plan.schema());
            let run = |plan: LogicalPlan| {
                block_on(async { context.execute_logical_plan(plan).await?.collect().await })
            };
            let (expected, got) = (run(plan).expect("runs"), run(other).expect("runs"));
            let shown = |rows: &[RecordBatch]| pretty_format_batches(rows).map(|t| t.to_string());
            assert_eq!(shown(&got).expect("shown"), shown(&expected).expect("shown"), "{text}");
        }
        assert!(shared > 10);
    }

    #[test]
    fn a_value_without_room_is_refused() {
        let sum = |least: i32, greatest: i32, constant: i64| {
            let column = |value: ScalarValue| ColumnarValue::Scalar(value);
            let args = vec![
                column(ScalarValue::Int64(Some(i64::from(least) + i64::from(greatest)))),
                column(ScalarValue::Int64(Some(2))),
                column(ScalarValue::Int32(Some(least))),
                column(ScalarValue::Int32(Some(greatest))),
                column(ScalarValue::Int64(Some(constant))),
            ];
            let field = arrow::datatypes::Field::new("sum", DataType::Int64, true);
            let args = ScalarFunctionArgs {
                args,
                arg_fields: Vec::new(),
                number_rows: 1,
                return_field: Arc::new(field),
                config_options: Arc::default(),
            };
            match shifted().invoke_with_args(args)? {
                ColumnarValue::Array(sums) => ScalarValue::try_from_array(&sums, 0),
                ColumnarValue::Scalar(sum) => Ok(sum),
            }
        };
        assert_eq!(sum(1, 2, 10).expect("has room"), ScalarValue::Int64(Some(23)));
        assert_eq!(
            sum(i32::MIN + 1, i32::MAX - 1, 1).expect("has room"),
            ScalarValue::Int64(Some(1))
        );
        assert!(sum(5, i32::MAX, 1).is_err());
        assert!(sum(i32::MIN, 5, -1).is_err());
    }
}
