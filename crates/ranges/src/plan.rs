//! A join as its plan says it: its bounds, and the rest of its condition.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use halcyon_scan::lazy::{and, conjuncts};

use crate::code::{Nearness, nearness};

/// Where a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column that is kept of the left side.
    Build(usize),
    /// A column of the right side.
    Probe(usize),
    /// Whether there is a match.
    Mark,
}

/// What a bound says of the left side's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is at least the right side's value.
    Least,
    /// It is at most the right side's value.
    Most,
}

/// A comparison of the left side with the right one.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) end: End,
    /// Whether rows with equal codes do not keep the bound.
    pub(crate) is_strict: bool,
    pub(crate) probe: Arc<dyn PhysicalExpr>,
}

/// A condition on pairs.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<Source>,
}

/// Expressions that are equal, of the left side and of the right one.
type Keys = Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>;

/// A join. Its left side is put in order.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) kind: JoinType,
    /// What is equal besides, on the left side and on the right one.
    pub(crate) keys: Keys,
    /// What the left side is sorted by, and the bounds of it.
    pub(crate) first: Arc<dyn PhysicalExpr>,
    pub(crate) bounds: Vec<Bound>,
    /// Another expression of the left side, and its bound.
    pub(crate) second: Option<(Arc<dyn PhysicalExpr>, Bound)>,
    /// What rows that keep the bounds are asked; `None`: nothing.
    pub(crate) rest: Option<Condition>,
    /// The whole condition.
    pub(crate) whole: Condition,
    /// Columns of the left side that are kept.
    pub(crate) kept: Vec<usize>,
    pub(crate) kept_schema: SchemaRef,
    pub(crate) output: Vec<Source>,
    pub(crate) schema: SchemaRef,
}

/// A join as DataFusion's planner says it.
pub(crate) enum Node<'n> {
    Loop(&'n NestedLoopJoinExec),
    Hash(&'n HashJoinExec),
}

impl<'n> Node<'n> {
    pub(crate) fn of(plan: &'n Arc<dyn ExecutionPlan>) -> Option<Node<'n>> {
        let hash = plan.downcast_ref::<HashJoinExec>().map(Node::Hash);
        hash.or_else(|| plan.downcast_ref::<NestedLoopJoinExec>().map(Node::Loop))
    }

    pub(crate) fn kind(&self) -> JoinType {
        match self {
            Node::Loop(node) => *node.join_type(),
            Node::Hash(node) => *node.join_type(),
        }
    }

    pub(crate) fn left(&self) -> &'n Arc<dyn ExecutionPlan> {
        match self {
            Node::Loop(node) => node.left(),
            Node::Hash(node) => node.left(),
        }
    }

    pub(crate) fn right(&self) -> &'n Arc<dyn ExecutionPlan> {
        match self {
            Node::Loop(node) => node.right(),
            Node::Hash(node) => node.right(),
        }
    }

    fn filter(&self) -> Option<&'n JoinFilter> {
        match self {
            Node::Loop(node) => node.filter(),
            Node::Hash(node) => node.filter(),
        }
    }

    pub(crate) fn projection(&self) -> Option<&'n [usize]> {
        match self {
            Node::Loop(node) => node.projection().as_deref(),
            Node::Hash(node) => node.projection.as_deref(),
        }
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Node::Loop(node) => node.schema(),
            Node::Hash(node) => node.schema(),
        }
    }

    /// Whether all outputs look at one left side, and not each at its own.
    pub(crate) fn has_one_left_side(&self) -> bool {
        match self {
            Node::Loop(_) => true,
            Node::Hash(node) => *node.partition_mode() == PartitionMode::CollectLeft,
        }
    }

    /// What is equal besides; `None` if it is compared in another way than by the bytes of values.
    fn keys(&self) -> Result<Option<Keys>> {
        let Node::Hash(node) = self else { return Ok(Some(Vec::new())) };
        let is_plain = node.null_equality() == NullEquality::NullEqualsNothing
            && !node.null_aware
            && node.fetch().is_none()
            && *node.partition_mode() != PartitionMode::Auto;
        let (left, right) = (node.left().schema(), node.right().schema());
        for (of_left, of_right) in node.on() {
            let ty = of_left.data_type(&left)?;
            let is_known = nearness(&ty).is_some() && !ty.is_floating();
            if !is_plain || !is_known || ty != of_right.data_type(&right)? {
                return Ok(None);
            }
        }
        Ok(Some(node.on().to_vec()))
    }
}

fn has_no_effects(filter: &JoinFilter) -> bool {
    !is_volatile(filter.expression())
        && filter.column_indices().iter().all(|column| column.side != JoinSide::None)
}

