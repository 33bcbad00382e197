//! Expressions evaluated by `halcyon_value` alone, as they stand: the reference of both executors.
//!
//! It walks DataFusion's expression once per row and knows neither slots nor vectors. What it does
//! not know ([`Refused::Unknown`]) is counted by the test, not compared.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use halcyon_plan::scalar::storage_type;
use halcyon_sql::values::value_at;
use halcyon_value::calendar::{self, Field};
use halcyon_value::cast::{self, MomentType, NumberType};
use halcyon_value::compare::{self, Compare};
use halcyon_value::decimal::{Quotient, Rule};
use halcyon_value::integer::{Width, widen};
use halcyon_value::{Arith, Value, ValueError, ValueRef, datetime, float, functions, like};

/// Why there is no value.
#[derive(Debug)]
pub enum Refused {
    /// The reference does not know the expression.
    Unknown,
    /// SQL has none.
    Value(ValueError),
}

impl From<ValueError> for Refused {
    fn from(error: ValueError) -> Self {
        Refused::Value(error)
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// Evaluates expressions over the columns of a schema.
pub struct Reference<'a> {
    /// The columns, in the order of the row's values.
    pub schema: &'a DFSchema,
    /// A fault that a comparison must find: sums of integers are one too large.
    pub planted: bool,
}

/// UTC alone; the expressions of the test have no other zone.
#[derive(Clone, Copy)]
struct Utc;

impl datetime::Zone for Utc {
    fn fixed(_: i32) -> Self {
        Utc
    }

    fn named(_: &str) -> Option<Self> {
        None
    }

    fn abbreviated(_: &str) -> Option<i32> {
        None
    }

    fn offset_at(self, _: i64) -> i32 {
        0
    }

    fn to_utc(self, local_us: i64) -> Option<i64> {
        Some(local_us)
    }
}

fn compare_of(op: Operator) -> Option<Compare> {
    Some(match op {
        Operator::Eq => Compare::Eq,
        Operator::NotEq => Compare::NotEq,
        Operator::Lt => Compare::Lt,
        Operator::LtEq => Compare::LtEq,
        Operator::Gt => Compare::Gt,
        Operator::GtEq => Compare::GtEq,
        _ => return None,
    })
}

fn arith_of(op: Operator) -> Option<Arith> {
    Some(match op {
        Operator::Plus => Arith::Add,
        Operator::Minus => Arith::Sub,
        Operator::Multiply => Arith::Mul,
        Operator::Divide => Arith::Div,
        Operator::Modulo => Arith::Rem,
        _ => return None,
    })
}

fn truth(value: &Value) -> Result<Option<bool>> {
    match value {
        Value::Bool(value) => Ok(Some(*value)),
        Value::Null => Ok(None),
        _ => Err(Refused::Unknown),
    }
}

fn bool_of(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Bool)
}

fn width(ty: &DataType) -> Option<Width> {
    match ty {
        DataType::Int16 => Some(Width::SmallInt),
        DataType::Int32 => Some(Width::Integer),
        DataType::Int64 => Some(Width::BigInt),
        _ => None,
    }
}

fn number_type(ty: &DataType) -> Option<NumberType> {
    match ty {
        DataType::Float32 => Some(NumberType::Real),
        DataType::Float64 => Some(NumberType::Double),
        DataType::Decimal128(precision, scale) => {
            Some(NumberType::Decimal { precision: *precision, scale: *scale })
        }
        other => width(other).map(NumberType::Integer),
    }
}

fn scale(ty: &DataType) -> i8 {
    match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    value.to_owned()
}

/// The comparison of values of one kind; NULL if one is.
fn compared(op: Compare, left: &Value, right: &Value) -> Option<bool> {
    let known = !left.is_null() && !right.is_null();
    known.then(|| op.accepts(compare::values(left.as_ref(), right.as_ref())))
}

