//! Plans of shapes: when a text's literals may be parameters, and what values they are then.
//!
//! A shape ([`crate::shape`]) is planned when its second text comes, because most shapes of loads
//! and tools come once. Its plan is kept if it goes the way that the first text's own plan went: the
//! same executor, indexes and ranges, the same columns ([`Way`]). Else the literals decide more than the
//! scanner could know, the shape is *refused*, and each of its texts is planned by itself as before.
//! Vectorised plans are refused as well: they are made physical for the values in any case.
//!
//! A value that its parameter's type cannot hold exactly (`smallint_column = 70000`) is not rounded into
//! it: that text is planned by itself.

use std::sync::Arc;

use crate::shape::{Literal, LiteralKind, NARROW_RANGE, Shape};
use halcyon_exec::point::{Outline, PointPlan};
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_store::Value;
use halcyon_value::decimal;

use crate::plan::{Plan, Prepared};

/// Why a text was planned although a plan might have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// Neither the text nor its shape was known for this catalog and these settings.
    New,
    /// It was the second text of its shape: the plan of the shape was made, for all that follow.
    ShapePlanned,
    /// Texts of its shape are vectorised.
    Vectorised,
    /// With parameters in place of literals the plan would be another, or none.
    LiteralsDecide,
    /// A literal is no value of its parameter's type.
    OtherType,
    /// The range between two literals is too wide for the shape's plan.
    WideRange,
    /// The text has no shape: it is no query or write, or it says its parameters itself.
    NoShape,
}

impl MissReason {
    /// The reason as `halcyon.statements` shows it.
    pub fn name(self) -> &'static str {
        match self {
            MissReason::New => "first text of its shape",
            MissReason::ShapePlanned => "second text of its shape",
            MissReason::Vectorised => "vectorised",
            MissReason::LiteralsDecide => "literals decide the plan",
            MissReason::OtherType => "literal of another type",
            MissReason::WideRange => "range too wide",
            MissReason::NoShape => "first text",
        }
    }
}

/// How a statement runs, apart from the values it is about.
pub(crate) struct Way {
    executor: &'static str,
    outline: Option<Outline>,
    columns: Arc<[ResultColumn]>,
}

impl Way {
    /// The way of a plan that may serve a whole shape.
    ///
    /// Errors: why plans of its kind do not.
    pub fn of(prepared: &Prepared) -> Result<Way, MissReason> {
        let outline = match &prepared.plan {
            Plan::Point(plan) => Some(plan.outline()),
            Plan::Write(plan) if plan.is_row_at_a_time() => {
                plan.point_source().map(PointPlan::outline)
            }
            _ => return Err(MissReason::Vectorised),
        };
        let columns = Arc::clone(&prepared.columns);
        Ok(Way { executor: prepared.plan.executor(), outline, columns })
    }

    /// Whether both plans find the same rows in the same way and show them alike.
    pub fn is_that_of(&self, other: &Way) -> bool {
        let alike = |(own, other): (&ResultColumn, &ResultColumn)| {
            own.name == other.name
                && own.ty == other.ty
                && own.field.data_type() == other.field.data_type()
        };
        self.executor == other.executor
            && self.outline == other.outline
            && self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&*other.columns).all(alike)
    }
}

/// A plan that serves every text of a shape.
pub(crate) struct ShapePlan {
    pub prepared: Arc<Prepared>,
    /// Parameters that bound a range of an index.
    ranges: Vec<(usize, usize)>,
}

impl ShapePlan {
    /// The plan of a shape, bound with parameters, if it goes the way of the text that was first.
    ///
    /// Errors: why it may not be used.
    pub fn new(
        prepared: Arc<Prepared>,
        shape: &Shape,
        first: &Way,
    ) -> Result<ShapePlan, MissReason> {
        let is_whole = prepared.shareable
            && prepared.params.len() == shape.literals.len()
            && prepared.params.iter().all(|ty| ty.element().is_none());
        if !is_whole || !Way::of(&prepared)?.is_that_of(first) {
            return Err(MissReason::LiteralsDecide);
        }
        let ranges = match &prepared.plan {
            Plan::Point(plan) => plan.ranges_of_parameters(),
            Plan::Write(plan) => {
                plan.point_source().map(PointPlan::ranges_of_parameters).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        Ok(ShapePlan { prepared, ranges })
    }

    /// The literals of `text` as values of the plan's parameters.
    ///
    /// Errors: why the plan is not for them.
    pub fn constants(
        &self,
        shape: &Shape,
        text: &str,
        time_zone: &str,
    ) -> Result<Vec<Value>, MissReason> {
        let zone = ZoneOf { name: time_zone, parsed: None };
        let values = values_of(shape, text, &self.prepared.params, zone);
        let values = values.ok_or(MissReason::OtherType)?;
        let is_wide =
            |&(low, high): &(usize, usize)| match (whole(&values[low]), whole(&values[high])) {
                (Some(low), Some(high)) => high - low > NARROW_RANGE,
                _ => false,
            };
        match self.ranges.iter().any(is_wide) {
            true => Err(MissReason::WideRange),
            false => Ok(values),
        }
    }
}

/// The session's time zone, parsed when a literal first needs it.
struct ZoneOf<'a> {
    name: &'a str,
    parsed: Option<TimeZone>,
}

impl ZoneOf<'_> {
    fn get(&mut self) -> TimeZone {
        *self.parsed.get_or_insert_with(|| TimeZone::parse(self.name).unwrap_or_default())
    }
}

