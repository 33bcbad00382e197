//! `hashtext` and `hashtextextended`: PostgreSQL's own hashes of texts, so that programs that choose advisory
//! locks, or the places of rows, by them choose the same here.
//!
//! Source: Bob Jenkins, lookup3, as PostgreSQL's `hash_bytes` varies it.

use super::ArgumentKind::{BigInt, Text};
use super::{Function, Gives, takes};
use crate::types::Type;
use crate::value::ValueRef;

use super::table::value;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["hashtext"],
        "A hash of the text, the one that PostgreSQL computes.",
        takes(&[Text]),
        Gives::Type(Type::Int32),
        |args, _| {
            let (_, low) = hash(args.text(0)?.as_bytes(), 0);
            value(ValueRef::Int32(low.cast_signed()))
        },
    ),
    Function::new(
        &["hashtextextended"],
        "A hash of the text of 64 bits, from a number that chooses among hashes.",
        takes(&[Text, BigInt]),
        Gives::Type(Type::Int64),
        |args, _| {
            let (high, low) = hash(args.text(0)?.as_bytes(), args.integer(1)?.cast_unsigned());
            let both = u64::from(high) << 32 | u64::from(low);
            value(ValueRef::Int64(both.cast_signed()))
        },
    ),
];

/// Both halves of the hash, the high one first.
fn hash(bytes: &[u8], seed: u64) -> (u32, u32) {
    // The length wraps, as PostgreSQL's does.
    let length = (bytes.len() as u64 & u64::from(u32::MAX)) as u32;
    let mut state = [0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095); 3];
    if seed != 0 {
        let [low, high] = [seed & u64::from(u32::MAX), seed >> 32];
        state[0] = state[0].wrapping_add(high as u32);
        state[1] = state[1].wrapping_add(low as u32);
        mix(&mut state);
    }
    let mut pieces = bytes.chunks_exact(12);
    for piece in &mut pieces {
        add(&mut state, piece, 0);
        mix(&mut state);
    }
    add(&mut state, pieces.remainder(), 8);
    finish(&mut state);
    (state[1], state[2])
}

/// Adds bytes to the three words, the lowest first. The third word's begin at bit `third`.
fn add(state: &mut [u32; 3], bytes: &[u8], third: usize) {
    for (at, byte) in bytes.iter().enumerate() {
        let word = at / 4;
        let shift = 8 * (at % 4) + if word == 2 { third } else { 0 };
        state[word] = state[word].wrapping_add(u32::from(*byte) << shift);
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits: u32| {
        *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
        *y = y.wrapping_add(*z);
    };
    step(a, c, b, 4);
    step(b, a, c, 6);
    step(c, b, a, 8);
    step(a, c, b, 16);
    step(b, a, c, 19);
    step(c, b, a, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, bits: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_postgresql() {
        for (text, expected) in HASHES {
            assert_eq!(hash(text.as_bytes(), 0).1.cast_signed(), *expected, "{text}");
        }
        for (text, seed, expected) in EXTENDED {
            let (high, low) = hash(text.as_bytes(), seed.cast_unsigned());
            let both = u64::from(high) << 32 | u64::from(low);
            assert_eq!(both.cast_signed(), *expected, "{text} {seed}");
        }
    }

    const HASHES: &[(&str, i32)] = &[
        ("", -1_477_818_771),
        ("a", 1_075_015_857),
        ("abc", -785_388_649),
        ("abcd", -393_934_804),
        ("12345678", 915_794_263),
        ("123456789", 1_014_187_944),
        ("hello world", 1_021_725_223),
        ("hello world!", 1_400_155_871),
        ("hello world!!", -2_118_108_552),
        ("é and more than twenty-four bytes", 1_065_991_679),
    ];

    const EXTENDED: &[(&str, i64, i64)] = &[
        ("", 0, -6_939_563_903_564_495_251),
        ("abc", 0, -6_747_756_470_228_489_321),
        ("abc", 7, 1_967_049_030_278_966_041),
        ("hello world!!", -5, -3_347_124_282_557_847_237),
        ("hello world!!", 5_000_000_000, 7_215_219_966_641_474_373),
    ];
}
