//! Time zones: fixed offsets and names of the tz database.

use chrono::{Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone as _};
use halcyon_value::abbreviations;
use halcyon_value::calendar::DAY_US;
use halcyon_value::cast::to_local;
use halcyon_value::datetime::{Zone, parse_zone};

use crate::error::{Result, SqlError, SqlState};

/// A time zone that local times are read and shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A zone of the tz database.
    Named(chrono_tz::Tz),
}

impl Default for TimeZone {
    fn default() -> Self {
        TimeZone::UTC
    }
}

impl TimeZone {
    /// UTC itself.
    pub const UTC: TimeZone = TimeZone::Fixed(0);

    /// Reads `UTC`, `Z`, `±HH[:MM[:SS]]`, `±HHMM` or a name of the tz database in any case.
    ///
    /// Offsets count eastwards, as in ISO 8601. Errors: 22023.
    pub fn parse(text: &str) -> Result<TimeZone> {
        parse_zone(text).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{text}\" not recognized"),
            )
        })
    }

    /// The zone that the setting `timezone` names, and the name that SHOW tells. A number of hours counts eastwards,
    /// any other offset westwards, with or without letters before it, as POSIX has it (`+02:00` is west of UTC).
    /// Errors: 22023.
    ///
    /// Source: PostgreSQL 15, "Time Zones", and `check_timezone` of its sources.
    pub fn of_setting(text: &str) -> Result<(TimeZone, String)> {
        let trimmed = text.trim();
        if let Some(seconds) = seconds_of_hours(trimmed) {
            return Ok((TimeZone::Fixed(seconds), posix_name(seconds)));
        }
        let bounded = |seconds: &i32| seconds.abs() < 16 * 3600;
        if let Some(seconds_west) = posix_offset(trimmed).filter(bounded) {
            return Ok((TimeZone::Fixed(-seconds_west), trimmed.to_owned()));
        }
        let zone = TimeZone::parse(trimmed)?;
        let shown = match zone {
            TimeZone::Named(zone) => zone.name().to_owned(),
            TimeZone::Fixed(_) => trimmed.to_ascii_uppercase(),
        };
        Ok((zone, shown))
    }

    /// A text that [`TimeZone::parse`] reads as this zone.
    pub fn spelling(&self) -> String {
        match self {
            TimeZone::Fixed(0) => "UTC".to_owned(),
            TimeZone::Fixed(seconds) => signed_clock(*seconds, true),
            TimeZone::Named(zone) => zone.name().to_owned(),
        }
    }

    /// The zones of the tz database with their names, in the order of these.
    pub fn all() -> impl Iterator<Item = (&'static str, TimeZone)> {
        chrono_tz::TZ_VARIANTS.iter().map(|zone| (zone.name(), TimeZone::Named(*zone)))
    }

    /// Whether a moment in UTC microseconds lies in summer time.
    pub fn is_summer_at(&self, utc_us: i64) -> bool {
        let TimeZone::Named(zone) = self else { return false };
        naive(utc_us).is_some_and(|moment| {
            let offset = zone.offset_from_utc_datetime(&moment);
            !chrono_tz::OffsetComponents::dst_offset(&offset).is_zero()
        })
    }

    /// Seconds east of UTC at a moment in UTC microseconds.
    pub fn offset_at(&self, utc_us: i64) -> i32 {
        match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(zone) => match naive(utc_us) {
                Some(moment) => zone.offset_from_utc_datetime(&moment).fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// The moment that a local time names. In a gap the offset before it holds; what happens
    /// twice is read as standard time. Both as PostgreSQL does.
    pub fn to_utc(&self, local_us: i64) -> Option<i64> {
        let offset = match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(zone) => match naive(local_us) {
                Some(local) => match zone.offset_from_local_datetime(&local) {
                    chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
                    chrono::LocalResult::Ambiguous(first, second) => {
                        first.fix().local_minus_utc().min(second.fix().local_minus_utc())
                    }
                    chrono::LocalResult::None => self.offset_at(local_us - DAY_US),
                },
                None => 0,
            },
        };
        local_us.checked_sub(offset as i64 * 1_000_000)
    }

    /// The abbreviation of the zone at a moment in UTC microseconds; of a fixed offset, the offset.
    pub fn abbreviation_at(&self, utc_us: i64) -> String {
        match self {
            TimeZone::Fixed(0) => "UTC".to_owned(),
            TimeZone::Fixed(seconds) => {
                let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
                let sign = if *seconds < 0 { '-' } else { '+' };
                match minutes {
                    0 => format!("{sign}{hours:02}"),
                    minutes => format!("{sign}{hours:02}:{minutes:02}"),
                }
            }
            TimeZone::Named(zone) => naive(utc_us)
                .and_then(|moment| {
                    let offset = zone.offset_from_utc_datetime(&moment);
                    chrono_tz::OffsetName::abbreviation(&offset).map(str::to_owned)
                })
                .unwrap_or_default(),
        }
    }

    /// The local time of a moment.
    pub fn to_local(&self, utc_us: i64) -> Option<i64> {
        to_local(utc_us, *self)
    }
}

