//! Faults: why a cell has ended.

use std::fmt;

/// What a machine was doing when it faulted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineFault {
    /// The number of the processor's exception, as far as the kernel tells it: 6 for an instruction
    /// that there is not, 13 for one that is not allowed, 14 for memory that is not there.
    pub exception: u8,
    /// The address that was asked for (register CR2), of exceptions 14.
    pub address: u64,
    /// The address of the instruction (RIP).
    pub instruction: u64,
    /// The end of the stack (RSP).
    pub stack: u64,
    /// The general registers RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8 to R15.
    pub registers: [u64; 15],
}

/// Why a cell has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The processor has met something that the image cannot handle.
    Machine(Box<MachineFault>),
    /// The image has panicked, with this message.
    Panicked(String),
    /// The heartbeat has stood still although the cell had its processor.
    Hung,
    /// The host has ended the cell by force.
    Killed,
    /// The cell has stopped although nobody had asked for it.
    Ended,
    /// The cell has written to its rings what cannot be.
    Protocol(String),
    /// KVM has given the machine back for another reason.
    Exit(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Machine(fault) => {
                let MachineFault { exception, address, instruction, stack, .. } = **fault;
                write!(
                    f,
                    "the cell faulted: exception {exception} at instruction {instruction:#x}, \
                     address {address:#x}, stack {stack:#x}"
                )
            }
            Fault::Panicked(message) => write!(f, "the cell panicked: {message}"),
            Fault::Hung => f.write_str("the cell's heartbeat stood still"),
            Fault::Killed => f.write_str("the cell was ended by force"),
            Fault::Ended => f.write_str("the cell stopped without being asked"),
            Fault::Protocol(problem) => write!(f, "the cell sent what cannot be: {problem}"),
            Fault::Exit(reason) => write!(f, "the machine of the cell exited: {reason}"),
        }
    }
}

impl std::error::Error for Fault {}
