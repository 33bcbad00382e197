//! A value that may be NULL although its column is NOT NULL.
//!
//! A scalar subquery without rows is NULL; DataFusion takes it to be NOT NULL if its column is.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// `value`, declared as possibly NULL.
pub fn optional(value: Expr) -> Expr {
    static OPTIONAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Optional(signature)))
    });
    OPTIONAL.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Optional(Signature);

impl ScalarUDFImpl for Optional {
    fn name(&self) -> &str {
        "optional"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
