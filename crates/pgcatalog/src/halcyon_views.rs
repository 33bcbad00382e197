//! Schema `halcyon`: what the engine does, and what it is asked for that ([`Live`]).
//!
//! To add a view: a declaration here with the function that gives its rows, from the catalog or from a
//! new method of [`Live`], which the engine implements (crates/halcyon/src/live.rs). The guide's page
//! (docs/guide/system-views.md) is made from the declarations; crates/halcyon/tests/system_views
//! demands a test of every column's value.

use std::sync::Arc;

use std::borrow::Cow;

use halcyon_store::Partition;
use halcyon_txn::PartitionCell;

use super::Context;
use super::class_state::{
    AdmissionRow, ClassRow, ControllerRow, EffectiveRow, EventRow, LatencyRow, QueueRow,
};
use super::effects::{AdvisoryKey, Effects};
use super::memory;
use super::objects::{What, table_of};
use super::view::{Moment, Name, system_views};
use halcyon_cache::GroupRow;
use halcyon_catalog::{Catalog, Table};
use halcyon_workers::MatrixRow;

system_views! {
    /// One row per open session.
    sessions: Session from sessions {
        /// Number of the session; `pg_backend_pid()` gives one's own.
        session: u32,
        /// Role that the session acts as: the one that it was begun for, unless SET ROLE chose another.
        role: Name,
        /// Name that the client gave itself.
        application: String,
        /// Address of the client; NULL for embedded sessions.
        client: Option<String>,
        /// One of active, idle, idle in transaction, idle in transaction (aborted), waiting for a
        /// lock, waiting for the disk.
        state: &'static str,
        /// Transaction of the session, if it has one.
        transaction: Option<u64>,
        /// When the session began.
        started: Moment,
        /// When its transaction began.
        transaction_started: Option<Moment>,
        /// When its last or running statement began.
        statement_started: Option<Moment>,
        /// Text of that statement, its first 4,096 bytes; NULL if it is not yours to see.
        statement: Option<String>,
    }

    /// One row per statement text that sessions ran, for superusers. A session adds what it counted when
    /// it ends, and every 4,096 runs of a statement.
    statements: Statement from statements {
        /// The text, its first 4,096 bytes.
        statement: String,
        /// Executor that runs it, as EXPLAIN says.
        executor: &'static str,
        /// How often it ran.
        calls: u64,
        /// Runs that ended in an error.
        errors: u64,
        /// Rows given or changed, all runs together; rows that are read while they are made are not counted.
        rows: u64,
        /// Time of all runs together, projected from one run in sixteen.
        total_ms: f64,
        /// Time per run.
        mean_ms: Option<f64>,
        /// Time of the longest run that was timed.
        max_ms: f64,
        /// How often a text of it found a plan: its own, or the one of all texts that differ from it in
        /// literals alone.
        plan_hits: u64,
        /// How often a plan was made.
        plan_misses: u64,
        /// Why a plan was made the last time.
        last_miss: Option<&'static str>,
    }

    /// One row per lock on a partition that a transaction holds or waits for.
    locks: Lock from locks {
        /// Schema of the table.
        schema: Option<Name>,
        /// The table.
        relation: Option<Name>,
        /// Number of the partition within the table, from 0.
        partition: Option<u32>,
        /// Number of the partition in the database: the order in which locks are taken.
        partition_id: u32,
        /// Transaction that holds or waits.
        transaction: u64,
        /// Session of the transaction.
        session: u32,
        /// `shared` or `exclusive`.
        mode: &'static str,
        /// Held, or still waited for.
        granted: bool,
    }

    /// One row per worker of the task runtime; none before a statement has needed them. Statements that reach
    /// few rows and those that wait (`pg_sleep`, advisory locks) need none.
    workers: Worker from workers {
        /// Number of the worker, from 0.
        worker: u32,
        /// `control` for a worker that shares its processors, `compute` for one that owns its processor.
        plane: &'static str,
        /// Number of its island, from 0: the workers that share a last-level cache.
        island: u32,
        /// Processors that it may run on, as a list such as 0-3; NULL if the system may move it anywhere.
        processors: Option<String>,
        /// One of busy, spinning, sleeping, absent.
        state: &'static str,
        /// Session whose statement it works for at the moment.
        session: Option<u32>,
        /// Tasks that ended on it.
        tasks: u64,
        /// How often a task that it ran stopped to wait for rows, a reader, or its next share of time.
        suspensions: u64,
        /// Time that it ran tasks.
        busy_ms: f64,
        /// Time that it was ready to run while its processor did something else.
        run_delay_ms: f64,
        /// The longest time that it ran tasks without looking at others that wait.
        longest_ms: f64,
        /// How often it went to sleep.
        sleeps: u64,
    }

    /// One row per group of processors and last-level cache that `cache_partitioning` divides, or per group with the reason why
    /// it does not. Of machines without a counter nothing is told that one would count.
    cache: Cache from cache {
        /// `polluting` or `sensitive`, or `default`: all other processors, which fill all ways.
        group: &'static str,
        /// The kernel's id of the cache; NULL while it is not divided.
        cache: Option<u32>,
        /// `on` or `off`.
        state: &'static str,
        /// Why the cache is not divided; if it is, what is not known of the effect.
        reason: Option<String>,
        /// Ways of the cache that the group fills, in hexadecimal digits.
        mask: Option<String>,
        /// Number of these ways.
        ways: Option<u32>,
        /// Processors of the group on all caches, as a list such as 0-3.
        processors: Option<String>,
        /// Bytes that the group has in the cache.
        occupancy_bytes: Option<u64>,
        /// Bytes that the group has had from memory since it was made: the bandwidth is what they grow by.
        memory_bytes: Option<u64>,
        /// `hardware`, or `fake` in tests.
        source: &'static str,
    }

    /// One row per operator and partner of the file that `halcyon serve --slowdown-matrix` names: what
    /// `halcyon lab interference` has measured of operators beside each other.
    interference: Interference from interference {
        /// The operator.
        operator: String,
        /// The operator beside it; `nobody` for a second measurement alone.
        partner: String,
        /// The operator's time beside the partner by its time alone.
        slowdown: f64,
        /// How statements like the operator are annotated, as in `halcyon.tasks`.
        cache_use: &'static str,
        /// Whether a sensitive operator hardly lost by a polluting one, which the annotations deny; NULL for other pairs, and if
        /// nothing could be concluded.
        contradicted: Option<bool>,
    }

    /// One row per processor and cause that interrupted threads of this server while they ran, for superusers; none unless
    /// `halcyon serve --noise-watch` watches. What the kernel does not see, a hypervisor's work, is not among it.
    noise: Noise from noise {
        /// The processor.
        processor: u32,
        /// The cause: `pre-empted by` a thread, an `interrupt`, a `softirq`, each with its name.
        cause: String,
        /// Number of interruptions.
        interruptions: u64,
        /// Time that they took.
        total_ms: f64,
        /// The longest.
        worst_ms: f64,
        /// When the last one ended.
        last: Moment,
    }

    /// One row per statement whose tasks are on the workers, for superusers and for the session's role.
    tasks: Tasks from tasks {
        /// Session of the statement.
        session: u32,
        /// Text of the session's last or running statement, its first 4,096 bytes.
        statement: Option<String>,
        /// When its tasks began.
        started: Moment,
        /// Tasks that have not ended.
        tasks: u64,
        /// Workers that run them at the moment.
        running: u64,
        /// Workers that may run them at once.
        workers: u64,
        /// The workload class that they are of.
        workload_class_name: String,
        /// The band that they wait in: urgent, high, normal or low.
        band: &'static str,
        /// How they use the shared cache: `sensitive` (they live from it), `polluting` (they fill it with what is not
        /// read again) or `adaptive`. The class's CACHE CLASS says so, else their operators do where there are several islands, or
        /// divided caches.
        cache_use: &'static str,
    }

    /// One row per transaction under way.
    transactions: Transaction from transactions {
        /// Number of the transaction.
        transaction: u64,
        /// Session of the transaction.
        session: u32,
        /// Isolation level.
        isolation: &'static str,
        /// Whether it reads a snapshot only.
        read_only: bool,
        /// When it began.
        started: Moment,
        /// Locks it holds.
        locks: u64,
        /// Changes it would take back.
        undo_records: u64,
    }

    /// One row per partition (with `index` NULL) and one per index of a partition.
    memory: Memory from memory_rows {
        /// Schema of the table.
        schema: Name,
        /// The table.
        relation: Name,
        /// Number of the partition within the table, from 0.
        partition: u32,
        /// Number of the partition in the database.
        partition_id: u32,
        /// The index, or NULL for the rows themselves.
        index: Option<Name>,
        /// Rows, or entries of the index.
        rows: u64,
        /// Segments of 2,048 rows; NULL for an index.
        segments: Option<u64>,
        /// Places in the segments that hold no row; NULL for an index.
        free_slots: Option<u64>,
        /// Memory held; what a snapshot still holds besides is not counted.
        bytes: u64,
    }

    /// One row per share in the memory that is in use. Shares of sessions are seen by their roles and
    /// superusers, shares of the database by superusers.
    memory_accounts: MemoryAccount from memory_accounts {
        /// Of a session `statement` (`planning` while it is planned), `transaction` for what earlier
        /// statements left, and `undo` for the notes by which the transaction would be taken back; of the
        /// database `tables`, `indexes`, `views`, `plans`, `log` (what waits for the disk), `other`, or `total`.
        account: &'static str,
        /// Number of the session; NULL for a share of the database.
        session: Option<u32>,
        /// Memory held; of statements and transactions what they have allocated and not freed.
        bytes: u64,
        /// Memory that the account may hold; NULL if none but the total's limit holds.
        limit_bytes: Option<u64>,
        /// Statements that were refused memory since the process began; NULL but for the total.
        refusals: Option<u64>,
    }

    /// One row per materialized view.
    views: MaterializedView from views {
        /// Schema of the view.
        schema: Name,
        /// The view.
        view: Name,
        /// Rows of the view.
        rows: u64,
        /// Memory of the rows.
        bytes: u64,
        /// Memory of the maps that keep it up to date.
        map_bytes: u64,
        /// Inserted and deleted rows that it has met.
        events: u64,
        /// Nanoseconds per event: the median, right to an eighth.
        event_ns_p50: Option<u64>,
        /// Nanoseconds within which 99 of 100 events were done.
        event_ns_p99: Option<u64>,
        /// Nanoseconds of the longest event.
        event_ns_max: Option<u64>,
    }

    /// One row per materialized view that runs in a cell, or in a thread that does what a cell does.
    cells: ViewCell from cells {
        /// Schema of the view.
        schema: Name,
        /// The view.
        view: Name,
        /// `cell` or `thread`.
        place: &'static str,
        /// `running`; `broken`: the next use starts another cell with all that was accepted; `unavailable`:
        /// no cell could be had; `dropped`.
        state: &'static str,
        /// Processor that the cell is bound to; NULL for none in particular.
        cpu: Option<u32>,
        /// Cells that were started in place of broken ones.
        restarts: u64,
        /// Inserted and deleted rows that the cell was sent and that were not taken back.
        events: u64,
        /// A count that goes up while the cell lives; NULL if none runs.
        heartbeat: Option<u64>,
        /// Memory of the cell.
        memory_bytes: u64,
        /// Accepted events that would be sent again to a new cell: those that no saved state of the cell has.
        log_bytes: u64,
        /// Why the last cell has ended, or why there is none; NULL if nothing has happened.
        fault: Option<String>,
    }

    /// One row for the redo log; none if the database lives in memory alone.
    log: Log from log {
        /// Where the next record goes.
        end_lsn: String,
        /// Everything before is durable.
        durable_lsn: String,
        /// Where the last checkpoint was taken.
        checkpoint_lsn: String,
        /// Bytes of log behind that.
        bytes: u64,
        /// Files of the log.
        files: u64,
        /// Commits since the start.
        commits: u64,
        /// How often a batch of commits was written and synced.
        syncs: u64,
        /// Time that this took.
        sync_ms: f64,
        /// When the last checkpoint of this process was done.
        checkpointed: Option<Moment>,
        /// Why no commits are taken; NULL if they are.
        error: Option<String>,
    }

    /// One row per setting, as SHOW ALL lists them.
    settings: Setting from settings {
        /// Name, as SET takes it.
        name: String,
        /// Value in this session, as SHOW prints it.
        value: String,
        /// Value without SET and ALTER SYSTEM.
        default_value: String,
        /// Unit of a bare number.
        unit: Option<&'static str>,
        /// `bool`, `integer`, `string` or `enum`.
        r#type: &'static str,
        /// Whose it is: `session`, `transaction`, `database` (ALTER SYSTEM), or `read-only`.
        scope: &'static str,
        /// What it is for.
        description: &'static str,
    }
}

