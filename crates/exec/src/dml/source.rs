//! Where the value of a column comes from, and how it becomes a value of that column.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TimezoneInfo, UnaryOperator,
    Value as AstValue,
};
use halcyon_store::{Value, ValueRef};

use super::{Scope, WriteContext, placeholder};
use halcyon_value::decimal;
use halcyon_value::integer::widen;

use crate::constraints::{literal_value, mismatch};
use halcyon_catalog::sequence;
use halcyon_catalog::{Catalog, Privilege, Sequence, Table};
use halcyon_dialect::made::cast;
use halcyon_dialect::typed_values::cast_of_value;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_plan::semantics::word_for_the_present;
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::parse::parse_expr;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;

/// How a value changes on its way into a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Convert {
    /// Not at all.
    Same,
    /// Text of bounded length.
    Fit,
    /// By an assignment cast.
    From(SqlType),
}

impl Convert {
    /// The conversion between two types. Errors: 42804.
    pub fn new(from: SqlType, to: SqlType, column: &str) -> Result<Convert> {
        if !coerce::assignable(from, to) {
            return Err(mismatch(column, to, &from.to_string()));
        }
        let text = |ty| matches!(ty, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text);
        Ok(match (from, to) {
            _ if from == to => Convert::Same,
            (_, SqlType::Text | SqlType::Varchar(None)) if text(from) => Convert::Same,
            (_, SqlType::Varchar(_) | SqlType::Char(_)) if text(from) => Convert::Fit,
            _ if !text(to) && to.element().is_none() && from.arrow() == to.arrow() => Convert::Same,
            _ => Convert::From(from),
        })
    }

    /// Converts a value. Errors: those of [`coerce::assign`].
    #[inline]
    pub fn apply<'v>(
        self,
        value: ValueRef<'v>,
        to: SqlType,
        zone: impl FnOnce() -> TimeZone,
        arena: &'v Arena,
    ) -> Result<ValueRef<'v>> {
        match (self, value) {
            (Convert::Same, value) | (_, value @ ValueRef::Null) => Ok(value),
            (Convert::Fit, ValueRef::Text(text)) => Ok(ValueRef::Text(coerce::fit_text(text, to)?)),
            (Convert::Fit, value) => Ok(value),
            (Convert::From(from), value) if keeps_decimal(value, from, to) => Ok(value),
            (Convert::From(from), value) => match (widen(value), to) {
                (Some(wide), SqlType::SmallInt | SqlType::Integer | SqlType::BigInt) => {
                    coerce::fit_integer(wide, to).ok_or_else(|| {
                        SqlError::new(
                            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                            format!("{to} out of range"),
                        )
                    })
                }
                _ => coerce::assign(value, from, to, &zone(), arena),
            },
        }
    }
}

/// Whether a decimal needs no conversion to the other type, so that assignment only checks that its
/// digits fit: the common case of sums of money.
#[inline]
fn keeps_decimal(value: ValueRef<'_>, from: SqlType, to: SqlType) -> bool {
    match (value, from, to) {
        (
            ValueRef::Decimal(value),
            SqlType::Decimal { scale: same, .. },
            SqlType::Decimal { precision, scale },
        ) => same == scale && decimal::fits(value, precision),
        _ => false,
    }
}

/// Where the value of a column comes from.
pub enum Cell {
    /// A constant of the column's type.
    Const(Value),
    /// A parameter.
    Param(usize, Convert),
    /// A column of the source query's rows.
    Column(usize, Convert),
    /// The next value of a sequence: (schema, name).
    Sequence(std::sync::Arc<Sequence>, Convert),
    /// An expression without columns of the source: a default, or one over a row at hand.
    Program(Box<Program>, Convert),
}

impl Cell {
    /// Whether the value follows from parameters alone, so that a lock can be chosen by it.
    pub fn is_known_before(&self) -> bool {
        matches!(self, Cell::Const(_) | Cell::Param(..))
    }

    /// The value, for [`Cell::is_known_before`]; `None` if it cannot be converted (the run will
    /// say why).
    pub fn before<'v>(
        &'v self,
        env: &'v Env<'_>,
        to: SqlType,
        arena: &'v Arena,
    ) -> Option<ValueRef<'v>> {
        match self {
            Cell::Const(value) => Some(value.as_ref()),
            Cell::Param(at, convert) => {
                let zone = || TimeZone::parse(&env.session.time_zone).unwrap_or_default();
                convert.apply(env.params[*at].as_ref(), to, zone, arena).ok()
            }
            _ => None,
        }
    }

    /// The value for a row; `source` is the row of the source query, `row` what programs read.
    #[inline]
    pub fn value<'v>(
        &'v self,
        env: &'v Env<'v>,
        zone: &mut Option<TimeZone>,
        source: impl Fn(usize) -> ValueRef<'v>,
        row: &'v [ValueRef<'v>],
        to: SqlType,
        arena: &'v Arena,
    ) -> Result<ValueRef<'v>> {
        let name = &env.session.time_zone;
        let zone = || *zone.get_or_insert_with(|| TimeZone::parse(name).unwrap_or_default());
        match self {
            Cell::Const(value) => Ok(value.as_ref()),
            Cell::Param(at, convert) => convert.apply(env.params[*at].as_ref(), to, zone, arena),
            Cell::Column(at, convert) => convert.apply(source(*at), to, zone, arena),
            Cell::Sequence(sequence, convert) => {
                let value = ValueRef::Int64(sequence::next_value(sequence, env.session)?);
                convert.apply(value, to, zone, arena)
            }
            Cell::Program(program, convert) => {
                convert.apply(program.eval(row, env, arena)?, to, zone, arena)
            }
        }
    }
}