fn values_of(
    shape: &Shape,
    text: &str,
    types: &[SqlType],
    mut zone: ZoneOf<'_>,
) -> Option<Vec<Value>> {
    let literals = shape.literals.iter().zip(types);
    literals.map(|(literal, ty)| value_of(literal, text, *ty, &mut zone)).collect()
}

/// A literal as a value of `ty`; `None` if it is none, or another one after conversion.
fn value_of(literal: &Literal, text: &str, ty: SqlType, zone: &mut ZoneOf<'_>) -> Option<Value> {
    let content = literal.content(text);
    match literal.kind {
        LiteralKind::Integer | LiteralKind::TypedInteger(_) => integer(content.parse().ok()?, ty),
        LiteralKind::Decimal | LiteralKind::TypedDecimal(_) => fraction(&content, ty),
        LiteralKind::Text => quoted(&content, ty, zone),
    }
}

fn integer(value: i64, ty: SqlType) -> Option<Value> {
    const EXACT_IN_DOUBLE: u64 = 1 << 53;
    match ty {
        SqlType::SmallInt => value.try_into().ok().map(Value::Int16),
        SqlType::Integer => value.try_into().ok().map(Value::Int32),
        SqlType::BigInt => Some(Value::Int64(value)),
        SqlType::Double if value.unsigned_abs() <= EXACT_IN_DOUBLE => {
            Some(Value::Float64(value as f64))
        }
        SqlType::Decimal { precision, scale: scale @ 0.. } => {
            let scaled = i128::from(value).checked_mul(decimal::power_of_ten(scale as u32)?)?;
            decimal::fits(scaled, precision).then_some(Value::Decimal(scaled))
        }
        _ => None,
    }
}

fn fraction(digits: &str, ty: SqlType) -> Option<Value> {
    match ty {
        SqlType::Double => digits.parse().ok().map(Value::Float64),
        SqlType::Decimal { precision, scale: scale @ 0.. } => {
            let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
            if places > scale as usize {
                return None;
            }
            decimal::parse(digits, precision, scale).ok().map(Value::Decimal)
        }
        _ => None,
    }
}

fn quoted(content: &str, ty: SqlType, zone: &mut ZoneOf<'_>) -> Option<Value> {
    match ty {
        SqlType::Text | SqlType::Varchar(None) => Some(Value::Text(content.into())),
        // Neither cut nor refused for its length.
        SqlType::Varchar(Some(length)) | SqlType::Char(Some(length)) => {
            let fits = content.len() <= length as usize;
            fits.then(|| coerce::parse_owned(content, ty, &TimeZone::UTC).ok()).flatten()
        }
        SqlType::Decimal { scale, .. } => {
            let places = content.trim().split_once('.').map_or(0, |(_, places)| places.len());
            let is_plain =
                content.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
            let is_exact = is_plain && places <= scale.max(0) as usize;
            is_exact.then(|| coerce::parse_owned(content, ty, &TimeZone::UTC).ok()).flatten()
        }
        SqlType::TimestampTz => coerce::parse_owned(content, ty, &zone.get()).ok(),
        _ => coerce::parse_owned(content, ty, &TimeZone::UTC).ok(),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int16(value) => Some((*value).into()),
        Value::Int32(value) => Some((*value).into()),
        Value::Int64(value) => Some((*value).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, ty: SqlType) -> Option<Value> {
        let statement = format!("SELECT a FROM t WHERE a = {text}");
        let shape = Shape::of(&statement).expect("a shape");
        let zone = ZoneOf { name: "UTC", parsed: None };
        values_of(&shape, &statement, &[ty], zone).and_then(|mut values| values.pop())
    }

    #[test]
    fn a_literal_is_a_value_of_its_parameter_or_none() {
        let money = SqlType::Decimal { precision: 5, scale: 2 };
        for (text, ty, expected) in [
            ("7", SqlType::SmallInt, Some(Value::Int16(7))),
            ("70000", SqlType::SmallInt, None),
            ("-70000", SqlType::Integer, Some(Value::Int32(-70_000))),
            ("7", SqlType::Text, None),
            ("7", SqlType::Real, None),
            ("7", SqlType::Double, Some(Value::Float64(7.0))),
            ("9007199254740993", SqlType::Double, None),
            ("7", money, Some(Value::Decimal(700))),
            ("7.5", money, Some(Value::Decimal(750))),
            ("7.555", money, None),
            ("1000", money, None),
            ("7.5", SqlType::Integer, None),
            ("'it''s'", SqlType::Text, Some(Value::Text("it's".into()))),
            ("'abc'", SqlType::Varchar(Some(3)), Some(Value::Text("abc".into()))),
            ("'abcd'", SqlType::Varchar(Some(3)), None),
            ("'12'", SqlType::Integer, Some(Value::Int32(12))),
            ("'1e2'", money, None),
            ("'2000-01-02'", SqlType::Date, Some(Value::Date(1))),
            ("'soon'", SqlType::Date, None),
        ] {
            let found = value(text, ty);
            match (&found, &expected) {
                // Dates count from an epoch that is the store's affair.
                (Some(Value::Date(_)), Some(Value::Date(_))) => {}
                _ => assert_eq!(found, expected, "{text} as {ty}"),
            }
        }
    }
}
