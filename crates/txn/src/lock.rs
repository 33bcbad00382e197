//! The lock word of a partition: shared or exclusive, fair, with an upgrade.
//!
//! Words: a *slot* counts the readers of the sessions mapped to it, in a cache line of its own; the
//! lock is *barred* while a writer holds it or a transaction waits, and then readers may not enter
//! by their slot alone; the *latch* is a small mutex around the owner and the queue; an owner that
//! was taken from the queue has not *entered* until it has woken up.
//! How it works: a reader adds itself to its slot and looks whether the lock is barred. If not, the
//! reader is in, and has written no line that another core writes. A writer bars the lock under the
//! latch and then adds up the slots. Reader or writer sees the other, because both write first and
//! read then, all in one total order (`SeqCst`).
//! Invariants, checked by [`Latch::check`]:
//! 1. The lock is barred whenever it has an owner or a waiter.
//! 2. The waiters stand in the order of their [`Rank`].
//! 3. While an owner has entered, a slot is above zero only for the moment in which a reader backs
//!    out again.
//!
//! Fairness: first come, first served, so a waiting writer stops new readers. An upgrade goes first: the
//! waiters before it wait for its own shared lock. A transaction that holds other locks goes before those
//! that hold none, since others wait for it: were the order by arrival alone, each deadlock's victim would
//! hand its lock to a newcomer, which closes the next cycle. A waiter without locks is overtaken by those
//! only that came within [`LEAD`] arrivals after it, so that no waiter starves.
//! Standing by: waking a thread takes longer than most transactions hold a lock. So the first waiters
//! ([`standby`]) are awake, the others sleep, and a transaction that grants a lock alerts those who have
//! come to stand among the first.
//! Cost: shared 2 atomic operations on the session's own line and a load; exclusive a latch, one
//! exchange and a load per slot. Threads: any.
//! Source: reader slots as in "big-reader" locks; P1 §4 for why a lock per table is enough.
//! Not done: dropping the slots while writers dominate (BRAVO); a sum over at most 64 lines that
//! stay in the writer's cache costs less than the row change it precedes.

use crate::event::{Event, watchers_max};
use crate::planted;
use halcyon_base::clock::{self, Moment};
use halcyon_base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use halcyon_base::sync::{Arc, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;

/// Most reader slots of a lock, and pools of seats.
const SLOTS_MAX: usize = 64;

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

/// The number of one who can hold locks, by which they know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ParticipantId(pub(crate) u32);

/// How a partition is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Read; any number of transactions.
    Shared,
    /// Read and write; one transaction alone.
    Exclusive,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Shared => "shared",
            Mode::Exclusive => "exclusive",
        })
    }
}

/// What a transaction asks of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Shared,
    Exclusive,
    /// Exclusive, asked for by a transaction that holds the lock shared.
    Upgrade,
}

impl Want {
    pub(crate) fn mode(self) -> Mode {
        match self {
            Want::Shared => Mode::Shared,
            Want::Exclusive | Want::Upgrade => Mode::Exclusive,
        }
    }
}

/// Arrivals that a transaction with locks may overtake.
const LEAD: u64 = 64;

/// Most waiters of a lock that are awake, to go on as soon as the lock is theirs. The second one wakes
/// up while the first one has the lock.
const STANDBY_MAX: usize = 2;

/// Waiters of a lock that are awake: no more than have a core to look from.
pub(crate) fn standby() -> usize {
    match cfg!(shuttle) {
        true => STANDBY_MAX,
        false => STANDBY_MAX.min(watchers_max()),
    }
}

/// A waiter's place in the queue of a lock: the least stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// False of an upgrade.
    is_new: bool,
    /// The ticket, or one [`LEAD`] earlier for a transaction that holds other locks.
    turn: u64,
    ticket: u64,
}

impl Rank {
    /// The rank of the waiter that drew `ticket`. `holds`: it holds locks besides the one it wants.
    pub(crate) fn new(want: Want, ticket: u64, holds: bool) -> Self {
        let lead = if holds { LEAD } else { 0 };
        // Two tickets may come to one turn; then the earlier ticket stands first.
        Rank { is_new: want != Want::Upgrade, turn: (ticket + LEAD) - lead, ticket }
    }
}

/// The number of readers among the sessions of one slot. Two lines, because neighbours are fetched
/// in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Slot(AtomicU32);

#[derive(Debug)]
pub(crate) struct Lock {
    slots: Box<[Slot]>,
    barred: AtomicBool,
    latched: Mutex<Latched>,
}

/// The part of a lock that only the holder of its latch may touch.
#[derive(Debug, Default)]
pub(crate) struct Latched {
    owner: Option<Owner>,
    queue: VecDeque<Waiter>,
    last_ticket: u64,
}

