//! Lowering of DataFusion's expressions to typed ones.

mod cast;
mod foreign;
mod functions;

use std::cell::Cell;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case, InList, Like};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, Subquery};
use halcyon_store::{Type, Value};

use super::arith;
use super::ir::{Arith, Compare, Function, Ir, fit_type, storage_type};
use super::scalars::{not_ours, value_of};
use crate::execution::{belongs_to_execution as is_late, reading};
use halcyon_sql::error::Result;

/// Lowers an uncorrelated scalar subquery to an expression for its value.
pub type LowerSubquery<'a> = dyn Fn(&Subquery) -> Result<Ir> + 'a;

/// The meaning of the columns in an expression.
pub struct Columns<'a> {
    /// Names and types.
    pub schema: &'a DFSchema,
    /// The slot of each field of the schema; None if the positions are the slots.
    pub slots: Option<&'a [usize]>,
    /// Lowers uncorrelated scalar subqueries.
    pub subquery: Option<&'a LowerSubquery<'a>>,
}

impl<'a> Columns<'a> {
    /// Slots are the positions of the schema's fields.
    pub fn by_position(schema: &'a DFSchema) -> Self {
        Columns { schema, slots: None, subquery: None }
    }

    /// The slot and type of a column.
    fn resolve(&self, column: &Column) -> Result<(usize, &DataType)> {
        let position = self.schema.index_of_column(column).map_err(|_| not_ours(column))?;
        let slot = self.slots.map_or(position, |slots| slots[position]);
        Ok((slot, self.schema.field(position).data_type()))
    }
}

thread_local! {
    /// Set while the slow twin of an expression is made: then everything but inputs becomes
    /// foreign.
    static SLOW: Cell<bool> = const { Cell::new(false) };
}

/// Lowers an analysed expression.
///
/// Errors: 0A000 if a part of it has no value for a row alone (a subquery, aggregate or window
/// function), or if the whole has a type without a stored form.
pub fn lower(expr: &Expr, columns: &Columns<'_>) -> Result<Ir> {
    match typed(expr, columns)? {
        Some(ir) => Ok(ir),
        None => Ok(Ir::Foreign(foreign::foreign(expr, columns)?.into())),
    }
}

/// Lowers so that DataFusion evaluates all but columns and parameters.
pub(super) fn slow(expr: &Expr, columns: &Columns<'_>) -> Result<Ir> {
    SLOW.set(true);
    let ir = lower(expr, columns);
    SLOW.set(false);
    ir
}

/// The typed form, or None if only DataFusion can evaluate the expression.
fn typed(expr: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let lower = |expr: &Expr| lower(expr, columns);
    match expr {
        Expr::Alias(alias) => return typed(&alias.expr, columns),
        Expr::Column(column) => {
            let (slot, ty) = columns.resolve(column)?;
            let ty = storage_type(ty).ok_or_else(|| not_ours(ty))?;
            return Ok(Some(Ir::Slot(slot, ty)));
        }
        Expr::ScalarFunction(call) if is_late(call.name()) && reading(call.name()).is_none() => {
            return Ok(Some(Ir::Foreign(foreign::late(call, expr, columns)?.into())));
        }
        Expr::Placeholder(placeholder) => return parameter(&placeholder.id, &placeholder.field),
        _ if SLOW.get() => return Ok(None),
        _ => {}
    }
    Ok(match expr {
        Expr::Literal(value, _) => constant(value),
        Expr::ScalarSubquery(subquery) => match columns.subquery {
            Some(plan) => Some(plan(subquery)?),
            None => return Err(not_ours("a subquery")),
        },
        Expr::BinaryExpr(binary) => binary_expr(binary, expr, columns)?,
        Expr::Not(of) => Some(match lower(of)? {
            Ir::InList { of, list, negated } => Ir::InList { of, list, negated: !negated },
            of => Ir::Not(of.into()),
        }),
        Expr::IsNull(of) => is_null(of, false, columns)?,
        Expr::IsNotNull(of) => is_null(of, true, columns)?,
        Expr::IsUnknown(of) => is_null(of, false, columns)?,
        Expr::IsNotUnknown(of) => is_null(of, true, columns)?,
        Expr::IsTrue(of) => Some(is_bool(lower(of)?, true, false)),
        Expr::IsFalse(of) => Some(is_bool(lower(of)?, false, false)),
        Expr::IsNotTrue(of) => Some(is_bool(lower(of)?, true, true)),
        Expr::IsNotFalse(of) => Some(is_bool(lower(of)?, false, true)),
        Expr::Negative(of) => match lower(of)? {
            inner if inner.ty().is_some_and(arith::is_number) => {
                let ty = inner.ty().expect("just seen");
                Some(Ir::Neg(inner.into(), ty))
            }
            _ => None,
        },
        Expr::Between(between) => {
            let (of, low, high) = (&between.expr, &between.low, &between.high);
            let above = compare(Compare::GtEq, of, low, columns)?;
            let below = compare(Compare::LtEq, of, high, columns)?;
            above.zip(below).map(|(above, below)| {
                let both = Ir::And(vec![above, below]);
                if between.negated { Ir::Not(both.into()) } else { both }
            })
        }
        Expr::Case(case) => case_expr(case, expr, columns)?,
        Expr::Cast(cast) => {
            let target = cast.field.data_type();
            let is_of_arrays = matches!(target, DataType::List(_))
                || matches!(cast.expr.get_type(columns.schema), Ok(DataType::List(_)));
            match (storage_type(target), try_lower(&cast.expr, columns)?) {
                (Some(ty), Some(of)) if !is_of_arrays && cast::is_typed(of.ty(), ty) => {
                    Some(convert(of, ty))
                }
                _ => None,
            }
        }
        Expr::InList(list) => in_list(list, columns)?,
        Expr::Like(like) => like_expr(like, columns)?,
        Expr::ScalarFunction(call) => match functions::lower(call, expr, columns)? {
            // DataFusion gets such functions as constants of the execution, before it plans.
            None if is_late(call.name()) => {
                return Err(not_ours(call.name()));
            }
            lowered => lowered,
        },
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            return Err(not_ours("a subquery"));
        }
        Expr::OuterReferenceColumn(_, column) => return Err(not_ours(column)),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::GroupingSet(_) => {
            return Err(not_ours("an aggregate"));
        }
        _ => None,
    })
}

