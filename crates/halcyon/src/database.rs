//! The database: catalog, partitions, plans, sessions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use halcyon_base::ids::{PartitionId, RowId};
use halcyon_pgcatalog::SystemCatalogs;
use halcyon_query::cache::StatementCache;
use halcyon_query::catalog::Catalog;
use halcyon_query::engine::DataFusion;
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::views::revive;
use halcyon_store::{Partition, RowRef, Value};
use halcyon_txn::{CancelToken, LogOptions, Manager, Pace, PartitionCell, WaitLimits, cut};
use parking_lot::Mutex;

use crate::checkpoint;
use crate::deadline::Deadlines;
use crate::durable::{self, Durable, Found, Opened, Opening};
use crate::live::{SessionEntry, StatementEntry};
use crate::session::Session;
use crate::settings::{self, Chosen, SystemSettings, Tuning};

/// A database in memory, kept on disk too if it was [opened](Database::open) in a folder. Cloning
/// gives another handle to the same one.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

/// How a database is set up.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Name shown to clients.
    pub name: String,
    /// Cores that an analytical statement may use by default; 0 means all.
    pub threads: usize,
    /// Statements kept ready by the statement cache.
    pub cached_statements: usize,
    /// A reader-writer latch around every access to segments and indexes, which locks make
    /// superfluous here: for measuring what engines that need it pay.
    #[cfg(feature = "latches")]
    pub latches: bool,
    /// Bytes per second that a checkpoint writes at most, unless it is asked for; 0 for no limit.
    pub checkpoint_bytes_per_s: u64,
    /// Settings of the whole database, above what ALTER SYSTEM said.
    pub settings: SystemSettings,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            name: "halcyon".into(),
            threads: 0,
            cached_statements: 4096,
            #[cfg(feature = "latches")]
            latches: false,
            checkpoint_bytes_per_s: 128 << 20,
            settings: SystemSettings::default(),
        }
    }
}

impl DatabaseOptions {
    /// Whether partitions are latched.
    #[cfg(feature = "latches")]
    fn has_latches(&self) -> bool {
        self.latches
    }

    /// Whether partitions are latched: never in this build.
    #[cfg(not(feature = "latches"))]
    fn has_latches(&self) -> bool {
        false
    }
}

/// What all sessions share.
///
/// Invariant: `version` equals `catalog.version` except within `publish`, which stores the
/// catalog first; sessions compare against `version` only, a line nobody writes but DDL.
pub(crate) struct Shared {
    pub options: DatabaseOptions,
    pub manager: Manager,
    catalog: ArcSwap<Catalog>,
    version: AtomicU64,
    next_version: AtomicU64,
    /// Locked exclusively by a transaction that changes the catalog: a partition without rows,
    /// so that deadlocks and timeouts with tables are found as any other.
    pub ddl: Arc<PartitionCell>,
    pub cache: StatementCache,
    pub datafusion: DataFusion,
    pub deadlines: Deadlines,
    pub sessions: Mutex<BTreeMap<u32, Arc<SessionEntry>>>,
    pub statements: Mutex<HashMap<Arc<str>, StatementEntry>>,
    next_session: AtomicU32,
    /// What there is on disk; None for a database that lives in memory alone.
    pub durable: Option<Durable>,
    /// Microseconds since 1970.
    pub started_us: i64,
}

impl Database {
    /// An empty database in memory.
    pub fn in_memory() -> Self {
        Self::with_options(DatabaseOptions::default())
    }

    /// An empty database in memory, set up as `options` say.
    pub fn with_options(options: DatabaseOptions) -> Self {
        let catalog = Catalog { latches: options.has_latches(), ..Catalog::initial() };
        Database { shared: Arc::new(Shared::new(options, catalog, None)) }
    }

