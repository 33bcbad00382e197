//! Queries in WITH that must run once.
//!
//! The planner puts a query of WITH wherever its name stands. That is the same unless it calls what gives
//! another value each time, and is named more than once.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Query, Visit, Visitor};

use crate::error::{Result, SqlError};
use crate::identifier::fold;

/// Functions that give another value each time.
const VOLATILE: &[&str] =
    &["nextval", "setval", "random", "gen_random_uuid", "uuid", "clock_timestamp"];

/// Errors: 0A000 for a query in WITH that is volatile and named more than once.
pub(crate) fn run_once(query: &Query) -> Result<()> {
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        if cte.query.visit(&mut Calls).is_continue() {
            continue;
        }
        let name = fold(&cte.alias.name);
        let mut names = Names { name: &name, found: 0 };
        let _ = query.visit(&mut names);
        if names.found > 1 {
            let what =
                format!("a volatile query in WITH that is named more than once (\"{name}\")");
            return Err(SqlError::unsupported(what)
                .detail("It would run once for each time that it is named."));
        }
    }
    Ok(())
}

struct Calls;

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(name) = last(&function.name)
            && VOLATILE.contains(&name.as_str())
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Counts the places where a table of that name stands.
struct Names<'a> {
    name: &'a str,
    found: usize,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let named = relation.0.len() == 1 && last(relation).as_deref() == Some(self.name);
        self.found += usize::from(named);
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(fold)
}
