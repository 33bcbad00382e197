//! Functions that are evaluated value by value: those over arrays, regular expressions and names, which
//! the table of [`halcyon_value`] cannot hold, because the types there are columns' and nothing but
//! `core` is used. [`system_columns`] are functions of a row, which no statement can call by name; those of
//! [`zoned`] depend on the session's time zone.
//!
//! Each file has the rows of one function, or of a few that share their code. Words: a *row*
//! ([`Row`]) takes arguments of certain kinds; several rows may share a name.
//! Invariants, checked by `rows_are_sound`: names are lower case, every row has a purpose.
//! Cost: arguments become single values, so a call costs allocations.

#![forbid(unsafe_code)]

mod array_compared;
mod array_fill;
mod array_parts;
mod array_positions;
mod bytes_like;
pub mod casts;
mod chr;
pub mod collation;
pub mod compared_constants;
pub mod corrected;
mod encode;
pub mod enumerations;
pub mod fields;
mod format;
mod growing_text;
mod json;
mod json_made;
mod json_parts;
mod json_path;
pub mod like;
pub mod long_lists;
pub mod memberships;
pub mod nested;
mod network;
mod normalize;
mod parse_ident;
mod pgcrypto;
pub mod products;
mod quote;
mod regex;
mod regexp_count;
mod regexp_match;
mod regexp_replace;
mod regexp_split;
mod regexp_substr;
mod search;
pub mod system_columns;
pub mod table_functions;
mod thresholds;
mod to_hex;
mod unistr;
pub mod volatile_order;
pub mod zone_function;
pub mod zoned;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::misfits::{self, no_function};
use halcyon_sql::types::SqlType;

use halcyon_sql::values::shown_type;

/// Errors: 57014 if the statement that this thread plans or runs is to end, 53200 if it was refused memory.
fn go_on() -> DfResult<()> {
    SqlError::unless_interrupted().map_err(external)
}

/// The kind of values that an argument may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// An integer, converted to BIGINT.
    Integer,
    Bool,
    Bytes,
    Json,
    Jsonb,
    /// An `inet` or `cidr`, unconverted.
    Network,
    Cidr,
    /// An array of texts, unconverted, or its text.
    Path,
    /// Any type, written as text.
    Written,
    /// An array.
    List,
    /// What the call's array has as elements.
    Element,
    /// Any type, unconverted.
    Each,
}

impl Kind {
    /// The type to which an argument is converted, `None` if the kind does not take the type.
    /// `element`: the type of the elements of the call's arrays.
    fn brings(self, ty: Option<&DataType>, element: &DataType) -> Option<DataType> {
        let to = match self {
            Kind::Text | Kind::Written | Kind::Path => DataType::Utf8View,
            Kind::Json => DataType::LargeUtf8,
            Kind::Jsonb => DataType::LargeBinary,
            Kind::Cidr => SqlType::Cidr.arrow(),
            Kind::Network => match ty {
                Some(ty) if *ty == SqlType::Cidr.arrow() => ty.clone(),
                _ => SqlType::Inet.arrow(),
            },
            Kind::Integer => DataType::Int64,
            Kind::Bool => DataType::Boolean,
            Kind::Bytes => DataType::BinaryView,
            Kind::List => list_of(element.clone()),
            Kind::Element => element.clone(),
            Kind::Each => ty.cloned().unwrap_or(DataType::Utf8View),
        };
        let Some(ty) = ty.filter(|ty| !ty.is_null()) else { return Some(to) };
        let takes = match self {
            Kind::Text => is_text(ty),
            Kind::Json => *ty == DataType::LargeUtf8,
            Kind::Jsonb => *ty == DataType::LargeBinary,
            Kind::Cidr | Kind::Network => *ty == to,
            Kind::Path => {
                let DataType::List(item) = ty else { return is_text(ty).then_some(to) };
                let texts = is_text(item.data_type()) || item.data_type().is_null();
                return texts.then(|| ty.clone());
            }
            Kind::Integer => ty.is_integer(),
            Kind::Bool => *ty == DataType::Boolean,
            Kind::Bytes => matches!(ty, DataType::Binary | DataType::BinaryView),
            Kind::Written | Kind::Each => true,
            Kind::List => matches!(ty, DataType::List(_)),
            Kind::Element => meets(element, ty),
        };
        takes.then_some(to)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Bool => "boolean",
            Kind::Bytes => "bytea",
            Kind::Json => "json",
            Kind::Jsonb => "jsonb",
            Kind::Network => "inet",
            Kind::Cidr => "cidr",
            Kind::Path => "text[]",
            Kind::Written | Kind::Each => "any",
            Kind::List => "array",
            Kind::Element => "element",
        }
    }
}

