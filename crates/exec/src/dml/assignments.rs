//! The assignments of SET, in UPDATE and in ON CONFLICT DO UPDATE.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Expr, ObjectName, Query, SelectItem, SetExpr, Visit, Visitor,
};
use std::ops::ControlFlow;

use super::ident;
use super::named::NamedTarget;
use super::source::is_default;
use halcyon_dialect::made::call;
use halcyon_dialect::many_rows::forbid_in;
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::parts;
use halcyon_sql::parse::parse_own_query;
use halcyon_sql::syntax::assigned_element;
use halcyon_sql::types::SqlType;

/// Assignments of SET, column by column; `(a, b) = (1, 2)` is taken apart, and assignments to elements of one array
/// are put together. `alias`: the name of the target, where a bare name may mean another table's column.
pub(super) fn assignments<'q>(
    target: &NamedTarget,
    alias: Option<&str>,
    assignments: &'q [ast::Assignment],
) -> Result<Vec<(u16, Cow<'q, Expr>)>> {
    let mut found: Vec<(u16, Cow<'q, Expr>)> = Vec::new();
    // Columns of which elements are assigned.
    let mut elements: Vec<u16> = Vec::new();
    let value = |name: &ObjectName, value: &'q Expr| -> Result<Cow<'q, Expr>> {
        let default = match is_default(value) {
            true => target.default_in_set(&parts(name)?.pop().unwrap_or_default())?,
            false => None,
        };
        Ok(default.map_or(Cow::Borrowed(value), Cow::Owned))
    };
    let column = |name: &ObjectName| -> Result<u16> {
        let mut named = parts(name)?;
        if named.len() > 1 {
            // PostgreSQL takes the first for a column of a composite type.
            let message =
                format!("column \"{}\" of relation \"{}\" does not exist", named[0], target.name());
            let hint = "SET target columns cannot be qualified with the relation name.";
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).hint(hint));
        }
        let name = named.pop().unwrap_or_default();
        if system_columns::is_one(&name) && !target.has_column(&name) {
            let message = format!("cannot assign to system column \"{name}\"");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        target.require_column(&name)
    };
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name)
                if let Some((subscript, value)) = assigned_element(&assignment.value) =>
            {
                if is_default(value) {
                    let message = "cannot set an array element to DEFAULT";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let at = column(name)?;
                require_array(target, at)?;
                // Each stands within the one before.
                if assignments.len() > ELEMENTS_MAX {
                    let message = format!("more than {ELEMENTS_MAX} assignments beside an element");
                    return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
                }
                let own = ident(&parts(name)?.pop().unwrap_or_default());
                let before = match elements.contains(&at) {
                    true => take_assignment(&mut found, at),
                    false => None,
                };
                let array = match (before, alias) {
                    (Some(before), _) => before.into_owned(),
                    (None, Some(alias)) => Expr::CompoundIdentifier(vec![ident(alias), own]),
                    (None, None) => Expr::Identifier(own),
                };
                elements.push(at);
                let set = call(SET_ELEMENT, vec![array, subscript.clone(), value.clone()]);
                found.push((at, Cow::Owned(set)));
            }
            AssignmentTarget::ColumnName(name) => {
                found.push((column(name)?, value(name, &assignment.value)?));
            }
            AssignmentTarget::Tuple(names) => {
                let values = match &assignment.value {
                    Expr::Tuple(values) => values.as_slice(),
                    Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
                        return Err(SqlError::unsupported("ROW in SET").hint("Leave ROW away."));
                    }
                    Expr::Nested(value) if names.len() == 1 => std::slice::from_ref(value.as_ref()),
                    Expr::Subquery(query) => {
                        for (at, name) in names.iter().enumerate() {
                            let value = nth_column(query, at, names.len())?;
                            found.push((column(name)?, Cow::Owned(value)));
                        }
                        continue;
                    }
                    _ => {
                        return Err(SqlError::unsupported(
                            "SET of several columns by this expression",
                        )
                        .hint("Give a value to each column."));
                    }
                };
                if values.len() != names.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, given) in names.iter().zip(values) {
                    found.push((column(name)?, value(name, given)?));
                }
            }
        }
    }
    found.iter().try_for_each(|(_, value)| forbid_in(value.as_ref(), "UPDATE"))?;
    Ok(found)
}

/// The most assignments of a SET that assigns to elements of arrays.
const ELEMENTS_MAX: usize = 128;

/// The function of an array, a subscript and an element.
const SET_ELEMENT: &str = "array\u{1}set";

/// Takes the assignment to a column out of those that were found.
fn take_assignment<'q>(
    found: &mut Vec<(u16, Cow<'q, Expr>)>,
    column: u16,
) -> Option<Cow<'q, Expr>> {
    let at = found.iter().position(|(own, _)| *own == column)?;
    Some(found.remove(at).1)
}

/// Errors: 42804 if a column is neither an array nor a `jsonb`.
fn require_array(target: &NamedTarget, column: u16) -> Result<()> {
    let ty = target.table.columns[column as usize].ty;
    match ty {
        SqlType::Array(_) | SqlType::Jsonb => Ok(()),
        _ => {
            let message =
                format!("cannot subscript type {ty} because it does not support subscripting");
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
    }
}

/// One of the `count` columns that a subquery gives: the expression of a list without more, or a subquery over the one
/// that is given. PostgreSQL evaluates the subquery once for all columns; here each column has its own.
///
/// Errors: 42601 if the subquery is seen to give another number of columns.
fn nth_column(query: &Query, at: usize, count: usize) -> Result<Expr> {
    let is_one = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    if let SetExpr::Select(select) = query.body.as_ref()
        && select.projection.iter().all(is_one)
        && select.projection.len() != count
    {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "number of columns does not match number of values",
        ));
    }
    if let SetExpr::Select(select) = query.body.as_ref()
        && let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            select.projection.get(at)
        // A function might be an aggregate, which a query without tables may have.
        && !has_call(&select.projection)
        && query.to_string() == format!("SELECT {}", shown(&select.projection))
    {
        return Ok(expr.clone());
    }
    let names: Vec<String> = (1..=count).map(|number| format!("column{number}")).collect();
    let text = format!("SELECT {} FROM ({query}) AS assigned ({})", names[at], names.join(", "));
    Ok(Expr::Subquery(Box::new(parse_own_query(&text))))
}

fn has_call(items: &[SelectItem]) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    items.iter().any(|item| item.visit(&mut Calls).is_break())
}

fn shown(items: &[SelectItem]) -> String {
    items.iter().map(SelectItem::to_string).collect::<Vec<_>>().join(", ")
}
