//! What goes on: sessions, locks, settings, sizes, in PostgreSQL's shapes.
//!
//! Schema `halcyon` tells the same with more detail.

use crate::halcyon_views::SessionState;
use crate::objects::{self, What};
use crate::view::{Moment, Name, Oid, Text, Texts, row, system_tables};
use crate::{AdvisoryKey, Context, memory};

system_tables! {
    pg_settings: SettingsRow from settings {
        name: Text,
        setting: Text,
        unit: Option<Text>,
        category: Text,
        short_desc: Text,
        extra_desc: Option<Text> = None,
        context: Text,
        vartype: Text,
        source: Text,
        min_val: Option<Text>,
        max_val: Option<Text>,
        enumvals: Option<Texts>,
        boot_val: Text,
        reset_val: Text,
        sourcefile: Option<Text> = None,
        sourceline: Option<i32> = None,
        pending_restart: bool = false,
    }

    pg_stat_activity: StatActivityRow from activity {
        datid: Oid,
        datname: Name,
        pid: i32,
        leader_pid: Option<i32> = None,
        usesysid: Oid,
        usename: Name,
        application_name: Text,
        client_addr: Option<Text>,
        client_hostname: Option<Text> = None,
        client_port: Option<i32> = None,
        backend_start: Moment,
        xact_start: Option<Moment>,
        query_start: Option<Moment>,
        state_change: Option<Moment>,
        wait_event_type: Option<Text>,
        wait_event: Option<Text>,
        state: Text,
        backend_xid: Option<i64>,
        backend_xmin: Option<i64> = None,
        query_id: Option<i64> = None,
        query: Option<Text>,
        backend_type: Text = Text::from("client backend"),
    }

    pg_locks: LocksRow from locks {
        locktype: Text,
        database: Oid,
        relation: Option<Oid>,
        page: Option<i32> = None,
        tuple: Option<i16> = None,
        virtualxid: Option<Text> = None,
        transactionid: Option<i64> = None,
        classid: Option<Oid>,
        objid: Oid,
        objsubid: Option<i16>,
        virtualtransaction: Text,
        pid: i32,
        mode: Text,
        granted: bool,
        fastpath: bool = false,
        waitstart: Option<Moment> = None,
    }

    pg_stat_user_tables: StatUserTablesRow from table_statistics,
        pg_stat_all_tables from table_statistics
    {
        relid: Oid,
        schemaname: Name,
        relname: Name,
        seq_scan: i64 = 0,
        seq_tup_read: i64 = 0,
        idx_scan: i64 = 0,
        idx_tup_fetch: i64 = 0,
        n_tup_ins: i64 = 0,
        n_tup_upd: i64 = 0,
        n_tup_del: i64 = 0,
        n_tup_hot_upd: i64 = 0,
        n_live_tup: i64,
        n_dead_tup: i64,
        n_mod_since_analyze: i64 = 0,
        n_ins_since_vacuum: i64 = 0,
        last_vacuum: Option<Moment> = None,
        last_autovacuum: Option<Moment> = None,
        last_analyze: Option<Moment> = None,
        last_autoanalyze: Option<Moment> = None,
        vacuum_count: i64 = 0,
        autovacuum_count: i64 = 0,
        analyze_count: i64 = 0,
        autoanalyze_count: i64 = 0,
    }

    pg_statio_user_tables: StatioTablesRow from table_reads,
        pg_statio_all_tables from table_reads
    {
        relid: Oid,
        schemaname: Name,
        relname: Name,
        heap_blks_read: i64 = 0,
        heap_blks_hit: i64 = 0,
        idx_blks_read: i64 = 0,
        idx_blks_hit: i64 = 0,
        toast_blks_read: i64 = 0,
        toast_blks_hit: i64 = 0,
        tidx_blks_read: i64 = 0,
        tidx_blks_hit: i64 = 0,
    }

    pg_stat_user_indexes: StatIndexesRow from index_statistics,
        pg_stat_all_indexes from index_statistics
    {
        relid: Oid,
        indexrelid: Oid,
        schemaname: Name,
        relname: Name,
        indexrelname: Name,
        idx_scan: i64 = 0,
        idx_tup_read: i64 = 0,
        idx_tup_fetch: i64 = 0,
    }

    pg_statio_user_indexes: StatioIndexesRow from index_reads,
        pg_statio_all_indexes from index_reads
    {
        relid: Oid,
        indexrelid: Oid,
        schemaname: Name,
        relname: Name,
        indexrelname: Name,
        idx_blks_read: i64 = 0,
        idx_blks_hit: i64 = 0,
    }

    pg_statio_user_sequences: StatioSequencesRow from sequence_reads,
        pg_statio_all_sequences from sequence_reads
    {
        relid: Oid,
        schemaname: Name,
        relname: Name,
        blks_read: i64 = 0,
        blks_hit: i64 = 0,
    }

    pg_cursors: CursorsRow from cursors {
        name: Text,
        statement: Text,
        is_holdable: bool,
        is_binary: bool = false,
        is_scrollable: bool,
        creation_time: Moment,
    }

    pg_stat_database: StatDatabaseRow from database_statistics {
        datid: Oid,
        datname: Name,
        numbackends: i32,
        xact_commit: i64 = 0,
        xact_rollback: i64 = 0,
        blks_read: i64 = 0,
        blks_hit: i64 = 0,
        tup_returned: i64 = 0,
        tup_fetched: i64 = 0,
        tup_inserted: i64 = 0,
        tup_updated: i64 = 0,
        tup_deleted: i64 = 0,
        conflicts: i64 = 0,
        temp_files: i64,
        temp_bytes: i64,
        deadlocks: i64 = 0,
        checksum_failures: i64 = 0,
        checksum_last_failure: Option<Moment> = None,
        blk_read_time: f64 = 0.0,
        blk_write_time: f64 = 0.0,
        session_time: f64 = 0.0,
        active_time: f64 = 0.0,
        idle_in_transaction_time: f64 = 0.0,
        sessions: i64 = 0,
        sessions_abandoned: i64 = 0,
        sessions_fatal: i64 = 0,
        sessions_killed: i64 = 0,
        stats_reset: Moment,
    }
}

