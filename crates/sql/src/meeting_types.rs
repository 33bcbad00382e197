//! Types of values that meet: whether they are compared at all, and the type that they take then, by PostgreSQL's rules
//! where DataFusion's are others.

use arrow::datatypes::{DataType, IntervalUnit};

use crate::enums::{is_day_or_moment, is_label, is_moment, is_zoned_moment};
use crate::types::SqlType;
use crate::values::sql_type_of_arrow;

/// Whether values are texts; `json`, which is `LargeUtf8`, is another type.
pub fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::Utf8View)
}

/// Whether values of two types are compared with each other.
pub fn comparable(left: &DataType, right: &DataType) -> bool {
    let class = |ty: &DataType| match ty {
        DataType::Null => 0,
        DataType::Boolean => 1,
        ty if ty.is_numeric() => 2,
        ty if is_text(ty) => 3,
        ty if is_day_or_moment(ty) => 4,
        DataType::Timestamp(..) => 12,
        DataType::Time32(_) | DataType::Time64(_) => 5,
        DataType::Interval(_) | DataType::Duration(_) => 6,
        DataType::FixedSizeBinary(16) => 7,
        ty @ DataType::FixedSizeBinary(_) if sql_type_of_arrow(ty) == Some(SqlType::MacAddr) => 13,
        DataType::FixedSizeBinary(_) => 14,
        DataType::Binary | DataType::BinaryView => 8,
        DataType::LargeBinary => 9,
        DataType::LargeUtf8 => 10,
        DataType::List(_) => 11,
        _ => 0,
    };
    if let (DataType::List(left), DataType::List(right)) = (left, right) {
        return comparable(left.data_type(), right.data_type());
    }
    if is_label(left) && is_label(right) {
        return left == right;
    }
    let (left, right) = (class(left), class(right));
    left == 0 || right == 0 || left == right
}

/// How expressions beside each other take one type.
#[derive(Clone, Copy, PartialEq)]
pub enum Beside {
    /// As the arguments of COALESCE: REAL stays REAL beside a decimal.
    Together,
    /// As the operands of a comparison: there is none of REAL and a decimal but that of DOUBLE PRECISION.
    Compared,
}

/// Whether expressions of a type are converted.
pub type IsConverted = fn(&DataType) -> bool;

/// The type that expressions of such types take where DataFusion's choice is not PostgreSQL's, and which of them are
/// converted to it. Among floats and decimals it is a float: a float never becomes a decimal, which has neither NaN
/// nor room for large values. Among moments it is the one that says most.
pub fn common_type<'t>(
    types: impl Iterator<Item = &'t DataType> + Clone,
    how: Beside,
) -> Option<(DataType, IsConverted)> {
    use DataType::{Date32, Decimal128, Float32, Float64};
    let find = |wanted: IsConverted| types.clone().find(|ty| wanted(ty)).cloned();
    let is_span = |ty: &DataType| matches!(ty, DataType::Interval(_));
    if let (Some(span), Beside::Compared) = (find(is_span), how) {
        return Some((span, |ty| matches!(ty, DataType::Time64(_))));
    }
    if let Some(zoned) = find(is_zoned_moment) {
        return Some((zoned, |ty| is_day_or_moment(ty) && !is_zoned_moment(ty)));
    }
    if let Some(moment) = find(is_moment) {
        return Some((moment, |ty| matches!(ty, Date32)));
    }
    let real = || find(|ty| matches!(ty, Float32));
    let float = match (find(|ty| matches!(ty, Float64)), how) {
        (Some(double), _) => double,
        (None, Beside::Together) => real()?,
        (None, Beside::Compared) => real().map(|_| Float64)?,
    };
    Some((float, |ty| matches!(ty, Decimal128(..))))
}

/// Of two types of numbers, or of moments, the one to which PostgreSQL converts the other; else the first.
pub fn wider(first: DataType, then: DataType) -> DataType {
    let rank = |ty: &DataType| match ty {
        DataType::Int16 => 1,
        DataType::Int32 => 2,
        DataType::Int64 => 3,
        DataType::Decimal128(..) => 4,
        DataType::Float32 => 5,
        DataType::Float64 => 6,
        DataType::Date32 => 11,
        ty if is_zoned_moment(ty) => 13,
        ty if is_moment(ty) => 12,
        _ => 0,
    };
    let (left, right) = (rank(&first), rank(&then));
    if left > 0 && left / 10 == right / 10 && right > left { then } else { first }
}

/// The types to which the arguments of `generate_series` are converted: those of start and end and, if there is one, of the
/// step. `None` if there is no such series.
pub fn series_types(types: &[DataType]) -> Option<Vec<DataType>> {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let (start, end) = match types {
        [start, end] | [start, end, _] => (start, end),
        _ => return None,
    };
    let bounds = if is_text(start) || start.is_null() { [end, end] } else { [start, end] };
    let moment = |ty: &DataType| is_day_or_moment(ty) || is_text(ty) || ty.is_null();
    if is_day_or_moment(bounds[0]) {
        let [start, end] = bounds;
        let step = types.get(2)?;
        let has_step = matches!(step, DataType::Interval(_)) || is_text(step) || step.is_null();
        let of = match (start, end) {
            (DataType::Timestamp(_, None), DataType::Timestamp(_, None)) => SqlType::Timestamp,
            (DataType::Timestamp(_, None), ty) if is_text(ty) || ty.is_null() => SqlType::Timestamp,
            _ => SqlType::TimestampTz,
        };
        let fits = has_step && moment(start) && moment(end);
        return fits.then(|| vec![of.arrow(), of.arrow(), interval]);
    }
    let exact = |ty: &DataType| ty.is_integer() || matches!(ty, DataType::Decimal128(..));
    if !types.iter().all(|ty| exact(ty) || is_text(ty) || ty.is_null()) || !types.iter().any(exact)
    {
        return None;
    }
    let scale = |ty: &DataType| match ty {
        DataType::Decimal128(_, scale) => Some((*scale).max(0)),
        _ => None,
    };
    let of = match types.iter().filter_map(scale).max() {
        Some(scale) => DataType::Decimal128(38, scale),
        None if types.contains(&DataType::Int64) => DataType::Int64,
        None => DataType::Int32,
    };
    Some(vec![of; types.len()])
}
