//! Requests of the SQL page: run a text, cancel what runs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use halcyon::SessionOptions;
use halcyon_base::memory;
use serde_json::{Value as Json, json};

use crate::answer::{Refused, of_json};
use crate::app::App;
use crate::editors::{Editor, keep_cancelling};
use crate::login::{posted, text};
use crate::statements;

/// Rows that are shown of a result at most.
const ROWS_MAX: u64 = 10_000;
/// Rows that are shown if the page does not say.
const ROWS: u64 = 500;

/// Cancels a text unless it has been answered: its page is gone.
struct WhileAwaited(Option<Arc<Editor>>);

impl Drop for WhileAwaited {
    fn drop(&mut self) {
        self.0.iter().for_each(|editor| keep_cancelling(Arc::clone(editor)));
    }
}

fn tab(body: &Json) -> Result<&str, Refused> {
    let tab = text(body, "tab")?;
    match !tab.is_empty() && tab.len() <= 64 {
        true => Ok(tab),
        false => Err(Refused::malformed("the name of a tab has 1 to 64 bytes")),
    }
}

/// `POST /api/run`: runs a text in the tab's session.
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let (viewer, body) = posted(&app, request).await?;
    let sql = text(&body, "sql")?.to_owned();
    let rows_max = body["rows"].as_u64().unwrap_or(ROWS).clamp(1, ROWS_MAX) as usize;
    let (role, client) = (Some(viewer.role.clone()), Some(viewer.client.clone()));
    let options = SessionOptions { role, client };
    let editor = viewer.editors.of(&app.engine()?.database, options, tab(&body)?)?;
    let permit = Arc::clone(&app.statements).try_acquire_owned();
    let permit = permit.map_err(|_| Refused::busy("too many statements run at this moment"))?;
    let mut session = editor
        .take()
        .ok_or_else(|| Refused::new(StatusCode::CONFLICT, "this tab runs another statement"))?;
    let mut awaited = WhileAwaited(Some(Arc::clone(&editor)));
    let ran = tokio::task::spawn_blocking(move || {
        let answer = statements::run(&mut session, &sql, rows_max, &|| editor.is_over());
        editor.give_back(session);
        drop(permit);
        memory::at_rest();
        answer
    });
    let answer = ran.await;
    awaited.0 = None;
    let answer = answer.map_err(|_| Refused::unavailable("the statement did not end"))?;
    Ok(of_json(&answer))
}

/// `POST /api/cancel`: ends what the tab's session runs.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let (viewer, body) = posted(&app, request).await?;
    let running = viewer.editors.find(tab(&body)?).filter(|editor| editor.is_running());
    let cancelled = running.is_some();
    running.into_iter().for_each(keep_cancelling);
    Ok(of_json(&json!({ "cancelled": cancelled })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tabs_are_short() {
        assert!(tab(&json!({ "tab": "a1" })).is_ok());
        for wrong in [json!({}), json!({ "tab": "" }), json!({ "tab": "x".repeat(65) })] {
            assert!(tab(&wrong).is_err(), "{wrong}");
        }
    }
}
