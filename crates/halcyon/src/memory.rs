//! The limit of the process's memory, and who is refused more ([`halcyon_base::memory`] counts).
//!
//! Each session has an account; whatever works for its statements works for the account: the thread of
//! the caller, DataFusion's workers, results while they are read. A statement that is refused
//! memory ends where it looks whether it is cancelled, and its error is named here, 53200.
//!
//! A statement that leaves something behind ([`grows`]) does not begin while more is in use than the
//! limit: many small ones would fill what is left beyond the limit.
//!
//! Invariant, checked by the test `memory` of crate `cli`: no statement makes the process take more memory
//! than its control group allows.

use std::sync::Once;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use halcyon_base::memory::{self, AccountId};
use halcyon_machine::limit::{memory_max, resident};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::utility::Utility;

/// The part of the memory of the machine, or of the control group, that is the limit if none is set, in
/// percent. The rest is for what no allocator counts: stacks, fragments, machine code, pages of files.
const DEFAULT_PERCENT: u64 = 80;

/// The part of the limit that lies between it and the ceiling, above which refused statements are held.
const ABOVE_LIMIT: i64 = 8;
/// The part of the limit that the process may take more than it before the largest statement is refused.
const WATCHED_ABOVE_LIMIT: i64 = 16;
/// The least time between two statements that are refused because they are the largest.
const BETWEEN_LARGEST: Duration = Duration::from_millis(200);
/// The least time between two collections.
const BETWEEN_COLLECTIONS: Duration = Duration::from_millis(50);

/// The part of the limit that sessions cannot fill by what they keep.
const KEPT_BELOW_LIMIT: i64 = 8;

/// A parameter's value is copied so often until it is in its place.
const VALUE_COPIES: i64 = 3;

/// The limit of all memory in use; a statement that would exceed it is refused (53200).
#[derive(Debug)]
pub(crate) struct MemoryLimit(AtomicI64);

impl Default for MemoryLimit {
    fn default() -> Self {
        MemoryLimit(AtomicI64::new(i64::MAX))
    }
}

impl MemoryLimit {
    /// Sets the limit; 0 for the default.
    pub fn set(&self, bytes: u64) {
        let bytes = match bytes {
            0 => memory_max().map_or(u64::MAX, |most| most / 100 * DEFAULT_PERCENT),
            bytes => bytes,
        };
        self.0.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
        let limit = self.bytes();
        memory::set_limit(limit, limit.saturating_add(limit / ABOVE_LIMIT));
        watch();
    }

    /// The limit in bytes.
    #[inline]
    pub fn bytes(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Errors: 53200 if more is in use than the limit.
    #[inline]
    pub fn require_room(&self) -> Result<()> {
        match memory::used() > self.bytes() {
            true => Err(self.full()),
            false => Ok(()),
        }
    }

    /// Errors: 53200 if less than a part of the limit is left: a session keeps nothing more then that takes
    /// memory as long as the session lives (names, locks, notifications), so that others can go on.
    #[inline]
    pub fn require_room_to_keep(&self) -> Result<()> {
        let limit = self.bytes();
        match memory::used() > limit - limit / KEPT_BELOW_LIMIT {
            true => Err(self.full()),
            false => Ok(()),
        }
    }

    /// Errors: 53200 if a value of so many bytes, and the copies that are made of it, exceed the limit.
    pub fn require_room_for(&self, bytes: usize) -> Result<()> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(VALUE_COPIES);
        match memory::used().saturating_add(bytes) > self.bytes() {
            true => Err(self.full()),
            false => Ok(()),
        }
    }

    #[cold]
    fn full(&self) -> SqlError {
        let total = u64::try_from(memory::used()).unwrap_or(0);
        let limit = u64::try_from(self.bytes()).unwrap_or(0);
        SqlError::out_of_memory(&memory::Refusal {
            by: memory::Bound::Total,
            statement: 0,
            total,
            limit,
        })
    }
}

/// Sets the function that gives memory that the program's allocator keeps for the calling thread back to the
/// system. Every thread calls it when the process comes near the limit of its memory with much that
/// is not in use.
pub fn set_memory_collector(give_back: fn()) {
    memory::set_collector(give_back);
}

/// Whether so much is resident beyond what is counted that it is worth giving back.
fn is_retained(resident: i64, counted: i64, limit: i64) -> bool {
    resident > limit / 2 && resident - counted > limit / 16
}

