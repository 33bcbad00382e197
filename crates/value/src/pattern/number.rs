//! Numbers written and read by a pattern.
//!
//! The steps are those of PostgreSQL's `NUM_processor`, names included where they have no better one:
//! a number is digits with at most one point, and the pattern is gone through once.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use super::{Node, longest, nodes, ordinal, worded};
use crate::decimal;
use crate::error::{Result, ValueError};
use crate::float;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keyword {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Currency,
    /// `D`
    LocalePoint,
    Exponent,
    Fill,
    /// `G`
    Group,
    Minus,
    Plus,
    Brackets,
    Roman {
        upper: bool,
    },
    /// `SG`
    PlainSign,
    Space,
    /// `S`
    Sign,
    Ordinal {
        upper: bool,
    },
    /// `V`
    Shift,
}

use Keyword as K;

/// Keywords in the order in which they are looked for.
#[rustfmt::skip]
const KEYWORDS: &[(&str, Keyword)] = &[
    (",", K::Comma), (".", K::Point), ("0", K::Zero), ("9", K::Nine), ("B", K::Blank),
    ("C", K::Space), ("D", K::LocalePoint), ("EEEE", K::Exponent), ("FM", K::Fill), ("G", K::Group),
    ("L", K::Currency), ("MI", K::Minus), ("PL", K::Plus), ("PR", K::Brackets),
    ("RN", K::Roman { upper: true }), ("SG", K::PlainSign), ("SP", K::Space), ("S", K::Sign),
    ("TH", K::Ordinal { upper: true }), ("V", K::Shift), ("b", K::Blank), ("c", K::Space),
    ("d", K::LocalePoint), ("eeee", K::Exponent), ("fm", K::Fill), ("g", K::Group),
    ("l", K::Currency), ("mi", K::Minus), ("pl", K::Plus), ("pr", K::Brackets),
    ("rn", K::Roman { upper: false }), ("sg", K::PlainSign), ("sp", K::Space), ("s", K::Sign),
    ("th", K::Ordinal { upper: false }), ("v", K::Shift),
];

/// Where the sign of `S` stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SignPlace {
    Before,
    After,
}

/// What a pattern says as a whole.
#[derive(Clone, Debug, Default)]
struct Plan {
    nodes: Vec<Node<Keyword>>,
    /// Digits before and after the point, and digits that `V` adds.
    before: usize,
    after: usize,
    shifted: usize,
    sign: Option<SignPlace>,
    /// Digits before the leading `S`.
    before_sign: usize,
    /// Places of the first and the last `0`.
    zero_start: usize,
    zero_end: usize,
    point: bool,
    fill: bool,
    zero: bool,
    blank: bool,
    minus: bool,
    plus: bool,
    brackets: bool,
    roman: bool,
    shift: bool,
    exponent: bool,
}

fn syntax(message: &str) -> ValueError {
    ValueError::Worded(worded(*b"42601", message))
}

impl Plan {
    fn of(pattern: &str) -> Result<Plan> {
        let nodes = nodes(pattern, false, |text| longest(KEYWORDS, text));
        let mut plan = Plan::default();
        for node in &nodes {
            if let Node::Keyword(keyword, _) = node {
                plan.note(*keyword)?;
            }
        }
        plan.nodes = nodes;
        Ok(plan)
    }

