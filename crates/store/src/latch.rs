//! The reader-writer latch that engines with concurrency control in their storage put around every
//! access: only for measuring what it costs (P1 §3 and §5).
//!
//! The feature `latches`, which the lab asks for, decides which of two twins is compiled: `present`,
//! where each partition either has latches or not, and `absent`, a type without size or code, which
//! is what the binary `halcyon` has.
//!
//! A latch guards nothing here: who may read and write is decided by the guards of `txn`, and a
//! partition stays a value. Clones of a partition share its latches, as its users would in those
//! engines. Cost of `present`: off, a look at a reference that is in the line of the index anyway;
//! on, two atomic operations per access, on a line that all its readers write.

#[cfg(not(feature = "latches"))]
mod absent;
#[cfg(feature = "latches")]
mod present;

#[cfg(not(feature = "latches"))]
pub(crate) use absent::Latch;
#[cfg(feature = "latches")]
pub(crate) use present::Latch;

#[cfg(all(test, feature = "latches"))]
mod tests {
    use crate::index::IndexDef;
    use crate::value::{ColumnDef, Schema, Type};
    use crate::{Direction, KeyBuf, KeyColumn, Partition, ValueRef};
    use halcyon_base::IndexId;
    use std::ops::Bound;

    #[test]
    fn a_latched_partition_gives_the_same_answers_and_waits_for_its_latches() {
        let column = ColumnDef { ty: Type::Int32, nullable: false };
        let mut root = Partition::new(Schema::new(vec![column])).latched(true);
        let key = KeyColumn { column: 0, descending: false, nulls_first: false };
        let id = IndexId(1);
        let def = IndexDef {
            id,
            columns: vec![key],
            derivation: None,
            unique: true,
            nulls_distinct: true,
        };
        root.add_index(def).unwrap();
        for number in 0..5_000 {
            root.insert(&[ValueRef::Int32(number)]).unwrap();
        }
        let index = root.index(id).unwrap();
        let mut key = KeyBuf::new();
        index.encode(&[ValueRef::Int32(77)], &mut key);
        let row = index.get(&key).unwrap();
        assert_eq!(root.row(row).unwrap().value(0), ValueRef::Int32(77));
        let all = index.range(Bound::Unbounded, Bound::Unbounded, Direction::Backward);
        assert_eq!(all.count(), 5_000);
        root.update(row, &[0], &[ValueRef::Int32(-1)]).unwrap();
        assert!(root.delete(row));
        root.check();
        assert!(root.clone().latches().all(|latch| latch.is_on()));
        // A reader of a clone waits for the thread that holds the latch of the original.
        let clone = root.clone();
        let held = root.latches().map(|latch| latch.write().unwrap()).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| clone.index(id).unwrap().get(&key).is_none());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!reader.is_finished());
            drop(held);
            assert!(reader.join().unwrap());
        });
    }
}
