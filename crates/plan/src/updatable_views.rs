//! Which views INSERT, UPDATE and DELETE may name, and the table that such a view stands for.
//!
//! As in PostgreSQL a view is *updatable* if it is a plain SELECT from one table or from another updatable view: each of
//! its rows is then one row of the table. Columns that show a column of the table as it is may be written, others are
//! read-only.
//!
//! Words: a *level* is a view with what it says of the relation in its FROM, its *base*; the levels of a view lead from
//! the view itself down to the table.
//!
//! [`Updatable::of`] reads the stored texts and knows nothing of rights. [`rows_query`] is a level's query with the numbers
//! of the table's rows behind the level's columns: a statement that changes rows names it by [`written_name`], and
//! [`crate::bind`] plans it in the place of that name.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use datafusion::common::TableReference;
use datafusion::execution::SessionStateDefaults;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut,
};

use halcyon_catalog::{Catalog, CheckOption, Relation, Table, TableKind, View};
use halcyon_dialect::many_rows::returns_rows;
use halcyon_scan::provider::ROW_ID;
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::parse::{parse_own_query, parse_query};

/// Stands behind the name of a relation that a statement changes.
const MARK: char = '\u{2}';

/// A view that can be written through.
pub struct Updatable {
    /// The view itself first; the last one's base is the table.
    pub levels: Vec<Level>,
    /// The table.
    pub table: Arc<Table>,
}

/// A view over one relation.
pub struct Level {
    /// The view.
    pub view: Arc<View>,
    /// The relation in FROM.
    base: ObjectName,
    /// The name by which the view's expressions know its base.
    pub alias: String,
    /// The names by which they know the base's columns.
    pub base_columns: Vec<String>,
    /// Whether these are names of the view's own.
    renames: bool,
    /// The view's columns.
    pub columns: Vec<LevelColumn>,
    /// WHERE.
    pub condition: Option<Expr>,
}

/// A column of a view.
pub struct LevelColumn {
    /// Name of the column.
    pub name: String,
    /// What it shows, over the columns of the base.
    pub value: Expr,
    /// Which column of the base that is, if it is one.
    pub base: Option<usize>,
}

/// Why a view cannot be written through.
pub struct NotUpdatable {
    /// The view that is none: the one asked for, or one on which it stands.
    pub view: Arc<View>,
    /// PostgreSQL's sentence about it.
    pub reason: &'static str,
}

/// A view whose columns cannot be written; its rows can be deleted.
pub const NO_COLUMNS: &str =
    "Views that have no updatable columns are not automatically updatable.";

const NOT_ONE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

impl Updatable {
    /// The levels of a view.
    ///
    /// Errors: the view, or the one below it, that is none of this kind; one without a column that can be written is one
    /// ([`Level::has_columns`]).
    pub fn of(catalog: &Catalog, view: &Arc<View>) -> Result<Updatable, NotUpdatable> {
        let mut levels = Vec::new();
        let mut view = Arc::clone(view);
        loop {
            let refuse = |reason| NotUpdatable { view: Arc::clone(&view), reason };
            let query = parse_query(&view.query).map_err(|_| refuse(NOT_ONE))?;
            let (level, below) = level(catalog, &view, &query).map_err(refuse)?;
            levels.push(level);
            match below {
                Below::Table(table) => return Ok(Updatable { levels, table }),
                Below::View(next) => view = next,
            }
        }
    }

    /// The table's column that a column of the view shows; if none, the level whose column is read-only, and the
    /// column's position there.
    pub fn table_column(&self, column: usize) -> Result<usize, (&Level, usize)> {
        self.levels.iter().try_fold(column, |at, level| level.columns[at].base.ok_or((level, at)))
    }

    /// Conditions that WITH CHECK OPTION puts on the rows written, by level, in the order in which they are looked at:
    /// that of the deepest view first. A view without WHERE has none.
    pub fn checked_levels(&self) -> Vec<usize> {
        let (mut checked, mut cascades) = (Vec::new(), false);
        for (at, level) in self.levels.iter().enumerate() {
            let own = level.view.options.check_option();
            if (cascades || own.is_some()) && level.condition.is_some() {
                checked.push(at);
            }
            cascades |= own == Some(CheckOption::Cascaded);
        }
        checked.reverse();
        checked
    }
}

