//! The engines of this experiment, and their interface to a client's loop.

pub mod bare;
pub mod halcyon;
pub mod java;
pub mod postgres;
pub mod sqlite;

use super::Done;
use super::input::Input;
use super::random::Scale;
use super::transactions::Ended;
use crate::Result;

/// An engine in this process, with the tables in it.
pub trait Engine: Sync {
    /// Makes a client.
    fn client(&self) -> Result<Box<dyn Client>>;
    /// Returns which consistency conditions are broken; `None` if all hold. No client is at work.
    fn broken(&self) -> Result<Option<String>>;
    /// Returns which conditions are broken in a snapshot while clients are at work, if the engine
    /// has snapshots.
    fn broken_meanwhile(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A client: its connection and its prepared statements.
pub trait Client: Send {
    /// Runs a transaction once; after an error it has been undone.
    fn run(&mut self, input: &Input) -> Done<Ended>;
}

/// The content of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Sizes of the tables.
    pub scale: Scale,
    /// Seed of their rows.
    pub seed: u64,
}
