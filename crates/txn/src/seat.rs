//! A seat: a participant with its buffers, kept between transactions. Here is what a transaction does
//! at rest, while it waits for a lock, and in the moment in which it ends.

use crate::body::{Body, Hold, LockHandle};
use crate::cell::{ExclusiveGuard, PartitionCell, Share, SharedGuard, release_together};
use crate::deadlock::{WaitGraph, Waiting};
use crate::event::{CancelToken, Patience, Waited};
use crate::lock::{Rank, Want, standby};
use crate::lock_error::LockError;
use crate::log::{Log, Lsn, Payload};
use crate::participant::Participant;
use crate::planted;
use crate::redo::Redo;
use crate::undo::Mark;
use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::sync::{Arc, Mutex};
use halcyon_base::{PartitionId, TxnId, duty};
use halcyon_store::Partition;
use std::collections::BTreeSet;

/// Before a waiter for a lock sleeps whose turn comes soon: a few microseconds of looking, then some
/// hundred on a core that nobody else wants.
pub(crate) const PATIENCE: Patience = match cfg!(shuttle) {
    true => Patience { looks: 1, offers: 0 },
    false => Patience { looks: 100, offers: 300 },
};

/// A waiter with others before it sleeps at once, until it is alerted.
const ASLEEP: Patience = Patience { looks: 0, offers: 0 };

/// How long a thread looks with so many waiters before it.
pub(crate) fn patience(position: usize) -> Patience {
    if position < standby() { PATIENCE } else { ASLEEP }
}

pub(crate) const NO_STATEMENT: &str = "rows and locks are reached only in a statement";

/// A transaction's change of the catalog, which is bytes to this crate.
#[derive(Default)]
pub struct CatalogChange {
    /// The bytes from which recovery makes the new catalog out of the one before.
    pub catalog: Vec<u8>,
    /// Partitions that exist from the commit on.
    pub created: Vec<Arc<PartitionCell>>,
    /// Partitions that do not exist any more. The transaction holds them exclusively.
    pub dropped: Vec<PartitionId>,
    /// Partitions that were there before and still are. Other partitions that the transaction has
    /// changed it made and dropped itself; no record names these.
    pub kept: BTreeSet<PartitionId>,
}

/// What runs when a transaction commits or is undone.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// Changes of a transaction whose commit or rollback is over within some 100 microseconds.
const CHANGES_OF_SHORT_END: usize = 500;

/// Changes that are undone between two looks for cuts: some 100 microseconds.
const UNDO_STRETCH: usize = if cfg!(shuttle) { 1 } else { 500 };

/// The lock that a participant asks for.
pub(crate) struct Wish {
    pub(crate) share: Arc<Share>,
    pub(crate) want: Want,
    /// The same lock held shared, of an upgrade.
    pub(crate) held: Option<LockHandle>,
}

/// A place in the queue of a lock.
pub(crate) struct Place {
    pub(crate) wish: Wish,
    rank: Rank,
    /// The participant holds nothing.
    lone: bool,
    /// `None` of a thread, which keeps its limits itself.
    pub(crate) watched: Option<Watched>,
}

/// The limits of a wait that a task watches.
pub(crate) struct Watched {
    pub(crate) cancel: CancelToken,
    pub(crate) deadline: Option<Moment>,
}

impl Watched {
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline.since(clock::now()).is_zero())
    }
}

/// The outcome of joining a queue.
pub(crate) enum Joined {
    Granted(Wish),
    /// So many waiters stand before.
    Waits(usize),
}

/// The outcome of leaving a queue.
pub(crate) enum Left {
    Granted(Wish),
    /// Without the lock, so that others pass: the wait begins again.
    Refused(Wish),
}

/// Takes a waiter out of the queue. False if its lock was granted before.
fn withdraw(share: &Share, rank: Rank) -> bool {
    let mut latch = share.latch();
    let left = latch.lock.withdraw(rank);
    let granted = latch.lock.serve();
    drop(latch);
    granted.wake();
    left
}

/// A participant and its buffers.
pub(crate) struct Seat {
    pub(crate) participant: Arc<Participant>,
    /// `None` while it is at rest.
    pub(crate) body: Option<Box<Body>>,
    /// Where it waits for a lock.
    pub(crate) place: Option<Place>,
    releasing: Vec<ExclusiveGuard>,
    pub(crate) commit_hooks: Vec<Hook>,
    pub(crate) rollback_hooks: Vec<Hook>,
    pub(crate) redo: Redo,
}

impl Seat {
    pub(crate) fn new(participant: Arc<Participant>) -> Self {
        Seat {
            participant,
            body: Some(Box::default()),
            place: None,
            releasing: Vec::new(),
            commit_hooks: Vec::new(),
            rollback_hooks: Vec::new(),
            redo: Redo::default(),
        }
    }

    /// Says how many changes there are so far.
    #[inline]
    pub(crate) fn publish_undo(&self) {
        let body = self.body.as_ref().expect(NO_STATEMENT);
        self.participant
            .published
            .undo(body.undo.records_since(&Mark::default()), body.undo.bytes());
    }

