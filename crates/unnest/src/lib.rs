//! Unnesting: subqueries, and LATERAL, become joins.
//!
//! DataFusion's optimizer is not used for this, because it tells the columns of a subquery and of
//! the surrounding rows apart by their names alone, so that two columns with one name become one.
//! Here every column that leaves a subquery gets a name that nothing else has.
//!
//! The method is that of Neumann and Kemper ("Unnesting Arbitrary Queries", BTW 2015). The *domain*
//! D of a subquery is the set of distinct values of the outer columns that it names. The subquery
//! is evaluated once for all of D, as a join between D and itself, which is pushed down until
//! nothing below names an outer column ([`depend`]); the outer rows are joined with the result on
//! D, where NULLs count as equal.
//!
//! - A scalar subquery is a left join. More than one row for one outer row is the error 21000.
//!   Aggregates of rows that are looked up by equality need no domain ([`lookup`]).
//! - EXISTS is a mark join. If only its conditions name outer columns, no domain is needed.
//! - `x IN (S)` is TRUE if S has a row equal to x; otherwise NULL if S has a NULL, or x is NULL and
//!   S has any row; otherwise FALSE. `x op ANY` and `x op ALL` likewise.
//! - EXISTS and IN that are conditions of a WHERE by themselves are semi-joins, their negations
//!   anti-joins: NULL and FALSE drop a row alike.
//! - EXISTS without outer columns is a scalar subquery that counts to one. Scalar subqueries
//!   without outer columns remain, and are run once.
//!
//! Outermost queries come first, so that the references of their subqueries are bound when inner
//! ones are rewritten.
//! Subqueries in the condition of an outer join are computed beside its rows ([`outer`]).
//! Refused (0A000): a subquery that names columns of both sides in the condition of a FULL JOIN.
//!
//! **Invariant**, checked by `cargo xtask check claims`: nothing here knows a table or a transaction.
#![forbid(unsafe_code)]

pub mod conjunctions;
pub mod constant_rows;
mod depend;
mod flat;
mod free;
pub mod grouping_sets;
pub mod inputs_first;
pub mod late_effects;
mod lookup;
mod optional;
mod outer;
mod prepared;
pub mod row_values;
mod rows;
pub mod set_operations;
pub mod sorts;
pub mod union_tops;

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, NullEquality, Result, ScalarValue, Spans};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Filter, Join, JoinConstraint,
    LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, SubqueryAlias, lit, when,
};

use self::depend::{Domain, is_plain_lateral, lateral, without_lateral, yields_one_row};
use self::flat::{Through, flatten, rename};
use self::free::{holds_subquery, open_references, subquery_of};
use self::lookup::Lookup;
use self::optional::optional;
use crate::conjunctions::conjunction;
use halcyon_aggregates::sums;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

/// Rewrites every subquery but scalar ones without outer columns.
pub fn unnest(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists(|node| Ok(has_subquery(node) || is_lateral(node)))? {
        return Ok(plan);
    }
    let mut names = Names::default();
    let plan = prepared::with_missing_values(plan)?;
    plan.transform_down_with_subqueries(|node| without_subqueries(node, &mut names)).data()
}

/// Whether an expression of a node is, or contains, a subquery.
pub fn has_subquery(node: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = node.apply_subqueries(|_| {
        found = true;
        Ok(TreeNodeRecursion::Stop)
    });
    found
}

/// Whether a node is a join whose right side names columns of the left side in more than conditions. DataFusion
/// takes the other LATERAL joins apart, without a domain.
fn is_lateral(node: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = node else { return false };
    let right = lateral(join).ok().flatten();
    right.is_some_and(|right| !is_plain_lateral(&right).unwrap_or(true))
}

/// Errors: 57014 if the statement that this thread plans is to end, 53200 if it was refused memory. A domain holds the
/// rows around its subquery, so a plan can grow with every subquery and LATERAL that is rewritten.
fn go_on() -> Result<()> {
    SqlError::unless_interrupted().map_err(external)
}

fn refuse(what: &str) -> datafusion::common::DataFusionError {
    external(SqlError::unsupported(what))
}

/// A source of names that no statement has.
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

