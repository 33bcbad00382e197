//! Subqueries in expressions: `ARRAY(SELECT …)`, and scalar ones, which DataFusion plans when
//! they are aggregates, correlated or not.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::AggregateUDF;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, LimitClause, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Value, ValueWithSpan, Visit,
    VisitMut, Visitor, VisitorMut,
};

use halcyon_dialect::many_rows::returns_rows;
use halcyon_sql::parse::parse_own_query;

use super::{call, empty, folded, function_name, number, parts};
use crate::SCHEMAS;

/// Rewrites one expression whose operands are done.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            if function_name(function).as_deref() == Some("array")
                && let FunctionArguments::Subquery(query) = &function.args
            {
                *expr = array(query);
            }
        }
        Expr::Subquery(query) => {
            if !skips_rows(query)
                && let Some(select) = plain_select(query)
                && select.from.iter().all(|from| {
                    is_system(&from.relation) && from.joins.iter().all(|j| is_system(&j.relation))
                })
                && !select.from.is_empty()
                && is_correlated(select)
            {
                *expr = single(query);
            }
        }
        _ => {}
    }
}

/// Puts the query under ANY or ALL, whose rows are all wanted, into brackets, so that no aggregate is made of it.
pub(super) fn keep_rows(expr: &mut Expr) {
    if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
        && let Expr::Subquery(query) = right.as_mut()
        && plain_select(query).is_some()
    {
        let mut outer = parse_own_query("(SELECT 1)");
        std::mem::swap(&mut outer, query);
        *query.body = SetExpr::Query(Box::new(outer));
    }
}

/// Whether a SELECT is seen to name columns of a query around it.
fn is_correlated(select: &Select) -> bool {
    let inner = aliases(select);
    select.visit(&mut Outer(&inner)).is_break()
}

/// Whether a SELECT list names parameters, which a statement has though nobody reads the list.
fn has_parameters(list: &[SelectItem]) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            match value.value {
                Value::Placeholder(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    list.iter().any(|item| item.visit(&mut Search).is_break())
}

/// EXISTS in the output of a SELECT, as a count that is not 0.
pub(super) fn exists_as_count(select: &mut Select) {
    struct Count;
    impl VisitorMut for Count {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Exists { subquery, negated } = expr
                && plain_select(subquery).is_some()
                && let SetExpr::Select(select) = subquery.body.as_mut()
                && !has_parameters(&select.projection)
            {
                select.projection = vec![SelectItem::UnnamedExpr(call("count", vec![number(1)]))];
                *expr = Expr::BinaryOp {
                    left: Box::new(Expr::Subquery(subquery.clone())),
                    op: if *negated { BinaryOperator::Eq } else { BinaryOperator::Gt },
                    right: Box::new(number(0)),
                };
            }
            ControlFlow::Continue(())
        }
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = VisitMut::visit(expr, &mut Count);
        }
    }
}

/// A scalar subquery as an aggregate. It has one row at most, so the aggregate is that row's value.
///
/// DataFusion takes the rows of outer and inner query together by equalities only. Conditions of
/// another kind that mention the outer query are lifted out of the subquery: those of the outer
/// query alone as they are, mixed ones with the inner columns as subqueries of their own.
fn single(query: &Query) -> Expr {
    let mut query = Box::new(query.clone());
    let mut lifted = Vec::new();
    if let SetExpr::Select(select) = query.body.as_mut() {
        let inner = aliases(select);
        let mut kept = None;
        for condition in select.selection.take().map(conjuncts).unwrap_or_default() {
            match stays(&condition, &inner) {
                true => kept = Some(and(kept, condition)),
                false => lifted.push(condition),
            }
        }
        select.selection = kept;
        let whole = query.clone();
        for condition in &mut lifted {
            let _ = VisitMut::visit(condition, &mut Inner { aliases: &inner, query: &whole });
        }
    }
    aggregate(&mut query, "first_value");
    let value = Expr::Subquery(query);
    match lifted.into_iter().reduce(|all, condition| and(Some(all), condition)) {
        None => value,
        Some(condition) => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result: value }],
            else_result: None,
        },
    }
}

/// Replaces columns of the subquery by subqueries that give them.
struct Inner<'a> {
    aliases: &'a [String],
    query: &'a Query,
}

impl VisitorMut for Inner<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr
            && self.aliases.contains(&folded(&path[0]))
        {
            let mut query = Box::new(self.query.clone());
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.projection = vec![SelectItem::UnnamedExpr(expr.clone())];
            }
            query.order_by = None;
            aggregate(&mut query, "first_value");
            *expr = Expr::Subquery(query);
        }
        ControlFlow::Continue(())
    }
}

fn and(left: Option<Expr>, right: Expr) -> Expr {
    match left {
        None => right,
        Some(left) => {
            Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
        }
    }
}

fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(*left);
            all.extend(conjuncts(*right));
            all
        }
        other => vec![other],
    }
}

/// Names by which the SELECT's own tables are called.
fn aliases(select: &Select) -> Vec<String> {
    let relations = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let name = |relation: &TableFactor| match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, .. } => parts(name)?.pop(),
        _ => None,
    };
    relations.filter_map(name).collect()
}

/// Looks for a column behind a name that is none of these.
struct Outer<'a>(&'a [String]);

