//! The assignments of SET, in UPDATE and in ON CONFLICT DO UPDATE.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Expr, ObjectName, Query, SelectItem, SetExpr,
};

use halcyon_catalog::Table;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::parts;
use halcyon_sql::parse::parse_own_query;

/// Assignments of SET, column by column; `(a, b) = (1, 2)` is taken apart.
pub(super) fn assignments<'q>(
    table: &Table,
    assignments: &'q [ast::Assignment],
) -> Result<Vec<(u16, Cow<'q, Expr>)>> {
    let mut found = Vec::new();
    let column = |name: &ObjectName| -> Result<u16> {
        table.require_column(&parts(name)?.pop().unwrap_or_default())
    };
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                found.push((column(name)?, Cow::Borrowed(&assignment.value)));
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
                        return Err(SqlError::unsupported("SET of several columns by this expression")
                            .hint("Give a value to each column."));
                    }
                };
                if values.len() != names.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in names.iter().zip(values) {
                    found.push((column(name)?, Cow::Borrowed(value)));
                }
            }
        }
    }
    Ok(found)
}

/// A subquery that gives one column of another, which gives `count` of them: PostgreSQL evaluates such a subquery
/// once for all columns, so it must not depend on how often it is run.
///
/// Errors: 42601 if the subquery is seen to give another number of columns.
fn nth_column(query: &Query, at: usize, count: usize) -> Result<Expr> {
    let is_one =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if let SetExpr::Select(select) = query.body.as_ref()
        && select.projection.iter().all(is_one)
        && select.projection.len() != count
    {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "number of columns does not match number of values",
        ));
    }
    let names: Vec<String> = (1..=count).map(|number| format!("column{number}")).collect();
    let text = format!("SELECT {} FROM ({query}) AS assigned ({})", names[at], names.join(", "));
    Ok(Expr::Subquery(Box::new(parse_own_query(&text))))
}
