//! Isolation levels, and which locks they keep.

/// An isolation level: how much a transaction sees of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Isolation {
    /// Runs as [`Isolation::ReadCommitted`].
    ReadUncommitted,
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// Runs as [`Isolation::Serializable`].
    RepeatableRead,
    /// As if transactions ran one after the other.
    #[default]
    Serializable,
}

impl Isolation {
    /// Whether shared locks are kept to the end of the transaction.
    pub fn keeps_shared_locks(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }

    pub(crate) fn from_u8(number: u8) -> Self {
        use Isolation::*;
        [ReadUncommitted, ReadCommitted, RepeatableRead, Serializable][number as usize]
    }
}
