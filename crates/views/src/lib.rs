//! Running materialized views: engines, their rows, and the paths by which changes reach them.
//!
//! [`MaintainedView`] is one view: the engine of its trigger program (`halcyon_view`), the hidden
//! partition of its rows (an ordinary one, so that plans, indexes and snapshots treat it as a
//! table's), and the journal that takes a transaction's changes back. Changes come by three paths:
//! - [`ViewMaintenance`]: a statement's changes become events before the statement ends;
//! - [`StreamViews`]: an event of a stream arrives without a statement;
//! - [`PackedViews`]: many such events arrive, encoded ahead of time.
//!
//! Subscribers get changes from a [`ViewFeed`]. Nothing is logged: rows and engines follow from the
//! tables that the views read, and [`ViewProgram::fill`] makes them again when a database is
//! opened.
//!
//! Where to start: `view` ([`MaintainedView`]), `maintenance` (a statement's changes), `state`
//! (engine, rows' places and journal). When which thread may touch a view is said in
//! [`halcyon_txn::view`].
//!
//! This crate knows neither SQL nor catalogs: tables are ids, and conditions on rows are closures.

#![forbid(unsafe_code)]

mod budget;
mod coding;
mod engine;
mod error;
mod event_times;
mod feed;
mod journal;
mod maintenance;
mod packed;
mod placed;
mod planted;
mod rows;
mod state;
mod stream;
mod view;

pub use budget::ViewBudget;
pub use coding::ViewColumn;
pub use error::{Refused, ViewError};
pub use feed::{FeedBatch, FeedNews, Follower, Lagging, RowDelta, ViewFeed};
pub use halcyon_cell::{Place as CellPlace, Script};
pub use halcyon_txn::view::{SettleError, WantedViews};
pub use maintenance::{MaintenanceError, StreamEvents, ViewMaintenance};
pub use packed::{PackedEvents, PackedViews, Taken};
pub use placed::{CellChoice, CellFigures};
pub use state::ViewInput;
pub use stream::StreamViews;
pub use view::{MaintainedView, ViewFigures, ViewProgram, settle_views};
