//! Moments and intervals written by a pattern.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::{Modifiers, Node, invalid, longest, nodes, ordinal};
use crate::calendar::{self, DAY_US, HOUR_US, MINUTE_US, SECOND_US, US_NS};
use crate::error::Result;
use crate::value::Interval;

/// The way in which a name is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Case {
    /// As `MONTH`.
    Upper,
    /// As `Month`.
    Title,
    /// As `month`.
    Lower,
}

/// A keyword of moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keyword {
    /// `AM` or `PM`; with points as `A.M.`
    Noon {
        points: bool,
        upper: bool,
    },
    /// `AD` or `BC`; with points as `A.D.`
    Era {
        points: bool,
        upper: bool,
    },
    Century,
    Day(Case),
    ShortDay(Case),
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    /// Fractions of a second of so many digits.
    Fraction(u8),
    /// `FX`
    Exact,
    Hour12,
    Hour24,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// The year of ISO weeks, with so many digits.
    IsoYear(u8),
    Julian,
    Minute,
    Month,
    MonthName(Case),
    ShortMonth(Case),
    Millisecond,
    Offset,
    Quarter,
    Roman {
        upper: bool,
    },
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone {
        upper: bool,
    },
    Microsecond,
    Week,
    WeekOfMonth,
    /// `Y,YYY`
    YearWithComma,
    /// The year, with so many digits.
    Year(u8),
}

use Keyword as K;

/// Keywords in the order in which they are looked for.
#[rustfmt::skip]
const KEYWORDS: &[(&str, Keyword)] = &[
    ("A.D.", K::Era { points: true, upper: true }), ("A.M.", K::Noon { points: true, upper: true }),
    ("AD", K::Era { points: false, upper: true }), ("AM", K::Noon { points: false, upper: true }),
    ("B.C.", K::Era { points: true, upper: true }), ("BC", K::Era { points: false, upper: true }),
    ("CC", K::Century), ("DAY", K::Day(Case::Upper)), ("DDD", K::DayOfYear), ("DD", K::DayOfMonth),
    ("DY", K::ShortDay(Case::Upper)), ("Day", K::Day(Case::Title)), ("Dy", K::ShortDay(Case::Title)),
    ("D", K::DayOfWeek), ("FF1", K::Fraction(1)), ("FF2", K::Fraction(2)), ("FF3", K::Fraction(3)),
    ("FF4", K::Fraction(4)), ("FF5", K::Fraction(5)), ("FF6", K::Fraction(6)), ("FX", K::Exact),
    ("HH24", K::Hour24), ("HH12", K::Hour12), ("HH", K::Hour12), ("IDDD", K::IsoDayOfYear),
    ("ID", K::IsoDayOfWeek), ("IW", K::IsoWeek), ("IYYY", K::IsoYear(4)), ("IYY", K::IsoYear(3)),
    ("IY", K::IsoYear(2)), ("I", K::IsoYear(1)), ("J", K::Julian), ("MI", K::Minute), ("MM", K::Month),
    ("MONTH", K::MonthName(Case::Upper)), ("MON", K::ShortMonth(Case::Upper)), ("MS", K::Millisecond),
    ("Month", K::MonthName(Case::Title)), ("Mon", K::ShortMonth(Case::Title)), ("OF", K::Offset),
    ("P.M.", K::Noon { points: true, upper: true }), ("PM", K::Noon { points: false, upper: true }),
    ("Q", K::Quarter), ("RM", K::Roman { upper: true }), ("SSSSS", K::SecondOfDay),
    ("SSSS", K::SecondOfDay), ("SS", K::Second), ("TZH", K::ZoneHour), ("TZM", K::ZoneMinute),
    ("TZ", K::Zone { upper: true }), ("US", K::Microsecond), ("WW", K::Week), ("W", K::WeekOfMonth),
    ("Y,YYY", K::YearWithComma), ("YYYY", K::Year(4)), ("YYY", K::Year(3)), ("YY", K::Year(2)),
    ("Y", K::Year(1)),
    ("a.d.", K::Era { points: true, upper: false }), ("a.m.", K::Noon { points: true, upper: false }),
    ("ad", K::Era { points: false, upper: false }), ("am", K::Noon { points: false, upper: false }),
    ("b.c.", K::Era { points: true, upper: false }), ("bc", K::Era { points: false, upper: false }),
    ("cc", K::Century), ("day", K::Day(Case::Lower)), ("ddd", K::DayOfYear), ("dd", K::DayOfMonth),
    ("dy", K::ShortDay(Case::Lower)), ("d", K::DayOfWeek), ("ff1", K::Fraction(1)),
    ("ff2", K::Fraction(2)), ("ff3", K::Fraction(3)), ("ff4", K::Fraction(4)), ("ff5", K::Fraction(5)),
    ("ff6", K::Fraction(6)), ("fx", K::Exact), ("hh24", K::Hour24), ("hh12", K::Hour12),
    ("hh", K::Hour12), ("iddd", K::IsoDayOfYear), ("id", K::IsoDayOfWeek), ("iw", K::IsoWeek),
    ("iyyy", K::IsoYear(4)), ("iyy", K::IsoYear(3)), ("iy", K::IsoYear(2)), ("i", K::IsoYear(1)),
    ("j", K::Julian), ("mi", K::Minute), ("mm", K::Month), ("month", K::MonthName(Case::Lower)),
    ("mon", K::ShortMonth(Case::Lower)), ("ms", K::Millisecond), ("of", K::Offset),
    ("p.m.", K::Noon { points: true, upper: false }), ("pm", K::Noon { points: false, upper: false }),
    ("q", K::Quarter), ("rm", K::Roman { upper: false }), ("sssss", K::SecondOfDay),
    ("ssss", K::SecondOfDay), ("ss", K::Second), ("tzh", K::ZoneHour), ("tzm", K::ZoneMinute),
    ("tz", K::Zone { upper: false }), ("us", K::Microsecond), ("ww", K::Week), ("w", K::WeekOfMonth),
    ("y,yyy", K::YearWithComma), ("yyyy", K::Year(4)), ("yyy", K::Year(3)), ("yy", K::Year(2)),
    ("y", K::Year(1)),
];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Months in Roman numerals, the last one first.
pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// The zone of a moment, as patterns show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShownZone<'a> {
    /// Abbreviation of the zone; empty without one.
    pub name: &'a str,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// The parts of a moment, or of an interval.
