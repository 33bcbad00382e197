//! The table of scalar functions: names, arguments, result, errors, and what a call means on values.
//!
//! A row holds all that evaluators need to know of a function of its arguments. Point plans,
//! analytical plans, materialized views and the guide's page use it; an evaluator that has quicker
//! code of its own for some rows is compared with the table by random calls. Functions that depend
//! on the execution (the clock, the session, sequences) or on a catalog are not in the table.
//!
//! Words: a *row* ([`Function`]) takes arguments of certain kinds; several rows may share a name
//! (`round` of doubles and of decimals). A [`Call`] is a row with the types of its arguments and of
//! its result; evaluators hold calls, and [`Call::eval`] gives their values.
//!
//! Invariants, checked by `rows_are_sound`: names are lower case; two rows of one name differ in the
//! arguments that they take; every row has a purpose.
//! Cost: a call reads its arguments' tags, and allocates nothing but what the row's own code does;
//! new text goes to the caller's buffer.

pub mod age;
mod bytes;
mod division;
#[cfg(feature = "math")]
mod doubles;
mod hashes;
mod isfinite;
mod justify;
pub mod make;
mod moments;
mod nulls;
mod overlay;
mod scale;
mod table;
#[cfg(test)]
mod tests;
mod to_char;
mod to_date;
mod to_number;
mod width_bucket;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::error::{Refusal, Result, ValueError};
use crate::integer::widen;
use crate::types::Type;
use crate::value::{Value, ValueRef};

/// The kind of values that a function's argument may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Texts.
    Text,
    /// SMALLINT or INTEGER, converted to INTEGER.
    Integer,
    /// An integer, converted to BIGINT.
    BigInt,
    /// An integer, a float or a decimal, unconverted.
    Number,
    /// A decimal, unconverted.
    Decimal,
    /// An integer, unconverted.
    Whole,
    /// A decimal, unconverted, or an integer, converted to a decimal.
    Exact,
    /// REAL or DOUBLE PRECISION, unconverted.
    Float,
    /// Any number, converted to DOUBLE PRECISION.
    Double,
    /// DATE, TIME, TIMESTAMP, TIMESTAMPTZ or INTERVAL, unconverted.
    Moment,
    /// TIMESTAMP or TIMESTAMPTZ, unconverted.
    Timestamp,
    /// TIME.
    Time,
    /// INTERVAL.
    Interval,
    /// TIMESTAMP, or DATE converted to the day's midnight.
    Local,
    /// BYTEA.
    Bytes,
    /// Any type, of each argument its own.
    Each,
    /// Any type; all such arguments of a call have the same one.
    Any,
}

impl ArgumentKind {
    /// The type to which an argument of type `ty` is converted. `None` if the kind does not take
    /// the type.
    pub fn brings(self, ty: Type) -> Option<Type> {
        use Type as T;
        let is_number = ty.is_integer() || ty.is_float() || ty.is_decimal();
        let is_stamp = matches!(ty, T::Timestamp | T::TimestampTz);
        let (takes, to) = match self {
            ArgumentKind::Text => (ty == T::Text, ty),
            ArgumentKind::Integer => (matches!(ty, T::Int16 | T::Int32), T::Int32),
            ArgumentKind::BigInt => (ty.is_integer(), T::Int64),
            ArgumentKind::Number => (is_number, ty),
            ArgumentKind::Decimal => (ty.is_decimal(), ty),
            ArgumentKind::Float => (ty.is_float(), ty),
            ArgumentKind::Double => (is_number, T::Float64),
            ArgumentKind::Moment => (is_stamp || matches!(ty, T::Date | T::Time | T::Interval), ty),
            ArgumentKind::Timestamp => (is_stamp, ty),
            ArgumentKind::Time => (ty == T::Time, ty),
            ArgumentKind::Interval => (ty == T::Interval, ty),
            ArgumentKind::Whole => (ty.is_integer(), ty),
            ArgumentKind::Exact => (ty.is_integer() || ty.is_decimal(), exact(ty)),
            ArgumentKind::Local => (matches!(ty, T::Timestamp | T::Date), T::Timestamp),
            ArgumentKind::Bytes => (ty == T::Bytes, ty),
            ArgumentKind::Any | ArgumentKind::Each => (true, ty),
        };
        takes.then_some(to)
    }

