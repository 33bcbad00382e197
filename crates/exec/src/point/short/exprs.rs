//! Expressions over the columns of one table, lowered as they stand.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value};

use halcyon_catalog::Table;
use halcyon_plan::scalar::{Arith, Compare, Ir, arithmetic};
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::identifier::fold;
use halcyon_sql::types::SqlType;
use halcyon_store::{Type, Value as StoredValue};

/// Digits that a decimal may have.
pub(super) const DIGITS_MAX: u8 = 38;

/// The columns and parameters of a statement's expressions. Slots are numbers of columns until
/// [`renumber`] puts the plan's slots in.
pub(super) struct Exprs {
    pub table: Arc<Table>,
    /// The table's name in the statement.
    name: String,
    /// Columns that are read, in the order of their appearance, perhaps several times.
    pub read: Vec<u16>,
    /// Types of parameters as far as they are known.
    params: Vec<Option<SqlType>>,
    /// Whether the columns of `excluded` follow the table's, and there are no parameters.
    with_excluded: bool,
}

/// The name of the row that an INSERT proposed.
const EXCLUDED: &str = "excluded";

/// An operand, before it is known what stands beside it.
pub(super) enum Operand {
    /// A value of a type.
    Value(Ir, SqlType),
    /// A constant in quotes, which takes the type of what stands beside it.
    Quoted(String),
    /// A parameter whose type is not declared, by its place from 0.
    Parameter(usize),
}

impl Exprs {
    pub fn new(table: &Arc<Table>, name: String, given: &[Option<SqlType>]) -> Self {
        let table = Arc::clone(table);
        Exprs { table, name, read: Vec::new(), params: given.to_vec(), with_excluded: false }
    }

    /// The columns of a table and of `excluded`; `None` if the table goes by that name.
    pub fn with_excluded(table: &Arc<Table>, name: String) -> Option<Self> {
        let exprs = Exprs { with_excluded: true, ..Exprs::new(table, name, &[]) };
        (exprs.name != EXCLUDED).then_some(exprs)
    }

    /// A value that is no constant.
    pub fn value(&mut self, expr: &Expr) -> Option<(Ir, SqlType)> {
        match self.operand(expr)? {
            Operand::Value(Ir::Const(..), _) | Operand::Quoted(_) | Operand::Parameter(_) => None,
            Operand::Value(ir, ty) => Some((ir, ty)),
        }
    }

    /// The types of parameters as far as they are known.
    pub fn into_types(self) -> Vec<Option<SqlType>> {
        self.params
    }

