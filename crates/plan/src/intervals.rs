//! SQL's order of intervals for DataFusion, which compares months, days and time one after the other.
//!
//! In SQL a month counts as thirty days and a day as 24 hours when intervals are compared: `30 days
//! = 1 month`. [`key`] makes the number by which they are ordered
//! ([`halcyon_value::Interval::sort_key`]). [`check`] wraps the operands of comparisons in keys
//! before anything is folded; [`uncheck`] removes the keys for the row-at-a-time executors, which
//! compare intervals themselves and know indexes; and [`with_keys`] puts keys in wherever the
//! analytical executor sorts, groups or joins by intervals.
//!
//! `min` and `max` over windows (`halcyon_aggregates`), `greatest` and `least` (the table of functions) compare by it
//! too.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, Decimal128Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, InList, NullTreatment, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    WindowFrameBound, WindowFrameUnits,
};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of_arrow;
use halcyon_store::Interval;
use halcyon_value::calendar::DAY_NS;

use crate::arithmetic;
use halcyon_functions::nested;

/// The number by which an interval is ordered.
fn key(interval: Expr) -> Expr {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Key(Signature::any(1, Volatility::Immutable))))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&KEY), vec![interval]))
}

const NAME: &str = "interval_key";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(Signature);

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        // Of a constant there is one key, also where there are no rows.
        let array = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
        let keys = intervals.iter().map(|value| {
            let value = value?;
            let parts = (value.months, value.days, value.nanoseconds);
            Some(Interval { months: parts.0, days: parts.1, nanos: parts.2 }.sort_key())
        });
        let keys = keys.collect::<Decimal128Array>().with_data_type(DataType::Decimal128(38, 0));
        if matches!(args.args[0], ColumnarValue::Scalar(_)) {
            return ScalarValue::try_from_array(&keys, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(matches!(expr.get_type(schema)?, DataType::Interval(_)))
}

/// Puts keys around the operands of a comparison of intervals.
pub fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let keyed = |expr: Box<Expr>| Box::new(key(*expr));
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(
                op,
                Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
            ) && is_interval(&left, schema)?
                && is_interval(&right, schema)? =>
        {
            let (left, right) = (keyed(left), keyed(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_interval(&expr, schema)? => {
            let (expr, low, high) = (keyed(expr), keyed(low), keyed(high));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_interval(&expr, schema)? => {
            let list = list.into_iter().map(key).collect();
            Transformed::yes(Expr::InList(InList { expr: keyed(expr), list, negated }))
        }
        other => Transformed::no(other),
    })
}

/// Undoes [`check`]. A key that was folded becomes an interval of days and time with the same key.
pub fn uncheck(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if (is_key(&left) || is_key(&right)) && has_interval(&left) && has_interval(&right) =>
        {
            let (left, right) = (Box::new(interval_of(*left)), Box::new(interval_of(*right)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated })
            if is_key(&expr) && list.iter().all(has_interval) =>
        {
            let list = list.into_iter().map(interval_of).collect();
            Transformed::yes(Expr::InList(InList {
                expr: Box::new(interval_of(*expr)),
                list,
                negated,
            }))
        }
        other => Transformed::no(other),
    }
}

fn is_key(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

/// Whether [`interval_of`] gives an interval. The key of an expression that a query has several times is
/// a column, and what is compared with it stays a key.
fn has_interval(key: &Expr) -> bool {
    is_key(key) || matches!(key, Expr::Literal(ScalarValue::Decimal128(..), _))
}

fn interval_of(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == NAME => {
            call.args.pop().expect("a key has an argument")
        }
        Expr::Literal(ScalarValue::Decimal128(key, ..), metadata) => {
            let days = |key: i128| key.div_euclid(DAY_NS.into()) as i32;
            let interval = key.map(|key| {
                let nanos = key.rem_euclid(DAY_NS.into()) as i64;
                IntervalMonthDayNano::new(0, days(key), nanos)
            });
            Expr::Literal(ScalarValue::IntervalMonthDayNano(interval), metadata)
        }
        other => other,
    }
}

/// Puts keys where the operators of the analytical executor order, group or match intervals.
pub fn with_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match crate::interrupts::go_on().map(|()| node)? {
        LogicalPlan::Sort(mut sort) => {
            for by in &mut sort.expr {
                sorted_by_key(by, sort.input.schema())?;
            }
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        LogicalPlan::Join(mut join) => {
            let (left, right) = (join.left.schema(), join.right.schema());
            if !has_intervals(left) || !has_intervals(right) {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            for (a, b) in &mut join.on {
                if is_interval(a, left)? && is_interval(b, right)? {
                    (*a, *b) = (key(std::mem::take(a)), key(std::mem::take(b)));
                }
            }
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        LogicalPlan::Window(window) if has_intervals(window.input.schema()) => {
            let schema = Arc::clone(window.input.schema());
            let names = NamePreserver::new_for_projection();
            LogicalPlan::Window(window).map_expressions(|expr| {
                let name = names.save(&expr);
                let Expr::WindowFunction(mut function) = expr else {
                    return Ok(Transformed::no(expr));
                };
                keyed_window(&mut function, &schema)?;
                Ok(Transformed::yes(name.restore(Expr::WindowFunction(function))))
            })
        }
        LogicalPlan::Aggregate(aggregate) if has_intervals(aggregate.input.schema()) => {
            Ok(Transformed::yes(keyed_aggregate(aggregate)?))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn has_intervals(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_)))
}

fn sorted_by_key(by: &mut Sort, schema: &DFSchema) -> Result<()> {
    match by.expr.get_type(schema)? {
        DataType::Interval(_) => by.expr = key(std::mem::take(&mut by.expr)),
        ty if is_array(&ty) => by.expr = nested::key_of(std::mem::take(&mut by.expr)),
        _ => {}
    }
    Ok(())
}

/// Orders and partitions the rows of a window by keys, since DataFusion's coercion takes no
/// intervals there.
pub(crate) fn keyed_window(function: &mut WindowFunction, schema: &DFSchema) -> Result<()> {
    let params = &mut function.params;
    for expr in &mut params.partition_by {
        if let Some(key) = window_key(expr, schema)? {
            *expr = key;
        }
    }
    for by in &mut params.order_by {
        if let Some(key) = window_key(&by.expr, schema)? {
            by.expr = key;
        }
    }
    // A frame of rows that are alike has no need to reckon with their values, which not all types allow.
    let has_no_distance = |ty: &DataType| ty.is_binary() || matches!(ty, DataType::Time64(_));
    let open = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => by.is_null(),
    };
    let frame = &mut params.window_frame;
    if frame.units == WindowFrameUnits::Range
        && open(&frame.start_bound)
        && open(&frame.end_bound)
        && let Some(by) = params.order_by.first()
        && has_no_distance(&by.expr.get_type(schema)?)
    {
        frame.units = WindowFrameUnits::Groups;
        for bound in [&mut frame.start_bound, &mut frame.end_bound] {
            if let WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) = bound {
                *by = ScalarValue::UInt64(None);
            }
        }
    }
    Ok(())
}

/// The key by which windows order and part values, if it is not the value itself: of intervals, of arrays, and of
/// floats, whose zeros are equal.
fn window_key(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(match expr.get_type(schema)? {
        DataType::Interval(_) => Some(key(expr.clone())),
        ty if is_array(&ty) => Some(nested::key_of(expr.clone())),
        ty @ (DataType::Float32 | DataType::Float64) if !is_sum(expr) => {
            let zero = match ty {
                DataType::Float32 => ScalarValue::Float32(Some(0.0)),
                _ => ScalarValue::Float64(Some(0.0)),
            };
            Some(expr.clone() + Expr::Literal(zero, None))
        }
        _ => None,
    })
}

/// Whether values are arrays of one dimension.
fn is_array(ty: &DataType) -> bool {
    matches!(sql_type_of_arrow(ty), Some(SqlType::Array(_)))
}

/// Whether an expression is a sum, of which no zero is negative.
fn is_sum(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, .. }))
        || arithmetic::checked_call(expr).is_some()
}

