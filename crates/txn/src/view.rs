//! Views beside the partitions of their rows: who may touch a view, and when its rows are up to date.
//!
//! Words: a view's *maintainer* knows what its rows should be (an engine over other partitions' rows).
//! A view is *owned* by the transaction that has changed it and has not ended, which holds the rows
//! exclusively. A view is *stale* while its maintainer has met events that the rows do not show yet:
//! events that belong to no transaction, which go to the maintainer alone.
//! Invariants, checked by the models in `tests/models.rs`:
//! 1. An owner settles the view before its first change, so its rollback undoes only its own events
//!    (`an_owners_rollback_takes_back_its_own_changes_only`).
//! 2. While a view is owned, no events but the owner's reach the maintainer
//!    (`canary_events_to_an_owned_view_are_caught`).
//! 3. Views are locked in the order that [`ViewCell::new`] was given; a thread that waits for rows
//!    holds none of these locks (`events_without_a_transaction_are_seen_whole`: no deadlock).
//! 4. A reader of several views settles all of them at one moment ([`settle_views`]), before which cuts that
//!    came meanwhile get the rows as they were, and asks after its locks or its cut whether an owner has
//!    settled one view alone meanwhile ([`Manager::lone_view_settlements`]). An event that several views
//!    have met is therefore in the rows of all of them or of none
//!    (`canary_an_owner_that_settles_its_rows_alone_is_caught` and the one of cuts beside it).
//!
//! Cost: an event takes one mutex per view that it goes to, and nothing else.

use halcyon_base::SessionId;
use halcyon_base::sync::atomic::{AtomicBool, Ordering};
use halcyon_base::sync::{Arc, Mutex, MutexGuard};
use halcyon_store::Partition;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};

use crate::body::LockHandle;
use crate::cell::PartitionCell;
use crate::event::WaitLimits;
use crate::isolation::Isolation;
use crate::lock::Mode;
use crate::lock_error::LockError;
use crate::log::LogError;
use crate::manager::Manager;
use crate::planted;
use crate::transaction::Transaction;

/// What knows the rows of a view.
pub trait ViewMaintainer: Send + 'static {
    /// Brings `rows` up to date. False if the rows cannot be computed: they stay what they were, and
    /// the view stays stale.
    fn settle(&mut self, rows: &mut Partition) -> bool;

    /// The owning transaction has ended. After a rollback its changes have been undone already.
    fn ended(&mut self, committed: bool);
}

/// A view: the partition of its rows, and its maintainer behind a lock.
#[derive(Debug)]
pub struct ViewCell<M> {
    /// Place in the order in which views are locked.
    order: u64,
    rows: Arc<PartitionCell>,
    state: Mutex<LockedView<M>>,
    stale: AtomicBool,
}

/// A maintainer under its view's lock.
#[derive(Debug)]
pub struct LockedView<M> {
    maintainer: M,
    owned: bool,
}

impl<M> LockedView<M> {
    /// Whether no transaction owns the view, so that events that belong to none may come.
    pub fn is_open(&self) -> bool {
        !self.owned
    }
}

impl<M> Deref for LockedView<M> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.maintainer
    }
}

impl<M> DerefMut for LockedView<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.maintainer
    }
}

/// Views that are locked together, for an event that goes to all of them.
pub type LockedViews<'a, M> = SmallVec<[MutexGuard<'a, LockedView<M>>; 4]>;

impl<M: ViewMaintainer> ViewCell<M> {
    /// A view without owner whose `rows` are up to date. `order`: unique among all views; a view that
    /// reads another one has the greater number.
    pub fn new(order: u64, rows: Arc<PartitionCell>, maintainer: M) -> Self {
        let state = Mutex::new(LockedView { maintainer, owned: false });
        ViewCell { order, rows, state, stale: AtomicBool::new(false) }
    }

    /// The partition of the rows.
    pub fn rows(&self) -> &Arc<PartitionCell> {
        &self.rows
    }