    fn note(&mut self, keyword: Keyword) -> Result<()> {
        if self.exponent && keyword != K::Exponent {
            return Err(syntax("\"EEEE\" must be the last pattern used"));
        }
        match keyword {
            K::Nine if self.brackets => Err(syntax("\"9\" must be ahead of \"PR\"")),
            K::Zero if self.brackets => Err(syntax("\"0\" must be ahead of \"PR\"")),
            K::Nine => {
                match (self.shift, self.point) {
                    (true, _) => self.shifted += 1,
                    (_, true) => self.after += 1,
                    _ => self.before += 1,
                }
                Ok(())
            }
            K::Zero => {
                if !self.zero && !self.point {
                    self.zero = true;
                    self.zero_start = self.before + 1;
                }
                *(if self.point { &mut self.after } else { &mut self.before }) += 1;
                self.zero_end = self.before + self.after;
                Ok(())
            }
            K::Blank => {
                self.blank |= self.before == 0 && self.after == 0 && !self.zero;
                Ok(())
            }
            K::Point | K::LocalePoint => {
                if self.point {
                    return Err(syntax("multiple decimal points"));
                }
                if self.shift {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.point = true;
                Ok(())
            }
            K::Fill => {
                self.fill = true;
                Ok(())
            }
            K::Roman { .. } => {
                self.roman = true;
                Ok(())
            }
            K::Shift if self.point => Err(syntax("cannot use \"V\" and decimal point together")),
            K::Shift => {
                self.shift = true;
                Ok(())
            }
            K::Exponent => self.note_exponent(),
            K::Sign | K::Minus | K::Plus | K::PlainSign | K::Brackets => self.note_sign(keyword),
            _ => Ok(()),
        }
    }

    fn note_exponent(&mut self) -> Result<()> {
        if self.exponent {
            return Err(syntax("cannot use \"EEEE\" twice"));
        }
        let others = [self.blank, self.fill, self.sign.is_some(), self.brackets, self.minus];
        if others.contains(&true) || self.plus || self.roman || self.shift {
            let mut error = worded(*b"42601", "\"EEEE\" is incompatible with other formats");
            let detail =
                "\"EEEE\" may only be used together with digit and decimal point patterns.";
            error.detail = Some(detail.to_string());
            return Err(ValueError::Worded(error));
        }
        self.exponent = true;
        Ok(())
    }

    fn note_sign(&mut self, keyword: Keyword) -> Result<()> {
        let own = match keyword {
            K::Minus => "MI",
            K::Plus => "PL",
            _ => "SG",
        };
        match keyword {
            K::Sign if self.sign.is_some() => return Err(syntax("cannot use \"S\" twice")),
            K::Sign if self.plus || self.minus || self.brackets => {
                let message = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
                return Err(syntax(message));
            }
            K::Sign if !self.point => {
                self.sign = Some(SignPlace::Before);
                self.before_sign = self.before;
            }
            K::Sign => self.sign = Some(SignPlace::After),
            K::Brackets if self.sign.is_some() || self.plus || self.minus => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                return Err(syntax(message));
            }
            K::Brackets => self.brackets = true,
            _ if self.sign.is_some() => {
                return Err(syntax(&format!("cannot use \"S\" and \"{own}\" together")));
            }
            _ => {
                self.minus |= keyword != K::Plus;
                self.plus |= keyword != K::Minus;
            }
        }
        Ok(())
    }
}

/// Digits behind the point that a number read by the pattern may have; none for patterns that are
/// wrong.
pub fn places(pattern: &str) -> i8 {
    Plan::of(pattern).map_or(0, |plan| (plan.after + plan.shifted).min(30) as i8)
}

/// Writes a decimal.
pub fn write_decimal(value: i128, scale: i8, pattern: &str, out: &mut dyn Write) -> Result<()> {
    let mut plan = Plan::of(pattern)?;
    if plan.roman {
        let whole = decimal::rescale(value, scale, 0).ok_or(ValueError::OutOfRange("integer"))?;
        return written(&plan, &roman(i64::try_from(whole).unwrap_or(0)), 0, '+', out);
    }
    if plan.exponent {
        return exponential(&scientific(value, scale, plan.after), out);
    }
    let shifted = i8::try_from(plan.shifted).unwrap_or(i8::MAX);
    plan.before += plan.shifted;
    let places = i8::try_from(plan.after).unwrap_or(i8::MAX).min(37);
    let far = || ValueError::OutOfRange("numeric");
    let rounded = decimal::rescale(value, scale.saturating_sub(shifted), places).ok_or_else(far)?;
    let mut digits = String::new();
    decimal::write(rounded, places, &mut digits);
    finish(&plan, &digits, out)
}

