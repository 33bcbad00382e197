//! The structures behind a view's maps. None of them ever stops the world: whatever one change does
//! is bounded, or logarithmic, however many entries there are.

pub mod any;
pub mod hint;
pub mod ordered;
pub mod shape;
pub mod slab;
pub mod sliced;
pub mod sums;
pub mod table;
pub mod tables;
pub mod tree;

/// Words of one piece of memory of a growing structure (32 KiB): little enough to be zeroed and
/// touched within one change.
const SEGMENT_WORDS: usize = 4096;