fn sessions(context: &Context) -> Vec<Session> {
    let row = |session: SessionRow| {
        let visible = context.is_superuser() || session.user == context.session.user;
        Session {
            session: session.id,
            role: Name(session.role),
            application: session.application,
            client: session.client,
            state: match session.state {
                SessionState::Waiting => "waiting for a lock",
                SessionState::Syncing => "waiting for the disk",
                other => other.name(),
            },
            transaction: session.transaction,
            started: Moment(session.started_us),
            transaction_started: session.transaction_us.map(Moment),
            statement_started: session.statement_us.map(Moment),
            statement: session.statement.filter(|_| visible),
        }
    };
    context.live.sessions().into_iter().map(row).collect()
}

/// Texts of statements tell what others do: for superusers only.
fn statements(context: &Context) -> Vec<Statement> {
    if !context.is_superuser() {
        return Vec::new();
    }
    const MS: f64 = 1e6;
    let row = |statement: StatementRow| {
        let total_ms = statement.total_ns as f64 / MS;
        Statement {
            statement: statement.text,
            executor: statement.executor,
            calls: statement.calls,
            errors: statement.errors,
            rows: statement.rows,
            total_ms,
            mean_ms: (statement.calls > 0).then(|| total_ms / statement.calls as f64),
            max_ms: statement.max_ns as f64 / MS,
            plan_hits: statement.plan_hits,
            plan_misses: statement.plan_misses,
            last_miss: statement.last_miss,
        }
    };
    context.live.statements().into_iter().map(row).collect()
}

