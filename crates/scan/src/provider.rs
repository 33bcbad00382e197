//! Tables as DataFusion's planner sees them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraint, Constraints, Result};
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::estimates::Estimates;
use crate::scan::{RUN_SEGMENTS, ScanExec};
use crate::snapshot::Snapshot;
use halcyon_catalog::{IndexConstraint, Table};

/// Name of the hidden column: partition number in the upper 32 bits, row id in the lower.
pub const ROW_ID: &str = "_rowid";

/// The name of the same column where its rows are only read, as `ctid`.
const PLACE: &str = "_place";

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
#[derive(Clone)]
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
        let stored: Vec<usize> =
            projection.iter().copied().filter(|&at| at < self.table.columns.len()).collect();
        let sampled = snapshot.as_deref().zip(roots).map(|(snapshot, roots)| {
            let samples = &snapshot.samples;
            samples.of(&self.table, roots, &stored)
        });
        let roots = roots.unwrap_or_default();
        let estimates =
            Estimates::new(&self.table, roots, &projection, &schema, sampled.transpose()?);
        let segments: usize = roots.iter().map(|root| root.segment_count()).sum();
        let threads = state.config().target_partitions();
        let partitions = segments.div_ceil(RUN_SEGMENTS).clamp(1, threads.max(1));
        let table = Arc::clone(&self.table);
        Ok(Arc::new(ScanExec::new(table, projection, schema, estimates, partitions)))
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

/// The table behind a planner's source, if the source is a table of ours and tells of a key.
pub(crate) fn key_told_by(source: &Arc<dyn TableSource>) -> Option<HalcyonTable> {
    let source = source.downcast_ref::<DefaultTableSource>()?;
    let provider: &dyn std::any::Any = source.table_provider.as_ref();
    let table = provider.downcast_ref::<HalcyonTable>()?;
    table.constraints.iter().next().is_some().then(|| table.clone())
}

/// The catalog's table behind a planner's source, if the source is a table of ours.
pub fn table_of(source: &Arc<dyn TableSource>) -> Option<&Arc<Table>> {
    let source = source.downcast_ref::<DefaultTableSource>()?;
    let provider: &dyn std::any::Any = source.table_provider.as_ref();
    provider.downcast_ref::<HalcyonTable>().map(HalcyonTable::table)
}
