//! Documents as arguments and results, and values of any type as JSON.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use halcyon_json::string::quoted;
use halcyon_json::{Node, Tree, parse};
use halcyon_store::ValueRef;

use super::{Arguments, error};
use halcyon_sql::coerce::arrays;
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::values::{sql_type_of_arrow, value_at};

/// A `jsonb`.
pub(super) fn jsonb(tree: &Tree) -> ScalarValue {
    document(tree.encode())
}

/// A `jsonb` of its bytes.
pub(super) fn document(bytes: Vec<u8>) -> ScalarValue {
    ScalarValue::LargeBinary(Some(bytes))
}

/// A `json`.
pub(super) fn json(text: impl Into<String>) -> ScalarValue {
    ScalarValue::LargeUtf8(Some(text.into()))
}

/// 22023 with a message.
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    error(SqlState::INVALID_PARAMETER_VALUE, message)
}

impl Arguments<'_> {
    /// A `jsonb`. Panics: if it is NULL; functions of documents are strict.
    pub(super) fn node(&self, at: usize) -> Node<'_> {
        match &self.values[at] {
            ScalarValue::LargeBinary(Some(bytes)) => Node::new(bytes),
            other => panic!("{other:?} is no document"),
        }
    }

    /// The steps of a path: an array of texts, or its text. Errors: 22P02.
    pub(super) fn path(&self, at: usize) -> Result<Vec<Option<String>>> {
        match self.list(at)? {
            Some(steps) => Ok(steps
                .iter()
                .map(|step| step.try_as_str().flatten().map(str::to_owned))
                .collect()),
            None => arrays::parse(self.text(at)),
        }
    }

    /// The path that the arguments from one on are.
    pub(super) fn path_from(&self, at: usize) -> Vec<Option<String>> {
        let steps = self.values[at..].iter();
        steps.map(|step| step.try_as_str().flatten().map(str::to_owned)).collect()
    }

    /// An argument of any type as JSON.
    pub(super) fn as_json(&self, at: usize) -> Result<String> {
        let mut out = String::new();
        write_scalar(&self.values[at], &mut out)?;
        Ok(out)
    }

    /// An argument of any type as a document.
    pub(super) fn as_tree(&self, at: usize) -> Result<Tree> {
        match &self.values[at] {
            ScalarValue::LargeBinary(Some(bytes)) => Ok(Node::new(bytes).tree()),
            _ => Ok(parse::tree(&self.as_json(at)?)?),
        }
    }
}

/// Appends a value of any type as JSON.
pub(super) fn write_scalar(value: &ScalarValue, out: &mut String) -> Result<()> {
    let array = value.to_array().map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))?;
    put(array.as_ref(), 0, ",", out);
    Ok(())
}

/// Appends a value of any type as JSON; `between`: what separates the elements or fields of the value itself.
pub(super) fn write_parts(value: &ScalarValue, between: &str, out: &mut String) -> Result<()> {
    let array = value.to_array().map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))?;
    put(array.as_ref(), 0, between, out);
    Ok(())
}

/// Appends one row of a vector as JSON; what lies within its elements and fields is separated by commas alone.
fn put(array: &dyn Array, row: usize, between: &str, out: &mut String) {
    if array.is_null(row) || array.data_type().is_null() {
        return out.push_str("null");
    }
    match array.data_type() {
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            out.push('[');
            for at in 0..items.len() {
                if at > 0 {
                    out.push_str(between);
                }
                put(items.as_ref(), at, ",", out);
            }
            out.push(']');
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let unnamed =
                fields.iter().enumerate().all(|(at, own)| *own.name() == format!("c{at}"));
            out.push('{');
            for (at, (field, column)) in fields.iter().zip(columns).enumerate() {
                if at > 0 {
                    out.push_str(between);
                }
                match unnamed {
                    true => quoted(&format!("f{}", at + 1), out),
                    false => quoted(halcyon_sql::repeated::shown_name(field.name()), out),
                }
                out.push(':');
                put(column.as_ref(), row, ",", out);
            }
            out.push('}');
        }
        ty => {
            let (Some(value), Some(ty)) = (value_at(array, row), sql_type_of_arrow(ty)) else {
                return out.push_str("null");
            };
            put_value(value, ty, out);
        }
    }
}

fn put_value(value: ValueRef<'_>, ty: halcyon_sql::types::SqlType, out: &mut String) {
    use halcyon_sql::types::SqlType;
    let mut text = coerce::to_text(value, ty, &TimeZone::UTC);
    match value {
        _ if matches!(ty, SqlType::Enum(_)) => quoted(&text, out),
        ValueRef::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        ValueRef::Int16(_) | ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Decimal(_) => {
            out.push_str(&text);
        }
        ValueRef::Float32(value) if value.is_finite() => out.push_str(&text),
        ValueRef::Float64(value) if value.is_finite() => out.push_str(&text),
        _ if matches!(ty, SqlType::Json | SqlType::Jsonb) => out.push_str(&text),
        ValueRef::Timestamp(_) => quoted(&text.replacen(' ', "T", 1), out),
        ValueRef::TimestampTz(_) => {
            text = text.replacen(' ', "T", 1);
            quoted(&with_minutes(text), out);
        }
        _ => quoted(&text, out),
    }
}

/// A moment with its offset from UTC in hours and minutes.
fn with_minutes(mut moment: String) -> String {
    if moment.len() > 3 && matches!(moment.as_bytes()[moment.len() - 3], b'+' | b'-') {
        moment.push_str(":00");
    }
    moment
}

/// The text of a moment with a zone as a string of JSON.
pub(super) fn moment(text: &str) -> String {
    let mut out = String::new();
    quoted(&with_minutes(text.replacen(' ', "T", 1)), &mut out);
    out
}