fn locks(context: &Context) -> Vec<Lock> {
    let row = |lock: LockRow| {
        let table = table_of(context, lock.partition);
        let table = table.and_then(|id| context.catalog.tables.get(&id));
        let is_it = |cell: &std::sync::Arc<PartitionCell>| cell.id.0 == lock.partition;
        let number = table.and_then(|table| table.cells.iter().position(is_it));
        Lock {
            schema: table.map(|table| Name(table.schema.clone())),
            relation: table.map(|table| Name(table.name.clone())),
            partition: number.map(|number| number as u32),
            partition_id: lock.partition,
            transaction: lock.transaction,
            session: lock.session,
            mode: if lock.exclusive { "exclusive" } else { "shared" },
            granted: lock.granted,
        }
    };
    context.live.locks().into_iter().map(row).collect()
}

fn workers(context: &Context) -> Vec<Worker> {
    const MS: f64 = 1e6;
    let row = |worker: WorkerRow| Worker {
        worker: worker.number,
        plane: if worker.is_dedicated { "compute" } else { "control" },
        island: worker.island,
        processors: Some(worker.processors).filter(|processors| !processors.is_empty()),
        state: worker.state,
        session: worker.session,
        tasks: worker.tasks,
        suspensions: worker.suspensions,
        busy_ms: worker.busy_ns as f64 / MS,
        run_delay_ms: worker.run_delay_ns as f64 / MS,
        longest_ms: worker.longest_ns as f64 / MS,
        sleeps: worker.sleeps,
    };
    context.live.workers().into_iter().map(row).collect()
}