impl Level {
    /// Whether a column of the base can be written through the view.
    pub fn has_columns(&self) -> bool {
        self.columns.iter().any(|column| column.base.is_some())
    }
}

/// What a level stands on.
enum Below {
    Table(Arc<Table>),
    View(Arc<View>),
}

fn level(
    catalog: &Catalog,
    view: &Arc<View>,
    query: &Query,
) -> std::result::Result<(Level, Below), &'static str> {
    let select = plain_select(query)?;
    let [from] = select.from.as_slice() else { return Err(NOT_ONE) };
    let (TableFactor::Table { name, alias, args: None, sample, .. }, []) =
        (&from.relation, from.joins.as_slice())
    else {
        return Err(NOT_ONE);
    };
    if sample.is_some() {
        return Err("Views containing TABLESAMPLE are not automatically updatable.");
    }
    let path = parts(name).map_err(|_| NOT_ONE)?;
    let found = catalog.resolve(&path, &[]).ok_or(NOT_ONE)?;
    let (below, own) = match found.relation {
        Relation::Table(table) if matches!(table.kind, TableKind::Ordinary) => {
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            (Below::Table(Arc::clone(table)), columns)
        }
        Relation::View(below) => {
            let columns = below.columns.iter().map(|(name, _)| name.clone()).collect();
            (Below::View(Arc::clone(below)), columns)
        }
        _ => return Err(NOT_ONE),
    };
    let renames = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
    let base_columns = renamed(own, alias.as_ref());
    let alias = match alias {
        Some(alias) => fold(&alias.name),
        None => found.name.to_owned(),
    };
    let mut select = select.clone();
    let _ = VisitMut::visit(&mut select, &mut ShortPaths(&alias));
    let values = values(&select, &alias, &base_columns).ok_or(NOT_ONE)?;
    let columns = view.columns.iter().zip(values).map(|((name, _), value)| {
        let base = column_named(&value, &alias, &base_columns);
        LevelColumn { name: name.clone(), value, base }
    });
    let columns = columns.collect();
    let (view, base) = (Arc::clone(view), name.clone());
    let condition = select.selection;
    Ok((Level { view, base, alias, base_columns, renames, columns, condition }, below))
}

/// The SELECT of a query that is nothing else; what PostgreSQL says of a query that is more, in its order.
fn plain_select(query: &Query) -> std::result::Result<&Select, &'static str> {
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    };
    if let Some(select) = select {
        if select.distinct.is_some() {
            return Err("Views containing DISTINCT are not automatically updatable.");
        }
        match &select.group_by {
            GroupByExpr::Expressions(exprs, more) if exprs.is_empty() && more.is_empty() => {}
            _ => return Err("Views containing GROUP BY are not automatically updatable."),
        }
        if select.having.is_some() {
            return Err("Views containing HAVING are not automatically updatable.");
        }
    }
    if matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        return Err(
            "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
        );
    }
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let select = select.ok_or(NOT_ONE)?;
    match Calls::of(select) {
        Calls { aggregates: true, .. } => {
            Err("Views that return aggregate functions are not automatically updatable.")
        }
        Calls { windows: true, .. } => {
            Err("Views that return window functions are not automatically updatable.")
        }
        Calls { sets: true, .. } => {
            Err("Views that return set-returning functions are not automatically updatable.")
        }
        _ => Ok(select),
    }
}

/// Which kinds of functions a SELECT list calls, outside subqueries.
#[derive(Default)]
struct Calls {
    aggregates: bool,
    windows: bool,
    sets: bool,
    /// Subqueries around.
    depth: usize,
}

impl Calls {
    fn of(select: &Select) -> Calls {
        let mut calls = Calls::default();
        let _ = select.projection.visit(&mut calls);
        calls
    }
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
        let name = name.unwrap_or_default();
        let is_aggregate = !function.within_group.is_empty() || AGGREGATES.contains(name.as_str());
        self.windows |= function.over.is_some();
        self.aggregates |= function.over.is_none() && is_aggregate;
        self.sets |= returns_rows(&name);
        ControlFlow::Continue(())
    }
}

/// Names of aggregates, as a query may call them.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_aggregate_functions();
    let all = all.into_iter().chain(crate::functions::aggregate_functions());
    let names = all.flat_map(|function| {
        let aliases = function.aliases().to_vec();
        aliases.into_iter().chain([function.name().to_owned()])
    });
    names.collect()
});

