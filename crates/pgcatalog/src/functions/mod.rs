//! Functions over the system catalogs, as scalar functions of DataFusion.
//!
//! Each is a row of a table: name, numbers of arguments, result, how often it may be evaluated,
//! and a plain function from values to a value. They are called for a few hundred rows at most, so
//! one value at a time is fast enough.

mod acting;
mod definitions;
mod privileges;
mod rights;
mod session;
mod text;

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int16Type, Int32Type, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::Context;
use super::exported::oid_field;
use super::table::PG_TYPE_KEY;
use halcyon_sql::error::{SqlError, SqlState};

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Bool,
    Int4,
    Int8,
    Oid,
    Text,
    Texts,
    Oids,
    /// `integer[]`.
    Int4s,
    /// `name[]`.
    Names,
    /// Rights as rows: grantor, grantee, privilege, and whether it may be passed on.
    Rights,
    /// A list of INTEGER.
    Subscripts,
    /// The type of the argument, which is a list.
    Same,
    /// `_pg_expandarray`: list of (x, n).
    Pairs,
    Time,
    /// `void`: the empty text.
    Void,
    /// `regtype`, as its text.
    Type,
}

impl Gives {
    fn of(self, argument: Option<&DataType>) -> DataType {
        match argument {
            Some(list @ DataType::List(_)) if self == Gives::Same => list.clone(),
            _ => self.data_type(),
        }
    }

    fn data_type(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        match self {
            Gives::Bool => DataType::Boolean,
            Gives::Int4 | Gives::Oid => DataType::Int32,
            Gives::Int8 => DataType::Int64,
            Gives::Text | Gives::Void | Gives::Type => DataType::Utf8View,
            Gives::Texts | Gives::Names | Gives::Same => list(DataType::Utf8View),
            Gives::Rights => list(rights::row_type()),
            Gives::Oids | Gives::Int4s | Gives::Subscripts => list(DataType::Int32),
            Gives::Pairs => list(text::pair_type()),
            Gives::Time => {
                DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("+00:00".into()))
            }
        }
    }
}

impl Gives {
    /// The result's field: metadata names types that Arrow cannot tell.
    fn field(self, name: &str, argument: Option<&DataType>) -> FieldRef {
        let field = Field::new(name, self.of(argument), true);
        let tagged = |tag: &str| [(PG_TYPE_KEY.to_owned(), tag.to_owned())].into();
        Arc::new(match self {
            Gives::Oid => oid_field(name, "oid", true),
            Gives::Void => field.with_metadata(tagged("void")),
            Gives::Type => field.with_metadata(tagged("regtype")),
            Gives::Oids => field.with_metadata(tagged("oid[]")),
            Gives::Names => field.with_metadata(tagged("name[]")),
            _ => field,
        })
    }
}

