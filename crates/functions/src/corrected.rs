//! DataFusion's functions with PostgreSQL's errors, roundings and eras, for functions that no row
//! of the table of functions replaces.
//!
//! `log2` of zero or a negative number is NaN or an infinity in DataFusion; here it is an error, as
//! for PostgreSQL's logarithms. `round` of a float rounds halves to even, `date_part` has no year
//! 0. Each function is wrapped: DataFusion's function does the work, and its arguments or results
//! are checked. Cost: one more pass.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::core::r#struct;
use datafusion::functions_nested::array_has::{
    array_has_all_udf, array_has_any_udf, array_has_udf,
};
use datafusion::functions_nested::concat::{array_append_udf, array_prepend_udf};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature,
};
use halcyon_value::float;

use crate::memberships::is_long_array;
use crate::products;

use crate::{nested, table_functions};
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::is_day_or_moment;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::type_names::UNCONSTRAINED;
use halcyon_sql::types::SqlType;

/// The functions of `all` that are corrected, to be registered over the others.
pub fn corrected(all: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    let wrap = |function: &Arc<ScalarUDF>| {
        let correction = match function.name() {
            "log2" => Correction::Refuse(logarithm),
            "round" => Correction::HalvesToEven,
            "date_part" => return Some(date_part()),
            "date_trunc" => Correction::FarMoments,
            "substr" => return Some(substr()),
            // Of constants they give a value also where there are no rows.
            "ceil" | "floor" => Correction::Promised,
            name if TYPED.iter().any(|(own, _)| *own == name) => Correction::Promised,
            name if table_functions::WITH_TWINS.contains(&name) => Correction::Promised,
            "to_timestamp" => Correction::RoundedSeconds,
            "concat" | "concat_ws" => Correction::Written,
            // They promise nanoseconds or a zone and give what their arguments have, or the other way round.
            name if name.starts_with("to_timestamp") => Correction::Promised,
            "from_unixtime" => Correction::Seconds,
            "array_has" => return Some(array_has()),
            "array_has_all" => return Some(array_has_all()),
            "array_has_any" => return Some(array_has_any()),
            "strpos" => return Some(strpos()),
            "struct" => return Some(row()),
            "named_struct" => Correction::BoundedType,
            "array_ndims" => Correction::KnownUnless(is_empty, None),
            // Of constants that are NULL it makes an empty map.
            "map" => Correction::KnownUnless(has_null, None),
            // Lengths.
            "array_length" | "cardinality" => Correction::Promised,
            "coalesce" | "greatest" | "least" | "make_array" | "nullif" => {
                Correction::QuotedFit(Fit::Alike)
            }
            "array_position" => Correction::StartsWithin,
            name if takes_element(name) => Correction::QuotedFit(Fit::Element),
            _ => return None,
        };
        Some(Corrected::function(function, correction))
    };
    all.iter().filter_map(wrap).collect()
}

/// `date_part` for EXTRACT, which the planner does not look up by name.
pub fn date_part() -> Arc<ScalarUDF> {
    static DATE_PART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Corrected::function(&datafusion::functions::datetime::date_part(), Correction::Eras)
    });
    Arc::clone(&DATE_PART)
}

/// `array_has` for `x = ANY (array)`, which the planner does not look up by name.
pub fn array_has() -> Arc<ScalarUDF> {
    static ARRAY_HAS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let own = Correction::KnownUnless(may_be_null, Some(Fit::Element));
        Corrected::function(&array_has_udf(), own)
    });
    Arc::clone(&ARRAY_HAS)
}

/// `array_append` or `array_prepend` for `array || element` or `element || array`, which the planner does not look up by
/// name.
pub fn array_and_element(element_is_first: bool) -> Arc<ScalarUDF> {
    static BOTH: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [array_append_udf(), array_prepend_udf()]
            .map(|inner| Corrected::function(&inner, Correction::QuotedFit(Fit::Element)))
    });
    Arc::clone(&BOTH[usize::from(element_is_first)])
}

/// `array_has_all` for `a @> b`, which the planner does not look up by name.
pub fn array_has_all() -> Arc<ScalarUDF> {
    static ARRAY_HAS_ALL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let inner = products::bounded(&array_has_all_udf()).expect("one of those");
        Corrected::function(&inner, Correction::KnownUnless(has_null, None))
    });
    Arc::clone(&ARRAY_HAS_ALL)
}

