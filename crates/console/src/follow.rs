//! Rows of a materialized view in a browser, by SUBSCRIBE: the rows first, then every change.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use halcyon::{
    Database, IntoValue, ResultColumn, SessionOptions, SqlError, SqlState, Subscription,
    TextFormat, Value,
};
use halcyon_base::memory;
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::answer::{Refused, of_sql};
use crate::app::App;
use crate::json::{columns, text};
use crate::live::{open_stream, over, stream, tell};
use crate::login::viewer;
use crate::viewers::{OpenStream, Viewer};

/// How often changes are looked for.
const EVERY: Duration = Duration::from_millis(500);
/// Rows of a view that a browser follows: all of them are sent first.
const ROWS_MAX: i64 = 5_000;
/// Changed rows of one look; a view that changes faster than that is not followed on.
const CHANGES_MAX: usize = 20_000;

/// A subscription with what its rows are printed by.
struct Followed {
    subscription: Subscription,
    columns: Arc<[ResultColumn]>,
    format: TextFormat,
}

/// `GET /api/follow/{schema}/{view}`: the rows of a view and their changes.
pub(crate) async fn follow(
    State(app): State<Arc<App>>,
    Path((schema, view)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let viewer = viewer(&app, &headers)?;
    let open = open_stream(&viewer)?;
    let permit = Arc::clone(&app.followers).try_acquire_owned();
    let permit = permit.map_err(|_| Refused::busy("too many views are followed at this moment"))?;
    let database = app.engine()?.database.clone();
    let (role, client) = (viewer.role.clone(), viewer.client.clone());
    let begun = tokio::task::spawn_blocking(move || begin(&database, role, client, &schema, &view));
    let begun = begun.await.map_err(|_| Refused::unavailable("the server is ending"))?;
    let followed = begun.map_err(|error| Refused::sql(StatusCode::CONFLICT, &error))?;
    let (events, response) = stream();
    tokio::spawn(send(app, viewer, followed, events, (open, permit)));
    Ok(response)
}

fn begin(
    database: &Database,
    role: String,
    client: String,
    schema: &str,
    view: &str,
) -> Result<Followed, SqlError> {
    let options = SessionOptions { role: Some(role), client: Some(client) };
    let mut session = database.session_with(options)?;
    session.set("application_name", "halcyon console")?;
    session.set("statement_timeout", "10s")?;
    session.set("lock_timeout", "5s")?;
    let count =
        session.prepare("SELECT rows FROM halcyon.views WHERE schema = $1 AND view = $2")?;
    let names = [schema.into_value(), view.into_value()];
    let mut found = session.query(&count, &names)?;
    let rows = found.next()?.map(|row| row.get::<i64>(0)).transpose()?;
    drop(found);
    if rows.is_some_and(|rows| rows > ROWS_MAX) {
        let message =
            format!("the view has more than {ROWS_MAX} rows, which a page does not follow");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .hint("Query the view on the SQL page, or SUBSCRIBE to it by psql."));
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let text = format!("SELECT * FROM {}.{} LIMIT 0", quoted(schema), quoted(view));
    let columns = session.prepare_passing(&text, &[])?;
    let columns = session.columns(&columns);
    let format = session.text_format();
    let subscription = session.into_subscription(&format!("{schema}.{view}"), None)?;
    Ok(Followed { subscription, columns, format })
}

impl Followed {
    /// All changes since the last look, as one event; `None` without any.
    fn look(&mut self) -> Result<Option<Json>, SqlError> {
        let mut changes = Vec::new();
        let mut position = None;
        while let Some(more) = self.subscription.next(Duration::ZERO)? {
            position = Some(more.position);
            for row in &more.rows {
                let gone = row.old.as_deref().map(|row| json!(["-", self.row(row)]));
                let come = row.new.as_deref().map(|row| json!(["+", self.row(row)]));
                changes.extend(gone.into_iter().chain(come));
            }
            if changes.len() > CHANGES_MAX {
                let message = "the view changes faster than a page can follow";
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
        }
        Ok(position.map(|position| json!({ "position": position, "changes": changes })))
    }

    fn row(&self, row: &[Value]) -> Json {
        let types = self.columns.iter().map(|column| column.ty);
        row.iter().zip(types).map(|(value, ty)| text(value.as_ref(), ty, self.format)).collect()
    }
}

fn event(name: &str, data: &Json) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

async fn send(
    app: Arc<App>,
    viewer: Arc<Viewer>,
    mut followed: Followed,
    events: mpsc::Sender<Bytes>,
    _places: (OpenStream, OwnedSemaphorePermit),
) {
    let Ok(engine) = app.engine() else { return };
    let mut stopping = app.stopping.subscribe();
    if !tell(&events, event("columns", &columns(&followed.columns))).await {
        return;
    }
    loop {
        if !app.viewers.still_holds(&viewer, &engine.database) {
            tell(&events, over()).await;
            return;
        }
        let looked = tokio::task::spawn_blocking(move || {
            let looked = followed.look();
            memory::at_rest();
            (looked, followed)
        });
        let Ok((looked, after)) = looked.await else { return };
        followed = after;
        let told = match looked {
            Ok(Some(changes)) => tell(&events, event("changes", &changes)).await,
            Ok(None) => !events.is_closed(),
            Err(error) => {
                tell(&events, event("refused", &of_sql(&error))).await;
                false
            }
        };
        if !told {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = events.closed() => return,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}