/// Lowers an expression whose result has a stored type; None for other types, which only foreign
/// nodes can handle.
pub(super) fn try_lower(expr: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let ty = expr.get_type(columns.schema).map_err(not_ours)?;
    if storage_type(&ty).is_none() && ty != DataType::Null {
        return Ok(None);
    }
    lower(expr, columns).map(Some)
}

/// The stored type of an expression.
pub(super) fn type_of(expr: &Expr, columns: &Columns<'_>) -> Option<Type> {
    storage_type(&expr.get_type(columns.schema).ok()?)
}

fn parameter(id: &str, field: &Option<FieldRef>) -> Result<Option<Ir>> {
    let number = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    let ty = field.as_ref().and_then(|field| storage_type(field.data_type()));
    match (number, ty) {
        (Some(number @ 1..), Some(ty)) => Ok(Some(Ir::Param(number - 1, ty))),
        _ => Err(not_ours(format!("parameter {id} of unknown type"))),
    }
}

/// A literal as a constant; None if its type has no stored form.
fn constant(literal: &ScalarValue) -> Option<Ir> {
    let ty = storage_type(&literal.data_type());
    if literal.is_null() {
        return (ty.is_some() || literal.data_type() == DataType::Null)
            .then_some(Ir::Const(Value::Null, ty));
    }
    Some(Ir::Const(value_of(literal)?, ty))
}

fn is_null(of: &Expr, negated: bool, columns: &Columns<'_>) -> Result<Option<Ir>> {
    Ok(try_lower(of, columns)?.map(|of| Ir::IsNull { of: of.into(), negated }))
}

fn is_bool(of: Ir, want: bool, negated: bool) -> Ir {
    Ir::IsBool { of: of.into(), want, negated }
}

/// Converts to a type; does nothing if the expression has that type already.
pub(super) fn convert(of: Ir, ty: Type) -> Ir {
    match of {
        of if of.ty() == Some(ty) => of,
        Ir::Const(Value::Null, _) => Ir::Const(Value::Null, Some(ty)),
        of => Ir::Cast { of: of.into(), ty },
    }
}

fn binary_expr(binary: &BinaryExpr, whole: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let (left, right) = (&*binary.left, &*binary.right);
    let op = match binary.op {
        Operator::And => return Ok(Some(connect(whole, Operator::And, columns)?)),
        Operator::Or => return Ok(Some(connect(whole, Operator::Or, columns)?)),
        Operator::Eq => return compare(Compare::Eq, left, right, columns),
        Operator::NotEq => return compare(Compare::NotEq, left, right, columns),
        Operator::Lt => return compare(Compare::Lt, left, right, columns),
        Operator::LtEq => return compare(Compare::LtEq, left, right, columns),
        Operator::Gt => return compare(Compare::Gt, left, right, columns),
        Operator::GtEq => return compare(Compare::GtEq, left, right, columns),
        Operator::IsDistinctFrom => return distinct(left, right, false, columns),
        Operator::IsNotDistinctFrom => return distinct(left, right, true, columns),
        Operator::StringConcat => return concatenation(left, right, columns),
        Operator::Plus => Arith::Add,
        Operator::Minus => Arith::Sub,
        Operator::Multiply => Arith::Mul,
        Operator::Divide => Arith::Div,
        Operator::Modulo => Arith::Rem,
        _ => return Ok(None),
    };
    let (Some(ty), Some(left), Some(right)) =
        (type_of(whole, columns), try_lower(left, columns)?, try_lower(right, columns)?)
    else {
        return Ok(None);
    };
    Ok(arithmetic(op, left, right, ty))
}

