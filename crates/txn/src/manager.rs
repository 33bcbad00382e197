//! Who takes part: transaction ids, the seats that transactions are run from, and what the system
//! views show of them.
//!
//! Words: a *participant* is one who can hold locks and wait, with a number that locks know it by;
//! a *seat* is a participant with its buffers, kept between transactions. Sessions of one slot
//! share a pool of seats, so beginning a transaction allocates nothing once the pool is warm and
//! writes no line that sessions of other slots write.
//! Invariants:
//! 1. Participants are never freed before the manager, so a number always names one.
//! 2. What a participant publishes is written by its transaction alone, in its own lines. Others
//!    read it without order; the deadlock search is right nevertheless, since it reads only what
//!    waiters published before they took the latch of the lock they wait for.

use crate::cell::PartitionCell;
use crate::cut::PendingCut;
use crate::deadlock::WaitGraph;
use crate::event::Event;
use crate::lock::Mode;
use crate::log::Log;
use crate::transaction::{Body, Isolation, LockHandle, Seat, Transaction};
use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use halcyon_base::sync::{Arc, Mutex};
use halcyon_base::{PartitionId, SessionId, TxnId};
use std::ops::Range;
use std::time::Duration;

/// Most reader slots of a lock, and pools of seats.
const SLOTS_MAX: usize = 64;

/// Transaction ids that a pool takes at a time.
const TXN_IDS_PER_REFILL: u64 = 1024;

/// Reader slots of a lock unless told otherwise: one per core, at most 64, a power of two.
#[cfg(not(shuttle))]
pub(crate) fn default_slots() -> usize {
    use std::sync::OnceLock;
    static SLOTS: OnceLock<usize> = OnceLock::new();
    *SLOTS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.next_power_of_two().min(SLOTS_MAX)
    })
}

/// Reader slots of a lock under the model: more than one, and few.
#[cfg(shuttle)]
pub(crate) fn default_slots() -> usize {
    const { assert!(SLOTS_MAX >= 2) };
    2
}

/// A participant's number in its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ParticipantId(pub(crate) u32);

/// Begins transactions and knows all of them. Clones are the same manager.
#[derive(Clone)]
pub struct Manager(Arc<Offices>);

struct Offices {
    pools: Box<[Arc<Pool>]>,
    center: Arc<Center>,
}

/// What all transactions share, touched only when one has to wait or to be looked at.
pub(crate) struct Center {
    pub(crate) waits: Mutex<WaitGraph>,
    participants: Mutex<Vec<Arc<Participant>>>,
    next_txn: AtomicU64,
    /// Where commits are written down; nowhere in a database that lives in memory alone.
    pub(crate) log: Option<Arc<Log>>,
    /// How often an owner has brought derived rows up to date without others that the same events
    /// went to ([`crate::derived`]).
    settled_alone: AtomicU64,
}

/// The seats of one slot's sessions, in lines of their own.
#[repr(align(128))]
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    pub(crate) slot: usize,
    pub(crate) center: Arc<Center>,
}

