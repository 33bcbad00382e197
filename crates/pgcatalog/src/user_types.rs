//! Types of users, and types by their names and numbers, as a session sees them.

use std::sync::Arc;

use halcyon_catalog::{Catalog, TypeKind, UserType};

use crate::{Context, describe, statics};

/// A type of a user, or the type of its arrays.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) own: &'a Arc<UserType>,
    pub(crate) is_array: bool,
}

impl Named<'_> {
    /// `pg_type.typname`.
    pub(crate) fn typname(self) -> String {
        format!("{}{}", if self.is_array { "_" } else { "" }, self.own.name)
    }
}

/// The type of a user with this object id, or of its arrays; `None` for other types.
pub(crate) fn by_oid(catalog: &Catalog, oid: u32) -> Option<Named<'_>> {
    catalog.types.values().find_map(|own| match array_oid(own) {
        _ if own.oid() == oid => Some(Named { own, is_array: false }),
        Some(array) if array == oid => Some(Named { own, is_array: true }),
        _ => None,
    })
}

/// Object id of the type of arrays; domains have none.
pub(crate) fn array_oid(own: &UserType) -> Option<u32> {
    match own.kind {
        TypeKind::Enum { .. } => Some(own.ty().array_oid()),
        TypeKind::Domain(_) => None,
    }
}

/// Whether the session finds a type without its schema.
pub(crate) fn is_visible(context: &Context, oid: u32) -> bool {
    match by_oid(&context.catalog, oid) {
        None => true,
        Some(found) => own_oid(context, std::slice::from_ref(&found.own.name), false)
            .is_some_and(|seen| seen == found.own.oid()),
    }
}

/// The name of a type as [`describe::format_type`] has it, also of users' types.
pub(crate) fn format_type(context: &Context, oid: u32, modifier: Option<i32>) -> Option<String> {
    let Some(found) = by_oid(&context.catalog, oid) else {
        return describe::format_type(oid, modifier);
    };
    let (session, own) = (&context.session, found.own);
    let name = describe::qualified(session, &own.schema, &own.name);
    Some(if found.is_array { format!("{name}[]") } else { name })
}

/// Object id of the type that a name in one or two parts stands for; with `is_array`, of its arrays.
pub(crate) fn oid_of(context: &Context, parts: &[String], is_array: bool) -> Option<u32> {
    let of_system = |name: &String| {
        let array = is_array.then(|| format!("_{name}"));
        Some(statics::type_by_name(array.as_deref().unwrap_or(name))?.oid)
    };
    match parts {
        [name] => of_system(name).or_else(|| own_oid(context, parts, is_array)),
        [schema, name] if schema == "pg_catalog" => of_system(name),
        _ => own_oid(context, parts, is_array),
    }
}

fn own_oid(context: &Context, parts: &[String], is_array: bool) -> Option<u32> {
    let path: Vec<String> = context.search_path().map(str::to_owned).collect();
    let own = context.catalog.user_type(parts, &path)?;
    if is_array { array_oid(own) } else { Some(own.oid()) }
}

/// `pg_attribute.attlen` by type id, also of users' types.
pub(crate) fn length(catalog: &Catalog, oid: u32) -> i16 {
    match by_oid(catalog, oid) {
        Some(found) if !found.is_array => describe::type_length_of(found.own.ty()),
        Some(_) => -1,
        None => describe::type_length(oid),
    }
}

/// Whether a type is one of arrays.
pub(crate) fn is_array(catalog: &Catalog, oid: u32) -> bool {
    match by_oid(catalog, oid) {
        Some(found) => found.is_array,
        None => statics::type_by_oid(oid)
            .is_some_and(|ty| ty.element.is_some() && ty.name.starts_with('_')),
    }
}
