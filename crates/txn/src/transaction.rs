//! A transaction: its locks, its changes, and the end of both.
//!
//! Strict two-phase locking: locks are kept to the end, but for the shared ones of READ COMMITTED,
//! which go at the end of each statement. A lock is a handle, and the handle is the only way to a
//! partition's rows.
//! Words: a transaction's *body* is what it holds and what it has changed. The body is *at rest*
//! while no statement runs or the statement waits for a lock; then a requester of a cut may read
//! it. Invariants, checked by the models `cut_does_not_wait_for_an_idle_owner` (1),
//! `cut_holds_each_transfer_wholly_or_not_at_all` (3) and
//! `cut_holds_whoever_read_what_it_shows_overwritten` (4), and by the test
//! `random_changes_and_savepoints_agree_with_maps` (2):
//! 1. The body is with the transaction or at rest, never both. It goes to rest between two row
//!    changes only, and only then must it be looked for there.
//! 2. A partition is changed only after what undoes the change has been noted.
//! 3. All exclusive locks are given back at one moment, after commit hooks have run, and after
//!    the roots that pending cuts want have been cloned.
//! 4. Shared locks outlive the exclusive ones. Between transactions that lock, their order would
//!    not matter; but a cut takes no locks. Given back first, a shared lock lets a second
//!    transaction overwrite what was read and commit, and a cut then holds the second without the
//!    first, which stands before it in every serial order.
//!
//! The order of a commit: its record into the log and hooks under the latches, release, shared locks,
//! then pending cuts get their pre-images. The caller waits for durability after all that, so nobody
//! waits for a lock because somebody waits for the disk.
//! Cost: begin and end take a pool's mutex each; a row change costs that of the partition plus the
//! copy of its before-image. No allocation for small transactions once seats are warm
//! (`tests/allocation.rs`). Figures: `examples/locks.rs`. Threads: one at a time.

use crate::body::{Body, Hold, LockHandle};
use crate::cell::PartitionCell;
use crate::center::Center;
use crate::event::{WaitLimits, Waited};
use crate::isolation::Isolation;
use crate::lock::{Mode, Want};
use crate::lock_error::LockError;
use crate::log::frame::FrameKind;
use crate::log::{LogError, Lsn, Payload};
use crate::planted;
use crate::pool::Pool;
use crate::published::TransactionState;
use crate::seat::{
    CatalogChange, Joined, Left, NO_STATEMENT, PATIENCE, Seat, Watched, Wish, patience,
};
use crate::undo::Mark;
use crate::undo::changed_rows::{ChangedRows, PartitionChanges};
use arrow::array::ArrayRef;
use halcyon_base::clock::{self, Moment};
use halcyon_base::duty;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::{PartitionId, RowId, TxnId};
use halcyon_store::{AppendError, Conflict, Partition, ValueRef};
use std::fmt;
use std::ops::Range;
use std::task::{Context, Poll};

/// A point to which the transaction can go back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    mark: Mark,
    commit_hooks: usize,
    rollback_hooks: usize,
}

const ENDED: &str = "a transaction has its seat until it ends";

/// A transaction. Rolled back when dropped.
///
/// Statements are bracketed by [`Transaction::begin_statement`] and
/// [`Transaction::end_statement`]; locks and rows are reached between the two.
/// Panics: methods that reach locks or rows, outside a statement.
pub struct Transaction {
    /// `None` once it has ended.
    seat: Option<Box<Seat>>,
    pool: Arc<Pool>,
    id: TxnId,
    isolation: Isolation,
    /// The partition whose upgrade met other readers, until somebody asks.
    contended_upgrade: Option<PartitionId>,
}

impl Transaction {
    pub(crate) fn begin(seat: Box<Seat>, pool: Arc<Pool>, id: TxnId, isolation: Isolation) -> Self {
        let in_circle = &seat.participant.in_circle;
        if in_circle.load(Ordering::Relaxed) {
            in_circle.store(false, Ordering::Relaxed);
        }
        Transaction { seat: Some(seat), pool, id, isolation, contended_upgrade: None }
    }

    pub(crate) fn center(&self) -> &Center {
        &self.pool.center
    }

