//! The dependent join, pushed down: evaluates a plan for all rows of a domain at once.
//!
//! `push(plan)` is `D ⋈ plan` where `plan` names columns of D as outer columns. The result has the
//! columns of `plan`, and those of D under fresh names, the *keys*. The rules by kind of node are
//! those of Neumann and Kemper, section 3, with two differences. A plan that names no outer column
//! is crossed with D at once. Aggregates without groups over σ(source) become aggregates by key
//! over `D ⟕ source` that count only the source's rows, so that D need not be joined a second time
//! to restore keys without rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, RecursiveQuery, SortExpr, SubqueryAlias, TableScan,
    TableSource, Union, Unnest, Values, Window, lit, when,
};

use super::flat::{Flat, Through, flatten, rename};
use super::free::{holds_outer, holds_subquery, open_references, replace, subquery_of};
use super::{Names, column, filter, join, join_on_domain, project, refuse, same};
use crate::conjunctions::conjunction;

/// A plan, and those of its columns that come from the domain.
type Keyed = (LogicalPlan, Vec<Column>);

/// The domain of a subquery: the values of the columns `outer` in `rows`.
pub struct Domain {
    /// The outer rows.
    pub rows: LogicalPlan,
    /// The columns of these rows that the subquery names.
    pub outer: Vec<Column>,
}

impl Domain {
    /// Evaluates `plan` for every distinct value of the outer columns; the keys are in the order of
    /// these columns.
    pub fn join(&self, plan: &LogicalPlan, names: &mut Names) -> Result<Keyed> {
        Dependent { domain: self, names, recursions: Vec::new() }.push(plan)
    }
}

/// Whether a plan has at most one row for each outer row, whatever the tables contain.
pub fn yields_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => yields_one_row(&node.input),
        LogicalPlan::Filter(node) => yields_one_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => yields_one_row(&node.input),
        LogicalPlan::Sort(node) => yields_one_row(&node.input),
        LogicalPlan::Distinct(node) => yields_one_row(node.input()),
        LogicalPlan::Limit(node) => {
            let fetch = node.fetch.as_deref().and_then(number);
            fetch.is_some_and(|fetch| fetch <= 1) || yields_one_row(&node.input)
        }
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(node) => node.values.len() <= 1,
        _ => false,
    }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        Expr::Literal(ScalarValue::Int32(value), _) => value.map(i64::from),
        Expr::Cast(Cast { expr, .. }) => number(expr),
        _ => None,
    }
}

struct Dependent<'a> {
    domain: &'a Domain,
    names: &'a mut Names,
    /// The recursive queries around the place.
    recursions: Vec<Recursion>,
}

/// A recursive query whose rows carry the keys.
struct Recursion {
    name: String,
    /// The rows of the step before, as the recursive term reads them.
    rows: Arc<dyn TableSource>,
    keys: Vec<Column>,
}

