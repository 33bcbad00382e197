//! Functions about the session, the server, the database, and the sizes of relations.

use std::collections::BTreeSet;

use super::*;
use crate::halcyon_views::{AdvisoryRow, LockRow, LogRow};
use crate::memory::{self, TableSize};
use crate::objects::{self, What};
use halcyon_catalog::temporary;
use halcyon_sql::coerce::{TimeZone, parse_owned};
use halcyon_sql::types::SqlType;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    define("version", (0, 0), Gives::Text, BOUND, |c, _| Ok(text(c.live.version()))),
    define("current_schemas", (1, 1), Gives::Names, BOUND, current_schemas),
    define("pg_my_temp_schema", (0, 0), Gives::Oid, BOUND, |c, _| {
        let own = temporary::schema_of(c.session.session_id);
        Ok(oid(objects::namespace(&c.catalog, &own)))
    }),
    define("pg_is_other_temp_schema", (1, 1), Gives::Bool, BOUND, |c, args| {
        let Some(asked) = args[0].oid() else { return Ok(ScalarValue::Null) };
        let mut schemas = c.catalog.schemas.values();
        let found = schemas.find(|schema| objects::schema_oid(schema) == asked);
        let session = found.and_then(|schema| temporary::session_of(&schema.name));
        let is_other = session.is_some_and(|session| session != c.session.session_id);
        Ok(ScalarValue::Boolean(Some(is_other)))
    }),
    define("current_setting", (1, 2), Gives::Text, LIVE, current_setting),
    define("pg_postmaster_start_time", (0, 0), Gives::Time, BOUND, |c, _| {
        Ok(ScalarValue::TimestampMicrosecond(Some(c.live.started_us()), Some("+00:00".into())))
    }),
    define("pg_conf_load_time", (0, 0), Gives::Time, BOUND, |c, _| {
        Ok(ScalarValue::TimestampMicrosecond(Some(c.live.started_us()), Some("+00:00".into())))
    }),
    define("pg_is_in_recovery", (0, 0), Gives::Bool, PURE, |_, _| Ok(truth(false))),
    define("pg_is_wal_replay_paused", (0, 0), Gives::Bool, PURE, |_, _| Ok(truth(false))),
    define("pg_current_wal_lsn", (0, 0), Gives::Text, LIVE, |c, _| Ok(position(c, |log| log.end))),
    define("pg_current_wal_insert_lsn", (0, 0), Gives::Text, LIVE, |c, _| {
        Ok(position(c, |log| log.end))
    }),
    define("pg_current_wal_flush_lsn", (0, 0), Gives::Text, LIVE, |c, _| {
        Ok(position(c, |log| log.durable))
    }),
    define("pg_wal_lsn_diff", (2, 2), Gives::Int8, PURE, |_, args| {
        let (Some(end), Some(start)) = (args[0].text(), args[1].text()) else {
            return Ok(ScalarValue::Null);
        };
        Ok(ScalarValue::Int64(Some(place(end)?.wrapping_sub(place(start)?))))
    }),
    // Nobody sends this database a log.
    define("pg_last_wal_receive_lsn", (0, 0), Gives::Text, PURE, |_, _| Ok(ScalarValue::Null)),
    define("pg_last_wal_replay_lsn", (0, 0), Gives::Text, PURE, |_, _| Ok(ScalarValue::Null)),
    define("pg_last_xact_replay_timestamp", (0, 0), Gives::Time, PURE, |_, _| {
        Ok(ScalarValue::Null)
    }),
    define("pg_listening_channels", (0, 0), Gives::Texts, LIVE, |c, _| {
        let channels = c.live.effects().map(|effects| effects.listening()).unwrap_or_default();
        let channels: Vec<ScalarValue> = channels.into_iter().map(text).collect();
        Ok(ScalarValue::List(ScalarValue::new_list(&channels, &DataType::Utf8View, true)))
    }),
    define("pg_stat_get_live_tuples", (1, 1), Gives::Int8, LIVE, |c, args| {
        rows(c, &args[0], |size| size.rows)
    }),
    define("pg_stat_get_dead_tuples", (1, 1), Gives::Int8, LIVE, |c, args| {
        rows(c, &args[0], |size| size.slots - size.rows)
    }),
    define("txid_current", (0, 0), Gives::Int8, LIVE, transaction),
    define("txid_current_if_assigned", (0, 0), Gives::Int8, LIVE, transaction),
    define("pg_current_xact_id_if_assigned", (0, 0), Gives::Int8, LIVE, transaction),
    define("pg_current_xact_id", (0, 0), Gives::Int8, LIVE, transaction),
    define("getdatabaseencoding", (0, 0), Gives::Text, PURE, |_, _| Ok(text("UTF8"))),
    define("pg_client_encoding", (0, 0), Gives::Text, PURE, |_, _| Ok(text("UTF8"))),
    define("inet_server_addr", (0, 0), Gives::Text, PURE, |_, _| Ok(ScalarValue::Null)),
    define("inet_server_port", (0, 0), Gives::Int4, PURE, |_, _| Ok(ScalarValue::Null)),
    define("inet_client_addr", (0, 0), Gives::Text, LIVE, |c, _| {
        let sessions = c.live.sessions();
        let own = sessions.into_iter().find(|s| s.id == c.session.session_id);
        // A program that the database is embedded in has no address.
        let is_address =
            |client: &String| parse_owned(client, SqlType::Inet, &TimeZone::UTC).is_ok();
        Ok(text_or_null(own.and_then(|session| session.client).filter(is_address)))
    }),
    define("pg_relation_size", (1, 2), Gives::Int8, LIVE, |c, args| {
        Ok(bytes(size(c, &args[0])?.map(|(rows, _)| rows)))
    }),
    define("pg_table_size", (1, 1), Gives::Int8, LIVE, |c, args| {
        Ok(bytes(size(c, &args[0])?.map(|(rows, _)| rows)))
    }),
    define("pg_indexes_size", (1, 1), Gives::Int8, LIVE, |c, args| {
        Ok(bytes(size(c, &args[0])?.map(|(_, indexes)| indexes)))
    }),
    define("pg_total_relation_size", (1, 1), Gives::Int8, LIVE, |c, args| {
        Ok(bytes(size(c, &args[0])?.map(|(rows, indexes)| rows + indexes)))
    }),
    define("pg_blocking_pids", (1, 1), Gives::Subscripts, LIVE, blocking),
    define("pg_database_size", (1, 1), Gives::Int8, LIVE, database_size),
    define("pg_tablespace_size", (1, 1), Gives::Int8, LIVE, database_size),
    define("pg_tablespace_location", (1, 1), Gives::Text, PURE, |_, _| Ok(text(""))),
    define("pg_stat_get_numscans", (1, 1), Gives::Int8, PURE, |_, _| {
        Ok(ScalarValue::Int64(Some(0)))
    }),
    define("pg_relation_filenode", (1, 1), Gives::Oid, BOUND, |_, args| {
        Ok(args[0].oid().map_or(ScalarValue::Null, oid))
    }),
];

