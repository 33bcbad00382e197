//! Arithmetic that refuses overflow and division by zero, and division of decimals.
//!
//! [`Checked`] replaces `+ - * /` and unary minus (and `#`) where Arrow's kernels, as DataFusion calls them,
//! would wrap (integers), become infinite (floats) or exceed 38 digits (decimals). Integer division
//! and remainder raise errors in Arrow already and stay operators.
//!
//! A chain of operators of one type, `a + b - c …`, becomes one call: naming nested calls would
//! take time cubic in the chain's length, and statements may have a thousand terms.
//!
//! Cost: integers as Arrow's checked kernels; floats and wide decimals at the edge of their precision
//! pay one more pass over the result, narrow ones less than Arrow's kernels ([`mod@crate::narrow`]).

use std::fmt::Write as _;
use std::ops::BitXor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, PrimitiveArray, Scalar};
use arrow::compute::binary;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use halcyon_value::ValueError;
use halcyon_value::decimal::{self, Quotient};
use halcyon_value::float::{self, overflowed};

use halcyon_sql::diagnose::{division_by_zero, external, out_of_range};

use crate::narrow;

/// An operation that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CheckedOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `#`, which fails never, but of which DataFusion's simplifier says that `a # a` is 0, and `a # b # a`
    /// is `b`, for NULL too.
    Xor,
    Negate,
}

/// Checked operations from left to right, one on each argument after the first;
/// [`CheckedOp::Negate`] stands alone and has one argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    ops: Vec<CheckedOp>,
    /// The type that the plain operators would have.
    result: DataType,
    signature: Signature,
}

/// The checked function that an expression calls, if it calls one; for readers of optimised
/// expressions.
pub fn checked_call(expr: &Expr) -> Option<&Checked> {
    match expr {
        Expr::ScalarFunction(call) => {
            let inner: &dyn std::any::Any = call.func.inner().as_ref();
            inner.downcast_ref::<Checked>()
        }
        _ => None,
    }
}

/// Replaces an operator by its checked form where its operands need that.
pub fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (op, operands) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let checked = match op {
                Operator::Plus => CheckedOp::Add,
                Operator::Minus => CheckedOp::Subtract,
                Operator::Multiply => CheckedOp::Multiply,
                Operator::Divide => CheckedOp::Divide,
                Operator::BitwiseXor => CheckedOp::Xor,
                _ => {
                    let plain = BinaryExpr { left, op, right };
                    return Ok(Transformed::no(Expr::BinaryExpr(plain)));
                }
            };
            let (lt, rt) = (type_of(&left, schema)?, type_of(&right, schema)?);
            let result = BinaryTypeCoercer::new(&lt, &op, &rt).get_result_type()?;
            if !needs_check(checked, &lt, &rt, &result) {
                let plain = BinaryExpr { left, op, right };
                return Ok(Transformed::no(Expr::BinaryExpr(plain)));
            }
            let known = checked_call(&left);
            let before = known.filter(|known| known.ops[0] != CheckedOp::Negate);
            let before = before.filter(|known| known.result == result && rt == result);
            match before.map(|known| known.ops.clone()) {
                Some(mut ops) => {
                    ops.push(checked);
                    let mut operands = operands_of(*left);
                    operands.push(*right);
                    (Checked::new(ops, result), operands)
                }
                None => (Checked::new(vec![checked], result), vec![*left, *right]),
            }
        }
        Expr::Negative(inner) => {
            let ty = type_of(&inner, schema)?;
            let is_checked = ty.is_signed_integer() || ty.is_floating();
            if !is_checked || matches!(inner.as_ref(), Expr::Literal(..)) {
                return Ok(Transformed::no(Expr::Negative(inner)));
            }
            (Checked::new(vec![CheckedOp::Negate], ty), vec![*inner])
        }
        expr => return Ok(Transformed::no(expr)),
    };
    let function = Arc::new(ScalarUDF::new_from_impl(op));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, operands))))
}

/// An expression's type; for checked calls without a walk through their operands.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match checked_call(expr) {
        Some(checked) => Ok(checked.result.clone()),
        None => expr.get_type(schema),
    }
}

fn operands_of(call: Expr) -> Vec<Expr> {
    match call {
        Expr::ScalarFunction(call) => call.args,
        other => vec![other],
    }
}