fn settings(context: &Context, rows: &mut Vec<SettingsRow>) {
    for setting in context.live.settings() {
        let words: Vec<String> = setting.words.into_iter().map(str::to_owned).collect();
        row!(rows; SettingsRow {
            name: setting.name,
            setting: setting.number,
            unit: setting.unit,
            category: setting.category,
            short_desc: setting.description,
            context: setting.context,
            vartype: setting.kind,
            source: setting.source,
            min_val: setting.least,
            max_val: setting.most,
            enumvals: (!words.is_empty()).then_some(words),
            boot_val: &setting.default_number,
            reset_val: &setting.default_number,
        });
    }
}

fn activity(context: &Context, rows: &mut Vec<StatActivityRow>) {
    for session in context.live.sessions() {
        let role = objects::role_oid(&context.catalog, &session.user);
        let (kind, event) = match session.state {
            SessionState::Waiting => (Some("Lock"), Some("relation")),
            SessionState::Syncing => (Some("IO"), Some("WALSync")),
            _ => (Some("Client"), None),
        };
        let visible = context.is_superuser() || session.user == context.session.user;
        let statement = if visible { session.statement } else { None };
        row!(rows; StatActivityRow {
            datid: objects::DATABASE,
            datname: &context.session.database,
            pid: session.id,
            usesysid: role,
            usename: session.user,
            application_name: session.application,
            client_addr: session.client,
            backend_start: session.started_us,
            xact_start: session.transaction_us,
            query_start: session.statement_us,
            state_change: session.statement_us,
            wait_event_type: kind,
            wait_event: event,
            state: session.state.name(),
            backend_xid: session.transaction,
            query: statement,
        });
    }
}