/// A conjunct that is a comparison of both sides.
struct Comparison {
    build: Arc<dyn PhysicalExpr>,
    bounds: Vec<Bound>,
    nearness: Nearness,
}

impl Join {
    /// The join that a node does; `None` if it has no bounds, or conditions with effects.
    pub(crate) fn of(node: &Node<'_>) -> Result<Option<Join>> {
        let Some(filter) = node.filter() else { return Ok(None) };
        let keys = node.keys()?;
        let (true, Some(keys)) = (has_no_effects(filter), keys) else { return Ok(None) };
        let parts = conjuncts(filter.expression());
        let compared: Vec<Option<Comparison>> =
            parts.iter().map(|part| Comparison::of(part, filter)).collect::<Result<_>>()?;
        let known: Vec<&Comparison> = compared.iter().flatten().collect();
        let has = |expr: &Arc<dyn PhysicalExpr>, end| {
            let mut of_expr = known.iter().filter(|other| other.build.eq(expr));
            of_expr.any(|other| other.bounds.iter().any(|bound| bound.end == end))
        };
        // Best is an expression with bounds at both ends.
        let is_closed = |comparison: &&&Comparison| {
            has(&comparison.build, End::Least) && has(&comparison.build, End::Most)
        };
        let Some(first) = known.iter().find(is_closed).or(known.first()) else { return Ok(None) };
        let first = Arc::clone(&first.build);
        let second = known
            .iter()
            .find(|comparison| !comparison.build.eq(&first) && comparison.bounds.len() == 1);
        let second = second.map(|found| (Arc::clone(&found.build), found.bounds[0].clone()));
        let mut has_second = second.is_some();
        let mut bounds = Vec::new();
        let mut rest: Option<Arc<dyn PhysicalExpr>> = None;
        for (part, comparison) in parts.iter().zip(&compared) {
            let is_decided = comparison.as_ref().is_some_and(|comparison| {
                let is_first = comparison.build.eq(&first);
                let is_second = !is_first && comparison.bounds.len() == 1 && has_second;
                if is_first {
                    bounds.extend(comparison.bounds.iter().cloned());
                } else if is_second {
                    has_second = false;
                }
                (is_first || is_second) && comparison.nearness == Nearness::Exact
            });
            if !is_decided {
                let part = Arc::clone(part);
                rest = Some(
                    rest.map_or_else(|| Arc::clone(&part), |rest| and(rest, Arc::clone(&part))),
                );
            }
        }
        let mut kept = Kept { columns: Vec::new() };
        let (left, right) = (node.left().schema(), node.right().schema());
        let all = columns(node.kind(), left.fields().len(), right.fields().len());
        let chosen: Vec<Source> = match node.projection() {
            Some(chosen) => chosen.iter().map(|&column| all[column]).collect(),
            None => all,
        };
        let output = chosen.into_iter().map(|source| kept.source(source)).collect();
        let whole = kept.condition(filter.expression(), filter)?;
        let rest = rest.map(|rest| kept.condition(&rest, filter)).transpose()?;
        let fields: Vec<Field> =
            kept.columns.iter().map(|&column| left.field(column).clone()).collect();
        Ok(Some(Join {
            kind: node.kind(),
            keys,
            first,
            bounds,
            second,
            rest,
            whole,
            kept: kept.columns,
            kept_schema: Arc::new(Schema::new(fields)),
            output,
            schema: node.schema(),
        }))
    }

    /// What is kept of rows of the left side.
    pub(crate) fn kept(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.kept.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        batch_of(&self.kept_schema, columns, batch.num_rows())
    }

    /// Whether rows of the left side are given once all of the right side have looked for them.
    pub(crate) fn gives_build_rows(&self) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        matches!(self.kind, Left | Full | LeftSemi | LeftAnti | LeftMark)
    }

    /// Whether one match of a row of the left side is as good as many.
    pub(crate) fn asks_build_rows_once(&self) -> bool {
        matches!(self.kind, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
    }

    /// Whether one match of a row of the right side is as good as many.
    pub(crate) fn asks_probe_rows_once(&self) -> bool {
        matches!(self.kind, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
    }

    /// Which rows of the left side are given at the end: those with a match, those without (false), or all of them. The
    /// outer `None`: none.
    pub(crate) fn leftover(&self) -> Option<Option<bool>> {
        match self.kind {
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => Some(Some(false)),
            JoinType::LeftSemi => Some(Some(true)),
            JoinType::LeftMark => Some(None),
            _ => None,
        }
    }

    /// Whether nothing is given if the left side has no rows.
    pub(crate) fn needs_build_rows(&self) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark};
        !matches!(self.kind, Right | Full | RightAnti | RightMark)
    }
}

