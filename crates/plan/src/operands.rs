//! Operators as DataFusion's planner meets them: constants in quotes get the types that PostgreSQL
//! gives them beside the other operand, before DataFusion looks for an operator; operands that no
//! operator takes are refused with PostgreSQL's names. Operators of documents become functions of
//! `halcyon_functions`.
//!
//! PostgreSQL's rule for `known op 'text'`: the text is of the known type if there is such an
//! operator; otherwise of the only type for which there is one (`timestamp + '1 day'`); if there
//! are several such types (`date + '1'`), the statement is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::{greatest, nullif};
use datafusion::functions_nested::expr_fn::{array_element, make_array};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, Operator, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator as Op;

use crate::interrupts::go_on;
use crate::semantics::{
    is_text, narrow, no_operator, not_boolean, number, quoted, to, typed_constant, untyped,
};
use crate::{addresses, functions, semantics};
use halcyon_functions::corrected;
use halcyon_functions::nested::without_names;

use halcyon_dialect::not_unique;
use halcyon_functions as by_value;
use halcyon_names::documents::is_document;
use halcyon_sql::coerce::nested::is_nested;
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::{is_day_or_moment, is_label, is_zoned_moment};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::meeting_types::comparable;
use halcyon_sql::misfits;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{shown_type, sql_type_of_arrow};

/// `document['member']` and `document[1]`, of a `jsonb`: a step of a path, NULL where there is none.
///
/// Errors: 42804 for a subscript that is neither an integer nor a text, 0A000 for a slice.
fn member(access: RawFieldAccessExpr, schema: &DFSchema) -> Result<Expr> {
    let RawFieldAccessExpr { expr, field_access } = access;
    let step = match field_access {
        GetFieldAccess::NamedStructField { name } => Expr::Literal(name, None),
        GetFieldAccess::ListIndex { key } => *key,
        GetFieldAccess::ListRange { .. } => {
            let message = "jsonb subscript does not support slices";
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(external(error));
        }
    };
    let step = match step {
        step if untyped(&step) => parameter_of(step, &DataType::Utf8View),
        step => step,
    };
    let found = step.get_type(schema)?;
    if !(is_text(&found) || found.is_integer() || found.is_null()) {
        let message = format!("subscript type {} is not supported", shown_type(&found));
        let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
        return Err(external(
            error.hint("jsonb subscript must be coercible to either integer or text."),
        ));
    }
    let path = make_array(vec![to(step, DataType::Utf8View)]);
    Ok(by_value::of_name("#>").expect("a function").call(vec![expr, path]))
}

