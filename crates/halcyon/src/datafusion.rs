//! DataFusion as sessions, recovery and stored queries use it.

use halcyon_pgcatalog::SystemCatalogs;
use halcyon_plan::engine::DataFusion;

/// DataFusion with the system schemas in the form that the binder of stored queries sees, without
/// an engine.
pub(crate) fn new_datafusion() -> DataFusion {
    DataFusion::new(Box::new(SystemCatalogs::without_engine()))
}
