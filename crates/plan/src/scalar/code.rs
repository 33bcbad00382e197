//! From typed expressions to closures.
//!
//! A [`Fun`] returns the Rust type of its kind: `i64` for every type stored as a whole number,
//! `f64` for both floats, `i128` for decimals, `&str`, `&[u8]`, and a [`ValueRef`] for all others.
//! Text constants stand in the program's pool, since a closure cannot lend what it owns.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use halcyon_store::{Type, Value, ValueRef};
use halcyon_value::array;
use halcyon_value::calendar::{self, DAY_US, Field, day_of};
use halcyon_value::compare::{Compare, values as compare_values, whole as integer};
use halcyon_value::decimal::Rescale;
use halcyon_value::float::{self, compare as compare_floats};
use halcyon_value::functions::{self, Answer, Meaning};
use halcyon_value::text as parts;
use halcyon_value::{Arith, ValueError, decimal, like as patterns};

use super::Frame;
use super::arith::{self, width};
use super::ir::{Function, Ir};
use super::text;
use halcyon_functions::like::Pattern;
use halcyon_sql::error::{Result, SqlError};

/// A kind of closures: the Rust type that they return.
pub(super) trait Kind: 'static {
    type Of<'a>: Copy;
}

macro_rules! kinds {
    ($($name:ident = $ty:ty),*) => {
        $(
            pub(super) enum $name {}
            impl Kind for $name {
                type Of<'a> = $ty;
            }
        )*
    };
}
kinds!(Bool = bool, Int = i64, Float = f64, Dec = i128, Text = &'a str, Bytes = &'a [u8], Any = ValueRef<'a>);

/// A compiled node; None is NULL.
pub(super) type Fun<K> =
    Box<dyn for<'s, 'a> Fn(&Frame<'s, 'a>) -> Result<Option<<K as Kind>::Of<'a>>> + Send + Sync>;

/// Boxes a closure; written out so that the compiler infers its lifetimes.
fn fun<K: Kind>(
    f: impl for<'s, 'a> Fn(&Frame<'s, 'a>) -> Result<Option<K::Of<'a>>> + Send + Sync + 'static,
) -> Fun<K> {
    Box::new(f)
}

/// The constants that a program collects while it is compiled.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) consts: Vec<Value>,
    pub(super) makes_text: bool,
}

impl Pool {
    fn constant(&mut self, value: &Value) -> usize {
        self.consts.push(value.clone());
        self.consts.len() - 1
    }
}

/// A compiled expression.
pub(super) enum Code {
    Slot(usize),
    Param(usize),
    Const(usize),
    Bool(Fun<Bool>),
    Int(Type, Fun<Int>),
    Float(Type, Fun<Float>),
    Dec(Type, Fun<Dec>),
    Text(Fun<Text>),
    Bytes(Fun<Bytes>),
    Any(Type, Fun<Any>),
}

impl Code {
    #[inline]
    pub(super) fn eval<'a>(&self, frame: &Frame<'_, 'a>) -> Result<ValueRef<'a>> {
        let value = match self {
            Code::Slot(slot) => Some(frame.row[*slot]),
            Code::Param(index) => Some(frame.env.params[*index].as_ref()),
            Code::Const(index) => Some(frame.consts[*index].as_ref()),
            Code::Bool(f) => f(frame)?.map(ValueRef::Bool),
            Code::Int(ty, f) => f(frame)?.map(|value| tag(*ty, value)),
            Code::Float(Type::Float32, f) => f(frame)?.map(|value| ValueRef::Float32(value as f32)),
            Code::Float(_, f) => f(frame)?.map(ValueRef::Float64),
            Code::Dec(_, f) => f(frame)?.map(ValueRef::Decimal),
            Code::Text(f) => f(frame)?.map(ValueRef::Text),
            Code::Bytes(f) => f(frame)?.map(ValueRef::Bytes),
            Code::Any(_, f) => f(frame)?,
        };
        Ok(value.unwrap_or(ValueRef::Null))
    }

    #[inline]
    pub(super) fn bool<'a>(&self, frame: &Frame<'_, 'a>) -> Result<Option<bool>> {
        match self {
            Code::Bool(f) => f(frame),
            other => Ok(truth(other.eval(frame)?)),
        }
    }

    pub(super) fn ty(&self) -> Option<Type> {
        match self {
            Code::Slot(_) | Code::Param(_) | Code::Const(_) => None,
            Code::Bool(_) => Some(Type::Bool),
            Code::Text(_) => Some(Type::Text),
            Code::Bytes(_) => Some(Type::Bytes),
            Code::Int(ty, _) | Code::Float(ty, _) | Code::Dec(ty, _) | Code::Any(ty, _) => {
                Some(*ty)
            }
        }
    }
}

