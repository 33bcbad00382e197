//! The analytical executor: DataFusion's vectorised operators over the roots of a snapshot.
//!
//! A plan becomes physical when it first runs, because the row counts that decide the order of
//! joins are known only then. The physical plan is kept and runs again over any snapshot
//! ([`halcyon_scan::scan::ScanExec`] finds its roots in the task context). It is made anew
//! - for other values of its parameters, which are put in as constants first (the plans for the last
//!   [`PLANS_KEPT`] sets of values are kept while there is room: who looks again asks for the same);
//! - for every execution, if the statement asks for something that belongs to the execution (`now()`, `nextval`,
//!   system views), put in as constants too;
//! - for every execution, if it has subqueries that stay apart from its joins;
//! - if the session's thread limit changed, or a table's row count by more than a factor of four;
//! - for every execution, if parts of it are bounded index lookups in large tables: their rows are looked up first
//!   ([`crate::lookups`]).
//!
//! Threads: operators run as tasks on the database's workers, in a group for each execution, on at most
//! `threads` of them at a time ([`halcyon_operators`]). The caller reads a [`BatchStream`]. The channel
//! between them is bounded, so a reader who is slow holds the operators back, and they hold no worker
//! meanwhile. A task must not wait for anything but its inputs, so the rows of system tables are written, and tables
//! that functions measure are taken, where an execution begins; and a statement that calls functions which wait
//! (`pg_sleep`, advisory locks) runs on a thread of its own, with DataFusion's exchanges.
//!
//! Invariants, checked by `both_ways_of_running_give_the_same_rows` and `a_dropped_stream_frees_its_workers`:
//! 1. A stream that ends without an error has given all rows.
//! 2. A stream that was dropped has no task left soon after.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use futures::channel::oneshot;
use futures::future::{AbortHandle, abortable};
use futures::{FutureExt, StreamExt};
use halcyon_aggregates::{with_own_windows, with_shared_sums, with_widened_integers};
use halcyon_base::memory::{self, Work};
use halcyon_base::{clock, duty, parking};
use halcyon_operators::{
    CacheSizes, cache_use, collecting_paced, findings_reach_scans, hash_aggregates, hash_joins,
    on_workers, paced, range_joins, shared_parts, sorts,
};
use halcyon_store::{Partition, Value};
use halcyon_task::{CacheUse, Locality, RunningGroup, Runtime};
use halcyon_txn::{CancelToken, Mode};
use halcyon_workload::CacheClass;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use halcyon_catalog::Table;
use halcyon_catalog::session_vars::Placement;
use halcyon_functions::like;
use halcyon_functions::memberships::is_of_long_array;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::{Env, Need};
use halcyon_plan::execution;
use halcyon_plan::executions;
use halcyon_plan::interrupts::under;
use halcyon_plan::intervals;
use halcyon_plan::semantics;
use halcyon_plan::setup::config;
use halcyon_scan::forgetting::{is_refused_order, physical_rules, warily};
use halcyon_scan::provider::{table_of, tables_of};
use halcyon_scan::snapshot::Snapshot;
use halcyon_scan::wide;
use halcyon_spill::Spill;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::stack::{THREAD_BYTES, drop_deep, with_new_stack, with_stack};

use crate::lookups::Lookups;
use crate::outline;
use crate::sharing::{SharedParts, with_shared_parts};
use crate::turns;
use crate::waiting::has_waits;
use halcyon_spill::pool;

/// Batches that wait for a slow reader.
const BATCHES_AHEAD: usize = 4;

/// Processor time of a statement that is long, and what a row that it scans is estimated to cost: TPC-H's queries
/// take 10 to 60 ns for each row of their tables.
const LONG_NS: u64 = 100_000_000;
const NS_PER_ROW: u64 = 30;

/// The part of a statement's limit that sorts of one thread keep free to merge what they have put into files.
const MERGES_IN_MEMORY: usize = 16;

/// What sorts of one thread keep free at least where they put their batches into one piece.
const SORTS_IN_PLACE: usize = 2 << 20;

