//! Dates and times as text: reads ISO 8601 and the other spellings that PostgreSQL reads, writes
//! ISO 8601.
//!
//! Years before 1 are written with `BC`; 1 BC is stored as year 0. Time zones come from the caller
//! ([`Zone`]), because their names and rules are a table that changes with time.
//! Deviation: the range is that of the calendar library behind the vectorised functions; `infinity`
//! is refused by name, because those functions would treat it as a date like any other.

use alloc::string::String;
use core::fmt::Write;
use core::ops::RangeInclusive;

use crate::calendar::{
    DAY_US, HOUR_US, MINUTE_US, SECOND_US, civil_from_days, day_of, days_from_civil, days_in_month,
    time_of,
};
use crate::error::{Result, TextProblem, ValueError};
use crate::spelling::{split_sign, trim};

/// Smallest and largest year accepted.
const YEARS: RangeInclusive<i64> = -4712..=262_142;

/// A time zone in which local times are read and shown.
pub trait Zone: Copy {
    /// The zone at this many seconds east of UTC.
    fn fixed(seconds: i32) -> Self;
    /// The zone of a name in the table of zones, in upper or lower case.
    fn named(name: &str) -> Option<Self>;
    /// Seconds east of UTC that an abbreviation (`PST`) stands for beside a time, in upper or lower case.
    fn abbreviated(name: &str) -> Option<i32>;
    /// Seconds east of UTC at a moment in UTC microseconds.
    fn offset_at(self, utc_us: i64) -> i32;
    /// The moment that a local time names; `None` if no moment has that local time.
    fn to_utc(self, local_us: i64) -> Option<i64>;
}

/// Reads `UTC`, `Z`, `±HH[:MM[:SS]]`, `±HHMM`, hours, or a name. Offsets count eastwards, as in
/// ISO 8601.
pub fn parse_zone<Z: Zone>(text: &str) -> Option<Z> {
    let trimmed = trim(text);
    if is_universal_time(trimmed) {
        return Some(Z::fixed(0));
    }
    if let Some(seconds) = parse_offset(trimmed) {
        return Some(Z::fixed(seconds));
    }
    let hours = trimmed.parse::<i32>().ok().filter(|hours| (-15..16).contains(hours));
    hours.map(|hours| Z::fixed(hours * 3600)).or_else(|| Z::named(trimmed))
}

fn is_universal_time(name: &str) -> bool {
    ["utc", "z", "gmt", "zulu"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// `±HH`, `±HHMM`, `±HH:MM`, `±HH:MM:SS` in seconds.
fn parse_offset(text: &str) -> Option<i32> {
    let (negative, rest) = split_sign(text);
    if rest.len() == text.len() {
        return None;
    }
    let (hours, minutes, seconds) = if rest.contains(':') {
        parse_clock(rest)?
    } else if rest.len() == 4 && rest.is_ascii() {
        (two_digits(&rest[..2])?, two_digits(&rest[2..])?, 0)
    } else {
        (two_digits(rest)?, 0, 0)
    };
    let seconds_east = (hours * 3600 + minutes * 60 + seconds) as i32;
    let fits = hours < 16 && minutes < 60 && seconds < 60;
    fits.then_some(if negative { -seconds_east } else { seconds_east })
}

/// Reads one or two digits.
fn two_digits(text: &str) -> Option<i64> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `H:M[:S]`.
fn parse_clock(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(':');
    let (hours, minutes) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0), two_digits)?;
    parts.next().is_none().then_some((hours, minutes, seconds))
}

/// Reads a DATE; a time beside it is ignored. Errors: 22007, 22008.
pub fn parse_date<Z: Zone>(text: &str) -> Result<i32> {
    let parts = Reader::<Z>::read(text, "date")?;
    if parts.epoch {
        return Ok(0);
    }
    let (year, month, day) = parts.date.ok_or_else(|| invalid("date", text))?;
    Ok(days_from_civil(year, month, day) as i32)
}