    /// The database that is kept in `folder`, or a new one there.
    ///
    /// Errors: 55006 if another process has it open, XX001 if a file is damaged (the message says
    /// which, and where), 53100 and 58030 if the disk is full or fails.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder.as_ref(), DatabaseOptions::default(), &|_| ())
    }

    /// As [`Database::open`], set up as `options` say; `progress` is told how far it is, from any
    /// thread and often.
    pub fn open_with(
        folder: &Path,
        options: DatabaseOptions,
        progress: &(dyn Fn(Opening) + Sync),
    ) -> Result<Self> {
        let log = LogOptions::default();
        Self::found(durable::open(folder, log, options.has_latches(), progress)?, options)
    }

    /// As [`Database::open_with`], on a disk that is not the real one, for tests of crashes.
    #[doc(hidden)]
    pub fn open_on(
        storage: Arc<dyn halcyon_txn::Storage>,
        log_file_bytes: u64,
        options: DatabaseOptions,
    ) -> Result<Self> {
        let log = LogOptions { file_bytes: log_file_bytes, ..LogOptions::default() };
        Self::found(durable::open_on(storage, None, log, options.has_latches(), &|_| ())?, options)
    }

    fn found(found: Found, options: DatabaseOptions) -> Result<Self> {
        let mut catalog = Catalog { latches: options.has_latches(), ..found.catalog };
        if catalog.tables.values().any(|table| table.materialized().is_some()) {
            catalog = revive(catalog, &new_datafusion())?;
        }
        let shared = Arc::new(Shared::new(options, catalog, Some(found.durable)));
        checkpoint::keep_short(&shared);
        Ok(Database { shared })
    }

    /// Looks at the database in `folder`, which nobody has open: reads everything, builds all
    /// indexes and verifies what must hold. Writes nothing.
    ///
    /// Errors: as [`Database::open`]; 58P01 if there is no database.
    pub fn check(folder: impl AsRef<Path>, progress: &(dyn Fn(Opening) + Sync)) -> Result<Opened> {
        durable::check(folder.as_ref(), progress)
    }

    /// What opening it came to; None for a database that lives in memory alone.
    pub fn opened(&self) -> Option<Opened> {
        self.shared.durable.as_ref().map(|durable| durable.opened)
    }

    /// Writes a checkpoint now, as fast as it goes. Nothing for a database in memory.
    ///
    /// Errors: 53100, 58030; the checkpoint before stands.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_at(0)
    }

    /// As [`Database::checkpoint`], at so many bytes per second at most; 0 for no limit.
    pub fn checkpoint_at(&self, bytes_per_s: u64) -> Result<()> {
        checkpoint::checkpoint(&self.shared, &Pace { bytes_per_s, ..Pace::default() })
    }

    /// Writes what is left of the log, also of commits that nobody waited for. Later commits are
    /// refused. Dropping the last handle and session does so too.
    pub fn close(&self) {
        if let Some(durable) = &self.shared.durable {
            durable.stop.store(true, Ordering::Relaxed);
            durable.log.close();
        }
    }

    /// Copies the database, as it is at one moment, into `folder`, where it can be
    /// [opened](Database::open).
    ///
    /// Errors: 42P04 if the folder is there and not empty; 53100, 58030.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<()> {
        checkpoint::backup(&self.shared, folder.as_ref())
    }

    /// A session that acts for the first superuser.
    pub fn session(&self) -> Session {
        self.session_as(halcyon_query::catalog::SUPERUSER).expect("the superuser exists")
    }

    /// A session that acts for `role`.
    ///
    /// Errors: 28000 if there is no such role or it may not log in.
    pub fn session_as(&self, role: &str) -> Result<Session> {
        let refused = |what| {
            SqlError::new(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                format!("role \"{role}\" {what}"),
            )
        };
        let catalog = self.shared.catalog();
        let entry = catalog.roles.get(role).ok_or_else(|| refused("does not exist"))?;
        if !entry.login {
            return Err(refused("is not permitted to log in"));
        }
        let id = self.shared.next_session.fetch_add(1, Ordering::Relaxed);
        Ok(Session::new(self.shared.clone(), catalog.clone(), id, role, entry.superuser))
    }

    /// Every row of every partition at one moment, with its id, after checking what must hold of
    /// partitions and catalog: for tests that compare databases.
    #[doc(hidden)]
    pub fn rows(&self) -> BTreeMap<PartitionId, Vec<(RowId, Vec<Value>)>> {
        let catalog = self.catalog();
        catalog.check();
        let cells: Vec<_> =
            catalog.tables.values().flat_map(|table| &table.cells).cloned().collect();
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let roots = cut(&self.shared.manager, &cells, &limits).expect("nobody ends this wait");
        let rows = |root: &Partition| {
            root.check();
            let values = |row: RowRef<'_>| row.values().map(|value| value.to_owned()).collect();
            root.rows().map(|row| (row.id(), values(row))).collect()
        };
        cells.iter().zip(roots).map(|(cell, root)| (cell.id, rows(&root))).collect()
    }

    /// Whether every partition is latched: for tests of what is measured.
    #[cfg(feature = "latches")]
    #[doc(hidden)]
    pub fn is_latched(&self) -> bool {
        let catalog = self.catalog();
        let cells: Vec<_> =
            catalog.tables.values().flat_map(|table| &table.cells).cloned().collect();
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let roots = cut(&self.shared.manager, &cells, &limits).expect("nobody ends this wait");
        roots.iter().all(|root| root.is_latched())
    }

    /// Panics unless the engines of all views are what they claim to be: for tests.
    #[doc(hidden)]
    pub fn check_views(&self) {
        let catalog = self.catalog();
        catalog.tables.values().filter_map(|t| t.materialized()).for_each(|view| view.cell.check());
    }

    /// The catalog as last published.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog()
    }

    /// How many statements were planned since the start; a cached one is not planned again.
    pub fn statements_planned(&self) -> u64 {
        self.shared.cache.hits_and_misses().1
    }
}