/// A whole number as a value of its type.
#[inline]
fn tag(ty: Type, value: i64) -> ValueRef<'static> {
    match ty {
        Type::Int16 => ValueRef::Int16(value as i16),
        Type::Int32 => ValueRef::Int32(value as i32),
        Type::Date => ValueRef::Date(value as i32),
        Type::Time => ValueRef::Time(value),
        Type::Timestamp => ValueRef::Timestamp(value),
        Type::TimestampTz => ValueRef::TimestampTz(value),
        _ => ValueRef::Int64(value),
    }
}

#[inline]
fn truth(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Bool(value) => Some(value),
        ValueRef::Null => None,
        other => panic!("{other:?} where the plan has a boolean"),
    }
}

/// The way in which values of a type are computed with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bool,
    Int,
    Float,
    Dec,
    Text,
    Bytes,
    Any,
}

fn class(ty: Type) -> Class {
    match ty {
        Type::Bool => Class::Bool,
        Type::Int16 | Type::Int32 | Type::Int64 => Class::Int,
        Type::Date | Type::Time | Type::Timestamp | Type::TimestampTz => Class::Int,
        Type::Float32 | Type::Float64 => Class::Float,
        Type::Decimal { .. } => Class::Dec,
        Type::Text => Class::Text,
        Type::Bytes => Class::Bytes,
        Type::Interval | Type::Uuid => Class::Any,
    }
}

/// Compiles an expression of any type.
pub(super) fn compile(ir: &Ir, pool: &mut Pool) -> Code {
    match ir {
        Ir::Slot(slot, _) => return Code::Slot(*slot),
        Ir::Param(index, _) => return Code::Param(*index),
        Ir::Const(value, _) => return Code::Const(pool.constant(value)),
        _ => {}
    }
    let ty = ir.ty().expect("only a constant has no type");
    match class(ty) {
        Class::Bool => Code::Bool(bool_fun(ir, pool)),
        Class::Int => Code::Int(ty, int_fun(ir, pool)),
        Class::Float => Code::Float(ty, float_fun(ir, pool)),
        Class::Dec => Code::Dec(ty, dec_fun(ir, pool)),
        Class::Text => Code::Text(text_fun(ir, pool)),
        Class::Bytes => Code::Bytes(bytes_fun(ir, pool)),
        Class::Any => Code::Any(ty, any_fun(ir, pool)),
    }
}

/// A closure of any type that returns the value with its tag.
fn any_fun(ir: &Ir, pool: &mut Pool) -> Fun<Any> {
    let some = |value: ValueRef<'_>| !value.is_null();
    match ir {
        Ir::Slot(slot, _) => {
            let slot = *slot;
            fun::<Any>(move |frame| Ok(Some(frame.row[slot]).filter(|v| !v.is_null())))
        }
        Ir::Param(index, _) => {
            let index = *index;
            fun::<Any>(move |frame| {
                Ok(Some(frame.env.params[index].as_ref()).filter(|v| !v.is_null()))
            })
        }
        Ir::Const(value, _) => {
            let index = pool.constant(value);
            fun::<Any>(move |frame| Ok(Some(frame.consts[index].as_ref()).filter(|v| !v.is_null())))
        }
        Ir::Case { branches, otherwise, ty } if class(*ty) == Class::Any => {
            case::<Any>(branches, otherwise, any_fun, pool)
        }
        Ir::Call { function: Function::Coalesce, args, ty } if class(*ty) == Class::Any => {
            coalesce::<Any>(args.iter().map(|arg| any_fun(arg, pool)).collect())
        }
        Ir::Call { function, args, ty }
            if class(*ty) == Class::Any
                && matches!(function, Function::Greatest | Function::Least) =>
        {
            let args = args.iter().map(|arg| any_fun(arg, pool)).collect();
            extreme::<Any>(args, *function == Function::Greatest, |a, b| compare_values(*a, *b))
        }
        Ir::TableCall { call, args } => table_call(call, args, pool),
        Ir::Foreign(foreign) => {
            let foreign = foreign.clone();
            let inputs: Vec<Fun<Any>> =
                foreign.inputs().iter().map(|input| any_fun(input, pool)).collect();
            pool.makes_text = true;
            fun::<Any>(move |frame| {
                let values = inputs.iter().map(|f| Ok(f(frame)?.unwrap_or(ValueRef::Null)));
                Ok(Some(foreign.eval(values, frame)?).filter(|v| !v.is_null()))
            })
        }
        other => {
            let code = compile(other, pool);
            fun::<Any>(move |frame| Ok(Some(code.eval(frame)?).filter(|v| some(*v))))
        }
    }
}

/// Number of a call's arguments that fit on the stack.
const TABLE_ARGS: usize = 4;

