//! Databases that are kept on disk: what was committed is there after a restart, and nothing else.
//!
//! `restart` compares a database with what it is after it was opened anew; `crashes` does so on a
//! simulated disk that loses what was not synced.

mod restart;
mod world;