    /// The column that an expression names.
    pub fn resolve(&self, expr: &Expr) -> Option<u16> {
        let named = |name: &Ident| self.table.column(&fold(name));
        match expr {
            Expr::Identifier(name) => named(name),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [table, name] if fold(table) == self.name => named(name),
                [table, name] if self.with_excluded && fold(table) == EXCLUDED => {
                    Some(named(name)? + u16::try_from(self.table.columns.len()).ok()?)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A column of the table or of `excluded`.
    pub fn column(&mut self, column: u16) -> Ir {
        self.read.push(column);
        Ir::Slot(usize::from(column), self.type_of(column).storage())
    }

    pub fn type_of(&self, column: u16) -> SqlType {
        self.table.columns[usize::from(column) % self.table.columns.len()].ty
    }

    /// Whether a value may be NULL, as far as its operands say: what is checked for overflow may be.
    pub fn is_nullable(&self, ir: &Ir) -> bool {
        match ir {
            Ir::Slot(column, _) => self.table.arrow.field(*column).is_nullable(),
            Ir::Const(value, _) => value.is_null(),
            Ir::Arith { left, right, ty: Type::Decimal { precision, .. }, .. }
                if *precision < DIGITS_MAX =>
            {
                self.is_nullable(left) || self.is_nullable(right)
            }
            _ => true,
        }
    }

    /// Whether a value is that of a column with a collation: what has an order then goes the long way.
    pub fn is_collated(&self, ir: &Ir) -> bool {
        let columns = &self.table.columns;
        matches!(ir, Ir::Slot(column, _) if columns[*column % columns.len()].collation.is_some())
    }

    /// A parameter where a value of type `ty` is wanted; `None` if it is declared to be of another.
    pub fn parameter(&mut self, name: &str, ty: SqlType) -> Option<Ir> {
        let at = self.place(name)?;
        self.typed(at, ty)
    }

    fn typed(&mut self, at: usize, ty: SqlType) -> Option<Ir> {
        let known = *self.params[at].get_or_insert(ty);
        (known.storage() == ty.storage()).then(|| Ir::Param(at, ty.storage()))
    }

    /// The place of a parameter from 0.
    fn place(&mut self, name: &str) -> Option<usize> {
        let number: usize = name.strip_prefix('$')?.parse().ok()?;
        if self.with_excluded {
            return None;
        }
        let at = number.checked_sub(1)?;
        if at >= self.params.len() {
            self.params.resize(at + 1, None);
        }
        Some(at)
    }

    /// A condition.
    pub fn condition(&mut self, expr: &Expr) -> Option<Ir> {
        match expr {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                let mut parts = Vec::new();
                self.connected(expr, op, &mut parts)?;
                Some(if *op == BinaryOperator::And { Ir::And(parts) } else { Ir::Or(parts) })
            }
            Expr::BinaryOp { left, op, right } => {
                let op = comparison(op)?;
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                let [left, right] = <[Ir; 2]>::try_from(self.alike(vec![left, right])?).ok()?;
                let collated = [&left, &right].map(|side| self.is_collated(side));
                let is_equality = matches!(op, Compare::Eq | Compare::NotEq);
                if collated != [false, false] && !(is_equality && collated != [true, true]) {
                    return None;
                }
                Some(Ir::Compare { op, left: left.into(), right: right.into() })
            }
            Expr::IsNull(of) => self.is_null(of, false),
            Expr::IsNotNull(of) => self.is_null(of, true),
            Expr::InList { expr, list, negated } => {
                let of = self.column_operand(expr)?;
                let mut all = vec![of];
                for item in list {
                    all.push(self.constant_operand(item)?);
                }
                let mut list = self.alike(all)?;
                let of = Box::new(list.remove(0));
                Some(Ir::InList { of, list, negated: *negated })
            }
            Expr::Between { expr, negated: false, low, high } => {
                let of = self.column_operand(expr)?;
                let (low, high) = (self.constant_operand(low)?, self.constant_operand(high)?);
                let [of, low, high] = <[Ir; 3]>::try_from(self.alike(vec![of, low, high])?).ok()?;
                if self.is_collated(&of) {
                    return None;
                }
                let (left, right) = (Box::new(of.clone()), Box::new(of));
                let above = Ir::Compare { op: Compare::GtEq, left, right: low.into() };
                let below = Ir::Compare { op: Compare::LtEq, left: right, right: high.into() };
                Some(Ir::And(vec![above, below]))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let column = self.resolve(expr)?;
                let ir = self.column(column);
                (ir.ty() == Some(Type::Bool)).then_some(ir)
            }
            _ => None,
        }
    }

    /// The terms of a chain of AND or OR, from the left.
    fn connected(&mut self, expr: &Expr, op: &BinaryOperator, parts: &mut Vec<Ir>) -> Option<()> {
        match expr {
            Expr::Nested(inner) => self.connected(inner, op, parts),
            Expr::BinaryOp { left, op: found, right } if found == op => {
                self.connected(left, op, parts)?;
                self.connected(right, op, parts)
            }
            other => {
                parts.push(self.condition(other)?);
                Some(())
            }
        }
    }

    fn is_null(&mut self, of: &Expr, negated: bool) -> Option<Ir> {
        match self.column_operand(of)? {
            Operand::Value(of, _) => Some(Ir::IsNull { of: of.into(), negated }),
            _ => None,
        }
    }

    fn column_operand(&mut self, expr: &Expr) -> Option<Operand> {
        let column = self.resolve(expr)?;
        Some(Operand::Value(self.column(column), self.type_of(column)))
    }

    /// A constant or a parameter.
    fn constant_operand(&mut self, expr: &Expr) -> Option<Operand> {
        match self.operand(expr)? {
            Operand::Value(ir, _) if !matches!(ir, Ir::Const(..) | Ir::Param(..)) => None,
            constant => Some(constant),
        }
    }

    /// A value.
    pub fn operand(&mut self, expr: &Expr) -> Option<Operand> {
        Some(match expr {
            Expr::Nested(inner) => self.operand(inner)?,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column_operand(expr)?,
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => whole_number(digits.parse().ok()?),
                Value::SingleQuotedString(text) => Operand::Quoted(text.clone()),
                Value::Placeholder(name) => {
                    let at = self.place(name)?;
                    match self.params[at] {
                        Some(ty) => Operand::Value(Ir::Param(at, ty.storage()), ty),
                        None => Operand::Parameter(at),
                    }
                }
                _ => return None,
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
                Expr::Value(value) => match &value.value {
                    Value::Number(digits, false) => {
                        whole_number(format!("-{digits}").parse().ok()?)
                    }
                    _ => return None,
                },
                _ => return None,
            },
            Expr::BinaryOp { left, op, right } => {
                let op = match op {
                    BinaryOperator::Plus => Arith::Add,
                    BinaryOperator::Minus => Arith::Sub,
                    BinaryOperator::Multiply => Arith::Mul,
                    _ => return None,
                };
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                self.calculated(op, left, right)?
            }
            _ => return None,
        })
    }

    /// Arithmetic of two values of one type of numbers, one of them no constant.
    fn calculated(&mut self, op: Arith, left: Operand, right: Operand) -> Option<Operand> {
        let ty = [&left, &right].into_iter().find_map(|operand| match operand {
            Operand::Value(ir, ty) if !matches!(ir, Ir::Const(..)) => Some(*ty),
            _ => None,
        })?;
        let result = match ty {
            SqlType::Integer | SqlType::BigInt | SqlType::Double => ty,
            SqlType::Decimal { precision, scale } => match op {
                Arith::Mul => {
                    let scale = scale.checked_mul(2)?;
                    let precision = (precision * 2 + 1).min(DIGITS_MAX);
                    (scale >= 0 && scale.unsigned_abs() <= precision)
                        .then_some(SqlType::Decimal { precision, scale })?
                }
                _ => SqlType::Decimal { precision: (precision + 1).min(DIGITS_MAX), scale },
            },
            _ => return None,
        };
        let [left, right] = <[Ir; 2]>::try_from(self.alike(vec![left, right])?).ok()?;
        Some(Operand::Value(arithmetic(op, left, right, result.storage())?, result))
    }

    /// The operands as values of one type: that of the first that is no constant.
    ///
    /// `None`: they are of several types, or none of them has one by itself, or they are documents, which are
    /// not compared as they lie in memory, or the comparison of padded texts would have to cut something off.
    fn alike(&mut self, operands: Vec<Operand>) -> Option<Vec<Ir>> {
        let is_constant = |ir: &Ir| matches!(ir, Ir::Const(..));
        let (ty, is_computed) = operands.iter().find_map(|operand| match operand {
            Operand::Value(ir, ty) if !is_constant(ir) => {
                Some((*ty, matches!(ir, Ir::Arith { .. })))
            }
            _ => None,
        })?;
        let is_document = |operand: &Operand| match operand {
            Operand::Value(_, ty) => ty.is_document(),
            _ => false,
        };
        if operands.iter().any(is_document) {
            return None;
        }
        // Quoted constants and parameters take the type of the first value, whatever that is.
        let first = operands.iter().find(|operand| matches!(operand, Operand::Value(..)));
        let begins_with_constant = matches!(first, Some(Operand::Value(ir, _)) if is_constant(ir));
        let mut padded = matches!(ty, SqlType::Char(_));
        for operand in &operands {
            padded |= matches!(operand, Operand::Value(_, SqlType::Char(_)));
        }
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            values.push(match operand {
                Operand::Value(Ir::Const(StoredValue::Int32(value), _), SqlType::Integer)
                    if ty == SqlType::BigInt =>
                {
                    Ir::Const(StoredValue::Int64(value.into()), Some(Type::Int64))
                }
                Operand::Value(ir, own) => {
                    let cuts = padded
                        && (matches!(own, SqlType::Varchar(_)) || matches!(ir, Ir::Param(..)));
                    if own.storage() != ty.storage() || cuts {
                        return None;
                    }
                    ir
                }
                _ if begins_with_constant => return None,
                Operand::Parameter(_) if padded => return None,
                // DataFusion's planner asks for the type of a computed value before constants have theirs.
                Operand::Parameter(_) if is_computed => return None,
                Operand::Parameter(at) => self.typed(at, ty)?,
                Operand::Quoted(text) => quoted(&text, ty)?,
            });
        }
        Some(values)
    }
}

