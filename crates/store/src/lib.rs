//! A partition of a table as a value: typed vectors, strings, indexes, copy-on-write.
//!
//! A [`Partition`] holds rows and indexes. Cloning it takes a snapshot, at the cost of a few
//! reference counts; a later change copies only the vectors and tree nodes that it touches, and
//! only while somebody else holds them. Vectors have Arrow's layout, so an analytical scan of a
//! snapshot reads the same memory as a point lookup.
//!
//! This crate knows no transactions, no SQL and no threads: no lock, no atomic but reference counts, the bounds that
//! readers find (`zone`) and the count of copies (`copies`).
//! (With the feature `latches`, for one experiment, it has latches that show what locks would cost.)
//! What it takes for granted (types match, NOT NULL holds, rows exist) the layers above have
//! checked; a breach is a panic.
//!
//! Where to start: [`Partition`], then `segment`, then `tree`.

#![deny(unsafe_code)]

mod append;
mod batch;
mod copies;
mod diff;
mod directory;
mod heap;
mod index;
mod key;
mod latch;
mod partition;
mod row;
mod segment;
mod text;
mod tree;
mod value;
mod vector;
mod zone;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod store_fuzz;
#[cfg(test)]
mod tree_fuzz;

pub use append::AppendError;
pub use batch::{Batch, SegmentRef};
pub use copies::{Copies, copies};
pub use diff::RowChange;
pub use index::{Conflict, Cursor, Derivation, DeriveKey, IndexDef, IndexRef};
pub use key::{KeyBuf, KeyColumn};
pub use partition::Partition;
pub use row::RowRef;
pub use tree::Direction;
pub use value::{ArrowType, ColumnDef, Interval, Schema, Type, Value, ValueRef};
