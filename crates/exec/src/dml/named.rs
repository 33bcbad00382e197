//! What a statement names as the table that it writes: that table, or a view that stands for it.
//!
//! A write through a view is a write of the table behind it ([`Updatable`]). Here the view's names become the table's:
//! the columns that are assigned, the query that finds the rows, and the expressions over the rows written, which are
//! those of RETURNING, ON CONFLICT and WITH CHECK OPTION. So nothing that runs learns of views.
//!
//! Words: the *row* is the table's, as it is written; a *view's value* is what a column of the view shows of it.
//!
//! Rights, derived by [`NamedTarget::require`] alone: the one who writes has the right on the view; the view's owner has it on
//! what the view stands on, or, where the view is a security invoker, the one who writes again.
//!
//! Limits: a column of a view, and a condition with CHECK OPTION, that has a subquery or a system column cannot be computed
//! of a row's values. The former is refused where an expression names it, the latter where rows are written.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{
    self, Expr, ObjectName, Query, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};
use halcyon_store::ValueRef;

use super::{find_relation, ident, writable, wrong_target};
use halcyon_catalog::{Privilege, Relation, Table, View, denied};
use halcyon_collated::with_collation;
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_plan::updatable_views::{Level, NO_COLUMNS, NotUpdatable, Updatable, written_name};
use halcyon_sql::coerce::Arena;
use halcyon_sql::diagnose::{external, sql_error};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_expr;

/// Qualifies the columns of the row behind a view; no statement can write the name.
const ROW: &str = "row\u{1}written";

/// As [`ROW`], for the row that ON CONFLICT has kept out.
const ROW_EXCLUDED: &str = "row\u{1}excluded";

/// The statement that writes, as errors about views tell it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// Behind "cannot".
    fn infinitive(self) -> &'static str {
        match self {
            Verb::Insert => "insert into",
            Verb::Update => "update",
            Verb::Delete => "delete from",
        }
    }

    /// Behind "to enable", and the statement's first word.
    fn hint(self) -> String {
        let (doing, word) = match self {
            Verb::Insert => ("inserting into", "INSERT"),
            Verb::Update => ("updating", "UPDATE"),
            Verb::Delete => ("deleting from", "DELETE"),
        };
        format!(
            "To enable {doing} the view, provide an INSTEAD OF {word} trigger or an unconditional \
             ON {word} DO INSTEAD rule."
        )
    }
}

/// The target of a statement.
pub(super) struct NamedTarget {
    /// The table that is written.
    pub table: Arc<Table>,
    /// The view that stands for it.
    view: Option<Updatable>,
    verb: Verb,
}

impl NamedTarget {
    /// The table or view of this name. Errors: 42P01, 42809, 55000 for a view that is not updatable.
    pub fn find(binder: &Binder<'_>, name: &ObjectName, verb: Verb) -> Result<NamedTarget> {
        let (relation, reference) = find_relation(binder, name)?;
        match relation {
            Relation::Table(table) => {
                let table = writable(&table, verb.infinitive())?;
                Ok(NamedTarget { table, view: None, verb })
            }
            Relation::View(view) => {
                let found = Updatable::of(binder.catalog, &view);
                let found = found.map_err(|refused| refused_view(&refused, verb))?;
                let bare = found.levels.iter().find(|level| !level.has_columns());
                if let Some(level) = bare.filter(|_| verb != Verb::Delete) {
                    let view = Arc::clone(&level.view);
                    return Err(refused_view(&NotUpdatable { view, reason: NO_COLUMNS }, verb));
                }
                Ok(NamedTarget { table: Arc::clone(&found.table), view: Some(found), verb })
            }
            other => Err(wrong_target(&other, &reference, verb.infinitive())),
        }
    }

    /// The name by which the statement's expressions know it, if the statement gives it none.
    pub fn name(&self) -> &str {
        match self.named_view() {
            Some(view) => &view.name,
            None => &self.table.name,
        }
    }

