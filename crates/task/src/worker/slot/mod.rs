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
pub(crate) use checked::{Arena, Chain, Inbox, Pool, Receiver, TaskRef, TaskType, run};
#[cfg(not(feature = "checked-slots"))]
pub(crate) use pooled::{Arena, Chain, Inbox, Pool, Receiver, TaskRef, TaskType, run};

use crate::annotation::Annotation;
use crate::group_table::GroupId;

/// What the runtime knows of a task. Three whole words: fields that are written one by one and
/// copied as words would make each copy wait for the stores.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) annotation: Annotation,
    /// From the low end: group (32 bits), tag (8), flags (8), owner (16).
    rest: u64,
}

/// A credit of its class is given back when the task ends.
pub(crate) const HOLDS_CREDIT: u8 = 1;

const TAG: u32 = 32;
const FLAGS: u32 = 40;
const OWNER: u32 = 48;

impl Header {
    #[inline(always)]
    pub(crate) const fn new(annotation: Annotation, group: GroupId, tag: u8, flags: u8) -> Header {
        let rest = group.0 as u64 | (tag as u64) << TAG | (flags as u64) << FLAGS;
        Header { annotation, rest }
    }

    /// What holds where no task runs.
    pub(crate) const OUTSIDE: Header = Header::new(Annotation::OUTSIDE, GroupId::NONE, 0, 0);

    /// The group it belongs to; [`GroupId::NONE`] if none.
    #[inline(always)]
    pub(crate) const fn group(&self) -> GroupId {
        GroupId(self.rest as u32)
    }

    /// Low bits of the epoch from which it may carry references (see `epoch`).
    #[inline(always)]
    pub(crate) const fn tag(&self) -> u8 {
        (self.rest >> TAG) as u8
    }

    #[inline(always)]
    pub(crate) fn set_tag(&mut self, tag: u8) {
        self.rest = self.rest & !(0xff << TAG) | u64::from(tag) << TAG;
    }

    /// Whether one of these flags is set.
    #[inline(always)]
    pub(crate) const fn has(&self, flags: u8) -> bool {
        self.rest & (flags as u64) << FLAGS != 0
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, flags: u8) {
        self.rest |= u64::from(flags) << FLAGS;
    }
}

/// What only slots from pools need to know.
#[cfg_attr(feature = "checked-slots", allow(dead_code))]
impl Header {
    #[inline(always)]
    pub(crate) fn clear(&mut self, flags: u8) {
        self.rest &= !(u64::from(flags) << FLAGS);
    }

    /// Whose pool its slot is from.
    #[inline(always)]
    pub(crate) const fn owner(&self) -> u16 {
        (self.rest >> OWNER) as u16
    }

    #[inline(always)]
    pub(crate) fn set_owner(&mut self, owner: u16) {
        self.rest = self.rest & !(0xffff << OWNER) | u64::from(owner) << OWNER;
    }
}