#[derive(Default)]
struct PoolState {
    // Boxed, because a seat moves between pool and transaction twice per transaction.
    #[expect(clippy::vec_box)]
    free: Vec<Box<Seat>>,
    txns: Range<u64>,
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
        let center = Arc::new(Center {
            waits: Mutex::new(WaitGraph::default()),
            participants: Mutex::new(Vec::new()),
            next_txn: AtomicU64::new(1),
            log,
            settled_alone: AtomicU64::new(0),
        });
        let pool = |slot| {
            Arc::new(Pool {
                state: Mutex::new(PoolState::default()),
                slot,
                center: Arc::clone(&center),
            })
        };
        Manager(Arc::new(Offices { pools: (0..default_slots()).map(pool).collect(), center }))
    }

    /// Begins a transaction of `session`; its first statement is not begun.
    pub fn begin(&self, isolation: Isolation, session: SessionId) -> Transaction {
        let pools = &self.0.pools;
        let pool = &pools[session.0 as usize & (pools.len() - 1)];
        let (seat, txn) = pool.take();
        Transaction::begin(seat, Arc::clone(pool), txn, isolation, session)
    }

    pub(crate) fn center(&self) -> &Center {
        &self.0.center
    }

    /// Changes when an owner has brought derived rows up to date without others that the same events
    /// went to: whoever finds the same number before [`crate::derived::settle_all`] and after a cut, or
    /// after its locks, sees every event in all of them or in none.
    #[inline]
    pub fn settled_alone(&self) -> u64 {
        self.0.center.settled_alone.load(Ordering::SeqCst)
    }

    /// All transactions that have begun and not ended, oldest first.
    pub fn transactions(&self) -> Vec<TransactionInfo> {
        let now = clock::now();
        let participants = self.0.center.participants.lock();
        let mut infos: Vec<TransactionInfo> =
            participants.iter().filter_map(|participant| participant.info(now)).collect();
        infos.sort_by_key(|info| (std::cmp::Reverse(info.age), info.id));
        infos
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
            let Some((txn, session)) = participant.identity() else {
                continue;
            };
            locks.extend(participant.held().into_iter().map(|(partition, mode)| LockInfo {
                txn,
                session,
                partition,
                mode,
                waiting: None,
            }));
        }
        let now = clock::now();
        for cell in cells {
            for waiter in cell.latch().lock.waiters() {
                let participant = &participants.get(waiter.participant.0 as usize);
                let Some((txn, session)) = participant.and_then(|found| found.identity()) else {
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

impl Center {
    /// Before the rows change, so that whoever sees them finds another number.
    pub(crate) fn note_settled_alone(&self) {
        self.settled_alone.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn participant(&self, id: ParticipantId) -> Arc<Participant> {
        Arc::clone(&self.participants.lock()[id.0 as usize])
    }

    fn enroll(&self, slot: usize) -> Arc<Participant> {
        let mut participants = self.participants.lock();
        let number = u32::try_from(participants.len()).expect("participants fit into memory");
        let participant = Arc::new(Participant::new(ParticipantId(number), slot));
        participants.push(Arc::clone(&participant));
        participant
    }
}

impl Pool {
    /// A seat and the id of the transaction that will use it.
    fn take(&self) -> (Box<Seat>, TxnId) {
        let mut state = self.state.lock();
        if state.txns.is_empty() {
            let first = self.center.next_txn.fetch_add(TXN_IDS_PER_REFILL, Ordering::Relaxed);
            state.txns = first..first + TXN_IDS_PER_REFILL;
        }
        let txn = state.txns.next().expect("the range was refilled");
        let seat = state.free.pop();
        drop(state);
        let seat = seat.unwrap_or_else(|| Box::new(Seat::new(self.center.enroll(self.slot))));
        (seat, TxnId(txn))
    }

    /// Takes a seat back whose transaction has ended.
    pub(crate) fn give_back(&self, seat: Box<Seat>) {
        self.state.lock().free.push(seat);
    }
}

/// One who can hold locks and wait for one.
#[repr(align(128))]
pub(crate) struct Participant {
    pub(crate) id: ParticipantId,
    pub(crate) slot: usize,
    /// Set when the lock it waits for is granted.
    pub(crate) granted: Arc<Event>,
    /// Whether [`AtRest::cuts`] has entries. Written under the latch of a partition that this one
    /// holds exclusively, so the owner, under that latch, reads it rightly; elsewhere it is a hint.
    pub(crate) cuts_pending: AtomicBool,
    /// Taken for moments. After latches, never before.
    pub(crate) at_rest: Mutex<AtRest>,
    published: Published,
}

/// What a requester of a cut finds at an owner.
#[derive(Default)]
pub(crate) struct AtRest {
    /// The transaction's body while none of its statements runs.
    pub(crate) body: Option<Box<Body>>,
    /// Cuts that want the state of its partitions before it began.
    pub(crate) cuts: Vec<PendingCut>,
}

/// Locks a transaction can publish without a mutex.
const PUBLISHED_LOCKS: usize = 8;

/// For the system views and the deadlock search.
#[derive(Default)]
struct Published {
    /// 0 while there is no transaction.
    txn: AtomicU64,
    /// In nanoseconds of the monotonic clock.
    began: AtomicU64,
    session: AtomicU32,
    isolation: AtomicU8,
    state: AtomicU8,
    held: [AtomicU64; PUBLISHED_LOCKS],
    more_held: Mutex<Vec<u64>>,
}

/// A lock as one number; 0 is none.
fn packed(partition: PartitionId, mode: Mode) -> u64 {
    u64::from(partition.0) << 2 | u64::from(mode == Mode::Exclusive) << 1 | 1
}

fn unpacked(lock: u64) -> Option<(PartitionId, Mode)> {
    let mode = if lock & 2 == 0 { Mode::Shared } else { Mode::Exclusive };
    (lock != 0).then_some((PartitionId((lock >> 2) as u32), mode))
}

impl Participant {
    pub(crate) fn new(id: ParticipantId, slot: usize) -> Self {
        Participant {
            id,
            slot,
            granted: Arc::default(),
            cuts_pending: AtomicBool::new(false),
            at_rest: Mutex::default(),
            published: Published::default(),
        }
    }

    pub(crate) fn publish_begin(&self, txn: TxnId, isolation: Isolation, session: SessionId) {
        let published = &self.published;
        published.began.store(clock::now().0, Ordering::Relaxed);
        published.session.store(session.0, Ordering::Relaxed);
        published.isolation.store(isolation as u8, Ordering::Relaxed);
        published.state.store(TransactionState::Idle as u8, Ordering::Relaxed);
        published.txn.store(txn.0, Ordering::Relaxed);
    }

    pub(crate) fn publish_end(&self) {
        self.published.txn.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn publish_state(&self, state: TransactionState) {
        self.published.state.store(state as u8, Ordering::Relaxed);
    }

    /// Says what the lock behind `handle` is; `None` once it is released.
    #[inline]
    pub(crate) fn publish_lock(&self, handle: LockHandle, lock: Option<(PartitionId, Mode)>) {
        let number = lock.map_or(0, |(partition, mode)| packed(partition, mode));
        let position = handle.0 as usize;
        match self.published.held.get(position) {
            Some(held) => held.store(number, Ordering::Relaxed),
            None => self.publish_more(position - PUBLISHED_LOCKS, number),
        }
    }

    #[cold]
    fn publish_more(&self, position: usize, number: u64) {
        let mut more_held = self.published.more_held.lock();
        if more_held.len() <= position {
            more_held.resize(position + 1, 0);
        }
        more_held[position] = number;
    }

    /// The locks it holds.
    pub(crate) fn held(&self) -> Vec<(PartitionId, Mode)> {
        let published = &self.published;
        let inline = published.held.iter().map(|held| held.load(Ordering::Relaxed));
        let more_held = published.more_held.lock();
        inline.chain(more_held.iter().copied()).filter_map(unpacked).collect()
    }

    pub(crate) fn holds_nothing(&self) -> bool {
        self.held().is_empty()
    }

    fn identity(&self) -> Option<(TxnId, SessionId)> {
        let txn = self.published.txn.load(Ordering::Relaxed);
        let session = self.published.session.load(Ordering::Relaxed);
        (txn != 0).then_some((TxnId(txn), SessionId(session)))
    }

    fn info(&self, now: Moment) -> Option<TransactionInfo> {
        let (id, session) = self.identity()?;
        let began = Moment(self.published.began.load(Ordering::Relaxed));
        Some(TransactionInfo {
            id,
            session,
            isolation: Isolation::from_u8(self.published.isolation.load(Ordering::Relaxed)),
            state: TransactionState::from_u8(self.published.state.load(Ordering::Relaxed)),
            age: now.since(began),
            lock_count: self.held().len(),
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
    /// Its isolation level.
    pub isolation: Isolation,
    /// What it is doing.
    pub state: TransactionState,
    /// Time since it began.
    pub age: Duration,
    /// How many partitions it has locked.
    pub lock_count: usize,
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
