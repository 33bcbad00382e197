//! Aggregates over all rows that a condition finds.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use halcyon_plan::scalar::{Compare, Ir};
use halcyon_sql::identifier::fold;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;
use halcyon_store::Type;

use super::exprs::{DIGITS_MAX, Exprs};
use super::items::{BoundItem, BoundValue};
use crate::point::aggregate::{Aggregate, Function};

/// Digits that a sum has more than its terms.
const DIGITS_OF_SUM: u8 = 10;

/// The item that an aggregate of a column, or of all rows, is.
pub(super) fn item(exprs: &mut Exprs, call: &Call, name: &str) -> Option<BoundItem> {
    let (function, argument, distinct) = parts(call)?;
    let function = Function::from_name(&function)?;
    let column = match argument {
        FunctionArgExpr::Wildcard if function == Function::Count && !distinct => None,
        FunctionArgExpr::Expr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => {
            Some(exprs.resolve(expr)?)
        }
        _ => return None,
    };
    let of = column.map(|column| exprs.table.columns[usize::from(column)].ty);
    let ty = result(function, of)?;
    if distinct && of.is_some_and(SqlType::is_document) {
        return None;
    }
    let arg = column.map(|column| exprs.column(column));
    let distinct = distinct && !matches!(function, Function::Min | Function::Max);
    let aggregate =
        Aggregate { function, arg, filter: None, distinct, ty: ty.storage(), slot: usize::MAX };
    if !aggregate.is_typed() {
        return None;
    }
    let field = Arc::new(Field::new(name, ty.arrow(), function != Function::Count));
    let (ty, name) = (sql_type_of(&field), name.to_owned());
    let column = ResultColumn { name, field, ty, origin: None };
    Some(BoundItem { value: BoundValue::Aggregate(aggregate), column })
}

/// The type of an aggregate's result.
fn result(function: Function, of: Option<SqlType>) -> Option<SqlType> {
    use SqlType::{BigInt, Date, Decimal, Double, Integer, Timestamp};
    match (function, of) {
        (Function::Count, _) | (Function::Sum, Some(Integer)) => Some(BigInt),
        (Function::Sum, Some(Double)) => Some(Double),
        (Function::Sum, Some(Decimal { precision, scale })) => {
            Some(Decimal { precision: (precision + DIGITS_OF_SUM).min(DIGITS_MAX), scale })
        }
        (Function::Min | Function::Max, of) => of.filter(|ty| {
            matches!(ty, Integer | BigInt | Double | Decimal { .. } | Date | Timestamp)
        }),
        _ => None,
    }
}

/// Name, argument and DISTINCT of a call with one argument and no clauses.
fn parts(call: &Call) -> Option<(String, &FunctionArgExpr, bool)> {
    let Call {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    } = call
    else {
        return None;
    };
    let ([FunctionArg::Unnamed(argument)], [], []) =
        (list.args.as_slice(), list.clauses.as_slice(), within_group.as_slice())
    else {
        return None;
    };
    let [name] = name.0.as_slice() else { return None };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    Some((fold(name.as_ident()?), argument, distinct))
}

/// Whether the optimizer, through which aggregates go on the long way, leaves a condition as it is: each
/// column is compared once, with a constant or a parameter behind it.
pub(super) fn is_settled(condition: &Ir) -> bool {
    let mut columns = Vec::new();
    let mut is_plain = |part: &Ir| {
        let Ir::Compare { op, left, right } = part else { return false };
        let Ir::Slot(column, ty) = left.as_ref() else { return false };
        let is_new = !columns.contains(column);
        columns.push(*column);
        is_new
            && *ty != Type::Bool
            && *op != Compare::NotEq
            && matches!(right.as_ref(), Ir::Const(..) | Ir::Param(..))
    };
    match condition {
        Ir::And(parts) => parts.iter().all(is_plain),
        part => is_plain(part),
    }
}
