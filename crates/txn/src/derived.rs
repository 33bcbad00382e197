//! What is derived from other partitions and kept beside its own rows: the engine of a view.
//!
//! Words: its *keeper* knows what the rows should be. It is *owned* by the transaction that has
//! changed it and has not ended, which holds the rows exclusively. It is *stale* while the keeper
//! has met events that the rows do not show yet: those that belong to no transaction, which go to
//! the keeper alone.
//! Invariants, checked by the models `an_owners_rollback_takes_back_its_own_changes_only` (1),
//! `owners_end_with_what_was_theirs` (2), `events_without_a_transaction_are_seen_whole` (3) and
//! `events_reach_both_views_or_none` (4):
//! 1. Whoever owns it brought its rows up to date first, so all that it takes back is its own.
//! 2. While it is owned, no events but the owner's reach the keeper.
//! 3. Keepers are locked in the order of [`Beside::order`]; whoever waits for rows holds none.
//! 4. Whoever reads rows of several brought all to date at one moment ([`settle_all`]), and looks
//!    whether an owner has done that for its own alone meanwhile ([`Manager::settled_alone`]): an
//!    event that several keepers have met is in the rows of all of them or of none.
//!
//! Cost: an event takes one mutex per keeper that it goes to, and nothing else.

use halcyon_base::SessionId;
use halcyon_base::sync::atomic::{AtomicBool, Ordering};
use halcyon_base::sync::{Arc, Mutex, MutexGuard};
use halcyon_store::Partition;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};

use crate::body::LockHandle;
use crate::cell::PartitionCell;
use crate::deadlock::LockError;
use crate::event::WaitLimits;
use crate::isolation::Isolation;
use crate::lock::Mode;
use crate::log::LogError;
use crate::manager::Manager;
use crate::planted;
use crate::transaction::Transaction;

/// What knows the rows of a partition that is derived from others.
pub trait Keeper: Send + 'static {
    /// Makes the rows what it knows. False if they cannot be made so: they stay what they were,
    /// and stale.
    fn settle(&mut self, rows: &mut Partition) -> bool;

    /// The transaction that owned it has ended; what that changed stays, or was taken back before.
    fn ended(&mut self, committed: bool);
}

/// A keeper, and who may touch it.
#[derive(Debug, Default)]
pub struct Derived<K> {
    state: Mutex<Kept<K>>,
    stale: AtomicBool,
}

/// A keeper under its lock.
#[derive(Debug, Default)]
pub struct Kept<K> {
    keeper: K,
    owned: bool,
}

impl<K> Kept<K> {
    /// Whether no transaction owns it, so that events that belong to none may come.
    pub fn is_open(&self) -> bool {
        !self.owned
    }
}

impl<K> Deref for Kept<K> {
    type Target = K;
    fn deref(&self) -> &K {
        &self.keeper
    }
}

impl<K> DerefMut for Kept<K> {
    fn deref_mut(&mut self) -> &mut K {
        &mut self.keeper
    }
}

/// Locked keepers that an event goes to.
pub type Keepers<'a, K> = SmallVec<[MutexGuard<'a, Kept<K>>; 4]>;

impl<K: Keeper> Derived<K> {
    /// One that nobody owns and whose rows are up to date.
    pub fn new(keeper: K) -> Self {
        let state = Mutex::new(Kept { keeper, owned: false });
        Derived { state, stale: AtomicBool::new(false) }
    }

