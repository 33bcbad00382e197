//! The options of views, and the defaults of their columns: what CREATE VIEW and ALTER VIEW say of them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateTableOptions, Expr, SqlOption, Value};

use super::{DdlContext, constraint, fold};
use halcyon_catalog::{Catalog, Relation, View, ViewOptions};
use halcyon_plan::updatable_views::{NO_COLUMNS, Updatable};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::ViewChange;

/// The options behind CREATE VIEW. Errors: 22023.
pub(super) fn options(given: &CreateTableOptions) -> Result<ViewOptions> {
    let mut options = ViewOptions::default();
    let given = match given {
        CreateTableOptions::None => return Ok(options),
        CreateTableOptions::With(given) => given,
        other => return Err(SqlError::unsupported(format!("the option {other} of a view"))),
    };
    for (name, value) in pairs(given)? {
        if options.iter().any(|(known, _)| known == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        options.set(&name, &value)?;
    }
    Ok(options)
}

/// Options of the SQL parser's as names and values; one alone is on.
pub(super) fn pairs(given: &[SqlOption]) -> Result<Vec<(String, String)>> {
    let pair = |option: &SqlOption| match option {
        SqlOption::Ident(name) => Ok((fold(name), "true".to_owned())),
        SqlOption::KeyValue { key, value } => {
            let value = match value {
                Expr::Identifier(word) => fold(word),
                Expr::Value(value) => match &value.value {
                    Value::SingleQuotedString(text) => text.clone(),
                    other => other.to_string(),
                },
                other => other.to_string(),
            };
            Ok((fold(key), value))
        }
        other => Err(SqlError::unsupported(format!("the option {other} of a view"))),
    };
    given.iter().map(pair).collect()
}

/// 0A000 for WITH CHECK OPTION of a view that cannot be written through.
pub(super) fn refuse_check_option(catalog: &Catalog, view: &Arc<View>) -> Result<()> {
    if view.options.check_option().is_none() {
        return Ok(());
    }
    let reason = match Updatable::of(catalog, view) {
        Ok(found) if found.levels[0].has_columns() => return Ok(()),
        Ok(_) => NO_COLUMNS,
        // What the view stands on may be replaced by something that can be written.
        Err(refused) if !Arc::ptr_eq(&refused.view, view) => return Ok(()),
        Err(refused) => refused.reason,
    };
    let message = "WITH CHECK OPTION is supported only on automatically updatable views";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(reason))
}

/// ALTER VIEW … SET, RESET and ALTER COLUMN. Errors: 42809, 42501, 22023, 0A000, 42703, those of a default.
pub(super) fn alter(cx: &mut DdlContext<'_>, name: &[String], change: &ViewChange) -> Result<()> {
    let found = cx.owned(name)?;
    let Relation::View(view) = found.relation else {
        return Err(halcyon_catalog::wrong_kind(found.name, "view"));
    };
    let mut view = Arc::clone(view);
    let own = Arc::make_mut(&mut view);
    match change {
        ViewChange::Set(given) => {
            given.iter().try_for_each(|(name, value)| own.options.set(name, value))?;
        }
        ViewChange::Reset(names) => names.iter().for_each(|name| own.options.reset(name)),
        ViewChange::Default(column, value) => {
            let name = fold(column);
            let Some((_, ty)) = own.columns.iter().find(|(known, _)| *known == name) else {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" of relation \"{}\" does not exist", own.name),
                ));
            };
            match value {
                Some(value) => {
                    constraint::check_default(&cx.binder(), value, &name, *ty)?;
                    own.defaults.insert(name, cx.binder().stored_text(value));
                }
                None => {
                    own.defaults.remove(&name);
                }
            }
        }
    }
    if matches!(change, ViewChange::Set(_)) {
        refuse_check_option(cx.catalog, &view)?;
    }
    let (schema, name) = (view.schema.clone(), view.name.clone());
    cx.catalog.put(&schema, &name, Relation::View(view));
    Ok(())
}