/// Operators that DataFusion's planner would refuse, or mistake, before our passes see them.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    /// `ARRAY[…]`: constants in quotes, and NULL beside documents, have the type of the other elements.
    fn plan_array_literal(
        &self,
        mut exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        go_on()?;
        let typed = exprs.iter().filter(|expr| quoted(expr).is_none());
        let known = typed.filter_map(|expr| expr.get_type(schema).ok()).find(|ty| !ty.is_null());
        if let Some(known) = known.filter(|ty| !is_text(ty) && !is_nested(ty)) {
            for expr in &mut exprs {
                match quoted(expr) {
                    Some(text) => *expr = typed_constant(text, &known)?,
                    // Numbers get their types, which need not be the planner's, when all is known.
                    None if !known.is_numeric()
                        && matches!(expr, Expr::Literal(ScalarValue::Null, _)) =>
                    {
                        *expr = Expr::Literal(ScalarValue::try_from(&known)?, None);
                    }
                    None => {}
                }
            }
        }
        Ok(PlannerResult::Original(exprs))
    }

    /// `POSITION (a IN b)`, of texts and of bytes.
    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(corrected::strpos().call(args)))
    }

    /// `SUBSTRING (a FROM b FOR c)`, of texts and of bytes.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(corrected::substr().call(args)))
    }

    /// `array[n]`, which is NULL where there is no element, and `array[m:n]`.
    ///
    /// Errors: 42804 for what is no array, and for a subscript that is no number.
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        go_on()?;
        let ty = expr.expr.get_type(schema)?;
        if ty == DataType::LargeBinary {
            return member(expr, schema).map(PlannerResult::Planned);
        }
        if ty.is_null() || matches!(ty, DataType::Map(..) | DataType::Struct(_)) {
            return Ok(PlannerResult::Original(expr));
        }
        if !matches!(ty, DataType::List(_)) {
            let shown = shown_type(&ty);
            let message =
                format!("cannot subscript type {shown} because it does not support subscripting");
            return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        let subscript = |expr: Expr| {
            let found = expr.get_type(schema)?;
            match quoted(&expr) {
                Some(text) => typed_constant(text, &DataType::Int64),
                None if found == DataType::Int64 => Ok(expr),
                None if untyped(&expr) => {
                    Ok(to(parameter_of(expr, &DataType::Int32), DataType::Int64))
                }
                None if found.is_integer() || found.is_null() => Ok(to(expr, DataType::Int64)),
                None => {
                    let message = "array subscript must have type integer";
                    Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)))
                }
            }
        };
        let RawFieldAccessExpr { expr, field_access } = expr;
        let field_access = match field_access {
            GetFieldAccess::NamedStructField { name } => {
                GetFieldAccess::ListIndex { key: Box::new(Expr::Literal(name, None)) }
            }
            other => other,
        };
        Ok(PlannerResult::Planned(match field_access {
            GetFieldAccess::NamedStructField { .. } => unreachable!("a subscript now"),
            GetFieldAccess::ListIndex { key } => {
                let key = subscript(*key)?;
                match key {
                    Expr::Literal(ScalarValue::Int64(Some(1..)), _) => array_element(expr, key),
                    // DataFusion counts subscripts below 1 from the end; there is no element at NULL.
                    key => array_element(expr, nullif(greatest(vec![key, lit(0i64)]), lit(0i64))),
                }
            }
            GetFieldAccess::ListRange { start, stop, .. } => {
                let slice = by_value::of_name("array\u{1}slice").expect("a function");
                slice.call(vec![expr, subscript(*start)?, subscript(*stop)?])
            }
        }))
    }

    /// `(a, b)`, whose type is bounded.
    fn plan_struct_literal(
        &self,
        exprs: Vec<Expr>,
        is_named: bool,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        go_on()?;
        Ok(match is_named {
            true => PlannerResult::Original(exprs),
            false => PlannerResult::Planned(corrected::row().call(exprs)),
        })
    }

    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        go_on()?;
        // `1e10` is a number without places, not one with less than none.
        let RawBinaryExpr { op, left, right } = expr;
        let whole = |side: Expr| match &side {
            Expr::Literal(ScalarValue::Decimal128(Some(_), _, ..=-1), _) => narrow(side).data,
            _ => side,
        };
        let expr = RawBinaryExpr { op, left: whole(left), right: whole(right) };
        let types = (type_of_operand(&expr.left, schema), type_of_operand(&expr.right, schema));
        let (Ok(lt), Ok(rt)) = types else { return Ok(PlannerResult::Original(expr)) };
        if let Some(name) = function_of_documents(&expr.op, &expr.left, &lt, &expr.right, &rt)? {
            let function = by_value::of_name(name).expect("operators of documents are functions");
            return Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])));
        }
        if let Some(name) = addresses::function_of(&expr.op, &lt, &rt) {
            let function = by_value::of_name(name).expect("operators of addresses are functions");
            return Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])));
        }
        match expr.op {
            // NULL beside an array is one.
            Op::StringConcat
                if matches!(lt, DataType::List(_)) && rt.is_null() && !untyped(&expr.right) =>
            {
                Ok(PlannerResult::Planned(expr.left))
            }
            Op::StringConcat
                if matches!(rt, DataType::List(_)) && lt.is_null() && !untyped(&expr.left) =>
            {
                Ok(PlannerResult::Planned(expr.right))
            }
            Op::StringConcat if [&lt, &rt].iter().any(|ty| matches!(ty, DataType::List(_))) => {
                let expr = arrays_alike(expr, &lt, &rt)?;
                let types =
                    (type_of_operand(&expr.left, schema)?, type_of_operand(&expr.right, schema)?);
                let (left, right) =
                    (matches!(types.0, DataType::List(_)), matches!(types.1, DataType::List(_)));
                if left == right {
                    return Ok(PlannerResult::Original(expr));
                }
                let function = corrected::array_and_element(right);
                Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])))
            }
            // Parameters are texts, beside one another and beside what is written as text.
            Op::StringConcat
                if (untyped(&expr.left) && is_written(&rt))
                    || (untyped(&expr.right) && is_written(&lt)) =>
            {
                let RawBinaryExpr { op, left, right } = expr;
                let text = |side: Expr| match untyped(&side) {
                    true => parameter_of(side, &DataType::Utf8View),
                    false => side,
                };
                let (left, right) = (text(left), text(right));
                Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
            }
            Op::StringConcat => Ok(PlannerResult::Original(documents_as_texts(expr, &lt, &rt))),
            Op::And | Op::Or => {
                let word = expr.op.to_string();
                let RawBinaryExpr { op, left, right } = expr;
                let left = condition(left, &lt, &word)?;
                let right = condition(right, &rt, &word)?;
                Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
            }
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => {
                calculation(expr, lt, rt, schema)
            }
            Op::AtArrow | Op::ArrowAt => {
                let RawBinaryExpr { op, left, right } = arrays_alike(expr, &lt, &rt)?;
                let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
                let are_lists = [&lt, &rt].iter().all(|ty| matches!(ty, DataType::List(_)));
                if !are_lists {
                    return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
                }
                if !comparable(&lt, &rt) {
                    return Err(external(no_operator_of(&left, &lt, &op, &right, &rt)));
                }
                Ok(PlannerResult::Planned(match op {
                    Op::AtArrow => corrected::array_has_all().call(vec![left, right]),
                    _ => corrected::array_has_all().call(vec![right, left]),
                }))
            }
            Op::PGOverlap => {
                let RawBinaryExpr { left, right, .. } = arrays_alike(expr, &lt, &rt)?;
                Ok(PlannerResult::Planned(corrected::array_has_any().call(vec![left, right])))
            }
            Op::PGRegexMatch | Op::PGRegexIMatch | Op::PGRegexNotMatch | Op::PGRegexNotIMatch
                if is_text(&lt) && is_text(&rt) && !is_plain_pattern(&expr.right) =>
            {
                let RawBinaryExpr { op, left, right } = expr;
                let options = matches!(op, Op::PGRegexIMatch | Op::PGRegexNotIMatch);
                let options = lit(if options { "i" } else { "" });
                let function = by_value::of_name("regexp_like").expect("a function");
                let found = function.call(vec![left, right, options]);
                let negated = matches!(op, Op::PGRegexNotMatch | Op::PGRegexNotIMatch);
                Ok(PlannerResult::Planned(if negated { !found } else { found }))
            }
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
                comparison(expr, &lt, &rt)
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// An operand's type. Of a CASE of numbers it is one that holds all results, where DataFusion tells that of the first.
fn type_of_operand(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    let Expr::Case(case) = expr else { return expr.get_type(schema) };
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let types =
        results.map(|result| type_of_operand(result, schema)).collect::<Result<Vec<_>>>()?;
    let known: Vec<DataType> = types.into_iter().filter(|ty| !ty.is_null()).collect();
    match type_union_resolution(&known).filter(|_| known.iter().all(DataType::is_numeric)) {
        Some(common) => Ok(common),
        None => expr.get_type(schema),
    }
}