/// Arithmetic over lowered operands, if it has a typed form.
pub fn arithmetic(op: Arith, left: Ir, right: Ir, ty: Type) -> Option<Ir> {
    let (of, by) = (left.ty()?, right.ty()?);
    let subtract = op == Arith::Sub;
    let is_time = |ty| matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz);
    match (op, of, by) {
        (Arith::Add | Arith::Sub, _, Type::Interval) if is_time(of) && ty == of => {
            Some(Ir::Shift { of: left.into(), by: right.into(), subtract, ty })
        }
        (Arith::Add, Type::Interval, _) if is_time(by) && ty == by => {
            Some(Ir::Shift { of: right.into(), by: left.into(), subtract, ty })
        }
        _ => {
            let typed = arith::is_typed(op, of, by, ty);
            typed.then(|| Ir::Arith { op, left: left.into(), right: right.into(), ty })
        }
    }
}

/// A chain of ANDs or ORs as one node.
fn connect(expr: &Expr, op: Operator, columns: &Columns<'_>) -> Result<Ir> {
    let mut parts = vec![];
    let mut rest = vec![expr];
    while let Some(next) = rest.pop() {
        match next {
            Expr::BinaryExpr(binary) if binary.op == op => {
                rest.push(&binary.right);
                rest.push(&binary.left);
            }
            other => parts.push(lower(other, columns)?),
        }
    }
    Ok(if op == Operator::And { Ir::And(parts) } else { Ir::Or(parts) })
}

/// Both sides brought to one kind; None if only DataFusion can compare them.
fn sides(left: &Expr, right: &Expr, columns: &Columns<'_>) -> Result<Option<(Box<Ir>, Box<Ir>)>> {
    let (Some(left), Some(right)) = (try_lower(left, columns)?, try_lower(right, columns)?) else {
        return Ok(None);
    };
    let fit = match (left.ty(), right.ty()) {
        (Some(left), Some(right)) => fit_type(left, right),
        _ => true,
    };
    Ok(fit.then(|| (left.into(), right.into())))
}

fn compare(op: Compare, left: &Expr, right: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let sides = sides(left, right, columns)?;
    Ok(sides.map(|(left, right)| Ir::Compare { op, left, right }))
}

fn distinct(left: &Expr, right: &Expr, negated: bool, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let sides = sides(left, right, columns)?;
    Ok(sides.map(|(left, right)| Ir::Distinct { left, right, negated }))
}

fn concatenation(left: &Expr, right: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let args = sides(left, right, columns)?;
    Ok(args.filter(|(left, right)| is_text(left) && is_text(right)).map(|(left, right)| {
        let args = vec![*left, *right];
        Ir::Call { function: Function::Concat, args, ty: Type::Text }
    }))
}

fn is_text(ir: &Ir) -> bool {
    matches!(ir.ty(), None | Some(Type::Text))
}

fn case_expr(case: &Case, whole: &Expr, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let Some(ty) = type_of(whole, columns) else { return Ok(None) };
    let mut branches = vec![];
    for (when, then) in &case.when_then_expr {
        let condition = match &case.expr {
            None => Some(lower(when, columns)?),
            Some(of) => compare(Compare::Eq, of, when, columns)?,
        };
        let (Some(condition), Some(value)) = (condition, try_lower(then, columns)?) else {
            return Ok(None);
        };
        branches.push((condition, convert(value, ty)));
    }
    let otherwise = match &case.else_expr {
        None => Some(Ir::Const(Value::Null, Some(ty))),
        Some(otherwise) => try_lower(otherwise, columns)?.map(|value| convert(value, ty)),
    };
    let Some(otherwise) = otherwise else { return Ok(None) };
    let typed = |value: &Ir| match value {
        Ir::Cast { of, ty } => cast::is_typed(of.ty(), *ty),
        _ => true,
    };
    if !branches.iter().all(|(_, value)| typed(value)) || !typed(&otherwise) {
        return Ok(None);
    }
    Ok(Some(Ir::Case { branches, otherwise: otherwise.into(), ty }))
}

fn in_list(list: &InList, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let Some(of) = try_lower(&list.expr, columns)? else { return Ok(None) };
    let mut items = vec![];
    for item in &list.list {
        let Some(item) = try_lower(item, columns)? else { return Ok(None) };
        if let (Some(a), Some(b)) = (of.ty(), item.ty())
            && !fit_type(a, b)
        {
            return Ok(None);
        }
        items.push(item);
    }
    Ok(Some(Ir::InList { of: of.into(), list: items, negated: list.negated }))
}

fn like_expr(like: &Like, columns: &Columns<'_>) -> Result<Option<Ir>> {
    let sides = sides(&like.expr, &like.pattern, columns)?;
    Ok(sides.filter(|(of, pattern)| is_text(of) && is_text(pattern)).map(|(of, pattern)| {
        Ir::Like {
            of,
            pattern,
            escape: like.escape_char,
            folded: like.case_insensitive,
            negated: like.negated,
        }
    }))
}