struct Parts<'a> {
    is_interval: bool,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    /// Day of the week from Sunday, 0; of the year from 1.
    week_day: i64,
    year_day: i64,
    zone: ShownZone<'a>,
}

pub(super) fn read(pattern: &str) -> Vec<Node<Keyword>> {
    nodes(pattern, true, |text| longest(KEYWORDS, text))
}

/// A keyword as errors show it: in the spelling that the table has first.
pub(super) fn spelling(keyword: Keyword) -> &'static str {
    KEYWORDS.iter().find(|(_, own)| *own == keyword).map_or("", |(word, _)| word)
}

/// Whether a pattern shows the zone.
pub fn shows_zone(pattern: &str) -> bool {
    read(pattern).iter().any(|node| {
        let Node::Keyword(keyword, _) = node else { return false };
        matches!(keyword, K::Offset | K::ZoneHour | K::ZoneMinute | K::Zone { .. })
    })
}

/// Writes a local time; false if the pattern is empty, for which PostgreSQL gives NULL.
pub fn write_timestamp(
    us: i64,
    zone: ShownZone<'_>,
    pattern: &str,
    out: &mut dyn Write,
) -> Result<bool> {
    let (day_number, time) = (calendar::day_of(us), calendar::time_of(us));
    let (year, month, day) = calendar::civil_from_days(day_number);
    let parts = Parts {
        is_interval: false,
        year,
        month: month.into(),
        day: day.into(),
        hour: time / HOUR_US,
        minute: time / MINUTE_US % 60,
        second: time / SECOND_US % 60,
        us: time % SECOND_US,
        week_day: (day_number + 4).rem_euclid(7),
        year_day: day_number - calendar::days_from_civil(year, 1, 1) + 1,
        zone,
    };
    write(&parts, pattern, out)
}

/// Writes an interval; false if the pattern is empty, for which PostgreSQL gives NULL.
pub fn write_interval(span: Interval, pattern: &str, out: &mut dyn Write) -> Result<bool> {
    let time = span.nanos / US_NS;
    let (year, month) = (i64::from(span.months / 12), i64::from(span.months % 12));
    let day = i64::from(span.days);
    let parts = Parts {
        is_interval: true,
        year,
        month,
        day,
        hour: time / HOUR_US,
        minute: time / MINUTE_US % 60,
        second: time / SECOND_US % 60,
        us: time % SECOND_US,
        week_day: 0,
        year_day: (year * 12 + month) * 30 + day,
        zone: ShownZone::default(),
    };
    write(&parts, pattern, out)
}

fn write(parts: &Parts<'_>, pattern: &str, out: &mut dyn Write) -> Result<bool> {
    if pattern.is_empty() {
        return Ok(false);
    }
    let mut text = String::new();
    for node in read(pattern) {
        match node {
            Node::Character { character, .. } => text.push(character),
            Node::Keyword(keyword, modifiers) => {
                if parts.is_interval && needs_date(keyword) {
                    let hint = "Intervals are not tied to specific calendar dates.";
                    let message = "invalid format specification for an interval value";
                    return Err(invalid(message, None, Some(hint)));
                }
                let from = text.len();
                let number = parts.write(keyword, modifiers, &mut text);
                if let (Some(upper), true) = (modifiers.ordinal, number) {
                    let ending = ordinal(&text[from..], upper);
                    text.push_str(ending);
                }
            }
        }
    }
    out.write_str(&text).expect("memory takes what is written");
    Ok(true)
}

