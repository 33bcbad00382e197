//! NUMERIC in binary: base-10000 digits with weight, sign and display scale.
//!
//! Source: PostgreSQL 17, `numeric_send` and `numeric_recv`.

use bytes::{Buf, BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;
/// Digits a DECIMAL has at most.
const DIGITS_MAX: usize = 38;
/// Groups of four of them, if the point falls within a group on either side.
const GROUPS_MAX: usize = DIGITS_MAX / 4 + 2;

/// Writes `unscaled` × 10^-`scale`.
pub fn write(unscaled: i128, scale: i8, out: &mut BytesMut) {
    let fraction_digits = scale.max(0) as usize;
    let mut groups = [0u16; 2 * GROUPS_MAX];
    let mut count = 0;
    let magnitude = unscaled.unsigned_abs();
    let (mut integer, mut fraction) = split(magnitude, scale);
    while integer > 0 {
        groups[count] = (integer % 10_000) as u16;
        integer /= 10_000;
        count += 1;
    }
    groups[..count].reverse();
    let mut weight = count as i16 - 1;
    // The fraction's digits, first one first, filled with zeros to whole groups.
    let mut digits = [0u8; 4 * (DIGITS_MAX.div_ceil(4) + 1)];
    for digit in digits[..fraction_digits].iter_mut().rev() {
        *digit = (fraction % 10) as u8;
        fraction /= 10;
    }
    for group in digits[..fraction_digits.next_multiple_of(4)].chunks_exact(4) {
        groups[count] = group.iter().fold(0, |sum, digit| sum * 10 + u16::from(*digit));
        count += 1;
    }
    let mut first = 0;
    while first < count && groups[first] == 0 {
        first += 1;
        weight -= 1;
    }
    while count > first && groups[count - 1] == 0 {
        count -= 1;
    }
    let digits = &groups[first..count];
    out.put_u16(digits.len() as u16);
    out.put_i16(if digits.is_empty() { 0 } else { weight });
    out.put_u16(if unscaled < 0 { NEGATIVE } else { 0 });
    out.put_u16(fraction_digits as u16);
    digits.iter().for_each(|group| out.put_u16(*group));
}

/// Integer and fraction parts of `magnitude` × 10^-`scale`.
fn split(magnitude: u128, scale: i8) -> (u128, u128) {
    let power = 10u128.pow(u32::from(scale.unsigned_abs()).min(DIGITS_MAX as u32));
    match scale {
        ..0 => (magnitude.saturating_mul(power), 0),
        0.. => (magnitude / power, magnitude % power),
    }
}

/// Reads the binary form as decimal text, which keeps every digit; `None` if malformed.
pub fn read(mut bytes: &[u8]) -> Option<String> {
    if bytes.len() < 8 {
        return None;
    }
    let (count, weight) = (bytes.get_u16(), bytes.get_i16());
    let (sign, scale) = (bytes.get_u16(), bytes.get_u16());
    if bytes.len() != 2 * count as usize || scale > 0x3fff || weight.unsigned_abs() > 0x2000 {
        return None;
    }
    match sign {
        0 | NEGATIVE => {}
        0xC000 => return Some("NaN".into()),
        0xD000 => return Some("Infinity".into()),
        0xF000 => return Some("-Infinity".into()),
        _ => return None,
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    if groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    let group = |at: i32| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied();
    let mut text = String::from(if sign == NEGATIVE { "-" } else { "" });
    let integer_groups = i32::from(weight) + 1;
    (0..integer_groups).for_each(|at| push_group(&mut text, group(at)));
    if integer_groups <= 0 {
        text.push('0');
    }
    if scale > 0 {
        text.push('.');
        let start = text.len();
        for at in 0..i32::from(scale).div_euclid(4) + 1 {
            push_group(&mut text, group(integer_groups + at));
        }
        text.truncate(start + scale as usize);
    }
    Some(text)
}

fn push_group(text: &mut String, group: Option<u16>) {
    use std::fmt::Write as _;
    write!(text, "{:04}", group.unwrap_or(0)).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(unscaled: i128, scale: i8) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(unscaled, scale, &mut out);
        out.to_vec()
    }

    fn words(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn digits_weight_and_scale_are_postgresqls() {
        let minus = |weight: i16| weight as u16;
        let cases: [(i128, i8, &[u16]); 9] = [
            (0, 2, &[0, 0, 0, 2]),
            (1, 0, &[1, 0, 0, 0, 1]),
            (12345, 0, &[2, 1, 0, 0, 1, 2345]),
            (-12345, 2, &[2, 0, NEGATIVE, 2, 123, 4500]),
            (10_000, 0, &[1, 1, 0, 0, 1]),
            (1, 4, &[1, minus(-1), 0, 4, 1]),
            (1, 5, &[1, minus(-2), 0, 5, 1000]),
            (1_0000_0001, 4, &[3, 1, 0, 4, 1, 0, 1]),
            (5, -3, &[1, 0, 0, 0, 5000]),
        ];
        for (unscaled, scale, expected) in cases {
            assert_eq!(written(unscaled, scale), words(expected), "{unscaled} {scale}");
        }
    }

    #[test]
    fn what_is_written_reads_back_at_every_scale() {
        let largest = 10i128.pow(38) - 1;
        for unscaled in [0, 1, -1, 9_999, 10_000, -123_456_789, largest, -largest] {
            for scale in 0..=38 {
                let text = read(&written(unscaled, scale)).expect("well-formed");
                let digits: String = text.chars().filter(|c| *c != '.').collect();
                assert_eq!(digits.parse::<i128>().unwrap(), unscaled, "{text}");
                let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
                assert_eq!(fraction, scale as usize, "{text}");
            }
        }
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for bytes in [&[][..], &words(&[1, 0, 0, 0]), &words(&[1, 0, 7, 0, 1])] {
            assert_eq!(read(bytes), None);
        }
        assert_eq!(read(&words(&[1, 0, 0, 0, 10_000])), None);
        assert_eq!(read(&words(&[0, 0, 0xC000, 0])).as_deref(), Some("NaN"));
        assert_eq!(read(&words(&[1, 0x7fff, 0, 0, 1])), None, "would be 130,000 digits");
    }
}
