//! Constants beside operators that compare.
//!
//! A constant of a plan may say more of its type than Arrow's type does (`'a'::varchar(5)`: metadata). The optimizer takes
//! two constants that differ in that alone for different values: of `v = 'a' AND v = 'a'::varchar(5)` it would make
//! FALSE. No comparison needs more than Arrow's type, so its constants have nothing else.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

/// An expression whose operands, if it compares, are bare where they are constants.
pub fn bare(expr: Expr) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut operand = |expr: Expr| -> Result<Expr> {
        let bare = operand(expr)?;
        changed |= bare.transformed;
        Ok(bare.data)
    };
    let expr = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let (left, right) = (Box::new(operand(*left)?), Box::new(operand(*right)?));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(&mut operand).collect::<Result<_>>()?;
            Expr::InList(InList { expr: Box::new(operand(*expr)?), list, negated })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (low, high) = (Box::new(operand(*low)?), Box::new(operand(*high)?));
            Expr::Between(Between { expr, negated, low, high })
        }
        other => other,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// A constant without what its value does not need; anything else as it is.
fn operand(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        // The zeros of floats are equal.
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) => {
            Transformed::yes(Expr::Literal(ScalarValue::Float64(Some(0.0)), None))
        }
        Expr::Literal(ScalarValue::Float32(Some(0.0)), _) => {
            Transformed::yes(Expr::Literal(ScalarValue::Float32(Some(0.0)), None))
        }
        Expr::Literal(value, Some(_)) => Transformed::yes(Expr::Literal(value, None)),
        Expr::Cast(_) | Expr::ScalarFunction(_) if is_constant(&expr)? => folded(expr),
        other => Transformed::no(other),
    })
}

/// Whether a call or cast has constants alone in it.
fn is_constant(expr: &Expr) -> Result<bool> {
    let mut constant = true;
    expr.apply(|part| {
        constant &= match part {
            Expr::Literal(..) => true,
            Expr::Cast(_) => true,
            Expr::ScalarFunction(call) => {
                call.func.signature().volatility == datafusion::logical_expr::Volatility::Immutable
            }
            _ => false,
        };
        Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(constant)
}

/// The value of an expression of constants; the expression if there is none, whose error is for the one who runs it.
fn folded(expr: Expr) -> Transformed<Expr> {
    match ExprSimplifier::new(SimplifyContext::default()).simplify(expr.clone()) {
        Ok(Expr::Literal(value, _)) => Transformed::yes(Expr::Literal(value, None)),
        _ => Transformed::no(expr),
    }
}
