//! The assignments of SET, in UPDATE and in ON CONFLICT DO UPDATE.

use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, Expr, ObjectName};

use halcyon_catalog::Table;
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::parts;

/// Assignments of SET, column by column; `(a, b) = (1, 2)` is taken apart.
pub(super) fn assignments<'q>(
    table: &Table,
    assignments: &'q [ast::Assignment],
) -> Result<Vec<(u16, &'q Expr)>> {
    let mut found = Vec::new();
    let column = |name: &ObjectName| -> Result<u16> {
        let name = parts(name)?.pop().unwrap_or_default();
        if system_columns::is_one(&name) && table.column(&name).is_none() {
            let message = format!("cannot assign to system column \"{name}\"");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        table.require_column(&name)
    };
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                found.push((column(name)?, &assignment.value));
            }
            AssignmentTarget::Tuple(names) => {
                let values = match &assignment.value {
                    Expr::Tuple(values) => values.as_slice(),
                    Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
                        return Err(SqlError::unsupported("ROW in SET").hint("Leave ROW away."));
                    }
                    Expr::Nested(value) if names.len() == 1 => std::slice::from_ref(value.as_ref()),
                    _ => {
                        return Err(SqlError::unsupported("SET of several columns by a subquery")
                            .hint("Set each column by a subquery of its own."));
                    }
                };
                if values.len() != names.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in names.iter().zip(values) {
                    found.push((column(name)?, value));
                }
            }
        }
    }
    Ok(found)
}
