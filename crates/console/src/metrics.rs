//! `/metrics`: what Prometheus reads, as OpenMetrics text.
//!
//! Everything is read from system views by a session of the first superuser, once a second at most however
//! many scrape. Labels are names of workload classes, workers, accounts and materialized views: of each kind
//! there are [`SERIES_MAX`] at most, and `halcyon_series_left_out` says how many more there would be.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use halcyon::{Database, SERVER_VERSION, Session, SqlError};
use halcyon_base::memory;
use serde_json::Value as Json;

use crate::answer::Refused;
use crate::app::{App, Engine};
use crate::login::{peer, require_scraper};
use crate::process;

/// Values of a label.
const SERIES_MAX: usize = 100;
/// The time for which a text is given to all scrapers.
const KEPT: Duration = Duration::from_secs(1);
/// Bounds of histograms, of those that the engine counts by: doublings from 512 ns.
const BOUNDS: std::ops::Range<usize> = 4..27;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let peer = peer(&request)?;
    require_scraper(&app, &request.into_parts().0.headers, peer).await?;
    // Scrapers that come while a text is made wait for that text.
    let mut kept = app.exposition.lock().await;
    let fresh = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT).map(|(_, text)| text.clone());
    let text = match fresh {
        Some(text) => text,
        None => {
            let made = Arc::clone(&app);
            let made = tokio::task::spawn_blocking(move || {
                let made = made.engine().map(|engine| expose(engine, made.viewers.count()));
                memory::at_rest();
                made
            });
            let made = made.await.map_err(|_| Refused::unavailable("the server is ending"))??;
            let text = Bytes::from(made.map_err(|error| Refused::unavailable(error.message()))?);
            *kept = Some((Instant::now(), text.clone()));
            text
        }
    };
    drop(kept);
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The kind of a family of metrics.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Info,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
        }
    }

    /// What stands behind the family's name in a sample.
    fn suffix(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }
}

/// A text that grows family by family.
#[derive(Default)]
struct Text {
    text: String,
    left_out: usize,
}

/// The samples of one family.
struct Family<'t> {
    text: &'t mut String,
    name: &'static str,
    kind: Kind,
}

type Labels<'a> = &'a [(&'static str, &'a str)];