/// A call by the table's own evaluation. New text is written to the arena.
fn table_call(call: &Arc<functions::Call>, args: &[Ir], pool: &mut Pool) -> Fun<Any> {
    let call = Arc::clone(call);
    let args: Vec<Fun<Any>> = args.iter().map(|arg| any_fun(arg, pool)).collect();
    pool.makes_text |= !matches!(class(call.result()), Class::Int | Class::Float | Class::Bool);
    fun::<Any>(move |frame| {
        let (mut few, mut many) = ([ValueRef::Null; TABLE_ARGS], vec![]);
        let values = match few.get_mut(..args.len()) {
            Some(few) => few,
            None => {
                many.resize(args.len(), ValueRef::Null);
                &mut many[..]
            }
        };
        for (value, arg) in values.iter_mut().zip(&args) {
            *value = arg(frame)?.unwrap_or(ValueRef::Null);
        }
        let mut made = text::builder(frame.arena);
        let value = match call.eval(values, &mut made)? {
            Answer::Value(value) => value,
            Answer::Written => ValueRef::Text(made.into_bump_str()),
            Answer::Made(Value::Text(text)) => ValueRef::Text(frame.arena.alloc_str(&text)),
            Answer::Made(Value::Bytes(bytes)) => {
                ValueRef::Bytes(frame.arena.alloc_slice_copy(&bytes))
            }
            Answer::Made(other) => fixed(&other),
        };
        Ok(Some(value).filter(|value| !value.is_null()))
    })
}

/// A value that borrows nothing.
fn fixed(value: &Value) -> ValueRef<'static> {
    match *value {
        Value::Null => ValueRef::Null,
        Value::Bool(value) => ValueRef::Bool(value),
        Value::Int16(value) => ValueRef::Int16(value),
        Value::Int32(value) => ValueRef::Int32(value),
        Value::Int64(value) => ValueRef::Int64(value),
        Value::Float32(value) => ValueRef::Float32(value),
        Value::Float64(value) => ValueRef::Float64(value),
        Value::Decimal(value) => ValueRef::Decimal(value),
        Value::Date(value) => ValueRef::Date(value),
        Value::Time(value) => ValueRef::Time(value),
        Value::Timestamp(value) => ValueRef::Timestamp(value),
        Value::TimestampTz(value) => ValueRef::TimestampTz(value),
        Value::Interval(value) => ValueRef::Interval(value),
        Value::Uuid(value) => ValueRef::Uuid(value),
        Value::Text(_) | Value::Bytes(_) => unreachable!("copied to the arena"),
    }
}

fn coalesce<K: Kind>(args: Vec<Fun<K>>) -> Fun<K> {
    fun::<K>(move |frame| {
        for arg in &args {
            if let Some(value) = arg(frame)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    })
}

fn case<K: Kind>(
    branches: &[(Ir, Ir)],
    otherwise: &Ir,
    compile: impl Fn(&Ir, &mut Pool) -> Fun<K>,
    pool: &mut Pool,
) -> Fun<K> {
    let branches: Vec<(Fun<Bool>, Fun<K>)> = branches
        .iter()
        .map(|(condition, value)| (bool_fun(condition, pool), compile(value, pool)))
        .collect();
    let otherwise = compile(otherwise, pool);
    fun::<K>(move |frame| {
        for (condition, value) in &branches {
            if condition(frame)? == Some(true) {
                return value(frame);
            }
        }
        otherwise(frame)
    })
}

/// GREATEST or LEAST: NULLs are left out.
fn extreme<K: Kind>(
    args: Vec<Fun<K>>,
    greatest: bool,
    order: impl for<'a> Fn(&K::Of<'a>, &K::Of<'a>) -> Ordering + Send + Sync + 'static,
) -> Fun<K> {
    let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
    fun::<K>(move |frame| {
        let mut best = None;
        for arg in &args {
            best = match (best, arg(frame)?) {
                (Some(best), Some(value)) if order(&value, &best) != wanted => Some(best),
                (best, None) => best,
                (_, value) => value,
            };
        }
        Ok(best)
    })
}

/// Compiles nodes that all kinds have in common; None for other nodes.
fn common<K: Kind>(
    ir: &Ir,
    own: fn(&Ir, &mut Pool) -> Fun<K>,
    order: impl for<'a> Fn(&K::Of<'a>, &K::Of<'a>) -> Ordering + Send + Sync + 'static,
    pool: &mut Pool,
) -> Option<Fun<K>> {
    Some(match ir {
        Ir::Const(Value::Null, _) => fun::<K>(|_| Ok(None)),
        Ir::Case { branches, otherwise, .. } => case(branches, otherwise, own, pool),
        Ir::Call { function: Function::Coalesce, args, .. } => {
            coalesce(args.iter().map(|arg| own(arg, pool)).collect())
        }
        Ir::Call { function: function @ (Function::Greatest | Function::Least), args, .. } => {
            let args = args.iter().map(|arg| own(arg, pool)).collect();
            extreme(args, *function == Function::Greatest, order)
        }
        _ => return None,
    })
}

/// A closure that takes a value out of its tag.
fn untagged<K: Kind>(
    ir: &Ir,
    take: impl for<'a> Fn(ValueRef<'a>) -> Option<K::Of<'a>> + Send + Sync + 'static,
    pool: &mut Pool,
) -> Fun<K> {
    match ir {
        Ir::Slot(slot, _) => {
            let slot = *slot;
            fun::<K>(move |frame| Ok(take(frame.row[slot])))
        }
        Ir::Param(index, _) => {
            let index = *index;
            fun::<K>(move |frame| Ok(take(frame.env.params[index].as_ref())))
        }
        Ir::Const(value, _) => {
            let index = pool.constant(value);
            fun::<K>(move |frame| Ok(take(frame.consts[index].as_ref())))
        }
        Ir::TableCall { .. } | Ir::Foreign(_) => {
            let inner = any_fun(ir, pool);
            fun::<K>(move |frame| Ok(inner(frame)?.and_then(&take)))
        }
        other => unreachable!("lowering types {other}"),
    }
}

