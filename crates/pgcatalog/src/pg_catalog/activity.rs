//! What goes on: sessions, locks, settings, sizes, in PostgreSQL's shapes.
//!
//! Schema `halcyon` tells the same with more detail.

use crate::halcyon_views::SessionState;
use crate::objects::{self, What};
use crate::table::{Cell, Def, Rows, row};
use crate::{Context, memory};

use super::columns;

/// The tables.
pub(super) const TABLES: &[Def] = &[
    Def { name: "pg_settings", columns: columns::SETTINGS, fill: settings },
    Def { name: "pg_stat_activity", columns: columns::STAT_ACTIVITY, fill: activity },
    Def { name: "pg_locks", columns: columns::LOCKS, fill: locks },
    Def { name: "pg_stat_user_tables", columns: columns::STAT_USER_TABLES, fill: table_statistics },
    Def { name: "pg_stat_all_tables", columns: columns::STAT_USER_TABLES, fill: table_statistics },
    Def { name: "pg_stat_database", columns: columns::STAT_DATABASE, fill: database_statistics },
];

fn settings(context: &Context, rows: &mut Rows) {
    for setting in context.live.settings() {
        let words: Vec<String> = setting.words.into_iter().map(str::to_owned).collect();
        row!(rows;
            setting.name, setting.number, setting.unit, setting.category, setting.description, (),
            setting.context, setting.kind, setting.source, setting.least, setting.most,
            (!words.is_empty()).then_some(words), &setting.default_number, &setting.default_number,
            (), (), false);
    }
}

fn activity(context: &Context, rows: &mut Rows) {
    for session in context.live.sessions() {
        let role = objects::role_oid(&context.catalog, &session.user);
        let (kind, event) = match session.state {
            SessionState::Waiting => (Some("Lock"), Some("relation")),
            SessionState::Syncing => (Some("IO"), Some("WALSync")),
            _ => (Some("Client"), None),
        };
        let visible = context.is_superuser() || session.user == context.session.user;
        let statement = if visible { session.statement } else { None };
        row!(rows;
            objects::DATABASE, &context.session.database, session.id, (), role, session.user,
            session.application, session.client, (), (), session.started_us,
            session.transaction_us, session.statement_us, session.statement_us, kind, event,
            session.state.name(), session.transaction, (), (), statement, "client backend");
    }
}

fn locks(context: &Context, rows: &mut Rows) {
    for lock in context.live.locks() {
        let table = objects::table_of(context, lock.partition).map_or(Cell::Null, |id| id.0.into());
        let mode = if lock.exclusive { "AccessExclusiveLock" } else { "AccessShareLock" };
        let holder = format!("{}/{}", lock.session, lock.transaction);
        row!(rows;
            "relation", objects::DATABASE, table, (), (), (), (), (), lock.partition, (), holder,
            lock.session, mode, lock.granted, false, ());
    }
}

fn table_statistics(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        let size = memory::of_rows(&context.live.roots(table));
        let zero = 0_i64;
        row!(rows;
            object.oid, &object.schema, &object.name, zero, zero, zero, zero, zero, zero, zero,
            zero, size.rows, size.slots - size.rows, zero, zero, (), (), (), (), zero, zero, zero,
            zero);
    }
}

fn database_statistics(context: &Context, rows: &mut Rows) {
    let (zero, none) = (0_i64, 0.0);
    row!(rows;
        objects::DATABASE, &context.session.database, context.live.sessions().len(), zero, zero,
        zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, (), none, none,
        none, none, none, zero, zero, zero, zero, context.live.started_us());
}