/// Whether a keyword has no meaning for intervals.
fn needs_date(keyword: Keyword) -> bool {
    matches!(
        keyword,
        K::Zone { .. }
            | K::Offset
            | K::ZoneHour
            | K::ZoneMinute
            | K::Era { .. }
            | K::MonthName(_)
            | K::ShortMonth(_)
            | K::Day(_)
            | K::ShortDay(_)
            | K::DayOfWeek
            | K::IsoDayOfWeek
    )
}

/// Writes a number with leading zeros, which a sign makes no shorter.
fn padded(number: i64, width: usize, modifiers: Modifiers, out: &mut String) {
    let width = match (modifiers.fill, number < 0) {
        (true, _) => 0,
        (false, false) => width,
        (false, true) => width + 1,
    };
    write!(out, "{number:0width$}").expect("a string takes everything");
}

fn plain(number: i64, out: &mut String) {
    write!(out, "{number}").expect("a string takes everything");
}

/// Writes a name, filled up to `width` with blanks.
fn named(name: &str, case: Case, width: usize, modifiers: Modifiers, out: &mut String) {
    let name = match case {
        Case::Upper => name.to_ascii_uppercase(),
        Case::Title => name.into(),
        Case::Lower => name.to_ascii_lowercase(),
    };
    let width = if modifiers.fill || modifiers.translated { 0 } else { width };
    write!(out, "{name:<width$}").expect("a string takes everything");
}

/// A word with points between its letters, or in lower case.
fn worded(word: &str, points: bool, upper: bool) -> String {
    let mut text: String = match points {
        true => word.chars().flat_map(|letter| [letter, '.']).collect(),
        false => word.into(),
    };
    if !upper {
        text.make_ascii_lowercase();
    }
    text
}

