//! Tables as DataFusion sees them: a source for planning, a scan over roots for execution.
//!
//! A scan knows its table, not its rows. The roots that it reads come with the task context
//! ([`Snapshot`]), so that one physical plan runs over any number of snapshots. Segments become
//! Arrow batches without copying; a scan partition takes every n-th run of segments.
//!
//! Statistics (`crate::estimates`) are those of the snapshot for which the plan was made. They are
//! declared inexact, because a plan may outlive that snapshot: DataFusion would answer `count(*)`
//! from an exact count.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampSecondType,
};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraint, Constraints, Result, Statistics, internal_err};
use datafusion::datasource::DefaultTableSource;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use halcyon_base::ids::TableId;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{addresses, lists, sql_type_of_arrow};
use halcyon_store::Partition;
use halcyon_task::poll_proceed;

use crate::estimates;
use crate::interrupts;
use crate::wide;
use halcyon_catalog::{IndexConstraint, Table};

/// Name of the hidden column: partition number in the upper 32 bits, row id in the lower.
pub const ROW_ID: &str = "_rowid";

/// The name of the same column where its rows are only read, as `ctid`.
const PLACE: &str = "_place";

/// Number of consecutive segments given to one scan partition.
const RUN_SEGMENTS: usize = 4;

/// The roots that a statement reads, by table.
pub struct Snapshot {
    tables: Vec<(TableId, Vec<triomphe::Arc<Partition>>)>,
}

impl Snapshot {
    /// Roots of `tables`, in the same order.
    pub fn new(tables: &[Arc<Table>], roots: Vec<Vec<triomphe::Arc<Partition>>>) -> Self {
        assert_eq!(tables.len(), roots.len(), "one set of roots per table");
        Snapshot { tables: tables.iter().map(|table| table.id).zip(roots).collect() }
    }

    /// Roots of a table, by partition number.
    pub fn roots(&self, table: TableId) -> Option<&[triomphe::Arc<Partition>]> {
        self.tables.iter().find(|(id, _)| *id == table).map(|(_, roots)| roots.as_slice())
    }

    /// Rows of each table, in the order of the plan's tables.
    pub fn row_counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.tables.iter().map(|(_, roots)| roots.iter().map(|root| root.row_count()).sum())
    }
}

/// Whether a table's scan gives the numbers of rows, and what for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowIds {
    /// No numbers.
    None,
    /// The rows are to be changed.
    OfTarget,
    /// The rows are only read.
    Read,
}

/// Whether a scan with this source is of the rows that a statement changes.
pub fn is_target(source: &Schema) -> bool {
    source.fields().last().is_some_and(|field| field.name() == ROW_ID)
}

/// A table as DataFusion's planner sees it.
pub struct HalcyonTable {
    table: Arc<Table>,
    schema: SchemaRef,
    constraints: Constraints,
}

impl HalcyonTable {
    /// The table without its key: for queries that make several rows of one, after which the key
    /// tells rows apart no longer, though DataFusion takes for granted that the key does.
    pub fn without_key(mut self) -> Self {
        self.constraints = Constraints::default();
        self
    }

    /// The table; [`RowIds`] says under what name the numbers of rows stand behind its columns.
    pub fn new(table: Arc<Table>, row_ids: RowIds) -> Self {
        let name = match row_ids {
            RowIds::None => None,
            RowIds::OfTarget => Some(ROW_ID),
            RowIds::Read => Some(PLACE),
        };
        let schema = match name {
            Some(name) => {
                let mut fields: Vec<FieldRef> = table.arrow.fields().iter().cloned().collect();
                fields.push(Arc::new(Field::new(name, DataType::Int64, false)));
                Arc::new(Schema::new(fields))
            }
            None => Arc::clone(&table.arrow),
        };
        let keys = table
            .indexes
            .iter()
            .filter(|index| index.constraint == Some(IndexConstraint::PrimaryKey))
            .map(|index| {
                Constraint::PrimaryKey(index.columns.iter().map(|c| c.column as usize).collect())
            });
        let constraints = Constraints::new_unverified(keys.collect());
        HalcyonTable { table, schema, constraints }
    }

