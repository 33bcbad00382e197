//! SQL values as the words of trigger programs, and back.
//!
//! What a value becomes follows from the SQL type alone (`halcyon_delta::Encoding` says the same of
//! Arrow's types): integers, dates, times, booleans and decimals of up to 18 digits are one word, longer
//! decimals two, floating-point numbers their bits, strings their number in the view's dictionary.

use halcyon_store::ValueRef;
use halcyon_view::Engine;
use halcyon_view::program::{NULL_FLOAT_BITS, NULL_INT, NULL_WIDE, Type};

use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// Appends a value's words. `Text` gets a number in the engine's dictionary.
///
/// Errors: 22003 for the one integer that stands for NULL; 0A000 for what no program can hold.
#[inline]
pub(super) fn encode(
    engine: &mut Engine,
    ty: Type,
    value: ValueRef<'_>,
    words: &mut Vec<u64>,
) -> Result<()> {
    let number = match value {
        ValueRef::Null => {
            match ty {
                Type::Int => words.push(NULL_INT as u64),
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
        ValueRef::Decimal(value) => i64::try_from(value).map_err(|_| out_of_range())?,
        ValueRef::Int64(value) => value,
        ValueRef::Int32(value) => value.into(),
        ValueRef::Int16(value) => value.into(),
        ValueRef::Bool(value) => value.into(),
        ValueRef::Date(value) => value.into(),
        ValueRef::Time(value) | ValueRef::Timestamp(value) | ValueRef::TimestampTz(value) => value,
        ValueRef::Text(text) => engine.intern(text),
        ValueRef::Bytes(_) | ValueRef::Interval(_) | ValueRef::Uuid(_) => {
            return Err(SqlError::unsupported("this type of column in a materialized view"));
        }
    };
    if number == NULL_INT {
        return Err(out_of_range());
    }
    words.push(number as u64);
    Ok(())
}

fn push_wide(value: i128, words: &mut Vec<u64>) {
    words.extend([value as u64, (value >> 64) as u64]);
}

/// 22003.
fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range in a materialized view")
}

/// A column of a view's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// Type of its words.
    pub ty: Type,
    /// Type of the column.
    pub sql: SqlType,
    /// Position of its first word.
    pub word: usize,
}

impl Output {
    /// The value in a row's words. Errors: 22003 for sums that the column's type does not hold.
    #[inline]
    pub fn decode<'a>(&self, engine: &'a Engine, row: &[u64]) -> Result<ValueRef<'a>> {
        let number: i128 = match self.ty {
            Type::Float => {
                let bits = row[self.word];
                return Ok(match (bits == NULL_FLOAT_BITS, self.sql) {
                    (true, _) => ValueRef::Null,
                    (false, SqlType::Real) => ValueRef::Float32(f64::from_bits(bits) as f32),
                    (false, _) => ValueRef::Float64(f64::from_bits(bits)),
                });
            }
            Type::Int => match row[self.word] as i64 {
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
        let word = || i64::try_from(number).map_err(|_| out_of_range());
        Ok(match self.sql {
            SqlType::Decimal { .. } => ValueRef::Decimal(number),
            SqlType::BigInt => ValueRef::Int64(word()?),
            SqlType::Integer => ValueRef::Int32(i32::try_from(number).map_err(|_| out_of_range())?),
            SqlType::SmallInt => {
                ValueRef::Int16(i16::try_from(number).map_err(|_| out_of_range())?)
            }
            SqlType::Boolean => ValueRef::Bool(number != 0),
            SqlType::Date => ValueRef::Date(i32::try_from(number).map_err(|_| out_of_range())?),
            SqlType::Time => ValueRef::Time(word()?),
            SqlType::Timestamp => ValueRef::Timestamp(word()?),
            SqlType::TimestampTz => ValueRef::TimestampTz(word()?),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text => {
                ValueRef::Text(engine.dictionary().text(word()?))
            }
            SqlType::Real => ValueRef::Float32(number as f32),
            SqlType::Double => ValueRef::Float64(number as f64),
            SqlType::Bytea | SqlType::Interval | SqlType::Uuid => {
                unreachable!("no program has a column of type {}", self.sql)
            }
        })
    }

    /// The words of the column.
    #[inline]
    pub fn words<'r>(&self, row: &'r [u64]) -> &'r [u64] {
        &row[self.word..self.word + self.ty.words()]
    }
}
