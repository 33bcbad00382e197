//! Sessions of SQL pages: one for each tab of a viewer, which keeps its settings, temporary tables and
//! transaction from statement to statement.
//!
//! A session is taken out while it runs a text, so that a second text of the same tab is refused instead of
//! waiting. Invariant, checked by `at_most_four_tabs_have_sessions`: a viewer has no more than [`EDITORS_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use halcyon::{CancelHandle, Database, Session, SessionOptions};
use halcyon_base::memory;
use serde_json::{Value as Json, json};

use crate::answer::{Refused, of_json};
use crate::app::App;
use crate::login::{posted, text};
use crate::statements;
use crate::viewers::Viewer;

/// Sessions that a viewer may have.
pub(crate) const EDITORS_MAX: usize = 4;
/// The time after which an unused session ends; what it has not committed is rolled back.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// Rows that are shown of a result at most.
const ROWS_MAX: u64 = 10_000;
/// Rows that are shown if the page does not say.
const ROWS: u64 = 500;
/// How often a statement that begins after its cancellation is looked for.
const CANCEL_EVERY: Duration = Duration::from_millis(50);
/// How long.
const CANCEL_FOR: u32 = 40;

/// The sessions of a viewer, by the name that the tab gives itself.
#[derive(Default)]
pub(crate) struct Editors(Mutex<HashMap<String, Arc<Editor>>>);

/// A session of a tab.
pub(crate) struct Editor {
    /// `None` while a text runs.
    session: Mutex<Option<Session>>,
    canceller: CancelHandle,
    /// Whether the text that runs is to end.
    is_over: AtomicBool,
    /// Whether the session is to end with its text.
    is_ending: AtomicBool,
    /// Texts so far: a cancellation concerns one of them.
    texts: AtomicU64,
    used: Mutex<Instant>,
}

impl Editor {
    fn open(database: &Database, viewer: &Viewer) -> Result<Arc<Self>, halcyon::SqlError> {
        let (role, client) = (Some(viewer.role.clone()), Some(viewer.client.clone()));
        let mut session = database.session_with(SessionOptions { role, client })?;
        session.set("application_name", "halcyon console")?;
        session.require_connection()?;
        session.take_changes();
        Ok(Arc::new(Editor {
            canceller: session.canceller(),
            session: Mutex::new(Some(session)),
            is_over: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            texts: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
        }))
    }

    /// Ends the text that runs, now and between its statements.
    fn cancel(&self) {
        self.is_over.store(true, Ordering::Release);
        self.canceller.cancel();
    }

    fn is_running(&self) -> bool {
        lock(&self.session).is_none()
    }

    /// Ends the session: at once if it is idle, else with its text.
    fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.cancel();
        drop(lock(&self.session).take());
    }

    /// Gives the session back after a text, unless it is to end.
    fn give_back(&self, session: Session) {
        *lock(&self.used) = Instant::now();
        let mut place = lock(&self.session);
        let stays = !session.is_ending() && !self.is_ending.load(Ordering::Acquire);
        *place = stays.then_some(session);
        self.is_ending.fetch_or(!stays, Ordering::AcqRel);
    }

    fn has_ended(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}

impl Editors {
    /// The session of a tab, a new one if need be; the one unused for longest goes when one more comes.
    fn of(&self, database: &Database, viewer: &Viewer, tab: &str) -> Result<Arc<Editor>, Refused> {
        let mut editors = lock(&self.0);
        if let Some(editor) = editors.get(tab).filter(|editor| !editor.has_ended()) {
            return Ok(Arc::clone(editor));
        }
        editors.remove(tab);
        if editors.len() >= EDITORS_MAX {
            let idle = editors.iter().filter(|(_, editor)| !editor.is_running());
            let oldest = idle.min_by_key(|(_, editor)| *lock(&editor.used));
            let Some(oldest) = oldest.map(|(tab, _)| tab.clone()) else {
                return Err(Refused::busy("statements of four other tabs are running"));
            };
            editors.remove(&oldest).iter().for_each(|editor| editor.end());
        }
        let editor = Editor::open(database, viewer)
            .map_err(|error| Refused::sql(axum::http::StatusCode::FORBIDDEN, &error))?;
        editors.insert(tab.to_owned(), Arc::clone(&editor));
        Ok(editor)
    }

    fn find(&self, tab: &str) -> Option<Arc<Editor>> {
        lock(&self.0).get(tab).cloned()
    }

    /// Ends sessions that nobody has used for a while or that were asked to end.
    pub(crate) fn sweep(&self) {
        let asked = |editor: &Editor| lock(&editor.session).as_ref().is_some_and(Session::is_ending);
        let idle = |editor: &Editor| !editor.is_running() && lock(&editor.used).elapsed() > IDLE_MAX;
        let mut over = Vec::new();
        lock(&self.0).retain(|_, editor| {
            let stays = !editor.has_ended() && !asked(editor) && !idle(editor);
            if !stays {
                over.push(Arc::clone(editor));
            }
            stays
        });
        over.iter().for_each(|editor| editor.end());
    }

    /// Ends all sessions.
    pub(crate) fn end(&self) {
        let all = std::mem::take(&mut *lock(&self.0));
        all.values().for_each(|editor| editor.end());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels a text unless it has been answered: its page is gone.
struct WhileAwaited(Option<Arc<Editor>>);

impl Drop for WhileAwaited {
    fn drop(&mut self) {
        self.0.iter().for_each(|editor| keep_cancelling(Arc::clone(editor)));
    }
}

/// A cancellation can come between two statements, or before the first: it is repeated until the text has ended.
fn keep_cancelling(editor: Arc<Editor>) {
    let text = editor.texts.load(Ordering::Acquire);
    let runs = move |editor: &Editor| {
        editor.is_running() && editor.texts.load(Ordering::Acquire) == text
    };
    tokio::spawn(async move {
        for _ in 0..CANCEL_FOR {
            if !runs(&editor) {
                return;
            }
            editor.cancel();
            tokio::time::sleep(CANCEL_EVERY).await;
        }
    });
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
    let editor = viewer.editors.of(&app.engine()?.database, &viewer, tab(&body)?)?;
    let permit = Arc::clone(&app.statements).try_acquire_owned();
    let permit = permit.map_err(|_| Refused::busy("too many statements run at this moment"))?;
    let session = lock(&editor.session).take();
    let mut session = session.ok_or_else(|| {
        Refused::new(axum::http::StatusCode::CONFLICT, "this tab runs another statement")
    })?;
    editor.texts.fetch_add(1, Ordering::AcqRel);
    editor.is_over.store(false, Ordering::Release);
    let mut awaited = WhileAwaited(Some(Arc::clone(&editor)));
    let ran = tokio::task::spawn_blocking(move || {
        let is_over = || editor.is_over.load(Ordering::Acquire);
        let answer = statements::run(&mut session, &sql, rows_max, &is_over);
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
