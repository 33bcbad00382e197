//! Regions of joins, taken out of a plan.
//!
//! Columns of a region are numbered through its relations, and every expression in it is over these numbers, so
//! that nothing in it depends on an order.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr_common::physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use crate::exprs::{Expr, columns, is_plain, replaced};
use crate::search::{RELATIONS_MOST, Set, only};

/// A semi-join or an anti-join: its right side is a relation of the region.
pub(crate) struct Dependent {
    /// Whether rows without a match are kept, instead of those with one.
    pub(crate) is_anti: bool,
    /// Equalities between a value of the region and one of the relation.
    pub(crate) keys: Vec<(Expr, Expr)>,
    /// What else must hold for a match.
    pub(crate) filter: Option<Expr>,
    /// The other relations that keys and filter name.
    pub(crate) needs: Set,
}

/// What lies below a region.
pub(crate) struct Relation {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// The number of its first column.
    pub(crate) first: usize,
    pub(crate) dependent: Option<Dependent>,
}

impl Relation {
    fn columns(&self) -> usize {
        self.plan.schema().fields().len()
    }
}

/// Joins that may be done in any order.
#[derive(Default)]
pub(crate) struct Region {
    pub(crate) relations: Vec<Relation>,
    /// Values that are equal: each a relation and an expression over its columns.
    pub(crate) classes: Vec<Vec<(usize, Expr)>>,
    /// Other conditions, and the relations that they name.
    pub(crate) filters: Vec<(Set, Expr)>,
    /// What the region gives, and the schema of that.
    pub(crate) output: Vec<Expr>,
    pub(crate) schema: Option<SchemaRef>,
}

