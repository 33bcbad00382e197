//! Relations and what belongs to them: columns, defaults, indexes, constraints, sequences.

use std::sync::Arc;

use crate::describe;
use crate::objects::{self, Object, What};
use crate::table::{Cell, Def, Rows, row, type_oid};
use crate::{Context, memory, statics};
use halcyon_catalog::{Column, Table};

use super::columns;

/// The tables.
pub(super) const TABLES: &[Def] = &[
    Def { name: "pg_class", columns: columns::CLASS, fill: class },
    Def { name: "pg_attribute", columns: columns::ATTRIBUTE, fill: attribute },
    Def { name: "pg_attrdef", columns: columns::ATTRDEF, fill: attrdef },
    Def { name: "pg_index", columns: columns::INDEX, fill: index },
    Def { name: "pg_constraint", columns: columns::CONSTRAINT, fill: constraint },
    Def { name: "pg_sequence", columns: columns::SEQUENCE, fill: sequence },
    Def { name: "pg_sequences", columns: columns::SEQUENCES, fill: sequences },
    Def { name: "pg_tables", columns: columns::TABLES, fill: tables },
    Def { name: "pg_views", columns: columns::VIEWS, fill: views },
    Def { name: "pg_matviews", columns: columns::MATVIEWS, fill: matviews },
    Def { name: "pg_indexes", columns: columns::INDEXES, fill: indexes },
    Def { name: "pg_rewrite", columns: columns::REWRITE, fill: rewrite },
    Def { name: "pg_description", columns: columns::DESCRIPTION, fill: description },
    Def { name: "pg_depend", columns: columns::DEPEND, fill: depend },
];

/// Ids of `pg_am`: how tables and indexes are stored.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
/// Ids of tables that others refer to.
const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;
/// Bytes of an index entry, about.
const ENTRY_BYTES: u64 = 16;
/// Bytes of a page, in which clients count sizes.
const PAGE: u64 = 8192;

/// The tables of the catalog with their objects.
fn each_table(context: &Context) -> impl Iterator<Item = (&Object, &Arc<Table>)> {
    context.objects().relations.values().filter_map(|object| match &object.what {
        What::Table(table) => Some((object, table)),
        _ => None,
    })
}

fn class(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        class_row(context, object, rows);
    }
}

fn class_row(context: &Context, object: &Object, rows: &mut Rows) {
    let catalog = &context.catalog;
    let owner = context.owner_oid(object);
    let (width, checks, indexed, triggers, access, count, bytes, options) = match &object.what {
        What::Table(table) => {
            let size = memory::of_rows(&context.live.roots(table));
            let keys = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
            let options = describe::options(table);
            let (width, checks) = (table.columns.len(), table.checks.len());
            let indexed = !table.indexes.is_empty();
            (width, checks, indexed, keys, HEAP, size.rows as f64, size.row_bytes, options)
        }
        What::Index(table, index) => {
            // Counting the bytes of long keys takes a walk over the tree; clients want an estimate.
            let entries = memory::of_rows(&context.live.roots(table)).rows;
            let bytes = entries * ENTRY_BYTES;
            (index.columns.len(), 0, false, false, BTREE, entries as f64, bytes, None)
        }
        What::View(view) => (view.columns.len(), 0, false, false, 0, -1.0, 0, None),
        What::Sequence(_) => (SEQUENCE_COLUMNS.len(), 0, false, false, 0, 1.0, PAGE, None),
        What::System(system) => {
            let access = if object.kind() == "r" { HEAP } else { 0 };
            (system.schema().fields().len(), 0, false, false, access, -1.0, 0, None)
        }
    };
    let stored = !matches!(object.what, What::View(_) | What::System(_));
    row!(rows;
        object.oid, &object.name, objects::namespace(catalog, &object.schema), 0, 0, owner, access,
        if stored { object.oid } else { 0 }, 0, bytes.div_ceil(PAGE), count, 0, 0, indexed, false,
        "p", object.kind(), width, checks, matches!(object.what, What::View(_)), triggers, false,
        false, false, true, if object.kind() == "r" { "d" } else { "n" }, false, 0, 0_i64, 0_i64,
        context.acl(object), options, ());
}

/// Columns of a sequence read as a relation.
const SEQUENCE_COLUMNS: &[(&str, u32)] = &[("last_value", 20), ("log_cnt", 20), ("is_called", 16)];

fn attribute(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        match &object.what {
            What::Table(table) => {
                for (at, column) in table.columns.iter().enumerate() {
                    Attribute::of_column(object.oid, at, column).push(rows);
                }
            }
            What::Index(table, index) => {
                for (at, key) in index.columns.iter().enumerate() {
                    let column = &table.columns[key.column as usize];
                    let modifier = describe::type_modifier(column.ty);
                    let (name, ty) = (&column.name, column.ty.oid());
                    Attribute { modifier, ..Attribute::new(object.oid, at, name, ty) }.push(rows);
                }
            }
            What::View(view) => {
                for (at, (name, ty)) in view.columns.iter().enumerate() {
                    let modifier = describe::type_modifier(*ty);
                    let attribute = Attribute::new(object.oid, at, name, ty.oid());
                    Attribute { modifier, ..attribute }.push(rows);
                }
            }
            What::Sequence(_) => {
                for (at, (name, ty)) in SEQUENCE_COLUMNS.iter().enumerate() {
                    Attribute::new(object.oid, at, name, *ty).push(rows);
                }
            }
            What::System(system) => {
                for (at, field) in system.schema().fields().iter().enumerate() {
                    Attribute::new(object.oid, at, field.name(), type_oid(field)).push(rows);
                }
            }
        }
    }
}

