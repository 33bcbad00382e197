//! Files for what statements cannot hold in memory: sorts, groups and joins that exceed their limit put rows there.
//!
//! Words: the *folder* ([`SpillFolder`]) is the database's; a process has a sub-folder of its own in it, which it keeps
//! locked. A [`Spill`] is one statement's right to files there. A [`SpilledFile`] has no name once it is open, so it
//! goes with its last reference, whatever ends the statement or the process. An *extent* is a run of bytes that was
//! written at once; a *piece* is a batch of rows in an extent ([`mod@batches`]).
//!
//! DataFusion's operators write and read through [`Spill`] as well, which is their factory of files ([`mod@factory`]).
//!
//! Limits: [`SpillFolder::set_limit`] for all files together, and one for each statement; what exceeds either is refused
//! (53400) before it is written. A disk that is full is 53100.
//!
//! Threads: all. Who awaits leaves the worker while a thread that may block writes or reads; DataFusion's writers cannot
//! await, and write at most [`factory::CHUNK`] bytes at a time where they stand.
//!
//! Invariants, checked by `files_have_no_name_and_their_bytes_are_given_back` and
//! `what_a_crashed_process_left_is_cleared_and_a_living_one_is_left_alone`: the bytes of a folder are the sum of its
//! files'; a folder has entries of living processes alone once it is open.
#![forbid(unsafe_code)]

pub mod batches;
mod compact;
mod factory;
mod file;
mod folder;
mod pool;

pub use compact::{own_bytes, without_others};
pub use factory::CHUNK;
pub use file::{Extent, Spill, SpilledFile};
pub use folder::{SpillCounts, SpillFolder};
pub use pool::pool;
