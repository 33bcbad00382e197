//! Dates and times as text: ISO 8601 and the other spellings that PostgreSQL reads, ISO out.
//!
//! Days count from 1970-01-01 in the proleptic Gregorian calendar, times in microseconds. Years
//! before 1 are written with `BC`, and 1 BC is year 0 inside.
//! The range is that of the calendar library behind the vectorised functions; `infinity` is
//! refused by name, because those functions would treat it as a date like any other.

use std::fmt::Write;

use super::number::trim;
use super::zone::{TimeZone, parse_offset};
use crate::error::{Result, SqlError, SqlState};

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;

/// Smallest and largest year that is taken.
const YEARS: std::ops::RangeInclusive<i64> = -4712..=262_142;

/// Day number of a date. Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = month as i64;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day number; inverse of [`days_from_civil`].
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + (month <= 2) as i64, month, day)
}

/// Days in a month of the proleptic Gregorian calendar.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// What a date/time text says, in parts.
#[derive(Default)]
struct Parts {
    date: Option<(i64, u32, u32)>,
    time_us: Option<i64>,
    zone: Option<TimeZone>,
    epoch: bool,
}

/// Reads a DATE; a time beside it is ignored. Errors: 22007, 22008.
pub fn parse_date(text: &str) -> Result<i32> {
    let parts = parse_parts(text, "date")?;
    if parts.epoch {
        return Ok(0);
    }
    let (year, month, day) = parts.date.ok_or_else(|| invalid("date", text))?;
    Ok(days_from_civil(year, month, day) as i32)
}

/// Reads a TIME in microseconds since midnight; a zone beside it is ignored. Errors: 22007, 22008.
pub fn parse_time(text: &str) -> Result<i64> {
    parse_parts(text, "time")?.time_us.ok_or_else(|| invalid("time", text))
}

/// Reads a TIMESTAMP; a zone beside it is ignored. Errors: 22007, 22008.
pub fn parse_timestamp(text: &str) -> Result<i64> {
    let parts = parse_parts(text, "timestamp")?;
    local_us(&parts, text, "timestamp")
}

/// Reads a TIMESTAMPTZ; without a zone the local time of `zone` is meant. Errors: 22007, 22008.
pub fn parse_timestamptz(text: &str, zone: &TimeZone) -> Result<i64> {
    let name = "timestamp with time zone";
    let parts = parse_parts(text, name)?;
    if parts.epoch {
        return Ok(0);
    }
    let local = local_us(&parts, text, name)?;
    let zone = parts.zone.as_ref().unwrap_or(zone);
    zone.to_utc(local).ok_or_else(|| out_of_range(name, text))
}

fn local_us(parts: &Parts, text: &str, ty: &str) -> Result<i64> {
    if parts.epoch {
        return Ok(0);
    }
    let (year, month, day) = parts.date.ok_or_else(|| invalid(ty, text))?;
    days_from_civil(year, month, day)
        .checked_mul(DAY_US)
        .and_then(|us| us.checked_add(parts.time_us.unwrap_or(0)))
        .ok_or_else(|| out_of_range(ty, text))
}

fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn out_of_range(ty: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{ty} out of range: \"{text}\""))
}

