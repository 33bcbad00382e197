//! Subqueries become joins.
//!
//! DataFusion turns into joins what compares with an outer row by equality; what it does right is
//! left to it ([`keep`]). The rest is done here, before its optimizer, by the method of Neumann and
//! Kemper ("Unnesting Arbitrary Queries", BTW 2015): the *domain* D of a subquery are the distinct
//! values of the outer columns that it names; it is evaluated once for each of them, as a join
//! between D and itself that is pushed down until nothing below names an outer column ([`depend`]);
//! the outer rows are joined with the result on D, NULLs being equal there.
//!
//! - A scalar subquery is a left join. More than one row for one outer row is 21000.
//! - EXISTS is a mark join. If its conditions alone name outer columns, no domain is needed.
//! - `x IN (S)` is TRUE if S has a row equal to x; else NULL if S has a NULL, or x is NULL and S
//!   has any row; else FALSE. `x op ANY` and `x op ALL` likewise.
//! - EXISTS without outer columns is a scalar subquery that counts to one.
//!
//! Outermost queries come first: what their subqueries name is bound when inner ones are looked at.
//! Refused (0A000): outer columns below a recursive query, unnest or LATERAL, and subqueries in the
//! condition of an outer join that name its columns.

mod depend;
mod flat;
mod free;
mod keep;
mod optional;

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, NullEquality, Result, ScalarValue, Spans};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Filter, Join, JoinConstraint, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, Subquery, SubqueryAlias, lit, when,
};

use self::depend::{Domain, yields_one_row};
use self::flat::{Through, flatten, rename};
use self::free::{holds_subquery, open_references, subquery_of};
use self::optional::optional;
use crate::aggregates;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

/// Rewrites every subquery that DataFusion's optimizer cannot, or would get wrong.
pub fn unnest(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists(|node| Ok(has_subquery(node)))? {
        return Ok(plan);
    }
    let mut names = Names::default();
    plan.transform_down_with_subqueries(|node| without_subqueries(node, &mut names)).data()
}

fn has_subquery(node: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = node.apply_subqueries(|_| {
        found = true;
        Ok(TreeNodeRecursion::Stop)
    });
    found
}

fn refuse(what: &str) -> datafusion::common::DataFusionError {
    external(SqlError::unsupported(what))
}

/// Names that no statement has.
#[derive(Default)]
struct Names(usize);

impl Names {
    fn fresh(&mut self, what: &str) -> String {
        self.0 += 1;
        format!("__{what}_{}", self.0)
    }

    fn column(&mut self, what: &str) -> Column {
        Column::new_unqualified(self.fresh(what))
    }
}

fn column(column: &Column) -> Expr {
    Expr::Column(column.clone())
}

fn null() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// A join on pairs of columns, NULLs being equal.
fn join_on_domain(
    left: LogicalPlan,
    right: LogicalPlan,
    pairs: impl Iterator<Item = (Column, Column)>,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    let on = pairs.map(|(a, b)| (Expr::Column(a), Expr::Column(b))).collect();
    join(left, right, on, None, join_type, NullEquality::NullEqualsNull)
}

fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    let (left, right) = (Arc::new(left), Arc::new(right));
    let constraint = JoinConstraint::On;
    Join::try_new(left, right, on, filter, join_type, constraint, null_equality, false)
        .map(LogicalPlan::Join)
}

fn project(input: LogicalPlan, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(exprs, Arc::new(input)).map(LogicalPlan::Projection)
}

fn filter(input: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => Filter::try_new(condition, Arc::new(input)).map(LogicalPlan::Filter),
        None => Ok(input),
    }
}