fn int_fun(ir: &Ir, pool: &mut Pool) -> Fun<Int> {
    if let Some(done) = common::<Int>(ir, int_fun, |a, b| a.cmp(b), pool) {
        return done;
    }
    match ir {
        Ir::Const(value, _) if integer(value.as_ref()).is_some() => {
            let value = integer(value.as_ref());
            fun::<Int>(move |_| Ok(value))
        }
        Ir::Arith { op, left, right, ty } => int_arith(*op, left, right, *ty, pool),
        Ir::Neg(of, ty) => {
            let (of, width) = (int_fun(of, pool), width(*ty));
            fun::<Int>(move |frame| match of(frame)? {
                Some(value) => Ok(Some(width.negate(value)?)),
                None => Ok(None),
            })
        }
        Ir::Shift { of, by, subtract, ty } => shift(of, by, *subtract, *ty, pool),
        Ir::Cast { of, ty } => int_cast(of, *ty, pool),
        Ir::Call { function, args, ty } => int_call(*function, args, *ty, pool),
        other => untagged::<Int>(other, integer, pool),
    }
}

fn int_arith(op: Arith, left: &Ir, right: &Ir, ty: Type, pool: &mut Pool) -> Fun<Int> {
    let width = width(ty);
    // The usual form of counters: a column and a constant.
    if let (Ir::Slot(slot, _), Ir::Const(value, _)) = (left, right)
        && let Some(value) = integer(value.as_ref())
    {
        let slot = *slot;
        return fun::<Int>(move |frame| match integer(frame.row[slot]) {
            Some(left) => Ok(Some(width.calculate(op, left, value)?)),
            None => Ok(None),
        });
    }
    let (left, right) = (int_fun(left, pool), int_fun(right, pool));
    fun::<Int>(move |frame| match (left(frame)?, right(frame)?) {
        (Some(left), Some(right)) => Ok(Some(width.calculate(op, left, right)?)),
        _ => Ok(None),
    })
}

fn shift(of: &Ir, by: &Ir, subtract: bool, ty: Type, pool: &mut Pool) -> Fun<Int> {
    let (of, by) = (int_fun(of, pool), any_fun(by, pool));
    fun::<Int>(move |frame| {
        let (Some(value), Some(ValueRef::Interval(by))) = (of(frame)?, by(frame)?) else {
            return Ok(None);
        };
        if ty != Type::Date {
            return Ok(Some(calendar::shift(value, by, subtract)?));
        }
        let moved = day_of(calendar::shift(calendar::midnight(value)?, by, subtract)?);
        match i32::try_from(moved) {
            Ok(_) => Ok(Some(moved)),
            Err(_) => Err(ValueError::MomentOutOfRange("date").into()),
        }
    })
}

fn int_cast(of: &Ir, ty: Type, pool: &mut Pool) -> Fun<Int> {
    let from = of.ty().expect("a NULL of no type is not cast");
    let inner = int_fun(of, pool);
    match (from, ty) {
        (Type::Date, Type::Timestamp) => fun::<Int>(move |frame| match inner(frame)? {
            Some(day) => Ok(Some(calendar::midnight(day)?)),
            None => Ok(None),
        }),
        (Type::Timestamp, Type::Date) => fun::<Int>(move |frame| Ok(inner(frame)?.map(day_of))),
        _ => {
            let width = width(ty);
            fun::<Int>(move |frame| match inner(frame)? {
                Some(value) => Ok(Some(width.check(value)?)),
                None => Ok(None),
            })
        }
    }
}

