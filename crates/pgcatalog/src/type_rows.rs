//! The rows of `pg_type` that tell of users' types.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::ScalarValue;
use halcyon_catalog::TypeKind;
use halcyon_sql::types::SqlType;

use crate::user_types::{Named, array_oid};
use crate::{Context, defaults, describe, objects, statics};

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
            _ if domain.is_some_and(|domain| domain.collation.is_some()) => {
                let own = domain.and_then(|domain| domain.collation.as_ref());
                own.map_or(0, |own| context.catalog.collation_oid(own)).into()
            }
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
