//! Relations: `pg_class`, and the views that list one kind of them.

use super::attributes::SEQUENCE_COLUMNS;
use crate::objects::{self, Object, What, each_table};
use crate::view::{Acl, Char, Name, Oid, Text, Texts, row, system_tables};
use crate::{Context, describe, memory};
use halcyon_catalog::Table;
use halcyon_catalog::temporary::is_temporary;

system_tables! {
    pg_class: ClassRow from class {
        oid: Oid,
        relname: Name,
        relnamespace: Oid,
        reltype: Oid,
        reloftype: Oid = Oid(0),
        relowner: Oid,
        relam: Oid,
        relfilenode: Oid,
        reltablespace: Oid = Oid(0),
        relpages: i32,
        reltuples: f32,
        relallvisible: i32 = 0,
        reltoastrelid: Oid = Oid(0),
        relhasindex: bool,
        relisshared: bool = false,
        relpersistence: Char,
        relkind: Char,
        relnatts: i16,
        relchecks: i16,
        relhasrules: bool,
        relhastriggers: bool,
        relhassubclass: bool = false,
        relrowsecurity: bool = false,
        relforcerowsecurity: bool = false,
        relispopulated: bool = true,
        relreplident: Char,
        relispartition: bool = false,
        relrewrite: Oid = Oid(0),
        relfrozenxid: i64 = 0,
        relminmxid: i64 = 0,
        relacl: Option<Acl>,
        reloptions: Option<Texts>,
        relpartbound: Option<Text> = None,
    }

    pg_sequence: SequenceRow from sequence {
        seqrelid: Oid,
        seqtypid: Oid,
        seqstart: i64,
        seqincrement: i64,
        seqmax: i64,
        seqmin: i64,
        seqcache: i64 = 1,
        seqcycle: bool,
    }

    pg_sequences: SequenceLine from sequences {
        schemaname: Name,
        sequencename: Name,
        sequenceowner: Name,
        data_type: Oid,
        start_value: i64,
        min_value: i64,
        max_value: i64,
        increment_by: i64,
        cycle: bool,
        cache_size: i64 = 1,
        last_value: Option<i64>,
    }

    pg_tables: TableLine from tables {
        schemaname: Name,
        tablename: Name,
        tableowner: Name,
        tablespace: Option<Name> = None,
        hasindexes: bool,
        hasrules: bool = false,
        hastriggers: bool,
        rowsecurity: bool = false,
    }

    pg_views: ViewLine from views {
        schemaname: Name,
        viewname: Name,
        viewowner: Name,
        definition: Text,
    }

    pg_matviews: MatviewLine from matviews {
        schemaname: Name,
        matviewname: Name,
        matviewowner: Name,
        tablespace: Option<Name> = None,
        hasindexes: bool,
        ispopulated: bool = true,
        definition: Text,
    }

    pg_indexes: IndexLine from indexes {
        schemaname: Name,
        tablename: Name,
        indexname: Name,
        tablespace: Option<Name> = None,
        indexdef: Text,
    }

    pg_rewrite: RewriteRow from rewrite {
        oid: Oid,
        rulename: Name = Name("_RETURN".to_owned()),
        ev_class: Oid,
        ev_type: Char = Char("1"),
        ev_enabled: Char = Char("O"),
        is_instead: bool = true,
        ev_qual: Option<Text> = None,
        ev_action: Option<Text> = None,
    }
}

/// Ids of `pg_am`: how tables and indexes are stored.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
/// Bytes of an index entry, about.
const ENTRY_BYTES: u64 = 16;
/// Bytes of a page, in which clients count sizes.
const PAGE: u64 = 8192;

fn class(context: &Context, rows: &mut Vec<ClassRow>) {
    for object in context.objects().relations.values() {
        class_row(context, object, rows);
    }
}

/// `reltuples`: −1, which means unknown, for those who may not read the table.
fn count_of(context: &Context, table: &Table, rows: u64) -> f64 {
    match context.may_read(table) {
        true => rows as f64,
        false => -1.0,
    }
}

