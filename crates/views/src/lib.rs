//! Materialized views that run: engines, their rows, and the ways by which changes come to them.
//!
//! [`MaintainedView`] is one view: the engine of its trigger program (`halcyon_view`), the hidden
//! partition of its rows (an ordinary one, so every plan, index and snapshot reads it as a table's),
//! and the journal that takes a transaction's changes back. Changes come in three ways:
//! - [`ViewMaintenance`]: what a statement has changed becomes events, before the statement ends;
//! - [`StreamViews`]: an event of a stream, without a statement;
//! - [`PackedViews`]: many such events, encoded ahead of time.
//!
//! Changes go on to subscribers by a [`ViewFeed`]. Nothing is logged: rows and engines follow from
//! what the views read, and are made again by [`ViewProgram::fill`] when a database is opened.
//!
//! Where to start: `view` ([`MaintainedView`]), `maintenance` (a statement's changes), `state` (engine,
//! rows' places and journal). Who may touch a view when is [`halcyon_txn::view`].
//!
//! This crate knows neither SQL nor catalogs: tables are ids, and conditions on rows are closures.

#![forbid(unsafe_code)]

mod budget;
mod coding;
mod error;
mod event_times;
mod feed;
mod journal;
mod maintenance;
mod packed;
mod rows;
mod state;
mod stream;
mod view;

pub use budget::ViewBudget;
pub use coding::ViewColumn;
pub use error::{Refused, ViewError};
pub use feed::{FeedBatch, FeedNews, Follower, Lagging, RowDelta, ViewFeed};
pub use halcyon_txn::view::{SettleError, WantedViews};
pub use maintenance::{MaintenanceError, StreamEvents, ViewMaintenance};
pub use packed::{PackedEvents, PackedViews, Taken};
pub use state::ViewInput;
pub use stream::StreamViews;
pub use view::{MaintainedView, ViewFigures, ViewProgram, settle_views};
