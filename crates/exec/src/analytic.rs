//! The analytical executor: DataFusion's vectorised operators over the roots of a snapshot.
//!
//! A plan becomes physical when it first runs, because the row counts that decide the order of
//! joins are known only then. The physical plan is kept and runs again over any snapshot
//! ([`halcyon_plan::provider::ScanExec`] finds its roots in the task context). It is made anew
//! - for every execution, if the statement has parameters or asks for something that belongs to
//!   the execution (`now()`, `nextval`, system views): these are put in as constants first;
//! - if the session's thread limit changed, or a table's row count by more than a factor of four.
//!
//! Threads: operators run on a runtime of their own, at most `threads` of the session's partitions
//! at a time; the caller reads a [`BatchStream`] and blocks. The channel between them is bounded,
//! so a reader who is slow holds the operators back.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use halcyon_aggregates::watched;
use halcyon_base::memory::Work;
use halcyon_store::Partition;
use halcyon_txn::{CancelToken, Mode};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use halcyon_catalog::Table;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::{Env, Need};
use halcyon_plan::execution;
use halcyon_plan::interrupts::under;
use halcyon_plan::intervals;
use halcyon_plan::like;
use halcyon_plan::provider::{Snapshot, table_of, tables_of};
use halcyon_plan::semantics;
use halcyon_plan::setup::config;
use halcyon_plan::wide;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::stack::{drop_deep, with_new_stack, with_stack};

use crate::pacing::paced;
use crate::pool::pool;

/// Batches that wait for a slow reader.
const BATCHES_AHEAD: usize = 4;

/// How often a running statement looks whether it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(2);

/// A query that runs vectorised over a snapshot.
pub struct AnalyticalPlan {
    df: DataFusion,
    logical: LogicalPlan,
    tables: Vec<Arc<Table>>,
    schema: SchemaRef,
    /// Whether the plan has parameters or functions of the execution, replaced by constants each time.
    bound_late: bool,
    /// Whether the query is FOR UPDATE: it runs under exclusive locks instead of on a snapshot.
    locks_rows: bool,
    physical: Mutex<Option<Arc<Physical>>>,
}

/// A physical plan and what it was made for.
struct Physical {
    plan: Arc<dyn ExecutionPlan>,
    threads: usize,
    row_counts: Vec<u64>,
}

impl AnalyticalPlan {
    /// Prepares an analysed and optimised plan. Nothing is made physical yet.
    pub fn new(logical: LogicalPlan, df: &DataFusion) -> Self {
        let tables = tables_of(&logical);
        let bound_late = is_bound_late(&logical);
        let schema = Arc::clone(logical.schema().inner());
        AnalyticalPlan {
            df: df.clone(),
            logical,
            tables,
            schema,
            bound_late,
            locks_rows: false,
            physical: Mutex::new(None),
        }
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
        let snapshot = Arc::new(Snapshot::new(&self.tables, roots));
        with_new_stack(|| {
            let (plan, config) = under(env.cancel, || self.executable(env, &snapshot))?;
            self.launch(plan, config, env)
        })
    }

    /// The plan as text, for EXPLAIN: the physical plan of the last execution if it was kept.
    pub fn explain(&self) -> Result<String> {
        let kept = self.physical.lock().clone();
        Ok(match kept {
            Some(kept) => displayable(kept.plan.as_ref()).indent(false).to_string(),
            None => self.logical.display_indent().to_string(),
        })
    }

    /// A plan with fresh state, and the configuration that carries `snapshot` to its scans.
    fn executable(
        &self,
        env: &Env<'_>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionConfig)> {
        let threads = env.session.threads.max(1);
        let config = config().with_target_partitions(threads).with_extension(Arc::clone(snapshot));
        let sized = |plan: &LogicalPlan, config: SessionConfig| {
            let rows = wide::batch_rows(plan, config.batch_size());
            config.with_batch_size(rows)
        };
        if self.bound_late {
            let logical = semantics::bind_late(self.logical.clone(), env)?;
            let config = sized(&logical, config);
            return Ok((self.make_physical(&logical, &config)?, config));
        }
        let config = sized(&self.logical, config);
        Ok((self.kept(threads, snapshot, &config)?, config))
    }

    /// The physical plan of an earlier execution if it still fits, else a new one, kept from now on.
    fn kept(
        &self,
        threads: usize,
        snapshot: &Snapshot,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let row_counts: Vec<u64> = snapshot.row_counts().collect();
        let kept = self.physical.lock().clone();
        if let Some(kept) = kept.filter(|kept| kept.fits(threads, &row_counts)) {
            return reset_plan_states(Arc::clone(&kept.plan)).map_err(|e| sql_error(e, ""));
        }
        let plan = self.make_physical(&self.logical, config)?;
        let made = Physical { plan: Arc::clone(&plan), threads, row_counts };
        *self.physical.lock() = Some(Arc::new(made));
        reset_plan_states(plan).map_err(|e| sql_error(e, ""))
    }

    fn make_physical(
        &self,
        logical: &LogicalPlan,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.df.count_planning();
        with_stack(|| {
            let checked = semantics::with_checked_arithmetic(logical.clone())?;
            let checked = intervals::with_keys(like::with_searches(checked)?)?;
            let checked = with_watched_windows(checked)?;
            let mut state = self.df.bare().clone();
            *state.config_mut() = config.clone();
            state.execution_props_mut().config_options = Some(Arc::clone(config.options()));
            let planner = DefaultPhysicalPlanner::default();
            block_on(planner.create_physical_plan(&checked, &state)).and_then(paced)
        })
        .map_err(|error| sql_error(error, ""))
    }

