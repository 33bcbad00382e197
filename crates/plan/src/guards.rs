//! Expressions that a statement keeps from values for which they have none: `CASE WHEN a <> 0 THEN 10 / a > 1 END`.
//!
//! A branch of CASE must not be evaluated where others are taken, and AND and OR are read so by people
//! ([`halcyon_scan::lazy`], which has filters and lists of columns). What is done here, before DataFusion's optimizer:
//! - a CASE of conditions that may fail compares them with true: the simplifier would write it with AND and OR, and leaves
//!   such alone;
//! - AND and OR within aggregates and window functions, whose right side may fail, are written as such a CASE;
//! - so is a condition of an outer join that may fail, behind the conditions that cannot.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Operator, lit};
use halcyon_scan::lazy::has_value_for_all;

use crate::interrupts::go_on;

/// Nodes that the right side of AND and OR may have to be written as a CASE, where it stands twice.
const NODES_TWICE: usize = 64;

/// Conditions that are copied for one join at most; beyond, they stay as they are.
const COPIES_MAX: usize = 64;

/// Whether [`guarded`] may change anything in a plan.
fn concerns(plan: &LogicalPlan) -> bool {
    use LogicalPlan::{Aggregate, Join, Window};
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        let combines = matches!(node, Aggregate(_) | Window(_) | Join(_));
        let is_of_those = |part: &Expr| {
            Ok(match part {
                Expr::Case(_) => true,
                Expr::BinaryExpr(binary) => combines && is_logical(binary.op),
                _ => false,
            })
        };
        node.apply_expressions(|expr| {
            found |= expr.exists(is_of_those)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    walked.expect("the closures do not fail");
    found
}

/// The plan in which nothing is evaluated that the statement has excluded; `None` if that is the plan itself.
///
/// Errors: 57014 if the statement is to end. Cost: O(expressions).
pub(crate) fn guarded(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match concerns(plan) {
        true => rewritten(plan.clone()).map(Some),
        false => Ok(None),
    }
}

fn rewritten(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        let schema = merge_schema(&node.inputs());
        let is_aggregate = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
        let names = NamePreserver::new(&node);
        let kept = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|part| {
                go_on()?;
                let kept = kept_case(part, &schema);
                Ok(match is_aggregate {
                    true => kept.transform_data(|part| Ok(kept_side(part, &schema)))?,
                    false => kept,
                })
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?;
        kept.transform_data(|node| match node {
            LogicalPlan::Join(join) if join.join_type != JoinType::Inner => {
                Ok(kept_condition(join, &schema))
            }
            other => Ok(Transformed::no(other)),
        })
    })
    .data()
}

fn is_logical(operator: Operator) -> bool {
    matches!(operator, Operator::And | Operator::Or)
}

/// Whether an expression may have an error instead of a value.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let fails = |part: &Expr| {
        Ok(match part {
            Expr::ScalarFunction(call) => !has_value_for_all(call.name()),
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Divide | Operator::Modulo => !matches!(*binary.right, Expr::Literal(..)),
                operator => operator.is_numerical_operators(),
            },
            Expr::Cast(cast) => {
                let from = cast.expr.get_type(schema);
                matches!(from, Ok(DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8))
            }
            _ => false,
        })
    };
    expr.exists(fails).expect("the closure does not fail")
}

/// `CASE value WHEN … END`.
fn case(value: Expr, branches: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    let boxed = |(when, then)| (Box::new(when), Box::new(then));
    Expr::Case(Case {
        expr: Some(Box::new(value)),
        when_then_expr: branches.into_iter().map(boxed).collect(),
        else_expr: Some(Box::new(otherwise)),
    })
}

/// A CASE of conditions that may fail, as one that compares them with true.
pub(crate) fn kept_case(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Case(Case { expr: None, when_then_expr, else_expr }) = &expr else {
        return Transformed::no(expr);
    };
    let fails = |expr: &Expr| may_fail(expr, schema);
    let later = when_then_expr.iter().skip(1).any(|(when, _)| fails(when));
    let of_values = when_then_expr.iter().any(|(_, then)| fails(then))
        || else_expr.as_deref().is_some_and(fails);
    let ty = when_then_expr[0].1.get_type(schema);
    if !(later || of_values) || !ty.is_ok_and(|ty| ty == DataType::Boolean) {
        return Transformed::no(expr);
    }
    let Expr::Case(case) = expr else { unreachable!("looked at above") };
    Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case }))
}

/// AND and OR whose right side may fail, as a CASE with the same three values.
fn kept_side(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
        return Transformed::no(expr);
    };
    if !is_logical(*op) || !may_fail(right, schema) || is_large(right) {
        return Transformed::no(expr);
    }
    let (left, right) = (left.as_ref().clone(), right.as_ref().clone());
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    Transformed::yes(match op {
        Operator::And => {
            let otherwise = unknown.and(right.clone());
            case(left, vec![(lit(false), lit(false)), (lit(true), right)], otherwise)
        }
        _ => {
            let otherwise = unknown.or(right.clone());
            case(left, vec![(lit(true), lit(true)), (lit(false), right)], otherwise)
        }
    })
}

/// Whether an expression is too large to be there twice: within each other, such would double again and again.
fn is_large(expr: &Expr) -> bool {
    let mut nodes = 0;
    let count = |_: &Expr| {
        nodes += 1;
        Ok(if nodes > NODES_TWICE { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    };
    expr.apply(count).expect("the closure does not fail");
    nodes > NODES_TWICE
}

/// An outer join whose conditions that may fail stand behind those that cannot.
fn kept_condition(mut join: Join, schema: &DFSchema) -> Transformed<LogicalPlan> {
    let Some(filter) = join.filter.take() else {
        return Transformed::no(LogicalPlan::Join(join));
    };
    let parts = split_conjunction_owned(filter.clone());
    let (fallible, safe): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| may_fail(part, schema));
    let is_small = (1..=COPIES_MAX).contains(&(safe.len() * fallible.len()));
    let before = conjunction(safe.clone()).filter(|_| is_small);
    let Some(before) = before else {
        join.filter = Some(filter);
        return Transformed::no(LogicalPlan::Join(join));
    };
    let guard = |part: Expr| case(lit(true), vec![(before.clone(), part)], lit(false));
    join.filter = conjunction(safe.into_iter().chain(fallible.into_iter().map(guard)));
    Transformed::yes(LogicalPlan::Join(join))
}
