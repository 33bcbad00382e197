//! The kernel's own account of what ran on a processor, in the time base of the stamps.
//!
//! A private instance of the kernel's tracing file system, with the clock `x86-tsc`, notes switches of threads,
//! interrupts, deferred interrupt work, page faults, flushes of address translations and kernel work on one processor
//! ([`Tracer`]); its text becomes events ([`parse()`]); each outlier is joined with the events between its two stamps
//! ([`join`]). Tracing slows what it watches: figures come from runs without it.

pub mod join;
mod parse;
mod place;
mod tracer;

pub use parse::{Event, Kind, Thread, Trace, parse};
pub use place::Unavailable;
pub use tracer::Tracer;