/// Reads a TIME in microseconds since midnight; a zone beside it is ignored. Errors: 22007, 22008. A zone whose
/// offset depends on the day is refused without a date, as PostgreSQL does.
pub fn parse_time<Z: Zone>(text: &str) -> Result<i64> {
    let parts = Reader::<Z>::read(text, "time")?;
    let lacks_day = parts.zone_has_name && parts.date.is_none();
    parts.time_us.filter(|_| !lacks_day).ok_or_else(|| invalid("time", text))
}

/// Reads a TIMESTAMP; a zone beside it is ignored. Errors: 22007, 22008.
pub fn parse_timestamp<Z: Zone>(text: &str) -> Result<i64> {
    Reader::<Z>::read(text, "timestamp")?.local_us()
}

/// Reads a TIMESTAMPTZ; without a zone the local time of `zone` is meant. Errors: 22007, 22008.
pub fn parse_timestamptz<Z: Zone>(text: &str, zone: Z) -> Result<i64> {
    let parts = Reader::<Z>::read(text, "timestamp with time zone")?;
    let local = parts.local_us()?;
    if parts.epoch {
        return Ok(0);
    }
    parts.zone.unwrap_or(zone).to_utc(local).ok_or_else(|| out_of_range(parts.ty, text))
}

fn invalid(ty: &'static str, text: &str) -> ValueError {
    ValueError::text(TextProblem::MomentSyntax, ty, text)
}

fn field_overflow(text: &str) -> ValueError {
    ValueError::text(TextProblem::FieldRange, "date", text)
}

fn out_of_range(ty: &'static str, text: &str) -> ValueError {
    ValueError::text(TextProblem::MomentRange, ty, text)
}

/// A short list of words, of at most `N`.
struct Words<'a, const N: usize> {
    items: [&'a str; N],
    len: usize,
}

impl<'a, const N: usize> Words<'a, N> {
    fn new() -> Self {
        Words { items: [""; N], len: 0 }
    }

    /// Adds a word; `None` if there are `N` already.
    fn push(&mut self, word: &'a str) -> Option<()> {
        *self.items.get_mut(self.len)? = word;
        self.len += 1;
        Some(())
    }

    fn as_slice(&self) -> &[&'a str] {
        &self.items[..self.len]
    }
}

/// The parts of a date/time text, as far as they have been read.
struct Reader<'a, Z> {
    text: &'a str,
    ty: &'static str,
    /// Words of the date.
    words: Words<'a, 6>,
    date: Option<(i64, u32, u32)>,
    time_us: Option<i64>,
    zone: Option<Z>,
    /// Whether the zone is one of the table of zones, not an offset or an abbreviation.
    zone_has_name: bool,
    epoch: bool,
    before_christ: bool,
    /// Whether a day of the week was named.
    day_of_week: bool,
    /// Half of the day: false for AM, true for PM.
    afternoon: Option<bool>,
}

impl<'a, Z: Zone> Reader<'a, Z> {
    /// Splits the text into tokens (at blanks, and at `T` between date and time) and reads each
    /// token.
    fn read(text: &'a str, ty: &'static str) -> Result<Self> {
        let mut reader = Reader {
            text,
            ty,
            words: Words::new(),
            date: None,
            time_us: None,
            zone: None,
            zone_has_name: false,
            epoch: false,
            before_christ: false,
            day_of_week: false,
            afternoon: None,
        };
        let trimmed = trim(text);
        if let Some(fast) = parse_iso(trimmed) {
            reader.date = Some(checked_date(fast, text)?);
            return Ok(reader);
        }
        for token in trimmed.split([' ', '\t', '\n', ',']).filter(|token| !token.is_empty()) {
            reader.token(token)?;
        }
        if let Some(afternoon) = reader.afternoon {
            let time = reader.time_us.ok_or_else(|| invalid(ty, text))?;
            reader.time_us = Some(twelve_hours(time, afternoon, text)?);
        }
        if reader.words.len > 0 {
            reader.date = Some(reader.date_of_words()?);
        }
        Ok(reader)
    }

