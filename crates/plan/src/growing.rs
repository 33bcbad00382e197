//! Bounds for functions whose result may be far larger than their arguments.
//!
//! `repeat('x', 2000000000)` takes its memory at once: nobody can stop an allocator in between, and
//! DataFusion's `rpad` panics when a length does not fit. So each such function is wrapped: the size of the
//! results for a whole batch is estimated first. Beyond [`BYTES_MAX`] the error is 54000, PostgreSQL's
//! "requested length too large"; and if the statement may not have that much memory, 53200.
//!
//! Every scalar function is in one of two lists: [`GROWING`] says by which rule results grow, and the list of
//! the test `every_function_is_in_one_list` has the functions whose results have a fixed size or are parts of
//! their arguments. `||` is a function too ([`crate::concatenation`]).

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

use memchr::memmem;

use crate::interrupts::go_on;
use halcyon_scan::wide::{self, ELEMENT_BYTES, row_sizes};

/// The most bytes that the results of one call may have, over all rows of a batch.
const BYTES_MAX: u64 = 256 << 20;
/// The most characters of an argument of [`Growth::Short`].
const CHARACTERS_MAX: usize = 255;
/// Scalars from this size on are counted once for every row that they may become.
const LARGE_SCALAR: u64 = 64 << 10;

/// The most bytes of a result that becomes a constant of a plan: the passes over a plan copy and write down its constants,
/// and nobody can end a copy.
const FOLDED_BYTES_MAX: u64 = 4 << 20;

thread_local! {
    /// Whether this thread makes constants of calls.
    static FOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, which makes constants of calls but leaves those with large results for the run of the plan.
pub(crate) fn folding<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            FOLDS.set(self.0);
        }
    }
    let _before = Before(FOLDS.replace(true));
    work()
}

/// The functions whose results may be far larger than their arguments, and the rules by which they grow.
const GROWING: &[(&str, Growth)] = &[
    ("array_append", Growth::Linear { times: 1 }),
    ("array_cat", Growth::Linear { times: 1 }),
    ("array_concat", Growth::Linear { times: 1 }),
    ("array_prepend", Growth::Linear { times: 1 }),
    ("array_repeat", Growth::Repeated { floor: ELEMENT_BYTES }),
    ("array_replace", Growth::Elements { of: 0, each: 2 }),
    ("array_replace_all", Growth::Elements { of: 0, each: 2 }),
    ("array_replace_n", Growth::Elements { of: 0, each: 2 }),
    ("array_resize", Growth::Resized),
    ("array_to_string", Growth::Elements { of: 0, each: 1 }),
    ("array_union", Growth::Linear { times: 1 }),
    ("arrays_zip", Growth::Linear { times: 2 }),
    ("concat", Growth::Linear { times: 1 }),
    ("concat_ws", Growth::Linear { times: 2 }),
    ("decode", Growth::Linear { times: 1 }),
    ("encode", Growth::Linear { times: 2 }),
    ("initcap", Growth::Linear { times: 1 }),
    ("levenshtein", Growth::Short),
    ("like_escape", Growth::Linear { times: 2 }),
    ("lower", Growth::Linear { times: 1 }),
    ("lpad", Growth::Padded),
    ("make_array", Growth::Linear { times: 1 }),
    ("map", Growth::Linear { times: 2 }),
    // Unicode's longest compatible decomposition has eleven times the bytes.
    ("normalize", Growth::Linear { times: 11 }),
    ("overlay", Growth::Linear { times: 1 }),
    ("quote_ident", Growth::Linear { times: 2 }),
    ("quote_literal", Growth::Linear { times: 4 }),
    ("quote_nullable", Growth::Linear { times: 4 }),
    ("range", Growth::Stepped),
    ("regexp_replace", Growth::Matched),
    ("repeat", Growth::Repeated { floor: 0 }),
    ("replace", Growth::Replaced),
    ("reverse", Growth::Linear { times: 1 }),
    ("rpad", Growth::Padded),
    ("similar_parts", Growth::Linear { times: 9 }),
    ("similar_to_escape", Growth::Linear { times: 3 }),
    ("string_to_array", Growth::Split),
    ("textcat", Growth::Linear { times: 1 }),
    // One reference per character, besides the result.
    ("translate", Growth::Linear { times: 20 }),
    ("unistr", Growth::Linear { times: 1 }),
    ("upper", Growth::Linear { times: 1 }),
];

