//! Columns of relations, with what the standard tells of their types.

use super::visible::{relations, yes};
use crate::objects::{Object, What};
use crate::table::type_oid;
use crate::view::{Name, Text, row, system_tables};
use crate::{Context, describe, statics};
use halcyon_catalog::{Column, Table};
use halcyon_sql::types::SqlType;

system_tables! {
    columns: ColumnsRow from column_rows {
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        column_name: Name,
        ordinal_position: i32,
        column_default: Option<Text>,
        is_nullable: Text,
        data_type: Text,
        character_maximum_length: Option<i32>,
        character_octet_length: Option<i32>,
        numeric_precision: Option<i32>,
        numeric_precision_radix: Option<i32>,
        numeric_scale: Option<i32>,
        datetime_precision: Option<i32>,
        interval_type: Option<Text> = None,
        interval_precision: Option<i32> = None,
        character_set_catalog: Option<Name> = None,
        character_set_schema: Option<Name> = None,
        character_set_name: Option<Name> = None,
        collation_catalog: Option<Name> = None,
        collation_schema: Option<Name> = None,
        collation_name: Option<Name> = None,
        domain_catalog: Option<Name> = None,
        domain_schema: Option<Name> = None,
        domain_name: Option<Name> = None,
        udt_catalog: Name,
        udt_schema: Name = Name("pg_catalog".to_owned()),
        udt_name: Option<Name>,
        scope_catalog: Option<Name> = None,
        scope_schema: Option<Name> = None,
        scope_name: Option<Name> = None,
        maximum_cardinality: Option<i32> = None,
        dtd_identifier: Name,
        is_self_referencing: Text = Text::from("NO"),
        is_identity: Text,
        identity_generation: Option<Text>,
        identity_start: Option<Text>,
        identity_increment: Option<Text>,
        identity_maximum: Option<Text>,
        identity_minimum: Option<Text>,
        identity_cycle: Text,
        is_generated: Text,
        generation_expression: Option<Text>,
        is_updatable: Text,
    }
}

/// What `columns` tells of a type: (length, octets, precision, radix, scale, time precision).
struct TypeFacts {
    oid: u32,
    length: Option<i64>,
    precision: Option<(i64, i64, i64)>,
    time: Option<i64>,
}

impl TypeFacts {
    fn of(ty: SqlType) -> Self {
        let length = match ty {
            SqlType::Char(n) | SqlType::Varchar(n) => n.map(i64::from),
            _ => None,
        };
        let precision = match ty {
            SqlType::Decimal { precision, scale } => Some((precision.into(), 10, scale.into())),
            other => binary_precision(other.oid()),
        };
        TypeFacts { oid: ty.oid(), length, precision, time: time_precision(ty.oid()) }
    }

    fn of_system(oid: u32) -> Self {
        let (precision, time) = (binary_precision(oid), time_precision(oid));
        TypeFacts { oid, length: None, precision, time }
    }
}

/// Bits, radix and scale of binary numbers; floating ones have no scale, told as −1 here.
pub(super) fn binary_precision(oid: u32) -> Option<(i64, i64, i64)> {
    match oid {
        21 => Some((16, 2, 0)),
        23 => Some((32, 2, 0)),
        20 => Some((64, 2, 0)),
        700 => Some((24, 2, -1)),
        701 => Some((53, 2, -1)),
        _ => None,
    }
}

fn time_precision(oid: u32) -> Option<i64> {
    match oid {
        1082 => Some(0),
        1083 | 1114 | 1184 | 1186 => Some(6),
        _ => None,
    }
}

fn column_rows(context: &Context, rows: &mut Vec<ColumnsRow>) {
    for object in relations(context) {
        match &object.what {
            What::Table(table) => {
                for (at, column) in table.columns.iter().enumerate() {
                    let facts = TypeFacts::of(column.ty);
                    column_row(
                        context,
                        object,
                        at,
                        &column.name,
                        facts,
                        Some((table, column)),
                        rows,
                    );
                }
            }
            What::View(view) => {
                for (at, (name, ty)) in view.columns.iter().enumerate() {
                    column_row(context, object, at, name, TypeFacts::of(*ty), None, rows);
                }
            }
            What::System(system) => {
                for (at, field) in system.schema().fields().iter().enumerate() {
                    let facts = TypeFacts::of_system(type_oid(field));
                    column_row(context, object, at, field.name(), facts, None, rows);
                }
            }
            What::Index(..) | What::Sequence(_) => {}
        }
    }
}

fn column_row(
    context: &Context,
    object: &Object,
    at: usize,
    name: &String,
    facts: TypeFacts,
    column: Option<(&Table, &Column)>,
    rows: &mut Vec<ColumnsRow>,
) {
    let database = &context.session.database;
    let identity = column.and_then(|(table, column)| {
        let identity = column.identity.as_ref()?;
        let schema = context.catalog.schemas.get(&table.schema)?;
        let options = match schema.relations.get(&identity.sequence)? {
            halcyon_catalog::Relation::Sequence(sequence) => sequence.options,
            _ => return None,
        };
        Some((identity.always, options))
    });
    let options = identity.map(|(_, options)| options);
    let type_row = statics::type_by_oid(facts.oid);
    let array = type_row.is_some_and(|ty| ty.element.is_some() && ty.name.starts_with('_'));
    let data_type = match array {
        true => "ARRAY".to_owned(),
        false => describe::format_type(facts.oid, None).unwrap_or_default(),
    };
    let octets = match facts.length {
        Some(n) => Some(n.saturating_mul(4)),
        None => matches!(facts.oid, 25 | 1042 | 1043 | 17).then_some(1 << 30),
    };
    let scale = facts.precision.map(|(_, _, scale)| scale).filter(|scale| *scale >= 0);
    let generated = column.and_then(|(_, column)| column.generated.as_ref());
    let not_null = column.is_some_and(|(_, column)| column.not_null);
    row!(rows; ColumnsRow {
        table_catalog: database,
        table_schema: &object.schema,
        table_name: &object.name,
        column_name: name,
        ordinal_position: at + 1,
        column_default: column.and_then(|(_, column)| describe::default(column)),
        is_nullable: yes(!not_null),
        data_type: data_type,
        character_maximum_length: facts.length,
        character_octet_length: octets,
        numeric_precision: facts.precision.map(|p| p.0),
        numeric_precision_radix: facts.precision.map(|p| p.1),
        numeric_scale: scale,
        datetime_precision: facts.time,
        udt_catalog: database,
        udt_name: type_row.map(|ty| ty.name.clone()),
        dtd_identifier: (at + 1).to_string(),
        is_identity: yes(identity.is_some()),
        identity_generation: identity.map(|(always, _)| if always { "ALWAYS" } else { "BY DEFAULT" }),
        identity_start: options.map(|o| o.start.to_string()),
        identity_increment: options.map(|o| o.increment.to_string()),
        identity_maximum: options.map(|o| o.max.to_string()),
        identity_minimum: options.map(|o| o.min.to_string()),
        identity_cycle: yes(options.is_some_and(|o| o.cycle)),
        is_generated: if generated.is_some() { "ALWAYS" } else { "NEVER" },
        generation_expression: generated,
        is_updatable: yes(column.is_some()),
    });
}
