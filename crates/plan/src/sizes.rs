//! How large a query becomes once what its names stand for is put in, counted before it is.
//!
//! A WITH query or a view is planned wherever it is named, so one that names another twice, which names
//! a third twice, and so on, is as large as two to the power of their number. Such a query is refused
//! before anybody walks its plan. Counting itself takes each query once.
//!
//! Words: the *relations* of a query are the tables, functions and subqueries in its FROM clauses, and
//! those within the queries that its names stand for.
//! Invariant, checked by `doubling_queries_are_refused`: no query is planned that has more than
//! [`RELATIONS_MAX`] relations, or a list of more than [`target_lists::TARGETS_MAX`] columns to select, and, by
//! `arrays_beside_each_other_are_limited`, none with more than [`ARRAYS_MAX`] arrays in an `unnest`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ObjectName, ObjectNamePart, Query, Select, TableFactor, Visit, Visitor,
};
use halcyon_dialect::target_lists;
use halcyon_functions::nested::check_type;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

/// Relations that a statement may have.
pub const RELATIONS_MAX: u64 = 1_000;

/// Arrays that one `unnest` in FROM may have: what planning takes grows faster than the cube of their number.
const ARRAYS_MAX: usize = 64;

/// How many relations stand within a table that is no WITH query.
pub(crate) type Within<'a> = dyn Fn(&ObjectName) -> Result<u64> + 'a;

/// The number of relations of a query; `within` says how many stand within a table that is no WITH
/// query: none but for views.
///
/// Errors: those of `within`; 54001 if they are more than [`RELATIONS_MAX`] or an `unnest` has too many arrays, 54011 for more than [`target_lists::TARGETS_MAX`] columns.
pub(crate) fn relations(query: &Query, within: &Within<'_>) -> Result<u64> {
    let mut count = Count { within, open: vec![Open::default()] };
    match Visit::visit(query, &mut count) {
        ControlFlow::Continue(()) => Ok(count.open[0].relations),
        ControlFlow::Break(error) => Err(error),
    }
}

/// A query that is being counted.
#[derive(Default)]
struct Open {
    /// Names of its WITH queries that have not been counted, the next one last.
    coming: Vec<String>,
    /// WITH queries that have been counted, and their relations.
    known: Vec<(String, u64)>,
    relations: u64,
}

struct Count<'a> {
    within: &'a Within<'a>,
    /// The queries around the place, outermost first; the first one stands for the statement.
    open: Vec<Open>,
}

