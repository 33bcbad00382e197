//! `||` of texts as a function that asks for its memory before it takes it.
//!
//! Texts double with every `t || t` of a WITH query, and DataFusion's operator takes what it needs.
//! A chain `a || b || c` is one call: naming nested calls would take time cubic in the chain's length, and
//! each would copy what the last one has made.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

use crate::growing::total;

/// Texts one after the other; NULL if one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenated {
    signature: Signature,
}

fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            let inner: &dyn Any = call.func.inner().as_ref();
            inner.is::<Concatenated>()
        }
        _ => false,
    }
}

/// Replaces `||` of texts by the function.
pub(crate) fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_text = |expr: &Expr| -> Result<bool> {
        Ok(is_call(expr) || matches!(expr.get_type(schema)?, DataType::Utf8View))
    };
    if !is_text(&left)? || !is_text(&right)? {
        let plain = BinaryExpr { left, op: Operator::StringConcat, right };
        return Ok(Transformed::no(Expr::BinaryExpr(plain)));
    }
    let is_chain = is_call(&left);
    let mut args = match *left {
        Expr::ScalarFunction(call) if is_chain => call.args,
        other => vec![other],
    };
    args.push(*right);
    let signature = Signature::variadic_any(Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Concatenated { signature }));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

/// Undoes [`check`].
pub(crate) fn uncheck(expr: Expr) -> Transformed<Expr> {
    if !is_call(&expr) {
        return Transformed::no(expr);
    }
    let Expr::ScalarFunction(call) = expr else { unreachable!("a call was seen") };
    let joined = call.args.into_iter().reduce(|left, right| {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::BinaryExpr(BinaryExpr::new(left, Operator::StringConcat, right))
    });
    Transformed::yes(joined.expect("a call has two arguments"))
}

impl ScalarUDFImpl for Concatenated {
    fn name(&self) -> &'static str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let bytes = args.args.iter().map(|arg| total(arg, rows)).fold(0, u64::saturating_add);
        SqlError::unless_value_refused(bytes).map_err(external)?;
        let pieces: Vec<Piece> = args.args.iter().map(Piece::of).collect::<Result<_>>()?;
        let mut builder = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for row in 0..rows {
            text.clear();
            let whole = pieces.iter().try_for_each(|piece| {
                text.push_str(piece.at(row)?);
                Some(())
            });
            builder.append_option(whole.map(|()| text.as_str()));
        }
        let array: ArrayRef = Arc::new(builder.finish());
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// An argument: a text for all rows, or one per row.
enum Piece {
    Constant(Option<String>),
    Column(ArrayRef),
}

impl Piece {
    fn of(value: &ColumnarValue) -> Result<Piece> {
        Ok(match value {
            ColumnarValue::Scalar(scalar) => {
                Piece::Constant(scalar.try_as_str().flatten().map(str::to_owned))
            }
            ColumnarValue::Array(array) => Piece::Column(cast(array, &DataType::Utf8View)?),
        })
    }

    /// The text of a row; `None` for NULL.
    fn at(&self, row: usize) -> Option<&str> {
        match self {
            Piece::Constant(text) => text.as_deref(),
            Piece::Column(array) => {
                let array = array.as_string_view();
                array.is_valid(row).then(|| array.value(row))
            }
        }
    }
}
