//! Waiting for a client's next message awake: a thread looks again and again for a while before it sleeps.
//!
//! A client that answers at once finds the thread awake. To wake one that sleeps takes several times as long as the
//! statement of such a client, on a virtual machine most of all. The thread *looks* only where that costs others
//! nothing: no other connection has work under way, the lane's last two messages were this client's and came soon
//! one after the other (many clients at once need the processors themselves), and at most half of the processors
//! are used so. A client that lets the thread look in vain is left alone for twice as many messages each time.
//!
//! Invariant, checked by `nobody_looks_while_others_work`, `clients_that_take_turns_are_not_looked_for`,
//! `half_of_the_processors_are_left` and `who_is_late_is_looked_for_more_and_more_rarely`: the above.
//! Threads: counts are of lanes, each written by the threads of its own lane and read by those that look.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A wait after which the next message is worth looking for.
const QUICK: Duration = Duration::from_micros(400);

/// The most messages that a client is left alone for.
const PATIENCE_MAX: u32 = 1_024;

/// What a lane does, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Doing {
    /// Connections whose message has come and is not answered.
    at_work: AtomicUsize,
    /// Connections whose next message a thread looks for.
    looking: AtomicUsize,
    /// The connection whose message came last, by its number.
    last: AtomicUsize,
}

/// What all lanes do.
#[derive(Debug)]
pub(crate) struct Doings {
    lanes: Box<[Doing]>,
    looking_max: usize,
    longest: Duration,
    connections: AtomicUsize,
}

impl Doings {
    /// Of so many lanes on so many processors. `longest`: how long a thread looks; zero: never.
    pub fn new(lanes: usize, processors: usize, longest: Duration) -> Arc<Self> {
        let looking_max = if longest.is_zero() { 0 } else { processors / 2 };
        let lanes = (0..lanes).map(|_| Doing::default()).collect();
        Arc::new(Doings { lanes, looking_max, longest, connections: AtomicUsize::new(0) })
    }

    fn at_work(&self) -> bool {
        self.lanes.iter().any(|lane| lane.at_work.load(Ordering::Relaxed) > 0)
    }

    fn looking(&self) -> usize {
        self.lanes.iter().map(|lane| lane.looking.load(Ordering::Relaxed)).sum()
    }
}

/// How a connection waits for its client.
#[derive(Debug)]
pub(crate) struct Attention {
    doings: Arc<Doings>,
    lane: usize,
    /// From 1.
    number: usize,
    at_work: bool,
    /// Whether the last message came soon, and no other one meanwhile.
    is_quick: bool,
    /// Messages that are waited for asleep, and how many after the next look in vain.
    alone: u32,
    patience: u32,
    begin: Option<Instant>,
}

/// A look that has begun. Ends when it is dropped.
pub(crate) struct Look {
    doings: Arc<Doings>,
    lane: usize,
    end: Instant,
}

impl Attention {
    /// Of a connection in a lane; it counts as at work until it waits.
    pub fn new(doings: &Arc<Doings>, lane: usize) -> Self {
        let doings = Arc::clone(doings);
        doings.lanes[lane].at_work.fetch_add(1, Ordering::Relaxed);
        let number = doings.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Attention {
            doings,
            lane,
            number,
            at_work: true,
            is_quick: false,
            alone: 0,
            patience: 1,
            begin: None,
        }
    }

    /// The connection begins to wait for a message. The answer: it may look for it until then.
    pub fn waits(&mut self) -> Option<Look> {
        self.rests();
        if self.doings.looking_max == 0 {
            return None;
        }
        let now = Instant::now();
        self.begin = Some(now);
        if self.alone > 0 {
            self.alone -= 1;
            return None;
        }
        if !self.is_quick
            || self.doings.at_work()
            || self.doings.looking() >= self.doings.looking_max
        {
            return None;
        }
        self.doings.lanes[self.lane].looking.fetch_add(1, Ordering::Relaxed);
        Some(Look {
            doings: Arc::clone(&self.doings),
            lane: self.lane,
            end: now + self.doings.longest,
        })
    }

