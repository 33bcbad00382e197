//! Feeds: the changes of a view for its subscribers, as whole transactions in the order of their
//! commits.
//!
//! From the first subscription on, a view keeps its last changes; followers read the kept batches,
//! each from its own position. A follower therefore costs the writers nothing, and a hundred
//! followers cost them no more than one. A follower that remains slower than the view changes is
//! told that the next batch is no longer kept, and may subscribe anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use halcyon_store::Value;

/// A change of one row of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDelta {
    /// The row before; `None` if the row is new.
    pub old: Option<Vec<Value>>,
    /// The row after; `None` if the row is gone.
    pub new: Option<Vec<Value>>,
}

/// Changed rows kept for followers; the last transaction is kept whatever its size.
pub const ROWS_KEPT_MAX: usize = 1 << 16;

/// The changes of a view's rows by one transaction.
#[derive(Debug)]
pub struct FeedBatch {
    /// Number of the transaction: 1 for the first since the view exists in this process, and one
    /// more for each further one.
    pub position: u64,
    /// The changed rows.
    pub rows: Vec<RowDelta>,
}

/// A view's feed: its last changes, and whether they are kept at all.
#[derive(Default)]
pub struct ViewFeed {
    followed: AtomicBool,
    kept: Mutex<KeptBatches>,
    grown: Condvar,
}

#[derive(Default)]
struct KeptBatches {
    batches: VecDeque<Arc<FeedBatch>>,
    rows: usize,
    /// Position of the last batch.
    last: u64,
    /// Whether the view is gone, so that no further changes come.
    closed: bool,
}

/// The error of a follower whose next batch is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lagging {
    /// The position of the batch that the follower wanted.
    pub wanted: u64,
    /// The oldest position kept.
    pub oldest: u64,
}

impl ViewFeed {
    /// Whether the view has ever had a follower.
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// Begins to keep changes and returns the position of the last one. The caller holds the view's
    /// partition locked, so that no transaction is changing the view.
    pub fn follow(&self) -> u64 {
        self.followed.store(true, Ordering::Relaxed);
        self.kept.lock().last
    }

    /// Publishes the changes of a transaction.
    pub fn publish(&self, rows: Vec<RowDelta>) {
        if rows.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        kept.last += 1;
        kept.rows += rows.len();
        let position = kept.last;
        kept.batches.push_back(Arc::new(FeedBatch { position, rows }));
        while kept.rows > ROWS_KEPT_MAX && kept.batches.len() > 1 {
            let oldest = kept.batches.pop_front().expect("more than one");
            kept.rows -= oldest.rows.len();
        }
        drop(kept);
        self.grown.notify_all();
    }

    /// Ends the feed for all followers, because the view is dropped.
    pub fn close(&self) {
        self.kept.lock().closed = true;
        self.grown.notify_all();
    }
}

/// A reader of a feed.
pub struct Follower {
    /// Position of the last batch that the follower has read.
    position: u64,
}

/// The answer of a feed to a follower.
pub enum FeedNews {
    /// The changes of the next transaction.
    Batch(Arc<FeedBatch>),
    /// No changes in the time given.
    Nothing,
    /// The view no longer exists.
    Gone,
}

impl Follower {
    /// Makes a follower whose next batch is the one behind a position.
    pub fn behind(position: u64) -> Self {
        Follower { position }
    }

    /// Position of the last batch that the follower has read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next batch, waiting for it up to `wait`.
    ///
    /// Errors: the batch is no longer kept, or the view has never reached the follower's position.
    pub fn next(&mut self, feed: &ViewFeed, wait: Duration) -> Result<FeedNews, Lagging> {
        let mut kept = feed.kept.lock();
        if self.position == kept.last && !kept.closed {
            feed.grown.wait_for(&mut kept, wait);
        }
        if self.position == kept.last {
            return Ok(if kept.closed { FeedNews::Gone } else { FeedNews::Nothing });
        }
        let wanted = self.position + 1;
        let oldest = kept.batches.front().map_or(kept.last + 1, |batch| batch.position);
        let at = wanted.checked_sub(oldest).and_then(|at| kept.batches.get(at as usize));
        let batch = at.ok_or(Lagging { wanted, oldest })?;
        self.position = wanted;
        Ok(FeedNews::Batch(Arc::clone(batch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_store::Value;

    fn rows(count: usize) -> Vec<RowDelta> {
        vec![RowDelta { old: None, new: Some(vec![Value::Int64(1)]) }; count]
    }

    fn position(found: Result<FeedNews, Lagging>) -> Option<u64> {
        match found.unwrap() {
            FeedNews::Batch(batch) => Some(batch.position),
            FeedNews::Nothing | FeedNews::Gone => None,
        }
    }

    #[test]
    fn followers_read_every_transaction_once_from_where_they_are() {
        let feed = ViewFeed::default();
        assert_eq!(feed.follow(), 0);
        let (mut one, mut other) = (Follower::behind(0), Follower::behind(1));
        feed.publish(Vec::new());
        feed.publish(rows(1));
        feed.publish(rows(2));
        let wait = Duration::ZERO;
        assert_eq!(position(one.next(&feed, wait)), Some(1));
        assert_eq!(position(one.next(&feed, wait)), Some(2));
        assert_eq!(position(one.next(&feed, wait)), None);
        assert_eq!(position(other.next(&feed, wait)), Some(2));
        feed.close();
        assert!(matches!(one.next(&feed, wait), Ok(FeedNews::Gone)));
    }

    #[test]
    fn a_slow_follower_is_told_what_is_still_kept() {
        let feed = ViewFeed::default();
        let mut slow = Follower::behind(0);
        for _ in 0..3 {
            feed.publish(rows(ROWS_KEPT_MAX / 2));
        }
        let lagging = slow.next(&feed, Duration::ZERO).map(|_| ()).unwrap_err();
        assert_eq!(lagging, Lagging { wanted: 1, oldest: 2 });
        assert_eq!(position(Follower::behind(1).next(&feed, Duration::ZERO)), Some(2));
        // A position from another process, perhaps.
        assert!(Follower::behind(17).next(&feed, Duration::ZERO).is_err());
    }
}