impl Comparison {
    /// A conjunct as a comparison; `None` if it is none of the left side with the right one, or of values without codes.
    fn of(part: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Result<Option<Comparison>> {
        let Some(operation) = part.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let (left, right) = (operation.left(), operation.right());
        let is_turned = match (side_of(left, filter), side_of(right, filter)) {
            (Some(JoinSide::Left), Some(JoinSide::Right)) => false,
            (Some(JoinSide::Right), Some(JoinSide::Left)) => true,
            _ => return Ok(None),
        };
        let (build, probe) = if is_turned { (right, left) } else { (left, right) };
        let schema = filter.schema();
        let ty = build.data_type(schema)?;
        let (true, Some(nearness)) = (ty == probe.data_type(schema)?, nearness(&ty)) else {
            return Ok(None);
        };
        // Of the left side's value, as the operator says it from the other side if the comparison is turned.
        let (end, or_equal) = match operation.op() {
            Operator::Lt => (End::Most, false),
            Operator::LtEq => (End::Most, true),
            Operator::Gt => (End::Least, false),
            Operator::GtEq => (End::Least, true),
            Operator::Eq => (End::Least, true),
            _ => return Ok(None),
        };
        let other = |end| if end == End::Least { End::Most } else { End::Least };
        let end = if is_turned { other(end) } else { end };
        let is_strict = !or_equal && nearness == Nearness::Exact;
        let probe = of_side(probe, filter)?;
        let bound = Bound { end, is_strict, probe };
        let mut bounds = vec![bound.clone()];
        if *operation.op() == Operator::Eq {
            bounds.push(Bound { end: other(end), ..bound });
        }
        Ok(Some(Comparison { build: of_side(build, filter)?, bounds, nearness }))
    }
}

/// The side that all columns of an expression belong to; `None` if they belong to both or there are none.
fn side_of(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let columns = collect_columns(expr);
    let mut sides = columns.iter().map(|column| filter.column_indices()[column.index()].side);
    let side = sides.next()?;
    sides.all(|other| other == side).then_some(side)
}

/// An expression over the columns of its side.
fn of_side(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Result<Arc<dyn PhysicalExpr>> {
    renumbered(expr, |column| filter.column_indices()[column].index)
}

fn renumbered(
    expr: &Arc<dyn PhysicalExpr>,
    place: impl Fn(usize) -> usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    let placed = Arc::clone(expr).transform_up(|part| {
        Ok(match part.downcast_ref::<Column>() {
            Some(column) => {
                let column = Column::new(column.name(), place(column.index()));
                Transformed::yes(Arc::new(column) as _)
            }
            None => Transformed::no(part),
        })
    });
    placed.data()
}

/// The columns of a join's output.
fn columns(kind: JoinType, left: usize, right: usize) -> Vec<Source> {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    let mut all = Vec::new();
    if !matches!(kind, RightSemi | RightAnti | RightMark) {
        all.extend((0..left).map(Source::Build));
    }
    if !matches!(kind, LeftSemi | LeftAnti | LeftMark) {
        all.extend((0..right).map(Source::Probe));
    }
    if matches!(kind, LeftMark | RightMark) {
        all.push(Source::Mark);
    }
    all
}

/// Columns of the left side that are wanted.
struct Kept {
    columns: Vec<usize>,
}

impl Kept {
    /// A source, whose column of the left side becomes one of those kept.
    fn source(&mut self, source: Source) -> Source {
        let Source::Build(column) = source else { return source };
        let place = self.columns.iter().position(|&kept| kept == column);
        Source::Build(place.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        }))
    }

    /// A part of a filter with the columns that it needs.
    fn condition(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        filter: &JoinFilter,
    ) -> Result<Condition> {
        let mut needed: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        needed.sort_unstable();
        let source = |&column: &usize| {
            let of = &filter.column_indices()[column];
            self.source(match of.side {
                JoinSide::Left => Source::Build(of.index),
                _ => Source::Probe(of.index),
            })
        };
        let columns = needed.iter().map(source).collect();
        let fields: Vec<Field> =
            needed.iter().map(|&column| filter.schema().field(column).clone()).collect();
        let place = |column| needed.partition_point(|&other| other < column);
        let expr = renumbered(expr, place)?;
        Ok(Condition { expr, schema: Arc::new(Schema::new(fields)), columns })
    }
}

/// The values of expressions.
pub(crate) fn value(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}

/// A batch, also of rows without columns.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