impl Zone for TimeZone {
    fn fixed(seconds: i32) -> Self {
        TimeZone::Fixed(seconds)
    }

    fn named(name: &str) -> Option<Self> {
        let named =
            chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
        named.map(|zone| TimeZone::Named(*zone))
    }

    fn abbreviated(name: &str) -> Option<i32> {
        abbreviations::offset_of(name)
    }

    fn offset_at(self, utc_us: i64) -> i32 {
        TimeZone::offset_at(&self, utc_us)
    }

    fn to_utc(self, local_us: i64) -> Option<i64> {
        TimeZone::to_utc(&self, local_us)
    }
}

/// Seconds to the east that a number of hours is: `2`, `-1.5`.
fn seconds_of_hours(text: &str) -> Option<i32> {
    let hours: f64 = text.parse().ok()?;
    (hours.is_finite() && hours.abs() < 16.0).then(|| (hours * 3600.0).round() as i32)
}

/// The name that POSIX gives to an offset: `<+02>-02`, whose second number counts westwards.
pub fn posix_name(seconds_east: i32) -> String {
    let (east, west) = (signed_clock(seconds_east, false), signed_clock(-seconds_east, false));
    format!("<{east}>{west}")
}

/// `±HH[:MM[:SS]]`; `whole`: with minutes and seconds in any case.
fn signed_clock(seconds: i32, whole: bool) -> String {
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) if !whole => format!("{sign}{hours:02}"),
        (_, 0) if !whole => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Seconds to the west of `+10`, `-05:30`, `UTC+5`, `XYZ-1:00:00` or `<+02>-02`; `None` for other names.
pub fn posix_offset(name: &str) -> Option<i32> {
    let letters = match name.strip_prefix('<') {
        Some(quoted) => quoted.find('>')? + 2,
        None => name.bytes().take_while(u8::is_ascii_alphabetic).count(),
    };
    let (letters, offset) = name.split_at(letters);
    let (sign, digits) = match offset.as_bytes().first()? {
        b'+' => (1, &offset[1..]),
        b'-' => (-1, &offset[1..]),
        _ => return None,
    };
    if !(letters.is_empty() || letters.len() >= 3) {
        return None;
    }
    let mut parts = digits.split(':').map(|part| {
        let fits = matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| part.parse::<i32>().ok()).flatten()
    });
    let hours = parts.next()??;
    let minutes = parts.next().map_or(Some(0), |part| part)?;
    let seconds = parts.next().map_or(Some(0), |part| part)?;
    let is_one = parts.next().is_none() && hours <= 24 && minutes < 60 && seconds < 60;
    is_one.then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// A moment as the table of zones knows it: from [`TABLE_END`] on, where the table ends and the last rule of each
/// zone goes on, the same moment of a year before that has the same days.
fn naive(us: i64) -> Option<NaiveDateTime> {
    let moment = chrono::DateTime::from_timestamp_micros(us)?.naive_utc();
    if moment.year() < TABLE_END {
        return Some(moment);
    }
    let kind = |year: i32| {
        let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
        Some((first.weekday(), first.leap_year()))
    };
    let own = kind(moment.year())?;
    let alike = (TABLE_END - CALENDAR_YEARS..TABLE_END).find(|year| kind(*year) == Some(own));
    moment.with_year(alike.expect("28 years have all kinds"))
}

