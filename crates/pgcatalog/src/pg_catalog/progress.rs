//! The progress of commands in PostgreSQL's shapes. Others' commands are there with their processes alone, as in
//! PostgreSQL. What is never done here (`pg_stat_progress_vacuum` and others) is among the empty relations.

use halcyon_base::progress::Phase;

use crate::progress::{Found, copy_type, found, oid};
use crate::view::{Name, Oid, Text, row, system_tables};
use crate::{Context, objects};

system_tables! {
    pg_stat_progress_copy: CopyRow from copies {
        pid: i32,
        datid: Oid,
        datname: Name,
        relid: Option<Oid>,
        command: Option<Text>,
        r#type: Option<Text>,
        bytes_processed: Option<i64>,
        bytes_total: Option<i64>,
        tuples_processed: Option<i64>,
        tuples_excluded: Option<i64>,
    }

    pg_stat_progress_create_index: CreateIndexRow from indexes {
        pid: i32,
        datid: Oid,
        datname: Name,
        relid: Option<Oid>,
        index_relid: Option<Oid>,
        command: Option<Text>,
        phase: Option<Text>,
        lockers_total: Option<i64>,
        lockers_done: Option<i64>,
        current_locker_pid: Option<i64>,
        blocks_total: Option<i64>,
        blocks_done: Option<i64>,
        tuples_total: Option<i64>,
        tuples_done: Option<i64>,
        partitions_total: Option<i64>,
        partitions_done: Option<i64>,
    }
}

/// COPY commands. As in PostgreSQL a total that is not known, and the oid of a query, are 0.
fn copies(context: &Context, rows: &mut Vec<CopyRow>) {
    for Found { shown, session, is_visible } in found(context) {
        let (Some(pid), true) = (session, shown.kind.is_copy()) else { continue };
        let is_from = shown.kind.is_copy_from();
        row!(rows; CopyRow {
            pid: pid,
            datid: objects::DATABASE,
            datname: &context.session.database,
            relid: is_visible.then(|| oid(shown.object.as_ref())),
            command: is_visible.then(|| shown.kind.command()),
            r#type: is_visible.then(|| copy_type(shown.kind)),
            bytes_processed: is_visible.then_some(shown.bytes),
            // Of COPY TO the total is one of rows.
            bytes_total: is_visible.then(|| shown.total.filter(|_| is_from).unwrap_or(0)),
            tuples_processed: is_visible.then_some(shown.rows),
            tuples_excluded: is_visible.then_some(shown.excluded),
        });
    }
}

/// Indexes that are built, also those of constraints. Rows are what is counted; tables have no blocks.
fn indexes(context: &Context, rows: &mut Vec<CreateIndexRow>) {
    for Found { shown, session, is_visible } in found(context) {
        let builds = matches!(shown.phase, Phase::ScanningTable | Phase::LoadingTree);
        let (Some(pid), true) = (session, builds) else { continue };
        let nothing = is_visible.then_some(0i64);
        row!(rows; CreateIndexRow {
            pid: pid,
            datid: objects::DATABASE,
            datname: &context.session.database,
            relid: is_visible.then(|| oid(shown.object.as_ref())),
            index_relid: is_visible.then(|| oid(shown.index.as_ref())),
            command: is_visible.then_some("CREATE INDEX"),
            phase: is_visible.then(|| shown.phase.name()),
            lockers_total: nothing,
            lockers_done: nothing,
            current_locker_pid: nothing,
            blocks_total: nothing,
            blocks_done: nothing,
            tuples_total: is_visible.then(|| shown.total.unwrap_or(0)),
            tuples_done: is_visible.then_some(shown.done),
            partitions_total: nothing,
            partitions_done: nothing,
        });
    }
}
