//! The agreement between a cell and its host: the page at which a cell starts, the rings between the
//! two, the messages in these rings, and the bytes of programs and events.
//!
//! Words: a *cell* is a virtual machine of one processor in which our image alone runs, without an
//! operating system; the *host* is the process that started the cell. Both see one region of memory,
//! which they read and write as 64-bit atomic words only, so that neither side can break the rules of
//! the other side's language.
//! Neither trusts what it reads there: indices are checked against the ring's size and against their
//! own last value, lengths against what has been published, programs by [`program::decode`] and
//! [`halcyon_view::program::Program::check`], events by [`events::check`].
//!
//! Where to start: [`ring`], then [`message`].

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod board;
mod bytes;
pub mod events;
pub mod message;
pub mod planted;
pub mod program;
pub mod ring;
pub mod samples;
pub mod shared;
mod sync;

pub use sync::AtomicU64;
