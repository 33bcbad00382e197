//! Where tasks live while they wait and run, and the inboxes through which they change workers.
//!
//! There are two of everything: `pooled`, slots of 128 bytes from per-worker pools, linked into
//! wait-free inboxes without allocation, and its safe twin `checked` (feature `checked-slots`), a
//! box per task and a mutex per inbox. Every test runs on both.

#[cfg(feature = "checked-slots")]
mod checked;
#[cfg(not(feature = "checked-slots"))]
mod pooled;

#[cfg(feature = "checked-slots")]
pub(crate) use checked::{Arena, Chain, Inbox, Kind, Pool, Receiver, TaskRef, run};
#[cfg(not(feature = "checked-slots"))]
pub(crate) use pooled::{Arena, Chain, Inbox, Kind, Pool, Receiver, TaskRef, run};

use crate::annotation::Annotation;
use crate::group::GroupId;

/// What the runtime knows of a task.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) annotation: Annotation,
    /// The group it belongs to; [`GroupId::NONE`] if none.
    pub(crate) group: GroupId,
    /// Low bits of the epoch from which it may carry references (see `epoch`).
    pub(crate) tag: u8,
    /// See the constants.
    pub(crate) flags: u8,
    /// Whose pool its slot is from; set by the pool.
    pub(crate) owner: u16,
}

/// A credit of its class is given back when the task ends.
pub(crate) const HOLDS_CREDIT: u8 = 1;

impl Header {
    #[inline]
    pub(crate) fn new(annotation: Annotation, group: GroupId, tag: u8, flags: u8) -> Header {
        Header { annotation, group, tag, flags, owner: 0 }
    }

    #[inline]
    pub(crate) fn holds_credit(&self) -> bool {
        self.flags & HOLDS_CREDIT != 0
    }
}
