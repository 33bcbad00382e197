//! `pg_collation`: the collations that always exist, and those that users have made.

use halcyon_catalog::SUPERUSER;
use halcyon_collations::{Collation, builtins};

use crate::Context;
use crate::objects;
use crate::view::{Char, Name, Oid, Text, row, system_tables};

system_tables! {
    pg_collation: CollationRow from collation {
        oid: Oid,
        collname: Name,
        collnamespace: Oid,
        collowner: Oid,
        collprovider: Char,
        collisdeterministic: bool = true,
        collencoding: i32,
        collcollate: Option<Text>,
        collctype: Option<Text>,
        colliculocale: Option<Text>,
        collicurules: Option<Text> = None,
        collversion: Option<Text> = None,
    }
}

/// The number of UTF-8 among encodings.
const UTF8: i32 = 6;

fn collation(context: &Context, rows: &mut Vec<CollationRow>) {
    for builtin in builtins() {
        push(context, rows, builtin.oid, &builtin.collation, SUPERUSER);
    }
    for own in context.catalog.schemas.values().flat_map(|schema| schema.collations.values()) {
        push(context, rows, own.oid, &own.collation, &own.owner);
    }
}

fn push(
    context: &Context,
    rows: &mut Vec<CollationRow>,
    oid: u32,
    collation: &Collation,
    owner: &str,
) {
    let (provider, encoding, libc) = match (&collation.locale, collation.name.as_str()) {
        (Some(_), _) => ("i", -1, None),
        (None, "default") => ("d", -1, None),
        (None, "POSIX") => ("c", -1, Some("POSIX")),
        (None, "ucs_basic") => ("c", UTF8, Some("C")),
        (None, "C.utf8") => ("c", UTF8, Some("C.utf8")),
        (None, _) => ("c", -1, Some("C")),
    };
    row!(rows; CollationRow {
        oid: oid,
        collname: &collation.name,
        collnamespace: objects::namespace(&context.catalog, &collation.schema),
        collowner: objects::role_oid(&context.catalog, owner),
        collprovider: provider,
        collencoding: encoding,
        collcollate: libc,
        collctype: libc,
        colliculocale: collation.locale.clone(),
    });
}