/// `array_has_any` for `a && b`.
pub fn array_has_any() -> Arc<ScalarUDF> {
    static ARRAY_HAS_ANY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let inner = products::bounded(&array_has_any_udf()).expect("one of those");
        Corrected::function(&inner, Correction::KnownUnless(has_null, None))
    });
    Arc::clone(&ARRAY_HAS_ANY)
}

/// `strpos` for POSITION, which the planner does not look up by name.
pub fn strpos() -> Arc<ScalarUDF> {
    static STRPOS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let inner = products::bounded(&datafusion::functions::unicode::strpos());
        Corrected::function(&inner.expect("one of those"), Correction::Promised)
    });
    Arc::clone(&STRPOS)
}

/// `substr` for SUBSTRING, which the planner does not look up by name.
pub fn substr() -> Arc<ScalarUDF> {
    static SUBSTR: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Corrected::function(&datafusion::functions::unicode::substr(), Correction::Promised)
    });
    Arc::clone(&SUBSTR)
}

/// `struct` for `(a, b)` and `ROW(a, b)`.
pub fn row() -> Arc<ScalarUDF> {
    static ROW: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Corrected::function(&r#struct(), Correction::BoundedType));
    Arc::clone(&ROW)
}

/// Returns the error that a call with these floats raises, if it raises one.
type Refusal = fn(&[f64]) -> Option<SqlError>;

#[derive(Clone, Copy, Debug)]
enum Correction {
    /// Raises an error for arguments, none of them NULL or NaN, that have no result.
    Refuse(Refusal),
    /// `round` of one float.
    HalvesToEven,
    /// A constant in quotes takes the type of what stands beside it, which planning gives it:
    /// DataFusion's planner would refuse it before, or take all for texts.
    QuotedFit(Fit),
    /// The place at which a search in an array begins may lie before or behind the array's elements.
    StartsWithin,
    /// A row whose type is too large is refused, before anything looks at all of its fields.
    BoundedType,
    /// Nothing but what holds of all: values are of the type that was promised.
    Promised,
    /// Arguments of any type, which become texts before the function is called.
    Written,
    /// Seconds with fractions are rounded to microseconds.
    RoundedSeconds,
    /// Seconds that are moments of no other precision are refused.
    Seconds,
    /// The year before 1 is -1.
    Eras,
    /// Moments that nanoseconds do not reach are truncated one by one.
    FarMoments,
    /// NULL in rows for which this is true of the result and the arguments: a value may be in an array that has
    /// NULL, NULL has no elements, and an empty array no dimensions.
    KnownUnless(fn(&ArrayRef, &[ArrayRef], usize) -> bool, Option<Fit>),
}

/// What a constant in quotes is among the arguments of a function.
#[derive(Clone, Copy, Debug)]
enum Fit {
    /// A value of the type that the other arguments have.
    Alike,
    /// An element of the array among the arguments.
    Element,
}

impl Correction {
    fn fit(&self) -> Option<Fit> {
        match self {
            Correction::QuotedFit(fit) => Some(*fit),
            Correction::StartsWithin => Some(Fit::Element),
            Correction::KnownUnless(_, fit) => *fit,
            _ => None,
        }
    }
}

/// Whether a function of an array takes elements of the array's type.
pub fn takes_element(function: &str) -> bool {
    matches!(
        function,
        "array_append"
            | "array_has"
            | "array_position"
            | "array_positions"
            | "array_prepend"
            | "array_remove"
            | "array_remove_all"
            | "array_remove_n"
            | "array_replace"
            | "array_replace_all"
            | "array_replace_n"
    )
}

/// DataFusion's functions that are planned before arguments without a type, parameters and NULL, have the types that
/// the functions take there.
const TYPED: &[(&str, &[SqlType])] = {
    use SqlType::{Integer, Text};
    const NUMERIC: SqlType = UNCONSTRAINED;
    &[
        ("left", &[Text, Integer]),
        ("lpad", &[Text, Integer, Text]),
        ("repeat", &[Text, Integer]),
        ("right", &[Text, Integer]),
        ("round", &[NUMERIC, Integer]),
        ("rpad", &[Text, Integer, Text]),
        ("split_part", &[Text, Text, Integer]),
        ("substr", &[Text, Integer, Integer]),
        ("trunc", &[NUMERIC, Integer]),
    ]
};

/// The types of arguments that have none of their own, for calls with several of functions of DataFusion's.
pub fn parameter_types(function: &str, count: usize) -> Option<Vec<DataType>> {
    let (_, types) = TYPED.iter().find(|(name, _)| *name == function)?;
    let fits = (2..=types.len()).contains(&count);
    fits.then(|| types[..count].iter().map(|ty| ty.arrow()).collect())
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::Utf8View)
}