    /// The catalog's table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl fmt::Debug for HalcyonTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HalcyonTable({}.{})", self.table.schema, self.table.name)
    }
}

#[async_trait]
impl TableProvider for HalcyonTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&projection)?);
        let snapshot = state.config().get_extension::<Snapshot>();
        let roots = snapshot.as_deref().and_then(|snapshot| snapshot.roots(self.table.id));
        let statistics = estimates::statistics(
            &self.table,
            roots.unwrap_or_default(),
            &projection,
            schema.fields(),
        );
        let segments: usize =
            roots.unwrap_or_default().iter().map(|root| root.segment_count()).sum();
        let threads = state.config().target_partitions();
        let partitions = segments.div_ceil(RUN_SEGMENTS).clamp(1, threads.max(1));
        Ok(Arc::new(ScanExec::new(
            Arc::clone(&self.table),
            projection,
            schema,
            Arc::new(statistics),
            partitions,
        )))
    }
}

/// A scan: reads the roots of one table.
#[derive(Clone)]
pub struct ScanExec {
    table: Arc<Table>,
    /// Columns of the table; the table's number of columns stands for [`ROW_ID`].
    projection: Vec<usize>,
    schema: SchemaRef,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    /// The next run of segments that no output has taken: outputs that are quick read more.
    cursor: Arc<AtomicUsize>,
}

impl ScanExec {
    fn new(
        table: Arc<Table>,
        projection: Vec<usize>,
        schema: SchemaRef,
        statistics: Arc<Statistics>,
        partitions: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, cursor) = (Arc::new(properties), Arc::default());
        ScanExec { table, projection, schema, statistics, properties, cursor }
    }

    /// The same scan, of which nothing was read.
    fn anew(&self) -> Arc<dyn ExecutionPlan> {
        Arc::new(ScanExec { cursor: Arc::default(), ..self.clone() })
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
        write!(f, "ScanExec: table={}, columns=[{}]", self.table.name, columns.join(", "))
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.anew())
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.anew())
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(snapshot) = context.session_config().get_extension::<Snapshot>() else {
            return internal_err!("no snapshot came with the task");
        };
        if snapshot.roots(self.table.id).is_none() {
            return internal_err!("the snapshot lacks table {}", self.table.name);
        }
        let mut batches = Batches {
            snapshot,
            table: self.table.id,
            columns: self.table.columns.len(),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            cursor: Arc::clone(&self.cursor),
            run: None,
            partition: 0,
            segment: 0,
            turn: 0,
            rows_max: context.session_config().batch_size(),
            pieces: VecDeque::new(),
        };
        let stream = futures::stream::poll_fn(move |polled| {
            ready!(poll_proceed(polled));
            Poll::Ready(batches.next())
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream)))
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
    projection: Vec<usize>,
    schema: SchemaRef,
    /// The next run of segments that no output has taken.
    cursor: Arc<AtomicUsize>,
    /// The run that this output has taken last.
    run: Option<usize>,
    partition: usize,
    segment: usize,
    /// Segments passed, over all partitions; tells to which run the next one belongs.
    turn: usize,
    /// Rows that a batch may have.
    rows_max: usize,
    /// Pieces of the last batch, if its texts are long.
    pieces: VecDeque<RecordBatch>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(refused) = interrupts::go_on() {
            return Some(Err(refused));
        }
        if let Some(piece) = self.pieces.pop_front() {
            return Some(Ok(piece));
        }
        let snapshot = Arc::clone(&self.snapshot);
        let roots = snapshot.roots(self.table)?;
        loop {
            let root = roots.get(self.partition)?;
            if self.segment >= root.segment_count() {
                self.partition += 1;
                self.segment = 0;
                continue;
            }
            let (segment, turn) = (self.segment, self.turn);
            self.segment += 1;
            self.turn += 1;
            if self.run.is_none_or(|run| run < turn / RUN_SEGMENTS) {
                self.run = Some(self.cursor.fetch_add(1, Ordering::Relaxed));
            }
            if self.run != Some(turn / RUN_SEGMENTS) {
                continue;
            }
            match self.batch(root, segment) {
                Some(Ok(batch)) => wide::put(batch, self.rows_max, &mut self.pieces),
                Some(Err(error)) => return Some(Err(error)),
                None => continue,
            }
            if let Some(piece) = self.pieces.pop_front() {
                return Some(Ok(piece));
            }
        }
    }
}