fn int_call(function: Function, args: &[Ir], ty: Type, pool: &mut Pool) -> Fun<Int> {
    match function {
        Function::Length => {
            let text = text_fun(&args[0], pool);
            fun::<Int>(move |frame| Ok(text(frame)?.map(parts::length)))
        }
        Function::OctetLength => {
            let text = text_fun(&args[0], pool);
            fun::<Int>(move |frame| Ok(text(frame)?.map(|text| text.len() as i64)))
        }
        Function::Position => {
            let (text, part) = (text_fun(&args[0], pool), text_fun(&args[1], pool));
            fun::<Int>(move |frame| {
                Ok(text(frame)?.zip(part(frame)?).map(|(text, part)| parts::position(text, part)))
            })
        }
        Function::Abs => {
            let (of, width) = (int_fun(&args[0], pool), width(ty));
            fun::<Int>(move |frame| match of(frame)? {
                Some(value) => Ok(Some(width.absolute(value)?)),
                None => Ok(None),
            })
        }
        Function::Clock(reading) => fun::<Int>(move |frame| Ok(Some(reading.us(&frame.env.clock)))),
        Function::Extract(part) => {
            let micros = micros(&args[0], pool);
            fun::<Int>(move |frame| Ok(micros(frame)?.map(|micros| part.extract(micros))))
        }
        Function::Truncate(part) => {
            let micros = micros(&args[0], pool);
            fun::<Int>(move |frame| Ok(micros(frame)?.map(|micros| part.truncate(micros))))
        }
        other => unreachable!("{} is no whole number", other.name()),
    }
}

/// A date or timestamp in microseconds.
fn micros(ir: &Ir, pool: &mut Pool) -> Fun<Int> {
    let inner = int_fun(ir, pool);
    match ir.ty() {
        Some(Type::Date) => fun::<Int>(move |frame| Ok(inner(frame)?.map(|day| day * DAY_US))),
        _ => inner,
    }
}

fn float_of(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Float32(value) => Some(value as f64),
        ValueRef::Float64(value) => Some(value),
        _ => None,
    }
}

fn float_fun(ir: &Ir, pool: &mut Pool) -> Fun<Float> {
    if let Some(done) = common::<Float>(ir, float_fun, |a, b| compare_floats(*a, *b), pool) {
        return done;
    }
    match ir {
        Ir::Arith { op, left, right, ty } => {
            let (op, single) = (*op, *ty == Type::Float32);
            let (left, right) = (float_fun(left, pool), float_fun(right, pool));
            fun::<Float>(move |frame| match (left(frame)?, right(frame)?) {
                (Some(left), Some(right)) if single => {
                    Ok(Some(float::calculate_single(op, left, right)?))
                }
                (Some(left), Some(right)) => Ok(Some(float::calculate(op, left, right)?)),
                _ => Ok(None),
            })
        }
        Ir::Neg(of, _) => {
            let of = float_fun(of, pool);
            fun::<Float>(move |frame| Ok(of(frame)?.map(|value| -value)))
        }
        Ir::Cast { of, ty } => float_cast(of, *ty, pool),
        Ir::Call { function, args, .. } => float_call(*function, args, pool),
        Ir::TableCall { call, args } => match (call.function().meaning, &args[..]) {
            (Meaning::Double(eval), [x]) => {
                let x = float_fun(x, pool);
                fun::<Float>(move |frame| match x(frame)? {
                    Some(x) => Ok(Some(eval(x)?)),
                    None => Ok(None),
                })
            }
            (Meaning::Doubles(eval), [x, y]) => {
                let (x, y) = (float_fun(x, pool), float_fun(y, pool));
                fun::<Float>(move |frame| match (x(frame)?, y(frame)?) {
                    (Some(x), Some(y)) => Ok(Some(eval(x, y)?)),
                    _ => Ok(None),
                })
            }
            _ => untagged::<Float>(ir, float_of, pool),
        },
        other => untagged::<Float>(other, float_of, pool),
    }
}

fn float_cast(of: &Ir, ty: Type, pool: &mut Pool) -> Fun<Float> {
    let single = ty == Type::Float32;
    match of.ty().expect("a NULL of no type is not cast") {
        Type::Decimal { scale, .. } => {
            let (of, divisor) = (dec_fun(of, pool), decimal::float_divisor(scale));
            fun::<Float>(move |frame| Ok(of(frame)?.map(|value| value as f64 / divisor)))
        }
        Type::Float32 | Type::Float64 => {
            let of = float_fun(of, pool);
            fun::<Float>(move |frame| match of(frame)? {
                Some(value) if single => Ok(Some(float::to_single(value)?.into())),
                value => Ok(value),
            })
        }
        _ => {
            let of = int_fun(of, pool);
            fun::<Float>(move |frame| {
                let narrow = |value: i64| if single { value as f32 as f64 } else { value as f64 };
                Ok(of(frame)?.map(narrow))
            })
        }
    }
}

fn float_call(function: Function, args: &[Ir], pool: &mut Pool) -> Fun<Float> {
    if let Function::Extract(Field::Epoch) = function {
        let micros = micros(&args[0], pool);
        return fun::<Float>(move |frame| Ok(micros(frame)?.map(|micros| micros as f64 / 1e6)));
    }
    let of = float_fun(&args[0], pool);
    let apply = match function {
        Function::Abs => f64::abs,
        Function::Floor => float::floor,
        Function::Ceil => float::ceil,
        other => unreachable!("{} is no float", other.name()),
    };
    fun::<Float>(move |frame| Ok(of(frame)?.map(apply)))
}

fn dec_of(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Decimal(value) => Some(value),
        _ => None,
    }
}

