//! The calendar: days and dates, fields of moments, truncation, and moving by intervals.
//!
//! Days count from 1970-01-01, microseconds from its midnight. The calendar is the Gregorian one,
//! also before it was invented, as in PostgreSQL; inside, 1 BC is the year 0.
//! Deviation: fields of years before 1 count on from there (`year` of 1 BC is 0, not −1).
//!
//! Source: Howard Hinnant, "chrono-compatible low-level date algorithms".

use crate::error::{Result, ValueError};
use crate::value::{Interval, ValueRef};

/// Microseconds of a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE_US: i64 = 60 * SECOND_US;
/// Microseconds of an hour.
pub const HOUR_US: i64 = 60 * MINUTE_US;
/// Microseconds of a day.
pub const DAY_US: i64 = 24 * HOUR_US;
/// Nanoseconds of a microsecond.
pub const US_NS: i64 = 1_000;
/// Nanoseconds of a day.
pub const DAY_NS: i64 = DAY_US * US_NS;
/// Seconds of a day.
pub const DAY_SECONDS: u64 = 86_400;

/// The day 2000-01-01, from which PostgreSQL's binary formats count.
pub const POSTGRES_EPOCH_DAYS: i32 = 10_957;
/// Midnight of 2000-01-01, in microseconds.
pub const POSTGRES_EPOCH_US: i64 = POSTGRES_EPOCH_DAYS as i64 * DAY_US;
/// The Julian day number of 1970-01-01.
const JULIAN_EPOCH: i64 = 2_440_588;

/// Year, month and day of a day number, which must lie within ±2⁶²; no type exceeds that.
#[inline]
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    // Years start in March here, so that the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * march_month + 2) / 5 + 1) as u32;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day number of a date; the inverse of [`civil_from_days`].
#[inline]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (i64::from(month) + 9) % 12;
    let of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// Days in a month.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The number of the day in which a moment lies.
#[inline]
pub fn day_of(us: i64) -> i64 {
    us.div_euclid(DAY_US)
}

/// The time of day at a moment, in microseconds since midnight.
#[inline]
pub fn time_of(us: i64) -> i64 {
    us.rem_euclid(DAY_US)
}

/// The midnight at which a day begins, in microseconds. Errors: 22008.
#[inline]
pub fn midnight(day: i64) -> Result<i64> {
    day.checked_mul(DAY_US).ok_or(ValueError::MomentOutOfRange("timestamp"))
}

/// What follows the name of a field that `date_part` was asked for, and not EXTRACT: of a date that function has the fields
/// of the day's midnight.
pub const OF_FUNCTION: &str = "\u{1}";

/// A field that EXTRACT, `date_part` and `date_trunc` know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Field {
    Year,
    Quarter,
    Month,
    /// The ISO week, which begins on Monday.
    Week,
    Day,
    Hour,
    Minute,
    Second,
    DayOfWeek,
    DayOfYear,
    Epoch,
    Millisecond,
    Microsecond,
    Julian,
    IsoDayOfWeek,
    IsoYear,
    Decade,
    Century,
    Millennium,
    /// Offset of the time zone, or its hours or minutes. Moments are kept in UTC, so the value is
    /// 0.
    Zone,
}