/// Whether a value becomes an element of arrays of this type.
fn meets(element: &DataType, ty: &DataType) -> bool {
    element == ty
        || element.is_numeric() && ty.is_numeric()
        || is_text(element) && is_text(ty)
        || element.is_null()
}

/// Whether values are texts; `json`, which is `LargeUtf8`, is another type.
fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::Utf8View)
}

/// The rule for the type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Text,
    Integer,
    Bool,
    Bytes,
    Json,
    Jsonb,
    BigInt,
    Inet,
    Cidr,
    /// An array of `json`.
    Jsons,
    /// An array of `jsonb`.
    Jsonbs,
    /// An array of text.
    Texts,
    /// An array of arrays of text.
    ListsOfTexts,
    /// An array of INTEGER.
    Integers,
    /// The type of the call's arrays.
    List,
    /// An array of the first argument's type, with as many dimensions as the second one has elements.
    Filled,
}

/// An array type of this element.
fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// A function: a row.
struct Row {
    /// Name of the function.
    name: &'static str,
    /// What the function returns: one sentence, for the guide.
    purpose: &'static str,
    kinds: &'static [Kind],
    /// Number of arguments at the end that may be left out.
    optional: usize,
    /// Whether the last argument may be repeated.
    repeats: bool,
    gives: Gives,
    /// Whether NULL in any argument gives NULL; the meaning is not evaluated then.
    strict: bool,
    eval: fn(&Arguments<'_>) -> Result<ScalarValue>,
    /// The same for all rows of a batch at once, where they allow it; `eval` is its slow twin.
    by_batch: Option<ByBatch>,
}

/// The results of arguments for so many rows; `None` if the function does not take them together.
type ByBatch = fn(&[ColumnarValue], usize) -> Result<Option<ArrayRef>>;

impl Row {
    const fn new(
        name: &'static str,
        purpose: &'static str,
        kinds: &'static [Kind],
        gives: Gives,
        eval: fn(&Arguments<'_>) -> Result<ScalarValue>,
    ) -> Row {
        let (optional, repeats, strict, by_batch) = (0, false, true, None);
        Row { name, purpose, kinds, optional, repeats, gives, strict, eval, by_batch }
    }

    /// The row with so many arguments at the end that may be left out.
    const fn optional(mut self, count: usize) -> Row {
        self.optional = count;
        self
    }

    /// The row as one that is also evaluated when an argument is NULL.
    const fn of_null(mut self) -> Row {
        self.strict = false;
        self
    }

    /// The row with a way to take rows of a batch together.
    const fn by_batch(mut self, by_batch: ByBatch) -> Row {
        self.by_batch = Some(by_batch);
        self
    }

    /// The row with its last argument any number of times.
    const fn repeated(mut self) -> Row {
        self.repeats = true;
        self
    }

    /// What the function takes, for the guide.
    fn takes(&self) -> String {
        let required = self.kinds.len() - self.optional;
        let mut kinds: Vec<String> = (self.kinds.iter().enumerate())
            .map(|(at, kind)| match at < required {
                true => kind.name().to_owned(),
                false => format!("[{}]", kind.name()),
            })
            .collect();
        if self.repeats {
            kinds.push("…".to_owned());
        }
        kinds.join(", ")
    }

    fn kind(&self, at: usize) -> Kind {
        self.kinds[at.min(self.kinds.len() - 1)]
    }

    /// The types to which arguments are converted. `None` if the row does not take them.
    fn brings(&self, args: &[Option<DataType>]) -> Option<Vec<DataType>> {
        let least = (self.kinds.len() - self.optional).saturating_sub(usize::from(self.repeats));
        let fits = args.len() >= least && (self.repeats || args.len() <= self.kinds.len());
        if !fits {
            return None;
        }
        let element = self.element(args);
        (args.iter().enumerate())
            .map(|(at, ty)| self.kind(at).brings(ty.as_ref(), &element))
            .collect()
    }

    /// The type of the elements of the call's arrays.
    fn element(&self, args: &[Option<DataType>]) -> DataType {
        let typed = || args.iter().enumerate().filter_map(|(at, ty)| Some((at, ty.as_ref()?)));
        let of_list = typed().find_map(|(_, ty)| match ty {
            DataType::List(item) => Some(item.data_type().clone()),
            _ => None,
        });
        let own = typed().find(|(at, ty)| self.kind(*at) == Kind::Element && !ty.is_null());
        match (of_list, own.map(|(_, ty)| ty.clone())) {
            (Some(list), Some(own)) => wider(list, own),
            (Some(ty), None) | (None, Some(ty)) => ty,
            (None, None) => DataType::Utf8View,
        }
    }

    fn result(&self, args: &[DataType]) -> DataType {
        match self.gives {
            Gives::Text => DataType::Utf8View,
            Gives::Integer => DataType::Int32,
            Gives::Bool => DataType::Boolean,
            Gives::Bytes => DataType::BinaryView,
            Gives::Json => DataType::LargeUtf8,
            Gives::Jsonb => DataType::LargeBinary,
            Gives::BigInt => DataType::Int64,
            Gives::Inet => SqlType::Inet.arrow(),
            Gives::Cidr => SqlType::Cidr.arrow(),
            Gives::Jsons => list_of(DataType::LargeUtf8),
            Gives::Jsonbs => list_of(DataType::LargeBinary),
            Gives::Texts => list_of(DataType::Utf8View),
            Gives::ListsOfTexts => list_of(list_of(DataType::Utf8View)),
            Gives::Integers => list_of(DataType::Int32),
            Gives::List => {
                let list = args.iter().find(|ty| matches!(ty, DataType::List(_)));
                list.cloned().unwrap_or_else(|| list_of(DataType::Utf8View))
            }
            Gives::Filled => list_of(args[0].clone()),
        }
    }
}

/// The type of elements that both types become.
fn wider(list: DataType, own: DataType) -> DataType {
    let is_exact = |ty: &DataType| matches!(ty, DataType::Decimal128(..));
    match () {
        () if list == own || !list.is_numeric() || !own.is_numeric() => {
            if list.is_null() {
                own
            } else {
                list
            }
        }
        () if list.is_floating() || own.is_floating() => DataType::Float64,
        () if is_exact(&list) || is_exact(&own) => {
            let scale = |ty: &DataType| match ty {
                DataType::Decimal128(_, scale) => *scale,
                _ => 0,
            };
            // Whole digits of either type have their places.
            DataType::Decimal128(38, scale(&list).max(scale(&own)))
        }
        () if list == DataType::Int64 || own == DataType::Int64 => DataType::Int64,
        () => list,
    }
}

/// The arguments of a call, as a function reads them.
struct Arguments<'a> {
    values: &'a [ScalarValue],
}

impl Arguments<'_> {
    fn has(&self, at: usize) -> bool {
        at < self.values.len()
    }

