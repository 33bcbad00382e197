//! Snapshot cuts: the roots of several partitions as of one moment between transactions.
//!
//! Words: the *moment* of a cut is when its requester holds the latches of all wanted partitions;
//! a cut is *pending* at an owner that had not ended at that moment; the *pre-image* of a
//! partition is its root without the owner's changes.
//! Invariants, checked by the models `cut_holds_each_transfer_wholly_or_not_at_all` and
//! `cut_holds_whoever_read_what_it_shows_overwritten`, in which the planted bugs are found
//! (`canary_torn_commit_is_caught`, `canary_cut_without_undo_is_caught`):
//! 1. A cut holds each transaction wholly or not at all. A commit releases all its partitions
//!    under all their latches: at the moment of a cut it has released all or none of them.
//! 2. A pending cut is fulfilled before its owner releases anything, so no other transaction has
//!    touched the partition since the moment of the cut.
//! 3. The thread that fulfils a cut has the owner's body: the owner's own thread while a statement
//!    runs, any requester that finds the body at rest. Undo leads back to the state before the
//!    transaction from any point between two row changes, so it does not matter how far the owner
//!    got meanwhile.
//!
//! A requester waits for no lock and so is not part of deadlock detection: an owner that waits, for
//! a lock, its client or a cut of its own, is at rest, and so is one whose statement computes. A requester waits until
//! the owner's next row change, or for its commit.
//! Cost: a latch and a clone of the root (a few reference counts) per partition; for a partition in
//! writing also the owner's undo records of it. Threads: any; but not in the middle of a statement
//! of a transaction that holds some partition exclusively and is not at rest ([`crate::Transaction::resting`]): two such
//! would wait for each other. A transaction sees its own partitions by [`crate::Transaction::root`].
//! Source: DESIGN.md §5; copy-on-write snapshots without fork after HyPer.

use crate::cell::{CellLatch, PartitionCell};
use crate::event::{Patience, WaitLimits, Waited};
use crate::log::Lsn;
use crate::manager::Manager;
use crate::participant::Participant;
use crate::pending::{CutRequest, PendingCut};
use halcyon_base::PartitionId;
use halcyon_base::SqlState;
use halcyon_base::clock;
use halcyon_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use halcyon_base::sync::{Arc, Mutex, hint};
use halcyon_store::Partition;
use std::fmt;

/// Looks at an unfinished cut before sleeping: some hundred microseconds. A pre-image takes its owner
/// ten or twenty, and waking up from sleep as long again or, on a virtual machine, a hundred.
const PATIENCE: Patience = match cfg!(shuttle) {
    true => Patience { looks: 1, offers: 0 },
    false => Patience { looks: 2_000, offers: 0 },
};

/// Looks for a moment between transactions, each a little later after the one before: some ten
/// microseconds in all.
const FREE_MOMENT_LOOKS: u32 = if cfg!(shuttle) { 1 } else { 12 };
const SPINS_BETWEEN_LOOKS: u32 = 4;

/// Why there is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutError {
    /// A statement that writes one of the partitions ran longer than the limit.
    Timeout,
    /// The token was cancelled.
    Cancelled,
}

impl CutError {
    /// SQL code of the error.
    pub fn sql_state(&self) -> SqlState {
        match self {
            CutError::Timeout => SqlState::LOCK_NOT_AVAILABLE,
            CutError::Cancelled => SqlState::QUERY_CANCELED,
        }
    }
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutError::Timeout => "no snapshot within the time limit: a statement writes the table",
            CutError::Cancelled => "cancelled while waiting for a snapshot",
        })
    }
}

impl std::error::Error for CutError {}

/// Takes the roots of `cells` at one moment, in their order; none of them changes any more.
///
/// Each transaction is in all roots wholly or in none. Waits for at most one running statement per
/// owner, within `limits`.
/// Errors: [`CutError`]; the wait was given up. Nothing is held then.
pub fn cut(
    manager: &Manager,
    cells: &[Arc<PartitionCell>],
    limits: &WaitLimits<'_>,
) -> Result<Vec<triomphe::Arc<Partition>>, CutError> {
    cut_noting(manager, cells, limits, |_| ()).map(|(roots, ())| roots)
}

