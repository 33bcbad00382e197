//! Typed expressions with columns resolved to slots: the form that the planner examines and that
//! code is made from.

mod foreign;
mod function;
mod same;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of_arrow;
use halcyon_store::{Type, Value};
pub use halcyon_value::Arith;
pub use halcyon_value::compare::Compare;
use halcyon_value::{decimal, functions};

pub(in crate::scalar) use foreign::Evaluate;
pub use foreign::Foreign;
pub use function::Function;

/// A typed expression.
///
/// Operands of [`Ir::Compare`] and [`Ir::Distinct`] are of one kind (both integers of any width,
/// both decimals of one scale, both text, …), those of [`Ir::Arith`] too.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Ir {
    /// A value of the row.
    Slot(usize, Type),
    /// A constant; the type is None for a NULL of no type.
    Const(Value, Option<Type>),
    /// `$n`, counted from 0.
    Param(usize, Type),
    Not(Box<Ir>),
    And(Vec<Ir>),
    Or(Vec<Ir>),
    /// IS NULL; IS NOT NULL if negated.
    IsNull {
        of: Box<Ir>,
        negated: bool,
    },
    /// IS TRUE, IS FALSE; negated: IS NOT ….
    IsBool {
        of: Box<Ir>,
        want: bool,
        negated: bool,
    },
    Compare {
        op: Compare,
        left: Box<Ir>,
        right: Box<Ir>,
    },
    /// IS DISTINCT FROM; IS NOT DISTINCT FROM if negated.
    Distinct {
        left: Box<Ir>,
        right: Box<Ir>,
        negated: bool,
    },
    Arith {
        op: Arith,
        left: Box<Ir>,
        right: Box<Ir>,
        ty: Type,
    },
    /// Date or timestamp plus or minus an interval; the sign is the interval's.
    Shift {
        of: Box<Ir>,
        by: Box<Ir>,
        subtract: bool,
        ty: Type,
    },
    Neg(Box<Ir>, Type),
    Cast {
        of: Box<Ir>,
        ty: Type,
    },
    Case {
        branches: Vec<(Ir, Ir)>,
        otherwise: Box<Ir>,
        ty: Type,
    },
    InList {
        of: Box<Ir>,
        list: Vec<Ir>,
        negated: bool,
    },
    /// `of = ANY (array)`, over the bytes of an array of `item`s.
    Member {
        of: Box<Ir>,
        array: Box<Ir>,
        item: Type,
    },
    Like {
        of: Box<Ir>,
        pattern: Box<Ir>,
        escape: Option<char>,
        folded: bool,
        negated: bool,
    },
    Call {
        function: Function,
        args: Vec<Ir>,
        ty: Type,
    },
    /// A function of the table that has no form of its own above.
    TableCall {
        call: Arc<functions::Call>,
        args: Vec<Ir>,
    },
    /// An expression that DataFusion evaluates, with its own inputs.
    Foreign(Arc<Foreign>),
}

impl Ir {
    /// The type. None for a NULL of no type.
    pub fn ty(&self) -> Option<Type> {
        match self {
            Ir::Const(_, ty) => *ty,
            Ir::Slot(_, ty)
            | Ir::Param(_, ty)
            | Ir::Arith { ty, .. }
            | Ir::Shift { ty, .. }
            | Ir::Neg(_, ty)
            | Ir::Cast { ty, .. }
            | Ir::Case { ty, .. }
            | Ir::Call { ty, .. } => Some(*ty),
            Ir::TableCall { call, .. } => Some(call.result()),
            Ir::Foreign(foreign) => Some(foreign.ty()),
            _ => Some(Type::Bool),
        }
    }

