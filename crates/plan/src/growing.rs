//! Bounds for functions whose result may be far larger than their arguments.
//!
//! `repeat('x', 2000000000)` would take memory that no limit of the session counts, and
//! DataFusion's `rpad` panics when a length does not fit. Each function is wrapped: the size of the
//! results for a whole batch is estimated first, and beyond [`BYTES_MAX`] the error is 54000,
//! PostgreSQL's "requested length too large".
//! PostgreSQL's "requested length too large".

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

/// The most bytes that the results of one call may have, over all rows of a batch.
const BYTES_MAX: u64 = 256 << 20;

/// The functions of `all` that are bounded, to be registered over the others.
pub(crate) fn bounded(all: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    let wrap = |function: &Arc<ScalarUDF>| {
        let growth = match function.name() {
            "repeat" => Growth::Repeated,
            "lpad" | "rpad" => Growth::Padded,
            "array_repeat" => Growth::Elements(1),
            "array_resize" => Growth::Elements(1),
            _ => return None,
        };
        let inner = Arc::clone(function);
        Some(Arc::new(ScalarUDF::new_from_impl(Bounded { inner, growth })))
    };
    all.iter().filter_map(wrap).collect()
}

/// The rule by which a result's size follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// The text times the second argument.
    Repeated,
    /// At least as many characters as the second argument.
    Padded,
    /// As many elements as this argument.
    Elements(usize),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    /// Refuses results that would be too large.
    fn check(&self, args: &[ColumnarValue], rows: usize) -> Result<()> {
        let at = match self.growth {
            Growth::Repeated | Growth::Padded => 1,
            Growth::Elements(at) => at,
        };
        let Some(counts) = args.get(at) else { return Ok(()) };
        let counts = integers(counts, rows)?;
        let sizes = match self.growth {
            Growth::Repeated => {
                let texts = args[0].to_array(rows)?;
                if texts.data_type() == &DataType::Null {
                    return Ok(());
                }
                Some(integers(&ColumnarValue::Array(length(&texts)?), rows)?)
            }
            Growth::Padded | Growth::Elements(_) => None,
        };
        let sizes = sizes.as_ref().map(|sizes| sizes.as_primitive::<Int64Type>());
        let counts = counts.as_primitive::<Int64Type>();
        let mut total = 0_u64;
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row)) {
            let size = match sizes {
                Some(sizes) if sizes.is_null(row) => 0,
                Some(sizes) => sizes.value(row) as u64,
                // An element takes at least 16 bytes: a view or a decimal.
                None if matches!(self.growth, Growth::Elements(_)) => 16,
                None => 1,
            };
            let count = u64::try_from(counts.value(row)).unwrap_or(0);
            total = total.saturating_add(count.saturating_mul(size));
        }
        if total <= BYTES_MAX {
            return Ok(());
        }
        let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large");
        Err(external(error.detail(format!(
            "{} would give {total} bytes or more; {BYTES_MAX} is the limit.",
            self.inner.name()
        ))))
    }
}

fn integers(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    Ok(arrow::compute::cast(&value.to_array(rows)?, &DataType::Int64)?)
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arguments)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args.args, args.number_rows)?;
        if self.growth == Growth::Padded {
            // DataFusion panics at negative lengths.
            let lengths = integers(&args.args[1], args.number_rows)?;
            let lengths = lengths.as_primitive::<Int64Type>();
            if lengths.iter().flatten().any(|length| length < 0) {
                let lengths: Int64Array = lengths.unary(|length| length.max(0));
                args.args[1] = ColumnarValue::Array(Arc::new(lengths));
            }
        }
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::SessionStateDefaults;

    use super::*;

    fn call(name: &str, text: &[&str], count: i64) -> Result<ColumnarValue> {
        let all = bounded(&SessionStateDefaults::default_scalar_functions());
        let function = all.iter().find(|function| function.name() == name).expect(name);
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(text.to_vec())));
        let counts = match text {
            // A scalar for all rows, or an array of one value per row.
            [_] => ColumnarValue::Scalar(ScalarValue::Int64(Some(count))),
            _ => ColumnarValue::Array(Arc::new(Int64Array::from(vec![count; text.len()]))),
        };
        let args = vec![texts, counts];
        let arg_fields = (args.iter())
            .map(|arg| Arc::new(Field::new("a", arg.data_type(), true)))
            .collect::<Vec<_>>();
        let types: Vec<DataType> = args.iter().map(ColumnarValue::data_type).collect();
        let return_type = function.return_type(&types)?;
        function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields,
            number_rows: text.len(),
            return_field: Arc::new(Field::new("r", return_type, true)),
            config_options: Arc::new(ConfigOptions::default()),
        })
    }

    #[test]
    fn results_that_are_too_large_are_refused_before_they_are_made() {
        for name in ["repeat", "lpad", "rpad", "array_repeat"] {
            assert!(call(name, &["xy"], 3).is_ok(), "{name}");
            assert!(call(name, &["xy", "z"], -1).is_ok(), "{name}");
            for texts in [&["xy"][..], &["xy", "z"]] {
                for count in [400_000_000, i64::MAX] {
                    let error = call(name, texts, count).expect_err(name).to_string();
                    assert!(error.contains("requested length too large"), "{name}: {error}");
                }
            }
        }
        // The bound is on all rows together.
        let many = vec!["x"; 10];
        assert!(call("repeat", &many, 20 << 20).is_ok());
        assert!(call("repeat", &many, 30 << 20).is_err());
    }
}