/// Splits into tokens (by blanks, and by `T` between date and time) and reads each.
fn parse_parts(text: &str, ty: &'static str) -> Result<Parts> {
    let bad = || invalid(ty, text);
    let trimmed = trim(text);
    let mut parts = Parts::default();
    if let Some(fast) = parse_iso(trimmed) {
        parts.date = Some(checked_date(fast, text)?);
        return Ok(parts);
    }
    let (mut bc, mut meridiem) = (false, None);
    let mut words: arrayvec::ArrayVec<&str, 6> = arrayvec::ArrayVec::new();
    for token in trimmed.split([' ', '\t', '\n', ',']).filter(|token| !token.is_empty()) {
        let lower = |word: &str| token.eq_ignore_ascii_case(word);
        if lower("epoch") {
            parts.epoch = true;
        } else if ["infinity", "+infinity", "-infinity"].iter().any(|word| lower(word)) {
            return Err(SqlError::unsupported(format!("an infinite {ty}")));
        } else if lower("bc") {
            bc = true;
        } else if lower("ad") {
        } else if lower("am") || lower("pm") {
            meridiem = Some(lower("pm"));
        } else if let Some((date, time)) = split_at_t(token) {
            words.try_push(date).map_err(|_| bad())?;
            read_time_token(time, &mut parts, text, ty)?;
        } else if parts.time_us.is_none()
            && (token.contains(':') && token.as_bytes()[0].is_ascii_digit()
                || ty == "time" && is_compact_time(token))
        {
            read_time_token(token, &mut parts, text, ty)?;
        } else if parts.time_us.is_some()
            && (words.len() == 3 || !words.is_empty() || ty == "time")
            && parts.zone.is_none()
            && let Ok(zone) = TimeZone::parse(token)
            && !token.as_bytes()[0].is_ascii_digit()
        {
            parts.zone = Some(zone);
        } else if words.len() == 1
            && parts.zone.is_none()
            && token.starts_with(['+', '-'])
            && let Some(seconds) = parse_offset(token)
        {
            // `2024-02-29 +00`: how JDBC sends a date.
            parts.zone = Some(TimeZone::Fixed(seconds));
        } else {
            words.try_push(token).map_err(|_| bad())?;
        }
    }
    if let Some(pm) = meridiem {
        let time = parts.time_us.as_mut().ok_or_else(bad)?;
        let hour = *time / 3_600_000_000;
        if !(1..=12).contains(&hour) {
            return Err(field_overflow(text));
        }
        *time += 3_600_000_000 * (pm as i64 * 12 - (hour == 12) as i64 * 12);
    }
    if !words.is_empty() {
        let (year, month, day) = read_date(&words).ok_or_else(bad)?;
        if bc && year < 1 {
            return Err(field_overflow(text));
        }
        let date = (if bc { 1 - year } else { year }, month, day);
        if !bc && year == 0 {
            return Err(field_overflow(text));
        }
        parts.date = Some(checked_date(date, text)?);
    }
    Ok(parts)
}

/// `YYYY-MM-DD` and nothing else: what nearly every date looks like.
fn parse_iso(text: &str) -> Option<(i64, u32, u32)> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    let digit = |at: usize| bytes[at].is_ascii_digit().then(|| (bytes[at] - b'0') as u32);
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = digit(0)? * 1000 + digit(1)? * 100 + digit(2)? * 10 + digit(3)?;
    let date = (year as i64, digit(5)? * 10 + digit(6)?, digit(8)? * 10 + digit(9)?);
    (year > 0).then_some(date)
}

fn checked_date((year, month, day): (i64, u32, u32), text: &str) -> Result<(i64, u32, u32)> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(field_overflow(text));
    }
    if !YEARS.contains(&year) {
        return Err(out_of_range("date", text));
    }
    Ok((year, month, day))
}

/// `2020-01-02T03:04:05Z` at its `T`.
fn split_at_t(token: &str) -> Option<(&str, &str)> {
    let at = token.find(['T', 't'])?;
    let (before, after) = (&token[..at], &token[at + 1..]);
    let date = before.as_bytes().first()?.is_ascii_digit()
        && before.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (date && after.as_bytes().first()?.is_ascii_digit()).then_some((before, after))
}

fn is_compact_time(token: &str) -> bool {
    matches!(token.len(), 4 | 6) && token.bytes().all(|byte| byte.is_ascii_digit())
}

/// A time with an optional zone stuck to it.
fn read_time_token(token: &str, parts: &mut Parts, text: &str, ty: &str) -> Result<()> {
    let bad = || invalid(ty, text);
    let end =
        token.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(token.len());
    let (time, mut suffix) = token.split_at(end);
    for (word, pm) in [("am", false), ("pm", true)] {
        if suffix.eq_ignore_ascii_case(word) {
            let time_us = read_time(time, text).ok_or_else(bad)??;
            let hour = time_us / 3_600_000_000;
            if !(1..=12).contains(&hour) {
                return Err(field_overflow(text));
            }
            let shift = pm as i64 * 12 - (hour == 12) as i64 * 12;
            parts.time_us = Some(time_us + shift * 3_600_000_000);
            suffix = "";
        }
    }
    if parts.time_us.is_none() {
        parts.time_us = Some(read_time(time, text).ok_or_else(bad)??);
    }
    if !suffix.is_empty() {
        let zone = match parse_offset(suffix) {
            Some(seconds) => TimeZone::Fixed(seconds),
            None => TimeZone::parse(suffix).map_err(|_| bad())?,
        };
        parts.zone = Some(zone);
    }
    Ok(())
}

