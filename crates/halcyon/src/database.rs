//! The database: catalog, partitions, plans, sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use halcyon_base::ids::PartitionId;
use halcyon_query::analytic::DataFusion;
use halcyon_query::cache::StatementCache;
use halcyon_query::catalog::Catalog;
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_store::Partition;
use halcyon_txn::{Manager, PartitionCell};
use parking_lot::Mutex;

use crate::deadline::Deadlines;
use crate::live::{SessionEntry, StatementEntry};
use crate::session::Session;

/// An in-memory database. Cloning gives another handle to the same one.
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
    pub latches: bool,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            name: "halcyon".into(),
            threads: 0,
            cached_statements: 4096,
            latches: false,
        }
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
        let catalog = Catalog { latches: options.latches, ..Catalog::initial() };
        let version = catalog.version;
        let empty = Partition::new(halcyon_store::Schema { columns: Vec::new() }.into());
        let shared = Shared {
            manager: Manager::new(),
            version: AtomicU64::new(version),
            next_version: AtomicU64::new(version + 1),
            catalog: ArcSwap::from_pointee(catalog),
            ddl: Arc::new(PartitionCell::new(PartitionId(0), empty)),
            cache: StatementCache::new(options.cached_statements),
            datafusion: DataFusion::new(),
            deadlines: Deadlines::default(),
            sessions: Mutex::default(),
            statements: Mutex::default(),
            next_session: AtomicU32::new(1),
            started_us: halcyon_base::clock::wall_us(),
            options,
        };
        Database { shared: Arc::new(shared) }
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
        self.catalog.store(catalog);
        self.version.store(version, Ordering::Release);
    }
}