fn class_row(context: &Context, object: &Object, rows: &mut Vec<ClassRow>) {
    let catalog = &context.catalog;
    let owner = context.owner_oid(object);
    let (width, checks, indexed, triggers, access, count, bytes, options) = match &object.what {
        What::Table(table) => {
            let size = memory::of_rows(&context.roots(table));
            let keys = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
            let options = describe::options(table);
            let (width, checks) = (table.columns.len(), table.checks.len());
            let indexed = !table.indexes.is_empty();
            let count = count_of(context, table, size.rows);
            (width, checks, indexed, keys, HEAP, count, size.row_bytes, options)
        }
        What::Index(table, index) => {
            // Counting the bytes of long keys takes a walk over the tree; clients want an estimate.
            let entries = memory::of_rows(&context.roots(table)).rows;
            let bytes = entries * ENTRY_BYTES;
            let count = count_of(context, table, entries);
            let width = describe::index_columns(table, index).len();
            (width, 0, false, false, BTREE, count, bytes, None)
        }
        What::View(view) => {
            (view.columns.len(), 0, false, false, 0, -1.0, 0, describe::view_options(view))
        }
        What::Sequence(_) => (SEQUENCE_COLUMNS.len(), 0, false, false, 0, 1.0, PAGE, None),
        What::System(system) => {
            let access = if object.kind() == "r" { HEAP } else { 0 };
            (system.schema().fields().len(), 0, false, false, access, -1.0, 0, None)
        }
    };
    let stored = !matches!(object.what, What::View(_) | What::System(_));
    row!(rows; ClassRow {
        oid: object.oid,
        relpersistence: if is_temporary(&object.schema) { "t" } else { "p" },
        relname: &object.name,
        relnamespace: objects::namespace(catalog, &object.schema),
        reltype: objects::row_type_oid(object),
        relowner: owner,
        relam: access,
        relfilenode: if stored { object.oid } else { 0 },
        relpages: bytes.div_ceil(PAGE),
        reltuples: count,
        relhasindex: indexed,
        relkind: object.kind(),
        relnatts: width,
        relchecks: checks,
        relhasrules: matches!(object.what, What::View(_)),
        relhastriggers: triggers,
        relreplident: if object.kind() == "r" { "d" } else { "n" },
        relacl: context.acl(object),
        reloptions: options,
    });
}

fn sequence(context: &Context, rows: &mut Vec<SequenceRow>) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        row!(rows; SequenceRow {
            seqrelid: object.oid,
            seqtypid: ty,
            seqstart: options.start,
            seqincrement: options.increment,
            seqmax: options.max,
            seqmin: options.min,
            seqcycle: options.cycle,
        });
    }
}

fn sequences(context: &Context, rows: &mut Vec<SequenceLine>) {
    for object in context.objects().relations.values() {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        row!(rows; SequenceLine {
            schemaname: &object.schema,
            sequencename: &object.name,
            sequenceowner: &sequence.owner,
            data_type: ty,
            start_value: options.start,
            min_value: options.min,
            max_value: options.max,
            increment_by: options.increment,
            cycle: options.cycle,
            last_value: context.last_value(sequence),
        });
    }
}

fn tables(context: &Context, rows: &mut Vec<TableLine>) {
    for object in context.objects().relations.values().filter(|object| object.kind() == "r") {
        let (indexed, triggers) = match &object.what {
            What::Table(table) => {
                let keys = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
                (!table.indexes.is_empty(), keys)
            }
            _ => (false, false),
        };
        let owner = context.owner_name(object);
        row!(rows; TableLine {
            schemaname: &object.schema,
            tablename: &object.name,
            tableowner: owner,
            hasindexes: indexed,
            hastriggers: triggers,
        });
    }
}

fn views(context: &Context, rows: &mut Vec<ViewLine>) {
    for object in context.objects().relations.values() {
        if let What::View(view) = &object.what {
            row!(rows; ViewLine {
                schemaname: &object.schema,
                viewname: &object.name,
                viewowner: &view.owner,
                definition: format!(" {};", view.query),
            });
        }
    }
}

fn matviews(context: &Context, rows: &mut Vec<MatviewLine>) {
    for (object, table) in each_table(context) {
        if let Some(view) = table.materialized() {
            row!(rows; MatviewLine {
                schemaname: &object.schema,
                matviewname: &object.name,
                matviewowner: &table.owner,
                hasindexes: !table.indexes.is_empty(),
                definition: format!(" {};", view.query),
            });
        }
    }
}

fn indexes(context: &Context, rows: &mut Vec<IndexLine>) {
    for object in context.objects().relations.values() {
        if let What::Index(table, index) = &object.what {
            let text = describe::index(&context.session, table, index, false);
            row!(rows; IndexLine {
                schemaname: &object.schema,
                tablename: &table.name,
                indexname: &object.name,
                indexdef: text,
            });
        }
    }
}

fn rewrite(context: &Context, rows: &mut Vec<RewriteRow>) {
    for object in context.objects().relations.values() {
        let view = match &object.what {
            What::View(_) => true,
            What::Table(table) => table.materialized().is_some(),
            _ => false,
        };
        if view {
            row!(rows; RewriteRow {
                oid: object.oid,
                ev_class: object.oid,
            });
        }
    }
}
