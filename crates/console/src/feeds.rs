//! One query a second for all viewers of a role: a panel costs the same for one viewer as for many.
//!
//! A *feed* belongs to a role: one session, which runs the queries of those panels that somebody looks at, and
//! what came of them as JSON, made once. A feed lives while a panel of it has viewers.
//! Invariant, checked by `ten_viewers_cost_what_one_does`: a tick runs each panel's queries once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use halcyon::{Database, Session, SqlError, Statement};
use halcyon_base::memory;
use serde_json::{Value as Json, json};
use tokio::sync::{Notify, watch};

use crate::answer::of_sql;
use crate::json;
use crate::panels::Panel;

/// Time from the beginning of a look to the beginning of the next one.
const EVERY: Duration = Duration::from_secs(1);
/// The longest that the queries of a panel take each.
const STATEMENT_TIMEOUT: &str = "5s";

/// The feeds of all roles.
#[derive(Default)]
pub(crate) struct Feeds {
    roles: Mutex<HashMap<String, Arc<Feed>>>,
    /// Queries run so far, for the test of what viewers cost.
    queries: Arc<AtomicU64>,
}

/// The feed of a role.
pub(crate) struct Feed {
    panels: Mutex<HashMap<&'static str, Watched>>,
    /// Counts the looks; viewers wait for it.
    tick: watch::Sender<u64>,
    /// Wakes the feed when a panel has got its first viewer.
    wanted: Notify,
}

struct Watched {
    panel: &'static Panel,
    viewers: usize,
    /// The look at which `latest` was made, and that as an event for browsers.
    at: u64,
    latest: Option<Bytes>,
}

/// A viewer's interest in some panels; dropping it ends the interest.
pub(crate) struct Interest {
    feed: Arc<Feed>,
    panels: Vec<&'static str>,
    tick: watch::Receiver<u64>,
    seen: u64,
}

impl Feeds {
    /// Begins to look at panels as a role.
    pub(crate) fn watch(
        &self,
        database: &Database,
        role: &str,
        panels: &[&'static Panel],
    ) -> Interest {
        let mut roles = lock(&self.roles);
        let feed = roles.entry(role.to_owned()).or_insert_with(Feed::new);
        let feed = Arc::clone(feed);
        let is_first = lock(&feed.panels).is_empty();
        let mut is_new = false;
        for panel in panels {
            let new = || Watched { panel, viewers: 0, at: 0, latest: None };
            let mut watched = lock(&feed.panels);
            let watched = watched.entry(panel.name).or_insert_with(new);
            watched.viewers += 1;
            is_new |= watched.latest.is_none();
        }
        let interest = Interest {
            panels: panels.iter().map(|panel| panel.name).collect(),
            tick: feed.tick.subscribe(),
            feed: Arc::clone(&feed),
            seen: 0,
        };
        if is_first && !panels.is_empty() {
            let (database, role) = (database.clone(), role.to_owned());
            tokio::spawn(look_again_and_again(feed, database, role, Arc::clone(&self.queries)));
        } else if is_new {
            feed.wanted.notify_one();
        }
        drop(roles);
        interest
    }

    /// Forgets the feeds that nobody looks at.
    pub(crate) fn sweep(&self) {
        lock(&self.roles).retain(|_, feed| !lock(&feed.panels).is_empty());
    }

    /// How many queries were run so far.
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }
}

impl Feed {
    fn new() -> Arc<Self> {
        Arc::new(Feed {
            panels: Mutex::default(),
            tick: watch::Sender::new(0),
            wanted: Notify::new(),
        })
    }

    /// The panels that have viewers; the others are forgotten.
    fn watched(&self) -> Vec<&'static Panel> {
        let mut panels = lock(&self.panels);
        panels.retain(|_, watched| watched.viewers > 0);
        panels.values().map(|watched| watched.panel).collect()
    }

    fn show(&self, events: Vec<(&'static str, Bytes)>) {
        let at = *self.tick.borrow() + 1;
        for (name, event) in events {
            if let Some(watched) = lock(&self.panels).get_mut(name) {
                watched.latest = Some(event);
                watched.at = at;
            }
        }
        self.tick.send_replace(at);
    }
}

