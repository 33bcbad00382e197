//! A model of a last-level cache with masks of ways, and of cores that share it.
//!
//! The model stands in for machines that have masks, counters or more cores than the one at hand. Its
//! figures are simulated, and every page or figure that shows them says so.
//!
//! [`cache`]: a set-associative cache with masks. [`policy`]: which line gives its place. [`grind`]: the
//! hierarchy of valgrind's cachegrind made of such caches, with which the model is compared
//! (`tests/cachegrind.rs`). [`trace`]: traces of valgrind's lackey. [`patterns`]: the addresses that operators
//! touch, made of a few structures; [`operators`]: those of the slowdown matrix. [`translation`]: pages, and the buffer of
//! their addresses. [`machine`]: cores with clocks, a shared cache and a shared memory. [`study`]: P4's aggregation beside
//! a scan. [`pairs`]: operators beside each other.

pub mod cache;
pub mod grind;
pub mod machine;
pub mod operators;
pub mod pairs;
pub mod patterns;
pub mod policy;
mod structures;
pub mod study;
pub mod trace;
pub mod translation;
