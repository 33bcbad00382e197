//! The types of the columns of VALUES.
//!
//! A column has one type, which follows from all of its cells as the type of COALESCE follows from its arguments
//! (PostgreSQL, "UNION, CASE, and Related Constructs"). DataFusion's planner unites the types of cells in its own
//! way, and refuses constants in quotes beside others. So the cells of a column are converted to its type before
//! the planner sees them, unless they are plain constants of one kind.

use std::collections::HashSet;
use std::ops::ControlFlow;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, Query, Select, SelectItem, SetExpr, UnaryOperator, Value, VisitMut,
    VisitorMut,
};
use halcyon_dialect::made::{call, cast, is_quoted};
use halcyon_sql::parse::parse_own_query;
use halcyon_sql::type_names::{cast_type, name_of};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{sql_type_of, sql_type_of_arrow};

/// Converts the cells of all VALUES of several rows within a query or an expression. Of a column whose cells cannot
/// all be understood without what stands around them, or have no type in common, the constants in quotes alone are
/// converted, and the planner judges the others.
///
/// `field_of`: the column of a query that has one; `None` for a query that cannot be bound.
pub(crate) fn settle(within: &mut impl VisitMut, field_of: &FieldOf<'_>) {
    let mut settle = Settle(field_of);
    let ControlFlow::Continue(()) = within.visit(&mut settle);
}

/// The column of a query.
type FieldOf<'a> = dyn Fn(&Query) -> Option<FieldRef> + 'a;

struct Settle<'a>(&'a FieldOf<'a>);

impl VisitorMut for Settle<'_> {
    type Break = std::convert::Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.body(&mut query.body);
        ControlFlow::Continue(())
    }
}

impl Settle<'_> {
    fn body(&self, body: &mut SetExpr) {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            SetExpr::Values(values) if values.rows.len() > 1 => {
                for at in 0..values.rows[0].content.len() {
                    self.column(&mut values.rows, at);
                }
            }
            _ => {}
        }
    }

    fn column(&self, rows: &mut [ast::Parens<Vec<Expr>>], at: usize) {
        let cells = || rows.iter().filter_map(|row| row.content.get(at));
        let ty = match kind_of(cells()) {
            Some(Kind::Cast(ty)) if says_no_more(ty) && cells().all(is_typed_value) => return,
            Some(Kind::Cast(ty)) if !has_length(ty) => Some(ty.clone()),
            Some(Kind::Cast(ty)) => return with_nulls_of(&ty.clone(), rows, at),
            Some(_) => return,
            None => self.type_of(cells()),
        };
        let written = match &ty {
            Some(_) => None,
            None => self.type_of(cells().filter(|cell| is_written(cell))),
        };
        for cell in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            let bare = std::mem::replace(cell, Expr::Value(Value::Null.with_empty_span()));
            let is_of =
                |ty: &DataType| matches!(&bare, Expr::Cast { data_type, .. } if data_type == ty);
            let converted = match (&ty, &written) {
                (Some(ty), _) if !is_of(ty) => cast(bare, ty.clone()),
                (None, Some(ty)) if is_quoted(&bare) => cast(bare, ty.clone()),
                (None, _) if matches!(bare, Expr::Value(_)) => {
                    *cell = bare;
                    continue;
                }
                _ => bare,
            };
            // A call keeps nothing of what some casts say beyond their type, and others do not.
            *cell = call("coalesce", vec![converted]);
        }
    }

    /// The type of a column; `None` if its cells have none by themselves.
    fn type_of<'e>(&self, cells: impl Iterator<Item = &'e Expr>) -> Option<DataType> {
        let mut seen = HashSet::new();
        let mut distinct = Vec::new();
        for cell in cells {
            let one = match cell {
                // NULL, constants in quotes and parameters take the type of the others.
                Expr::Value(value) if !is_number_or_bool(&value.value) => continue,
                Expr::Cast { data_type, .. } => {
                    cast(Expr::Value(Value::Null.with_empty_span()), data_type.clone())
                }
                other => other.clone(),
            };
            if seen.insert(shape_of(&one)) {
                distinct.push(one);
            }
        }
        let one = match distinct.len() {
            0 => return None,
            1 => distinct.pop()?,
            _ => call("coalesce", distinct),
        };
        let field = (self.0)(&selected(one)?)?;
        let ty = match field.data_type() {
            ArrowType::List(item) => sql_type_of_arrow(item.data_type())?.array_of()?,
            _ => sql_type_of(&field)?,
        };
        Some(name_of(ty))
    }
}

