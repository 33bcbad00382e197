//! Expressions without a typed form, which become foreign nodes.
//!
//! The operands of such an expression that have a typed form are lowered and become the node's
//! inputs; literals stay in the expression, since many functions need to see them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::create_physical_expr;

use super::super::ir::{Evaluate, Foreign, Ir, storage_type};
use super::super::scalars::not_ours;
use super::{Columns, try_lower};
use crate::arithmetic::check;
use halcyon_sql::error::Result;

/// Wraps an expression that has no typed form. Errors: 0A000 if its type has no stored form, or
/// DataFusion cannot evaluate it either.
pub(super) fn foreign(expr: &Expr, columns: &Columns<'_>) -> Result<Foreign> {
    let data_type = expr.get_type(columns.schema).map_err(not_ours)?;
    let ty = storage_type(&data_type).ok_or_else(|| not_ours(&data_type))?;
    let mut inputs = Inputs { columns, fields: vec![], irs: vec![] };
    let body = inputs.take_children(expr.clone())?;
    let schema = Arc::new(Schema::new(inputs.fields));
    let df_schema = DFSchema::try_from(Arc::clone(&schema)).map_err(not_ours)?;
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    // Arithmetic raises errors where it would wrap, as in the analytical executor.
    let checked = body.clone().transform_up(|expr| check(expr, &df_schema));
    let checked = checked.map_err(not_ours)?.data;
    let physical =
        create_physical_expr(&checked, &df_schema, &props, &context).map_err(not_ours)?;
    let shown = expr.to_string();
    let evaluate = Evaluate::Physical(physical);
    Ok(Foreign { evaluate, body, schema, inputs: inputs.irs, ty, shown })
}

/// Wraps a function whose value belongs to the execution.
pub(super) fn late(call: &ScalarFunction, whole: &Expr, columns: &Columns<'_>) -> Result<Foreign> {
    let data_type = whole.get_type(columns.schema).map_err(not_ours)?;
    let ty = storage_type(&data_type).ok_or_else(|| not_ours(&data_type))?;
    let (mut fields, mut inputs) = (vec![], vec![]);
    for (position, arg) in call.args.iter().enumerate() {
        let data_type = arg.get_type(columns.schema).map_err(not_ours)?;
        let input = try_lower(arg, columns)?.ok_or_else(|| not_ours(&data_type))?;
        fields.push(Field::new(format!("c{position}"), data_type, true));
        inputs.push(input);
    }
    let (evaluate, schema) = (Evaluate::Late(Arc::clone(&call.func)), Schema::new(fields).into());
    Ok(Foreign { evaluate, body: whole.clone(), schema, inputs, ty, shown: whole.to_string() })
}

/// The inputs found so far.
struct Inputs<'a> {
    columns: &'a Columns<'a>,
    fields: Vec<Field>,
    irs: Vec<Ir>,
}

impl Inputs<'_> {
    /// Replaces the operands of the expression by columns of the batch.
    fn take_children(&mut self, expr: Expr) -> Result<Expr> {
        let mut failed = None;
        let mapped = expr.map_children(|child| {
            let taken = self.take(child.clone());
            Ok(Transformed::yes(taken.unwrap_or_else(|error| {
                failed = Some(error);
                child
            })))
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(mapped.map_err(not_ours)?.data),
        }
    }

    fn take(&mut self, expr: Expr) -> Result<Expr> {
        if matches!(expr, Expr::Literal(..)) {
            return Ok(expr);
        }
        if matches!(expr, Expr::Lambda(_) | Expr::HigherOrderFunction(_)) {
            return Err(not_ours("a lambda"));
        }
        let ty = expr.get_type(self.columns.schema).map_err(not_ours)?;
        match try_lower(&expr, self.columns)? {
            Some(Ir::Foreign(inner)) if matches!(inner.evaluate, Evaluate::Physical(_)) => {
                self.splice(&inner)
            }
            Some(ir) if ty != DataType::Null => Ok(self.column(ir, ty)),
            _ => self.take_children(expr),
        }
    }

    /// A column of the batch for an input.
    fn column(&mut self, ir: Ir, ty: DataType) -> Expr {
        let name = format!("c{}", self.irs.len());
        self.fields.push(Field::new(&name, ty, true));
        self.irs.push(ir);
        Expr::Column(Column::new_unqualified(name))
    }

    /// Splices a foreign node's body into this one: one batch serves both.
    fn splice(&mut self, inner: &Foreign) -> Result<Expr> {
        let inputs = inner.inputs.iter().zip(inner.schema.fields());
        let columns: Vec<Expr> =
            inputs.map(|(ir, field)| self.column(ir.clone(), field.data_type().clone())).collect();
        let body = inner.body.clone().transform_up(|expr| match &expr {
            Expr::Column(column) => {
                let position = inner.schema.index_of(&column.name)?;
                Ok(Transformed::yes(columns[position].clone()))
            }
            _ => Ok(Transformed::no(expr)),
        });
        Ok(body.map_err(not_ours)?.data)
    }
}