/// As [`cut`], and calls `note` at the moment of the cut, with the end of the log that holds what
/// is in the cut.
///
/// No transaction that changes one of `cells` is between its record in the log and its release
/// then. `note` runs under the latches of all `cells`: it must be short, and must not lock or cut.
pub fn cut_noting<R>(
    manager: &Manager,
    cells: &[Arc<PartitionCell>],
    limits: &WaitLimits<'_>,
    mut note: impl FnMut(Lsn) -> R,
) -> Result<(Vec<triomphe::Arc<Partition>>, R), CutError> {
    manager.center().cuts.began();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_unstable_by_key(|&position| cells[position].id);
    order.dedup_by_key(|position| cells[*position].id);
    let mut noted = None;
    let mut note = |latches: &[CellLatch<'_>]| {
        let changed = latches.iter().map(CellLatch::changed).max();
        noted = Some(note(changed.unwrap_or_default()));
    };
    let (mut roots, pending) = match between_transactions(cells, &order, &mut note) {
        Some(roots) => (roots, None),
        None => moment(manager, cells, &order, &mut note),
    };
    let noted = noted.expect("each of the two has noted");
    if let Some(pending) = pending {
        let began = clock::now();
        let done = fulfil(&pending, limits);
        manager.center().cuts.waited(pending.partitions, clock::now() - began);
        done?;
        for (position, root) in pending.request.roots.lock().iter_mut().enumerate() {
            roots[position] = roots[position].take().or(root.take());
        }
    }
    let taken = order.iter().map(|&position| {
        let root = roots[position].take().expect("every partition was free or delivered");
        (cells[position].id, triomphe::Arc::new(root))
    });
    let by_id: Vec<(PartitionId, triomphe::Arc<Partition>)> = taken.collect();
    let root_of = |cell: &Arc<PartitionCell>| {
        let found = by_id.binary_search_by_key(&cell.id, |&(id, _)| id);
        triomphe::Arc::clone(&by_id[found.expect("every cell was taken")].1)
    };
    Ok((cells.iter().map(root_of).collect(), noted))
}

/// A function that is called at the moment of a cut.
type Note<'a> = dyn FnMut(&[CellLatch<'_>]) + 'a;

/// The part of a cut that owners must still deliver.
struct Pending {
    request: Arc<CutRequest>,
    /// How many partitions the owners deliver.
    partitions: usize,
    owners: Vec<Arc<Participant>>,
}

/// Looks some microseconds long for a moment at which no transaction changes any of the partitions.
/// Short transactions leave such moments, and then no pre-image is needed, which would copy what
/// its transaction has just changed.
fn between_transactions(
    cells: &[Arc<PartitionCell>],
    order: &[usize],
    note: &mut Note<'_>,
) -> Option<Vec<Option<Partition>>> {
    for attempt in 0..FREE_MOMENT_LOOKS {
        for _ in 0..attempt * SPINS_BETWEEN_LOOKS {
            hint::spin_loop();
        }
        let latches: Vec<_> = order.iter().map(|&position| cells[position].latch()).collect();
        let mut roots = vec![None; cells.len()];
        let free = latches.iter().zip(order).all(|(latch, &position)| {
            roots[position] = latch.free_root();
            roots[position].is_some()
        });
        if free {
            note(&latches);
            return Some(roots);
        }
    }
    None
}

/// Holds all latches at once, clones the free roots and leaves a request with the owners of the
/// others.
fn moment(
    manager: &Manager,
    cells: &[Arc<PartitionCell>],
    order: &[usize],
    note: &mut Note<'_>,
) -> (Vec<Option<Partition>>, Option<Pending>) {
    let latches: Vec<_> = order.iter().map(|&position| cells[position].latch()).collect();
    note(&latches);
    let mut roots = vec![None; cells.len()];
    let mut owned = Vec::new();
    for (latch, &position) in latches.iter().zip(order) {
        roots[position] = latch.free_root();
        if roots[position].is_none() {
            let owner = latch.lock.owner().expect("a partition that is not free has an owner");
            owned.push((position, manager.center().participant(owner.participant)));
        }
    }
    if owned.is_empty() {
        return (roots, None);
    }
    let partitions = owned.len();
    let request = Arc::new(CutRequest {
        roots: Mutex::new(vec![None; cells.len()]),
        missing: AtomicUsize::new(partitions),
        complete: Arc::default(),
        abandoned: AtomicBool::new(false),
    });
    // An owner is asked for all its partitions at once: it may bring them up to date between two
    // requests ([`crate::view`]).
    owned.sort_by_key(|(_, owner)| owner.id);
    let is_same =
        |one: &(usize, Arc<Participant>), other: &(usize, Arc<Participant>)| one.1.id == other.1.id;
    for of_owner in owned.chunk_by(is_same) {
        let owner = &of_owner[0].1;
        let mut at_rest = owner.at_rest.lock();
        at_rest.cuts.extend(of_owner.iter().map(|&(position, _)| PendingCut {
            partition: cells[position].id,
            position,
            request: Arc::clone(&request),
        }));
        owner.cuts_pending.store(true, Ordering::Relaxed);
    }
    let mut owners: Vec<Arc<Participant>> = owned.into_iter().map(|(_, owner)| owner).collect();
    owners.dedup_by_key(|owner| owner.id);
    (roots, Some(Pending { request, partitions, owners }))
}

/// Makes the pre-images of owners at rest, and waits for the others to make theirs.
fn fulfil(pending: &Pending, limits: &WaitLimits<'_>) -> Result<(), CutError> {
    for owner in &pending.owners {
        owner.fulfil_at_rest();
    }
    let error = match pending.request.complete.wait(limits, PATIENCE, PATIENCE) {
        Waited::Set => return Ok(()),
        Waited::TimedOut => CutError::Timeout,
        Waited::Cancelled => CutError::Cancelled,
        Waited::Refused => unreachable!("only waits for locks are part of deadlocks"),
    };
    pending.request.abandoned.store(true, Ordering::Relaxed);
    Err(error)
}
