//! The machine beneath: topology, affinity, scheduling policy, memory regions, clocks, counters.
//!
//! Everything here asks the operating system, or the processor, and says what it found out in
//! plain values; nothing here knows tasks or tables. What a kernel, a container or a missing
//! permission withholds is reported with its reason, never guessed.

pub mod affinity;
pub mod clock;
pub mod counters;
pub mod memory;
mod report;
pub mod schedule;
pub mod topology;

pub use report::{Feature, Report, State, recorded, report};
pub use topology::Topology;
