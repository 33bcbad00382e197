//! Chains of AND and OR as balanced trees.
//!
//! `a AND b AND c …` has no limit of length, and the SQL parser makes a tree of it that is as deep
//! as it is long. Nothing recursive may walk that tree before it is balanced.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, VisitMut, VisitorMut};

/// The tree with every chain in it balanced.
pub(crate) fn balanced<T: VisitMut>(mut tree: T) -> T {
    let _: ControlFlow<()> = VisitMut::visit(&mut tree, &mut Balance);
    tree
}

/// The visitor sees a node before its children, so the deep form is never walked.
struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, op, .. } = expr
            && matches!(op, BinaryOperator::And | BinaryOperator::Or)
            && matches!(left.as_ref(), Expr::BinaryOp { op: below, .. } if below == op)
        {
            let op = op.clone();
            let terms = terms_of(std::mem::replace(expr, null()), &op);
            *expr = joined(terms, &op);
        }
        ControlFlow::Continue(())
    }
}

fn null() -> Expr {
    Expr::Value(ast::Value::Null.with_empty_span())
}

fn terms_of(expr: Expr, op: &BinaryOperator) -> Vec<Expr> {
    let mut terms = Vec::new();
    let mut rest = expr;
    loop {
        match rest {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                terms.push(*right);
                rest = *left;
            }
            last => {
                terms.push(last);
                break;
            }
        }
    }
    terms.reverse();
    terms
}

/// `terms` with `op` between them, as deep as the logarithm of their number.
fn joined(mut terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
    if terms.len() <= 2 {
        let right = terms.pop().expect("a chain has terms");
        return match terms.pop() {
            None => right,
            Some(left) => {
                Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
            }
        };
    }
    let upper = terms.split_off(terms.len() / 2);
    Expr::BinaryOp {
        left: Box::new(joined(terms, op)),
        op: op.clone(),
        right: Box::new(joined(upper, op)),
    }
}