    /// Whether it is a view.
    pub fn is_view(&self) -> bool {
        self.view.is_some()
    }

    fn named_view(&self) -> Option<&Arc<View>> {
        self.view.as_ref().map(|view| &view.levels[0].view)
    }

    /// Sees that the user may do this: with the view, and the views' owners with what these stand on. Errors: 42501.
    pub fn require(&self, binder: &Binder<'_>, wish: Privilege) -> Result<()> {
        let (catalog, user) = (binder.catalog, binder.session.user.as_str());
        let mut acting = user;
        for level in self.view.iter().flat_map(|view| &view.levels) {
            let view = &level.view;
            if acting != view.owner && !catalog.is_superuser(acting) {
                let schema = catalog.schema(&view.schema)?;
                catalog.require_schema(acting, schema, Privilege::Usage)?;
            }
            if !catalog.permits(acting, &view.owner, &view.grants, wish) {
                return Err(denied("view", &view.name));
            }
            acting = view.acting(user);
        }
        catalog.require_on_table(acting, &self.table, wish)
    }

    /// The names of its columns.
    pub fn column_names(&self) -> Vec<&str> {
        match self.named_view() {
            Some(view) => view.columns.iter().map(|(name, _)| name.as_str()).collect(),
            None => self.table.columns.iter().map(|column| column.name.as_str()).collect(),
        }
    }

    /// Whether it has a column of this name.
    pub fn has_column(&self, name: &str) -> bool {
        match self.named_view() {
            Some(view) => view.columns.iter().any(|(column, _)| column == name),
            None => self.table.column(name).is_some(),
        }
    }