/// A join on pairs of columns, where NULLs count as equal. If one column of a pair is never NULL,
/// plain equality is used.
fn join_on_domain(
    left: LogicalPlan,
    right: LogicalPlan,
    pairs: impl Iterator<Item = (Column, Column)>,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    let (mut on, mut condition) = (Vec::new(), Vec::new());
    for (a, b) in pairs {
        let nullable = left.schema().qualified_field_from_column(&a)?.1.is_nullable()
            && right.schema().qualified_field_from_column(&b)?.1.is_nullable();
        let (a, b) = (Expr::Column(a), Expr::Column(b));
        if nullable {
            condition.push(same(a, b));
        } else {
            on.push((a, b));
        }
    }
    join(left, right, on, conjunction(condition), join_type, NullEquality::NullEqualsNothing)
}

/// `a IS NOT DISTINCT FROM b`.
fn same(a: Expr, b: Expr) -> Expr {
    compared(a, Operator::IsNotDistinctFrom, b)
}

fn compared(a: Expr, op: Operator, b: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(a), op, Box::new(b)))
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

/// A node without those of its own subqueries that are rewritten here.
fn without_subqueries(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    go_on()?;
    let node = match with_early_conditions(node)? {
        LogicalPlan::Join(join) if is_lateral(&LogicalPlan::Join(join.clone())) => {
            let right = lateral(&join)?.expect("just looked at");
            let plain = match rows::of_lists(&join, &right)? {
                Some(plain) => plain,
                None => without_lateral(join, right, names)?,
            };
            return Ok(Transformed::yes(plain));
        }
        node => node,
    };
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
                // The caller goes on below this node, so the filter is rewritten here.
                return match filter(LogicalPlan::Join(node), asking)? {
                    LogicalPlan::Filter(filter) => filter_without_subqueries(filter, names),
                    plain => Ok(Transformed::yes(plain)),
                };
            }
            outer::without_subqueries(node, asking, names).map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::On(node)) => {
            prepared::computed_below(node, names).map(Transformed::yes)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => over_one_input(node, names),
        // Subqueries of these nodes are not correlated: there are no rows around them.
        LogicalPlan::Values(_) | LogicalPlan::Limit(_) => {
            let mut apply = Apply::new(LogicalPlanBuilder::empty(true).build()?, names);
            node.map_expressions(|expr| apply.rewrite(expr).map(Transformed::yes))
        }
        node => Ok(Transformed::no(node)),
    }
}

/// A WHERE over a LATERAL join with what it asks of the left side alone below the join, so that the domain has
/// no more than the rows that matter: `FROM c, LATERAL (… c.id … LIMIT 1) WHERE c.id = 7` looks for one row's.
fn with_early_conditions(node: LogicalPlan) -> Result<LogicalPlan> {
    let (mut join, predicate) = match &node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => match input.as_ref() {
            LogicalPlan::Join(join)
                if matches!(join.join_type, JoinType::Inner | JoinType::Left)
                    && is_lateral(input) =>
            {
                (join.clone(), predicate.clone())
            }
            _ => return Ok(node),
        },
        _ => return Ok(node),
    };
    let left = Arc::clone(join.left.schema());
    let is_early = |condition: &Expr| {
        let columns = condition.column_refs();
        !columns.is_empty()
            && columns.iter().all(|column| left.has_column(column))
            && !condition.is_volatile()
            && !condition.contains_outer()
            && !holds_subquery(condition)
    };
    let conditions = split_conjunction_owned(predicate);
    let (early, late): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_early);
    join.left = Arc::new(filter(Arc::unwrap_or_clone(join.left), early)?);
    filter(LogicalPlan::Join(join), late)
}

fn over_one_input(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let input = node.inputs()[0].clone();
    let mut apply = Apply::new(input, names);
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

/// Plain conditions come first, then semi-joins, so that fewer outer rows remain for the rest.
fn filter_without_subqueries(node: Filter, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let columns = node.input.schema().columns();
    let conditions = split_conjunction_owned(node.predicate);
    let (asking, plain): (Vec<_>, Vec<_>) = conditions.into_iter().partition(holds_subquery);
    let mut apply = Apply::new(filter(Arc::unwrap_or_clone(node.input), plain)?, names);
    let mut others = Vec::new();
    for condition in asking {
        others.extend(apply.restrict(condition)?);
    }
    let rewrite = |expr| apply.rewrite(expr);
    let others = others.into_iter().map(rewrite).collect::<Result<Vec<_>>>()?;
    let (input, joined) = (apply.input, apply.joined);
    let filtered = filter(input, others)?;
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(if joined { project(filtered, columns)? } else { filtered }))
}