/// The functions of `all` that grow, bounded, to be registered over the others.
pub(crate) fn bounded(all: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    all.iter().filter_map(bound_if_growing).collect()
}

/// The function, bounded if it grows.
pub(crate) fn bound(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    bound_if_growing(&function).unwrap_or(function)
}

fn bound_if_growing(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    let at = GROWING.binary_search_by_key(&function.name(), |(name, _)| name).ok()?;
    let (inner, growth) = (Arc::clone(function), GROWING[at].1);
    Some(Arc::new(ScalarUDF::new_from_impl(Bounded { inner, growth })))
}

/// The rule by which a result's size follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument, at least `floor` bytes, as often as the second says.
    Repeated { floor: u64 },
    /// At least as many characters as the second argument.
    Padded,
    /// As many elements as the second argument, each the third or NULL.
    Resized,
    /// For each element of an argument the argument `each` besides.
    Elements { of: usize, each: usize },
    /// The third argument in place of each occurrence of the second in the first.
    Replaced,
    /// The third argument in place of each match of a pattern in the first.
    Matched,
    /// An element for each character.
    Split,
    /// At most so many times as many bytes as all arguments together.
    Linear { times: u64 },
    /// From the first argument to the second, or from 0 to the only one, by the third.
    Stepped,
    /// A number, which takes as much time as the product of the lengths of the arguments: these are bounded.
    Short,
}

/// Bytes that a call may give, all rows together.
struct Estimate {
    bytes: u64,
    /// Whether the call gives that much, and not perhaps less.
    is_exact: bool,
}

impl Growth {
    fn estimate(self, args: &[ColumnarValue], rows: usize) -> Result<Option<Estimate>> {
        let exactly = |bytes| Ok(Some(Estimate { bytes, is_exact: true }));
        let at_most = |bytes| Ok(Some(Estimate { bytes, is_exact: false }));
        let times = |sizes: Vec<u64>, counts: Vec<u64>| -> u64 {
            let products = sizes.into_iter().zip(counts).map(|(size, n)| size.saturating_mul(n));
            products.fold(0, u64::saturating_add)
        };
        match (self, args) {
            (Growth::Repeated { floor }, [of, count, ..]) => {
                let sizes = sizes(of, rows)?.into_iter().map(|size| size.max(floor)).collect();
                exactly(times(sizes, counts(count, rows)?))
            }
            (Growth::Padded, [text, count, ..]) => {
                // One reference per character of the text, besides the result.
                let text = total(text, rows).saturating_mul(ELEMENT_BYTES);
                let padded = counts(count, rows)?.into_iter().fold(0, u64::saturating_add);
                match padded > BYTES_MAX {
                    true => exactly(padded),
                    false => at_most(padded.saturating_add(text)),
                }
            }
            (Growth::Resized, [_, count, rest @ ..]) => {
                let each = match rest {
                    [each, ..] => sizes(each, rows)?,
                    [] => vec![ELEMENT_BYTES; rows],
                };
                let each = each.into_iter().map(|size| size.max(ELEMENT_BYTES)).collect();
                exactly(times(each, counts(count, rows)?))
            }
            (Growth::Elements { of, each }, args) if args.len() > of.max(each) => {
                at_most(times(sizes(&args[each], rows)?, elements(&args[of], rows)?))
            }
            (Growth::Replaced, [text, from, to]) => replaced(text, from, to, rows).map(Some),
            (Growth::Matched, [text, _, to, ..]) => {
                let places = sizes(text, rows)?.into_iter().map(|size| size + 1).collect();
                at_most(times(sizes(to, rows)?, places))
            }
            (Growth::Split, [text, ..]) => {
                let sizes = sizes(text, rows)?.into_iter();
                at_most(sizes.map(|size| size.saturating_mul(ELEMENT_BYTES)).sum())
            }
            (Growth::Linear { times }, args) => {
                let bytes = args.iter().map(|arg| total(arg, rows)).sum::<u64>();
                at_most(times.saturating_mul(bytes))
            }
            (Growth::Stepped, [end]) => exactly(times(vec![8; rows], counts(end, rows)?)),
            (Growth::Stepped, [start, end, rest @ ..]) => stepped(start, end, rest.first(), rows),
            _ => Ok(None),
        }
    }
}