    /// The table's column that a name stands for. Errors: 42703, 0A000 for a column of a view that is read-only.
    pub fn require_column(&self, name: &str) -> Result<u16> {
        let Some(view) = self.named_view() else { return self.table.require_column(name) };
        match view.columns.iter().position(|(column, _)| column == name) {
            Some(at) => self.written_column(at),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", view.name),
            )),
        }
    }

    fn written_column(&self, at: usize) -> Result<u16> {
        let Some(view) = &self.view else { return Ok(at as u16) };
        let found = view.table_column(at).map_err(|(level, at)| read_only(level, at, self.verb))?;
        Ok(u16::try_from(found).expect("a table has fewer columns"))
    }

    /// The table's columns that values go to if a statement names none, up to a read-only one: its error then.
    pub fn all_columns(&self) -> (Vec<u16>, Option<SqlError>) {
        let Some(view) = self.named_view() else {
            return ((0..self.table.columns.len() as u16).collect(), None);
        };
        let mut columns = Vec::new();
        for at in 0..view.columns.len() {
            match self.written_column(at) {
                Ok(column) => columns.push(column),
                Err(error) => return (columns, Some(error)),
            }
        }
        (columns, None)
    }

    /// How many columns it has.
    pub fn width(&self) -> usize {
        self.named_view().map_or(self.table.columns.len(), |view| view.columns.len())
    }

    /// What DEFAULT in SET means for a column of a view, as in PostgreSQL: the column's own default, else NULL, whatever
    /// the table has. `None` for a table.
    pub fn default_in_set(&self, column: &str) -> Result<Option<Expr>> {
        let Some(view) = self.named_view() else { return Ok(None) };
        match view.defaults.get(column) {
            Some(text) => parse_expr(text).map(Some),
            None => Ok(Some(Expr::Value(ast::Value::Null.into()))),
        }
    }

    /// The table with the defaults that INSERT takes: those of the view's columns come before its own.
    pub fn with_defaults(&self) -> Cow<'_, Arc<Table>> {
        let Some(found) = &self.view else { return Cow::Borrowed(&self.table) };
        if found.levels.iter().all(|level| level.view.defaults.is_empty()) {
            return Cow::Borrowed(&self.table);
        }
        let mut table = Arc::clone(&self.table);
        let own = Arc::make_mut(&mut table);
        // The view that is named has the last word.
        for (depth, level) in found.levels.iter().enumerate().rev() {
            for (at, column) in level.columns.iter().enumerate() {
                let Some(default) = level.view.defaults.get(&column.name) else { continue };
                let below = &found.levels[depth..];
                let place = below.iter().try_fold(at, |at, level| level.columns[at].base);
                if let Some(place) = place {
                    own.columns[place].default = Some(default.clone());
                }
            }
        }
        Cow::Owned(table)
    }

    /// The target in the FROM of the query that finds the rows: a view gives its rows with the numbers of the table's.
    pub fn in_query<'q>(
        &self,
        target: &'q ast::TableWithJoins,
        known_as: &str,
    ) -> Cow<'q, ast::TableWithJoins> {
        let Some(view) = self.named_view() else { return Cow::Borrowed(target) };
        let mut target = target.clone();
        if let TableFactor::Table { name, alias, .. } = &mut target.relation {
            let full = ObjectName::from(vec![ident(&view.schema), ident(&view.name)]);
            *name = written_name(&full);
            alias.get_or_insert(ast::TableAlias {
                explicit: true,
                name: ident(known_as),
                columns: Vec::new(),
                at: None,
            });
        }
        Cow::Owned(target)
    }

    /// An expression over the target's columns as one over the table's, for the keys that ON CONFLICT names.
    /// Errors: 42703; 42P10 for a column that shows none of the table's, over which no index is.
    pub fn over_table(&self, expr: &Expr) -> Result<Expr> {
        struct Names<'a>(&'a NamedTarget);
        impl VisitorMut for Names<'_> {
            type Break = SqlError;
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
                let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
                let own = fold(name);
                if !self.0.has_column(&own) {
                    let message = format!("column \"{own}\" does not exist");
                    return ControlFlow::Break(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                }
                match self.0.require_column(&own) {
                    Ok(at) => *name = ident(&self.0.table.columns[usize::from(at)].name),
                    Err(_) => return ControlFlow::Break(no_arbiter()),
                }
                ControlFlow::Continue(())
            }
        }
        let mut expr = expr.clone();
        if !self.is_view() {
            return Ok(expr);
        }
        match VisitMut::visit(&mut expr, &mut Names(self)) {
            ControlFlow::Continue(()) => Ok(expr),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// What the view shows of a row; `None` for a table. Errors: those of binding.
    pub fn shown(&self, binder: &Binder<'_>) -> Result<Option<ShownColumns>> {
        let Some(found) = &self.view else { return Ok(None) };
        let mut shown = ShownColumns::of_table(&self.table);
        for level in found.levels.iter().rev() {
            shown = shown.through(binder, level)?;
        }
        Ok(Some(shown))
    }

    /// What WITH CHECK OPTION asks of the rows written. Errors: those of binding, 0A000.
    pub fn checks(&self, binder: &Binder<'_>) -> Result<Vec<ViewCheck>> {
        let Some(found) = &self.view else { return Ok(Vec::new()) };
        let checked = found.checked_levels();
        if checked.is_empty() {
            return Ok(Vec::new());
        }
        let mut checks = Vec::new();
        let mut shown = ShownColumns::of_table(&self.table);
        let row = row_schema(&ShownColumns::row(&self.table, ROW))?;
        for (at, level) in found.levels.iter().enumerate().rev() {
            if checked.contains(&at)
                && let Some(condition) = &level.condition
            {
                if !is_of_row(condition) {
                    let what = "CHECK OPTION of a view with a subquery or a system column in WHERE";
                    return Err(SqlError::unsupported(what));
                }
                let (bound, _) = shown.value(binder, level, condition)?;
                let bound = bound.ok_or_else(subquery_column)?;
                let program = Program::compile(&bound, &row)?;
                checks.push(ViewCheck { view: level.view.name.clone(), program });
            }
            shown = shown.through(binder, level)?;
        }
        Ok(checks)
    }
}

