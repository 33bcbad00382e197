//! The table of scalar functions: names, arguments, result, errors, and what a call means on values.
//!
//! A row is all that a function of its arguments takes. Point plans, analytical plans, materialized
//! views and the guide's page go by the row; an evaluator that has quicker code of its own for some
//! rows is compared with the table by random calls. What depends on the execution (the clock, the
//! session, sequences) or on a catalog is not here.
//!
//! Words: a *row* ([`Function`]) takes arguments of certain kinds; several rows may have one name
//! (`round` of doubles and of decimals). A [`Call`] is a row with the types of its arguments and of
//! its result, which an evaluator holds; [`Call::eval`] gives the value.
//!
//! Invariants, checked by `rows_are_sound`: names are lower case; two rows of one name differ in the
//! arguments that they take; every row has a purpose.
//! Cost: a call looks at its arguments' tags, and allocates nothing but what a row's own code does;
//! text that is made goes to the caller's buffer.

#[cfg(feature = "math")]
mod doubles;
mod table;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::error::{Refusal, Result, ValueError};
use crate::integer::widen;
use crate::types::Type;
use crate::value::{Value, ValueRef};

/// The kind of values that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Texts.
    Text,
    /// SMALLINT or INTEGER, brought to INTEGER.
    Integer,
    /// An integer, brought to BIGINT.
    BigInt,
    /// An integer, a float or a decimal, as it is.
    Number,
    /// A decimal, as it is.
    Decimal,
    /// REAL or DOUBLE PRECISION, as it is.
    Float,
    /// Any number, brought to DOUBLE PRECISION.
    Double,
    /// DATE, TIME, TIMESTAMP, TIMESTAMPTZ or INTERVAL, as it is.
    Moment,
    /// TIMESTAMP or TIMESTAMPTZ, as it is.
    Timestamp,
    /// TIME.
    Time,
    /// INTERVAL.
    Interval,
    /// Any type; all such arguments of a call have one.
    Any,
}

impl Kind {
    /// The type that an argument of type `ty` is brought to. `None`: the kind does not take it.
    pub fn brings(self, ty: Type) -> Option<Type> {
        use Type as T;
        let is_number = ty.is_integer() || ty.is_float() || ty.is_decimal();
        let is_stamp = matches!(ty, T::Timestamp | T::TimestampTz);
        let (takes, to) = match self {
            Kind::Text => (ty == T::Text, ty),
            Kind::Integer => (matches!(ty, T::Int16 | T::Int32), T::Int32),
            Kind::BigInt => (ty.is_integer(), T::Int64),
            Kind::Number => (is_number, ty),
            Kind::Decimal => (ty.is_decimal(), ty),
            Kind::Float => (ty.is_float(), ty),
            Kind::Double => (is_number, T::Float64),
            Kind::Moment => (is_stamp || matches!(ty, T::Date | T::Time | T::Interval), ty),
            Kind::Timestamp => (is_stamp, ty),
            Kind::Time => (ty == T::Time, ty),
            Kind::Interval => (ty == T::Interval, ty),
            Kind::Any => (true, ty),
        };
        takes.then_some(to)
    }

    /// The type of an argument that has none of its own: a NULL, a parameter, a quoted constant.
    pub fn usual(self) -> Type {
        match self {
            Kind::Text | Kind::Any => Type::Text,
            Kind::Integer => Type::Int32,
            Kind::BigInt => Type::Int64,
            Kind::Number | Kind::Float | Kind::Double => Type::Float64,
            Kind::Decimal => Type::Decimal { precision: 38, scale: 0 },
            Kind::Moment | Kind::Timestamp => Type::Timestamp,
            Kind::Time => Type::Time,
            Kind::Interval => Type::Interval,
        }
    }

    /// The kind as SQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::BigInt => "bigint",
            Kind::Number => "number",
            Kind::Decimal => "numeric",
            Kind::Float => "real or double precision",
            Kind::Double => "double precision",
            Kind::Moment => "date, time, timestamp or interval",
            Kind::Timestamp => "timestamp",
            Kind::Time => "time",
            Kind::Interval => "interval",
            Kind::Any => "any",
        }
    }
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Always this one.
    Type(Type),
    /// The type of this argument, counted from 0.
    Argument(usize),
    /// A decimal of at most the places of the first argument. How many is told by the planner of the
    /// call, which may know the value of the second.
    Places,
}

/// Whether calls with the same arguments have the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// Always.
    Immutable,
    /// Within one statement.
    Stable,
    /// Not even there.
    Volatile,
}

/// How many arguments a function takes, and of which kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// The kinds of the arguments; if there may be any number of them, of each.
    pub kinds: &'static [Kind],
    /// How many at the end may be left out.
    pub optional: usize,
    /// Any number of arguments from one on, all of the only kind.
    pub any_number: bool,
}

impl Takes {
    /// The kind of an argument, counted from 0.
    pub fn kind(&self, at: usize) -> Kind {
        self.kinds[if self.any_number { 0 } else { at }]
    }

    /// Whether there may be so many arguments.
    pub fn count(&self, count: usize) -> bool {
        if self.any_number {
            return count > 0;
        }
        (self.kinds.len() - self.optional..=self.kinds.len()).contains(&count)
    }
}

