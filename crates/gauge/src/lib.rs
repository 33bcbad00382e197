//! What experiments measure with: servers as processes, one that does no work, load that arrives when it is due, rounds
//! and their spread, quantiles and slopes, reports of arms, and charts.
//!
//! Words: an *experiment* measures *arms*; an arm is one engine at one piece of work.
//!
//! **Invariant**, checked by `cargo xtask check layers`: Halcyon is reached over the wire only.
#![forbid(unsafe_code)]

pub mod bare;
pub mod chart;
pub mod measure;
pub mod open_loop;
pub mod peers;
pub mod postgres;
pub mod programs;
pub mod report;
pub mod responses;
pub mod statistics;

pub use report::{Arm, Reporter};

/// The result of starting a server, talking to it, or reading a file.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason why a server or a file could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The engine did not start, or refused the work.
    Engine(String),
    /// A file could not be read or written.
    Io(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Engine(what) => write!(f, "engine: {what}"),
            Failure::Io(what) => write!(f, "file: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Io(error.to_string())
    }
}
