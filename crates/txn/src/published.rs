//! What a transaction shows of itself: to the deadlock search and to the system views.
//!
//! Invariant, checked by the models `every_deadlock_is_found` and
//! `locks_in_one_order_are_never_called_a_deadlock`: what is published is written by one
//! transaction alone, in lines of its own. Others read it without order; the deadlock search is
//! right nevertheless, since it reads only what waiters published before they took the latch of the
//! lock they wait for.

use crate::isolation::Isolation;
use crate::lock::Mode;
use halcyon_base::clock::Moment;
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use halcyon_base::{PartitionId, SessionId, TxnId};
use std::cmp::Reverse;
use std::time::Duration;

/// Locks a transaction can publish without a mutex.
const PUBLISHED_LOCKS: usize = 8;

/// The published state of a participant and of its transaction.
#[derive(Default)]
pub(crate) struct Published {
    /// 0 while there is no transaction.
    txn: AtomicU64,
    /// In nanoseconds of the monotonic clock.
    began: AtomicU64,
    session: AtomicU32,
    isolation: AtomicU8,
    state: AtomicU8,
    undo_records: AtomicU64,
    /// How many transactions before this one the same client lost to deadlocks, in a row.
    losses: AtomicU32,
    undo_bytes: AtomicU64,
    held: [AtomicU64; PUBLISHED_LOCKS],
    more_held: Mutex<Vec<u64>>,
}

/// Losses that count; there is no transaction whose work is so many times that of another.
const DOUBLINGS_MAX: u32 = 63;

/// What a transaction has done, compared with others; see [`Published::stake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stake {
    work: u128,
    /// When it began, and its number.
    age: Reverse<(u64, u64)>,
}

/// A lock as one number; 0 is none.
fn packed(partition: PartitionId, mode: Mode) -> u64 {
    u64::from(partition.0) << 2 | u64::from(mode == Mode::Exclusive) << 1 | 1
}

fn unpacked(lock: u64) -> Option<(PartitionId, Mode)> {
    let mode = if lock & 2 == 0 { Mode::Shared } else { Mode::Exclusive };
    (lock != 0).then_some((PartitionId((lock >> 2) as u32), mode))
}

impl Published {
    /// The transaction begins.
    pub(crate) fn begin(
        &self,
        txn: TxnId,
        isolation: Isolation,
        session: SessionId,
        began: Moment,
    ) {
        self.began.store(began.0, Ordering::Relaxed);
        self.undo_records.store(0, Ordering::Relaxed);
        self.losses.store(0, Ordering::Relaxed);
        self.undo_bytes.store(0, Ordering::Relaxed);
        self.session.store(session.0, Ordering::Relaxed);
        self.isolation.store(isolation as u8, Ordering::Relaxed);
        self.state.store(TransactionState::Idle as u8, Ordering::Relaxed);
        self.txn.store(txn.0, Ordering::Relaxed);
    }

    /// The transaction has given up what it had done, and goes on.
    pub(crate) fn go_on(&self, txn: TxnId) {
        self.undo_bytes.store(0, Ordering::Relaxed);
        self.undo_records.store(0, Ordering::Relaxed);
        self.state.store(TransactionState::Idle as u8, Ordering::Relaxed);
        self.txn.store(txn.0, Ordering::Relaxed);
    }