/// Whether values have so many bytes each. Arrow converts no texts to such, so a constant in quotes beside one stays
/// a text until it is given its type.
fn is_fixed(ty: &DataType) -> bool {
    matches!(ty, DataType::FixedSizeBinary(_))
}

/// Whether values are arrays of such values.
fn holds_fixed(ty: &DataType) -> bool {
    matches!(ty, DataType::List(item) if is_fixed(item.data_type()))
}

/// Whether a number beside an array of decimals is an element: behind an element there may be places and counts.
fn is_element(ty: &DataType, types: &[DataType]) -> bool {
    ty.is_decimal() || types.len() == 2 && ty.is_integer()
}

/// The type that holds the decimals of an array and the numbers beside it; `None` if they are of one type.
fn common_decimal(item: &DataType, types: &[DataType]) -> Option<DataType> {
    let beside = types.iter().filter(|ty| is_element(ty, types)).map(|ty| match ty {
        DataType::Int16 => DataType::Decimal128(5, 0),
        DataType::Int32 => DataType::Decimal128(10, 0),
        ty if ty.is_integer() => DataType::Decimal128(19, 0),
        ty => ty.clone(),
    });
    let all: Vec<DataType> = beside.chain([item.clone()]).collect();
    let differ = item.is_decimal() && all.iter().any(|ty| ty != item);
    differ.then(|| type_union_resolution(&all)).flatten()
}

fn logarithm(args: &[f64]) -> Option<SqlError> {
    let why = match args[0] {
        0.0 => "cannot take logarithm of zero",
        value if value < 0.0 => "cannot take logarithm of a negative number",
        _ => return None,
    };
    Some(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, why))
}

#[derive(Debug)]
struct Corrected {
    inner: Arc<ScalarUDF>,
    correction: Correction,
    /// If constants in quotes fit, that of a function which settles its arguments' types itself.
    signature: Option<Signature>,
}

impl Corrected {
    fn function(inner: &Arc<ScalarUDF>, correction: Correction) -> Arc<ScalarUDF> {
        let (inner, volatility) = (Arc::clone(inner), inner.signature().volatility);
        let is_open = correction.fit().is_some()
            || matches!(correction, Correction::RoundedSeconds | Correction::Written)
            || TYPED.iter().any(|(name, _)| *name == inner.name())
            || table_functions::WITH_TWINS.contains(&inner.name())
                && !matches!(inner.signature().type_signature, TypeSignature::UserDefined);
        let signature = is_open.then(|| Signature::user_defined(volatility));
        Arc::new(ScalarUDF::new_from_impl(Corrected { inner, correction, signature }))
    }

    /// Whether some argument is not a text yet.
    fn writes(&self, types: &[DataType]) -> bool {
        matches!(self.correction, Correction::Written)
            && types.iter().any(|ty| !is_text(ty) && !ty.is_null())
    }

    /// Whether the arguments are seconds, of any type of numbers, that become moments.
    fn counts_seconds(&self, types: &[DataType]) -> bool {
        matches!(self.correction, Correction::RoundedSeconds)
            && matches!(types, [ty] if ty.is_numeric())
    }

    /// The function that a statement calls by this name for arguments of these types.
    fn twin(&self, types: &[DataType]) -> Option<ScalarUDF> {
        table_functions::twin(self.inner.name(), types).map(table_functions::function)
    }

