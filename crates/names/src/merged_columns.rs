//! `JOIN … USING` and `NATURAL JOIN` rewritten with ON, together with references to their merged
//! columns.
//!
//! Such a join merges two columns into one: the left one; for a RIGHT JOIN the right one; for a
//! FULL JOIN the one that is not NULL. An unqualified name means the merged column, and in `*`
//! merged columns come first. All of this is decided here, on the syntax tree and before names are
//! bound: DataFusion's planner would take the left column in every case.
//!
//! An alias behind USING names the merged columns of its join: `j.a` is one of them, `j` and `j.*` are all.
//!
//! Whole rows (`row_to_json(t)`, `SELECT t`, `(t).a`, `(t.*)::text`) are replaced by structs here as well, since
//! the columns of tables are known, and `ROW(t.*, 1)` by a row of the columns.
//!
//! A query without such joins and rows stays as it is. A table whose columns are unknown at this point (a
//! function in FROM) cannot stand beside a NATURAL JOIN; USING beside it is left to the planner.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use crate::documents::makes_document;
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, Value, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use halcyon_dialect::made::call;
use halcyon_dialect::target_lists;
use halcyon_dialect::{column_of_rows, shown_item_name};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::repeated::repeated_name;
use halcyon_sql::syntax::merged_alias;

/// The columns of tables.
pub trait Tables {
    /// Names of a table's or view's columns.
    fn columns(&self, name: &ObjectName) -> Result<Vec<String>>;
}

/// Rewrites a query in place. Errors: 42703, 42702 for columns that do not occur exactly once on
/// each side; 54011 for stars that stand for too many columns.
pub fn settle(query: &mut Query, tables: &dyn Tables) -> Result<()> {
    if !merges(query) && !names_rows(query) {
        return Ok(());
    }
    let mut settle = Settle { tables, ctes: Vec::new(), frames: Vec::new() };
    match query.visit(&mut settle) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether a join of these kinds stands anywhere in a query.
fn merges(query: &Query) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            if select.from.iter().any(joins_merge) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    ast::Visit::visit(query, &mut Search).is_break()
}

/// Whether a document may be made of a whole row anywhere in a query.
fn names_rows(query: &Query) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match elements_of(factor) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match makes_document(expr) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visit::visit(query, &mut Search).is_break() || names_tables(query)
}

/// Whether a name may stand for a table's row anywhere in a query, or a star for the same columns twice.
fn names_tables(query: &Query) -> bool {
    struct Tables(HashSet<String>);
    impl ast::Visitor for Tables {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.0.extend(name_of(factor).as_ref().map(fold));
            ControlFlow::Continue(())
        }
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match stars(&select.projection) > 1 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    struct Search(HashSet<String>);
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) if self.0.contains(&fold(name)) => ControlFlow::Break(()),
                Expr::QualifiedWildcard(..) => ControlFlow::Break(()),
                Expr::Function(function) if takes_rows(function) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut tables = Tables(HashSet::new());
    ast::Visit::visit(query, &mut tables).is_break()
        || ast::Visit::visit(query, &mut Search(tables.0)).is_break()
}

/// Whether a call has `e.*` among its arguments; `count` knows rows by itself.
fn takes_rows(function: &Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_row = name.as_deref() == Some("row");
    let is_star = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)) => true,
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => is_row,
        _ => false,
    };
    name.as_deref() != Some("count") && list.args.iter().any(is_star)
}

/// The name by which the columns of a FROM item are qualified.
fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// How many stars a list has.
fn stars(items: &[SelectItem]) -> usize {
    let is_star = |item: &&SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    items.iter().filter(is_star).count()
}

/// The name of a table whose one column stands for its rows: `jsonb_array_elements(x) AS e`, whose column
/// is `value` and whose rows are named `e` as well.
fn elements_of(factor: &TableFactor) -> Option<(Ident, &'static str)> {
    let (name, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias: Some(alias), .. }
        | TableFactor::Function { name, alias: Some(alias), .. } => (name, alias),
        _ => return None,
    };
    let function = name.0.last().and_then(|part| part.as_ident()).map(fold)?;
    let column = column_of_rows(&function).filter(|_| alias.columns.is_empty())?;
    Some((alias.name.clone(), column))
}