/// Converts the NULLs of a column whose other cells are casts to one type of texts with a length.
fn with_nulls_of(ty: &DataType, rows: &mut [ast::Parens<Vec<Expr>>], at: usize) {
    for cell in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
        if is_null(cell) {
            *cell = cast(
                std::mem::replace(cell, Expr::Value(Value::Null.with_empty_span())),
                ty.clone(),
            );
        }
    }
}

fn is_null(cell: &Expr) -> bool {
    matches!(cell, Expr::Value(value) if matches!(value.value, Value::Null))
}

/// Whether a cell says its type by itself.
fn is_written(cell: &Expr) -> bool {
    matches!(cell, Expr::Cast { .. } | Expr::TypedString(_) | Expr::Value(_))
}

/// The text of an expression without its constants: what has the same one has the same type.
fn shape_of(expr: &Expr) -> String {
    struct Blank;
    impl VisitorMut for Blank {
        type Break = std::convert::Infallible;

        fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<Self::Break> {
            match &mut value.value {
                Value::SingleQuotedString(text) => text.clear(),
                Value::Number(digits, _) if digits.parse::<i32>().is_ok() => *digits = "0".into(),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut shape = expr.clone();
    let ControlFlow::Continue(()) = VisitMut::visit(&mut shape, &mut Blank);
    shape.to_string()
}

/// `SELECT expr`.
fn selected(expr: Expr) -> Option<Query> {
    let mut query = parse_own_query("SELECT NULL");
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let select: &mut Select = select;
    select.projection = vec![SelectItem::UnnamedExpr(expr)];
    Some(query)
}

fn is_number_or_bool(value: &Value) -> bool {
    matches!(value, Value::Number(..) | Value::Boolean(_))
}

/// Whether a cell is a parameter or a constant with a cast.
fn is_typed_value(cell: &Expr) -> bool {
    matches!(cell, Expr::Cast { expr, .. } if matches!(**expr, Expr::Value(_)))
}

/// Whether a cast to a type says nothing beyond its Arrow type, and has nothing from what it converts.
fn says_no_more(ty: &DataType) -> bool {
    use SqlType::{BigInt, Boolean, Date, Double, Integer, Real, SmallInt, Timestamp, TimestampTz};
    let ty = cast_type(ty).ok();
    matches!(ty, Some(SmallInt | Integer | BigInt | Real | Double | Boolean | Date))
        || matches!(ty, Some(Timestamp | TimestampTz))
}

/// Whether a type is one of texts with a length, which casts say beyond their Arrow type.
fn has_length(ty: &DataType) -> bool {
    matches!(cast_type(ty), Ok(SqlType::Char(_) | SqlType::Varchar(_)))
}

/// Cells that the planner unites by itself, NULL beside any.
#[derive(PartialEq)]
enum Kind<'e> {
    /// Whole numbers and decimals without an exponent.
    Number,
    Quoted,
    Bool,
    /// Casts to one type.
    Cast(&'e DataType),
    Null,
}

/// The kind of all cells; `None` for cells of several kinds, and others.
fn kind_of<'e>(cells: impl Iterator<Item = &'e Expr>) -> Option<Kind<'e>> {
    let kind = |cell: &'e Expr| match cell {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(expr.as_ref(), Expr::Value(value) if is_plain_number(&value.value))
                .then_some(Kind::Number)
        }
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) => Some(Kind::Quoted),
            Value::Boolean(_) => Some(Kind::Bool),
            value => is_plain_number(value).then_some(Kind::Number),
        },
        Expr::Cast { data_type, .. } => Some(Kind::Cast(data_type)),
        _ => None,
    };
    let mut first = None;
    for cell in cells.filter(|cell| !is_null(cell)) {
        match (kind(cell), &first) {
            (None, _) => return None,
            (found, None) => first = found,
            (Some(found), Some(first)) if found != *first => return None,
            _ => {}
        }
    }
    Some(first.unwrap_or(Kind::Null))
}

fn is_plain_number(value: &Value) -> bool {
    matches!(value, Value::Number(digits, _) if !digits.contains(['e', 'E']))
}