    /// Locks the keeper.
    pub fn lock(&self) -> MutexGuard<'_, Kept<K>> {
        self.state.lock()
    }

    /// Locks keepers for an event that belongs to no transaction, in the order in which they come.
    /// `None` if a transaction owns one of them.
    #[inline]
    pub fn lock_open<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Keepers<'a, K>> {
        let mut states = Keepers::new();
        for derived in all {
            let state = derived.lock();
            if state.owned && !planted::is(planted::EVENT_TO_OWNED) {
                return None;
            }
            states.push(state);
        }
        Some(states)
    }

    /// Whether the rows lack events. A hint unless the keeper is locked.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Says that the keeper has met an event that the rows do not show. Under the keeper's lock.
    #[inline]
    pub fn set_stale(&self) {
        if !self.stale.load(Ordering::Relaxed) {
            self.stale.store(true, Ordering::Release);
        }
    }

    /// Brings the rows up to date with events that belong to no transaction.
    ///
    /// The transaction holds the rows exclusively and has not changed them; or has, and then owns
    /// the keeper, and there is nothing to do.
    pub fn settle(&self, kept: &mut Kept<K>, tx: &mut Transaction, rows: LockHandle) {
        if kept.owned || !self.is_stale() {
            return;
        }
        if tx.settle(rows, |root| kept.keeper.settle(root)) {
            self.stale.store(false, Ordering::Release);
        }
    }

    /// Makes the transaction, which holds the rows exclusively, the owner, after bringing them up
    /// to date.
    pub fn own(self: &Arc<Self>, kept: &mut Kept<K>, tx: &mut Transaction, rows: LockHandle) {
        if kept.owned {
            return;
        }
        if self.is_stale() && !planted::is(planted::SETTLED_ALONE_UNSEEN) {
            tx.center().note_settled_alone();
        }
        self.settle(kept, tx, rows);
        kept.owned = true;
        let (committed, undone) = (Arc::clone(self), Arc::clone(self));
        tx.on_commit(move || committed.disown(true));
        tx.on_rollback(move || undone.disown(false));
    }

    fn disown(&self, committed: bool) {
        let mut kept = self.state.lock();
        kept.owned = false;
        kept.keeper.ended(committed);
    }
}

/// A keeper with the rows that it keeps.
#[derive(Debug)]
pub struct Beside<K> {
    /// Where it stands in the order in which keepers are locked.
    pub order: u64,
    /// The rows.
    pub rows: Arc<PartitionCell>,
    /// The keeper.
    pub derived: Arc<Derived<K>>,
}

impl<K> Clone for Beside<K> {
    fn clone(&self) -> Self {
        let (rows, derived) = (Arc::clone(&self.rows), Arc::clone(&self.derived));
        Beside { order: self.order, rows, derived }
    }
}

/// Which keepers [`settle_all`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Those that are stale now.
    Stale,
    /// All that events can come to.
    All,
}

/// Why rows were not brought up to date.
#[derive(Debug)]
pub enum SettleError {
    /// A wait for rows ended.
    Lock(LockError),
    /// The log took no commit.
    Log(LogError),
}

/// Brings the rows of all stale keepers up to date at one moment, as a transaction of its own.
/// `look` says which there are, without those whose rows the caller holds. See invariant 4 for what
/// the caller has to look at afterwards.
///
/// Errors: those of locks.
pub fn settle_all<K: Keeper>(
    manager: &Manager,
    session: SessionId,
    limits: &WaitLimits<'_>,
    look: impl Fn(Look) -> Vec<Beside<K>>,
) -> Result<(), SettleError> {
    let mut all = look(Look::Stale);
    while !all.is_empty() {
        all.sort_by_key(|one| one.rows.id);
        let mut tx = manager.begin(Isolation::ReadCommitted, session);
        tx.begin_statement();
        let mut held = Vec::with_capacity(all.len());
        for one in &all {
            let locked = tx.lock(&one.rows, Mode::Exclusive, limits);
            held.push((one, locked.map_err(SettleError::Lock)?));
        }
        held.sort_by_key(|(one, _)| one.order);
        let mut kept: Vec<_> = held.iter().map(|(one, _)| one.derived.lock()).collect();
        // An event that was on its way to several keepers when we looked has arrived at all of them
        // now; if it is in one that we do not hold, we begin again, and hold them all.
        let holds = |one: &Beside<K>| held.iter().any(|(own, _)| own.order == one.order);
        if !planted::is(planted::NO_SECOND_LOOK_AT_KEEPERS) && !look(Look::Stale).iter().all(holds)
        {
            drop(kept);
            drop(tx);
            all = look(Look::All);
            continue;
        }
        for ((one, rows), kept) in held.iter().zip(&mut kept) {
            one.derived.settle(kept, &mut tx, *rows);
        }
        drop(kept);
        tx.end_statement();
        tx.try_commit(None).map_err(SettleError::Log)?;
        return Ok(());
    }
    Ok(())
}