/// Bytes that a statement which may spill must be allowed for each row of its batches, and the fewest rows of one: a
/// sort takes a batch in at least, and merges several.
const BYTES_PER_BATCH_ROW: usize = 16_384;
const ROWS_OF_BATCH_LEAST: usize = 256;

/// How often a reader that blocks its thread looks whether its statement was refused memory, which wakes nobody.
const LOOK: Duration = Duration::from_millis(20);

/// How many physical plans of a statement are kept, each for other values of its parameters.
const PLANS_KEPT: usize = 4;

/// The most bytes of parameters that plans are kept for.
const PARAMETERS_KEPT: usize = 4 << 10;

/// The part of the limit of memory that all physical plans for parameters may have together, their most bytes under any
/// limit, and those of one at least.
const PART_OF_LIMIT: i64 = 32;
const PHYSICAL_MAX: i64 = 64 << 20;
const PHYSICAL_LEAST: i64 = 8 << 10;

/// A query that runs vectorised over a snapshot.
pub struct AnalyticalPlan {
    df: DataFusion,
    logical: LogicalPlan,
    tables: Vec<Arc<Table>>,
    schema: SchemaRef,
    /// Parts whose rows are looked up first.
    lookups: Lookups,
    /// What is replaced by constants before the plan becomes physical.
    late: Late,
    /// Whether the plan runs on a thread of its own, since it waits for more than its inputs.
    waits: bool,
    /// Whether the query is FOR UPDATE: it runs under exclusive locks instead of on a snapshot.
    locks_rows: bool,
    /// Whether the physical plan is DataFusion's alone: the slow twin.
    is_plain: bool,
    /// Physical plans, the last one used first.
    physical: Mutex<Vec<Arc<Physical>>>,
}

/// What is put into a plan for an execution, by how often that gives another plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Late {
    /// Nothing.
    Nothing,
    /// Values of parameters alone.
    Parameters,
    /// Results of functions of the execution, the rows of system tables, or the tables that functions measure.
    Execution,
}

/// A physical plan and what it was made for.
struct Physical {
    plan: Arc<dyn ExecutionPlan>,
    threads: usize,
    row_counts: Vec<u64>,
    /// The parameters' values.
    params: Vec<Value>,
    /// The room that a plan for parameters takes.
    _room: Option<Room>,
}

/// Bytes of all physical plans for parameters that are kept.
static FOR_PARAMETERS: AtomicI64 = AtomicI64::new(0);

/// A part of the room for physical plans for parameters.
struct Room(i64);

impl Room {
    /// Room for a plan of so many bytes; `None` if there is none left.
    fn of(bytes: i64) -> Option<Room> {
        let room = Room(bytes.max(PHYSICAL_LEAST));
        memory::add_plans(room.0);
        let most = (memory::limit() / PART_OF_LIMIT).min(PHYSICAL_MAX);
        let taken = FOR_PARAMETERS.fetch_add(room.0, Relaxed) + room.0;
        (taken <= most).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        FOR_PARAMETERS.fetch_sub(self.0, Relaxed);
        memory::add_plans(-self.0);
    }
}

impl AnalyticalPlan {
    /// Prepares an analysed and optimised plan. Nothing is made physical yet.
    pub fn new(logical: LogicalPlan, df: &DataFusion) -> Self {
        let tables = tables_of(&logical);
        let late = Late::of(&logical);
        let waits = df.workers().own_threads || has_waits(&logical);
        let schema = Arc::clone(logical.schema().inner());
        let lookups = Lookups::of(&logical, &tables);
        AnalyticalPlan {
            df: df.clone(),
            logical,
            tables,
            schema,
            lookups,
            late,
            waits,
            locks_rows: false,
            is_plain: false,
            physical: Mutex::new(Vec::new()),
        }
    }

    /// The plan with every part scanned: the slow twin of [`crate::lookups`], for tests.
    pub fn scanning(mut self) -> Self {
        self.lookups = Lookups::none();
        self
    }

