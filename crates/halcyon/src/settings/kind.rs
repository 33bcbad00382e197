//! Kinds of settings: the texts that each accepts, and the form in which it shows its values.
//!
//! A value is kept as its canonical text, which is also what SHOW prints: durations and sizes in the
//! largest unit that divides them (`5min`, `64MB`), as PostgreSQL prints them.
//!
//! Invariant, checked by `a_canonical_text_is_its_own`: [`SettingKind::parse`] of a canonical text
//! gives that text, so [`SettingKind::apply`] may read it again.

use std::ops::RangeInclusive;
use std::time::Duration;

use halcyon_sql::error::{Result, SqlError, SqlState};

/// The kind of a setting: its accepted values, its default, and the effect of a new value on a `T`.
pub(crate) enum SettingKind<T: 'static> {
    /// `on` or `off`, and the other words that PostgreSQL takes for them.
    Bool {
        default: bool,
        apply: fn(&mut T, bool),
    },
    Number {
        default: i64,
        bounds: RangeInclusive<i64>,
        apply: fn(&mut T, i64),
    },
    Time {
        default: Duration,
        /// Unit of a bare number.
        unit: Unit,
        bounds: Bounds,
        apply: fn(&mut T, Duration),
    },
    Size {
        /// The default, in bytes.
        default: u64,
        /// Unit of a bare number.
        unit: Unit,
        bounds: Bounds,
        apply: fn(&mut T, u64),
    },
    /// One of a few words, each with the word by which it is shown.
    Word {
        default: &'static str,
        spellings: &'static [(&'static str, &'static str)],
        apply: fn(&mut T, &str),
    },
    Text {
        default: &'static str,
        /// Returns the canonical text. Errors say why the text is refused.
        check: fn(&str) -> Result<String>,
        apply: fn(&mut T, &str),
    },
}

/// A unit, in terms of the smallest one of its dimension (microseconds, bytes).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub name: &'static str,
    pub size: u64,
}

pub(crate) const MILLISECOND: Unit = Unit { name: "ms", size: 1_000 };
pub(crate) const SECOND: Unit = Unit { name: "s", size: 1_000_000 };
pub(crate) const KILOBYTE: Unit = Unit { name: "kB", size: 1 << 10 };
pub(crate) const MEGABYTE: Unit = Unit { name: "MB", size: 1 << 20 };

/// Units of time, the largest first.
const TIMES: [Unit; 6] = [
    Unit { name: "d", size: 86_400_000_000 },
    Unit { name: "h", size: 3_600_000_000 },
    Unit { name: "min", size: 60_000_000 },
    SECOND,
    MILLISECOND,
    Unit { name: "us", size: 1 },
];

/// Units of size, the largest first.
const SIZES: [Unit; 5] = [
    Unit { name: "TB", size: 1 << 40 },
    Unit { name: "GB", size: 1 << 30 },
    MEGABYTE,
    KILOBYTE,
    Unit { name: "B", size: 1 },
];

/// Least and greatest quantity, in the smallest unit of its dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub least: u64,
    pub most: u64,
    /// The meaning of 0, if 0 is allowed although `least` is larger.
    pub zero: Option<&'static str>,
}

impl Bounds {
    fn hold(&self, quantity: u64) -> bool {
        (self.least..=self.most).contains(&quantity) || (quantity == 0 && self.zero.is_some())
    }

    fn told(&self, units: &[Unit]) -> String {
        let within =
            format!("{} at least, {} at most", show(self.least, units), show(self.most, units));
        match self.zero {
            Some(meaning) => format!("It is 0 for {meaning}, or {within}."),
            None => format!("It is {within}."),
        }
    }
}

/// The spellings of `on` and `off` that PostgreSQL accepts.
pub(crate) const SWITCH: &[(&str, &str)] = &[
    ("on", "on"),
    ("true", "on"),
    ("yes", "on"),
    ("1", "on"),
    ("t", "on"),
    ("y", "on"),
    ("off", "off"),
    ("false", "off"),
    ("no", "off"),
    ("0", "off"),
    ("f", "off"),
    ("n", "off"),
];

impl<T> SettingKind<T> {
    /// The canonical text of the default.
    pub fn default(&self) -> String {
        match self {
            SettingKind::Bool { default, .. } => switch(*default).to_owned(),
            SettingKind::Number { default, .. } => default.to_string(),
            SettingKind::Time { default, .. } => show(micros(*default), &TIMES),
            SettingKind::Size { default, .. } => show(*default, &SIZES),
            SettingKind::Word { default, .. } | SettingKind::Text { default, .. } => {
                (*default).to_owned()
            }
        }
    }