impl Shared {
    fn new(options: DatabaseOptions, catalog: Catalog, durable: Option<Durable>) -> Self {
        let version = catalog.version;
        let empty = Partition::new(halcyon_store::Schema { columns: Vec::new() }.into());
        let log = durable.as_ref().map(|durable| durable.log.clone());
        let shared = Shared {
            manager: Manager::with_log(log),
            version: AtomicU64::new(version),
            next_version: AtomicU64::new(version + 1),
            catalog: ArcSwap::from_pointee(catalog),
            ddl: Arc::new(PartitionCell::new(PartitionId(0), empty)),
            cache: StatementCache::new(options.cached_statements),
            datafusion: new_datafusion(),
            deadlines: Deadlines::default(),
            sessions: Mutex::default(),
            statements: Mutex::default(),
            next_session: AtomicU32::new(1),
            started_us: halcyon_base::clock::wall_us(),
            durable,
            options,
        };
        settings::tune(&shared);
        shared
    }

    /// The catalog as last published.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Version of the catalog as last published. Pairs with the store in `publish`.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A version that no catalog has borne before, so that plans of an undone one are never found.
    pub fn fresh_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes `catalog` everybody's. The caller holds `ddl` exclusively.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version;
        let before = self.catalog.swap(catalog);
        self.version.store(version, Ordering::Release);
        if before.settings != self.catalog.load().settings {
            settings::tune(self);
        }
    }

    /// What was said about settings of the whole database, with `catalog` for ALTER SYSTEM.
    pub fn chosen<'a>(&'a self, catalog: &'a Catalog) -> Chosen<'a> {
        Chosen { given: &self.options.settings, altered: &catalog.settings }
    }

    /// How the whole database is set up now.
    pub fn tuning(&self) -> Tuning {
        self.chosen(&self.catalog.load()).tuning()
    }
}

/// DataFusion with the system schemas, which the binder of stored queries sees without an engine.
fn new_datafusion() -> DataFusion {
    DataFusion::new(Box::new(SystemCatalogs::without_engine()))
}