    fn token(&mut self, token: &'a str) -> Result<()> {
        let is = |word: &str| token.eq_ignore_ascii_case(word);
        let starts_with_digit = token.as_bytes()[0].is_ascii_digit();
        // Six or four digits are a time behind a date, and where no date is read.
        let is_time = |ty: &str| {
            token.contains(':') && starts_with_digit
                || (ty == "time" || self.has_whole_date()) && begins_with_compact_time(token)
        };
        if is("epoch") {
            self.epoch = true;
        } else if ["infinity", "+infinity", "-infinity"].iter().any(|word| is(word)) {
            return Err(ValueError::text(TextProblem::Infinite, self.ty, token));
        } else if is("bc") {
            self.before_christ = true;
        } else if is("ad") {
        } else if self.ty != "time" && is_day_of_week(token) {
            if core::mem::replace(&mut self.day_of_week, true) {
                return Err(invalid(self.ty, self.text));
            }
        } else if is("am") || is("pm") {
            self.afternoon = Some(is("pm"));
        } else if let Some((date, time)) = split_at_t(token) {
            self.word(date)?;
            self.time(time)?;
        } else if self.time_us.is_none() && is_time(self.ty) {
            self.time(token)?;
        } else if let Some((zone, has_name)) = self.zone_of(token, starts_with_digit) {
            (self.zone, self.zone_has_name) = (Some(zone), has_name);
        } else if let Some((date, offset)) = split_at_offset(token)
            && self.words.len == 0
            && self.zone.is_none()
        {
            self.word(date)?;
            self.zone = Some(Z::fixed(offset));
        } else {
            self.word(token)?;
        }
        Ok(())
    }

    /// Whether the words so far are a date by themselves.
    fn has_whole_date(&self) -> bool {
        match self.words.as_slice() {
            [] => false,
            [word] if julian_date(word).is_some() => true,
            words => read_date(words, self.before_christ).is_some(),
        }
    }

    /// The zone that a token names, where a zone may stand, and whether it is one of the table of zones.
    fn zone_of(&self, token: &str, starts_with_digit: bool) -> Option<(Z, bool)> {
        if self.zone.is_some() {
            return None;
        }
        let after_time = self.time_us.is_some()
            && (self.words.len > 0 || self.ty == "time")
            && !starts_with_digit;
        // `2024-02-29 +00`: how JDBC sends a date.
        let after_date = self.words.len == 1 && token.starts_with(['+', '-']);
        let named = after_time.then(|| zone_beside_time(token)).flatten();
        let offset = || after_date.then(|| parse_offset(token)).flatten().map(Z::fixed);
        named.or_else(|| offset().map(|zone| (zone, false)))
    }

    fn word(&mut self, word: &'a str) -> Result<()> {
        // Behind a day of the week no date is written in one word but `YYYYMMDD`.
        if self.day_of_week && self.words.len == 0 && word.contains(['-', '/', '.']) {
            return Err(invalid(self.ty, self.text));
        }
        self.words.push(word).ok_or_else(|| invalid(self.ty, self.text))
    }

    /// Reads a time, to which a zone or half of the day may be joined.
    fn time(&mut self, token: &str) -> Result<()> {
        let bad = || invalid(self.ty, self.text);
        let is_time = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
        let end = token.find(|c: char| !is_time(c)).unwrap_or(token.len());
        let (time, suffix) = token.split_at(end);
        let time_us = read_time(time, self.text).ok_or_else(bad)??;
        for (word, afternoon) in [("am", false), ("pm", true)] {
            if suffix.eq_ignore_ascii_case(word) {
                self.time_us = Some(twelve_hours(time_us, afternoon, self.text)?);
                return Ok(());
            }
        }
        if !suffix.is_empty() {
            let (zone, has_name) = zone_beside_time(suffix).ok_or_else(bad)?;
            (self.zone, self.zone_has_name) = (Some(zone), has_name);
        }
        self.time_us = Some(time_us);
        Ok(())
    }