    /// Calls `visit` with the direct operands of this expression.
    pub fn for_each_child<'s>(&'s self, visit: &mut dyn FnMut(&'s Ir)) {
        match self {
            Ir::Slot(..) | Ir::Const(..) | Ir::Param(..) => {}
            Ir::Not(of) | Ir::Neg(of, _) => visit(of),
            Ir::IsNull { of, .. } | Ir::IsBool { of, .. } | Ir::Cast { of, .. } => visit(of),
            Ir::And(list)
            | Ir::Or(list)
            | Ir::Call { args: list, .. }
            | Ir::TableCall { args: list, .. } => list.iter().for_each(visit),
            Ir::Compare { left, right, .. }
            | Ir::Distinct { left, right, .. }
            | Ir::Arith { left, right, .. }
            | Ir::Shift { of: left, by: right, .. }
            | Ir::Like { of: left, pattern: right, .. } => {
                visit(left);
                visit(right);
            }
            Ir::Case { branches, otherwise, .. } => {
                for (condition, value) in branches {
                    visit(condition);
                    visit(value);
                }
                visit(otherwise);
            }
            Ir::InList { of, list, .. } => {
                visit(of);
                list.iter().for_each(visit);
            }
            Ir::Member { of, array, .. } => {
                visit(of);
                visit(array);
            }
            Ir::Foreign(foreign) => foreign.inputs().iter().for_each(visit),
        }
    }

    /// Calls `visit` with every slot that is read.
    pub fn for_each_slot(&self, visit: &mut dyn FnMut(usize)) {
        if let Ir::Slot(slot, _) = self {
            visit(*slot);
        }
        self.for_each_child(&mut |child| child.for_each_slot(visit));
    }

    /// True if all slots read satisfy the predicate.
    pub fn reads_only(&self, allowed: &dyn Fn(usize) -> bool) -> bool {
        let mut holds = true;
        self.for_each_slot(&mut |slot| holds &= allowed(slot));
        holds
    }
}

/// Splits a condition at its top-level ANDs.
pub fn conjuncts(condition: Ir, into: &mut Vec<Ir>) {
    match condition {
        Ir::And(list) => list.into_iter().for_each(|part| conjuncts(part, into)),
        Ir::Const(Value::Bool(true), _) => {}
        other => into.push(other),
    }
}

