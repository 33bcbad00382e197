//! Comparison: the order of values of each type, and the operators over an order.
//!
//! The order of text is the order of its bytes (collation C), which is that of its code points.
//! CHAR values are stored without blanks at the end, so they compare as text.

use core::cmp::Ordering;

use crate::float;
use crate::value::ValueRef;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Compare {
    /// All comparisons.
    pub const ALL: [Compare; 6] =
        [Compare::Eq, Compare::NotEq, Compare::Lt, Compare::LtEq, Compare::Gt, Compare::GtEq];

    /// The comparison with its sides exchanged.
    pub fn flipped(self) -> Self {
        match self {
            Compare::Lt => Compare::Gt,
            Compare::LtEq => Compare::GtEq,
            Compare::Gt => Compare::Lt,
            Compare::GtEq => Compare::LtEq,
            other => other,
        }
    }

    /// The comparison that is true where this one is false, of values that are not NULL.
    pub fn opposite(self) -> Self {
        match self {
            Compare::Eq => Compare::NotEq,
            Compare::NotEq => Compare::Eq,
            Compare::Lt => Compare::GtEq,
            Compare::LtEq => Compare::Gt,
            Compare::Gt => Compare::LtEq,
            Compare::GtEq => Compare::Lt,
        }
    }

    /// Whether two values in this order meet the comparison.
    #[inline(always)]
    pub fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Compare::Eq => ordering.is_eq(),
            Compare::NotEq => ordering.is_ne(),
            Compare::Lt => ordering.is_lt(),
            Compare::LtEq => ordering.is_le(),
            Compare::Gt => ordering.is_gt(),
            Compare::GtEq => ordering.is_ge(),
        }
    }

    /// The comparison between days that is equivalent to this comparison between the days'
    /// midnights and a moment of day d: `day < 12:00 of d` is `day <= d`. `None` if there is none:
    /// no day's midnight equals a moment that is no midnight. `is_midnight`: whether the moment is
    /// a midnight.
    pub fn of_days(self, is_midnight: bool) -> Option<Self> {
        match self {
            Compare::Lt if !is_midnight => Some(Compare::LtEq),
            Compare::GtEq if !is_midnight => Some(Compare::Gt),
            Compare::Eq | Compare::NotEq if !is_midnight => None,
            same => Some(same),
        }
    }
}

/// The order of two values of one kind, neither of them NULL; integers of all widths are one kind,
/// and so are floats. Panics if the kinds differ, because the plan is broken then.
#[inline]
pub fn values(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
        (ValueRef::Int32(a), ValueRef::Int32(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
        (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
        (ValueRef::Interval(a), ValueRef::Interval(b)) => a.sort_key().cmp(&b.sort_key()),
        (ValueRef::Uuid(a), ValueRef::Uuid(b)) => a.cmp(&b),
        (a, b) => match (whole(a), whole(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => float::compare(float(a), float(b)),
        },
    }
}

/// The integer by which a value is stored: for integers, dates, times and timestamps.
#[inline]
pub fn whole(value: ValueRef<'_>) -> Option<i64> {
    Some(match value {
        ValueRef::Int16(value) => i64::from(value),
        ValueRef::Int32(value) | ValueRef::Date(value) => i64::from(value),
        ValueRef::Int64(value)
        | ValueRef::Time(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value) => value,
        _ => return None,
    })
}

#[inline]
fn float(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Float32(value) => f64::from(value),
        ValueRef::Float64(value) => value,
        other => panic!("{other:?} compared with another kind of value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Interval;

    #[test]
    fn operators_accept_the_orders_that_their_opposites_refuse() {
        for compare in Compare::ALL {
            for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                assert_ne!(compare.accepts(order), compare.opposite().accepts(order));
                assert_eq!(compare.accepts(order), compare.flipped().accepts(order.reverse()));
            }
        }
    }

    #[test]
    fn days_say_the_same_as_moments() {
        const DAY: i64 = crate::calendar::DAY_US;
        for us in [-2 * DAY, -DAY - 1, -1, 0, 1, DAY / 2, DAY - 1, DAY] {
            for compare in Compare::ALL {
                let (day, midnight) = (us.div_euclid(DAY), us % DAY == 0);
                let Some(of_days) = compare.of_days(midnight) else {
                    assert!(matches!(compare, Compare::Eq | Compare::NotEq) && !midnight);
                    continue;
                };
                for date in -4..4 {
                    let moments = compare.accepts((date * DAY).cmp(&us));
                    assert_eq!(of_days.accepts(date.cmp(&day)), moments, "{date} {compare:?} {us}");
                }
            }
        }
    }

    #[test]
    fn values_of_one_kind_have_an_order() {
        let rising = |values: &[ValueRef<'_>]| {
            values.windows(2).all(|pair| super::values(pair[0], pair[1]).is_lt())
        };
        assert!(rising(&[ValueRef::Int16(-1), ValueRef::Int64(0), ValueRef::Int32(1)]));
        assert!(rising(&[
            ValueRef::Float32(1.5),
            ValueRef::Float64(2.0),
            ValueRef::Float64(f64::NAN)
        ]));
        assert!(rising(&[ValueRef::Text("Z"), ValueRef::Text("a"), ValueRef::Text("ä")]));
        assert!(rising(&[ValueRef::Bytes(&[1, 255]), ValueRef::Bytes(&[2])]));
        assert!(rising(&[ValueRef::Bool(false), ValueRef::Bool(true)]));
        assert!(rising(&[ValueRef::Uuid([0; 16]), ValueRef::Uuid([1; 16])]));
        let month = ValueRef::Interval(Interval { months: 1, ..Interval::default() });
        let days = ValueRef::Interval(Interval { days: 30, ..Interval::default() });
        assert!(super::values(month, days).is_eq());
        assert!(super::values(ValueRef::Float64(-0.0), ValueRef::Float32(0.0)).is_eq());
    }
}