fn noise(context: &Context) -> Vec<Noise> {
    // Names of threads tell what else the machine does.
    if !context.is_superuser() {
        return Vec::new();
    }
    let row = |row: halcyon_noise::watch::Row| Noise {
        processor: row.cpu,
        cause: row.cause,
        interruptions: row.count,
        total_ms: row.total_us / 1e3,
        worst_ms: row.worst_us / 1e3,
        last: Moment(row.last_us),
    };
    halcyon_noise::watch::rows().into_iter().map(row).collect()
}

fn cache(context: &Context) -> Vec<Cache> {
    let row = |row: GroupRow| Cache {
        group: row.group,
        cache: row.cache,
        state: if row.is_on { "on" } else { "off" },
        reason: row.reason,
        mask: row.mask.map(|mask| mask.to_string()),
        ways: row.mask.map(|mask| mask.count()),
        processors: row.processors,
        occupancy_bytes: row.occupancy_bytes,
        memory_bytes: row.memory_bytes,
        source: row.source,
    };
    context.live.cache().into_iter().map(row).collect()
}

fn interference(context: &Context) -> Vec<Interference> {
    let row = |row: MatrixRow| Interference {
        operator: row.operator,
        partner: row.partner,
        slowdown: row.slowdown,
        cache_use: row.cache_use,
        contradicted: row.is_contradicted,
    };
    context.live.interference().into_iter().map(row).collect()
}

fn tasks(context: &Context) -> Vec<Tasks> {
    let sessions = context.live.sessions();
    let row = |running: TasksRow| {
        let session = sessions.iter().find(|session| session.id == running.session)?;
        let is_visible = context.is_superuser() || session.user == context.session.user;
        is_visible.then(|| Tasks {
            session: running.session,
            statement: session.statement.clone(),
            started: Moment(running.began_us),
            tasks: running.tasks,
            running: running.running,
            workers: running.workers,
            workload_class_name: running.class,
            band: running.band,
            cache_use: running.cache_use,
        })
    };
    context.live.tasks().into_iter().filter_map(row).collect()
}