/// What differs between the rows of `pg_attribute`.
struct Attribute<'a> {
    relation: u32,
    number: usize,
    name: &'a str,
    ty: u32,
    modifier: i32,
    not_null: bool,
    default: bool,
    identity: &'static str,
}

impl<'a> Attribute<'a> {
    fn new(relation: u32, at: usize, name: &'a str, ty: u32) -> Self {
        let (number, modifier) = (at + 1, -1);
        Attribute {
            relation,
            number,
            name,
            ty,
            modifier,
            not_null: false,
            default: false,
            identity: "",
        }
    }

    fn of_column(relation: u32, at: usize, column: &'a Column) -> Self {
        Attribute {
            modifier: describe::type_modifier(column.ty),
            not_null: column.not_null,
            default: describe::default(column).is_some(),
            identity: describe::identity_letter(column),
            ..Attribute::new(relation, at, &column.name, column.ty.oid())
        }
    }

    fn push(self, rows: &mut Rows) {
        let length = describe::type_length(self.ty);
        let array = statics::type_by_oid(self.ty)
            .is_some_and(|ty| ty.element.is_some() && ty.name.starts_with('_'));
        let align = match length {
            1 => "c",
            2 => "s",
            8 => "d",
            _ => "i",
        };
        let storage = match (length, self.ty) {
            (-1, 1700) => "m",
            (-1, _) => "x",
            _ => "p",
        };
        let collation = match self.ty {
            25 | 1042 | 1043 => 100,
            19 => 950,
            _ => 0,
        };
        row!(rows;
            self.relation, self.name.to_owned(), self.ty, -1, length, self.number,
            i32::from(array), -1, self.modifier, matches!(length, 1 | 2 | 4 | 8), align, storage,
            "", self.not_null, self.default, false, self.identity, "", false, true, 0, collation,
            (), (), (), ());
    }
}

fn attrdef(context: &Context, rows: &mut Rows) {
    for (object, table) in each_table(context) {
        for (at, column) in table.columns.iter().enumerate() {
            if let Some(text) = describe::default(column) {
                let oid = objects::default_oid(table, &column.name);
                row!(rows; oid, object.oid, at + 1, text);
            }
        }
    }
}

/// Operator class of an index column by type, as `pg_opclass` numbers them.
fn operator_class(ty: u32) -> i64 {
    match ty {
        16 => 424,
        17 => 428,
        20 => 3124,
        21 => 1979,
        23 => 1978,
        700 => 1970,
        701 => 1972,
        1042 => 426,
        1082 => 3122,
        1083 => 1996,
        1114 => 3128,
        1184 => 3127,
        1186 => 2095,
        1700 => 3125,
        2950 => 2969,
        _ => 3126,
    }
}

fn index(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Index(table, index) = &object.what else { continue };
        let primary = index.constraint == Some(halcyon_catalog::IndexConstraint::PrimaryKey);
        let width = index.columns.len();
        let types = || index.columns.iter().map(|key| table.columns[key.column as usize].ty.oid());
        let keys: Vec<i64> = index.columns.iter().map(|key| i64::from(key.column) + 1).collect();
        let collations: Vec<i64> =
            types().map(|ty| if matches!(ty, 25 | 1042 | 1043) { 100 } else { 0 }).collect();
        let classes: Vec<i64> = types().map(operator_class).collect();
        let order = |descending, nulls_first| i64::from(descending) | (i64::from(nulls_first) << 1);
        let options: Vec<i64> =
            index.columns.iter().map(|key| order(key.descending, key.nulls_first)).collect();
        row!(rows;
            object.oid, table.id.0, width, width, index.unique, false, primary, false, true, false,
            true, false, true, true, false, keys, collations, classes, options, (), ());
    }
}

fn numbers(columns: impl IntoIterator<Item = u16>) -> Vec<i64> {
    columns.into_iter().map(|column| i64::from(column) + 1).collect()
}