fn joins_merge(tables: &TableWithJoins) -> bool {
    let within = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => joins_merge(table_with_joins),
        _ => false,
    };
    within(&tables.relation)
        || tables.joins.iter().any(|join| {
            let merges = matches!(
                constraint(&join.join_operator),
                Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
            );
            merges || within(&join.relation)
        })
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as Op;
    match operator {
        Op::Join(of) | Op::Inner(of) | Op::Left(of) | Op::LeftOuter(of) => Some(of),
        Op::Right(of) | Op::RightOuter(of) | Op::FullOuter(of) => Some(of),
        _ => None,
    }
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as Op;
    match operator {
        Op::Join(of) | Op::Inner(of) | Op::Left(of) | Op::LeftOuter(of) => Some(of),
        Op::Right(of) | Op::RightOuter(of) | Op::FullOuter(of) => Some(of),
        _ => None,
    }
}

/// A column that may be named without its table.
#[derive(Clone)]
struct Column {
    name: String,
    /// The column's meaning.
    value: Expr,
    merged: bool,
}

/// The columns and tables that a FROM offers.
#[derive(Clone, Default)]
struct Scope {
    /// Columns in the order of `*`.
    columns: Vec<Column>,
    /// Tables by name, with all of their columns.
    tables: Vec<(String, Vec<String>)>,
    /// Aliases of joins, with the columns that the joins have merged.
    aliases: Vec<(String, Vec<Column>)>,
    /// Tables whose rows are the values of their one column.
    elements: Vec<(String, Vec<String>)>,
    /// Names that the list of the SELECT gives.
    outputs: Vec<String>,
    /// Whether there are further columns, which are not known.
    open: bool,
}

impl Scope {
    fn of_table(qualifier: Vec<Ident>, names: Option<Vec<String>>) -> Scope {
        let Some(names) = names else { return Scope { open: true, ..Scope::default() } };
        let column = |name: &String| {
            let own = Ident::with_quote('"', name.clone());
            let parts = qualifier.iter().cloned().chain([own]).collect();
            Column { name: name.clone(), value: Expr::CompoundIdentifier(parts), merged: false }
        };
        let columns = names.iter().map(column).collect();
        let table = qualifier.last().map(fold).unwrap_or_default();
        Scope { columns, tables: vec![(table, names)], ..Scope::default() }
    }

    fn beside(mut self, other: Scope) -> Scope {
        self.columns.extend(other.columns);
        self.tables.extend(other.tables);
        self.aliases.extend(other.aliases);
        self.elements.extend(other.elements);
        self.open |= other.open;
        self
    }

    /// The columns that a star stands for. `None`: the item is no star of a known table.
    fn covered(&self, item: &SelectItem) -> Option<Vec<&Column>> {
        let name = match item {
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                return Some(self.columns.iter().collect());
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                fold(name.0.last()?.as_ident()?)
            }
            _ => return None,
        };
        self.tables.iter().find(|(table, _)| *table == name)?;
        let is_of = |column: &&Column| match &column.value {
            Expr::CompoundIdentifier(path) => {
                path.len() > 1 && fold(&path[path.len() - 2]) == name && !column.merged
            }
            _ => false,
        };
        // A column that a join has merged is one of both tables, and this is no place to tell which.
        let count = self.tables.iter().find(|(table, _)| *table == name)?.1.len();
        let columns: Vec<&Column> = self.columns.iter().filter(is_of).collect();
        (columns.len() == count).then_some(columns)
    }

    /// Errors: 42712 for the alias of a join that is another name in the same FROM.
    fn names_joins_once(&self) -> Result<()> {
        for (at, (alias, _)) in self.aliases.iter().enumerate() {
            let is_taken = self.tables.iter().any(|(table, _)| table == alias)
                || self.aliases[..at].iter().any(|(other, _)| other == alias);
            if is_taken {
                let message = format!("table name \"{alias}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        Ok(())
    }

    /// The only column of that name. Errors: 42703 without one, 42702 with several.
    fn only(&self, name: &str, side: &str) -> Result<&Column> {
        let mut found = self.columns.iter().filter(|column| column.name == name);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(column),
            (None, _) => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" specified in USING clause does not exist in {side} table"
                ),
            )),
            _ => Err(SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("common column name \"{name}\" appears more than once in {side} table"),
            )),
        }
    }
}

