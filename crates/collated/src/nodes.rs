//! Nodes of a plan, lowest first: each with the collations of its columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Distinct, Expr, Join, JoinType, LogicalPlan, Projection, RecursiveQuery, TableScan,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

use crate::columns::{plain, states_of_fields, text};
use crate::expressions::{Pass, Scope};
use crate::strength::State;

impl Pass<'_> {
    /// Rewrites a plan, and tells the collations of its columns.
    pub(crate) fn plan(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<State>)> {
        halcyon_sql::parse::with_stack(|| {
            SqlError::unless_interrupted().map_err(external)?;
            let (plan, states) = self.node(plan)?;
            let mut states: Vec<State> = states.into_iter().map(State::of_output).collect();
            // Nodes add columns behind those that are known, numbers of groupings for instance.
            let known = states.len();
            states.extend(plain(plan.schema()).into_iter().skip(known));
            Ok((plan, states))
        })
    }

    fn node(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<State>)> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::RecursiveQuery(query) => self.recursion(query),
            LogicalPlan::Join(join) => self.join(join),
            plan => {
                let mut inputs = Vec::new();
                let plan = plan.map_children(|child| {
                    let (made, states) = self.plan(child)?;
                    inputs.push(states);
                    Ok(Transformed::yes(made))
                })?;
                self.above(plan.data, inputs)
            }
        }
    }

    /// A node whose inputs are done.
    fn above(
        &mut self,
        plan: LogicalPlan,
        inputs: Vec<Vec<State>>,
    ) -> Result<(LogicalPlan, Vec<State>)> {
        match plan {
            LogicalPlan::Projection(_) | LogicalPlan::Values(_) => {
                let width = plan.schema().fields().len();
                let (plan, found, _) = self.expressions(plan, inputs)?;
                let mut states = vec![State::None; width];
                for (at, state) in found.into_iter().enumerate() {
                    let column = &mut states[at % width];
                    *column = std::mem::replace(column, State::None).with(state)?;
                }
                Ok((plan, states))
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => self.gathered(plan, inputs),
            LogicalPlan::Distinct(Distinct::On(_)) => self.distinct_on(plan, inputs),
            LogicalPlan::Sort(mut sort) => {
                let states = inputs.concat();
                self.enter(&[sort.input.schema().as_ref()], states.clone());
                for by in &mut sort.expr {
                    let (made, state) = self.expr(std::mem::take(&mut by.expr))?;
                    by.expr = self.sorted(made, &state)?;
                }
                self.scopes.pop();
                Ok((LogicalPlan::Sort(sort), states))
            }
            LogicalPlan::Filter(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => {
                let states = inputs.concat();
                let (plan, _, _) = self.expressions(plan, vec![states.clone()])?;
                Ok((plan, states))
            }
            LogicalPlan::Union(_) => {
                let width = plan.schema().fields().len();
                let column = |at: usize| {
                    State::of_all(inputs.iter().filter_map(|input| input.get(at).cloned()))
                };
                let states = (0..width).map(column).collect::<Result<Vec<_>>>()?;
                Ok((plan, states))
            }
            LogicalPlan::Unnest(unnest) => {
                let input = inputs.concat();
                let of = |at: &usize| input.get(*at).cloned().unwrap_or(State::None);
                let states = unnest.dependency_indices.iter().map(of).collect();
                Ok((LogicalPlan::Unnest(unnest), states))
            }
            LogicalPlan::EmptyRelation(_) => {
                let states = plain(plan.schema());
                Ok((plan, states))
            }
            other => {
                let is_plain = |state: &State| matches!(state, State::None | State::Implicit(None));
                if !inputs.iter().flatten().all(is_plain) {
                    let what = format!("a collation below {}", other.display());
                    return Err(external(SqlError::unsupported(what)));
                }
                let states = plain(other.schema());
                let (plan, _, _) = self.expressions(other, inputs)?;
                Ok((plan, states))
            }
        }
    }

    fn enter(&mut self, schemas: &[&DFSchema], states: Vec<State>) {
        let mut merged = DFSchema::empty();
        for schema in schemas {
            merged = merged.join(schema).unwrap_or_else(|_| {
                // Two inputs of the same name: the first one's columns are found.
                let mut both = merged.clone();
                both.merge(schema);
                both
            });
        }
        self.scopes.push(Scope { schema: merged, states });
    }

    /// The node with its expressions rewritten; their collations, and which of them give keys.
    fn expressions(
        &mut self,
        plan: LogicalPlan,
        inputs: Vec<Vec<State>>,
    ) -> Result<(LogicalPlan, Vec<State>, Vec<bool>)> {
        {
            let schemas: Vec<_> = plan.inputs().iter().map(|input| input.schema()).collect();
            let schemas: Vec<&DFSchema> = schemas.into_iter().map(AsRef::as_ref).collect();
            self.enter(&schemas, inputs.concat());
        }
        let names = NamePreserver::new(&plan);
        let (mut states, mut keys) = (Vec::new(), Vec::new());
        let made = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            self.gives_key = false;
            let (made, state) = self.expr(expr)?;
            keys.push(std::mem::replace(&mut self.gives_key, false));
            states.push(state);
            Ok(Transformed::yes(name.restore(made)))
        });
        self.scopes.pop();
        Ok((made?.data, states, keys))
    }

    /// An aggregation, or window functions: where `min` and `max` give keys, their texts are taken above.
    fn gathered(
        &mut self,
        plan: LogicalPlan,
        inputs: Vec<Vec<State>>,
    ) -> Result<(LogicalPlan, Vec<State>)> {
        let below = inputs.concat();
        let (plan, found, keys) = self.expressions(plan, inputs)?;
        let (kept, found) = match &plan {
            LogicalPlan::Window(_) => (below, found),
            LogicalPlan::Aggregate(aggregate) => {
                let groups = aggregate.group_expr.len();
                let functions = found.len() - groups;
                let width = aggregate.schema.fields().len() - functions;
                let mut kept: Vec<State> = found[..groups].to_vec();
                if width != groups {
                    kept = self.grouping_states(&plan, width, &below)?;
                }
                (kept, found[groups..].to_vec())
            }
            _ => unreachable!("only these come here"),
        };
        let keys = &keys[keys.len() - found.len()..];
        let first = kept.len();
        let states: Vec<State> = kept.into_iter().chain(found).collect();
        if !keys.contains(&true) {
            return Ok((plan, states));
        }
        let plan = plan.recompute_schema()?;
        let columns = plan.schema().columns().into_iter().enumerate().map(|(at, column)| match at
            .checked_sub(first)
            .is_some_and(|at| keys[at])
        {
            true => {
                let (relation, name) = (column.relation.clone(), column.name.clone());
                text(Expr::Column(column)).alias_qualified(relation, name)
            }
            false => Expr::Column(column),
        });
        let plan = Projection::try_new(columns.collect(), Arc::new(plan))?;
        Ok((LogicalPlan::Projection(plan), states))
    }

    /// The collations of the columns that a grouping by several sets gives: those of their expressions.
    fn grouping_states(
        &mut self,
        plan: &LogicalPlan,
        width: usize,
        below: &[State],
    ) -> Result<Vec<State>> {
        let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Vec::new()) };
        self.enter(&[aggregate.input.schema().as_ref()], below.to_vec());
        let exprs =
            datafusion::logical_expr::utils::grouping_set_to_exprlist(&aggregate.group_expr);
        let states = exprs.and_then(|exprs| {
            let of = |expr: &Expr| Ok(self.expr(expr.clone())?.1);
            exprs.into_iter().map(of).collect::<Result<Vec<State>>>()
        });
        self.scopes.pop();
        let mut states = states?;
        states.resize(width, State::None);
        Ok(states)
    }

    fn distinct_on(
        &mut self,
        plan: LogicalPlan,
        inputs: Vec<Vec<State>>,
    ) -> Result<(LogicalPlan, Vec<State>)> {
        let LogicalPlan::Distinct(Distinct::On(mut on)) = plan else {
            unreachable!("only this comes here")
        };
        self.enter(&[on.input.schema().as_ref()], inputs.concat());
        // DataFusion wants both lists to begin alike; texts are equal if their keys are.
        let order = on.sort_expr.iter().flatten().map(|by| by.expr.clone()).collect::<Vec<_>>();
        for expr in &mut on.on_expr {
            let is_sorted = order.contains(expr);
            let (made, state) = self.expr(std::mem::take(expr))?;
            *expr = if is_sorted { self.sorted(made, &state)? } else { made };
        }
        let mut states = Vec::new();
        for expr in &mut on.select_expr {
            let name = expr.qualified_name();
            let (made, state) = self.expr(std::mem::take(expr))?;
            *expr = if made.qualified_name() == name {
                made
            } else {
                made.alias_qualified(name.0, name.1)
            };
            states.push(state);
        }
        for by in on.sort_expr.iter_mut().flatten() {
            let (made, state) = self.expr(std::mem::take(&mut by.expr))?;
            by.expr = self.sorted(made, &state)?;
        }
        self.scopes.pop();
        Ok((LogicalPlan::Distinct(Distinct::On(on)), states))
    }

    fn scan(&mut self, scan: TableScan) -> Result<(LogicalPlan, Vec<State>)> {
        let all = match self.work_tables.get(scan.table_name.table()) {
            Some(known) if scan.source.schema().fields().len() == known.len() => known.clone(),
            _ => states_of_fields(scan.source.schema().fields()),
        };
        let states = match &scan.projection {
            Some(columns) => columns.iter().map(|column| all[*column].clone()).collect(),
            None => all.clone(),
        };
        let plan = LogicalPlan::TableScan(scan);
        let LogicalPlan::TableScan(scan) = &plan else { unreachable!("made above") };
        if scan.filters.is_empty() {
            return Ok((plan, states));
        }
        let schema =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        self.enter(&[&schema], all);
        let made = plan.map_expressions(|expr| Ok(Transformed::yes(self.expr(expr)?.0)));
        self.scopes.pop();
        Ok((made?.data, states))
    }

    fn recursion(&mut self, mut query: RecursiveQuery) -> Result<(LogicalPlan, Vec<State>)> {
        let (first, states) = self.plan(query.static_term.as_ref().clone())?;
        let around = self.work_tables.insert(query.name.clone(), states.clone());
        let next = self.plan(query.recursive_term.as_ref().clone());
        match around {
            Some(around) => self.work_tables.insert(query.name.clone(), around),
            None => self.work_tables.remove(&query.name),
        };
        (query.static_term, query.recursive_term) = (Arc::new(first), Arc::new(next?.0));
        Ok((LogicalPlan::RecursiveQuery(query), states))
    }

    /// A join, whose right side may name columns of the left one.
    fn join(&mut self, mut join: Join) -> Result<(LogicalPlan, Vec<State>)> {
        let (left, of_left) = self.plan(Arc::unwrap_or_clone(join.left))?;
        self.enter(&[left.schema().as_ref()], of_left.clone());
        let right = self.plan(Arc::unwrap_or_clone(join.right));
        self.scopes.pop();
        let (right, of_right) = right?;
        (join.left, join.right) = (Arc::new(left), Arc::new(right));
        let states = match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => of_left.clone(),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => of_right.clone(),
            _ => [of_left.clone(), of_right.clone()].concat(),
        };
        let (plan, _, _) = self.expressions(LogicalPlan::Join(join), vec![of_left, of_right])?;
        Ok((plan, states))
    }
}