impl Batches {
    /// One segment; `None` if it holds no row.
    fn batch(&self, root: &Partition, segment: usize) -> Option<Result<RecordBatch>> {
        let segment = root.segment(segment)?;
        let rows = RecordBatchOptions::new().with_row_count(Some(segment.row_count()));
        let columns = match self.projection.iter().position(|column| *column == self.columns) {
            None => segment.batch(&self.projection).columns,
            Some(at) => {
                let mut stored = self.projection.clone();
                stored.remove(at);
                let mut columns = segment.batch(&stored).columns;
                let partition = (self.partition as i64) << 32;
                let ids = segment.row_ids();
                let ids = ids.values().iter().map(|row| partition | i64::from(*row));
                columns.insert(at, Arc::new(Int64Array::from_iter_values(ids)));
                columns
            }
        };
        let schema = Arc::clone(&self.schema);
        // Documents and arrays lie in segments as texts and bytes do, labels as integers.
        let typed =
            columns.into_iter().zip(schema.fields()).map(
                |(column, field)| match sql_type_of_arrow(field.data_type()) {
                    _ if column.data_type() == field.data_type() => Ok(column),
                    Some(SqlType::Array(element)) => {
                        Ok(Arc::new(lists(column.as_binary_view().iter(), element)) as ArrayRef)
                    }
                    Some(ty) if ty.is_address() => Ok(addresses(column.as_binary_view(), ty)),
                    Some(SqlType::Enum(_)) => {
                        let positions = column.as_primitive::<Int64Type>();
                        let labels = positions.reinterpret_cast::<TimestampSecondType>();
                        Ok(Arc::new(labels.with_data_type(field.data_type().clone())) as ArrayRef)
                    }
                    _ => arrow::compute::cast(&column, field.data_type()),
                },
            );
        let columns = match typed.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(columns) => columns,
            Err(error) => return Some(Err(error.into())),
        };
        Some(RecordBatch::try_new_with_options(schema, columns, &rows).map_err(Into::into))
    }
}

/// A view: its plan, which replaces its name.
pub struct ViewSource {
    schema: SchemaRef,
    plan: LogicalPlan,
}

impl ViewSource {
    /// A view whose columns are those of `plan`.
    pub fn new(plan: LogicalPlan) -> Self {
        ViewSource { schema: Arc::clone(plan.schema().inner()), plan }
    }
}

impl TableSource for ViewSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

/// Tables that a plan scans, subqueries included, each once.
pub fn tables_of(plan: &LogicalPlan) -> Vec<Arc<Table>> {
    let mut tables: Vec<Arc<Table>> = Vec::new();
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = table_of(&scan.source)
            && !tables.iter().any(|known| known.id == table.id)
        {
            tables.push(Arc::clone(table));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    tables
}

/// Whether a source is a table of the system schemas, whose rows are made when the statement runs.
pub fn is_system_table(source: &Arc<dyn TableSource>) -> bool {
    let source = source.downcast_ref::<DefaultTableSource>();
    source.is_some_and(|source| {
        let provider: &dyn std::any::Any = source.table_provider.as_ref();
        provider.is::<StreamingTable>()
    })
}

/// The catalog's table behind a planner's source, if the source is a table of ours.
pub fn table_of(source: &Arc<dyn TableSource>) -> Option<&Arc<Table>> {
    let source = source.downcast_ref::<DefaultTableSource>()?;
    let provider: &dyn std::any::Any = source.table_provider.as_ref();
    provider.downcast_ref::<HalcyonTable>().map(HalcyonTable::table)
}
