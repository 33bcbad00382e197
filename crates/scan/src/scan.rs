//! The scan: reads the segments of a table's roots, and gives the rows for which its conditions are true.
//!
//! A scan knows its table, not its rows: roots come with the task context ([`Snapshot`]), so that one physical plan
//! runs over any number of snapshots. Segments become Arrow batches without copying unless conditions drop some of
//! their rows; rows of several segments are then put together. Outputs share a cursor over runs of segments.
//!
//! Statistics are those of the snapshot that the plan was made for, with conditions tried on a sample
//! ([`crate::sample`]). They are declared inexact, because a plan may outlive that snapshot: DataFusion would answer
//! `count(*)` from an exact count.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use halcyon_base::ids::TableId;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_store::{Partition, SegmentRef};
use halcyon_task::poll_proceed;

use crate::conditions::{Condition, Found, Rows};
use crate::estimates::Estimates;
use crate::snapshot::Snapshot;
use crate::typed::typed;
use crate::wide;
use halcyon_catalog::Table;

/// Number of consecutive segments given to one output at a time.
pub(crate) const RUN_SEGMENTS: usize = 4;

/// Bytes of a batch up to which its rows are put together with others.
const GATHERED_BYTES_MAX: u64 = 1 << 20;

/// Reads the roots of one table.
#[derive(Clone)]
pub struct ScanExec {
    table: Arc<Table>,
    /// Columns of the table that are read; the table's number of columns stands for the rows' numbers.
    read: Vec<usize>,
    read_schema: SchemaRef,
    /// Over `read_schema`.
    conditions: Arc<[Condition]>,
    /// What the execution finds out, over `read_schema`. None when an execution begins.
    found: Vec<Arc<DynamicFilterPhysicalExpr>>,
    /// Whether the last segments are read first: what grows with time is greatest there.
    last_first: bool,
    /// Places in `read` of the columns that are given.
    given: Vec<usize>,
    schema: SchemaRef,
    /// Rows that are wanted of each output.
    fetch: Option<usize>,
    estimates: Arc<Estimates>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    /// The next run of segments that no output has taken: outputs that are quick read more.
    cursor: Arc<AtomicUsize>,
    metrics: ExecutionPlanMetricsSet,
}