/// 42P10: ON CONFLICT names a key that no index is over.
pub(super) fn no_arbiter() -> SqlError {
    SqlError::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}

/// 55000.
fn refused_view(refused: &NotUpdatable, verb: Verb) -> SqlError {
    let message = format!("cannot {} view \"{}\"", verb.infinitive(), refused.view.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .detail(refused.reason)
        .hint(verb.hint())
}

/// 0A000.
fn read_only(level: &Level, at: usize, verb: Verb) -> SqlError {
    let (column, view) = (&level.columns[at].name, &level.view.name);
    let message = format!("cannot {} column \"{column}\" of view \"{view}\"", verb.infinitive());
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail("View columns that are not columns of their base relation are not updatable.")
}

/// 0A000.
fn subquery_column() -> SqlError {
    SqlError::unsupported("a view's column that is a subquery or a system column, of rows written,")
}

/// Whether an expression can be computed of a row's values: it has no subqueries, and names no system columns.
fn is_of_row(expr: &Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Search).is_continue() && !system_columns::is_named(expr)
}

/// What the columns of a view show of a row.
pub(super) struct ShownColumns {
    /// The columns' names and types.
    pub fields: Vec<FieldRef>,
    /// Values of the columns, over the columns of [`ROW`]; `None` for one that is not computed of a row.
    values: Vec<Option<PlanExpr>>,
}

impl ShownColumns {
    /// A table's columns, which show themselves.
    fn of_table(table: &Table) -> Self {
        let values = (0..table.columns.len()).map(|at| Some(column_of_row(ROW, at)));
        ShownColumns {
            fields: table.arrow.fields().iter().cloned().collect(),
            values: values.collect(),
        }
    }

    /// The columns of the row itself, under names that nobody can write.
    pub fn row(table: &Table, qualifier: &'static str) -> Vec<(TableReference, FieldRef)> {
        let named = |(at, field): (usize, &FieldRef)| {
            let field = field.as_ref().clone().with_name(name_in_row(at));
            (TableReference::bare(qualifier), FieldRef::new(field))
        };
        table.arrow.fields().iter().enumerate().map(named).collect()
    }

