//! `SUBSTRING (x SIMILAR pattern ESCAPE escape)`, which comes from the parser as SUBSTRING … FROM a pattern with a mark.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use halcyon_sql::syntax::SIMILAR;

use crate::made::{call, number};

/// The part of a text that a pattern of SIMILAR TO has between two marks.
pub(crate) fn parts(text: Expr, pattern: Expr, escape: Expr) -> Expr {
    call("substring_by_pattern", vec![text, call("similar_parts", vec![pattern, escape])])
}

/// Makes such an expression a call.
pub(crate) fn settle(expr: &mut Expr) {
    let Expr::Substring { substring_from: Some(from), substring_for: Some(_), .. } = expr else {
        return;
    };
    let is_mark = matches!(from.as_ref(), Expr::BinaryOp { left, op: BinaryOperator::Plus, .. }
        if matches!(left.as_ref(), Expr::Identifier(mark) if mark.value == SIMILAR));
    if !is_mark {
        return;
    }
    let whole = std::mem::replace(expr, number("0"));
    if let Expr::Substring {
        expr: text,
        substring_from: Some(from),
        substring_for: Some(escape),
        ..
    } = whole
        && let Expr::BinaryOp { right: pattern, .. } = *from
    {
        *expr = parts(*text, *pattern, *escape);
    }
}