/// A query around the present place.
struct Frame {
    scope: Scope,
    /// Whether the scope belongs to the query's SELECT, which was handled with the query.
    of_select: bool,
}

struct Settle<'a> {
    tables: &'a dyn Tables,
    ctes: Vec<HashMap<String, Option<Vec<String>>>>,
    frames: Vec<Frame>,
}

impl VisitorMut for Settle<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(self.enter(query))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.ctes.pop();
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let done = self.frames.last_mut().is_some_and(|frame| std::mem::take(&mut frame.of_select));
        let scope = if done { Ok(Scope::default()) } else { self.select(select) };
        flow(scope.map(|scope| self.frames.push(Frame { scope, of_select: false })))
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.name_field(expr);
        self.test_fields(expr);
        self.count_rows(expr);
        flow(self.expand_rows(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Identifier(name) = expr
            && let Some(value) = self.meaning(name).or_else(|| self.row(&fold(name)))
        {
            *expr = value;
        }
        if let Expr::CompoundIdentifier(path) = expr
            && let Some(value) = self.of_alias(path).transpose()
        {
            match value {
                Ok(value) => *expr = value,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        if makes_document(expr) || matches!(expr, Expr::Function(call) if takes_rows(call)) {
            self.name_fields(expr);
        }
        ControlFlow::Continue(())
    }
}

fn flow(result: Result<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Settle<'_> {
    fn enter(&mut self, query: &mut Query) -> Result<()> {
        self.enter_ctes(query)?;
        let own = self.ctes.last_mut().expect("entered above");
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if let Some(Some(names)) = own.get_mut(&fold(&cte.alias.name)) {
                tell_apart(names, &mut cte.alias);
            }
        }
        let mut frame = Frame { scope: Scope::default(), of_select: false };
        if let SetExpr::Select(select) = query.body.as_mut() {
            frame = Frame { scope: self.select(select)?, of_select: true };
            if let Some(OrderByKind::Expressions(order)) =
                query.order_by.as_mut().map(|by| &mut by.kind)
            {
                order.iter_mut().for_each(|by| by_position(&mut by.expr, select, &frame.scope));
            }
        }
        self.frames.push(frame);
        Ok(())
    }

    fn enter_ctes(&mut self, query: &Query) -> Result<()> {
        self.ctes.push(HashMap::new());
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = fold(&cte.alias.name);
            // A recursive query names itself.
            let own = self.ctes.last_mut().expect("pushed above");
            own.entry(name.clone()).or_insert(None);
            let names = renamed(self.outputs(&cte.query)?, Some(&cte.alias));
            self.ctes.last_mut().expect("pushed above").insert(name, names);
        }
        Ok(())
    }

    /// Rewrites the joins of a SELECT with ON, and replaces `*` and unqualified merged columns by
    /// their meaning.
    fn select(&mut self, select: &mut Select) -> Result<Scope> {
        let scope = self.from(&mut select.from)?;
        scope.names_joins_once()?;
        let is_merged = scope.columns.iter().any(|column| column.merged);
        if is_merged && !scope.open {
            let mut items = Vec::new();
            for item in select.projection.drain(..) {
                match item {
                    SelectItem::Wildcard(_) => items.extend(scope.columns.iter().map(as_item)),
                    item => items.push(item),
                }
            }
            select.projection = items;
        }
        if !scope.open && stars(&select.projection) > 1 {
            let items = std::mem::take(&mut select.projection);
            for item in items {
                match scope.covered(&item) {
                    Some(columns) => select.projection.extend(columns.into_iter().map(as_item)),
                    None => select.projection.push(item),
                }
                target_lists::check(select.projection.len())?;
            }
        }
        // The name of the result's column stays.
        self.frames.push(Frame { scope, of_select: false });
        self.expand_stars(select)?;
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) = item
                && let Some(expr) = self.of_alias(path)?
            {
                let alias = path.last().expect("a path has parts").clone();
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            let means = |name: &Ident| self.meaning(name).or_else(|| self.row(&fold(name)));
            match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    if let Some(expr) = means(name) {
                        *item = SelectItem::ExprWithAlias { expr, alias: name.clone() };
                    }
                }
                SelectItem::ExprWithAlias { expr, .. } => {
                    if let Expr::Identifier(name) = expr
                        && let Some(row) = means(name)
                    {
                        *expr = row;
                    }
                }
                // `(t).*` are the columns of the table.
                SelectItem::QualifiedWildcard(kind, _) => {
                    if let SelectItemQualifiedWildcardKind::Expr(Expr::Nested(inner)) = kind
                        && let Expr::Identifier(name) = inner.as_ref()
                        && self.row(&fold(name)).is_some()
                    {
                        let name = ObjectName::from(vec![name.clone()]);
                        *kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                    }
                }
                _ => {}
            }
        }
        let mut scope = self.frames.pop().expect("pushed above").scope;
        let alias = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        };
        scope.outputs = select.projection.iter().filter_map(alias).collect();
        Ok(scope)
    }

    /// Replaces `(e.*)` in a list by `e.*`, and `j.*` of a join's alias by the merged columns.
    fn expand_stars(&self, select: &mut Select) -> Result<()> {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            let table = match &item {
                SelectItem::UnnamedExpr(Expr::Nested(inner)) => match inner.as_ref() {
                    Expr::QualifiedWildcard(name, _) => Some(name),
                    _ => None,
                },
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => Some(name),
                _ => None,
            };
            let Some(table) = table else {
                select.projection.push(item);
                continue;
            };
            match self.alias(&last_part(table)) {
                Some(columns) => select.projection.extend(columns.iter().map(as_item)),
                None => select.projection.push(SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(table.clone()),
                    WildcardAdditionalOptions::default(),
                )),
            }
            target_lists::check(select.projection.len())?;
        }
        Ok(())
    }

    fn from(&mut self, from: &mut [TableWithJoins]) -> Result<Scope> {
        let mut all = Scope::default();
        for tables in from {
            all = all.beside(self.joined(tables)?);
        }
        Ok(all)
    }

    fn joined(&mut self, tables: &mut TableWithJoins) -> Result<Scope> {
        let mut scope = self.factor(&mut tables.relation)?;
        for join in &mut tables.joins {
            let right = self.factor(&mut join.relation)?;
            scope = merged(scope, right, join)?;
        }
        Ok(scope)
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<Scope> {
        if let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = factor
            && joins_merge(table_with_joins)
        {
            let mut query = halcyon_sql::parse::parse_query("SELECT * FROM t")?;
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.from = vec![table_with_joins.as_ref().clone()];
            }
            let (subquery, alias) = (Box::new(query), alias.take());
            *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        }
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let names = renamed(self.table(name)?, alias.as_ref());
                let qualifier = match alias {
                    Some(alias) => vec![alias.name.clone()],
                    None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
                };
                Ok(Scope::of_table(qualifier, names))
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let mut names = self.outputs(subquery)?;
                if let (Some(names), Some(alias)) = (&mut names, &mut *alias) {
                    tell_apart(names, alias);
                }
                let names = renamed(names, alias.as_ref());
                let qualifier = alias.iter().map(|alias| alias.name.clone()).collect();
                Ok(Scope::of_table(qualifier, names))
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins)
            }
            other => Ok(match elements_of(other) {
                Some((table, column)) => {
                    let mut scope = Scope::of_table(vec![table], Some(vec![column.to_owned()]));
                    scope.elements = std::mem::take(&mut scope.tables);
                    scope
                }
                None => Scope::of_table(Vec::new(), None),
            }),
        }
    }

    fn table(&self, name: &ObjectName) -> Result<Option<Vec<String>>> {
        if let [part] = &name.0[..]
            && let Some(part) = part.as_ident()
        {
            let name = fold(part);
            if let Some(names) = self.ctes.iter().rev().find_map(|ctes| ctes.get(&name)) {
                return Ok(names.clone());
            }
        }
        self.tables.columns(name).map(Some)
    }

    /// Names of a query's columns, if they are known.
    fn outputs(&mut self, query: &Query) -> Result<Option<Vec<String>>> {
        self.enter_ctes(query)?;
        let names = self.outputs_of(&query.body);
        self.ctes.pop();
        names
    }

    fn outputs_of(&mut self, body: &SetExpr) -> Result<Option<Vec<String>>> {
        let select = match body {
            SetExpr::Select(select) => select,
            SetExpr::Query(query) => return self.outputs(query),
            SetExpr::SetOperation { left, .. } => return self.outputs_of(left),
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                return Ok(Some((1..=width).map(|at| format!("column{at}")).collect()));
            }
            _ => return Ok(None),
        };
        let mut scope = None;
        let mut names = Vec::new();
        for item in &select.projection {
            if let Some(name) = shown_item_name(item) {
                names.push(name);
                continue;
            }
            if scope.is_none() {
                scope = Some(self.from(&mut select.from.clone())?);
            }
            let scope = scope.as_ref().expect("made above");
            if scope.open {
                return Ok(None);
            }
            match item {
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let wanted = name.0.last().and_then(|part| part.as_ident()).map(fold);
                    let is_meant = |alias: &&String| Some(*alias) == wanted.as_ref();
                    let mut aliases = scope.aliases.iter();
                    if let Some((_, own)) = aliases.find(|(alias, _)| is_meant(&alias)) {
                        names.extend(own.iter().map(|column| column.name.clone()));
                        continue;
                    }
                    let own = |(table, _): &&(String, Vec<String>)| Some(table) == wanted.as_ref();
                    let Some((_, own)) = scope.tables.iter().find(own) else { return Ok(None) };
                    names.extend(own.iter().cloned());
                }
                SelectItem::Wildcard(_) => {
                    names.extend(scope.columns.iter().map(|column| column.name.clone()));
                }
                _ => return Ok(None),
            }
            target_lists::check(names.len())?;
        }
        Ok(Some(names))
    }

    /// Replaces a table among the arguments of a call by its row: a struct of its columns.
    fn name_fields(&self, call: &mut Expr) {
        let Expr::Function(function) = call else { return };
        let FunctionArguments::List(list) = &mut function.args else { return };
        for arg in &mut list.args {
            let FunctionArg::Unnamed(arg) = arg else { continue };
            let table = match &*arg {
                FunctionArgExpr::Expr(Expr::Identifier(name)) => Some(fold(name)),
                FunctionArgExpr::QualifiedWildcard(name) => {
                    name.0.last().and_then(|part| part.as_ident()).map(fold)
                }
                _ => None,
            };
            if let Some(row) = table.and_then(|table| self.row(&table)) {
                *arg = FunctionArgExpr::Expr(row);
            }
        }
    }

    /// Writes `(t).a`, a column of a table's row, as `t.a`.
    fn name_field(&self, expr: &mut Expr) {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
        // The parser reads `t.a[1]` as a chain that begins with `t`.
        let table = match root.as_ref() {
            Expr::Nested(inner) => inner.as_ref(),
            root => root,
        };
        let (Expr::Identifier(table), Some(AccessExpr::Dot(Expr::Identifier(column)))) =
            (table, access_chain.first())
        else {
            return;
        };
        if self.row_of(&fold(table)).is_none() {
            return;
        }
        let named = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
        if access_chain.len() == 1 {
            *expr = named;
        } else {
            **root = named;
            access_chain.remove(0);
        }
    }

    /// Writes `count(t)`, of a table's rows, as `count(t.*)`.
    fn count_rows(&self, expr: &mut Expr) {
        let Expr::Function(function) = expr else { return };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
        let FunctionArguments::List(list) = &mut function.args else { return };
        let (Some("count"), [FunctionArg::Unnamed(arg)]) =
            (name.as_deref(), list.args.as_mut_slice())
        else {
            return;
        };
        let table = match arg {
            FunctionArgExpr::Expr(Expr::Identifier(table)) => fold(table),
            FunctionArgExpr::QualifiedWildcard(table) => last_part(table),
            _ => return,
        };
        // The row of a join's alias is never NULL as a whole.
        if self.alias(&table).is_some() {
            *arg = FunctionArgExpr::Wildcard;
        } else if let FunctionArgExpr::Expr(Expr::Identifier(name)) = arg
            && self.columns_of(&table).is_some()
        {
            *arg = FunctionArgExpr::QualifiedWildcard(ObjectName::from(vec![name.clone()]));
        }
    }

    /// Writes `ROW(e.*)` and `(e.*, 1)` with the columns of `e`, and any other `e.*` as the row of `e`.
    ///
    /// Errors: 42P01 if there is no `e`, 0A000 if its columns are not known.
    fn expand_rows(&self, expr: &mut Expr) -> Result<()> {
        let columns = |name: &ObjectName| {
            let known = self.row_of(&last_part(name));
            known.ok_or_else(|| self.unknown_row(name))
        };
        match expr {
            Expr::Tuple(fields) => {
                for field in std::mem::take(fields) {
                    match &field {
                        Expr::QualifiedWildcard(name, _) => {
                            fields.extend(columns(name)?.into_iter().map(|(_, value)| value));
                        }
                        _ => fields.push(field),
                    }
                    target_lists::check(fields.len())?;
                }
            }
            Expr::Function(function) if last_part(&function.name) == "row" => {
                let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
                for arg in std::mem::take(&mut list.args) {
                    match &arg {
                        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                            let own = columns(name)?.into_iter().map(|(_, value)| value);
                            let as_arg = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
                            list.args.extend(own.map(as_arg));
                        }
                        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                            let message = "syntax error at or near \"*\"";
                            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                        }
                        _ => list.args.push(arg),
                    }
                    target_lists::check(list.args.len())?;
                }
            }
            Expr::QualifiedWildcard(name, _) => *expr = struct_of(columns(name)?),
            _ => {}
        }
        Ok(())
    }

    /// Why a table in `e.*` has no columns here.
    fn unknown_row(&self, name: &ObjectName) -> SqlError {
        if self.frames.iter().any(|frame| frame.scope.open) {
            return SqlError::unsupported("the row of a function in FROM");
        }
        let message = format!("missing FROM-clause entry for table \"{}\"", last_part(name));
        SqlError::new(SqlState::UNDEFINED_TABLE, message)
    }

    /// Writes `t IS [NOT] NULL`, of a table's row, as the same of each of its columns.
    fn test_fields(&self, expr: &mut Expr) {
        let (inner, is_null) = match &*expr {
            Expr::IsNull(inner) => (inner, true),
            Expr::IsNotNull(inner) => (inner, false),
            _ => return,
        };
        let table = match inner.as_ref() {
            Expr::Identifier(name) => fold(name),
            Expr::QualifiedWildcard(name, _) => last_part(name),
            Expr::Nested(nested) => match nested.as_ref() {
                Expr::QualifiedWildcard(name, _) => last_part(name),
                _ => return,
            },
            _ => return,
        };
        let tests = self.row_of(&table).into_iter().flatten().map(|(_, column)| {
            let column = Box::new(column);
            if is_null { Expr::IsNull(column) } else { Expr::IsNotNull(column) }
        });
        let both = |left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        if let Some(test) = tests.reduce(both) {
            *expr = Expr::Nested(Box::new(test));
        }
    }

    /// The row of a table, if the name is no column's and the list of the SELECT does not give it.
    fn row(&self, table: &str) -> Option<Expr> {
        let is_output = |frame: &Frame| frame.scope.outputs.iter().any(|output| output == table);
        if self.frames.iter().any(is_output) {
            return None;
        }
        self.row_of(table).map(struct_of)
    }

    /// The columns of a table, or of the alias of a join, whose name is no column's, with their meanings.
    fn row_of(&self, table: &str) -> Option<Vec<(String, Expr)>> {
        if let Some(columns) = self.columns_of(table) {
            let field = |column: &String| (column.clone(), column_of(table, column));
            return Some(columns.iter().map(field).collect());
        }
        let is_column = |frame: &Frame| frame.scope.columns.iter().any(|own| own.name == *table);
        if self.frames.iter().any(is_column) {
            return None;
        }
        let field = |column: &Column| (column.name.clone(), column.value.clone());
        self.alias(table).map(|columns| columns.iter().map(field).collect())
    }

    /// The merged columns of the join that has this alias.
    fn alias(&self, name: &str) -> Option<&[Column]> {
        for frame in self.frames.iter().rev() {
            if frame.scope.tables.iter().any(|(table, _)| table == name) {
                return None;
            }
            let own = frame.scope.aliases.iter().find(|(alias, _)| alias == name);
            if let Some((_, columns)) = own {
                return Some(columns);
            }
        }
        None
    }

    /// The meaning of `j.a` if `j` is the alias of a join. Errors: 42703 if the join has not merged `a`.
    fn of_alias(&self, path: &[Ident]) -> Result<Option<Expr>> {
        let [alias, column] = path else { return Ok(None) };
        let (alias, column) = (fold(alias), fold(column));
        let Some(columns) = self.alias(&alias) else { return Ok(None) };
        match columns.iter().find(|own| own.name == column) {
            Some(own) => Ok(Some(own.value.clone())),
            None => {
                let message = format!("column {alias}.{column} does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// The columns of a table whose name is no column's.
    fn columns_of(&self, table: &str) -> Option<&[String]> {
        for frame in self.frames.iter().rev() {
            if frame.scope.columns.iter().any(|column| column.name == *table) {
                return None;
            }
            let own = frame.scope.tables.iter().find(|(name, _)| name == table);
            if let Some((_, columns)) = own {
                return Some(columns);
            }
            if frame.scope.open {
                return None;
            }
        }
        None
    }

    /// The meaning of an unqualified name, if it means a merged column.
    fn meaning(&self, name: &Ident) -> Option<Expr> {
        let name = fold(name);
        for frame in self.frames.iter().rev() {
            let mut found = frame.scope.columns.iter().filter(|column| column.name == name);
            match (found.next(), found.next()) {
                (Some(column), None) => return column.merged.then(|| column.value.clone()),
                (Some(_), Some(_)) => return None,
                _ if let Some((table, columns)) =
                    frame.scope.elements.iter().find(|(table, _)| *table == name) =>
                {
                    let parts = [table, &columns[0]].map(|part| Ident::with_quote('"', part));
                    return Some(Expr::CompoundIdentifier(parts.into()));
                }
                _ if frame.scope.open => return None,
                _ => {}
            }
        }
        None
    }
}

/// Gives a subquery whose columns share names aliases that tell them apart, so that its row has each of them.
fn tell_apart(names: &mut [String], alias: &mut TableAlias) {
    if !alias.columns.is_empty() {
        return;
    }
    let (mut taken, mut repeats) = (HashSet::new(), 0);
    for name in names.iter_mut() {
        if !taken.insert(name.clone()) {
            repeats += 1;
            *name = repeated_name(name, repeats);
        }
    }
    if repeats > 0 {
        let column = |name: &String| TableAliasColumnDef {
            name: Ident::with_quote('"', name),
            data_type: None,
        };
        alias.columns = names.iter().map(column).collect();
    }
}

/// A row as a struct of its columns.
fn struct_of(columns: Vec<(String, Expr)>) -> Expr {
    let field = |(name, value): (String, Expr)| {
        [Expr::Value(Value::SingleQuotedString(name).with_empty_span()), value]
    };
    call("named_struct", columns.into_iter().flat_map(field).collect())
}

/// The last part of a name.
fn last_part(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default()
}

/// `table.column`.
fn column_of(table: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', column)])
}

/// The names of columns once an alias has renamed the first of them.
fn renamed(names: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let given = alias.map(|alias| &alias.columns[..]).unwrap_or_default();
    match names {
        Some(mut names) => {
            for (name, given) in names.iter_mut().zip(given) {
                *name = fold(&given.name);
            }
            Some(names)
        }
        None if given.is_empty() => None,
        None => Some(given.iter().map(|column| fold(&column.name)).collect()),
    }
}

fn as_item(column: &Column) -> SelectItem {
    let expr = column.value.clone();
    match column.merged {
        true => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', &column.name) },
        false => SelectItem::UnnamedExpr(expr),
    }
}

/// `ORDER BY k` means the result's column if there is one: it is replaced by that column's
/// position.
fn by_position(expr: &mut Expr, select: &Select, scope: &Scope) {
    let Expr::Identifier(name) = expr else { return };
    let name = fold(name);
    if !scope.columns.iter().any(|column| column.merged && column.name == name) {
        return;
    }
    let own = |item: &SelectItem| shown_item_name(item).as_ref() == Some(&name);
    if let Some(at) = select.projection.iter().position(own) {
        *expr = Expr::Value(Value::Number((at + 1).to_string(), false).with_empty_span());
    }
}

/// The columns of a join, which is rewritten with ON.
fn merged(left: Scope, right: Scope, join: &mut Join) -> Result<Scope> {
    let alias = taken_alias(join);
    let Some(constraint) = constraint(&join.join_operator) else { return Ok(left.beside(right)) };
    let names: Vec<String> = match constraint {
        JoinConstraint::Using(names) => {
            let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(fold);
            names.iter().filter_map(last).collect()
        }
        JoinConstraint::Natural if left.open || right.open => {
            return Err(SqlError::unsupported("NATURAL JOIN beside a function in FROM")
                .hint("Name the columns: JOIN … USING (…)."));
        }
        JoinConstraint::Natural => {
            let of_right = |name: &str| right.columns.iter().any(|column| column.name == name);
            let names = left.columns.iter().map(|column| &column.name);
            names.filter(|name| of_right(name)).cloned().collect()
        }
        _ => return Ok(left.beside(right)),
    };
    if left.open || right.open {
        if alias.is_some() {
            return Err(SqlError::unsupported("an alias for USING beside a function in FROM"));
        }
        return Ok(Scope { open: true, ..left.beside(right) });
    }
    let mut condition = None;
    let mut columns = Vec::new();
    for name in &names {
        let (a, b) = (left.only(name, "left")?, right.only(name, "right")?);
        let (a, b) = (a.value.clone(), b.value.clone());
        let same = Expr::BinaryOp {
            left: Box::new(a.clone()),
            op: BinaryOperator::Eq,
            right: Box::new(b.clone()),
        };
        condition = Some(match condition {
            Some(so_far) => Expr::BinaryOp {
                left: Box::new(so_far),
                op: BinaryOperator::And,
                right: Box::new(same),
            },
            None => same,
        });
        let value = match &join.join_operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => b,
            JoinOperator::FullOuter(_) => call("coalesce", vec![a, b]),
            _ => a,
        };
        columns.push(Column { name: name.clone(), value, merged: true });
    }
    let condition =
        condition.unwrap_or_else(|| Expr::Value(Value::Boolean(true).with_empty_span()));
    if let Some(constraint) = constraint_mut(&mut join.join_operator) {
        *constraint = JoinConstraint::On(condition);
    }
    let mut aliases = left.aliases;
    aliases.extend(right.aliases);
    aliases.extend(alias.map(|alias| (alias, columns.clone())));
    let rest = left.columns.into_iter().chain(right.columns);
    columns.extend(rest.filter(|column| !names.contains(&column.name)));
    let tables = left.tables.into_iter().chain(right.tables).collect();
    let elements = left.elements.into_iter().chain(right.elements).collect();
    Ok(Scope { columns, tables, aliases, elements, outputs: Vec::new(), open: false })
}

/// Takes the alias from the columns of a join's USING.
fn taken_alias(join: &mut Join) -> Option<String> {
    let Some(JoinConstraint::Using(columns)) = constraint_mut(&mut join.join_operator) else {
        return None;
    };
    let alias = merged_alias(columns).map(fold)?;
    columns.pop();
    Some(alias)
}
