//! Stored expressions and queries follow a label of an enumeration that gets another name.
//!
//! A stored text says labels as constants in quotes, and does not say of which type a constant is. So each
//! constant that reads like the label is asked for its type: in its place stands a label that no enumeration
//! has, and the text is bound. If binding fails for that label and this enumeration, the constant is one of its.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Value, ValueWithSpan, VisitMut, VisitorMut};
use halcyon_base::ids::TableId;

use super::constraint::check_default;
use super::{DdlContext, row_schema};
use halcyon_catalog::{Relation, Table, TableKind, TypeKind, UserType};
use halcyon_plan::bind::Binder;
use halcyon_plan::domains;
use halcyon_sql::enums::EnumId;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::{parse_own_expr, parse_query};

/// A label that no enumeration has: it is longer than labels may be.
const NO_LABEL: &str = "no label no label no label no label no label no label no label no label";

/// A label that gets another name.
struct Renamed<'a> {
    /// The enumeration, as messages name it.
    shown: String,
    from: &'a str,
    to: &'a str,
}

/// Lets what is stored follow. The registered labels are still as they were.
///
/// Errors: 0A000 for a label within the text of an array.
pub(super) fn follow(cx: &mut DdlContext<'_>, id: EnumId, from: &str, to: &str) -> Result<()> {
    let renamed = Renamed { shown: id.definition().shown(), from, to };
    let types: Vec<Arc<UserType>> = cx.catalog.types.values().cloned().collect();
    for own in types {
        if let Some(changed) = renamed.domain(&cx.binder(), &own)? {
            cx.catalog.put_type(changed);
        }
    }
    let tables: Vec<Arc<Table>> = cx.catalog.tables.values().cloned().collect();
    for table in tables {
        let id: TableId = table.id;
        if let Some(changed) = renamed.table(&cx.binder(), &table)? {
            cx.catalog.change_table(id, |table| *table = changed);
        }
    }
    let schemas: Vec<String> = cx.catalog.schemas.keys().cloned().collect();
    for schema in schemas {
        let relations = cx.catalog.schemas[&schema].relations.values();
        let views = relations.filter_map(|relation| match relation {
            Relation::View(view) => Some(Arc::clone(view)),
            _ => None,
        });
        for mut view in views.collect::<Vec<_>>() {
            if let Some(query) = renamed.query(&cx.binder(), &view.query)? {
                Arc::make_mut(&mut view).query = query;
                cx.catalog.put(&schema, &view.name.clone(), Relation::View(view));
            }
        }
    }
    Ok(())
}