    /// The type of an argument without a type of its own: a NULL, a parameter, a quoted constant.
    pub fn usual(self) -> Type {
        match self {
            ArgumentKind::Text | ArgumentKind::Any | ArgumentKind::Each => Type::Text,
            ArgumentKind::Integer => Type::Int32,
            ArgumentKind::BigInt => Type::Int64,
            ArgumentKind::Number | ArgumentKind::Float | ArgumentKind::Double => Type::Float64,
            ArgumentKind::Decimal | ArgumentKind::Exact => {
                Type::Decimal { precision: 38, scale: 0 }
            }
            ArgumentKind::Whole => Type::Int64,
            ArgumentKind::Bytes => Type::Bytes,
            ArgumentKind::Moment | ArgumentKind::Timestamp | ArgumentKind::Local => Type::Timestamp,
            ArgumentKind::Time => Type::Time,
            ArgumentKind::Interval => Type::Interval,
        }
    }

    /// Name of the kind in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentKind::Text => "text",
            ArgumentKind::Integer => "integer",
            ArgumentKind::BigInt => "bigint",
            ArgumentKind::Number => "number",
            ArgumentKind::Decimal => "numeric",
            ArgumentKind::Float => "real or double precision",
            ArgumentKind::Double => "double precision",
            ArgumentKind::Moment => "date, time, timestamp or interval",
            ArgumentKind::Timestamp => "timestamp",
            ArgumentKind::Time => "time",
            ArgumentKind::Interval => "interval",
            ArgumentKind::Whole => "smallint, integer or bigint",
            ArgumentKind::Exact => "numeric or integer",
            ArgumentKind::Local => "timestamp or date",
            ArgumentKind::Bytes => "bytea",
            ArgumentKind::Any | ArgumentKind::Each => "any",
        }
    }
}

/// The decimal type of a decimal, or of an integer of any size.
fn exact(ty: Type) -> Type {
    match ty {
        Type::Int16 => Type::Decimal { precision: 5, scale: 0 },
        Type::Int32 => Type::Decimal { precision: 10, scale: 0 },
        Type::Int64 => Type::Decimal { precision: 19, scale: 0 },
        ty => ty,
    }
}

/// The rule for the type of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Always this type.
    Type(Type),
    /// The type of this argument, counted from 0.
    Argument(usize),
    /// A decimal with as many places as the argument that has most.
    Widest,
    /// A decimal with at most as many places as the first argument. The call's planner decides how
    /// many, since it may know the value of the second argument.
    Places,
}

/// Volatility: how long calls with the same arguments keep the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// For ever.
    Immutable,
    /// Within one statement.
    Stable,
    /// Not even within one statement.
    Volatile,
}

/// The arguments that a function takes: how many, and of which kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// The kinds of the arguments; with `any_number`, the one kind of all of them.
    pub kinds: &'static [ArgumentKind],
    /// Number of arguments at the end that may be left out.
    pub optional: usize,
    /// Whether there may be any number of arguments from one on, all of the one kind.
    pub any_number: bool,
}

impl Takes {
    /// The kind of an argument, counted from 0.
    pub fn kind(&self, at: usize) -> ArgumentKind {
        self.kinds[if self.any_number { 0 } else { at }]
    }

    /// Whether a call may have this many arguments.
    pub fn count(&self, count: usize) -> bool {
        if self.any_number {
            return count > 0;
        }
        (self.kinds.len() - self.optional..=self.kinds.len()).contains(&count)
    }
}

/// The rule for arguments of these kinds, none to be left out.
const fn takes(kinds: &'static [ArgumentKind]) -> Takes {
    Takes { kinds, optional: 0, any_number: false }
}

/// The rule for arguments of these kinds, of which the last `optional` may be left out.
const fn at_least(optional: usize, kinds: &'static [ArgumentKind]) -> Takes {
    Takes { kinds, optional, any_number: false }
}

/// The rule for one argument or more, all of one kind.
const fn any_number(kinds: &'static [ArgumentKind; 1]) -> Takes {
    Takes { kinds, optional: 0, any_number: true }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// A value of a fixed size, or a part of an argument.
    Value(ValueRef<'a>),
    /// A text, which has been written to the caller's buffer.
    Written,
    /// Any other new value: bytes.
    Made(Value),
}

/// The evaluation of a function, for values of its arguments' types that are not NULL if the
/// function is strict.
pub type Eval = for<'a> fn(&Args<'_, 'a>, &mut dyn Write) -> Result<Answer<'a>>;

/// A function's meaning: a general evaluation, or a Rust function that evaluators inline in their
/// loops.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// Over any values. A new text is written to the buffer.
    Values(Eval),
    /// From one DOUBLE PRECISION to another.
    Double(fn(f64) -> Result<f64>),
    /// From two DOUBLE PRECISION to one.
    Doubles(fn(f64, f64) -> Result<f64>),
}