    /// The transaction has ended.
    pub(crate) fn end(&self) {
        self.txn.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn state(&self, state: TransactionState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Says how many changes the transaction would take back, and the memory of what it notes for that.
    #[inline]
    pub(crate) fn undo(&self, records: usize, bytes: usize) {
        self.undo_records.store(records as u64, Ordering::Relaxed);
        self.undo_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Says how many transactions in a row the client has lost to deadlocks before this one.
    pub(crate) fn losses(&self, losses: u32) {
        self.losses.store(losses, Ordering::Relaxed);
    }

    /// What would be lost with the transaction: the least is chosen as the victim of a deadlock.
    ///
    /// Changes and locks count, twice as much for every transaction that the client has lost before, so
    /// that no client loses for ever. Among equals the one that began last has done least. A transaction
    /// without locks has nothing to lose.
    pub(crate) fn stake(&self) -> Stake {
        let locks = self.held().len() as u64;
        let work = match locks {
            0 => 0,
            _ => locks.saturating_add(self.undo_records.load(Ordering::Relaxed)),
        };
        let doublings = self.losses.load(Ordering::Relaxed).min(DOUBLINGS_MAX);
        let began = self.began.load(Ordering::Relaxed);
        let txn = self.txn.load(Ordering::Relaxed);
        Stake { work: u128::from(work) << doublings, age: Reverse((began, txn)) }
    }

    /// Says what the transaction's lock number `position` is; `None` once it is released.
    #[inline]
    pub(crate) fn lock(&self, position: usize, lock: Option<(PartitionId, Mode)>) {
        let number = lock.map_or(0, |(partition, mode)| packed(partition, mode));
        match self.held.get(position) {
            Some(held) => held.store(number, Ordering::Relaxed),
            None => self.lock_beyond(position - PUBLISHED_LOCKS, number),
        }
    }

    #[cold]
    fn lock_beyond(&self, position: usize, number: u64) {
        let mut more_held = self.more_held.lock();
        if more_held.len() <= position {
            more_held.resize(position + 1, 0);
        }
        more_held[position] = number;
    }

    /// The locks that are held.
    pub(crate) fn held(&self) -> Vec<(PartitionId, Mode)> {
        let inline = self.held.iter().map(|held| held.load(Ordering::Relaxed));
        let more_held = self.more_held.lock();
        inline.chain(more_held.iter().copied()).filter_map(unpacked).collect()
    }

    pub(crate) fn holds_nothing(&self) -> bool {
        self.held().is_empty()
    }

    /// Transaction and session; `None` while there is no transaction.
    pub(crate) fn identity(&self) -> Option<(TxnId, SessionId)> {
        let txn = self.txn.load(Ordering::Relaxed);
        let session = self.session.load(Ordering::Relaxed);
        (txn != 0).then_some((TxnId(txn), SessionId(session)))
    }

    pub(crate) fn info(&self, now: Moment) -> Option<TransactionInfo> {
        let (id, session) = self.identity()?;
        let began = Moment(self.began.load(Ordering::Relaxed));
        Some(TransactionInfo {
            id,
            session,
            isolation: Isolation::from_u8(self.isolation.load(Ordering::Relaxed)),
            state: TransactionState::from_u8(self.state.load(Ordering::Relaxed)),
            age: now.since(began),
            lock_count: self.held().len(),
            undo_records: self.undo_records.load(Ordering::Relaxed),
            undo_bytes: self.undo_bytes.load(Ordering::Relaxed),
        })
    }
}

/// What a transaction is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionState {
    /// Between statements.
    Idle,
    /// In a statement.
    Running,
    /// In a statement that waits for a lock.
    Waiting,
}

impl TransactionState {
    fn from_u8(state: u8) -> Self {
        [Self::Idle, Self::Running, Self::Waiting][state as usize]
    }

    /// Name in the system view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
        }
    }
}

/// A row of the view of transactions.
#[derive(Clone, Debug)]
pub struct TransactionInfo {
    /// The transaction.
    pub id: TxnId,
    /// Who runs it.
    pub session: SessionId,
    /// The transaction's isolation level.
    pub isolation: Isolation,
    /// What it is doing.
    pub state: TransactionState,
    /// Time since it began.
    pub age: Duration,
    /// How many partitions it has locked.
    pub lock_count: usize,
    /// How many changes it would take back; a partition's value that is kept whole counts as one.
    /// The change that is being made may be missing.
    pub undo_records: u64,
    /// Memory of the notes of changes; kept values of partitions are not counted.
    pub undo_bytes: u64,
}