/// A node whose own subqueries that are ours to rewrite are gone.
fn without_subqueries(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    if !has_subquery(&node) {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Filter(node) => filter_without_subqueries(node, names),
        LogicalPlan::Join(mut node) => {
            let condition = node.filter.take().into_iter().flat_map(split_conjunction_owned);
            let (asking, plain): (Vec<_>, Vec<_>) = condition.partition(holds_subquery);
            node.filter = conjunction(plain);
            if node.join_type == JoinType::Inner {
                return Ok(Transformed::yes(filter(LogicalPlan::Join(node), asking)?));
            }
            // Only what names no column of the join may stay in the condition of another.
            let mut apply = Apply::new(LogicalPlan::Join(node.clone()), names, false);
            let rewrite = |expr| apply.rewrite(expr);
            let asking = asking.into_iter().map(rewrite).collect::<Result<Vec<_>>>()?;
            if apply.joined {
                return Err(refuse("a correlated subquery in the condition of an outer join"));
            }
            node.filter = conjunction(node.filter.into_iter().chain(asking));
            Ok(Transformed::yes(LogicalPlan::Join(node)))
        }
        LogicalPlan::Projection(_) => over_one_input(node, names, true),
        LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
            over_one_input(node, names, false)
        }
        // Nothing of these is correlated: there are no rows yet.
        LogicalPlan::Values(_) | LogicalPlan::Limit(_) => {
            let mut apply = Apply::new(LogicalPlanBuilder::empty(true).build()?, names, false);
            node.map_expressions(|expr| apply.rewrite(expr).map(Transformed::yes))
        }
        node => Ok(Transformed::no(node)),
    }
}

fn over_one_input(
    node: LogicalPlan,
    names: &mut Names,
    keeps_scalars: bool,
) -> Result<Transformed<LogicalPlan>> {
    let input = node.inputs()[0].clone();
    let mut apply = Apply::new(input, names, keeps_scalars);
    let preserver = NamePreserver::new(&node);
    let rewrite = |expr: Expr| {
        let name = preserver.save(&expr);
        apply.rewrite(expr).map(|expr| name.restore(expr))
    };
    let exprs = node.expressions().into_iter().map(rewrite).collect::<Result<Vec<_>>>()?;
    if !apply.changed {
        return Ok(Transformed::no(node));
    }
    let columns: Vec<Expr> = node.schema().columns().into_iter().map(Expr::Column).collect();
    let new = node.with_new_exprs(exprs, vec![apply.input])?;
    let passes_on = matches!(new, LogicalPlan::Sort(_) | LogicalPlan::Window(_));
    Ok(Transformed::yes(if passes_on && apply.joined { project(new, columns)? } else { new }))
}

/// Conditions that need nothing of us come first, so that fewer outer rows remain.
fn filter_without_subqueries(node: Filter, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(node.input.schema());
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for condition in split_conjunction_owned(node.predicate) {
        let keeps = keep::condition(&condition, &schema)?;
        (if keeps { &mut others } else { &mut ours }).push(condition);
    }
    let input = filter(Arc::unwrap_or_clone(node.input), others)?;
    if ours.is_empty() {
        return Ok(Transformed::no(input));
    }
    let mut apply = Apply::new(input, names, true);
    let rewrite = |expr| apply.rewrite(expr);
    let ours = ours.into_iter().map(rewrite).collect::<Result<Vec<_>>>()?;
    let (input, joined) = (apply.input, apply.joined);
    let filtered = filter(input, ours)?;
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(if joined { project(filtered, columns)? } else { filtered }))
}

/// Rewrites the expressions of one node, whose input grows by a join for each subquery.
struct Apply<'n> {
    names: &'n mut Names,
    /// The input without the joins: what domains are made of.
    base: LogicalPlan,
    input: LogicalPlan,
    /// Whether DataFusion may have correlated scalar subqueries at this node.
    keeps_scalars: bool,
    changed: bool,
    joined: bool,
}