/// Whether a regular expression is a constant without anything but letters, blanks, `.*` and anchors, which
/// DataFusion makes a search of. A match of all others is one that can be ended ([`by_value`]).
fn is_plain_pattern(pattern: &Expr) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '^' | '$' | '_' | '-');
    quoted(pattern).is_some_and(|text| text.replace(".*", "").chars().all(is_plain))
}

/// Gives a constant in quotes or a parameter beside an array the array's type.
///
/// Errors: 22P02; 42883 for what is no array beside one.
fn arrays_alike(expr: RawBinaryExpr, lt: &DataType, rt: &DataType) -> Result<RawBinaryExpr> {
    let RawBinaryExpr { op, mut left, mut right } = expr;
    let is_list = |ty: &DataType| matches!(ty, DataType::List(_));
    let typed = |operand: Expr, ty: &DataType| match operand {
        Expr::Placeholder(Placeholder { id, .. }) if untyped(&operand) => {
            // No kernel keeps the names of items' types.
            let field = Some(Arc::new(Field::new("", without_names(ty), true)));
            Ok(Expr::Placeholder(Placeholder { id, field }))
        }
        operand => match quoted(&operand) {
            Some(text) => typed_constant(text, ty),
            None => Ok(operand),
        },
    };
    // Lengths, which DataFusion counts by integers without sign until they are narrowed.
    if *lt == DataType::UInt64 {
        left = to(left, DataType::Int32);
    }
    if *rt == DataType::UInt64 {
        right = to(right, DataType::Int32);
    }
    match (is_list(lt), is_list(rt)) {
        (true, true) => {}
        (true, false) => right = typed(right, lt)?,
        (false, true) => left = typed(left, rt)?,
        (false, false) if op == Op::PGOverlap => {
            return Err(external(no_operator_of(&left, lt, &op, &right, rt)));
        }
        (false, false) => {}
    }
    Ok(RawBinaryExpr { op, left, right })
}