/// A function of the system catalogs.
struct Definition {
    name: &'static str,
    /// Least and greatest number of arguments.
    arguments: (usize, usize),
    gives: Gives,
    volatility: Volatility,
    call: fn(&Context, &[Arg<'_>]) -> Outcome,
}

/// Value of a call; the NULL of any type is `ScalarValue::Null`.
type Outcome = Result<ScalarValue>;

/// Depends on its arguments alone.
const PURE: Volatility = Volatility::Immutable;
/// Depends on the catalog and the session, which a plan is bound to.
const BOUND: Volatility = Volatility::Stable;
/// Depends on the moment.
const LIVE: Volatility = Volatility::Volatile;

const fn define(
    name: &'static str,
    arguments: (usize, usize),
    gives: Gives,
    volatility: Volatility,
    call: fn(&Context, &[Arg<'_>]) -> Outcome,
) -> Definition {
    Definition { name, arguments, gives, volatility, call }
}

fn definitions() -> impl Iterator<Item = &'static Definition> {
    let topics = [
        acting::FUNCTIONS,
        definitions::FUNCTIONS,
        privileges::FUNCTIONS,
        rights::FUNCTIONS,
        session::FUNCTIONS,
        text::FUNCTIONS,
    ];
    topics.into_iter().flatten()
}

/// All functions of the system catalogs.
pub fn functions(context: &Arc<Context>) -> Vec<ScalarUDF> {
    definitions().map(|definition| Function::of(definition, context)).collect()
}

/// The function of that name (without schema, in lower case).
pub fn function(name: &str, context: &Arc<Context>) -> Option<ScalarUDF> {
    let definition = definitions().find(|definition| definition.name == name)?;
    Some(Function::of(definition, context))
}

/// Whether there is a function of that name (without schema, in lower case), or one that tells of
/// the session, which clients call as they call these.
pub fn is_known(name: &str) -> bool {
    halcyon_plan::execution::is_of_session(name)
        || definitions().any(|definition| definition.name == name)
}

/// Names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    definitions().map(|definition| definition.name)
}

/// Whether a function is one of these.
pub(super) fn is_ours(function: &ScalarUDF) -> bool {
    let inner: &dyn Any = function.inner().as_ref();
    inner.is::<Function>()
}

/// The same function with the context that `other` gives in place of its own; `None` if it is none of these.
pub(super) fn within(
    function: &ScalarUDF,
    other: &mut dyn FnMut(&Arc<Context>) -> Arc<Context>,
) -> Option<ScalarUDF> {
    let inner: &dyn Any = function.inner().as_ref();
    let Function { definition, context, .. } = inner.downcast_ref()?;
    Some(Function::of(definition, &other(context)))
}

/// A function with the context that it answers from.
struct Function {
    definition: &'static Definition,
    context: Arc<Context>,
    signature: Signature,
}

impl Function {
    fn of(definition: &'static Definition, context: &Arc<Context>) -> ScalarUDF {
        let (least, most) = definition.arguments;
        let shapes = (least..=most).map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = Signature::one_of(shapes.collect(), definition.volatility);
        let context = Arc::clone(context);
        ScalarUDF::new_from_impl(Function { definition, context, signature })
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.definition.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        let (own, others) = (&self.context, &other.context);
        self.definition.name == other.definition.name
            && Arc::ptr_eq(&own.catalog, &others.catalog)
            && own.session.session_id == others.session.session_id
            && own.session.user == others.session.user
            && own.session.search_path == others.session.search_path
            && own.taken.is_some() == others.taken.is_some()
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.definition.gives.of(arguments.first()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let argument = args.arg_fields.first().map(|field| field.data_type());
        Ok(self.definition.gives.field(self.definition.name, argument))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ty = args.return_field.data_type().clone();
        let fields = args.arg_fields.clone();
        let call = |values: &[ScalarValue]| -> Outcome {
            let args: Vec<Arg<'_>> =
                values.iter().zip(&fields).map(|(value, field)| Arg(value, field)).collect();
            let value = (self.definition.call)(&self.context, &args)?;
            if value.data_type() == DataType::Null { ScalarValue::try_from(&ty) } else { Ok(value) }
        };
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant && self.definition.volatility != LIVE {
            let values: Vec<ScalarValue> = (args.args.into_iter())
                .filter_map(|arg| match arg {
                    ColumnarValue::Scalar(value) => Some(value),
                    ColumnarValue::Array(_) => None,
                })
                .collect();
            return Ok(ColumnarValue::Scalar(call(&values)?));
        }
        let mut results = Vec::with_capacity(args.number_rows);
        let mut values = Vec::with_capacity(args.args.len());
        for row in 0..args.number_rows {
            values.clear();
            for arg in &args.args {
                values.push(match arg {
                    ColumnarValue::Scalar(value) => value.clone(),
                    ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row)?,
                });
            }
            results.push(call(&values)?);
        }
        if results.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(&ty)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
    }
}

/// An argument, of whatever type the query gave it.
struct Arg<'a>(&'a ScalarValue, &'a Field);

impl Arg<'_> {
    /// As an object id or other integer; digits in a string count too.
    fn int(&self) -> Option<i64> {
        match self.0 {
            ScalarValue::Int8(v) => v.map(i64::from),
            ScalarValue::Int16(v) => v.map(i64::from),
            ScalarValue::Int32(v) => v.map(i64::from),
            ScalarValue::Int64(v) => *v,
            ScalarValue::UInt8(v) => v.map(i64::from),
            ScalarValue::UInt16(v) => v.map(i64::from),
            ScalarValue::UInt32(v) => v.map(i64::from),
            ScalarValue::UInt64(v) => v.and_then(|v| v.try_into().ok()),
            ScalarValue::Decimal128(Some(v), _, 0) => i64::try_from(*v).ok(),
            _ => self.text()?.trim().parse().ok(),
        }
    }

    fn oid(&self) -> Option<u32> {
        self.int().and_then(|v| u32::try_from(v).ok())
    }

    /// As text, if it is text.
    fn text(&self) -> Option<&str> {
        self.0.try_as_str().flatten()
    }

    /// As a number with a fraction; digits in a string count too.
    fn number(&self) -> Option<f64> {
        match self.0 {
            ScalarValue::Float32(v) => v.map(f64::from),
            ScalarValue::Float64(v) => *v,
            ScalarValue::Decimal128(Some(v), _, scale) => {
                Some(*v as f64 / 10_f64.powi(i32::from(*scale)))
            }
            _ => match self.text() {
                Some(text) => text.trim().parse().ok(),
                None => self.int().map(|v| v as f64),
            },
        }
    }

    /// The argument's type, as its field tells.
    fn field(&self) -> &Field {
        self.1
    }

    fn bool(&self) -> Option<bool> {
        match self.0 {
            ScalarValue::Boolean(v) => *v,
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Elements of a list.
    fn list(&self) -> Option<arrow::array::ArrayRef> {
        match self.0 {
            ScalarValue::List(list) if list.is_valid(0) => Some(list.value(0)),
            ScalarValue::LargeList(list) if list.is_valid(0) => Some(list.value(0)),
            _ => None,
        }
    }

    /// Elements of a list of integers.
    fn ints(&self) -> Option<Vec<Option<i64>>> {
        let list = self.list()?;
        Some(match list.data_type() {
            DataType::Int16 => {
                list.as_primitive::<Int16Type>().iter().map(|v| v.map(i64::from)).collect()
            }
            DataType::Int32 => {
                list.as_primitive::<Int32Type>().iter().map(|v| v.map(i64::from)).collect()
            }
            DataType::Int64 => list.as_primitive::<Int64Type>().iter().collect(),
            _ => return None,
        })
    }

    /// Elements of a list of strings.
    fn texts(&self) -> Option<Vec<Option<String>>> {
        let list = arrow::compute::cast(&self.list()?, &DataType::Utf8).ok()?;
        Some(list.as_string::<i32>().iter().map(|v| v.map(str::to_owned)).collect())
    }
}

fn text(value: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8View(Some(value.into()))
}

fn text_or_null(value: Option<String>) -> ScalarValue {
    value.map_or(ScalarValue::Null, text)
}

fn oid(value: u32) -> ScalarValue {
    ScalarValue::Int32(Some(value as i32))
}

fn truth(value: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(value))
}

fn error(state: SqlState, message: impl Into<String>) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::new(state, message)))
}
