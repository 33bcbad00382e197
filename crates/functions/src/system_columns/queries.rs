//! Queries that name system columns, which every table has and `*` does not show.
//!
//! DataFusion's planner knows no hidden columns. So a table whose system columns a query names gives its place to
//! the table with them, under a name that no identifier can have ([`marked`], which the binder takes apart by
//! [`unmarked`]), and every `*` over it leaves them out. They stand behind the table's own columns.
//!
//! Views and subqueries have no system columns: what they give, `*` shows.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins, Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions, With,
};

use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;

/// Names of the system columns with the object ids of their types; the first has the number -1 in
/// `pg_attribute`, the last -6.
pub const ALL: [(&str, u32); 6] =
    [("ctid", 27), ("xmin", 28), ("cmin", 29), ("xmax", 28), ("cmax", 29), ("tableoid", 26)];

/// What stands between a table's name and the columns asked of it.
const MARK: char = '\u{1}';

/// Whether a column of this name is a system column.
pub fn is_one(name: &str) -> bool {
    known(name).is_some()
}

/// Whether a relation has system columns: a table of the catalog or of the system schemas, whose own columns'
/// names are none of them.
pub type HasThem<'a> = dyn Fn(&ObjectName) -> bool + 'a;

/// Puts tables with system columns where a query names these. Errors: 0A000 for `*` beside system columns of several
/// tables, if one of FROM's items has no name.
pub fn settle(query: &mut Query, has_them: &HasThem<'_>) -> Result<()> {
    if named(&*query).is_empty() {
        return Ok(());
    }
    let mut settle = Settle { has_them, ctes: Vec::new(), withs: Vec::new() };
    match VisitMut::visit(query, &mut settle) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The name for a table with some of its system columns.
fn marked(table: &str, columns: &[&'static str]) -> String {
    format!("{table}{MARK}{}", columns.join(" "))
}

/// A table's own name and the system columns asked of it; `None` if none are.
pub fn unmarked(name: &str) -> Option<(&str, Vec<&'static str>)> {
    let (table, columns) = name.split_once(MARK)?;
    Some((table, columns.split(' ').map(known).collect::<Option<_>>()?))
}

fn known(name: &str) -> Option<&'static str> {
    ALL.iter().map(|(known, _)| *known).find(|known| *known == name)
}

/// Whether an expression names a system column.
pub fn is_named(expr: &Expr) -> bool {
    !named(expr).is_empty()
}

/// The system columns that a query or an expression names, subqueries included, each with what stands before it.
fn named(tree: &impl Visit) -> HashSet<(Option<String>, &'static str)> {
    struct Named(HashSet<(Option<String>, &'static str)>);
    impl Visitor for Named {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let (table, column) = match expr {
                Expr::Identifier(column) => (None, column),
                Expr::CompoundIdentifier(path) => match path.as_slice() {
                    [.., table, column] => (Some(table), column),
                    _ => return ControlFlow::Continue(()),
                },
                _ => return ControlFlow::Continue(()),
            };
            if let Some(column) = known(&fold(column)) {
                self.0.insert((table.map(fold), column));
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(HashSet::new());
    let _ = tree.visit(&mut named);
    named.0
}

struct Settle<'a> {
    has_them: &'a HasThem<'a>,
    /// Names of the entries of WITH that can be seen, which hide tables.
    ctes: Vec<String>,
    /// The WITH of each query around, which is settled before the rest of its query, and how many names could be seen
    /// outside.
    withs: Vec<(Option<With>, usize)>,
}

impl VisitorMut for Settle<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let (mut with, outside) = (query.with.take(), self.ctes.len());
        let recursive = with.as_ref().is_some_and(|with| with.recursive);
        // An entry sees those before it, and itself if it is recursive.
        for cte in with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let seen = self.ctes.len();
            self.ctes.extend(recursive.then(|| fold(&cte.alias.name)));
            VisitMut::visit(&mut cte.query, self)?;
            self.ctes.truncate(seen);
            self.ctes.push(fold(&cte.alias.name));
        }
        self.withs.push((with, outside));
        let named = named(&*query);
        if named.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut shown = Vec::new();
        if let Err(error) = self.body(&mut query.body, &named, &mut shown) {
            return ControlFlow::Break(error);
        }
        if let Some(order) = &mut query.order_by {
            let _ = order.visit(&mut ShortPaths(&shown));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let (with, outside) = self.withs.pop().expect("it was pushed before the query");
        query.with = with;
        self.ctes.truncate(outside);
        ControlFlow::Continue(())
    }
}

/// A table that stands with its system columns in FROM.
struct Shown {
    /// The name by which its columns are qualified.
    name: String,
    /// Whether that is the table's own name.
    is_own: bool,
    columns: Vec<&'static str>,
}

impl Settle<'_> {
    fn body(
        &self,
        body: &mut SetExpr,
        named: &HashSet<(Option<String>, &'static str)>,
        shown: &mut Vec<Shown>,
    ) -> Result<()> {
        match body {
            SetExpr::Select(select) => {
                let mut here = Vec::new();
                for tables in &mut select.from {
                    self.tables(tables, named, &mut here);
                }
                if !here.is_empty() {
                    stars(select, &here)?;
                    let _ = VisitMut::visit(select, &mut ShortPaths(&here));
                    shown.extend(here);
                }
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, named, shown)?;
                self.body(right, named, shown)
            }
            _ => Ok(()),
        }
    }

    fn tables(
        &self,
        tables: &mut TableWithJoins,
        named: &HashSet<(Option<String>, &'static str)>,
        shown: &mut Vec<Shown>,
    ) {
        let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut tables.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    self.tables(table_with_joins, named, shown);
                }
                TableFactor::Table { name, alias, args: None, .. } => {
                    shown.extend(self.table(name, alias, named));
                }
                _ => {}
            }
        }
    }

    fn table(
        &self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        named: &HashSet<(Option<String>, &'static str)>,
    ) -> Option<Shown> {
        let own = fold(name.0.last()?.as_ident()?);
        let is_cte = name.0.len() == 1 && self.ctes.contains(&own);
        let is_own = alias.is_none();
        let known_as = alias.as_ref().map_or_else(|| own.clone(), |alias| fold(&alias.name));
        let is_named = |column: &&str| {
            named.contains(&(None, *column)) || named.contains(&(Some(known_as.clone()), *column))
        };
        let columns: Vec<_> = ALL.iter().map(|(column, _)| *column).filter(is_named).collect();
        if columns.is_empty() || is_cte || !(self.has_them)(name) {
            return None;
        }
        let last = name.0.last_mut()?;
        *last = ObjectNamePart::Identifier(Ident::with_quote('"', marked(&own, &columns)));
        let alias = alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', &known_as),
            columns: Vec::new(),
            at: None,
        });
        if !alias.columns.is_empty() {
            let column =
                |name: &&str| TableAliasColumnDef { name: Ident::new(*name), data_type: None };
            alias.columns.extend(columns.iter().map(column));
        }
        Some(Shown { name: known_as, is_own, columns })
    }
}