/// Groups by keys, and shows for each group its first interval; counts distinct keys; finds the
/// least and the greatest interval as the first in the order of keys.
fn keyed_aggregate(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, mut group_expr, mut aggr_expr, schema, .. } = aggregate;
    let inner = Arc::clone(input.schema());
    let mut firsts = Vec::new();
    for (at, expr) in group_expr.iter_mut().enumerate() {
        if !matches!(expr, Expr::GroupingSet(_)) && is_interval(expr, &inner)? {
            firsts.push((at, first_of(expr.clone(), vec![], None)));
            *expr = key(std::mem::take(expr));
        }
    }
    let mut changed = !firsts.is_empty();
    for expr in &mut aggr_expr {
        changed |= keyed_call(expr, &inner)?;
    }
    let own = aggr_expr.len();
    if !changed {
        let plain = Aggregate::try_new_with_schema(input, group_expr, aggr_expr, schema)?;
        return Ok(LogicalPlan::Aggregate(plain));
    }
    aggr_expr.extend(firsts.iter().map(|(_, first)| first.clone()));
    let sets = match group_expr.first() {
        Some(Expr::GroupingSet(_)) => schema.fields().len() - own,
        _ => group_expr.len(),
    };
    let made = LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggr_expr)?);
    let column = |at: usize| Expr::Column(Column::from(made.schema().qualified_field(at)));
    let restored = (0..schema.fields().len()).map(|at| {
        let first = firsts.iter().position(|(grouped, _)| *grouped == at);
        let from = first.map_or(at, |first| sets + own + first);
        let (qualifier, field) = schema.qualified_field(at);
        column(from).alias_qualified(qualifier.cloned(), field.name())
    });
    let restored: Vec<Expr> = restored.collect();
    LogicalPlanBuilder::from(made).project(restored)?.build()
}

/// The first value that is not NULL, in an order.
fn first_of(value: Expr, order: Vec<Sort>, filter: Option<Box<Expr>>) -> Expr {
    let nulls = (!order.is_empty()).then_some(NullTreatment::IgnoreNulls);
    let call =
        AggregateFunction::new_udf(first_value_udaf(), vec![value], false, filter, order, nulls);
    Expr::AggregateFunction(call)
}

/// Whether a call of an aggregate was changed.
fn keyed_call(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::AggregateFunction(call) = (match expr {
        Expr::Alias(alias) => alias.expr.as_mut(),
        other => other,
    }) else {
        return Ok(false);
    };
    let [argument] = call.params.args.as_mut_slice() else { return Ok(false) };
    if !is_interval(argument, schema)? {
        return Ok(false);
    }
    match call.func.name() {
        "count" if call.params.distinct => *argument = key(std::mem::take(argument)),
        name @ ("min" | "max") => {
            let order = key(argument.clone()).sort(name == "min", false);
            let value = std::mem::take(argument);
            let found = first_of(value, vec![order], call.params.filter.take());
            let Expr::AggregateFunction(found) = found else { unreachable!("just made") };
            *call = found;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
