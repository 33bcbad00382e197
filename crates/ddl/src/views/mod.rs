//! Materialized views in SQL: the steps that have to bind names, types and conditions.
//!
//! The views that run are `halcyon_views`; the compiler is `halcyon_delta`. Here is:
//! - `define()`: from a query to a program, and to columns;
//! - `stream`: events that come without SQL, verified as INSERT would;
//! - `packed`: many of them at once;
//! - [`revive()`]: views of a catalog that was read back;
//! - `explain`: programs and certificates as text.

mod define;
mod explain;
mod packed;
mod revive;
mod stream;

pub(crate) use define::{Definition, cell_choice, define, define_stored};
pub use explain::{maintenance, query_of, triggers, view_of};
pub use packed::PackedPlan;
pub use revive::revive;
pub use stream::{StreamPlan, bring_up_to_date, is_streamed, own, require_settled, stale_views};