/// Writes a floating-point number, of which so many digits mean something.
pub fn write_float(
    value: f64,
    significant: usize,
    pattern: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let mut plan = Plan::of(pattern)?;
    if plan.roman {
        let whole = float::to_integer(float::round_even(value), 0, 9999).unwrap_or(0);
        return written(&plan, &roman(whole), 0, '+', out);
    }
    if plan.exponent {
        if !value.is_finite() {
            let mut marks = "#".repeat(plan.before + plan.after + 6);
            marks.replace_range(..1, " ");
            marks.replace_range(plan.before + 1..plan.before + 2, ".");
            return exponential_text(&marks, out);
        }
        let text = c_exponent(&format!("{value:.*e}", plan.after));
        return exponential(&text, out);
    }
    let factor: f64 = (0..plan.shifted).fold(1.0, |factor, _| factor * 10.0);
    let value = value * factor;
    plan.before += plan.shifted;
    let shown = |digits: String| digits.replace("inf", "Infinity");
    let whole = shown(format!("{:.0}", value.abs())).len();
    if whole >= significant {
        plan.after = 0;
    } else if whole + plan.after > significant {
        plan.after = significant - whole;
    }
    let digits = shown(format!("{value:.*}", plan.after));
    finish(&plan, &digits, out)
}

/// Writes a number in scientific notation, with a blank for an absent sign.
fn exponential(text: &str, out: &mut dyn Write) -> Result<()> {
    let blank = if text.starts_with('-') { "" } else { " " };
    exponential_text(&format!("{blank}{text}"), out)
}

fn exponential_text(text: &str, out: &mut dyn Write) -> Result<()> {
    out.write_str(text).expect("memory takes what is written");
    Ok(())
}

/// Rust's exponent as C writes it: with a sign and two digits.
fn c_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// A decimal in scientific notation with so many places.
fn scientific(value: i128, scale: i8, places: usize) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut exponent = digits.len() as i64 - 1 - i64::from(scale);
    if value == 0 {
        exponent = 0;
    }
    let kept = places + 1;
    let mut shown: u128 = match digits.len() > kept {
        true => {
            let unit = 10_u128.pow((digits.len() - kept) as u32);
            (value.unsigned_abs() + unit / 2) / unit
        }
        false => value.unsigned_abs(),
    };
    let mut text = shown.to_string();
    if text.len() > kept {
        exponent += 1;
        shown /= 10;
        text = shown.to_string();
    }
    let fraction = format!("{:0<places$}", &text[1..]);
    let point = if places > 0 { "." } else { "" };
    let sign = if value < 0 { "-" } else { "" };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{}{point}{fraction}e{exponent_sign}{:02}", &text[..1], exponent.abs())
}

/// A number from 1 to 3,999 in Roman numerals; others are marks.
fn roman(number: i64) -> String {
    if !(1..=3999).contains(&number) {
        return "#".repeat(15);
    }
    const NUMERALS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = number;
    let mut text = String::new();
    for (value, numeral) in NUMERALS {
        while rest >= value {
            text.push_str(numeral);
            rest -= value;
        }
    }
    text
}

/// Writes digits, with or without a sign, by the plan.
fn finish(plan: &Plan, digits: &str, out: &mut dyn Write) -> Result<()> {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', digits),
    };
    let whole = digits.find('.').unwrap_or(digits.len());
    if whole > plan.before {
        let mut marks = "#".repeat(plan.before + plan.after + 1);
        marks.replace_range(plan.before..plan.before + 1, ".");
        return written(plan, &marks, 0, sign, out);
    }
    written(plan, digits, plan.before - whole, sign, out)
}

fn written(
    plan: &Plan,
    digits: &str,
    blanks: usize,
    sign: char,
    out: &mut dyn Write,
) -> Result<()> {
    let text = Writer::new(plan.clone(), digits, blanks, sign).write();
    out.write_str(&text).expect("memory takes what is written");
    Ok(())
}