    /// The type that constants in quotes take among arguments of these types, if Arrow converts no texts to it.
    fn fixed<'t>(&self, mut types: impl Iterator<Item = &'t DataType>) -> Option<DataType> {
        matches!(self.correction, Correction::QuotedFit(Fit::Alike)).then_some(())?;
        types.find(|ty| is_fixed(ty)).cloned()
    }

    /// Errors: 54001 for the type of a row that is too large.
    fn bounded(&self, ty: DataType) -> Result<DataType> {
        if matches!(self.correction, Correction::BoundedType) {
            nested::check_type(&ty)?;
        }
        Ok(ty)
    }

    /// Types of arguments with those that the function takes in the place of none.
    fn typed(&self, types: &[DataType]) -> Vec<DataType> {
        let mut types = types.to_vec();
        if let Some(wanted) = parameter_types(self.inner.name(), types.len()) {
            for (ty, wanted) in types.iter_mut().zip(wanted).filter(|(ty, _)| ty.is_null()) {
                *ty = wanted;
            }
        }
        types
    }

    /// The types to which DataFusion converts arguments of these.
    fn converted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let types = &self.typed(types)[..];
        let field = |ty: &DataType| Arc::new(Field::new("", ty.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }
}

impl PartialEq for Corrected {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Corrected {}

impl std::hash::Hash for Corrected {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

/// Raises the error of the first row that has no result.
fn check(refusal: Refusal, args: &[ColumnarValue], rows: usize) -> Result<()> {
    let is_scalar = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { rows };
    let floats = |arg: &ColumnarValue| Ok(cast(&arg.to_array(rows)?, &DataType::Float64)?);
    let columns = args.iter().map(floats).collect::<Result<Vec<ArrayRef>>>()?;
    let columns: Vec<&Float64Array> =
        columns.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
    let mut cells = vec![0.0; columns.len()];
    for row in 0..rows {
        let mut known = true;
        for (cell, column) in cells.iter_mut().zip(&columns) {
            *cell = column.value(row);
            known &= column.is_valid(row) && !cell.is_nan();
        }
        if known && let Some(error) = refusal(&cells) {
            return Err(external(error));
        }
    }
    Ok(())
}

/// Rounds floats to whole numbers, halves to even. `None` if the argument is no float.
fn rounded(args: &[ColumnarValue]) -> Option<Result<ColumnarValue>> {
    let [arg] = args else { return None };
    if !arg.data_type().is_floating() {
        return None;
    }
    Some(arg.to_array(1).and_then(|array| {
        let floats = cast(&array, &DataType::Float64)?;
        let rounded = floats.as_primitive::<Float64Type>();
        let rounded: Float64Array = rounded.unary(float::round_even);
        let rounded = cast(&rounded, array.data_type())?;
        match arg {
            ColumnarValue::Scalar(_) => {
                ScalarValue::try_from_array(&rounded, 0).map(ColumnarValue::Scalar)
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(rounded)),
        }
    }))
}

/// Whether a field of moments has one of these names.
fn is_field(field: &ColumnarValue, names: &[&str]) -> bool {
    let ColumnarValue::Scalar(field) = field else { return false };
    matches!(field.try_as_str(), Some(Some(found)) if names
        .iter()
        .any(|name| name.eq_ignore_ascii_case(found.trim_matches(['\'', '"']))))
}

/// Parts of times of day, also of 24:00, which Arrow does not know.
fn midnights(
    parts: ColumnarValue,
    part: &ColumnarValue,
    times: &ColumnarValue,
) -> Result<ColumnarValue> {
    const DAY_US: i64 = 86_400_000_000;
    let times_array = times.to_array(1)?;
    let is_end = |time: Option<i64>| time == Some(DAY_US);
    let microseconds = times_array.as_primitive::<Time64MicrosecondType>();
    if !microseconds.iter().any(is_end) || parts.data_type() != DataType::Int32 {
        return Ok(parts);
    }
    let is_hour = is_field(part, &["hour", "hours"]);
    let found = parts.to_array(microseconds.len())?;
    let found = found.as_primitive::<Int32Type>();
    let ends = if is_hour { 24 } else { 0 };
    let all: Int32Array = (found.iter().zip(microseconds))
        .map(|(part, time)| if is_end(time) { Some(ends) } else { part })
        .collect();
    match times {
        ColumnarValue::Scalar(_) => ScalarValue::try_from_array(&all, 0).map(ColumnarValue::Scalar),
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(all))),
    }
}