/// `HH:MM[:SS[.ffffff]]` or `HHMM[SS[.ffffff]]`. `None`: not a time; inner error: out of range.
fn read_time(time: &str, text: &str) -> Option<Result<i64>> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let number = |digits: &str| -> Option<i64> {
        (!digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse().ok())
            .flatten()
    };
    let (hours, minutes, seconds) = if clock.contains(':') {
        let mut parts = clock.split(':');
        let found =
            (number(parts.next()?)?, number(parts.next()?)?, parts.next().map_or(Some(0), number)?);
        parts.next().is_none().then_some(found)?
    } else if is_compact_time(clock) {
        let seconds = if clock.len() == 6 { number(&clock[4..])? } else { 0 };
        (number(&clock[..2])?, number(&clock[2..4])?, seconds)
    } else {
        return None;
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let total = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction_us(fraction);
    if hours > 24 || minutes > 59 || seconds > 60 || total > DAY_US {
        return Some(Err(field_overflow(text)));
    }
    Some(Ok(total))
}

/// Digits after the point in microseconds, rounded.
fn fraction_us(digits: &str) -> i64 {
    let mut us = 0;
    for at in 0..6 {
        us = us * 10 + digits.as_bytes().get(at).map_or(0, |byte| (byte - b'0') as i64);
    }
    us + digits.as_bytes().get(6).is_some_and(|byte| *byte >= b'5') as i64
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn month_by_name(word: &str) -> Option<u32> {
    let lower = word.to_ascii_lowercase();
    let lower = lower.trim_end_matches('.');
    let at = MONTHS.iter().position(|name| {
        *name == lower
            || (lower.len() == 3 && name.starts_with(lower))
            || (lower == "sept" && *name == "september")
    })?;
    Some(at as u32 + 1)
}

/// A date from its words: ISO, `YYYYMMDD`, `MM/DD/YYYY`, or with the month by name.
fn read_date(words: &[&str]) -> Option<(i64, u32, u32)> {
    let mut parts: arrayvec::ArrayVec<&str, 3> = arrayvec::ArrayVec::new();
    for word in words {
        for part in word.split(['-', '/', '.']) {
            parts.try_push(part).ok()?;
        }
    }
    if let [only] = parts[..] {
        if !only.bytes().all(|byte| byte.is_ascii_digit()) || only.len() < 8 {
            return None;
        }
        let (year, rest) = only.split_at(only.len() - 4);
        return Some((year.parse().ok()?, rest[..2].parse().ok()?, rest[2..].parse().ok()?));
    }
    let [a, b, c] = parts[..] else { return None };
    let number = |part: &str| -> Option<i64> {
        (part.len() <= 7 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let day = |part: &str| number(part).filter(|_| part.len() <= 2).map(|day| day as u32);
    if let Some(month) = month_by_name(a) {
        return Some((full_year(c, number(c)?), month, day(b)?));
    }
    if let Some(month) = month_by_name(b) {
        return match a.len() > 2 {
            true => Some((number(a)?, month, day(c)?)),
            false => Some((full_year(c, number(c)?), month, day(a)?)),
        };
    }
    if a.len() > 2 {
        return Some((number(a)?, day(b)?, day(c)?));
    }
    Some((full_year(c, number(c)?), day(a)?, day(b)?))
}

/// Two digits mean 1970 to 2069.
fn full_year(text: &str, year: i64) -> i64 {
    match (text.len(), year) {
        (..=2, ..70) => year + 2000,
        (..=2, _) => year + 1900,
        _ => year,
    }
}

/// Writes a DATE as `YYYY-MM-DD`, with ` BC` before year 1.
pub fn write_date(days: i32, out: &mut String) {
    let bc = write_civil(days as i64, out);
    out.push_str(bc);
}

fn write_civil(days: i64, out: &mut String) -> &'static str {
    let (year, month, day) = civil_from_days(days);
    let (year, bc) = if year < 1 { (1 - year, " BC") } else { (year, "") };
    write!(out, "{year:04}-{month:02}-{day:02}").expect("a string takes everything");
    bc
}

/// Writes a TIME as `HH:MM:SS[.ffffff]`.
pub fn write_time(us: i64, out: &mut String) {
    let seconds = us / 1_000_000;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        .expect("a string takes everything");
    write_fraction(us % 1_000_000, out);
}

/// Writes a fraction of a second without trailing zeros; nothing for zero.
pub(super) fn write_fraction(us: i64, out: &mut String) {
    if us != 0 {
        let (mut digits, mut width) = (us, 6);
        while digits % 10 == 0 {
            digits /= 10;
            width -= 1;
        }
        write!(out, ".{digits:0width$}").expect("a string takes everything");
    }
}

/// Writes a TIMESTAMP as `YYYY-MM-DD HH:MM:SS[.ffffff]`.
pub fn write_timestamp(us: i64, out: &mut String) {
    let bc = write_civil(us.div_euclid(DAY_US), out);
    out.push(' ');
    write_time(us.rem_euclid(DAY_US), out);
    out.push_str(bc);
}

/// Writes a TIMESTAMPTZ in the local time of `zone`, with its offset.
pub fn write_timestamptz(us: i64, zone: &TimeZone, out: &mut String) {
    let offset = zone.offset_at(us);
    let local = us.saturating_add(offset as i64 * 1_000_000);
    let bc = write_civil(local.div_euclid(DAY_US), out);
    out.push(' ');
    write_time(local.rem_euclid(DAY_US), out);
    let (sign, offset) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    write!(out, "{sign}{:02}", offset / 3600).expect("a string takes everything");
    if offset % 3600 != 0 {
        write!(out, ":{:02}", offset / 60 % 60).expect("a string takes everything");
    }
    if offset % 60 != 0 {
        write!(out, ":{:02}", offset % 60).expect("a string takes everything");
    }
    out.push_str(bc);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Result<String, SqlState> {
        let mut out = String::new();
        write_date(parse_date(text).map_err(|error| error.state())?, &mut out);
        Ok(out)
    }

    fn stamp(text: &str) -> Result<String, SqlState> {
        let mut out = String::new();
        write_timestamp(parse_timestamp(text).map_err(|error| error.state())?, &mut out);
        Ok(out)
    }

    fn stamptz(text: &str, zone: &str) -> Result<String, SqlState> {
        let zone = TimeZone::parse(zone).map_err(|error| error.state())?;
        let mut out = String::new();
        let us = parse_timestamptz(text, &zone).map_err(|error| error.state())?;
        write_timestamptz(us, &zone, &mut out);
        Ok(out)
    }

    #[test]
    fn calendar_round_trips() {
        for days in (-2_500_000..96_000_000i64).step_by(997) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month));
        }
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 3, 1), 11017);
    }

    #[test]
    fn dates_in_all_spellings() {
        for (text, expected) in [
            ("2020-02-29", "2020-02-29"),
            (" 2020-2-9 ", "2020-02-09"),
            ("20200229", "2020-02-29"),
            ("2/29/2020", "2020-02-29"),
            ("Feb 29, 2020", "2020-02-29"),
            ("29 February 2020", "2020-02-29"),
            ("29-Feb-2020", "2020-02-29"),
            ("2020-feb-29", "2020-02-29"),
            ("1/2/99", "1999-01-02"),
            ("1/2/69", "2069-01-02"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("0001-12-31 BC", "0001-12-31 BC"),
            ("2020-01-02 23:59:59", "2020-01-02"),
            ("2020-01-02T10:00:00Z", "2020-01-02"),
            ("2020-01-02 +00", "2020-01-02"),
            ("2020-01-02 -05:30", "2020-01-02"),
            ("epoch", "1970-01-01"),
            ("12345-06-07", "12345-06-07"),
        ] {
            assert_eq!(date(text), Ok(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn bad_dates_say_why() {
        for text in ["", "abc", "2020-01", "2020", "1-2-3-4", "2020-01-02 x", "12:00:00"] {
            assert_eq!(date(text), Err(SqlState::INVALID_DATETIME_FORMAT), "{text:?}");
        }
        for text in
            ["2021-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "0000-01-01", "2020-01-32"]
        {
            assert_eq!(date(text), Err(SqlState::DATETIME_FIELD_OVERFLOW), "{text:?}");
        }
        assert_eq!(date("300000-01-01"), Err(SqlState::DATETIME_FIELD_OVERFLOW));
        assert_eq!(date("infinity"), Err(SqlState::FEATURE_NOT_SUPPORTED));
    }

    #[test]
    fn times_in_all_spellings() {
        let time = |text: &str| {
            let mut out = String::new();
            write_time(parse_time(text).map_err(|error| error.state())?, &mut out);
            Ok::<_, SqlState>(out)
        };
        for (text, expected) in [
            ("04:05:06.789", "04:05:06.789"),
            ("04:05", "04:05:00"),
            ("040506", "04:05:06"),
            ("4:05 pm", "16:05:00"),
            ("12:00am", "00:00:00"),
            ("24:00:00", "24:00:00"),
            ("23:59:59.9999996", "24:00:00"),
            ("04:05:06+02", "04:05:06"),
            ("04:05:06 UTC", "04:05:06"),
            ("2020-01-01 04:05:06", "04:05:06"),
        ] {
            assert_eq!(time(text), Ok(expected.to_owned()), "{text:?}");
        }
        for text in ["25:00", "12:60", "24:00:01", "13:00 pm"] {
            assert_eq!(time(text), Err(SqlState::DATETIME_FIELD_OVERFLOW), "{text:?}");
        }
        for text in ["", "x", "1:2:3:4", "12:0x", "2020-01-01"] {
            assert_eq!(time(text), Err(SqlState::INVALID_DATETIME_FORMAT), "{text:?}");
        }
    }

    #[test]
    fn timestamps_ignore_zones_and_timestamptz_uses_them() {
        assert_eq!(stamp("2020-01-02 03:04:05.000001"), Ok("2020-01-02 03:04:05.000001".into()));
        assert_eq!(stamp("2020-01-02T03:04:05+09"), Ok("2020-01-02 03:04:05".into()));
        assert_eq!(stamp("2020-01-02"), Ok("2020-01-02 00:00:00".into()));
        assert_eq!(stamp("Jan 2 2020 3:04 PM"), Ok("2020-01-02 15:04:00".into()));
        assert_eq!(stamp("1999-12-31 24:00:00"), Ok("2000-01-01 00:00:00".into()));
        assert_eq!(stamp("0044-03-15 12:00:00 BC"), Ok("0044-03-15 12:00:00 BC".into()));
        assert_eq!(stamp("1969-12-31 23:59:59.5"), Ok("1969-12-31 23:59:59.5".into()));
        let cases = [
            ("2020-07-01 12:00:00Z", "UTC", "2020-07-01 12:00:00+00"),
            ("2020-07-01 12:00:00Z", "Europe/Berlin", "2020-07-01 14:00:00+02"),
            ("2020-01-01 12:00:00", "Europe/Berlin", "2020-01-01 12:00:00+01"),
            ("2020-01-01 12:00:00-08", "+05:30", "2020-01-02 01:30:00+05:30"),
            ("2020-01-01 12:00:00 America/New_York", "UTC", "2020-01-01 17:00:00+00"),
            ("2020-01-01 12:00:00 +0100", "UTC", "2020-01-01 11:00:00+00"),
            ("epoch", "Europe/Berlin", "1970-01-01 01:00:00+01"),
        ];
        for (text, zone, expected) in cases {
            assert_eq!(stamptz(text, zone), Ok(expected.to_owned()), "{text:?}");
        }
        assert_eq!(stamptz("2020-01-01 12:00 Mars", "UTC"), Err(SqlState::INVALID_DATETIME_FORMAT));
        assert_eq!(stamp("-infinity"), Err(SqlState::FEATURE_NOT_SUPPORTED));
    }
}