/// A scalar function: a row of the table.
pub struct Function {
    /// Names of the function; the first is the one that plans show.
    pub names: &'static [&'static str],
    /// What the function returns: one sentence, for the guide.
    pub purpose: &'static str,
    /// Arguments of the function.
    pub takes: Takes,
    /// The rule for the type of its result.
    pub gives: Gives,
    /// Whether NULL in any argument gives NULL; the meaning is not evaluated then.
    pub strict: bool,
    /// How long calls with the same arguments keep the same value.
    pub volatility: Volatility,
    /// The errors that only this function has.
    pub errors: &'static [Refusal],
    /// The evaluation of the function.
    pub meaning: Meaning,
}

impl Function {
    /// A strict, immutable function of values.
    pub const fn new(
        names: &'static [&'static str],
        purpose: &'static str,
        takes: Takes,
        gives: Gives,
        eval: Eval,
    ) -> Self {
        Function {
            names,
            purpose,
            takes,
            gives,
            strict: true,
            volatility: Volatility::Immutable,
            errors: &[],
            meaning: Meaning::Values(eval),
        }
    }

    /// The function as one that is also evaluated when an argument is NULL.
    const fn of_null(mut self) -> Self {
        self.strict = false;
        self
    }

    /// The name that plans show.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The types to which arguments of these types are converted; `None` stands for an argument
    /// without a type. The result `None` says that the function does not take the arguments.
    pub fn brings(&self, args: &[Option<Type>]) -> Option<Vec<Type>> {
        if !self.takes.count(args.len()) {
            return None;
        }
        // Arguments that may have any type get that of the first argument with a type.
        let any = args.iter().flatten().next().copied();
        let one = |(at, ty): (usize, &Option<Type>)| match (self.takes.kind(at), ty) {
            (ArgumentKind::Any, ty) => {
                let any = any.unwrap_or(ArgumentKind::Any.usual());
                ty.is_none_or(|ty| ty == any).then_some(any)
            }
            (kind, None) => Some(kind.usual()),
            (kind, Some(ty)) => kind.brings(*ty),
        };
        args.iter().enumerate().map(one).collect()
    }

    /// The type of the result for arguments of these types.
    fn result(&self, args: &[Type]) -> Type {
        match self.gives {
            Gives::Type(ty) => ty,
            Gives::Argument(at) => args[at],
            Gives::Places => args[0],
            Gives::Widest => {
                let scale = |ty: &Type| match ty {
                    Type::Decimal { scale, .. } => *scale,
                    _ => 0,
                };
                Type::Decimal { precision: 38, scale: args.iter().map(scale).max().unwrap_or(0) }
            }
        }
    }
}

impl PartialEq for Function {
    /// Compares rows by their addresses.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl core::fmt::Debug for Function {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// All tables but that of functions which need the platform's mathematics: one per file.
static TABLES: &[&[Function]] = &[
    table::FUNCTIONS,
    overlay::FUNCTIONS,
    nulls::FUNCTIONS,
    division::FUNCTIONS,
    scale::FUNCTIONS,
    hashes::FUNCTIONS,
    width_bucket::FUNCTIONS,
    bytes::FUNCTIONS,
    to_char::FUNCTIONS,
    to_date::FUNCTIONS,
    to_number::FUNCTIONS,
    age::FUNCTIONS,
    isfinite::FUNCTIONS,
    justify::FUNCTIONS,
    make::FUNCTIONS,
    moments::FUNCTIONS,
];

/// All functions, in the order of the guide.
pub fn all() -> impl Iterator<Item = &'static Function> {
    let rows = TABLES.iter().copied().flatten();
    #[cfg(feature = "math")]
    let rows = rows.chain(doubles::FUNCTIONS);
    rows
}

/// The functions of a name, which must be in lower case.
pub fn named(name: &str) -> impl Iterator<Item = &'static Function> {
    all().filter(move |function| function.names.contains(&name))
}

/// A function with the types of its arguments and of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    function: &'static Function,
    args: Vec<Type>,
    result: Type,
}

impl Call {
    /// A call by name. Arguments of other types than [`Call::args`] must be converted to these
    /// first; `None` stands for an argument without a type. A function that takes the arguments
    /// unconverted is preferred.
    pub fn named(name: &str, args: &[Option<Type>]) -> Option<Call> {
        let all = || named(name).filter_map(|function| Call::of(function, args));
        let as_they_are = |call: &Call| {
            args.iter()
                .zip(&call.args)
                .all(|(given, brought)| given.is_none_or(|ty| ty == *brought))
        };
        all().find(as_they_are).or_else(|| all().next())
    }

    /// A call of one function; about arguments see [`Call::named`].
    pub fn of(function: &'static Function, args: &[Option<Type>]) -> Option<Call> {
        let args = function.brings(args)?;
        let result = function.result(&args);
        Some(Call { function, args, result })
    }