impl Dependent<'_> {
    /// An instance of the domain, under names of its own.
    fn instance(&mut self) -> Result<Keyed> {
        let keys: Vec<Column> =
            self.domain.outer.iter().map(|_| self.names.column("outer")).collect();
        let columns = self.domain.outer.iter().zip(&keys);
        let exprs = columns.map(|(outer, key)| column(outer).alias(&key.name)).collect();
        let rows = project(self.domain.rows.clone(), exprs)?;
        Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(rows))), keys))
    }

    fn depends(&self, plan: &LogicalPlan) -> Result<bool> {
        let open = open_references(plan)?;
        if open.iter().any(|(_, column)| self.domain.outer.contains(column)) {
            return Ok(true);
        }
        let reads = |node: &LogicalPlan| Ok(self.step_before(node).is_some());
        Ok(!self.recursions.is_empty() && plan.exists(reads)?)
    }

    /// The recursive query whose rows of the step before a node reads.
    fn step_before(&self, node: &LogicalPlan) -> Option<&Recursion> {
        let LogicalPlan::TableScan(scan) = node else { return None };
        self.recursions.iter().rev().find(|query| scan.table_name.table() == query.name)
    }

    /// An expression of a node over `input`, with keys in place of outer columns.
    fn bind(&self, expr: Expr, input: &DFSchema, keys: &[Column]) -> Result<Expr> {
        replace(expr, input, &|column| {
            let at = self.domain.outer.iter().position(|outer| outer == column)?;
            Some(keys[at].clone())
        })
    }

    fn bind_all(&self, exprs: &[Expr], input: &DFSchema, keys: &[Column]) -> Result<Vec<Expr>> {
        let preserver = NamePreserver::new_for_projection();
        let one = |expr: &Expr| {
            let name = preserver.save(expr);
            self.bind(expr.clone(), input, keys).map(|expr| name.restore(expr))
        };
        exprs.iter().map(one).collect()
    }

    fn push(&mut self, plan: &LogicalPlan) -> Result<Keyed> {
        if !self.depends(plan)? {
            let (rows, keys) = self.instance()?;
            if matches!(plan, LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty())
            {
                return Ok((rows, keys));
            }
            let crossed = LogicalPlanBuilder::from(plan.clone()).cross_join(rows)?.build()?;
            return Ok((crossed, keys));
        }
        match plan {
            LogicalPlan::Filter(node) => {
                let (input, keys) = self.push(&node.input)?;
                let condition = self.bind(node.predicate.clone(), node.input.schema(), &keys)?;
                Ok((filter(input, vec![condition])?, keys))
            }
            LogicalPlan::Projection(node) => self.projection(node),
            LogicalPlan::SubqueryAlias(node) => self.alias(node),
            // What a first item of FROM is, if it could have been LATERAL.
            LogicalPlan::Subquery(node) => self.push(&node.subquery),
            LogicalPlan::Sort(node) if node.fetch.is_none() => self.push(&node.input),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (rows, keys) = self.push(input)?;
                Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(rows))), keys))
            }
            LogicalPlan::Distinct(Distinct::On(node)) => self.distinct_on(node),
            LogicalPlan::Aggregate(node) => self.aggregate(node),
            LogicalPlan::Window(node) => self.window(node),
            LogicalPlan::Limit(node) => self.limit(node),
            LogicalPlan::Join(node) => self.join(node),
            LogicalPlan::Union(node) => self.union(&node.inputs),
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::Unnest(node) => self.lists(node),
            LogicalPlan::RecursiveQuery(node) => self.recursion(node),
            LogicalPlan::TableScan(node) => self.scan(node),
            other => Err(refuse(&format!(
                "an outer column below {} in a subquery",
                other.display().to_string().split([':', ' ']).next().unwrap_or_default()
            ))),
        }
    }

    fn projection(&mut self, node: &Projection) -> Result<Keyed> {
        let (input, keys) = self.push(&node.input)?;
        let mut exprs = self.bind_all(&node.expr, node.input.schema(), &keys)?;
        exprs.extend(keys.iter().map(column));
        Ok((project(input, exprs)?, keys))
    }

    /// The keys keep their names, since an alias renames only the plan's own columns.
    fn alias(&mut self, node: &SubqueryAlias) -> Result<Keyed> {
        let (input, keys) = self.push(&node.input)?;
        let own = node.input.schema().columns();
        let both = own.iter().chain(&keys).map(column).collect();
        let rows = SubqueryAlias::try_new(Arc::new(project(input, both)?), node.alias.clone())?;
        let mut exprs: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
        exprs.extend(keys.iter().map(|key| {
            Expr::Column(Column::new(Some(node.alias.clone()), &key.name)).alias(&key.name)
        }));
        Ok((project(LogicalPlan::SubqueryAlias(rows), exprs)?, keys))
    }

    fn aggregate(&mut self, node: &Aggregate) -> Result<Keyed> {
        if node.group_expr.is_empty() {
            let flat = flatten(&node.input, node.aggr_expr.clone(), Through::Joins)?;
            return match flat {
                Some(flat) => self.aggregate_of_matches(node, flat),
                None => self.aggregate_of_all(node),
            };
        }
        if node.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(refuse("GROUPING SETS in a correlated subquery"));
        }
        let (input, keys) = self.push(&node.input)?;
        let mut groups = self.bind_all(&node.group_expr, node.input.schema(), &keys)?;
        groups.extend(keys.iter().map(column));
        let aggregates = self.bind_all(&node.aggr_expr, node.input.schema(), &keys)?;
        let rows = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        Ok((LogicalPlan::Aggregate(rows), keys))
    }

    /// Aggregates without groups over conditions on a source: `D ⟕ source`, by key.
    fn aggregate_of_matches(&mut self, node: &Aggregate, flat: Flat) -> Result<Keyed> {
        let (rows, keys) = self.instance()?;
        let condition = conjunction(flat.correlated).unwrap_or_else(|| lit(true));
        let mut renamed: Vec<(Column, Column)> = Vec::new();
        for expr in flat.carried.iter().chain([&condition]) {
            for old in expr.column_refs() {
                if !renamed.iter().any(|(known, _)| known == old) {
                    renamed.push((old.clone(), self.names.column("inner")));
                }
            }
        }
        let matched = self.names.column("matched");
        let exprs = renamed.iter().map(|(old, new)| column(old).alias(&new.name));
        let exprs = exprs.chain([lit(true).alias(&matched.name)]).collect();
        let source = project(filter(flat.source, flat.local)?, exprs)?;
        let none = DFSchema::empty();
        let condition = self.bind(rename(condition, &renamed)?, &none, &keys)?;
        let preserver = NamePreserver::new_for_projection();
        let mut aggregates = Vec::new();
        for (old, new) in node.aggr_expr.iter().zip(flat.carried) {
            let new = self.bind(rename(new, &renamed)?, &none, &keys)?;
            let new = only_where(new, &column(&matched).is_not_null())?;
            aggregates.push(preserver.save(old).restore(new));
        }
        let equality = NullEquality::NullEqualsNothing;
        let input = join(rows, source, Vec::new(), Some(condition), JoinType::Left, equality)?;
        let groups = keys.iter().map(column).collect();
        let rows = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        Ok((LogicalPlan::Aggregate(rows), keys))
    }

    /// Aggregates without groups over any input: aggregates by key, then restores keys without
    /// rows, with the aggregates' values for empty input.
    fn aggregate_of_all(&mut self, node: &Aggregate) -> Result<Keyed> {
        let (input, inner_keys) = self.push(&node.input)?;
        let aggregates = self.bind_all(&node.aggr_expr, node.input.schema(), &inner_keys)?;
        let groups = inner_keys.iter().map(column).collect();
        let found = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        let (rows, keys) = self.instance()?;
        let pairs = keys.iter().cloned().zip(inner_keys);
        let rows = join_on_domain(rows, LogicalPlan::Aggregate(found), pairs, JoinType::Left)?;
        let mut exprs = Vec::new();
        for (at, own) in node.schema.columns().iter().enumerate() {
            let ty = node.schema.field(at).data_type();
            let of_none = of_no_rows(&node.aggr_expr[at], ty)?;
            exprs.push(if of_none.is_null() {
                column(own)
            } else {
                let of_none = Expr::Literal(of_none, None);
                let known = when(column(own).is_null(), of_none).otherwise(column(own))?;
                known.alias_qualified(own.relation.clone(), &own.name)
            });
        }
        exprs.extend(keys.iter().map(column));
        Ok((project(rows, exprs)?, keys))
    }

    /// One row for each key and each value of the expressions of DISTINCT ON.
    fn distinct_on(&mut self, node: &DistinctOn) -> Result<Keyed> {
        let (input, keys) = self.push(&node.input)?;
        let schema = node.input.schema();
        let mut on: Vec<Expr> = keys.iter().map(column).collect();
        on.extend(self.bind_all(&node.on_expr, schema, &keys)?);
        let mut shown = self.bind_all(&node.select_expr, schema, &keys)?;
        shown.extend(keys.iter().map(column));
        let order = match &node.sort_expr {
            None => None,
            Some(sort) => {
                let mut order: Vec<SortExpr> =
                    keys.iter().map(|key| column(key).sort(true, false)).collect();
                for by in sort {
                    order.push(by.with_expr(self.bind(by.expr.clone(), schema, &keys)?));
                }
                Some(order)
            }
        };
        let rows = DistinctOn::try_new(on, shown, order, Arc::new(input))?;
        Ok((LogicalPlan::Distinct(Distinct::On(rows)), keys))
    }

    fn window(&mut self, node: &Window) -> Result<Keyed> {
        let (input, keys) = self.push(&node.input)?;
        let exprs = self.bind_all(&node.window_expr, node.input.schema(), &keys)?;
        let partitioned = |expr: Expr| {
            let name = NamePreserver::new_for_projection().save(&expr);
            expr.transform_down(|expr| match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(keys.iter().map(column));
                    let function = Expr::WindowFunction(function);
                    Ok(Transformed::new(function, true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })
            .data()
            .map(|expr| name.restore(expr))
        };
        let exprs = exprs.into_iter().map(partitioned).collect::<Result<Vec<_>>>()?;
        let rows = Window::try_new(exprs, Arc::new(input))?;
        Ok((LogicalPlan::Window(rows), keys))
    }

    /// LIMIT becomes a bound on row numbers within each key; projections between it and its ORDER
    /// BY move above.
    fn limit(&mut self, node: &Limit) -> Result<Keyed> {
        let mut above = Vec::new();
        let mut below = node.input.as_ref();
        while let LogicalPlan::Projection(projection) = below {
            above.push(projection);
            below = &projection.input;
        }
        let (order, below) = match below {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.expr[..], &*sort.input),
            other => (&[][..], other),
        };
        let (mut rows, keys) = self.push(below)?;
        // Sort expressions become columns first: physical planning loses track of computed keys.
        let mut computed: Vec<Expr> =
            rows.schema().columns().into_iter().map(Expr::Column).collect();
        let mut ordered = Vec::new();
        for key in order {
            let name = self.names.column("order");
            let value = self.bind(key.expr.clone(), below.schema(), &keys)?;
            computed.push(value.alias(&name.name));
            ordered.push(key.with_expr(Expr::Column(name)));
        }
        rows = project(rows, computed)?;
        let numbered = self.names.column("number");
        let number = row_number()
            .partition_by(keys.iter().map(column).collect())
            .order_by(ordered)
            .build()?
            .alias(&numbered.name);
        rows = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(rows))?);
        let place = Expr::Cast(Cast::new(Box::new(column(&numbered)), DataType::Int64));
        let skip = node.skip.as_deref().cloned().unwrap_or_else(|| lit(0_i64));
        let mut conditions = vec![place.clone().gt(skip.clone())];
        if let Some(fetch) = &node.fetch
            && !matches!(fetch.as_ref(), Expr::Literal(value, _) if value.is_null())
        {
            conditions.push((place - skip).lt_eq(fetch.as_ref().clone()));
        }
        rows = filter(rows, conditions)?;
        for projection in above.into_iter().rev() {
            let mut exprs = self.bind_all(&projection.expr, projection.input.schema(), &keys)?;
            exprs.extend(keys.iter().map(column));
            rows = project(rows, exprs)?;
        }
        Ok((rows, keys))
    }

    /// The side whose rows are kept carries the keys; if both sides depend on outer columns, both
    /// carry them, and they must be equal.
    fn join(&mut self, node: &Join) -> Result<Keyed> {
        if let Some(right) = lateral(node)? {
            let plain = without_lateral(node.clone(), right, self.names)?;
            return self.push(&plain);
        }
        let kind = node.join_type;
        let (on_left, on_right) = (self.depends(&node.left)?, self.depends(&node.right)?);
        let keeps_right = matches!(
            kind,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
        );
        let full = kind == JoinType::Full;
        let by_right_alone = kind == JoinType::Inner && on_right && !on_left;
        let left_carries = on_left || full || !(keeps_right || by_right_alone);
        let right_carries = on_right || full || keeps_right;
        let plain = |plan: &Arc<LogicalPlan>| (plan.as_ref().clone(), Vec::new());
        let (left, left_keys) =
            if left_carries { self.push(&node.left)? } else { plain(&node.left) };
        let (right, right_keys) =
            if right_carries { self.push(&node.right)? } else { plain(&node.right) };
        let keys = if left_keys.is_empty() || keeps_right { &right_keys } else { &left_keys };
        let scope = node.left.schema().join(node.right.schema())?;
        let filter = node.filter.clone().map(|expr| self.bind(expr, &scope, keys)).transpose()?;
        let bind = |expr: &Expr| self.bind(expr.clone(), &scope, keys);
        let on = node.on.iter().map(|(a, b)| Ok((bind(a)?, bind(b)?)));
        let on = on.collect::<Result<Vec<_>>>()?;
        let keys_match = left_keys.iter().zip(&right_keys).map(|(a, b)| same(column(a), column(b)));
        let filter = conjunction(filter.into_iter().chain(keys_match));
        let joined = join(left, right, on, filter, kind, node.null_equality)?;
        let mut exprs: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
        let keys = if full {
            let both = left_keys.iter().zip(&right_keys);
            let either = both.map(|(a, b)| {
                let key = self.names.column("outer");
                let known = when(column(a).is_null(), column(b)).otherwise(column(a))?;
                exprs.push(known.alias(&key.name));
                Ok(key)
            });
            either.collect::<Result<Vec<_>>>()?
        } else {
            exprs.extend(keys.iter().map(column));
            keys.clone()
        };
        Ok((project(joined, exprs)?, keys))
    }

    fn union(&mut self, inputs: &[Arc<LogicalPlan>]) -> Result<Keyed> {
        let common: Vec<Column> =
            self.domain.outer.iter().map(|_| self.names.column("outer")).collect();
        let mut branches = Vec::new();
        for input in inputs {
            let (rows, keys) = self.push(input)?;
            let own = input.schema().columns().into_iter().map(Expr::Column);
            let named = keys.iter().zip(&common).map(|(key, to)| column(key).alias(&to.name));
            branches.push(Arc::new(project(rows, own.chain(named).collect())?));
        }
        let rows = match <[_; 1]>::try_from(branches) {
            Ok([only]) => Arc::unwrap_or_clone(only),
            Err(branches) => LogicalPlan::Union(Union::try_new(branches)?),
        };
        Ok((rows, common))
    }

    /// The keys go past lists that become rows.
    fn lists(&mut self, node: &Unnest) -> Result<Keyed> {
        let (input, keys) = self.push(&node.input)?;
        let (lists, options) = (node.exec_columns.clone(), node.options.clone());
        let rows = LogicalPlanBuilder::from(input).unnest_columns_with_options(lists, options)?;
        let mut exprs: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
        exprs.extend(keys.iter().map(column));
        Ok((project(rows.build()?, exprs)?, keys))
    }

    /// A recursive query whose rows carry the keys from step to step.
    fn recursion(&mut self, node: &RecursiveQuery) -> Result<Keyed> {
        let common: Vec<Column> =
            self.domain.outer.iter().map(|_| self.names.column("outer")).collect();
        let with_keys = |rows: LogicalPlan, keys: &[Column], of: &LogicalPlan| {
            let own = of.schema().columns().into_iter().map(Expr::Column);
            let named = keys.iter().zip(&common).map(|(key, to)| column(key).alias(&to.name));
            project(rows, own.chain(named).collect())
        };
        let (rows, keys) = self.push(&node.static_term)?;
        let first = with_keys(rows, &keys, &node.static_term)?;
        let shown = first.schema().inner().as_ref();
        let fields =
            node.schema.fields().iter().chain(&shown.fields()[node.schema.fields().len()..]);
        let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        let rows = provider_as_source(Arc::new(CteWorkTable::new(&node.name, schema)));
        self.recursions.push(Recursion { name: node.name.clone(), rows, keys: common.clone() });
        let stepped = self.push(&node.recursive_term);
        self.recursions.pop();
        let (rows, keys) = stepped?;
        let step = with_keys(rows, &keys, &node.recursive_term)?;
        let builder = LogicalPlanBuilder::from(first);
        let rows =
            builder.to_recursive_query(node.name.clone(), step, node.is_distinct)?.build()?;
        Ok((rows, common))
    }

    /// The rows of the step before, with the keys under names of their own.
    fn scan(&mut self, node: &TableScan) -> Result<Keyed> {
        let found = self.step_before(&LogicalPlan::TableScan(node.clone()));
        let query = found.ok_or_else(|| refuse("an outer column in a table"))?;
        let (source, of_query) = (Arc::clone(&query.rows), query.keys.clone());
        let name = node.table_name.clone();
        let rows = LogicalPlanBuilder::scan(name.clone(), source, None)?;
        let rows = node.filters.iter().cloned().try_fold(rows, LogicalPlanBuilder::filter)?;
        let keys: Vec<Column> = of_query.iter().map(|_| self.names.column("outer")).collect();
        let own = node.projected_schema.columns().into_iter().map(Expr::Column);
        let named = of_query.iter().zip(&keys).map(|(key, to)| {
            Expr::Column(Column::new(Some(name.clone()), &key.name)).alias(&to.name)
        });
        Ok((project(rows.build()?, own.chain(named).collect())?, keys))
    }

    /// VALUES: for each of its rows, the domain with the row's values.
    fn values(&mut self, node: &Values) -> Result<Keyed> {
        let columns = node.schema.columns();
        let mut branches = Vec::new();
        for row in &node.values {
            let named = row.iter().zip(&columns);
            let exprs = named.map(|(value, column)| value.clone().alias(&column.name)).collect();
            let one = LogicalPlanBuilder::empty(true).build()?;
            branches.push(Arc::new(project(one, exprs)?));
        }
        self.union(&branches)
    }
}