fn transactions(context: &Context) -> Vec<Transaction> {
    let row = |running: TransactionRow| Transaction {
        transaction: running.id,
        session: running.session,
        isolation: running.isolation,
        read_only: running.read_only,
        started: Moment(running.started_us),
        locks: running.locks,
        undo_records: running.undo_records,
    };
    context.live.transactions().into_iter().map(row).collect()
}

fn memory_rows(context: &Context) -> Vec<Memory> {
    let mut rows = Vec::new();
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        for ((number, root), cell) in
            context.roots(table).iter().enumerate().zip(table.cells.iter())
        {
            let of = |index: Option<&String>, rows, bytes| Memory {
                schema: Name(object.schema.clone()),
                relation: Name(object.name.clone()),
                partition: number as u32,
                partition_id: cell.id.0,
                index: index.cloned().map(Name),
                rows,
                segments: None,
                free_slots: None,
                bytes,
            };
            let size = memory::of_partition(root);
            rows.push(Memory {
                segments: Some(size.segments),
                free_slots: Some(size.slots - size.rows),
                ..of(None, size.rows, size.row_bytes)
            });
            let trees = table.indexes.iter().filter_map(|index| {
                let tree = root.index(index.id)?;
                Some(of(Some(&index.name), tree.len(), tree.bytes()))
            });
            rows.extend(trees);
        }
    }
    rows
}

fn memory_accounts(context: &Context) -> Vec<MemoryAccount> {
    let all = context.live.accounts();
    let row = |account, bytes| MemoryAccount {
        account,
        session: None,
        bytes: u64::try_from(bytes).unwrap_or(0),
        limit_bytes: None,
        refusals: None,
    };
    let mut rows = Vec::new();
    let mut known = all.plans;
    for share in &all.sessions {
        known += share.statement.max(0) + share.transaction.max(0);
        if !context.is_superuser() && share.user != context.session.user {
            continue;
        }
        let session = Some(share.session);
        let limit_bytes = share.statement_limit;
        let statement = if share.is_planning { "planning" } else { "statement" };
        // The notes were allocated by statements: first by those before the running one.
        let of_earlier = share.undo.min(share.transaction.max(0));
        let of_running = (share.undo - of_earlier).min(share.statement.max(0));
        let running = share.statement - of_running;
        rows.push(MemoryAccount { session, limit_bytes, ..row(statement, running) });
        rows.push(MemoryAccount { session, ..row("transaction", share.transaction - of_earlier) });
        rows.push(MemoryAccount { session, ..row("undo", of_earlier + of_running) });
    }
    if context.is_superuser() {
        let [tables, indexes, views] = stored_bytes(context);
        let other = all.total - known - tables - indexes - views - all.log;
        // Below 0 where a statement holds what is in a table already.
        let shares = [("tables", tables), ("indexes", indexes), ("views", views)];
        rows.extend(shares.map(|(account, bytes)| row(account, bytes)));
        rows.extend([row("plans", all.plans), row("log", all.log), row("other", other)]);
    }
    let (limit_bytes, refusals) = (all.limit, Some(all.refusals));
    rows.push(MemoryAccount { limit_bytes, refusals, ..row("total", all.total) });
    rows
}

/// Bytes of the rows of all tables, of their indexes, and of the maps of views.
fn stored_bytes(context: &Context) -> [i64; 3] {
    let mut sums = [0_u64; 3];
    for object in context.objects().relations.values() {
        let What::Table(table) = &object.what else { continue };
        let size = memory::of_table(&context.roots(table));
        let maps = table.materialized().map_or(0, |view| view.maintained().figures().bytes);
        for (sum, bytes) in sums.iter_mut().zip([size.row_bytes, size.index_bytes, maps]) {
            *sum += bytes;
        }
    }
    sums.map(|sum| i64::try_from(sum).unwrap_or(i64::MAX))
}

/// Materialized views: what they hold, and what an event has cost.
fn views(context: &Context) -> Vec<MaterializedView> {
    let row = |object: &super::objects::Object| {
        let What::Table(table) = &object.what else { return None };
        if !context.may_read(table) {
            return None;
        }
        let figures = table.materialized()?.maintained().figures();
        let size = memory::of_rows(&context.roots(table));
        Some(MaterializedView {
            schema: Name(object.schema.clone()),
            view: Name(object.name.clone()),
            rows: size.rows,
            bytes: size.row_bytes,
            map_bytes: figures.bytes,
            events: figures.events,
            event_ns_p50: figures.ns_p50,
            event_ns_p99: figures.ns_p99,
            event_ns_max: figures.ns_max,
        })
    };
    context.objects().relations.values().filter_map(row).collect()
}