/// Years as eras count them: the year before 1 is −1.
fn eras(years: ColumnarValue) -> Result<ColumnarValue> {
    let era = |year: i32| if year <= 0 { year - 1 } else { year };
    Ok(match years {
        ColumnarValue::Scalar(ScalarValue::Int32(Some(year))) => {
            ColumnarValue::Scalar(ScalarValue::Int32(Some(era(year))))
        }
        ColumnarValue::Array(array) if array.data_type() == &DataType::Int32 => {
            let years = array.as_primitive::<Int32Type>();
            if years.values().iter().all(|year| *year > 0) {
                return Ok(ColumnarValue::Array(array));
            }
            let counted: Int32Array = years.unary(era);
            ColumnarValue::Array(Arc::new(counted))
        }
        other => other,
    })
}

/// What a function found, but NULL in rows for which `is_unknown` of its arguments.
fn known(
    found: ColumnarValue,
    args: &[ColumnarValue],
    is_unknown: impl Fn(&ArrayRef, &[ArrayRef], usize) -> bool,
) -> Result<ColumnarValue> {
    // DataFusion may say one thing of all rows: nothing is in an empty array.
    let of_rows = args.iter().find_map(|arg| match arg {
        ColumnarValue::Array(array) => Some(array.len()),
        ColumnarValue::Scalar(_) => None,
    });
    let found = match of_rows {
        Some(rows) => ColumnarValue::Array(found.to_array(rows)?),
        None => found,
    };
    let rows = of_rows.unwrap_or(1);
    let values = found.to_array(rows)?;
    let args = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let unknown: BooleanArray =
        (0..rows).map(|row| Some(is_unknown(&values, &args, row))).collect();
    let known = nullif(&values, &unknown)?;
    match found {
        ColumnarValue::Scalar(_) => {
            ScalarValue::try_from_array(&known, 0).map(ColumnarValue::Scalar)
        }
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(known)),
    }
}

/// Puts the place at which the search begins, the third argument if there is one, to the first element or behind the
/// last. Errors: 22004 for NULL.
fn starts_within(args: &mut ScalarFunctionArgs) -> Result<()> {
    let [lists, _, starts] = args.args.as_slice() else { return Ok(()) };
    let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { args.number_rows };
    let (lists, starts) = (lists.to_array(rows)?, starts.to_array(rows)?);
    let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(()) };
    let starts = cast(&starts, &DataType::Int64)?;
    let starts = starts.as_primitive::<Int64Type>();
    let within = |row: usize| {
        if lists.is_null(row) {
            return Ok(1);
        }
        if starts.is_null(row) {
            let message = "initial position must not be null";
            return Err(external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)));
        }
        Ok(starts.value(row).clamp(1, i64::from(lists.value_length(row)) + 1))
    };
    let starts = (0..rows).map(within).collect::<Result<Vec<i64>>>()?;
    args.args[2] = match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::Int64(Some(starts[0]))),
        false => ColumnarValue::Array(Arc::new(Int64Array::from(starts))),
    };
    Ok(())
}

/// Places of rows in arrays of rows, which DataFusion's function does not compare; `None` for other arrays.
fn position_of_nested(args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    let [lists, values, starts @ ..] = args.args.as_slice() else { return Ok(None) };
    let (lists, values) = (lists.to_array(args.number_rows)?, values.to_array(args.number_rows)?);
    let starts = starts.first().map(|starts| starts.to_array(args.number_rows)).transpose()?;
    let starts = starts.as_ref().map(|starts| starts.as_primitive::<Int64Type>());
    let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(None) };
    if !lists.value_type().is_nested() || lists.value_type() != *values.data_type() {
        return Ok(None);
    }
    let place = |row: usize| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let (items, value) = (lists.value(row), ScalarValue::try_from_array(&values, row)?);
        let begin = starts.map_or(0, |starts| starts.value(row).max(1) as usize - 1);
        for at in begin..items.len() {
            if ScalarValue::try_from_array(&items, at)? == value {
                return Ok(Some(at as u64 + 1));
            }
        }
        Ok(None)
    };
    let found = (0..args.number_rows).map(place).collect::<Result<UInt64Array>>()?;
    Ok(Some(ColumnarValue::Array(Arc::new(found))))
}

