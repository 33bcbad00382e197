//! What the gate tells of itself: counts per class, and the last events.

use std::collections::VecDeque;
use std::time::Duration;

use super::rejection::Reason;
use crate::limits::ClassId;

/// How many events are kept.
pub const EVENTS: usize = 1_000;

/// Counts of a class since the gate was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Statements that were admitted, at once or after a wait.
    pub admitted: u64,
    /// Statements that were rejected on arrival.
    pub rejected: u64,
    /// Statements that began to wait.
    pub enqueued: u64,
    /// Statements that were admitted after a wait.
    pub dequeued: u64,
    /// Statements that waited for their QUEUE TIMEOUT.
    pub timeouts: u64,
    /// Statements that were rejected after a wait, for another reason than their timeout.
    pub discarded: u64,
    /// Statements that were cancelled while they waited.
    pub cancelled: u64,
    /// Waits of the statements that were admitted after a wait.
    pub waits: Waits,
    /// Statements that run now.
    pub running: u32,
    /// Threads of these.
    pub threads: u32,
    /// Threads of these and of the statements of all classes below.
    pub total_threads: u32,
    /// Statements that wait now.
    pub queue_size: u32,
}

/// Lengths of waits; all zero before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many there were.
    pub count: u64,
    /// The last one.
    pub last: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// All together.
    pub sum: Duration,
}

impl Waits {
    pub(super) fn add(&mut self, wait: Duration) {
        self.min = if self.count == 0 { wait } else { self.min.min(wait) };
        self.count += 1;
        self.last = wait;
        self.max = self.max.max(wait);
        self.sum = self.sum.saturating_add(wait);
    }

    /// The mean.
    pub fn average(&self) -> Duration {
        let nanoseconds = self.sum.as_nanos().checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// Something that happened to a statement at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in the caller's time, ns.
    pub at_ns: u64,
    /// What.
    pub kind: EventKind,
    /// The statement's class.
    pub class: ClassId,
    /// The statement's session.
    pub session: u32,
    /// The hash of the statement's text.
    pub text_hash: u64,
    /// How long the statement had waited.
    pub waited: Duration,
    /// Processor time in use, percent of all, as the fence sees it.
    pub cpu_percent: u8,
    /// Memory in use, percent, as the fence sees it.
    pub memory_percent: u8,
}

/// What happens to statements at the gate; an admission without a wait is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The statement began to wait.
    Enqueued,
    /// The statement was admitted after a wait.
    Dequeued,
    /// The statement was rejected, on arrival or after a wait.
    Rejected(Reason),
    /// The statement was cancelled while it waited.
    Cancelled,
    /// Nobody measured for ten seconds, and the controller's limits hold no more. No statement's event.
    ControllerStale,
}

/// The last [`EVENTS`] events.
#[derive(Clone, Debug, Default)]
pub(super) struct Events(VecDeque<Event>);

impl Events {
    pub(super) fn push(&mut self, event: Event) {
        if self.0.len() == EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_extremes_and_a_mean() {
        let mut waits = Waits::default();
        assert_eq!(waits.average(), Duration::ZERO);
        [5, 1, 3].map(Duration::from_millis).into_iter().for_each(|wait| waits.add(wait));
        let ms = Duration::from_millis;
        assert_eq!(
            (waits.last, waits.min, waits.max, waits.sum, waits.average()),
            (ms(3), ms(1), ms(5), ms(9), ms(3))
        );
    }
}
