//! Physical operators that run on the task runtime: what DataFusion's operators lack to be tasks.
//!
//! DataFusion's own exchanges spawn onto tokio. Here [`on_workers`] puts [`exchange`]s in their places, which
//! spawn tasks beside the statement's own, and [`pacing`] lets operators that make many rows of few give
//! their worker back.
#![forbid(unsafe_code)]

mod cache_use;
mod exchange;
mod findings;
mod in_turn;
mod mailbox;
mod pacing;
mod placement;
mod shared;

pub use cache_use::{CacheSizes, cache_use};
pub use findings::findings_reach_scans;
pub use halcyon_hashing::groups::hash_aggregates;
pub use halcyon_hashing::joins::hash_joins;
pub use halcyon_ranges::range_joins;
pub use halcyon_sorts::sorts;
pub use pacing::{collecting_paced, paced};
pub use placement::on_workers;
pub use shared::{SharedExec, shared_parts};