impl Region {
    /// The region whose root is `plan`; `None` if the root is no join that may be moved, or there are too many relations.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Region> {
        if !is_movable(plan) {
            return None;
        }
        let mut region = Region::default();
        region.output = region.take(plan).ok()?;
        region.settle_classes();
        region.schema = Some(plan.schema());
        Some(region)
    }

    /// The region with `change` made of each relation.
    pub(crate) fn with_relations(
        mut self,
        mut change: impl FnMut(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Self> {
        for relation in &mut self.relations {
            relation.plan = change(Arc::clone(&relation.plan))?;
        }
        Ok(self)
    }

    /// The relations that an expression names.
    pub(crate) fn set_of(&self, expr: &Expr) -> Set {
        columns(expr)
            .into_iter()
            .map(|column| only(self.owner(column)))
            .fold(0, |set, one| set | one)
    }

    /// The relation that a column belongs to.
    pub(crate) fn owner(&self, column: usize) -> usize {
        self.relations.partition_point(|relation| relation.first <= column) - 1
    }

    /// Takes a subtree in; returns what each of its columns is.
    fn take(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Expr>> {
        if is_movable(plan) {
            return self.take_join(plan);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
            && leads_to_join(projection.input())
            && projection.expr().iter().all(|given| is_plain(&given.expr))
        {
            let below = self.take(projection.input())?;
            return projection.expr().iter().map(|given| replaced(&given.expr, &below)).collect();
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>()
            && leads_to_join(filter.input())
            && is_movable_filter(filter)
        {
            let below = self.take(filter.input())?;
            for part in split_conjunction(filter.predicate()) {
                let part = replaced(part, &below)?;
                self.add_filter(part);
            }
            return Ok(projected(below, filter.projection().as_deref()));
        }
        self.add_relation(plan, None)
    }

    fn take_join(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Expr>> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let left = self.take(join.left())?;
            if *join.join_type() != JoinType::Inner {
                return self.take_dependent(join, left);
            }
            let right = self.take(join.right())?;
            for (l, r) in join.on() {
                let (l, r) = (replaced(l, &left)?, replaced(r, &right)?);
                self.add_equality(l, r);
            }
            self.add_join_filter(join.filter(), &left, &right)?;
            let all = left.into_iter().chain(right).collect();
            return Ok(projected(all, join.projection.as_deref()));
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let (left, right) = (self.take(join.left())?, self.take(join.right())?);
            self.add_join_filter(join.filter(), &left, &right)?;
            let all = left.into_iter().chain(right).collect();
            return Ok(projected(all, join.projection().as_deref()));
        }
        let children = plan.children();
        let mut all = Vec::new();
        for child in children {
            all.extend(self.take(child)?);
        }
        Ok(all)
    }

    /// Takes the right side of a semi-join or anti-join over `left`.
    fn take_dependent(&mut self, join: &HashJoinExec, left: Vec<Expr>) -> Result<Vec<Expr>> {
        let is_anti = *join.join_type() == JoinType::LeftAnti;
        let number = self.relations.len();
        let dependent = Dependent { is_anti, keys: Vec::new(), filter: None, needs: 0 };
        let right = self.add_relation(join.right(), Some(dependent))?;
        let keys = join.on().iter().map(|(l, r)| Ok((replaced(l, &left)?, replaced(r, &right)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let filter = join.filter().map(|filter| over_both(filter, &left, &right)).transpose()?;
        let named = keys.iter().map(|(l, _)| self.set_of(l));
        let named = named.chain(filter.iter().map(|filter| self.set_of(filter)));
        let needs = named.fold(0, |set, one| set | one) & !only(number);
        self.relations[number].dependent = Some(Dependent { is_anti, keys, filter, needs });
        Ok(projected(left, join.projection.as_deref()))
    }

    fn add_relation(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        dependent: Option<Dependent>,
    ) -> Result<Vec<Expr>> {
        if self.relations.len() == RELATIONS_MOST {
            return plan_err!("a region has at most {RELATIONS_MOST} relations");
        }
        let last = self.relations.last();
        let first = last.map_or(0, |last| last.first + last.columns());
        self.relations.push(Relation { plan: Arc::clone(plan), first, dependent });
        let schema = plan.schema();
        let column = |(at, field): (usize, &FieldRef)| {
            Arc::new(Column::new(field.name(), first + at)) as Expr
        };
        Ok(schema.fields().iter().enumerate().map(column).collect())
    }

    fn add_join_filter(
        &mut self,
        filter: Option<&JoinFilter>,
        left: &[Expr],
        right: &[Expr],
    ) -> Result<()> {
        let Some(filter) = filter else { return Ok(()) };
        let over_both = over_both(filter, left, right)?;
        for part in split_conjunction(&over_both) {
            self.add_filter(Arc::clone(part));
        }
        Ok(())
    }

    fn add_filter(&mut self, filter: Expr) {
        self.filters.push((self.set_of(&filter), filter));
    }

    /// Leaves one value of each relation in a class; that others of the relation equal it becomes a filter.
    fn settle_classes(&mut self) {
        for class in std::mem::take(&mut self.classes) {
            let mut settled: Vec<(usize, Expr)> = Vec::with_capacity(class.len());
            for (relation, value) in class {
                match settled.iter().find(|(known, _)| *known == relation) {
                    Some((_, known)) => self.add_filter(equal(Arc::clone(known), value)),
                    None => settled.push((relation, value)),
                }
            }
            self.classes.push(settled);
        }
    }

    /// Adds `left = right`.
    fn add_equality(&mut self, left: Expr, right: Expr) {
        let (l, r) = (self.set_of(&left), self.set_of(&right));
        if l.count_ones() != 1 || r.count_ones() != 1 || l == r {
            self.filters.push((l | r, equal(left, right)));
            return;
        }
        let members = [(l.trailing_zeros() as usize, left), (r.trailing_zeros() as usize, right)];
        let place = |classes: &[Vec<(usize, Expr)>], value: &Expr| {
            classes.iter().position(|class| class.iter().any(|(_, member)| member.eq(value)))
        };
        let mut class = Vec::new();
        for (relation, value) in members {
            match place(&self.classes, &value) {
                Some(known) => class.extend(self.classes.swap_remove(known)),
                None if class.iter().any(|(_, member): &(usize, Expr)| member.eq(&value)) => {}
                None => class.push((relation, value)),
            }
        }
        self.classes.push(class);
    }
}

fn equal(left: Expr, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, Operator::Eq, right))
}

/// A join's condition over the numbers of a region.
fn over_both(filter: &JoinFilter, left: &[Expr], right: &[Expr]) -> Result<Expr> {
    let columns = filter.column_indices().iter().map(|column| {
        let side = if column.side == JoinSide::Left { left } else { right };
        Arc::clone(&side[column.index])
    });
    replaced(filter.expression(), &columns.collect::<Vec<_>>())
}

fn projected(columns: Vec<Expr>, projection: Option<&[usize]>) -> Vec<Expr> {
    match projection {
        Some(kept) => kept.iter().map(|&column| Arc::clone(&columns[column])).collect(),
        None => columns,
    }
}

/// Whether a node is a join whose order may change.
fn is_movable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let kind =
            matches!(join.join_type(), JoinType::Inner | JoinType::LeftSemi | JoinType::LeftAnti);
        return kind
            && !join.null_aware
            && join.null_equality() == NullEquality::NullEqualsNothing
            && join.fetch().is_none()
            && join.filter().is_none_or(|filter| !is_volatile(filter.expression()));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return *join.join_type() == JoinType::Inner
            && join.filter().is_none_or(|filter| !is_volatile(filter.expression()));
    }
    plan.downcast_ref::<CrossJoinExec>().is_some()
}

/// Whether there is such a join below plain projections and filters.
fn leads_to_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().all(|given| is_plain(&given.expr))
            && leads_to_join(projection.input());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return is_movable_filter(filter) && leads_to_join(filter.input());
    }
    is_movable(plan)
}

fn is_movable_filter(filter: &FilterExec) -> bool {
    filter.fetch().is_none() && !is_volatile(filter.predicate())
}

fn is_volatile(expr: &Expr) -> bool {
    physical_expr::is_volatile(expr)
}
