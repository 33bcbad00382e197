//! What joins and TopKs find out reaches the scans below them: a scan leaves out the rows whose keys are not in the
//! hash table of a join above, and those that come behind all that a TopK still wants.
//!
//! DataFusion's joins make such *findings*, and its rule brings them to sources by the names of columns, of which
//! the output of a join may have two alike. Here they go down by the places of columns, through the nodes that give
//! rows of their inputs unchanged, and below aggregates if they are over what rows are grouped by.
//!
//! A finding belongs to one execution, so a plan that is kept is linked anew each time it runs, after its states
//! were reset.
//!
//! Invariant, checked by `any_order_gives_the_same_rows` of crate `exec`: a plan gives the same rows with findings and
//! without.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr_common::physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use halcyon_hashing::groups::HashAggregateExec;
use halcyon_hashing::joins::JoinExec;
use halcyon_ranges::RangeJoinExec;
use halcyon_scan::scan::ScanExec;
use halcyon_sorts::{BatchSortExec, RunSortExec};

use crate::exchange::ExchangeExec;
use crate::in_turn::InTurnExec;
use crate::pacing::PacedExec;

type Plan = Arc<dyn ExecutionPlan>;
type Finding = Arc<DynamicFilterPhysicalExpr>;

/// The order in which a scan is to read its segments.
#[derive(Clone, Copy)]
enum Way {
    Any,
    /// A TopK that wants the greatest rows finds those at once, in a table that grows with time.
    LastFirst,
}

/// The plan with its findings linked to its scans, for one execution.
pub fn findings_reach_scans(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| {
        let linked = match join_of(&node) {
            Some(join) => of_join(&node, join)?,
            None => match node.downcast_ref::<SortExec>() {
                Some(sort) => of_top(&node, sort)?,
                None => None,
            },
        };
        Ok(linked.map_or(Transformed::no(node), Transformed::yes))
    })
    .data()
}

/// The columns that expressions are, if they are nothing else.
fn columns_of<'a>(
    exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
) -> Option<Vec<usize>> {
    let column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
    exprs.into_iter().map(column).collect()
}

/// Whether `<` and `=` of a column's values are those of joins and sorts: not so of floating-point numbers, whose zeros
/// are two, nor of arrays, rows and spans of time.
fn is_ordered(plan: &Plan, column: usize) -> bool {
    use DataType::{
        BinaryView, Boolean, Date32, Decimal128, Int16, Int32, Int64, Time64, Timestamp, Utf8View,
    };
    matches!(
        plan.schema().field(column).data_type(),
        Boolean
            | Int16
            | Int32
            | Int64
            | Decimal128(..)
            | Date32
            | Time64(_)
            | Timestamp(..)
            | Utf8View
            | BinaryView
    )
}

/// A hash join, ours or DataFusion's.
fn join_of(node: &Plan) -> Option<&HashJoinExec> {
    match node.downcast_ref::<JoinExec>() {
        Some(ours) => Some(ours.node()),
        None => node.downcast_ref::<HashJoinExec>(),
    }
}

/// A join whose keys reach a scan on the side that looks them up.
fn of_join(node: &Plan, join: &HashJoinExec) -> Result<Option<Plan>> {
    let (_, may_drop) = join.join_type().on_lr_is_preserved();
    if !may_drop || join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let keys: Vec<_> = join.on().iter().map(|(_, key)| Arc::clone(key)).collect();
    let Some(columns) = columns_of(&keys) else { return Ok(None) };
    if !columns.iter().all(|&column| is_ordered(join.right(), column)) {
        return Ok(None);
    }
    let finding = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    let Some(right) = reached(join.right(), &columns, &finding, Way::Any)? else { return Ok(None) };
    if let Some(ours) = node.downcast_ref::<JoinExec>() {
        return Ok(Some(Arc::new(ours.finding(&finding, right)?)));
    }
    let above = join.builder().with_new_children(vec![Arc::clone(join.left()), right])?;
    Ok(Some(Arc::new(above.build()?.with_dynamic_filter_expr(finding)?)))
}

/// A sort of which few rows are wanted, and whose first of them are known by plain columns.
fn of_top(node: &Plan, sort: &SortExec) -> Result<Option<Plan>> {
    let produced = sort.dynamic_expressions_produced().into_iter().next();
    let produced: Option<Arc<dyn Any + Send + Sync>> = produced.map(|produced| produced as _);
    let finding = produced.map(Arc::downcast::<DynamicFilterPhysicalExpr>);
    let Some(Ok(finding)) = finding else { return Ok(None) };
    let Some(columns) = columns_of(sort.expr().iter().map(|key| &key.expr)) else {
        return Ok(None);
    };
    if !columns.iter().all(|&column| is_ordered(sort.input(), column)) {
        return Ok(None);
    }
    let first = sort.expr().first();
    let way = if first.options.descending { Way::LastFirst } else { Way::Any };
    let Some(input) = reached(sort.input(), &columns, &finding, way)? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(node), vec![input]).map(Some)
}

