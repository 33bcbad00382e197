//! Intervals: multiplication by numbers, and text: reads the forms of PostgreSQL, of the SQL
//! standard and of ISO 8601, writes PostgreSQL's.

use alloc::string::String;
use core::fmt::Write;

use crate::calendar::{DAY_NS, DAY_SECONDS, SECOND_US, US_NS};
use crate::datetime::write_fraction;
use crate::error::{Result, TextProblem, ValueError};
use crate::float;
use crate::spelling::{split_sign, trim};
use crate::value::Interval;

/// Nanoseconds per microsecond; intervals are kept to the microsecond.
const US: i128 = US_NS as i128;
const SECOND: i128 = SECOND_US as i128 * US;
const DAY: i128 = DAY_NS as i128;

/// Billionths: digits behind the point count up to nine places.
const NANO: i128 = 1_000_000_000;

impl Interval {
    /// Length in nanoseconds, with 30 days per month and 24 hours per day. This is SQL's order, in
    /// which `1 month = 30 days`, as in PostgreSQL.
    #[inline]
    pub fn sort_key(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY_NS) + i128::from(self.nanos)
    }
}

/// A sum of fields. A fraction of a field is carried into the next smaller one as in PostgreSQL (a
/// month has 30 days, a day 24 hours).
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

/// A number as whole part and billionths, each with the number's sign.
#[derive(Clone, Copy)]
struct Quantity {
    whole: i128,
    billionths: i128,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Months(i128),
    Days(i128),
    Nanos(i128),
}

impl Sum {
    fn add(&mut self, quantity: Quantity, unit: Unit) {
        let Quantity { whole, billionths } = quantity;
        match unit {
            Unit::Months(factor) => {
                let parts = billionths * factor;
                self.months += whole * factor + parts / NANO;
                self.add(Quantity { whole: 0, billionths: parts % NANO }, Unit::Days(30));
            }
            Unit::Days(factor) => {
                let parts = billionths * factor;
                self.days += whole * factor + parts / NANO;
                self.nanos += parts % NANO * (DAY / NANO);
            }
            Unit::Nanos(factor) => self.nanos += whole * factor + billionths * factor / NANO,
        }
    }

    fn finish(self, text: &str, ago: bool) -> Result<Interval> {
        let sign = if ago { -1 } else { 1 };
        let half = if self.nanos < 0 { -US / 2 } else { US / 2 };
        let nanos = (self.nanos + half) / US * US;
        let overflow = |_| ValueError::text(TextProblem::IntervalRange, "interval", text);
        Ok(Interval {
            months: i32::try_from(self.months * sign).map_err(overflow)?,
            days: i32::try_from(self.days * sign).map_err(overflow)?,
            nanos: i64::try_from(nanos * sign).map_err(overflow)?,
        })
    }
}

/// The interval times a number. Errors: 22003.
pub fn multiply(interval: Interval, by: f64) -> Result<Interval> {
    scaled(interval, |part| part * by)
}

/// The interval divided by a number. Errors: 22003, 22012.
pub fn divide(interval: Interval, by: f64) -> Result<Interval> {
    if by == 0.0 {
        return Err(ValueError::DivisionByZero);
    }
    scaled(interval, |part| part / by)
}

