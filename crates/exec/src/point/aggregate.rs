//! Aggregate functions, with DataFusion's result types and PostgreSQL's refusal to overflow.

use std::cmp::Ordering;

use halcyon_base::SqlState;
use halcyon_store::{Type, ValueRef};

use super::state::Accumulator;
use halcyon_value::decimal;

use halcyon_plan::scalar::{Ir, compare_values};
use halcyon_sql::error::{Result, SqlError};

/// A function over the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    /// The value of the only row; more are an error (`halcyon_aggregates::only`).
    Only,
}

impl Function {
    pub(super) fn from_name(name: &str) -> Option<Function> {
        Some(match name {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            "avg" => Function::Avg,
            "only" => Function::Only,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Avg => "avg",
            Function::Only => "only",
        }
    }
}

/// An aggregate of a plan.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) function: Function,
    /// None for `count(*)`.
    pub(super) arg: Option<Ir>,
    /// FILTER (WHERE …).
    pub(super) filter: Option<Ir>,
    pub(super) distinct: bool,
    /// Type of the result.
    pub(super) ty: Type,
    /// Where the result goes.
    pub(super) slot: usize,
}

impl Aggregate {
    /// Whether this executor computes the function for these types.
    pub(super) fn is_typed(&self) -> bool {
        use Type::{Decimal, Float32, Float64, Int16, Int32, Int64};
        let Some(from) = self.arg.as_ref().map_or(Some(Int64), Ir::ty) else { return false };
        match (self.function, from, self.ty) {
            (Function::Count, _, ty) => ty == Int64,
            (_, _, _) if self.arg.is_none() => false,
            (Function::Only, from, ty) => from == ty,
            (Function::Min | Function::Max, from, ty) => from == ty && ty != Type::Bool,
            (_, Int16 | Int32 | Int64, Int64) => self.function == Function::Sum,
            (_, Int16 | Int32 | Int64, Decimal { scale, .. }) => scale >= 0,
            (_, Int16 | Int32 | Int64, Float64) => self.function == Function::Avg,
            (_, Float32 | Float64, Float64) => true,
            (Function::Sum, Float32, Float32) => true,
            (_, Decimal { scale: from, .. }, Decimal { scale, .. }) => from >= 0 && scale >= from,
            _ => false,
        }
    }
}

/// The part of an aggregate that is needed while rows come in.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) function: Function,
    /// Type of the argument; that of a row count is BIGINT.
    pub(super) from: Type,
    pub(super) ty: Type,
}

impl Rule {
    pub(super) fn new(aggregate: &Aggregate) -> Rule {
        let from = aggregate.arg.as_ref().and_then(Ir::ty).unwrap_or(Type::Int64);
        Rule { function: aggregate.function, from, ty: aggregate.ty }
    }

    /// Whether the function looks at NULLs.
    pub(super) fn takes_null(&self) -> bool {
        self.function == Function::Only
    }

    /// Takes in a value that is not NULL, if the function does not look at NULLs.
    #[inline]
    pub(super) fn add<'a>(&self, to: &mut Accumulator<'a>, value: ValueRef<'a>) -> Result<()> {
        to.count += 1;
        match self.function {
            Function::Count => {}
            Function::Only if to.count > 1 => return Err(more_than_one_row()),
            Function::Only => to.best = value,
            Function::Min | Function::Max => {
                let wanted = match self.function {
                    Function::Min => Ordering::Less,
                    _ => Ordering::Greater,
                };
                if to.best.is_null() || compare_values(value, to.best) == wanted {
                    to.best = value;
                }
            }
            Function::Sum | Function::Avg => match value {
                ValueRef::Float32(value) => to.float += value as f64,
                ValueRef::Float64(value) => to.float += value,
                whole => {
                    let sum = to.sum.checked_add(number(whole));
                    to.sum = sum.ok_or_else(|| out_of_range(self.ty))?;
                }
            },
        }
        Ok(())
    }

    /// The result.
    pub(super) fn finish<'a>(&self, of: &Accumulator<'a>) -> Result<ValueRef<'a>> {
        match self.function {
            Function::Count => Ok(ValueRef::Int64(of.count)),
            Function::Min | Function::Max | Function::Only => Ok(of.best),
            _ if of.count == 0 => Ok(ValueRef::Null),
            Function::Sum => self.sum(of),
            Function::Avg => self.average(of),
        }
    }

    fn sum<'a>(&self, of: &Accumulator<'a>) -> Result<ValueRef<'a>> {
        match self.ty {
            Type::Float64 => Ok(ValueRef::Float64(of.float)),
            Type::Float32 => Ok(ValueRef::Float32(of.float as f32)),
            Type::Int64 => {
                let sum = i64::try_from(of.sum).map_err(|_| out_of_range(self.ty))?;
                Ok(ValueRef::Int64(sum))
            }
            Type::Decimal { .. } => {
                let sum =
                    of.sum.checked_mul(self.factor()?).ok_or_else(|| out_of_range(self.ty))?;
                self.decimal(sum)
            }
            other => unreachable!("{other} is no type of a sum"),
        }
    }

    fn average<'a>(&self, of: &Accumulator<'a>) -> Result<ValueRef<'a>> {
        match (self.ty, self.from) {
            (Type::Float64, Type::Float32 | Type::Float64) => {
                Ok(ValueRef::Float64(of.float / of.count as f64))
            }
            (Type::Float64, _) => Ok(ValueRef::Float64(of.sum as f64 / of.count as f64)),
            (Type::Decimal { .. }, _) => {
                let average = decimal::average(of.sum, of.count, self.places()? as u8);
                self.decimal(average.ok_or_else(|| out_of_range(self.ty))?)
            }
            (other, _) => unreachable!("{other} is no type of an average"),
        }
    }

    /// The factor that takes the sum to the result's scale.
    fn factor(&self) -> Result<i128> {
        decimal::power_of_ten(self.places()?).ok_or_else(|| out_of_range(self.ty))
    }

    /// Digits behind the point that the result has more than the argument.
    fn places(&self) -> Result<u32> {
        let from = match self.from {
            Type::Decimal { scale, .. } => scale,
            _ => 0,
        };
        let Type::Decimal { scale, .. } = self.ty else { unreachable!("asked for decimals") };
        u32::try_from(scale - from).map_err(|_| out_of_range(self.ty))
    }

    fn decimal<'a>(&self, value: i128) -> Result<ValueRef<'a>> {
        let Type::Decimal { precision, .. } = self.ty else { unreachable!("asked for decimals") };
        match decimal::fits(value, precision) {
            true => Ok(ValueRef::Decimal(value)),
            false => Err(out_of_range(self.ty)),
        }
    }
}

fn number(value: ValueRef<'_>) -> i128 {
    match value {
        ValueRef::Int16(value) => value as i128,
        ValueRef::Int32(value) => value as i128,
        ValueRef::Int64(value) => value as i128,
        ValueRef::Decimal(value) => value,
        other => panic!("{other:?} is summed"),
    }
}

/// 21000: a subquery that stands for a value gave several.
#[cold]
pub(super) fn more_than_one_row() -> SqlError {
    let message = "more than one row returned by a subquery used as an expression";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, message)
}

#[cold]
fn out_of_range(ty: Type) -> SqlError {
    let name = if ty == Type::Int64 { "bigint" } else { "numeric value" };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}
