//! Materialized views: kept up to date with every statement, by trigger programs.
//!
//! A view's rows lie in a *hidden partition*, an ordinary one, so every plan, index and snapshot reads
//! them as a table's. Beside it lies the view's engine ([`ViewCell`]), which says what becomes of
//! the rows when the tables that it reads change. The compiler is `halcyon_delta`, the engine
//! `halcyon_view`; here is what makes them part of a database:
//! - [`define()`]: from a query to a program, and to columns;
//! - [`upkeep`]: what a statement has changed becomes events, before the statement ends;
//! - [`cell`]: who may touch an engine, and how it is taken back;
//! - [`stream`]: events that come without SQL;
//! - [`packed`]: many of them at once;
//! - [`feed`]: changes told to subscribers;
//! - [`explain`]: programs and certificates as text.
//!
//! Nothing of it is logged: rows and engines follow from what the views read, and are made again
//! when a database is opened ([`revive()`]).

mod cell;
mod coding;
mod define;
mod explain;
mod feed;
mod packed;
mod revive;
mod running;
mod stream;
mod tally;
pub(crate) mod upkeep;

use std::sync::Arc;

use halcyon_base::ids::TableId;
use serde::{Deserialize, Serialize};

pub use cell::{Budget, Figures, ViewCell};
pub(crate) use define::{Definition, define};
pub(crate) use explain::{maintenance, query_of, triggers, view_of};
pub use feed::{Batch, Feed, Follower, Found, Lagging};
pub use packed::{Packed, PackedEvents, PackedPlan};
pub use revive::revive;
pub use running::RowDelta;
pub use stream::{StreamPlan, bring_up_to_date, is_streamed, own, stale_views};
pub(crate) use upkeep::violation;

/// What a materialized view is besides its rows.
#[derive(Clone)]
pub struct Materialized {
    /// The query as SQL text, with every relation's schema written out.
    pub query: String,
    /// Tables, streams and materialized views that it reads, by ascending id.
    pub reads: Vec<TableId>,
    /// What its rows must not be.
    pub guards: Vec<Guard>,
    /// A view over streams in a database on disk: it begins without rows whenever the database is
    /// opened, since nobody has kept the events.
    pub empty_on_restart: bool,
    /// The engine.
    pub cell: Arc<ViewCell>,
}

/// CREATE ASSERTION: no row of a view may satisfy a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The condition as SQL text, over the columns of the view.
    pub condition: String,
    /// Role that owns it.
    pub owner: String,
}
