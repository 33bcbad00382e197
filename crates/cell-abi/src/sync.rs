//! Atomic words: those of `core`, or shuttle's in a build for the model checker.

#[cfg(not(shuttle))]
pub use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicU64, Ordering};