impl Interest {
    /// Waits for the next look and returns what is new of the panels; at first what is there already.
    pub(crate) async fn next(&mut self) -> Vec<Bytes> {
        if self.seen > 0 || *self.tick.borrow() == 0 {
            // The sender lives as long as the feed, which this interest holds.
            let _ = self.tick.changed().await;
        }
        let panels = lock(&self.feed.panels);
        let mut new = Vec::new();
        let mut last = self.seen.max(1);
        for watched in self.panels.iter().filter_map(|name| panels.get(name)) {
            if watched.at > self.seen {
                new.extend(watched.latest.clone());
                last = last.max(watched.at);
            }
        }
        self.seen = last;
        new
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut panels = lock(&self.feed.panels);
        for name in &self.panels {
            if let Some(watched) = panels.get_mut(name) {
                watched.viewers -= 1;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session that looks, with its prepared queries.
struct Looker {
    session: Session,
    statements: HashMap<&'static str, Statement>,
}

/// Looks once a second until nobody wants to know.
async fn look_again_and_again(
    feed: Arc<Feed>,
    database: Database,
    role: String,
    queries: Arc<AtomicU64>,
) {
    let mut looker = None;
    loop {
        let began = tokio::time::Instant::now();
        let panels = feed.watched();
        if panels.is_empty() {
            return;
        }
        let asked: usize = panels.iter().map(|panel| panel.queries.len()).sum();
        queries.fetch_add(asked as u64, Ordering::Relaxed);
        let (database, role) = (database.clone(), role.clone());
        let looked = tokio::task::spawn_blocking(move || look(&database, &role, looker, &panels));
        let Ok((events, after)) = looked.await else {
            // The runtime ends, or a look has panicked: the next viewer begins anew.
            return lock(&feed.panels).clear();
        };
        looker = after;
        feed.show(events);
        tokio::select! {
            () = tokio::time::sleep_until(began + EVERY) => {}
            () = feed.wanted.notified() => {}
        }
    }
}

/// Runs the queries of all panels; a session that cannot be made or was ended is made anew the next time.
fn look(
    database: &Database,
    role: &str,
    looker: Option<Looker>,
    panels: &[&'static Panel],
) -> (Vec<(&'static str, Bytes)>, Option<Looker>) {
    let looker = looker.filter(|looker| !looker.session.is_ending());
    let mut looker = looker.map_or_else(|| Looker::new(database, role), Ok);
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let event = |panel: &&'static Panel| {
        let answers = panel.queries.iter().map(|(name, sql)| {
            let rows = match &mut looker {
                Ok(looker) => looker.rows(sql),
                Err(error) => Err(error.clone()),
            };
            let answer = rows.unwrap_or_else(|error| json!({ "error": of_sql(&error) }));
            ((*name).to_owned(), answer)
        });
        let answers: serde_json::Map<String, Json> = answers.collect();
        let data = json!({ "at": since_1970.as_millis() as u64, "queries": answers });
        (panel.name, Bytes::from(format!("event: {}\ndata: {data}\n\n", panel.name)))
    };
    let events = panels.iter().map(event).collect();
    memory::at_rest();
    (events, looker.ok())
}

impl Looker {
    fn new(database: &Database, role: &str) -> Result<Self, SqlError> {
        let mut session = database.session_as(role)?;
        session.set("application_name", "halcyon console")?;
        session.set("statement_timeout", STATEMENT_TIMEOUT)?;
        Ok(Looker { session, statements: HashMap::new() })
    }

    fn rows(&mut self, sql: &'static str) -> Result<Json, SqlError> {
        if !self.statements.contains_key(sql) {
            let statement = self.session.prepare(sql)?;
            self.statements.insert(sql, statement);
        }
        let mut rows = self.session.query(&self.statements[sql], &[])?;
        let columns = rows.columns().clone();
        let format = self.session.text_format();
        let mut shown = Vec::new();
        while let Some(row) = rows.next()? {
            shown.push(json::typed_row(&row, &columns, format));
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        Ok(json!({ "columns": names, "rows": shown }))
    }
}
