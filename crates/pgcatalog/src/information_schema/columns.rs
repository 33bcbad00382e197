//! Columns of relations, with what the standard tells of their types.

use super::visible::{relations, yes};
use crate::objects::{Object, What};
use crate::table::type_oid;
use crate::view::{Name, Text, row, system_tables};
use crate::{Context, defaults, describe, statics, updatable, user_types};
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
        collation_catalog: Option<Name>,
        collation_schema: Option<Name>,
        collation_name: Option<Name>,
        domain_catalog: Option<Name>,
        domain_schema: Option<Name>,
        domain_name: Option<Name>,
        udt_catalog: Name,
        udt_schema: Name,
        udt_name: Name,
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

/// What `columns` tells of a type.
pub(super) struct TypeFacts {
    oid: u32,
    /// `ARRAY`, `USER-DEFINED` or the type's name.
    pub(super) data_type: String,
    /// Schema and name of its row in `pg_type`.
    pub(super) udt: (String, String),
    length: Option<i64>,
    precision: Option<(i64, i64, i64)>,
    time: Option<i64>,
}

/// Facts as columns of numbers.
pub(super) struct Told {
    pub(super) length: Option<i64>,
    pub(super) octets: Option<i64>,
    pub(super) precision: Option<i64>,
    pub(super) radix: Option<i64>,
    pub(super) scale: Option<i64>,
    pub(super) time: Option<i64>,
}

impl TypeFacts {
    pub(super) fn told(&self) -> Told {
        let octets = match self.length {
            Some(n) => Some(n.saturating_mul(4)),
            None => matches!(self.oid, 25 | 1042 | 1043 | 17).then_some(1 << 30),
        };
        Told {
            length: self.length,
            octets,
            precision: self.precision.map(|p| p.0).filter(|precision| *precision >= 0),
            radix: self.precision.map(|p| p.1),
            scale: self.precision.map(|(_, _, scale)| scale).filter(|scale| *scale >= 0),
            time: self.time,
        }
    }

    /// Of a type by its number, without what a length or precision adds.
    fn named(context: &Context, oid: u32) -> Self {
        let catalog = &context.catalog;
        let own = user_types::by_oid(catalog, oid);
        let data_type = match user_types::is_array(catalog, oid) {
            true => "ARRAY".to_owned(),
            false if own.is_some() => "USER-DEFINED".to_owned(),
            false => describe::format_type(oid, None).unwrap_or_default(),
        };
        let udt = match own {
            Some(own) => (own.own.schema.clone(), own.typname()),
            None => {
                let name = statics::type_by_oid(oid).map(|ty| ty.name.clone());
                ("pg_catalog".to_owned(), name.unwrap_or_default())
            }
        };
        let (precision, time) = (binary_precision(oid), time_precision(oid));
        TypeFacts { oid, data_type, udt, length: None, precision, time }
    }

    pub(super) fn of(context: &Context, ty: SqlType) -> Self {
        let length = match ty {
            SqlType::Char(n) | SqlType::Varchar(n) => n.map(i64::from),
            _ => None,
        };
        let precision = match ty {
            SqlType::UNCONSTRAINED => Some((-1, 10, -1)),
            SqlType::Decimal { precision, scale } => Some((precision.into(), 10, scale.into())),
            other => binary_precision(other.oid()),
        };
        TypeFacts { length, precision, ..TypeFacts::named(context, ty.oid()) }
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
                    let facts = TypeFacts::of(context, column.ty);
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
                    let facts = TypeFacts::of(context, *ty);
                    column_row(context, object, at, name, facts, None, rows);
                }
            }
            What::System(system) => {
                for (at, field) in system.schema().fields().iter().enumerate() {
                    let facts = TypeFacts::named(context, type_oid(field));
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
    let told = facts.told();
    let own = column.and_then(|(_, column)| context.catalog.type_numbered(column.domain?));
    let is_filled = own.and_then(|own| own.domain()).is_some_and(|domain| domain.not_null);
    let domain = own.map(|own| (own.schema.clone(), own.name.clone()));
    let generated = column.and_then(|(_, column)| column.generated.as_ref());
    let not_null = is_filled || column.is_some_and(|(_, column)| column.not_null);
    let collation = column.and_then(|(_, column)| column.collation.as_ref());
    row!(rows; ColumnsRow {
        table_catalog: database,
        table_schema: &object.schema,
        table_name: &object.name,
        column_name: name,
        ordinal_position: at + 1,
        column_default: match &object.what {
            What::View(view) => defaults::of_view(context, view, at),
            _ => column.and_then(|(_, column)| defaults::of_column(context, column)),
        },
        is_nullable: yes(!not_null),
        data_type: facts.data_type,
        character_maximum_length: told.length,
        character_octet_length: told.octets,
        numeric_precision: told.precision,
        numeric_precision_radix: told.radix,
        numeric_scale: told.scale,
        datetime_precision: told.time,
        collation_catalog: collation.map(|_| database.clone()),
        collation_schema: collation.map(|own| own.schema.clone()),
        collation_name: collation.map(|own| own.name.clone()),
        domain_catalog: domain.is_some().then(|| database.clone()),
        domain_schema: domain.as_ref().map(|(schema, _)| schema.clone()),
        domain_name: domain.map(|(_, name)| name),
        udt_catalog: database,
        udt_schema: facts.udt.0,
        udt_name: facts.udt.1,
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
        is_updatable: yes(updatable::column(&context.catalog, object, at)),
    });
}
