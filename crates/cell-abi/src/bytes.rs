//! Bytes of values: numbers, lists, strings, structures and choices.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How deep expressions and steps may be nested: executors and checks recurse, and a cell's stack is
/// small.
pub const DEPTH_MAX: u32 = 128;

/// The bytes are no program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within the program.
    Short,
    /// Bytes are left behind the program.
    Long,
    /// A byte that says which of several things follows has no meaning.
    Choice(&'static str),
    /// A name or a constant is no UTF-8.
    Text,
    /// Expressions or steps are nested deeper than [`DEPTH_MAX`].
    Deep,
    /// The table of functions does not have this one.
    Function(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the program's bytes end too early"),
            Self::Long => f.write_str("bytes are left behind the program"),
            Self::Choice(of) => write!(f, "a byte stands for no {of}"),
            Self::Text => f.write_str("a text of the program is no UTF-8"),
            Self::Deep => write!(f, "expressions are nested deeper than {DEPTH_MAX}"),
            Self::Function(name) => write!(f, "cells have no function {name}"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Bytes to be read, from front to back.
pub struct Input<'b> {
    bytes: &'b [u8],
    depth: u32,
}

/// Bytes that are being written.
#[derive(Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    depth: u32,
    /// The deepest nesting so far.
    pub deepest: u32,
}

impl<'b> Input<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Input { bytes, depth: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Short)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// A number of items, each of which takes a byte at least.
    fn count(&mut self) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        if count > self.bytes.len() { Err(DecodeError::Short) } else { Ok(count) }
    }

    /// Reads something that is nested within another of its kind.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(DecodeError::Deep);
        }
        let result = read(self);
        self.depth -= 1;
        result
    }
}

impl Output {
    /// Writes something that is nested within another of its kind.
    pub fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        write(self);
        self.depth -= 1;
    }

    fn count(&mut self, count: usize) {
        // A list of more than four billion items does not fit into memory that programs take.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&count.to_le_bytes());
    }
}

/// Values that have bytes.
pub trait Wire: Sized {
    /// Appends the value's bytes.
    fn put(&self, out: &mut Output);
    /// Reads a value. Errors: the bytes are none of such a value.
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Output) {
                out.bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                Ok(<$number>::from_le_bytes(input.take()?))
            }
        }
    )*};
}

numbers!(u8, i8, u16, u32, i64, u64, i128);

impl Wire for bool {
    fn put(&self, out: &mut Output) {
        u8::from(*self).put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Choice("bool")),
        }
    }
}

impl Wire for f64 {
    fn put(&self, out: &mut Output) {
        self.to_bits().put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        u64::take(input).map(f64::from_bits)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Output) {
        out.count(self.len());
        out.bytes.extend_from_slice(self.as_bytes());
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let (text, rest) = {
            let count = input.count()?;
            input.bytes.split_at(count)
        };
        input.bytes = rest;
        core::str::from_utf8(text).map(String::from).map_err(|_| DecodeError::Text)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Output) {
        out.count(self.len());
        self.iter().for_each(|item| item.put(out));
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        // No memory is taken ahead: an item in memory may be much larger than its bytes.
        let mut items = Vec::new();
        for _ in 0..input.count()? {
            items.push(T::take(input)?);
        }
        Ok(items)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Output) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Output) {
        (**self).put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        T::take(input).map(Box::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Output) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

/// A structure: its fields, one after the other.
macro_rules! structure {
    ($name:ident { $($field:ident),* }) => {
        impl Wire for $name {
            fn put(&self, out: &mut Output) {
                $(self.$field.put(out);)*
            }
            fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                Ok($name { $($field: Wire::take(input)?),* })
            }
        }
    };
}

/// A number with a type of its own.
macro_rules! newtype {
    ($($name:ident),*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Output) {
                self.0.put(out);
            }
            fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                Wire::take(input).map($name)
            }
        }
    )*};
}

/// A choice without further parts: a byte.
macro_rules! choice {
    ($name:ident { $($number:literal $variant:ident),* }) => {
        impl Wire for $name {
            fn put(&self, out: &mut Output) {
                let number: u8 = match self { $($name::$variant => $number),* };
                number.put(out);
            }
            fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                match u8::take(input)? {
                    $($number => Ok($name::$variant),)*
                    _ => Err(DecodeError::Choice(stringify!($name))),
                }
            }
        }
    };
}

/// A choice with parts: a byte, then the parts.
macro_rules! choices {
    ($name:ident {
        $($number:literal $variant:ident $(($($part:ident),*))? $({$($field:ident),*})?),* $(,)?
    }) => {
        impl Wire for $name {
            fn put(&self, out: &mut Output) {
                out.nested(|out| match self {
                    $($name::$variant $(($($part),*))? $({$($field),*})? => {
                        let number: u8 = $number;
                        number.put(out);
                        $($($part.put(out);)*)?
                        $($($field.put(out);)*)?
                    })*
                });
            }
            fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                input.nested(|input| match u8::take(input)? {
                    $($number => {
                        $($(let $part = Wire::take(input)?;)*)?
                        $($(let $field = Wire::take(input)?;)*)?
                        Ok($name::$variant $(($($part),*))? $({$($field),*})?)
                    })*
                    _ => Err(DecodeError::Choice(stringify!($name))),
                })
            }
        }
    };
}

pub(crate) use {choice, choices, newtype, structure};
