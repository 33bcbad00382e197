//! What an execution reads: roots of tables, which come with the task context.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_store::Partition;

use crate::sample::Samples;
use halcyon_catalog::Table;

/// The roots that a statement reads, by table.
pub struct Snapshot {
    tables: Vec<(TableId, Vec<triomphe::Arc<Partition>>)>,
    /// Samples of the database's tables.
    pub(crate) samples: Arc<Samples>,
}

impl Snapshot {
    /// Roots of `tables`, in the same order.
    pub fn new(
        tables: &[Arc<Table>],
        roots: Vec<Vec<triomphe::Arc<Partition>>>,
        samples: &Arc<Samples>,
    ) -> Self {
        assert_eq!(tables.len(), roots.len(), "one set of roots per table");
        let tables = tables.iter().map(|table| table.id).zip(roots).collect();
        Snapshot { tables, samples: Arc::clone(samples) }
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