    /// The transaction's number.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Tells how many transactions in a row the same client has lost to deadlocks before this one, which
    /// is less likely to be a victim for each of them.
    pub fn set_losses(&mut self, losses: u32) {
        self.seat().participant.published.losses(losses);
    }

    /// The isolation level that the transaction was begun with.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    #[inline]
    fn seat(&mut self) -> &mut Seat {
        self.seat.as_mut().expect(ENDED)
    }

    #[inline]
    fn body(&self) -> &Body {
        self.seat.as_ref().expect(ENDED).body.as_ref().expect(NO_STATEMENT)
    }

    #[inline]
    fn body_mut(&mut self) -> &mut Body {
        self.seat().body.as_mut().expect(NO_STATEMENT)
    }

    // ------------------------------------------------------------------ statements

    /// Begins a statement.
    #[inline]
    pub fn begin_statement(&mut self) {
        let seat = self.seat();
        if seat.body.is_none() {
            seat.rouse();
        }
        seat.participant.published.state(TransactionState::Running);
    }

    /// Panics unless the invariants of its undo log and of the partitions that it has changed hold.
    /// O(rows): for tests.
    pub fn check(&self) {
        let body = self.body();
        body.undo.check();
        for held in &body.held {
            if let Hold::Exclusive(guard) = &held.hold {
                guard.check();
            }
        }
    }

    /// Ends a statement, failed or not: pending cuts are fulfilled, and READ COMMITTED gives its
    /// shared locks back.
    #[inline]
    pub fn end_statement(&mut self) {
        self.abandon_place();
        let isolation = self.isolation;
        let seat = self.seat();
        let body = seat.body.as_mut().expect(NO_STATEMENT);
        if !isolation.keeps_shared_locks() {
            body.release_shared(&seat.participant.published);
        }
        if body.exclusive_count > 0 {
            seat.publish_undo();
            seat.rest();
        }
        seat.participant.published.state(TransactionState::Idle);
    }

    /// Fulfils the cuts that are pending at this transaction. Row changes do so by themselves; a
    /// long statement may call this where it does something else for long.
    #[inline]
    pub fn serve_cuts(&mut self) {
        let seat = self.seat();
        seat.publish_undo();
        // A hint; a cut that the hint misses is found at the end of the statement.
        if seat.participant.cuts_pending.load(Ordering::Relaxed) {
            seat.fulfil_cuts();
        }
    }

    /// Runs a part of a statement that does not touch the transaction. Cuts find the transaction at rest meanwhile, also
    /// cuts that the part itself takes.
    pub fn resting<R>(&mut self, part: impl FnOnce() -> R) -> R {
        let seat = self.seat();
        seat.publish_undo();
        seat.rest();
        let _resting = Resting(seat);
        part()
    }

    /// Lays the transaction down within a statement that waits for its client; [`Transaction::begin_statement`] takes
    /// the transaction up again. Cuts find the transaction at rest meanwhile.
    pub fn rest(&mut self) {
        let seat = self.seat();
        if seat.body.as_ref().is_some_and(|body| body.exclusive_count > 0) {
            seat.publish_undo();
            seat.rest();
        }
    }

    /// Whether the transaction may have changed rows: it holds a partition exclusively.
    #[inline]
    pub fn may_have_changed(&self) -> bool {
        self.body().exclusive_count > 0
    }

    /// As [`Transaction::serve_cuts`], without missing one whose moment came before the transaction's last
    /// lock.
    pub(crate) fn serve_all_cuts(&mut self) {
        self.seat().fulfil_cuts();
    }

    // ------------------------------------------------------------------ locks

    /// Locks a partition, waiting for others if need be. Asking again for a lock that is held costs
    /// a look-up; asking [`Mode::Exclusive`] for a lock held shared waits for the other readers.
    /// Errors: [`LockError`]; the locks are as before.
    #[inline]
    pub fn lock(
        &mut self,
        cell: &Arc<PartitionCell>,
        mode: Mode,
        limits: &WaitLimits<'_>,
    ) -> Result<LockHandle, LockError> {
        self.abandon_place();
        match self.try_lock(cell, mode) {
            Some(handle) => Ok(handle),
            None => self.wait_for(cell, mode, limits),
        }
    }