impl Parts<'_> {
    /// Writes what a keyword stands for; true if that is a number.
    fn write(&self, keyword: Keyword, modifiers: Modifiers, out: &mut String) -> bool {
        let padded = |number, width, out| padded(number, width, modifiers, out);
        match keyword {
            K::Noon { points, upper } => {
                let word = if self.hour.rem_euclid(24) >= 12 { "PM" } else { "AM" };
                out.push_str(&worded(word, points, upper));
                return false;
            }
            K::Era { points, upper } => {
                let word = if self.year <= 0 { "BC" } else { "AD" };
                out.push_str(&worded(word, points, upper));
                return false;
            }
            K::MonthName(_) | K::ShortMonth(_) | K::Day(_) | K::ShortDay(_) | K::Roman { .. } => {
                self.write_name(keyword, modifiers, out);
                return false;
            }
            K::Zone { .. } | K::Offset | K::ZoneHour | K::ZoneMinute => {
                self.write_zone(keyword, modifiers, out);
                return false;
            }
            K::Exact => return false,
            K::Hour12 => {
                let hour = self.hour % 12;
                // The width goes by the sign of all hours.
                let width = if self.hour < 0 && hour >= 0 { 3 } else { 2 };
                padded(if hour == 0 { 12 } else { hour }, width, out);
            }
            K::Hour24 => padded(self.hour, 2, out),
            K::Minute => padded(self.minute, 2, out),
            K::Second => padded(self.second, 2, out),
            K::SecondOfDay => plain(self.hour * 3600 + self.minute * 60 + self.second, out),
            K::Fraction(_) | K::Millisecond | K::Microsecond => {
                let digits = match keyword {
                    K::Fraction(digits) => u32::from(digits),
                    K::Millisecond => 3,
                    _ => 6,
                };
                let width = digits as usize;
                let shown = self.us / 10_i64.pow(6 - digits);
                write!(out, "{shown:0width$}").expect("a string takes everything");
            }
            K::Month => padded(self.month, 2, out),
            K::DayOfYear => padded(self.year_day, 3, out),
            K::IsoDayOfYear => padded(self.iso().2, 3, out),
            K::DayOfMonth => padded(self.day, 2, out),
            K::DayOfWeek => plain(self.week_day + 1, out),
            K::IsoDayOfWeek => plain(if self.week_day == 0 { 7 } else { self.week_day }, out),
            K::Week => padded((self.year_day - 1) / 7 + 1, 2, out),
            K::IsoWeek => padded(self.iso().1, 2, out),
            K::Quarter if self.month == 0 => return false,
            K::Quarter => plain((self.month - 1) / 3 + 1, out),
            K::WeekOfMonth => plain((self.day - 1) / 7 + 1, out),
            K::Julian => plain(julian(self.year, self.month, self.day), out),
            K::Century => self.write_century(modifiers, out),
            K::YearWithComma => {
                let year = self.counted(self.year);
                let thousands = year / 1000;
                out.push_str(&format!("{thousands},{:03}", year - thousands * 1000));
            }
            K::Year(digits) => self.write_year(self.counted(self.year), digits, modifiers, out),
            K::IsoYear(digits) => {
                self.write_year(self.counted(self.iso().0), digits, modifiers, out);
            }
        }
        true
    }

    /// A year as eras count; of an interval, the number of years.
    fn counted(&self, year: i64) -> i64 {
        if !self.is_interval && year <= 0 { 1 - year } else { year }
    }

    fn write_year(&self, year: i64, digits: u8, modifiers: Modifiers, out: &mut String) {
        match digits {
            4 => padded(year, 4, modifiers, out),
            1 => plain(year % 10, out),
            digits => {
                let width = usize::from(digits);
                let shown = year % 10_i64.pow(digits.into());
                padded(shown, width, modifiers, out);
            }
        }
    }

    fn write_century(&self, modifiers: Modifiers, out: &mut String) {
        let century = match (self.is_interval, self.year) {
            (true, year) => year / 100,
            (false, year @ 1..) => (year - 1) / 100 + 1,
            (false, year) => year / 100 - 1,
        };
        match century {
            -99..=99 => padded(century, 2, modifiers, out),
            _ => plain(century, out),
        }
    }

    fn write_name(&self, keyword: Keyword, modifiers: Modifiers, out: &mut String) {
        let month = usize::try_from(self.month - 1).ok().and_then(|at| MONTHS.get(at));
        let day = DAYS[self.week_day as usize];
        match keyword {
            K::MonthName(case) => named(month.unwrap_or(&""), case, 9, modifiers, out),
            K::ShortMonth(case) => {
                named(month.map_or("", |name| &name[..3]), case, 0, modifiers, out);
            }
            K::Day(case) => named(day, case, 9, modifiers, out),
            K::ShortDay(case) => named(&day[..3], case, 0, modifiers, out),
            K::Roman { upper } if self.month != 0 || self.year != 0 => {
                // Months of an interval may be none, or fewer.
                let at = match self.month {
                    0 if self.year >= 0 => 0,
                    0 => 11,
                    month @ ..0 => -month - 1,
                    month => 12 - month,
                };
                let case = if upper { Case::Upper } else { Case::Lower };
                named(ROMAN_MONTHS[at as usize], case, 4, modifiers, out);
            }
            _ => {}
        }
    }

    fn write_zone(&self, keyword: Keyword, modifiers: Modifiers, out: &mut String) {
        let offset = self.zone.offset;
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        match keyword {
            K::Zone { upper: true } => out.push_str(self.zone.name),
            K::Zone { upper: false } => out.push_str(&self.zone.name.to_lowercase()),
            K::ZoneHour => out.push_str(&format!("{sign}{hours:02}")),
            K::ZoneMinute => out.push_str(&format!("{minutes:02}")),
            _ => {
                let width = if modifiers.fill { 0 } else { 2 };
                out.push_str(&format!("{sign}{hours:0width$}"));
                if minutes != 0 {
                    out.push_str(&format!(":{minutes:02}"));
                }
            }
        }
    }

    /// Year, week and day of the year by ISO weeks.
    fn iso(&self) -> (i64, i64, i64) {
        let day = julian(self.year, self.month, self.day);
        let first = |year| iso_week_start(year, 1);
        let year = match () {
            () if day < first(self.year) => self.year - 1,
            () if day >= first(self.year + 1) => self.year + 1,
            () => self.year,
        };
        let from = day - first(year);
        (year, from / 7 + 1, from + 1)
    }
}

/// The Julian day number of a date, as PostgreSQL computes the number for any month and day.
pub(super) fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (month, year) =
        if month > 2 { (month + 1, year + 4800) } else { (month + 13, year + 4799) };
    let century = year / 100;
    let from_years = year * 365 - 32_167 + year / 4 - century + century / 4;
    from_years + 7834 * month / 256 + day
}

/// The Julian day number of the Monday of an ISO week.
pub(super) fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = julian(year, 1, 4);
    // Monday is the first day of a week.
    let from_monday = fourth.rem_euclid(7);
    (week - 1) * 7 + fourth - from_monday
}

/// Microseconds of a local day, checked.
pub(super) fn at(day_number: i64, time_us: i64) -> Option<i64> {
    day_number.checked_mul(DAY_US)?.checked_add(time_us)
}