/// A constant of the column's type, if the expression is a literal.
fn constant(expr: &Expr, ty: SqlType, column: &str, zone: &str) -> Option<Result<Value>> {
    let literal = match expr {
        Expr::Value(value) => &value.value,
        Expr::Nested(inner) => return constant(inner, ty, column, zone),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let Expr::Value(value) = &**expr else { return None };
            let AstValue::Number(digits, _) = &value.value else { return None };
            return Some(numeric(&format!("-{digits}"), ty, column));
        }
        _ => return None,
    };
    Some(match literal {
        AstValue::Null => Ok(Value::Null),
        AstValue::Boolean(value) => literal_value(&ScalarValue::Boolean(Some(*value)), ty, column),
        AstValue::SingleQuotedString(text) | AstValue::EscapedStringLiteral(text) => {
            // A time without an offset is read in the zone of the moment it is bound, as
            // PostgreSQL does.
            let zone = TimeZone::parse(zone).unwrap_or_default();
            coerce::parse_owned(text, ty, &zone)
        }
        AstValue::Number(digits, _) => numeric(&digits.to_string(), ty, column),
        _ => return None,
    })
}

/// A numeric literal as a value of the column: integers and decimals exactly, as PostgreSQL types
/// them.
fn numeric(digits: &str, ty: SqlType, column: &str) -> Result<Value> {
    let from = match digits.parse::<i64>() {
        Ok(whole) => return literal_value(&ScalarValue::Int64(Some(whole)), ty, column),
        Err(_) => SqlType::Decimal { precision: 38, scale: 0 },
    };
    if !coerce::assignable(from, ty) {
        return Err(mismatch(column, ty, "numeric"));
    }
    match ty {
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
            let whole = decimal::parse(digits, decimal::DIGITS_MAX, 0)?;
            let whole = i64::try_from(whole).ok();
            whole.and_then(|whole| coerce::fit_integer(whole, ty)).map(|v| v.to_owned()).ok_or_else(
                || {
                    SqlError::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        format!("{ty} out of range"),
                    )
                },
            )
        }
        ty => coerce::parse_owned(digits, ty, &TimeZone::UTC),
    }
}

/// The cell for an expression that stands for a column's value by itself: literal, parameter, a cast of one to a type
/// that the column has, or DEFAULT. `None`: it must be computed by a query.
pub(super) fn simple(
    scope: &mut Scope<'_>,
    expr: &Expr,
    table: &Table,
    column: u16,
) -> Result<Option<Cell>> {
    let definition = &table.columns[column as usize];
    if is_default(expr) {
        return default(&scope.binder, table, column).map(Some);
    }
    if let Some(name) = placeholder(expr) {
        let (at, ty) = scope.param(name, definition.ty)?;
        let convert = match ty == SqlType::Text && !coerce::assignable(ty, definition.ty) {
            // A client that declares every parameter as text means the column's type.
            true => return Err(mismatch(&definition.name, definition.ty, "text")),
            false => Convert::new(ty, definition.ty, &definition.name)?,
        };
        return Ok(Some(Cell::Param(at, convert)));
    }
    let expr = match cast_of_value(expr, definition.ty) {
        Some((value, ty)) => match placeholder(value) {
            Some(name) => {
                // What a client has declared as another type is converted by the cast.
                let (at, known) = scope.param(name, ty)?;
                let convert = Convert::new(ty, definition.ty, &definition.name)?;
                return Ok((known == ty).then_some(Cell::Param(at, convert)));
            }
            None => value,
        },
        None => expr,
    };
    if let Some(present) = present(expr, definition.ty) {
        let schema = DFSchema::empty();
        let bound = scope.binder.expr(&present, &schema)?;
        return program(&bound, &schema, definition.ty, &definition.name).map(Some);
    }
    let zone = &scope.binder.session.time_zone;
    constant(expr, definition.ty, &definition.name, zone)
        .map(|value| value.map(Cell::Const))
        .transpose()
}