    fn date_of_words(&self) -> Result<(i64, u32, u32)> {
        if let [word] = self.words.as_slice()
            && let Some(date) = julian_date(word)
        {
            return checked_date(date, self.text);
        }
        let read = read_date(self.words.as_slice(), self.before_christ);
        let (year, month, day) = read.ok_or_else(|| invalid(self.ty, self.text))?;
        // There is no year 0, neither before nor after.
        if year < 1 {
            return Err(field_overflow(self.text));
        }
        checked_date((if self.before_christ { 1 - year } else { year }, month, day), self.text)
    }

    fn local_us(&self) -> Result<i64> {
        if self.epoch {
            return Ok(0);
        }
        let (year, month, day) = self.date.ok_or_else(|| invalid(self.ty, self.text))?;
        days_from_civil(year, month, day)
            .checked_mul(DAY_US)
            .and_then(|us| us.checked_add(self.time_us.unwrap_or(0)))
            .ok_or_else(|| out_of_range(self.ty, self.text))
    }
}

/// The zone that stands beside a time, and whether it is one of the table of zones: abbreviations come first, as in
/// PostgreSQL.
fn zone_beside_time<Z: Zone>(text: &str) -> Option<(Z, bool)> {
    if let Some(seconds) = Z::abbreviated(text) {
        return Some((Z::fixed(seconds), false));
    }
    let zone = parse_zone(text)?;
    Some((zone, !text.starts_with(['+', '-']) && !is_universal_time(text)))
}

/// `2001-01-01+02` and `20010101+02:00`: a date and the offset that is joined to its end, in seconds.
fn split_at_offset(token: &str) -> Option<(&str, i32)> {
    let at = token.find('+')?;
    let (date, offset) = token.split_at(at);
    let is_date = date.len() >= 8 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date.then(|| parse_offset(offset)).flatten().map(|offset| (date, offset))
}

/// Converts a time of twelve hours in the given half of the day.
fn twelve_hours(time_us: i64, afternoon: bool, text: &str) -> Result<i64> {
    let hour = time_us / HOUR_US;
    if !(1..=12).contains(&hour) {
        return Err(field_overflow(text));
    }
    let shift = i64::from(afternoon) * 12 - i64::from(hour == 12) * 12;
    Ok(time_us + shift * HOUR_US)
}

/// Reads `YYYY-MM-DD` and nothing else: the form of nearly all dates.
fn parse_iso(text: &str) -> Option<(i64, u32, u32)> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    let digit = |at: usize| bytes[at].is_ascii_digit().then(|| u32::from(bytes[at] - b'0'));
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = digit(0)? * 1000 + digit(1)? * 100 + digit(2)? * 10 + digit(3)?;
    let date = (i64::from(year), digit(5)? * 10 + digit(6)?, digit(8)? * 10 + digit(9)?);
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

/// Splits `2020-01-02T03:04:05Z` at its `T`.
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

/// Whether a token begins with `HHMM` or `HHMMSS`, behind which fractions of a second and a zone may stand.
fn begins_with_compact_time(token: &str) -> bool {
    let digits = token.bytes().take_while(u8::is_ascii_digit).count();
    let next = token.as_bytes().get(digits);
    let ends = match next {
        None => true,
        Some(b'+' | b'-') => parse_offset(&token[digits..]).is_some(),
        Some(b'.') => digits == 6,
        Some(other) => other.is_ascii_alphabetic(),
    };
    matches!(digits, 4 | 6) && ends
}

/// `HH:MM[:SS[.ffffff]]` or `HHMM[SS[.ffffff]]`. `None`: not a time; inner error: out of range.
fn read_time(time: &str, text: &str) -> Option<Result<i64>> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let (hours, minutes, seconds) = if clock.contains(':') {
        parse_clock(clock)?
    } else if is_compact_time(clock) {
        let seconds = if clock.len() == 6 { two_digits(&clock[4..])? } else { 0 };
        (two_digits(&clock[..2])?, two_digits(&clock[2..4])?, seconds)
    } else {
        return None;
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = hours * HOUR_US + minutes * MINUTE_US + seconds * SECOND_US;
    let total = whole + fraction_us(fraction);
    if hours > 24 || minutes > 59 || seconds > 60 || total > DAY_US {
        return Some(Err(field_overflow(text)));
    }
    Some(Ok(total))
}