/// Leaves the system columns out of every `*` of a SELECT.
fn stars(select: &mut Select, shown: &[Shown]) -> Result<()> {
    let found = |name: &str| shown.iter().find(|table| table.name == name);
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                if let Some(table) = last.and_then(|last| found(&last)) {
                    *name = ObjectName::from(vec![Ident::with_quote('"', &table.name)]);
                    options.opt_except = Some(except(&table.columns));
                }
            }
            SelectItem::Wildcard(options) => {
                let names = names(&select.from);
                if let ([_], [only]) = (&names[..], shown) {
                    options.opt_except = Some(except(&only.columns));
                } else {
                    let names = names.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| {
                        SqlError::unsupported(
                            "* beside a system column and something unnamed in FROM",
                        )
                        .hint("Give it an alias, or name the columns.")
                    })?;
                    items.extend(names.into_iter().map(|name| {
                        let options = WildcardAdditionalOptions {
                            opt_except: found(&name).map(|table| except(&table.columns)),
                            ..Default::default()
                        };
                        let name = ObjectName::from(vec![Ident::with_quote('"', name)]);
                        SelectItem::QualifiedWildcard(
                            SelectItemQualifiedWildcardKind::ObjectName(name),
                            options,
                        )
                    }));
                    continue;
                }
            }
            _ => {}
        }
        items.push(item);
    }
    select.projection = items;
    Ok(())
}