impl Field {
    /// The field of a name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Field> {
        const NAMES: &[(&str, Field)] = &[
            ("year", Field::Year),
            ("years", Field::Year),
            ("quarter", Field::Quarter),
            ("month", Field::Month),
            ("months", Field::Month),
            ("week", Field::Week),
            ("weeks", Field::Week),
            ("day", Field::Day),
            ("days", Field::Day),
            ("hour", Field::Hour),
            ("hours", Field::Hour),
            ("minute", Field::Minute),
            ("minutes", Field::Minute),
            ("second", Field::Second),
            ("seconds", Field::Second),
            ("dow", Field::DayOfWeek),
            ("doy", Field::DayOfYear),
            ("epoch", Field::Epoch),
            ("millisecond", Field::Millisecond),
            ("milliseconds", Field::Millisecond),
            ("microsecond", Field::Microsecond),
            ("microseconds", Field::Microsecond),
            ("julian", Field::Julian),
            ("isodow", Field::IsoDayOfWeek),
            ("isoyear", Field::IsoYear),
            ("decade", Field::Decade),
            ("century", Field::Century),
            ("millennium", Field::Millennium),
            ("timezone", Field::Zone),
            ("timezone_hour", Field::Zone),
            ("timezone_minute", Field::Zone),
        ];
        let found = NAMES.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, field)| *field)
    }

    /// Whether [`Field::truncate`] supports the field.
    pub fn truncates(self) -> bool {
        use Field::{DayOfWeek, DayOfYear, Epoch, IsoDayOfWeek, IsoYear, Julian, Zone};
        !matches!(self, DayOfWeek | DayOfYear | Epoch | IsoDayOfWeek | IsoYear | Julian | Zone)
    }

    /// The field of a day, as a whole number. A field of the time of day has its value at midnight.
    #[inline]
    pub fn of_day(self, day: i64) -> i64 {
        let (year, month, day_of_month) = civil_from_days(day);
        // 1970-01-01 was a Thursday.
        let weekday = || (day + 4).rem_euclid(7);
        // A week is of the year of its Thursday.
        let thursday = || day - (weekday() + 6) % 7 + 3;
        match self {
            Field::Year => era(year),
            Field::Quarter => i64::from(month.div_ceil(3)),
            Field::Month => i64::from(month),
            Field::Day => i64::from(day_of_month),
            Field::DayOfWeek => weekday(),
            Field::DayOfYear => day - days_from_civil(year, 1, 1) + 1,
            Field::IsoDayOfWeek => (weekday() + 6) % 7 + 1,
            Field::IsoYear => era(civil_from_days(thursday()).0),
            Field::Week => {
                let first = days_from_civil(civil_from_days(thursday()).0, 1, 1);
                (thursday() - first) / 7 + 1
            }
            Field::Decade => year.div_euclid(10),
            Field::Century => era((year + 99).div_euclid(100)),
            Field::Millennium => era((year + 999).div_euclid(1000)),
            Field::Julian => day + JULIAN_EPOCH,
            Field::Epoch => day * (DAY_US / SECOND_US),
            Field::Hour | Field::Minute | Field::Second => 0,
            Field::Millisecond | Field::Microsecond | Field::Zone => 0,
        }
    }

    /// The field of a moment, as a whole number without its fraction.
    #[inline]
    pub fn extract(self, us: i64) -> i64 {
        match self {
            Field::Hour => time_of(us) / HOUR_US,
            Field::Minute => time_of(us) / MINUTE_US % 60,
            Field::Second => time_of(us) / SECOND_US % 60,
            Field::Millisecond => time_of(us) % MINUTE_US / 1_000,
            Field::Microsecond => time_of(us) % MINUTE_US,
            Field::Epoch => us.div_euclid(SECOND_US),
            of_day => of_day.of_day(day_of(us)),
        }
    }

    /// The beginning of the field's span in which a moment lies. Fields that do not truncate
    /// ([`Field::truncates`]) are taken for the day.
    #[inline]
    pub fn truncate(self, us: i64) -> i64 {
        let day = day_of(us);
        let (year, month, _) = civil_from_days(day);
        let unit = match self {
            Field::Year => return days_from_civil(year, 1, 1) * DAY_US,
            Field::Decade => return days_from_civil(year.div_euclid(10) * 10, 1, 1) * DAY_US,
            // Centuries and millennia begin with the year 1.
            Field::Century => {
                let last = (year + 99).div_euclid(100) * 100;
                return days_from_civil(last - 99, 1, 1) * DAY_US;
            }
            Field::Millennium => {
                let last = (year + 999).div_euclid(1000) * 1000;
                return days_from_civil(last - 999, 1, 1) * DAY_US;
            }
            // 1970-01-01 was a Thursday.
            Field::Week => return (day - (day + 3).rem_euclid(7)) * DAY_US,
            Field::Quarter => return days_from_civil(year, (month - 1) / 3 * 3 + 1, 1) * DAY_US,
            Field::Month => return days_from_civil(year, month, 1) * DAY_US,
            Field::Hour => HOUR_US,
            Field::Minute => MINUTE_US,
            Field::Second => SECOND_US,
            Field::Millisecond => 1_000,
            Field::Microsecond => 1,
            _ => DAY_US,
        };
        us - us.rem_euclid(unit)
    }
}

/// The number of a year, century or millennium as eras count: the one before 1 is −1, there is no
/// 0.
fn era(number: i64) -> i64 {
    if number <= 0 { number - 1 } else { number }
}

/// A value that has fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A date or timestamp, in microseconds since 1970.
    At(i64),
    /// A time of day, in microseconds since midnight.
    OfDay(i64),
    /// A span of time.
    Span(Interval),
}

