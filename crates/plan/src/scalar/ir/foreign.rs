//! Foreign nodes, which DataFusion evaluates on a batch of one row.
//!
//! Inputs are typed expressions, and become the columns of the batch. Functions that look whether their
//! statement is to end are told so while they run.
//! Cost: microseconds and some twenty allocations. Point plans of frequent statements have none.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use halcyon_store::{Type, Value, ValueRef};

use super::super::scalars::{error_of, not_ours, scalar_of, value_of};
use super::super::{Arena, Frame};
use super::Ir;
use crate::interrupts::under;
use halcyon_sql::error::Result;

/// The evaluation of a foreign node.
#[derive(Debug)]
pub(in crate::scalar) enum Evaluate {
    /// By DataFusion's kernels.
    Physical(Arc<dyn PhysicalExpr>),
    /// A function that belongs to the execution, such as `nextval`; the inputs are its arguments.
    Late(Arc<ScalarUDF>),
}

/// A foreign node: a DataFusion expression over typed inputs.
#[derive(Debug)]
pub struct Foreign {
    pub(in crate::scalar) evaluate: Evaluate,
    /// The expression to evaluate; its columns are those of `schema`.
    pub(in crate::scalar) body: Expr,
    pub(in crate::scalar) schema: SchemaRef,
    pub(in crate::scalar) inputs: Vec<Ir>,
    pub(in crate::scalar) ty: Type,
    pub(in crate::scalar) shown: String,
}

impl Foreign {
    /// The type of the result.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The inputs, which are evaluated here and given to DataFusion.
    pub fn inputs(&self) -> &[Ir] {
        &self.inputs
    }

    /// Whether both evaluate the same over their inputs. Functions of the execution do not.
    pub(in crate::scalar) fn is_same_alone(&self, other: &Foreign) -> bool {
        let is_lasting = |foreign: &Foreign| matches!(foreign.evaluate, Evaluate::Physical(_));
        is_lasting(self)
            && is_lasting(other)
            && self.body == other.body
            && self.schema == other.schema
            && self.ty == other.ty
    }

    /// Whether the node is a function that belongs to the execution.
    pub fn is_late(&self) -> bool {
        matches!(self.evaluate, Evaluate::Late(_))
    }

    /// Evaluates on the values of the inputs.
    pub(in crate::scalar) fn eval<'a>(
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
        let value = under(frame.env.cancel, || expr.evaluate(&batch));
        let scalar = match value.map_err(error_of)? {
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

/// Moves a value's text into the arena.
pub(in crate::scalar) fn keep<'a>(value: Value, arena: &'a Arena) -> ValueRef<'a> {
    match value.as_ref() {
        ValueRef::Text(text) => ValueRef::Text(arena.alloc_str(text)),
        ValueRef::Bytes(bytes) => ValueRef::Bytes(arena.alloc_slice_copy(bytes)),
        fixed => halcyon_sql::rows::fixed(fixed).expect("neither text nor bytes"),
    }
}