/// The right side of a join that sees the join's left side (LATERAL), as a plan with outer columns. The planner marks it if its
/// own expressions name some, and not if its subqueries alone do.
pub fn lateral(join: &Join) -> Result<Option<LogicalPlan>> {
    let unmarked = || -> Result<Option<LogicalPlan>> {
        let open = open_references(&join.right)?;
        let sees = open.iter().any(|(_, column)| join.left.schema().has_column(column));
        Ok(sees.then(|| join.right.as_ref().clone()))
    };
    Ok(match join.right.as_ref() {
        LogicalPlan::Subquery(inner) => Some(inner.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(node) => match node.input.as_ref() {
            LogicalPlan::Subquery(inner) => {
                let alias = SubqueryAlias::try_new(inner.subquery.clone(), node.alias.clone())?;
                Some(LogicalPlan::SubqueryAlias(alias))
            }
            _ => unmarked()?,
        },
        _ => unmarked()?,
    })
}

/// Whether a LATERAL plan names outer columns in nothing but conditions, which may as well stand above it: above
/// aggregates only equalities may, and above windows, limits and set operations none.
pub fn is_plain_lateral(plan: &LogicalPlan) -> Result<bool> {
    if open_references(plan)?.is_empty() {
        return Ok(!plan.exists(|node| Ok(matches!(node, LogicalPlan::Unnest(_))))?);
    }
    // What a subquery asks of the outer query cannot stand above the plan.
    for input in plan.inputs() {
        let mut exprs = Vec::new();
        plan.apply_expressions(|expr| {
            exprs.extend(split_conjunction(expr).into_iter().cloned());
            Ok(TreeNodeRecursion::Continue)
        })?;
        for expr in exprs.iter().filter(|expr| holds_subquery(expr)) {
            if holds_outer(expr) || asks_further_out(expr, input)? {
                return Ok(false);
            }
        }
    }
    Ok(match plan {
        LogicalPlan::Filter(node) => is_plain_lateral(&node.input)?,
        LogicalPlan::Projection(node) => {
            !node.expr.iter().any(holds_outer) && is_plain_lateral(&node.input)?
        }
        LogicalPlan::SubqueryAlias(node) => is_plain_lateral(&node.input)?,
        LogicalPlan::Sort(node) => {
            let names_outer = |by: &SortExpr| holds_outer(&by.expr);
            node.fetch.is_none()
                && !node.expr.iter().any(names_outer)
                && is_plain_lateral(&node.input)?
        }
        LogicalPlan::Aggregate(node) => {
            let mut exprs = node.group_expr.iter().chain(&node.aggr_expr);
            !exprs.any(holds_outer) && is_matched_by_equality(&node.input)?
        }
        _ => false,
    })
}

/// Whether a subquery within an expression over `input` names columns of a query further out.
fn asks_further_out(expr: &Expr, input: &LogicalPlan) -> Result<bool> {
    let mut asks = false;
    expr.apply(|expr| {
        if let Some(subquery) = subquery_of(expr) {
            let open = open_references(&subquery.subquery)?;
            asks |= open.iter().any(|(_, column)| !input.schema().has_column(column));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(asks)
}

/// Whether a plan names outer columns in nothing but equalities with columns, in conditions above all else.
fn is_matched_by_equality(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Filter(node) = plan else { return Ok(open_references(plan)?.is_empty()) };
    let is_equality = |expr: &&Expr| {
        let Expr::BinaryExpr(binary) = expr else { return false };
        let sides = (binary.left.as_ref(), binary.right.as_ref());
        binary.op == Operator::Eq
            && matches!(
                sides,
                (Expr::Column(_), Expr::OuterReferenceColumn(..))
                    | (Expr::OuterReferenceColumn(..), Expr::Column(_))
            )
    };
    let conditions = split_conjunction(&node.predicate);
    for other in conditions.iter().filter(|expr| !is_equality(expr)) {
        if holds_outer(other) || asks_further_out(other, &node.input)? {
            return Ok(false);
        }
    }
    Ok(open_references(&node.input)?.is_empty())
}

/// A join with its LATERAL right side evaluated for all rows of the left one at once.
pub fn without_lateral(node: Join, right: LogicalPlan, names: &mut Names) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
    let open = open_references(&right)?.into_iter().map(|(_, column)| column);
    let outer: Vec<Column> = open.filter(|column| node.left.schema().has_column(column)).collect();
    let left = Arc::unwrap_or_clone(node.left);
    let domain = Domain { rows: left.clone(), outer: outer.clone() };
    let (rows, keys) = domain.join(&right, names)?;
    let keys_match = outer.iter().zip(&keys).map(|(a, b)| same(column(a), column(b)));
    let filter = conjunction(node.filter.into_iter().chain(keys_match));
    let joined = join(left, rows, node.on, filter, node.join_type, node.null_equality)?;
    project(joined, columns)
}

/// The value of an aggregate of type `ty` over no rows.
pub fn of_no_rows(aggregate: &Expr, ty: &DataType) -> Result<ScalarValue> {
    let mut of_none = ScalarValue::Null;
    aggregate.apply(|expr| {
        if let Expr::AggregateFunction(aggregate) = expr {
            of_none = aggregate.func.default_value(ty)?;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(of_none)
}

/// An aggregate over the rows where `condition` holds.
fn only_where(expr: Expr, condition: &Expr) -> Result<Expr> {
    expr.transform_down(|expr| match expr {
        Expr::AggregateFunction(mut aggregate) => {
            let condition = match aggregate.params.filter.take() {
                Some(filter) => filter.and(condition.clone()),
                None => condition.clone(),
            };
            aggregate.params.filter = Some(Box::new(condition));
            let aggregate = Expr::AggregateFunction(aggregate);
            Ok(Transformed::new(aggregate, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