    /// Locks the maintainer.
    pub fn lock(&self) -> MutexGuard<'_, LockedView<M>> {
        self.state.lock()
    }

    /// Locks views for an event that belongs to no transaction; `views` come in their order. `None`
    /// if a transaction owns one of them.
    #[inline]
    pub fn lock_open<'a>(views: impl IntoIterator<Item = &'a Self>) -> Option<LockedViews<'a, M>> {
        let mut locked = LockedViews::new();
        for view in views {
            let state = view.lock();
            if state.owned && !planted::is(planted::EVENT_TO_OWNED_VIEW) {
                return None;
            }
            locked.push(state);
        }
        Some(locked)
    }

    /// Whether the rows lack events. A hint unless the view is locked.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Says that the maintainer has met an event that the rows do not show. The view is locked.
    #[inline]
    pub fn set_stale(&self) {
        if !self.stale.load(Ordering::Relaxed) {
            self.stale.store(true, Ordering::Release);
        }
    }

    /// Brings the rows up to date with events that belong to no transaction.
    ///
    /// `tx` holds `rows` exclusively. If it has changed them, it owns the view, and nothing is left to
    /// do.
    fn settle(&self, locked: &mut LockedView<M>, tx: &mut Transaction, rows: LockHandle) {
        if locked.owned || !self.is_stale() {
            return;
        }
        if tx.settle(rows, |root| locked.maintainer.settle(root)) {
            self.stale.store(false, Ordering::Release);
        }
    }

    /// Makes `tx` the owner, once the rows are up to date: until it ends they hold every event that
    /// was accepted before, and no other comes. Returns the lock on the rows.
    ///
    /// Panics: if `tx` does not hold the rows exclusively.
    pub fn own(self: &Arc<Self>, locked: &mut LockedView<M>, tx: &mut Transaction) -> LockHandle {
        let rows = tx.held_exclusively(&self.rows).expect("an owner has locked the view's rows");
        if locked.owned {
            return rows;
        }
        if self.is_stale() && !planted::is(planted::LONE_SETTLEMENT_UNSEEN) {
            tx.center().note_lone_view_settlement();
        }
        self.settle(locked, tx, rows);
        locked.owned = true;
        let (committed, undone) = (Arc::clone(self), Arc::clone(self));
        tx.on_commit(move || committed.disown(true));
        tx.on_rollback(move || undone.disown(false));
        rows
    }

    fn disown(&self, committed: bool) {
        let mut locked = self.state.lock();
        locked.owned = false;
        locked.maintainer.ended(committed);
    }
}

/// Which views [`settle_views`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedViews {
    /// Views that are stale now.
    Stale,
    /// All views to which events without a transaction can come.
    All,
}

/// Why views were not brought up to date.
#[derive(Debug)]
pub enum SettleError {
    /// A wait for rows ended.
    Lock(LockError),
    /// The log took no commit.
    Log(LogError),
}

/// Brings the rows of all stale views up to date at one moment, as a transaction of its own.
/// `find` returns the views there are, without those whose rows the caller holds. Invariant 4 says what
/// the caller has to ask afterwards.
///
/// Errors: those of locks and of the log.
pub fn settle_views<M: ViewMaintainer>(
    manager: &Manager,
    session: SessionId,
    limits: &WaitLimits<'_>,
    find: impl Fn(WantedViews) -> Vec<Arc<ViewCell<M>>>,
) -> Result<(), SettleError> {
    let mut views = find(WantedViews::Stale);
    while !views.is_empty() {
        views.sort_by_key(|view| view.rows.id);
        let mut tx = manager.begin(Isolation::ReadCommitted, session);
        tx.begin_statement();
        let mut held = Vec::with_capacity(views.len());
        for view in &views {
            let locked = tx.lock(&view.rows, Mode::Exclusive, limits);
            held.push((view, locked.map_err(SettleError::Lock)?));
        }
        held.sort_by_key(|(view, _)| view.order);
        let mut locked: Vec<_> = held.iter().map(|(view, _)| view.lock()).collect();
        // An event that was on its way to several views at the first look has arrived at all of them
        // now. If one of them is not held, everything begins again, with all views held.
        let holds = |view: &Arc<ViewCell<M>>| held.iter().any(|(own, _)| own.order == view.order);
        let all_held = planted::is(planted::NO_SECOND_LOOK_AT_VIEWS)
            || find(WantedViews::Stale).iter().all(holds);
        if !all_held {
            drop(locked);
            drop(tx);
            views = find(WantedViews::All);
            continue;
        }
        // A cut that found one of these partitions locked and another one free waits for the rows as they
        // were when it came. Settling is not undone, so such a cut is served first; one that comes from now
        // on finds all of them locked, and gets all of them settled.
        if !planted::is(planted::CUTS_SERVED_SETTLED) {
            tx.serve_all_cuts();
        }
        for ((view, rows), locked) in held.iter().zip(&mut locked) {
            view.settle(locked, &mut tx, *rows);
        }
        drop(locked);
        tx.end_statement();
        tx.try_commit(None).map_err(SettleError::Log)?;
        return Ok(());
    }
    Ok(())
}