fn constraint(context: &Context, rows: &mut Rows) {
    for (object, table) in each_table(context) {
        let namespace = objects::namespace(&context.catalog, &object.schema);
        let mut push = |oid: u32, name: &String, kind: &'static str, columns, rest: Reference| {
            let expr: Cell = rest.expr.into();
            row!(rows;
                oid, name, namespace, kind, false, false, true, object.oid, 0, rest.index, 0,
                rest.table, rest.on_update, rest.on_delete, rest.matching, true, 0, kind != "c",
                columns, rest.columns, (), (), (), (), (), expr);
        };
        for index in &table.indexes {
            let kind = match index.constraint {
                Some(halcyon_catalog::IndexConstraint::PrimaryKey) => "p",
                Some(halcyon_catalog::IndexConstraint::Unique) => "u",
                None => continue,
            };
            let columns = numbers(index.columns.iter().map(|key| key.column));
            let rest = Reference { index: index.id.0, ..Reference::none() };
            push(index.id.0, &index.name, kind, Some(columns), rest);
        }
        for check in &table.checks {
            let rest = Reference { expr: Some(check.expr.clone()), ..Reference::none() };
            push(objects::check_oid(table, check), &check.name, "c", None, rest);
        }
        for key in &table.foreign_keys {
            let target = context.catalog.tables.get(&key.target);
            let rest = Reference {
                table: key.target.0,
                index: target.and_then(|t| unique_index(t, &key.target_columns)).unwrap_or(0),
                columns: Some(numbers(key.target_columns.iter().copied())),
                on_update: describe::action_letter(key.on_update),
                on_delete: describe::action_letter(key.on_delete),
                matching: "s",
                expr: None,
            };
            let columns = numbers(key.columns.iter().copied());
            push(objects::foreign_key_oid(table, key), &key.name, "f", Some(columns), rest);
        }
    }
}

/// What a constraint refers to.
struct Reference {
    table: u32,
    index: u32,
    columns: Option<Vec<i64>>,
    on_update: &'static str,
    on_delete: &'static str,
    matching: &'static str,
    expr: Option<String>,
}

impl Reference {
    fn none() -> Self {
        let (on_update, on_delete, matching) = (" ", " ", " ");
        Reference { table: 0, index: 0, columns: None, on_update, on_delete, matching, expr: None }
    }
}

/// The unique index over exactly these columns, in any order.
pub(crate) fn unique_index(table: &Table, columns: &[u16]) -> Option<u32> {
    let mut wanted = columns.to_vec();
    wanted.sort_unstable();
    let fits = |index: &&halcyon_catalog::Index| {
        let mut keys: Vec<u16> = index.columns.iter().map(|key| key.column).collect();
        keys.sort_unstable();
        index.unique && keys == wanted
    };
    table.indexes.iter().find(fits).map(|index| index.id.0)
}

fn sequence(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        row!(rows;
            object.oid, ty, options.start, options.increment, options.max, options.min, 1_i64,
            options.cycle);
    }
}

fn sequences(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        row!(rows;
            &object.schema, &object.name, &sequence.owner, ty, options.start, options.min,
            options.max, options.increment, options.cycle, 1_i64, context.last_value(sequence));
    }
}

fn tables(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values().filter(|object| object.kind() == "r") {
        let (indexed, triggers) = match &object.what {
            What::Table(table) => {
                let keys = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
                (!table.indexes.is_empty(), keys)
            }
            _ => (false, false),
        };
        let owner = context.owner_name(object);
        row!(rows;
            &object.schema, &object.name, owner, (), indexed, false, triggers, false);
    }
}

fn views(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        if let What::View(view) = &object.what {
            row!(rows; &object.schema, &object.name, &view.owner, format!(" {};", view.query));
        }
    }
}

fn matviews(context: &Context, rows: &mut Rows) {
    for (object, table) in each_table(context) {
        if let Some(view) = table.materialized() {
            row!(rows;
                &object.schema, &object.name, &table.owner, (), !table.indexes.is_empty(), true,
                format!(" {};", view.query));
        }
    }
}

fn indexes(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        if let What::Index(table, index) = &object.what {
            let text = describe::index(&context.session, table, index, false);
            row!(rows; &object.schema, &table.name, &object.name, (), text);
        }
    }
}

fn rewrite(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let view = match &object.what {
            What::View(_) => true,
            What::Table(table) => table.materialized().is_some(),
            _ => false,
        };
        if view {
            row!(rows; object.oid, "_RETURN", object.oid, "1", "O", true, (), ());
        }
    }
}

fn description(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        if let Some(comment) = object.comment() {
            row!(rows; object.oid, PG_CLASS, 0, comment.to_owned());
        }
        for at in 0..object.column_count() {
            if let Some(comment) = object.column_comment(at) {
                row!(rows; object.oid, PG_CLASS, at + 1, comment.to_owned());
            }
        }
    }
    for schema in context.catalog.schemas.values() {
        if let Some(comment) = &schema.comment {
            row!(rows; objects::schema_oid(schema), PG_NAMESPACE, 0, comment);
        }
    }
    fixed_descriptions(rows);
}

/// See [`statics::descriptions`]; Halcyon's objects come first.
fn fixed_descriptions(rows: &mut Rows) {
    for (object, catalog, text) in statics::descriptions() {
        row!(rows; *object, *catalog, 0, text);
    }
}

/// Sequences depend on the columns they feed; views and foreign keys are not told.
fn depend(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        if let Some((table, column)) = sequence.owned_by {
            let identity = context.catalog.tables.get(&table).is_some_and(|table| {
                table.columns.get(column as usize).is_some_and(|c| c.identity.is_some())
            });
            let kind = if identity { "i" } else { "a" };
            row!(rows; PG_CLASS, object.oid, 0, PG_CLASS, table.0, u32::from(column) + 1, kind);
        }
    }
}
