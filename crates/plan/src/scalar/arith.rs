//! The arithmetic that has a typed form, and the types in which it is done. Results are defined by
//! `halcyon_value`.

use halcyon_store::Type;
use halcyon_value::Arith;
use halcyon_value::decimal::Rule;
use halcyon_value::integer::Width;

/// Whether values of the type are numbers.
pub(super) fn is_number(ty: Type) -> bool {
    is_integer(ty) || is_float(ty) || matches!(ty, Type::Decimal { .. })
}

pub(super) fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int16 | Type::Int32 | Type::Int64)
}

pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::Float32 | Type::Float64)
}

/// Whether arithmetic on these types has a typed form.
pub(super) fn is_typed(op: Arith, left: Type, right: Type, result: Type) -> bool {
    use Type::Decimal;
    match (left, right, result) {
        (Decimal { scale: a, .. }, Decimal { scale: b, .. }, Decimal { scale, .. }) => {
            Rule::knows(op, a, b, scale)
        }
        (a, b, result) => (is_integer(a) || is_float(a)) && a == b && a == result,
    }
}

/// The width of an integer type; other types stored as whole numbers count as the widest.
pub(super) fn width(ty: Type) -> Width {
    match ty {
        Type::Int16 => Width::SmallInt,
        Type::Int32 => Width::Integer,
        _ => Width::BigInt,
    }
}

/// Precision and scale of a decimal. Panics: if the type is none.
pub(super) fn digits(ty: Type) -> (u8, i8) {
    match ty {
        Type::Decimal { precision, scale } => (precision, scale),
        other => panic!("{other} is no decimal"),
    }
}

/// The rule by which decimals of these types are calculated. Panics: if one of them is no decimal.
pub(super) fn rule(op: Arith, left: Type, right: Type, ty: Type) -> Rule {
    let (precision, scale) = digits(ty);
    Rule::new(op, digits(left).1, digits(right).1, precision, scale)
}