    /// A call by name that takes the arguments unconverted and returns `result`. `None` if no
    /// function does.
    pub fn exact(name: &str, args: &[Type], result: Type) -> Option<Call> {
        let given: Vec<Option<Type>> = args.iter().copied().map(Some).collect();
        let call = Call::named(name, &given)?;
        let fits =
            call.result == result || call.function.gives == Gives::Places && result.is_decimal();
        (fits && call.args == args).then_some(Call { result, ..call })
    }

    /// The function that is called.
    pub fn function(&self) -> &'static Function {
        self.function
    }

    /// The types of the arguments.
    pub fn args(&self) -> &[Type] {
        &self.args
    }

    /// The type of the result.
    pub fn result(&self) -> Type {
        self.result
    }

    /// Evaluates the call for values of [`Call::args`]. `text`: the buffer for a new text.
    ///
    /// Errors: those of the function; [`ValueError::Mismatch`] for values of other types.
    #[inline]
    pub fn eval<'a>(&self, args: &[ValueRef<'a>], text: &mut dyn Write) -> Result<Answer<'a>> {
        if self.function.strict && args.iter().any(ValueRef::is_null) {
            return Ok(Answer::Value(ValueRef::Null));
        }
        let args = Args { values: args, call: self };
        let double = |value| Ok(Answer::Value(ValueRef::Float64(value)));
        match self.function.meaning {
            Meaning::Values(eval) => eval(&args, text),
            Meaning::Double(eval) => double(eval(args.double(0)?)?),
            Meaning::Doubles(eval) => double(eval(args.double(0)?, args.double(1)?)?),
        }
    }

    /// The value of a single call; it allocates. Errors: as [`Call::eval`].
    pub fn value(&self, args: &[ValueRef<'_>]) -> Result<Value> {
        let taken = args.len() == self.args.len()
            && self.args.iter().zip(args).all(|(ty, value)| ty.holds(value));
        if !taken {
            return Err(ValueError::Mismatch(self.function.name()));
        }
        let mut text = String::new();
        Ok(match self.eval(args, &mut text)? {
            Answer::Value(value) => value.to_owned(),
            Answer::Written => Value::Text(text),
            Answer::Made(value) => value,
        })
    }
}

/// The arguments of a call, as a function reads them.
pub struct Args<'c, 'a> {
    values: &'c [ValueRef<'a>],
    call: &'c Call,
}

impl<'c, 'a> Args<'c, 'a> {
    fn wrong(&self) -> ValueError {
        ValueError::Mismatch(self.call.function.name())
    }

    /// All arguments.
    pub fn values(&self) -> &'c [ValueRef<'a>] {
        self.values
    }

    /// Whether an optional argument is present.
    pub fn has(&self, at: usize) -> bool {
        at < self.values.len()
    }

    /// The argument at a position.
    pub fn value(&self, at: usize) -> ValueRef<'a> {
        self.values[at]
    }

    /// An argument that is text.
    pub fn text(&self, at: usize) -> Result<&'a str> {
        match self.values.get(at) {
            Some(ValueRef::Text(text)) => Ok(text),
            _ => Err(self.wrong()),
        }
    }

    /// An argument that is an integer.
    pub fn integer(&self, at: usize) -> Result<i64> {
        self.values.get(at).and_then(|value| widen(*value)).ok_or_else(|| self.wrong())
    }

    /// An argument that is DOUBLE PRECISION.
    pub fn double(&self, at: usize) -> Result<f64> {
        match self.values.get(at) {
            Some(ValueRef::Float64(value)) => Ok(*value),
            _ => Err(self.wrong()),
        }
    }

    /// An argument that is a decimal, unscaled.
    pub fn decimal(&self, at: usize) -> Result<i128> {
        match self.values.get(at) {
            Some(ValueRef::Decimal(value)) => Ok(*value),
            _ => Err(self.wrong()),
        }
    }

    /// Number of digits behind the point of a decimal argument; 0 for others.
    pub fn scale(&self, at: usize) -> i8 {
        match self.call.args[at] {
            Type::Decimal { scale, .. } => scale,
            _ => 0,
        }
    }

    /// Most digits of a decimal argument; 0 for others.
    pub fn precision(&self, at: usize) -> u8 {
        match self.call.args[at] {
            Type::Decimal { precision, .. } => precision,
            _ => 0,
        }
    }

    /// The type of the result.
    pub fn result(&self) -> Type {
        self.call.result
    }
}

/// Writes text to the caller's buffer.
fn put(buffer: &mut dyn Write, text: &str) {
    buffer.write_str(text).expect("memory takes what is written");
}

/// Writes a text and answers with it.
fn written<'a>(buffer: &mut dyn Write, text: &str) -> Result<Answer<'a>> {
    put(buffer, text);
    Ok(Answer::Written)
}