fn properties(schema: &SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl ScanExec {
    /// A scan of all rows of `read`, columns of `table`, whose fields are those of `schema`.
    pub(crate) fn new(
        table: Arc<Table>,
        read: Vec<usize>,
        schema: SchemaRef,
        estimates: Estimates,
        partitions: usize,
    ) -> Self {
        ScanExec {
            table,
            given: (0..read.len()).collect(),
            read,
            read_schema: Arc::clone(&schema),
            conditions: Arc::new([]),
            found: Vec::new(),
            last_first: false,
            fetch: None,
            statistics: Arc::new(estimates.of_all()),
            estimates: Arc::new(estimates),
            properties: properties(&schema, partitions),
            schema,
            cursor: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The scan with `predicate`, which is over its output, as a further condition; `None` if that is not possible.
    ///
    /// Errors: an expression over other columns.
    pub fn keeping(&self, predicate: &Arc<dyn PhysicalExpr>) -> Result<Option<Self>> {
        if self.fetch.is_some() || !self.found.is_empty() {
            return Ok(None);
        }
        let below = self.over_read(predicate)?;
        let mut conditions = self.conditions.to_vec();
        conditions.extend(Condition::all_of(&below, &self.read_schema)?);
        let mut kept = self.clone();
        kept.conditions = conditions.into();
        kept.estimate();
        Ok(Some(kept))
    }

    /// An expression over the output as one over the columns that are read.
    fn over_read(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let moved = Arc::clone(expr).transform(|part| {
            let Some(column) = part.downcast_ref::<Column>() else {
                return Ok(Transformed::no(part));
            };
            let Some(&place) = self.given.get(column.index()) else {
                return internal_err!("a scan gives no column {column}");
            };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as _))
        });
        moved.data()
    }

    /// The scan with fewer columns, or the same in another order: places among those of its output.
    pub fn giving(&self, columns: &[usize]) -> Result<Self> {
        let mut narrow = self.clone();
        narrow.given = columns.iter().map(|&column| self.given[column]).collect();
        narrow.schema = Arc::new(self.read_schema.project(&narrow.given)?);
        narrow.properties =
            properties(&narrow.schema, self.properties.partitioning.partition_count());
        narrow.estimate();
        Ok(narrow)
    }

    /// The scan, which leaves out the rows that its execution finds to be of no use; `columns`: those of its output
    /// that `found` is over, in their order.
    pub fn finding(
        &self,
        found: &Arc<DynamicFilterPhysicalExpr>,
        columns: &[usize],
    ) -> Result<Self> {
        let column = |&column: &usize| {
            let place = self.given[column];
            Arc::new(Column::new(self.read_schema.field(place).name(), place)) as _
        };
        let below = Arc::clone(found).with_new_children(columns.iter().map(column).collect())?;
        let below: Arc<dyn Any + Send + Sync> = below;
        let Ok(below) = Arc::downcast::<DynamicFilterPhysicalExpr>(below) else {
            return internal_err!("a dynamic filter over other columns is none");
        };
        let mut scan = self.clone();
        scan.found.push(below);
        Ok(scan)
    }

    /// The scan, which reads the last segments first.
    pub fn last_first(&self) -> Self {
        ScanExec { last_first: true, ..self.clone() }
    }

    /// Whether rows are left out that other operators find to be of no use.
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    fn estimate(&mut self) {
        self.statistics = Arc::new(self.estimates.of(&self.conditions, &self.given));
    }

    /// The same scan, of which nothing was read and nothing found.
    fn anew(&self) -> Arc<dyn ExecutionPlan> {
        Arc::new(ScanExec {
            cursor: Arc::default(),
            found: Vec::new(),
            last_first: false,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ScanExec: table={}, columns=[{}]", self.table.name, columns.join(", "))?;
        let mut conditions = self.conditions.iter().map(Condition::expr);
        if let Some(first) = conditions.next() {
            write!(f, ", filter={first}")?;
        }
        conditions.try_for_each(|condition| write!(f, " AND {condition}"))?;
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.has_found() {
            write!(f, ", found={}", self.found.len())?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut go_on = TreeNodeRecursion::Continue;
        for condition in self.conditions.iter() {
            go_on = go_on.visit_sibling(|| visit(condition.expr()))?;
        }
        for found in &self.found {
            let found: Arc<dyn PhysicalExpr> = Arc::clone(found) as _;
            go_on = go_on.visit_sibling(|| visit(&found))?;
        }
        Ok(go_on)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.anew())
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(ScanExec { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// A projection to columns alone is the scan's own.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut columns = Vec::with_capacity(projection.expr().len());
        for given in projection.expr() {
            match given.expr.downcast_ref::<Column>() {
                Some(column) if column.name() == given.alias => columns.push(column.index()),
                _ => return Ok(None),
            }
        }
        Ok(Some(Arc::new(self.giving(&columns)?)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(snapshot) = context.session_config().get_extension::<Snapshot>() else {
            return internal_err!("no snapshot came with the task");
        };
        let Some(roots) = snapshot.roots(self.table.id) else {
            return internal_err!("the snapshot lacks table {}", self.table.name);
        };
        let of = |(partition, root): (usize, &triomphe::Arc<Partition>)| {
            (0..root.segment_count() as u32).map(move |segment| (partition as u32, segment))
        };
        let mut segments: Vec<(u32, u32)> = roots.iter().enumerate().flat_map(of).collect();
        if self.last_first {
            segments.reverse();
        }
        let rows_max = context.session_config().batch_size();
        // Rows without columns are counted alone: there is nothing to put together.
        let gathers =
            !self.given.is_empty() && (!self.conditions.is_empty() || !self.found.is_empty());
        let mut batches = Batches {
            snapshot,
            table: self.table.id,
            columns: self.table.columns.len(),
            read: self.read.clone(),
            read_schema: Arc::clone(&self.read_schema),
            conditions: Arc::clone(&self.conditions),
            found: self.found.iter().map(|found| Found::new(Arc::clone(found))).collect(),
            given: self.given.clone(),
            schema: Arc::clone(&self.schema),
            left: self.fetch.unwrap_or(usize::MAX),
            cursor: Arc::clone(&self.cursor),
            run: 0..0,
            segments,
            rows_max,
            gathering: gathers.then(|| {
                let gathering = BatchCoalescer::new(Arc::clone(&self.schema), rows_max);
                gathering.with_biggest_coalesce_batch_size(Some(rows_max / 2))
            }),
            passed_by: MetricBuilder::new(&self.metrics).counter("segments_passed_by", partition),
            pieces: VecDeque::new(),
        };
        let measured = BaselineMetrics::new(&self.metrics, partition);
        let stream = futures::stream::poll_fn(move |polled| {
            loop {
                ready!(poll_proceed(polled));
                let time = measured.elapsed_compute().timer();
                let step = batches.step();
                time.done();
                return Poll::Ready(match step {
                    Step::Batch(batch) => {
                        measured.record_output(batch.num_rows());
                        Some(Ok(batch))
                    }
                    Step::Nothing => continue,
                    Step::Failed(error) => Some(Err(error)),
                    Step::Ended => None,
                });
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.statistics)),
            Some(_) => {
                let share = self.properties.partitioning.partition_count().max(1);
                let mut part = self.statistics.as_ref().clone();
                part.num_rows = part.num_rows.map(|rows| rows / share);
                part.total_byte_size = part.total_byte_size.map(|bytes| bytes / share);
                Ok(Arc::new(part))
            }
        }
    }
}

/// The batches of one output of a scan: of the runs of segments that it takes, one after the other.
struct Batches {
    snapshot: Arc<Snapshot>,
    table: TableId,
    columns: usize,
    read: Vec<usize>,
    read_schema: SchemaRef,
    conditions: Arc<[Condition]>,
    found: Vec<Found>,
    given: Vec<usize>,
    schema: SchemaRef,
    /// Rows that are still wanted.
    left: usize,
    /// The next run of segments that no output has taken.
    cursor: Arc<AtomicUsize>,
    /// Partition and number of each segment, in the order in which they are read.
    segments: Vec<(u32, u32)>,
    /// What is left of the run that this output has taken last: places in `segments`.
    run: Range<usize>,
    /// Rows that a batch may have.
    rows_max: usize,
    /// Rows that conditions have kept, of several segments; `None` if segments are given as they are.
    gathering: Option<BatchCoalescer>,
    /// Segments of which no row was looked at.
    passed_by: Count,
    /// Batches to be given, in pieces if their texts are long.
    pieces: VecDeque<RecordBatch>,
}

/// What a look at one segment, or none, has come to.
enum Step {
    Batch(RecordBatch),
    Nothing,
    Failed(DataFusionError),
    Ended,
}

impl Batches {
    fn step(&mut self) -> Step {
        if let Err(refused) = SqlError::unless_interrupted() {
            return Step::Failed(external(refused));
        }
        if let Some(piece) = self.pieces.pop_front() {
            return Step::Batch(piece);
        }
        if self.left == 0 {
            return self.end();
        }
        match self.next_segment() {
            Ok(true) => {}
            Ok(false) => return self.end(),
            Err(error) => return Step::Failed(error),
        }
        self.take_completed();
        self.pieces.pop_front().map_or(Step::Nothing, Step::Batch)
    }

    /// Gives what is gathered, then nothing more.
    fn end(&mut self) -> Step {
        if let Some(gathering) = &mut self.gathering
            && let Err(error) = gathering.finish_buffered_batch()
        {
            return Step::Failed(error.into());
        }
        self.take_completed();
        self.gathering = None;
        self.pieces.pop_front().map_or(Step::Ended, Step::Batch)
    }

    /// Batches that are complete become pieces.
    fn take_completed(&mut self) {
        let Some(gathering) = &mut self.gathering else { return };
        while let Some(batch) = gathering.next_completed_batch() {
            wide::put(batch, self.rows_max, &mut self.pieces);
        }
    }

    /// Reads the next segment of the output's runs; false if there is none.
    fn next_segment(&mut self) -> Result<bool> {
        let snapshot = Arc::clone(&self.snapshot);
        let roots = snapshot.roots(self.table).unwrap_or_default();
        loop {
            let Some(next) = self.run.next() else {
                let first = self.cursor.fetch_add(1, Ordering::Relaxed) * RUN_SEGMENTS;
                if first >= self.segments.len() {
                    return Ok(false);
                }
                self.run = first..self.segments.len().min(first + RUN_SEGMENTS);
                continue;
            };
            let (partition, segment) = self.segments[next];
            let segment = roots[partition as usize].segment(segment as usize);
            if let Some(segment) = segment.filter(|segment| segment.row_count() > 0) {
                return self.read(segment, partition as usize).map(|()| true);
            }
        }
    }

    /// Gives, or gathers, the rows of a segment that conditions keep.
    fn read(&mut self, segment: SegmentRef<'_>, partition: usize) -> Result<()> {
        let place = Place { partition, columns: self.columns };
        let (read, schema) = (&self.read, &self.read_schema);
        let mut one = |column: usize| place.column(segment, read[column], schema, column);
        let zone = |column: usize| place.zone(segment, read[column]);
        let mut rows = Rows::new(segment.row_count(), read.len(), &mut one).within(&zone);
        rows.keep_all(&self.conditions, &mut self.found, schema)?;
        let count = rows.left().min(self.left);
        if count == 0 {
            self.passed_by.add(usize::from(!rows.has_read()));
            return Ok(());
        }
        let all = rows.left();
        let batch = |columns: Vec<ArrayRef>, rows: usize| {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
        };
        // Rows that are masked are copied once, to where they are gathered.
        if let Some(gathering) = &mut self.gathering
            && count == all
            && let Some((whole, mask)) = rows.masked(&self.given)?
            && whole.iter().map(wide::total).sum::<u64>() <= GATHERED_BYTES_MAX
        {
            self.left -= count;
            return Ok(gathering.push_batch_with_filter(batch(whole, mask.len())?, &mask)?);
        }
        let batch = batch(rows.columns(&self.given)?, all)?;
        let batch = if count < all { batch.slice(0, count) } else { batch };
        self.left -= count;
        // Long texts are not copied together.
        let bytes: u64 = batch.columns().iter().map(wide::total).sum();
        match &mut self.gathering {
            Some(gathering) if bytes <= GATHERED_BYTES_MAX => gathering.push_batch(batch)?,
            Some(gathering) => {
                gathering.finish_buffered_batch()?;
                self.take_completed();
                wide::put(batch, self.rows_max, &mut self.pieces);
            }
            None => wide::put(batch, self.rows_max, &mut self.pieces),
        }
        Ok(())
    }
}

/// Where a segment lies.
#[derive(Clone, Copy)]
struct Place {
    partition: usize,
    /// Columns of the table.
    columns: usize,
}

impl Place {
    /// The zone of a column of a segment, and whether the column may have NULLs.
    fn zone(self, segment: SegmentRef<'_>, column: usize) -> Option<((i64, i64), bool)> {
        let stored = (column < self.columns).then_some(column)?;
        segment.zone(stored).map(|zone| (zone, segment.may_have_nulls(stored)))
    }

    /// A column of a segment, as an expression sees it; `place`: its field's in `schema`.
    fn column(
        self,
        segment: SegmentRef<'_>,
        column: usize,
        schema: &Schema,
        place: usize,
    ) -> Result<ArrayRef> {
        if column == self.columns {
            let partition = (self.partition as i64) << 32;
            let ids = segment.row_ids();
            let ids = ids.values().iter().map(|row| partition | i64::from(*row));
            return Ok(Arc::new(Int64Array::from_iter_values(ids)));
        }
        let values = segment.batch(&[column]).columns.remove(0);
        typed(values, schema.field(place).data_type())
    }
}
