//! Values of settings as users write them: numbers with units.

use std::time::Duration;

/// The longest time that a setting takes.
const TIME_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);
/// The most bytes that a setting takes.
const BYTES_MAX: f64 = (1_u64 << 60) as f64;

/// Use of the processor's caches (P4 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheClass {
    /// Reads much once: gets little of the cache.
    Polluting,
    /// Decided per operator.
    #[default]
    Auto,
    /// Lives on the cache.
    Sensitive,
}

impl CacheClass {
    pub(crate) fn parse(text: &str) -> Option<CacheClass> {
        match text.trim().to_ascii_uppercase().as_str() {
            "POLLUTING" => Some(CacheClass::Polluting),
            "SENSITIVE" => Some(CacheClass::Sensitive),
            "AUTO" => Some(CacheClass::Auto),
            _ => None,
        }
    }

    /// The value in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            CacheClass::Polluting => "POLLUTING",
            CacheClass::Auto => "AUTO",
            CacheClass::Sensitive => "SENSITIVE",
        }
    }
}

/// A number or a share of what the machine has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    Count(u64),
    /// Percent, 0 to 100.
    Percent(f64),
}

impl Amount {
    /// The number that the amount is if there are `all`; a share of something is at least 1.
    pub(crate) fn of(self, all: u64) -> u64 {
        match self {
            Amount::Count(count) => count,
            Amount::Percent(percent) if percent <= 0.0 => 0,
            // Exact below 2^53, which is 8 PiB of memory.
            Amount::Percent(percent) => ((all as f64 * percent / 100.0) as u64).max(1),
        }
    }
}

/// The number that `text` begins with, and the unit behind the number in lower case. Signs and exponents are none.
fn number(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let begins_well = digits.starts_with(|c: char| c.is_ascii_digit());
    if !begins_well || digits.ends_with('.') || digits.len() > 30 {
        return None;
    }
    let number = digits.parse().ok()?;
    Some((number, unit.trim_start().to_lowercase()))
}

/// A whole number without a unit.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().ok() } else { None }
}

/// A time; a number without a unit counts `unit`, which is one of those below.
pub(crate) fn time(text: &str, unit: &str) -> Option<Duration> {
    let (number, suffix) = number(text)?;
    let seconds = match if suffix.is_empty() { unit } else { &suffix } {
        "us" | "µs" | "μs" => number / 1e6,
        "ms" => number / 1e3,
        "s" | "sec" => number,
        "min" => number * 60.0,
        "h" => number * 3_600.0,
        "d" => number * 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= TIME_MAX)
}

/// A number of bytes; without a unit, of gigabytes.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, suffix) = number(text)?;
    let bits = match suffix.as_str() {
        "b" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" | "" => 30,
        "tb" => 40,
        _ => return None,
    };
    let bytes = number * (1_u64 << bits) as f64;
    (bytes <= BYTES_MAX).then_some(bytes as u64)
}

/// A share in percent, 0 to 100, with `%` behind the number.
pub(crate) fn percent(text: &str) -> Option<f64> {
    let (number, suffix) = number(text)?;
    (suffix == "%" && number <= 100.0).then_some(number)
}

/// A share in per mille, 0 to 1,000: of a number without a unit, or of one in percent.
pub(crate) fn per_mille(text: &str) -> Option<u32> {
    let whole = whole(text).filter(|number| *number <= 1_000);
    let rounded = || percent(text).map(|percent| (percent * 10.0).round() as u32);
    whole.and_then(|number| u32::try_from(number).ok()).or_else(rounded)
}

/// A threshold in percent, 0 to 100, with or without `%`.
pub(crate) fn threshold(text: &str) -> Option<u8> {
    let text = text.trim();
    let number = whole(text.strip_suffix('%').unwrap_or(text))?;
    u8::try_from(number).ok().filter(|number| *number <= 100)
}

/// Bytes, or a share of all memory.
pub(crate) fn memory(text: &str) -> Option<Amount> {
    bytes(text).map(Amount::Count).or_else(|| percent(text).map(Amount::Percent))
}

/// A number of threads, or a share of all.
pub(crate) fn threads(text: &str) -> Option<Amount> {
    let count = whole(text).filter(|count| *count <= u64::from(u32::MAX));
    count.map(Amount::Count).or_else(|| percent(text).map(Amount::Percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_have_units_or_that_of_the_setting() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(time("2", "s"), ms(2_000));
        assert_eq!(time("2", "min"), ms(120_000));
        assert_eq!(time(" 50 ms ", "s"), ms(50));
        assert_eq!(time("1.5S", "min"), ms(1_500));
        assert_eq!(time("10min", "s"), ms(600_000));
        assert_eq!(time("250us", "s"), Some(Duration::from_micros(250)));
        for wrong in [
            "",
            "s",
            "-1",
            "1e3",
            "1 2",
            "5 parsecs",
            "1.",
            ".5",
            "1.2.3",
            "99999999d",
            "NaN",
            "inf",
        ] {
            assert_eq!(time(wrong, "s"), None, "{wrong:?}");
        }
    }

    #[test]
    fn memory_is_gigabytes_a_unit_or_a_share() {
        assert_eq!(memory("5"), Some(Amount::Count(5 << 30)));
        assert_eq!(memory("0.5"), Some(Amount::Count(1 << 29)));
        assert_eq!(memory("2GB"), Some(Amount::Count(2 << 30)));
        assert_eq!(memory("64 kB"), Some(Amount::Count(64 << 10)));
        assert_eq!(memory("75%"), Some(Amount::Percent(75.0)));
        assert_eq!(memory("101%"), None);
        assert_eq!(memory("2XB"), None);
        assert_eq!(memory("99999999999999999999TB"), None);
    }

    #[test]
    fn shares_of_something_are_at_least_one() {
        assert_eq!(threads("75%").map(|amount| amount.of(16)), Some(12));
        assert_eq!(threads("1%").map(|amount| amount.of(2)), Some(1));
        assert_eq!(threads("0%").map(|amount| amount.of(2)), Some(0));
        assert_eq!(threads("3").map(|amount| amount.of(2)), Some(3));
        assert_eq!(threads("2.5"), None);
        assert_eq!(
            (per_mille("20"), per_mille("2%"), per_mille("1001")),
            (Some(20), Some(20), None)
        );
        assert_eq!(
            (threshold("90"), threshold("90%"), threshold("101")),
            (Some(90), Some(90), None)
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,40}") {
            let time = time(&text, "s");
            prop_assert!(time.is_none_or(|time| time <= TIME_MAX));
            prop_assert!(percent(&text).is_none_or(|percent| (0.0..=100.0).contains(&percent)));
            prop_assert!(threshold(&text).is_none_or(|percent| percent <= 100));
            prop_assert!(per_mille(&text).is_none_or(|share| share <= 1_000));
            prop_assert!(bytes(&text).is_none_or(|bytes| bytes <= 1 << 60));
            let _ = (whole(&text), memory(&text), threads(&text));
        }

        #[test]
        fn texts_that_look_like_values_do_not_either(text in "[0-9]{0,32}[.]?[0-9]{0,5} ?(ms|GB|%|min|µs|)?") {
            let _ = (time(&text, "min"), memory(&text), threads(&text), per_mille(&text), threshold(&text));
        }
    }
}