/// Takes arguments of these kinds.
const fn takes(kinds: &'static [Kind]) -> Takes {
    Takes { kinds, optional: 0, any_number: false }
}

/// Takes arguments of these kinds, of which so many at the end may be left out.
const fn at_least(optional: usize, kinds: &'static [Kind]) -> Takes {
    Takes { kinds, optional, any_number: false }
}

/// Takes one argument or more, each of this kind.
const fn any_number(kinds: &'static [Kind; 1]) -> Takes {
    Takes { kinds, optional: 0, any_number: true }
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// A value of a fixed size, or a part of an argument.
    Value(ValueRef<'a>),
    /// The text that was written to the caller's buffer.
    Written,
    /// A value that is neither: bytes that were made.
    Made(Value),
}

/// A function's meaning on values that are of its arguments' types and, if it is strict, not NULL.
pub type Eval = for<'a> fn(&Args<'_, 'a>, &mut dyn Write) -> Result<Answer<'a>>;

/// What a function means on values: general, or in a form that evaluators inline in their loops.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// Of any values. Text that it makes is written to the buffer.
    Values(Eval),
    /// Of a DOUBLE PRECISION, giving one.
    Double(fn(f64) -> Result<f64>),
    /// Of two DOUBLE PRECISION, giving one.
    Doubles(fn(f64, f64) -> Result<f64>),
}

/// A scalar function: a row of the table.
pub struct Function {
    /// Names of the function; the first is the one that plans show.
    pub names: &'static [&'static str],
    /// What it gives: one sentence, for the guide.
    pub purpose: &'static str,
    /// Arguments of the function.
    pub takes: Takes,
    /// The type of its result.
    pub gives: Gives,
    /// Whether NULL in any argument gives NULL; the meaning is then not asked.
    pub strict: bool,
    /// Whether calls with the same arguments have the same value.
    pub volatility: Volatility,
    /// The errors that only this function has.
    pub errors: &'static [Refusal],
    /// What it means.
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

    /// The function, asked also when an argument is NULL.
    const fn of_null(mut self) -> Self {
        self.strict = false;
        self
    }

    /// The name that plans show.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The types that arguments of these types are brought to; `None` stands for an argument without
    /// one. `None` as a whole: the function does not take them.
    pub fn brings(&self, args: &[Option<Type>]) -> Option<Vec<Type>> {
        if !self.takes.count(args.len()) {
            return None;
        }
        // Arguments of any type have that of the first that has one.
        let any = args.iter().flatten().next().copied();
        let one = |(at, ty): (usize, &Option<Type>)| match (self.takes.kind(at), ty) {
            (Kind::Any, ty) => {
                let any = any.unwrap_or(Kind::Any.usual());
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
        }
    }
}

impl PartialEq for Function {
    /// Rows are told apart by where they stand.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl core::fmt::Debug for Function {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// All functions, in the order of the guide.
pub fn all() -> impl Iterator<Item = &'static Function> {
    let rows = table::FUNCTIONS.iter();
    #[cfg(feature = "math")]
    let rows = rows.chain(doubles::FUNCTIONS);
    rows
}

/// The functions of a name, in lower case.
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
    /// A call by name. Arguments of other types than [`Call::args`] have to be brought to these
    /// first; `None` among them is an argument without a type. A function that takes the arguments as
    /// they are goes before one to whose types they would be brought.
    pub fn named(name: &str, args: &[Option<Type>]) -> Option<Call> {
        let all = || named(name).filter_map(|function| Call::of(function, args));
        let as_they_are = |call: &Call| {
            args.iter()
                .zip(&call.args)
                .all(|(given, brought)| given.is_none_or(|ty| ty == *brought))
        };
        all().find(as_they_are).or_else(|| all().next())
    }

    /// A call of this function, as [`Call::named`].
    pub fn of(function: &'static Function, args: &[Option<Type>]) -> Option<Call> {
        let args = function.brings(args)?;
        let result = function.result(&args);
        Some(Call { function, args, result })
    }

    /// A call by name of arguments that are taken as they are, giving `result`. `None`: there is none.
    pub fn exact(name: &str, args: &[Type], result: Type) -> Option<Call> {
        let given: Vec<Option<Type>> = args.iter().copied().map(Some).collect();
        let call = Call::named(name, &given)?;
        let fits =
            call.result == result || call.function.gives == Gives::Places && result.is_decimal();
        (fits && call.args == args).then_some(Call { result, ..call })
    }

    /// The row.
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

    /// What the call gives for values of [`Call::args`]. `text`: takes the text that is made.
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

    /// The value of the call, for one value alone: it allocates. Errors: as [`Call::eval`].
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

    /// All of them.
    pub fn values(&self) -> &'c [ValueRef<'a>] {
        self.values
    }

    /// Whether the argument is there, which may be left out.
    pub fn has(&self, at: usize) -> bool {
        at < self.values.len()
    }

    /// An argument.
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

    /// Digits behind the point of a decimal argument; none of others.
    pub fn scale(&self, at: usize) -> i8 {
        match self.call.args[at] {
            Type::Decimal { scale, .. } => scale,
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

/// The answer that is a text, made of one part.
fn written<'a>(buffer: &mut dyn Write, text: &str) -> Result<Answer<'a>> {
    put(buffer, text);
    Ok(Answer::Written)
}