fn dec_fun(ir: &Ir, pool: &mut Pool) -> Fun<Dec> {
    if let Some(done) = common::<Dec>(ir, dec_fun, |a, b| a.cmp(b), pool) {
        return done;
    }
    match ir {
        Ir::Arith { op, left, right, ty } => {
            let types = (left.ty().expect("decimal"), right.ty().expect("decimal"));
            let rule = arith::rule(*op, types.0, types.1, *ty);
            let (left, right) = (dec_fun(left, pool), dec_fun(right, pool));
            fun::<Dec>(move |frame| match (left(frame)?, right(frame)?) {
                (Some(left), Some(right)) => Ok(Some(rule.apply(left, right)?)),
                _ => Ok(None),
            })
        }
        Ir::Neg(of, _) => {
            let of = dec_fun(of, pool);
            fun::<Dec>(move |frame| Ok(of(frame)?.map(|value| -value)))
        }
        Ir::Cast { of, ty } => {
            let (precision, scale) = arith::digits(*ty);
            match of.ty().expect("a NULL of no type is not cast") {
                Type::Decimal { scale: from, .. } => {
                    let rescale = Rescale::new(from, precision, scale);
                    let of = dec_fun(of, pool);
                    fun::<Dec>(move |frame| match of(frame)? {
                        Some(value) => Ok(Some(rescale.apply(value)?)),
                        None => Ok(None),
                    })
                }
                _ => {
                    let rescale = Rescale::new(0, precision, scale);
                    let of = int_fun(of, pool);
                    fun::<Dec>(move |frame| match of(frame)? {
                        Some(value) => Ok(Some(rescale.apply(value.into())?)),
                        None => Ok(None),
                    })
                }
            }
        }
        Ir::Call { function: Function::Abs, args, .. } => {
            let of = dec_fun(&args[0], pool);
            fun::<Dec>(move |frame| Ok(of(frame)?.map(i128::abs)))
        }
        other => untagged::<Dec>(other, dec_of, pool),
    }
}

fn text_of(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::Text(value) => Some(value),
        _ => None,
    }
}

fn text_fun(ir: &Ir, pool: &mut Pool) -> Fun<Text> {
    if let Some(done) = common::<Text>(ir, text_fun, |a, b| a.cmp(b), pool) {
        return done;
    }
    match ir {
        Ir::Call { function, args, .. } => text_call(*function, args, pool),
        Ir::Cast { of, .. } if of.ty() == Some(Type::Text) => text_fun(of, pool),
        Ir::Cast { of, .. } => {
            let of = int_fun(of, pool);
            pool.makes_text = true;
            fun::<Text>(move |frame| {
                let Some(value) = of(frame)? else { return Ok(None) };
                let mut made = text::builder(frame.arena);
                write!(made, "{value}").expect("memory takes what is written");
                Ok(Some(made.into_bump_str()))
            })
        }
        other => untagged::<Text>(other, text_of, pool),
    }
}

fn text_call(function: Function, args: &[Ir], pool: &mut Pool) -> Fun<Text> {
    use Function::{Left, Lower, Replace, Right, Substr, Trim, TrimEnd, TrimStart, Upper};
    pool.makes_text |= !matches!(function, Substr | Left | Right | Trim | TrimStart | TrimEnd);
    match function {
        Function::Concat | Function::ConcatSkip => concat(function, args, pool),
        Lower | Upper => {
            let of = text_fun(&args[0], pool);
            let apply = if function == Lower { text::lower } else { text::upper };
            fun::<Text>(move |frame| Ok(of(frame)?.map(|text| apply(text, frame.arena))))
        }
        Left | Right => {
            let (of, count) = (text_fun(&args[0], pool), int_fun(&args[1], pool));
            let apply = if function == Left { parts::left } else { parts::right };
            fun::<Text>(move |frame| {
                Ok(of(frame)?.zip(count(frame)?).map(|(text, count)| apply(text, count)))
            })
        }
        Substr => substr(args, pool),
        Trim | TrimStart | TrimEnd => trim(function, args, pool),
        Replace => {
            let (of, from) = (text_fun(&args[0], pool), text_fun(&args[1], pool));
            let to = text_fun(&args[2], pool);
            fun::<Text>(move |frame| {
                let (Some(of), Some(from), Some(to)) = (of(frame)?, from(frame)?, to(frame)?)
                else {
                    return Ok(None);
                };
                text::require_room(text::replaced_most(of, from, to))?;
                Ok(Some(text::replace(of, from, to, frame.arena)))
            })
        }
        other => unreachable!("{} is no text", other.name()),
    }
}

fn concat(function: Function, args: &[Ir], pool: &mut Pool) -> Fun<Text> {
    let skip = function == Function::ConcatSkip;
    let args: Vec<Fun<Text>> = args.iter().map(|arg| text_fun(arg, pool)).collect();
    fun::<Text>(move |frame| {
        let (mut made, mut is_null) = (text::builder(frame.arena), false);
        // Operands behind a NULL may fail.
        for arg in &args {
            match arg(frame)? {
                Some(text) => {
                    text::require_room(made.len() + text.len())?;
                    made.push_str(text);
                }
                None => is_null = !skip,
            }
        }
        Ok((!is_null).then(|| made.into_bump_str()))
    })
}