/// Bytes of all rows of an argument.
pub(crate) fn total(value: &ColumnarValue, rows: usize) -> u64 {
    match value {
        ColumnarValue::Array(array) => wide::total(array),
        ColumnarValue::Scalar(ScalarValue::List(list)) => {
            let list: ArrayRef = Arc::clone(list) as _;
            wide::total(&list).saturating_mul(rows as u64)
        }
        ColumnarValue::Scalar(scalar) => {
            let text = scalar.try_as_str().flatten().map_or(0, str::len);
            (text as u64).saturating_mul(rows as u64)
        }
    }
}

/// Bytes of each row of an argument.
fn sizes(value: &ColumnarValue, rows: usize) -> Result<Vec<u64>> {
    match value {
        ColumnarValue::Array(array) => Ok(row_sizes(array)),
        ColumnarValue::Scalar(scalar) => {
            let text = scalar.try_as_str().flatten().map(|text| text.len() as u64);
            let size = match text {
                Some(size) => size,
                None => row_sizes(&scalar.to_array()?).first().copied().unwrap_or(0),
            };
            Ok(vec![size; rows])
        }
    }
}

/// How many elements the array of each row has.
fn elements(value: &ColumnarValue, rows: usize) -> Result<Vec<u64>> {
    let array = match value {
        ColumnarValue::Array(array) => Arc::clone(array),
        ColumnarValue::Scalar(scalar) => scalar.to_array()?,
    };
    let DataType::List(_) = array.data_type() else { return Ok(vec![0; rows]) };
    let lists = array.as_list::<i32>();
    let length = |row| u64::try_from(lists.value_length(row)).unwrap_or(0);
    Ok((0..rows).map(|row| length(row.min(lists.len() - 1))).collect())
}

/// The argument's integers as counts: 0 for NULL and below zero.
fn counts(value: &ColumnarValue, rows: usize) -> Result<Vec<u64>> {
    let integers = integers(value, rows)?;
    let integers = integers.as_primitive::<Int64Type>();
    Ok(integers.iter().map(|count| u64::try_from(count.unwrap_or(0)).unwrap_or(0)).collect())
}

/// The size of replaced texts: of those that may be too large by the number of occurrences, of others at most.
fn replaced(
    text: &ColumnarValue,
    from: &ColumnarValue,
    to: &ColumnarValue,
    rows: usize,
) -> Result<Estimate> {
    let (texts, froms, tos) = (sizes(text, rows)?, sizes(from, rows)?, sizes(to, rows)?);
    let most = |row: usize| match froms[row] {
        0 => texts[row],
        from => texts[row].saturating_add((texts[row] / from).saturating_mul(tos[row])),
    };
    let bytes = (0..rows).map(most).fold(0, u64::saturating_add);
    if bytes <= BYTES_MAX {
        return Ok(Estimate { bytes, is_exact: false });
    }
    let of = |value: &ColumnarValue| -> Result<ArrayRef> {
        Ok(arrow::compute::cast(&value.to_array(rows)?, &DataType::Utf8View)?)
    };
    let (text, from) = (of(text)?, of(from)?);
    let (text, from) = (text.as_string_view(), from.as_string_view());
    let exact = |row: usize| match (text.is_null(row) || from.is_null(row), from.value(row)) {
        (true, _) => 0,
        (_, "") => texts[row],
        (_, what) => {
            let found = memmem::find_iter(text.value(row).as_bytes(), what).count() as u64;
            texts[row].saturating_add(found.saturating_mul(tos[row]))
        }
    };
    let mut bytes = 0u64;
    for row in 0..rows {
        go_on()?;
        bytes = bytes.saturating_add(exact(row));
    }
    Ok(Estimate { bytes, is_exact: true })
}