    /// The plan with filters above scans, joins in the order of the text, and nothing found by joins used elsewhere:
    /// the slow twin of the order of joins and of [`halcyon_operators::findings_reach_scans`], for tests.
    pub fn plain(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// Makes the plan a SELECT … FOR UPDATE.
    pub fn locking_rows(mut self, locks_rows: bool) -> Self {
        self.locks_rows = locks_rows;
        self
    }

    /// Whether the plan is a SELECT … FOR UPDATE.
    pub fn locks_rows(&self) -> bool {
        self.locks_rows
    }

    /// Adds the locks that the plan needs inside a transaction: every partition of its tables.
    pub fn needs(&self, _: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        let mode = if self.locks_rows { Mode::Exclusive } else { Mode::Shared };
        needs.extend((0..self.tables.len()).map(|table| Need { table, partition: None, mode }));
        Ok(())
    }

    /// The tables that the plan reads, each once, in the order in which `start` wants their roots.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The logical plan.
    pub fn logical(&self) -> &LogicalPlan {
        &self.logical
    }

    /// Begins to run over `roots`, which are given by table of the plan and partition number.
    pub fn start(
        &self,
        env: &Env<'_>,
        roots: Vec<Vec<triomphe::Arc<Partition>>>,
    ) -> Result<BatchStream> {
        duty::lasts();
        with_new_stack(|| {
            let looked_up = under(env.cancel, || self.looked_up(env, &roots))?;
            let snapshot = Arc::new(Snapshot::new(&self.tables, roots, self.df.samples()));
            let scanned = if looked_up.is_some() { 0 } else { snapshot.row_counts().sum() };
            let (plan, config) = under(env.cancel, || self.executable(env, &snapshot, looked_up))?;
            let plan = match self.is_plain {
                true => plan,
                false => findings_reach_scans(plan)
                    .and_then(shared_parts)
                    .map_err(|error| sql_error(error, ""))?,
            };
            self.launch(plan, config, env, placement(env, scanned))
        })
    }

    /// The plan as text, for EXPLAIN: the physical plan of the last execution if it was kept.
    pub fn explain(&self) -> Result<String> {
        // A plan for some parameters is not that for others.
        let kept = self.physical.lock().first().filter(|kept| kept.params.is_empty()).cloned();
        Ok(match kept {
            Some(kept) => with_stack(|| outline::planned(kept.plan.as_ref())),
            None => format!("{}\n{}", self.logical.display_indent(), self.lookups.explain()),
        })
    }

    /// The logical plan with rows in the places of its parts, if it has parts that are worth it and have few.
    fn looked_up(
        &self,
        env: &Env<'_>,
        roots: &[Vec<triomphe::Arc<Partition>>],
    ) -> Result<Option<LogicalPlan>> {
        let rows = roots.iter().flatten().map(|partition| partition.row_count());
        match self.lookups.are_worth_it(rows) {
            true => self.lookups.looked_up(&self.logical, env, roots),
            false => Ok(None),
        }
    }

    /// A plan with fresh state, and the configuration that carries `snapshot` to its scans.
    fn executable(
        &self,
        env: &Env<'_>,
        snapshot: &Arc<Snapshot>,
        looked_up: Option<LogicalPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionConfig)> {
        let threads = env.session.threads.max(1);
        let mut config =
            config().with_target_partitions(threads).with_extension(Arc::clone(snapshot));
        if let Some(spill) = self.spill(env) {
            let merge = env.session.memory_bytes / MERGES_IN_MEMORY / threads;
            let options = &config.options().execution;
            // Batches that are sorted in one piece count the texts of all of it, each of them.
            let in_place = match merge >= SORTS_IN_PLACE {
                true => options.sort_in_place_threshold_bytes,
                false => 0,
            };
            let merge = merge.min(options.sort_spill_reservation_bytes);
            let rows = config.batch_size().min(env.session.memory_bytes / BYTES_PER_BATCH_ROW);
            config = config
                .with_batch_size(rows.max(ROWS_OF_BATCH_LEAST))
                .with_sort_spill_reservation_bytes(merge)
                .with_sort_in_place_threshold_bytes(in_place)
                .with_extension(spill);
        }
        let sized = |plan: &LogicalPlan, config: SessionConfig| {
            let rows = wide::batch_rows(plan, config.batch_size());
            config.with_batch_size(rows)
        };
        let has_lookups = looked_up.is_some();
        let bound = |logical: LogicalPlan| match self.late {
            Late::Nothing => Ok(logical),
            Late::Parameters => semantics::bind_late(logical, env),
            Late::Execution => {
                let bound = semantics::bind_late(logical, env)?;
                self.df.system().measuring_now(bound).map_err(|error| sql_error(error, ""))
            }
        };
        let is_kept = !has_lookups && self.late != Late::Execution && are_few(env.params);
        if !is_kept {
            let logical = bound(looked_up.unwrap_or_else(|| self.logical.clone()))?;
            let config = sized(&logical, config);
            return Ok((self.make_physical(&logical, &config)?, config));
        }
        let config = sized(&self.logical, config);
        let make = || self.make_physical(&bound(self.logical.clone())?, &config);
        Ok((self.kept(threads, snapshot, env.params, make)?, config))
    }

    /// The statement's files, if the database has a folder for them.
    fn spill(&self, env: &Env<'_>) -> Option<Arc<Spill>> {
        let folder = self.df.spill()?;
        // A statement with a thread of its own may block it.
        let blocking = (!self.waits).then(|| self.df.runtime().blocking());
        Some(Spill::new(folder, env.session.temp_file_bytes, blocking))
    }

    /// The physical plan of an earlier execution with these parameters if it still fits, else the one that `make`
    /// makes, kept from now on.
    fn kept(
        &self,
        threads: usize,
        snapshot: &Snapshot,
        params: &[Value],
        make: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let row_counts: Vec<u64> = snapshot.row_counts().collect();
        if let Some(plan) = self.found(threads, &row_counts, params) {
            return reset_plan_states(plan).map_err(|e| sql_error(e, ""));
        }
        let (plan, bytes) = memory::with_growth(make);
        let plan = plan?;
        if shares_results(&plan) {
            return Ok(plan);
        }
        let room = if params.is_empty() { None } else { Room::of(bytes) };
        if !params.is_empty() && room.is_none() {
            return Ok(plan);
        }
        let params = params.to_vec();
        let made = Physical { plan: Arc::clone(&plan), threads, row_counts, params, _room: room };
        let mut kept = self.physical.lock();
        kept.retain(|other| !all_identical(&other.params, &made.params));
        kept.truncate(PLANS_KEPT - 1);
        kept.insert(0, Arc::new(made));
        drop(kept);
        reset_plan_states(plan).map_err(|e| sql_error(e, ""))
    }

    /// The kept plan for these parameters, if there is one that fits.
    fn found(
        &self,
        threads: usize,
        row_counts: &[u64],
        params: &[Value],
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let mut kept = self.physical.lock();
        let at = kept.iter().position(|plan| plan.fits(threads, row_counts, params))?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].plan))
    }

    fn make_physical(
        &self,
        logical: &LogicalPlan,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.df.count_planning();
        with_stack(|| {
            let logical = logical.clone();
            let shared = if self.is_plain { logical } else { with_shared_sums(logical)? };
            let checked = semantics::with_checked_arithmetic(shared)?;
            let checked = intervals::with_keys(like::with_searches(checked)?)?;
            let checked = with_own_windows(with_widened_integers(checked)?)?;
            let mut state = match self.is_plain {
                true => SessionStateBuilder::new_from_existing(self.df.bare().clone())
                    .with_physical_optimizer_rules(physical_rules().collect())
                    .build(),
                false => self.df.bare().clone(),
            };
            *state.config_mut() = config.clone();
            state.execution_props_mut().config_options = Some(Arc::clone(config.options()));
            let checked = if self.is_plain { checked } else { with_shared_parts(checked)? };
            let planner =
                DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(SharedParts)]);
            let planned = || block_on(planner.create_physical_plan(&checked, &state));
            let plan = planned().or_else(|error| match is_refused_order(&error) {
                true => warily(planned),
                false => Err(error),
            })?;
            let ours = |plan| hash_joins(range_joins(hash_aggregates(plan)?)?);
            let plan = if self.is_plain { plan } else { ours(plan)? };
            let plan = paced(plan)?;
            let plan = if self.waits { plan } else { on_workers(plan)? };
            if self.is_plain {
                return Ok(plan);
            }
            // Ours take less memory, DataFusion's less time over texts that begin alike.
            let is_scarce = config.options().execution.sort_in_place_threshold_bytes == 0;
            collecting_paced(sorts(plan, is_scarce && self.df.spill().is_some())?)
        })
        .map_err(|error| sql_error(error, ""))
    }

    fn launch(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: SessionConfig,
        env: &Env<'_>,
        placement: &Placement,
    ) -> Result<BatchStream> {
        let spill = config.get_extension::<Spill>();
        let runtime_env = runtime_env(env, spill).map_err(|error| sql_error(error, ""))?;
        let none = HashMap::new;
        let context = Arc::new(TaskContext::new(
            None,
            env.session.session_id.to_string(),
            config,
            none(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            runtime_env,
        ));
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let (ending, ended) = oneshot::channel();
        let cancel = env.cancel.clone();
        let measured = Some(Arc::clone(&plan));
        let cache = self.cache_use(&plan, placement);
        let owner = Work::of(cancel.account());
        let watched = cancel.clone();
        let work = async move {
            let told = sender.clone();
            let run = async move {
                // The stream is made here: operators may spawn as soon as they are executed.
                match execute_stream(plan, context) {
                    Ok(stream) => pump(stream, &sender, &cancel).await,
                    Err(error) => {
                        let _ = sender.send(Err(sql_error(error, ""))).await;
                    }
                }
            };
            if AssertUnwindSafe(run).catch_unwind().await.is_err() {
                // It ends the statement alone: operators change nothing.
                let panicked = SqlError::new(SqlState::INTERNAL_ERROR, "an operator panicked");
                let _ = told.send(Err(panicked)).await;
            }
            let _ = ending.send(());
        };
        let work = owner.id().working(work);
        let execution = match self.waits {
            true => on_own_thread(work)?,
            false => self.as_tasks(work, env, placement, cache)?,
        };
        let schema = Arc::clone(&self.schema);
        Ok(BatchStream {
            schema,
            receiver,
            ended: Some(ended),
            execution,
            plan: measured,
            cancel: watched,
            received: None,
            class: placement.class,
            simulation: self.simulation(),
            _work: owner,
        })
    }

    /// The workers, if they are simulated and the plan runs on them.
    fn simulation(&self) -> Option<Arc<Runtime>> {
        let is_simulated = self.df.workers().simulated.is_some() && !self.waits;
        is_simulated.then(|| Arc::clone(self.df.runtime()))
    }

    /// How the statement's tasks use the cache: as the class says, else as the operators do. These are not asked where
    /// all workers share one cache that is not divided, since nothing there depends on the answer.
    fn cache_use(&self, plan: &Arc<dyn ExecutionPlan>, placement: &Placement) -> CacheUse {
        match placement.cache {
            CacheClass::Polluting => CacheUse::Polluting,
            CacheClass::Sensitive => CacheUse::Sensitive,
            CacheClass::Auto if self.waits => CacheUse::Adaptive,
            CacheClass::Auto => {
                let runtime = self.df.runtime();
                match runtime.island_count() < 2 && !runtime.is_divided() {
                    true => CacheUse::Adaptive,
                    false => cache_use(plan, CacheSizes::of_this_machine()),
                }
            }
        }
    }

    /// Runs `work` as the first task of a group of its own.
    fn as_tasks(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        env: &Env<'_>,
        placement: &Placement,
        cache: CacheUse,
    ) -> Result<Execution> {
        let runtime = self.df.runtime();
        let threads = placement.workers_max.unwrap_or(usize::MAX).min(env.session.threads);
        let threads = threads.clamp(1, runtime.worker_count());
        let mut group = runtime.group();
        turns::limit(&mut group, &self.df, placement);
        if threads < runtime.worker_count() || placement.is_watched {
            group.limit(threads);
        }
        // An island is left only if it has not got the workers that the statement may have.
        let island = runtime.worker_count() / runtime.island_count().max(1);
        let locality = if threads <= island { Locality::OneIsland } else { Locality::Spread };
        let place = executions::Place { class: placement.class, band: placement.band };
        group.cache(cache);
        drop(group.future(place.annotation().cache(cache), work));
        let group = group.enqueue(locality).map_err(|_| cancelled())?;
        self.df.executions().note(executions::Execution {
            session: env.session.session_id,
            began_us: clock::wall_us(),
            workers: threads,
            cache,
            group: group.clone(),
            place: Arc::new(Mutex::new(place)),
        });
        Ok(Execution::Group(group))
    }
}