impl Moment {
    /// The fields of a value; `None` if it has no fields, or lies beyond all dates.
    pub fn of(value: ValueRef<'_>) -> Option<Moment> {
        Some(match value {
            ValueRef::Date(day) => Moment::At(midnight(i64::from(day)).ok()?),
            ValueRef::Timestamp(us) | ValueRef::TimestampTz(us) => Moment::At(us),
            ValueRef::Time(us) => Moment::OfDay(us),
            ValueRef::Interval(interval) => Moment::Span(interval),
            _ => return None,
        })
    }

    /// A field that may have a fraction, in millionths; `None` if the value has no such field.
    pub fn fraction(self, field: Field) -> Option<i128> {
        let of_day = match self {
            Moment::At(us) => time_of(us),
            Moment::OfDay(us) => us,
            Moment::Span(interval) => interval.nanos / US_NS,
        };
        let of_minute = i128::from(of_day % MINUTE_US);
        Some(match (field, self) {
            (Field::Second, _) => of_minute,
            (Field::Millisecond, _) => of_minute * 1_000,
            (Field::Microsecond, _) => of_minute * 1_000_000,
            (Field::Epoch, Moment::At(us) | Moment::OfDay(us)) => i128::from(us),
            (Field::Epoch, Moment::Span(interval)) => {
                // A year has 365.25 days and a month 30, as in PostgreSQL.
                let (years, months) = (interval.months / 12, interval.months % 12);
                let hours = i128::from(years) * 1461 * 6
                    + i128::from(months) * 30 * 24
                    + i128::from(interval.days) * 24;
                hours * i128::from(HOUR_US) + i128::from(of_day)
            }
            (Field::Julian, Moment::At(us)) => {
                let parts = i128::from(of_day) * 1_000_000 / i128::from(DAY_US);
                i128::from(Field::Julian.of_day(day_of(us))) * 1_000_000 + parts
            }
            _ => return None,
        })
    }

