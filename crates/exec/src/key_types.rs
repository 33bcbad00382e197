//! Keys whose columns have other types than the columns that refer to them: numbers of several kinds.
//!
//! PostgreSQL compares such columns by the equality of the type referred to. Here a value is looked up as that type has
//! it; a value that the type does not have equals none of the type's.

use halcyon_catalog::{ForeignKey, Table};
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::Result;
use halcyon_sql::types::SqlType;
use halcyon_store::{Value, ValueRef};
use halcyon_value::integer::widen;

/// Whether columns of type `own` may refer to columns of type `theirs`: to numbers that `own` becomes without a cast.
pub fn may_refer(own: SqlType, theirs: SqlType) -> bool {
    use SqlType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
    match (own, theirs) {
        (
            SmallInt | Integer | BigInt,
            SmallInt | Integer | BigInt | Decimal { .. } | Real | Double,
        )
        | (Decimal { .. }, Decimal { .. })
        | (Real | Double, Real | Double) => true,
        _ => own.storage() == theirs.storage(),
    }
}

/// Types by position in a foreign key's list: the referring column's and those of the columns referred to.
pub(crate) fn types(owner: &Table, key: &ForeignKey, target: &Table) -> Vec<(SqlType, SqlType)> {
    let pairs = key.columns.iter().zip(&key.target_columns);
    let of = |table: &Table, column: u16| table.columns[usize::from(column)].ty;
    pairs.map(|(own, theirs)| (of(owner, *own), of(target, *theirs))).collect()
}

/// The value of type `from` as type `to` has it; `None` if that type has no such value.
#[inline]
pub(crate) fn exactly<'v>(value: ValueRef<'v>, from: SqlType, to: SqlType) -> Option<ValueRef<'v>> {
    match from.storage() == to.storage() {
        true => Some(value),
        false => other_number(value, from, to),
    }
}

fn other_number(value: ValueRef<'_>, from: SqlType, to: SqlType) -> Option<ValueRef<'static>> {
    if let (Some(wide), SqlType::SmallInt | SqlType::Integer | SqlType::BigInt) = (widen(value), to)
    {
        return coerce::fit_integer(wide, to);
    }
    let arena = Arena::new();
    let there = coerce::assign(value, from, to, &TimeZone::UTC, &arena).ok()?;
    let back = coerce::assign(there, to, from, &TimeZone::UTC, &arena).ok()?;
    if back != value {
        return None;
    }
    Some(match there {
        ValueRef::Int16(number) => ValueRef::Int16(number),
        ValueRef::Int32(number) => ValueRef::Int32(number),
        ValueRef::Int64(number) => ValueRef::Int64(number),
        ValueRef::Decimal(number) => ValueRef::Decimal(number),
        ValueRef::Float32(number) => ValueRef::Float32(number),
        ValueRef::Float64(number) => ValueRef::Float64(number),
        _ => return None,
    })
}

/// The value of type `from` as a column of type `to` gets it by assignment. Errors: 22003.
pub(crate) fn assigned(value: &Value, from: SqlType, to: SqlType) -> Result<Value> {
    if from.storage() == to.storage() {
        return Ok(value.clone());
    }
    let arena = Arena::new();
    Ok(coerce::assign(value.as_ref(), from, to, &TimeZone::UTC, &arena)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_where_the_other_type_has_it() {
        let cents = SqlType::Decimal { precision: 10, scale: 2 };
        let find = |value, from, to| exactly(value, from, to);
        assert_eq!(find(ValueRef::Int32(7), SqlType::Integer, cents), Some(ValueRef::Decimal(700)));
        assert_eq!(find(ValueRef::Decimal(700), cents, SqlType::Integer), Some(ValueRef::Int32(7)));
        assert_eq!(find(ValueRef::Decimal(750), cents, SqlType::Integer), None);
        assert_eq!(find(ValueRef::Int32(70_000), SqlType::Integer, SqlType::SmallInt), None);
        let half = ValueRef::Float64(0.5);
        assert_eq!(find(half, SqlType::Double, SqlType::Real), Some(ValueRef::Float32(0.5)));
        assert_eq!(find(ValueRef::Float64(0.1), SqlType::Double, SqlType::Real), None);
        assert!(may_refer(SqlType::Integer, cents) && !may_refer(cents, SqlType::Integer));
    }
}
