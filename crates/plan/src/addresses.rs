//! Operators of addresses: what `inet` and `cidr` have in common, and which functions stand behind their signs.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Cast, Expr};
use datafusion::sql::sqlparser::ast::BinaryOperator as Op;
use std::sync::Arc;

use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of_arrow;

/// `inet` or `cidr`, if values of the Arrow type are such.
fn network(ty: &DataType) -> Option<SqlType> {
    sql_type_of_arrow(ty).filter(|ty| matches!(ty, SqlType::Inet | SqlType::Cidr))
}

/// Operands of a comparison in one type: every `cidr` beside an `inet` becomes one.
pub(crate) fn alike(operands: &mut [Expr], types: &[DataType]) {
    let inet = SqlType::Inet.arrow();
    let mixed = types.contains(&inet) && types.contains(&SqlType::Cidr.arrow());
    for (operand, ty) in operands.iter_mut().zip(types).filter(|(_, ty)| mixed && **ty != inet) {
        if network(ty).is_some() {
            let field = Arc::new(SqlType::Inet.field("", true));
            *operand = Expr::Cast(Cast { expr: Box::new(std::mem::take(operand)), field });
        }
    }
}

/// The name of the function that an operator of addresses is. `None`: no operand is an address, or addresses have
/// no such operator.
pub(crate) fn function_of(op: &Op, left: &DataType, right: &DataType) -> Option<&'static str> {
    if network(left).is_none() && network(right).is_none() {
        return None;
    }
    Some(match op {
        Op::PGBitwiseShiftLeft => "<<",
        Op::PGBitwiseShiftRight => ">>",
        Op::PGOverlap => "&&",
        Op::BitwiseAnd => "&",
        Op::BitwiseOr => "|",
        Op::Plus => "inet\u{1}+",
        Op::Minus => "inet\u{1}-",
        Op::Custom(op) if op == "<<=" => "<<=",
        Op::Custom(op) if op == ">>=" => ">>=",
        _ => return None,
    })
}