/// A number on its way through a pattern.
struct Writer<'a> {
    plan: Plan,
    number: &'a [u8],
    /// The next character of the number.
    at: usize,
    /// Places before the number that are blank.
    blanks: usize,
    sign: char,
    sign_written: bool,
    /// The last character that is not stripped, with FM.
    last_relevant: Option<usize>,
    /// Places of the pattern in all, and the one now.
    count: usize,
    current: usize,
    in_number: bool,
    text: String,
}

impl<'a> Writer<'a> {
    fn new(mut plan: Plan, number: &'a str, blanks: usize, sign: char) -> Self {
        plan.zero_start = plan.zero_start.saturating_sub(1);
        if plan.roman {
            let (nodes, fill) = (core::mem::take(&mut plan.nodes), plan.fill);
            plan = Plan { nodes, fill, roman: true, ..Plan::default() };
        }
        let sign_written = if plan.plus || plan.minus {
            !plan.plus || plan.minus
        } else {
            if sign != '-' && plan.fill {
                plan.brackets = false;
            }
            if plan.sign == Some(SignPlace::Before) && plan.before == plan.before_sign {
                plan.sign = Some(SignPlace::After);
            }
            sign == '+' && plan.fill && plan.sign.is_none()
        };
        let number = number.as_bytes();
        let last_relevant = (plan.fill && plan.point).then(|| last_relevant(number)).flatten();
        let last_relevant = last_relevant.map(|last| {
            if plan.zero_end > blanks {
                last.max((number.len() - 1).min(plan.zero_end - blanks))
            } else {
                last
            }
        });
        let mut count = (plan.before + plan.after).saturating_sub(1);
        if !sign_written && blanks == 0 {
            count += 1;
        }
        Writer {
            plan,
            number,
            at: 0,
            blanks,
            sign,
            sign_written,
            last_relevant,
            count,
            current: 0,
            in_number: false,
            text: String::new(),
        }
    }

    fn write(mut self) -> String {
        for node in core::mem::take(&mut self.plan.nodes) {
            match node {
                Node::Character { character, .. } => self.text.push(character),
                Node::Keyword(keyword, _) => self.keyword(keyword),
            }
        }
        // The number may be shorter than the pattern: PostgreSQL's text ends there.
        if let Some(end) = self.text.find('\0') {
            self.text.truncate(end);
        }
        self.text
    }

    fn keyword(&mut self, keyword: Keyword) {
        let fill = self.plan.fill;
        let digits = core::str::from_utf8(self.number).unwrap_or_default();
        match keyword {
            K::Nine | K::Zero | K::Point | K::LocalePoint => self.place(keyword),
            K::Comma | K::Group => match (self.in_number, fill) {
                (true, _) => self.text.push(','),
                (false, true) => {}
                (false, false) => self.text.push(' '),
            },
            K::Currency => self.text.push(' '),
            K::Roman { upper } => {
                let numeral = if upper { digits.to_string() } else { digits.to_lowercase() };
                let width = if fill { 0 } else { 15 };
                self.text.push_str(&format!("{numeral:>width$}"));
            }
            K::Ordinal { upper } => {
                let none = self.plan.roman || self.plan.point || self.sign == '-';
                if !none && !digits.starts_with('#') {
                    self.text.push_str(ordinal(digits, upper));
                }
            }
            K::Minus | K::Plus => {
                let own = if keyword == K::Minus { '-' } else { '+' };
                if self.sign == own {
                    self.text.push(own);
                } else if !fill {
                    self.text.push(' ');
                }
            }
            K::PlainSign => self.text.push(self.sign),
            _ => {}
        }
    }

    /// The next character of the number; NUL behind the end.
    fn next(&self) -> u8 {
        self.number.get(self.at).copied().unwrap_or(0)
    }