fn substr(args: &[Ir], pool: &mut Pool) -> Fun<Text> {
    let (of, start) = (text_fun(&args[0], pool), int_fun(&args[1], pool));
    let count = args.get(2).map(|count| int_fun(count, pool));
    fun::<Text>(move |frame| {
        let (of, start) = (of(frame)?, start(frame)?);
        let count = match &count {
            None => None,
            Some(count) => match count(frame)? {
                Some(count) => Some(count),
                None => return Ok(None),
            },
        };
        let Some((of, start)) = of.zip(start) else { return Ok(None) };
        Ok(Some(parts::substr(of, start, count)?))
    })
}

fn trim(function: Function, args: &[Ir], pool: &mut Pool) -> Fun<Text> {
    let of = text_fun(&args[0], pool);
    let set = args.get(1).map(|set| text_fun(set, pool));
    let (start, end) = (function != Function::TrimEnd, function != Function::TrimStart);
    fun::<Text>(move |frame| {
        let set = match &set {
            None => Some(" "),
            Some(set) => set(frame)?,
        };
        let text = of(frame)?.zip(set);
        Ok(text.map(|(text, set)| parts::trim(text, set, start, end)))
    })
}

fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Bytes(value) => Some(value),
        _ => None,
    }
}

fn bytes_fun(ir: &Ir, pool: &mut Pool) -> Fun<Bytes> {
    common::<Bytes>(ir, bytes_fun, |a, b| a.cmp(b), pool)
        .unwrap_or_else(|| untagged::<Bytes>(ir, bytes_of, pool))
}

fn bool_fun(ir: &Ir, pool: &mut Pool) -> Fun<Bool> {
    if let Some(done) = common::<Bool>(ir, bool_fun, |a, b| a.cmp(b), pool) {
        return done;
    }
    match ir {
        Ir::Not(of) => {
            let of = bool_fun(of, pool);
            fun::<Bool>(move |frame| Ok(of(frame)?.map(|value| !value)))
        }
        Ir::And(parts) => connect(parts, false, pool),
        Ir::Or(parts) => connect(parts, true, pool),
        Ir::IsNull { of, negated } => {
            let (of, negated) = (any_fun(of, pool), *negated);
            fun::<Bool>(move |frame| Ok(Some(of(frame)?.is_none() != negated)))
        }
        Ir::IsBool { of, want, negated } => {
            let (of, want, negated) = (bool_fun(of, pool), *want, *negated);
            fun::<Bool>(move |frame| Ok(Some((of(frame)? == Some(want)) != negated)))
        }
        Ir::Compare { op, left, right } => compare(*op, left, right, pool),
        Ir::Distinct { left, right, negated } => {
            let (left, right, negated) = (any_fun(left, pool), any_fun(right, pool), *negated);
            fun::<Bool>(move |frame| {
                let distinct = match (left(frame)?, right(frame)?) {
                    (Some(left), Some(right)) => compare_values(left, right).is_ne(),
                    (left, right) => left.is_some() != right.is_some(),
                };
                Ok(Some(distinct != negated))
            })
        }
        Ir::InList { of, list, negated } => in_list(of, list, *negated, pool),
        Ir::Member { of, array, item } => member(of, array, *item, pool),
        Ir::Like { of, pattern, escape, folded, negated } => {
            like(of, pattern, escape.unwrap_or('\\'), *folded, *negated, pool)
        }
        Ir::Call { function: Function::StartsWith, args, .. } => {
            let (of, part) = (text_fun(&args[0], pool), text_fun(&args[1], pool));
            fun::<Bool>(move |frame| {
                Ok(of(frame)?.zip(part(frame)?).map(|(of, part)| of.starts_with(part)))
            })
        }
        other => untagged::<Bool>(other, truth, pool),
    }
}

/// AND (`dominant` false) or OR (`dominant` true), from left to right; operands behind the deciding
/// one are not evaluated.
fn connect(parts: &[Ir], dominant: bool, pool: &mut Pool) -> Fun<Bool> {
    let parts: Vec<Fun<Bool>> = parts.iter().map(|part| bool_fun(part, pool)).collect();
    fun::<Bool>(move |frame| {
        let mut result = Some(!dominant);
        for part in &parts {
            match part(frame)? {
                Some(value) if value == dominant => return Ok(Some(dominant)),
                Some(_) => {}
                None => result = None,
            }
        }
        Ok(result)
    })
}

