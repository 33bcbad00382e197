//! `enum_first`, `enum_last` and `enum_range`: labels of the enumeration that the arguments are of.
//!
//! The argument's value may be NULL: its type says which enumeration is meant.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{DataType, TimestampSecondType};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::{self, Definition};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{shown_type, to_scalar};
use halcyon_store::ValueRef;

use crate::list_of;

/// Their names.
pub const NAMES: [&str; 3] = ["enum_first", "enum_last", "enum_range"];
/// Kinds of the arguments, for the guide.
pub const TAKES: &str = "enumeration";

/// The functions, to be registered.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let function = |name| {
        let signature = Signature::user_defined(Volatility::Stable);
        Arc::new(ScalarUDF::new_from_impl(EnumFunction { name, signature }))
    };
    NAMES.map(function).into()
}

/// Purpose of the function of a name, for the guide.
pub fn purpose(name: &str) -> Option<&'static str> {
    Some(match name {
        "enum_first" => "The first label of the argument's enumeration.",
        "enum_last" => "The last label of the argument's enumeration.",
        "enum_range" => "The labels of the argument's enumeration, or those from one to another.",
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EnumFunction {
    name: &'static str,
    signature: Signature,
}

impl EnumFunction {
    fn does_not_exist(&self, args: &[DataType]) -> SqlError {
        let args: Vec<String> = args.iter().map(shown_type).collect();
        let message = format!("function {}({}) does not exist", self.name, args.join(", "));
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
    }

    /// The labels of a row. `bounds`: positions of the first and last one that is wanted.
    fn labels(
        &self,
        definition: &Definition,
        bounds: [Option<i64>; 2],
        of: SqlType,
    ) -> ScalarValue {
        let [low, high] = bounds;
        let is_wanted = |position: &i64| {
            low.is_none_or(|low| low <= *position) && high.is_none_or(|high| *position <= high)
        };
        let positions = definition.labels.iter().map(|label| label.position);
        let mut wanted = positions.filter(is_wanted);
        let value =
            |position: Option<i64>| to_scalar(position.map_or(ValueRef::Null, ValueRef::Int64), of);
        match self.name {
            "enum_first" => value(wanted.next()),
            "enum_last" => value(wanted.next_back()),
            _ => {
                let items: Vec<ScalarValue> =
                    wanted.map(|position| value(Some(position))).collect();
                ScalarValue::List(ScalarValue::new_list(&items, &of.arrow(), true))
            }
        }
    }
}

impl ScalarUDFImpl for EnumFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let count = if self.name == "enum_range" { 1..=2 } else { 1..=1 };
        let of = args.iter().find(|ty| enums::is_label(ty));
        match of {
            Some(of)
                if count.contains(&args.len())
                    && args.iter().all(|ty| ty == of || ty.is_null()) =>
            {
                Ok(vec![of.clone(); args.len()])
            }
            _ => Err(external(self.does_not_exist(args))),
        }
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(match self.name {
            "enum_range" => list_of(args[0].clone()),
            _ => args[0].clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let of = args.args[0].data_type();
        let Some(id) = enums::of_arrow(&of) else {
            return Err(external(self.does_not_exist(&[of])));
        };
        let definition = id.definition();
        let of_row = |bounds| self.labels(&definition, bounds, SqlType::Enum(id));
        if args.args.len() == 1 {
            return Ok(ColumnarValue::Scalar(of_row([None, None])));
        }
        let bounds: Vec<ArrayRef> =
            args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<DfResult<_>>()?;
        let bound = |at: usize, row: usize| {
            let of: &dyn Array = bounds[at].as_ref();
            of.is_valid(row).then(|| of.as_primitive::<TimestampSecondType>().value(row))
        };
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
        }
        let rows = (0..args.number_rows).map(|row| of_row([bound(0, row), bound(1, row)]));
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(rows)?))
    }
}
