//! The database as programs hold it: how it is made or opened, checkpointed and closed; sessions
//! begin here.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halcyon_catalog::{Catalog, SUPERUSER};
use halcyon_ddl::views::revive;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::{CutCounts, LogOptions, Pace};

use crate::checkpoint;
use crate::datafusion::new_datafusion;
use crate::durable::{self, Found, Opened, Opening};
use crate::options::DatabaseOptions;
use crate::session::Session;
use crate::shared::Shared;
use crate::workload_live::{ClassLatency, latencies_of_all_time};

/// A database in memory, which is kept on disk as well if it was [opened](Database::open) in a
/// folder. A clone is another handle to the same database.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

/// What [`Database::repair_accepting_loss`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong.
    pub damage: String,
    /// Place in the log at which it was cut.
    pub end: String,
    /// Place up to which the log is known to have reached.
    pub known: String,
    /// Commits behind the cut whose records can still be seen; more may have been lost.
    pub commits: u64,
    /// Folder, within the database's, with the log files that were behind the cut or held it.
    pub kept_in: String,
}

/// The party for which a session acts.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The role that the session acts for. `None`: the first superuser.
    pub role: Option<String>,
    /// Address of the client that the session serves, for the system views. `None` if it serves no
    /// client.
    pub client: Option<String>,
}

impl Database {
    /// An empty database in memory.
    pub fn in_memory() -> Self {
        Self::with_options(DatabaseOptions::default())
    }

    /// An empty database in memory, with these options.
    pub fn with_options(options: DatabaseOptions) -> Self {
        let catalog = Catalog { latches: options.has_latches(), ..Catalog::initial() };
        Database { shared: Arc::new(Shared::new(options, catalog, None)) }
    }