/// Views in cells: what the cells do, and what has happened to them.
fn cells(context: &Context) -> Vec<ViewCell> {
    let row = |object: &super::objects::Object| {
        let What::Table(table) = &object.what else { return None };
        if !context.may_read(table) {
            return None;
        }
        let figures = table.materialized()?.maintained().cell_figures()?;
        Some(ViewCell {
            schema: Name(object.schema.clone()),
            view: Name(object.name.clone()),
            place: figures.place,
            state: figures.state,
            cpu: figures.cpu,
            restarts: figures.restarts,
            events: figures.events,
            heartbeat: figures.heartbeat,
            memory_bytes: figures.memory_bytes,
            log_bytes: figures.log_bytes,
            fault: figures.fault,
        })
    };
    context.objects().relations.values().filter_map(row).collect()
}

fn log(context: &Context) -> Vec<Log> {
    let row = |log: LogRow| Log {
        end_lsn: log.end,
        durable_lsn: log.durable,
        checkpoint_lsn: log.checkpoint,
        bytes: log.bytes,
        files: log.files,
        commits: log.commits,
        syncs: log.syncs,
        sync_ms: log.sync_ms,
        checkpointed: log.checkpoint_us.map(Moment),
        error: log.error,
    };
    context.live.log().map(row).into_iter().collect()
}

fn settings(context: &Context) -> Vec<Setting> {
    let row = |setting: SettingRow| Setting {
        name: setting.name.into_owned(),
        value: setting.value,
        default_value: setting.default,
        unit: setting.unit,
        r#type: setting.kind,
        scope: setting.scope,
        description: setting.description,
    };
    context.live.settings().into_iter().map(row).collect()
}

/// The engine's state, asked when a system view is read.
///
/// Times are microseconds since 1970-01-01 UTC. Calls may take latches for a moment but do not
/// wait for transactions.
pub trait Live: Send + Sync {
    /// Text of `version()`.
    fn version(&self) -> String;
    /// When the engine started.
    fn started_us(&self) -> i64;
    /// Open sessions.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Statements of the cache with their counters.
    fn statements(&self) -> Vec<StatementRow>;
    /// Partition locks, held and awaited.
    fn locks(&self) -> Vec<LockRow>;
    /// Advisory locks, held and awaited.
    fn advisory_locks(&self) -> Vec<AdvisoryRow> {
        Vec::new()
    }
    /// Workers of the task runtime, if it runs.
    fn workers(&self) -> Vec<WorkerRow>;
    /// Groups of processors that fill parts of the last-level caches.
    fn cache(&self) -> Vec<GroupRow> {
        Vec::new()
    }
    /// What operators cost each other.
    fn interference(&self) -> Vec<MatrixRow> {
        Vec::new()
    }
    /// Statements whose tasks are on the workers.
    fn tasks(&self) -> Vec<TasksRow>;
    /// Limits that hold for each session's statements.
    fn workload_effective(&self) -> Vec<EffectiveRow> {
        Vec::new()
    }
    /// What came to the gate, by workload class.
    fn workload_admission(&self) -> Vec<AdmissionRow> {
        Vec::new()
    }
    /// Statements that wait at the gate.
    fn workload_queue(&self) -> Vec<QueueRow> {
        Vec::new()
    }
    /// The gate's last decisions.
    fn workload_events(&self) -> Vec<EventRow> {
        Vec::new()
    }
    /// What the statements of workload classes take.
    fn workload_classes(&self) -> Vec<ClassRow> {
        Vec::new()
    }
    /// How long the statements of workload classes take.
    fn workload_latency(&self) -> Vec<LatencyRow> {
        Vec::new()
    }
    /// Classes with targets, as their controller sees them.
    fn workload_controllers(&self) -> Vec<ControllerRow> {
        Vec::new()
    }
    /// Transactions under way.
    fn transactions(&self) -> Vec<TransactionRow>;
    /// The redo log; `None` for a database that lives in memory alone.
    fn log(&self) -> Option<LogRow>;
    /// The memory that is in use, by share.
    fn accounts(&self) -> Accounts;
    /// Open cursors of the asking session.
    fn cursors(&self) -> Vec<CursorRow>;
    /// Settings as the asking session has them.
    fn settings(&self) -> Vec<SettingRow>;
    /// Files that statements have spilled into since the start, and their bytes.
    fn spilled(&self) -> (i64, i64) {
        (0, 0)
    }
    /// What functions do to the session that asks and to others; `None` where nothing runs.
    fn effects(&self) -> Option<&dyn Effects>;
    /// A session's catalog with the temporary objects of all other sessions beside its own.
    fn with_all_temporary(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        Arc::clone(catalog)
    }
    /// The newer one of `catalog` and the one that was published last: plans outlive changes of workload classes.
    fn newest(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        Arc::clone(catalog)
    }
    /// Roots of a table's partitions as last committed, in partition order.
    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>>;
}