    /// What a view over these columns shows.
    fn through(&self, binder: &Binder<'_>, level: &Level) -> Result<Self> {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for column in &level.columns {
            let (value, field) = match column.base {
                Some(at) => (self.values[at].clone(), Arc::clone(&self.fields[at])),
                // Its type is of no use to anybody, since nothing can name the column.
                None if !is_of_row(&column.value) => (None, Arc::clone(&self.fields[0])),
                None => self.value(binder, level, &column.value)?,
            };
            fields.push(FieldRef::new(field.as_ref().clone().with_name(&column.name)));
            values.push(value);
        }
        Ok(ShownColumns { fields, values })
    }

    /// An expression of a view over these columns as one over the row, and the field that it would be.
    fn value(
        &self,
        binder: &Binder<'_>,
        level: &Level,
        expr: &Expr,
    ) -> Result<(Option<PlanExpr>, FieldRef)> {
        let alias = TableReference::bare(level.alias.as_str());
        let named = self.fields.iter().zip(&level.base_columns).map(|(field, name)| {
            (alias.clone(), FieldRef::new(field.as_ref().clone().with_name(name)))
        });
        let schema = row_schema(&named.collect::<Vec<_>>())?;
        let (bound, collation) = binder.collated_expr(expr, &schema, &[])?;
        let (_, field) = bound.to_field(&schema).map_err(|error| sql_error(error, ""))?;
        let field = with_collation(&field, collation.as_deref());
        let mut is_known = true;
        let bound = bound.transform_up(|expr| {
            let PlanExpr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            match &self.values[schema.index_of_column(column)?] {
                Some(value) => Ok(Transformed::yes(value.clone())),
                None => {
                    is_known = false;
                    Ok(Transformed::no(expr))
                }
            }
        });
        let bound = bound.data().map_err(|error| sql_error(error, ""))?;
        Ok((is_known.then_some(bound), field))
    }

    /// The schema of expressions over a row: its own columns under names that nobody can write, with others behind, then
    /// the view's columns under an alias.
    pub fn schema(
        &self,
        table: &Table,
        alias: &str,
        others: &[(TableReference, FieldRef)],
    ) -> Result<DFSchema> {
        let mut fields = Self::row(table, ROW);
        fields.extend(others.iter().cloned());
        fields.extend(self.named(alias));
        row_schema(&fields)
    }

    /// As [`ShownColumns::schema`] for DO UPDATE, which sees the row that is there and the one that was kept out.
    pub fn schema_of_conflict(
        &self,
        table: &Table,
        alias: &str,
        others: &[(TableReference, FieldRef)],
    ) -> Result<DFSchema> {
        let mut fields = Self::row(table, ROW);
        fields.extend(Self::row(table, ROW_EXCLUDED));
        fields.extend(others.iter().cloned());
        fields.extend(self.named(alias));
        fields.extend(self.named("excluded"));
        row_schema(&fields)
    }

    fn named<'a>(&'a self, alias: &'a str) -> impl Iterator<Item = (TableReference, FieldRef)> {
        self.fields.iter().map(move |field| (TableReference::bare(alias), Arc::clone(field)))
    }

    /// The value of a column, over the row. Errors: 0A000 for a subquery.
    pub fn value_at(&self, at: usize) -> Result<PlanExpr> {
        self.values[at].clone().ok_or_else(subquery_column)
    }

    /// An expression over one of these schemas as one over the row alone.
    pub fn over_row(&self, expr: PlanExpr, schema: &DFSchema) -> Result<PlanExpr> {
        let all = schema.fields().len();
        let width = self.fields.len();
        let is_conflict = schema.iter().any(|(name, _)| name == Some(&ROW_EXCLUDED.into()));
        let first = all - if is_conflict { 2 * width } else { width };
        let value = |expr: PlanExpr| {
            let PlanExpr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let Some(at) = schema.index_of_column(column)?.checked_sub(first) else {
                return Ok(Transformed::no(expr));
            };
            let value = self.value_at(at % width).map_err(external)?;
            Ok(Transformed::yes(if at < width { value } else { of_excluded(value)? }))
        };
        expr.transform_up(value).data().map_err(|error| sql_error(error, ""))
    }
}

/// A value over the row as one over the row that was kept out.
fn of_excluded(value: PlanExpr) -> datafusion::common::Result<PlanExpr> {
    let moved = value.transform_up(|expr| match expr {
        PlanExpr::Column(column) => {
            let column = Column::new(Some(ROW_EXCLUDED), column.name);
            Ok(Transformed::yes(PlanExpr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    });
    moved.data()
}

fn column_of_row(qualifier: &str, at: usize) -> PlanExpr {
    PlanExpr::Column(Column::new(Some(qualifier), name_in_row(at)))
}

fn name_in_row(at: usize) -> String {
    format!("column\u{1}{at}")
}

fn row_schema(fields: &[(TableReference, FieldRef)]) -> Result<DFSchema> {
    let fields = fields.iter().map(|(name, field)| (Some(name.clone()), Arc::clone(field)));
    DFSchema::new_with_metadata(fields.collect(), Default::default())
        .map_err(|error| sql_error(error, ""))
}

/// What WITH CHECK OPTION of a view asks of a row: that the view shows it.
pub(super) struct ViewCheck {
    view: String,
    program: Program,
}

impl ViewCheck {
    /// Looks at a row of the table. Errors: 44000, those of the condition.
    pub fn verify(
        &self,
        table: &Table,
        row: &[ValueRef<'_>],
        env: &Env<'_>,
        arena: &Arena,
    ) -> Result<()> {
        match self.program.passes(row, env, arena)? {
            true => Ok(()),
            false => Err(crate::constraints::check_option_violation(table, &self.view, row)),
        }
    }
}
