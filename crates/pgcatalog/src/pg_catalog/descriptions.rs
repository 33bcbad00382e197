//! Comments on objects, and what depends on what.

use crate::objects::{self, What};
use crate::view::{Char, Oid, Text, row, system_tables};
use crate::{Context, statics};

system_tables! {
    pg_description: DescriptionRow from description {
        objoid: Oid,
        classoid: Oid,
        objsubid: i32,
        description: Text,
    }

    pg_depend: DependRow from depend {
        classid: Oid,
        objid: Oid,
        objsubid: i32 = 0,
        refclassid: Oid,
        refobjid: Oid,
        refobjsubid: i32,
        deptype: Char,
    }
}

/// Ids of tables that others refer to.
const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;

fn description(context: &Context, rows: &mut Vec<DescriptionRow>) {
    for object in context.objects().relations.values() {
        if let Some(comment) = object.comment() {
            row!(rows; DescriptionRow {
                objoid: object.oid,
                classoid: PG_CLASS,
                objsubid: 0,
                description: comment.to_owned(),
            });
        }
        for at in 0..object.column_count() {
            if let Some(comment) = object.column_comment(at) {
                row!(rows; DescriptionRow {
                    objoid: object.oid,
                    classoid: PG_CLASS,
                    objsubid: at + 1,
                    description: comment.to_owned(),
                });
            }
        }
    }
    for schema in context.catalog.schemas.values() {
        if let Some(comment) = &schema.comment {
            row!(rows; DescriptionRow {
                objoid: objects::schema_oid(schema),
                classoid: PG_NAMESPACE,
                objsubid: 0,
                description: comment,
            });
        }
    }
    fixed_descriptions(rows);
}

/// See [`statics::descriptions`]; Halcyon's objects come first.
fn fixed_descriptions(rows: &mut Vec<DescriptionRow>) {
    for (object, catalog, text) in statics::descriptions() {
        row!(rows; DescriptionRow {
            objoid: *object,
            classoid: *catalog,
            objsubid: 0,
            description: text,
        });
    }
}

/// Sequences depend on the columns they feed; views and foreign keys are not told.
fn depend(context: &Context, rows: &mut Vec<DependRow>) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        if let Some((table, column)) = sequence.owned_by {
            let identity = context.catalog.tables.get(&table).is_some_and(|table| {
                table.columns.get(column as usize).is_some_and(|c| c.identity.is_some())
            });
            let kind = if identity { "i" } else { "a" };
            row!(rows; DependRow {
                classid: PG_CLASS,
                objid: object.oid,
                refclassid: PG_CLASS,
                refobjid: table.0,
                refobjsubid: u32::from(column) + 1,
                deptype: kind,
            });
        }
    }
}