fn compare(op: Compare, left: &Ir, right: &Ir, pool: &mut Pool) -> Fun<Bool> {
    let class = match (left.ty(), right.ty()) {
        (Some(ty), Some(_)) => class(ty),
        _ => return fun::<Bool>(|_| Ok(None)),
    };
    match class {
        Class::Int => compare_ints(op, left, right, pool),
        Class::Float => {
            let sides = (float_fun(left, pool), float_fun(right, pool));
            compare_with::<Float>(op, sides, |a, b| compare_floats(*a, *b))
        }
        Class::Dec => {
            compare_with::<Dec>(op, (dec_fun(left, pool), dec_fun(right, pool)), |a, b| a.cmp(b))
        }
        Class::Text => {
            compare_with::<Text>(op, (text_fun(left, pool), text_fun(right, pool)), |a, b| a.cmp(b))
        }
        Class::Bytes => {
            compare_with::<Bytes>(op, (bytes_fun(left, pool), bytes_fun(right, pool)), |a, b| {
                a.cmp(b)
            })
        }
        Class::Bool => {
            compare_with::<Bool>(op, (bool_fun(left, pool), bool_fun(right, pool)), |a, b| a.cmp(b))
        }
        Class::Any => {
            let sides = (any_fun(left, pool), any_fun(right, pool));
            compare_with::<Any>(op, sides, |a, b| compare_values(*a, *b))
        }
    }
}

fn compare_ints(op: Compare, left: &Ir, right: &Ir, pool: &mut Pool) -> Fun<Bool> {
    // The usual form of residual conditions: a column and a constant.
    if let (Ir::Slot(slot, _), Ir::Const(value, _)) = (left, right)
        && let Some(value) = integer(value.as_ref())
    {
        let slot = *slot;
        return fun::<Bool>(move |frame| {
            Ok(integer(frame.row[slot]).map(|left| op.accepts(left.cmp(&value))))
        });
    }
    compare_with::<Int>(op, (int_fun(left, pool), int_fun(right, pool)), |a, b| a.cmp(b))
}

fn compare_with<K: Kind>(
    op: Compare,
    (left, right): (Fun<K>, Fun<K>),
    order: impl for<'a> Fn(&K::Of<'a>, &K::Of<'a>) -> Ordering + Send + Sync + 'static,
) -> Fun<Bool> {
    fun::<Bool>(move |frame| {
        Ok(match (left(frame)?, right(frame)?) {
            (Some(left), Some(right)) => Some(op.accepts(order(&left, &right))),
            _ => None,
        })
    })
}

fn in_list(of: &Ir, list: &[Ir], negated: bool, pool: &mut Pool) -> Fun<Bool> {
    let of = any_fun(of, pool);
    let list: Vec<Fun<Any>> = list.iter().map(|item| any_fun(item, pool)).collect();
    fun::<Bool>(move |frame| {
        let Some(value) = of(frame)? else {
            return Ok(list.is_empty().then_some(negated));
        };
        let mut unknown = false;
        for item in &list {
            match item(frame)? {
                Some(item) if compare_values(value, item).is_eq() => return Ok(Some(!negated)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok((!unknown).then_some(negated))
    })
}

/// `of = ANY (array)`: nothing is in an empty array, NULL neither.
fn member(of: &Ir, array: &Ir, item: Type, pool: &mut Pool) -> Fun<Bool> {
    let (of, array) = (any_fun(of, pool), bytes_fun(array, pool));
    fun::<Bool>(move |frame| {
        let Some(array) = array(frame)? else { return Ok(None) };
        let Some(value) = of(frame)? else { return Ok(array.is_empty().then_some(false)) };
        let mut unknown = false;
        let searched = array::each(array, item, |element| match element {
            ValueRef::Null => {
                unknown = true;
                Ok(())
            }
            element if compare_values(value, element).is_eq() => Err(()),
            _ => Ok(()),
        });
        Ok(if searched.is_err() { Some(true) } else { (!unknown).then_some(false) })
    })
}

/// The answer of a comparison. Errors: 57014 for one that was ended, 22025.
fn finished(found: Result<Option<bool>, ValueError>, negated: bool) -> Result<Option<bool>> {
    let found = found?.ok_or_else(SqlError::cancelled)?;
    Ok(Some(found != negated))
}

fn like(
    of: &Ir,
    pattern: &Ir,
    escape: char,
    folded: bool,
    negated: bool,
    pool: &mut Pool,
) -> Fun<Bool> {
    let of = text_fun(of, pool);
    if let Ir::Const(Value::Text(pattern), _) = pattern {
        let pattern = Pattern::new(pattern, Some(escape), folded);
        return fun::<Bool>(move |frame| {
            let Some(text) = of(frame)? else { return Ok(None) };
            let go_on = || !frame.env.cancel.is_cancelled();
            finished(pattern.matches_while(text, go_on), negated)
        });
    }
    let pattern = text_fun(pattern, pool);
    fun::<Bool>(move |frame| {
        let Some((text, pattern)) = of(frame)?.zip(pattern(frame)?) else { return Ok(None) };
        let go_on = || !frame.env.cancel.is_cancelled();
        finished(patterns::matches_while(text, pattern, Some(escape), folded, go_on), negated)
    })
}
