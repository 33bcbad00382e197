//! Hypothetical-set aggregates: the place that a row would have among the others, `rank(x) WITHIN GROUP (ORDER BY y)`.
//!
//! Each counts rows, and so becomes a sum of counts with a filter: `rank` is `1 + count(*) FILTER (WHERE y < x)`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, ObjectNamePart, OrderByExpr,
};

use crate::made::{call, cast, number};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;

/// The expression that such a call means. `None`: the call is no such aggregate.
///
/// Errors: 0A000 for more than one key.
pub(crate) fn place(function: &Function) -> Result<Option<Expr>> {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let Some(name @ ("rank" | "dense_rank" | "percent_rank" | "cume_dist")) = name.as_deref()
    else {
        return Ok(None);
    };
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    if function.within_group.is_empty() {
        return Ok(None);
    }
    let ([by], [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))]) =
        (function.within_group.as_slice(), list.args.as_slice())
    else {
        return Err(SqlError::unsupported(format!("{name} of several keys")));
    };
    let filter = |condition: Option<Expr>| match (condition, function.filter.as_deref()) {
        (Some(condition), Some(filter)) => {
            Some(Box::new(binary(nested(condition), BinaryOperator::And, nested(filter.clone()))))
        }
        (condition, filter) => condition.or_else(|| filter.cloned()).map(Box::new),
    };
    let count = |what: FunctionArgExpr, condition: Option<Expr>, is_distinct: bool| {
        let Expr::Function(mut count) = call("count", Vec::new()) else {
            unreachable!("a call is one")
        };
        if let FunctionArguments::List(list) = &mut count.args {
            list.args = vec![FunctionArg::Unnamed(what)];
            list.duplicate_treatment = is_distinct.then_some(DuplicateTreatment::Distinct);
        }
        count.filter = filter(condition);
        Expr::Function(count)
    };
    let rows = |condition| count(FunctionArgExpr::Wildcard, condition, false);
    let plus = |left, right| binary(left, BinaryOperator::Plus, right);
    let before = Some(before(by, value, false));
    let share = |part: Expr, whole: Expr| {
        binary(cast(nested(part), DataType::DoublePrecision), BinaryOperator::Divide, nested(whole))
    };
    Ok(Some(nested(match name {
        "rank" => plus(number("1"), rows(before)),
        "dense_rank" => {
            plus(number("1"), count(FunctionArgExpr::Expr(by.expr.clone()), before, true))
        }
        // Of no rows at all the place is the first, and its share 0.
        "percent_rank" => call(
            "coalesce",
            vec![share(rows(before), call("nullif", vec![rows(None), number("0")])), number("0")],
        ),
        _ => share(
            plus(number("1"), rows(Some(self::before(by, value, true)))),
            plus(number("1"), rows(None)),
        ),
    })))
}

/// Whether a row comes before the value in the order of a key, or, `or_beside` it, is equal.
fn before(by: &OrderByExpr, value: &Expr, or_beside: bool) -> Expr {
    let descends = by.options.asc == Some(false);
    let nulls_first = by.options.nulls_first.unwrap_or(descends);
    let op = match (descends, or_beside) {
        (false, false) => BinaryOperator::Lt,
        (false, true) => BinaryOperator::LtEq,
        (true, false) => BinaryOperator::Gt,
        (true, true) => BinaryOperator::GtEq,
    };
    let compared = binary(nested(by.expr.clone()), op, nested(value.clone()));
    match nulls_first {
        true => {
            let is_null = Expr::IsNull(Box::new(nested(by.expr.clone())));
            binary(compared, BinaryOperator::Or, is_null)
        }
        false => compared,
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