/// A session.
#[derive(Clone, Debug, Default)]
pub struct SessionRow {
    /// Number of the session, also the backend's process id for clients.
    pub id: u32,
    /// Role that it was begun for.
    pub user: String,
    /// Role that it acts as: `user`, unless SET ROLE chose another.
    pub role: String,
    /// As set by the client.
    pub application: String,
    /// Address of the client; `None` when embedded.
    pub client: Option<String>,
    /// What it does now.
    pub state: SessionState,
    /// Last or running statement.
    pub statement: Option<String>,
    /// When it began.
    pub started_us: i64,
    /// When its transaction began, if it has one.
    pub transaction_us: Option<i64>,
    /// When its last or running statement began.
    pub statement_us: Option<i64>,
    /// Transaction of the session, if it has one.
    pub transaction: Option<u64>,
}

/// An open cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorRow {
    /// The cursor's name.
    pub name: String,
    /// The statement that declared it.
    pub statement: String,
    /// WITH HOLD.
    pub holds: bool,
    /// SCROLL.
    pub scrolls: bool,
    /// When it was declared.
    pub declared_us: i64,
}

/// The memory that is in use, in bytes. A share is below 0 if its owner freed what others had allocated.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Shares of sessions.
    pub sessions: Vec<SessionShare>,
    /// What kept plans take.
    pub plans: i64,
    /// What waits to be written to the log.
    pub log: i64,
    /// What the process takes.
    pub total: i64,
    /// What it may take; `None` without a limit.
    pub limit: Option<u64>,
    /// How often a statement was refused more.
    pub refusals: u64,
}

/// The share of a session in the memory that is in use.
#[derive(Clone, Debug, Default)]
pub struct SessionShare {
    /// Number of the session.
    pub session: u32,
    /// Number of its account, by which its work is known; 0 for nobody's.
    pub account: u16,
    /// Role that it was begun for.
    pub user: String,
    /// Of its last or running statement.
    pub statement: i64,
    /// Of earlier statements of its transaction.
    pub transaction: i64,
    /// Of the notes by which the transaction would be taken back, a part of both.
    pub undo: i64,
    /// Whether the statement is being planned.
    pub is_planning: bool,
    /// What a statement of it may take; `None` without a limit.
    pub statement_limit: Option<u64>,
}

/// What a session does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionState {
    /// Runs a statement.
    Active,
    /// Waits for its client.
    #[default]
    Idle,
    /// Waits for its client within a transaction.
    IdleInTransaction,
    /// Waits for its client within a transaction that failed.
    Failed,
    /// Waits for a partition lock.
    Waiting,
    /// Waits for the disk: what it is about to be told is not durable yet.
    Syncing,
}

impl SessionState {
    /// As `pg_stat_activity.state` spells it; a waiting statement is an active one.
    pub fn name(self) -> &'static str {
        match self {
            SessionState::Active | SessionState::Waiting | SessionState::Syncing => "active",
            SessionState::Idle => "idle",
            SessionState::IdleInTransaction => "idle in transaction",
            SessionState::Failed => "idle in transaction (aborted)",
        }
    }
}

/// A statement of the cache. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct StatementRow {
    /// Text of the statement.
    pub text: String,
    /// Which executor runs it: `point`, `analytical`, `write`, ….
    pub executor: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// Time of all runs together.
    pub total_ns: u64,
    /// Time of the longest run.
    pub max_ns: u64,
    /// Rows given or changed, all runs together.
    pub rows: u64,
    /// Runs that ended in an error.
    pub errors: u64,
    /// Lookups of its plan that found one.
    pub plan_hits: u64,
    /// Lookups that made one.
    pub plan_misses: u64,
    /// Why the last of those did.
    pub last_miss: Option<&'static str>,
}

