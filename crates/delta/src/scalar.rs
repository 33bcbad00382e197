//! SQL expressions as expressions of the calculus, with the types and the rounding of the executors.
//!
//! Decimals are integers whose scale the plan's types give: a sum brings both operands to the
//! larger scale, a product adds the scales, a quotient has the scale of the plan's type. Plain `/`
//! of decimals truncates, as in Arrow; the executors' own `numeric_division` rounds half away from
//! zero. The checked forms of operators (`checked_add`, …) are translated like the operators, since
//! every operation of a trigger program is checked.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as SqlColumn, ScalarValue};
use datafusion::logical_expr::expr::{
    Between, Case, Exists, InList, InSubquery, Like, ScalarFunction,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr as Sql, ExprSchemable, Operator, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use halcyon_value::Type as ValueType;
use halcyon_value::calendar::{DAY_US, day_of, time_of};
use halcyon_value::decimal::float_divisor;
use halcyon_value::functions::{self, Call};
use halcyon_view::program::{BinaryOp, CompareOp, DatePart, Expr, NumberRange, Type};

use crate::builder::Builder;
use crate::encoding::{Encoding, value_type};
use crate::error::{Result, Unsupported};
use crate::expression::{
    and, binary, cast, compare, fold, is_null, not, null_safe_eq, within_range,
};

impl Builder<'_> {
    /// Translates an expression over the columns of the innermost scope. Columns of enclosing
    /// queries become variables of their scopes, subqueries become variables with cases.
    pub(crate) fn scalar(&mut self, sql: &Sql) -> Result<Expr> {
        if self.facts.is_cancelled() {
            return Err(Unsupported::new("a query whose compilation was cancelled"));
        }
        if let Some(value) = self.constant(sql)? {
            return Ok(value);
        }
        Ok(match sql {
            Sql::Alias(alias) => self.scalar(&alias.expr)?,
            Sql::Column(column) => self.column(column)?,
            Sql::OuterReferenceColumn(_, column) => self.outer_column(column)?,
            Sql::Literal(value, _) => literal(value)?,
            Sql::BinaryExpr(binary) => self.operator(binary, &self.type_of(sql)?)?,
            Sql::Not(inner) => not(self.scalar(inner)?),
            Sql::IsNull(inner) | Sql::IsUnknown(inner) => self.null_test(inner)?,
            Sql::IsNotNull(inner) | Sql::IsNotUnknown(inner) => not(self.null_test(inner)?),
            Sql::IsTrue(inner) => known(self.scalar(inner)?),
            Sql::IsNotTrue(inner) => not(known(self.scalar(inner)?)),
            Sql::IsFalse(inner) => known(not(self.scalar(inner)?)),
            Sql::IsNotFalse(inner) => not(known(not(self.scalar(inner)?))),
            Sql::Negative(inner) => self.negated(inner)?,
            Sql::Between(between) => self.between(between)?,
            Sql::InList(list) => self.in_list(list)?,
            Sql::Like(like) => self.like(like)?,
            Sql::Case(case) => self.case(case, &self.type_of(sql)?)?,
            Sql::Cast(cast) => {
                let from = self.type_of(&cast.expr)?;
                let value = self.scalar(&cast.expr)?;
                convert(value, &from, cast.field.data_type())?
            }
            Sql::ScalarFunction(call) => self.call(call, &self.type_of(sql)?)?,
            Sql::ScalarSubquery(subquery) => self.scalar_subquery(subquery)?,
            Sql::Exists(Exists { subquery, negated }) => {
                let found = self.exists(subquery)?;
                if *negated { not(found) } else { found }
            }
            Sql::InSubquery(InSubquery { expr, subquery, negated }) => {
                let found = self.any_of(expr, CompareOp::Eq, subquery)?;
                if *negated { not(found) } else { found }
            }
            Sql::SetComparison(comparison) => self.set_comparison(comparison)?,
            Sql::Placeholder(_) => return Err(Unsupported::new("a parameter")),
            other => return Err(Unsupported::new(format!("the expression {other}"))),
        })
    }

    pub(crate) fn type_of(&self, sql: &Sql) -> Result<DataType> {
        Ok(sql.get_type(self.schema())?)
    }

    /// The type of the words of an expression's value.
    pub(crate) fn words(&self, sql: &Sql) -> Result<Type> {
        Ok(Encoding::of(&self.type_of(sql)?)?.ty())
    }

    /// The value of an expression without columns, computed as the executors would.
    fn constant(&self, sql: &Sql) -> Result<Option<Expr>> {
        let mut is_constant = true;
        sql.apply(|node| {
            is_constant &= match node {
                Sql::ScalarFunction(call) => {
                    if call.func.signature().volatility != Volatility::Immutable {
                        let name = call.name();
                        return Err(datafusion::common::DataFusionError::NotImplemented(format!(
                            "{name}(), whose value changes"
                        )));
                    }
                    true
                }
                Sql::Column(_)
                | Sql::OuterReferenceColumn(..)
                | Sql::ScalarSubquery(_)
                | Sql::Exists(_)
                | Sql::InSubquery(_)
                | Sql::SetComparison(_)
                | Sql::Placeholder(_)
                | Sql::AggregateFunction(_)
                | Sql::WindowFunction(_) => false,
                // The simplifier would cut what is to be rounded.
                Sql::Cast(cast) => {
                    let from = cast.expr.get_type(self.schema())?;
                    !((from.is_decimal() || from.is_floating())
                        && cast.field.data_type().is_integer())
                }
                _ => true,
            };
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(|error| match error {
            datafusion::common::DataFusionError::NotImplemented(what) => Unsupported::new(what),
            other => other.into(),
        })?;
        if !is_constant || matches!(sql, Sql::Alias(_)) {
            return Ok(None);
        }
        let context =
            SimplifyContext::builder().with_schema(Arc::new(self.schema().clone())).build();
        let target = self.type_of(sql)?;
        match ExprSimplifier::new(context).simplify(sql.clone())? {
            Sql::Literal(value, _) => {
                let exact = value.data_type() == target;
                let value = if exact { value } else { value.cast_to(&target)? };
                literal(&value).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn column(&self, column: &SqlColumn) -> Result<Expr> {
        let at = self.schema().index_of_column(column)?;
        Ok(Expr::Reg(self.scope().vars[at]))
    }

    fn null_test(&mut self, inner: &Sql) -> Result<Expr> {
        let ty = self.words(inner)?;
        let value = self.scalar(inner)?;
        Ok(is_null(ty, value))
    }

    fn operator(&mut self, expr: &BinaryExpr, result: &DataType) -> Result<Expr> {
        let BinaryExpr { left, op, right } = expr;
        match op {
            Operator::And => return Ok(and(vec![self.scalar(left)?, self.scalar(right)?])),
            Operator::Or => {
                return Ok(fold(Expr::Or(vec![self.scalar(left)?, self.scalar(right)?])));
            }
            _ => {}
        }
        let (lt, rt) = (self.type_of(left)?, self.type_of(right)?);
        if let Some(op) = comparison(*op) {
            let (a, b) = (self.scalar(left)?, self.scalar(right)?);
            return compared(op, a, &lt, b, &rt);
        }
        match op {
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
                let (a, b) = (self.scalar(left)?, self.scalar(right)?);
                let (ty, a, b) = same_type(a, &lt, b, &rt)?;
                let same = known(null_safe_eq(ty, a, b));
                Ok(if *op == Operator::IsDistinctFrom { not(same) } else { same })
            }
            Operator::Plus => self.arithmetic(BinaryOp::Add, left, right, result),
            Operator::Minus => self.arithmetic(BinaryOp::Sub, left, right, result),
            Operator::Multiply => self.arithmetic(BinaryOp::Mul, left, right, result),
            Operator::Divide => self.arithmetic(BinaryOp::Div, left, right, result),
            Operator::Modulo => self.arithmetic(BinaryOp::Rem, left, right, result),
            Operator::StringConcat => self.table_call("textcat", &[&**left, &**right], result),
            other => Err(Unsupported::new(format!("the operator {other}"))),
        }
    }

    fn arithmetic(
        &mut self,
        op: BinaryOp,
        left: &Sql,
        right: &Sql,
        result: &DataType,
    ) -> Result<Expr> {
        let (lt, rt) = (self.type_of(left)?, self.type_of(right)?);
        if let Some(shifted) = self.interval_arithmetic(op, left, &lt, right, &rt, result)? {
            return Ok(shifted);
        }
        let (a, b) = (self.scalar(left)?, self.scalar(right)?);
        let value = calculate(op, a, &lt, b, &rt, result)?;
        let bounds = combined_bounds(op, self.bounds(left)?, self.bounds(right)?);
        Ok(kept_within(value, result, bounds))
    }

    /// −`inner`, an error for the most negative integer of a type.
    fn negated(&mut self, inner: &Sql) -> Result<Expr> {
        let (ty, words) = (self.type_of(inner)?, self.words(inner)?);
        let value = fold(Expr::Neg(words, Box::new(self.scalar(inner)?)));
        let bounds = combined_bounds(BinaryOp::Sub, Some((0, 0)), self.bounds(inner)?);
        Ok(kept_within(value, &ty, bounds))
    }

    /// The smallest and the largest value that an expression over integers may have. The bounds of
    /// a sum are those of its operands' types, so that `a::bigint * b::bigint` of INTEGERs is known
    /// to fit.
    fn bounds(&self, sql: &Sql) -> Result<Option<(i128, i128)>> {
        let ty = self.type_of(sql)?;
        let Some(bits) = bits_of(&ty) else { return Ok(None) };
        let of_type = (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1);
        let of_parts = match sql {
            Sql::Alias(alias) => self.bounds(&alias.expr)?,
            Sql::Cast(cast) => self.bounds(&cast.expr)?,
            Sql::Literal(value, _) => match literal(value)? {
                Expr::Int(value) => Some((value.into(), value.into())),
                _ => None,
            },
            Sql::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::Plus => self.bounds_of_both(BinaryOp::Add, left, right)?,
                Operator::Minus => self.bounds_of_both(BinaryOp::Sub, left, right)?,
                Operator::Multiply => self.bounds_of_both(BinaryOp::Mul, left, right)?,
                _ => None,
            },
            Sql::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
                ("pg_cast", [a]) => self.bounds(a)?,
                ("checked_add", [a, b]) => self.bounds_of_both(BinaryOp::Add, a, b)?,
                ("checked_subtract", [a, b]) => self.bounds_of_both(BinaryOp::Sub, a, b)?,
                ("checked_multiply", [a, b]) => self.bounds_of_both(BinaryOp::Mul, a, b)?,
                _ => None,
            },
            _ => None,
        };
        let (low, high) = of_parts.unwrap_or(of_type);
        Ok(Some((low.clamp(of_type.0, of_type.1), high.clamp(of_type.0, of_type.1))))
    }

    fn bounds_of_both(&self, op: BinaryOp, a: &Sql, b: &Sql) -> Result<Option<(i128, i128)>> {
        Ok(combined_bounds(op, self.bounds(a)?, self.bounds(b)?))
    }

    /// A date or timestamp plus or minus a constant interval of at most days.
    fn interval_arithmetic(
        &mut self,
        op: BinaryOp,
        left: &Sql,
        lt: &DataType,
        right: &Sql,
        rt: &DataType,
        result: &DataType,
    ) -> Result<Option<Expr>> {
        let (moment, from, interval) = match (lt, rt) {
            (_, DataType::Interval(_)) => (left, lt, right),
            (DataType::Interval(_), _) => (right, rt, left),
            _ => return Ok(None),
        };
        let unsupported = || {
            Unsupported::new("a column plus or minus an interval of months")
                .hint("Add the interval to a constant, or use an interval of days.")
        };
        let (days, us) = match interval {
            Sql::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _)
                if value.months == 0 && value.nanoseconds % 1000 == 0 =>
            {
                (i64::from(value.days), value.nanoseconds / 1000)
            }
            Sql::Literal(ScalarValue::IntervalDayTime(Some(value)), _) => {
                (i64::from(value.days), i64::from(value.milliseconds) * 1000)
            }
            _ => return Err(unsupported()),
        };
        let value = self.scalar(moment)?;
        let value = convert(value, from, result)?;
        let shift = match result {
            DataType::Date32 if us == 0 => days,
            DataType::Timestamp(TimeUnit::Microsecond, _) => days * DAY_US + us,
            _ => return Err(unsupported()),
        };
        Ok(Some(binary(op, Type::Int, value, Expr::Int(shift))))
    }

    fn between(&mut self, between: &Between) -> Result<Expr> {
        let ty = self.type_of(&between.expr)?;
        let value = self.scalar(&between.expr)?;
        let (lt, ht) = (self.type_of(&between.low)?, self.type_of(&between.high)?);
        let (low, high) = (self.scalar(&between.low)?, self.scalar(&between.high)?);
        let above = compared(CompareOp::Ge, value.clone(), &ty, low, &lt)?;
        let below = compared(CompareOp::Le, value, &ty, high, &ht)?;
        let both = and(vec![above, below]);
        Ok(if between.negated { not(both) } else { both })
    }

    fn in_list(&mut self, list: &InList) -> Result<Expr> {
        let ty = self.type_of(&list.expr)?;
        let value = self.scalar(&list.expr)?;
        let mut any = Vec::new();
        for item in &list.list {
            let item_type = self.type_of(item)?;
            let item = self.scalar(item)?;
            any.push(compared(CompareOp::Eq, value.clone(), &ty, item, &item_type)?);
        }
        let any = fold(Expr::Or(any));
        Ok(if list.negated { not(any) } else { any })
    }

    fn like(&mut self, like: &Like) -> Result<Expr> {
        let value = self.scalar(&like.expr)?;
        let pattern = match (self.scalar(&like.pattern)?, like.escape_char) {
            (Expr::Text(pattern), None | Some('\\')) => pattern,
            (Expr::Null(_), _) => return Ok(Expr::Null(Type::Int)),
            _ => {
                return Err(Unsupported::new("LIKE with a pattern that is no constant")
                    .hint("Only constant patterns with the escape character \\ are possible."));
            }
        };
        let (ignore_case, negated) = (like.case_insensitive, like.negated);
        Ok(fold(Expr::Like { value: Box::new(value), pattern, ignore_case, negated }))
    }

    fn case(&mut self, case: &Case, result: &DataType) -> Result<Expr> {
        let ty = Encoding::of(result)?.ty();
        let mut when = Vec::new();
        for (condition, value) in &case.when_then_expr {
            let condition = match &case.expr {
                Some(operand) => {
                    let (ot, ct) = (self.type_of(operand)?, self.type_of(condition)?);
                    let operand = self.scalar(operand)?;
                    let condition = self.scalar(condition)?;
                    compared(CompareOp::Eq, operand, &ot, condition, &ct)?
                }
                None => self.scalar(condition)?,
            };
            when.push((condition, self.converted(value, result)?));
        }
        let otherwise = match &case.else_expr {
            Some(value) => self.converted(value, result)?,
            None => Expr::Null(ty),
        };
        Ok(fold(Expr::Case { ty, when, otherwise: Box::new(otherwise) }))
    }

    /// An expression's value, converted to the given type.
    pub(crate) fn converted(&mut self, sql: &Sql, to: &DataType) -> Result<Expr> {
        let from = self.type_of(sql)?;
        let value = self.scalar(sql)?;
        convert(value, &from, to)
    }

    fn call(&mut self, call: &ScalarFunction, result: &DataType) -> Result<Expr> {
        let args = call.args.as_slice();
        match (call.name(), args) {
            ("checked_add", [a, b]) => self.arithmetic(BinaryOp::Add, a, b, result),
            ("checked_subtract", [a, b]) => self.arithmetic(BinaryOp::Sub, a, b, result),
            ("checked_multiply", [a, b]) => self.arithmetic(BinaryOp::Mul, a, b, result),
            ("checked_divide", [a, b]) => self.arithmetic(BinaryOp::Div, a, b, result),
            ("checked_negate", [a]) => self.negated(a),
            ("numeric_division", [a, b]) => self.numeric_division(a, b, result),
            ("pg_cast", [a]) => self.converted(a, result),
            ("coalesce", all) => {
                let ty = Encoding::of(result)?.ty();
                let all: Result<Vec<Expr>> =
                    all.iter().map(|arg| self.converted(arg, result)).collect();
                Ok(fold(Expr::Coalesce(ty, all?)))
            }
            ("nullif", [a, b]) => {
                let (at, bt) = (self.type_of(a)?, self.type_of(b)?);
                let (a, b) = (self.scalar(a)?, self.scalar(b)?);
                let ty = Encoding::of(&at)?.ty();
                let same = compared(CompareOp::Eq, a.clone(), &at, b, &bt)?;
                let otherwise = Box::new(convert(a, &at, result)?);
                Ok(fold(Expr::Case { ty, when: vec![(same, Expr::Null(ty))], otherwise }))
            }
            ("abs", [a]) => {
                let ty = self.words(a)?;
                let value = self.scalar(a)?;
                let zero = cast(Expr::Int(0), Type::Int, ty);
                let negative = compare(CompareOp::Lt, ty, value.clone(), zero);
                let when = vec![(negative, self.negated(a)?)];
                Ok(fold(Expr::Case { ty, when, otherwise: Box::new(value) }))
            }
            ("date_part" | "extract" | "datepart", [part, moment]) => self.date_part(part, moment),
            ("substr" | "substring", [text, rest @ ..]) => match self.substring(text, rest)? {
                Some(part) => Ok(part),
                None => self.table_call("substr", &args.iter().collect::<Vec<_>>(), result),
            },
            ("left", [text, length]) => match self.scalar(length)? {
                Expr::Int(length) if length >= 0 => {
                    let value = Box::new(self.scalar(text)?);
                    Ok(fold(Expr::Substring { value, start: 1, length: Some(length) }))
                }
                _ => self.table_call("left", &[text, length], result),
            },
            ("greatest", [first, rest @ ..]) => self.extreme(CompareOp::Ge, first, rest, result),
            ("least", [first, rest @ ..]) => self.extreme(CompareOp::Le, first, rest, result),
            (name, args) => self.table_call(name, &args.iter().collect::<Vec<_>>(), result),
        }
    }

    /// The general translation: a call of a function of the table, with arguments of the types that
    /// it takes.
    fn table_call(&mut self, name: &str, args: &[&Sql], result: &DataType) -> Result<Expr> {
        let types = args
            .iter()
            .map(|arg| Ok(value_type(&self.type_of(arg)?)))
            .collect::<Result<Option<Vec<ValueType>>>>()?;
        let has_words = |ty: &ValueType| Type::of(*ty).is_some();
        let call = types
            .zip(value_type(result))
            .filter(|(types, result)| types.iter().chain([result]).all(has_words))
            .and_then(|(types, result)| Call::exact(name, &types, result))
            .filter(|call| call.function().volatility == functions::Volatility::Immutable);
        let Some(call) = call else {
            return Err(Unsupported::new(format!("the function {name}"))
                .hint("Let a column of the table hold its result."));
        };
        let args = args.iter().map(|arg| self.scalar(arg)).collect::<Result<_>>()?;
        Ok(Expr::Call { call: call.into(), args })
    }

    /// GREATEST or LEAST over values of one type; NULLs are skipped.
    fn extreme(
        &mut self,
        op: CompareOp,
        first: &Sql,
        rest: &[Sql],
        result: &DataType,
    ) -> Result<Expr> {
        let ty = Encoding::of(result)?.ty();
        let mut best = self.converted(first, result)?;
        for next in rest {
            let next = self.converted(next, result)?;
            let wins = compared(op, best.clone(), result, next.clone(), result)?;
            let when = vec![
                (is_null(ty, best.clone()), next.clone()),
                (is_null(ty, next.clone()), best.clone()),
                (wins, best),
            ];
            best = fold(Expr::Case { ty, when, otherwise: Box::new(next) });
        }
        Ok(best)
    }

    fn numeric_division(&mut self, a: &Sql, b: &Sql, result: &DataType) -> Result<Expr> {
        let (s1, s2, s) = (scale(&self.type_of(a)?), scale(&self.type_of(b)?), scale(result));
        let (at, bt) = (self.words(a)?, self.words(b)?);
        let dividend = cast(self.scalar(a)?, at, Type::Wide);
        let divisor = cast(self.scalar(b)?, bt, Type::Wide);
        let shift = s - s1 + s2;
        let dividend = rescale(dividend, Type::Wide, shift.max(0));
        let divisor = rescale(divisor, Type::Wide, (-shift).max(0));
        Ok(binary(BinaryOp::DivRound, Type::Wide, dividend, divisor))
    }

    fn date_part(&mut self, part: &Sql, moment: &Sql) -> Result<Expr> {
        let Sql::Literal(part, _) = part else {
            return Err(Unsupported::new("EXTRACT of a field that is no constant"));
        };
        let name = part.try_as_str().flatten().unwrap_or_default().to_lowercase();
        let part = match name.as_str() {
            "year" => DatePart::Year,
            "month" => DatePart::Month,
            "day" => DatePart::Day,
            "quarter" => DatePart::Quarter,
            "dow" => DatePart::DayOfWeek,
            "doy" => DatePart::DayOfYear,
            _ => return Err(Unsupported::new(format!("EXTRACT of \"{name}\""))),
        };
        let from = self.type_of(moment)?;
        let value = self.scalar(moment)?;
        let days = convert(value, &from, &DataType::Date32)?;
        Ok(fold(Expr::DatePart(part, Box::new(days))))
    }

    /// A part of a text between constant bounds; `None` if the bounds are not constant.
    fn substring(&mut self, text: &Sql, rest: &[Sql]) -> Result<Option<Expr>> {
        let value = Box::new(self.scalar(text)?);
        let rest: Vec<Expr> = rest.iter().map(|arg| self.scalar(arg)).collect::<Result<_>>()?;
        let (start, length) = match rest.as_slice() {
            [Expr::Int(start)] if *start >= 1 => (*start, None),
            [Expr::Int(start), Expr::Int(length)] if *start >= 1 && *length >= 0 => {
                (*start, Some(*length))
            }
            _ => return Ok(None),
        };
        Ok(Some(fold(Expr::Substring { value, start, length })))
    }
}

/// Whether a condition is true; NULL counts as false.
fn known(condition: Expr) -> Expr {
    fold(Expr::Coalesce(Type::Int, vec![condition, Expr::Int(0)]))
}

/// The expression of a constant.
pub(crate) fn literal(value: &ScalarValue) -> Result<Expr> {
    let encoding = match value.data_type() {
        // Intervals occur only as operands of `+` and `−`, which read them themselves.
        DataType::Interval(_) => return Err(Unsupported::new("an interval that is no constant")),
        ty => Encoding::of(&ty)?,
    };
    if value.is_null() {
        return Ok(Expr::Null(encoding.ty()));
    }
    let decimal = |value: i128| match encoding.ty() {
        Type::Int => Expr::Int(value as i64),
        _ => Expr::Wide(value),
    };
    Ok(match value {
        ScalarValue::Boolean(Some(value)) => Expr::Int(i64::from(*value)),
        ScalarValue::Int8(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::Int16(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::Int32(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::Int64(Some(value)) => Expr::Int(*value),
        ScalarValue::UInt8(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::UInt16(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::UInt32(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::Float32(Some(value)) => Expr::Float((*value).into()),
        ScalarValue::Float64(Some(value)) => Expr::Float(*value),
        ScalarValue::Decimal128(Some(value), ..) => decimal(*value),
        ScalarValue::Date32(Some(value)) => Expr::Int((*value).into()),
        ScalarValue::TimestampMicrosecond(Some(value), _) => Expr::Int(*value),
        ScalarValue::TimestampSecond(Some(position), _) => Expr::Int(*position),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Expr::Text(text.clone())
        }
        other => return Err(Unsupported::new(format!("the constant {other}"))),
    })
}

pub(crate) fn comparison(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::Ne,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::Le,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

/// Number of digits behind the point; 0 for integers.
pub(crate) fn scale(ty: &DataType) -> i8 {
    match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// × 10^`by`.
pub(crate) fn rescale(value: Expr, ty: Type, by: i8) -> Expr {
    if by == 0 { value } else { fold(Expr::Rescale { ty, by, value: Box::new(value) }) }
}

fn wider(a: Type, b: Type) -> Type {
    match (a, b) {
        (Type::Float, _) | (_, Type::Float) => Type::Float,
        (Type::Wide, _) | (_, Type::Wide) => Type::Wide,
        _ => Type::Int,
    }
}

/// Both operands, brought to one type and scale.
fn same_type(a: Expr, at: &DataType, b: Expr, bt: &DataType) -> Result<(Type, Expr, Expr)> {
    let (ae, be) = (Encoding::of(at)?, Encoding::of(bt)?);
    let moment = |e: Encoding| e == Encoding::TimestampMicros;
    let (a, at, b, bt) = match (ae, be) {
        (Encoding::Date, other) if moment(other) => (convert(a, at, bt)?, bt, b, bt),
        (other, Encoding::Date) if moment(other) => (a, at, convert(b, bt, at)?, at),
        (Encoding::Float, other) if other != Encoding::Float => (a, at, convert(b, bt, at)?, at),
        (other, Encoding::Float) if other != Encoding::Float => (convert(a, at, bt)?, bt, b, bt),
        _ => (a, at, b, bt),
    };
    let (a_words, b_words) = (Encoding::of(at)?.ty(), Encoding::of(bt)?.ty());
    let s = scale(at).max(scale(bt));
    // Shifting the decimal point may need more digits than a word has.
    let mut ty = wider(a_words, b_words);
    if ty == Type::Int && scale(at) != scale(bt) {
        ty = Type::Wide;
    }
    let a = rescale(cast(a, a_words, ty), ty, s - scale(at));
    let b = rescale(cast(b, b_words, ty), ty, s - scale(bt));
    Ok((ty, a, b))
}

/// A comparison of two values of SQL types.
pub(crate) fn compared(
    op: CompareOp,
    a: Expr,
    at: &DataType,
    b: Expr,
    bt: &DataType,
) -> Result<Expr> {
    let is_text = |ty: &DataType| Encoding::of(ty) == Ok(Encoding::Text);
    if is_text(at) && is_text(bt) && !matches!(op, CompareOp::Eq | CompareOp::Ne) {
        return Ok(fold(Expr::CompareText(op, Box::new(a), Box::new(b))));
    }
    let (ty, a, b) = same_type(a, at, b, bt)?;
    if let Some(days) = as_days(op, &a, &b) {
        return Ok(days);
    }
    if let (true, Expr::Text(x), Expr::Text(y)) = (is_text(at), &a, &b) {
        return Ok(Expr::Int(i64::from((x == y) == (op == CompareOp::Eq))));
    }
    Ok(compare(op, ty, a, b))
}

/// The comparison of a date, cast to a timestamp, with a constant timestamp, as a comparison of
/// dates.
fn as_days(op: CompareOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let cast_day = |e: &Expr| match e {
        Expr::Binary(BinaryOp::Mul, Type::Int, day, us) if **us == Expr::Int(DAY_US) => {
            Some((**day).clone())
        }
        _ => None,
    };
    let (op, day, us) = match (cast_day(a), b, a, cast_day(b)) {
        (Some(day), Expr::Int(us), ..) => (op, day, *us),
        (_, _, Expr::Int(us), Some(day)) => (op.mirrored(), day, *us),
        _ => return None,
    };
    let op = op.of_days(time_of(us) == 0)?;
    Some(compare(op, Type::Int, day, Expr::Int(day_of(us))))
}

fn calculate(
    op: BinaryOp,
    a: Expr,
    at: &DataType,
    b: Expr,
    bt: &DataType,
    result: &DataType,
) -> Result<Expr> {
    let ty = Encoding::of(result)?.ty();
    if *result == DataType::Float32 {
        return Err(Unsupported::new("arithmetic of REAL").hint("Use DOUBLE PRECISION."));
    }
    if !matches!(result, DataType::Decimal128(..)) {
        let a = convert(a, at, result)?;
        let b = convert(b, bt, result)?;
        return Ok(binary(op, ty, a, b));
    }
    let (s1, s2, s) = (scale(at), scale(bt), scale(result));
    let (a_words, b_words) = (Encoding::of(at)?.ty(), Encoding::of(bt)?.ty());
    if a_words == Type::Float || b_words == Type::Float {
        return Err(Unsupported::new("arithmetic of decimals with floating-point numbers"));
    }
    let ty = wider(ty, wider(a_words, b_words));
    let (a, b) = (cast(a, a_words, ty), cast(b, b_words, ty));
    let value = match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Rem => {
            binary(op, ty, rescale(a, ty, s - s1), rescale(b, ty, s - s2))
        }
        BinaryOp::Mul if s == s1 + s2 => binary(op, ty, a, b),
        BinaryOp::Mul => return Err(Unsupported::new("a product of so many decimal places")),
        BinaryOp::Div | BinaryOp::DivRound => {
            let shift = s - s1 + s2;
            let a = rescale(cast(a, ty, Type::Wide), Type::Wide, shift.max(0));
            let b = rescale(cast(b, ty, Type::Wide), Type::Wide, (-shift).max(0));
            return Ok(cast(binary(op, Type::Wide, a, b), Type::Wide, Encoding::of(result)?.ty()));
        }
    };
    Ok(cast(value, ty, Encoding::of(result)?.ty()))
}

/// Number of bits of a signed integer type.
fn bits_of(ty: &DataType) -> Option<u8> {
    Some(match ty {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 => 32,
        DataType::Int64 => 64,
        _ => return None,
    })
}

/// Number of digits of the integers of so many bits.
fn digits_of(bits: u8) -> i8 {
    match bits {
        8 => 3,
        16 => 5,
        32 => 10,
        _ => 19,
    }
}

/// Bounds of `a op b` given those of the operands; `None` where they are unknown or not needed.
fn combined_bounds(
    op: BinaryOp,
    a: Option<(i128, i128)>,
    b: Option<(i128, i128)>,
) -> Option<(i128, i128)> {
    let ((a_low, a_high), (b_low, b_high)) = a.zip(b)?;
    Some(match op {
        BinaryOp::Add => (a_low + b_low, a_high + b_high),
        BinaryOp::Sub => (a_low - b_high, a_high - b_low),
        BinaryOp::Mul => {
            let corners = [a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high];
            (corners.into_iter().min()?, corners.into_iter().max()?)
        }
        // Only −2ⁿ⁻¹ / −1 exceeds the type.
        BinaryOp::Div | BinaryOp::DivRound => {
            let most = a_low.abs().max(a_high.abs());
            (-most, most)
        }
        BinaryOp::Rem => (a_low.min(0), a_high.max(0)),
    })
}

/// A value of an integer type, with an error where it exceeds the type. A value that cannot exceed
/// the type is returned as it is, so that sums and products of it may still be expanded.
fn kept_within(value: Expr, ty: &DataType, bounds: Option<(i128, i128)>) -> Expr {
    let Some(bits) = bits_of(ty) else { return value };
    let most = (1_i128 << (bits - 1)) - 1;
    match bounds {
        Some((low, high)) if low >= -most - 1 && high <= most => value,
        _ => within_range(Type::Int, NumberRange::Bits(bits), value),
    }
}

/// A value of one SQL type, converted to another.
pub(crate) fn convert(value: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
    use Encoding as E;
    let shown = |ty: &DataType| match Encoding::of(ty) {
        Ok(E::Label) => "an enumeration".to_owned(),
        _ => ty.to_string(),
    };
    let refused = || Unsupported::new(format!("a cast from {} to {}", shown(from), shown(to)));
    if from.is_null() {
        return Ok(Expr::Null(Encoding::of(to)?.ty()));
    }
    let (source, target) = (Encoding::of(from)?, Encoding::of(to)?);
    Ok(match (source, target) {
        (E::Int, E::Int) => match (bits_of(from), bits_of(to)) {
            (Some(wide), Some(bits)) if wide > bits => {
                within_range(Type::Int, NumberRange::Bits(bits), value)
            }
            _ => value,
        },
        (a, b) if a == b && !(*to == DataType::Float32 && *from == DataType::Float64) => value,
        (E::Int, E::Decimal { precision, scale }) => {
            let digits_max = bits_of(from).map_or(20, digits_of);
            if precision as i8 - scale >= digits_max {
                return Ok(rescale(cast(value, Type::Int, target.ty()), target.ty(), scale));
            }
            let ty = Type::Wide;
            let value = rescale(cast(value, Type::Int, ty), ty, scale);
            cast(within_range(ty, NumberRange::Digits(precision), value), ty, target.ty())
        }
        (E::Decimal { precision: p1, scale: s1 }, E::Decimal { precision: p2, scale: s2 }) => {
            let ty = wider(source.ty(), target.ty());
            let value = rescale(cast(value, source.ty(), ty), ty, s2 - s1);
            let (before, after) = (p1 as i8 - s1, p2 as i8 - s2);
            // Rounding may carry into one digit more.
            let fits = before < after || (before == after && s1 <= s2);
            let value = match fits {
                true => value,
                false => within_range(ty, NumberRange::Digits(p2), value),
            };
            cast(value, ty, target.ty())
        }
        (E::Decimal { scale, .. }, E::Int) => {
            let whole = cast(rescale(value, source.ty(), -scale), source.ty(), Type::Int);
            within_range(Type::Int, NumberRange::Bits(bits_of(to).ok_or_else(refused)?), whole)
        }
        (E::Float, E::Int) => {
            let whole = cast(value, Type::Float, Type::Int);
            within_range(Type::Int, NumberRange::Bits(bits_of(to).ok_or_else(refused)?), whole)
        }
        (E::Int, E::Float) => cast(value, Type::Int, Type::Float),
        (E::Decimal { scale, .. }, E::Float) => {
            let power = Expr::Float(float_divisor(scale));
            binary(BinaryOp::Div, Type::Float, cast(value, source.ty(), Type::Float), power)
        }
        (E::Date, E::TimestampMicros) => binary(BinaryOp::Mul, Type::Int, value, Expr::Int(DAY_US)),
        (E::TimestampMicros, E::Date) => fold(Expr::DateOf(Box::new(value))),
        (E::Date, E::Int) | (E::Int, E::Date) | (E::Bool, E::Int) => value,
        _ => return Err(refused()),
    })
}