/// A position of the log as PostgreSQL shows one. A database without a folder has none, and stays at the first.
fn position(context: &Context, of: impl Fn(LogRow) -> String) -> ScalarValue {
    text(context.live.log().map_or_else(|| "0/0".to_owned(), of))
}

/// The number of bytes before a position of the log. Errors: 22P02.
fn place(position: &str) -> Result<i64> {
    let halves = position
        .split_once('/')
        .map(|(high, low)| (u32::from_str_radix(high, 16), u32::from_str_radix(low, 16)));
    let Some((Ok(high), Ok(low))) = halves else {
        let message = format!("invalid input syntax for type pg_lsn: \"{position}\"");
        return Err(error(SqlState::INVALID_TEXT_REPRESENTATION, message));
    };
    Ok((u64::from(high) << 32 | u64::from(low)).cast_signed())
}

/// Rows, or places of rows, of a table; none of anything else.
fn rows(context: &Context, arg: &Arg<'_>, of: impl Fn(TableSize) -> u64) -> Outcome {
    let Some(oid) = super::definitions::relation_oid(context, arg)? else {
        return Ok(ScalarValue::Null);
    };
    let found = context.objects().get(oid).map_or(0, |object| match &object.what {
        What::Table(table) => of(memory::of_rows(&context.roots(table))),
        _ => 0,
    });
    Ok(bytes(Some(found)))
}

