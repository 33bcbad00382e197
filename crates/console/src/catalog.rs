//! What the SQL page completes, and the machine's report.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use halcyon::{Database, SqlError};
use halcyon_base::memory;
use serde_json::{Value as Json, json};

use crate::answer::{Refused, of_json};
use crate::app::App;
use crate::login::viewer;

/// Columns that are told at most.
const COLUMNS_MAX: usize = 20_000;

/// Relations that the role may read, and their columns.
const COLUMNS: &str = "SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod) \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'm', 'p') \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
    AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2, a.attnum LIMIT 20000";

/// `GET /api/catalog`: names for completion.
pub(crate) async fn catalog(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let viewer = viewer(&app, &headers)?;
    let database = app.engine()?.database.clone();
    let role = viewer.role.clone();
    let read = tokio::task::spawn_blocking(move || {
        let read = columns(&database, &role);
        memory::at_rest();
        read
    });
    let read = read.await.map_err(|_| Refused::unavailable("the server is ending"))?;
    let columns = read.map_err(|error| Refused::sql(StatusCode::CONFLICT, &error))?;
    Ok(of_json(&json!({ "columns": columns })))
}

fn columns(database: &Database, role: &str) -> Result<Vec<Json>, SqlError> {
    let mut session = database.session_as(role)?;
    session.set("application_name", "halcyon console")?;
    session.set("statement_timeout", "10s")?;
    let mut rows = session.query(COLUMNS, &[])?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next()?.filter(|_| columns.len() < COLUMNS_MAX) {
        let cell = |at| row.get::<Option<&str>>(at);
        columns.push(json!([cell(0)?, cell(1)?, cell(2)?, cell(3)?]));
    }
    Ok(columns)
}

/// `GET /api/machine`: what `halcyon machine` says, for superusers.
pub(crate) async fn machine(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let viewer = viewer(&app, &headers)?;
    if !app.engine()?.database.is_superuser(&viewer.role) {
        return Err(Refused::forbidden("the machine's report is for superusers"));
    }
    let report = tokio::task::spawn_blocking(|| serde_json::to_value(halcyon_machine::report()));
    let report = report.await.map_err(|_| Refused::unavailable("the server is ending"))?;
    let report = report.map_err(|error| Refused::unavailable(error.to_string()))?;
    Ok(of_json(&report))
}
