//! Functions of their arguments alone: names, arrays, sizes in words.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};

use super::*;
use crate::{describe, user_types};

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    define("pg_size_pretty", (1, 1), Gives::Text, PURE, |_, args| {
        Ok(text_or_null(args[0].int().map(describe::size)))
    }),
    define("format_type", (1, 2), Gives::Text, BOUND, |c, args| {
        let modifier = args.get(1).and_then(Arg::int).map(|m| m as i32);
        let Some(oid) = args[0].oid() else { return Ok(ScalarValue::Null) };
        let name = user_types::format_type(c, oid, modifier);
        Ok(text(name.unwrap_or_else(|| "???".to_owned())))
    }),
    define("pg_encoding_to_char", (1, 1), Gives::Text, PURE, |_, args| {
        Ok(text_or_null(args[0].int().map(|code| encoding(code).to_owned())))
    }),
    define("pg_char_to_encoding", (1, 1), Gives::Int4, PURE, |_, args| {
        let Some(name) = args[0].text() else { return Ok(ScalarValue::Null) };
        let known = ["SQL_ASCII", "UTF8", "LATIN1"].into_iter();
        let code = known.zip([0, 6, 8]).find(|(known, _)| known.eq_ignore_ascii_case(name));
        Ok(ScalarValue::Int32(Some(code.map_or(-1, |(_, code)| code))))
    }),
    define("array_upper", (2, 2), Gives::Int4, PURE, |_, args| {
        let length = args[0].list().map(|list| list.len()).filter(|n| *n > 0);
        let first = args[1].int() == Some(1);
        Ok(ScalarValue::Int32(length.filter(|_| first).map(|n| n as i32)))
    }),
    define("array_lower", (2, 2), Gives::Int4, PURE, |_, args| {
        let some = args[0].list().is_some_and(|list| !list.is_empty());
        let first = args[1].int() == Some(1);
        Ok(ScalarValue::Int32((some && first).then_some(1)))
    }),
    define("_pg_expandarray", (1, 1), Gives::Pairs, PURE, |_, args| {
        let Some(values) = args[0].ints() else { return Ok(ScalarValue::Null) };
        let x = Int32Array::from_iter(values.iter().map(|v| v.map(|v| v as i32)));
        let n = Int32Array::from_iter_values(1..=values.len() as i32);
        let columns: Vec<ArrayRef> = vec![Arc::new(x), Arc::new(n)];
        let pairs: ArrayRef = Arc::new(StructArray::try_new(pair_fields(), columns, None)?);
        Ok(list_of(pairs))
    }),
    // What `information_schema.columns` tells of a type and its modifier.
    define("_pg_char_max_length", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, modifier| match oid {
            1042 | 1043 => modifier.map(|modifier| modifier - 4),
            _ => None,
        }))
    }),
    define("_pg_char_octet_length", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, modifier| match oid {
            25 | 1042 | 1043 => Some(modifier.map_or(1 << 30, |modifier| (modifier - 4) * 4)),
            _ => None,
        }))
    }),
    define("_pg_numeric_precision", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, modifier| match oid {
            21 => Some(16),
            23 => Some(32),
            20 => Some(64),
            700 => Some(24),
            701 => Some(53),
            1700 => modifier.map(|modifier| (modifier - 4) >> 16 & 0xffff),
            _ => None,
        }))
    }),
    define("_pg_numeric_precision_radix", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, _| match oid {
            20 | 21 | 23 | 700 | 701 => Some(2),
            1700 => Some(10),
            _ => None,
        }))
    }),
    define("_pg_numeric_scale", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, modifier| match oid {
            20 | 21 | 23 => Some(0),
            1700 => modifier.map(|modifier| (modifier - 4) & 0x7ff),
            _ => None,
        }))
    }),
    define("_pg_datetime_precision", (2, 2), Gives::Int4, PURE, |_, args| {
        Ok(of_type(args, |oid, modifier| match oid {
            1082 => Some(0),
            1083 | 1114 | 1184 | 1266 => Some(modifier.unwrap_or(6)),
            1186 => Some(modifier.map_or(6, |modifier| match modifier & 0xffff {
                0xffff => 6,
                digits => digits,
            })),
            _ => None,
        }))
    }),
    // The subscripts of a list: from 1, those of a vector from 0.
    define("generate_subscripts", (2, 2), Gives::Subscripts, PURE, |_, args| {
        let Some(list) = args[0].list() else { return Ok(ScalarValue::Null) };
        let first = args[1].int() == Some(1);
        let told = args[0].field().metadata().get(PG_TYPE_KEY);
        let is_vector = told.is_some_and(|told| told.ends_with("vector"));
        let from = i32::from(!is_vector);
        let count = if first { list.len() as i32 } else { 0 };
        Ok(list_of(Arc::new(Int32Array::from_iter_values(from..from + count))))
    }),
    // Elements of an `oidvector` of the exported tables, which is text there: `23 25`.
    define("pg_vector_elements", (1, 1), Gives::Oids, PURE, |_, args| {
        let Some(text) = args[0].text() else { return Ok(ScalarValue::Null) };
        let ids = Int32Array::from_iter(text.split_whitespace().map(|id| id.parse().ok()));
        Ok(list_of(Arc::new(ids)))
    }),
    // `ARRAY(SELECT …)` of no rows is an empty array, not NULL.
    define("pg_array_or_empty", (1, 1), Gives::Same, PURE, |_, args| {
        let element = match args[0].0.data_type() {
            DataType::List(field) => field.data_type().clone(),
            _ => DataType::Utf8View,
        };
        let empty = || arrow::array::new_empty_array(&element);
        Ok(list_of(args[0].list().unwrap_or_else(empty)))
    }),
    // `age` of a transaction's number: numbers do not wrap here, so nothing ever gets old.
    define("pg_xid_age", (1, 1), Gives::Int4, PURE, |_, args| {
        Ok(if args[0].is_null() { ScalarValue::Null } else { ScalarValue::Int32(Some(0)) })
    }),
    define("mxid_age", (1, 1), Gives::Int4, PURE, |_, args| {
        Ok(if args[0].is_null() { ScalarValue::Null } else { ScalarValue::Int32(Some(0)) })
    }),
    // An array of object ids as one of integers, and an element of `oidvector`, whose type an element does not keep.
    define("pg_int4_array", (1, 1), Gives::Int4s, PURE, |_, args| {
        let Some(numbers) = args[0].ints() else { return Ok(ScalarValue::Null) };
        let numbers = numbers.into_iter().map(|number| number.map(|number| number as i32));
        Ok(list_of(Arc::new(Int32Array::from_iter(numbers))))
    }),
    define("pg_vector_element", (1, 1), Gives::Oid, PURE, |_, args| {
        Ok(args[0].oid().map_or(ScalarValue::Null, oid))
    }),
    // `ARRAY(SELECT prefix || x FROM unnest(texts) x)`.
    define("pg_prefix_each", (2, 2), Gives::Texts, PURE, |_, args| {
        let prefix = args[0].text().unwrap_or_default();
        let texts = args[1].texts().unwrap_or_default();
        let texts = texts.iter().map(|text| text.as_ref().map(|text| format!("{prefix}{text}")));
        let values: ArrayRef = Arc::new(arrow::array::StringViewArray::from_iter(texts));
        Ok(list_of(values))
    }),
];

pub(super) fn list_of(values: ArrayRef) -> ScalarValue {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
    ScalarValue::List(Arc::new(ListArray::new(field, offsets, values, None)))
}

fn pair_fields() -> Fields {
    let field = |name| Field::new(name, DataType::Int32, true);
    Fields::from(vec![field("x"), field("n")])
}

/// What is told of a type, by its object id and its modifier; `None` for -1.
fn of_type(args: &[Arg<'_>], told: impl Fn(u32, Option<i32>) -> Option<i32>) -> ScalarValue {
    let modifier = args[1].int().map(|modifier| modifier as i32).filter(|modifier| *modifier >= 0);
    ScalarValue::Int32(args[0].oid().and_then(|oid| told(oid, modifier)))
}

/// Row type of `_pg_expandarray`.
pub(super) fn pair_type() -> DataType {
    DataType::Struct(pair_fields())
}

fn encoding(code: i64) -> &'static str {
    match code {
        0 => "SQL_ASCII",
        6 => "UTF8",
        8 => "LATIN1",
        _ => "",
    }
}
