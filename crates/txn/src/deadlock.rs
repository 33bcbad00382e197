//! Who waits for whom, the search for a cycle when a wait begins, and the choice of its victim.
//!
//! A waiter waits for the one before it in the queue, and for every transaction that holds the
//! partition in a mode that conflicts with what it wants. Only waiters can be part of a cycle, so
//! the graph holds waiters alone: it is touched when a transaction must wait anyway, and locks that
//! are granted at once cost nothing here. Invariants, checked by the models
//! `every_deadlock_is_found`, `who_holds_nothing_is_no_victim`, `who_has_done_least_is_the_victim` and
//! `locks_in_one_order_are_never_called_a_deadlock`:
//! 1. A transaction's locks do not change while it waits, so the edges of a waiter are stable.
//! 2. A waiter joins its lock's queue before it is registered here. The last waiter of a cycle to
//!    register sees the cycle whole, and chooses as the victim who has the least to lose
//!    ([`crate::published::Published::stake`]). The victim leaves the graph at once, so that no second
//!    victim is chosen for the cycle. A waiter that holds no lock lets those behind it pass instead.
//! 3. A wait that is refused for a deadlock can still be granted until its waiter leaves the queue. The
//!    grant counts: then nobody blocks the waiter, and the cycle was not closed any more.
//!
//! A cycle is reported only if, after it was found, all its members still wait: then all its
//! edges were there when the search began, and it is real.
//! Cost: O(1) for a waiter that holds nothing and is last in line, else O(w log w) for w waiters.

use crate::lock::{Mode, ParticipantId, Rank, Want};
use crate::lock_error::{Deadlock, Wait};
use crate::participant::Participant;
use crate::planted;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::{PartitionId, SessionId, TxnId};

/// A transaction in a lock's queue.
pub(crate) struct Waiting {
    pub(crate) participant: Arc<Participant>,
    pub(crate) txn: TxnId,
    pub(crate) partition: PartitionId,
    pub(crate) want: Want,
    pub(crate) rank: Rank,
}

impl Waiting {
    /// Place in the queues of all partitions.
    fn place(&self) -> (PartitionId, Rank) {
        (self.partition, self.rank)
    }

    /// False once it was granted its lock, though it may not have woken up.
    fn still_waits(&self) -> bool {
        !self.participant.granted.is_set()
    }
}

/// The transactions that wait for locks.
#[derive(Default)]
pub(crate) struct WaitGraph {
    waiting: Vec<Waiting>,
}

impl WaitGraph {
    /// Adds a waiter. Refuses the waits that have to end lest a cycle is closed, this one or others.
    pub(crate) fn register(&mut self, waiting: Waiting) -> Result<(), Deadlock> {
        let certainly_free = waiting.participant.published.holds_nothing()
            && !self.waiting.iter().any(|other| {
                other.partition == waiting.partition && other.place() > waiting.place()
            });
        self.waiting.push(waiting);
        if certainly_free {
            return Ok(());
        }
        let last = |graph: &WaitGraph| graph.waiting.len() - 1;
        // A cycle with a member that got its lock meanwhile is none; there may be another.
        while let Some(cycle) = Search::new(&self.waiting).cycle_through(last(self)) {
            if !cycle.iter().all(|&idx| self.waiting[idx].still_waits()) {
                continue;
            }
            for &idx in &cycle {
                self.waiting[idx].participant.in_circle.store(true, Ordering::Relaxed);
            }
            let victim = self.victim_of(&cycle);
            let deadlock = self.describe(&cycle, victim);
            if cycle[victim] == last(self) {
                self.waiting.pop();
                return Err(deadlock);
            }
            let participant = &self.waiting[cycle[victim]].participant;
            *participant.deadlock.lock() = Some(deadlock);
            if participant.granted.refuse() {
                // The order of the others stays: this waiter is the last.
                self.waiting.remove(cycle[victim]);
            }
        }
        Ok(())
    }

    /// Who waits for which partition, from which place of its queue, and in which mode.
    pub(crate) fn waits(&self) -> Vec<(SessionId, PartitionId, Rank, Mode)> {
        let one = |waiting: &Waiting| {
            let (_, session) = waiting.participant.published.identity()?;
            Some((session, waiting.partition, waiting.rank, waiting.want.mode()))
        };
        self.waiting.iter().filter_map(one).collect()
    }

