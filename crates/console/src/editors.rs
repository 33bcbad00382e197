//! Sessions of SQL pages: one for each tab of a viewer, which keeps its settings, temporary tables and
//! transaction from statement to statement.
//!
//! A session is taken out while it runs a text, so that a second text of the same tab is refused instead of
//! waiting. Invariant, checked by `at_most_four_tabs_have_sessions`: a viewer has no more than [`EDITORS_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use halcyon::{CancelHandle, Database, Session, SessionOptions};

use crate::answer::Refused;

/// Sessions that a viewer may have.
pub(crate) const EDITORS_MAX: usize = 4;
/// The time after which an unused session ends; what it has not committed is rolled back.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
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
    fn open(database: &Database, options: SessionOptions) -> Result<Arc<Self>, halcyon::SqlError> {
        let mut session = database.session_with(options)?;
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

    /// Whether a text runs.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.session).is_none()
    }

    /// Ends the session: at once if it is idle, else with its text.
    fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.cancel();
        drop(lock(&self.session).take());
    }

    /// Takes the session out for a text; `None` while another one runs.
    pub(crate) fn take(&self) -> Option<Session> {
        let session = lock(&self.session).take()?;
        self.texts.fetch_add(1, Ordering::AcqRel);
        self.is_over.store(false, Ordering::Release);
        Some(session)
    }

    /// Whether the text that runs is to end before its next statement.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Gives the session back after a text, unless it is to end.
    pub(crate) fn give_back(&self, session: Session) {
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
    ///
    /// Errors: 429 if all run something, 403 if the role may have no session.
    pub(crate) fn of(
        &self,
        database: &Database,
        options: SessionOptions,
        tab: &str,
    ) -> Result<Arc<Editor>, Refused> {
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
        let editor = Editor::open(database, options)
            .map_err(|error| Refused::sql(StatusCode::FORBIDDEN, &error))?;
        editors.insert(tab.to_owned(), Arc::clone(&editor));
        Ok(editor)
    }

    /// The session of a tab, if it has one.
    pub(crate) fn find(&self, tab: &str) -> Option<Arc<Editor>> {
        lock(&self.0).get(tab).cloned()
    }

    /// Ends sessions that nobody has used for a while or that were asked to end.
    pub(crate) fn sweep(&self) {
        let asked =
            |editor: &Editor| lock(&editor.session).as_ref().is_some_and(Session::is_ending);
        let idle =
            |editor: &Editor| !editor.is_running() && lock(&editor.used).elapsed() > IDLE_MAX;
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

/// A cancellation can come between two statements, or before the first: it is repeated until the text has ended.
pub(crate) fn keep_cancelling(editor: Arc<Editor>) {
    let text = editor.texts.load(Ordering::Acquire);
    let runs =
        move |editor: &Editor| editor.is_running() && editor.texts.load(Ordering::Acquire) == text;
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