    /// The partition that the transaction held shared and had to wait for, or could not have, when it
    /// asked for it exclusively. Asking forgets it.
    #[inline]
    pub fn take_contended_upgrade(&mut self) -> Option<PartitionId> {
        self.contended_upgrade.take()
    }

    /// Whether a wait of the transaction has been part of a deadlock, which ended it or another. Asking forgets it.
    #[inline]
    pub fn take_in_circle(&mut self) -> bool {
        let in_circle = &self.seat().participant.in_circle;
        let met = in_circle.load(Ordering::Relaxed);
        if met {
            in_circle.store(false, Ordering::Relaxed);
        }
        met
    }

    /// Locks a partition if that needs no wait.
    pub fn try_lock(&mut self, cell: &PartitionCell, mode: Mode) -> Option<LockHandle> {
        let seat = self.seat();
        let me = seat.participant.id;
        let body = seat.body.as_mut().expect(NO_STATEMENT);
        let handle = match body.find(cell.id) {
            Some(handle) if body.mode(handle) >= mode => return Some(handle),
            Some(handle) => {
                let upgraded = body.take_shared(handle).try_upgrade(me);
                let (hold, done) = match upgraded {
                    Ok(guard) => (Hold::Exclusive(guard), true),
                    Err(guard) => (Hold::Shared(guard), false),
                };
                body.held[handle.0 as usize].hold = hold;
                body.exclusive_count += usize::from(done);
                done.then_some(handle)?
            }
            None => {
                let share = cell.share(seat.participant.slot);
                let hold = match mode {
                    Mode::Shared => Hold::Shared(share.try_shared(me)?),
                    Mode::Exclusive => Hold::Exclusive(share.try_exclusive(me)?),
                };
                body.add(cell.id, hold)
            }
        };
        seat.participant.publish_lock(handle, Some((cell.id, mode)));
        Some(handle)
    }

