//! Where tasks live while they wait and run.

mod checked;

pub(crate) use checked::{Chain, Kind, Pool, TaskRef, run};

use crate::annotation::Annotation;
use crate::group::GroupId;

/// What the runtime knows of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) annotation: Annotation,
    /// The group it belongs to; [`GroupId::NONE`] if none.
    pub(crate) group: GroupId,
    /// Low bits of the epoch from which it may carry references (see `epoch`).
    pub(crate) tag: u8,
    /// Whether a credit of its class is given back when it ends.
    pub(crate) holds_credit: bool,
}