/// The place of a statement that scans so many rows: that of long statements if it is estimated to be one.
fn placement<'e>(env: &'e Env<'_>, rows: u64) -> &'e Placement {
    let session = env.session;
    let is_long = rows.saturating_mul(NS_PER_ROW) >= LONG_NS;
    session.long_placement.as_ref().filter(|_| is_long).unwrap_or(&session.placement)
}

/// Runs `work` on a thread of its own.
///
/// Errors: 53000 if the system gives no thread.
fn on_own_thread(work: impl Future<Output = ()> + Send + 'static) -> Result<Execution> {
    let (work, abort) = abortable(work);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            let _ = runtime.block_on(work);
        }
    };
    let thread = std::thread::Builder::new().name("halcyon-waits".to_owned());
    let started = thread.stack_size(THREAD_BYTES).spawn(run);
    started.map_err(|error| {
        SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("no thread was given: {error}"))
    })?;
    Ok(Execution::Thread(abort))
}

/// Whether executions of a plan would share what its subqueries give: DataFusion resets that where it lies, in
/// expressions that all copies of the plan have.
fn shares_results(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let subqueries = |node: &Arc<dyn ExecutionPlan>| Ok(node.is::<ScalarSubqueryExec>());
    plan.exists(subqueries).unwrap_or(true)
}

