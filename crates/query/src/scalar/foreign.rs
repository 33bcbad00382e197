//! Nodes that DataFusion evaluates, on a batch of one row.
//!
//! What the node is made of is lowered as far as it is ours and becomes the columns of the batch;
//! literals stay where they are, since many functions want to see them.
//! Cost: microseconds and some twenty allocations. Point plans of hot statements have none.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr, ExprSchemable, ScalarUDF};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use halcyon_store::{Interval, Type, Value, ValueRef};

use super::ir::{Ir, storage_type};
use super::lower::{Columns, not_ours, try_lower, value_of};
use super::{Arena, Frame};
use crate::arithmetic::check;
use crate::error::{Result, SqlError};

/// How a foreign node gets its value.
#[derive(Debug)]
enum Evaluate {
    /// By DataFusion's kernels.
    Physical(Arc<dyn PhysicalExpr>),
    /// A function that belongs to the execution, such as `nextval`; the inputs are its arguments.
    Late(Arc<ScalarUDF>),
}

/// An expression of DataFusion over inputs of ours.
#[derive(Debug)]
pub struct Foreign {
    evaluate: Evaluate,
    /// What is evaluated: columns are those of `schema`.
    body: Expr,
    schema: SchemaRef,
    inputs: Vec<Ir>,
    ty: Type,
    shown: String,
}

impl Foreign {
    /// Wraps an expression that has no typed form. Errors: 0A000 if its type is not ours, or
    /// DataFusion cannot evaluate it either.
    pub(super) fn new(expr: &Expr, columns: &Columns<'_>) -> Result<Foreign> {
        let data_type = expr.get_type(columns.schema).map_err(not_ours)?;
        let ty = storage_type(&data_type).ok_or_else(|| not_ours(&data_type))?;
        let mut inputs = Inputs { columns, fields: vec![], irs: vec![] };
        let body = inputs.take_children(expr.clone())?;
        let schema = Arc::new(Schema::new(inputs.fields));
        let df_schema = DFSchema::try_from(Arc::clone(&schema)).map_err(not_ours)?;
        let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        // Arithmetic that fails where it would wrap, as in the analytical executor.
        let checked = body.clone().transform_up(|expr| check(expr, &df_schema));
        let checked = checked.map_err(not_ours)?.data;
        let physical =
            create_physical_expr(&checked, &df_schema, &props, &context).map_err(not_ours)?;
        let shown = expr.to_string();
        let evaluate = Evaluate::Physical(physical);
        Ok(Foreign { evaluate, body, schema, inputs: inputs.irs, ty, shown })
    }

    /// Wraps a function whose value belongs to the execution.
    pub(super) fn late(
        call: &ScalarFunction,
        whole: &Expr,
        columns: &Columns<'_>,
    ) -> Result<Foreign> {
        let data_type = whole.get_type(columns.schema).map_err(not_ours)?;
        let ty = storage_type(&data_type).ok_or_else(|| not_ours(&data_type))?;
        let (mut fields, mut inputs) = (vec![], vec![]);
        for (position, arg) in call.args.iter().enumerate() {
            let data_type = arg.get_type(columns.schema).map_err(not_ours)?;
            let input = try_lower(arg, columns)?.ok_or_else(|| not_ours(&data_type))?;
            fields.push(Field::new(format!("c{position}"), data_type, true));
            inputs.push(input);
        }
        let (evaluate, schema) =
            (Evaluate::Late(Arc::clone(&call.func)), Schema::new(fields).into());
        Ok(Foreign { evaluate, body: whole.clone(), schema, inputs, ty, shown: whole.to_string() })
    }

    /// The type of the result.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// What is evaluated here and given to DataFusion.
    pub fn inputs(&self) -> &[Ir] {
        &self.inputs
    }

