//! SQL values as the words of trigger programs, and back.
//!
//! A column's type alone decides the words of its values (`halcyon_delta::Encoding` says the same
//! for Arrow's types): integers, dates, times, booleans and decimals of up to 18 digits are one
//! word, longer decimals two, floating-point numbers their bits, strings their number in the view's
//! dictionary.

use halcyon_store::{Type as ColumnType, ValueRef};
use halcyon_view::program::{NULL_FLOAT_BITS, NULL_INT, NULL_WIDE, Type};

use crate::engine::{Texts, ViewEngine};
use crate::error::ViewError;

/// Appends a value's words to `words`. A `Text` gets a number in the engine's dictionary.
///
/// Errors: [`ViewError::OutOfRange`] for the one integer that stands for NULL;
/// [`ViewError::UnsupportedType`] for values that programs cannot hold; those of a cell that has to
/// be asked for a number.
#[inline]
pub(crate) fn encode(
    engine: &mut ViewEngine,
    ty: Type,
    value: ValueRef<'_>,
    words: &mut Vec<u64>,
) -> Result<(), ViewError> {
    let number = match value {
        ValueRef::Null => {
            match ty {
                Type::Int => words.push(NULL_INT.cast_unsigned()),
                Type::Float => words.push(NULL_FLOAT_BITS),
                Type::Wide => push_wide(NULL_WIDE, words),
            }
            return Ok(());
        }
        ValueRef::Float64(value) => {
            words.push(value.to_bits());
            return Ok(());
        }
        ValueRef::Float32(value) => {
            words.push(f64::from(value).to_bits());
            return Ok(());
        }
        ValueRef::Decimal(value) if ty == Type::Wide => {
            push_wide(value, words);
            return Ok(());
        }
        ValueRef::Decimal(value) => i64::try_from(value).map_err(|_| ViewError::OutOfRange)?,
        ValueRef::Int64(value) => value,
        ValueRef::Int32(value) => value.into(),
        ValueRef::Int16(value) => value.into(),
        ValueRef::Bool(value) => value.into(),
        ValueRef::Date(value) => value.into(),
        ValueRef::Time(value) | ValueRef::Timestamp(value) | ValueRef::TimestampTz(value) => value,
        ValueRef::Text(text) => engine.intern(text)?,
        ValueRef::Bytes(_) | ValueRef::Interval(_) | ValueRef::Uuid(_) => {
            return Err(ViewError::UnsupportedType);
        }
    };
    if number == NULL_INT {
        return Err(ViewError::OutOfRange);
    }
    words.push(number.cast_unsigned());
    Ok(())
}

fn push_wide(value: i128, words: &mut Vec<u64>) {
    words.extend([value as u64, (value >> 64) as u64]);
}

/// A column of a view's rows, with the place of its words in a row of the program.
#[derive(Clone, Copy, Debug)]
pub struct ViewColumn {
    /// Type of the column's words.
    pub ty: Type,
    /// Type of the column in the partition.
    pub stored: ColumnType,
    /// Position of the column's first word.
    pub word: usize,
}

impl ViewColumn {
    /// The value in a row's words. Errors: [`ViewError::OutOfRange`] for a sum that the column's
    /// type cannot hold, and for the number of no string.
    #[inline]
    pub(crate) fn decode<'a>(
        &self,
        texts: Texts<'a>,
        row: &[u64],
    ) -> Result<ValueRef<'a>, ViewError> {
        let number: i128 = match self.ty {
            Type::Float => {
                let bits = row[self.word];
                return Ok(match (bits == NULL_FLOAT_BITS, self.stored) {
                    (true, _) => ValueRef::Null,
                    (false, ColumnType::Float32) => ValueRef::Float32(f64::from_bits(bits) as f32),
                    (false, _) => ValueRef::Float64(f64::from_bits(bits)),
                });
            }
            Type::Int => match row[self.word].cast_signed() {
                NULL_INT => return Ok(ValueRef::Null),
                number => number.into(),
            },
            Type::Wide => {
                let number = i128::from(row[self.word]) | i128::from(row[self.word + 1]) << 64;
                match number {
                    NULL_WIDE => return Ok(ValueRef::Null),
                    number => number,
                }
            }
        };
        self.of_number(texts, number)
    }

    /// The value that an integer word stands for.
    #[inline]
    fn of_number<'a>(&self, texts: Texts<'a>, number: i128) -> Result<ValueRef<'a>, ViewError> {
        let word = || i64::try_from(number).map_err(|_| ViewError::OutOfRange);
        let half = || i32::try_from(number).map_err(|_| ViewError::OutOfRange);
        Ok(match self.stored {
            ColumnType::Decimal { .. } => ValueRef::Decimal(number),
            ColumnType::Int64 => ValueRef::Int64(word()?),
            ColumnType::Int32 => ValueRef::Int32(half()?),
            ColumnType::Int16 => {
                ValueRef::Int16(i16::try_from(number).map_err(|_| ViewError::OutOfRange)?)
            }
            ColumnType::Bool => ValueRef::Bool(number != 0),
            ColumnType::Date => ValueRef::Date(half()?),
            ColumnType::Time => ValueRef::Time(word()?),
            ColumnType::Timestamp => ValueRef::Timestamp(word()?),
            ColumnType::TimestampTz => ValueRef::TimestampTz(word()?),
            ColumnType::Text => ValueRef::Text(texts.text(word()?)?),
            ColumnType::Float32 => ValueRef::Float32(number as f32),
            ColumnType::Float64 => ValueRef::Float64(number as f64),
            ColumnType::Bytes | ColumnType::Interval | ColumnType::Uuid => {
                unreachable!("no program has a column of type {:?}", self.stored)
            }
        })
    }

    /// The words of this column in a row.
    #[inline]
    pub(crate) fn words<'r>(&self, row: &'r [u64]) -> &'r [u64] {
        &row[self.word..self.word + self.ty.words()]
    }
}
