//! DataFusion as sessions, recovery and stored queries use it.

use halcyon_pgcatalog::SystemCatalogs;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::workers::Workers;

/// DataFusion with the system schemas in the form that the binder of stored queries sees, without
/// an engine.
pub(crate) fn new_datafusion() -> DataFusion {
    datafusion_with(Workers::default())
}

/// The same, with workers of which something is said.
pub(crate) fn datafusion_with(workers: Workers) -> DataFusion {
    DataFusion::new(Box::new(SystemCatalogs::without_engine()), workers)
}
