//! Halcyon: an in-memory SQL database that keeps its promises while the machine is busy.
//!
//! This crate is the one public door: a [`Database`], [`Session`]s on it, prepared
//! [`Statement`]s, typed [`Rows`] and record batches.
//!
//! ```
//! use halcyon::{Database, params};
//!
//! let db = Database::in_memory();
//! let mut session = db.session();
//! session.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(9,2))", &[])?;
//! session.execute("INSERT INTO item VALUES ($1, $2, $3)", params![1, "tea", "4.20"])?;
//! let by_id = session.prepare("SELECT name FROM item WHERE id = $1")?;
//! let mut rows = session.query(&by_id, params![1])?;
//! let row = rows.next()?.expect("one item");
//! assert_eq!(row.get::<&str>(0)?, "tea");
//! # Ok::<(), halcyon::SqlError>(())
//! ```
//!
//! Invariant: there is no wire format here, and crates above reach the engine through this crate
//! alone; checked by `cargo xtask check layers`.
#![forbid(unsafe_code)]

mod acquire;
mod activity;
mod admission;
mod advisory;
mod answers;
mod block;
mod checkpoint;
mod classify;
mod commands;
mod commit;
mod copy;
mod copying;
mod cursor;
mod database;
mod datafusion;
mod deferral;
mod digits;
mod do_block;
mod driver;
mod durable;
mod execute;
mod executed;
mod explain;
mod fetch;
mod following;
mod hidden;
mod inheritance;
mod live;
mod memory;
mod observed;
mod options;
mod outcome;
mod params;
mod reading;
mod rows;
mod run;
mod session;
mod session_class;
mod set;
mod set_constraints;
mod settings;
mod shared;
mod signals;
mod statement;
mod stream;
mod stream_views;
mod subscribe;
mod suspended;
mod suspension;
mod temporary;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod transaction;
mod transfer;
mod workload;
mod workload_live;
mod workload_watch;

pub use cursor::IdleLimit;
pub use database::{Database, Repair, SessionOptions};
pub use durable::{Opened, Opening};
pub use following::Changes;
pub use halcyon_machine::limit::{memory_max, without_huge_pages};
pub use memory::set_memory_collector;
pub use observed::WaitsFor;
pub use options::DatabaseOptions;
pub use outcome::{Outcome, Tag};
pub use params::IntoValue;
pub use rows::{FromValue, Row, Rows};
pub use run::Source;
pub use session::{CancelHandle, Session, SessionState};
pub use settings::{SERVER_VERSION, SystemSetting, SystemSettings, system_settings};
pub use signals::{Notification, Waker};
pub use statement::{Statement, split_statements};
pub use stream::{Stream, Streams, ViewReader};
pub use subscribe::Subscription;
pub use suspension::Progress;
pub use text::TextFormat;
pub use transaction::Access;
pub use workload_live::ClassLatency;

// Values, types and errors are the same in all layers, and belong to the public interface on
// purpose.
pub use halcyon_machine::{Counted, Mapped};
pub use halcyon_pgcatalog::function_oid;
pub use halcyon_plan::workers::{Matrix, Workers};
pub use halcyon_spill::{SpillCounts, SpillFolder};
pub use halcyon_sql::client_types::{ClientType, Shape};
pub use halcyon_sql::coerce::arrays;
pub use halcyon_sql::error::{Result, SqlError, SqlState};
pub use halcyon_sql::rows::{ResultColumn, RowSet};
pub use halcyon_sql::stack::THREAD_BYTES as STATEMENT_STACK_BYTES;
pub use halcyon_sql::types::SqlType;
pub use halcyon_store::{Copies, Interval, Value, ValueRef, copies};
pub use halcyon_txn::{CutCounts, Isolation};
pub use halcyon_views::{PackedEvents, RowDelta};
