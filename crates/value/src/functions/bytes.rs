//! Functions of BYTEA.

use alloc::format;
use alloc::vec::Vec;

use super::ArgumentKind::{BigInt, Bytes, Integer};
use super::{Answer, Args, Function, Gives, takes};
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