/// Memberships, false in rows whose array is empty, whatever is looked for.
fn false_of_empty(found: ColumnarValue, args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let rows = match &found {
        ColumnarValue::Array(found) => found.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let values = found.to_array(rows)?;
    let Some(answers) = values.as_boolean_opt().filter(|answers| answers.null_count() > 0) else {
        return Ok(found);
    };
    let lists = args[0].to_array(rows)?;
    let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(found) };
    let none = |row: usize| lists.is_valid(row) && lists.value_length(row) == 0;
    let settled: BooleanArray = (answers.iter().enumerate())
        .map(|(row, answer)| answer.or_else(|| none(row).then_some(false)))
        .collect();
    match found {
        ColumnarValue::Scalar(_) => {
            ScalarValue::try_from_array(&settled, 0).map(ColumnarValue::Scalar)
        }
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(settled))),
    }
}

/// Whether a value that was not found in an array may be its element that is NULL.
fn may_be_null(found: &ArrayRef, args: &[ArrayRef], row: usize) -> bool {
    let Some(lists) = args.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
        return false;
    };
    let is_missing = found.is_valid(row) && !found.as_boolean().value(row);
    is_missing
        && lists.values().logical_null_count() > 0
        && lists.value(row).logical_null_count() > 0
}

fn is_empty(_: &ArrayRef, args: &[ArrayRef], row: usize) -> bool {
    let lists = args.first().and_then(|lists| lists.as_list_opt::<i32>());
    lists.is_some_and(|lists| lists.value_length(row) == 0)
}

fn has_null(_: &ArrayRef, args: &[ArrayRef], row: usize) -> bool {
    args.iter().any(|arg| arg.is_null(row))
}