    /// The position in `cycle` of the waiter that has least to lose.
    fn victim_of(&self, cycle: &[usize]) -> usize {
        let stake = |&position: &usize| self.waiting[cycle[position]].participant.published.stake();
        match planted::is(planted::LAST_WAITER_IS_VICTIM) {
            true => 0,
            false => (0..cycle.len()).min_by_key(stake).expect("a cycle has members"),
        }
    }

    /// Removes a waiter that has its lock or gave up.
    pub(crate) fn leave(&mut self, participant: ParticipantId) {
        let by_participant = |waiting: &Waiting| waiting.participant.id == participant;
        if let Some(position) = self.waiting.iter().position(by_participant) {
            self.waiting.swap_remove(position);
        }
    }

    /// The cycle as its victim, at a position of it, is told of it.
    fn describe(&self, cycle: &[usize], victim: usize) -> Deadlock {
        let wait = |step: usize| {
            let position = (victim + step) % cycle.len();
            let waiter = &self.waiting[cycle[position]];
            Wait {
                waiter: waiter.txn,
                mode: waiter.want.mode(),
                partition: waiter.partition,
                blocker: self.waiting[cycle[(position + 1) % cycle.len()]].txn,
            }
        };
        Deadlock { cycle: (0..cycle.len()).map(wait).collect() }
    }
}

/// The graph's edges, sorted for lookup; alive for one search.
struct Search<'a> {
    waiting: &'a [Waiting],
    /// Waiters in the order of [`Waiting::place`]. Without those who have their lock already: an
    /// upgrade that came later stands before them there, and is not to be hidden by them.
    queues: Vec<usize>,
    /// What the waiters hold, sorted.
    held: Vec<(PartitionId, Mode, usize)>,
}

impl<'a> Search<'a> {
    fn new(waiting: &'a [Waiting]) -> Self {
        let mut queues: Vec<usize> =
            (0..waiting.len()).filter(|&idx| waiting[idx].still_waits()).collect();
        queues.sort_unstable_by_key(|&idx| waiting[idx].place());
        let mut held = Vec::new();
        for (idx, waiter) in waiting.iter().enumerate() {
            let mut locks = waiter.participant.published.held();
            held.extend(locks.drain(..).map(|(partition, mode)| (partition, mode, idx)));
        }
        held.sort_unstable();
        Search { waiting, queues, held }
    }

    /// The waiters that waiter `idx` waits for.
    fn blockers(&self, idx: usize) -> Vec<usize> {
        let waiter = &self.waiting[idx];
        let place = |&other: &usize| self.waiting[other].place();
        let in_queue = self.queues.partition_point(|other| place(other) < waiter.place());
        let before = in_queue.checked_sub(1).map(|position| self.queues[position]);
        let mut blockers: Vec<usize> = before
            .filter(|&other| self.waiting[other].partition == waiter.partition)
            .into_iter()
            .collect();
        let first = self.held.partition_point(|held| held.0 < waiter.partition);
        let holders = self.held[first..].iter().take_while(|held| held.0 == waiter.partition);
        let conflicting = holders.filter(|&&(_, mode, holder)| {
            holder != idx && (mode == Mode::Exclusive || waiter.want != Want::Shared)
        });
        blockers.extend(conflicting.map(|&(_, _, holder)| holder));
        blockers
    }

