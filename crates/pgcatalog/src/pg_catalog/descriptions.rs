//! Comments on objects, and what depends on what.

use super::reads;
use crate::objects::{self, What};
use crate::view::{Char, Oid, Text, row, system_tables};
use crate::{Context, statics};
use halcyon_catalog::{Relation, Sequence, Table};
use halcyon_plan::stored_names::used_by;
use halcyon_sql::identifier::quote_ident;

system_tables! {
    pg_description: DescriptionRow from description {
        objoid: Oid,
        classoid: Oid,
        objsubid: i32,
        description: Text,
    }

    pg_shdescription: SharedDescriptionRow from shared_description {
        objoid: Oid,
        classoid: Oid,
        description: Text,
    }

    pg_depend: DependRow from depend {
        classid: Oid,
        objid: Oid,
        objsubid: i32,
        refclassid: Oid,
        refobjid: Oid,
        refobjsubid: i32,
        deptype: Char,
    }
}

/// Ids of tables that others refer to.
const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;
const PG_TYPE: u32 = 1247;
const PG_CONSTRAINT: u32 = 2606;
const PG_AUTHID: u32 = 1260;
const PG_DATABASE: u32 = 1262;

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
    for own in context.catalog.types.values() {
        if let Some(comment) = &own.comment {
            row!(rows; DescriptionRow {
                objoid: own.oid(),
                classoid: PG_TYPE,
                objsubid: 0,
                description: comment,
            });
        }
    }
    for (oid, comment) in objects::constraint_comments(&context.catalog) {
        row!(rows; DescriptionRow {
            objoid: oid,
            classoid: PG_CONSTRAINT,
            objsubid: 0,
            description: comment.to_owned(),
        });
    }
    fixed_descriptions(rows);
}