    /// Evaluates on the values of the inputs.
    pub(super) fn eval<'a>(
        &self,
        inputs: impl Iterator<Item = Result<ValueRef<'a>>>,
        frame: &Frame<'_, 'a>,
    ) -> Result<ValueRef<'a>> {
        let fields = self.schema.fields().iter();
        let scalars = fields.zip(inputs).map(|(field, value)| scalar_of(value?, field.data_type()));
        let expr = match &self.evaluate {
            Evaluate::Physical(expr) => expr,
            Evaluate::Late(func) => {
                let literal = |scalar: Result<ScalarValue>| Ok(Expr::Literal(scalar?, None));
                let args = scalars.map(literal).collect::<Result<Vec<_>>>()?;
                let call = ScalarFunction { func: Arc::clone(func), args };
                let scalar = match crate::execution::bind_call(call, frame.env)? {
                    Expr::Literal(scalar, _) => scalar,
                    bound => evaluate_alone(&bound)?,
                };
                let value = value_of(&scalar).ok_or_else(|| not_ours(scalar.data_type()))?;
                return Ok(keep(value, frame.arena));
            }
        };
        let arrays = scalars.map(|scalar| scalar?.to_array().map_err(error_of));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| error_of(error.into()))?;
        let scalar = match expr.evaluate(&batch).map_err(error_of)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => {
                ScalarValue::try_from_array(&array, 0).map_err(error_of)?
            }
        };
        let value = value_of(&scalar).ok_or_else(|| not_ours(scalar.data_type()))?;
        Ok(keep(value, frame.arena))
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The inputs found so far.
struct Inputs<'a> {
    columns: &'a Columns<'a>,
    fields: Vec<Field>,
    irs: Vec<Ir>,
}

impl Inputs<'_> {
    /// Replaces what the expression is made of by columns of the batch.
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

    /// The body of a foreign node, as part of this one: one batch for both.
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

/// Evaluates an expression without inputs.
fn evaluate_alone(expr: &Expr) -> Result<ScalarValue> {
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let empty = DFSchema::empty();
    let physical = create_physical_expr(expr, &empty, &props, &context).map_err(error_of)?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::clone(empty.inner());
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options)
        .map_err(|error| error_of(error.into()))?;
    match physical.evaluate(&batch).map_err(error_of)? {
        ColumnarValue::Scalar(scalar) => Ok(scalar),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).map_err(error_of),
    }
}

/// A value as a scalar of this Arrow type.
fn scalar_of(value: ValueRef<'_>, ty: &DataType) -> Result<ScalarValue> {
    let scalar = match (value, ty) {
        (ValueRef::Null, ty) => ScalarValue::try_from(ty).map_err(error_of)?,
        (ValueRef::Bool(value), _) => ScalarValue::Boolean(Some(value)),
        (ValueRef::Int16(value), _) => ScalarValue::Int16(Some(value)),
        (ValueRef::Int32(value), _) => ScalarValue::Int32(Some(value)),
        (ValueRef::Int64(value), _) => ScalarValue::Int64(Some(value)),
        (ValueRef::Float32(value), _) => ScalarValue::Float32(Some(value)),
        (ValueRef::Float64(value), _) => ScalarValue::Float64(Some(value)),
        (ValueRef::Decimal(value), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(value), *precision, *scale)
        }
        (ValueRef::Text(text), DataType::Utf8) => ScalarValue::Utf8(Some(text.into())),
        (ValueRef::Text(text), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(text.into())),
        (ValueRef::Text(text), _) => ScalarValue::Utf8View(Some(text.into())),
        (ValueRef::Bytes(bytes), DataType::Binary) => ScalarValue::Binary(Some(bytes.into())),
        (ValueRef::Bytes(bytes), DataType::LargeBinary) => {
            ScalarValue::LargeBinary(Some(bytes.into()))
        }
        (ValueRef::Bytes(bytes), _) => ScalarValue::BinaryView(Some(bytes.into())),
        (ValueRef::Date(value), _) => ScalarValue::Date32(Some(value)),
        (ValueRef::Time(value), _) => ScalarValue::Time64Microsecond(Some(value)),
        (ValueRef::Timestamp(value), _) => ScalarValue::TimestampMicrosecond(Some(value), None),
        (ValueRef::TimestampTz(value), DataType::Timestamp(_, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone.clone())
        }
        (ValueRef::Interval(Interval { months, days, nanos }), _) => {
            ScalarValue::new_interval_mdn(months, days, nanos)
        }
        (ValueRef::Uuid(bytes), _) => ScalarValue::FixedSizeBinary(16, Some(bytes.into())),
        (value, ty) => return Err(not_ours(format!("{value:?} as {ty}"))),
    };
    Ok(scalar)
}

/// Moves a value's text into the arena.
pub(super) fn keep<'a>(value: Value, arena: &'a Arena) -> ValueRef<'a> {
    match value.as_ref() {
        ValueRef::Text(text) => ValueRef::Text(arena.alloc_str(text)),
        ValueRef::Bytes(bytes) => ValueRef::Bytes(arena.alloc_slice_copy(bytes)),
        fixed => crate::rows::fixed(fixed).expect("neither text nor bytes"),
    }
}

/// The error of a kernel, as clients get it.
fn error_of(error: DataFusionError) -> SqlError {
    crate::diagnose::sql_error(error, "")
}
