//! Rights as rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};

use super::text::list_of;
use super::*;
use crate::exported::oid_field;
use crate::{describe, objects};

/// The functions.
pub(super) const FUNCTIONS: &[Definition] =
    &[define("aclexplode", (1, 1), Gives::Rights, BOUND, |context, args| {
        let Some(items) = args[0].texts() else { return Ok(ScalarValue::Null) };
        let rights: Vec<Right> =
            items.iter().flatten().flat_map(|item| rights(context, item)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(rights.iter().map(|r| r.grantor as i32))),
            Arc::new(Int32Array::from_iter_values(rights.iter().map(|r| r.grantee as i32))),
            Arc::new(StringViewArray::from_iter_values(rights.iter().map(|r| r.privilege))),
            Arc::new(rights.iter().map(|r| Some(r.grantable)).collect::<BooleanArray>()),
        ];
        Ok(list_of(Arc::new(StructArray::try_new(row_fields(), columns, None)?)))
    })];

fn row_fields() -> Fields {
    Fields::from(vec![
        oid_field("grantor", "oid", true),
        oid_field("grantee", "oid", true),
        Field::new("privilege_type", DataType::Utf8View, true),
        Field::new("is_grantable", DataType::Boolean, true),
    ])
}

/// Row type of `aclexplode`.
pub(super) fn row_type() -> DataType {
    DataType::Struct(row_fields())
}

/// One right that one role has given another; grantee 0 is PUBLIC.
struct Right {
    grantor: u32,
    grantee: u32,
    privilege: &'static str,
    grantable: bool,
}

/// The rights of an item `grantee=letters/grantor`; none if it is malformed.
fn rights(context: &Context, item: &str) -> Vec<Right> {
    let parsed = || {
        let (grantee, rest) = item.rsplit_once('=')?;
        let (letters, grantor) = rest.split_once('/')?;
        Some((role(context, grantee)?, letters, role(context, grantor)?))
    };
    let Some((grantee, letters, grantor)) = parsed() else { return Vec::new() };
    let with_option = |at: usize| letters[at + 1..].starts_with('*');
    let found = letters.char_indices().filter_map(|(at, letter)| {
        let privilege = describe::privilege_of(letter)?;
        Some(Right { grantor, grantee, privilege, grantable: with_option(at) })
    });
    found.collect()
}

fn role(context: &Context, quoted: &str) -> Option<u32> {
    if quoted.is_empty() {
        return Some(0);
    }
    let name = describe::parse_name(quoted)?.pop()?;
    Some(objects::role_oid(&context.catalog, &name))
}