impl Count<'_> {
    fn add(&mut self, relations: u64) -> ControlFlow<SqlError> {
        let open = self.open.last_mut().expect("the statement is always open");
        open.relations = open.relations.saturating_add(relations);
        match open.relations > RELATIONS_MAX {
            true => ControlFlow::Break(too_many_relations()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Relations within what `name` stands for.
    fn within(&self, name: &ObjectName) -> Result<u64> {
        if let [ObjectNamePart::Identifier(ident)] = &name.0[..] {
            let own = fold(ident);
            let mut known = self.open.iter().rev().flat_map(|open| open.known.iter().rev());
            if let Some((_, relations)) = known.find(|(name, _)| *name == own) {
                return Ok(*relations);
            }
        }
        (self.within)(name)
    }
}

impl Visitor for Count<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let named = query.with.iter().flat_map(|with| with.cte_tables.iter().rev());
        let coming: Vec<String> = named.map(|cte| fold(&cte.alias.name)).collect();
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        // Those of a recursive WITH are visible before they have been counted.
        let known = coming.iter().filter(|_| recursive).map(|name| (name.clone(), 0)).collect();
        self.open.push(Open { coming, known, ..Open::default() });
        ControlFlow::Continue(())
    }

    /// The queries of WITH are visited before anything else of the query.
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        let done = self.open.pop().expect("opened before");
        let around = self.open.last_mut().expect("the statement is always open");
        match around.coming.pop() {
            Some(name) => around.known.push((name, done.relations)),
            None => return self.add(done.relations),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        match target_lists::check(select.projection.len()) {
            Err(error) => ControlFlow::Break(error),
            Ok(()) => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        if arrays(factor) > ARRAYS_MAX {
            let message = format!("unnest can have at most {ARRAYS_MAX} arrays");
            return ControlFlow::Break(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let within = match factor {
            TableFactor::Table { name, args: None, .. } => self.within(name),
            _ => Ok(0),
        };
        match within {
            Ok(within) => self.add(within.saturating_add(1)),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// How many arrays `unnest` has, also behind LATERAL; 0 for other tables.
fn arrays(factor: &TableFactor) -> usize {
    let last = |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    match factor {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.len(),
        TableFactor::Function { name, args, .. } if last(name).as_deref() == Some("unnest") => {
            args.len()
        }
        _ => 0,
    }
}

fn too_many_relations() -> SqlError {
    let message = format!("a statement can have at most {RELATIONS_MAX} tables");
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .detail("Each table, function and subquery in FROM counts, as do those of views and of WITH queries, as often as these are named.")
        .hint("Put intermediate results in temporary tables.")
}

/// Nodes that a plan may have, those counted again that stand in several places.
const NODES_MAX: u64 = 50_000;

/// How often DataFusion's own check of plans walks a subquery that has stayed an expression, and again
/// so often each one within it.
const SUBQUERY_WALKS: u64 = 2;

/// Refuses a plan that its subqueries have made so large that to walk it takes forever: what is one
/// value in memory may stand in it many times.
///
/// Errors: 54001. Cost: each value in memory once.
pub(crate) fn check_plan(plan: &LogicalPlan) -> DfResult<()> {
    size(plan, &mut HashMap::new()).map(|_| ())
}

/// Nodes of a plan with those of its subqueries.
fn size(plan: &LogicalPlan, known: &mut HashMap<*const LogicalPlan, u64>) -> DfResult<u64> {
    let place = std::ptr::from_ref(plan);
    if let Some(size) = known.get(&place) {
        return Ok(*size);
    }
    let mut nodes = 1u64;
    for input in plan.inputs() {
        nodes = nodes.saturating_add(size(input, known)?);
    }
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            let subquery = match part {
                Expr::ScalarSubquery(subquery) => subquery,
                Expr::Exists(exists) => &exists.subquery,
                Expr::InSubquery(within) => &within.subquery,
                Expr::SetComparison(comparison) => &comparison.subquery,
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            let within = size(&subquery.subquery, known)?;
            nodes = nodes.saturating_add(within.saturating_mul(SUBQUERY_WALKS));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if nodes > NODES_MAX {
        return Err(external(too_large()));
    }
    for field in plan.schema().fields() {
        check_type(field.data_type())?;
    }
    known.insert(place, nodes);
    Ok(nodes)
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement's plan is too large")
        .detail(format!("Its subqueries make a plan of more than {NODES_MAX} steps."))
}

#[cfg(test)]
mod tests {
    use halcyon_dialect::target_lists::TARGETS_MAX;
    use halcyon_sql::parse::parse_query;

    use super::*;

    fn counted(text: &str) -> std::result::Result<u64, String> {
        let within = |name: &ObjectName| Ok(if name.to_string() == "v" { 7 } else { 0 });
        let count = relations(&parse_query(text).expect(text), &within);
        count.map_err(|error| error.state().as_str().to_owned())
    }

    #[test]
    fn names_count_for_what_they_stand_for() {
        for (text, count) in [
            ("SELECT 1", 0),
            ("SELECT 1 FROM t, u JOIN t x ON true", 3),
            ("SELECT 1 FROM v, v x", 16),
            ("SELECT (SELECT 1 FROM t) FROM u WHERE EXISTS (SELECT 1 FROM v)", 10),
            ("WITH a AS (SELECT 1 FROM t, u), b AS (SELECT 1 FROM a, a x) SELECT 1 FROM b", 7),
            ("WITH a AS (SELECT 1 FROM t, u) SELECT 1", 0),
            ("WITH a AS (WITH b AS (TABLE t) SELECT 1 FROM b) SELECT 1 FROM a, b", 4),
            ("WITH v AS (SELECT 1) SELECT 1 FROM v", 1),
            ("SELECT 1 FROM (SELECT 1 FROM t) q", 2),
            ("WITH RECURSIVE a AS (SELECT 1 FROM t UNION ALL SELECT 1 FROM a) SELECT 1 FROM a", 3),
        ] {
            assert_eq!(counted(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn doubling_queries_are_refused() {
        let doubled: String =
            (1..200).map(|n| format!(", c{n} AS (TABLE c{0} UNION TABLE c{0})", n - 1)).collect();
        let named = format!("WITH c0 AS (SELECT 1){doubled} SELECT 1 FROM c199");
        let lists = format!("SELECT 1{}", ", 1".repeat(TARGETS_MAX));
        assert_eq!(counted(&named), Err("54001".to_owned()));
        assert_eq!(counted(&lists), Err("54011".to_owned()));
    }
}