impl ScalarUDFImpl for Corrected {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.signature.as_ref().unwrap_or_else(|| self.inner.signature())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.counts_seconds(types) {
            return Ok(SqlType::TimestampTz.arrow());
        }
        if self.writes(types) {
            return Ok(DataType::Utf8View);
        }
        if let Some(twin) = self.twin(types) {
            return twin.return_type(types);
        }
        match self.fixed(types.iter()) {
            None => self.bounded(signed(self.inner.return_type(&self.typed(types))?)),
            Some(fixed) => {
                let settled = |ty: &DataType| if is_text(ty) { fixed.clone() } else { ty.clone() };
                self.inner.return_type(&types.iter().map(settled).collect::<Vec<_>>())
            }
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if self.twin(&types).is_some() || self.counts_seconds(&types) || self.writes(&types) {
            return Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)));
        }
        let Some(fixed) = self.fixed(args.arg_fields.iter().map(|field| field.data_type())) else {
            let field = self.inner.return_field_from_args(args)?;
            let ty = self.bounded(signed(field.data_type().clone()))?;
            return Ok(match *field.data_type() == ty {
                true => field,
                false => Arc::new(field.as_ref().clone().with_data_type(ty)),
            });
        };
        let settled = |field: &FieldRef| match is_text(field.data_type()) {
            true => Arc::new(field.as_ref().clone().with_data_type(fixed.clone())),
            false => Arc::clone(field),
        };
        let arg_fields: Vec<FieldRef> = args.arg_fields.iter().map(settled).collect();
        let scalar_arguments = vec![None; arg_fields.len()];
        self.inner.return_field_from_args(ReturnFieldArgs {
            arg_fields: &arg_fields,
            scalar_arguments: &scalar_arguments,
        })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_open = |ty: &DataType| is_text(ty) || ty.is_null();
        if let Some(twin) = self.twin(types) {
            return twin.coerce_types(types);
        }
        if self.counts_seconds(types) {
            return Ok(vec![DataType::Float64]);
        }
        if self.writes(types) {
            return Ok(types.to_vec());
        }
        match (self.inner.name(), types) {
            ("array_has", [DataType::List(item), of]) if item.data_type() == of => {
                return Ok(types.to_vec());
            }
            // A float beside decimals.
            ("array_has", [DataType::List(item), of])
                if item.data_type().is_numeric() && of.is_numeric() =>
            {
                let common = crate::memberships::compared_as(item.data_type(), of);
                let common = common.unwrap_or_else(|| of.clone());
                let items = Arc::new(Field::new_list_field(common.clone(), true));
                return Ok(vec![DataType::List(items), common]);
            }
            // DataFusion knows no coercion to such an element.
            ("array_has", [open, of]) if is_open(open) && is_fixed(of) => {
                let items = Arc::new(Field::new_list_field(of.clone(), true));
                return Ok(vec![DataType::List(items), of.clone()]);
            }
            _ => {}
        }
        match self.correction.fit() {
            None if self.signature.is_some() => self.converted(types),
            None => self.inner.inner().coerce_types(types),
            Some(Fit::Alike) if types.iter().any(is_open) => {
                let known: Vec<DataType> =
                    types.iter().filter(|ty| !is_open(ty)).cloned().collect();
                let is_one = known.windows(2).all(|pair| pair[0] == pair[1]);
                match known.first() {
                    None => self.converted(types),
                    Some(first) if is_one && (is_fixed(first) || holds_fixed(first)) => Ok((types
                        .iter())
                    .map(|ty| if ty.is_null() { first } else { ty }.clone())
                    .collect()),
                    Some(first) if is_one => Ok(vec![first.clone(); types.len()]),
                    Some(_) => Ok(vec![self.converted(&known)?.swap_remove(0); types.len()]),
                }
            }
            Some(Fit::Alike) => self.converted(types),
            Some(Fit::Element) => {
                let item = types.iter().find_map(|ty| match ty {
                    DataType::List(item) => Some(item.data_type()).filter(|item| !is_open(item)),
                    _ => None,
                });
                let Some(item) = item else { return self.converted(types) };
                if is_fixed(item) && types.iter().any(is_text) {
                    return Ok(types.to_vec());
                }
                if let Some(common) = common_decimal(item, types) {
                    let list =
                        DataType::List(Arc::new(Field::new_list_field(common.clone(), true)));
                    let fitted = types.iter().map(|ty| match ty {
                        DataType::List(_) => list.clone(),
                        ty if is_element(ty, types) || is_text(ty) => common.clone(),
                        ty => ty.clone(),
                    });
                    return self.converted(&fitted.collect::<Vec<_>>());
                }
                let fitted =
                    types.iter().map(|ty| if is_text(ty) { item.clone() } else { ty.clone() });
                self.converted(&fitted.collect::<Vec<_>>())
            }
        }
    }

    /// Functions of moments keep the zone in which they give them.
    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        let (correction, signature) = (self.correction, self.signature.clone());
        Some(ScalarUDF::new_from_impl(Corrected { inner, correction, signature }))
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.correction {
            Correction::Refuse(_) => Ok(ExprSimplifyResult::Original(args)),
            // It would become a list of as many expressions.
            _ if self.inner.name() == "array_has" && args.first().is_some_and(is_long_array) => {
                Ok(ExprSimplifyResult::Original(args))
            }
            _ => self.inner.simplify(args, info),
        }
    }

    /// Rewrites a condition on years into one on moments; DataFusion's rewriting is right from the
    /// year 1 on.
    fn preimage(
        &self,
        args: &[Expr],
        value: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        match value {
            Expr::Literal(ScalarValue::Int32(Some(1..)), _) => {
                self.inner.inner().preimage(args, value, info)
            }
            _ => Ok(PreimageResult::None),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Where there are no rows, DataFusion makes none of constants, and then takes the first.
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            args.number_rows = args.number_rows.max(1);
        }
        let promised = args.return_field.data_type().clone();
        let found = self.found(args)?;
        match found.data_type() {
            given if given == promised => Ok(found),
            DataType::Timestamp(..) => found.cast_to(&promised, None).map_err(|_| out_of_range()),
            _ => found.cast_to(&promised, None).map_err(|_| undetermined(self.inner.name())),
        }
    }
}

/// The type of a result: lengths and places, which DataFusion counts by integers without sign, are INTEGER.
fn signed(ty: DataType) -> DataType {
    match ty {
        DataType::UInt64 => DataType::Int32,
        ty => ty,
    }
}

