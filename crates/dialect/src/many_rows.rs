//! Functions that return many rows, and window functions: where a SELECT may call them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, ObjectNamePart, Query, Select, TableFactor, Visit, Visitor,
};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

/// Functions that return many rows.
pub const FUNCTIONS: &[&str] = &[
    "generate_series",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "jsonb_path_query",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "unnest",
];

/// Whether the function of this name returns many rows.
pub fn returns_rows(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Whether a call is of such a function.
pub(crate) fn is_of_rows(function: &Function) -> bool {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    name.is_some_and(|name| returns_rows(&name))
}

/// Whether a query makes several rows of one, by `unnest` or a function like that.
pub fn repeats_rows(query: &Query) -> bool {
    struct Unnest;
    impl Visitor for Unnest {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            let name = match factor {
                TableFactor::UNNEST { .. } => return ControlFlow::Break(()),
                TableFactor::Function { name, .. } => name,
                TableFactor::Table { name, args: Some(_), .. } => name,
                _ => return ControlFlow::Continue(()),
            };
            let own = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
            // These stand beside the rows, not among them.
            let joined = |own: &String| matches!(own.as_str(), "generate_series" | "range");
            match own.filter(|own| !joined(own)) {
                Some(own) if FUNCTIONS.contains(&own.as_str()) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function) if is_of_rows(function) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Unnest).is_break()
}

/// Refuses functions that return many rows, and window functions, outside the SELECT list; the former
/// within CASE, COALESCE, FILTER and the arguments of aggregates there too. Errors: 0A000, 42P20.
pub(crate) fn check(select: &Select) -> Result<()> {
    forbid(&select.selection, "WHERE")?;
    forbid(&select.having, "HAVING")?;
    if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
        // A grouping by what the list holds has rows of it; others have none to group.
        for expr in exprs {
            Calls::new(None).run(expr)?;
        }
    }
    for item in &select.projection {
        Calls::new(None).run(item)?;
    }
    Ok(())
}

/// Refuses functions that return many rows in a statement's `place` outside subqueries. Errors: 0A000.
pub fn forbid_in(of: &impl Visit, place: &'static str) -> Result<()> {
    Calls::new(Some(place)).run(of)
}

fn forbid(expr: &Option<Expr>, place: &'static str) -> Result<()> {
    expr.as_ref().map_or(Ok(()), |expr| Calls::new(Some(place)).run(expr))
}

/// Calls of such functions outside subqueries.
struct Calls {
    /// Places around, of which the last forbids them.
    places: Vec<&'static str>,
    queries: usize,
}

impl Calls {
    fn new(place: Option<&'static str>) -> Self {
        Calls { places: place.into_iter().collect(), queries: 0 }
    }

    fn run(mut self, of: &impl Visit) -> Result<()> {
        match of.visit(&mut self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn many_rows_in(place: &str) -> SqlError {
    let message = format!("set-returning functions are not allowed in {place}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .hint("You might be able to move the set-returning function into FROM.")
}

fn window_in(place: &str) -> SqlError {
    let message = format!("window functions are not allowed in {place}");
    SqlError::new(SqlState::WINDOWING_ERROR, message)
}

/// The construct that an expression is, if it takes no rows.
fn place_of(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Case { .. } => Some("CASE"),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
            match name.as_deref() {
                Some("coalesce") => Some("COALESCE"),
                Some(
                    "count" | "sum" | "avg" | "min" | "max" | "array_agg" | "string_agg"
                    | "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg",
                ) => Some("arguments of aggregates"),
                _ => function.filter.as_ref().map(|_| "FILTER"),
            }
        }
        _ => None,
    }
}

impl Visitor for Calls {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        match (expr, self.places.last()) {
            (Expr::Function(function), Some(place)) if is_of_rows(function) => {
                ControlFlow::Break(many_rows_in(place))
            }
            (Expr::Function(function), Some(place @ &("WHERE" | "HAVING")))
                if function.over.is_some() =>
            {
                ControlFlow::Break(window_in(place))
            }
            _ => {
                self.places.extend(place_of(expr));
                ControlFlow::Continue(())
            }
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if self.queries == 0 && place_of(expr).is_some() {
            self.places.pop();
        }
        ControlFlow::Continue(())
    }
}