impl<'n> Apply<'n> {
    fn new(input: LogicalPlan, names: &'n mut Names, keeps_scalars: bool) -> Self {
        let base = input.clone();
        Apply { names, base, input, keeps_scalars, changed: false, joined: false }
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    /// An expression without the subqueries that are ours.
    fn rewrite(&mut self, expr: Expr) -> Result<Expr> {
        expr.transform_down(|expr| {
            if subquery_of(&expr).is_none() {
                return Ok(Transformed::no(expr));
            }
            let new = match expr {
                Expr::ScalarSubquery(subquery) => self.scalar(subquery)?,
                expr => {
                    self.changed = true;
                    self.predicate(expr)?
                }
            };
            Ok(Transformed::new(new, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn predicate(&mut self, expr: Expr) -> Result<Expr> {
        Ok(match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                let exists = self.exists(&subquery.subquery)?;
                negate(exists, negated)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let operand = self.rewrite(*expr)?;
                let is_in = self.any(operand, Operator::Eq, &subquery.subquery)?;
                negate(is_in, negated)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let operand = self.rewrite(*expr)?;
                match quantifier {
                    SetQuantifier::Any => self.any(operand, op, &subquery.subquery)?,
                    // For all x: not for any the opposite.
                    SetQuantifier::All => {
                        let opposite = op.negate().ok_or_else(|| refuse("this comparison"))?;
                        !self.any(operand, opposite, &subquery.subquery)?
                    }
                }
            }
            other => other,
        })
    }

    /// References of a subquery to columns of the node's input.
    fn open(&self, plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
        let mut open = open_references(plan)?;
        open.retain(|(_, column)| self.schema().has_column(column));
        Ok(open)
    }

    fn domain(&self, outer: Vec<(FieldRef, Column)>) -> Domain {
        let base = self.base.schema();
        let in_base = outer.iter().all(|(_, column)| base.has_column(column));
        let rows = if in_base { &self.base } else { &self.input };
        let outer = outer.into_iter().map(|(_, column)| column).collect();
        Domain { rows: rows.clone(), outer }
    }

    fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let open = self.open(&subquery.subquery)?;
        if open.is_empty() {
            return self.uncorrelated(subquery).map(Expr::ScalarSubquery);
        }
        if self.keeps_scalars && keep::scalar(&subquery.subquery, &open)? {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        self.changed = true;
        self.value(&subquery.subquery, open).map(Expr::Column)
    }

    /// A scalar subquery that is run once, whose value may be missing if it has no row.
    fn uncorrelated(&mut self, subquery: Subquery) -> Result<Subquery> {
        let plan = &subquery.subquery;
        if plan.schema().field(0).is_nullable() || surely_has_a_row(plan) {
            return Ok(subquery);
        }
        self.changed = true;
        let (value, name) = (plan.schema().columns().swap_remove(0), self.names.fresh("value"));
        let value = optional(Expr::Column(value)).alias(name);
        let plan = Arc::new(project(plan.as_ref().clone(), vec![value])?);
        Ok(Subquery { subquery: plan, ..subquery })
    }

    /// The value of a subquery for each row, as a column.
    fn value(&mut self, plan: &LogicalPlan, open: Vec<(FieldRef, Column)>) -> Result<Column> {
        let domain = self.domain(open);
        let value = plan.schema().columns().swap_remove(0);
        let (mut rows, keys) = domain.join(plan, self.names)?;
        let name = self.names.column("value");
        if yields_one_row(plan) {
            let exprs = keys.iter().map(column).chain([column(&value).alias(&name.name)]);
            rows = project(rows, exprs.collect())?;
        } else {
            let only = aggregates::only(column(&value)).alias(&name.name);
            let groups = keys.iter().map(column).collect();
            rows = Aggregate::try_new(Arc::new(rows), groups, vec![only])
                .map(LogicalPlan::Aggregate)?;
        }
        self.join_back(&domain, rows, keys, JoinType::Left)?;
        Ok(name)
    }

    fn join_back(
        &mut self,
        domain: &Domain,
        rows: LogicalPlan,
        keys: Vec<Column>,
        join_type: JoinType,
    ) -> Result<()> {
        let pairs = domain.outer.iter().cloned().zip(keys);
        let input = std::mem::take(&mut self.input);
        self.input = join_on_domain(input, rows, pairs, join_type)?;
        self.joined = true;
        Ok(())
    }

    /// Whether a subquery has a row: never NULL.
    fn exists(&mut self, plan: &LogicalPlan) -> Result<Expr> {
        let open = self.open(plan)?;
        if open.is_empty() {
            return counts_to_one(plan.clone(), self.names);
        }
        let alias = self.names.fresh("exists");
        if let Some(flat) = flatten(plan, Vec::new(), Through::Existence)? {
            let (right, condition) = matching(flat, &alias, self.names)?;
            let condition = free::replace(condition, self.schema(), &|column| {
                open.iter().any(|(_, known)| known == column).then(|| column.clone())
            })?;
            let input = std::mem::take(&mut self.input);
            let equality = NullEquality::NullEqualsNothing;
            self.input =
                join(input, right, Vec::new(), Some(condition), JoinType::LeftMark, equality)?;
            self.joined = true;
        } else {
            let domain = self.domain(open);
            let (rows, keys) = domain.join(plan, self.names)?;
            let rows = project(rows, keys.iter().map(column).collect())?;
            let rows = LogicalPlan::Distinct(Distinct::All(Arc::new(rows)));
            let rows = SubqueryAlias::try_new(Arc::new(rows), alias.as_str())?;
            let keys = keys.into_iter().map(|key| Column::new(Some(alias.as_str()), key.name));
            let keys = keys.collect();
            self.join_back(&domain, LogicalPlan::SubqueryAlias(rows), keys, JoinType::LeftMark)?;
        }
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }

    /// `operand op ANY (plan)`.
    fn any(&mut self, operand: Expr, op: Operator, plan: &LogicalPlan) -> Result<Expr> {
        let value = plan.schema().columns().swap_remove(0);
        let value_may_be_null = plan.schema().field(0).is_nullable();
        let operand_may_be_null = operand.nullable(self.schema())?;
        let outer = self.as_outer(operand.clone())?;
        let compared = Expr::BinaryExpr(datafusion::logical_expr::BinaryExpr::new(
            Box::new(outer),
            op,
            Box::new(column(&value)),
        ));
        let matches = self.exists(&filter(plan.clone(), vec![compared])?)?;
        let mut unknown = Vec::new();
        if value_may_be_null {
            let nulls = filter(plan.clone(), vec![column(&value).is_null()])?;
            unknown.push(self.exists(&nulls)?);
        }
        if operand_may_be_null {
            unknown.push(operand.is_null().and(self.exists(plan)?));
        }
        match unknown.into_iter().reduce(Expr::or) {
            None => Ok(matches),
            Some(unknown) => when(matches, lit(true)).when(unknown, null()).otherwise(lit(false)),
        }
    }

    /// An expression over the node's input as a subquery of the node names it.
    fn as_outer(&self, expr: Expr) -> Result<Expr> {
        let schema = self.schema();
        expr.transform_up(|expr| match expr {
            Expr::Column(column) => {
                let field = Arc::clone(schema.qualified_field_from_column(&column)?.1);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

/// Whether a plan has a row whatever the tables hold.
fn surely_has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => surely_has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => surely_has_a_row(&node.input),
        LogicalPlan::Sort(node) => surely_has_a_row(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        LogicalPlan::Values(_) => true,
        _ => false,
    }
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { !expr } else { expr }
}

/// The rows that a mark join looks for, under names that stand nowhere else, and its condition,
/// in which outer references remain.
fn matching(flat: flat::Flat, alias: &str, names: &mut Names) -> Result<(LogicalPlan, Expr)> {
    let condition = conjunction(flat.correlated).unwrap_or_else(|| lit(true));
    let mut renamed = Vec::new();
    let mut exprs = Vec::new();
    for old in condition.column_refs() {
        let name = names.fresh("inner");
        exprs.push(column(old).alias(&name));
        renamed.push((old.clone(), Column::new(Some(alias), name)));
    }
    if exprs.is_empty() {
        exprs.push(lit(true).alias(names.fresh("inner")));
    }
    let condition = rename(condition.clone(), &renamed)?;
    let rows = project(filter(flat.source, flat.local)?, exprs)?;
    let rows = SubqueryAlias::try_new(Arc::new(rows), alias)?;
    Ok((LogicalPlan::SubqueryAlias(rows), condition))
}

/// EXISTS of a plan without outer columns: `(SELECT count(*) > 0 FROM (plan LIMIT 1))`.
fn counts_to_one(plan: LogicalPlan, names: &mut Names) -> Result<Expr> {
    let (count, found) = (names.column("count"), names.fresh("found"));
    let one = AggregateFunction::new_udf(count_udaf(), vec![lit(1_i64)], false, None, vec![], None);
    let counted = LogicalPlanBuilder::from(plan)
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(one).alias(&count.name)])?
        .project(vec![column(&count).gt(lit(0_i64)).alias(found)])?
        .build()?;
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(counted),
        outer_ref_columns: Vec::new(),
        spans: Spans::new(),
    }))
}
