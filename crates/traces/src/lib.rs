//! Traces by OpenTelemetry: a span per statement with its waits, sent to a collector by OTLP over HTTP.
//!
//! - [`context`] and [`comment`] read what an application says of its own span;
//! - [`sampler`] decides which statements are recorded, [`span`] records one;
//! - `tracer` takes what was recorded into a bounded queue and never waits; a thread of its own sends batches
//!   (`otlp` has their form, `post` the way), and counts what it could not send.
//!
//! Invariant, checked by `a_collector_that_is_away_or_slow_holds_nobody_up`: no caller of this crate waits for the
//! collector, but for the one that ends the tracer.

#![forbid(unsafe_code)]

pub mod comment;
pub mod config;
pub mod context;
mod otlp;
mod post;
pub mod query;
pub mod sampler;
pub mod span;
mod tracer;

pub use comment::Commented;
pub use config::{Config, StartError};
pub use context::Context;
pub use span::{Phase, Recording, Value};
pub use tracer::{Counts, Tracer};