/// An integer constant in the type that PostgreSQL gives it.
fn whole_number(value: i64) -> Operand {
    match i32::try_from(value) {
        Ok(value) => Operand::Value(
            Ir::Const(StoredValue::Int32(value), Some(Type::Int32)),
            SqlType::Integer,
        ),
        Err(_) => {
            Operand::Value(Ir::Const(StoredValue::Int64(value), Some(Type::Int64)), SqlType::BigInt)
        }
    }
}

/// A constant in quotes as a value of a type that takes it without a question.
fn quoted(text: &str, ty: SqlType) -> Option<Ir> {
    let value = match ty {
        SqlType::Text | SqlType::Varchar(_) => StoredValue::Text(text.into()),
        SqlType::Char(_) => StoredValue::Text(text.trim_end_matches(' ').into()),
        SqlType::Boolean
        | SqlType::SmallInt
        | SqlType::Integer
        | SqlType::Oid
        | SqlType::BigInt
        | SqlType::Real
        | SqlType::Double
        | SqlType::Date
        | SqlType::Time
        | SqlType::Timestamp
        | SqlType::Inet
        | SqlType::MacAddr
        | SqlType::Uuid => coerce::parse_owned(text, ty, &TimeZone::UTC).ok()?,
        _ => return None,
    };
    Some(Ir::Const(value, Some(ty.storage())))
}

