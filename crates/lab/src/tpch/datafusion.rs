//! DataFusion over its own in-memory tables, with its default configuration.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;

use super::Subject;
use super::compare::Answer;
use super::data::ARROW_TABLES;
use crate::{Failure, Result};

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::Engine(error.to_string())
    }
}

/// A session context with the eight tables.
pub struct DataFusion {
    runtime: Runtime,
    context: SessionContext,
}

impl DataFusion {
    /// Generates the tables at scale factor `sf`; queries use `threads` cores, 0 meaning all.
    pub fn load(sf: f64, threads: usize) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores } else { threads };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        let config = SessionConfig::new().with_target_partitions(threads);
        let context = SessionContext::new_with_config(config);
        for table in &ARROW_TABLES {
            let mut partitions: Vec<Vec<RecordBatch>> = vec![Vec::new(); threads];
            for (number, batch) in table.batches(sf).enumerate() {
                partitions[number % threads].push(batch?);
            }
            let table_data = MemTable::try_new((table.schema)(), partitions)?;
            context.register_table(table.name, Arc::new(table_data))?;
        }
        Ok(DataFusion { runtime, context })
    }
}

impl Subject for DataFusion {
    fn run(&mut self, text: &str) -> Result<Answer> {
        self.runtime.block_on(async {
            let frame = self.context.sql(text).await?;
            let schema = frame.schema().as_arrow().clone().into();
            Ok(Answer { schema, batches: frame.collect().await? })
        })
    }
}