/// The interval with each part scaled. Fractions of months become days (thirty per month),
/// fractions of days become time, both rounded as in PostgreSQL: to six decimal places of a day,
/// and of a second.
fn scaled(interval: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    let six_places = |value: f64| float::round_even(value * 1e6) / 1e6;
    let (months, days) = (scale(interval.months.into()), scale(interval.days.into()));
    let (whole_months, whole_days) = (float::trunc(months), float::trunc(days));
    let spilled_days = six_places((months - whole_months) * 30.0);
    let whole_spilled = float::trunc(spilled_days);
    let seconds = (days - whole_days + spilled_days - whole_spilled) * DAY_SECONDS as f64;
    let seconds = six_places(seconds);
    // Rounding may give a whole day.
    let carried = float::trunc(seconds / DAY_SECONDS as f64);
    let seconds = seconds - carried * DAY_SECONDS as f64;
    let all_days = whole_days + whole_spilled + carried;
    let time_us = scale((interval.nanos / US_NS) as f64) + seconds * SECOND_US as f64;
    let far = || ValueError::OutOfRange("interval");
    let whole = |value| float::to_integer(value, i32::MIN.into(), i32::MAX.into()).ok_or_else(far);
    let time_us = float::to_integer(time_us, i64::MIN / US_NS, i64::MAX / US_NS).ok_or_else(far)?;
    Ok(Interval {
        months: whole(whole_months)? as i32,
        days: whole(all_days)? as i32,
        nanos: time_us * US_NS,
    })
}

/// A field that may follow an INTERVAL in SQL text, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Field {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Field {
    /// The field of a name, in upper or lower case.
    pub fn named(name: &str) -> Option<Field> {
        const FIELDS: [(&str, Field); 6] = [
            ("year", Field::Year),
            ("month", Field::Month),
            ("day", Field::Day),
            ("hour", Field::Hour),
            ("minute", Field::Minute),
            ("second", Field::Second),
        ];
        FIELDS.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, field)| *field)
    }

    fn unit(self) -> &'static str {
        match self {
            Field::Year => " year",
            Field::Month => " month",
            Field::Day => " day",
            Field::Hour => " hour",
            Field::Minute => " minute",
            Field::Second => " second",
        }
    }
}

/// Reads `INTERVAL 'text' first TO last`: a bare number counts in units of `last`, and fields
/// smaller than `last` are cut off. Errors: as [`parse`].
///
/// Source: PostgreSQL's `interval` with fields; fields larger than `first` stay there as well.
pub fn parse_fields(text: &str, first: Field, last: Field) -> Result<Interval> {
    let trimmed = trim(text);
    let (_, unsigned) = split_sign(trimmed);
    let mut spelled = String::from(trimmed);
    if unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        spelled.push_str(last.unit());
    } else if (first, last) == (Field::Minute, Field::Second) && unsigned.matches(':').count() == 1
    {
        let sign = &trimmed[..trimmed.len() - unsigned.len()];
        spelled = alloc::format!("{sign}0:{unsigned}");
    } else if (first, last) == (Field::Day, Field::Hour)
        && let Some((days, hours)) = trimmed.split_once(' ')
        && hours.bytes().all(|byte| byte.is_ascii_digit())
    {
        spelled = alloc::format!("{days}{} {hours}{}", first.unit(), last.unit());
    }
    let Interval { months, days, nanos } = parse(&spelled)?;
    let to = |seconds: i64| nanos / (seconds * SECOND as i64) * (seconds * SECOND as i64);
    Ok(match last {
        Field::Year => Interval { months: months / 12 * 12, days: 0, nanos: 0 },
        Field::Month => Interval { months, days: 0, nanos: 0 },
        Field::Day => Interval { months, days, nanos: 0 },
        Field::Hour => Interval { months, days, nanos: to(3600) },
        Field::Minute => Interval { months, days, nanos: to(60) },
        Field::Second => Interval { months, days, nanos },
    })
}