/// The node with a finding in a scan below; `columns`: those of the node's output that the finding is over.
fn reached(node: &Plan, columns: &[usize], finding: &Finding, way: Way) -> Result<Option<Plan>> {
    if let Some(scan) = node.downcast_ref::<ScanExec>() {
        if scan.fetch().is_some() {
            return Ok(None);
        }
        let scan = scan.finding(finding, columns)?;
        return Ok(Some(Arc::new(match way {
            Way::Any => scan,
            Way::LastFirst => scan.last_first(),
        })));
    }
    let Some((child, columns)) = below(node, columns) else { return Ok(None) };
    let mut children: Vec<Plan> = node.children().into_iter().cloned().collect();
    let Some(reached) = reached(&children[child], &columns, finding, way)? else { return Ok(None) };
    children[child] = reached;
    replace_children_if_necessary(Arc::clone(node), children).map(Some)
}

/// The input that gives these columns of a node's output, and their places there; `None` if a row must not be left
/// out there.
fn below(node: &Plan, columns: &[usize]) -> Option<(usize, Vec<usize>)> {
    if passes_rows(node) {
        return Some((0, columns.to_vec()));
    }
    // An expression with an effect is evaluated for every row.
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        if projection.expr().iter().any(|given| physical_expr::is_volatile(&given.expr)) {
            return None;
        }
        let given = columns.iter().map(|&column| &projection.expr()[column].expr);
        return Some((0, columns_of(given)?));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let places = projected(columns, filter.projection().as_deref());
        let passes = filter.fetch().is_none() && !physical_expr::is_volatile(filter.predicate());
        return passes.then_some((0, places));
    }
    if let Some(join) = join_of(node) {
        let places = projected(columns, join.projection.as_deref());
        let left = join.left().schema().fields().len();
        return match join.fetch() {
            None => side(*join.join_type(), left, places),
            Some(_) => None,
        };
    }
    if let Some(join) = node.downcast_ref::<RangeJoinExec>() {
        return side(join.kind(), join.left_columns(), projected(columns, join.projection()));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let places = projected(columns, join.projection().as_deref());
        return side(*join.join_type(), join.left().schema().fields().len(), places);
    }
    if let Some(product) = node.downcast_ref::<CrossJoinExec>() {
        let left = product.left().schema().fields().len();
        return side(JoinType::Inner, left, columns.to_vec());
    }
    let aggregate = match node.downcast_ref::<HashAggregateExec>() {
        Some(ours) => ours.node(),
        None => node.downcast_ref::<AggregateExec>()?,
    };
    let groups = aggregate.group_expr();
    if !groups.is_single() || aggregate.limit_options().is_some() {
        return None;
    }
    let groups: Option<Vec<_>> =
        columns.iter().map(|&column| groups.expr().get(column).map(|(group, _)| group)).collect();
    Some((0, columns_of(groups?)?))
}

/// Whether a node gives each row of its only input as it is.
fn passes_rows(node: &Plan) -> bool {
    if let Some(exchange) = node.downcast_ref::<ExchangeExec>() {
        return !exchange.ends_early();
    }
    if let Some(arms) = node.downcast_ref::<InTurnExec>() {
        return !arms.ends_early();
    }
    if let Some(coalesce) = node.downcast_ref::<CoalescePartitionsExec>() {
        return coalesce.fetch().is_none();
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return sort.fetch().is_none();
    }
    node.downcast_ref::<RunSortExec>().is_some()
        || node.downcast_ref::<BatchSortExec>().is_some()
        || node.downcast_ref::<PacedExec>().is_some()
        || node.downcast_ref::<RepartitionExec>().is_some()
        || node.downcast_ref::<CooperativeExec>().is_some()
}

fn projected(columns: &[usize], projection: Option<&[usize]>) -> Vec<usize> {
    match projection {
        Some(kept) => columns.iter().map(|&column| kept[column]).collect(),
        None => columns.to_vec(),
    }
}

/// The side of a join that its output's columns come from, if rows may be left out there. `left`: columns of the
/// left side.
fn side(kind: JoinType, left: usize, places: Vec<usize>) -> Option<(usize, Vec<usize>)> {
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    match kind {
        LeftSemi | LeftAnti => return Some((0, places)),
        RightSemi | RightAnti => return Some((1, places)),
        _ => {}
    }
    let of_left = places.iter().all(|&place| place < left);
    let of_right = places.iter().all(|&place| place >= left);
    match kind {
        Inner | Left if of_left => Some((0, places)),
        Inner | Right if of_right => {
            Some((1, places.into_iter().map(|place| place - left).collect()))
        }
        _ => None,
    }
}
