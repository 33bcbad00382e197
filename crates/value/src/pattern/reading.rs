//! Moments read by a pattern: `to_date` and `to_timestamp`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::moment::{self, DAYS, Keyword as K, MONTHS, ROMAN_MONTHS};
use super::{Modifiers, Node, invalid, worded};
use crate::calendar::{self, DAY_US, SECOND_US};
use crate::error::{Result, TextProblem, ValueError};

/// Fields that a text has filled in; 0 stands for a field that is absent.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    weeks: Option<Weeks>,
    hour: i64,
    afternoon: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    week_day: i64,
    day: i64,
    year_day: i64,
    month: i64,
    millisecond: i64,
    microsecond: i64,
    year: i64,
    before_christ: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    /// Digits of the year's keyword.
    year_digits: u8,
    twelve_hours: bool,
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
}

/// The convention that a date's fields follow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weeks {
    Gregorian,
    Iso,
}

/// A local time read by a pattern, with its offset from UTC in seconds if the text has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Day number from 1970-01-01.
    pub day: i64,
    /// Microseconds since midnight.
    pub time_us: i64,
    /// Seconds east of UTC.
    pub offset: Option<i32>,
}

impl Read {
    /// The local time in microseconds. Errors: 22008.
    pub fn local_us(&self) -> Result<i64> {
        moment::at(self.day, self.time_us).ok_or(ValueError::MomentOutOfRange("timestamp"))
    }
}

/// Reads a text by a pattern.
///
/// Errors: 22007 if the text does not fit the pattern, 22008 if a field is out of range, 0A000 for
/// keywords that only write.
pub fn read(text: &str, pattern: &str) -> Result<Read> {
    let mut reader =
        Reader { rest: text, exact: false, skipped: 0, last: None, fields: Fields::default() };
    let nodes = moment::read(pattern);
    reader.read(&nodes)?;
    reader.fields.finish(text)
}

struct Reader<'a> {
    rest: &'a str,
    /// Whether `FX` came before: blanks and separators are counted.
    exact: bool,
    /// Characters skipped beyond those of the pattern.
    skipped: i64,
    /// The character before the rest.
    last: Option<char>,
    fields: Fields,
}

fn is_separator(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_control() && !character.is_ascii_alphanumeric()
}