    /// Asks for a lock without keeping the thread: `None` if the transaction stands in the lock's queue, at
    /// rest. Once [`Transaction::poll_wait`] is ready, asking again gives the lock or says why not; the
    /// limits are those of the first time. Asking for another lock leaves the queue.
    /// Errors: [`LockError`]; the locks are as before, and the transaction stands in no queue.
    #[inline]
    pub fn ask(
        &mut self,
        cell: &Arc<PartitionCell>,
        mode: Mode,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<LockHandle>, LockError> {
        if self.seat().place.is_none()
            && let Some(handle) = self.try_lock(cell, mode)
        {
            return Ok(Some(handle));
        }
        self.ask_in_queue(cell, mode, limits)
    }

    #[cold]
    fn ask_in_queue(
        &mut self,
        cell: &PartitionCell,
        mode: Mode,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<LockHandle>, LockError> {
        let is_same = |wish: &Wish| wish.share.id() == cell.id && wish.want.mode() == mode;
        let wish = match &self.seat().place {
            Some(place) if is_same(&place.wish) => match self.go_on_waiting()? {
                None => return Ok(None),
                Some(Left::Granted(wish)) => return Ok(Some(self.seat().enter(wish))),
                Some(Left::Refused(wish)) => wish,
            },
            _ => {
                self.abandon_place();
                if let Some(handle) = self.try_lock(cell, mode) {
                    return Ok(Some(handle));
                }
                self.wish(cell, mode)
            }
        };
        let deadline = limits.timeout.map(|timeout| clock::now().plus(timeout));
        match self.join_queue(wish)? {
            Joined::Granted(wish) => Ok(Some(self.seat().enter(wish))),
            Joined::Waits(_) => {
                let seat = self.seat();
                limits.cancel.enlist(&seat.participant.granted);
                let place = seat.place.as_mut().expect("it has just joined");
                place.watched = Some(Watched { cancel: limits.cancel.clone(), deadline });
                Ok(None)
            }
        }
    }

    /// What has become of the wait, or the body back to rest.
    fn go_on_waiting(&mut self) -> Result<Option<Left>, LockError> {
        let seat = self.seat();
        match seat.wait_ended() {
            Some(waited) => self.leave_queue(waited).map(Some),
            None => {
                if seat.body.is_some() {
                    seat.rest();
                    seat.participant.published.state(TransactionState::Waiting);
                }
                Ok(None)
            }
        }
    }

    /// Ready once the wait of [`Transaction::ask`] has ended, whether the lock has come, the wait was
    /// cancelled or it has lasted too long; at once if the transaction stands in no queue. A limit of time
    /// is the caller's to watch: [`Transaction::wait_deadline`].
    pub fn poll_wait(&self, context: &mut Context<'_>) -> Poll<()> {
        let seat = self.seat.as_ref().expect(ENDED);
        if seat.place.is_none() {
            return Poll::Ready(());
        }
        let early = planted::is(planted::LATE_WAKER).then(|| seat.wait_ended());
        seat.participant.granted.watch(context);
        match early.unwrap_or_else(|| seat.wait_ended()) {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    }

    /// When the wait of [`Transaction::ask`] has lasted too long.
    pub fn wait_deadline(&self) -> Option<Moment> {
        let place = self.seat.as_ref().expect(ENDED).place.as_ref()?;
        place.watched.as_ref()?.deadline
    }

    /// What asking for a lock in the queue would be.
    fn wish(&mut self, cell: &PartitionCell, mode: Mode) -> Wish {
        let seat = self.seat();
        let held = seat.body.as_ref().expect(NO_STATEMENT).find(cell.id);
        let want = match (mode, held) {
            (Mode::Shared, _) => Want::Shared,
            (Mode::Exclusive, None) => Want::Exclusive,
            (Mode::Exclusive, Some(_)) => Want::Upgrade,
        };
        let share = Arc::clone(cell.share(seat.participant.slot));
        if want == Want::Upgrade {
            self.contended_upgrade = Some(cell.id);
        }
        Wish { share, want, held }
    }

    fn join_queue(&mut self, wish: Wish) -> Result<Joined, LockError> {
        let (id, pool) = (self.id, Arc::clone(&self.pool));
        let seat = self.seat();
        seat.publish_undo();
        seat.participant.published.state(TransactionState::Waiting);
        let joined = seat.join_queue(wish, id, &pool.center.waits);
        match joined {
            Ok(Joined::Waits(_)) => {
                if let Some((_, session)) = seat.participant.published.identity() {
                    pool.center.tell_of_wait(session);
                }
            }
            _ => seat.participant.published.state(TransactionState::Running),
        }
        joined
    }

    fn leave_queue(&mut self, waited: Waited) -> Result<Left, LockError> {
        let pool = Arc::clone(&self.pool);
        let seat = self.seat();
        seat.participant.published.state(TransactionState::Running);
        seat.leave_queue(waited, &pool.center.waits)
    }

    /// Leaves the queue in which the transaction stands, if it does. A lock that has come is held.
    #[inline]
    fn abandon_place(&mut self) {
        if self.seat().place.is_some() && !planted::is(planted::PLACE_LEFT_BEHIND) {
            self.abandon();
        }
    }

    #[cold]
    fn abandon(&mut self) {
        if let Ok(Left::Granted(wish)) = self.leave_queue(Waited::Cancelled) {
            self.seat().enter(wish);
        }
    }

    /// Stands in the queue until the lock is granted or the wait is given up.
    #[cold]
    fn wait_for(
        &mut self,
        cell: &PartitionCell,
        mode: Mode,
        limits: &WaitLimits<'_>,
    ) -> Result<LockHandle, LockError> {
        let mut wish = self.wish(cell, mode);
        loop {
            let position = match self.join_queue(wish)? {
                Joined::Granted(wish) => return Ok(self.seat().enter(wish)),
                Joined::Waits(position) => position,
            };
            let granted = &self.seat().participant.granted;
            let waited = granted.wait(limits, patience(position), PATIENCE);
            wish = match self.leave_queue(waited)? {
                Left::Granted(wish) => return Ok(self.seat().enter(wish)),
                Left::Refused(wish) => wish,
            };
        }
    }

    // ------------------------------------------------------------------ rows

    /// The locked partition, with this transaction's own changes.
    #[inline]
    pub fn read(&self, handle: LockHandle) -> &Partition {
        self.body().root(handle)
    }

    /// A snapshot of a locked partition, with this transaction's own changes: for a scan that
    /// runs on other threads or beside further changes of the same statement.
    pub fn root(&self, handle: LockHandle) -> triomphe::Arc<Partition> {
        triomphe::Arc::new(self.read(handle).clone())
    }

    /// Inserts a row.
    #[inline]
    pub fn insert(
        &mut self,
        handle: LockHandle,
        values: &[ValueRef<'_>],
    ) -> Result<RowId, Conflict> {
        self.insert_by(handle, |root| root.insert(values))
    }

    /// As [`Transaction::insert`], but lets keys repeat until [`Partition::check_unique`] at the
    /// end of the statement.
    #[inline]
    pub fn insert_unchecked(&mut self, handle: LockHandle, values: &[ValueRef<'_>]) -> RowId {
        let inserted = self.insert_by(handle, |root| Ok(root.insert_unchecked(values)));
        inserted.expect("nothing was checked")
    }

    #[inline]
    fn insert_by(
        &mut self,
        handle: LockHandle,
        insert: impl FnOnce(&mut Partition) -> Result<RowId, Conflict>,
    ) -> Result<RowId, Conflict> {
        self.serve_cuts();
        let body = self.body_mut();
        let recorded = body.records_rows(handle);
        let (root, undo) = body.parts(handle);
        let row = insert(root)?;
        if recorded {
            undo.inserted(handle.0, row);
        }
        Ok(row)
    }

    /// Changes some columns of a row.
    ///
    /// Panics: if there is no such row.
    #[inline]
    pub fn update(
        &mut self,
        handle: LockHandle,
        row: RowId,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) -> Result<(), Conflict> {
        self.update_by(handle, row, columns, |root| root.update(row, columns, values))
    }

    /// As [`Transaction::update`], but lets keys repeat until [`Partition::check_unique`] at the
    /// end of the statement: `UPDATE t SET id = id + 1` needs it.
    #[inline]
    pub fn update_unchecked(
        &mut self,
        handle: LockHandle,
        row: RowId,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) {
        let update = |root: &mut Partition| {
            root.update_unchecked(row, columns, values);
            Ok(())
        };
        self.update_by(handle, row, columns, update).expect("nothing was checked");
    }

    #[inline]
    fn update_by(
        &mut self,
        handle: LockHandle,
        row: RowId,
        columns: &[u16],
        update: impl FnOnce(&mut Partition) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        self.serve_cuts();
        let body = self.body_mut();
        let recorded = body.records_rows(handle);
        let (root, undo) = body.parts(handle);
        if !recorded {
            return update(root);
        }
        let before = undo.save_columns(root.row(row).expect(NO_ROW), columns);
        let updated = update(root);
        match updated {
            Ok(()) => undo.updated(handle.0, row, before),
            Err(_) => undo.forget(before),
        }
        updated
    }

    /// Deletes a row. False if there is no such row.
    pub fn delete(&mut self, handle: LockHandle, row: RowId) -> bool {
        self.serve_cuts();
        let body = self.body_mut();
        let recorded = body.records_rows(handle);
        let (root, undo) = body.parts(handle);
        let Some(image) = root.row(row) else {
            return false;
        };
        if recorded {
            let before = undo.save_row(image, root.schema().columns.len());
            undo.deleted(handle.0, row, before);
        }
        assert!(root.delete(row), "the row was there");
        true
    }

    /// Appends whole columns, or nothing on an error. The root is kept, so undoing costs nothing.
    pub fn append(
        &mut self,
        handle: LockHandle,
        columns: &[ArrayRef],
    ) -> Result<Range<u32>, AppendError> {
        self.serve_cuts();
        let body = self.body_mut();
        let before = body.parts(handle).0.clone();
        body.keep_root(handle, before);
        body.parts(handle).0.append(columns)
    }

    /// Changes the partition as a whole: its indexes, its columns, all its rows. An error leaves
    /// it as it was.
    pub fn alter<R, E>(
        &mut self,
        handle: LockHandle,
        change: impl FnOnce(&mut Partition) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut changed = self.read(handle).clone();
        let result = self.resting(|| change(&mut changed))?;
        let body = self.body_mut();
        let (root, _) = body.parts(handle);
        let before = std::mem::replace(root, changed);
        body.keep_root(handle, before);
        Ok(result)
    }

    // ------------------------------------------------------------------ what follows the rows

    /// The partition, if this transaction has locked it exclusively.
    #[inline]
    pub fn held_exclusively(&self, cell: &PartitionCell) -> Option<LockHandle> {
        let body = self.body();
        body.find(cell.id).filter(|handle| body.mode(*handle) == Mode::Exclusive)
    }

    /// Whether this transaction has locked the partition, in either mode.
    pub fn holds(&self, cell: &PartitionCell) -> bool {
        self.body().find(cell.id).is_some()
    }

    /// Begins a search for changed rows at `since`: nothing is found yet.
    ///
    /// `since` must have been taken after the transaction's last change of another statement, or
    /// be the last savepoint: a root that is kept stands for all changes up to the next one.
    pub fn changed_rows_since(&self, since: &Savepoint) -> ChangedRows {
        ChangedRows::since(since.mark)
    }

    /// Finds the rows that this transaction has changed, in any partition, since `changed` was last
    /// given here, and adds them to those found before. One pass over the notes that are new.
    /// A partition must not change between two calls if it changed before the first.
    pub fn find_changed_rows(&self, changed: &mut ChangedRows) {
        let body = self.body();
        body.undo.find_changed_rows(changed, |held| body.root(LockHandle(held)));
    }

    /// The rows of some partitions that this transaction has changed since the savepoint `since`.
    ///
    /// `since` must be from the beginning of a statement. Panics: if columns of one of the partitions
    /// have changed since.
    pub fn changed_rows_in(&self, partitions: &[LockHandle], since: &Savepoint) -> ChangedRows {
        let body = self.body();
        let mut changed = ChangedRows::since(since.mark);
        let is_asked = |held| partitions.contains(&LockHandle(held));
        let root = |held| body.root(LockHandle(held));
        body.undo.find_changed_rows_where(&mut changed, is_asked, root);
        changed
    }

    /// Whether a row of the partition is among those that were found.
    pub fn has_changed_rows(&self, changed: &ChangedRows, handle: LockHandle) -> bool {
        changed.has(handle.0)
    }

    /// The rows of a partition that were found, to be read as they were and as they are.
    pub fn changed_rows_of<'t>(
        &'t self,
        changed: &'t ChangedRows,
        handle: LockHandle,
    ) -> PartitionChanges<'t> {
        let body = self.body();
        changed.of(handle.0, &body.undo, body.root(handle))
    }

    /// Brings a partition of derived rows up to date with commits that came before. This is no
    /// change of the transaction: a rollback does not undo it, and the log does not have it.
    ///
    /// Panics: if the transaction has changed the partition, or the partition is logged.
    pub fn settle<R>(&mut self, handle: LockHandle, change: impl FnOnce(&mut Partition) -> R) -> R {
        // No cut is served here: it would show this partition settled beside others that are not yet.
        let body = self.body_mut();
        assert!(
            !body.undo.has_changed(handle.0),
            "only what nobody has changed is brought up to date"
        );
        if let Hold::Exclusive(guard) = &body.held[handle.0 as usize].hold {
            assert!(!guard.is_logged(), "the log would not know of it");
        }
        change(body.parts(handle).0)
    }

    // ------------------------------------------------------------------ savepoints, hooks, end

    /// The present state of the transaction's changes, to go back to. Locks are not part of it.
    pub fn savepoint(&mut self) -> Savepoint {
        let seat = self.seat();
        let body = seat.body.as_mut().expect(NO_STATEMENT);
        body.epoch += 1;
        Savepoint {
            mark: body.undo.mark(),
            commit_hooks: seat.commit_hooks.len(),
            rollback_hooks: seat.rollback_hooks.len(),
        }
    }

    /// Undoes all changes since `savepoint` and forgets the hooks since then; later savepoints are
    /// void. Keeps all locks.
    ///
    /// Panics: if `savepoint` is void and that can be seen.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.abandon_place();
        self.serve_cuts();
        let seat = self.seat();
        seat.undo_to(savepoint.mark);
        seat.commit_hooks.truncate(savepoint.commit_hooks);
        for hook in seat.rollback_hooks.drain(savepoint.rollback_hooks..).rev() {
            hook();
        }
    }

    /// How many changes an undo to the beginning would take back; kept roots count as one.
    pub fn change_count(&self) -> usize {
        self.body().undo.records_since(&Mark::default())
    }

    /// Runs `hook` when the transaction commits, in the order of calls: after the decision, before
    /// any other transaction sees its changes. The catalog is published by such a hook.
    ///
    /// The hook runs under the latches of all partitions locked exclusively, so that a cut sees the
    /// hook's effect and the changes together. A hook must be short, and must not lock or cut.
    pub fn on_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.seat().commit_hooks.push(Box::new(hook));
    }

    /// Runs `hook` when the changes are undone, latest first: by a rollback, or by going back to
    /// an earlier savepoint. Locks are still held.
    pub fn on_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.seat().rollback_hooks.push(Box::new(hook));
    }