fn needs_check(op: CheckedOp, left: &DataType, right: &DataType, result: &DataType) -> bool {
    use DataType::{Interval, Timestamp};
    match (left, right) {
        // DataFusion looks for the bounds of such sums when it looks for orders, and fails.
        (Timestamp(..) | Interval(_), Interval(_)) => {
            matches!(op, CheckedOp::Add | CheckedOp::Subtract)
        }
        (left, right) if left != right && !left.is_decimal() => false,
        (left, _) if op == CheckedOp::Xor => left.is_signed_integer(),
        (DataType::Float32 | DataType::Float64, _) => true,
        (left, _) if left.is_integer() => op != CheckedOp::Divide,
        // Below 38 digits nothing overflows, but narrow values are computed faster here.
        (DataType::Decimal128(..), DataType::Decimal128(..)) => {
            op != CheckedOp::Divide && result.is_decimal()
        }
        _ => false,
    }
}

/// Undoes [`check`].
pub fn uncheck(expr: Expr) -> Transformed<Expr> {
    let Some(ops) = checked_call(&expr).map(|checked| checked.ops.clone()) else {
        return Transformed::no(expr);
    };
    let mut operands = operands_of(expr).into_iter();
    let first = operands.next().expect("an operand");
    if ops == [CheckedOp::Negate] {
        return Transformed::yes(Expr::Negative(Box::new(first)));
    }
    let plain = ops.iter().zip(operands).fold(first, |left, (op, right)| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op.plain(), Box::new(right)))
    });
    Transformed::yes(plain)
}

impl CheckedOp {
    /// The operator that this operation checks. Panics for [`CheckedOp::Negate`], which has one
    /// operand.
    fn plain(self) -> Operator {
        match self {
            CheckedOp::Add => Operator::Plus,
            CheckedOp::Subtract => Operator::Minus,
            CheckedOp::Multiply => Operator::Multiply,
            CheckedOp::Divide => Operator::Divide,
            CheckedOp::Xor => Operator::BitwiseXor,
            CheckedOp::Negate => unreachable!("has one operand"),
        }
    }
}