    /// Whether there is so much to write to the log or to undo that a commit or rollback lasts.
    pub(crate) fn has_long_end(&self) -> bool {
        let body = self.body.as_ref().expect(NO_STATEMENT);
        body.undo.records_since(&Mark::default()) > CHANGES_OF_SHORT_END
    }

    /// Lays the body down where requesters of cuts find it, after serving the requests that are
    /// there.
    pub(crate) fn rest(&mut self) {
        let body = self.body.take().expect(NO_STATEMENT);
        let mut at_rest = self.participant.at_rest.lock();
        if !at_rest.cuts.is_empty() {
            body.fulfil(self.participant.take_cuts(&mut at_rest));
        }
        at_rest.body = Some(body);
    }

    /// Takes the body back.
    #[inline]
    pub(crate) fn rouse(&mut self) {
        let body = self.participant.at_rest.lock().body.take();
        self.body = Some(body.expect("a body that is not in use is at rest"));
    }

    pub(crate) fn rouse_if_at_rest(&mut self) {
        if self.body.is_none() {
            self.rouse();
        }
    }

    #[cold]
    pub(crate) fn fulfil_cuts(&mut self) {
        let cuts = self.participant.take_cuts(&mut self.participant.at_rest.lock());
        self.body.as_ref().expect(NO_STATEMENT).fulfil(cuts);
    }

    /// Joins the queue of a lock. The body is at rest then, unless the lock was granted at once.
    ///
    /// Errors: the wait would never end; the seat is in no queue.
    pub(crate) fn join_queue(
        &mut self,
        wish: Wish,
        txn: TxnId,
        waits: &Mutex<WaitGraph>,
    ) -> Result<Joined, LockError> {
        let participant = Arc::clone(&self.participant);
        // A waiter that holds nothing is part of a cycle only because another stands behind it: it
        // lets those behind pass, and is no victim.
        let lone = participant.published.holds_nothing();
        loop {
            participant.granted.clear();
            let mut latch = wish.share.latch();
            let (slot, granted) = (wish.share.slot(), &participant.granted);
            let (rank, position) =
                latch.lock.enqueue(wish.want, slot, participant.id, !lone, granted);
            // The lock may have become free since the first attempt.
            let granted = latch.lock.serve();
            drop(latch);
            granted.wake();
            if participant.granted.is_set() {
                return Ok(Joined::Granted(wish));
            }
            let waiting = Waiting {
                participant: Arc::clone(&participant),
                txn,
                partition: wish.share.id(),
                want: wish.want,
                rank,
            };
            let registered = waits.lock().register(waiting);
            let Err(deadlock) = registered else {
                self.rest();
                self.place = Some(Place { wish, rank, lone, watched: None });
                return Ok(Joined::Waits(position));
            };
            match (withdraw(&wish.share, rank), lone) {
                (false, _) => return Ok(Joined::Granted(wish)),
                (true, true) => {}
                (true, false) => return Err(LockError::Deadlock(deadlock)),
            }
        }
    }

    /// Leaves the queue after a wait that ended so. The body is back in any case. The wish if the lock was
    /// granted, which is not entered yet if it is exclusive; or that the wait has to begin again.
    pub(crate) fn leave_queue(
        &mut self,
        waited: Waited,
        waits: &Mutex<WaitGraph>,
    ) -> Result<Left, LockError> {
        let Place { wish, rank, lone, watched } = self.place.take().expect("it stands in a queue");
        let participant = &self.participant;
        if let Some(Watched { cancel, .. }) = watched {
            cancel.delist(&participant.granted);
        }
        waits.lock().leave(participant.id);
        // Behind `leave` nobody chooses this waiter any more.
        let deadlock = participant.deadlock.lock().take();
        self.rouse_if_at_rest();
        let error = match waited {
            Waited::Set => return Ok(Left::Granted(wish)),
            Waited::TimedOut => LockError::Timeout,
            Waited::Cancelled => LockError::Cancelled,
            Waited::Refused => LockError::Deadlock(deadlock.expect("a refused wait is told why")),
        };
        // A grant that came before this waiter could leave counts.
        if !withdraw(&wish.share, rank) {
            return Ok(Left::Granted(wish));
        }
        match (error, lone) {
            (LockError::Deadlock(_), true) => Ok(Left::Refused(wish)),
            (error, _) => Err(error),
        }
    }

    /// How the wait has ended, if it has.
    pub(crate) fn wait_ended(&self) -> Option<Waited> {
        let place = self.place.as_ref().expect("it stands in a queue");
        let watched = place.watched.as_ref().expect("the wait is watched");
        let ended = self.participant.granted.ended();
        ended
            .or_else(|| watched.cancel.is_cancelled().then_some(Waited::Cancelled))
            .or_else(|| watched.is_late().then_some(Waited::TimedOut))
    }

