//! The state that all requests share.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use halcyon::Database;
use halcyon_base::progress::{self, Kind, Shown};
use halcyon_server::Logins;
use tokio::sync::{Mutex, Semaphore, watch};

use crate::answer::Refused;
use crate::config::ConsoleConfig;
use crate::feeds::Feeds;
use crate::viewers::Viewers;

/// Says how far the opening of the database is, as one of these works.
fn opening(works: &[Shown]) -> String {
    let mut said = "the database is being opened".to_owned();
    if let Some(work) = works.iter().find(|work| work.kind == Kind::Recovery) {
        let percent = work.percent().map(|percent| format!(", {percent:.0} %"));
        said += &format!(": {}{}", work.phase.name(), percent.unwrap_or_default());
    }
    said
}

/// The state that all requests share.
pub(crate) struct App {
    pub config: ConsoleConfig,
    /// Port that is listened at: part of the cookie's name, since cookies know no ports.
    pub port: u16,
    engine: OnceLock<Engine>,
    pub viewers: Viewers,
    pub feeds: Feeds,
    /// Places for statements of SQL pages.
    pub statements: Arc<Semaphore>,
    /// Places for followers of views.
    pub followers: Arc<Semaphore>,
    /// The last text of `/metrics`, with its time.
    pub exposition: Mutex<Option<(Instant, Bytes)>>,
    /// Becomes true once: from then on streams end.
    pub stopping: watch::Sender<bool>,
}

/// The database behind the console, once it is open.
pub(crate) struct Engine {
    pub database: Database,
    pub logins: Logins,
}

impl App {
    pub(crate) fn new(config: ConsoleConfig, port: u16) -> Arc<Self> {
        Arc::new(App {
            viewers: Viewers::new(config.viewers_max, config.idle_max, config.login_max),
            statements: Arc::new(Semaphore::new(config.statements_max)),
            followers: Arc::new(Semaphore::new(config.statements_max)),
            config,
            port,
            engine: OnceLock::new(),
            feeds: Feeds::default(),
            exposition: Mutex::default(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Hands the database over. Panics if there is one already.
    pub(crate) fn open(&self, database: Database, logins: Logins) {
        let engine = Engine { database, logins };
        assert!(self.engine.set(engine).is_ok(), "a console has one database");
    }

    /// The database. Errors: 503 while it is being opened, and from the console's end on.
    pub(crate) fn engine(&self) -> Result<&Engine, Refused> {
        match self.engine.get() {
            Some(engine) if !*self.stopping.borrow() => Ok(engine),
            Some(_) => Err(Refused::unavailable("the server is ending")),
            None => Err(Refused::unavailable(opening(&progress::all()))),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.config.tls.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::progress::{Phase, Unit};

    #[test]
    fn who_asks_early_is_told_how_far_the_opening_is() {
        assert_eq!(opening(&[]), "the database is being opened");
        let (other, work) =
            (progress::begin(Kind::Export, None), progress::begin(Kind::Recovery, None));
        let said = || opening(&[other.shown(), work.shown()]);
        assert_eq!(said(), "the database is being opened: initializing");
        work.stage(Phase::ReplayingLog, Unit::Bytes, Some(400));
        work.reach(100);
        assert_eq!(said(), "the database is being opened: doing the log again, 25 %");
    }
}