impl Checked {
    fn new(ops: Vec<CheckedOp>, result: DataType) -> Self {
        let operands = if ops == [CheckedOp::Negate] { 1 } else { ops.len() + 1 };
        Checked { ops, result, signature: Signature::any(operands, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.ops[..] {
            [CheckedOp::Add] => "checked_add",
            [CheckedOp::Subtract] => "checked_subtract",
            [CheckedOp::Multiply] => "checked_multiply",
            [CheckedOp::Divide] => "checked_divide",
            [CheckedOp::Xor] => "checked_xor",
            [CheckedOp::Negate] => "checked_negate",
            _ => "checked",
        }
    }

    /// Chains of different operators on the same operands must have different names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = format!("{}({}", self.name(), args[0].schema_name());
        for (op, arg) in self.ops.iter().zip(&args[1..]) {
            let _ = match self.ops.len() {
                1 => write!(name, ",{}", arg.schema_name()),
                _ => write!(name, " {} {}", op.plain(), arg.schema_name()),
            };
        }
        name.push(')');
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let mut result = args.args[0].clone();
        if self.ops == [CheckedOp::Negate] {
            result = ColumnarValue::Array(of_one_nan(numeric::neg(datum(&result)?.get().0)?));
        }
        for (op, right) in self.ops.iter().zip(&args.args[1..]) {
            let calculated =
                self.calculate(*op, datum(&result)?.as_ref(), datum(right)?.as_ref())?;
            // Arrow returns an array of one row for scalars; it must become a scalar again for the
            // next operands.
            let both = [&result, right];
            let scalars = both.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
            result = if scalars {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&calculated, 0)?)
            } else {
                ColumnarValue::Array(calculated)
            };
        }
        if let ColumnarValue::Scalar(_) = result {
            return Ok(result);
        }
        let array = result.into_array(args.number_rows)?;
        if all_scalars {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The bits in which integers of one type differ.
fn xor(left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
    match left.get().0.data_type() {
        DataType::Int8 => xor_of::<Int8Type>(left, right),
        DataType::Int16 => xor_of::<Int16Type>(left, right),
        DataType::Int32 => xor_of::<Int32Type>(left, right),
        DataType::Int64 => xor_of::<Int64Type>(left, right),
        other => unreachable!("{other} has no operator #"),
    }
}

fn xor_of<T: ArrowPrimitiveType<Native: BitXor<Output = T::Native>>>(
    left: &dyn Datum,
    right: &dyn Datum,
) -> std::result::Result<ArrayRef, ArrowError> {
    let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    let with = |many: &PrimitiveArray<T>, one: &PrimitiveArray<T>| -> PrimitiveArray<T> {
        match one.is_valid(0) {
            true => many.unary(|value| value ^ one.value(0)),
            false => PrimitiveArray::new_null(many.len()),
        }
    };
    Ok(Arc::new(match (left_is_one, right_is_one) {
        (_, true) => with(left, right),
        (true, false) => with(right, left),
        (false, false) => binary(left, right, |left, right| left ^ right)?,
    }))
}

fn datum(value: &ColumnarValue) -> Result<Box<dyn Datum>> {
    Ok(match value {
        ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => Box::new(Scalar::new(scalar.to_array()?)),
    })
}

impl Checked {
    fn calculate(&self, op: CheckedOp, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef> {
        if op == CheckedOp::Divide && has_zero(right) {
            // NULL / 0 is NULL, and NaN / 0 is NaN: only rows with a quotient can be errors.
            let quotient = numeric::div(left, right)?;
            let of = |(array, is_scalar): (&dyn Array, bool), row: usize| {
                array.slice(if is_scalar { 0 } else { row }, 1)
            };
            let fails = |row: usize| {
                quotient.is_valid(row)
                    && has_zero(&of(right.get(), row))
                    && !has_nan(&of(left.get(), row))
            };
            if (0..quotient.len()).any(fails) {
                return Err(external(division_by_zero()));
            }
        }
        let of_decimals = match op {
            CheckedOp::Add => Some(narrow::Op::Add),
            CheckedOp::Subtract => Some(narrow::Op::Subtract),
            CheckedOp::Multiply => Some(narrow::Op::Multiply),
            CheckedOp::Divide | CheckedOp::Xor | CheckedOp::Negate => None,
        };
        let narrow = of_decimals.and_then(|op| narrow::calculated(op, left, right, &self.result));
        if let Some(result) = narrow {
            return Ok(result);
        }
        let result = match op {
            CheckedOp::Add => numeric::add(left, right),
            CheckedOp::Subtract => numeric::sub(left, right),
            CheckedOp::Multiply => numeric::mul(left, right),
            CheckedOp::Divide => numeric::div(left, right),
            CheckedOp::Xor => xor(left, right),
            CheckedOp::Negate => unreachable!("has one operand"),
        };
        let result = result.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => external(self.overflow()),
            other => other.into(),
        })?;
        if self.went_too_far(&result, left, right) {
            return Err(external(self.overflow()));
        }
        Ok(of_one_nan(result))
    }

    fn overflow(&self) -> halcyon_sql::error::SqlError {
        out_of_range(match &self.result {
            DataType::Int8 | DataType::Int16 => "smallint",
            DataType::Int32 => "integer",
            DataType::Int64 => "bigint",
            DataType::Float32 | DataType::Float64 => {
                return ValueError::FloatOverflow.into();
            }
            DataType::Interval(_) => "interval",
            DataType::Timestamp(..) => return ValueError::MomentOutOfRange("timestamp").into(),
            _ => "numeric",
        })
    }

    /// Whether floats became infinite from finite ones, or decimals have more than 38 digits.
    fn went_too_far(&self, result: &ArrayRef, left: &dyn Datum, right: &dyn Datum) -> bool {
        match result.data_type() {
            DataType::Float64 => {
                let infinite = any(result.as_primitive::<Float64Type>(), f64::is_infinite);
                infinite && any_overflowed::<Float64Type>(result, left, right)
            }
            DataType::Float32 => {
                let infinite = any(result.as_primitive::<Float32Type>(), f32::is_infinite);
                infinite && any_overflowed::<Float32Type>(result, left, right)
            }
            DataType::Decimal128(38, _) => {
                let too_long = |value| !decimal::fits(value, decimal::DIGITS_MAX);
                any(result.as_primitive::<Decimal128Type>(), too_long)
            }
            _ => false,
        }
    }
}

/// Floats among which NaN has no sign: `∞ - ∞` is the negative one, which kernels sort and group as another value.
fn of_one_nan(result: ArrayRef) -> ArrayRef {
    match result.data_type() {
        DataType::Float64 => {
            let floats = result.as_primitive::<Float64Type>();
            if !any(floats, f64::is_nan) {
                return result;
            }
            Arc::new(floats.unary::<_, Float64Type>(float::canonical))
        }
        DataType::Float32 => {
            let floats = result.as_primitive::<Float32Type>();
            if !any(floats, f32::is_nan) {
                return result;
            }
            let canonical = |value: f32| if value.is_nan() { f32::NAN } else { value };
            Arc::new(floats.unary::<_, Float32Type>(canonical))
        }
        _ => result,
    }
}

/// Whether in some row the result is infinite and no operand is.
#[cold]
fn any_overflowed<T: ArrowPrimitiveType>(
    result: &ArrayRef,
    left: &dyn Datum,
    right: &dyn Datum,
) -> bool
where
    T::Native: Into<f64>,
{
    let operand = |side: &dyn Datum, row: usize| {
        let (array, is_scalar) = side.get();
        array.as_primitive::<T>().value(if is_scalar { 0 } else { row }).into()
    };
    let results = result.as_primitive::<T>();
    (0..results.len()).any(|row| {
        let result = results.value(row).into();
        results.is_valid(row) && overflowed(result, operand(left, row), operand(right, row))
    })
}

fn any<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, is: impl Fn(T::Native) -> bool) -> bool {
    // First without branches over all values; NULLs may have any value, so a hit is checked again.
    array.values().iter().fold(false, |found, value| found | is(*value))
        && array.iter().flatten().any(is)
}

