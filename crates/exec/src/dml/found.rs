//! Subqueries of ON CONFLICT DO UPDATE, which the statement's source computes.
//!
//! What DO UPDATE sets is computed row by row, where a subquery cannot be planned. One that names no column of the
//! statement's rows has one value for all of them: the source of the VALUES gives that value behind the values that go
//! into the table, and expressions name the value as a column.

use std::borrow::Cow;
use std::ops::ControlFlow;

use arrow::datatypes::FieldRef;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{self, Expr, VisitMut, VisitorMut};

use super::assignments::assignments;
use super::ident;
use super::named::NamedTarget;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// What the found values' columns are qualified with; no statement can write the name.
const FOUND: &str = "found\u{1}rows";

/// DO UPDATE with columns in the places of its subqueries.
pub(super) struct Updates<'q> {
    pub assignments: Vec<(u16, Cow<'q, Expr>)>,
    pub selection: Option<Cow<'q, Expr>>,
    /// The subqueries, in the order of the columns.
    pub sought: Vec<Expr>,
}

impl<'q> Updates<'q> {
    /// Errors: those of the assignments.
    pub fn of(target: &NamedTarget, update: &'q ast::DoUpdate) -> Result<Self> {
        let mut sought = Sought(Vec::new());
        let mut assignments = assignments(target, None, &update.assignments)?;
        for (_, expr) in &mut assignments {
            sought.replace(expr);
        }
        let mut selection = update.selection.as_ref().map(Cow::Borrowed);
        selection.iter_mut().for_each(|expr| sought.replace(expr));
        Ok(Updates { assignments, selection, sought: sought.0 })
    }

    /// The columns that stand for the subqueries, of the types that the source has found.
    pub fn columns(found: &[FieldRef]) -> Vec<(TableReference, FieldRef)> {
        let column = |(at, field): (usize, &FieldRef)| {
            let field = field.as_ref().clone().with_name(name(at)).with_nullable(true);
            (TableReference::bare(FOUND), field.into())
        };
        found.iter().enumerate().map(column).collect()
    }
}

/// The error of a source with subqueries of DO UPDATE: one that names columns of the row is not known as such.
pub(super) fn explained(error: SqlError) -> SqlError {
    match error.state() {
        SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_TABLE => error.hint(
            "A subquery of ON CONFLICT DO UPDATE cannot name columns of the rows that are written.",
        ),
        _ => error,
    }
}

fn name(at: usize) -> String {
    format!("found{at}")
}

/// Subqueries that have been replaced.
struct Sought(Vec<Expr>);

impl Sought {
    fn replace(&mut self, expr: &mut Cow<'_, Expr>) {
        let mut copy = expr.as_ref().clone();
        let before = self.0.len();
        let _ = VisitMut::visit(&mut copy, self);
        if self.0.len() > before {
            *expr = Cow::Owned(copy);
        }
    }
}

impl VisitorMut for Sought {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Subquery(_) | Expr::Exists { .. }) {
            let column = Expr::CompoundIdentifier(vec![ident(FOUND), ident(&name(self.0.len()))]);
            self.0.push(std::mem::replace(expr, column));
        }
        ControlFlow::Continue(())
    }
}