/// A worker. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct WorkerRow {
    /// Number of the worker.
    pub number: u32,
    /// Whether its processor is its own.
    pub is_dedicated: bool,
    /// Number of its island.
    pub island: u32,
    /// List of the processors that it may run on; empty: all.
    pub processors: String,
    /// What it does.
    pub state: &'static str,
    /// Session whose statement it works for.
    pub session: Option<u32>,
    /// Tasks that ended on it.
    pub tasks: u64,
    /// Steps after which a task waited.
    pub suspensions: u64,
    /// Time with tasks.
    pub busy_ns: u64,
    /// Time ready to run without a processor.
    pub run_delay_ns: u64,
    /// Longest time with tasks without a look at others.
    pub longest_ns: u64,
    /// How often it went to sleep.
    pub sleeps: u64,
}

/// A statement whose tasks are on the workers.
#[derive(Clone, Debug, Default)]
pub struct TasksRow {
    /// Session of the statement.
    pub session: u32,
    /// When its tasks began, microseconds since 1970.
    pub began_us: i64,
    /// Tasks that have not ended.
    pub tasks: u64,
    /// Workers that run them.
    pub running: u64,
    /// Workers that may run them at once.
    pub workers: u64,
    /// Name of their workload class.
    pub class: String,
    /// Name of their band.
    pub band: &'static str,
    /// Name of their use of the cache.
    pub cache_use: &'static str,
}

/// A lock on a partition, held or awaited.
#[derive(Clone, Debug, Default)]
pub struct LockRow {
    /// The partition.
    pub partition: u32,
    /// The transaction that holds or awaits it.
    pub transaction: u64,
    /// Session of the transaction.
    pub session: u32,
    /// Exclusive or shared.
    pub exclusive: bool,
    /// Held or awaited.
    pub granted: bool,
}

/// An advisory lock, held or awaited.
pub type AdvisoryRow = halcyon_txn::advisory::AdvisoryLock<AdvisoryKey>;

/// The redo log.
#[derive(Clone, Debug, Default)]
pub struct LogRow {
    /// Number of the database, by which its own work is known.
    pub database: u128,
    /// Where the next record goes.
    pub end: String,
    /// Everything before is durable.
    pub durable: String,
    /// Where the last checkpoint's cut was.
    pub checkpoint: String,
    /// Bytes of the log behind that.
    pub bytes: u64,
    /// Files of the log.
    pub files: u64,
    /// Commits since the start.
    pub commits: u64,
    /// How often a batch of them was written and synced.
    pub syncs: u64,
    /// Time that took, in milliseconds.
    pub sync_ms: f64,
    /// When the last checkpoint of this process was done.
    pub checkpoint_us: Option<i64>,
    /// Why no commits are taken, if that is so.
    pub error: Option<String>,
}

/// A transaction under way.
#[derive(Clone, Debug, Default)]
pub struct TransactionRow {
    /// Number of the transaction.
    pub id: u64,
    /// Session of the transaction.
    pub session: u32,
    /// Isolation level as SQL spells it.
    pub isolation: &'static str,
    /// READ ONLY.
    pub read_only: bool,
    /// When it began.
    pub started_us: i64,
    /// Undo records it holds.
    pub undo_records: u64,
    /// Locks it holds.
    pub locks: u64,
}

/// A setting, as SHOW ALL, `pg_settings` and `halcyon.settings` list it.
#[derive(Clone, Debug, Default)]
pub struct SettingRow {
    /// Name.
    pub name: Cow<'static, str>,
    /// Value as SHOW prints it.
    pub value: String,
    /// Value as a number of `unit`s, for what has a unit.
    pub number: String,
    /// Value without SET or ALTER SYSTEM.
    pub default: String,
    /// The default as a number of `unit`s.
    pub default_number: String,
    /// Unit of a bare number.
    pub unit: Option<&'static str>,
    /// What it is for.
    pub description: &'static str,
    /// Heading in `pg_settings`.
    pub category: &'static str,
    /// Whose it is: `session`, `transaction`, `database` or `read-only`.
    pub scope: &'static str,
    /// Who may set it when, as `pg_settings.context` spells it.
    pub context: &'static str,
    /// Whence the value is, as `pg_settings.source` spells it.
    pub source: &'static str,
    /// `bool`, `integer`, `string` or `enum`.
    pub kind: &'static str,
    /// Least value.
    pub least: Option<String>,
    /// Greatest value.
    pub most: Option<String>,
    /// Values of an enumeration.
    pub words: Vec<&'static str>,
}