fn has_zero(divisor: &dyn Datum) -> bool {
    let array = divisor.get().0;
    match array.data_type() {
        DataType::Float64 => any(array.as_primitive::<Float64Type>(), |v| v == 0.0),
        DataType::Float32 => any(array.as_primitive::<Float32Type>(), |v| v == 0.0),
        _ => false,
    }
}

fn has_nan(dividend: &dyn Datum) -> bool {
    let array = dividend.get().0;
    match array.data_type() {
        DataType::Float64 => any(array.as_primitive::<Float64Type>(), f64::is_nan),
        DataType::Float32 => any(array.as_primitive::<Float32Type>(), f32::is_nan),
        _ => false,
    }
}

/// NUMERIC `/` NUMERIC with at least sixteen places, rounded half away from zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NumericDivision {
    /// Places of the result.
    scale: i8,
    signature: Signature,
}

impl NumericDivision {
    /// `left / right` of decimals or integers, at least one of them decimal.
    pub fn call(left: Expr, left_type: &DataType, right: Expr, right_type: &DataType) -> Expr {
        let (left, left_scale) = as_decimal(left, left_type);
        let (right, right_scale) = as_decimal(right, right_type);
        let scale = Quotient::scale(left_scale, right_scale);
        let function =
            NumericDivision { scale, signature: Signature::any(2, Volatility::Immutable) };
        ScalarUDF::new_from_impl(function).call(vec![left, right])
    }

    /// Places of the result.
    pub fn scale(&self) -> i8 {
        self.scale
    }
}

fn as_decimal(expr: Expr, ty: &DataType) -> (Expr, i8) {
    match (ty, digits_of(ty)) {
        (DataType::Decimal128(_, scale), _) => (expr, *scale),
        (_, digits) => {
            let target = DataType::Decimal128(digits.unwrap_or(38), 0);
            let cast = datafusion::logical_expr::Cast::new(Box::new(expr), target);
            (Expr::Cast(cast), 0)
        }
    }
}

impl ScalarUDFImpl for NumericDivision {
    fn name(&self) -> &str {
        "numeric_division"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, self.scale))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // A rule that asks what a condition says of a NULL gives one without a type.
        if args.args.iter().any(|arg| arg.data_type() == DataType::Null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::Decimal128(None, 38, self.scale)));
        }
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let scales: Vec<i8> = arrays
            .iter()
            .map(|array| match array.data_type() {
                DataType::Decimal128(_, scale) => *scale,
                _ => 0,
            })
            .collect();
        let lefts = arrays[0].as_primitive::<Decimal128Type>();
        let rights = arrays[1].as_primitive::<Decimal128Type>();
        let rule = Quotient::new(scales[0], scales[1], self.scale);
        let quotients = lefts.iter().zip(rights).map(|pair| match pair {
            (Some(left), Some(right)) => {
                rule.apply(left, right).map(Some).map_err(|error| external(error.into()))
            }
            _ => Ok(None),
        });
        let array: Decimal128Array = quotients.collect::<Result<_>>()?;
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(38, self.scale)?);
        if all_scalars {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// Number of decimal digits that an integer type needs.
pub fn digits_of(ty: &DataType) -> Option<u8> {
    Some(match ty {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}