    fn launch(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: SessionConfig,
        env: &Env<'_>,
    ) -> Result<BatchStream> {
        let runtime_env = runtime_env(env).map_err(|error| sql_error(error, ""))?;
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
        let cancel = env.cancel.clone();
        let watched = cancel.clone();
        let measured = Some(Arc::clone(&plan));
        let owner = Work::of(cancel.account());
        let work = async move {
            // The stream is made here: operators may spawn as soon as they are executed.
            match execute_stream(plan, context) {
                Ok(stream) => pump(stream, &sender, &cancel).await,
                Err(error) => {
                    let _ = sender.send(Err(sql_error(error, ""))).await;
                }
            }
        };
        let task = self.df.runtime().spawn(owner.id().working(work));
        let schema = Arc::clone(&self.schema);
        Ok(BatchStream {
            schema,
            receiver,
            task: Some(task),
            plan: measured,
            cancel: watched,
            _work: owner,
        })
    }
}

impl Physical {
    fn fits(&self, threads: usize, row_counts: &[u64]) -> bool {
        let alike = |(a, b): (&u64, &u64)| *a / 4 <= b + 1024 && *b / 4 <= a + 1024;
        self.threads == threads && self.row_counts.iter().zip(row_counts).all(alike)
    }
}

/// Hands batches to the reader until they end, the reader leaves, or the statement is cancelled.
async fn pump(
    mut stream: SendableRecordBatchStream,
    sender: &mpsc::Sender<Result<RecordBatch>>,
    cancel: &CancelToken,
) {
    let mut poll = tokio::time::interval(CANCEL_POLL);
    loop {
        let next = tokio::select! {
            biased;
            next = stream.next() => next,
            _ = poll.tick() => {
                if cancel.is_cancelled() {
                    let _ = sender.send(Err(cancelled())).await;
                    return;
                }
                continue;
            }
        };
        let Some(result) = next else { return };
        let failed = result.is_err();
        let item = result.map_err(|error| sql_error(error, ""));
        if sender.send(item).await.is_err() || failed {
            return;
        }
        if cancel.is_cancelled() {
            let _ = sender.send(Err(cancelled())).await;
            return;
        }
    }
}

fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

fn runtime_env(env: &Env<'_>) -> DfResult<Arc<RuntimeEnv>> {
    let nowhere = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    RuntimeEnvBuilder::new()
        .with_memory_pool(pool(env.session.memory_bytes, env.cancel.account()))
        .with_disk_manager_builder(nowhere)
        .build_arc()
}

/// The result of an analytical plan: a blocking iterator. Dropping it ends the work.
pub struct BatchStream {
    schema: SchemaRef,
    receiver: mpsc::Receiver<Result<RecordBatch>>,
    task: Option<tokio::task::JoinHandle<()>>,
    /// Taken by drop alone.
    plan: Option<Arc<dyn ExecutionPlan>>,
    cancel: CancelToken,
    /// Ends the operators with the stream, wherever they look: a task that is aborted goes on to its next await.
    _work: Work,
}

impl BatchStream {
    /// Columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The physical plan with the measurements of its operators so far, for EXPLAIN ANALYZE.
    pub fn metrics(&self) -> Option<String> {
        let shown = DisplayableExecutionPlan::with_metrics(self.plan.as_deref()?);
        Some(with_stack(|| shown.indent(false).to_string()))
    }

    /// The next batch for callers that must not block their thread.
    pub async fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        match self.receiver.recv().await {
            Some(item) => Some(item),
            None => match self.task.take()?.await {
                Ok(()) => None,
                // An operator's panic ends the statement alone: operators change nothing.
                Err(error) if error.is_panic() => {
                    Some(Err(SqlError::new(SqlState::INTERNAL_ERROR, "an operator panicked")))
                }
                Err(_) => Some(Err(cancelled())),
            },
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch>;

    /// Operators may be busy for long without looking at the token, so the reader watches it too.
    fn next(&mut self) -> Option<Self::Item> {
        let cancel = self.cancel.clone();
        let next = wait_for(self.next_batch(), || cancel.is_cancelled());
        next.unwrap_or_else(|| Some(Err(cancelled())))
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    wait_for(future, || false).expect("never given up")
}

/// Waits for a future on the caller's thread, which may itself stand inside any executor, until
/// the future is done or `given_up` says so.
fn wait_for<F: Future>(future: F, given_up: impl Fn() -> bool) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending if given_up() => return None,
            Poll::Pending => std::thread::park_timeout(CANCEL_POLL),
        }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        if let Some(plan) = self.plan.take() {
            drop_deep(plan);
        }
    }
}

/// Window functions that are aggregates look whether the statement is to end.
fn with_watched_windows(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let watch = |expr: Expr| {
        Ok(match expr {
            Expr::WindowFunction(mut call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    call.fun = WindowFunctionDefinition::AggregateUDF(watched(function));
                    Transformed::yes(Expr::WindowFunction(call))
                }
                WindowFunctionDefinition::WindowUDF(_) => {
                    Transformed::no(Expr::WindowFunction(call))
                }
            },
            other => Transformed::no(other),
        })
    };
    let watched = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(_) => node.map_expressions(|expr| expr.transform_up(watch)),
        node => Ok(Transformed::no(node)),
    });
    watched.data()
}

/// Whether a plan has parameters, functions of the execution, or scans that are not ours.
fn is_bound_late(plan: &LogicalPlan) -> bool {
    let mut late = false;
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && table_of(&scan.source).is_none()
        {
            late = true;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                late |= match expr {
                    Expr::Placeholder(_) => true,
                    Expr::ScalarFunction(call) => execution::belongs_to_execution(call.name()),
                    _ => false,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    late
}