/// `'now'`, `'today'` and their kin as values of a day or moment.
fn present(expr: &Expr, ty: SqlType) -> Option<Expr> {
    let Expr::Value(value) = expr else { return None };
    let AstValue::SingleQuotedString(text) = &value.value else { return None };
    let ty = match ty {
        SqlType::Date => DataType::Date,
        SqlType::Timestamp => DataType::Timestamp(None, TimezoneInfo::None),
        SqlType::TimestampTz => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        _ => return None,
    };
    word_for_the_present(text)?;
    Some(cast(expr.clone(), ty))
}

/// Whether the expression is the word DEFAULT.
pub(super) fn is_default(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default")
        }
        _ => false,
    }
}

/// The cell of a column that a statement does not mention.
pub fn default(binder: &Binder<'_>, table: &Table, column: u16) -> Result<Cell> {
    let definition = &table.columns[column as usize];
    if definition.generated.is_some() {
        // Its value is put in when the row's others are known.
        return Ok(Cell::Const(Value::Null));
    }
    if let Some(identity) = &definition.identity {
        let sequence = binder.catalog.sequence(&table.schema, &identity.sequence);
        let sequence = sequence.expect("an identity has its sequence").clone();
        let convert = Convert::new(SqlType::BigInt, definition.ty, &definition.name)?;
        return Ok(Cell::Sequence(sequence, convert));
    }
    let Some(text) = binder.catalog.default_of(definition) else {
        return Ok(Cell::Const(Value::Null));
    };
    let expr = parse_expr(text)?;
    if let Some(sequence) = nextval_of(&expr, binder.catalog, &binder.session.search_path) {
        let wish = [Privilege::Usage, Privilege::Update];
        binder.catalog.require_any_on_sequence(&binder.session.user, &sequence, &wish)?;
        let convert = Convert::new(SqlType::BigInt, definition.ty, &definition.name)?;
        return Ok(Cell::Sequence(sequence, convert));
    }
    let zone = &binder.session.time_zone;
    if let Some(value) = constant(&expr, definition.ty, &definition.name, zone) {
        return value.map(Cell::Const);
    }
    let schema = DFSchema::empty();
    let bound = binder.expr(&expr, &schema)?;
    if let datafusion::logical_expr::Expr::Literal(value, _) = &bound
        && definition.ty != SqlType::TimestampTz
    {
        return literal_value(value, definition.ty, &definition.name).map(Cell::Const);
    }
    program(&bound, &schema, definition.ty, &definition.name)
}

/// A cell that is computed from the row at hand.
pub(super) fn program(
    bound: &datafusion::logical_expr::Expr,
    schema: &DFSchema,
    ty: SqlType,
    column: &str,
) -> Result<Cell> {
    use datafusion::logical_expr::ExprSchemable;
    let (_, field) =
        bound.to_field(schema).map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))?;
    let from =
        sql_type_of(&field).ok_or_else(|| mismatch(column, ty, &field.data_type().to_string()))?;
    let convert = match field.data_type() {
        arrow::datatypes::DataType::Null => Convert::Same,
        _ => Convert::new(from, ty, column)?,
    };
    Ok(Cell::Program(Box::new(Program::compile(bound, schema)?), convert))
}

/// The sequence of `nextval('name')`, which SERIAL columns have for a default.
fn nextval_of(
    expr: &Expr,
    catalog: &Catalog,
    search_path: &[String],
) -> Option<std::sync::Arc<Sequence>> {
    let Expr::Function(call) = expr else { return None };
    if parts(&call.name).ok()?.last()? != "nextval" {
        return None;
    }
    let FunctionArguments::List(arguments) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = arguments.args.as_slice() else {
        return None;
    };
    let argument = match argument {
        Expr::Cast { expr, .. } => &**expr,
        other => other,
    };
    let Expr::Value(value) = argument else { return None };
    let AstValue::SingleQuotedString(name) = &value.value else { return None };
    catalog.find_sequence(&dotted(name)?, search_path).ok()
}

/// The parts of a dotted name in a string.
fn dotted(text: &str) -> Option<Vec<String>> {
    match parse_expr(text).ok()? {
        Expr::Identifier(name) => Some(vec![fold(&name)]),
        Expr::CompoundIdentifier(names) => Some(names.iter().map(fold).collect()),
        _ => None,
    }
}

/// Converts the values of one column of a source row.
pub(super) fn from_column(
    at: usize,
    from: Option<SqlType>,
    null: bool,
    ty: SqlType,
    column: &str,
) -> Result<Cell> {
    if null {
        return Ok(Cell::Column(at, Convert::Same));
    }
    let from = from.ok_or_else(|| mismatch(column, ty, "unknown"))?;
    Ok(Cell::Column(at, Convert::new(from, ty, column)?))
}

impl WriteContext<'_> {
    /// The time zone's cell, for [`Cell::value`].
    pub fn zone_cell(&mut self) -> &mut Option<TimeZone> {
        &mut self.zone
    }
}
