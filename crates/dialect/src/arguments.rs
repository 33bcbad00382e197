//! Arguments that are not written one for each parameter in order: by name (`silent => true`), and an array for all that
//! remain (`VARIADIC a`).

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, ObjectName, ObjectNamePart, Value,
};

use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;
use halcyon_sql::syntax::VARIADIC;

use crate::made::{binary, call, cast, is_quoted, nested, number, string};

/// A parameter: its name, and what stands for an argument that is left out before others that are given.
type Parameter = (&'static str, Otherwise);

/// The value of an argument that is left out.
#[derive(Clone, Copy)]
enum Otherwise {
    /// The argument must be given.
    Required,
    /// An empty object.
    Empty,
    Is(bool),
}

use Otherwise::{Empty, Is, Required};

const PATH: &[Parameter] =
    &[("target", Required), ("path", Required), ("vars", Empty), ("silent", Is(false))];

/// Functions with the names of their parameters. Source: PostgreSQL 15, `pg_proc.dat`.
const FUNCTIONS: &[(&str, &[Parameter])] = &[
    ("jsonb_path_exists", PATH),
    ("jsonb_path_match", PATH),
    ("jsonb_path_query", PATH),
    ("jsonb_path_query_array", PATH),
    ("jsonb_path_query_first", PATH),
    (
        "jsonb_set",
        &[
            ("jsonb_in", Required),
            ("path", Required),
            ("replacement", Required),
            ("create_if_missing", Is(true)),
        ],
    ),
    (
        "jsonb_insert",
        &[
            ("jsonb_in", Required),
            ("path", Required),
            ("replacement", Required),
            ("insert_after", Is(false)),
        ],
    ),
    ("parse_ident", &[("str", Required), ("strict", Is(true))]),
    ("make_date", &[("year", Required), ("month", Required), ("day", Required)]),
    ("make_time", &[("hour", Required), ("min", Required), ("sec", Required)]),
    (
        "make_timestamp",
        &[
            ("year", Required),
            ("month", Required),
            ("mday", Required),
            ("hour", Required),
            ("min", Required),
            ("sec", Required),
        ],
    ),
];

/// Puts arguments by name in the places of their parameters. A call with a name that no parameter has stays as written: no
/// such function will be found.
pub(crate) fn in_order(name: &ObjectName, args: &mut Vec<FunctionArg>) {
    let Some(name) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold) else { return };
    let Some((_, parameters)) = FUNCTIONS.iter().find(|(own, _)| *own == name) else { return };
    if args.iter().all(|arg| named(arg).is_none()) {
        return;
    }
    let mut places: Vec<Option<FunctionArgExpr>> = vec![None; parameters.len()];
    for (at, arg) in args.iter().enumerate() {
        let (at, value) = match (named(arg), arg) {
            (Some((name, value)), _) => {
                (parameters.iter().position(|(own, _)| *own == name), value)
            }
            (None, FunctionArg::Unnamed(value)) => (Some(at), value),
            _ => return,
        };
        match at.and_then(|at| places.get_mut(at)) {
            Some(place) if place.is_none() => *place = Some(value.clone()),
            _ => return,
        }
    }
    let given = places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    places.truncate(given);
    let filled = places.into_iter().zip(*parameters).map(|(place, (_, otherwise))| {
        let value = place.or_else(|| {
            Some(FunctionArgExpr::Expr(match otherwise {
                Required => return None,
                Empty => string("{}"),
                Is(value) => Expr::value(Value::Boolean(*value)),
            }))
        });
        value.map(FunctionArg::Unnamed)
    });
    if let Some(filled) = filled.collect::<Option<Vec<_>>>() {
        *args = filled;
    }
}

/// The name and the value of an argument by name.
fn named(arg: &FunctionArg) -> Option<(String, &FunctionArgExpr)> {
    match arg {
        FunctionArg::Named { name, arg, .. }
        | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => {
            Some((fold(name), arg))
        }
        _ => None,
    }
}