    /// Opens the database in `folder`, or makes a new one there.
    ///
    /// Errors: 55006 if another process has it open, XX001 if a file is damaged (the message says
    /// which, and where), 53100 and 58030 if the disk is full or fails.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder.as_ref(), DatabaseOptions::default(), &|_| ())
    }

    /// Opens a database as [`Database::open`] does, with these options. `progress` is called often
    /// and from any thread with the progress so far.
    pub fn open_with(
        folder: &Path,
        options: DatabaseOptions,
        progress: &(dyn Fn(Opening) + Sync),
    ) -> Result<Self> {
        let log = LogOptions::default();
        Self::found(durable::open(folder, log, options.has_latches(), progress)?, options)
    }

    pub(crate) fn found(found: Found, options: DatabaseOptions) -> Result<Self> {
        let mut catalog = Catalog { latches: options.has_latches(), ..found.catalog };
        if catalog.tables.values().any(|table| table.materialized().is_some()) {
            catalog = revive(catalog, &new_datafusion())?;
        }
        let shared = Arc::new(Shared::new(options, catalog, Some(found.durable)));
        checkpoint::keep_short(&shared);
        Ok(Database { shared })
    }

    /// Verifies the database in `folder`, which no process may have open: reads everything, builds
    /// all indexes and checks all invariants. Writes nothing.
    ///
    /// Needs no right to write there. Errors: as [`Database::open`]; 58P01 if the folder has no database.
    pub fn check(folder: impl AsRef<Path>, progress: &(dyn Fn(Opening) + Sync)) -> Result<Opened> {
        durable::check(folder.as_ref(), progress)
    }

    /// Cuts the log of the damaged database in `folder`, which no process may have open, behind the
    /// last commit that can be reached. Later commits are lost; what is left of them is put into a
    /// folder beside the log. `None` if nothing is wrong with the database.
    ///
    /// Errors: as [`Database::check`]; XX001 if it is not the log that is damaged.
    pub fn repair_accepting_loss(folder: impl AsRef<Path>) -> Result<Option<Repair>> {
        let repaired = durable::repair(folder.as_ref())?;
        Ok(repaired.map(|repaired| Repair {
            damage: repaired.damage,
            end: repaired.end.to_string(),
            known: repaired.known.to_string(),
            commits: repaired.commits,
            kept_in: repaired.kept_in,
        }))
    }

    /// What the database found when it was opened; `None` for a database that lives in memory
    /// alone.
    pub fn opened(&self) -> Option<Opened> {
        self.shared.durable.as_ref().map(|durable| durable.opened)
    }

    /// Writes a checkpoint now, at full speed. Does nothing for a database in memory.
    ///
    /// Errors: 53100, 58030; the previous checkpoint stays valid.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_at(0)
    }

    /// Writes a checkpoint as [`Database::checkpoint`] does, at no more than so many bytes per
    /// second; 0 for no limit.
    pub fn checkpoint_at(&self, bytes_per_s: u64) -> Result<()> {
        checkpoint::checkpoint(&self.shared, &Pace { bytes_per_s, ..Pace::default() })
    }

    /// Gives divided caches back, and writes the rest of the log, including commits that no session waited for. Later
    /// commits are refused. Dropping the last handle and session does the same.
    pub fn close(&self) {
        self.shared.datafusion.crew().close();
        if let Some(durable) = &self.shared.durable {
            durable.stop.store(true, Ordering::Relaxed);
            durable.log.close();
        }
    }

    /// Copies the database, as it is at one moment, into `folder`, where it can be
    /// [opened](Database::open).
    ///
    /// Errors: 58P02 if the folder exists and is not empty, 22023 if it lies in the database's own;
    /// 53100, 58030. A copy that was not finished cannot be opened.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<()> {
        checkpoint::backup(&self.shared, folder.as_ref())
    }

    /// A session that acts for the first superuser.
    pub fn session(&self) -> Session {
        self.session_with(SessionOptions::default()).expect("the superuser exists")
    }

    /// A session that acts for `role`.
    ///
    /// Errors: 28000 if the role does not exist or may not log in.
    pub fn session_as(&self, role: &str) -> Result<Session> {
        self.session_with(SessionOptions { role: Some(role.to_owned()), client: None })
    }

    /// A session with these options.
    ///
    /// Errors: as [`Database::session_as`].
    pub fn session_with(&self, options: SessionOptions) -> Result<Session> {
        let catalog = self.shared.catalog();
        let name = match options.role.as_deref() {
            Some(name) => name,
            None => first_superuser(&catalog),
        };
        let refused = |what| {
            SqlError::new(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                format!("role \"{name}\" {what}"),
            )
        };
        let role = catalog.roles.get(name).ok_or_else(|| refused("does not exist"))?;
        if !role.login {
            return Err(refused("is not permitted to log in"));
        }
        let shared = self.shared.clone();
        Ok(Session::new(shared, catalog.clone(), name, role.superuser, options.client))
    }

    /// The SCRAM-SHA-256 verifier of a role's password, as `pg_authid.rolpassword` has it; `None`
    /// if the role does not exist or has no password. Servers authenticate clients by it.
    pub fn password_verifier(&self, role: &str) -> Option<String> {
        self.shared.catalog().roles.get(role).and_then(|role| role.verifier.clone())
    }

    /// Whether a role is a superuser; false if there is no such role.
    pub fn is_superuser(&self, role: &str) -> bool {
        self.shared.catalog().is_superuser(role)
    }

    /// Whether a role exists and may log in.
    pub fn may_log_in(&self, role: &str) -> bool {
        self.shared.catalog().roles.get(role).is_some_and(|role| role.login)
    }

    /// Name of the role that [`Database::session`] acts for.
    pub fn first_superuser(&self) -> String {
        first_superuser(&self.shared.catalog()).to_owned()
    }

    /// Whether any role has a password.
    pub fn has_passwords(&self) -> bool {
        self.shared.catalog().roles.values().any(|role| role.verifier.is_some())
    }

    /// How long statements took since the database was opened, by workload class; classes without
    /// statements are left out.
    pub fn class_latencies(&self) -> Vec<ClassLatency> {
        latencies_of_all_time(&self.shared)
    }

    /// Number of statements planned since the start; a statement found in the cache is not planned.
    pub fn statements_planned(&self) -> u64 {
        self.shared.cache.hits_and_misses().1
    }

    /// Snapshots that statements have taken since the start, and what they waited for.
    pub fn snapshots(&self) -> CutCounts {
        self.shared.manager.cuts()
    }
}

/// The oldest superuser that may log in: there is always one, because DROP ROLE and ALTER ROLE
/// refuse to take the last.
fn first_superuser(catalog: &Catalog) -> &str {
    let ruling = catalog.roles.values().filter(|role| role.superuser && role.login);
    ruling.min_by_key(|role| role.oid).map_or(SUPERUSER, |role| role.name.as_str())
}
