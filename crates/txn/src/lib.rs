//! Transactions over partitions: locks, undo, and snapshots that block nobody.
//!
//! A transaction locks the partitions that it touches, shared or exclusive, and keeps the locks to
//! its end. Storage therefore needs no concurrency control of its own (P1 §4: "table locks already
//! exclude every conflict"): [`Transaction::read`] gives `&Partition` under either lock, and every
//! change goes through `&mut Partition` under an exclusive one. Readers that are not part of a
//! transaction take a [`cut()`]: the roots of several partitions as of one moment.
//!
//! ```
//! use halcyon_base::{PartitionId, SessionId, sync::Arc};
//! use halcyon_store::{ColumnDef, Partition, Schema, Type, ValueRef};
//! use halcyon_txn::{CancelToken, Isolation, Manager, Mode, PartitionCell, WaitLimits, cut};
//!
//! let schema = Schema::new(vec![ColumnDef { ty: Type::Int64, nullable: false }]);
//! let cell = Arc::new(PartitionCell::new(PartitionId(1), Partition::new(schema)));
//! let manager = Manager::new();
//! let cancel = CancelToken::new();
//! let limits = WaitLimits { timeout: None, cancel: &cancel };
//!
//! let mut transaction = manager.begin(Isolation::Serializable, SessionId(1));
//! transaction.begin_statement();
//! let lock = transaction.lock(&cell, Mode::Exclusive, &limits).unwrap();
//! transaction.insert(lock, &[ValueRef::Int64(7)]).unwrap();
//! transaction.end_statement();
//! let before = cut(&manager, &[Arc::clone(&cell)], &limits).unwrap();
//! transaction.commit();
//! let after = cut(&manager, &[Arc::clone(&cell)], &limits).unwrap();
//! assert_eq!((before[0].row_count(), after[0].row_count()), (0, 1));
//! ```
//!
//! Where to start: `lock` (the lock word), `transaction`, `cut` (the snapshot protocol), `cell`
//! (the only `unsafe`: a root behind its lock). The models are in `tests/models.rs`; those of who writes the log, in
//! `log/models.rs`, and of waits for advisory locks, in `advisory/models.rs`.
//!
//! This crate knows nothing of SQL, of catalogs and of plans.

pub mod advisory;
mod body;
mod cell;
mod center;
mod checkpoint;
mod cut;
mod cut_counts;
mod deadlock;
mod event;
mod isolation;
mod lock;
mod lock_error;
mod log;
mod manager;
mod participant;
mod pending;
#[doc(hidden)]
pub mod planted;
mod pool;
mod published;
mod recovery;
mod redo;
mod seat;
mod transaction;
mod undo;
pub mod view;

pub use body::LockHandle;
pub use cell::PartitionCell;
pub use checkpoint::{CheckpointError, Contents, Founding, Pace, Written};
pub use cut::{CutError, cut, cut_noting};
pub use cut_counts::CutCounts;
pub use event::{CancelToken, WaitLimits};
pub use isolation::Isolation;
pub use lock::Mode;
pub use lock_error::{Deadlock, LockError, Wait};
pub use log::damage::Damage;
pub use log::disk::{Disk, File, Storage};
pub use log::reader::LogEnd;
pub use log::{BatchEnd, DurableWait, Log, LogError, LogOptions, LogStatistics, Lsn, MARK_BYTES};
pub use manager::{LockInfo, Manager};
pub use published::{TransactionInfo, TransactionState};
pub use recovery::{Progress, Recovered, Repaired, recover, repair};
#[doc(hidden)]
pub use redo::decode_any as decode_redo;
pub use redo::{Malformed, sequence_payload};
pub use seat::CatalogChange;
pub use transaction::{Savepoint, Transaction};
pub use undo::changed_rows::{ChangedRow, ChangedRows, PartitionChanges, ProjectedRow};
