//! The table of scalar functions: name, arguments, result, and what it means on single values.
//!
//! A row is the meaning alone. Who evaluates quickly has typed code of its own, made of the functions
//! of the other modules, and is compared with the table by random calls; who needs one value calls
//! [`Function::call`]. What depends on the execution (the clock, the session, sequences) is not
//! here, so every function is immutable but where [`Volatility`] says otherwise.

use alloc::string::String;

use crate::calendar::{self, Field, Moment};
use crate::compare;
use crate::error::{Result, TextProblem, ValueError};
use crate::float;
use crate::integer::{Width, widen};
use crate::interval;
use crate::like;
use crate::text;
use crate::value::{Interval, Value, ValueRef};

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Text,
    /// SMALLINT, INTEGER or BIGINT.
    Integer,
    /// An integer, a float or a decimal.
    Number,
    /// REAL or DOUBLE PRECISION.
    Float,
    /// DATE, TIME, TIMESTAMP, TIMESTAMPTZ or INTERVAL.
    Moment,
    /// TIMESTAMP or TIMESTAMPTZ.
    Timestamp,
    Time,
    Interval,
    /// Any type; all such arguments of a call have one.
    Any,
}

impl Kind {
    /// Whether a value is of the kind; NULL is.
    pub fn holds(self, value: ValueRef<'_>) -> bool {
        use ValueRef as V;
        matches!(
            (self, value),
            (_, V::Null)
                | (Kind::Any, _)
                | (Kind::Text, V::Text(_))
                | (Kind::Time, V::Time(_))
                | (Kind::Integer | Kind::Number, V::Int16(_) | V::Int32(_) | V::Int64(_))
                | (Kind::Float | Kind::Number, V::Float32(_) | V::Float64(_))
                | (Kind::Number, V::Decimal(_))
                | (Kind::Moment, V::Date(_) | V::Time(_) | V::Interval(_))
                | (Kind::Moment | Kind::Timestamp, V::Timestamp(_) | V::TimestampTz(_))
                | (Kind::Interval, V::Interval(_))
        )
    }
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Gives {
    Bool,
    Text,
    Integer,
    BigInt,
    /// DECIMAL(24, 6): millionths.
    Millionths,
    Interval,
    /// The type of this argument, counted from 0.
    Argument(usize),
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

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// The kinds of the arguments; if there may be any number of them, of each.
    pub kinds: &'static [Kind],
    /// How many at the end may be left out.
    pub optional: usize,
    /// Any number of arguments from one on, all of the only kind.
    pub any_number: bool,
}

const fn takes(kinds: &'static [Kind]) -> Takes {
    Takes { kinds, optional: 0, any_number: false }
}

const fn at_least(optional: usize, kinds: &'static [Kind]) -> Takes {
    Takes { kinds, optional, any_number: false }
}

const fn any_number(kinds: &'static [Kind; 1]) -> Takes {
    Takes { kinds, optional: 0, any_number: true }
}

/// What a function means on values.
pub type Eval = fn(&[ValueRef<'_>]) -> Result<Value>;

/// A scalar function.
pub struct Function {
    /// Names of the function; the first is the one that plans show.
    pub names: &'static [&'static str],
    /// Arguments of the function.
    pub takes: Takes,
    /// The type of its result.
    pub gives: Gives,
    /// Whether NULL in any argument gives NULL; `eval` is then not called.
    pub strict: bool,
    /// Whether calls with the same arguments have the same value.
    pub volatility: Volatility,
    eval: Eval,
}

impl Function {
    const fn new(names: &'static [&'static str], takes: Takes, gives: Gives, eval: Eval) -> Self {
        Function { names, takes, gives, strict: true, volatility: Volatility::Immutable, eval }
    }

    const fn of_null(mut self) -> Self {
        self.strict = false;
        self
    }

    /// The name that plans show.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Whether the function takes these arguments.
    pub fn accepts(&self, args: &[ValueRef<'_>]) -> bool {
        let Takes { kinds, optional, any_number } = self.takes;
        if any_number {
            return !args.is_empty() && args.iter().all(|arg| kinds[0].holds(*arg));
        }
        (kinds.len() - optional..=kinds.len()).contains(&args.len())
            && args.iter().zip(kinds).all(|(arg, kind)| kind.holds(*arg))
    }

    /// The value of a call. Errors: those of the function; [`ValueError::Mismatch`] if it does not
    /// take these arguments.
    pub fn call(&self, args: &[ValueRef<'_>]) -> Result<Value> {
        if !self.accepts(args) {
            return Err(ValueError::Mismatch(self.name()));
        }
        if self.strict && args.iter().any(ValueRef::is_null) {
            return Ok(Value::Null);
        }
        (self.eval)(args)
    }
}

/// The function of a name, in lower case.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.names.contains(&name))
}

use Kind::{Any, Float, Integer, Moment as M, Number, Text, Timestamp};

/// All functions.
pub const FUNCTIONS: &[Function] = &[
    // Texts.
    Function::new(&["textcat"], takes(&[Text, Text]), Gives::Text, concat),
    Function::new(&["concat"], any_number(&[Text]), Gives::Text, concat).of_null(),
    Function::new(&["lower"], takes(&[Text]), Gives::Text, |args| {
        one_text(args, str::to_lowercase)
    }),
    Function::new(&["upper"], takes(&[Text]), Gives::Text, |args| {
        one_text(args, str::to_uppercase)
    }),
    Function::new(
        &["length", "character_length", "char_length"],
        takes(&[Text]),
        Gives::Integer,
        |args| count(text::length(text_at(args, 0)?)),
    ),
    Function::new(&["octet_length"], takes(&[Text]), Gives::Integer, |args| {
        count(text_at(args, 0)?.len() as i64)
    }),
    Function::new(
        &["substr", "substring"],
        at_least(1, &[Text, Integer, Integer]),
        Gives::Text,
        |args| {
            let length = args.get(2).map(|_| integer_at(args, 2)).transpose()?;
            text::substr(text_at(args, 0)?, integer_at(args, 1)?, length).map(made)
        },
    ),
    Function::new(&["left"], takes(&[Text, Integer]), Gives::Text, |args| {
        Ok(made(text::left(text_at(args, 0)?, integer_at(args, 1)?)))
    }),
    Function::new(&["right"], takes(&[Text, Integer]), Gives::Text, |args| {
        Ok(made(text::right(text_at(args, 0)?, integer_at(args, 1)?)))
    }),
    Function::new(&["btrim", "trim"], at_least(1, &[Text, Text]), Gives::Text, |args| {
        trim(args, true, true)
    }),
    Function::new(&["ltrim"], at_least(1, &[Text, Text]), Gives::Text, |args| {
        trim(args, true, false)
    }),
    Function::new(&["rtrim"], at_least(1, &[Text, Text]), Gives::Text, |args| {
        trim(args, false, true)
    }),
    Function::new(&["replace"], takes(&[Text, Text, Text]), Gives::Text, |args| {
        let (text, from, to) = (text_at(args, 0)?, text_at(args, 1)?, text_at(args, 2)?);
        Ok(Value::Text(if from.is_empty() { text.into() } else { text.replace(from, to) }))
    }),
    Function::new(&["strpos", "position"], takes(&[Text, Text]), Gives::Integer, |args| {
        count(text::position(text_at(args, 0)?, text_at(args, 1)?))
    }),
    Function::new(&["starts_with"], takes(&[Text, Text]), Gives::Bool, |args| {
        Ok(Value::Bool(text_at(args, 0)?.starts_with(text_at(args, 1)?)))
    }),
    Function::new(&["like_escape"], takes(&[Text, Text]), Gives::Text, |args| {
        let escape = like::escape_of(text_at(args, 1)?)?;
        Ok(Value::Text(like::with_backslashes(text_at(args, 0)?, escape)))
    }),
    Function::new(&["similar_to_escape"], at_least(1, &[Text, Text]), Gives::Text, |args| {
        let escape = match args.get(1) {
            Some(_) => like::escape_of(text_at(args, 1)?)?,
            None => Some('\\'),
        };
        Ok(Value::Text(like::similar_to(text_at(args, 0)?, escape)))
    }),
    // Numbers.
    Function::new(&["abs"], takes(&[Number]), Gives::Argument(0), absolute),
    Function::new(&["floor"], takes(&[Float]), Gives::Argument(0), |args| {
        rounded(args, float::floor)
    }),
    Function::new(&["ceil"], takes(&[Float]), Gives::Argument(0), |args| {
        rounded(args, float::ceil)
    }),
    Function::new(&["bitwise_not"], takes(&[Integer]), Gives::BigInt, |args| {
        Ok(Value::Int64(!integer_at(args, 0)?))
    }),
    // Choices.
    Function::new(&["coalesce", "nvl"], any_number(&[Any]), Gives::Argument(0), coalesce).of_null(),
    Function::new(&["nullif"], takes(&[Any, Any]), Gives::Argument(0), null_if).of_null(),
    Function::new(&["greatest"], any_number(&[Any]), Gives::Argument(0), |args| {
        Ok(extreme(args, compare::Compare::Gt))
    })
    .of_null(),
    Function::new(&["least"], any_number(&[Any]), Gives::Argument(0), |args| {
        Ok(extreme(args, compare::Compare::Lt))
    })
    .of_null(),
    // Moments.
    Function::new(&["extract_whole"], takes(&[Text, M]), Gives::Integer, |args| {
        let (field, moment) = field_of(args)?;
        moment.whole(field).map_or_else(|| Err(no_field(args)), count)
    }),
    Function::new(&["extract_fraction"], takes(&[Text, M]), Gives::Millionths, |args| {
        let (field, moment) = field_of(args)?;
        moment.fraction(field).map(Value::Decimal).ok_or_else(|| no_field(args))
    }),
    Function::new(&["date_trunc"], takes(&[Text, Timestamp]), Gives::Argument(1), truncate),
    Function::new(
        &["timestamp_difference"],
        takes(&[Timestamp, Timestamp]),
        Gives::Interval,
        |args| {
            let wrong = || ValueError::Mismatch("timestamp_difference");
            let left = compare::whole(args[0]).ok_or_else(wrong)?;
            let right = compare::whole(args[1]).ok_or_else(wrong)?;
            calendar::difference(left, right).map(Value::Interval)
        },
    ),
    Function::new(
        &["time_difference"],
        takes(&[Kind::Time, Kind::Time]),
        Gives::Interval,
        |args| match args {
            [ValueRef::Time(left), ValueRef::Time(right)] => {
                let nanos = (left - right) * calendar::US_NS;
                Ok(Value::Interval(Interval { nanos, ..Interval::default() }))
            }
            _ => Err(ValueError::Mismatch("time_difference")),
        },
    ),
    Function::new(
        &["interval_multiply"],
        takes(&[Kind::Interval, Float]),
        Gives::Interval,
        |args| scaled(args, interval::multiply),
    ),
    Function::new(&["interval_divide"], takes(&[Kind::Interval, Float]), Gives::Interval, |args| {
        scaled(args, interval::divide)
    }),
];

fn text_at<'a>(args: &[ValueRef<'a>], at: usize) -> Result<&'a str> {
    match args.get(at) {
        Some(ValueRef::Text(text)) => Ok(text),
        _ => Err(ValueError::Mismatch("a function of texts")),
    }
}