    fn is_null(&self, at: usize) -> bool {
        self.values[at].is_null()
    }

    /// A text; NULL reads as the empty one.
    fn text(&self, at: usize) -> &str {
        self.values.get(at).and_then(|value| value.try_as_str().flatten()).unwrap_or_default()
    }

    /// Bytes; NULL reads as none.
    fn bytes(&self, at: usize) -> &[u8] {
        match self.values.get(at) {
            Some(ScalarValue::BinaryView(Some(bytes)) | ScalarValue::Binary(Some(bytes))) => bytes,
            _ => &[],
        }
    }

    /// An integer; NULL reads as 0.
    fn integer(&self, at: usize) -> i64 {
        match self.values.get(at) {
            Some(ScalarValue::Int64(Some(value))) => *value,
            _ => 0,
        }
    }

    /// An integer, or another one where the argument is left out.
    fn integer_or(&self, at: usize, otherwise: i64) -> i64 {
        if self.has(at) { self.integer(at) } else { otherwise }
    }

    /// The elements of an array; `None` for NULL. Errors: 53200.
    fn list(&self, at: usize) -> Result<Option<Vec<ScalarValue>>> {
        match &self.values[at] {
            ScalarValue::List(list) if !self.values[at].is_null() => {
                let items = list.value(0);
                let values = items.len() * size_of::<ScalarValue>();
                // The values and an array that is made of them.
                let bytes = 2 * (values + items.get_array_memory_size());
                SqlError::unless_refused(bytes as u64)?;
                let item =
                    |row| ScalarValue::try_from_array(&items, row).expect("rows of an array");
                Ok(Some((0..items.len()).map(item).collect()))
            }
            _ => Ok(None),
        }
    }