fn comparison(op: &BinaryOperator) -> Option<Compare> {
    Some(match op {
        BinaryOperator::Eq => Compare::Eq,
        BinaryOperator::NotEq => Compare::NotEq,
        BinaryOperator::Lt => Compare::Lt,
        BinaryOperator::LtEq => Compare::LtEq,
        BinaryOperator::Gt => Compare::Gt,
        BinaryOperator::GtEq => Compare::GtEq,
        _ => return None,
    })
}

/// Puts the plan's slots in the place of columns.
pub(super) fn renumber(ir: &mut Ir, slot_of: &dyn Fn(u16) -> usize) {
    match ir {
        Ir::Slot(at, _) => *at = slot_of(u16::try_from(*at).expect("a column of a table")),
        Ir::And(parts) | Ir::Or(parts) => {
            parts.iter_mut().for_each(|part| renumber(part, slot_of));
        }
        Ir::Compare { left, right, .. } | Ir::Arith { left, right, .. } => {
            renumber(left, slot_of);
            renumber(right, slot_of);
        }
        Ir::IsNull { of, .. } => renumber(of, slot_of),
        Ir::InList { of, list, .. } => {
            renumber(of, slot_of);
            list.iter_mut().for_each(|item| renumber(item, slot_of));
        }
        Ir::Const(..) | Ir::Param(..) => {}
        other => unreachable!("nothing here makes {other}"),
    }
}
