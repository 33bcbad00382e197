//! Which relations a role may know of, and words that many views share.

use crate::Context;
use crate::objects::{Object, What};
use halcyon_catalog::{Privilege, Table, temporary};

/// Yes or no, in the standard's letters.
pub(super) fn yes(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

pub(super) const TABLE_PRIVILEGE_LIST: &[Privilege] = &[
    Privilege::Insert,
    Privilege::Select,
    Privilege::Update,
    Privilege::Delete,
    Privilege::Truncate,
    Privilege::References,
];

/// Whether the asking role may do anything with the relation.
pub(super) fn is_known(context: &Context, object: &Object) -> bool {
    let may = |privilege: &Privilege| context.may(&context.session.user, object, *privilege, false);
    let session = temporary::session_of(&object.schema);
    let is_others = session.is_some_and(|session| session != context.session.session_id);
    !is_others && (TABLE_PRIVILEGE_LIST.iter().any(may) || may(&Privilege::Usage))
}

/// Tables and views, system ones included.
pub(super) fn relations(context: &Context) -> impl Iterator<Item = &Object> {
    let relations = context.objects().relations.values();
    relations.filter(|o| matches!(o.kind(), "r" | "v")).filter(|o| is_known(context, o))
}

/// Tables that SQL made.
pub(super) fn own_tables(context: &Context) -> impl Iterator<Item = (&Object, &Table)> {
    relations(context).filter_map(|object| match &object.what {
        What::Table(table) => Some((object, table.as_ref())),
        _ => None,
    })
}
