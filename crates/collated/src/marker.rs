//! The function that stands for COLLATE, and whether a plan has anything to do with collations.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use halcyon_collations::FIELD_KEY;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::values::shown_type;

pub use halcyon_dialect::COLLATE as MARKER;

/// The function that stands for COLLATE until [`crate::settle`]. It is never evaluated.
pub fn function() -> Arc<ScalarUDF> {
    static COLLATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Collate(signature)))
    });
    Arc::clone(&COLLATE)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Collate(Signature);

impl ScalarUDFImpl for Collate {
    fn name(&self) -> &str {
        MARKER
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        args.iter()
            .map(|arg| Ok(if arg.is_null() { DataType::Utf8View } else { arg.clone() }))
            .collect()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Planning may fold constants before the pass; the value is that of the text.
        Ok(args.args.into_iter().next().expect("a text and a name"))
    }
}

/// Whether values have collations: texts and arrays of them.
pub(crate) fn is_collatable(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::Utf8View => true,
        DataType::List(item) => is_collatable(item.data_type()),
        _ => false,
    }
}

/// The operand of COLLATE and the parts of the collation's name, if this is a COLLATE.
pub(crate) fn parts(expr: &Expr) -> Option<(&Expr, Vec<String>)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [operand, Expr::Literal(name, _)] = call.args.as_slice() else { return None };
    if call.name() != MARKER {
        return None;
    }
    let name = name.try_as_str().flatten()?;
    Some((operand, name.split('\u{1f}').map(str::to_owned).collect()))
}

/// Errors: 42804 if values of this type have no collations.
pub(crate) fn is_allowed(ty: &DataType) -> Result<()> {
    if is_collatable(ty) || ty.is_null() {
        return Ok(());
    }
    let message = format!("collations are not supported by type {}", shown_type(ty));
    Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)))
}

fn has_collations(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| field.metadata().contains_key(FIELD_KEY))
}

fn is_marker(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == MARKER)
}

/// Whether a plan reads columns with collations, or says COLLATE.
pub fn involves(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= has_collations(&scan.source.schema());
        }
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_marker(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// Whether an expression has to do with collations: it says COLLATE, or reads a column that has one.
pub fn involves_expr(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let some = has_collations(schema.as_arrow());
    expr.exists(|expr| {
        Ok(is_marker(expr)
            || some
                && matches!(expr, Expr::Column(column) if {
                    let field = schema.field_from_column(column);
                    field.is_ok_and(|field| field.metadata().contains_key(FIELD_KEY))
                }))
    })
}

/// A constant text.
pub(crate) fn constant(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None)
}
