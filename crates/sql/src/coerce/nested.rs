//! Arrow's lists and structs as text, in PostgreSQL's notation: `{1,NULL,"a b"}`, `(1,,"a b")`.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;

use super::arrays::{push_element, quote};
use super::{TimeZone, write};
use crate::values::{sql_type_of_arrow, value_at};

/// Whether values of a type are written here.
pub fn is_nested(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
    )
}

fn is_null(array: &dyn Array, row: usize) -> bool {
    array.is_null(row) || array.data_type() == &DataType::Null
}

/// Appends a cell as text; nothing for NULL. Panics: if `row` is out of range.
pub fn write_cell(array: &dyn Array, row: usize, zone: &TimeZone, out: &mut String) {
    if is_null(array, row) {
        return;
    }
    match array.data_type() {
        DataType::List(_) => write_items(array.as_list::<i32>().value(row).as_ref(), zone, out),
        DataType::LargeList(_) => {
            write_items(array.as_list::<i64>().value(row).as_ref(), zone, out);
        }
        DataType::FixedSizeList(..) => {
            write_items(array.as_fixed_size_list().value(row).as_ref(), zone, out);
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns();
            out.push('(');
            for (at, field) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let mut text = String::new();
                write_cell(field.as_ref(), row, zone, &mut text);
                let special = |c: char| c.is_ascii_whitespace() || "\"\\(),".contains(c);
                match !is_null(field, row) && (text.is_empty() || text.contains(special)) {
                    true => quote(&text, "\"\"", out),
                    false => out.push_str(&text),
                }
            }
            out.push(')');
        }
        ty => {
            if let (Some(value), Some(ty)) = (value_at(array, row), sql_type_of_arrow(ty)) {
                write(value, ty, zone, out);
            }
        }
    }
}

fn write_items(items: &dyn Array, zone: &TimeZone, out: &mut String) {
    out.push('{');
    for row in 0..items.len() {
        if row > 0 {
            out.push(',');
        }
        if is_null(items, row) {
            out.push_str("NULL");
            continue;
        }
        if matches!(items.data_type(), DataType::List(_)) {
            write_cell(items, row, zone, out);
            continue;
        }
        let mut text = String::new();
        write_cell(items, row, zone, &mut text);
        push_element(out, Some(&text));
    }
    out.push('}');
}
