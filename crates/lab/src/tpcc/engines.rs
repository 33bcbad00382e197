//! The engines of this experiment, and what the loop of a client asks of them.

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
    /// A client's way in.
    fn client(&self) -> Result<Box<dyn Client>>;
    /// Which consistency conditions are broken; `None` if all hold. Nobody else is at work.
    fn broken(&self) -> Result<Option<String>>;
    /// What is broken in a snapshot while clients are at work, if the engine has snapshots.
    fn broken_meanwhile(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// One client: its connection and what it has prepared.
pub trait Client: Send {
    /// Runs a transaction once; after an error it has been undone.
    fn run(&mut self, input: &Input) -> Done<Ended>;
}

/// What is to be loaded where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// How large.
    pub scale: Scale,
    /// Which.
    pub seed: u64,
}
