//! Functions of the table ([`halcyon_value::functions`]) as functions of DataFusion.
//!
//! If DataFusion has a vectorised kernel with the same meaning, plans keep the kernel
//! ([`KERNELS`]); all other rows of the table are evaluated here. Functions of doubles run over
//! whole vectors, others value by value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::misfits::no_function;
use halcyon_sql::values::{ArrayWriter, shown_type, sql_type_of_arrow, value_at};
use halcyon_store::{ArrowType, Type, ValueRef};
use halcyon_value::functions::{self, Answer, Call, Function, Meaning};

use crate::zoned;

/// Names, as plans show them, of functions for which DataFusion's kernels are used.
///
/// `the_kernels_are_there` and the comparison of random calls in `exec/tests/functions.rs` check them.
const KERNELS: &[&str] = &[
    "abs",
    "btrim",
    "ceil",
    "coalesce",
    "concat",
    "date_trunc",
    "floor",
    "greatest",
    "least",
    "left",
    "length",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "replace",
    "right",
    "round",
    "rtrim",
    "starts_with",
    "strpos",
    "substr",
    "trunc",
    "upper",
];

/// The rows of the table that are evaluated here.
fn rows() -> impl Iterator<Item = &'static Function> {
    functions::all().filter(|function| !KERNELS.contains(&function.name()))
}

/// The functions, one for each name, to be registered over DataFusion's.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let mut names: Vec<&'static str> = rows().flat_map(|row| row.names).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| Arc::new(function(name))).collect()
}

/// Whether calls by this name are evaluated here.
pub fn is_ours(name: &str) -> bool {
    rows().any(|row| row.names.contains(&name))
}

/// A call of a function by a name that the table has.
pub fn call(name: &'static str, args: Vec<Expr>) -> Expr {
    function(name).call(args)
}

/// The function of a name, if calls by this name are evaluated here.
pub fn of_name(name: &str) -> Option<Arc<ScalarUDF>> {
    let names = rows().flat_map(|row| row.names).copied();
    names.into_iter().find(|own| *own == name).map(|own| Arc::new(function(own)))
}

/// The function of bytes, or of spans, that a statement calls by the name of one of texts or of moments.
pub fn twin(name: &str, types: &[DataType]) -> Option<&'static str> {
    let are_bytes = |ty: &DataType| {
        ty.is_binary() && !matches!(ty, DataType::LargeBinary | DataType::FixedSizeBinary(_))
    };
    // A constant or a parameter beside bytes is some, too.
    let beside = !matches!(name, "substr" | "length" | "character_length" | "octet_length");
    let is_open =
        |ty: &DataType| matches!(ty, DataType::Null | DataType::Utf8 | DataType::Utf8View);
    let has_bytes = match types.first() {
        Some(first) if are_bytes(first) => true,
        Some(first) => beside && is_open(first) && types.iter().any(are_bytes),
        None => false,
    };
    if has_bytes {
        return Some(match name {
            "length" | "character_length" | "octet_length" => "bytes_length",
            "substr" => "bytes_substr",
            "btrim" => "bytes_btrim",
            "ltrim" => "bytes_ltrim",
            "rtrim" => "bytes_rtrim",
            "strpos" => "bytes_position",
            "overlay" => "bytes_overlay",
            _ => return None,
        });
    }
    let is_span = |ty: &DataType| {
        matches!(ty, DataType::Interval(_) | DataType::Duration(_) | DataType::Time64(_))
    };
    let truncates_span = name == "date_trunc" && types.get(1).is_some_and(is_span);
    truncates_span.then_some("interval_trunc")
}

/// Names of functions that have a [`twin`] and are DataFusion's.
pub const WITH_TWINS: [&str; 9] = [
    "btrim",
    "character_length",
    "date_trunc",
    "length",
    "ltrim",
    "octet_length",
    "rtrim",
    "strpos",
    "substr",
];

/// The function of a name that the table has, evaluated here.
pub fn function(name: &'static str) -> ScalarUDF {
    let row = functions::named(name).next().expect("the table has the function");
    let volatility = match row.volatility {
        functions::Volatility::Immutable => Volatility::Immutable,
        functions::Volatility::Stable => Volatility::Stable,
        functions::Volatility::Volatile => Volatility::Volatile,
    };
    ScalarUDF::new_from_impl(TableFunction { name, signature: Signature::user_defined(volatility) })
}

/// The types to which a call's arguments are converted, for arguments of these types; `None` among
/// them stands for an argument without a type. The result `None` says that no function of the name
/// takes them.
pub fn argument_types(name: &str, args: &[Option<DataType>]) -> Option<Vec<DataType>> {
    let types: Option<Vec<Option<Type>>> =
        args.iter().map(|ty| ty.as_ref().map_or(Some(None), storage)).collect();
    let call = Call::named(name, &types?)?;
    Some(call.args().iter().map(ArrowType::arrow).collect())
}

/// The stored type of an Arrow type; `Some(None)` for the type of NULL, `None` if there is no
/// stored type.
fn storage(ty: &DataType) -> Option<Option<Type>> {
    match ty {
        DataType::Null => return Some(None),
        // The difference of two moments, which becomes an interval later.
        DataType::Duration(_) => return Some(Some(Type::Interval)),
        // Addresses are stored as bytes, and no function of bytes takes them.
        DataType::FixedSizeBinary(width) if *width != 16 => return None,
        _ => {}
    }
    sql_type_of_arrow(ty).map(|ty| Some(ty.storage()))
}

/// The functions of a name, as DataFusion calls them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TableFunction {
    name: &'static str,
    signature: Signature,
}