impl Text {
    /// Begins a family; its name ends with its unit, if it has one.
    fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.name());
        if let Some(unit) = ["seconds", "bytes", "ratio"].iter().find(|unit| name.ends_with(**unit))
        {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
        Family { text: &mut self.text, name, kind }
    }

    /// A family of one sample.
    fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// A family with a sample for each row of a view that has a value.
    fn rows(&mut self, name: &'static str, kind: Kind, help: &str, samples: &Samples<'_>) {
        let mut family = self.family(name, kind, help);
        for row in samples.table.rows.iter().take(SERIES_MAX) {
            let labels: Vec<_> =
                samples.labels.iter().map(|(label, column)| (*label, row.text(column))).collect();
            let labels: Vec<_> =
                labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
            if let Some(value) = row.number(samples.column) {
                family.sample(&labels, value * samples.scale);
            }
        }
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: Labels<'_>, value: f64) {
        self.suffixed(self.kind.suffix(), labels, value);
    }

    fn suffixed(&mut self, suffix: &str, labels: Labels<'_>, value: f64) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The rows of a view.
struct Table {
    rows: Vec<Named>,
}

/// A row by its columns' names.
struct Named(Vec<(String, Json)>);

impl Named {
    fn cell(&self, column: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == column).map(|(_, value)| value)
    }

    fn text(&self, column: &str) -> String {
        match self.cell(column) {
            Some(Json::String(text)) => text.clone(),
            Some(Json::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    fn number(&self, column: &str) -> Option<f64> {
        match self.cell(column)? {
            Json::Number(number) => number.as_f64(),
            Json::String(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// A column of a view as samples.
struct Samples<'t> {
    table: &'t Table,
    labels: &'t [(&'static str, &'static str)],
    column: &'static str,
    /// From the column's unit to the metric's.
    scale: f64,
}

fn read(session: &mut Session, sql: &str) -> Result<Table, SqlError> {
    let mut found = session.query(sql, &[])?;
    let columns = found.columns().clone();
    let format = session.text_format();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = crate::json::typed_row(&row, &columns, format);
        let values = values.as_array().cloned().unwrap_or_default();
        let names = columns.iter().map(|column| column.name.clone());
        rows.push(Named(names.zip(values).collect()));
    }
    Ok(Table { rows })
}

/// Everything, in one text.
fn expose(engine: &Engine, viewers: usize) -> Result<String, SqlError> {
    let mut session = engine.database.session();
    session.set("application_name", "halcyon metrics")?;
    session.set("statement_timeout", "10s")?;
    let mut text = Text::default();
    text.family("halcyon_build", Kind::Info, "Version of the server.")
        .sample(&[("version", SERVER_VERSION)], 1.0);
    process(&mut text);
    connections(&mut text, &mut session, engine, viewers)?;
    traces(&mut text, engine);
    classes(&mut text, &mut session)?;
    latencies(&mut text, &engine.database);
    admission(&mut text, &mut session)?;
    workers(&mut text, &mut session)?;
    memory_of(&mut text, &mut session)?;
    log(&mut text, &mut session)?;
    views(&mut text, &mut session)?;
    let planned = engine.database.statements_planned() as f64;
    text.one(
        "halcyon_statements_planned",
        Kind::Counter,
        "Statements planned; what a cached plan answers is not.",
        planned,
    );
    let left_out = text.left_out as f64;
    text.one(
        "halcyon_series_left_out",
        Kind::Gauge,
        "Label values above the limit of 100, which have no series.",
        left_out,
    );
    text.text.push_str("# EOF\n");
    Ok(text.text)
}

fn process(text: &mut Text) {
    let now = process::now();
    let families = [
        ("process_resident_memory_bytes", Kind::Gauge, "Resident memory.", now.resident_bytes),
        ("process_cpu_seconds", Kind::Counter, "Time of processors, user and system.", now.cpu_s),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "Start of the process since 1970.",
            now.started_s,
        ),
        ("process_open_fds", Kind::Gauge, "Open files and sockets.", now.open_files),
        ("process_threads", Kind::Gauge, "Threads of the process.", now.threads),
    ];
    for (name, kind, help, value) in families {
        if let Some(value) = value {
            text.one(name, kind, help, value);
        }
    }
}

fn connections(
    text: &mut Text,
    session: &mut Session,
    engine: &Engine,
    viewers: usize,
) -> Result<(), SqlError> {
    let (taken, most) = engine.logins.seats();
    text.one(
        "halcyon_connections",
        Kind::Gauge,
        "Clients that have logged in, over the wire and in the console.",
        taken as f64,
    );
    text.one("halcyon_connections_max", Kind::Gauge, "The most clients at once.", most as f64);
    text.one(
        "halcyon_console_viewers",
        Kind::Gauge,
        "People who are logged in to the console.",
        viewers as f64,
    );
    let states = read(session, "SELECT state, count(*) AS n FROM halcyon.sessions GROUP BY state")?;
    let samples =
        Samples { table: &states, labels: &[("state", "state")], column: "n", scale: 1.0 };
    text.rows(
        "halcyon_sessions",
        Kind::Gauge,
        "Sessions by state, those of programs within the process included.",
        &samples,
    );
    let waiting = read(session, "SELECT count(*) AS n FROM halcyon.locks WHERE NOT granted")?;
    let number = |table: &Table, column| table.rows.first().and_then(|row| row.number(column));
    text.one(
        "halcyon_lock_waits",
        Kind::Gauge,
        "Transactions that wait for a lock.",
        number(&waiting, "n").unwrap_or(0.0),
    );
    let open = read(
        session,
        "SELECT count(*) AS n, coalesce(max(extract(epoch FROM now() - started)), 0)::DOUBLE PRECISION AS age FROM halcyon.transactions",
    )?;
    text.one(
        "halcyon_transactions",
        Kind::Gauge,
        "Transactions under way.",
        number(&open, "n").unwrap_or(0.0),
    );
    text.one(
        "halcyon_transaction_age_max_seconds",
        Kind::Gauge,
        "Age of the oldest transaction under way.",
        number(&open, "age").unwrap_or(0.0),
    );
    Ok(())
}

/// Statements on their way to a collector of traces, if they are sent to one.
fn traces(text: &mut Text, engine: &Engine) {
    let Some(counts) = engine.logins.traces() else { return };
    let help = "Recorded statements by what has become of them: sent; dropped, for want of room in the queue; failed, \
                since the collector was away or refused them.";
    let mut family = text.family("halcyon_traces_statements", Kind::Counter, help);
    for (outcome, count) in
        [("sent", counts.sent), ("dropped", counts.dropped), ("failed", counts.failed)]
    {
        family.sample(&[("outcome", outcome)], count as f64);
    }
    text.one(
        "halcyon_traces_refused_spans",
        Kind::Counter,
        "Spans that the collector has refused of requests that it took.",
        counts.refused as f64,
    );
    text.one(
        "halcyon_traces_waiting",
        Kind::Gauge,
        "Recorded statements that wait to be sent.",
        counts.waiting as f64,
    );
}

/// The label of a workload class.
const CLASS: &[(&str, &str)] = &[("class", "workload_class_name")];
const SAMPLED: &str = "Of look-ups one in 16 is counted, unless the class limits their number or has a target; in a database without classes of users, of writes too.";

fn classes(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(
        session,
        "SELECT * FROM halcyon.m_workload_class_statistics ORDER BY statement_count DESC",
    )?;
    text.left_out += table.rows.len().saturating_sub(SERIES_MAX);
    let of = |column, scale| Samples { table: &table, labels: CLASS, column, scale };
    text.rows(
        "halcyon_class_running",
        Kind::Gauge,
        "Statements of the class that run.",
        &of("running_statements", 1.0),
    );
    text.rows(
        "halcyon_class_statements",
        Kind::Counter,
        &format!("Statements of the class that ended. {SAMPLED}"),
        &of("statement_count", 1.0),
    );
    text.rows(
        "halcyon_class_errors",
        Kind::Counter,
        "Of these, statements that failed.",
        &of("error_count", 1.0),
    );
    text.rows(
        "halcyon_class_busy_seconds",
        Kind::Counter,
        "Time that workers have worked for the class.",
        &of("busy_ms", 1e-3),
    );
    text.rows(
        "halcyon_class_ready_wait_p99_seconds",
        Kind::Gauge,
        "99th percentile of the time that tasks of the class waited for a worker.",
        &of("ready_wait_p99_ms", 1e-3),
    );
    text.rows(
        "halcyon_class_memory_bytes",
        Kind::Gauge,
        "Memory that the running statements of the class hold.",
        &of("used_memory", 1.0),
    );
    let recent = read(
        session,
        "SELECT workload_class_name, attainment / 100.0 AS share FROM halcyon.m_workload_class_latency",
    )?;
    let attained = Samples { table: &recent, labels: CLASS, column: "share", scale: 1.0 };
    text.rows(
        "halcyon_class_target_attainment_ratio",
        Kind::Gauge,
        "Share of the last minute's statements that were as quick as the class's target.",
        &attained,
    );
    let targets = read(
        session,
        "SELECT workload_class_name, quantile, target_ms, measured_ms FROM halcyon.m_workload_controller",
    )?;
    let labels = &[("class", "workload_class_name"), ("quantile", "quantile")];
    let target = |column| Samples { table: &targets, labels, column, scale: 1e-3 };
    text.rows(
        "halcyon_class_target_seconds",
        Kind::Gauge,
        "Latency target of the class.",
        &target("target_ms"),
    );
    text.rows(
        "halcyon_class_target_measured_seconds",
        Kind::Gauge,
        "The same quantile as its controller saw it last.",
        &target("measured_ms"),
    );
    Ok(())
}

fn latencies(text: &mut Text, database: &Database) {
    let help = format!(
        "Time of statements from the arrival of their bytes to the last byte of their answers. {SAMPLED}"
    );
    let mut family = text.family("halcyon_class_latency_seconds", Kind::Histogram, &help);
    for of in database.class_latencies().iter().take(SERIES_MAX) {
        for (end, count) in &of.below[BOUNDS] {
            let end = format!("{}", end.as_secs_f64());
            family.suffixed("_bucket", &[("class", &of.class), ("le", &end)], *count as f64);
        }
        family.suffixed("_bucket", &[("class", &of.class), ("le", "+Inf")], of.count as f64);
        family.suffixed("_count", &[("class", &of.class)], of.count as f64);
        family.suffixed("_sum", &[("class", &of.class)], of.sum_s);
    }
}

fn admission(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(
        session,
        "SELECT * FROM halcyon.m_admission_control_statistics ORDER BY admit_count DESC",
    )?;
    let of = |column, scale| Samples { table: &table, labels: CLASS, column, scale };
    text.rows(
        "halcyon_admission_admitted",
        Kind::Counter,
        "Statements that the gate let in, at once or later.",
        &of("admit_count", 1.0),
    );
    text.rows(
        "halcyon_admission_rejected",
        Kind::Counter,
        "Statements that were turned away when they came.",
        &of("reject_count", 1.0),
    );
    text.rows(
        "halcyon_admission_enqueued",
        Kind::Counter,
        "Statements that had to wait.",
        &of("enqueue_count", 1.0),
    );
    text.rows(
        "halcyon_admission_timeouts",
        Kind::Counter,
        "Statements whose wait became too long.",
        &of("timeout_count", 1.0),
    );
    text.rows(
        "halcyon_admission_queue",
        Kind::Gauge,
        "Statements that wait.",
        &of("current_queue_size", 1.0),
    );
    text.rows(
        "halcyon_admission_wait_seconds",
        Kind::Counter,
        "All waits together.",
        &of("sum_wait_ms", 1e-3),
    );
    Ok(())
}

fn workers(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(session, "SELECT * FROM halcyon.workers ORDER BY worker")?;
    text.left_out += table.rows.len().saturating_sub(SERIES_MAX);
    let of = |column, scale| Samples {
        table: &table,
        labels: &[("worker", "worker"), ("plane", "plane")],
        column,
        scale,
    };
    text.rows(
        "halcyon_worker_busy_seconds",
        Kind::Counter,
        "Time that the worker ran tasks.",
        &of("busy_ms", 1e-3),
    );
    text.rows(
        "halcyon_worker_run_delay_seconds",
        Kind::Counter,
        "Time that the worker was ready to run while its processor did something else.",
        &of("run_delay_ms", 1e-3),
    );
    text.rows(
        "halcyon_worker_tasks",
        Kind::Counter,
        "Tasks that ended on the worker.",
        &of("tasks", 1.0),
    );
    text.rows(
        "halcyon_worker_suspensions",
        Kind::Counter,
        "How often a task stopped to wait.",
        &of("suspensions", 1.0),
    );
    Ok(())
}

fn memory_of(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(
        session,
        "SELECT account, bytes, limit_bytes, refusals FROM halcyon.memory_accounts WHERE session IS NULL",
    )?;
    let samples =
        Samples { table: &table, labels: &[("account", "account")], column: "bytes", scale: 1.0 };
    text.rows(
        "halcyon_memory_bytes",
        Kind::Gauge,
        "Memory by the database's account; total is all memory in use.",
        &samples,
    );
    let total = table.rows.iter().find(|row| row.text("account") == "total");
    let of = |column| total.and_then(|row| row.number(column));
    if let Some(limit) = of("limit_bytes") {
        text.one(
            "halcyon_memory_limit_bytes",
            Kind::Gauge,
            "The limit of all memory in use (memory_limit).",
            limit,
        );
    }
    text.one(
        "halcyon_memory_refusals",
        Kind::Counter,
        "Statements that were refused memory.",
        of("refusals").unwrap_or(0.0),
    );
    Ok(())
}

fn log(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(
        session,
        "SELECT bytes, files, commits, syncs, sync_ms, extract(epoch FROM checkpointed)::DOUBLE PRECISION AS checkpointed, CASE WHEN error IS NULL THEN 0 ELSE 1 END AS failed FROM halcyon.log",
    )?;
    let of = |column, scale| Samples { table: &table, labels: &[], column, scale };
    text.rows(
        "halcyon_log_bytes",
        Kind::Gauge,
        "Log behind the last checkpoint; no sample without a folder.",
        &of("bytes", 1.0),
    );
    text.rows("halcyon_log_files", Kind::Gauge, "Files of the log.", &of("files", 1.0));
    text.rows(
        "halcyon_log_commits",
        Kind::Counter,
        "Commits written to the log.",
        &of("commits", 1.0),
    );
    text.rows(
        "halcyon_log_syncs",
        Kind::Counter,
        "How often a batch of commits was written and synced.",
        &of("syncs", 1.0),
    );
    text.rows(
        "halcyon_log_sync_seconds",
        Kind::Counter,
        "Time that this took.",
        &of("sync_ms", 1e-3),
    );
    text.rows(
        "halcyon_log_failed",
        Kind::Gauge,
        "1 if no commits are taken because the log cannot be written.",
        &of("failed", 1.0),
    );
    text.rows(
        "halcyon_checkpoint_timestamp_seconds",
        Kind::Gauge,
        "When the last checkpoint of this process was done, since 1970.",
        &of("checkpointed", 1.0),
    );
    Ok(())
}

fn views(text: &mut Text, session: &mut Session) -> Result<(), SqlError> {
    let table = read(session, "SELECT * FROM halcyon.views ORDER BY events DESC, schema, view")?;
    text.left_out += table.rows.len().saturating_sub(SERIES_MAX);
    let labels = &[("schema", "schema"), ("view", "view")];
    let of = |column, scale| Samples { table: &table, labels, column, scale };
    text.rows("halcyon_view_rows", Kind::Gauge, "Rows of the materialized view.", &of("rows", 1.0));
    text.rows("halcyon_view_bytes", Kind::Gauge, "Memory of the view's rows.", &of("bytes", 1.0));
    text.rows(
        "halcyon_view_map_bytes",
        Kind::Gauge,
        "Memory of the maps that keep the view up to date.",
        &of("map_bytes", 1.0),
    );
    text.rows(
        "halcyon_view_events",
        Kind::Counter,
        "Inserted and deleted rows that the view has met.",
        &of("events", 1.0),
    );
    text.rows(
        "halcyon_view_event_p50_seconds",
        Kind::Gauge,
        "Time of an event: the median.",
        &of("event_ns_p50", 1e-9),
    );
    text.rows(
        "halcyon_view_event_p99_seconds",
        Kind::Gauge,
        "Time within which 99 of 100 events were done.",
        &of("event_ns_p99", 1e-9),
    );
    text.rows(
        "halcyon_view_event_max_seconds",
        Kind::Gauge,
        "Time of the longest event.",
        &of("event_ns_max", 1e-9),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_units_told() {
        let mut text = Text::default();
        text.family("a_seconds", Kind::Counter, "Help.").sample(&[("x", "q\"\\\n")], 1.5);
        let expected = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds Help.\n\
                        a_seconds_total{x=\"q\\\"\\\\\\n\"} 1.5\n";
        assert_eq!(text.text, expected);
    }
}
