//! Constants in quotes where a function takes a number: `round('2.567', 2)`, `left(name, '3')`.
//!
//! In PostgreSQL a constant in quotes has no type of its own and becomes what the function takes. DataFusion's planner takes
//! it for a text and finds no such function, so the constant is cast here. Functions that are evaluated by our own table know
//! constants without a type and are not listed.

use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Value,
};

use halcyon_sql::identifier::fold;

use crate::made::{cast, is_quoted, number};

/// What a function takes in a place.
#[derive(Clone, Copy)]
enum Takes {
    Whole,
    Exact,
    Floating,
}

/// The type of the argument in a place, if a constant in quotes becomes a number there. `count`: how many arguments the
/// call has. Of functions that exist for several kinds of numbers PostgreSQL prefers that of doubles.
fn taken(name: &str, count: usize, at: usize) -> Option<Takes> {
    Some(match (name, count, at) {
        ("abs" | "ceiling" | "round" | "to_timestamp", 1, 0) => Takes::Floating,
        ("round" | "trunc", 2, 0) => Takes::Exact,
        ("round" | "trunc", 2, 1) => Takes::Whole,
        ("ntile", 1, 0) => Takes::Whole,
        ("left" | "right" | "repeat" | "array_length" | "array_lower" | "array_upper", 2, 1)
        | ("lpad" | "rpad" | "lag" | "lead", 2..=3, 1)
        | ("nth_value", 2, 1)
        | ("split_part", 3, 2)
        | ("substr", 2..=3, 1..=2) => Takes::Whole,
        _ => return None,
    })
}

/// The count that a constant in quotes is.
fn whole(constant: &Expr) -> Option<u32> {
    match constant {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.trim().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Casts the constants in quotes among a call's arguments where the function takes numbers.
pub(crate) fn typed(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let is_given = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) if is_quoted(arg));
    if !list.args.iter().any(is_given) {
        return;
    }
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let Some(name) = name else { return };
    let count = list.args.len();
    for (at, arg) in list.args.iter_mut().enumerate() {
        if is_given(arg)
            && let Some(takes) = taken(&name, count, at)
            && let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg
        {
            let ty = match takes {
                // As a plain number a count of digits is known when the statement is planned.
                Takes::Whole if let Some(count) = whole(arg) => {
                    *arg = number(&count.to_string());
                    continue;
                }
                Takes::Whole => DataType::Integer(None),
                Takes::Exact => DataType::Numeric(ExactNumberInfo::None),
                Takes::Floating => DataType::DoublePrecision,
            };
            *arg = cast(std::mem::replace(arg, number("0")), ty);
        }
    }
}