    /// The connection waits for something else than a message, until [`Attention::works`].
    pub fn rests(&mut self) {
        if std::mem::take(&mut self.at_work) {
            self.doings.lanes[self.lane].at_work.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A message has come. `looked`: while it was looked for; `in_vain`: after that.
    pub fn works(&mut self, looked: bool, in_vain: bool) {
        self.at_work = true;
        self.doings.lanes[self.lane].at_work.fetch_add(1, Ordering::Relaxed);
        if let Some(begin) = self.begin.take() {
            let last = &self.doings.lanes[self.lane].last;
            let is_alone = last.load(Ordering::Relaxed) == self.number;
            if !is_alone {
                last.store(self.number, Ordering::Relaxed);
            }
            self.is_quick = is_alone && (looked || begin.elapsed() < QUICK);
        }
        if in_vain {
            self.alone = self.patience;
            self.patience = (2 * self.patience).min(PATIENCE_MAX);
        } else if looked {
            self.patience = 1;
        }
    }
}

impl Look {
    /// Whether the thread is to look once more.
    pub fn goes_on(&self) -> bool {
        !self.doings.at_work() && Instant::now() < self.end
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.doings.lanes[self.lane].looking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        if self.at_work {
            self.doings.lanes[self.lane].at_work.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    /// A connection whose last message came at once.
    fn quick(doings: &Arc<Doings>, lane: usize) -> Attention {
        let mut attention = Attention::new(doings, lane);
        for _ in 0..2 {
            assert!(attention.waits().is_none(), "its client is not known yet");
            attention.works(false, false);
        }
        attention
    }

    #[test]
    fn nobody_looks_while_others_work() {
        let doings = Doings::new(2, 4, LONG);
        let (mut a, mut b) = (quick(&doings, 0), quick(&doings, 1));
        assert!(a.waits().is_none(), "b is at work");
        a.works(false, false);
        assert!(b.waits().is_none(), "a is at work");
        let look = a.waits().expect("nobody is at work");
        assert!(look.goes_on());
        b.works(false, false);
        assert!(!look.goes_on());
        b.rests();
        assert!(look.goes_on(), "b waits for changes");
        b.works(false, false);
        drop((look, b));
        assert_eq!((doings.at_work(), doings.looking()), (false, 0));
    }

    #[test]
    fn clients_that_take_turns_are_not_looked_for() {
        let doings = Doings::new(1, 4, LONG);
        let (mut a, mut b) = (quick(&doings, 0), quick(&doings, 0));
        drop((a.waits(), b.waits()));
        a.works(false, false);
        b.works(false, false);
        for _ in 0..3 {
            assert!(a.waits().is_none() && b.waits().is_none());
            a.works(false, false);
            b.works(false, false);
        }
        drop(b.waits());
        assert!(a.waits().is_none(), "its last message came after another's");
        a.works(false, false);
        assert!(a.waits().is_none());
        a.works(false, false);
        assert!(a.waits().is_some(), "two in a row");
    }

    #[test]
    fn half_of_the_processors_are_left() {
        for (processors, most) in [(1, 0), (2, 1), (3, 1), (4, 2)] {
            let doings = Doings::new(3, processors, LONG);
            let mut all = [0, 1, 2].map(|lane| quick(&doings, lane));
            all.iter_mut().for_each(|one| drop(one.waits()));
            let looks: Vec<Look> = all.iter_mut().filter_map(Attention::waits).collect();
            assert_eq!(looks.len(), most, "{processors}");
        }
        let never = Doings::new(1, 16, Duration::ZERO);
        assert!(quick(&never, 0).waits().is_none());
    }

    #[test]
    fn who_is_late_is_looked_for_more_and_more_rarely() {
        let doings = Doings::new(1, 2, LONG);
        let mut one = quick(&doings, 0);
        let mut looked = Vec::new();
        for message in 0..40 {
            let look = one.waits();
            looked.extend(look.is_some().then_some(message));
            one.works(false, look.is_some());
        }
        assert_eq!(looked, [0, 2, 5, 10, 19, 36]);
        one.alone = 0;
        let look = one.waits();
        assert!(look.is_some());
        one.works(true, false);
        drop(look);
        assert!(one.waits().is_some(), "it came in time");
    }
}
