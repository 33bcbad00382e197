//! Aggregate functions as the vectorised executor runs them, with PostgreSQL's types and results.
//!
//! [`sums`] has `sum` and `avg`, and the aggregate that takes the only value of a group; [`variance`]
//! variances and deviations; [`corrected`] DataFusion's own aggregates with what they lack; [`mod@ordered`] what gathers values
//! in an order; [`ordered_sets`] those WITHIN GROUP; [`singles`] makes the sums of REAL REAL. As window functions all of them are [watched](mod@watched), and have
//! [frames](mod@sliding) that leave rows behind, or [out](mod@excluding).
//!
//! **Invariant**, checked by `cargo xtask check claims`: nothing here knows a table or a transaction. An
//! aggregate sees arrays of values.
#![forbid(unsafe_code)]

mod bytes;
pub mod corrected;
pub mod excluding;
mod ordered;
pub mod ordered_sets;
mod shifted;
pub mod singles;
mod sliding;
pub mod sums;
pub mod variance;
mod watched;
mod widened;
mod windows;

pub use shifted::with_shared_sums;
pub use widened::with_widened_integers;
pub use windows::with_own_windows;

use std::sync::Arc;

use datafusion::logical_expr::AggregateUDF;

/// The aggregates that replace DataFusion's of the same name, and those that it has not.
pub fn all() -> Vec<Arc<AggregateUDF>> {
    sums::all().into_iter().chain(variance::all()).chain(ordered_sets::all()).collect()
}
