//! The state that all sessions of a database share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use halcyon_base::ids::PartitionId;
use halcyon_catalog::{Catalog, Schema};
use halcyon_plan::engine::DataFusion;
use halcyon_prepare::cache::StatementCache;
use halcyon_store::Partition;
use halcyon_txn::{BatchEnd, LogError, Lsn, Manager, PartitionCell};
use halcyon_workload::{Machine, Snapshot};
use parking_lot::Mutex;

use crate::activity::{SessionEntry, StatementTable};
use crate::advisory::{self, AdvisoryLocks};
use crate::datafusion::datafusion_with;
use crate::durable::Durable;
use crate::memory::MemoryLimit;
use crate::options::DatabaseOptions;
use crate::settings::{self, Chosen, TunedParts, Tuning};
use crate::signals::Channels;
use crate::workload::Workload;
use halcyon_exec::deadline::Deadlines;

/// The state that all sessions of a database share.
///
/// `version` equals `catalog.version` except within `publish`, which stores the catalog first
/// and checks both. Sessions compare with `version` only: its cache line is written by DDL alone.
pub(crate) struct Shared {
    pub options: DatabaseOptions,
    pub manager: Manager,
    catalog: ArcSwap<Catalog>,
    version: AtomicU64,
    next_version: AtomicU64,
    /// Locked exclusively by a transaction that changes the catalog. It is a partition without
    /// rows, so that deadlocks and timeouts together with tables are found like any others.
    pub ddl: Arc<PartitionCell>,
    pub cache: StatementCache,
    pub datafusion: DataFusion,
    pub deadlines: Deadlines,
    pub memory: MemoryLimit,
    /// Workload classes, and who runs in them.
    pub workload: Arc<Workload>,
    /// The temporary schemas of sessions, as last committed: for the system views of other sessions.
    pub temporary: Mutex<BTreeMap<u32, Arc<Schema>>>,
    pub sessions: Mutex<BTreeMap<u32, Arc<SessionEntry>>>,
    pub statements: StatementTable,
    /// The sessions that listen on each channel.
    pub channels: Arc<Channels>,
    pub advisory: Arc<AdvisoryLocks>,
    next_session: AtomicU32,
    /// The durable part; `None` for a database that lives in memory alone.
    pub durable: Option<Durable>,
    /// Start in microseconds since 1970.
    pub started_us: i64,
}

impl Shared {
    pub fn new(options: DatabaseOptions, catalog: Catalog, durable: Option<Durable>) -> Self {
        let version = catalog.version;
        let empty = Partition::new(halcyon_store::Schema::new(Vec::new()));
        let log = durable.as_ref().map(|durable| durable.log.clone());
        let workload = Arc::new(Workload::new(&catalog.workload, &machine_of(&options, None)));
        let manager = Manager::with_log(log);
        let advisory = advisory::beside(&manager);
        let shared = Shared {
            manager,
            version: AtomicU64::new(version),
            next_version: AtomicU64::new(version + 1),
            catalog: ArcSwap::from_pointee(catalog),
            ddl: Arc::new(PartitionCell::new(PartitionId(0), empty)),
            cache: StatementCache::new(options.cached_statements),
            datafusion: datafusion_with(options.workers.clone()),
            deadlines: Deadlines::default(),
            memory: MemoryLimit::default(),
            workload,
            temporary: Mutex::default(),
            sessions: Mutex::default(),
            statements: StatementTable::new(options.cached_statements),
            channels: Arc::default(),
            advisory,
            next_session: AtomicU32::new(1),
            started_us: halcyon_base::clock::wall_us(),
            durable,
            options,
        };
        if let Some(folder) = &shared.options.spill {
            shared.datafusion.spill_into(folder);
        }
        if let Some(durable) = &shared.durable {
            let channels = Arc::clone(&shared.channels);
            durable.log.on_batch(move |end| channels.send(end));
        }
        shared.tune();
        shared.define_classes();
        shared
    }