/// Reads an INTERVAL: `1 year 2 mons 3 days 04:05:06`, `1-2`, `3 4:05:06`, `P1Y2M3DT4H5M6S`,
/// `1.5 hours ago`. Errors: 22007, 22015.
pub fn parse(text: &str) -> Result<Interval> {
    let bad = || ValueError::text(TextProblem::MomentSyntax, "interval", text);
    let trimmed = trim(text);
    let trimmed = trimmed.strip_prefix('@').map_or(trimmed, trim);
    if trimmed.starts_with(['P', 'p']) {
        return parse_iso(&trimmed[1..]).ok_or_else(bad)?.finish(text, false);
    }
    let mut sum = Sum::default();
    let mut ago = false;
    let mut pending: Option<Quantity> = None;
    let mut seen = false;
    // The sign `@`, which PostgreSQL writes before a span, says nothing wherever it stands.
    let is_word = |word: &&str| !word.is_empty() && *word != "@";
    for word in trimmed.split([' ', '\t', '\n', ',']).filter(is_word) {
        if ago {
            return Err(bad());
        }
        if word.eq_ignore_ascii_case("ago") && seen && pending.is_none() {
            ago = true;
            continue;
        }
        seen = true;
        if word.contains(':') {
            if let Some(days) = pending.take() {
                sum.add(days, Unit::Days(1));
            }
            sum.nanos += parse_clock(word).ok_or_else(bad)?;
            continue;
        }
        if let Some(months) = parse_year_month(word) {
            if pending.is_some() {
                return Err(bad());
            }
            sum.months += months;
            continue;
        }
        let split = word.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(word.len());
        let (number, name) = word.split_at(split);
        if !number.is_empty() {
            if pending.is_some() {
                return Err(bad());
            }
            pending = Some(parse_quantity(number).ok_or_else(bad)?);
        }
        if !name.is_empty() {
            let unit = unit_by_name(name).ok_or_else(bad)?;
            sum.add(pending.take().ok_or_else(bad)?, unit);
        }
    }
    if let Some(seconds) = pending {
        sum.add(seconds, Unit::Nanos(SECOND));
    }
    if !seen {
        return Err(bad());
    }
    sum.finish(text, ago)
}

fn unit_by_name(name: &str) -> Option<Unit> {
    let lower = name.to_lowercase();
    Some(match lower.as_str() {
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds"
        | "µs" => Unit::Nanos(US),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => {
            Unit::Nanos(1_000 * US)
        }
        "second" | "seconds" | "s" | "sec" | "secs" => Unit::Nanos(SECOND),
        "minute" | "minutes" | "m" | "min" | "mins" => Unit::Nanos(60 * SECOND),
        "hour" | "hours" | "h" | "hr" | "hrs" => Unit::Nanos(3600 * SECOND),
        "day" | "days" | "d" => Unit::Days(1),
        "week" | "weeks" | "w" => Unit::Days(7),
        "month" | "months" | "mon" | "mons" => Unit::Months(1),
        "year" | "years" | "y" | "yr" | "yrs" => Unit::Months(12),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1200),
        "millennium" | "millennia" | "mil" | "mils" => Unit::Months(12_000),
        _ => return None,
    })
}

