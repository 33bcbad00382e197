//! `x BETWEEN SYMMETRIC a AND b`: x lies between the two, whichever is the lower one.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use crate::made::number;
use halcyon_sql::syntax::SYMMETRIC;

/// Writes such a condition as two of the plain kind.
pub(crate) fn settle(condition: &mut Expr) {
    let Expr::Between { expr, negated, low, high } = condition else { return };
    if !unmark(low) {
        return;
    }
    let between = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: expr.clone(),
            negated: *negated,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    let both = Expr::BinaryOp {
        left: between(low, high),
        op: if *negated { BinaryOperator::And } else { BinaryOperator::Or },
        right: between(high, low),
    };
    *condition = Expr::Nested(Box::new(both));
}

/// Takes the mark away to which the first operand of a bound is added. False: there is none.
fn unmark(bound: &mut Expr) -> bool {
    let Expr::BinaryOp { left, op, right } = bound else { return false };
    match left.as_ref() {
        Expr::Identifier(name) if name.value == SYMMETRIC && *op == BinaryOperator::Plus => {
            *bound = std::mem::replace(right, number("0"));
            true
        }
        _ => unmark(left),
    }
}
