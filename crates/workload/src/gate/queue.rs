//! Statements that wait, by class and by deadline.
//!
//! Invariants, all checked by [`Queue::check`]: every waiting statement is in one class's list and in that of deadlines,
//! and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{CLASSES, ClassId, Limits};

/// A place in a queue: unique for ever, and lower for a statement that came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A waiting statement.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) class: ClassId,
    pub(super) threads_wanted: u32,
    pub(super) session: u32,
    pub(super) text_hash: u64,
    pub(super) holds_locks: bool,
    /// Limits of a hint, as they came.
    pub(super) hint: Option<Box<Limits>>,
    /// The class's limits restricted by the hint's.
    pub(super) restricted: Option<Box<Limits>>,
    pub(super) arrived_ns: u64,
    pub(super) deadline_ns: u64,
}

/// The queues of all classes.
#[derive(Debug)]
pub(super) struct Queue {
    entries: BTreeMap<Ticket, Entry>,
    deadlines: BTreeSet<(u64, Ticket)>,
    /// Per class: statements that hold locks, and the others.
    holders: Vec<BTreeSet<Ticket>>,
    others: Vec<BTreeSet<Ticket>>,
    next: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue {
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            holders: vec![BTreeSet::new(); CLASSES],
            others: vec![BTreeSet::new(); CLASSES],
            next: 1,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Statements of the class that wait.
    pub(super) fn len(&self, class: ClassId) -> usize {
        self.holders[class.index()].len() + self.others[class.index()].len()
    }

    /// Statements of the class that wait and hold no locks.
    pub(super) fn others(&self, class: ClassId) -> usize {
        self.others[class.index()].len()
    }

    pub(super) fn push(&mut self, entry: Entry) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.insert(ticket, entry);
        ticket
    }

    fn insert(&mut self, ticket: Ticket, entry: Entry) {
        self.deadlines.insert((entry.deadline_ns, ticket));
        let lists = if entry.holds_locks { &mut self.holders } else { &mut self.others };
        lists[entry.class.index()].insert(ticket);
        self.entries.insert(ticket, entry);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let entry = self.entries.remove(&ticket)?;
        self.deadlines.remove(&(entry.deadline_ns, ticket));
        let lists = if entry.holds_locks { &mut self.holders } else { &mut self.others };
        lists[entry.class.index()].remove(&ticket);
        Some(entry)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries.get(&ticket)
    }

    /// Statements of the class that hold locks, the oldest first.
    pub(super) fn holders_of(&self, class: ClassId) -> impl Iterator<Item = Ticket> {
        self.holders[class.index()].iter().copied()
    }

    /// Statements of the class that hold no locks, in the order in which they may go.
    pub(super) fn others_of(
        &self,
        class: ClassId,
        newest_first: bool,
    ) -> impl Iterator<Item = Ticket> {
        let list = &self.others[class.index()];
        let (oldest, newest) =
            if newest_first { (None, Some(list.iter().rev())) } else { (Some(list.iter()), None) };
        oldest.into_iter().flatten().chain(newest.into_iter().flatten()).copied()
    }

    /// The arrival of the class's oldest statement without locks, ns.
    pub(super) fn oldest_ns(&self, class: ClassId) -> Option<u64> {
        let first = self.others[class.index()].first()?;
        self.entries.get(first).map(|entry| entry.arrived_ns)
    }

    /// The earliest end of a wait.
    pub(super) fn first_deadline(&self) -> Option<(u64, Ticket)> {
        self.deadlines.first().copied()
    }

    /// Everything that waits, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Entry)> {
        self.entries.iter().map(|(ticket, entry)| (*ticket, entry))
    }

    /// Changes every entry and puts it into the lists where it belongs then.
    pub(super) fn change_all(&mut self, change: impl Fn(&mut Entry)) {
        let entries = std::mem::take(&mut self.entries);
        self.deadlines.clear();
        self.holders.iter_mut().chain(&mut self.others).for_each(BTreeSet::clear);
        for (ticket, mut entry) in entries {
            change(&mut entry);
            self.insert(ticket, entry);
        }
    }

    /// Panics unless the invariants hold. For tests; O(waiting).
    pub(super) fn check(&self) {
        let listed: usize = self.holders.iter().chain(&self.others).map(BTreeSet::len).sum();
        assert_eq!(listed, self.entries.len());
        assert_eq!(self.deadlines.len(), self.entries.len());
        for (ticket, entry) in &self.entries {
            let lists = if entry.holds_locks { &self.holders } else { &self.others };
            assert!(lists[entry.class.index()].contains(ticket));
            assert!(self.deadlines.contains(&(entry.deadline_ns, *ticket)));
        }
    }
}
