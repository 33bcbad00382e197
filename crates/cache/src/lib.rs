//! The shared cache, divided: masks of a last-level cache's ways for groups of processors, by the
//! kernel's interface resctrl, and a model of such a cache for machines that have none.
//!
//! Words: a *way* is one of the places that a line of memory may take in a set of the cache; a *mask*
//! names ways; a *domain* is a last-level cache, known by its id; a *group* is a folder of resctrl: a
//! mask for each domain, and the processors that fill the cache under these masks. There are three
//! groups (P4 §3): *polluting* has a tenth of the ways, *sensitive* the others, and the kernel's
//! default group keeps all ways for every other thread of the machine.
//!
//! Processors are in groups, tasks are not: the task runtime sends a morsel to a processor whose group
//! suits the morsel's annotation, so that nothing is written to the kernel while statements run. (The
//! kernel serialises such writes over the whole machine, and interrupts the processor concerned.)
//!
//! Patent: SAP holds US 10,891,234, "Cache partitioning to accelerate concurrent workloads", whose
//! abstract tells of bit masks per core by the type of a database's jobs. Masks are therefore off
//! until an administrator says `cache_partitioning = on`; placement on islands of other caches and
//! limits on polluting workers, which come first, write no masks.
//!
//! Source: P4 §3; Noll and others, "Accelerating Concurrent Workloads with CPU Cache Partitioning",
//! ICDE 2018; the kernel's `Documentation/arch/x86/resctrl.rst`. Nothing here follows other code.

#![forbid(unsafe_code)]

pub mod behaviour;
pub mod directory;
pub mod fake;
pub mod fs;
pub mod journal;
pub mod keeper;
pub mod mask;
pub mod model;
pub mod partition;
pub mod rules;
pub mod split;
pub mod undo;

pub use fs::ResctrlFs;
pub use keeper::{GroupRow, Keeper, Place};
pub use mask::Mask;
pub use partition::{Partition, Refused, Settings};
pub use split::CpuSplit;
