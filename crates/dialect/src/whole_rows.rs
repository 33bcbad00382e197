//! `count(t.*)`: how many rows of `t` there are, not counting what an outer join adds in their place.
//!
//! DataFusion's planner takes `t.*` here for `*`. So the table gets a column that is never NULL, which an
//! outer join makes NULL, and that column is counted.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut,
    VisitorMut,
};

use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;

/// The name of that column. No identifier can be typed with its end.
const THERE: &str = "there\u{1}";

/// Rewrites such calls of a SELECT, those in its subqueries apart, and the tables they name. Errors:
/// 0A000 beside `*`, which would show the column.
pub(crate) fn count_rows(select: &mut Select) -> Result<()> {
    let mut calls = Calls { tables: HashSet::new(), distinct: false, depth: 0 };
    for item in &mut select.projection {
        let _ = item.visit(&mut calls);
    }
    for expr in select.having.iter_mut().chain(&mut select.qualify) {
        let _ = expr.visit(&mut calls);
    }
    if calls.tables.is_empty() {
        return Ok(());
    }
    if calls.distinct {
        return Err(SqlError::unsupported("count(DISTINCT t.*)")
            .hint("Count the rows of a subquery with SELECT DISTINCT."));
    }
    let is_star = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    if select.projection.iter().any(is_star) {
        return Err(SqlError::unsupported("count(t.*) beside *")
            .hint("Count a column that is never NULL, or name the columns."));
    }
    select.from.iter_mut().try_for_each(|tables| mark(tables, &calls.tables))
}

/// Collects tables, and counts the column instead.
struct Calls {
    tables: HashSet<String>,
    /// One of the calls counts different rows.
    distinct: bool,
    depth: usize,
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
        let FunctionArguments::List(list) = &mut function.args else {
            return ControlFlow::Continue(());
        };
        if self.depth == 0
            && name.as_deref() == Some("count")
            && let [FunctionArg::Unnamed(arg)] = &mut list.args[..]
            && let FunctionArgExpr::QualifiedWildcard(table) = arg
            && let Some(table) = last(table)
        {
            self.distinct |= list.duplicate_treatment.is_some();
            self.tables.insert(fold(&table));
            let column = vec![table, Ident::with_quote('"', THERE)];
            *arg = FunctionArgExpr::Expr(Expr::CompoundIdentifier(column));
        }
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> Option<Ident> {
    name.0.last().and_then(ObjectNamePart::as_ident).cloned()
}

/// Gives the column to the tables of these names.
fn mark(tables: &mut TableWithJoins, names: &HashSet<String>) -> Result<()> {
    mark_one(&mut tables.relation, names)?;
    tables.joins.iter_mut().try_for_each(|join| mark_one(&mut join.relation, names))
}

fn mark_one(factor: &mut TableFactor, names: &HashSet<String>) -> Result<()> {
    let own = match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return mark(table_with_joins, names);
        }
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), lateral: false, .. } => alias.name.clone(),
        TableFactor::Table { name, alias: None, .. } => match last(name) {
            Some(name) => name,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    if !names.contains(&fold(&own)) {
        return Ok(());
    }
    let mut query = halcyon_sql::parse::parse_query("SELECT *, TRUE AS there FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        if let Some(SelectItem::ExprWithAlias { alias, .. }) = select.projection.last_mut() {
            *alias = Ident::with_quote('"', THERE);
        }
        select.from[0].relation = factor.clone();
    }
    let alias = TableAlias { explicit: true, name: own, columns: Vec::new(), at: None };
    let subquery = Box::new(query);
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    Ok(())
}