/// The first year that the table of zones does not know.
const TABLE_END: i32 = 2100;

/// In how many years in a row, without a century's end among them, every kind of year comes.
const CALENDAR_YEARS: i32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_offsets_or_names() {
        assert_eq!(TimeZone::parse("utc").ok(), Some(TimeZone::UTC));
        assert_eq!(TimeZone::parse("+05:30").ok(), Some(TimeZone::Fixed(19800)));
        assert_eq!(TimeZone::parse("-0800").ok(), Some(TimeZone::Fixed(-28800)));
        assert_eq!(TimeZone::parse("2").ok(), Some(TimeZone::Fixed(7200)));
        let berlin = TimeZone::parse("europe/berlin").expect("a name of the tz database");
        assert_eq!(berlin.offset_at(1_600_000_000_000_000), 7200);
        assert_eq!(berlin.offset_at(1_606_000_000_000_000), 3600);
        for bad in ["", "Nowhere/Here", "+99", "+1:2:3:4"] {
            let error = TimeZone::parse(bad).unwrap_err();
            assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE, "{bad:?}");
        }
    }

    #[test]
    fn settings_count_hours_eastwards_and_other_offsets_westwards() {
        for (text, seconds_east, shown) in [
            ("2", 7200, "<+02>-02"),
            ("+02", 7200, "<+02>-02"),
            ("-1.5", -5400, "<-01:30>+01:30"),
            ("+02:00", -7200, "+02:00"),
            ("GMT-2", 7200, "GMT-2"),
            ("<+02>-02", 7200, "<+02>-02"),
            ("<-01:30>+01:30", -5400, "<-01:30>+01:30"),
            ("utc", 0, "UTC"),
        ] {
            let (zone, name) = TimeZone::of_setting(text).expect(text);
            assert_eq!((zone, name.as_str()), (TimeZone::Fixed(seconds_east), shown), "{text}");
            assert_eq!(TimeZone::parse(&zone.spelling()).ok(), Some(zone), "{text}");
        }
        let (berlin, name) = TimeZone::of_setting("europe/berlin").expect("a zone");
        assert_eq!((berlin.spelling().as_str(), name.as_str()), ("Europe/Berlin", "Europe/Berlin"));
        for bad in ["", "Nowhere/Here", "nan", "17", "<+02", "PST"] {
            assert!(TimeZone::of_setting(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn summers_go_on_where_the_table_of_zones_ends() {
        let chicago = TimeZone::parse("America/Chicago").expect("a zone");
        for year in [2099, 2100, 2295, 2400, 9999, 262_000] {
            for (month, hours) in [(1, -6), (7, -5), (12, -6)] {
                let noon = NaiveDate::from_ymd_opt(year, month, 5).expect("a date");
                let noon = noon.and_hms_opt(12, 0, 0).expect("noon").and_utc().timestamp_micros();
                assert_eq!(chicago.offset_at(noon), hours * 3600, "{year}-{month}");
                assert_eq!(chicago.to_utc(noon), Some(noon - i64::from(hours) * 3_600_000_000));
                assert_eq!(chicago.is_summer_at(noon), month == 7);
            }
        }
        let leap_day = NaiveDate::from_ymd_opt(2104, 2, 29).expect("a leap year");
        let leap_day = leap_day.and_hms_opt(0, 0, 0).expect("midnight").and_utc();
        assert_eq!(chicago.offset_at(leap_day.timestamp_micros()), -6 * 3600);
    }

    #[test]
    fn local_times_in_gaps_and_overlaps_have_a_moment() {
        let berlin = TimeZone::parse("Europe/Berlin").expect("a name of the tz database");
        // 2021-03-28 02:30 does not exist: read with the offset before the gap.
        let gap = 1_616_898_600_000_000;
        assert_eq!(berlin.to_utc(gap), Some(gap - 3_600_000_000));
        // 2021-10-31 02:30 happens twice: standard time is meant, as PostgreSQL does.
        let twice = 1_635_647_400_000_000;
        assert_eq!(berlin.to_utc(twice), Some(twice - 3_600_000_000));
    }
}