impl Reference<'_> {
    fn ty(&self, expr: &Expr) -> Result<DataType> {
        expr.get_type(self.schema).map_err(|_| Refused::Unknown)
    }

    /// The value over a row.
    pub fn eval(&self, expr: &Expr, row: &[ValueRef<'_>]) -> Result<Value> {
        let eval = |expr: &Expr| self.eval(expr, row);
        let is_null = |expr: &Expr| Ok::<_, Refused>(self.eval(expr, row)?.is_null());
        Ok(match expr {
            Expr::Alias(alias) => eval(&alias.expr)?,
            Expr::Column(column) => {
                let at = self.schema.index_of_column(column).map_err(|_| Refused::Unknown)?;
                owned(row[at])
            }
            Expr::Literal(literal, _) => constant(literal)?,
            Expr::BinaryExpr(binary) => self.binary(binary, expr, row)?,
            Expr::Not(of) => bool_of(truth(&eval(of)?)?.map(|value| !value)),
            Expr::IsNull(of) => Value::Bool(is_null(of)?),
            Expr::IsNotNull(of) => Value::Bool(!is_null(of)?),
            Expr::Negative(of) => self.negative(&eval(of)?, &self.ty(of)?)?,
            Expr::Between(between) => {
                let (of, low) = (eval(&between.expr)?, eval(&between.low)?);
                let high = eval(&between.high)?;
                let above = compared(Compare::GtEq, &of, &low);
                let both = and(above, compared(Compare::LtEq, &of, &high));
                bool_of(both.map(|value| value != between.negated))
            }
            Expr::Case(case) if case.expr.is_none() => {
                for (when, then) in &case.when_then_expr {
                    if truth(&eval(when)?)? == Some(true) {
                        return eval(then);
                    }
                }
                case.else_expr.as_ref().map_or(Ok(Value::Null), |otherwise| eval(otherwise))?
            }
            Expr::InList(list) => {
                let of = eval(&list.expr)?;
                let mut found = Some(false);
                for item in &list.list {
                    found = or(found, compared(Compare::Eq, &of, &eval(item)?));
                }
                bool_of(found.map(|value| value != list.negated))
            }
            Expr::Like(like) => {
                let (Value::Text(text), Value::Text(pattern)) =
                    (eval(&like.expr)?, eval(&like.pattern)?)
                else {
                    return Ok(Value::Null);
                };
                let escape = Some(like.escape_char.unwrap_or('\\'));
                let found = like::matches(&text, &pattern, escape, like.case_insensitive)?;
                Value::Bool(found != like.negated)
            }
            Expr::Cast(cast) => {
                self.cast(eval(&cast.expr)?, &self.ty(&cast.expr)?, cast.field.data_type())?
            }
            Expr::ScalarFunction(call) if call.name() == "array_has" => {
                let [Expr::ScalarFunction(array), of] = &call.args[..] else {
                    return Err(Refused::Unknown);
                };
                let of = eval(of)?;
                let mut found = Some(false);
                for item in &array.args {
                    found = or(found, compared(Compare::Eq, &of, &eval(item)?));
                }
                bool_of(found)
            }
            Expr::ScalarFunction(call) => self.call(call, expr, row)?,
            _ => return Err(Refused::Unknown),
        })
    }

    fn binary(&self, binary: &BinaryExpr, whole: &Expr, row: &[ValueRef<'_>]) -> Result<Value> {
        let left = self.eval(&binary.left, row)?;
        let decided = match binary.op {
            Operator::And => Some(false),
            Operator::Or => Some(true),
            _ => None,
        };
        if decided.is_some() && truth(&left)? == decided {
            return Ok(left);
        }
        let right = self.eval(&binary.right, row)?;
        if let Some(op) = compare_of(binary.op) {
            return Ok(bool_of(compared(op, &left, &right)));
        }
        let types = (self.ty(&binary.left)?, self.ty(&binary.right)?, self.ty(whole)?);
        match binary.op {
            Operator::And => Ok(bool_of(and(truth(&left)?, truth(&right)?))),
            Operator::Or => Ok(bool_of(or(truth(&left)?, truth(&right)?))),
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
                let same = match compared(Compare::Eq, &left, &right) {
                    Some(same) => same,
                    None => left.is_null() && right.is_null(),
                };
                Ok(Value::Bool(same == (binary.op == Operator::IsNotDistinctFrom)))
            }
            Operator::StringConcat => {
                named("textcat", &[left, right], &[&types.0, &types.1], &types.2)
            }
            op => {
                let op = arith_of(op).ok_or(Refused::Unknown)?;
                self.arithmetic(op, (&left, &types.0), (&right, &types.1), &types.2)
            }
        }
    }

    fn arithmetic(
        &self,
        op: Arith,
        (left, left_ty): (&Value, &DataType),
        (right, right_ty): (&Value, &DataType),
        ty: &DataType,
    ) -> Result<Value> {
        if left.is_null() || right.is_null() {
            return Ok(Value::Null);
        }
        Ok(match (left.as_ref(), right.as_ref()) {
            (ValueRef::Decimal(a), ValueRef::Decimal(b)) => {
                let DataType::Decimal128(precision, result) = ty else {
                    return Err(Refused::Unknown);
                };
                let (a_scale, b_scale) = (scale(left_ty), scale(right_ty));
                if !Rule::knows(op, a_scale, b_scale, *result) {
                    return Err(Refused::Unknown);
                }
                Value::Decimal(Rule::new(op, a_scale, b_scale, *precision, *result).apply(a, b)?)
            }
            (ValueRef::Float64(a), ValueRef::Float64(b)) => {
                Value::Float64(float::calculate(op, a, b)?)
            }
            (ValueRef::Timestamp(us), ValueRef::Interval(by)) => {
                Value::Timestamp(calendar::shift(us, by, op == Arith::Sub)?)
            }
            (a, b) => {
                let (Some(width), Some(a), Some(b)) = (width(ty), widen(a), widen(b)) else {
                    return Err(Refused::Unknown);
                };
                let result = width.calculate(op, a, b)?;
                let fault = i64::from(self.planted && op == Arith::Add);
                owned(width.value(result.wrapping_add(fault))?)
            }
        })
    }

    fn negative(&self, value: &Value, ty: &DataType) -> Result<Value> {
        Ok(match value.as_ref() {
            ValueRef::Null => Value::Null,
            ValueRef::Float64(value) => Value::Float64(-value),
            ValueRef::Decimal(value) => Value::Decimal(-value),
            other => match (width(ty), widen(other)) {
                (Some(width), Some(value)) => owned(width.value(width.negate(value)?)?),
                _ => return Err(Refused::Unknown),
            },
        })
    }

    fn cast(&self, value: Value, from: &DataType, to: &DataType) -> Result<Value> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        if from == to {
            return Ok(value);
        }
        if let (Some(_), Some(target)) = (number_type(from), number_type(to)) {
            return Ok(owned(cast::number(value.as_ref(), scale(from), target)?));
        }
        match (widen(value.as_ref()), to) {
            (Some(number), DataType::Utf8View) => Ok(Value::Text(number.to_string())),
            (None, DataType::Timestamp(_, None)) => moment(value, MomentType::Timestamp),
            (None, DataType::Date32) => moment(value, MomentType::Date),
            _ => Err(Refused::Unknown),
        }
    }

    fn call(&self, call: &ScalarFunction, whole: &Expr, row: &[ValueRef<'_>]) -> Result<Value> {
        let args: Vec<Value> =
            call.args.iter().map(|arg| self.eval(arg, row)).collect::<Result<_>>()?;
        let ty = self.ty(whole)?;
        match (call.name(), &args[..]) {
            ("pg_cast", [value]) => self.cast(value.clone(), &self.ty(&call.args[0])?, &ty),
            ("numeric_division", [Value::Null, _] | [_, Value::Null]) => Ok(Value::Null),
            ("numeric_division", [Value::Decimal(a), Value::Decimal(b)]) => {
                let scales = (self.ty(&call.args[0])?, self.ty(&call.args[1])?);
                let rule = Quotient::new(scale(&scales.0), scale(&scales.1), scale(&ty));
                Ok(Value::Decimal(rule.apply(*a, *b)?))
            }
            ("date_part", [Value::Text(field), value]) => {
                let field = Field::from_name(field).ok_or(Refused::Unknown)?;
                if value.is_null() {
                    return Ok(Value::Null);
                }
                let Value::Timestamp(us) = moment(value.clone(), MomentType::Timestamp)? else {
                    return Err(Refused::Unknown);
                };
                Ok(owned(Width::Integer.value(field.extract(us))?))
            }
            (name, args) => {
                let types = call.args.iter().map(|arg| self.ty(arg)).collect::<Result<Vec<_>>>()?;
                named(name, args, &types.iter().collect::<Vec<_>>(), &ty)
            }
        }
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    and(left.map(|value| !value), right.map(|value| !value)).map(|value| !value)
}

fn moment(value: Value, to: MomentType) -> Result<Value> {
    if let (Value::Timestamp(_), MomentType::Timestamp) = (&value, to) {
        return Ok(value);
    }
    cast::moment(value.as_ref(), to, Utc)?.map(owned).ok_or(Refused::Unknown)
}

/// A function of the table, for arguments of these types and a result of that one.
fn named(name: &str, args: &[Value], types: &[&DataType], ty: &DataType) -> Result<Value> {
    let types: Option<Vec<_>> = types.iter().map(|ty| storage_type(ty)).collect();
    let (types, ty) = types.zip(storage_type(ty)).ok_or(Refused::Unknown)?;
    let call = functions::Call::exact(name, &types, ty).ok_or(Refused::Unknown)?;
    let args: Vec<ValueRef<'_>> = args.iter().map(Value::as_ref).collect();
    call.value(&args).map_err(|error| match error {
        ValueError::Mismatch(_) => Refused::Unknown,
        other => Refused::Value(other),
    })
}

fn constant(literal: &ScalarValue) -> Result<Value> {
    let array = literal.to_array().map_err(|_| Refused::Unknown)?;
    value_at(array.as_ref(), 0).map(owned).ok_or(Refused::Unknown)
}