    /// The canonical text of `text`, a value for the setting `name`.
    ///
    /// Errors: 22023 for a value that is not accepted, with the bounds as the hint; those of `check`.
    pub fn parse(&self, name: &str, text: &str) -> Result<String> {
        let refused = || {
            let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        match self {
            SettingKind::Bool { .. } => {
                word(text, SWITCH).map(str::to_owned).ok_or_else(|| refused().hint("on or off."))
            }
            SettingKind::Number { bounds, .. } => {
                let number = text.trim().parse::<i64>().ok().filter(|n| bounds.contains(n));
                let (least, most) = (bounds.start(), bounds.end());
                let hint = || format!("It is {least} at least, {most} at most.");
                number.map(|n| n.to_string()).ok_or_else(|| refused().hint(hint()))
            }
            SettingKind::Time { unit, bounds, .. } => quantity(text, *unit, &TIMES)
                .filter(|micros| bounds.hold(*micros))
                .map(|micros| show(micros, &TIMES))
                .ok_or_else(|| refused().hint(bounds.told(&TIMES))),
            SettingKind::Size { unit, bounds, .. } => quantity(text, *unit, &SIZES)
                .filter(|bytes| bounds.hold(*bytes))
                .map(|bytes| show(bytes, &SIZES))
                .ok_or_else(|| refused().hint(bounds.told(&SIZES))),
            SettingKind::Word { spellings, .. } => {
                let hint = || format!("Available values: {}.", self.words().join(", "));
                word(text, spellings).map(str::to_owned).ok_or_else(|| refused().hint(hint()))
            }
            SettingKind::Text { check, .. } => check(text),
        }
    }

    /// Puts the value of a canonical text into force in `target`.
    pub fn apply(&self, target: &mut T, text: &str) {
        const CANONICAL: &str = "the text came from `parse`";
        match self {
            SettingKind::Bool { apply, .. } => apply(target, text == "on"),
            SettingKind::Number { apply, .. } => apply(target, text.parse().expect(CANONICAL)),
            SettingKind::Time { apply, .. } => apply(target, self.duration(text).expect(CANONICAL)),
            SettingKind::Size { unit, apply, .. } => {
                apply(target, quantity(text, *unit, &SIZES).expect(CANONICAL));
            }
            SettingKind::Word { apply, .. } | SettingKind::Text { apply, .. } => {
                apply(target, text)
            }
        }
    }

    /// The duration that a canonical text stands for, if the kind is a time.
    pub fn duration(&self, text: &str) -> Option<Duration> {
        let SettingKind::Time { unit, .. } = self else { return None };
        quantity(text, *unit, &TIMES).map(Duration::from_micros)
    }

    /// A canonical text as `pg_settings.setting` has it: a quantity as a number of the setting's
    /// unit, or with a unit of its own if it is no whole number of those.
    pub fn in_units(&self, text: &str) -> String {
        let (unit, units) = match self {
            SettingKind::Time { unit, .. } => (unit, &TIMES[..]),
            SettingKind::Size { unit, .. } => (unit, &SIZES[..]),
            _ => return text.to_owned(),
        };
        match quantity(text, *unit, units) {
            Some(quantity) if quantity.is_multiple_of(unit.size) => {
                (quantity / unit.size).to_string()
            }
            _ => text.to_owned(),
        }
    }

    /// The value of `pg_settings.vartype`.
    pub fn type_name(&self) -> &'static str {
        match self {
            SettingKind::Bool { .. } => "bool",
            SettingKind::Number { .. } | SettingKind::Time { .. } | SettingKind::Size { .. } => {
                "integer"
            }
            SettingKind::Word { .. } => "enum",
            SettingKind::Text { .. } => "string",
        }
    }