impl Physical {
    fn fits(&self, threads: usize, row_counts: &[u64], params: &[Value]) -> bool {
        let alike = |(a, b): (&u64, &u64)| *a / 4 <= b + 1024 && *b / 4 <= a + 1024;
        self.threads == threads
            && self.row_counts.iter().zip(row_counts).all(alike)
            && all_identical(&self.params, params)
    }
}

/// Whether two lists of parameters have the same values; 0 and -0 differ.
fn all_identical(a: &[Value], b: &[Value]) -> bool {
    let identical = |(a, b): (&Value, &Value)| match (a, b) {
        (Value::Float32(a), Value::Float32(b)) => a.to_bits() == b.to_bits(),
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(identical)
}

/// Whether a plan may be kept for these parameters: what it takes is not counted.
fn are_few(params: &[Value]) -> bool {
    let bytes = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => size_of::<Value>(),
    };
    params.iter().map(bytes).sum::<usize>() <= PARAMETERS_KEPT
}

/// Hands batches to the reader until they end, the reader leaves, or the statement is cancelled.
async fn pump(
    mut stream: SendableRecordBatchStream,
    sender: &mpsc::Sender<Result<RecordBatch>>,
    cancel: &CancelToken,
) {
    while let Some(result) = stream.next().await {
        let item = match cancel.is_cancelled() {
            true => Err(cancelled()),
            false => result.map_err(|error| sql_error(error, "")),
        };
        let is_last = item.is_err();
        if sender.send(item).await.is_err() || is_last {
            return;
        }
    }
}

