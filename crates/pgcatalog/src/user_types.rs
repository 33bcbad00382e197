//! Types of users, and types by their names and numbers, as a session sees them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::ScalarValue;
use halcyon_catalog::{Catalog, TypeKind, UserType};
use halcyon_sql::types::SqlType;

use crate::{Context, defaults, describe, objects, statics};

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
fn array_oid(own: &UserType) -> Option<u32> {
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

/// The rows of `pg_type` that tell of users' types. `schema`: the table's columns.
pub(crate) fn rows(context: &Context, schema: &SchemaRef) -> RecordBatch {
    let mut all = Vec::new();
    for own in context.catalog.types.values() {
        all.push(Named { own, is_array: false });
        if array_oid(own).is_some() {
            all.push(Named { own, is_array: true });
        }
    }
    let columns = schema.fields().iter().map(|field| column(context, field, &all));
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).expect("columns fit the fields")
}

fn column(context: &Context, field: &Field, rows: &[Named<'_>]) -> ArrayRef {
    let cells = rows.iter().map(|row| cell(context, field.name(), *row));
    let cells = cells.map(|cell| match cell {
        Some(value) => value.cast_to(field.data_type()).expect("the column's values fit"),
        None => ScalarValue::try_from(field.data_type()).expect("every type has a NULL"),
    });
    let cells: Vec<ScalarValue> = cells.collect();
    match cells.is_empty() {
        true => arrow::array::new_empty_array(field.data_type()),
        false => ScalarValue::iter_to_array(cells).expect("all are of the column's type"),
    }
}

/// A cell of `pg_type`; `None` for NULL.
fn cell(context: &Context, column: &str, row: Named<'_>) -> Option<ScalarValue> {
    let Named { own, is_array } = row;
    let text = |text: &str| Some(ScalarValue::Utf8View(Some(text.to_owned())));
    let number = |number: i64| Some(ScalarValue::Int64(Some(number)));
    let truth = |is: bool| Some(ScalarValue::Boolean(Some(is)));
    let domain = own.domain();
    let base = domain.map(|domain| domain.base);
    let input = |way: &str| match (is_array, base) {
        (true, _) => format!("array_{way}"),
        (false, None) => format!("enum_{way}"),
        (false, Some(_)) => match way {
            "in" | "recv" => format!("domain_{way}"),
            way => of_base(base, &format!("typ{}", if way == "out" { "output" } else { "send" })),
        },
    };
    let length = if is_array { -1 } else { describe::type_length_of(own.ty()) };
    match column {
        "oid" if is_array => number(array_oid(own)?.into()),
        "oid" => number(own.oid().into()),
        "typname" => text(&row.typname()),
        "typnamespace" => number(objects::namespace(&context.catalog, &own.schema).into()),
        "typowner" => number(objects::role_oid(&context.catalog, &own.owner).into()),
        "typlen" => number(length.into()),
        "typbyval" => truth(matches!(length, 1 | 2 | 4 | 8)),
        "typtype" => text(match own.kind {
            _ if is_array => "b",
            TypeKind::Enum { .. } => "e",
            TypeKind::Domain(_) => "d",
        }),
        "typcategory" => match own.kind {
            _ if is_array => text("A"),
            TypeKind::Enum { .. } => text("E"),
            TypeKind::Domain(_) => text(&of_base(base, column)),
        },
        "typispreferred" => truth(false),
        "typisdefined" => truth(true),
        "typdelim" => text(","),
        "typrelid" | "typndims" => number(0),
        "typsubscript" => text(if is_array { "array_subscript_handler" } else { "-" }),
        "typelem" => number(if is_array { own.oid().into() } else { 0 }),
        "typarray" => number(array_oid(own).filter(|_| !is_array).unwrap_or(0).into()),
        "typinput" => text(&input("in")),
        "typoutput" => text(&input("out")),
        "typreceive" => text(&input("recv")),
        "typsend" => text(&input("send")),
        "typmodin" | "typmodout" => text("-"),
        "typanalyze" => text(if is_array { "array_typanalyze" } else { "-" }),
        "typalign" => text(match length {
            1 => "c",
            2 => "s",
            8 => "d",
            _ => "i",
        }),
        "typstorage" => text(match (length, base) {
            (-1, Some(SqlType::Decimal { .. })) => "m",
            (-1, _) => "x",
            _ => "p",
        }),
        "typnotnull" => truth(domain.is_some_and(|domain| domain.not_null)),
        "typbasetype" => number(base.map_or(0, |base| base.oid()).into()),
        "typtypmod" => number(base.map_or(-1, |base| base.modifier()).into()),
        "typcollation" => number(match base {
            Some(SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_)) => 100,
            _ => 0,
        }),
        "typdefault" | "typdefaultbin" => {
            let domain = domain?;
            text(&defaults::shown(context, domain.base, domain.default.as_ref()?))
        }
        _ => None,
    }
}

/// What `pg_type` says of the base type of a domain, which may be an enumeration.
fn of_base(base: Option<SqlType>, column: &str) -> String {
    let of_enum = || {
        match column {
            "typcategory" => "E",
            "typoutput" => "enum_out",
            _ => "enum_send",
        }
        .to_owned()
    };
    base.and_then(|base| statics::type_cell(base.oid(), column)).unwrap_or_else(of_enum)
}