/// The participant that holds a lock exclusively.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) participant: ParticipantId,
    /// False from the grant to the moment the waiter has woken up: the root is not touched yet.
    pub(crate) entered: bool,
}

/// A participant in the queue of a lock.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) participant: ParticipantId,
    pub(crate) want: Want,
    pub(crate) rank: Rank,
    pub(crate) since: Moment,
    slot: usize,
    granted: Arc<Event>,
}

/// Sleeping waiters to be woken once the latch is free again.
#[must_use = "a granted waiter sleeps until it is woken"]
#[derive(Default)]
pub(crate) struct Granted {
    /// Waiters whose lock was granted.
    granted: Vec<Arc<Event>>,
    /// Waiters whose turn has come near.
    near: Vec<Arc<Event>>,
}

impl Granted {
    pub(crate) fn append(&mut self, mut more: Granted) {
        self.granted.append(&mut more.granted);
        self.near.append(&mut more.near);
    }

    pub(crate) fn wake(self) {
        for event in self.granted {
            if planted::is(planted::LATE_MARK) {
                event.set();
            }
            event.nudge();
        }
        self.near.iter().for_each(|event| event.alert());
    }
}

impl Lock {
    /// A free lock with `slot_count` reader slots.
    pub(crate) fn new(slot_count: usize) -> Self {
        assert!(slot_count.is_power_of_two());
        Lock {
            slots: (0..slot_count).map(|_| Slot::default()).collect(),
            barred: AtomicBool::new(false),
            latched: Mutex::new(Latched::default()),
        }
    }

    /// Takes the lock shared if the lock is not barred.
    #[inline]
    pub(crate) fn try_shared(&self, slot: usize) -> bool {
        let readers = &self.slots[slot].0;
        readers.fetch_add(1, Ordering::SeqCst);
        // Pairs with the store in `Latch::bar`: that writer adds up the slots after it.
        if !self.barred.load(Ordering::SeqCst) || planted::is(planted::NO_SECOND_LOOK) {
            return true;
        }
        readers.fetch_sub(1, Ordering::SeqCst);
        // A writer may have counted this reader. The caller looks at the queue under the latch
        // next.
        false
    }

    /// Gives a shared lock back.
    #[inline]
    pub(crate) fn release_shared(&self, slot: usize) {
        self.slots[slot].0.fetch_sub(1, Ordering::SeqCst);
        // Pairs with the store in `Latch::bar`: either that writer saw this slot's count, or this
        // reader sees the writer waiting.
        if self.barred.load(Ordering::SeqCst) {
            self.serve_queue();
        }
    }

    #[cold]
    fn serve_queue(&self) {
        let granted = self.latch().serve();
        granted.wake();
    }

    /// Takes the latch. Never held while waiting for anything but further latches in id order.
    #[inline]
    pub(crate) fn latch(&self) -> Latch<'_> {
        Latch { lock: self, state: self.latched.lock() }
    }

    fn reader_count(&self) -> u32 {
        // A reader that enters a slot after this look finds the lock barred.
        self.slots.iter().map(|slot| slot.0.load(Ordering::SeqCst)).sum()
    }
}

/// A lock under its latch.
pub(crate) struct Latch<'a> {
    lock: &'a Lock,
    state: MutexGuard<'a, Latched>,
}