/// An operand of AND or OR.
fn condition(expr: Expr, ty: &DataType, word: &str) -> Result<Expr> {
    match quoted(&expr) {
        Some(text) => typed_constant(text, &DataType::Boolean),
        None if ty.is_null() || *ty == DataType::Boolean => Ok(expr),
        None => Err(external(not_boolean(word, ty))),
    }
}

/// Gives constants in quotes beside booleans, documents and arrays their type; later passes handle all other
/// types.
fn comparison(
    mut expr: RawBinaryExpr,
    lt: &DataType,
    rt: &DataType,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let has_constants = |ty: &DataType| {
        use DataType::{BinaryView, Boolean, FixedSizeBinary, Interval, List, Time64};
        matches!(ty, BinaryView | Boolean | FixedSizeBinary(_) | Interval(_) | List(_) | Time64(_))
            || is_document(ty)
    };
    if has_constants(lt)
        && let Some(text) = quoted(&expr.right)
    {
        expr.right = typed_constant(text, lt)?;
    } else if has_constants(rt)
        && let Some(text) = quoted(&expr.left)
    {
        expr.left = typed_constant(text, rt)?;
    }
    // A time of day beside a span is one.
    let span = DataType::Interval(IntervalUnit::MonthDayNano);
    match (lt, rt) {
        (DataType::Interval(_), DataType::Time64(_)) => expr.right = to(expr.right, span),
        (DataType::Time64(_), DataType::Interval(_)) => expr.left = to(expr.left, span),
        _ => {}
    }
    let mut sides = [expr.left, expr.right];
    addresses::alike(&mut sides, &[lt.clone(), rt.clone()]);
    [expr.left, expr.right] = sides;
    Ok(PlannerResult::Original(expr))
}

