//! Casts with a typed form. All others become foreign nodes.

use halcyon_store::Type;

use super::super::arith::{is_float, is_integer};

/// Whether a cast has a typed form. `from` is None for a NULL of no type.
pub(super) fn is_typed(from: Option<Type>, to: Type) -> bool {
    use Type::{Date, Decimal, Int16, Int32, Int64, Text, Timestamp};
    let Some(from) = from else { return true };
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if is_integer(from) && (is_integer(to) || is_float(to)) => true,
        (from, to) if is_float(from) && is_float(to) => true,
        (Int16 | Int32 | Int64, Decimal { scale, .. }) => scale >= 0,
        (Decimal { scale, .. }, Decimal { scale: to, .. }) => scale >= 0 && to >= 0,
        (Decimal { scale, .. }, Type::Float64) => scale >= 0,
        (Date, Timestamp) | (Timestamp, Date) | (Int16 | Int32 | Int64, Text) => true,
        _ => false,
    }
}
