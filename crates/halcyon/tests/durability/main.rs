//! Databases that are kept on disk: what was committed is there after a restart, and nothing else.
//!
//! `export` writes one as SQL and Parquet and reads it back; `restart` compares a database with what it is after it was opened anew; `crashes` does so on a
//! simulated disk that loses what was not synced.

mod export;
mod restart;
mod world;