    /// The number of a new session.
    pub fn next_session(&self) -> u32 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// The catalog as last published.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Version of the catalog as last published. Pairs with the store in `publish`.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a catalog is still what statements are to run on. `own`: it is the private one of a
    /// transaction, which alone may change the shared one if it has done so.
    pub fn is_current(&self, catalog: &Catalog, own: bool) -> bool {
        (own && catalog.extends.is_none()) || self.version() == catalog.shared_version()
    }

    /// A version that no catalog has had before, so that a plan for an undone catalog is never
    /// found again.
    pub fn fresh_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends the notifications of commits that are durable.
    pub fn send_notifications(&self) {
        if self.channels.are_waiting() {
            let is_last = |error: LogError| error.is_final();
            self.channels.send(match &self.durable {
                None => BatchEnd { durable: Lsn(u64::MAX), is_last: false },
                Some(Durable { log, .. }) => {
                    BatchEnd { durable: log.durable(), is_last: log.failure().is_some_and(is_last) }
                }
            });
        }
    }

    /// Publishes `catalog` for all sessions. The caller holds `ddl` exclusively.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version;
        catalog.publish_types(&self.catalog.load());
        let before = self.catalog.swap(catalog);
        assert_eq!(before.version, self.version(), "nobody else publishes meanwhile");
        assert!(before.version < version, "no catalog's version comes again");
        self.version.store(version, Ordering::Release);
        let after = self.catalog.load();
        let retuned = before.settings != after.settings;
        if retuned {
            self.tune();
        }
        if retuned || !after.has_workload_of(&before) {
            self.define_classes();
        }
    }

    /// Puts workload classes and mappings into force.
    fn define_classes(&self) {
        let machine = machine_of(&self.options, Some(&self.memory));
        let before = self.workload.snapshot();
        let snapshot = self.workload.define(&self.catalog.load().workload, &machine);
        self.workload.follow_priorities(&self.datafusion, &before, &snapshot);
        self.workload.define_targets(&self.datafusion, &snapshot);
        // A controller takes workers from statements that run.
        let has_targets = snapshot.classes().any(|class| class.limits.has_target());
        let all = has_targets.then_some(machine.threads);
        for class in snapshot.classes() {
            let limits = &class.limits;
            let above = class.parent.map(|above| above.0);
            halcyon_base::memory::set_class(class.id.0, limits.total_memory, above);
            let threads = limits.total_threads.or(all).map(|threads| threads as usize);
            self.datafusion.quotas().set(class.id.0, threads);
        }
        self.datafusion.set_shares(shares(&snapshot));
    }

    /// The sources of the whole database's settings, with `catalog` for ALTER SYSTEM.
    pub fn chosen<'a>(&'a self, catalog: &'a Catalog) -> Chosen<'a> {
        Chosen { given: &self.options.settings, altered: &catalog.settings }
    }

    /// The values of the whole database's settings now.
    pub fn tuning(&self) -> Tuning {
        self.chosen(&self.catalog.load()).tuning()
    }

    /// Puts the whole database's settings into force.
    fn tune(&self) {
        let catalog = self.catalog.load();
        let log = self.durable.as_ref().map(|durable| &*durable.log);
        let spill = self.options.spill.as_deref();
        let parts = TunedParts {
            budget: &catalog.budget,
            memory: &self.memory,
            datafusion: &self.datafusion,
            spill,
            log,
        };
        settings::tune(&self.tuning(), &parts);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.workload.steward.stop();
    }
}

/// What percentages in the definitions of workload classes are of.
fn machine_of(options: &DatabaseOptions, memory: Option<&MemoryLimit>) -> Machine {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.workers.count + options.workers.dedicated.len();
    let threads = if workers == 0 { cores() } else { workers };
    let memory = memory.map_or(i64::MAX, MemoryLimit::bytes);
    Machine {
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        memory_bytes: u64::try_from(memory).unwrap_or(u64::MAX),
    }
}

/// How classes and bands share the workers' time, as the task runtime takes it.
fn shares(snapshot: &Snapshot) -> halcyon_task::Shares {
    let halcyon_workload::Shares { weights, floors } = snapshot.shares();
    halcyon_task::Shares { weights, floors }
}
