//! Numbers that name objects and partitions for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use halcyon_base::ids::PartitionId;
use halcyon_txn::Log;

/// Object ids below are PostgreSQL's own.
const FIRST_OID: u32 = 16_384;

/// Numbers that are handed out once, whatever becomes of the transaction that asked.
pub struct Ids {
    /// Next object id (tables, indexes, sequences, schemas, roles share the range).
    next_oid: AtomicU32,
    /// Next global partition id. 0 is the lock of the catalog itself.
    next_partition: AtomicU32,
    /// Where positions of sequences are written down; nowhere in a database in memory.
    pub(crate) log: Option<Arc<Log>>,
}

impl Default for Ids {
    fn default() -> Self {
        Ids::starting(FIRST_OID, 1, None)
    }
}

impl Ids {
    /// Ids from these on.
    pub(crate) fn starting(oid: u32, partition: u32, log: Option<Arc<Log>>) -> Self {
        Ids { next_oid: AtomicU32::new(oid), next_partition: AtomicU32::new(partition), log }
    }

    /// The object and the partition id that would be next.
    pub(crate) fn next(&self) -> (u32, u32) {
        let load = |next: &AtomicU32| next.load(Ordering::Relaxed);
        (load(&self.next_oid), load(&self.next_partition))
    }

    /// Whether positions of sequences are written down: the database outlives its process.
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// An object id.
    pub fn oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// A partition id.
    pub fn partition(&self) -> PartitionId {
        PartitionId(self.next_partition.fetch_add(1, Ordering::Relaxed))
    }
}

macro_rules! stored_id {
    ($module:ident, $id:ident) => {
        /// The number of an id, for ids do not know how they are stored.
        pub(crate) mod $module {
            use halcyon_base::ids::$id;
            use serde::{Deserialize, Deserializer, Serializer};

            pub(crate) fn serialize<S: Serializer>(id: &$id, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_u32(id.0)
            }

            pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<$id, D::Error> {
                u32::deserialize(from).map($id)
            }
        }
    };
}

stored_id!(index_id, IndexId);
stored_id!(table_id, TableId);