/// Digits after the point, in microseconds, rounded.
fn fraction_us(digits: &str) -> i64 {
    let digit = |at: usize| digits.as_bytes().get(at).map_or(0, |byte| i64::from(byte - b'0'));
    (0..6).fold(0, |us, at| us * 10 + digit(at)) + i64::from(digit(6) >= 5)
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

/// Words for days of the week, which say nothing beside a date.
const DAYS_OF_WEEK: [&str; 18] = [
    "fri",
    "friday",
    "mon",
    "monday",
    "sat",
    "saturday",
    "sun",
    "sunday",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "wednesday",
    "weds",
];

fn is_day_of_week(word: &str) -> bool {
    DAYS_OF_WEEK.iter().any(|name| name.eq_ignore_ascii_case(word))
}

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

/// Reads a date from its words: ISO, `YYYYMMDD`, `YYMMDD`, `MM/DD/YYYY`, with the month by name, or as a day of a year
/// (`YYYY.DDD`). Before Christ a year of two digits is that year.
fn read_date(words: &[&str], before_christ: bool) -> Option<(i64, u32, u32)> {
    let mut parts: Words<'_, 3> = Words::new();
    for word in words {
        for part in word.split(['-', '/', '.']) {
            parts.push(part)?;
        }
    }
    let number = |part: &str| -> Option<i64> {
        (part.len() <= 7 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let full_year = |part: &str| -> Option<i64> {
        let year = number(part)?;
        Some(if before_christ { year } else { full_year(part, year) })
    };
    let [a, b, c] = match parts.as_slice() {
        [only] => return read_compact_date(only, full_year),
        [year, day] if year.len() >= 4 && day.len() == 3 && words.len() == 1 => {
            return day_of_year(number(year)?, number(day)?);
        }
        [a, b, c] => [*a, *b, *c],
        _ => return None,
    };
    let day = |part: &str| number(part).filter(|_| part.len() <= 2).map(|day| day as u32);
    if let Some(month) = month_by_name(a) {
        return Some((full_year(c)?, month, day(b)?));
    }
    if let Some(month) = month_by_name(b) {
        return match a.len() > 2 {
            true => Some((number(a)?, month, day(c)?)),
            false => Some((full_year(c)?, month, day(a)?)),
        };
    }
    if a.len() > 2 {
        return match month_by_name(c) {
            Some(month) => Some((number(a)?, month, day(b)?)),
            None => Some((number(a)?, day(b)?, day(c)?)),
        };
    }
    Some((full_year(c)?, day(a)?, day(b)?))
}

/// Reads `YYYYMMDD`, with a year of at least four digits, or `YYMMDD`.
fn read_compact_date(
    digits: &str,
    full_year: impl Fn(&str) -> Option<i64>,
) -> Option<(i64, u32, u32)> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit())
        || !(digits.len() == 6 || digits.len() >= 8)
    {
        return None;
    }
    let (year, rest) = digits.split_at(digits.len() - 4);
    let year = if year.len() == 2 { full_year(year)? } else { year.parse().ok()? };
    Some((year, rest[..2].parse().ok()?, rest[2..].parse().ok()?))
}

/// `J` and a number of days since 24 November 4714 BC; 1 BC is year 0.
fn julian_date(word: &str) -> Option<(i64, u32, u32)> {
    /// The Julian day of 1 January 1970.
    const EPOCH_JULIAN: i64 = 2_440_588;
    let digits = word.strip_prefix(['j', 'J']).filter(|digits| digits.len() <= 8)?;
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let day: i64 = whole.then(|| digits.parse().ok()).flatten()?;
    Some(civil_from_days(day - EPOCH_JULIAN))
}

/// The date of a day of a year. Day 366 of a year that has 365 is the first of the next one, as in PostgreSQL.
fn day_of_year(year: i64, day: i64) -> Option<(i64, u32, u32)> {
    (1..=366).contains(&day).then(|| civil_from_days(days_from_civil(year, 1, 1) + day - 1))
}

/// The year that a number stands for: two digits mean 1970 to 2069.
fn full_year(text: &str, year: i64) -> i64 {
    match (text.len(), year) {
        (..=2, ..70) => year + 2000,
        (..=2, _) => year + 1900,
        _ => year,
    }
}

/// Writes a DATE as `YYYY-MM-DD`, with ` BC` before year 1.
pub fn write_date(days: i32, out: &mut String) {
    let era = write_civil(days.into(), out);
    out.push_str(era);
}

fn write_civil(days: i64, out: &mut String) -> &'static str {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year < 1 { (1 - year, " BC") } else { (year, "") };
    write!(out, "{year:04}-{month:02}-{day:02}").expect("a string takes everything");
    era
}

