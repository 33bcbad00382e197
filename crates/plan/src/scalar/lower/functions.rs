//! Functions with a typed form, by their names in DataFusion and in the table of functions.
//!
//! A function is listed here if frequent statements use it. Other functions of the table are called
//! by the table's own evaluation ([`Ir::TableCall`]); functions outside the table become foreign
//! nodes.

use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable};
use halcyon_functions::memberships;
use halcyon_store::{Type, Value};
use halcyon_value::calendar::Field as Part;
use halcyon_value::functions;

use super::super::arith;
use super::super::ir::{Compare, Function, Ir, fit_type, storage_type};
use super::super::scalars::not_ours;
use super::{Columns, convert, try_lower, type_of};
use crate::execution::reading;
use halcyon_sql::error::Result;

/// The typed form of a call, if there is one for these types.
pub(super) fn lower(
    call: &ScalarFunction,
    whole: &Expr,
    columns: &Columns<'_>,
) -> Result<Option<Ir>> {
    let Some(ty) = type_of(whole, columns) else { return Ok(None) };
    if let ("array_has", [array, of]) = (call.func.name(), &call.args[..]) {
        return member(array, of, columns);
    }
    let mut args = vec![];
    for arg in &call.args {
        match try_lower(arg, columns)? {
            Some(arg) => args.push(arg),
            None => return Ok(None),
        }
    }
    let name = call.func.name();
    let table = functions::Call::exact(name, &types_of(&args).unwrap_or_default(), ty);
    Ok(match typed(name, args.clone(), ty) {
        Some(typed) => Some(typed),
        None => table.map(|call| Ir::TableCall { call: call.into(), args }),
    })
}

/// `of = ANY (array)`, if the array's items compare as they are with the value.
fn member(array: &Expr, of: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    if let Some(list) = memberships::as_long_list(array, of).map_err(not_ours)? {
        return super::in_list(&list, columns);
    }
    let Ok(DataType::List(item)) = array.get_type(columns.schema) else { return Ok(None) };
    let is_plain = !matches!(item.data_type(), DataType::List(_) | DataType::Interval(_));
    let Some(item) = storage_type(item.data_type()).filter(|_| is_plain) else { return Ok(None) };
    let sides = try_lower(array, columns)?.zip(try_lower(of, columns)?);
    Ok(sides
        .filter(|(array, of)| array.ty() == Some(Type::Bytes) && of.ty() == Some(item))
        .map(|(array, of)| Ir::Member { of: of.into(), array: array.into(), item }))
}

/// The types of arguments; None if one is a NULL of no type.
fn types_of(args: &[Ir]) -> Option<Vec<Type>> {
    args.iter().map(Ir::ty).collect()
}

fn typed(name: &str, mut args: Vec<Ir>, ty: Type) -> Option<Ir> {
    use Type::{Date, Float32, Float64, Int32, Int64, Text, Timestamp, TimestampTz};
    let types = types_of(&args)?;
    let is_integer = |ty| matches!(ty, Type::Int16 | Int32 | Int64);
    let function = match (name, &types[..]) {
        ("concat", list) if list.iter().all(|ty| *ty == Text) => Function::ConcatSkip,
        ("lower", [Text]) => Function::Lower,
        ("upper", [Text]) => Function::Upper,
        ("character_length" | "char_length" | "length", [Text]) => Function::Length,
        ("octet_length", [Text]) => Function::OctetLength,
        ("substr" | "substring", [Text, start]) if is_integer(*start) => Function::Substr,
        ("substr" | "substring", [Text, start, count])
            if is_integer(*start) && is_integer(*count) =>
        {
            Function::Substr
        }
        ("left", [Text, count]) if is_integer(*count) => Function::Left,
        ("right", [Text, count]) if is_integer(*count) => Function::Right,
        ("btrim" | "trim", [Text] | [Text, Text]) => Function::Trim,
        ("ltrim", [Text] | [Text, Text]) => Function::TrimStart,
        ("rtrim", [Text] | [Text, Text]) => Function::TrimEnd,
        ("replace", [Text, Text, Text]) => Function::Replace,
        ("strpos" | "position", [Text, Text]) => Function::Position,
        ("starts_with", [Text, Text]) => Function::StartsWith,
        ("abs", [of]) if arith::is_number(*of) && *of == ty => Function::Abs,
        ("floor", [Float32 | Float64]) if types[0] == ty => Function::Floor,
        ("ceil", [Float32 | Float64]) if types[0] == ty => Function::Ceil,
        ("greatest", list) if all_are(list, ty) => Function::Greatest,
        ("least", list) if all_are(list, ty) => Function::Least,
        ("coalesce" | "nvl", list) if all_are(list, ty) => return Some(coalesce(args, ty)),
        ("nullif", [a, b]) if fit_type(*a, *b) && *a == ty => return Some(null_if(args, ty)),
        (name, []) if ty == TimestampTz => Function::Clock(reading(name)?),
        ("date_part", [Text, Date | Timestamp]) if matches!(ty, Int32 | Float64) => {
            Function::Extract(part(&args.remove(0), ty)?)
        }
        ("date_trunc", [Text, Timestamp]) if ty == Timestamp => {
            let part = part(&args.remove(0), ty)?;
            part.truncates().then_some(Function::Truncate(part))?
        }
        _ => return None,
    };
    let text_to = |wanted| ty == wanted;
    let result_fits = match function {
        Function::Length | Function::OctetLength | Function::Position => is_integer(ty),
        Function::StartsWith => text_to(Type::Bool),
        Function::ConcatSkip
        | Function::Lower
        | Function::Upper
        | Function::Substr
        | Function::Left
        | Function::Right
        | Function::Trim
        | Function::TrimStart
        | Function::TrimEnd
        | Function::Replace => text_to(Text),
        _ => true,
    };
    result_fits.then_some(Ir::Call { function, args, ty })
}

fn all_are(types: &[Type], ty: Type) -> bool {
    !types.is_empty() && types.iter().all(|other| *other == ty)
}

/// The field that a literal names, if extracting it has a typed form with this result.
fn part(name: &Ir, ty: Type) -> Option<Part> {
    let Ir::Const(Value::Text(name), _) = name else { return None };
    let part = Part::from_name(name).filter(|part| {
        use Part::{Day, DayOfWeek, DayOfYear, Epoch, Hour, Minute, Month, Quarter, Second, Year};
        let typed = [Year, Quarter, Month, Day, Hour, Minute, Second, DayOfWeek, DayOfYear, Epoch];
        typed.contains(part)
    })?;
    (ty != Type::Float64 || part == Part::Epoch).then_some(part)
}

/// COALESCE: the first that is not NULL.
fn coalesce(mut args: Vec<Ir>, ty: Type) -> Ir {
    let last = args.pop().expect("all_are refuses an empty list");
    if args.is_empty() {
        return convert(last, ty);
    }
    args.push(last);
    Ir::Call { function: Function::Coalesce, args, ty }
}

/// NULLIF(a, b): NULL if both are equal.
fn null_if(mut args: Vec<Ir>, ty: Type) -> Ir {
    let (b, a) = (args.pop().expect("two"), args.pop().expect("two"));
    let equal = Ir::Compare { op: Compare::Eq, left: a.clone().into(), right: b.into() };
    let null = Ir::Const(Value::Null, Some(ty));
    Ir::Case { branches: vec![(equal, null)], otherwise: a.into(), ty }
}
