//! Databases that are kept on disk: what was committed is there after a restart, and nothing else.
//!
//! `export` writes one as SQL and Parquet and reads it back; `restart` compares a database with what
//! it is after it was opened anew; `crashes` does so, with views, on a simulated disk that loses what
//! was not synced; `damage` does harm to folders; `old` opens what earlier versions wrote; `waiting`
//! looks at who waits for a disk.

mod crashes;
mod damage;
#[path = "../../../txn/tests/crashes/disk.rs"]
#[expect(dead_code, reason = "errors and flipped bits are for the tests of txn")]
mod disk;
mod export;
mod old;
mod restart;
mod waiting;
mod world;