impl<'a> Reader<'a> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        self.last = characters.next().or(self.last);
        self.rest = characters.as_str();
    }

    fn skip_blanks(&mut self) {
        while self.next().is_some_and(|c| c.is_ascii_whitespace()) {
            self.skip();
            self.skipped += 1;
        }
    }

    fn read(&mut self, nodes: &[Node<K>]) -> Result<()> {
        for (at, node) in nodes.iter().enumerate() {
            if self.rest.is_empty() {
                break;
            }
            let is_keyword = matches!(node, Node::Keyword(keyword, _) if *keyword != K::Exact);
            if !self.exact && (is_keyword || at == 0) {
                self.skip_blanks();
            }
            match *node {
                Node::Character { character, quoted } => self.character(character, quoted),
                Node::Keyword(keyword, modifiers) => {
                    self.keyword(keyword, modifiers, &nodes[at..])?;
                    if !self.exact {
                        self.skipped = 0;
                        self.skip_blanks();
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes what a character of the pattern stands for.
    fn character(&mut self, character: char, quoted: bool) {
        let separates = !quoted && (character.is_ascii_whitespace() || is_separator(character));
        if self.exact {
            return self.skip();
        }
        if separates {
            // A separator takes one separator, or nothing.
            self.skipped -= 1;
            if self.next().is_some_and(|c| c.is_ascii_whitespace() || is_separator(c)) {
                self.skip();
                self.skipped += 1;
            }
        } else if self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.skip();
        }
    }

    fn keyword(&mut self, keyword: K, modifiers: Modifiers, nodes: &[Node<K>]) -> Result<()> {
        self.convention(keyword)?;
        let name = name_of(keyword);
        match keyword {
            K::Exact => self.exact = true,
            K::Noon { points, .. } => {
                let words: &[&str] = if points { &["a.m.", "p.m."] } else { &["am", "pm"] };
                let value = self.word(words, &name)?;
                self.set(|fields| &mut fields.afternoon, value, &name)?;
                self.fields.twelve_hours = true;
            }
            K::Era { points, .. } => {
                let words: &[&str] = if points { &["a.d.", "b.c."] } else { &["ad", "bc"] };
                let value = self.word(words, &name)?;
                self.set(|fields| &mut fields.before_christ, value, &name)?;
            }
            K::MonthName(_) => {
                let value = self.word(&MONTHS, &name)? + 1;
                self.set(|fields| &mut fields.month, value, &name)?;
            }
            K::ShortMonth(_) => {
                let value = self.word(&MONTHS.map(|month| &month[..3]), &name)? + 1;
                self.set(|fields| &mut fields.month, value, &name)?;
            }
            K::Roman { .. } => {
                let value = 12 - self.word(&ROMAN_MONTHS, &name)?;
                self.set(|fields| &mut fields.month, value, &name)?;
            }
            K::Day(_) => {
                let value = self.word(&DAYS, &name)? + 1;
                self.set(|fields| &mut fields.week_day, value, &name)?;
            }
            K::ShortDay(_) => {
                let value = self.word(&DAYS.map(|day| &day[..3]), &name)? + 1;
                self.set(|fields| &mut fields.week_day, value, &name)?;
            }
            K::Zone { .. } | K::Offset => {
                let message = format!("formatting field \"{name}\" is only supported in to_char");
                return Err(ValueError::Worded(worded(*b"0A000", message)));
            }
            _ => {
                self.number(keyword, &name, nodes)?;
                if modifiers.ordinal.is_some() {
                    self.skip();
                    self.skip();
                }
            }
        }
        Ok(())
    }

    /// Reads the number that a keyword stands for.
    fn number(&mut self, keyword: K, name: &str, nodes: &[Node<K>]) -> Result<()> {
        macro_rules! field {
            ($field:ident, $digits:expr) => {{
                let (value, _) = self.integer($digits, name, nodes)?;
                self.set(|fields| &mut fields.$field, value, name)
            }};
        }
        match keyword {
            K::Hour12 => {
                self.fields.twelve_hours = true;
                field!(hour, 2)
            }
            K::Hour24 => field!(hour, 2),
            K::Minute => field!(minute, 2),
            K::Second => field!(second, 2),
            K::SecondOfDay => field!(second_of_day, name.len()),
            K::Millisecond => {
                let (value, length) = self.integer(3, name, nodes)?;
                let value = value * [1, 100, 10].get(length).copied().unwrap_or(1);
                self.set(|fields| &mut fields.millisecond, value, name)
            }
            K::Microsecond | K::Fraction(_) => {
                let digits = if let K::Fraction(digits) = keyword { digits.into() } else { 6 };
                let (value, length) = self.integer(digits, name, nodes)?;
                let value = value * 10_i64.pow(6_usize.saturating_sub(length) as u32);
                // More digits may stand there than the pattern has, and are rounded.
                let unit = 10_i64.pow(6_usize.saturating_sub(digits) as u32);
                let value = (value + unit / 2) / unit * unit;
                self.set(|fields| &mut fields.microsecond, value, name)
            }
            K::ZoneHour => {
                self.fields.zone_sign = match self.next() {
                    Some(sign @ ('+' | '-' | ' ')) => {
                        self.skip();
                        if sign == '-' { -1 } else { 1 }
                    }
                    // The sign may have been taken for a separator.
                    _ if self.skipped > 0 && self.last == Some('-') => -1,
                    _ => 1,
                };
                field!(zone_hour, 2)
            }
            K::ZoneMinute => {
                if self.fields.zone_sign == 0 {
                    self.fields.zone_sign = 1;
                }
                field!(zone_minute, 2)
            }
            K::Month => field!(month, 2),
            K::DayOfYear | K::IsoDayOfYear => field!(year_day, 3),
            K::DayOfMonth => field!(day, 2),
            K::DayOfWeek => field!(week_day, 1),
            K::IsoDayOfWeek => {
                let (value, _) = self.integer(1, name, nodes)?;
                self.set(|fields| &mut fields.week_day, value % 7 + 1, name)
            }
            K::Week | K::IsoWeek => field!(week, 2),
            // A quarter says too little for a date.
            K::Quarter => self.integer(1, name, nodes).map(|_| ()),
            K::Century => field!(century, 2),
            K::WeekOfMonth => field!(week_of_month, 1),
            K::Julian => field!(julian, 1),
            K::YearWithComma => self.year_with_comma(name),
            K::Year(digits) | K::IsoYear(digits) => {
                let (value, length) = self.integer(digits.into(), name, nodes)?;
                let value = if digits < 4 && length < 4 { near_2020(value) } else { value };
                self.fields.year_digits = digits;
                self.set(|fields| &mut fields.year, value, name)
            }
            _ => Ok(()),
        }
    }

    fn year_with_comma(&mut self, name: &str) -> Result<()> {
        let (thousands, rest) = digits(self.rest);
        let (rest_digits, after) = digits(rest.strip_prefix(',').unwrap_or(""));
        let rest_digits = &rest_digits[..rest_digits.len().min(3)];
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number < 1 << 20);
        let (Some(thousands), Some(years)) = (number(thousands), number(rest_digits)) else {
            return Err(invalid("invalid input string for \"Y,YYY\"", None, None));
        };
        self.rest = after;
        self.fields.year_digits = 4;
        self.set(|fields| &mut fields.year, thousands * 1000 + years, name)
    }

    /// Reads an integer and the number of characters that it takes. Digits are counted where a digit may
    /// follow.
    fn integer(&mut self, length: usize, name: &str, nodes: &[Node<K>]) -> Result<(i64, usize)> {
        let start = self.rest;
        let trimmed = start.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let hint = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let (text, free) = if is_filling(&nodes[0]) || ends_number(nodes) {
            (trimmed, true)
        } else {
            let end = trimmed.char_indices().nth(length).map_or(trimmed.len(), |(at, _)| at);
            (&trimmed[..end], false)
        };
        let count = text.chars().count();
        if !free && count < length {
            let message = format!("source string too short for \"{name}\" formatting field");
            let detail = format!("Field requires {length} characters, but only {count} remain.");
            return Err(invalid(message, Some(detail), Some(hint)));
        }
        let sign = usize::from(text.starts_with(['+', '-']));
        let used = match digits(&text[sign..]).0.len() {
            0 => 0,
            digits => digits + sign,
        };
        let shown: String = trimmed.chars().take(length).collect();
        let wrong = |detail: String, hint| {
            invalid(format!("invalid value \"{shown}\" for \"{name}\""), Some(detail), hint)
        };
        if !free && used > 0 && used < length {
            let detail =
                format!("Field requires {length} characters, but only {used} could be parsed.");
            return Err(wrong(detail, Some(hint)));
        }
        if used == 0 {
            return Err(wrong("Value must be an integer.".to_owned(), None));
        }
        let value = text[..used].parse::<i64>().ok();
        let Some(value) = value.filter(|value| i32::try_from(*value).is_ok()) else {
            let mut error =
                worded(*b"22008", format!("value for \"{name}\" in source string is out of range"));
            error.detail =
                Some(format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX));
            return Err(ValueError::Worded(error));
        };
        let taken = start.len() - trimmed.len() + used;
        self.last = start[..taken].chars().last();
        self.rest = &start[taken..];
        Ok((value, taken))
    }

    /// Reads one of some words, in any case, and gives the word's number.
    fn word(&mut self, words: &[&str], name: &str) -> Result<i64> {
        let fits = |word: &&str| {
            let start = self.rest.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        if let Some(at) = words.iter().position(fits) {
            self.rest = &self.rest[words[at].len()..];
            return Ok(at as i64);
        }
        let shown = self.rest.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        let detail = "The given value did not match any of the allowed values for this field.";
        Err(invalid(
            format!("invalid value \"{shown}\" for \"{name}\""),
            Some(detail.to_owned()),
            None,
        ))
    }

    /// Sets a field, which must not have another value already.
    fn set(&mut self, field: fn(&mut Fields) -> &mut i64, value: i64, name: &str) -> Result<()> {
        let field = field(&mut self.fields);
        if *field != 0 && *field != value {
            let message = format!("conflicting values for \"{name}\" field in formatting string");
            let detail = "This value contradicts a previous setting for the same field type.";
            return Err(invalid(message, Some(detail.to_owned()), None));
        }
        *field = value;
        Ok(())
    }

    /// Notes the convention of a keyword's date.
    fn convention(&mut self, keyword: K) -> Result<()> {
        let weeks = match keyword {
            K::IsoDayOfYear | K::IsoDayOfWeek | K::IsoWeek | K::IsoYear(_) => Weeks::Iso,
            K::DayOfYear
            | K::DayOfMonth
            | K::DayOfWeek
            | K::Month
            | K::MonthName(_)
            | K::ShortMonth(_)
            | K::Roman { .. }
            | K::Week
            | K::WeekOfMonth
            | K::YearWithComma
            | K::Year(_) => Weeks::Gregorian,
            _ => return Ok(()),
        };
        if self.fields.weeks.is_some_and(|before| before != weeks) {
            let hint =
                "Do not mix Gregorian and ISO week date conventions in a formatting template.";
            return Err(invalid("invalid combination of date conventions", None, Some(hint)));
        }
        self.fields.weeks = Some(weeks);
        Ok(())
    }
}

/// The digits at the start of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A year of three digits or less as the one nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn is_filling(node: &Node<K>) -> bool {
    matches!(node, Node::Keyword(_, Modifiers { fill: true, .. }))
}

/// Whether no digit can follow the first node's number.
fn ends_number(nodes: &[Node<K>]) -> bool {
    if matches!(nodes[0], Node::Keyword(_, Modifiers { ordinal: Some(_), .. })) {
        return true;
    }
    match nodes.get(1) {
        None => true,
        Some(Node::Character { character, .. }) => !character.is_ascii_digit(),
        Some(Node::Keyword(keyword, _)) => matches!(
            keyword,
            K::Noon { .. }
                | K::Era { .. }
                | K::Day(_)
                | K::ShortDay(_)
                | K::MonthName(_)
                | K::ShortMonth(_)
                | K::Roman { .. }
                | K::Exact
                | K::Offset
                | K::ZoneHour
                | K::Zone { .. }
        ),
    }
}

/// A keyword as errors show it.
fn name_of(keyword: K) -> String {
    moment::spelling(keyword).to_string()
}

impl Fields {
    /// The moment of the fields. `text`: the text that was read, for errors.
    fn finish(mut self, text: &str) -> Result<Read> {
        let far = || ValueError::text(TextProblem::FieldRange, "timestamp", text);
        let hour = self.hours()?;
        let mut date = Date { year: 0, month: 1, day: 1, all: false };
        let has_year = self.set_year(&mut date);
        let mut has = (has_year, false, false);
        if self.julian != 0 {
            date.set_julian(self.julian);
            has = (true, true, true);
        }
        if self.week != 0 {
            if self.weeks == Some(Weeks::Iso) {
                let start = moment::iso_week_start(date.year, self.week);
                let day = match self.week_day {
                    0 => 0,
                    1 => 6,
                    day => day - 2,
                };
                date.set_julian(start + day);
                has = (true, true, true);
            } else {
                self.year_day = (self.week - 1) * 7 + 1;
            }
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        if self.day != 0 {
            date.day = self.day;
            has.2 = true;
        }
        if self.month != 0 {
            date.month = self.month;
            has.1 = true;
        }
        if self.year_day != 0 && (date.month <= 1 || date.day <= 1) {
            self.set_year_day(&mut date)?;
            has = if self.weeks == Some(Weeks::Iso) {
                (true, true, true)
            } else {
                (has.0, true, true)
            };
        }
        date.all = has == (true, true, true);
        if !date.is_valid(has) {
            return Err(far());
        }
        let time_us = self.time(hour).ok_or_else(far)?;
        let offset = self.offset().ok_or_else(far)?;
        let day = moment::julian(date.year, date.month, date.day) - UNIX_JULIAN;
        if day.unsigned_abs() > (i64::MAX / DAY_US) as u64 {
            return Err(far());
        }
        Ok(Read { day, time_us, offset })
    }

    /// Hour, minute and second.
    fn hours(&self) -> Result<(i64, i64, i64)> {
        let (mut hour, mut minute, mut second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        for (field, value) in
            [(&mut hour, self.hour), (&mut minute, self.minute), (&mut second, self.second)]
        {
            if value != 0 {
                *field = value;
            }
        }
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(invalid(message, None, Some(hint)));
            }
            match self.afternoon != 0 {
                true if hour < 12 => hour += 12,
                false if hour == 12 => hour = 0,
                _ => {}
            }
        }
        Ok((hour, minute, second))
    }

    /// Microseconds since midnight; `None` if a field is out of range.
    fn time(&self, (hour, minute, second): (i64, i64, i64)) -> Option<i64> {
        let fraction = self.millisecond * 1000 + self.microsecond;
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            // A fraction of fewer digits may have been rounded to a second.
            && (0..=SECOND_US).contains(&fraction);
        fits.then_some(((hour * 60 + minute) * 60 + second) * SECOND_US + fraction)
    }

    /// Sets the year by year and century; false if neither is there.
    fn set_year(&self, date: &mut Date) -> bool {
        let before = self.before_christ != 0;
        let century = if before { -self.century } else { self.century };
        if self.year != 0 && self.century != 0 && self.year_digits <= 2 {
            let year = self.year % 100;
            date.year = match (year, century >= 0) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (year, true) => year + (century - 1) * 100,
                (year, false) => (century + 1) * 100 - year + 1,
            };
        } else if self.year != 0 {
            let year = if before { -self.year } else { self.year };
            date.year = if year < 0 { year + 1 } else { year };
        } else if self.century != 0 {
            date.year = if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 };
        } else {
            return false;
        }
        true
    }

    /// Sets month and day by the day of the year.
    fn set_year_day(&self, date: &mut Date) -> Result<()> {
        if date.year == 0 && self.before_christ == 0 {
            let message = "cannot calculate day of year without year information";
            return Err(invalid(message, None, None));
        }
        if self.weeks == Some(Weeks::Iso) {
            date.set_julian(moment::iso_week_start(date.year, 1) - 1 + self.year_day);
            return Ok(());
        }
        let lengths: Vec<i64> =
            (1..=12).map(|month| calendar::days_in_month(date.year, month).into()).collect();
        let (mut month, mut before) = (1, 0);
        for length in lengths {
            if self.year_day <= before + length {
                break;
            }
            before += length;
            month += 1;
        }
        if date.month <= 1 {
            date.month = month;
        }
        if date.day <= 1 {
            date.day = self.year_day - before;
        }
        Ok(())
    }

    /// The zone's offset in seconds, the inner `None` without one; `None` if out of range.
    fn offset(&self) -> Option<Option<i32>> {
        if self.zone_sign == 0 {
            return Some(None);
        }
        let fits = (0..=15).contains(&self.zone_hour) && (0..60).contains(&self.zone_minute);
        let seconds = self.zone_sign * (self.zone_hour * 3600 + self.zone_minute * 60);
        fits.then(|| i32::try_from(seconds).ok()).flatten().map(Some)
    }
}

/// The Julian day number of 1970-01-01.
const UNIX_JULIAN: i64 = 2_440_588;

struct Date {
    /// The year 1 BC is 0.
    year: i64,
    month: i64,
    day: i64,
    /// Whether the text says all three.
    all: bool,
}

impl Date {
    fn set_julian(&mut self, julian: i64) {
        let (year, month, day) = calendar::civil_from_days(julian - UNIX_JULIAN);
        (self.year, self.month, self.day) = (year, month.into(), day.into());
    }

    /// Whether the fields that the text says are in their ranges. `has`: year, month, day.
    fn is_valid(&self, has: (bool, bool, bool)) -> bool {
        let month = !has.1 || (1..=12).contains(&self.month);
        let day = !has.2 || (1..=31).contains(&self.day);
        // Longer numbers are no years of any type.
        let year = self.year.abs() < 6_000_000;
        let fits = |month: u32| self.day <= calendar::days_in_month(self.year, month).into();
        let whole = !self.all || u32::try_from(self.month).is_ok_and(fits);
        month && day && year && whole
    }
}