fn parse_quantity(text: &str) -> Option<Quantity> {
    let (negative, digits) = split_sign(text);
    let sign = if negative { -1 } else { 1 };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 18 {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut billionths = 0;
    for at in 0..9 {
        billionths =
            billionths * 10 + fraction.as_bytes().get(at).map_or(0, |b| (b - b'0') as i128);
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some(Quantity { whole: sign * whole, billionths: sign * billionths })
}

/// Reads `[±]H:MM[:SS[.f]]`, in nanoseconds.
fn parse_clock(text: &str) -> Option<i128> {
    let (negative, rest) = split_sign(text);
    let sign = if negative { -1 } else { 1 };
    let mut parts = rest.split(':');
    let unsigned =
        |part: &str| (!part.starts_with(['+', '-'])).then(|| parse_quantity(part)).flatten();
    let first = unsigned(parts.next()?)?;
    let second = unsigned(parts.next()?)?;
    let third = parts.next();
    if parts.next().is_some() || first.billionths != 0 {
        return None;
    }
    let (hours, minutes, seconds) = match third {
        Some(third) => (first, second, unsigned(third)?),
        // Two parts are `M:S.f` if the second has a fraction, otherwise `H:M`.
        None if second.billionths != 0 => (Quantity { whole: 0, billionths: 0 }, first, second),
        None => (first, second, Quantity { whole: 0, billionths: 0 }),
    };
    if minutes.whole > 59 || seconds.whole > 60 || minutes.billionths != 0 {
        return None;
    }
    let whole = hours.whole * 3600 + minutes.whole * 60 + seconds.whole;
    Some(sign * (whole * SECOND + seconds.billionths))
}

/// Reads `[±]Y-M`, in months.
fn parse_year_month(text: &str) -> Option<i128> {
    let (negative, rest) = split_sign(text);
    let sign = if negative { -1 } else { 1 };
    let (years, months) = rest.split_once('-')?;
    let digits = |part: &str| {
        let plain = !part.is_empty() && part.len() < 10 && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<i128>().ok()).flatten()
    };
    let months = digits(months)?;
    (months < 12).then_some(sign * (digits(years)? * 12 + months))
}

/// Reads what follows the `P`: designators, or weeks.
fn parse_iso(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let (mut in_time, mut any) = (false, false);
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if c.is_ascii_digit() || matches!(c, '.' | '-' | '+') {
            continue;
        }
        if c.eq_ignore_ascii_case(&'t') && !in_time && start == at {
            in_time = true;
            start = at + 1;
            continue;
        }
        let unit = match (c.to_ascii_uppercase(), in_time) {
            ('Y', false) => Unit::Months(12),
            ('M', false) => Unit::Months(1),
            ('W', false) => Unit::Days(7),
            ('D', false) => Unit::Days(1),
            ('H', true) => Unit::Nanos(3600 * SECOND),
            ('M', true) => Unit::Nanos(60 * SECOND),
            ('S', true) => Unit::Nanos(SECOND),
            _ => return None,
        };
        sum.add(parse_quantity(&text[start..at])?, unit);
        (start, any) = (at + 1, true);
    }
    (any && start == text.len()).then_some(sum)
}

