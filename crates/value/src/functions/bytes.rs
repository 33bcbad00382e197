//! Functions of BYTEA.

use alloc::format;
use alloc::vec::Vec;

use super::ArgumentKind::{BigInt, Bytes, Integer};
use super::{Answer, Args, Function, Gives, at_least, takes};
use crate::error::{Result, ValueError};
use crate::types::Type;
use crate::value::{Value, ValueRef};

const INTEGER: Gives = Gives::Type(Type::Int32);
const BYTES: Gives = Gives::Type(Type::Bytes);

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["bytes_length"],
        "How many bytes there are, as `length` of BYTEA.",
        takes(&[Bytes]),
        INTEGER,
        |args, _| number(bytes(args, 0)?.len() as i64),
    ),
    Function::new(
        &["bytes_substr"],
        "The bytes from one on, counted from 1, as `substring` of BYTEA.",
        at_least(1, &[Bytes, BigInt, BigInt]),
        BYTES,
        |args, _| {
            let count = if args.has(2) { Some(args.integer(2)?) } else { None };
            Ok(Answer::Value(ValueRef::Bytes(part(bytes(args, 0)?, args.integer(1)?, count)?)))
        },
    ),
    Function::new(
        &["bytes_btrim"],
        "The bytes without these at both ends, as `trim` of BYTEA.",
        takes(&[Bytes, Bytes]),
        BYTES,
        |args, _| trimmed(args, true, true),
    ),
    Function::new(
        &["bytes_ltrim"],
        "The bytes without these at the start, as `ltrim` of BYTEA.",
        takes(&[Bytes, Bytes]),
        BYTES,
        |args, _| trimmed(args, true, false),
    ),
    Function::new(
        &["bytes_rtrim"],
        "The bytes without these at the end, as `rtrim` of BYTEA.",
        takes(&[Bytes, Bytes]),
        BYTES,
        |args, _| trimmed(args, false, true),
    ),
    Function::new(
        &["bytes_position"],
        "The first byte at which the bytes have others, counted from 1; 0 if nowhere.",
        takes(&[Bytes, Bytes]),
        INTEGER,
        |args, _| {
            let (whole, wanted) = (bytes(args, 0)?, bytes(args, 1)?);
            let found = match wanted.len() {
                0 => Some(0),
                length => whole.windows(length).position(|part| part == wanted),
            };
            number(found.map_or(0, |at| at as i64 + 1))
        },
    ),
    Function::new(
        &["bytes_overlay"],
        "The bytes with so many from one on replaced by others, as `overlay` of BYTEA.",
        at_least(1, &[Bytes, Bytes, BigInt, BigInt]),
        BYTES,
        |args, _| {
            let (whole, put, start) = (bytes(args, 0)?, bytes(args, 1)?, args.integer(2)?);
            let count = if args.has(3) { args.integer(3)? } else { put.len() as i64 };
            if start <= 0 {
                return Err(ValueError::NegativeLength);
            }
            let rest = start.checked_add(count).ok_or(ValueError::OutOfRange("integer"))?;
            let (before, after) = (part(whole, 1, Some(start - 1))?, part(whole, rest, None)?);
            made([before, put, after].concat())
        },
    ),
    Function::new(
        &["bit_count"],
        "How many bits are set.",
        takes(&[Bytes]),
        Gives::Type(Type::Int64),
        |args, _| {
            let count: u32 = bytes(args, 0)?.iter().map(|byte| byte.count_ones()).sum();
            Ok(Answer::Value(ValueRef::Int64(count.into())))
        },
    ),
    Function::new(
        &["get_byte"],
        "A byte, counted from 0.",
        takes(&[Bytes, Integer]),
        INTEGER,
        |args, _| {
            let bytes = bytes(args, 0)?;
            number(bytes[place(args.integer(1)?, bytes.len())?].into())
        },
    ),
    Function::new(
        &["get_bit"],
        "A bit, counted from 0.",
        takes(&[Bytes, BigInt]),
        INTEGER,
        |args, _| {
            let bytes = bytes(args, 0)?;
            let at = place(args.integer(1)?, bytes.len() * 8)?;
            number((bytes[at / 8] >> (at % 8) & 1).into())
        },
    ),
    Function::new(
        &["set_byte"],
        "The bytes with one, counted from 0, set to a number.",
        takes(&[Bytes, Integer, Integer]),
        BYTES,
        |args, _| {
            let mut bytes = bytes(args, 0)?.to_vec();
            let at = place(args.integer(1)?, bytes.len())?;
            bytes[at] = args.integer(2)? as u8;
            made(bytes)
        },
    ),
    Function::new(
        &["set_bit"],
        "The bytes with one bit, counted from 0, set to 0 or 1.",
        takes(&[Bytes, BigInt, Integer]),
        BYTES,
        |args, _| {
            let mut bytes = bytes(args, 0)?.to_vec();
            let at = place(args.integer(1)?, bytes.len() * 8)?;
            let bit = args.integer(2)?;
            if bit != 0 && bit != 1 {
                return Err(ValueError::worded(b"22023", "new bit must be 0 or 1".into()));
            }
            let mask = 1 << (at % 8);
            bytes[at / 8] = if bit == 1 { bytes[at / 8] | mask } else { bytes[at / 8] & !mask };
            made(bytes)
        },
    ),
];

/// The bytes from one on, counted from 1, so many of them or all. Errors: 22011.
fn part(bytes: &[u8], from: i64, count: Option<i64>) -> Result<&[u8]> {
    if count.is_some_and(|count| count < 0) {
        return Err(ValueError::NegativeLength);
    }
    let until = count.map_or(i64::MAX, |count| from.saturating_add(count));
    let place = |at: i64| usize::try_from(at - 1).unwrap_or(0).min(bytes.len());
    Ok(&bytes[place(from.max(1))..place(until.max(from).max(1))])
}

/// The bytes without those of a set at one end or both.
fn trimmed<'a>(args: &Args<'_, 'a>, start: bool, end: bool) -> Result<Answer<'a>> {
    let (mut bytes, set) = (bytes(args, 0)?, bytes(args, 1)?);
    while let [first, rest @ ..] = bytes
        && start
        && set.contains(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && end
        && set.contains(last)
    {
        bytes = rest;
    }
    Ok(Answer::Value(ValueRef::Bytes(bytes)))
}

fn bytes<'a>(args: &Args<'_, 'a>, at: usize) -> Result<&'a [u8]> {
    match args.value(at) {
        ValueRef::Bytes(bytes) => Ok(bytes),
        _ => Err(ValueError::Mismatch("a function of bytes")),
    }
}

/// A place below `count`. Errors: 2202E.
fn place(at: i64, count: usize) -> Result<usize> {
    usize::try_from(at).ok().filter(|at| *at < count).ok_or_else(|| {
        let last = count as i64 - 1;
        ValueError::worded(b"2202E", format!("index {at} out of valid range, 0..{last}"))
    })
}

fn number(number: i64) -> Result<Answer<'static>> {
    Ok(Answer::Value(crate::integer::Width::Integer.value(number)?))
}

fn made<'a>(bytes: Vec<u8>) -> Result<Answer<'a>> {
    Ok(Answer::Made(Value::Bytes(bytes)))
}