/// The error of a simulated statement of which no task can run any more, though it has not ended.
fn nothing_runs() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the tasks of a statement wait for each other")
}

fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

fn runtime_env(env: &Env<'_>, spill: Option<Arc<Spill>>) -> DfResult<Arc<RuntimeEnv>> {
    let files = DiskManagerBuilder::default();
    let files = match &spill {
        Some(spill) => files.with_temp_file_factory(spill.factory()),
        None => files.with_mode(DiskManagerMode::Disabled),
    };
    RuntimeEnvBuilder::new()
        .with_memory_pool(pool(env.session.memory_bytes, env.cancel.account(), spill.is_some()))
        .with_disk_manager_builder(files)
        .build_arc()
}

/// The tasks or the thread of an execution.
enum Execution {
    Group(RunningGroup),
    Thread(AbortHandle),
}

/// The result of an analytical plan: a blocking iterator. Dropping it ends the work.
pub struct BatchStream {
    schema: SchemaRef,
    /// Number of the workload class that its tasks are of.
    class: u8,
    receiver: mpsc::Receiver<Result<RecordBatch>>,
    /// Told behind the last batch; dropped by an execution that was ended before.
    ended: Option<oneshot::Receiver<()>>,
    execution: Execution,
    /// Taken by drop alone.
    plan: Option<Arc<dyn ExecutionPlan>>,
    cancel: CancelToken,
    /// What was received ahead of its reader ([`BatchStream::poll_ready`]).
    received: Option<Option<Result<RecordBatch>>>,
    /// The workers, if they take turns on the thread that reads.
    simulation: Option<Arc<Runtime>>,
    /// Ends the operators with the stream, wherever they look: a task that is aborted goes on to its next await.
    _work: Work,
}

