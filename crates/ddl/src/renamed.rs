//! Views that name a relation which has another name, or another schema, now: their texts follow it.
//!
//! A table that a query names without an alias gets its old name as one, so that the columns which stand behind that
//! name are found as before, and the view's columns keep their names.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias,
    TableFactor, VisitMut, VisitorMut,
};
use halcyon_catalog::{Relation, TableKind};
use halcyon_sql::error::Result;
use halcyon_sql::identifier::{fold, parts, quote_ident};
use halcyon_sql::parse::parse_query;

use super::{DdlContext, view_uses};

/// Schema and name.
pub(super) type Name<'a> = (&'a str, &'a str);

/// Lets the texts of `users`, views that named a relation `from`, name it `to`.
///
/// Errors: 2BP01 if a view does not mean the same then.
pub(super) fn follow(
    cx: &mut DdlContext<'_>,
    users: &[(String, String)],
    from: Name<'_>,
    to: Name<'_>,
) -> Result<()> {
    rewrite(cx, users, |text| in_query(text, from, to));
    let now = Arc::new(cx.catalog.clone());
    for (schema, name) in users {
        let Relation::View(own) = &now.schemas[schema].relations[name] else { continue };
        let bound =
            cx.binder_now(&now, |binder| binder.query(&parse_query(&own.query)?).map(|_| ()));
        if bound.is_err() {
            return view_uses::refuse_if_used(
                &[(schema.clone(), name.clone())],
                "relation",
                from.1,
            );
        }
    }
    Ok(())
}

/// Gives views of both kinds the texts that `edit` makes of theirs, where it makes any.
pub(super) fn rewrite(
    cx: &mut DdlContext<'_>,
    users: &[(String, String)],
    edit: impl Fn(&str) -> Option<String>,
) {
    for (schema, name) in users {
        let relation = cx.catalog.schemas[schema].relations[name].clone();
        let Some(query) = text_of(&relation).and_then(&edit) else { continue };
        match relation {
            Relation::View(mut view) => {
                Arc::make_mut(&mut view).query = query;
                cx.catalog.put(schema, name, Relation::View(view));
            }
            Relation::Table(table) => cx.catalog.change_table(table.id, |table| {
                if let TableKind::Materialized(view) = &mut table.kind {
                    Arc::make_mut(view).query = query;
                }
            }),
            _ => {}
        }
    }
}

/// The query of a view of either kind.
pub(super) fn text_of(relation: &Relation) -> Option<&str> {
    match relation {
        Relation::View(view) => Some(&view.query),
        Relation::Table(table) => table.materialized().map(|view| view.query.as_str()),
        _ => None,
    }
}

/// The text of a query with another name for a relation, which it names with its schema; `None` if it names it nowhere.
fn in_query(text: &str, from: Name<'_>, to: Name<'_>) -> Option<String> {
    let mut query = parse_query(text).ok()?;
    let mut rename = Rename { from, to, found: false };
    let _ = VisitMut::visit(&mut query, &mut rename);
    if !rename.found {
        return None;
    }
    let _ = VisitMut::visit(&mut query, &mut ShortPaths(from));
    Some(query.to_string())
}

struct Rename<'a> {
    from: Name<'a>,
    to: Name<'a>,
    found: bool,
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && is_named(name, self.from)
        {
            self.found = true;
            *name = ObjectName::from(vec![ident(self.to.0), ident(self.to.1)]);
            if alias.is_none() && self.from.1 != self.to.1 {
                *alias = Some(TableAlias {
                    explicit: false,
                    name: ident(self.from.1),
                    columns: Vec::new(),
                    at: None,
                });
            }
        }
        ControlFlow::Continue(())
    }
}

/// `s.t.a` and `s.t.*` as `t.a` and `t.*`.
pub(super) struct ShortPaths<'a>(pub Name<'a>);

impl VisitorMut for ShortPaths<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && is_named(name, self.0)
            {
                name.0.remove(0);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [schema, own, _, ..] = names.as_slice()
            && (fold(schema).as_str(), fold(own).as_str()) == self.0
        {
            names.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a name is that of the relation, with its schema.
pub(super) fn is_named(name: &ObjectName, relation: Name<'_>) -> bool {
    matches!(parts(name).as_deref(), Ok([schema, own])
        if (schema.as_str(), own.as_str()) == relation)
}

/// An identifier, between quotes only where it needs them.
pub(super) fn ident(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_finds_its_columns_behind_the_old_name() {
        let renamed = |text| in_query(text, ("s", "t"), ("s", "New"));
        for (text, same) in [
            ("SELECT a, t.b FROM s.t", "SELECT a, t.b FROM s.\"New\" t"),
            ("SELECT s.t.a, s.t.* FROM s.t", "SELECT t.a, t.* FROM s.\"New\" t"),
            (
                "SELECT x.a FROM s.t AS x JOIN u.t ON true",
                "SELECT x.a FROM s.\"New\" AS x JOIN u.t ON true",
            ),
            (
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM s.t WHERE s.t.a = 2)",
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM s.\"New\" t WHERE t.a = 2)",
            ),
        ] {
            assert_eq!(renamed(text).as_deref(), Some(same), "{text}");
        }
        assert_eq!(renamed("WITH t AS (SELECT 1) SELECT * FROM t, u.t"), None);
        let moved = in_query("SELECT t.a FROM s.t", ("s", "t"), ("other", "t"));
        assert_eq!(moved.as_deref(), Some("SELECT t.a FROM other.t"));
    }
}