/// The rewriting of one node's expressions; the node's input grows by a join for each subquery.
struct Apply<'n> {
    names: &'n mut Names,
    /// The input without these joins, from which domains are made.
    base: LogicalPlan,
    input: LogicalPlan,
    changed: bool,
    joined: bool,
}

impl<'n> Apply<'n> {
    fn new(input: LogicalPlan, names: &'n mut Names) -> Self {
        let base = input.clone();
        Apply { names, base, input, changed: false, joined: false }
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    /// An expression without the subqueries that are rewritten here.
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

    /// Drops the rows for which a condition of a WHERE is not true, if the condition is an EXISTS
    /// or IN; otherwise returns the condition.
    fn restrict(&mut self, condition: Expr) -> Result<Option<Expr>> {
        let (condition, not) = match condition {
            Expr::Not(inner) if subquery_of(&inner).is_some() => (*inner, true),
            other => (other, false),
        };
        match condition {
            Expr::Exists(Exists { subquery, negated })
                if !self.open(&subquery.subquery)?.is_empty() =>
            {
                self.keep_where_exists(&subquery.subquery, negated != not)?;
                Ok(None)
            }
            Expr::InSubquery(is_in)
                if !holds_subquery(&is_in.expr) && !is_in.expr.column_refs().is_empty() =>
            {
                let (plan, negated) = (&is_in.subquery.subquery, is_in.negated != not);
                if !negated {
                    let matching = self.matching(*is_in.expr, Operator::Eq, plan)?;
                    self.keep_where_exists(&matching, false)?;
                } else if self.open(plan)?.is_empty() {
                    self.keep_where_not_in(*is_in.expr, plan)?;
                } else {
                    return Ok(Some(negate(Expr::InSubquery(is_in), not)));
                }
                Ok(None)
            }
            other => Ok(Some(negate(other, not))),
        }
    }

    /// Keeps the rows for which a subquery that names their columns has a row, or has none.
    fn keep_where_exists(&mut self, plan: &LogicalPlan, negated: bool) -> Result<()> {
        let kind = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        let open = self.open(plan)?;
        self.join_by_existence(plan, open, kind)?;
        self.base = self.input.clone();
        Ok(())
    }

    /// `operand NOT IN (plan)` of a plan that names no outer column.
    fn keep_where_not_in(&mut self, operand: Expr, plan: &LogicalPlan) -> Result<()> {
        let (value, field) = (plan.schema().columns().swap_remove(0), plan.schema().field(0));
        let null_aware = field.is_nullable() || operand.nullable(self.schema())?;
        let (alias, name) = (self.names.fresh("in"), self.names.fresh("value"));
        let rows = project(plan.clone(), vec![column(&value).alias(&name)])?;
        let rows = SubqueryAlias::try_new(Arc::new(rows), alias.as_str())?;
        let on = vec![(operand, Expr::Column(Column::new(Some(alias), name)))];
        let (left, right) = (Arc::new(self.input.clone()), LogicalPlan::SubqueryAlias(rows));
        let (kind, constraint) = (JoinType::LeftAnti, JoinConstraint::On);
        let nulls = NullEquality::NullEqualsNothing;
        let right = Arc::new(right);
        self.input = Join::try_new(left, right, on, None, kind, constraint, nulls, null_aware)
            .map(LogicalPlan::Join)?;
        self.base = self.input.clone();
        Ok(())
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
                    // A comparison holds for all x if its opposite holds for none.
                    SetQuantifier::All => {
                        let opposite = op.negate().ok_or_else(|| refuse("this comparison"))?;
                        !self.any(operand, opposite, &subquery.subquery)?
                    }
                }
            }
            other => other,
        })
    }

    /// The references of a subquery to columns of the node's input.
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
        self.changed = true;
        match Lookup::of(&subquery.subquery)? {
            Some(lookup) => self.look_up(lookup),
            None => self.value(&subquery.subquery, open).map(Expr::Column),
        }
    }

    /// The value of aggregates that are looked up, for each row.
    fn look_up(&mut self, lookup: Lookup) -> Result<Expr> {
        let (rows, on, value) = lookup.join(self.input.schema(), self.names)?;
        let input = std::mem::take(&mut self.input);
        let equality = NullEquality::NullEqualsNothing;
        self.input = join(input, rows, on, None, JoinType::Left, equality)?;
        self.joined = true;
        Ok(value)
    }

    /// A scalar subquery that is run once; its value may be missing if it has no row.
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
            let only = sums::only(column(&value)).alias(&name.name);
            let groups = keys.iter().map(column).collect();
            rows = Aggregate::try_new(Arc::new(rows), groups, vec![only])
                .map(LogicalPlan::Aggregate)?;
        }
        let pairs = domain.outer.iter().cloned().zip(keys);
        let input = std::mem::take(&mut self.input);
        self.input = join_on_domain(input, rows, pairs, JoinType::Left)?;
        self.joined = true;
        Ok(name)
    }

    /// Whether a subquery has a row, never NULL.
    fn exists(&mut self, plan: &LogicalPlan) -> Result<Expr> {
        let open = self.open(plan)?;
        if open.is_empty() {
            return counts_to_one(plan.clone(), self.names);
        }
        let alias = self.join_by_existence(plan, open, JoinType::LeftMark)?;
        self.joined = true;
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }

    /// Joins the rows with those that a subquery has for them, by `kind`: a semi, anti or mark
    /// join. Returns the name of the subquery's side.
    fn join_by_existence(
        &mut self,
        plan: &LogicalPlan,
        open: Vec<(FieldRef, Column)>,
        kind: JoinType,
    ) -> Result<String> {
        let alias = self.names.fresh("exists");
        if let Some(flat) = flatten(plan, Vec::new(), Through::Existence)? {
            let (right, condition) = matching(flat, &alias, self.names)?;
            let condition = free::replace(condition, self.schema(), &|column| {
                open.iter().any(|(_, known)| known == column).then(|| column.clone())
            })?;
            let input = std::mem::take(&mut self.input);
            let equality = NullEquality::NullEqualsNothing;
            self.input = join(input, right, Vec::new(), Some(condition), kind, equality)?;
        } else {
            let domain = self.domain(open);
            let (rows, keys) = domain.join(plan, self.names)?;
            let rows = project(rows, keys.iter().map(column).collect())?;
            let rows = LogicalPlan::Distinct(Distinct::All(Arc::new(rows)));
            let rows = SubqueryAlias::try_new(Arc::new(rows), alias.as_str())?;
            let keys = keys.into_iter().map(|key| Column::new(Some(alias.as_str()), key.name));
            let pairs = domain.outer.iter().cloned().zip(keys);
            let input = std::mem::take(&mut self.input);
            self.input = join_on_domain(input, LogicalPlan::SubqueryAlias(rows), pairs, kind)?;
        }
        Ok(alias)
    }

    /// The rows of `plan` for whose value `operand op value` is true.
    fn matching(&self, operand: Expr, op: Operator, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let value = plan.schema().columns().swap_remove(0);
        let condition = compared(self.as_outer(operand)?, op, column(&value));
        filter(plan.clone(), vec![condition])
    }

    /// `operand op ANY (plan)`.
    fn any(&mut self, operand: Expr, op: Operator, plan: &LogicalPlan) -> Result<Expr> {
        let value = plan.schema().columns().swap_remove(0);
        let value_may_be_null = plan.schema().field(0).is_nullable();
        let operand_may_be_null = operand.nullable(self.schema())?;
        let matching = self.matching(operand.clone(), op, plan)?;
        let matches = self.exists(&matching)?;
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

/// Whether a plan has a row whatever the tables contain.
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

/// The rows that a mark join looks for, under names that occur nowhere else, and its condition,
/// which may still have outer references.
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