/// Comments on roles and on the database.
fn shared_description(context: &Context, rows: &mut Vec<SharedDescriptionRow>) {
    if let Some(comment) = &context.catalog.comment {
        row!(rows; SharedDescriptionRow {
            objoid: objects::DATABASE,
            classoid: PG_DATABASE,
            description: comment,
        });
    }
    for role in context.catalog.roles.values() {
        if let Some(comment) = &role.comment {
            row!(rows; SharedDescriptionRow {
                objoid: role.oid,
                classoid: PG_AUTHID,
                description: comment,
            });
        }
    }
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

/// Sequences depend on the columns they feed, views on what they read, defaults on their sequences, columns and
/// domains on users' types, indexes on the keys that they are for, by which tools tell the two apart. Foreign keys are not told.
fn depend(context: &Context, rows: &mut Vec<DependRow>) {
    for own in context.catalog.types.values() {
        if let Some(base) = own.domain().and_then(|domain| domain.base.enumeration()) {
            row!(rows; DependRow {
                classid: PG_TYPE,
                objid: own.oid(),
                objsubid: 0,
                refclassid: PG_TYPE,
                refobjid: base.oid(),
                refobjsubid: 0_u32,
                deptype: "n",
            });
        }
    }
    for object in context.objects().relations.values() {
        match &object.what {
            What::Sequence(sequence) => owned_sequence(context, sequence, rows),
            What::View(view) => reads(context, object.oid, &view.query, rows),
            What::Table(table) => {
                columns_of_types(context, table, rows);
                if let Some(view) = table.materialized() {
                    reads(context, object.oid, &view.query, rows);
                }
                defaults(context, table, rows);
            }
            What::Index(_, index) if index.constraint.is_some() => row!(rows; DependRow {
                classid: PG_CLASS,
                objid: object.oid,
                objsubid: 0,
                refclassid: PG_CONSTRAINT,
                // A key has its index's id.
                refobjid: object.oid,
                refobjsubid: 0_u32,
                deptype: "i",
            }),
            _ => {}
        }
    }
}

fn owned_sequence(context: &Context, sequence: &Sequence, rows: &mut Vec<DependRow>) {
    let Some((table, column)) = sequence.owned_by else { return };
    let identity = context.catalog.tables.get(&table).is_some_and(|table| {
        table.columns.get(column as usize).is_some_and(|c| c.identity.is_some())
    });
    let kind = if identity { "i" } else { "a" };
    row!(rows; DependRow {
        classid: PG_CLASS,
        objid: sequence.oid,
        objsubid: 0,
        refclassid: PG_CLASS,
        refobjid: table.0,
        refobjsubid: u32::from(column) + 1,
        deptype: kind,
    });
}

/// The rule of a view, which has the view's id and is the view's own, and what its query names.
fn reads(context: &Context, view: u32, query: &str, rows: &mut Vec<DependRow>) {
    row!(rows; DependRow {
        classid: PG_REWRITE,
        objid: view,
        objsubid: 0,
        refclassid: PG_CLASS,
        refobjid: view,
        refobjsubid: 0_u32,
        deptype: "i",
    });
    needs(PG_REWRITE, view, (view, 0), rows);
    let relation = |schema: &str, name: &str| {
        context.catalog.schemas.get(schema).and_then(|schema| schema.relations.get(name))
    };
    let columns_of = |schema: &str, name: &str| match relation(schema, name)? {
        Relation::Table(table) => Some(table.columns.iter().map(|c| c.name.clone()).collect()),
        Relation::View(view) => Some(view.columns.iter().map(|(name, _)| name.clone()).collect()),
        _ => None,
    };
    let reads = reads::reads(query, columns_of);
    for (schema, name) in used_by(query) {
        let read = match relation(&schema, &name) {
            Some(Relation::Table(table)) => table.id.0,
            Some(Relation::View(view)) => view.oid,
            Some(Relation::Sequence(sequence)) => sequence.oid,
            Some(Relation::Index { .. } | Relation::Type(_)) | None => continue,
        };
        let of = reads.iter().find(|read| read.schema == schema && read.name == name);
        match of.map(|read| read.columns.as_slice()) {
            None | Some([]) => needs(PG_REWRITE, view, (read, 0), rows),
            Some(columns) => {
                columns.iter().for_each(|at| needs(PG_REWRITE, view, (read, at + 1), rows));
            }
        }
    }
}

/// Columns that are of types of users.
fn columns_of_types(context: &Context, table: &Table, rows: &mut Vec<DependRow>) {
    for (at, column) in table.columns.iter().enumerate() {
        let domain = column.domain.and_then(|id| context.catalog.type_numbered(id));
        let ty = match (domain, column.ty.enumeration()) {
            (Some(domain), _) => domain.oid(),
            (None, Some(enumeration)) => enumeration.oid(),
            (None, None) => continue,
        };
        row!(rows; DependRow {
            classid: PG_CLASS,
            objid: table.id.0,
            objsubid: at + 1,
            refclassid: PG_TYPE,
            refobjid: ty,
            refobjsubid: 0_u32,
            deptype: "n",
        });
    }
}

/// Defaults that ask sequences.
fn defaults(context: &Context, table: &Table, rows: &mut Vec<DependRow>) {
    let asking = table.columns.iter().filter_map(|column| {
        let text = column.default.as_ref().filter(|text| text.contains("nextval("))?;
        Some((column, text))
    });
    for (column, text) in asking {
        for object in context.objects().relations.values() {
            let What::Sequence(sequence) = &object.what else { continue };
            let name = quote_ident(&sequence.name);
            let whole = format!("'{}.{name}'", quote_ident(&sequence.schema));
            if text.contains(&whole) || text.contains(&format!("'{name}'")) {
                let default = objects::default_oid(table, &column.name);
                needs(PG_ATTRDEF, default, (sequence.oid, 0), rows);
            }
        }
    }
}

/// An ordinary dependency of an object on a relation, or on a column of it, which is numbered from 1.
fn needs(class: u32, object: u32, (relation, column): (u32, usize), rows: &mut Vec<DependRow>) {
    row!(rows; DependRow {
        classid: class,
        objid: object,
        objsubid: 0,
        refclassid: PG_CLASS,
        refobjid: relation,
        refobjsubid: column,
        deptype: "n",
    });
}

/// Object ids of tables of `pg_catalog`, by which dependencies say what depends.
const PG_REWRITE: u32 = 2618;
const PG_ATTRDEF: u32 = 2604;
