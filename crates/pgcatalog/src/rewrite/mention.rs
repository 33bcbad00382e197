//! The test whether a statement mentions the system catalogs.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, ObjectName, Statement, Visit, Visitor,
};

use super::{folded, function_name, parts};
use crate::{SCHEMAS, functions};

/// Whether the statement names a system table, calls a function of the system catalogs, or uses a
/// type or operator that only these need.
pub(super) fn mentions_system(statement: &Statement) -> bool {
    statement.visit(&mut Mentions).is_break()
}

struct Mentions;

impl Visitor for Mentions {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let found = match parts(relation).as_deref() {
            Some([name]) => name.starts_with("pg_"),
            Some([schema, _] | [_, schema, _]) => SCHEMAS.contains(&schema.as_str()),
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let found = match expr {
            Expr::Function(function) => {
                parts(&function.name).is_some_and(|parts| parts[0] == "pg_catalog")
                    || function_name(function).is_some_and(|name| functions::is_known(&name))
            }
            Expr::Identifier(ident) => {
                ident.quote_style.is_none() && super::exprs::is_bare_function(&folded(ident))
            }
            Expr::Cast { data_type, .. } => is_system_type(data_type),
            Expr::BinaryOp { op: BinaryOperator::PGCustomBinaryOperator(_), .. } => true,
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn is_system_type(ty: &DataType) -> bool {
    match ty {
        DataType::Regclass => true,
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item),
        ) => is_system_type(item),
        DataType::Custom(name, _) => parts(name).is_some_and(|parts| {
            parts[0] == "pg_catalog"
                || parts.last().is_some_and(|name| {
                    name.starts_with("reg") || matches!(name.as_str(), "oid" | "name" | "xid")
                })
        }),
        _ => false,
    }
}
