//! Why a lock was not granted, and the deadlock that was the reason.

use crate::lock::Mode;
use halcyon_base::{PartitionId, SqlState, TxnId};
use std::fmt;

/// A cycle of transactions each of which waits for the next; the first one is the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The waits, in order; the last one's blocker is the first one's waiter.
    pub cycle: Vec<Wait>,
}

/// One transaction waiting for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The transaction that waits.
    pub waiter: TxnId,
    /// The mode in which the waiter wants the partition.
    pub mode: Mode,
    /// The partition it wants to lock.
    pub partition: PartitionId,
    /// The transaction that holds the partition or stands before it in the queue.
    pub blocker: TxnId,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { waiter, mode, partition, blocker } = self;
        write!(
            f,
            "Transaction {waiter} waits for {mode} lock on partition {partition}; \
             blocked by transaction {blocker}."
        )
    }
}

/// The detail text of the error: one sentence per wait.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, wait) in self.cycle.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            wait.fmt(f)?;
        }
        Ok(())
    }
}

/// Why a lock was not granted. The transaction is as it was before it asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The wait would never have ended. Worth running the transaction again.
    Deadlock(Deadlock),
    /// The lock did not come within the limit. Worth trying again.
    Timeout,
    /// The token was cancelled.
    Cancelled,
}

impl LockError {
    /// SQL code of the error.
    pub fn sql_state(&self) -> SqlState {
        match self {
            LockError::Deadlock(_) => SqlState::DEADLOCK_DETECTED,
            LockError::Timeout => SqlState::LOCK_NOT_AVAILABLE,
            LockError::Cancelled => SqlState::QUERY_CANCELED,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::Deadlock(_) => "deadlock detected",
            LockError::Timeout => "canceling statement due to lock timeout",
            LockError::Cancelled => "canceling statement due to user request",
        })
    }
}

impl std::error::Error for LockError {}