impl Visitor for Outer<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(path) if !self.0.contains(&folded(&path[0])) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a condition may stay in the subquery: it mentions no outer column, or it is an equality
/// of an inner and an outer one.
fn stays(condition: &Expr, inner: &[String]) -> bool {
    let mentions_outer = |expr: &Expr| expr.visit(&mut Outer(inner)).is_break();
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            !(mentions_outer(left) && mentions_outer(right))
        }
        other => !mentions_outer(other),
    }
}

/// `ARRAY(SELECT x …)` as `pg_array_or_empty((SELECT array_agg(x) …))`.
fn array(query: &Query) -> Expr {
    if let Some(prefixed) = prefix_each(query) {
        return prefixed;
    }
    let mut query = Box::new(query.clone());
    if plain_select(&query).is_some_and(empty::is_empty) {
        let text = Expr::Value(Value::Null.with_empty_span());
        return call("pg_array_or_empty", vec![text]);
    }
    if gives_many_rows(&query) {
        query = rows_of(query);
    }
    aggregate(&mut query, "array_agg");
    call("pg_array_or_empty", vec![Expr::Subquery(query)])
}

/// Whether the output of a query is a function that makes several rows of one.
fn gives_many_rows(query: &Query) -> bool {
    match plain_select(query).and_then(|select| select.projection.first()) {
        Some(
            SelectItem::UnnamedExpr(Expr::Function(call))
            | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. },
        ) => function_name(call).is_some_and(|name| returns_rows(&name)),
        _ => false,
    }
}

/// `SELECT value FROM (query) AS "rows" (value)`: an aggregate takes rows, and no function that makes them.
fn rows_of(query: Box<Query>) -> Box<Query> {
    let mut outer = parse_own_query("SELECT value FROM t");
    let column = TableAliasColumnDef::from_name("value");
    let name = Ident::with_quote('"', "rows");
    let alias = TableAlias { explicit: true, name, columns: vec![column], at: None };
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.from[0].relation = TableFactor::Derived {
            lateral: false,
            subquery: query,
            alias: Some(alias),
            sample: None,
        };
    }
    Box::new(outer)
}

/// `ARRAY(SELECT 'prefix' || x FROM unnest(array) x)`.
fn prefix_each(query: &Query) -> Option<Expr> {
    let select = plain_select(query)?;
    let [from] = select.from.as_slice() else { return None };
    let (alias, list) = match &from.relation {
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } => {
            (alias, array_exprs.first()?)
        }
        TableFactor::Table { name, args: Some(args), alias: Some(alias), .. }
            if parts(name)?.last()? == "unnest" =>
        {
            match args.args.first()? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (alias, expr),
                _ => return None,
            }
        }
        _ => return None,
    };
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        select.projection.first()?
    else {
        return None;
    };
    let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = item else {
        return None;
    };
    let prefix = matches!(
        left.as_ref(),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })
    );
    let element = matches!(right.as_ref(), Expr::Identifier(i) if i.value == alias.name.value);
    (prefix && element).then(|| call("pg_prefix_each", vec![(**left).clone(), list.clone()]))
}

/// The SELECT of a query with one output and neither grouping nor aggregates.
fn plain_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let plain = query.with.is_none()
        && ungrouped
        && select.having.is_none()
        && select.distinct.is_none()
        && select.projection.len() == 1;
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        select.projection.first()?
    else {
        return None;
    };
    (plain && !is_aggregate(item)).then_some(select)
}

fn is_aggregate(expr: &Expr) -> bool {
    struct Aggregates;
    impl Visitor for Aggregates {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function)
                    if function_name(function)
                        .is_some_and(|name| name == "unnest" || aggregates().contains(&name)) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Aggregates).is_break()
}

/// Names of aggregates, as a query may call them.
fn aggregates() -> &'static HashSet<String> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let all = SessionStateDefaults::default_aggregate_functions();
        let all = all.into_iter().chain(halcyon_plan::functions::aggregate_functions());
        let names = |function: Arc<AggregateUDF>| {
            let aliases = function.aliases().to_vec();
            aliases.into_iter().chain([function.name().to_owned()])
        };
        all.flat_map(names).collect()
    })
}

/// Whether the query has an OFFSET.
fn skips_rows(query: &Query) -> bool {
    match &query.limit_clause {
        Some(LimitClause::LimitOffset { offset, .. }) => offset.is_some(),
        Some(LimitClause::OffsetCommaLimit { .. }) => true,
        None => false,
    }
}

fn is_system(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Table { name, args: None, .. } => {
            parts(name).is_some_and(|parts| parts.len() > 1 && SCHEMAS.contains(&parts[0].as_str()))
        }
        _ => false,
    }
}

/// Puts the query's one output into an aggregate, which takes over its ORDER BY.
fn aggregate(query: &mut Query, name: &str) {
    if plain_select(query).is_none() {
        return;
    }
    let order = match query.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        _ => Vec::new(),
    };
    query.limit_clause = None;
    query.fetch = None;
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        &mut select.projection[0]
    else {
        return;
    };
    let order = order.into_iter().map(|by| by_output(by, item)).collect::<Vec<_>>();
    let mut aggregate = call(name, vec![item.clone()]);
    if let Expr::Function(function) = &mut aggregate
        && let FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    *item = aggregate;
}

/// `ORDER BY 1` means the output.
fn by_output(mut by: OrderByExpr, output: &Expr) -> OrderByExpr {
    if let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &by.expr
        && number == "1"
    {
        by.expr = output.clone();
    }
    by
}
