//! The machine beneath: topology, affinity, scheduling policy, memory regions and limits, the counting
//! allocator, clocks, counters, and the conditions that a kernel is configured for.
//!
//! Every function here asks the operating system or the processor and returns plain values; nothing
//! here knows tasks or tables. A feature that a kernel, a container or a missing permission
//! withholds is reported with the reason, never guessed.

pub mod affinity;
mod allocator;
pub mod clock;
pub mod conditions;
pub mod counters;
pub mod limit;
mod mapped;
pub mod memory;
mod report;
pub mod schedule;
pub mod topology;
pub mod volume;

pub use allocator::Counted;
pub use mapped::Mapped;
pub use report::{Availability, Feature, Report, recorded, report};
pub use topology::Topology;
