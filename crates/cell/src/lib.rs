//! Cells: views that are maintained by a machine of their own, in which nothing else runs.
//!
//! A cell is a virtual machine of one processor (KVM) with the freestanding image of crate
//! `cell-image` in it: no operating system, no interrupts, no system calls, no page faults once it has
//! started. Programs, events and rows go through rings in shared memory ([`halcyon_cell_abi`]).
//!
//! Words: the *host* is this process; a message is *accepted* once [`Cell::feed`] has returned, and is
//! then never lost by a crash of the cell: the host keeps accepted messages until a saved state of the
//! cell has them ([`Cell::save`]), and sends them again to the cell that it starts in place of a broken
//! one. A *fault* is why a cell has ended.
//!
//! Where to start: [`Cell::builder`]. Where no machine can be had, [`Place::Thread`] runs the same
//! command loop in a thread of this process, with the same answers and without the promises about
//! time.

#![deny(unsafe_code)]

mod breaker;
mod cell;
mod fault;
mod image;
mod layout;
mod link;
#[allow(unsafe_code, reason = "memory that a machine shares is words")]
mod memory;
mod place;
mod qemu;
mod script;
mod start;
mod thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "KVM's descriptors, memory of a machine, and signals")]
mod vm;

pub use breaker::{Breaker, Breaking};
pub use cell::{Builder, Cell, CellError, GiveUp, Rejection, RowChanges, Rows, Run, WORDS_MAX};
pub use fault::{Fault, MachineFault};
pub use halcyon_cell_abi as abi;
pub use place::{Counters, Place};
pub use qemu::{QemuTcg, SelfTest};
pub use script::Script;
pub use start::available;
