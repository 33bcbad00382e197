//! Going through all expressions and steps of a program.

use crate::program::{Bound, Expr, Program, Step};

impl Program {
    /// Calls `each` for every expression, inner ones included.
    pub fn for_each_expr(&self, each: &mut dyn FnMut(&Expr)) {
        for derived in self.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
            steps(&derived.steps, each);
            expr(&derived.exists, each);
            list(&derived.row, each);
        }
        for statement in self.triggers.iter().flat_map(|trigger| &trigger.statements) {
            steps(&statement.steps, each);
            list(&statement.key, each);
            list(&statement.add, each);
        }
    }

    /// Calls `each` for every step, inner ones included.
    pub fn for_each_step(&self, each: &mut dyn FnMut(&Step)) {
        for derived in self.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
            inner_steps(&derived.steps, each);
        }
        for statement in self.triggers.iter().flat_map(|trigger| &trigger.statements) {
            inner_steps(&statement.steps, each);
        }
    }
}

fn inner_steps(all: &[Step], each: &mut dyn FnMut(&Step)) {
    for step in all {
        each(step);
        if let Step::Sum { steps, .. } = step {
            inner_steps(steps, each);
        }
    }
}

fn list(exprs: &[Expr], each: &mut dyn FnMut(&Expr)) {
    exprs.iter().for_each(|value| expr(value, each));
}

fn steps(all: &[Step], each: &mut dyn FnMut(&Expr)) {
    for step in all {
        match step {
            Step::Let { value, .. } => expr(value, each),
            Step::If(condition) => expr(condition, each),
            Step::Get { key, .. } => list(key, each),
            Step::Each { prefix, .. } | Step::Edge { prefix, .. } => list(prefix, each),
            Step::RangeSum { prefix, low, high, .. } => {
                list(prefix, each);
                for bound in [low, high] {
                    if let Bound::Included(value) | Bound::Excluded(value) = bound {
                        expr(value, each);
                    }
                }
            }
            Step::Search { prefix, limit, .. } => {
                list(prefix, each);
                expr(limit, each);
            }
            Step::Sum { steps: inner, terms } => {
                steps(inner, each);
                terms.iter().for_each(|(term, _)| expr(term, each));
            }
        }
    }
}

/// Calls `each` for an expression and all within it.
pub fn for_each_within(value: &Expr, each: &mut dyn FnMut(&Expr)) {
    expr(value, each);
}

fn expr(value: &Expr, each: &mut dyn FnMut(&Expr)) {
    each(value);
    match value {
        Expr::Reg(_)
        | Expr::Int(_)
        | Expr::Float(_)
        | Expr::Wide(_)
        | Expr::Null(_)
        | Expr::Text(_) => {}
        Expr::Binary(_, _, a, b) | Expr::Compare(_, _, a, b) | Expr::CompareText(_, a, b) => {
            expr(a, each);
            expr(b, each);
        }
        Expr::Neg(_, a)
        | Expr::IsNull(_, a)
        | Expr::Not(a)
        | Expr::DatePart(_, a)
        | Expr::DateOf(a) => expr(a, each),
        Expr::Cast { value, .. }
        | Expr::Rescale { value, .. }
        | Expr::Like { value, .. }
        | Expr::Substring { value, .. } => expr(value, each),
        Expr::And(values)
        | Expr::Or(values)
        | Expr::Coalesce(_, values)
        | Expr::Call { args: values, .. } => list(values, each),
        Expr::Case { when, otherwise, .. } => {
            for (condition, value) in when {
                expr(condition, each);
                expr(value, each);
            }
            expr(otherwise, each);
        }
    }
}