    /// A field that is a whole number and that DataFusion's `date_part` lacks; `None` if the value
    /// has no such field.
    pub fn whole(self, field: Field) -> Option<i64> {
        use Field::{
            Century, DayOfWeek, DayOfYear, Decade, IsoDayOfWeek, IsoYear, Millennium, Zone,
        };
        let years = match self {
            Moment::At(us) => {
                let known = matches!(
                    field,
                    DayOfWeek
                        | IsoDayOfWeek
                        | DayOfYear
                        | Decade
                        | Century
                        | Millennium
                        | IsoYear
                        | Zone
                );
                return known.then(|| field.extract(us));
            }
            Moment::OfDay(_) => return (field == Zone).then_some(0),
            Moment::Span(interval) => i64::from(interval.months / 12),
        };
        Some(match field {
            Decade => years / 10,
            Century => years / 100,
            Millennium => years / 1000,
            Field::Quarter => match self {
                Moment::Span(interval) => i64::from(interval.months % 12 / 3) + 1,
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// A moment plus or minus an interval: first its months (a day beyond the month's end becomes the
/// last day), then its days, then its time, cut to microseconds. Errors: 22008.
pub fn shift(us: i64, by: Interval, subtract: bool) -> Result<i64> {
    let sign = if subtract { -1 } else { 1 };
    let (mut day, of_day) = (day_of(us), time_of(us));
    if by.months != 0 {
        let (year, month, day_of_month) = civil_from_days(day);
        let months = year * 12 + i64::from(month) - 1 + sign * i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        day = days_from_civil(year, month, day_of_month.min(days_in_month(year, month)));
    }
    day += sign * i64::from(by.days);
    let moved = i128::from(day) * i128::from(DAY_US) + i128::from(of_day);
    let moved = moved + i128::from(sign) * i128::from(by.nanos / US_NS);
    i64::try_from(moved).map_err(|_| ValueError::MomentOutOfRange("timestamp"))
}

/// The interval between two moments, as days and a time. Errors: 22003.
pub fn difference(left: i64, right: i64) -> Result<Interval> {
    let far = ValueError::OutOfRange("interval");
    let us = left.checked_sub(right).ok_or(far.clone())?;
    let days = i32::try_from(us / DAY_US).map_err(|_| far)?;
    Ok(Interval { months: 0, days, nanos: us % DAY_US * US_NS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let (mut year, mut month, mut day, mut of_year) = (1600, 1, 1, 1);
        for days in days_from_civil(1600, 1, 1)..days_from_civil(2400, 1, 1) {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(Field::DayOfYear.of_day(days), of_year);
            assert_eq!(Field::Quarter.of_day(days), i64::from(month - 1) / 3 + 1);
            (day, of_year) = (day + 1, of_year + 1);
            if day > days_in_month(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year, of_year) = (1, year + 1, 1);
            }
        }
    }

    #[test]
    fn dates_convert_both_ways_far_away_too() {
        assert_eq!(civil_from_days(-1), (1969, 12, 31));
        assert_eq!(days_from_civil(2000, 2, 29), 11_016);
        assert_eq!(days_from_civil(2000, 1, 1), i64::from(POSTGRES_EPOCH_DAYS));
        for day in (-8_000_000..8_000_000).step_by(37) {
            let (year, month, day_of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, day_of_month), day);
        }
    }

    #[test]
    fn fields_are_those_of_the_calendar() {
        let at = days_from_civil(2024, 5, 17) * DAY_US + 13 * HOUR_US + 59 * MINUTE_US + 7_500_000;
        let extract = |name: &str| Field::from_name(name).expect(name).extract(at);
        let fields =
            ["YEAR", "quarter", "months", "day", "hours", "minute", "second", "dow", "doy"];
        assert_eq!(fields.map(extract), [2024, 2, 5, 17, 13, 59, 7, 5, 138]);
        let rare = ["isodow", "isoyear", "decade", "century", "millennium", "milliseconds"];
        assert_eq!(rare.map(extract), [5, 2024, 202, 21, 3, 7_500]);
        assert_eq!(Field::Quarter.truncate(at), days_from_civil(2024, 4, 1) * DAY_US);
        assert_eq!(Field::Minute.truncate(at), at - 7_500_000);
        assert_eq!((day_of(-1), time_of(-1)), (-1, DAY_US - 1));
        assert_eq!(Field::DayOfWeek.of_day(-5), 6);
        assert!(Field::from_name("fortnight").is_none() && !Field::Epoch.truncates());
    }

    #[test]
    fn fractions_and_rare_fields_of_moments_times_and_spans() {
        let at = Moment::of(ValueRef::Timestamp(-1)).expect("a moment");
        assert_eq!(at.fraction(Field::Second), Some(59_999_999));
        assert_eq!(at.fraction(Field::Epoch), Some(-1));
        assert_eq!(Moment::At(DAY_US / 2).fraction(Field::Julian), Some(2_440_588_500_000));
        assert_eq!(at.whole(Field::IsoYear), Some(1970));
        let span = Moment::Span(Interval { months: 27, days: -1, nanos: 61_500_000_000 });
        assert_eq!(span.fraction(Field::Second), Some(1_500_000));
        let epoch = (2 * 1461 * 6 + 3 * 720 - 24) * 3_600_000_000 + 61_500_000;
        assert_eq!(span.fraction(Field::Epoch), Some(epoch));
        assert_eq!((span.whole(Field::Decade), span.whole(Field::IsoYear)), (Some(0), None));
        let time = Moment::of(ValueRef::Time(HOUR_US)).expect("a time");
        assert_eq!((time.whole(Field::DayOfWeek), time.whole(Field::Zone)), (None, Some(0)));
        assert_eq!(Moment::of(ValueRef::Int32(1)), None);
    }

    #[test]
    fn months_are_cut_to_their_last_day() {
        let month = Interval { months: 1, ..Interval::default() };
        let at = |year, month, day| days_from_civil(year, month, day) * DAY_US;
        assert_eq!(shift(at(2024, 1, 31), month, false), Ok(at(2024, 2, 29)));
        assert_eq!(shift(at(2023, 3, 31), month, true), Ok(at(2023, 2, 28)));
        let day = Interval { days: 1, ..Interval::default() };
        assert_eq!(shift(i64::MAX, day, false), Err(ValueError::MomentOutOfRange("timestamp")));
        assert!(midnight(i64::MAX).is_err());
    }

    #[test]
    fn differences_are_days_and_a_rest_of_one_sign() {
        let rest = |days, nanos| Ok(Interval { months: 0, days, nanos });
        assert_eq!(difference(DAY_US + 5, 0), rest(1, 5_000));
        assert_eq!(difference(0, DAY_US + 5), rest(-1, -5_000));
        assert_eq!(difference(i64::MAX, -1), Err(ValueError::OutOfRange("interval")));
    }
}