fn except(columns: &[&'static str]) -> ExceptSelectItem {
    let mut columns = columns.iter().map(|column| Ident::new(*column));
    ExceptSelectItem {
        first_element: columns.next().expect("a table stands with a system column at least"),
        additional_elements: columns.collect(),
    }
}

/// The names of FROM's items, in their order; `None` for one without a name.
fn names(from: &[TableWithJoins]) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for tables in from {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&tables.relation).chain(joined) {
            let last =
                |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    all.extend(names(std::slice::from_ref(table_with_joins)));
                }
                TableFactor::Table { name, alias: None, .. } => all.push(last(name)),
                TableFactor::Table { alias, .. }
                | TableFactor::Derived { alias, .. }
                | TableFactor::Function { alias, .. }
                | TableFactor::UNNEST { alias, .. }
                | TableFactor::TableFunction { alias, .. } => {
                    all.push(alias.as_ref().map(|alias| fold(&alias.name)));
                }
                _ => all.push(None),
            }
        }
    }
    all
}

/// `shop.item.name` as `item.name`: the table has an alias now.
struct ShortPaths<'a>(&'a [Shown]);

impl VisitorMut for ShortPaths<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr
            && let [.., _, table, _] = path.as_slice()
            && self.0.iter().any(|shown| shown.is_own && shown.name == fold(table))
        {
            path.drain(..path.len() - 2);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_sql::parse::parse_query;

    /// `t` and `u` are tables; marks are shown as `!`.
    fn settled(text: &str) -> String {
        let mut query = parse_query(text).unwrap();
        let is_table = |name: &ObjectName| {
            let name = fold(name.0.last().unwrap().as_ident().unwrap());
            name == "t" || name == "u"
        };
        match settle(&mut query, &is_table) {
            Ok(()) => query.to_string().replace(MARK, "!").replace('"', ""),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn tables_whose_system_columns_are_named_give_them_and_stars_do_not_show_them() {
        for (given, expected) in [
            ("SELECT a FROM t", "SELECT a FROM t"),
            ("SELECT ctid, * FROM t", "SELECT ctid, * EXCEPT (ctid) FROM t!ctid AS t"),
            ("SELECT x.xmin, x.* FROM t AS x", "SELECT x.xmin, x.* EXCEPT (xmin) FROM t!xmin AS x"),
            (
                "SELECT t.xmin, * FROM t, v",
                "SELECT t.xmin, t.* EXCEPT (xmin), v.* FROM t!xmin AS t, v",
            ),
            ("SELECT s.t.ctid FROM s.t", "SELECT t.ctid FROM s.t!ctid AS t"),
            ("SELECT a FROM t ORDER BY s.t.ctid", "SELECT a FROM t!ctid AS t ORDER BY t.ctid"),
            (
                "SELECT t.ctid FROM t JOIN u ON t.a = u.a",
                "SELECT t.ctid FROM t!ctid AS t JOIN u ON t.a = u.a",
            ),
            ("SELECT ctid FROM v", "SELECT ctid FROM v"),
            (
                "WITH t AS (SELECT ctid FROM t) SELECT ctid FROM t",
                "WITH t AS (SELECT ctid FROM t!ctid AS t) SELECT ctid FROM t",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 AS ctid UNION SELECT ctid FROM t) SELECT ctid FROM t",
                "WITH RECURSIVE t AS (SELECT 1 AS ctid UNION SELECT ctid FROM t) SELECT ctid FROM t",
            ),
            (
                "SELECT * FROM (SELECT ctid FROM t) AS q",
                "SELECT * FROM (SELECT ctid FROM t!ctid AS t) AS q",
            ),
            (
                "WITH t AS (SELECT 1 AS ctid) SELECT ctid FROM t",
                "WITH t AS (SELECT 1 AS ctid) SELECT ctid FROM t",
            ),
            (
                "SELECT x.tableoid FROM t AS x (b)",
                "SELECT x.tableoid FROM t!tableoid AS x (b, tableoid)",
            ),
            (
                "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.xmax)",
                "SELECT * EXCEPT (xmax) FROM t!xmax AS t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.xmax)",
            ),
        ] {
            assert_eq!(settled(given), expected);
        }
    }

    #[test]
    fn a_star_over_something_without_a_name_is_refused() {
        let refused = "* beside a system column and something unnamed in FROM is not supported";
        assert_eq!(settled("SELECT t.xmin, * FROM t, (SELECT 1)"), refused);
    }

    #[test]
    fn a_marked_name_is_taken_apart() {
        let name = marked("Odd name", &["ctid", "tableoid"]);
        assert_eq!(unmarked(&name), Some(("Odd name", vec!["ctid", "tableoid"])));
        assert_eq!(unmarked("ctid"), None);
    }
}