    /// The type of the elements of an argument that is an array.
    fn element(&self, at: usize) -> DataType {
        match self.values[at].data_type() {
            DataType::List(item) => item.data_type().clone(),
            other => other,
        }
    }
}

fn text(text: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8View(Some(text.into()))
}

fn integer(number: usize) -> ScalarValue {
    ScalarValue::Int32(i32::try_from(number).ok())
}

/// An array of these elements.
fn list(items: &[ScalarValue], element: &DataType) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(items, element))
}

/// An array of texts; `None` is NULL. Errors: 53200.
fn texts(items: &[Option<&str>]) -> Result<ScalarValue> {
    let bytes = |item: &Option<&str>| size_of::<ScalarValue>() + item.map_or(0, str::len);
    // The values and the array of them.
    SqlError::unless_refused(2 * items.iter().map(bytes).sum::<usize>() as u64)?;
    let items: Vec<ScalarValue> =
        items.iter().map(|item| ScalarValue::Utf8View(item.map(str::to_owned))).collect();
    Ok(list(&items, &DataType::Utf8View))
}

fn error(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

/// All rows: one table per file.
static TABLES: &[&[Row]] = &[
    quote::ROWS,
    format::ROWS,
    parse_ident::ROWS,
    unistr::ROWS,
    chr::ROWS,
    bytes_like::ROWS,
    collation::ROWS,
    to_hex::ROWS,
    encode::ROWS,
    regexp_match::ROWS,
    regexp_replace::ROWS,
    regexp_split::ROWS,
    regexp_count::ROWS,
    regexp_substr::ROWS,
    array_compared::ROWS,
    array_parts::ROWS,
    array_positions::ROWS,
    array_fill::ROWS,
    thresholds::ROWS,
    json_parts::ROWS,
    json_path::ROWS,
    json_made::ROWS,
    network::ROWS,
    normalize::ROWS,
    pgcrypto::ROWS,
];

/// Stands in the names of functions that statements are rewritten to and no text names.
const INTERNAL: char = '\u{1}';

/// All rows, in the order of the guide.
fn rows() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().copied().flatten()
}

/// Name, arguments and purpose of each row, for the guide.
pub fn shown() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let named = |row: &'static Row| match row.name.split_once(INTERNAL) {
        None => Some(row.name),
        Some((name, "rows")) => Some(name),
        Some(_) => None,
    };
    rows().filter_map(move |row| Some((named(row)?, row.takes(), row.purpose)))
}

/// Whether calls by this name are evaluated here.
pub fn is_ours(name: &str) -> bool {
    rows().any(|row| row.name == name)
}

/// The functions, one for each name, to be registered over DataFusion's.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let mut names: Vec<&'static str> = rows().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(function).collect()
}

/// The function of a name, if calls by this name are evaluated here.
pub fn of_name(name: &str) -> Option<Arc<ScalarUDF>> {
    rows().find(|row| row.name == name).map(|row| function(row.name))
}

fn function(name: &'static str) -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ByValue { name, signature }))
}

/// The row of a name for these arguments; `None` among them stands for an argument without a type.
fn resolve(name: &str, args: &[Option<DataType>]) -> Result<(&'static Row, Vec<DataType>)> {
    let takes = |row: &'static Row| row.brings(args).map(|types| (row, types));
    rows().filter(|row| row.name == name).find_map(takes).ok_or_else(|| {
        let shown = |ty: &Option<DataType>| ty.as_ref().map_or("unknown".into(), shown_type);
        let args: Vec<String> = args.iter().map(shown).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return no_operator(name, &args);
        }
        let name = name.split(INTERNAL).next().unwrap_or(name);
        let known = rows().filter(|row| row.name == name);
        let known: Vec<String> = known.map(|row| format!("{name}({})", row.takes())).collect();
        no_function(name, &args).detail(format!("There is {}.", known.join(", ")))
    })
}