/// 22008: a moment beyond those that timestamps have.
fn out_of_range() -> DataFusionError {
    external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

/// The year 2000, in seconds since 1970.
const YEAR_2000: f64 = 946_684_800.0;

/// Moments of seconds since 1970. Errors: 22008.
fn moments_of(seconds: &ColumnarValue) -> Result<ColumnarValue> {
    let array = seconds.to_array(1)?;
    let moment = |seconds: f64| {
        // PostgreSQL rounds the distance from the year 2000.
        let since = ((seconds - YEAR_2000) * 1e6).round_ties_even();
        // As many as timestamps have.
        if since.abs() < 9.2e18 {
            Ok(since as i64 + YEAR_2000 as i64 * 1_000_000)
        } else {
            Err(out_of_range())
        }
    };
    let moments: TimestampMicrosecondArray =
        array.as_primitive::<Float64Type>().try_unary(moment)?;
    let moments = cast(&moments, &SqlType::TimestampTz.arrow())?;
    match seconds {
        ColumnarValue::Scalar(_) => {
            ScalarValue::try_from_array(&moments, 0).map(ColumnarValue::Scalar)
        }
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(moments)),
    }
}

/// 42804: DataFusion promised values of another type than the function gives for NULLs without one.
fn undetermined(function: &str) -> DataFusionError {
    let message = format!("could not determine the type of the arguments of {function}");
    external(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

impl Corrected {
    /// What DataFusion's function gives, corrected; not looked at whether it is of the type that was promised.
    fn found(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.correction {
            Correction::Refuse(refusal) => check(refusal, &args.args, args.number_rows)?,
            Correction::QuotedFit(_)
            | Correction::BoundedType
            | Correction::Promised
            | Correction::Written => {}
            Correction::StartsWithin => {
                starts_within(&mut args)?;
                if let Some(found) = position_of_nested(&args)? {
                    return Ok(found);
                }
            }
            Correction::RoundedSeconds => {
                if let [seconds] = args.args.as_slice()
                    && seconds.data_type() == DataType::Float64
                {
                    return moments_of(seconds);
                }
            }
            Correction::Seconds => {
                let found = self.inner.inner().invoke_with_args(args)?;
                let microseconds = DataType::Timestamp(TimeUnit::Microsecond, None);
                found.cast_to(&microseconds, None).map_err(|_| out_of_range())?;
                return Ok(found);
            }
            Correction::KnownUnless(is_unknown, _) => {
                let given = args.args.clone();
                let found = known(self.inner.inner().invoke_with_args(args)?, &given, is_unknown)?;
                return match self.inner.name() {
                    "array_has" => false_of_empty(found, &given),
                    _ => Ok(found),
                };
            }
            Correction::FarMoments => {
                let (far, given) = (args.clone(), self.inner.inner());
                let one_by_one = table_functions::function("date_trunc");
                let by_one = |_| one_by_one.inner().invoke_with_args(far);
                return given.invoke_with_args(args).or_else(by_one);
            }
            Correction::HalvesToEven => {
                if let Some(rounded) = rounded(&args.args) {
                    return rounded;
                }
            }
            Correction::Eras => {
                let of_moment =
                    args.args.get(1).is_some_and(|moment| is_day_or_moment(&moment.data_type()));
                if args.args.get(1).is_some_and(|moment| moment.data_type().is_null()) {
                    let null = ScalarValue::try_from(args.return_field.data_type())?;
                    return Ok(ColumnarValue::Scalar(null));
                }
                let is_year = of_moment && is_field(&args.args[0], &["year", "years"]);
                let [part, moment] = args.args.as_slice() else {
                    return self.inner.inner().invoke_with_args(args);
                };
                if let DataType::Time64(TimeUnit::Microsecond) = moment.data_type() {
                    let (part, times) = (part.clone(), moment.clone());
                    return midnights(self.inner.inner().invoke_with_args(args)?, &part, &times);
                }
                let field = self.inner.inner().invoke_with_args(args)?;
                return if is_year { eras(field) } else { Ok(field) };
            }
        }
        self.inner.inner().invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(refusal: Refusal, args: &[f64]) -> Option<String> {
        refusal(args).map(|error| error.state().to_string())
    }

    #[test]
    fn what_has_no_result_is_refused() {
        let refused = |state: &str| Some(state.to_owned());
        assert_eq!(state(logarithm, &[0.0]), refused("2201E"));
        assert_eq!(state(logarithm, &[-1.0]), refused("2201E"));
        assert_eq!(state(logarithm, &[1e-300]), None);
    }
}
