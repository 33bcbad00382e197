//! Dates and timestamps: fields, truncation, and adding intervals.
//!
//! Days count from 1970-01-01, microseconds from its midnight. The calendar is the Gregorian one,
//! also before it was invented, as in PostgreSQL.

use halcyon_base::SqlState;
use halcyon_store::Interval;

use crate::error::{Result, SqlError};

pub(crate) const DAY_US: i64 = 86_400_000_000;

/// A field of a date or timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part {
    Year,
    Quarter,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    DayOfWeek,
    DayOfYear,
    Epoch,
}

impl Part {
    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Part> {
        let is = |names: &[&str]| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        Some(match () {
            () if is(&["year", "years"]) => Part::Year,
            () if is(&["quarter"]) => Part::Quarter,
            () if is(&["month", "months"]) => Part::Month,
            () if is(&["day", "days"]) => Part::Day,
            () if is(&["hour", "hours"]) => Part::Hour,
            () if is(&["minute", "minutes"]) => Part::Minute,
            () if is(&["second", "seconds"]) => Part::Second,
            () if is(&["dow"]) => Part::DayOfWeek,
            () if is(&["doy"]) => Part::DayOfYear,
            () if is(&["epoch"]) => Part::Epoch,
            () => return None,
        })
    }

    /// Whether `date_trunc` knows it.
    pub(super) fn truncates(self) -> bool {
        !matches!(self, Part::DayOfWeek | Part::DayOfYear | Part::Epoch)
    }

    /// Its value, a whole number but for the epoch, which callers take from the microseconds.
    pub(super) fn extract(self, micros: i64) -> i64 {
        let (day, of_day) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
        let (year, month, dom) = civil(day);
        match self {
            Part::Year => year,
            Part::Quarter => (month as i64 + 2) / 3,
            Part::Month => month as i64,
            Part::Day => dom as i64,
            Part::Hour => of_day / 3_600_000_000,
            Part::Minute => of_day / 60_000_000 % 60,
            Part::Second => of_day / 1_000_000 % 60,
            Part::DayOfWeek => (day + 4).rem_euclid(7),
            Part::DayOfYear => day - days(year, 1, 1) + 1,
            Part::Epoch => micros.div_euclid(1_000_000),
        }
    }

    /// The beginning of the field's span.
    pub(super) fn truncate(self, micros: i64) -> i64 {
        let (year, month, _) = civil(micros.div_euclid(DAY_US));
        let unit = match self {
            Part::Year => return days(year, 1, 1) * DAY_US,
            Part::Quarter => return days(year, (month - 1) / 3 * 3 + 1, 1) * DAY_US,
            Part::Month => return days(year, month, 1) * DAY_US,
            Part::Hour => 3_600_000_000,
            Part::Minute => 60_000_000,
            Part::Second => 1_000_000,
            _ => DAY_US,
        };
        micros - micros.rem_euclid(unit)
    }
}

/// Year, month and day of a day number. Source: Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days.
pub(super) fn civil(day: i64) -> (i64, u32, u32) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * of_year + 2) / 153;
    let dom = (of_year - (153 * month_shifted + 2) / 5 + 1) as u32;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 } as u32;
    (year_of_era + era * 400 + (month <= 2) as i64, month, dom)
}

/// The day number of a date. Source: as above, days_from_civil.
pub(super) fn days(year: i64, month: u32, dom: u32) -> i64 {
    let year = year - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_shifted = (month as i64 + 9) % 12;
    let of_year = (153 * month_shifted + 2) / 5 + dom as i64 - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// Days in a month.
fn month_days(year: i64, month: u32) -> u32 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (days(next_year, next, 1) - days(year, month, 1)) as u32
}

/// Adds an interval: months first (the day is cut to the month's last), then days, then time.
pub(super) fn shift(micros: i64, by: Interval, subtract: bool) -> Result<i64> {
    let sign = if subtract { -1 } else { 1 };
    let (mut day, of_day) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    if by.months != 0 {
        let (year, month, dom) = civil(day);
        let months = year * 12 + month as i64 - 1 + sign * by.months as i64;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        day = days(year, month, dom.min(month_days(year, month)));
    }
    day += sign * by.days as i64;
    let moved = day as i128 * DAY_US as i128 + of_day as i128;
    let moved = moved + sign as i128 * (by.nanos / 1_000) as i128;
    i64::try_from(moved).map_err(|_| overflow())
}

/// 22008.
#[cold]
pub(super) fn overflow() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_converts_both_ways() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(days(2000, 2, 29), 11_016);
        for day in (-800_000..800_000).step_by(37) {
            let (year, month, dom) = civil(day);
            assert_eq!(days(year, month, dom), day);
        }
    }

    #[test]
    fn months_are_cut_to_their_last_day() {
        let month = Interval { months: 1, ..Interval::default() };
        let at = |year, month, dom| days(year, month, dom) * DAY_US;
        assert_eq!(shift(at(2024, 1, 31), month, false).unwrap(), at(2024, 2, 29));
        assert_eq!(shift(at(2023, 3, 31), month, true).unwrap(), at(2023, 2, 28));
        assert!(shift(i64::MAX, Interval { days: 1, ..Interval::default() }, false).is_err());
    }

    #[test]
    fn fields_are_those_of_the_calendar() {
        let at = days(2024, 5, 17) * DAY_US + 13 * 3_600_000_000 + 59 * 60_000_000 + 7_500_000;
        let fields = [Part::Year, Part::Quarter, Part::Month, Part::Day, Part::Hour, Part::Minute];
        assert_eq!(fields.map(|part| part.extract(at)), [2024, 2, 5, 17, 13, 59]);
        assert_eq!(
            [Part::Second, Part::DayOfWeek, Part::DayOfYear].map(|p| p.extract(at)),
            [7, 5, 138]
        );
        assert_eq!(Part::Quarter.truncate(at), days(2024, 4, 1) * DAY_US);
        assert_eq!(Part::Minute.truncate(at), at - 7_500_000);
    }
}