fn locks(context: &Context, rows: &mut Vec<LocksRow>) {
    for lock in context.live.locks() {
        let table = objects::table_of(context, lock.partition).map(|id| id.0);
        let mode = if lock.exclusive { "AccessExclusiveLock" } else { "AccessShareLock" };
        let holder = format!("{}/{}", lock.session, lock.transaction);
        row!(rows; LocksRow {
            locktype: "relation",
            database: objects::DATABASE,
            relation: table,
            classid: None::<u32>,
            objid: lock.partition,
            objsubid: None::<i16>,
            virtualtransaction: holder,
            pid: lock.session,
            mode: mode,
            granted: lock.granted,
        });
    }
    for lock in context.live.advisory_locks() {
        // As PostgreSQL has them: a number's two halves, or two numbers.
        let (class, object, kind) = match lock.key {
            AdvisoryKey::One(key) => ((key >> 32) as u32, key as u32, 1i16),
            AdvisoryKey::Two(class, object) => (class as u32, object as u32, 2),
        };
        row!(rows; LocksRow {
            locktype: "advisory",
            database: objects::DATABASE,
            relation: None::<u32>,
            classid: Some(class),
            objid: object,
            objsubid: Some(kind),
            virtualtransaction: format!("{}/0", lock.session),
            pid: lock.session,
            mode: if lock.shared { "ShareLock" } else { "ExclusiveLock" },
            granted: lock.granted,
        });
    }
}

fn table_statistics(context: &Context, rows: &mut Vec<StatUserTablesRow>) {
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        let size = memory::of_rows(&context.roots(table));
        row!(rows; StatUserTablesRow {
            relid: object.oid,
            schemaname: &object.schema,
            relname: &object.name,
            n_live_tup: size.rows,
            n_dead_tup: size.slots - size.rows,
        });
    }
}

/// Nothing is read from a disk in blocks.
fn table_reads(context: &Context, rows: &mut Vec<StatioTablesRow>) {
    for (object, _) in objects::each_table(context) {
        row!(rows; StatioTablesRow {
            relid: object.oid,
            schemaname: &object.schema,
            relname: &object.name,
        });
    }
}

fn index_statistics(context: &Context, rows: &mut Vec<StatIndexesRow>) {
    for object in context.objects().relations.values() {
        let What::Index(table, _) = &object.what else { continue };
        row!(rows; StatIndexesRow {
            relid: table.id.0,
            indexrelid: object.oid,
            schemaname: &object.schema,
            relname: &table.name,
            indexrelname: &object.name,
        });
    }
}

fn index_reads(context: &Context, rows: &mut Vec<StatioIndexesRow>) {
    for object in context.objects().relations.values() {
        let What::Index(table, _) = &object.what else { continue };
        row!(rows; StatioIndexesRow {
            relid: table.id.0,
            indexrelid: object.oid,
            schemaname: &object.schema,
            relname: &table.name,
            indexrelname: &object.name,
        });
    }
}

fn sequence_reads(context: &Context, rows: &mut Vec<StatioSequencesRow>) {
    for object in context.objects().relations.values() {
        let What::Sequence(..) = &object.what else { continue };
        row!(rows; StatioSequencesRow {
            relid: object.oid,
            schemaname: &object.schema,
            relname: &object.name,
        });
    }
}

fn cursors(context: &Context, rows: &mut Vec<CursorsRow>) {
    for cursor in context.live.cursors() {
        row!(rows; CursorsRow {
            name: cursor.name,
            statement: cursor.statement,
            is_holdable: cursor.holds,
            is_scrollable: cursor.scrolls,
            creation_time: cursor.declared_us,
        });
    }
}

fn database_statistics(context: &Context, rows: &mut Vec<StatDatabaseRow>) {
    let (files, bytes) = context.live.spilled();
    row!(rows; StatDatabaseRow {
        datid: objects::DATABASE,
        datname: &context.session.database,
        numbackends: context.live.sessions().len(),
        temp_files: files,
        temp_bytes: bytes,
        stats_reset: context.live.started_us(),
    });
}
