//! What a client is told of a view that fails.

use halcyon_views::ViewError;

use halcyon_sql::error::SqlError;

/// A view's error as SQL's: state, message, detail and hint are the view's own.
pub fn view_error(error: ViewError) -> SqlError {
    let mut told = SqlError::new(error.sql_state(), error.to_string());
    if let Some(detail) = error.detail() {
        told = told.detail(detail);
    }
    match error.hint() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}