    /// A path from `start` back to `start`, or `None`. Depth first, each waiter visited once.
    fn cycle_through(&self, start: usize) -> Option<Vec<usize>> {
        let mut visited = vec![true; self.waiting.len()];
        self.queues.iter().for_each(|&idx| visited[idx] = false);
        if visited[start] {
            return None;
        }
        let mut path = vec![(start, self.blockers(start))];
        visited[start] = true;
        while let Some((_, blockers)) = path.last_mut() {
            let Some(next) = blockers.pop() else {
                path.pop();
                continue;
            };
            if next == start {
                return Some(path.into_iter().map(|(idx, _)| idx).collect());
            }
            if !std::mem::replace(&mut visited[next], true) {
                path.push((next, self.blockers(next)));
            }
        }
        None
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::body::LockHandle;
    use crate::isolation::Isolation;
    use halcyon_base::SessionId;
    use halcyon_base::clock::Moment;

    /// A participant that holds partitions, of which it will wait for another.
    fn holder(number: u32, held: &[(u32, Mode)]) -> Arc<Participant> {
        let participant = Participant::new(ParticipantId(number), 0);
        for (position, &(partition, mode)) in held.iter().enumerate() {
            let lock = (PartitionId(partition), mode);
            participant.publish_lock(LockHandle(position as u32), Some(lock));
        }
        Arc::new(participant)
    }

    fn waiting(who: &Arc<Participant>, partition: u32, want: Want, ticket: u64) -> Waiting {
        Waiting {
            participant: Arc::clone(who),
            txn: TxnId(u64::from(who.id.0)),
            partition: PartitionId(partition),
            want,
            rank: Rank::new(want, ticket, !who.published.holds_nothing()),
        }
    }

    #[test]
    fn upgrade_is_not_hidden_by_a_granted_waiter_that_still_sleeps() {
        let asleep = holder(1, &[]);
        let upgrader = holder(2, &[(1, Mode::Shared)]);
        let reader = holder(3, &[(1, Mode::Shared)]);
        let writer = holder(4, &[(3, Mode::Exclusive)]);
        let mut graph = WaitGraph::default();
        assert_eq!(graph.register(waiting(&asleep, 1, Want::Shared, 1)), Ok(()));
        let _ = asleep.granted.mark();
        assert_eq!(graph.register(waiting(&upgrader, 1, Want::Upgrade, 2)), Ok(()));
        assert_eq!(graph.register(waiting(&reader, 3, Want::Shared, 1)), Ok(()));
        // Of equals the one that began last is the victim.
        writer.published.begin(TxnId(4), Isolation::Serializable, SessionId(0), Moment(9));
        let deadlock = graph.register(waiting(&writer, 1, Want::Shared, 3)).unwrap_err();
        let waiters: Vec<u64> = deadlock.cycle.iter().map(|wait| wait.waiter.0).collect();
        assert_eq!(waiters, [4, 2, 3]);
        // The victim has left; without the victim no cycle is left.
        graph.leave(reader.id);
        assert_eq!(graph.register(waiting(&reader, 3, Want::Shared, 2)), Ok(()));
    }

    /// Two transactions that wait for each other, the second one last. Which of them is the victim?
    fn victim(first: &Arc<Participant>, second: &Arc<Participant>) -> u32 {
        let mut graph = WaitGraph::default();
        first.granted.clear();
        assert_eq!(graph.register(waiting(first, 2, Want::Shared, 1)), Ok(()));
        match graph.register(waiting(second, 1, Want::Shared, 1)) {
            Err(deadlock) => {
                assert_eq!(deadlock.cycle[0].waiter.0, u64::from(second.id.0));
                assert!(first.granted.refuse(), "one victim is enough");
                second.id.0
            }
            Ok(()) => {
                let deadlock = first.deadlock.lock().take().expect("a victim is told why");
                assert_eq!(deadlock.cycle[0].waiter.0, u64::from(first.id.0));
                assert_eq!(graph.waiting.len(), 1);
                first.id.0
            }
        }
    }

    #[test]
    fn the_victim_has_changed_less_or_began_later_unless_it_lost_often() {
        let (first, second) =
            (holder(1, &[(1, Mode::Exclusive)]), holder(2, &[(2, Mode::Exclusive)]));
        let begin = |who: &Participant, at: u64, undo_records: usize, losses: u32| {
            let txn = TxnId(u64::from(who.id.0));
            who.published.begin(txn, Isolation::Serializable, SessionId(0), Moment(at));
            who.published.undo(undo_records, 0);
            who.published.losses(losses);
        };
        for (of_first, of_second, expected) in [
            ((1, 0, 0), (2, 0, 0), 2),
            ((2, 0, 0), (1, 0, 0), 1),
            ((2, 5, 0), (1, 4, 0), 2),
            ((1, 4, 0), (2, 5, 0), 1),
            ((1, 1_000, 0), (2, 0, 9), 2),
            ((1, 1_000, 0), (2, 0, 10), 1),
            ((1, 0, u32::MAX), (2, 1 << 40, 0), 2),
        ] {
            begin(&first, of_first.0, of_first.1, of_first.2);
            begin(&second, of_second.0, of_second.1, of_second.2);
            assert_eq!(victim(&first, &second), expected, "{of_first:?} {of_second:?}");
        }
    }

    #[test]
    fn granted_member_makes_no_cycle() {
        let (one, two) = (holder(1, &[(1, Mode::Exclusive)]), holder(2, &[(2, Mode::Exclusive)]));
        let mut graph = WaitGraph::default();
        assert_eq!(graph.register(waiting(&one, 2, Want::Shared, 1)), Ok(()));
        let _ = one.granted.mark();
        assert_eq!(graph.register(waiting(&two, 1, Want::Shared, 1)), Ok(()));
    }
}
