//! The names by which stored queries know the columns of a relation.
//!
//! A view's text names columns. When a column gets another name, the text gets a list of the names that the query knows
//! the first columns by (`FROM shop.item AS item (id, name)`): every reference in the query, `*`, USING and the names of
//! its own columns mean the same then. Lists are kept as short as they can be, and lose the columns that are dropped.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    TableAlias, TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_query;

use super::renamed::{self, Name, ident, is_named};
use super::{DdlContext, view_uses};

/// What has happened to the columns of a relation.
#[derive(Clone, Copy)]
pub(super) enum ColumnsChanged<'a> {
    /// A column has come behind the others.
    Added,
    /// The column at this position is gone.
    Dropped(u16),
    /// The column at this position had another name.
    Renamed(u16, &'a str),
}

/// Lets the texts of all views that name a relation mean what they meant before. `columns`: the names of its columns now.
pub(super) fn follow(
    cx: &mut DdlContext<'_>,
    relation: Name<'_>,
    columns: &[String],
    change: ColumnsChanged<'_>,
) {
    let users = view_uses::users_of(cx.catalog, relation.0, relation.1);
    renamed::rewrite(cx, &users, |text| in_query(text, relation, columns, change));
}

/// The text of a query after the change; `None` if it stays as it is.
fn in_query(
    text: &str,
    relation: Name<'_>,
    columns: &[String],
    change: ColumnsChanged<'_>,
) -> Option<String> {
    let mut query = parse_query(text).ok()?;
    let mut listing = Listing { relation, columns, change, changed: false };
    let _ = VisitMut::visit(&mut query, &mut listing);
    if !listing.changed {
        return None;
    }
    // A table that has an alias now is not found behind its schema any more.
    let _ = VisitMut::visit(&mut query, &mut renamed::ShortPaths(relation));
    Some(query.to_string())
}

struct Listing<'a> {
    relation: Name<'a>,
    columns: &'a [String],
    change: ColumnsChanged<'a>,
    changed: bool,
}

impl VisitorMut for Listing<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && is_named(name, self.relation)
        {
            let given = alias.iter().flat_map(|alias| &alias.columns);
            let given: Vec<String> = given.map(|column| fold(&column.name)).collect();
            let wanted = self.names(given.clone());
            if wanted != given {
                let own = TableAlias {
                    explicit: true,
                    name: ident(self.relation.1),
                    columns: Vec::new(),
                    at: None,
                };
                let named =
                    |name: &String| TableAliasColumnDef { name: ident(name), data_type: None };
                alias.get_or_insert(own).columns = wanted.iter().map(named).collect();
                self.changed = true;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Listing<'_> {
    /// The names that a list has after the change, for one that had `given` before.
    fn names(&self, mut given: Vec<String>) -> Vec<String> {
        match self.change {
            ColumnsChanged::Dropped(at) => {
                if usize::from(at) < given.len() {
                    given.remove(at.into());
                }
            }
            ColumnsChanged::Renamed(at, before) => {
                let at = usize::from(at);
                if given.len() <= at {
                    given.extend_from_slice(&self.columns[given.len()..at]);
                    given.push(before.to_owned());
                }
            }
            ColumnsChanged::Added => {
                let Some((new, others)) = self.columns.split_last() else { return given };
                if given.contains(new) {
                    given.extend_from_slice(&others[given.len()..]);
                    given.push(unused(new, &given));
                }
            }
        }
        while given.last().is_some_and(|last| *last == self.columns[given.len() - 1]) {
            given.pop();
        }
        given
    }
}

/// A name for a column whose own name is taken.
fn unused(name: &str, taken: &[String]) -> String {
    let taken: HashSet<&String> = taken.iter().collect();
    let numbered = (1..).map(|number| format!("{name}_{number}"));
    let mut free = numbered.filter(|name| !taken.contains(name));
    free.next().expect("names are finitely many")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: ColumnsChanged<'_>, columns: &[&str], cases: &[(&str, Option<&str>)]) {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        for (text, same) in cases {
            let found = in_query(text, ("s", "t"), &columns, change);
            assert_eq!(found.as_deref(), *same, "{text}");
        }
    }

    #[test]
    fn a_query_knows_a_renamed_column_by_its_old_name() {
        check(
            ColumnsChanged::Renamed(1, "b"),
            &["a", "x", "c"],
            &[
                ("SELECT b FROM s.t", Some("SELECT b FROM s.t AS t (a, b)")),
                (
                    "SELECT s.t.b, y.* FROM s.t JOIN s.t AS y (k) USING (b)",
                    Some("SELECT t.b, y.* FROM s.t AS t (a, b) JOIN s.t AS y (k, b) USING(b)"),
                ),
                ("SELECT p FROM s.t AS y (k, p)", None),
                ("SELECT b FROM s.u", None),
            ],
        );
        // The name from before the last change is the column's own again.
        check(
            ColumnsChanged::Renamed(1, "x"),
            &["a", "b", "c"],
            &[("SELECT b FROM s.t AS t (a, b)", Some("SELECT b FROM s.t AS t"))],
        );
    }

    #[test]
    fn lists_follow_columns_that_go_and_come() {
        check(
            ColumnsChanged::Dropped(0),
            &["x", "c"],
            &[
                ("SELECT b FROM s.t AS t (a, b)", Some("SELECT b FROM s.t AS t (b)")),
                ("SELECT b FROM s.t", None),
            ],
        );
        check(
            ColumnsChanged::Added,
            &["x", "c", "b"],
            &[
                ("SELECT b FROM s.t AS t (b)", Some("SELECT b FROM s.t AS t (b, c, b_1)")),
                ("SELECT c FROM s.t", None),
            ],
        );
    }
}
