//! Numbers of any size, with the digits that they were written with.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{JsonError, Result};

/// Digits that PostgreSQL's `numeric` has before and behind the point at most.
const BEFORE_MAX: i64 = 131_072;
const BEHIND_MAX: i64 = 16_383;

/// A number: `0.digits * 10^exponent`, shown with `scale` digits behind the point.
///
/// Invariants: `digits` begins and ends with no zero, and is empty for zero alone, which is not
/// negative and has the exponent 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    pub(crate) is_negative: bool,
    /// Values from 0 to 9.
    pub(crate) digits: Vec<u8>,
    pub(crate) exponent: i32,
    pub(crate) scale: u16,
}

impl Number {
    /// The number of its text, by JSON's rules. Errors: 22003 for more digits than a `numeric` has.
    pub fn read(text: &str) -> Result<Number> {
        let overflows = || JsonError::new(b"22003", "value overflows numeric format");
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let power: i64 = match power.parse() {
            Ok(power) if (-1_000_000..=1_000_000).contains(&power) => power,
            _ => return Err(overflows()),
        };
        let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let scale = (places.len() as i64 - power).max(0);
        let mut digits: Vec<u8> =
            whole.bytes().chain(places.bytes()).map(|digit| digit - b'0').collect();
        let leading = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
        digits.drain(..leading);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let exponent = whole.len() as i64 - leading as i64 + power;
        if scale > BEHIND_MAX || (!digits.is_empty() && exponent > BEFORE_MAX) {
            return Err(overflows());
        }
        let scale = u16::try_from(scale).expect("checked");
        if digits.is_empty() {
            return Ok(Number { is_negative: false, digits, exponent: 0, scale });
        }
        Ok(Number { is_negative, digits, exponent: exponent as i32, scale })
    }

    /// The number as an index, if it is whole; the digits behind the point are cut.
    pub fn truncated(&self) -> Option<i64> {
        let mut value: i64 = 0;
        for at in 0..usize::try_from(self.exponent).unwrap_or(0) {
            let digit = self.digits.get(at).copied().unwrap_or(0);
            value = value.checked_mul(10)?.checked_add(i64::from(digit))?;
        }
        Some(if self.is_negative { -value } else { value })
    }

    /// The number with the other sign.
    pub(crate) fn negated(&self) -> Number {
        Number { is_negative: !self.is_negative && !self.digits.is_empty(), ..self.clone() }
    }

    /// The number times ten to `scale`, which is no less than its own; `None` if it has too many digits.
    pub(crate) fn scaled(&self, scale: u16) -> Option<i128> {
        let mut value: i128 = 0;
        for at in 0..usize::try_from(self.exponent + i32::from(scale)).unwrap_or(0) {
            let digit = self.digits.get(at).copied().unwrap_or(0);
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        }
        Some(if self.is_negative { -value } else { value })
    }

    /// The number `value` divided by ten to `scale`.
    pub(crate) fn of_scaled(value: i128, scale: u16) -> Result<Number> {
        let places = usize::from(scale);
        let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
        let (whole, behind) = digits.split_at(digits.len() - places);
        let sign = if value < 0 { "-" } else { "" };
        Number::read(&match places {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{behind}"),
        })
    }

    /// The next whole number below, or above. Errors: 22003 for more digits than 38.
    pub(crate) fn rounded(&self, below: bool) -> Result<Number> {
        let whole = self.scaled(0);
        let whole =
            whole.ok_or_else(|| JsonError::new(b"22003", "value overflows numeric format"))?;
        let is_whole = self.digits.len() as i64 <= i64::from(self.exponent);
        let step = match (is_whole, below, self.is_negative) {
            (false, true, true) => -1,
            (false, false, false) => 1,
            _ => 0,
        };
        Number::of_scaled(whole + step, 0)
    }
}

impl Ord for Number {
    /// By value; zeros at the end do not count.
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = |a: &Number, b: &Number| {
            a.digits
                .is_empty()
                .cmp(&b.digits.is_empty())
                .reverse()
                .then_with(|| a.exponent.cmp(&b.exponent).then_with(|| a.digits.cmp(&b.digits)))
        };
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => magnitude(self, other),
            (true, true) => magnitude(other, self),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |at: i64| {
            let at = usize::try_from(at).ok();
            char::from(b'0' + at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0))
        };
        let before = i64::from(self.exponent);
        let mut text = String::new();
        if self.is_negative {
            text.push('-');
        }
        match before {
            ..=0 => text.push('0'),
            _ => text.extend((0..before).map(digit)),
        }
        if self.scale > 0 {
            text.push('.');
            text.extend((before..before + i64::from(self.scale)).map(digit));
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("1.10", "1.10"),
            ("1e5", "100000"),
            ("1.5e3", "1500"),
            ("1.23456e2", "123.456"),
            ("1e-3", "0.001"),
            ("-12.050e-2", "-0.12050"),
            ("100", "100"),
            ("0.0012", "0.0012"),
            ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ] {
            let number = Number::read(text).expect(text);
            assert_eq!(number.to_string(), shown, "{text}");
        }
        assert!(Number::read("1e131072").is_err());
        assert!(Number::read("1e-16384").is_err());
        assert!(Number::read("1e9999999999999999999").is_err());
        assert_eq!(Number::read("-12.9").unwrap().truncated(), Some(-12));
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ordered =
            ["-1e9", "-10", "-9.9", "-0.1", "-0.01", "0", "0.001", "0.01", "1", "9", "10"];
        for pair in ordered.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| Number::read(text).unwrap());
            assert!(a < b, "{a} {b}");
        }
        let zeros = [Number::read("1.0").unwrap(), Number::read("1.00").unwrap()];
        assert_eq!(zeros[0].cmp(&zeros[1]), Ordering::Equal);
    }
}
