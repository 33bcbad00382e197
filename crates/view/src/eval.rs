//! The reference evaluator of expressions: it walks the tree of an expression as the program has
//! it.

use alloc::vec::Vec;
use halcyon_value::like;
use halcyon_value::text::substr;

use crate::error::EvalError;
use crate::program::{CompareOp, Expr, NULL_INT, Reg, Type};
use crate::scalar::{
    binary, compare, date_of, date_part, float_to_int, float_to_wide, holds, int_to_float,
    int_to_wide, negate, not, rescale, rescale_int, wide_to_float, wide_to_int, within_int,
    within_wide,
};
use crate::value::{Environment, Value};

type Result<T> = core::result::Result<T, EvalError>;

/// Evaluates an expression.
///
/// AND and CASE stop at the first condition that decides, in order; so does OR.
pub fn eval(expr: &Expr, registers: &[Value], env: &mut Environment) -> Result<Value> {
    let int = |value| Ok(Value::Int(value));
    match expr {
        Expr::Reg(Reg(index)) => Ok(registers[usize::from(*index)]),
        Expr::Int(value) => int(*value),
        Expr::Float(value) => Ok(Value::Float(*value)),
        Expr::Wide(value) => Ok(Value::Wide(*value)),
        Expr::Null(ty) => Ok(Value::null(*ty)),
        Expr::Binary(op, _, a, b) => {
            let a = eval(a, registers, env)?;
            Ok(match (a, eval(b, registers, env)?) {
                (Value::Int(a), Value::Int(b)) => Value::Int(binary(*op, a, b)?),
                (Value::Float(a), Value::Float(b)) => Value::Float(binary(*op, a, b)?),
                (Value::Wide(a), Value::Wide(b)) => Value::Wide(binary(*op, a, b)?),
                _ => unreachable!("operands are of one type (Program::check)"),
            })
        }
        Expr::Neg(_, a) => Ok(match eval(a, registers, env)? {
            Value::Int(a) => Value::Int(negate(a)?),
            Value::Float(a) => Value::Float(negate(a)?),
            Value::Wide(a) => Value::Wide(negate(a)?),
        }),
        Expr::Compare(op, _, a, b) => {
            let a = eval(a, registers, env)?;
            int(match (a, eval(b, registers, env)?) {
                (Value::Int(a), Value::Int(b)) => compare(*op, a, b),
                (Value::Float(a), Value::Float(b)) => compare(*op, a, b),
                (Value::Wide(a), Value::Wide(b)) => compare(*op, a, b),
                _ => unreachable!("operands are of one type (Program::check)"),
            })
        }
        Expr::CompareText(op, a, b) => {
            let a = eval_int(a, registers, env)?;
            int(compare_text(*op, a, eval_int(b, registers, env)?, env))
        }
        Expr::IsNull(_, a) => int(i64::from(eval(a, registers, env)?.is_null())),
        Expr::And(list) => connect(list, 0, registers, env),
        Expr::Or(list) => connect(list, 1, registers, env),
        Expr::Not(a) => int(not(eval_int(a, registers, env)?)),
        Expr::Case { when, otherwise, .. } => {
            for (condition, value) in when {
                if is_true(condition, registers, env)? {
                    return eval(value, registers, env);
                }
            }
            eval(otherwise, registers, env)
        }
        Expr::Coalesce(ty, list) => {
            for each in list {
                let value = eval(each, registers, env)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Value::null(*ty))
        }
        Expr::Cast { to, value, .. } => cast(eval(value, registers, env)?, *to),
        Expr::Rescale { by, value, .. } => Ok(match eval(value, registers, env)? {
            Value::Int(value) => Value::Int(rescale_int(*by, value)?),
            Value::Wide(value) => Value::Wide(rescale(*by, value)?),
            Value::Float(_) => unreachable!("not rescaled (Program::check)"),
        }),
        Expr::Within { range, value, .. } => Ok(match eval(value, registers, env)? {
            Value::Int(value) => Value::Int(within_int(*range, value)?),
            Value::Wide(value) => Value::Wide(within_wide(*range, value)?),
            Value::Float(_) => unreachable!("has no range (Program::check)"),
        }),
        Expr::DatePart(part, a) => int(date_part(*part, eval_int(a, registers, env)?)?),
        Expr::DateOf(a) => int(date_of(eval_int(a, registers, env)?)),
        Expr::Like { value, pattern, ignore_case, negated } => {
            let value = eval_int(value, registers, env)?;
            if value == NULL_INT {
                return int(NULL_INT);
            }
            let text = env.dictionary.text(value);
            int(i64::from(like::matches(text, pattern, Some('\\'), *ignore_case)? != *negated))
        }
        Expr::Substring { value, start, length } => {
            let value = eval_int(value, registers, env)?;
            int(substring_of(value, *start, *length, env))
        }
        Expr::Text(text) => int(env.dictionary.intern(text)),
        Expr::Call { call, args } => {
            let mut words = Vec::new();
            for arg in args {
                eval(arg, registers, env)?.put(&mut words);
            }
            crate::call::call(call, &words, env)
        }
    }
}

