//! Chains of AND and OR as balanced trees.
//!
//! `a AND b AND c …` has no limit of length, and the SQL parser makes a tree of it that is as deep
//! as it is long. Nothing recursive may walk that tree before it is balanced.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr};

/// A chain of so many terms is left as it is. A balanced tree has no longer one in it, so that none is
/// balanced again.
const SHORT: usize = 64;

/// Balances `expr` if it is a chain of AND or OR that is not short. Its terms are left as they are.
pub(crate) fn balance(expr: &mut Expr) {
    let op = match expr {
        Expr::BinaryOp { op, .. } => op.clone(),
        _ => return,
    };
    if matches!(op, BinaryOperator::And | BinaryOperator::Or) && is_long(expr, &op) {
        let terms = terms_of(std::mem::replace(expr, null()), &op);
        *expr = joined(terms, &op);
    }
}

fn is_long(mut expr: &Expr, op: &BinaryOperator) -> bool {
    for _ in 0..SHORT {
        match expr {
            Expr::BinaryOp { left, op: found, .. } if found == op => expr = left,
            _ => return false,
        }
    }
    true
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

/// `terms` with `op` between them, as deep as the logarithm of their number. Panics: if there are none.
pub fn joined(mut terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
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