fn calculation(
    expr: RawBinaryExpr,
    mut lt: DataType,
    mut rt: DataType,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, mut left, mut right } = expr;
    match (quoted(&left), quoted(&right)) {
        _ if is_open(&left) && is_open(&right) => {
            return Err(external(not_unique(&format!("unknown {op} unknown"))));
        }
        // A parameter beside a moment is what a constant in quotes would be.
        _ if is_temporal(&lt) && untyped(&right) => {
            rt = partner(&op, &lt, true)?;
            right = parameter_of(right, &rt);
        }
        _ if is_temporal(&rt) && untyped(&left) => {
            lt = partner(&op, &rt, false)?;
            left = parameter_of(left, &lt);
        }
        (None, Some(text)) if !lt.is_null() => {
            let ty = partner(&op, &lt, true)?;
            right = operand(text, &ty)?;
            rt = right.get_type(schema)?;
        }
        (Some(text), None) if !rt.is_null() => {
            let ty = partner(&op, &rt, false)?;
            left = operand(text, &ty)?;
            lt = left.get_type(schema)?;
        }
        // NULL beside a moment or a span is of the type that a constant in quotes would have there.
        _ if is_temporal(&lt) && rt.is_null() && !untyped(&right) => {
            rt = partner(&op, &lt, true)?;
            right = Expr::Literal(ScalarValue::try_from(&rt)?, None);
        }
        _ if is_temporal(&rt) && lt.is_null() && !untyped(&left) => {
            lt = partner(&op, &rt, false)?;
            left = Expr::Literal(ScalarValue::try_from(&lt)?, None);
        }
        _ => {}
    }
    let scales = matches!(op, Op::Multiply | Op::Divide);
    match (&lt, &rt) {
        (DataType::Interval(_), by) if scales && by.is_numeric() => {
            let (by, divide) = (to(right, DataType::Float64), matches!(op, Op::Divide));
            Ok(PlannerResult::Planned(functions::scale_interval(left, by, divide)))
        }
        (by, DataType::Interval(_)) if matches!(op, Op::Multiply) && by.is_numeric() => {
            let by = to(left, DataType::Float64);
            Ok(PlannerResult::Planned(functions::scale_interval(right, by, false)))
        }
        // DataFusion's planner takes a day and a span for a day, and what lies between two moments for a type of
        // its own.
        (left_ty, right_ty)
            if is_temporal(left_ty)
                && is_temporal(right_ty)
                && matches!(op, Op::Plus | Op::Minus)
                && (is_zoned_moment(left_ty) == is_zoned_moment(right_ty)
                    || [left_ty, right_ty].iter().any(|ty| matches!(ty, DataType::Time64(_)))) =>
        {
            let op = if matches!(op, Op::Plus) { Operator::Plus } else { Operator::Minus };
            semantics::calculation(left, lt, op, right, rt).map(PlannerResult::Planned)
        }
        _ => {
            let is_word = |ty: &DataType| {
                is_text(ty) || *ty == DataType::Boolean || is_document(ty) || is_label(ty)
            };
            if is_word(&lt) || is_word(&rt) {
                return Err(external(no_operator_of(&left, &lt, &op, &right, &rt)));
            }
            Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
        }
    }
}

/// Whether `||` writes values of a type as text.
fn is_written(ty: &DataType) -> bool {
    ty.is_null() || ty.is_numeric() || is_temporal(ty) || is_text(ty) || *ty == DataType::Boolean
}

/// Whether an operand has no type of its own.
fn is_open(expr: &Expr) -> bool {
    quoted(expr).is_some() || untyped(expr)
}

/// A parameter with a type.
fn parameter_of(parameter: Expr, ty: &DataType) -> Expr {
    match parameter {
        Expr::Placeholder(Placeholder { id, .. }) => {
            let ty = sql_type_of_arrow(ty).unwrap_or(SqlType::Text);
            Expr::Placeholder(Placeholder { id, field: Some(Arc::new(ty.field("", true))) })
        }
        other => other,
    }
}

/// A constant beside an operand of a type: of a decimal, with the digits that it has.
fn operand(text: &str, ty: &DataType) -> Result<Expr> {
    match ty {
        DataType::Decimal128(..) => number(text),
        ty => typed_constant(text, ty),
    }
}

fn is_temporal(ty: &DataType) -> bool {
    is_day_or_moment(ty) || matches!(ty, DataType::Time64(_) | DataType::Interval(_))
}

