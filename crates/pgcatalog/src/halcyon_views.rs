//! Schema `halcyon`: what the engine does. Columns are described in docs/guide/system-views.md;
//! a test compares that page with the definitions here.

use super::Context;
use super::live::SessionState;
use super::memory;
use super::objects::What;
use super::pg_catalog::table_of;
use super::table::Kind::*;
use super::table::{Def, Rows, row};

/// The views; columns stand several to a line.
#[rustfmt::skip]
pub(crate) const TABLES: &[Def] = &[
    Def {
        name: "sessions",
        columns: &[
            ("session", Int4), ("role", Name), ("application", Text), ("client", Text),
            ("state", Text), ("transaction", Int8), ("started", Time),
            ("transaction_started", Time), ("statement_started", Time), ("statement", Text),
        ],
        fill: sessions,
    },
    Def {
        name: "statements",
        columns: &[
            ("statement", Text), ("executor", Text), ("calls", Int8), ("errors", Int8),
            ("rows", Int8), ("total_ms", Float8), ("mean_ms", Float8), ("max_ms", Float8),
        ],
        fill: statements,
    },
    Def {
        name: "locks",
        columns: &[
            ("schema", Name), ("relation", Name), ("partition", Int4), ("partition_id", Int4),
            ("transaction", Int8), ("session", Int4), ("mode", Text), ("granted", Bool),
        ],
        fill: locks,
    },
    Def {
        name: "transactions",
        columns: &[
            ("transaction", Int8), ("session", Int4), ("isolation", Text), ("read_only", Bool),
            ("started", Time), ("locks", Int8), ("undo_records", Int8),
        ],
        fill: transactions,
    },
    Def {
        name: "memory",
        columns: &[
            ("schema", Name), ("relation", Name), ("partition", Int4), ("partition_id", Int4),
            ("index", Name), ("rows", Int8), ("segments", Int8), ("free_slots", Int8),
            ("bytes", Int8),
        ],
        fill: memory_rows,
    },
    Def {
        name: "views",
        columns: &[
            ("schema", Name), ("view", Name), ("rows", Int8), ("bytes", Int8), ("map_bytes", Int8),
            ("events", Int8), ("event_ns_p50", Int8), ("event_ns_p99", Int8), ("event_ns_max", Int8),
        ],
        fill: views,
    },
    Def {
        name: "log",
        columns: &[
            ("end_lsn", Text), ("durable_lsn", Text), ("checkpoint_lsn", Text), ("bytes", Int8),
            ("files", Int8), ("commits", Int8), ("syncs", Int8), ("sync_ms", Float8),
            ("checkpointed", Time), ("error", Text),
        ],
        fill: log,
    },
    Def {
        name: "settings",
        columns: &[
            ("name", Text), ("value", Text), ("default_value", Text), ("unit", Text), ("type", Text),
            ("description", Text),
        ],
        fill: settings,
    },
];

fn sessions(context: &Context, rows: &mut Rows) {
    for session in context.live.sessions() {
        let visible = context.is_superuser() || session.user == context.session.user;
        let statement = if visible { session.statement } else { None };
        let state = match session.state {
            SessionState::Waiting => "waiting for a lock",
            SessionState::Syncing => "waiting for the disk",
            other => other.name(),
        };
        row!(rows;
            session.id, session.user, session.application, session.client, state,
            session.transaction, session.started_us, session.transaction_us,
            session.statement_us, statement);
    }
}

/// Texts of statements tell what others do: for superusers only.
fn statements(context: &Context, rows: &mut Rows) {
    if !context.is_superuser() {
        return;
    }
    const MS: f64 = 1e6;
    for statement in context.live.statements() {
        let total = statement.total_ns as f64 / MS;
        let mean = (statement.calls > 0).then(|| total / statement.calls as f64);
        row!(rows;
            statement.text, statement.executor, statement.calls, statement.errors, statement.rows,
            total, mean, statement.max_ns as f64 / MS);
    }
}

fn locks(context: &Context, rows: &mut Rows) {
    for lock in context.live.locks() {
        let table = table_of(context, lock.partition);
        let table = table.and_then(|id| context.catalog.tables.get(&id));
        let number =
            table.and_then(|table| table.cells.iter().position(|cell| cell.id.0 == lock.partition));
        let mode = if lock.exclusive { "exclusive" } else { "shared" };
        row!(rows;
            table.map(|table| &table.schema), table.map(|table| &table.name), number,
            lock.partition, lock.transaction, lock.session, mode, lock.granted);
    }
}

fn transactions(context: &Context, rows: &mut Rows) {
    for tx in context.live.transactions() {
        row!(rows;
            tx.id, tx.session, tx.isolation, tx.read_only, tx.started_us, tx.locks,
            tx.undo_records);
    }
}

/// One row per partition (`index` is NULL) and one per index of it.
fn memory_rows(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        for (number, root) in context.live.roots(table).iter().enumerate() {
            let id = table.cells.get(number).map(|cell| cell.id.0);
            let size = memory::of_partition(root);
            row!(rows;
                &object.schema, &object.name, number, id, (), size.rows, size.segments,
                size.slots - size.rows, size.row_bytes);
            for index in &table.indexes {
                if let Some(tree) = root.index(index.id) {
                    row!(rows;
                        &object.schema, &object.name, number, id, &index.name, tree.len(), (), (),
                        tree.bytes());
                }
            }
        }
    }
}

/// Materialized views: what they hold, and what an event has cost.
fn views(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        let Some(view) = table.materialized() else { continue };
        let (size, figures) = (memory::of_rows(&context.live.roots(table)), view.cell.figures());
        let ns = |ns: Option<u64>| ns.map(|ns| ns as i64);
        row!(rows;
            &object.schema, &object.name, size.rows, size.row_bytes, figures.bytes, figures.events,
            ns(figures.ns_p50), ns(figures.ns_p99), ns(figures.ns_max));
    }
}

fn log(context: &Context, rows: &mut Rows) {
    if let Some(log) = context.live.log() {
        row!(rows;
            log.end, log.durable, log.checkpoint, log.bytes, log.files, log.commits, log.syncs,
            log.sync_ms, log.checkpoint_us, log.error);
    }
}

fn settings(context: &Context, rows: &mut Rows) {
    for setting in context.live.settings() {
        row!(rows;
            setting.name, setting.value, setting.default, setting.unit, setting.kind,
            setting.description);
    }
}
