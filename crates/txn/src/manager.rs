//! The manager: begins transactions, and tells the system views of those that run.

use crate::cell::PartitionCell;
use crate::center::Center;
use crate::cut_counts::CutCounts;
use crate::isolation::Isolation;
use crate::lock::{Mode, default_slots};
use crate::log::Log;
use crate::pool::Pool;
use crate::published::TransactionInfo;
use crate::transaction::Transaction;
use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::{PartitionId, SessionId, TxnId};
use std::time::Duration;

/// Begins transactions and knows all of them. Clones are the same manager.
#[derive(Clone)]
pub struct Manager(Arc<Offices>);

struct Offices {
    pools: Box<[Arc<Pool>]>,
    center: Arc<Center>,
}

impl Default for Manager {
    fn default() -> Self {
        Self::new()
    }
}

impl Manager {
    /// A manager without transactions and without a log.
    pub fn new() -> Self {
        Self::with_log(None)
    }

    /// A manager without transactions, whose commits are written to `log`.
    pub fn with_log(log: Option<Arc<Log>>) -> Self {
        let center = Arc::new(Center::new(log));
        let pool = |slot| Arc::new(Pool::new(slot, Arc::clone(&center)));
        Manager(Arc::new(Offices { pools: (0..default_slots()).map(pool).collect(), center }))
    }

    /// Begins a transaction of `session`; its first statement is not begun.
    pub fn begin(&self, isolation: Isolation, session: SessionId) -> Transaction {
        self.begin_at(isolation, session, clock::now())
    }

    /// As [`Manager::begin`], for a caller who has just looked at the clock: `began` is what the
    /// system views tell.
    pub fn begin_at(&self, isolation: Isolation, session: SessionId, began: Moment) -> Transaction {
        let pools = &self.0.pools;
        let pool = &pools[session.0 as usize & (pools.len() - 1)];
        let (seat, txn) = pool.take();
        seat.participant.published.begin(txn, isolation, session, began);
        Transaction::begin(seat, Arc::clone(pool), txn, isolation)
    }

    pub(crate) fn center(&self) -> &Center {
        &self.0.center
    }

    /// Changes when an owner has brought derived rows up to date without others that the same events
    /// went to. A reader that finds the same number before [`crate::view::settle_views`] and after a
    /// cut, or after its locks, sees every event in all of them or in none.
    #[inline]
    pub fn lone_view_settlements(&self) -> u64 {
        self.0.center.lone_view_settlements.load(Ordering::SeqCst)
    }

    /// Cuts of partitions so far, and what they waited for.
    pub fn cuts(&self) -> CutCounts {
        self.0.center.cuts.counts()
    }

    /// Panics unless its participants are in order. O(participants): for tests.
    pub fn check(&self) {
        self.0.center.check();
    }

    /// All transactions that have begun and not ended, oldest first.
    pub fn transactions(&self) -> Vec<TransactionInfo> {
        let now = clock::now();
        let participants = self.0.center.participants.lock();
        let mut infos: Vec<TransactionInfo> =
            participants.iter().filter_map(|participant| participant.published.info(now)).collect();
        infos.sort_by_key(|info| (std::cmp::Reverse(info.age), info.id));
        infos
    }

    /// Has `told` called whenever a transaction has begun to wait for a lock, by the thread that waits, which holds
    /// no latch then; with the transaction's session, after those of earlier calls.
    pub fn on_wait(&self, told: impl Fn(SessionId) + Send + Sync + 'static) {
        self.0.center.on_wait.lock().push(std::sync::Arc::new(told));
    }

    /// The sessions for whose transactions a session's transaction waits: those that hold what it waits for or stand
    /// before it in the queue, and those for which these wait in turn; each once. A moment, not a cut.
    pub fn blockers(&self, session: SessionId) -> Vec<SessionId> {
        let waits = self.0.center.waits.lock().waits();
        let participants = self.0.center.participants.lock().clone();
        let held: Vec<_> = participants
            .iter()
            .filter_map(|participant| {
                let (_, session) = participant.published.identity()?;
                Some((session, participant.published.held()))
            })
            .collect();
        let mut found = vec![session];
        let mut next = 0;
        while let Some(&waiter) = found.get(next) {
            next += 1;
            let of_waiter = waits.iter().filter(|(session, ..)| *session == waiter);
            for &(_, partition, rank, mode) in of_waiter {
                let blocks = |&(locked, own): &(PartitionId, Mode)| {
                    locked == partition && (own == Mode::Exclusive || mode == Mode::Exclusive)
                };
                for (holder, locks) in &held {
                    if locks.iter().any(blocks) && !found.contains(holder) {
                        found.push(*holder);
                    }
                }
                for (before, locked, place, _) in &waits {
                    if *locked == partition && *place < rank && !found.contains(before) {
                        found.push(*before);
                    }
                }
            }
        }
        found.split_off(1)
    }

    /// All partition locks that are held or waited for, by partition.
    ///
    /// `cells` are the partitions whose queues are looked at, usually the catalog's. Held locks
    /// are those of all transactions, as each published them: a moment, not a cut.
    pub fn locks<'a>(
        &self,
        cells: impl IntoIterator<Item = &'a Arc<PartitionCell>>,
    ) -> Vec<LockInfo> {
        let participants = self.0.center.participants.lock().clone();
        let mut locks = Vec::new();
        for participant in &participants {
            let Some((txn, session)) = participant.published.identity() else {
                continue;
            };
            locks.extend(participant.published.held().into_iter().map(|(partition, mode)| {
                LockInfo { txn, session, partition, mode, waiting: None }
            }));
        }
        let now = clock::now();
        for cell in cells {
            for waiter in cell.latch().lock.waiters() {
                let participant = &participants.get(waiter.participant.0 as usize);
                let Some((txn, session)) = participant.and_then(|found| found.published.identity())
                else {
                    continue;
                };
                locks.push(LockInfo {
                    txn,
                    session,
                    partition: cell.id,
                    mode: waiter.want.mode(),
                    waiting: Some(now.since(waiter.since)),
                });
            }
        }
        locks.sort_by_key(|lock| (lock.partition, lock.waiting.is_some(), lock.txn));
        locks
    }
}

/// A row of the view of locks.
#[derive(Clone, Debug)]
pub struct LockInfo {
    /// The transaction that holds or wants the lock.
    pub txn: TxnId,
    /// Who runs it.
    pub session: SessionId,
    /// The locked partition.
    pub partition: PartitionId,
    /// Held or wanted mode.
    pub mode: Mode,
    /// How long it has waited; `None` if it holds the lock.
    pub waiting: Option<Duration>,
}
