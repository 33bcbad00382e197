//! Calls of functions of the table: the words of the arguments become values, and the result words
//! again.
//!
//! Cost: a function that makes no new text allocates nothing, for calls of up to [`ARGS`] arguments;
//! a text that the view has not met before is added to its dictionary.

use alloc::string::String;
use alloc::vec::Vec;

use halcyon_value::functions::{Answer, Call};
use halcyon_value::{Type as ValueType, ValueRef, float};

use crate::dictionary::Dictionary;
use crate::error::EvalError;
use crate::program::Type;
use crate::value::{Environment, Value};

/// Arguments for which a call has room without allocating.
const ARGS: usize = 4;

/// Returns the value of a call. `words`: the words of all arguments, one after the other.
///
/// Errors: those of the function; an argument or a result that its type does not hold.
pub fn call(call: &Call, words: &[u64], env: &mut Environment) -> Result<Value, EvalError> {
    // The buffer is taken out, since the arguments are lent by the dictionary.
    let mut text = core::mem::take(&mut env.text);
    text.clear();
    let found = found(call, words, &env.dictionary, &mut text);
    let result = match found {
        Ok(Found::Value(value)) => Ok(value),
        Ok(Found::Text) => Ok(Value::Int(env.dictionary.intern(&text))),
        Err(error) => Err(error),
    };
    env.text = text;
    result
}

/// The result of a call, in a form that borrows nothing from the environment.
enum Found {
    Value(Value),
    /// The text in the environment's buffer.
    Text,
}

fn found(
    call: &Call,
    words: &[u64],
    dictionary: &Dictionary,
    text: &mut String,
) -> Result<Found, EvalError> {
    let (mut few, mut many) = ([ValueRef::Null; ARGS], Vec::new());
    let args = match few.get_mut(..call.args().len()) {
        Some(few) => few,
        None => {
            many.resize(call.args().len(), ValueRef::Null);
            &mut many[..]
        }
    };
    let mut rest = words;
    for (arg, ty) in args.iter_mut().zip(call.args()) {
        let words = Type::of(*ty).expect("words hold arguments (Program::check)");
        *arg = value_of(*ty, Value::take(words, &mut rest), dictionary)?;
    }
    let made;
    let value = match call.eval(args, text)? {
        Answer::Written => return Ok(Found::Text),
        Answer::Value(value) => value,
        Answer::Made(value) => {
            made = value;
            made.as_ref()
        }
    };
    let ValueRef::Text(part) = value else {
        return words_of(call.result(), value).map(Found::Value);
    };
    Ok(match dictionary.number(part) {
        Some(number) => Found::Value(Value::Int(number)),
        None => {
            text.clear();
            text.push_str(part);
            Found::Text
        }
    })
}

/// Returns the value of a type that some words stand for.
///
/// Errors: operations on integers are 64 bits wide, so a narrower argument may not fit its type.
fn value_of(
    ty: ValueType,
    value: Value,
    dictionary: &Dictionary,
) -> Result<ValueRef<'_>, EvalError> {
    if value.is_null() {
        return Ok(ValueRef::Null);
    }
    let narrow = |value: i64| i32::try_from(value).map_err(|_| EvalError::Overflow);
    Ok(match (ty, value) {
        (ValueType::Bool, Value::Int(value)) => ValueRef::Bool(value != 0),
        (ValueType::Int16, Value::Int(value)) => {
            ValueRef::Int16(i16::try_from(value).map_err(|_| EvalError::Overflow)?)
        }
        (ValueType::Int32, Value::Int(value)) => ValueRef::Int32(narrow(value)?),
        (ValueType::Int64, Value::Int(value)) => ValueRef::Int64(value),
        (ValueType::Date, Value::Int(value)) => ValueRef::Date(narrow(value)?),
        (ValueType::Time, Value::Int(value)) => ValueRef::Time(value),
        (ValueType::Timestamp, Value::Int(value)) => ValueRef::Timestamp(value),
        (ValueType::TimestampTz, Value::Int(value)) => ValueRef::TimestampTz(value),
        (ValueType::Text, Value::Int(number)) => ValueRef::Text(dictionary.text(number)),
        (ValueType::Decimal { .. }, Value::Int(value)) => ValueRef::Decimal(value.into()),
        (ValueType::Decimal { .. }, Value::Wide(value)) => ValueRef::Decimal(value),
        (ValueType::Float32, Value::Float(value)) => ValueRef::Float32(float::to_single(value)?),
        (ValueType::Float64, Value::Float(value)) => ValueRef::Float64(value),
        (ty, value) => unreachable!("{value:?} as {ty} (Program::check)"),
    })
}

/// Returns the words of a value other than text. Errors: the value is the mark of NULL.
fn words_of(ty: ValueType, value: ValueRef<'_>) -> Result<Value, EvalError> {
    let words = Type::of(ty).expect("words hold the result (Program::check)");
    let value = match value {
        ValueRef::Null => return Ok(Value::null(words)),
        ValueRef::Bool(value) => Value::Int(value.into()),
        ValueRef::Int16(value) => Value::Int(value.into()),
        ValueRef::Int32(value) | ValueRef::Date(value) => Value::Int(value.into()),
        ValueRef::Int64(value)
        | ValueRef::Time(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value) => Value::Int(value),
        ValueRef::Decimal(value) if words == Type::Int => {
            Value::Int(i64::try_from(value).map_err(|_| EvalError::Overflow)?)
        }
        ValueRef::Decimal(value) => Value::Wide(value),
        ValueRef::Float32(value) => Value::Float(float::canonical(value.into())),
        ValueRef::Float64(value) => Value::Float(float::canonical(value)),
        other => unreachable!("{other:?} as {ty} (Program::check)"),
    };
    if value.is_null() { Err(EvalError::Overflow) } else { Ok(value) }
}