/// Starts the thread that asks the system for the process's memory, once in a process.
fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let thread = std::thread::Builder::new().name("halcyon-memory".into());
        // Without the thread the allocator's counts still hold.
        let _ = thread.spawn(|| {
            let mut watch = Watch::default();
            while let Some(bytes) = resident() {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                watch.look(bytes);
                std::thread::sleep(pause(memory::limit() - bytes));
            }
        });
    });
}

/// What the watching thread has done, and when.
#[derive(Default)]
struct Watch {
    collected: Option<Instant>,
    refused: Option<Instant>,
    /// Looks in a row at which the process had too much.
    above: u32,
}

impl Watch {
    /// Looks at the process's memory: what is kept for nothing is given back; if it is too much, though nobody
    /// asks for more, the largest statement is refused.
    fn look(&mut self, resident: i64) {
        let limit = memory::limit();
        let is_due = |at: Option<Instant>, pause| at.is_none_or(|at| at.elapsed() >= pause);
        memory::set_resident(resident);
        tracing::trace!(resident, counted = memory::counted(), limit);
        if is_retained(resident, memory::counted(), limit)
            && is_due(self.collected, BETWEEN_COLLECTIONS)
        {
            memory::collect();
            self.collected = Some(Instant::now());
        }
        let most = limit.saturating_add(limit / WATCHED_ABOVE_LIMIT);
        self.above = if resident > most { self.above + 1 } else { 0 };
        // The first look may see what the collection gives back.
        if self.above > 1 && is_due(self.refused, BETWEEN_LARGEST) && memory::refuse_largest() {
            self.refused = Some(Instant::now());
        }
    }
}

/// How long the system need not be asked when so many bytes are left: memory fills by a few gigabytes in
/// a second.
fn pause(left_bytes: i64) -> Duration {
    const BYTES_PER_MS: u64 = 4 << 20;
    let left = u64::try_from(left_bytes).unwrap_or(0);
    Duration::from_millis((left / BYTES_PER_MS).clamp(5, 500))
}

/// The error of a statement: 53200 instead of 57014 if it was ended because it was refused memory.
pub(crate) fn named(error: SqlError, account: AccountId) -> SqlError {
    match account.refusal() {
        Some(refusal) if error.state() == SqlState::QUERY_CANCELED => {
            SqlError::out_of_memory(&refusal)
        }
        _ => error,
    }
}

/// Errors: 53200 if the account's statement was refused memory.
pub(crate) fn unless_refused(account: AccountId) -> Result<()> {
    match account.refusal() {
        Some(refusal) => Err(SqlError::out_of_memory(&refusal)),
        None => Ok(()),
    }
}

/// Whether a statement leaves behind something that takes memory.
pub(crate) fn grows(prepared: &Prepared) -> bool {
    match &prepared.plan {
        Plan::Write(_) => prepared.tag != "DELETE",
        Plan::Ddl(_) => {
            let shrinks = ["DROP", "TRUNCATE", "REVOKE"];
            !shrinks.iter().any(|word| prepared.tag.starts_with(word))
        }
        Plan::Copy(plan) => plan.is_from(),
        Plan::Explain { asked, of } => asked.analyze && grows(of),
        Plan::Utility(utility) => matches!(utility, Utility::Import(_) | Utility::Do(_)),
        _ => false,
    }
}

/// Whether a statement leaves something behind that its session keeps.
pub(crate) fn keeps(prepared: &Prepared) -> bool {
    matches!(
        &prepared.plan,
        Plan::Utility(
            Utility::Prepare { .. }
                | Utility::Declare(_)
                | Utility::Savepoint(_)
                | Utility::Listen(_)
                | Utility::Notify { .. }
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_asked_often_near_the_limit_alone() {
        assert_eq!(pause(-1), Duration::from_millis(5));
        assert_eq!(pause(400 << 20), Duration::from_millis(100));
        assert_eq!(pause(i64::MAX), Duration::from_millis(500));
    }

    #[test]
    fn memory_is_given_back_near_the_limit_if_much_of_it_is_not_in_use() {
        assert!(is_retained(400, 100, 500));
        assert!(!is_retained(400, 390, 500) && !is_retained(200, 1, 500));
    }

    #[test]
    fn zero_stands_for_a_part_of_what_the_process_may_have() {
        let limit = MemoryLimit::default();
        assert_eq!(limit.bytes(), i64::MAX);
        limit.set(0);
        let most = i64::try_from(memory_max().expect("Linux tells")).expect("fits");
        assert!(most / 2 < limit.bytes() && limit.bytes() < most);
    }
}