    /// Whether a single 0 before the point is left out.
    fn hides_zero(&self) -> bool {
        !self.plan.zero
            && self.at == 0
            && self.number.first() == Some(&b'0')
            && self.plan.after != 0
    }

    fn is_point_relevant(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    fn place(&mut self, keyword: Keyword) {
        if self.plan.roman {
            return;
        }
        let zero = self.plan.zero;
        self.in_number = false;
        let begins = self.current >= self.blanks || (zero && self.plan.zero_start == self.current);
        if !self.sign_written && begins && (!self.hides_zero() || self.is_point_relevant()) {
            self.leading_sign();
        }
        if self.current < self.blanks && (self.plan.zero_start > self.current || !zero) {
            if !self.plan.fill {
                self.text.push(' ');
            }
        } else if zero && self.current < self.blanks && self.plan.zero_start <= self.current {
            self.text.push('0');
            self.in_number = true;
        } else {
            self.digit(keyword);
        }
        let mut end = self.count + usize::from(self.blanks > 0) + usize::from(self.plan.point);
        if self.last_relevant == Some(self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            self.trailing_sign();
        }
        self.current += 1;
    }

    fn leading_sign(&mut self) {
        match (self.plan.sign, self.plan.brackets, self.sign) {
            (Some(SignPlace::Before), _, sign) => self.text.push(sign),
            (Some(SignPlace::After), ..) => return,
            (None, true, '+') => self.text.push(' '),
            (None, true, _) => self.text.push('<'),
            (None, false, '+') if self.plan.fill => {}
            (None, false, '+') => self.text.push(' '),
            (None, false, _) => self.text.push('-'),
        }
        self.sign_written = true;
    }

    fn trailing_sign(&mut self) {
        if self.sign_written && self.plan.brackets {
            self.text.push(if self.sign == '+' { ' ' } else { '>' });
        } else if self.plan.sign == Some(SignPlace::After) {
            self.text.push(self.sign);
        }
    }

    /// Writes a digit or the point.
    fn digit(&mut self, keyword: Keyword) {
        if self.next() == b'.' {
            if !self.is_point_relevant() || self.plan.fill {
                self.text.push('.');
            }
        } else if self.last_relevant.is_some_and(|last| self.at > last) && keyword != K::Zero {
        } else if self.hides_zero() {
            if !self.plan.fill {
                self.text.push(' ');
            } else if self.is_point_relevant() {
                self.text.push('0');
            }
        } else {
            self.text.push(char::from(self.next()));
            self.in_number = true;
        }
        if self.at < self.number.len() {
            self.at += 1;
        }
    }
}

/// The last character behind the point that is no zero, or the point.
fn last_relevant(number: &[u8]) -> Option<usize> {
    let point = number.iter().position(|byte| *byte == b'.')?;
    let last = number.iter().rposition(|byte| *byte != b'0').unwrap_or(point);
    Some(last.max(point))
}

/// Reads a number by a pattern into a decimal of so many places; `None` for an empty pattern.
pub fn read(text: &str, pattern: &str, scale: i8) -> Result<Option<i128>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let plan = Plan::of(pattern)?;
    if plan.exponent || plan.roman {
        let word = if plan.exponent { "EEEE" } else { "RN" };
        let message = format!("\"{word}\" not supported for input");
        return Err(ValueError::Worded(worded(*b"0A000", message)));
    }
    let bytes = text.as_bytes();
    let mut reader = NumberReader {
        input: bytes,
        at: 0,
        sign: b' ',
        digits: vec![],
        before: 0,
        after: 0,
        has_point: false,
        plan: &plan,
    };
    reader.read();
    let mut number = String::from_utf8(reader.digits).unwrap_or_default();
    if number.ends_with('.') {
        number.pop();
    }
    let signed = format!("{}{number}", char::from(reader.sign));
    let shift = plan.shifted as i8;
    if reader.before > plan.before + plan.shifted {
        return Err(ValueError::DecimalField {
            precision: (plan.before + plan.shifted + reader.after).min(255) as u8,
            scale: reader.after as i8,
        });
    }
    decimal::parse(&signed, decimal::DIGITS_MAX, scale.saturating_sub(shift)).map(Some)
}