/// The names of a relation's columns under an alias, which may have names of its own for the first ones.
fn renamed(mut columns: Vec<String>, alias: Option<&TableAlias>) -> Vec<String> {
    let given = alias.into_iter().flat_map(|alias| &alias.columns);
    columns.iter_mut().zip(given).for_each(|(column, given)| *column = fold(&given.name));
    columns
}

/// The expressions of a SELECT list, `*` as the columns that it stands for; `None` if it has something else.
fn values(select: &Select, alias: &str, columns: &[String]) -> Option<Vec<Expr>> {
    let mut values = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                values.push(expr.clone());
            }
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)
                if options.opt_except.is_some() =>
            {
                return None;
            }
            SelectItem::Wildcard(_)
            | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), _) => {
                values.extend(
                    columns.iter().map(|column| {
                        Expr::CompoundIdentifier(vec![quoted(alias), quoted(column)])
                    }),
                );
            }
            _ => return None,
        }
    }
    Some(values)
}

/// The position of the column that an expression names, if it is nothing else.
fn column_named(expr: &Expr, alias: &str, columns: &[String]) -> Option<usize> {
    let name = match expr {
        Expr::Nested(inner) => return column_named(inner, alias, columns),
        Expr::Identifier(name) => fold(name),
        Expr::CompoundIdentifier(path) => match path.as_slice() {
            [.., table, name] if fold(table) == alias => fold(name),
            _ => return None,
        },
        _ => return None,
    };
    columns.iter().position(|column| *column == name)
}

/// `shop.item.name` as `item.name`: the base has an alias where the level is planned.
struct ShortPaths<'a>(&'a str);

impl VisitorMut for ShortPaths<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr
            && let [.., _, table, _] = path.as_slice()
            && fold(table) == self.0
        {
            path.drain(..path.len() - 2);
        }
        ControlFlow::Continue(())
    }
}

/// The name of a relation as the target of a statement that changes its rows: it stands for the relation with the
/// numbers of the table's rows behind its columns.
pub fn written_name(name: &ObjectName) -> ObjectName {
    let mut name = name.clone();
    if let Some(last) = name.0.last_mut()
        && let Some(own) = last.as_ident()
    {
        *last = ObjectNamePart::Identifier(quoted(&format!("{}{MARK}", fold(own))));
    }
    name
}

/// The relation's own name, if a name is one of [`written_name`].
pub(crate) fn unmarked(name: &TableReference) -> Option<TableReference> {
    let own = name.table().strip_suffix(MARK)?;
    Some(match name.schema() {
        Some(schema) => TableReference::partial(schema, own),
        None => TableReference::bare(own),
    })
}

/// A level's query, with the numbers of rows behind its columns.
pub fn rows_query(level: &Level) -> Query {
    let mut query = parse_own_query("SELECT 1 FROM t AS a");
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("it is a SELECT") };
    let item = |(name, expr): (&str, Expr)| SelectItem::ExprWithAlias { expr, alias: quoted(name) };
    let row_id = Expr::CompoundIdentifier(vec![quoted(&level.alias), quoted(ROW_ID)]);
    let columns = level.columns.iter().map(|column| (column.name.as_str(), column.value.clone()));
    select.projection = columns.chain([(ROW_ID, row_id)]).map(item).collect();
    if let TableFactor::Table { name, alias: Some(alias), .. } = &mut select.from[0].relation {
        *name = written_name(&level.base);
        alias.name = quoted(&level.alias);
        let column = |name: &str| ast::TableAliasColumnDef { name: quoted(name), data_type: None };
        let all = level.base_columns.iter().map(String::as_str).chain([ROW_ID]);
        alias.columns = all.filter(|_| level.renames).map(column).collect();
    }
    select.selection = level.condition.clone();
    query
}

/// The view of this name as a relation of the catalog; its first level.
pub fn level_of(catalog: &Catalog, view: &Arc<View>) -> Result<Level> {
    match Updatable::of(catalog, view) {
        Ok(mut found) => Ok(found.levels.swap_remove(0)),
        Err(refused) => Err(SqlError::unsupported(refused.reason)),
    }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}
