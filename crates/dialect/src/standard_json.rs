//! `JSON_OBJECT` and `JSON_ARRAY` as the standard writes them, with their clauses.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator,
    FunctionArgumentClause, FunctionArguments, JsonNullClause, ObjectNamePart,
};

use crate::made::{call, cast};
use halcyon_sql::identifier::fold;

/// What stands behind the name of the function that leaves NULL values out.
const ABSENT: &str = "\u{1}absent";

/// The call of `json_build_object` or `json_build_array` that such a call means. `None`: the call is another one, as
/// `json_object('{a, 1}')` is.
pub(crate) fn constructor(function: &Function) -> Option<Expr> {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_pair = |arg: &FunctionArg| {
        let op = match arg {
            FunctionArg::ExprNamed { operator, .. } | FunctionArg::Named { operator, .. } => {
                operator
            }
            FunctionArg::Unnamed(_) => return false,
        };
        matches!(op, FunctionArgOperator::Colon | FunctionArgOperator::Value)
    };
    let is_object = match name.as_str() {
        "json_object" if list.args.iter().all(is_pair) => true,
        "json_array" => false,
        _ => return None,
    };
    let mut values = Vec::new();
    for arg in &list.args {
        let (key, value) = match arg {
            FunctionArg::ExprNamed { name, arg, .. } if is_object => (Some(name.clone()), arg),
            FunctionArg::Named { name, arg, .. } if is_object => {
                (Some(Expr::Identifier(name.clone())), arg)
            }
            FunctionArg::Unnamed(arg) if !is_object => (None, arg),
            _ => return None,
        };
        let FunctionArgExpr::Expr(value) = value else { return None };
        values.extend(key);
        values.push(value.clone());
    }
    // The standard's arrays leave NULL out unless they are told otherwise, objects keep it.
    let (mut keeps_null, mut to) = (is_object, DataType::JSON);
    for clause in &list.clauses {
        match clause {
            FunctionArgumentClause::JsonNullClause(clause) => {
                keeps_null = *clause == JsonNullClause::NullOnNull;
            }
            FunctionArgumentClause::JsonReturningClause(clause) => to = clause.data_type.clone(),
            _ => return None,
        }
    }
    let kind = if to == DataType::JSONB { "jsonb" } else { "json" };
    let what = if is_object { "object" } else { "array" };
    let tail = if keeps_null { "" } else { ABSENT };
    let made = call(&format!("{kind}_build_{what}{tail}"), values);
    Some(match to {
        DataType::JSON | DataType::JSONB => made,
        other => cast(made, other),
    })
}
