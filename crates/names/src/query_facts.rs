//! What a query's syntax tree says that needs neither a catalog nor a plan: how many parameters it has, and whether it
//! casts to types whose values are names of objects.

use datafusion::sql::sqlparser::ast;
use halcyon_sql::error::SqlError;

/// The highest `$n` in a query.
pub fn parameter_count(query: &ast::Query) -> usize {
    struct Highest(usize);
    impl ast::Visitor for Highest {
        type Break = ();
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> std::ops::ControlFlow<()> {
            if let ast::Value::Placeholder(name) = &value.value
                && let Some(number) = name.strip_prefix('$').and_then(|n| n.parse().ok())
            {
                self.0 = self.0.max(number);
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut highest = Highest(0);
    let _ = ast::Visit::visit(query, &mut highest);
    highest.0
}

/// Errors: 0A000 for a cast to a type of names (`regclass` and its like), whose values change with the
/// catalog.
pub fn names_no_objects(query: &ast::Query) -> halcyon_sql::error::Result<()> {
    struct Casts;
    impl ast::Visitor for Casts {
        type Break = SqlError;
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<SqlError> {
            if let ast::Expr::Cast { data_type, .. } = expr {
                let name = data_type.to_string().to_lowercase();
                let word = name.rsplit('.').next().unwrap_or(&name).trim_matches('"');
                if word.starts_with("reg") || matches!(word, "xid" | "cid") {
                    let told = format!("CAST to {word} in a materialized view");
                    return std::ops::ControlFlow::Break(SqlError::unsupported(told));
                }
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    match ast::Visit::visit(query, &mut Casts) {
        std::ops::ControlFlow::Break(error) => Err(error),
        std::ops::ControlFlow::Continue(()) => Ok(()),
    }
}
