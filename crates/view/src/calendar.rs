//! Days since 1970-01-01 to years, months and days; proleptic Gregorian.

use crate::error::EvalError;
use crate::program::{DatePart, NULL_INT};

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// Beyond it, years do not fit the arithmetic below; SQL's dates end far earlier.
const DAYS_MAX: i64 = 1 << 40;

/// A part of a date; NULL of NULL.
pub fn date_part(part: DatePart, days: i64) -> Result<i64, EvalError> {
    if days == NULL_INT {
        return Ok(NULL_INT);
    }
    if days.unsigned_abs() > DAYS_MAX.unsigned_abs() {
        return Err(EvalError::Overflow);
    }
    let (year, month, day) = civil(days);
    Ok(match part {
        DatePart::Year => year,
        DatePart::Month => month,
        DatePart::Day => day,
        DatePart::Quarter => (month + 2) / 3,
        // 1970-01-01 was a Thursday.
        DatePart::DayOfWeek => (days + 4).rem_euclid(7),
        DatePart::DayOfYear => days - days_of(year, 1, 1) + 1,
    })
}

/// Days of a timestamp, rounded down; NULL of NULL.
pub fn date_of(timestamp_us: i64) -> i64 {
    if timestamp_us == NULL_INT { NULL_INT } else { timestamp_us.div_euclid(DAY_US) }
}

/// Year, month and day. Years start in March here, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days of a month, the slow and obvious way.
    fn month_days(year: i64, month: i64) -> i64 {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let (mut year, mut month, mut day, mut of_year) = (1600, 1, 1, 1);
        for days in days_of(1600, 1, 1)..days_of(2400, 1, 1) {
            assert_eq!(civil(days), (year, month, day));
            assert_eq!(date_part(DatePart::DayOfYear, days), Ok(of_year));
            assert_eq!(date_part(DatePart::Quarter, days), Ok((month - 1) / 3 + 1));
            (day, of_year) = (day + 1, of_year + 1);
            if day > month_days(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year, of_year) = (1, year + 1, 1);
            }
        }
    }

    #[test]
    fn known_days() {
        assert_eq!(date_part(DatePart::Year, 10_471), Ok(1998)); // 1998-09-02
        assert_eq!(date_part(DatePart::DayOfWeek, 0), Ok(4));
        assert_eq!(date_part(DatePart::DayOfWeek, -5), Ok(6));
        assert_eq!(date_part(DatePart::Year, NULL_INT), Ok(NULL_INT));
        assert_eq!(date_part(DatePart::Year, i64::MAX), Err(EvalError::Overflow));
        assert_eq!((date_of(-1), date_of(DAY_US), date_of(NULL_INT)), (-1, 1, NULL_INT));
    }
}
