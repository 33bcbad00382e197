//! The moment at which the next batch begins: at once, or when the sessions that were just told are
//! back.
//!
//! Sessions that commit one transaction after the other fall into two halves that take turns, one
//! at the disk and one that gathers behind it: a sync then carries half of what it could. So after
//! a sync the next batch is held back until as many sessions wait as did before; the last to come
//! begins the batch. Holding back pays if the sessions come back within the time of a sync, which
//! is the longest that a batch is held back: all commits in one sync and the time held back must be
//! a better rate than half of the commits per sync. Whether that is so is learned: after an attempt
//! that did not pay, no attempt is made for one batch, then three, seven, … [`SKIPPED_MAX`], until
//! one pays.

use halcyon_base::clock::{self, Moment};
use std::time::Duration;

/// Batches between two attempts at most.
const SKIPPED_MAX: u32 = 63;
/// Longest time to hold a batch back, however slow the disk is.
const HELD_MAX: Duration = Duration::from_millis(10);

/// Statistics of sessions that wait for the disk, from which the next batch's beginning follows.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Number of sessions that wait once all are back.
    expected: usize,
    /// When the last batch ended.
    ended: Option<Moment>,
    /// The end of the wait for the sessions that are not back.
    until: Option<Moment>,
    /// Batches for which no attempt is made, and how many there were after the last failure.
    skip: u32,
    skipped: u32,
    /// Time that a sync takes, smoothed.
    sync: Duration,
}

impl Gather {
    /// Whether a batch should begin, given the number of waiting sessions.
    pub(super) fn is_ripe(&self, waiting: usize) -> bool {
        match self.until {
            None => true,
            Some(until) => waiting >= self.expected || clock::now() >= until,
        }
    }

    /// The time until which the next batch is held back, if it is and no further session comes.
    /// Twice as long as a session that comes would wait: a timer that goes off while all goes well
    /// costs a switch of threads.
    pub(super) fn until(&self) -> Option<Moment> {
        self.until.map(|until| until.plus(self.sync.min(HELD_MAX)))
    }

    /// Notes that a batch begins `now`, with the number of sessions that wait.
    pub(super) fn begin(&mut self, waiting: usize, now: Moment) {
        let (Some(_), Some(ended)) = (self.until.take(), self.ended) else {
            return;
        };
        let times = |count: usize, time: Duration| count as u128 * time.as_nanos();
        let held = now.since(ended);
        if 2 * times(waiting, self.sync) > times(self.expected, self.sync + held) {
            self.skipped = 0;
        } else {
            self.skipped = (2 * self.skipped + 1).min(SKIPPED_MAX);
            self.skip = self.skipped;
        }
    }

    /// Notes that a batch ended `now`: the number of sessions told and left, and the time that the
    /// disk took.
    pub(super) fn end(&mut self, told: usize, left: usize, took: Duration, now: Moment) {
        self.sync = if self.sync.is_zero() { took } else { (7 * self.sync + took) / 8 };
        (self.expected, self.ended, self.until) = (told + left, Some(now), None);
        if told == 0 || self.expected < 2 {
            return;
        }
        match self.skip {
            0 => self.until = Some(now.plus(self.sync.min(HELD_MAX))),
            _ => self.skip -= 1,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_secs(3600);

    #[test]
    fn the_last_one_back_begins_the_batch() {
        let mut gather = Gather::default();
        assert!(gather.is_ripe(1), "nothing is known yet");
        gather.begin(1, clock::now());
        gather.end(1, 3, SYNC, clock::now());
        assert!(!gather.is_ripe(3));
        assert!(gather.is_ripe(4));
        gather.begin(4, clock::now());
        gather.end(4, 0, SYNC, clock::now());
        assert!(!gather.is_ripe(3));
        assert!(gather.is_ripe(4));
    }

    #[test]
    fn who_is_alone_is_never_held_back() {
        let mut gather = Gather::default();
        for _ in 0..3 {
            assert!(gather.is_ripe(1));
            gather.begin(1, clock::now());
            gather.end(1, 0, SYNC, clock::now());
        }
    }

    #[test]
    fn nobody_is_waited_for_longer_than_a_sync() {
        let mut gather = Gather::default();
        let ended = clock::now();
        std::thread::sleep(Duration::from_millis(11));
        gather.end(2, 2, SYNC, ended);
        assert!(gather.is_ripe(2), "the longest time is over");
        gather.end(2, 2, Duration::ZERO, ended);
        assert!(gather.is_ripe(2));
    }

    #[test]
    fn sessions_that_do_not_come_back_soon_are_waited_for_ever_less() {
        let (mut gather, mut attempts) = (Gather::default(), Vec::new());
        let mut now = clock::now();
        for batch in 0..400 {
            gather.end(4, 4, SYNC, now);
            if gather.until().is_some() {
                attempts.push(batch);
                now = now.plus(SYNC);
            }
            // Six of eight in twice the time are fewer than four in once.
            gather.begin(6, now);
        }
        assert_eq!(attempts, [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]);
        // Once the sessions come back in time, every batch waits for them.
        for _ in 400..464 {
            gather.end(4, 4, SYNC, now);
            now = now.plus(SYNC / 2);
            gather.begin(if gather.until().is_some() { 8 } else { 6 }, now);
        }
        gather.end(4, 4, SYNC, clock::now());
        assert!(!gather.is_ripe(7) && gather.is_ripe(8));
    }
}
