//! Casts and subqueries that tell calls apart: `sum(a::int), sum(a::numeric)`, `GROUP BY a::int, a::date, a`.
//!
//! DataFusion's planner names what an aggregate gives by the text of its expressions, and leaves casts and the texts of
//! subqueries out of that: both sums would be `sum(a)`, which it refuses. Where two expressions of a SELECT differ in
//! these alone, they become arguments of a function until the query is planned, so that names differ; then it is taken out again.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{self, VisitMut, VisitorMut};
use halcyon_dialect::made::call;

/// Name of the function, which no statement can call.
const NAME: &str = "cast\u{1}told";

/// Puts the function around casts and subqueries of a query that tell expressions apart.
pub fn settle(query: &mut ast::Query) {
    let ControlFlow::Continue(()) = VisitMut::visit(query, &mut Selects { with_order: None });
}

struct Selects {
    /// The SELECT that has been looked at together with the order of its query.
    with_order: Option<*const ast::Select>,
}

impl VisitorMut for Selects {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Infallible> {
        let order = &mut query.order_by;
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            tell_apart(select, order.as_mut());
            self.with_order = Some(&raw const **select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Infallible> {
        if self.with_order != Some(&raw const *select) {
            tell_apart(select, None);
        }
        ControlFlow::Continue(())
    }
}

fn tell_apart(select: &mut ast::Select, mut order: Option<&mut ast::OrderBy>) {
    // Most SELECTs have nothing that could be left out of a name.
    let mut found = Found { counts_alone: true, ..Found::default() };
    let ControlFlow::Continue(()) = VisitMut::visit(select, &mut found);
    if found.casts == 0 {
        return;
    }
    let mut found = Found::default();
    let ControlFlow::Continue(()) = VisitMut::visit(select, &mut found);
    if found.calls.is_empty() && !groups(select) {
        return;
    }
    // What a grouping set has as a key, the planner names without its table.
    let mut within_sets = HashSet::new();
    if let ast::GroupByExpr::Expressions(keys, _) = &select.group_by {
        for key in keys {
            // A number is the place of an item.
            let item = place(key).and_then(|place| match select.projection.get(place)? {
                ast::SelectItem::UnnamedExpr(expr)
                | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                _ => None,
            });
            found.note_key(item.unwrap_or(key), false, &mut within_sets);
        }
    }
    let mut texts: HashMap<String, HashSet<String>> = HashMap::new();
    for expr in found.calls {
        let whole = expr.to_string();
        texts.entry(without_casts(expr).to_string()).or_default().insert(whole);
    }
    let alike = texts.into_iter().filter(|(_, whole)| whole.len() > 1);
    let mut wanted: HashSet<String> = alike
        .flat_map(|(plain, whole)| whole.into_iter().filter(move |text| *text != plain))
        .collect();
    wanted.extend(within_sets);
    if wanted.is_empty() {
        return;
    }
    let mut told = Told { wanted, queries: 0, around: Vec::new() };
    let ControlFlow::Continue(()) = VisitMut::visit(select, &mut told);
    if let Some(order) = order.take() {
        let ControlFlow::Continue(()) = VisitMut::visit(order, &mut told);
    }
}

/// The place that a constant number is, counted from 0.
fn place(key: &ast::Expr) -> Option<usize> {
    match key {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

fn groups(select: &ast::Select) -> bool {
    matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if !keys.is_empty())
}

/// Calls and casts of a SELECT, outside its subqueries.
#[derive(Default)]
struct Found {
    /// Whether calls are not wanted.
    counts_alone: bool,
    queries: usize,
    casts: usize,
    calls: Vec<ast::Expr>,
}

impl Found {
    /// Notes what rows are grouped by.
    fn note_key(&mut self, key: &ast::Expr, in_set: bool, sets_have: &mut HashSet<String>) {
        match key {
            ast::Expr::Rollup(sets) | ast::Expr::Cube(sets) | ast::Expr::GroupingSets(sets) => {
                sets.iter().flatten().for_each(|key| self.note_key(key, true, sets_have));
            }
            ast::Expr::Value(_) => {}
            key => {
                if in_set && without_casts(key.clone()) != *key {
                    sets_have.insert(key.to_string());
                }
                self.calls.push(key.clone());
            }
        }
    }
}

impl VisitorMut for Found {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Infallible> {
        match expr {
            _ if self.queries > 0 => {}
            ast::Expr::Cast { .. } | ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } => {
                self.casts += 1;
            }
            ast::Expr::Exists { .. } => self.casts += 1,
            ast::Expr::Function(_) if !self.counts_alone => self.calls.push(expr.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn without_casts(mut expr: ast::Expr) -> ast::Expr {
    struct Plain;
    impl VisitorMut for Plain {
        type Break = Infallible;

        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Infallible> {
            let nothing = ast::Expr::Value(ast::Value::Null.with_empty_span());
            match expr {
                // Parentheses are no part of names either.
                ast::Expr::Cast { expr: inner, .. } | ast::Expr::Nested(inner) => {
                    *expr = std::mem::replace(inner, nothing);
                }
                // Nor are the texts of subqueries.
                ast::Expr::Subquery(_) | ast::Expr::Exists { .. } => *expr = nothing,
                ast::Expr::InSubquery { expr: left, .. } => {
                    *expr = std::mem::replace(left, nothing);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let ControlFlow::Continue(()) = VisitMut::visit(&mut expr, &mut Plain);
    expr
}

/// Puts the function around the casts of expressions with these texts.
struct Told {
    wanted: HashSet<String>,
    queries: usize,
    /// For each expression around the place, whether the function has been put within it.
    around: Vec<bool>,
}

impl VisitorMut for Told {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Infallible> {
        let is_within = self.around.last().copied().unwrap_or(false);
        let is_wanted = !is_within && self.queries == 0 && self.wanted.contains(&expr.to_string());
        if is_wanted {
            let ControlFlow::Continue(()) = VisitMut::visit(expr, &mut Around);
        }
        self.around.push(is_within || is_wanted);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut ast::Expr) -> ControlFlow<Infallible> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

struct Around;

impl VisitorMut for Around {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Infallible> {
        let text = match expr {
            ast::Expr::Cast { data_type, .. } => data_type.to_string(),
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
                expr.to_string()
            }
            _ => return ControlFlow::Continue(()),
        };
        let text = ast::Value::SingleQuotedString(text).with_empty_span();
        let nothing = ast::Expr::Value(ast::Value::Null.with_empty_span());
        let told = std::mem::replace(expr, nothing);
        *expr = call(NAME, vec![told, ast::Expr::Value(text)]);
        ControlFlow::Continue(())
    }
}

/// The function, which gives its first argument.
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ToldCast { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToldCast {
    signature: Signature,
}

impl ScalarUDFImpl for ToldCast {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

/// Takes the function out of a plan; what it named keeps its name.
pub fn taken_out(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_told = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if call.name() == NAME);
    let has_some = plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_told(expr)))?;
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    });
    if !has_some? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let plain = expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::ScalarFunction(ScalarFunction { func, mut args })
                        if func.name() == NAME =>
                    {
                        Transformed::yes(args.swap_remove(0))
                    }
                    other => Transformed::no(other),
                })
            })?;
            Ok(plain.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_sql::parse::parse_query;

    #[test]
    fn expressions_that_differ_in_casts_alone_are_told_apart() {
        for (text, casts_told) in [
            ("SELECT sum(a), sum(a::numeric) FROM t", 1),
            ("SELECT sum(a::int), sum(a::numeric) FROM t", 2),
            ("SELECT sum(a::int), sum(b::numeric), sum(a::int) FROM t", 0),
            // Places stand for the items, which are rewritten where they are written.
            ("SELECT a::date, a::time FROM t GROUP BY 1, 2", 2),
            ("SELECT a::date FROM t GROUP BY a::date ORDER BY a::date", 0),
            ("SELECT a, a::date FROM t GROUP BY a, a::date ORDER BY a::date", 3),
            ("SELECT a::int FROM t GROUP BY ROLLUP (a::int)", 2),
            ("SELECT sum((SELECT 1)), sum((SELECT 2)) FROM t", 2),
            ("SELECT max(a) FROM (SELECT sum(b), sum(b::int) AS a FROM t) q", 1),
            ("SELECT a::int, a::text FROM t", 0),
        ] {
            let mut query = parse_query(text).expect(text);
            settle(&mut query);
            let told = query.to_string().matches(NAME).count();
            assert_eq!(told, casts_told, "{query}");
        }
    }
}