fn integer_at(args: &[ValueRef<'_>], at: usize) -> Result<i64> {
    let value = args.get(at).and_then(|arg| widen(*arg));
    value.ok_or(ValueError::Mismatch("a function of integers"))
}

fn made(text: &str) -> Value {
    Value::Text(text.into())
}

fn count(value: i64) -> Result<Value> {
    Width::Integer.value(value).map(|value| value.to_owned())
}

fn one_text(args: &[ValueRef<'_>], apply: fn(&str) -> String) -> Result<Value> {
    Ok(Value::Text(apply(text_at(args, 0)?)))
}

/// NULLs are left out.
fn concat(args: &[ValueRef<'_>]) -> Result<Value> {
    let mut all = String::new();
    for at in (0..args.len()).filter(|at| !args[*at].is_null()) {
        all.push_str(text_at(args, at)?);
    }
    Ok(Value::Text(all))
}

fn trim(args: &[ValueRef<'_>], start: bool, end: bool) -> Result<Value> {
    let set = if args.len() > 1 { text_at(args, 1)? } else { " " };
    Ok(made(text::trim(text_at(args, 0)?, set, start, end)))
}

fn absolute(args: &[ValueRef<'_>]) -> Result<Value> {
    let whole = |width: Width, value: i64| width.value(width.absolute(value)?);
    Ok(match args[0] {
        ValueRef::Int16(value) => whole(Width::SmallInt, value.into())?.to_owned(),
        ValueRef::Int32(value) => whole(Width::Integer, value.into())?.to_owned(),
        ValueRef::Int64(value) => whole(Width::BigInt, value)?.to_owned(),
        ValueRef::Float32(value) => Value::Float32(value.abs()),
        ValueRef::Float64(value) => Value::Float64(value.abs()),
        ValueRef::Decimal(value) => Value::Decimal(value.abs()),
        _ => return Err(ValueError::Mismatch("abs")),
    })
}

fn rounded(args: &[ValueRef<'_>], round: fn(f64) -> f64) -> Result<Value> {
    match args[0] {
        ValueRef::Float32(value) => Ok(Value::Float32(round(value.into()) as f32)),
        ValueRef::Float64(value) => Ok(Value::Float64(round(value))),
        _ => Err(ValueError::Mismatch("a function of floats")),
    }
}

fn coalesce(args: &[ValueRef<'_>]) -> Result<Value> {
    let first = args.iter().find(|arg| !arg.is_null());
    Ok(first.map_or(Value::Null, |arg| arg.to_owned()))
}

fn null_if(args: &[ValueRef<'_>]) -> Result<Value> {
    let [left, right] = [args[0], args[1]];
    let equal = !left.is_null() && !right.is_null() && compare::values(left, right).is_eq();
    Ok(if equal { Value::Null } else { left.to_owned() })
}

/// The value that stands so to all others; NULLs are left out.
fn extreme(args: &[ValueRef<'_>], stands: compare::Compare) -> Value {
    let known = args.iter().filter(|arg| !arg.is_null());
    let best =
        known.reduce(
            |best, next| {
                if stands.accepts(compare::values(*next, *best)) { next } else { best }
            },
        );
    best.map_or(Value::Null, |best| best.to_owned())
}

fn no_field(args: &[ValueRef<'_>]) -> ValueError {
    ValueError::text(TextProblem::Field, "timestamp", text_at(args, 0).unwrap_or_default())
}

fn field_of(args: &[ValueRef<'_>]) -> Result<(Field, Moment)> {
    let field = Field::from_name(text_at(args, 0)?);
    field.zip(Moment::of(args[1])).ok_or_else(|| no_field(args))
}

fn truncate(args: &[ValueRef<'_>]) -> Result<Value> {
    let field = Field::from_name(text_at(args, 0)?).filter(|field| field.truncates());
    let field = field.ok_or_else(|| no_field(args))?;
    match args[1] {
        ValueRef::Timestamp(us) => Ok(Value::Timestamp(field.truncate(us))),
        ValueRef::TimestampTz(us) => Ok(Value::TimestampTz(field.truncate(us))),
        _ => Err(ValueError::Mismatch("date_trunc")),
    }
}

fn scaled(args: &[ValueRef<'_>], by: fn(Interval, f64) -> Result<Interval>) -> Result<Value> {
    let factor = match args[1] {
        ValueRef::Float32(value) => value.into(),
        ValueRef::Float64(value) => value,
        _ => return Err(ValueError::Mismatch("a function of intervals")),
    };
    let ValueRef::Interval(interval) = args[0] else {
        return Err(ValueError::Mismatch("a function of intervals"));
    };
    by(interval, factor).map(Value::Interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, args: &[ValueRef<'_>]) -> Result<Value> {
        find(name).expect(name).call(args)
    }

    #[test]
    fn names_are_distinct() {
        for (at, function) in FUNCTIONS.iter().enumerate() {
            for name in function.names {
                let first = FUNCTIONS.iter().position(|other| other.names.contains(name));
                assert_eq!(first, Some(at), "{name}");
                assert_eq!(name.to_lowercase(), *name);
            }
            assert!(!function.takes.any_number || function.takes.kinds.len() == 1);
            assert!(function.takes.optional < function.takes.kinds.len());
        }
    }

    #[test]
    fn functions_mean_what_they_say() {
        let t = ValueRef::Text;
        let i = ValueRef::Int32;
        let noon = ValueRef::Timestamp(calendar::DAY_US / 2);
        let span = ValueRef::Interval(Interval { months: 1, days: 2, nanos: 0 });
        let interval = |months, days, nanos| Value::Interval(Interval { months, days, nanos });
        let cases: &[(&str, &[ValueRef<'_>], Value)] = &[
            ("textcat", &[t("a"), t("b")], made("ab")),
            ("concat", &[t("a"), ValueRef::Null, t("b")], made("ab")),
            ("lower", &[t("ÄB")], made("äb")),
            ("upper", &[t("äb")], made("ÄB")),
            ("char_length", &[t("äö")], Value::Int32(2)),
            ("octet_length", &[t("äö")], Value::Int32(4)),
            ("substring", &[t("abc"), i(2), i(1)], made("b")),
            ("substr", &[t("abc"), i(2)], made("bc")),
            ("left", &[t("abc"), i(-1)], made("ab")),
            ("right", &[t("abc"), i(1)], made("c")),
            ("trim", &[t(" a ")], made("a")),
            ("ltrim", &[t("xa"), t("x")], made("a")),
            ("rtrim", &[t("ax"), t("x")], made("a")),
            ("replace", &[t("abab"), t("a"), t("x")], made("xbxb")),
            ("replace", &[t("ab"), t(""), t("x")], made("ab")),
            ("position", &[t("abc"), t("c")], Value::Int32(3)),
            ("starts_with", &[t("abc"), t("ab")], Value::Bool(true)),
            ("like_escape", &[t("a!%"), t("!")], made("a\\%")),
            ("similar_to_escape", &[t("a%")], made("^(?:a(?s:.*))$")),
            ("abs", &[ValueRef::Int16(-3)], Value::Int16(3)),
            ("abs", &[ValueRef::Decimal(-3)], Value::Decimal(3)),
            ("abs", &[ValueRef::Float32(-1.5)], Value::Float32(1.5)),
            ("floor", &[ValueRef::Float64(-1.5)], Value::Float64(-2.0)),
            ("ceil", &[ValueRef::Float32(-1.5)], Value::Float32(-1.0)),
            ("bitwise_not", &[i(0)], Value::Int64(-1)),
            ("coalesce", &[ValueRef::Null, i(1), i(2)], Value::Int32(1)),
            ("nullif", &[i(1), i(1)], Value::Null),
            ("nullif", &[i(1), ValueRef::Null], Value::Int32(1)),
            ("greatest", &[i(1), ValueRef::Null, i(2)], Value::Int32(2)),
            ("least", &[t("b"), t("a")], made("a")),
            ("least", &[ValueRef::Null], Value::Null),
            ("extract_whole", &[t("dow"), noon], Value::Int32(4)),
            ("extract_fraction", &[t("second"), ValueRef::Time(7)], Value::Decimal(7)),
            ("date_trunc", &[t("day"), noon], Value::Timestamp(0)),
            (
                "timestamp_difference",
                &[noon, ValueRef::Timestamp(0)],
                interval(0, 0, calendar::DAY_NS / 2),
            ),
            ("time_difference", &[ValueRef::Time(1), ValueRef::Time(3)], interval(0, 0, -2_000)),
            ("interval_multiply", &[span, ValueRef::Float64(2.0)], interval(2, 4, 0)),
            ("interval_divide", &[span, ValueRef::Float32(0.5)], interval(2, 4, 0)),
        ];
        for (name, args, expected) in cases {
            assert_eq!(call(name, args).as_ref(), Ok(expected), "{name}({args:?})");
        }
        // Every row is called above.
        for function in FUNCTIONS {
            let called = cases.iter().any(|(name, ..)| function.names.contains(name));
            assert!(called, "{}", function.name());
        }
    }

    #[test]
    fn null_and_wrong_arguments() {
        let text = ValueRef::Text("a");
        assert_eq!(call("lower", &[ValueRef::Null]), Ok(Value::Null));
        assert_eq!(call("textcat", &[text, ValueRef::Null]), Ok(Value::Null));
        assert_eq!(call("lower", &[ValueRef::Int32(1)]), Err(ValueError::Mismatch("lower")));
        assert_eq!(call("substr", &[text]), Err(ValueError::Mismatch("substr")));
        assert_eq!(call("concat", &[]), Err(ValueError::Mismatch("concat")));
        let one = ValueRef::Int32(1);
        assert_eq!(
            call("substr", &[text, one, ValueRef::Int32(-1)]),
            Err(ValueError::NegativeLength)
        );
        let far = Err(ValueError::OutOfRange("smallint"));
        assert_eq!(call("abs", &[ValueRef::Int16(i16::MIN)]), far);
        let field = Err(ValueError::text(TextProblem::Field, "timestamp", "dow"));
        assert_eq!(call("extract_whole", &[ValueRef::Text("dow"), ValueRef::Time(1)]), field);
        assert_eq!(call("date_trunc", &[ValueRef::Text("dow"), ValueRef::Timestamp(1)]), field);
        assert!(find("nextval").is_none());
    }
}