    /// Unit of a bare number.
    pub fn unit(&self) -> Option<&'static str> {
        match self {
            SettingKind::Time { unit, .. } | SettingKind::Size { unit, .. } => Some(unit.name),
            _ => None,
        }
    }

    /// Least and greatest value, as `pg_settings` has them.
    pub fn bounds(&self) -> Option<(String, String)> {
        let of = |bounds: &Bounds, units: &[Unit]| {
            let least = if bounds.zero.is_some() { 0 } else { bounds.least };
            let text = |quantity| self.in_units(&show(quantity, units));
            Some((text(least), text(bounds.most)))
        };
        match self {
            SettingKind::Number { bounds, .. } => {
                Some((bounds.start().to_string(), bounds.end().to_string()))
            }
            SettingKind::Time { bounds, .. } => of(bounds, &TIMES),
            SettingKind::Size { bounds, .. } => of(bounds, &SIZES),
            SettingKind::Bool { .. } | SettingKind::Word { .. } | SettingKind::Text { .. } => None,
        }
    }

    /// The values of an enumeration, each once.
    pub fn words(&self) -> Vec<&'static str> {
        let SettingKind::Word { spellings, .. } = self else { return Vec::new() };
        let mut words: Vec<&str> = Vec::new();
        for (_, shown) in *spellings {
            if !words.contains(shown) {
                words.push(shown);
            }
        }
        words
    }
}

pub(crate) fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn word(text: &str, spellings: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let found = spellings.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(text.trim()));
    found.map(|(_, shown)| *shown)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Reads `10 min`: a number and a unit of `units`, or of `bare` if there is none.
fn quantity(text: &str, bare: Unit, units: &[Unit]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, name) = (&text[..end], text[end..].trim());
    let unit = match name {
        "" => bare,
        // A common spelling of sizes.
        "KB" => *units.iter().find(|unit| unit.name == "kB")?,
        name => *units.iter().find(|unit| unit.name == name)?,
    };
    if let Ok(number) = number.parse::<u64>() {
        return number.checked_mul(unit.size);
    }
    let exact = number.parse::<f64>().ok()? * unit.size as f64;
    // Beyond 2^53 a float no longer has the whole number that was written.
    (exact < 9e15).then(|| exact.round() as u64)
}

/// A quantity in the largest unit that divides it.
fn show(quantity: u64, units: &[Unit]) -> String {
    let fitting = units.iter().find(|unit| quantity.is_multiple_of(unit.size));
    match (quantity, fitting) {
        (0, _) | (_, None) => quantity.to_string(),
        (_, Some(unit)) => format!("{}{}", quantity / unit.size, unit.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time() -> SettingKind<Duration> {
        let bounds = Bounds { least: 1, most: 86_400_000_000, zero: Some("none") };
        let apply = |target: &mut Duration, value| *target = value;
        SettingKind::Time { default: Duration::ZERO, unit: MILLISECOND, bounds, apply }
    }

    fn size() -> SettingKind<u64> {
        let bounds = Bounds { least: 1 << 10, most: 1 << 50, zero: None };
        SettingKind::Size {
            default: 1 << 30,
            unit: KILOBYTE,
            bounds,
            apply: |target, value| *target = value,
        }
    }

    #[test]
    fn quantities_are_shown_as_postgresql_does() {
        for (text, shown, number) in [
            ("250", "250ms", "250"),
            ("2 min", "2min", "120000"),
            ("90s", "90s", "90000"),
            ("1.5s", "1500ms", "1500"),
            ("100us", "100us", "100us"),
            ("24h", "1d", "86400000"),
            ("0", "0", "0"),
        ] {
            let parsed = time().parse("t", text).expect(text);
            assert_eq!((parsed.as_str(), time().in_units(&parsed).as_str()), (shown, number));
            let mut applied = Duration::MAX;
            time().apply(&mut applied, &parsed);
            assert_eq!(show(micros(applied), &TIMES), shown);
        }
        for (text, shown) in
            [("65536", "64MB"), ("1 GB", "1GB"), ("400000B", "400000B"), ("4KB", "4kB")]
        {
            assert_eq!(size().parse("s", text).expect(text), shown);
        }
        assert_eq!((time().default().as_str(), size().default().as_str()), ("0", "1GB"));
        assert_eq!(time().bounds(), Some(("0".into(), "86400000".into())));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_the_bounds() {
        let refused = time().parse("t", "2d").expect_err("more than a day");
        assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE);
        let hint = refused.fields().hint.clone().expect("the bounds");
        assert_eq!(hint, "It is 0 for none, or 1us at least, 1d at most.");
        for text in ["", "soon", "1 parsec", "-1", "1e3", "99999999999999999999d"] {
            time().parse("t", text).expect_err(text);
        }
        size().parse("s", "0").expect_err("0 means nothing here");
    }
}