/// Writes an INTERVAL in PostgreSQL's style: `1 year 2 mons -3 days +04:05:06.7`.
pub fn write(interval: Interval, out: &mut String) {
    let start = out.len();
    let mut before_negative = false;
    for (value, unit) in
        [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")]
    {
        if value == 0 {
            continue;
        }
        let blank = if out.len() == start { "" } else { " " };
        let plus = if before_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        write!(out, "{blank}{plus}{value} {unit}{plural}").expect("a string takes everything");
        before_negative = value < 0;
    }
    if interval.nanos == 0 && out.len() != start {
        return;
    }
    let us = interval.nanos.unsigned_abs() / 1000;
    let blank = if out.len() == start { "" } else { " " };
    let sign = match (interval.nanos < 0, before_negative) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) => "",
    };
    let seconds = us / 1_000_000;
    write!(out, "{blank}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        .expect("a string takes everything");
    write_fraction((us % 1_000_000) as i64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_behind_an_interval_say_what_it_counts_and_where_it_ends() {
        use Field::{Day, Hour, Minute, Month, Second, Year};
        for (text, first, last, expected) in [
            ("1", Day, Day, "1 day"),
            ("-1", Day, Day, "-1 days"),
            ("1.5", Day, Day, "1 day"),
            ("1 day 2 hours", Day, Day, "1 day"),
            ("5", Year, Month, "5 mons"),
            ("1-2", Year, Month, "1 year 2 mons"),
            ("5", Hour, Minute, "00:05:00"),
            ("1:2", Minute, Second, "00:01:02"),
            ("-1:2", Minute, Second, "-00:01:02"),
            ("1:2", Hour, Minute, "01:02:00"),
            ("1 2", Day, Hour, "1 day 02:00:00"),
            ("1 2:03:04.5", Day, Minute, "1 day 02:03:00"),
            ("1.7", Hour, Hour, "01:00:00"),
            ("90.5", Second, Second, "00:01:30.5"),
        ] {
            let mut shown = String::new();
            write(parse_fields(text, first, last).expect(text), &mut shown);
            assert_eq!(shown, expected, "{text} {first:?} TO {last:?}");
        }
        assert!(parse_fields("x", Day, Day).is_err());
        assert_eq!(Field::named("SECOND"), Some(Second));
    }

    fn through(text: &str) -> Result<String, TextProblem> {
        let mut out = String::new();
        let interval = parse(text).map_err(|error| match error {
            ValueError::Text(error) => error.problem,
            other => panic!("{other}"),
        })?;
        write(interval, &mut out);
        Ok(out)
    }

    #[test]
    fn intervals_in_all_spellings() {
        for (text, expected) in [
            ("1 day", "1 day"),
            ("2 days", "2 days"),
            ("90", "00:01:30"),
            (
                "1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds",
                "1 year 2 mons 3 days 04:05:06.789",
            ),
            ("@ 1 year 2 mons", "1 year 2 mons"),
            ("1-2", "1 year 2 mons"),
            ("-1-2", "-1 years -2 mons"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("P2W", "14 days"),
            ("PT0.5S", "00:00:00.5"),
            ("P-1D", "-1 days"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 days", "1 day 12:00:00"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("1 day ago", "-1 days"),
            ("@ 1 hour @ 42 minutes @ 20 seconds ago", "-01:42:20"),
            ("1 mon -1 day", "1 mon -1 days"),
            ("-1 mon 1 day", "-1 mons +1 day"),
            ("-1 day 02:00", "-1 days +02:00:00"),
            ("1 day -02:00:00.25", "1 day -02:00:00.25"),
            ("0", "00:00:00"),
            ("100 hours", "100:00:00"),
            ("5m 3s", "00:05:03"),
            ("1h30m", "00:00:00"),
            ("1 century", "100 years"),
            ("10 us", "00:00:00.00001"),
            ("1:30.5", "00:01:30.5"),
        ] {
            if text == "1h30m" {
                assert_eq!(through(text), Err(TextProblem::MomentSyntax));
                continue;
            }
            assert_eq!(through(text), Ok(expected.into()), "{text:?}");
        }
    }

    #[test]
    fn bad_intervals_say_why() {
        for text in
            ["", "abc", "1 fortnight", "day", "1 2", "P", "PT", "P1S", "1 day ago 2", "1-13"]
        {
            assert_eq!(through(text), Err(TextProblem::MomentSyntax), "{text:?}");
        }
        for text in ["3000000000 days", "200000000 years", "9999999999999 hours"] {
            assert_eq!(through(text), Err(TextProblem::IntervalRange), "{text:?}");
        }
    }

    /// Expected values are those of PostgreSQL 15.
    #[test]
    fn multiples_spill_into_smaller_fields() {
        for (text, by, expected) in [
            ("1 month 15 days 3 hours", 1.37, "1 mon 31 days 19:42:36"),
            ("13 months 1 day", -0.7, "-9 mons -3 days -16:48:00"),
            ("2 days", 0.5, "1 day"),
            ("5 days 01:00", 0.333333, "1 day 16:19:59.8548"),
            ("100 years -1 mon", 0.12345678, "12 years 4 mons 17:46:08.5728"),
        ] {
            let mut out = String::new();
            write(multiply(parse(text).expect(text), by).expect(text), &mut out);
            assert_eq!(out, expected, "{text} * {by}");
        }
        let month = Interval { months: 1, ..Interval::default() };
        let mut out = String::new();
        write(divide(month, 7.0).expect("a seventh"), &mut out);
        assert_eq!(out, "4 days 06:51:25.6896");
        assert_eq!(divide(month, 0.0), Err(ValueError::DivisionByZero));
        assert_eq!(multiply(month, 1e10), Err(ValueError::OutOfRange("interval")));
        assert_eq!(multiply(month, f64::NAN), Err(ValueError::OutOfRange("interval")));
    }
}
