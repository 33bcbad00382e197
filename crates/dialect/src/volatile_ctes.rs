//! Queries in WITH that must run once.
//!
//! The planner puts a query of WITH wherever its name stands. That is the same unless it calls what gives
//! another value each time, and is named more than once.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ObjectName, ObjectNamePart, Query, Visit, Visitor, With,
};

use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;

/// Functions that give another value each time.
const VOLATILE: &[&str] = &[
    "nextval",
    "setval",
    "random",
    "gen_random_uuid",
    "uuid_generate_v4",
    "uuid",
    "clock_timestamp",
];

/// Whether each entry of a WITH must run once, because it is volatile and named more than once. `rest` is
/// called with visitors, and shows them the statement behind the WITH.
pub fn run_once<R>(with: &With, rest: impl Fn(&mut Names<'_>) -> R) -> Vec<bool> {
    let entries = &with.cte_tables;
    let mut volatile: Vec<bool> = Vec::new();
    for (at, cte) in entries.iter().enumerate() {
        let named = |before: usize| count(&entries[before], |names| visit(cte, names)) > 0;
        // What an entry names is put into it, and runs as often as the entry.
        let inherits = (0..at).any(|before| volatile[before] && named(before));
        volatile.push(inherits || is_volatile(&cte.query));
    }
    let is_named_twice = |cte: &Cte| {
        // An entry that names itself is recursive; how often it runs is its own affair.
        let is_recursive = with.recursive && count(cte, |names| visit(cte, names)) > 0;
        let of_entries: usize =
            entries.iter().map(|other| count(cte, |names| visit(other, names))).sum();
        !is_recursive && of_entries + count(cte, |names| drop(rest(names))) > 1
    };
    entries.iter().zip(volatile).map(|(cte, volatile)| volatile && is_named_twice(cte)).collect()
}

/// Whether a tree calls what gives another value each time.
pub fn is_volatile(tree: &impl Visit) -> bool {
    tree.visit(&mut Calls).is_break()
}

/// Errors: 0A000 for a query in WITH that must run once, in a place where it would not.
pub(crate) fn refuse(query: &Query) -> Result<()> {
    let Some(with) = &query.with else { return Ok(()) };
    let rest = |names: &mut Names<'_>| {
        let _ = query.body.visit(names);
        let _ = query.order_by.visit(names);
        let _ = query.limit_clause.visit(names);
    };
    let once = run_once(with, rest);
    let Some(at) = once.iter().position(|once| *once) else { return Ok(()) };
    let name = fold(&with.cte_tables[at].alias.name);
    let what = format!("a volatile query in WITH that is named more than once (\"{name}\")");
    Err(SqlError::unsupported(what).detail("It would run once for each time that it is named."))
}

/// How many places name the entry.
fn count(cte: &Cte, show: impl FnOnce(&mut Names<'_>)) -> usize {
    let name = fold(&cte.alias.name);
    let mut names = Names::of(&name);
    show(&mut names);
    names.found
}

fn visit(cte: &Cte, names: &mut Names<'_>) {
    let _ = cte.query.visit(names);
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

/// Counts the places where a table of some name stands.
pub struct Names<'a> {
    name: &'a str,
    found: usize,
}

impl<'a> Names<'a> {
    /// Nothing found yet.
    pub fn of(name: &'a str) -> Self {
        Names { name, found: 0 }
    }

    /// How many places were found.
    pub fn found(&self) -> usize {
        self.found
    }
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
