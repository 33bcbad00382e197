//! Sums of REAL, which are REAL: added as DOUBLE PRECISION and rounded once.
//!
//! PostgreSQL adds them as REAL, so that its sum depends on the order of its rows in more digits than ours.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Cast, WindowFunction};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, Projection};

/// The node with REAL in the place of its sums of REAL, which are DOUBLE PRECISION otherwise. Other nodes as they were.
pub fn with_single_sums(node: LogicalPlan) -> Result<LogicalPlan> {
    let (own, input) = match &node {
        LogicalPlan::Aggregate(aggregate) => (&aggregate.aggr_expr, &aggregate.input),
        LogicalPlan::Window(window) => (&window.window_expr, &window.input),
        _ => return Ok(node),
    };
    let singles = own.iter().map(|expr| is_single_sum(expr, input.schema()));
    let singles = singles.collect::<Result<Vec<_>>>()?;
    if !singles.contains(&true) {
        return Ok(node);
    }
    // The sums are the last columns.
    let first = node.schema().fields().len() - own.len();
    let shown = node.schema().iter().enumerate();
    // Which grouping set a row is of is known to the aggregate alone.
    let shown = shown.filter(|(_, (_, field))| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = shown.map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match at.checked_sub(first).is_some_and(|at| singles[at]) {
            true => Expr::Cast(Cast::new(Box::new(column), DataType::Float32))
                .alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    Projection::try_new(columns, Arc::new(node)).map(LogicalPlan::Projection)
}

fn is_single_sum(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let (name, args) = match expr {
        Expr::Alias(alias) => return is_single_sum(&alias.expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args),
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, params } = function.as_ref();
            (fun.name(), &params.args)
        }
        _ => return Ok(false),
    };
    match args.as_slice() {
        [arg] if name == "sum" => Ok(arg.get_type(schema)? == DataType::Float32),
        _ => Ok(false),
    }
}
