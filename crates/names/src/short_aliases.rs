//! Lists of column names that are shorter than the rows: `FROM (VALUES (1, 2)) AS v(a)`.
//!
//! PostgreSQL names the first columns and leaves the others their own names; DataFusion's planner wants a name for
//! each. The missing names are added where they are known before names are bound: of tables, of VALUES and of SELECT
//! lists without `*`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, VisitMut, VisitorMut,
};
use halcyon_dialect::shown_item_name;
use halcyon_sql::identifier::fold;

/// The names of a table's columns; `None` if there is no such table.
pub type ColumnsOf<'a> = dyn Fn(&ObjectName) -> Option<Vec<String>> + 'a;

/// Completes the lists of column names within a query.
pub fn settle(query: &mut Query, columns_of: &ColumnsOf<'_>) {
    let mut settle = Settle { columns_of, ctes: HashSet::new() };
    let ControlFlow::Continue(()) = VisitMut::visit(query, &mut settle);
}

struct Settle<'a> {
    columns_of: &'a ColumnsOf<'a>,
    /// Names of entries of WITH, which may hide tables.
    ctes: HashSet<String>,
}

impl VisitorMut for Settle<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.ctes.insert(fold(&cte.alias.name));
            if !cte.alias.columns.is_empty() {
                complete(&mut cte.alias, names_of(&cte.query.body));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        match factor {
            TableFactor::Derived { subquery, alias: Some(alias), .. }
                if !alias.columns.is_empty() =>
            {
                complete(alias, names_of(&subquery.body));
            }
            TableFactor::Table { name, alias: Some(alias), args: None, .. }
                if !alias.columns.is_empty() && !self.is_cte(name) =>
            {
                let columns = (self.columns_of)(name);
                let quoted = |name: String| Ident::with_quote('"', name);
                complete(alias, columns.map(|names| names.into_iter().map(quoted).collect()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Settle<'_> {
    fn is_cte(&self, name: &ObjectName) -> bool {
        match &name.0[..] {
            [ObjectNamePart::Identifier(only)] => self.ctes.contains(&fold(only)),
            _ => false,
        }
    }
}

/// Adds the names behind those that are given, unless names would be repeated.
fn complete(alias: &mut TableAlias, names: Option<Vec<Ident>>) {
    let given = alias.columns.len();
    let mut seen: HashSet<String> = alias.columns.iter().map(|column| fold(&column.name)).collect();
    let missing: Vec<Ident> = names.into_iter().flatten().skip(given).collect();
    if missing.iter().all(|name| seen.insert(fold(name))) {
        alias
            .columns
            .extend(missing.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }));
    }
}

/// The names of a query's columns; `None` if they are not in its text.
fn names_of(body: &SetExpr) -> Option<Vec<Ident>> {
    match body {
        SetExpr::Values(values) => {
            let count = values.rows.first()?.content.len();
            Some((1..=count).map(|at| Ident::new(format!("column{at}"))).collect())
        }
        SetExpr::SetOperation { left, .. } => names_of(left),
        SetExpr::Query(query) => names_of(&query.body),
        SetExpr::Select(select) => {
            let name = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                item => shown_item_name(item).map(|name| Ident::with_quote('"', name)),
            };
            select.projection.iter().map(name).collect()
        }
        _ => None,
    }
}