/// 42883: no function of the name takes these arguments; `None` stands for an argument without a
/// type.
pub fn does_not_exist(name: &str, args: &[Option<DataType>]) -> SqlError {
    let shown = |ty: &Option<DataType>| ty.as_ref().map_or("unknown".to_owned(), shown_type);
    let args: Vec<String> = args.iter().map(shown).collect();
    let takes = |row: &Function| {
        let kinds: Vec<&str> = row.takes.kinds.iter().map(|kind| kind.name()).collect();
        format!("{name}({})", kinds.join(", "))
    };
    let known: Vec<String> = functions::named(name).map(takes).collect();
    no_function(name, &args).detail(format!("There is {}.", known.join(", ")))
}

/// The call for arguments of these types. DataFusion asks before quoted constants have their types
/// (planning gives them), so text may stand for any type here.
fn resolve(name: &str, args: &[DataType]) -> DfResult<Call> {
    let name = twin(name, args).unwrap_or(name);
    let types: Option<Vec<Option<Type>>> = args.iter().map(storage).collect();
    let untyped = |types: &Vec<Option<Type>>| -> Vec<Option<Type>> {
        types.iter().map(|ty| ty.filter(|ty| *ty != Type::Text)).collect()
    };
    // A call with TIMESTAMPTZ or a time of day becomes another one later ([`zoned`]).
    let local = |types: &Vec<Option<Type>>| -> Vec<Option<Type>> {
        let local = |ty: Type| match ty {
            Type::TimestampTz => Type::Timestamp,
            Type::Time => Type::Interval,
            ty => ty,
        };
        types.iter().map(|ty| ty.map(local)).collect()
    };
    // Integer constants are BIGINT until they are narrowed.
    let narrowed = |types: &Vec<Option<Type>>| -> Vec<Option<Type>> {
        let narrow = |ty: Type| if ty == Type::Int64 { Type::Int32 } else { ty };
        untyped(types).into_iter().map(|ty| ty.map(narrow)).collect()
    };
    types
        .map(|types| match zoned::has_twin(name) || name == "interval_trunc" {
            true => local(&types),
            false => types,
        })
        .and_then(|types| {
            Call::named(name, &types)
                .or_else(|| Call::named(name, &untyped(&types)))
                .or_else(|| Call::named(name, &narrowed(&types)))
        })
        .ok_or_else(|| {
            let args: Vec<Option<DataType>> = args.iter().cloned().map(Some).collect();
            external(does_not_exist(name, &args))
        })
}

impl ScalarUDFImpl for TableFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let wanted = resolve(self.name, args)?;
        let wanted = wanted.args().iter().map(ArrowType::arrow).zip(args);
        // A time of day, and the difference of two moments, become intervals later.
        let type_of = |(wanted, given): (DataType, &DataType)| match given {
            DataType::Time64(_) | DataType::Duration(_) => given.clone(),
            _ => wanted,
        };
        Ok(wanted.map(type_of).collect())
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(resolve(self.name, args)?.result().arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(args.number_rows, |array| array.len());
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let array = evaluate(&resolve(self.name, &types)?, &arrays, rows).map_err(external)?;
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The values of a call over rows of arguments.
fn evaluate(call: &Call, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    match (call.function().meaning, args) {
        (Meaning::Double(eval), [x]) => {
            let values: Float64Array =
                x.as_primitive::<Float64Type>().try_unary(|x| eval(x).map_err(SqlError::from))?;
            Ok(Arc::new(values))
        }
        (Meaning::Doubles(eval), [x, y]) => {
            let (x, y) = (x.as_primitive::<Float64Type>(), y.as_primitive::<Float64Type>());
            let pairs = x.iter().zip(y).map(|(x, y)| x.zip(y));
            let value = |pair: Option<(f64, f64)>| pair.map(|(x, y)| eval(x, y)).transpose();
            let values: Float64Array =
                pairs.map(|pair| value(pair).map_err(SqlError::from)).collect::<Result<_>>()?;
            Ok(Arc::new(values))
        }
        _ => each(call, args, rows),
    }
}

/// Evaluates a call value by value.
fn each(call: &Call, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let result = sql_type_of_arrow(&call.result().arrow()).expect("every stored type is SQL's");
    let mut writer = ArrayWriter::new(result, rows);
    let mut cells = vec![ValueRef::Null; args.len()];
    let mut text = String::new();
    for row in 0..rows {
        for (cell, array) in cells.iter_mut().zip(args) {
            *cell = value_at(array.as_ref(), row).unwrap_or(ValueRef::Null);
        }
        text.clear();
        match call.eval(&cells, &mut text)? {
            Answer::Value(value) => writer.push(value)?,
            Answer::Written => writer.push(ValueRef::Text(&text))?,
            Answer::Made(value) => writer.push(value.as_ref())?,
        }
    }
    Ok(writer.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::SessionStateDefaults;

    #[test]
    fn the_kernels_are_there() {
        let known: Vec<String> = SessionStateDefaults::default_scalar_functions()
            .iter()
            .flat_map(|function| [vec![function.name().to_owned()], function.aliases().to_vec()])
            .flatten()
            .collect();
        for name in KERNELS {
            assert!(known.iter().any(|known| known == name), "DataFusion has no {name}");
            assert!(functions::named(name).next().is_some(), "the table has no {name}");
        }
        for row in functions::all() {
            let by_kernel = |name: &&str| KERNELS.contains(name);
            let rows = row.names.iter().flat_map(|name| functions::named(name));
            let one_way =
                rows.map(Function::name).filter(|name| by_kernel(name) != by_kernel(&row.name()));
            assert_eq!(one_way.count(), 0, "{}: its name has rows of both kinds", row.name());
        }
    }
}
