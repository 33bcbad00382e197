//! Arrays of one dimension as bytes, which is how columns of arrays store their values.
//!
//! The bytes of two arrays of one type compare as PostgreSQL compares the arrays: element by element, NULL
//! behind all values, and of two that agree the longer one is larger. So arrays are keys of indexes as bytes
//! are. Each element is a marker (1 before a value, 2 for NULL) and bytes that no other value of the type
//! starts with:
//! - numbers and moments: big-endian, the sign bit flipped; floats by their bits, negative ones inverted;
//! - intervals: [`Interval::sort_key`], then their parts;
//! - text and bytes: as they are, with 0 as 0 255, ended by 0 0.
//!
//! Invariant, checked by `arrays_are_read_as_they_were_written_and_their_bytes_order_as_they_do`: decoding
//! gives what was encoded, bit by bit but for NaNs, and bytes order as arrays do. Deviation from PostgreSQL: -0 is before 0, and spans that differ in their parts alone
//! (30 days, 1 month) are not equal.

use alloc::vec::Vec;

use crate::types::Type;
use crate::value::{Interval, ValueRef};

/// Stands before a value.
const VALUE: u8 = 1;
/// Stands for NULL.
const NULL: u8 = 2;

/// Appends an element to the bytes of an array.
pub fn push(out: &mut Vec<u8>, element: ValueRef<'_>) {
    if element.is_null() {
        return out.push(NULL);
    }
    out.push(VALUE);
    match element {
        ValueRef::Null => unreachable!("NULL has no more bytes"),
        ValueRef::Bool(value) => out.push(value.into()),
        ValueRef::Int16(value) => out.extend_from_slice(&(value ^ i16::MIN).to_be_bytes()),
        ValueRef::Int32(value) | ValueRef::Date(value) => {
            out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
        }
        ValueRef::Int64(value)
        | ValueRef::Time(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value) => {
            out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
        }
        ValueRef::Decimal(value) => out.extend_from_slice(&(value ^ i128::MIN).to_be_bytes()),
        ValueRef::Float32(value) => {
            let bits = if value.is_nan() { f32::NAN.abs() } else { value }.to_bits();
            let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Float64(value) => {
            let bits = if value.is_nan() { f64::NAN.abs() } else { value }.to_bits();
            let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Interval(value) => {
            out.extend_from_slice(&(value.sort_key() ^ i128::MIN).to_be_bytes());
            out.extend_from_slice(&value.to_word().to_be_bytes());
        }
        ValueRef::Uuid(value) => out.extend_from_slice(&value),
        ValueRef::Text(text) => push_bytes(out, text.as_bytes()),
        ValueRef::Bytes(bytes) => push_bytes(out, bytes),
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for (at, run) in bytes.split(|&byte| byte == 0).enumerate() {
        if at > 0 {
            out.extend_from_slice(&[0, 255]);
        }
        out.extend_from_slice(run);
    }
    out.extend_from_slice(&[0, 0]);
}

/// Gives the elements of an array, of type `ty`, to `each` in order; its first error ends that.
///
/// Panics: if the bytes are no array of the type; the plan is broken then.
pub fn each<E>(
    mut array: &[u8],
    ty: Type,
    mut each: impl FnMut(ValueRef<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut unescaped = Vec::new();
    while let Some((&marker, rest)) = array.split_first() {
        array = rest;
        if marker == NULL {
            each(ValueRef::Null)?;
            continue;
        }
        match ty {
            Type::Text | Type::Bytes => {
                let bytes = take_bytes(&mut array, &mut unescaped);
                each(match ty {
                    Type::Text => ValueRef::Text(core::str::from_utf8(bytes).expect("a text")),
                    _ => ValueRef::Bytes(bytes),
                })?;
            }
            _ => each(take_fixed(&mut array, ty))?,
        }
    }
    Ok(())
}

/// Number of elements of an array of type `ty`. Panics: as [`each`].
pub fn len(array: &[u8], ty: Type) -> usize {
    let mut count = 0;
    let counted = each(array, ty, |_| {
        count += 1;
        Ok::<(), core::convert::Infallible>(())
    });
    counted.expect("counting does not fail");
    count
}

fn take<const N: usize>(array: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = array.split_first_chunk().expect("a whole element");
    *array = rest;
    *taken
}

fn take_fixed(array: &mut &[u8], ty: Type) -> ValueRef<'static> {
    let mut long = || i64::from_be_bytes(take(array)) ^ i64::MIN;
    match ty {
        Type::Time => ValueRef::Time(long()),
        Type::Timestamp => ValueRef::Timestamp(long()),
        Type::TimestampTz => ValueRef::TimestampTz(long()),
        Type::Int64 => ValueRef::Int64(long()),
        Type::Bool => ValueRef::Bool(take::<1>(array)[0] != 0),
        Type::Int16 => ValueRef::Int16(i16::from_be_bytes(take(array)) ^ i16::MIN),
        Type::Int32 => ValueRef::Int32(i32::from_be_bytes(take(array)) ^ i32::MIN),
        Type::Date => ValueRef::Date(i32::from_be_bytes(take(array)) ^ i32::MIN),
        Type::Decimal { .. } => ValueRef::Decimal(i128::from_be_bytes(take(array)) ^ i128::MIN),
        Type::Float32 => {
            let bits = u32::from_be_bytes(take(array));
            ValueRef::Float32(f32::from_bits(if bits >> 31 == 0 { !bits } else { bits ^ 1 << 31 }))
        }
        Type::Float64 => {
            let bits = u64::from_be_bytes(take(array));
            ValueRef::Float64(f64::from_bits(if bits >> 63 == 0 { !bits } else { bits ^ 1 << 63 }))
        }
        Type::Interval => {
            take::<16>(array);
            ValueRef::Interval(Interval::from_word(u128::from_be_bytes(take(array))))
        }
        Type::Uuid => ValueRef::Uuid(take(array)),
        Type::Text | Type::Bytes => unreachable!("values of any length are taken elsewhere"),
    }
}

/// The next text or bytes; those with a 0 within are put together in `unescaped`.
fn take_bytes<'a: 's, 's>(array: &mut &'a [u8], unescaped: &'s mut Vec<u8>) -> &'s [u8] {
    unescaped.clear();
    let whole = *array;
    let mut start = 0;
    loop {
        let zero = start + whole[start..].iter().position(|&byte| byte == 0).expect("an end");
        let is_end = whole[zero + 1] == 0;
        if is_end {
            *array = &whole[zero + 2..];
            if unescaped.is_empty() {
                return &whole[..zero];
            }
            unescaped.extend_from_slice(&whole[start..zero]);
            return unescaped;
        }
        unescaped.extend_from_slice(&whole[start..=zero]);
        start = zero + 2;
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;
    use crate::value::Value;

    fn encoded(elements: &[ValueRef<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        elements.iter().for_each(|element| push(&mut out, *element));
        out
    }

    /// Lists of one type in ascending order: decodes what it encodes, and bytes ascend.
    fn check(ty: Type, ascending: &[&[ValueRef<'_>]]) {
        for elements in ascending {
            let bytes = encoded(elements);
            let mut decoded = Vec::new();
            let all: Result<(), Infallible> = each(&bytes, ty, |element| {
                decoded.push(element.to_owned());
                Ok(())
            });
            all.expect("nothing fails");
            let expected: Vec<Value> = elements.iter().map(|element| element.to_owned()).collect();
            assert_eq!(decoded, expected);
            assert_eq!(len(&bytes, ty), elements.len());
        }
        for (low, high) in ascending.iter().zip(&ascending[1..]) {
            assert!(encoded(low) < encoded(high), "{low:?} < {high:?}");
        }
    }

    #[test]
    fn arrays_are_read_as_they_were_written_and_their_bytes_order_as_they_do() {
        use ValueRef::*;
        check(Type::Bool, &[&[], &[Bool(false)], &[Bool(true)], &[Null]]);
        check(Type::Int16, &[&[Int16(i16::MIN)], &[Int16(-1)], &[Int16(0)], &[Int16(7)]]);
        check(
            Type::Int32,
            &[
                &[],
                &[Int32(-5), Int32(9)],
                &[Int32(9)],
                &[Int32(9), Int32(i32::MIN)],
                &[Int32(9), Null],
                &[Int32(10)],
                &[Null],
                &[Null, Int32(0)],
            ],
        );
        check(Type::Int64, &[&[Int64(i64::MIN)], &[Int64(-1)], &[Int64(i64::MAX)]]);
        check(Type::Date, &[&[Date(-1)], &[Date(1)]]);
        check(Type::Time, &[&[Time(0)], &[Time(1)]]);
        check(Type::Timestamp, &[&[Timestamp(i64::MIN)], &[Timestamp(0)]]);
        check(Type::TimestampTz, &[&[TimestampTz(-1)], &[TimestampTz(0)]]);
        let decimal = Type::Decimal { precision: 38, scale: 2 };
        check(decimal, &[&[Decimal(i128::MIN)], &[Decimal(-100)], &[Decimal(0)], &[Decimal(101)]]);
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY];
        let floats: Vec<[ValueRef<'_>; 1]> = floats.iter().map(|f| [Float64(*f)]).collect();
        check(Type::Float64, &floats.iter().map(|f| f.as_slice()).collect::<Vec<_>>());
        check(Type::Float32, &[&[Float32(-1.5)], &[Float32(-0.0)], &[Float32(0.5)]]);
        let span = |months, days| Interval(crate::Interval { months, days, nanos: -1 });
        check(Type::Interval, &[&[span(0, -1)], &[span(1, 0)], &[span(0, 30)], &[span(1, 1)]]);
        check(Type::Uuid, &[&[Uuid([0; 16])], &[Uuid([9; 16])]]);
        check(
            Type::Text,
            &[&[Text("")], &[Text(""), Text("")], &[Text("a")], &[Text("a\0b")], &[Text("ab")]],
        );
        check(
            Type::Bytes,
            &[&[Bytes(&[])], &[Bytes(&[0])], &[Bytes(&[0, 0, 255])], &[Bytes(&[1])], &[Null]],
        );
    }

    #[test]
    fn a_nan_is_above_all_numbers() {
        let of = |value| encoded(&[ValueRef::Float64(value)]);
        assert!(of(f64::NAN) > of(f64::INFINITY) && of(-f64::NAN) == of(f64::NAN));
        let of = |value| encoded(&[ValueRef::Float32(value)]);
        assert!(of(f32::NAN) > of(f32::INFINITY) && of(-f32::NAN) == of(f32::NAN));
    }
}