    /// Makes all changes visible at one moment and gives all locks back: [`Transaction::try_commit`]
    /// for managers without a log.
    ///
    /// Panics: if there is a log that refuses the commit.
    pub fn commit(self) {
        self.try_commit(None).expect("without a log nothing refuses a commit");
    }

    /// Writes all changes to the log, if there is one, makes them visible at one moment and gives
    /// all locks back. `catalog` is the transaction's change of the catalog, if there is one.
    ///
    /// Returns the LSN up to which the log must be durable before any client may be told of the
    /// commit: before it stand the transaction's own changes and all commits that it has read.
    /// [`Lsn`] 0 without a log.
    /// Errors: the log takes no commits; the transaction is rolled back.
    pub fn try_commit(mut self, catalog: Option<CatalogChange>) -> Result<Lsn, LogError> {
        self.abandon_place();
        let mut seat = self.seat.take().expect(ENDED);
        seat.rouse_if_at_rest();
        duty::relieved_if(seat.has_long_end(), || self.commit_seat(seat, catalog))
    }

    fn commit_seat(
        mut self,
        mut seat: Box<Seat>,
        catalog: Option<CatalogChange>,
    ) -> Result<Lsn, LogError> {
        let lsn = match &self.pool.center.log {
            None => {
                seat.rollback_hooks.clear();
                seat.end(None)
            }
            Some(log) => {
                let mut redo = std::mem::take(&mut seat.redo);
                seat.encode(catalog.as_ref(), &mut redo);
                if redo.encoder.is_refused() {
                    redo.clear();
                    seat.redo = redo;
                    self.seat = Some(seat);
                    return Err(LogError::Memory);
                }
                let record = redo.encoder.finish();
                if record.is_some()
                    && let Err(refused) = log.admit()
                {
                    seat.redo = redo;
                    self.seat = Some(seat);
                    return Err(refused);
                }
                let record = record.map(|record| Payload::new(FrameKind::Commit, record));
                seat.rollback_hooks.clear();
                let lsn = seat.end(record.as_ref().map(|record| (&**log, record)));
                drop(record);
                redo.clear();
                seat.redo = redo;
                lsn
            }
        };
        self.pool.give_back(seat);
        Ok(lsn)
    }

    /// Undoes all changes and gives all locks back.
    pub fn rollback(self) {
        drop(self);
    }

    /// As [`Transaction::rollback`], for a transaction that goes on to be one: nothing is changed or locked
    /// by it, as at its beginning. Outside of statements.
    pub fn give_up(&mut self) {
        self.abandon_place();
        let id = self.id;
        let seat = self.seat();
        seat.undo_and_end();
        seat.participant.published.go_on(id);
    }
}

/// A seat whose body is at rest, until this value is dropped.
struct Resting<'a>(&'a mut Seat);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.rouse();
    }
}

const NO_ROW: &str = "a row that is changed has been found under the lock";

impl Drop for Transaction {
    fn drop(&mut self) {
        // A commit has taken the seat already.
        if self.seat.is_none() {
            return;
        }
        self.abandon_place();
        let mut seat = self.seat.take().expect(ENDED);
        seat.undo_and_end();
        self.pool.give_back(seat);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Transaction");
        shown.field("id", &self.id).field("isolation", &self.isolation).finish_non_exhaustive()
    }
}
