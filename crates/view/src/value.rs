//! Values in words, and keys in words whose order is the order of the values.

use alloc::string::String;
use alloc::vec::Vec;

use crate::dictionary::Dictionary;
use crate::program::{NULL_FLOAT_BITS, NULL_INT, NULL_WIDE, Type};
use crate::scalar::{Number, key_float};

/// A listener to changed rows: words of the key, old row, new row.
pub type Report<'a> = dyn FnMut(&[u64], Option<&[u64]>, Option<&[u64]>) + 'a;

/// The data that expressions need besides registers.
#[derive(Default)]
pub struct Environment {
    /// Numbers of strings.
    pub dictionary: Dictionary,
    /// A buffer for the text that a function makes.
    pub text: String,
}

/// A value of one of the types; NULL is the type's mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// [`Type::Int`]
    Int(i64),
    /// [`Type::Float`]
    Float(f64),
    /// [`Type::Wide`]
    Wide(i128),
}

impl Value {
    /// NULL of a type.
    pub fn null(ty: Type) -> Self {
        match ty {
            Type::Int => Self::Int(NULL_INT),
            Type::Float => Self::Float(f64::null()),
            Type::Wide => Self::Wide(NULL_WIDE),
        }
    }

    /// Whether this is NULL.
    pub fn is_null(self) -> bool {
        match self {
            Self::Int(value) => value.is_null(),
            Self::Float(value) => value.is_null(),
            Self::Wide(value) => value.is_null(),
        }
    }

    /// Takes a value off the front of a row.
    pub fn take(ty: Type, words: &mut &[u64]) -> Self {
        let (value, rest) = words.split_at(ty.words());
        *words = rest;
        match ty {
            Type::Int => Self::Int(value[0] as i64),
            Type::Float => Self::Float(f64::from_bits(value[0])),
            Type::Wide => Self::Wide(wide(value[0], value[1])),
        }
    }

    /// Adds the value's words to a row.
    pub fn put(self, words: &mut Vec<u64>) {
        match self {
            Self::Int(value) => words.push(value as u64),
            Self::Float(value) => words.push(value.to_bits()),
            Self::Wide(value) => words.extend(halves(value)),
        }
    }

    /// Adds the words by which keys compare, as unsigned numbers from the first word on.
    pub fn put_ordered(self, words: &mut Vec<u64>) {
        match self {
            Self::Int(value) => words.push(order_int(value as u64)),
            Self::Float(value) => words.push(order_float(key_float(value).to_bits())),
            Self::Wide(value) => {
                let [low, high] = halves(value);
                words.extend([order_int(high), low]);
            }
        }
    }

    /// The inverse of [`Value::put_ordered`].
    pub fn take_ordered(ty: Type, words: &mut &[u64]) -> Self {
        let (value, rest) = words.split_at(ty.words());
        *words = rest;
        match ty {
            Type::Int => Self::Int(order_int(value[0]) as i64),
            Type::Float => Self::Float(f64::from_bits(unorder_float(value[0]))),
            Type::Wide => Self::Wide(wide(value[1], order_int(value[0]))),
        }
    }
}

/// A 128-bit integer from its two words.
#[inline(always)]
pub fn wide(low: u64, high: u64) -> i128 {
    (i128::from(high as i64) << 64) | i128::from(low)
}

/// Words of a 128-bit integer, the lower one first.
#[inline(always)]
pub fn halves(value: i128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// Turns an integer's word into one that compares as an unsigned number, or back.
#[inline(always)]
pub fn order_int(word: u64) -> u64 {
    word ^ 1 << 63
}

/// Turns the bits of a key's floating-point number into a word that compares as an unsigned number:
/// NULL first, NaN last.
#[inline(always)]
pub fn order_float(bits: u64) -> u64 {
    match bits {
        NULL_FLOAT_BITS => 0,
        bits if bits >> 63 == 1 => !bits,
        bits => bits | 1 << 63,
    }
}

/// The inverse of [`order_float`].
#[inline(always)]
pub fn unorder_float(word: u64) -> u64 {
    match word {
        0 => NULL_FLOAT_BITS,
        word if word >> 63 == 1 => word & !(1 << 63),
        word => !word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_order_as_values_do_and_come_back() {
        let ints = [NULL_INT, -i64::MAX, -1, 0, 1, i64::MAX].map(Value::Int);
        let wides = [NULL_WIDE, -(1 << 64), -1, 0, 1, 1 << 64, i128::MAX].map(Value::Wide);
        let infinity = f64::INFINITY;
        let floats =
            [f64::null(), -infinity, -2.5, -1e-300, 0.0, 1e-300, 1.0, 2.5, infinity, f64::NAN];
        for values in [&ints[..], &wides[..], &floats.map(Value::Float)[..]] {
            let ty = match values[0] {
                Value::Int(_) => Type::Int,
                Value::Float(_) => Type::Float,
                Value::Wide(_) => Type::Wide,
            };
            let mut last = Vec::new();
            for value in values {
                let (mut plain, mut ordered) = (Vec::new(), Vec::new());
                value.put(&mut plain);
                value.put_ordered(&mut ordered);
                assert!(last < ordered, "{value:?}");
                let mut back = Vec::new();
                Value::take_ordered(ty, &mut &ordered[..]).put(&mut back);
                assert_eq!(back, plain);
                assert_eq!(
                    Value::take(ty, &mut &plain[..]).is_null(),
                    *value == values[0] || value.is_null()
                );
                last = ordered;
            }
        }
        let mut zero = Vec::new();
        Value::Float(-0.0).put_ordered(&mut zero);
        Value::Float(0.0).put_ordered(&mut zero);
        assert_eq!(zero[0], zero[1]);
    }
}
