//! DataFusion over its own in-memory tables, with its default configuration: the engine beside which analytical queries
//! are checked and timed.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::kernels::numeric::rem;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;

use crate::answers::Answer;
use crate::{Failure, Result};

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::Engine(error.to_string())
    }
}

/// A session context with tables.
pub struct DataFusion {
    runtime: Runtime,
    context: SessionContext,
    threads: usize,
}

impl DataFusion {
    /// An engine without tables, whose queries use `threads` cores, 0 meaning all.
    pub fn new(threads: usize) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores } else { threads };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        let config = SessionConfig::new().with_target_partitions(threads);
        let context = SessionContext::new_with_config(config);
        // DataFusion has the operator `%` alone.
        context.register_udf(create_udf(
            "mod",
            vec![DataType::Int64, DataType::Int64],
            DataType::Int64,
            Volatility::Immutable,
            Arc::new(|arguments: &[ColumnarValue]| {
                let arrays = ColumnarValue::values_to_arrays(arguments)?;
                Ok(ColumnarValue::Array(rem(&arrays[0], &arrays[1])?))
            }),
        ));
        Ok(DataFusion { runtime, context, threads })
    }

    /// Adds a table, whose batches are dealt out to as many partitions as there are threads.
    pub fn add(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<()> {
        let mut partitions: Vec<Vec<RecordBatch>> = vec![Vec::new(); self.threads];
        for (number, batch) in batches.enumerate() {
            partitions[number % self.threads].push(batch?);
        }
        let table = MemTable::try_new(schema, partitions)?;
        self.context.register_table(name, Arc::new(table))?;
        Ok(())
    }

    /// The answer to a query.
    pub fn run(&self, text: &str) -> Result<Answer> {
        self.runtime.block_on(async {
            let frame = self.context.sql(text).await?;
            let schema = frame.schema().as_arrow().clone().into();
            Ok(Answer { schema, batches: frame.collect().await? })
        })
    }
}