    /// Adds a lock that was granted to those that are held.
    pub(crate) fn enter(&mut self, wish: Wish) -> LockHandle {
        let Wish { share, want, held } = wish;
        let me = self.participant.id;
        let body = self.body.as_mut().expect("a waiter takes its body back");
        let handle = match (want, held) {
            (Want::Shared, _) => body.add(share.id(), Hold::Shared(SharedGuard::granted(&share))),
            (_, None) => body.add(share.id(), Hold::Exclusive(ExclusiveGuard::enter(&share, me))),
            (_, Some(handle)) => {
                let guard = body.take_shared(handle).enter_upgraded(me);
                body.held[handle.0 as usize].hold = Hold::Exclusive(guard);
                body.exclusive_count += 1;
                handle
            }
        };
        self.participant.publish_lock(handle, Some((share.id(), want.mode())));
        handle
    }

    /// Makes the log record of the transaction's changes.
    pub(crate) fn encode(&self, catalog: Option<&CatalogChange>, redo: &mut Redo) {
        redo.encoder.begin(catalog.map(|change| change.catalog.as_slice()));
        let body = self.body.as_ref().expect("roused before");
        for (position, held) in body.held.iter().enumerate() {
            let Hold::Exclusive(guard) = &held.hold else {
                continue;
            };
            let id = held.partition;
            if guard.is_logged() && catalog.is_none_or(|change| change.kept.contains(&id)) {
                body.undo.redo(position as u32, id, guard, redo);
            }
        }
        let Some(CatalogChange { created, dropped, .. }) = catalog else {
            return;
        };
        for cell in created {
            let mut whole = |root: &Partition| match cell.is_logged() {
                true => redo.whole(cell.id, root),
                false => redo.whole(cell.id, &root.without_rows()),
            };
            match body.find(cell.id) {
                Some(handle) => whole(body.root(handle)),
                None => {
                    let root = cell.latch().free_root();
                    whole(&root.expect("nobody else knows a new partition"));
                }
            }
        }
        dropped.iter().for_each(|&id| redo.encoder.drop(id));
    }

    /// Undoes all changes above `mark`. Cuts wait for a stretch of it at most.
    pub(crate) fn undo_to(&mut self, mark: Mark) {
        loop {
            let body = self.body.as_mut().expect(NO_STATEMENT);
            let next = body.undo.stretch(mark, UNDO_STRETCH);
            body.undo_to(next);
            if next == mark {
                return;
            }
            if self.participant.cuts_pending.load(Ordering::Relaxed) {
                self.fulfil_cuts();
            }
        }
    }

    /// Undoes all changes, gives everything back and makes the seat ready for the next transaction.
    pub(crate) fn undo_and_end(&mut self) {
        self.rouse_if_at_rest();
        // Undoing may take long; a cut need not wait for it.
        self.fulfil_cuts();
        self.commit_hooks.clear();
        duty::relieved_if(self.has_long_end(), || {
            self.undo_to(Mark::default());
            for hook in self.rollback_hooks.drain(..).rev() {
                hook();
            }
            self.end(None);
        });
    }

    /// Gives everything back and makes the seat ready for the next transaction. Returns up to
    /// where the log holds what it has changed and read.
    pub(crate) fn end(&mut self, log: Option<(&Log, &Payload<'_>)>) -> Lsn {
        let Seat { participant, body, releasing, commit_hooks, rollback_hooks, .. } = self;
        let body = body.as_mut().expect("a transaction ends with its body at hand");
        debug_assert!(rollback_hooks.is_empty());
        if planted::is(planted::READ_LOCKS_FIRST) {
            body.release_shared(&participant.published);
        }
        for (position, held) in body.held.iter_mut().enumerate() {
            if matches!(held.hold, Hold::Exclusive(_)) {
                participant.publish_lock(LockHandle(position as u32), None);
                if let Hold::Exclusive(guard) = std::mem::replace(&mut held.hold, Hold::Released) {
                    body.read = body.read.max(guard.changed());
                    releasing.push(guard);
                }
            }
        }
        if releasing.is_empty() {
            // A reader: nothing becomes visible, and no cut can be pending here.
            assert!(log.is_none(), "whoever changes something holds it exclusively");
            commit_hooks.drain(..).for_each(|hook| hook());
            body.release_shared(&participant.published);
            let read = body.read;
            body.clear();
            participant.published.end();
            return read;
        }
        if releasing.len() > 1 {
            releasing.sort_unstable_by_key(ExclusiveGuard::id);
        }
        let mut end = Lsn::default();
        let cuts = release_together(releasing, |latched| {
            if let Some((log, record)) = log {
                end = log.append_commit(record);
                latched.iter().for_each(|releasing| releasing.logged(end));
            }
            for hook in commit_hooks.drain(..) {
                hook();
            }
            participant.clone_for_cuts(latched)
        });
        releasing.clear();
        body.release_shared(&participant.published);
        for (cut, now) in cuts {
            let position = body.held.iter().position(|held| held.partition == cut.partition);
            let position = position.expect("a cut is pending only at the partition's owner");
            let pre_image = body.undo.pre_image(position as u32, &now);
            cut.deliver(pre_image);
        }
        end = end.max(body.read);
        body.clear();
        participant.published.end();
        end
    }
}