/// The type of a constant in quotes beside an operand of type `known`, which stands on the left or
/// on the right.
///
/// Errors: 42883 if no operator takes `known`, 42725 if several types are possible.
fn partner(op: &Op, known: &DataType, known_is_left: bool) -> Result<DataType> {
    use DataType::{Date32, Interval, Time64, Timestamp};
    let interval = Interval(IntervalUnit::MonthDayNano);
    let shown = || match (shown_type(known), "unknown".to_owned()) {
        (known, unknown) if known_is_left => (known, unknown),
        (known, unknown) => (unknown, known),
    };
    Ok(match (op, known) {
        (_, ty) if ty.is_numeric() => ty.clone(),
        (_, ty) if is_label(ty) => ty.clone(),
        (Op::Plus | Op::Minus, Interval(_)) | (Op::Plus, Timestamp(..) | Time64(_)) => interval,
        (Op::Minus, Date32 | Timestamp(..) | Time64(_)) => known.clone(),
        (Op::Multiply, Interval(_)) => DataType::Float64,
        (Op::Divide, Interval(_)) if known_is_left => DataType::Float64,
        (Op::Plus, Date32) => {
            let (left, right) = shown();
            return Err(external(not_unique(&format!("{left} {op} {right}"))));
        }
        _ => {
            let (left, right) = shown();
            return Err(external(misfits::no_operator(&left, &op.to_string(), &right)));
        }
    })
}

/// The function that an operator is for operands of these types; `None` for operators of other types.
///
/// Errors: 42883 for `||` of two `json`.
fn function_of_documents(
    op: &Op,
    left: &Expr,
    lt: &DataType,
    right: &Expr,
    rt: &DataType,
) -> Result<Option<&'static str>> {
    let is_open = |expr: &Expr, ty: &DataType| {
        ty.is_null() || quoted(expr).is_some() || untyped(expr) || *ty == DataType::LargeBinary
    };
    let takes_documents = matches!(
        op,
        Op::Arrow
            | Op::LongArrow
            | Op::HashArrow
            | Op::HashLongArrow
            | Op::HashMinus
            | Op::Question
            | Op::QuestionPipe
            | Op::QuestionAnd
            | Op::AtQuestion
            | Op::AtAt
    );
    if takes_documents && !is_document(lt) && !is_open(left, lt) {
        return Err(external(no_operator_of(left, lt, op, right, rt)));
    }
    let has_document = *lt == DataType::LargeBinary || *rt == DataType::LargeBinary;
    let are_documents = has_document && is_open(left, lt) && is_open(right, rt);
    Ok(Some(match op {
        Op::Arrow => "->",
        Op::LongArrow => "->>",
        Op::HashArrow => "#>",
        Op::HashLongArrow => "#>>",
        Op::HashMinus => "#-",
        Op::Question => "?",
        Op::QuestionPipe => "?|",
        Op::QuestionAnd => "?&",
        Op::AtQuestion => "@?",
        Op::AtAt => "@@",
        Op::AtArrow if are_documents => "@>",
        Op::ArrowAt if are_documents => "<@",
        Op::StringConcat if are_documents => "||",
        Op::StringConcat if *lt == DataType::LargeUtf8 && *rt == DataType::LargeUtf8 => {
            return Err(external(no_operator(lt, "||", rt)));
        }
        Op::Minus if *lt == DataType::LargeBinary => "-",
        _ => return Ok(None),
    }))
}

/// 42883, with the names that PostgreSQL gives to constants' types.
fn no_operator_of(left: &Expr, lt: &DataType, op: &Op, right: &Expr, rt: &DataType) -> SqlError {
    let shown = |expr: &Expr, ty: &DataType| match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => {
            "integer".to_owned()
        }
        expr if quoted(expr).is_some() => "unknown".to_owned(),
        _ => shown_type(ty),
    };
    let (left, right) = (shown(left, lt), shown(right, rt));
    misfits::no_operator(&left, &op.to_string(), &right)
}

/// `||` of a document and a text: texts.
fn documents_as_texts(expr: RawBinaryExpr, lt: &DataType, rt: &DataType) -> RawBinaryExpr {
    let RawBinaryExpr { op, left, right } = expr;
    // DataFusion's planner knows no text of a value of so many bytes.
    let is_fixed = |ty: &DataType| matches!(ty, DataType::FixedSizeBinary(_));
    let text = |expr, ty: &DataType| match is_document(ty) || is_fixed(ty) {
        true => to(expr, DataType::Utf8View),
        false => expr,
    };
    if !is_text(lt) && !is_text(rt) {
        return RawBinaryExpr { op, left, right };
    }
    RawBinaryExpr { op, left: text(left, lt), right: text(right, rt) }
}