impl Renamed<'_> {
    /// A domain whose texts have changed.
    fn domain(&self, binder: &Binder<'_>, own: &UserType) -> Result<Option<UserType>> {
        let mut own = own.clone();
        let TypeKind::Domain(domain) = &mut own.kind else { return Ok(None) };
        let (name, base, mut changed) = (own.name.clone(), domain.base, false);
        if let Some(default) = &mut domain.default {
            changed |= self.expr(default, |expr| check_default(binder, expr, &name, base))?;
        }
        for check in &mut domain.checks {
            changed |= self.expr(&mut check.expr, |expr| {
                domains::bound(&|expr, schema| binder.expr(expr, schema), expr, base).map(drop)
            })?;
        }
        Ok(changed.then_some(own))
    }

    /// A table whose texts have changed.
    fn table(&self, binder: &Binder<'_>, table: &Table) -> Result<Option<Table>> {
        let schema = row_schema(table)?;
        let mut table = table.clone();
        let mut changed = false;
        let over_rows = |expr: &_| binder.expr(expr, &schema).map(drop);
        for column in &mut table.columns {
            if let Some(default) = &mut column.default {
                let bound = |expr: &_| check_default(binder, expr, &column.name, column.ty);
                changed |= self.expr(default, bound)?;
            }
            if let Some(generated) = &mut column.generated {
                changed |= self.expr(generated, over_rows)?;
            }
        }
        for check in &mut table.checks {
            changed |= self.expr(&mut check.expr, over_rows)?;
        }
        for derived in table.indexes.iter_mut().filter_map(|index| index.derived.as_mut()) {
            for key in &mut derived.keys {
                changed |= self.expr(&mut key.expr, over_rows)?;
            }
            if let Some(predicate) = &mut derived.predicate {
                changed |= self.expr(predicate, over_rows)?;
            }
        }
        if let TableKind::Materialized(view) = &mut table.kind {
            let view = Arc::make_mut(view);
            if let Some(query) = self.query(binder, &view.query)? {
                view.query = query;
                changed = true;
            }
            for guard in &mut view.guards {
                changed |= self.expr(&mut guard.condition, over_rows)?;
            }
        }
        Ok(changed.then_some(table))
    }

    fn expr(
        &self,
        text: &mut String,
        bound: impl Fn(&datafusion::sql::sqlparser::ast::Expr) -> Result<()>,
    ) -> Result<bool> {
        if !text.contains(self.from) {
            return Ok(false);
        }
        match self.node(&parse_own_expr(text), bound)? {
            Some(changed) => *text = changed,
            None => return Ok(false),
        }
        Ok(true)
    }

    fn query(&self, binder: &Binder<'_>, text: &str) -> Result<Option<String>> {
        if !text.contains(self.from) {
            return Ok(None);
        }
        self.node(&parse_query(text)?, |query| binder.query(query).map(drop))
    }

    /// The text with another constant where the label stands; `None` if it stands nowhere.
    fn node<N: VisitMut + Clone + Display>(
        &self,
        node: &N,
        bound: impl Fn(&N) -> Result<()>,
    ) -> Result<Option<String>> {
        let mut may_be = Vec::new();
        self.constants(&mut node.clone(), |_, is_array, _| may_be.push(is_array));
        let mut is_label = vec![false; may_be.len()];
        for (wanted, is_array) in may_be.into_iter().enumerate() {
            let mut asking = node.clone();
            self.constants(&mut asking, |at, _, text| {
                if at == wanted {
                    *text = if is_array { format!("{{{NO_LABEL}}}") } else { NO_LABEL.to_owned() };
                }
            });
            is_label[wanted] = bound(&asking).is_err_and(|error| self.is_about(&error));
            if is_label[wanted] && is_array {
                let message = format!(
                    "renaming label \"{}\", which an array in a stored expression has",
                    self.from
                );
                return Err(SqlError::unsupported(message));
            }
        }
        let mut changed = node.clone();
        self.constants(&mut changed, |at, _, text| {
            if is_label[at] {
                *text = self.to.to_owned();
            }
        });
        Ok(is_label.contains(&true).then(|| changed.to_string()))
    }

    fn is_about(&self, error: &SqlError) -> bool {
        error.state() == SqlState::INVALID_TEXT_REPRESENTATION
            && error.message()
                == format!("invalid input value for enum {}: \"{NO_LABEL}\"", self.shown)
    }

    /// Visits the constants that read like the label, or like an array that has it: place, whether it is an array,
    /// text.
    fn constants(&self, node: &mut impl VisitMut, visit: impl FnMut(usize, bool, &mut String)) {
        struct Constants<'a, F> {
            label: &'a str,
            at: usize,
            visit: F,
        }
        impl<F: FnMut(usize, bool, &mut String)> VisitorMut for Constants<'_, F> {
            type Break = ();
            fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
                if let Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) =
                    &mut value.value
                {
                    let is_array = text.starts_with('{') && text.contains(self.label);
                    if is_array || text == self.label {
                        (self.visit)(self.at, is_array, text);
                        self.at += 1;
                    }
                }
                ControlFlow::Continue(())
            }
        }
        let _ = node.visit(&mut Constants { label: self.from, at: 0, visit });
    }
}