/// 42883: no operator takes these types.
pub fn no_operator(name: &str, args: &[String]) -> SqlError {
    match args {
        [left, right] => misfits::no_operator(left, name, right),
        [operand] => misfits::no_prefix_operator(name, operand),
        _ => misfits::no_prefix_operator(name, ""),
    }
}

/// The types to which a call's arguments are converted. Errors: 42883.
pub fn argument_types(name: &str, args: &[Option<DataType>]) -> Result<Vec<DataType>> {
    resolve(name, args).map(|(_, types)| types)
}

/// Whether a call's argument may be of any type and is written as text.
pub fn is_written(name: &str, at: usize) -> bool {
    rows().any(|row| row.name == name && row.kind(at) == Kind::Written)
}

/// Whether an argument of a function is a path: an array of texts, or its text.
pub fn takes_path(name: &str, at: usize) -> bool {
    rows().any(|row| row.name == name && row.kind(at) == Kind::Path)
}

/// The most bytes that the results of one call may have, over all rows of a batch.
const BYTES_MAX: usize = 256 << 20;

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByValue {
    name: &'static str,
    signature: Signature,
}

impl ByValue {
    /// The row for arguments of these types. DataFusion asks before quoted constants have their types,
    /// so text may stand for any type here.
    fn resolve(&self, args: &[DataType]) -> DfResult<(&'static Row, Vec<DataType>)> {
        let typed: Vec<Option<DataType>> =
            args.iter().map(|ty| (!ty.is_null()).then(|| ty.clone())).collect();
        let untyped = || args.iter().map(|ty| (!ty.is_null() && !is_text(ty)).then(|| ty.clone()));
        resolve(self.name, &typed)
            .or_else(|error| resolve(self.name, &untyped().collect::<Vec<_>>()).map_err(|_| error))
            .map_err(external)
    }
}

impl ScalarUDFImpl for ByValue {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let (_, types) = self.resolve(args)?;
        // Arrow converts no texts to values of so many bytes: a constant in quotes stays one until it is typed.
        let stays = |given: &DataType, to: &DataType| {
            is_text(given) && matches!(to, DataType::FixedSizeBinary(_))
        };
        let settled = args.iter().zip(types);
        Ok(settled.map(|(given, to)| if stays(given, &to) { given.clone() } else { to }).collect())
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        let (row, types) = self.resolve(args)?;
        Ok(row.result(&types))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let count = if is_scalar { 1 } else { args.number_rows };
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let (row, _) = self.resolve(&types)?;
        let result = row.result(&types);
        if let Some(together) = row.by_batch
            && let Some(array) = together(&args.args, count).map_err(external)?
        {
            return Ok(ColumnarValue::Array(array));
        }
        let mut values = Vec::with_capacity(count);
        let mut bytes = 0;
        for at in 0..count {
            let one = |arg: &ColumnarValue| match arg {
                ColumnarValue::Scalar(value) => Ok(value.clone()),
                ColumnarValue::Array(array) => ScalarValue::try_from_array(array, at),
            };
            let arguments = args.args.iter().map(one).collect::<DfResult<Vec<_>>>()?;
            let null = row.strict && arguments.iter().any(ScalarValue::is_null);
            let arguments = Arguments { values: &arguments };
            let value =
                if null { ScalarValue::Null } else { (row.eval)(&arguments).map_err(external)? };
            SqlError::unless_interrupted().map_err(external)?;
            bytes += value.size();
            if bytes > BYTES_MAX {
                let message = "requested length too large";
                return Err(external(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
            }
            values.push(if value.is_null() { ScalarValue::try_from(&result)? } else { value });
        }
        match (is_scalar, values.pop()) {
            (true, Some(value)) => Ok(ColumnarValue::Scalar(value)),
            (_, None) => Ok(ColumnarValue::Array(new_empty_array(&result))),
            (false, Some(last)) => {
                values.push(last);
                Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
        for row in rows() {
            assert_eq!(row.name.to_lowercase(), row.name);
            assert!(row.purpose.ends_with('.'), "{}", row.name);
            assert!(row.optional < row.kinds.len() || row.repeats, "{}", row.name);
        }
    }
}
