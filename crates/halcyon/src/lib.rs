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
//! **Invariant**, checked by `cargo xtask check layers`: no wire format here; nobody above enters
//! by another door.
#![forbid(unsafe_code)]

mod checkpoint;
mod copy;
mod database;
mod deadline;
mod durable;
mod explain;
mod live;
mod outcome;
mod params;
mod rows;
mod run;
mod session;
mod settings;
mod stream;
mod subscribe;
mod transaction;
mod transfer;
mod tuning;

pub use database::{Database, DatabaseOptions};
pub use durable::{Opened, Opening};
pub use halcyon_query::catalog;
pub use halcyon_query::coerce;
pub use halcyon_query::error::{Result, SqlError, SqlState};
pub use halcyon_query::rows::{ResultColumn, RowSet};
pub use halcyon_query::types::SqlType;
pub use halcyon_query::views::RowDelta;
pub use halcyon_store::{Interval, Value, ValueRef};
pub use halcyon_txn::Isolation;
#[doc(hidden)]
pub use halcyon_txn::{File, Storage};
pub use outcome::{Outcome, Tag};
pub use params::IntoValue;
pub use rows::{FromValue, Row, Rows};
pub use session::{
    CancelHandle, Session, SessionState, Source, Statement, failed_transaction, split,
};
pub use settings::SERVER_VERSION;
pub use stream::{PackedEvents, Stream, Streams, ViewReader};
pub use subscribe::{Changes, Subscription};
pub use transaction::Access;