fn current_schemas(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let all = args[0].bool().unwrap_or(false);
    let values: Vec<ScalarValue> = context.current_schemas(all).map(text).collect();
    Ok(ScalarValue::List(ScalarValue::new_list(&values, &DataType::Utf8View, true)))
}

fn current_setting(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(name) = args[0].text() else { return Ok(ScalarValue::Null) };
    let mut settings = context.live.settings().into_iter();
    if let Some(setting) = settings.find(|setting| setting.name.eq_ignore_ascii_case(name)) {
        return Ok(text(setting.value));
    }
    if args.get(1).and_then(Arg::bool).unwrap_or(false) {
        return Ok(ScalarValue::Null);
    }
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Err(error(SqlState::UNDEFINED_OBJECT, message))
}

fn transaction(context: &Context, _: &[Arg<'_>]) -> Outcome {
    let running = context.live.transactions();
    let own = running.iter().find(|tx| tx.session == context.session.session_id);
    Ok(own.map_or(ScalarValue::Null, |tx| ScalarValue::Int64(Some(tx.id as i64))))
}

/// Sessions that hold, or wait before it for, a lock for which a session waits.
fn blocking(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(asked) = args[0].oid() else { return Ok(ScalarValue::Null) };
    let locks = context.live.locks();
    let waits: Vec<&LockRow> =
        locks.iter().filter(|lock| lock.session == asked && !lock.granted).collect();
    let blocks = |lock: &&LockRow| {
        let stands_in_the_way = |wait: &&LockRow| {
            wait.partition == lock.partition && (wait.exclusive || lock.exclusive)
        };
        lock.granted && lock.session != asked && waits.iter().any(stands_in_the_way)
    };
    let mut sessions: BTreeSet<u32> =
        locks.iter().filter(blocks).map(|lock| lock.session).collect();
    let advisory = context.live.advisory_locks();
    let awaited = advisory.iter().find(|lock| lock.session == asked && !lock.granted);
    sessions.extend(awaited.into_iter().flat_map(|wait| {
        let in_the_way = |lock: &&AdvisoryRow| {
            let excludes = !(lock.shared && wait.shared);
            lock.granted && lock.key == wait.key && lock.session != asked && excludes
        };
        advisory.iter().filter(in_the_way).map(|lock| lock.session)
    }));
    let sessions: Vec<ScalarValue> = sessions.into_iter().map(oid).collect();
    Ok(ScalarValue::List(ScalarValue::new_list(&sessions, &DataType::Int32, true)))
}

fn bytes(size: Option<u64>) -> ScalarValue {
    size.map_or(ScalarValue::Null, |size| ScalarValue::Int64(i64::try_from(size).ok()))
}

/// Bytes of a relation's rows and of its indexes; `None` if there is no such relation.
fn size(context: &Context, arg: &Arg<'_>) -> Result<Option<(u64, u64)>> {
    let Some(oid) = super::definitions::relation_oid(context, arg)? else { return Ok(None) };
    Ok(context.objects().get(oid).map(|object| match &object.what {
        What::Table(table) => {
            let size = memory::of_table(&context.roots(table));
            (size.row_bytes, size.index_bytes)
        }
        What::Index(table, index) => (memory::of_index(&context.roots(table), index.id).bytes, 0),
        What::Sequence(_) | What::View(_) | What::System(_) => (0, 0),
    }))
}

/// Everything that tables hold; by name or id of the one database or tablespace.
fn database_size(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let own = match args[0].text() {
        Some(name) => name == context.session.database || name == "pg_default",
        None => matches!(args[0].oid(), Some(objects::DATABASE | 1663)),
    };
    if !own {
        return Ok(ScalarValue::Null);
    }
    let sizes = context.catalog.tables.values();
    let total = sizes.map(|table| {
        let TableSize { row_bytes, index_bytes, .. } = memory::of_table(&context.roots(table));
        row_bytes + index_bytes
    });
    Ok(bytes(Some(total.sum())))
}
