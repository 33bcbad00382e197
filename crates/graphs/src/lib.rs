//! Graph algorithms in phases, for threads and for groups of tasks: what the experiment on co-scheduling
//! runs (P3 §5.3).
//!
//! [`graph`] has compressed graphs, [`phases`] what an algorithm in phases is and its run on threads;
//! [`hops`], [`pagerank`] and [`paths`] are the three programs, each beside the published algorithm for one
//! thread and a slow twin.
//! **Invariant**, checked by `cargo xtask check layers`: it knows `task` alone of the engine.

#![forbid(unsafe_code)]

pub mod graph;
pub mod hops;
pub mod pagerank;
pub mod paths;
pub mod phases;