/// Writes a TIME as `HH:MM:SS[.ffffff]`.
pub fn write_time(us: i64, out: &mut String) {
    let seconds = us / SECOND_US;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        .expect("a string takes everything");
    write_fraction(us % SECOND_US, out);
}

/// Writes a fraction of a second without trailing zeros; nothing for zero.
pub(crate) fn write_fraction(us: i64, out: &mut String) {
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
    let era = write_local(us, out);
    out.push_str(era);
}

fn write_local(us: i64, out: &mut String) -> &'static str {
    let era = write_civil(day_of(us), out);
    out.push(' ');
    write_time(time_of(us), out);
    era
}

/// Writes a TIMESTAMPTZ in the local time of `zone`, with its offset.
pub fn write_timestamptz<Z: Zone>(us: i64, zone: Z, out: &mut String) {
    let offset = zone.offset_at(us);
    let era = write_local(us.saturating_add(i64::from(offset) * SECOND_US), out);
    let (sign, offset) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    write!(out, "{sign}{:02}", offset / 3600).expect("a string takes everything");
    if offset % 3600 != 0 {
        write!(out, ":{:02}", offset / 60 % 60).expect("a string takes everything");
    }
    if offset % 60 != 0 {
        write!(out, ":{:02}", offset % 60).expect("a string takes everything");
    }
    out.push_str(era);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone of a fixed offset; one zone has a name, too.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct East(i32);

    impl Zone for East {
        fn fixed(seconds: i32) -> Self {
            East(seconds)
        }

        fn named(name: &str) -> Option<Self> {
            name.eq_ignore_ascii_case("Asia/Tokyo").then_some(East(9 * 3600))
        }

        fn abbreviated(name: &str) -> Option<i32> {
            name.eq_ignore_ascii_case("PST").then_some(-8 * 3600)
        }

        fn offset_at(self, _: i64) -> i32 {
            self.0
        }

        fn to_utc(self, local_us: i64) -> Option<i64> {
            local_us.checked_sub(i64::from(self.0) * SECOND_US)
        }
    }

    /// The problem that an error names.
    fn problem(error: ValueError) -> TextProblem {
        match error {
            ValueError::Text(error) => error.problem,
            other => panic!("{other}"),
        }
    }

    fn date(text: &str) -> Result<String, TextProblem> {
        let mut out = String::new();
        write_date(parse_date::<East>(text).map_err(problem)?, &mut out);
        Ok(out)
    }

    fn stamp(text: &str) -> Result<String, TextProblem> {
        let mut out = String::new();
        write_timestamp(parse_timestamp::<East>(text).map_err(problem)?, &mut out);
        Ok(out)
    }

    fn stamptz(text: &str, zone: &str) -> Result<String, TextProblem> {
        let zone: East = parse_zone(zone).expect(zone);
        let mut out = String::new();
        let us = parse_timestamptz(text, zone).map_err(problem)?;
        write_timestamptz(us, zone, &mut out);
        Ok(out)
    }

    #[test]
    fn zones_are_offsets_or_names() {
        assert_eq!(parse_zone("utc"), Some(East(0)));
        assert_eq!(parse_zone("+05:30"), Some(East(19_800)));
        assert_eq!(parse_zone("-0800"), Some(East(-28_800)));
        assert_eq!(parse_zone(" 2 "), Some(East(7200)));
        assert_eq!(parse_zone("asia/tokyo"), Some(East(32_400)));
        for bad in ["", "Nowhere/Here", "+99", "+1:2:3:4", "16"] {
            assert_eq!(parse_zone::<East>(bad), None, "{bad:?}");
        }
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
            ("1999 08 Jan", "1999-01-08"),
            ("990108", "1999-01-08"),
            ("1999.008", "1999-01-08"),
            ("2000-366", "2000-12-31"),
            ("1999.366", "2000-01-01"),
            ("J2451187", "1999-01-08"),
            ("J1520447", "0551-09-28 BC"),
            ("January 8, 99 BC", "0099-01-08 BC"),
            ("2001-01-01+02", "2001-01-01"),
            ("20010102 030405", "2001-01-02"),
        ] {
            assert_eq!(date(text), Ok(expected.into()), "{text:?}");
        }
    }

    #[test]
    fn bad_dates_say_why() {
        for text in [
            "",
            "abc",
            "2020-01",
            "2020",
            "1-2-3-4",
            "1999.000",
            "1999.367",
            "J",
            "2020-01-02 x",
            "12:00:00",
        ] {
            assert_eq!(date(text), Err(TextProblem::MomentSyntax), "{text:?}");
        }
        for text in [
            "991308",
            "2021-02-29",
            "2020-13-01",
            "2020-00-01",
            "2020-01-00",
            "0000-01-01",
            "2020-01-32",
        ] {
            assert_eq!(date(text), Err(TextProblem::FieldRange), "{text:?}");
        }
        assert_eq!(date("300000-01-01"), Err(TextProblem::MomentRange));
        assert_eq!(date("infinity"), Err(TextProblem::Infinite));
    }

    #[test]
    fn times_in_all_spellings() {
        let time = |text: &str| {
            let mut out = String::new();
            write_time(parse_time::<East>(text).map_err(problem)?, &mut out);
            Ok::<_, TextProblem>(out)
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
            ("2020-01-01 04:05:06 Asia/Tokyo", "04:05:06"),
            ("02:03 PST", "02:03:00"),
            ("040506.789+08", "04:05:06.789"),
        ] {
            assert_eq!(time(text), Ok(expected.into()), "{text:?}");
        }
        for text in ["25:00", "12:60", "24:00:01", "13:00 pm"] {
            assert_eq!(time(text), Err(TextProblem::FieldRange), "{text:?}");
        }
        for text in ["", "x", "1:2:3:4", "12:0x", "2020-01-01", "04:05 Asia/Tokyo"] {
            assert_eq!(time(text), Err(TextProblem::MomentSyntax), "{text:?}");
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
            ("2020-07-01 12:00:00Z", "Asia/Tokyo", "2020-07-01 21:00:00+09"),
            ("2020-01-01 12:00:00", "Asia/Tokyo", "2020-01-01 12:00:00+09"),
            ("2020-01-01 12:00:00-08", "+05:30", "2020-01-02 01:30:00+05:30"),
            ("2020-01-01 12:00:00 Asia/Tokyo", "UTC", "2020-01-01 03:00:00+00"),
            ("2020-01-01 12:00:00 +0100", "UTC", "2020-01-01 11:00:00+00"),
            ("epoch", "Asia/Tokyo", "1970-01-01 09:00:00+09"),
            ("2020-01-01 12:00 PST", "UTC", "2020-01-01 20:00:00+00"),
            ("2020-01-01 12:00pst", "UTC", "2020-01-01 20:00:00+00"),
            ("20011227 040506.789+08", "UTC", "2001-12-26 20:05:06.789+00"),
            ("20011227 040506", "UTC", "2001-12-27 04:05:06+00"),
            ("2001-01-01+02", "UTC", "2000-12-31 22:00:00+00"),
        ];
        for (text, zone, expected) in cases {
            assert_eq!(stamptz(text, zone), Ok(expected.into()), "{text:?}");
        }
        assert_eq!(stamptz("2020-01-01 12:00 Mars", "UTC"), Err(TextProblem::MomentSyntax));
        assert_eq!(stamp("-infinity"), Err(TextProblem::Infinite));
    }
}
