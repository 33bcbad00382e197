//! PostgreSQL's functions of strings, numbers and dates that DataFusion lacks.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

/// All of them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    Vec::new()
}
