//! Columns of tables of outer queries beside columns that have a table's name:
//! `SELECT (SELECT p.id FROM q) FROM people p`, where `q` has a column `p`.
//!
//! PostgreSQL looks for a table `p` in all queries around before it takes `p` for a column that has fields. DataFusion's
//! planner takes it for such a column of the innermost query first. A name in front that no schema has,
//! [`OUTER`]`.p.id`, leaves only a table to it: a table that FROM names without a schema has any.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use halcyon_sql::identifier::fold;

/// The schema in front of tables of outer queries.
const OUTER: &str = "outer\u{1}";

/// Puts [`OUTER`] in front of the columns of outer queries that are named by table.
pub fn settle(query: &mut Query) {
    let mut settle = Settle { scopes: Vec::new() };
    let ControlFlow::Continue(()) = VisitMut::visit(query, &mut settle);
}

struct Settle {
    /// Of each query around, the innermost one last, the tables' names and whether FROM has them without a schema.
    scopes: Vec<HashMap<String, bool>>,
}

impl VisitorMut for Settle {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let mut names = HashMap::new();
        tables_of(&query.body, &mut names);
        self.scopes.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::CompoundIdentifier(path) = expr
            && let [table, _] = path.as_slice()
            && let Some((own, outer)) = self.scopes.split_last()
            && !outer.is_empty()
        {
            let table = fold(table);
            let found = outer.iter().rev().find_map(|scope| scope.get(&table));
            if !own.contains_key(&table) && found == Some(&true) {
                path.insert(0, Ident::with_quote('"', OUTER));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Names by which the tables of a query's FROM are known.
fn tables_of(body: &SetExpr, names: &mut HashMap<String, bool>) {
    match body {
        SetExpr::Select(select) => {
            select.from.iter().for_each(|tables| joined(tables, names));
        }
        SetExpr::SetOperation { left, right, .. } => {
            tables_of(left, names);
            tables_of(right, names);
        }
        _ => {}
    }
}

fn joined(tables: &TableWithJoins, names: &mut HashMap<String, bool>) {
    let joins = tables.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&tables.relation).chain(joins) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                names.insert(fold(&alias.name), true);
            }
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                names.extend(last.map(|last| (last, name.0.len() == 1)));
            }
            TableFactor::NestedJoin { table_with_joins, .. } => joined(table_with_joins, names),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use halcyon_sql::parse::parse_query;

    #[test]
    fn tables_of_outer_queries_get_a_schema_and_own_ones_do_not() {
        let settled = |text: &str| {
            let mut query = parse_query(text).expect("a query");
            super::settle(&mut query);
            query.to_string().replace('\u{1}', "")
        };
        for text in [
            "SELECT p.id FROM people AS p",
            "SELECT (SELECT q.id FROM q ORDER BY q.id) FROM people AS p",
            "SELECT (SELECT p.id FROM p) FROM people AS p",
            "SELECT (SELECT x.id FROM q) FROM people AS p",
        ] {
            assert_eq!(settled(text), text);
        }
        assert_eq!(
            settled("SELECT (SELECT p.id FROM q) FROM people AS p WHERE p.id = 1"),
            "SELECT (SELECT \"outer\".p.id FROM q) FROM people AS p WHERE p.id = 1"
        );
        assert_eq!(
            settled(
                "SELECT 1 FROM s.a JOIN b ON true WHERE EXISTS (SELECT 1 FROM q WHERE a.x = b.x)"
            ),
            "SELECT 1 FROM s.a JOIN b ON true WHERE EXISTS (SELECT 1 FROM q WHERE a.x = \"outer\".b.x)"
        );
    }
}
