//! Experiments about what work takes from its neighbours on a machine: operators of SQL in pairs, analytical queries
//! beside transactions, loads and stores that are meant to leave caches alone, and a simulated cache.
//!
//! Words: as in `halcyon_gauge`. The binary `halcyon-lab` has the command lines.
//!
//! **Invariant**, checked by `cargo xtask check layers`: Halcyon is reached through its public
//! crate only.
//! Unsafe code is in `nontemporal/streams.rs` alone: instructions that no safe function gives.
#![deny(unsafe_code)]

pub mod answers;
pub mod cachemodel;
pub mod ch;
mod foreign;
pub mod heatmap;
pub mod interference;
pub mod nontemporal;
pub mod twin;

/// The result of an experiment.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason why an experiment cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// An answer was wrong.
    WrongAnswer(String),
    /// The engine refused the work.
    Engine(String),
    /// A file could not be written.
    Io(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::WrongAnswer(what) => write!(f, "wrong answer: {what}"),
            Failure::Engine(what) => write!(f, "engine: {what}"),
            Failure::Io(what) => write!(f, "file: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<halcyon::SqlError> for Failure {
    fn from(error: halcyon::SqlError) -> Self {
        Failure::Engine(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Io(error.to_string())
    }
}

/// Reads a number of seconds of the command line.
fn positive(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|&seconds| seconds > 0.0 && seconds < 1e6);
    seconds.ok_or_else(|| "not a positive number of seconds".to_owned())
}
