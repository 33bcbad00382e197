//! Places where a cell can run, and what is the same for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::breaker::Breakable;
use crate::fault::Fault;
use crate::memory::{Ends, Memory};
use halcyon_cell_abi::board::Place as Span;

/// Where a cell runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In a virtual machine of its own.
    #[default]
    Machine,
    /// In a thread of this process: the same command loop with the same answers, for machines without
    /// KVM, for tests, and to be measured beside the other.
    Thread,
}

/// Four instructions that there are not, to overwrite code with.
pub const NO_INSTRUCTION: u64 = 0x0b0f_0b0f_0b0f_0b0f;

/// What a place needs to know to start a cell.
#[derive(Clone, Debug)]
pub struct Settings {
    pub place: Place,
    pub memory_bytes: u64,
    pub cpu: Option<u32>,
    /// Real-time priority of the cell's thread; `None` for the usual policy.
    pub fifo: Option<u8>,
    pub idle_turns: u64,
    /// Processor time without a heartbeat after which the cell is ended, ns.
    pub hung_ns: u64,
}

/// What a kernel has counted for a virtual machine and its processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub BTreeMap<String, u64>);

impl Counters {
    /// A count by KVM's name, for instance `exits`; 0 if KVM does not count that.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// A cell that has been started.
pub trait Running: Send {
    /// The host's side of the agreement.
    fn ends(&mut self) -> &mut Ends;
    /// Why the cell has ended; `None` while it runs, and after an end that was asked for.
    fn fault(&self) -> Option<Fault>;
    /// Whether the cell has ended in any way.
    fn has_ended(&self) -> bool;
    /// Wakes the cell if it sleeps.
    fn wake(&self);
    /// Ends the cell by force, for this reason unless it has one, and waits for the end.
    fn end(&mut self, why: Fault);
    /// KVM's counters. `None`: there are none here.
    fn counters(&self) -> Option<Counters>;
    /// The kernel's number of the thread in which the cell runs; `None` before the thread has begun.
    fn thread(&self) -> Option<u32>;
    /// What breaks the cell from another thread.
    fn breakable(&self) -> Arc<dyn Breakable>;
    /// The memory, and where the image's code lies in it, for tests that break the cell.
    fn code(&self) -> Option<(&Memory, Span)>;
}