/// A text on its way through a pattern.
struct NumberReader<'a> {
    input: &'a [u8],
    at: usize,
    /// The sign, blank until one is read.
    sign: u8,
    digits: Vec<u8>,
    /// Digits read before and after the point.
    before: usize,
    after: usize,
    has_point: bool,
    plan: &'a Plan,
}

impl NumberReader<'_> {
    fn next(&self) -> u8 {
        self.input.get(self.at).copied().unwrap_or(0)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.input.len()
    }

    fn skip_character(&mut self) {
        self.at += 1;
        while self.next() & 0xc0 == 0x80 {
            self.at += 1;
        }
    }

    /// Skips characters that no number has.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            if self.is_at_end() || b"0123456789.,+-".contains(&self.next()) {
                return;
            }
            self.skip_character();
        }
    }

    fn read(&mut self) {
        for node in &self.plan.nodes {
            if self.is_at_end() {
                return;
            }
            match node {
                Node::Character { .. } => self.skip_character(),
                Node::Keyword(keyword, _) => self.keyword(*keyword),
            }
        }
    }

    fn keyword(&mut self, keyword: Keyword) {
        match keyword {
            K::Nine | K::Zero | K::Point | K::LocalePoint => {
                self.place(keyword);
                self.at += 1;
            }
            // Nothing has been written, so a comma is no part of a number where FM stands.
            K::Comma | K::Group if self.plan.fill => {}
            K::Comma | K::Group if self.next() == b',' => self.at += 1,
            K::Currency => self.skip_others(1),
            K::Ordinal { .. } => self.skip_others(2),
            K::Minus | K::Plus | K::PlainSign => {
                let minus = keyword != K::Plus && self.next() == b'-';
                let plus = keyword != K::Minus && self.next() == b'+';
                if minus || plus {
                    self.sign = self.next();
                    self.at += 1;
                } else {
                    self.skip_others(1);
                }
            }
            _ => {}
        }
    }

    /// Reads a digit, the point or a sign at a place of the pattern.
    fn place(&mut self, keyword: Keyword) {
        if self.next() == b' ' {
            self.at += 1;
        }
        if self.is_at_end() {
            return;
        }
        let is_digit = matches!(keyword, K::Nine | K::Zero);
        if self.sign == b' ' && is_digit && self.before + self.after == 0 {
            match (self.next(), self.plan.sign) {
                (sign @ (b'-' | b'+'), Some(SignPlace::Before) | None) => {
                    self.sign = sign;
                    self.at += 1;
                }
                (sign @ (b'-' | b'+'), Some(SignPlace::After)) => {
                    self.sign = sign;
                    self.at += 1;
                }
                (b'<', None) if self.plan.brackets => {
                    self.sign = b'-';
                    self.at += 1;
                }
                _ => {}
            }
        }
        if self.is_at_end() {
            return;
        }
        let mut is_read = false;
        if self.next().is_ascii_digit() {
            if self.has_point && self.after == self.plan.after {
                return;
            }
            self.digits.push(self.next());
            *(if self.has_point { &mut self.after } else { &mut self.before }) += 1;
            is_read = true;
        } else if self.plan.point && !self.has_point && self.next() == b'.' {
            self.digits.push(b'.');
            self.has_point = true;
            is_read = true;
        }
        if self.sign == b' ' && is_read && self.plan.sign.is_some() && self.before + self.after > 0
        {
            self.sign_behind();
        }
    }

    /// Reads the sign of `S` behind a digit; where the pattern has none, signs behind digits are passed over.
    fn sign_behind(&mut self) {
        if let Some(sign @ (b'-' | b'+')) = self.input.get(self.at + 1).copied() {
            self.at += 1;
            self.sign = sign;
        }
    }
}