/// The size of series of integers, or of days: other moments have steps of at least a day here.
fn stepped(
    start: &ColumnarValue,
    end: &ColumnarValue,
    step: Option<&ColumnarValue>,
    rows: usize,
) -> Result<Option<Estimate>> {
    let whole = |value: &ColumnarValue| matches!(value.data_type(), DataType::Int64);
    if !whole(start) || !whole(end) || step.is_some_and(|step| !whole(step)) {
        return Ok(None);
    }
    let one = ColumnarValue::Scalar(ScalarValue::Int64(Some(1)));
    let [start, end, step] = [start, end, step.unwrap_or(&one)].map(|value| integers(value, rows));
    let (start, end, step) = (start?, end?, step?);
    let of = |array: &ArrayRef, row| array.as_primitive::<Int64Type>().value(row);
    let count = |row: usize| {
        let step = of(&step, row).unsigned_abs().max(1);
        of(&start, row).abs_diff(of(&end, row)) / step + 1
    };
    let bytes = (0..rows).map(|row| count(row).saturating_mul(8)).fold(0, u64::saturating_add);
    Ok(Some(Estimate { bytes, is_exact: true }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    /// Errors: 22023 for texts that are too long, as in PostgreSQL.
    fn check_lengths(&self, args: &[ColumnarValue]) -> Result<()> {
        for array in ColumnarValue::values_to_arrays(args)? {
            if !array.data_type().is_string() {
                continue;
            }
            let texts = arrow::compute::cast(&array, &DataType::Utf8View)?;
            let is_long = |text: &str| text.chars().nth(CHARACTERS_MAX).is_some();
            if texts.as_string_view().iter().flatten().any(is_long) {
                let name = self.inner.name();
                let message = format!(
                    "{name} argument exceeds maximum length of {CHARACTERS_MAX} characters"
                );
                let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
                return Err(external(error));
            }
        }
        Ok(())
    }

    /// Refuses results that would be too large. Errors: 54000, 53200.
    fn check(&self, args: &[ColumnarValue], number_rows: usize) -> Result<()> {
        let is_scalar = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { number_rows };
        let Some(Estimate { bytes, is_exact }) = self.growth.estimate(args, rows)? else {
            return Ok(());
        };
        if is_exact && bytes > BYTES_MAX {
            let error =
                SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large");
            return Err(external(error.detail(format!(
                "{} would give {bytes} bytes or more; {BYTES_MAX} is the limit.",
                self.inner.name()
            ))));
        }
        if FOLDS.get() && bytes > FOLDED_BYTES_MAX {
            let message = "the result is too large for a constant of a plan";
            return Err(external(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        let times = if is_scalar && bytes >= LARGE_SCALAR { number_rows as u64 } else { 1 };
        SqlError::unless_value_refused(bytes.saturating_mul(times.max(1))).map_err(external)
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
        go_on()?;
        if self.growth == Growth::Short {
            self.check_lengths(&args.args)?;
        }
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

    /// Scalar functions whose results have a fixed size, or are parts of their arguments or lists of them.
    #[rustfmt::skip] // as many names in a line as fit
    const BOUNDED_BY_THEMSELVES: &[&str] = &[
        "__ordinals", "abbrev", "abs", "acos", "acosd", "acosh", "age", "age_zoned", "array\u{1}all", "array\u{1}any", "array\u{1}gathered", "array\u{1}key",
        "array\u{1}set", "array\u{1}slice", "array_add", "array_any_value",
        "array_avg", "array_compact", "array_dims", "array_distance", "array_distinct",
        "array_element", "array_except", "array_fill", "array_has", "array_has_all", "array_has_any",
        "array_intersect", "array_length", "array_max", "array_min", "array_ndims", "array_normalize",
        "array_pop_back", "array_pop_front", "array_position", "array_positions", "array_product",
        "array_remove", "array_remove_all", "array_remove_n", "array_reverse", "array_scale", "array_slice",
        "array_sort", "array_subtract", "array_sum", "arrow_cast", "arrow_field", "arrow_metadata",
        "arrow_try_cast", "arrow_typeof", "ascii", "asin", "asind", "asinh", "atan", "atan2", "atan2d",
        "atand", "atanh", "bit_count", "bit_length", "bitwise_not", "bytealike", "broadcast", "btrim", "bucket_of_thresholds",
        "bytes_btrim", "bytes_length", "bytes_ltrim", "bytes_overlay", "bytes_position", "bytes_rtrim", "bytes_substr", "cardinality", "cast\u{1}told", "cast_to_type", "cbrt", "ceil", "character_length", "chr",
        "clock_timestamp", "coalesce",
        // Asks for the memory of each key by itself; the others change letters one by one.
        "collation\u{1}key", "collation\u{1}lower", "collation\u{1}text", "collation\u{1}upper",
        "contains", "convert_from", "convert_to", "cos", "cosd", "cosh", "cosine_distance", "cot", "cotd",
        "current_catalog", "current_database", "current_date", "current_role", "current_schema",
        "current_time", "current_timestamp", "current_user", "currval", "date_bin", "date_part", "date_trunc",
        "degrees", "digest", "div", "empty", "ends_with",
        // Labels of one type, which the catalog holds.
        "enum_first", "enum_last", "enum_range", "exp", "extract_fraction", "extract_refused",
        "extract_whole", "factorial", "family", "file_row_index", "find_in_set", "flatten", "floor", "format", "format\u{1}list", "is_normalized",
        "from_unixtime", "gcd", "generate_series", "get_bit", "get_byte", "get_field", "greatest",
        "hashtext", "hashtextextended", "hmac", "host", "hostmask", "inet\u{1}+", "inet\u{1}-", "inet_merge",
        "inet_same_family",
        "inner_product", "input_file_name", "interval_divide", "interval_multiply", "interval_trunc", "isfinite", "isnan",
        "moment\u{1}minus", "moment\u{1}plus",
        "iszero", "justify_days", "justify_hours", "justify_interval", "lastval", "lcm", "least", "left",
        "ln", "localtime", "localtimestamp", "log", "log10", "log2", "ltrim", "make_date",
        "make_interval", "make_time", "make_timestamp", "make_timestamptz", "map_entries", "map_extract",
        "map_keys", "map_values", "masklen", "md5", "min_scale", "named_struct", "nanvl", "netmask", "network", "nextval", "now", "nullif",
        "num_nonnulls", "num_nulls", "nvl", "nvl2", "octet_length", "parse_ident", "pg_backend_pid", "pi",
        "pow", "power", "radians", "random", "regexp_count",
        "regexp_instr", "regexp_like", "regexp_match", "regexp_match_lists", "regexp_split_to_array",
        "regexp_substr", "right", "round", "rtrim", "scale", "seconds_rounded", "session_user", "set_bit", "set_byte", "set_masklen", "setval",
        "sha224", "sha256", "sha384", "sha512", "sign", "signum", "sin", "sind", "sinh",
        "split_part", "sqrt", "starts_with", "statement_timestamp", "strpos", "struct", "substr",
        "substr_index", "substring_by_pattern", "tan", "tand", "tanh", "time_add", "time_difference", "time_subtract",
        "timestamp_difference", "timezone", "to_char", "to_char_zoned", "to_date", "to_hex", "to_local_time",
        "to_number", "to_time", "to_timestamp", "to_timestamp_by_pattern", "to_timestamp_micros",
        "to_timestamp_millis", "to_timestamp_nanos", "to_timestamp_seconds", "to_unixtime", "today",
        "transaction_timestamp", "trim_array", "trunc", "try_cast_to_type", "union_extract", "union_tag",
        "user", "uuid", "version", "width_bucket", "with_metadata",
    ];

    #[test]
    fn every_function_is_in_one_list() {
        let all: std::collections::BTreeSet<String> = crate::setup::scalar_names().collect();
        let grows = |name: &str| GROWING.iter().any(|(grown, _)| *grown == name);
        // Documents are parts of their arguments, or hold each of these once.
        let of_documents = |name: &str| {
            name.contains("json")
                || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        };
        let known =
            |name: &str| grows(name) || BOUNDED_BY_THEMSELVES.contains(&name) || of_documents(name);
        let unknown: Vec<&String> = all.iter().filter(|name| !known(name)).collect();
        assert!(
            unknown.is_empty(),
            "say in GROWING how large the results of {unknown:?} are, or list them here"
        );
        for name in BOUNDED_BY_THEMSELVES.iter().chain(GROWING.iter().map(|(name, _)| name)) {
            assert!(all.contains(*name), "{name} is no function");
        }
        assert!(GROWING.is_sorted_by_key(|(name, _)| *name));
    }
}
