//! The structures of a view's maps. No change ever pauses for the whole structure: the cost of one
//! change is bounded, or logarithmic in the number of entries.

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

/// Words of one piece of memory of a growing structure (32 KiB): few enough to be zeroed and
/// touched within one change.
const SEGMENT_WORDS: usize = 4096;