/// Evaluates an expression of type [`Type::Int`].
pub fn eval_int(expr: &Expr, registers: &[Value], env: &mut Environment) -> Result<i64> {
    match eval(expr, registers, env)? {
        Value::Int(value) => Ok(value),
        _ => unreachable!("an integer stands here (Program::check)"),
    }
}

/// Whether a condition is true; AND and OR stop as soon as the answer is decided.
pub fn is_true(expr: &Expr, registers: &[Value], env: &mut Environment) -> Result<bool> {
    match expr {
        Expr::And(list) => {
            for each in list {
                if !is_true(each, registers, env)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Expr::Or(list) => {
            for each in list {
                if is_true(each, registers, env)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        expr => Ok(!matches!(eval_int(expr, registers, env)?, 0 | NULL_INT)),
    }
}

/// AND (`decides` 0) and OR (`decides` 1) of SQL's three truth values.
fn connect(
    list: &[Expr],
    decides: i64,
    registers: &[Value],
    env: &mut Environment,
) -> Result<Value> {
    let mut result = 1 - decides;
    for each in list {
        match eval_int(each, registers, env)? {
            NULL_INT => result = NULL_INT,
            value if i64::from(value != 0) == decides => return Ok(Value::Int(decides)),
            _ => {}
        }
    }
    Ok(Value::Int(result))
}

fn cast(value: Value, to: Type) -> Result<Value> {
    Ok(match (value, to) {
        (Value::Int(a), Type::Wide) => Value::Wide(int_to_wide(a)),
        (Value::Int(a), Type::Float) => Value::Float(int_to_float(a)),
        (Value::Wide(a), Type::Int) => Value::Int(wide_to_int(a)?),
        (Value::Wide(a), Type::Float) => Value::Float(wide_to_float(a)),
        (Value::Float(a), Type::Int) => Value::Int(float_to_int(a)?),
        (Value::Float(a), Type::Wide) => Value::Wide(float_to_wide(a)?),
        (same, _) => same,
    })
}

/// Compares two strings by their bytes; 0, 1 or NULL.
pub fn compare_text(op: CompareOp, a: i64, b: i64, env: &Environment) -> i64 {
    if a == NULL_INT || b == NULL_INT {
        return NULL_INT;
    }
    let text = |number| env.dictionary.text(number).as_bytes();
    let order = if a == b { core::cmp::Ordering::Equal } else { text(a).cmp(text(b)) };
    i64::from(holds(op, order))
}

/// Returns the number of a part of a string.
pub fn substring_of(value: i64, start: i64, length: Option<i64>, env: &mut Environment) -> i64 {
    if value == NULL_INT {
        return NULL_INT;
    }
    let text = env.dictionary.text(value);
    let part = substr(text, start, length).expect("no length is negative (Program::check)");
    if part.len() == text.len() {
        return value;
    }
    match env.dictionary.number(part) {
        Some(number) => number,
        None => {
            let part = alloc::string::String::from(part);
            env.dictionary.intern(&part)
        }
    }
}