impl Latch<'_> {
    /// Grants `want` at once if that is fair and possible. The new owner has entered.
    #[inline]
    pub(crate) fn admit(&mut self, want: Want, slot: usize, participant: ParticipantId) -> bool {
        if self.state.owner.is_some() || (want != Want::Upgrade && !self.state.queue.is_empty()) {
            return false;
        }
        if want == Want::Shared {
            self.lock.slots[slot].0.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.bar();
        if !self.take_exclusive(want, slot, participant, true) {
            self.unbar_if_quiet();
            return false;
        }
        true
    }

    /// Joins the queue and returns the rank, unique within this lock, and how many waiters stand before
    /// it. `holds`: the participant holds other locks. `granted` must be clear.
    pub(crate) fn enqueue(
        &mut self,
        want: Want,
        slot: usize,
        participant: ParticipantId,
        holds: bool,
        granted: &Arc<Event>,
    ) -> (Rank, usize) {
        self.bar();
        self.state.last_ticket += 1;
        let rank = Rank::new(want, self.state.last_ticket, holds);
        // Most waiters stand last: the search begins there.
        let behind = self.state.queue.iter().rev().take_while(|waiter| waiter.rank > rank).count();
        let position = self.state.queue.len() - behind;
        let (since, granted) = (clock::now(), Arc::clone(granted));
        self.state.queue.insert(position, Waiter { participant, want, rank, since, slot, granted });
        (rank, position)
    }

    /// Leaves the queue. False if the waiter is not in the queue, because its lock has been
    /// granted.
    pub(crate) fn withdraw(&mut self, rank: Rank) -> bool {
        let queue = &mut self.state.queue;
        let Some(position) = queue.iter().position(|waiter| waiter.rank == rank) else {
            return false;
        };
        queue.remove(position);
        true
    }

    /// Grants all that can be granted now, from the head of the queue.
    pub(crate) fn serve(&mut self) -> Granted {
        let mut granted = Granted::default();
        let waiters = self.state.queue.len();
        while let Some(head) = self.state.queue.front() {
            let (want, slot, participant) = (head.want, head.slot, head.participant);
            if self.state.owner.is_some() {
                break;
            }
            if want == Want::Shared {
                self.lock.slots[slot].0.fetch_add(1, Ordering::SeqCst);
            } else if !self.take_exclusive(want, slot, participant, false) {
                break;
            }
            let waiter = self.state.queue.pop_front().expect("the queue has a head");
            if waiter.granted.mark() || planted::is(planted::LATE_MARK) {
                granted.granted.push(waiter.granted);
            }
        }
        if self.state.queue.len() < waiters {
            let near = self.state.queue.iter().take(standby());
            let asleep = near.filter(|waiter| waiter.granted.is_awaited());
            granted.near.extend(asleep.map(|waiter| Arc::clone(&waiter.granted)));
        }
        self.unbar_if_quiet();
        granted
    }

    /// Makes `participant` the owner if no reader is left, but for itself in an upgrade.
    fn take_exclusive(
        &mut self,
        want: Want,
        slot: usize,
        participant: ParticipantId,
        entered: bool,
    ) -> bool {
        let own = u32::from(want == Want::Upgrade);
        if self.lock.reader_count() != own {
            return false;
        }
        self.lock.slots[slot].0.fetch_sub(own, Ordering::SeqCst);
        self.state.owner = Some(Owner { participant, entered });
        true
    }

    /// Marks that the owner has woken up and may touch the root from now on.
    pub(crate) fn enter(&mut self, participant: ParticipantId) {
        let owner = self.state.owner.as_mut().expect("only an owner enters");
        assert!(owner.participant == participant && !owner.entered);
        owner.entered = true;
    }

    /// Gives the exclusive lock back and passes it on.
    #[inline]
    pub(crate) fn release_exclusive(&mut self, participant: ParticipantId) -> Granted {
        let owner = self.state.owner.take();
        assert!(owner.is_some_and(|owner| owner.participant == participant && owner.entered));
        self.serve()
    }

    /// Who holds the lock exclusively.
    #[inline]
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.state.owner
    }

    /// The waiters, first in line first.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.state.queue.iter()
    }

    fn bar(&self) {
        // Pairs with the loads in `try_shared` and `release_shared`.
        self.lock.barred.store(true, Ordering::SeqCst);
    }

    #[inline]
    fn unbar_if_quiet(&self) {
        if self.state.owner.is_none() && self.state.queue.is_empty() {
            // Release: a reader that finds the lock unbarred sees what the last owner wrote.
            self.lock.barred.store(false, Ordering::Release);
        }
    }

    /// Panics unless invariants 1 and 2 hold. O(waiters): for tests.
    pub(crate) fn check(&self) {
        let busy = self.state.owner.is_some() || !self.state.queue.is_empty();
        assert!(!busy || self.lock.barred.load(Ordering::SeqCst));
        assert!(self.state.queue.iter().is_sorted_by_key(|waiter| waiter.rank));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Queues waiters for a lock that another holds, and returns them in the order they are served.
    fn order(waiters: &[(Want, bool)]) -> Vec<u32> {
        let lock = Lock::new(2);
        let mut latch = lock.latch();
        assert!(latch.admit(Want::Exclusive, 0, ParticipantId(99)));
        for (number, (want, holds)) in waiters.iter().enumerate() {
            let granted = Arc::new(Event::default());
            latch.enqueue(*want, 0, ParticipantId(number as u32), *holds, &granted);
            latch.check();
        }
        latch.waiters().map(|waiter| waiter.participant.0).collect()
    }

    #[test]
    fn upgrades_then_holders_then_newcomers_stand_in_line() {
        use Want::{Exclusive, Shared, Upgrade};
        let waiters = [
            (Exclusive, false),
            (Shared, true),
            (Shared, false),
            (Upgrade, true),
            (Exclusive, true),
            (Upgrade, true),
        ];
        assert_eq!(order(&waiters), [3, 5, 1, 4, 0, 2]);
    }

    #[test]
    fn a_newcomer_is_overtaken_a_bounded_number_of_times() {
        let mut waiters = vec![(Want::Exclusive, false)];
        waiters.extend((0..2 * LEAD).map(|_| (Want::Exclusive, true)));
        let place = order(&waiters).iter().position(|&number| number == 0);
        assert_eq!(place, Some(LEAD as usize - 1));
    }
}