/// The stored type that values of an Arrow type have here; None if there is none.
pub fn storage_type(ty: &DataType) -> Option<Type> {
    Some(match ty {
        DataType::Boolean => Type::Bool,
        DataType::Int16 => Type::Int16,
        DataType::Int32 => Type::Int32,
        DataType::Int64 => Type::Int64,
        DataType::Float32 => Type::Float32,
        DataType::Float64 => Type::Float64,
        DataType::Decimal128(precision, scale) => {
            Type::Decimal { precision: *precision, scale: *scale }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytes,
        DataType::Date32 => Type::Date,
        DataType::Time64(TimeUnit::Microsecond) => Type::Time,
        DataType::Timestamp(TimeUnit::Microsecond, None) => Type::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Type::TimestampTz,
        DataType::Interval(IntervalUnit::MonthDayNano) => Type::Interval,
        DataType::FixedSizeBinary(16) => Type::Uuid,
        DataType::FixedSizeBinary(_) => sql_type_of_arrow(ty)?.storage(),
        // The bytes of arrays, the positions of labels.
        DataType::List(_) | DataType::Timestamp(TimeUnit::Second, Some(_)) => {
            let ty = sql_type_of_arrow(ty)?;
            return matches!(ty, SqlType::Array(_) | SqlType::Enum(_)).then(|| ty.storage());
        }
        _ => return None,
    })
}

/// Whether values of both types can be compared as they are.
pub fn fit_type(left: Type, right: Type) -> bool {
    use Type::*;
    let is_integer = |ty| matches!(ty, Int16 | Int32 | Int64);
    let is_float = |ty| matches!(ty, Float32 | Float64);
    match (left, right) {
        (Decimal { scale: a, .. }, Decimal { scale: b, .. }) => a == b,
        (a, b) => a == b || is_integer(a) && is_integer(b) || is_float(a) && is_float(b),
    }
}

impl fmt::Display for Ir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        let list = |f: &mut fmt::Formatter<'_>, items: &[Ir], between: &str| {
            for (position, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if position > 0 { between } else { "" })?;
            }
            Ok(())
        };
        match self {
            Ir::Slot(slot, _) => write!(f, "#{slot}"),
            Ir::Const(value, ty) => show_value(f, value, *ty),
            Ir::Param(index, _) => write!(f, "${}", index + 1),
            Ir::Not(of) => write!(f, "NOT {of}"),
            Ir::And(items) => list(f, items, " AND "),
            Ir::Or(items) => {
                f.write_str("(")?;
                list(f, items, " OR ")?;
                f.write_str(")")
            }
            Ir::IsNull { of, negated } => write!(f, "{of} IS {}NULL", not(*negated)),
            Ir::IsBool { of, want, negated } => write!(f, "{of} IS {}{want}", not(*negated)),
            Ir::Compare { op, left, right } => write!(f, "{left} {} {right}", symbol(*op)),
            Ir::Distinct { left, right, negated } => {
                write!(f, "{left} IS {}DISTINCT FROM {right}", not(*negated))
            }
            Ir::Arith { op, left, right, .. } => {
                let op = match op {
                    Arith::Add => '+',
                    Arith::Sub => '-',
                    Arith::Mul => '*',
                    Arith::Div => '/',
                    Arith::Rem => '%',
                };
                write!(f, "({left} {op} {right})")
            }
            Ir::Shift { of, by, subtract, .. } => {
                write!(f, "({of} {} {by})", if *subtract { '-' } else { '+' })
            }
            Ir::Neg(of, _) => write!(f, "-{of}"),
            Ir::Cast { of, ty } => write!(f, "{of}::{ty}"),
            Ir::Case { branches, otherwise, .. } => {
                f.write_str("CASE")?;
                for (condition, value) in branches {
                    write!(f, " WHEN {condition} THEN {value}")?;
                }
                write!(f, " ELSE {otherwise} END")
            }
            Ir::InList { of, list: items, negated } => {
                write!(f, "{of} {}IN (", not(*negated))?;
                list(f, items, ", ")?;
                f.write_str(")")
            }
            Ir::Member { of, array, .. } => write!(f, "{of} = ANY ({array})"),
            Ir::Like { of, pattern, folded, negated, .. } => {
                let word = if *folded { "ILIKE" } else { "LIKE" };
                write!(f, "{of} {}{word} {pattern}", not(*negated))
            }
            Ir::Call { function, args, .. } => {
                write!(f, "{}(", function.name())?;
                list(f, args, ", ")?;
                f.write_str(")")
            }
            Ir::TableCall { call, args } => {
                write!(f, "{}(", call.function().name())?;
                list(f, args, ", ")?;
                f.write_str(")")
            }
            Ir::Foreign(foreign) => foreign.fmt(f),
        }
    }
}

/// The comparison as SQL writes it.
fn symbol(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "=",
        Compare::NotEq => "<>",
        Compare::Lt => "<",
        Compare::LtEq => "<=",
        Compare::Gt => ">",
        Compare::GtEq => ">=",
    }
}

fn show_value(f: &mut fmt::Formatter<'_>, value: &Value, ty: Option<Type>) -> fmt::Result {
    match (value, ty) {
        (Value::Null, _) => f.write_str("NULL"),
        (Value::Bool(value), _) => write!(f, "{value}"),
        (Value::Int16(value), _) => write!(f, "{value}"),
        (Value::Int32(value), _) => write!(f, "{value}"),
        (Value::Int64(value), _) => write!(f, "{value}"),
        (Value::Float32(value), _) => write!(f, "{value}"),
        (Value::Float64(value), _) => write!(f, "{value}"),
        (Value::Decimal(value), Some(Type::Decimal { precision, scale })) => {
            let mut text = String::new();
            decimal::show(*value, precision, scale, &mut text);
            f.write_str(&text)
        }
        (Value::Text(value), _) => write!(f, "'{}'", value.replace('\'', "''")),
        (value, Some(ty)) => write!(f, "{ty:?} {value:?}"),
        (value, None) => write!(f, "{value:?}"),
    }
}