/// A call whose last argument is an array of arguments, as a call that takes arrays; `None` if there is no such argument.
/// Errors: 0A000 for functions that do not.
pub(crate) fn spread(function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let Some((before, last)) = list.args.split_last().and_then(|(last, before)| {
        let (name, value) = named(last)?;
        let FunctionArgExpr::Expr(array) = value else { return None };
        (name == VARIADIC).then(|| (before, array.clone()))
    }) else {
        return Ok(None);
    };
    let before: Option<Vec<Expr>> = before
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg.clone()),
            _ => None,
        })
        .collect();
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let name = name.unwrap_or_default();
    let refused = || SqlError::unsupported(format!("VARIADIC in a call of {name}"));
    let mut before = before.ok_or_else(refused)?;
    let without_nulls = |array: &Expr| {
        let null = Expr::value(Value::Null);
        call("cardinality", vec![call("array_remove", vec![array.clone(), null])])
    };
    Ok(Some(match (name.as_str(), before.len()) {
        ("concat", 0) => call("array_to_string", vec![last, string("")]),
        ("concat_ws", 1) => call("array_to_string", vec![last, before.remove(0)]),
        ("num_nonnulls", 0) => without_nulls(&last),
        ("num_nulls", 0) => {
            let all = call("cardinality", vec![last.clone()]);
            nested(binary(all, BinaryOperator::Minus, without_nulls(&last)))
        }
        ("jsonb_build_array", 0) => call("to_jsonb", vec![last]),
        ("format", 1) => {
            let texts =
                DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None));
            call(FORMAT_OF_LIST, vec![before.remove(0), cast(last, texts)])
        }
        ("json_extract_path" | "jsonb_extract_path", 1) => {
            binary(before.remove(0), BinaryOperator::HashArrow, last)
        }
        ("json_extract_path_text" | "jsonb_extract_path_text", 1) => {
            binary(before.remove(0), BinaryOperator::HashLongArrow, last)
        }
        _ => return Err(refused()),
    }))
}

/// The function that is `format` with a list of values.
const FORMAT_OF_LIST: &str = "format\u{1}list";

/// Functions of `jsonb` that are operators under a name, as drivers call them that take `?` for a parameter.
const OPERATORS: &[(&str, BinaryOperator)] = &[
    ("jsonb_exists", BinaryOperator::Question),
    ("jsonb_exists_any", BinaryOperator::QuestionPipe),
    ("jsonb_exists_all", BinaryOperator::QuestionAnd),
    ("jsonb_contains", BinaryOperator::AtArrow),
    ("jsonb_contained", BinaryOperator::ArrowAt),
    ("jsonb_concat", BinaryOperator::StringConcat),
    ("jsonb_delete", BinaryOperator::Minus),
    ("jsonb_delete_path", BinaryOperator::HashMinus),
    ("jsonb_object_field", BinaryOperator::Arrow),
    ("jsonb_object_field_text", BinaryOperator::LongArrow),
    ("jsonb_array_element", BinaryOperator::Arrow),
    ("jsonb_array_element_text", BinaryOperator::LongArrow),
];

/// The operator that a function of `jsonb` is, and its operands.
pub(crate) fn operator_of(
    name: &str,
    mut operands: Vec<Expr>,
) -> Option<(Expr, BinaryOperator, Expr)> {
    let (_, op) = OPERATORS.iter().find(|(own, _)| *own == name)?;
    let document = |operand: Expr| match is_quoted(&operand) {
        true => cast(operand, DataType::JSONB),
        false => operand,
    };
    let (right, left) = (operands.pop()?, operands.pop()?);
    let right = match op {
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::StringConcat => {
            document(right)
        }
        _ => right,
    };
    Some((document(left), op.clone(), right))
}

/// `normalize(x, NFC)` with the word as a text.
pub(crate) fn word_as_text(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(form))] = list.args.as_mut_slice()
        && let Expr::Identifier(word) = form
        && word.quote_style.is_none()
    {
        *form = string(&word.value);
    }
}

/// Whether a call may be one of an operator of `jsonb` under a name.
pub(crate) fn is_operator(name: &str) -> bool {
    OPERATORS.iter().any(|(own, _)| *own == name)
}

/// A moment of the clock with so many digits of a second: `localtime(3)`.
pub(crate) fn rounded_clock(name: &str, digits: Expr) -> Expr {
    let digits = match digits {
        Expr::Value(value) => Expr::Value(value),
        _ => number("6"),
    };
    call("seconds_rounded", vec![call(name, Vec::new()), digits])
}
