//! Operators of `json` and `jsonb`, which are functions of `halcyon_sql::by_value`.
//!
//! Their operands have the Arrow types `LargeUtf8` and `LargeBinary`, which nothing else has.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::BinaryOperator as Op;

use crate::semantics::{is_text, no_operator, quoted, to, untyped};
use halcyon_sql::by_value;
use halcyon_sql::diagnose::external;
use halcyon_sql::documents::{gathers_any, is_document, takes_any};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::values::shown_type;

/// The function that an operator is for operands of these types; `None` for operators of other types.
///
/// Errors: 42883 for `||` of two `json`.
pub(crate) fn function(
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
pub(crate) fn no_operator_of(
    left: &Expr,
    lt: &DataType,
    op: &Op,
    right: &Expr,
    rt: &DataType,
) -> SqlError {
    let shown = |expr: &Expr, ty: &DataType| match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => {
            "integer".to_owned()
        }
        expr if quoted(expr).is_some() => "unknown".to_owned(),
        _ => shown_type(ty),
    };
    let (left, right) = (shown(left, lt), shown(right, rt));
    let message = format!("operator does not exist: {left} {op} {right}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint("No operator of this name takes these types. You might need explicit casts.")
}

/// `||` of a document and a text: texts.
pub(crate) fn as_texts(expr: RawBinaryExpr, lt: &DataType, rt: &DataType) -> RawBinaryExpr {
    let RawBinaryExpr { op, left, right } = expr;
    let text = |expr, ty: &DataType| match is_document(ty) {
        true => to(expr, DataType::Utf8View),
        false => expr,
    };
    if !is_text(lt) && !is_text(rt) {
        return RawBinaryExpr { op, left, right };
    }
    RawBinaryExpr { op, left: text(left, lt), right: text(right, rt) }
}

/// The operands of a comparison: of a `jsonb` what equal documents have in common.
///
/// Errors: 42883 for `json`, which has no comparison.
pub(crate) fn compared(
    left: Expr,
    op: &str,
    right: Expr,
    schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    if lt == DataType::LargeUtf8 || rt == DataType::LargeUtf8 {
        return Err(external(no_operator(&lt, op, &rt)));
    }
    if lt != DataType::LargeBinary || rt != DataType::LargeBinary {
        return Ok((left, right));
    }
    let key = by_value::of_name("jsonb\u{1}key").expect("a function");
    let of = |expr| key.call(vec![expr]);
    Ok((of(left), of(right)))
}

/// Errors: 42883 for a function of texts or bytes of which an argument is a document: DataFusion would
/// take `json` for a text.
pub(crate) fn are_taken(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    match takes_any(function) {
        true => Ok(()),
        false => refuse_documents(function, args, schema),
    }
}

/// Errors: 42883 for an aggregate of texts or bytes over documents.
pub(crate) fn are_gathered(aggregate: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    match gathers_any(aggregate) {
        true => Ok(()),
        false => refuse_documents(aggregate, args, schema),
    }
}

fn refuse_documents(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if !types.iter().any(is_document) {
        return Ok(());
    }
    let types: Vec<String> = types.iter().map(shown_type).collect();
    let message = format!("function {function}({}) does not exist", types.join(", "));
    Err(external(
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            .hint("No function of this name takes these types. You might need explicit casts."),
    ))
}

/// Errors: 42883 for a node that sorts or groups by `json`, which has no comparison.
pub(crate) fn are_not_compared(node: &LogicalPlan, schema: &DFSchema) -> Result<()> {
    let is_json = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty == DataType::LargeUtf8);
    let (found, operator) = match node {
        LogicalPlan::Sort(sort) => (sort.expr.iter().any(|by| is_json(&by.expr)), "ordering"),
        LogicalPlan::Aggregate(node) => (node.group_expr.iter().any(is_json), "equality"),
        LogicalPlan::Distinct(node) => {
            let fields = node.input().schema().fields().iter();
            (fields.clone().any(|field| *field.data_type() == DataType::LargeUtf8), "equality")
        }
        _ => return Ok(()),
    };
    if !found {
        return Ok(());
    }
    let message = format!("could not identify an {operator} operator for type json");
    Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)))
}