impl BatchStream {
    /// Number of the workload class that the statement's tasks are of.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// Columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The physical plan with the measurements of its operators so far, for EXPLAIN ANALYZE.
    pub fn metrics(&self) -> Option<String> {
        let plan = self.plan.as_deref()?;
        Some(with_stack(|| outline::measured(plan)))
    }

    /// Ready once [`BatchStream::next`] does not wait: a batch is there, the stream has ended, or the statement
    /// was cancelled.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.received.is_none() {
            let next = ready!(self.poll_next_batch(context));
            self.received = Some(next);
        }
        Poll::Ready(())
    }

    fn poll_next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self.receiver.poll_recv(context) {
            Poll::Ready(Some(item)) => Poll::Ready(Some(item)),
            Poll::Ready(None) => {
                let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
                let ended = ready!(ended.poll_unpin(context));
                self.ended = None;
                Poll::Ready(ended.err().map(|_| Err(cancelled())))
            }
            Poll::Pending => {
                self.cancel.watch(context);
                match self.cancel.is_cancelled() {
                    true => Poll::Ready(Some(Err(cancelled()))),
                    false => Poll::Pending,
                }
            }
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.received.take() {
            Some(received) => received,
            None => match self.simulation.clone() {
                Some(runtime) => with_new_stack(|| {
                    let next = poll_fn(|context| self.poll_next_batch(context));
                    runtime.block_on(next).unwrap_or_else(|_| Some(Err(nothing_runs())))
                }),
                None => block_on(poll_fn(|context| self.poll_next_batch(context))),
            },
        }
    }
}

/// Waits for a future on the caller's thread, which may itself stand inside any executor.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = parking::waker();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park_timeout(LOOK),
        }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        match &self.execution {
            Execution::Group(group) => group.abort(),
            Execution::Thread(thread) => thread.abort(),
        }
        if let Some(plan) = self.plan.take() {
            drop_deep(plan);
        }
    }
}

impl Late {
    /// What has to be put into a plan.
    fn of(plan: &LogicalPlan) -> Late {
        let mut late = Late::Nothing;
        let _ = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && table_of(&scan.source).is_none()
            {
                late = Late::Execution;
            }
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    late = late.max(match expr {
                        Expr::Placeholder(_) => Late::Parameters,
                        Expr::ScalarFunction(call)
                            if execution::belongs_to_execution(call.name())
                                || execution::measures(call.name()) =>
                        {
                            Late::Execution
                        }
                        Expr::ScalarFunction(call) if is_of_long_array(call) => Late::Parameters,
                        _ => Late::Nothing,
                    });
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_for_parameters_have_a_room_of_their_own() {
        assert!(Room::of(PHYSICAL_MAX + 1).is_none());
        let small = Room::of(0).expect("the refused one has given its room back");
        assert_eq!(small.0, PHYSICAL_LEAST);
        assert!(Room::of(PHYSICAL_MAX - PHYSICAL_LEAST + 1).is_none());
    }
}
