//! What `json` and `jsonb` are compared by, and where they are refused.
//!
//! Their operands have the Arrow types `LargeUtf8` and `LargeBinary`, which nothing else has.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::{addresses, domains, recursion};
use halcyon_functions as by_value;
use halcyon_names::documents::is_document;
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::is_label;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::misfits::no_function;
use halcyon_sql::values::shown_type;

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
        return Err(external(by_value::no_operator(op, &[shown_type(&lt), shown_type(&rt)])));
    }
    if lt != DataType::LargeBinary || rt != DataType::LargeBinary {
        let mut sides = [left, right];
        addresses::alike(&mut sides, &[lt, rt]);
        let [left, right] = sides;
        return Ok((left, right));
    }
    let key = by_value::of_name("jsonb\u{1}key").expect("a function");
    let of = |expr| key.call(vec![expr]);
    Ok((of(left), of(right)))
}

/// The operands of BETWEEN, IN or CASE, which `op` compares with each other, as [`compared`] has them.
///
/// Errors: 42883 for `json`, which has no comparison, and for documents beside other values.
pub(crate) fn all_compared(operands: &mut [Expr], op: &str, schema: &DFSchema) -> Result<()> {
    let mut types = Vec::with_capacity(operands.len());
    for operand in operands.iter() {
        let is_null = matches!(operand, Expr::Literal(value, _) if value.is_null());
        types.push(if is_null { DataType::Null } else { operand.get_type(schema)? });
    }
    if !types.iter().any(is_document) {
        addresses::alike(operands, &types);
        return Ok(());
    }
    let mut kept = types.iter().filter(|ty| !ty.is_null());
    let first = kept.next().expect("one is a document");
    let other = match first {
        DataType::LargeBinary => kept.find(|ty| **ty != DataType::LargeBinary),
        first => Some(kept.next().unwrap_or(first)),
    };
    if let Some(other) = other {
        let types = [shown_type(first), shown_type(other)];
        return Err(external(by_value::no_operator(op, &types)));
    }
    let key = by_value::of_name("jsonb\u{1}key").expect("a function");
    for (operand, ty) in operands.iter_mut().zip(&types) {
        let document = match ty.is_null() {
            true => Expr::Literal(ScalarValue::LargeBinary(None), None),
            false => std::mem::take(operand),
        };
        *operand = key.call(vec![document]);
    }
    Ok(())
}

/// Errors: 42883 for a function of texts, bytes or moments of which an argument is a document or a label:
/// DataFusion would take `json` for a text, and a label for a moment.
pub(crate) fn are_taken(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    match takes_any(function) {
        true => Ok(()),
        false => refuse(function, args, schema, |ty| is_document(ty) || is_label(ty)),
    }
}

/// Errors: 42883 for an aggregate of texts or bytes over documents.
pub(crate) fn are_gathered(aggregate: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    match gathers_any(aggregate) {
        true => Ok(()),
        false if orders_any(aggregate) => refuse(aggregate, args, schema, is_document),
        false => refuse(aggregate, args, schema, |ty| is_document(ty) || is_label(ty)),
    }
}

fn refuse(
    function: &str,
    args: &[Expr],
    schema: &DFSchema,
    refused: fn(&DataType) -> bool,
) -> Result<()> {
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if !types.iter().any(refused) {
        return Ok(());
    }
    let types: Vec<String> = types.iter().map(shown_type).collect();
    Err(external(no_function(function, &types)))
}

/// Errors: 42883 for values among which a largest and a smallest are looked for, if they are of `json`.
pub(crate) fn have_an_order(values: &[Expr], schema: &DFSchema) -> Result<()> {
    let is_json = |value: &Expr| value.get_type(schema).is_ok_and(|ty| ty == DataType::LargeUtf8);
    if !values.iter().any(is_json) {
        return Ok(());
    }
    let message = "could not identify a comparison function for type json";
    Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)))
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

/// Whether a function takes documents: DataFusion would give `json` to every function of texts.
fn takes_any(function: &str) -> bool {
    by_value::is_ours(function)
        || function.starts_with("array_")
        || function.starts_with("list_")
        || function.starts_with("pg_")
        || function.starts_with("__")
        || domains::domain_of(function).is_some()
        || by_value::enumerations::NAMES.contains(&function)
        || function == recursion::MARKED
        || matches!(
            function,
            "arrow_typeof"
                | "cardinality"
                | "coalesce"
                | "concat"
                | "concat_ws"
                | "get_field"
                | "greatest"
                | "least"
                | "make_array"
                | "named_struct"
                | "nullif"
                | "nvl"
                | "nvl2"
                | "num_nonnulls"
                | "num_nulls"
                | "row"
                | "row\u{1}"
                | "struct"
        )
}

/// Whether an aggregate takes all values that have an order, and so labels.
fn orders_any(aggregate: &str) -> bool {
    ["max", "min", "mode", "percentile_disc"].contains(&aggregate)
}

/// Whether an aggregate takes documents.
fn gathers_any(aggregate: &str) -> bool {
    ["any_value", "array_agg", "count", "first_value", "last_value", "nth_value"]
        .contains(&aggregate)
}
