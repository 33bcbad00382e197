//! Feeds: the changes of a view for its subscribers, as whole transactions in the order of their
//! commits.
//!
//! From the first subscription on, a view keeps its last changes; followers read the kept batches,
//! each from its own position. A follower therefore costs the writers nothing, and a hundred
//! followers cost them no more than one. A follower that remains slower than the view changes is
//! told that the next batch is no longer kept, and may subscribe anew.
//!
//! A follower waits as a thread ([`Follower::next`]) or without one ([`Follower::poll_news`]). Invariants, checked by
//! the models in `feed/models.rs` and by `a_follower_without_a_thread_misses_no_change`:
//! 1. Who has seen no news has left a waker under the lock under which the next batch is added, so that batch
//!    wakes the follower; and so does the view's end.
//! 2. A follower has one waker at most, that of its last look, and a follower that is gone has none.

#[cfg(all(test, shuttle))]
mod models;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use halcyon_base::sync::atomic::{AtomicBool, Ordering};
use halcyon_base::sync::{Condvar, Mutex, MutexGuard};
use halcyon_store::Value;

use crate::planted;

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
    /// Followers that wait without a thread, by number.
    wakers: Vec<(u64, Waker)>,
    /// How many followers have ever waited so.
    numbered: u64,
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
        let is_told = planted::is(planted::TOLD_BEFORE_KEPT);
        if is_told {
            self.tell(kept);
            kept = self.kept.lock();
        }
        kept.last += 1;
        kept.rows += rows.len();
        let position = kept.last;
        kept.batches.push_back(Arc::new(FeedBatch { position, rows }));
        while kept.rows > ROWS_KEPT_MAX && kept.batches.len() > 1 {
            let oldest = kept.batches.pop_front().expect("more than one");
            kept.rows -= oldest.rows.len();
        }
        if !is_told {
            self.tell(kept);
        }
    }

    /// Wakes all who wait for news.
    fn tell(&self, mut kept: MutexGuard<'_, KeptBatches>) {
        let mut wakers = std::mem::take(&mut kept.wakers);
        if kept.closed && planted::is(planted::END_UNTOLD) {
            wakers.clear();
        }
        drop(kept);
        self.grown.notify_all();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends the feed for all followers, because the view is dropped.
    pub fn close(&self) {
        let mut kept = self.kept.lock();
        kept.closed = true;
        self.tell(kept);
    }
}

/// A reader of a feed.
pub struct Follower {
    feed: Arc<ViewFeed>,
    /// Position of the last batch that the follower has read.
    position: u64,
    /// The follower's number among those that wait without a thread, once it has waited so.
    number: Option<u64>,
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
    pub fn behind(feed: Arc<ViewFeed>, position: u64) -> Self {
        Follower { feed, position, number: None }
    }

    /// Position of the last batch that the follower has read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Ready if [`Follower::next`] would not wait; else the next change wakes the task. Cost: one look at the
    /// followers that wait.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut kept = self.feed.kept.lock();
        if self.position != kept.last || kept.closed {
            return Poll::Ready(());
        }
        if planted::is(planted::LATE_WAKER) {
            drop(kept);
            kept = self.feed.kept.lock();
        }
        let KeptBatches { wakers, numbered, .. } = &mut *kept;
        let number = *self.number.get_or_insert_with(|| {
            *numbered += 1;
            *numbered
        });
        match wakers.iter_mut().find(|(waiting, _)| *waiting == number) {
            Some(_) if planted::is(planted::OLD_WAKER_KEPT) => {}
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => wakers.push((number, context.waker().clone())),
        }
        Poll::Pending
    }

    /// Returns the next batch, waiting for it up to `wait`.
    ///
    /// Errors: the batch is no longer kept, or the view has never reached the follower's position.
    pub fn next(&mut self, wait: Duration) -> Result<FeedNews, Lagging> {
        let mut kept = self.feed.kept.lock();
        if self.position == kept.last && !kept.closed && !wait.is_zero() {
            self.feed.grown.wait_for(&mut kept, wait);
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

impl Drop for Follower {
    /// The waker goes too: a view that does not change would keep those of all who ever waited for it.
    fn drop(&mut self) {
        if let Some(number) = self.number
            && !planted::is(planted::WAKER_LEFT_BEHIND)
        {
            self.feed.kept.lock().wakers.retain(|(waiting, _)| *waiting != number);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use halcyon_store::Value;
    use std::sync::atomic::AtomicU64;

    fn rows(count: usize) -> Vec<RowDelta> {
        vec![RowDelta { old: None, new: Some(vec![Value::Int64(1)]) }; count]
    }

    fn behind(feed: &Arc<ViewFeed>, position: u64) -> Follower {
        Follower::behind(Arc::clone(feed), position)
    }

    fn position(found: Result<FeedNews, Lagging>) -> Option<u64> {
        match found.unwrap() {
            FeedNews::Batch(batch) => Some(batch.position),
            FeedNews::Nothing | FeedNews::Gone => None,
        }
    }

    #[test]
    fn followers_read_every_transaction_once_from_where_they_are() {
        let feed = Arc::<ViewFeed>::default();
        assert_eq!(feed.follow(), 0);
        let (mut one, mut other) = (behind(&feed, 0), behind(&feed, 1));
        feed.publish(Vec::new());
        feed.publish(rows(1));
        feed.publish(rows(2));
        let wait = Duration::ZERO;
        assert_eq!(position(one.next(wait)), Some(1));
        assert_eq!(position(one.next(wait)), Some(2));
        assert_eq!(position(one.next(wait)), None);
        assert_eq!(position(other.next(wait)), Some(2));
        feed.close();
        assert!(matches!(one.next(wait), Ok(FeedNews::Gone)));
    }

    /// A waker that counts.
    #[derive(Default)]
    struct Woken(AtomicU64);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_follower_without_a_thread_misses_no_change() {
        let feed = Arc::<ViewFeed>::default();
        let (woken, other) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (waker, others) = (Waker::from(woken.clone()), Waker::from(other.clone()));
        let mut follower = behind(&feed, 0);
        let mut second = behind(&feed, 0);
        for change in 1..=3 {
            let context = &mut Context::from_waker(&waker);
            assert!(follower.poll_news(context).is_pending());
            assert!(follower.poll_news(context).is_pending(), "again, by one waker");
            assert!(second.poll_news(&mut Context::from_waker(&others)).is_pending());
            assert_eq!(feed.kept.lock().wakers.len(), 2);
            feed.publish(rows(1));
            assert_eq!(woken.0.load(Ordering::SeqCst), change, "woken once for each change");
            assert_eq!(other.0.load(Ordering::SeqCst), change);
            assert!(follower.poll_news(context).is_ready());
            assert_eq!(position(follower.next(Duration::ZERO)), Some(change));
            assert_eq!(position(second.next(Duration::ZERO)), Some(change));
        }
        assert!(follower.poll_news(&mut Context::from_waker(&waker)).is_pending());
        assert!(second.poll_news(&mut Context::from_waker(&others)).is_pending());
        drop(second);
        assert_eq!(feed.kept.lock().wakers.len(), 1, "who is gone has left no waker");
        feed.close();
        assert_eq!(woken.0.load(Ordering::SeqCst), 4, "the view's end is news");
        assert!(follower.poll_news(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn changes_of_other_threads_wake_a_follower_without_one() {
        const CHANGES: u64 = 2_000;
        let feed = Arc::<ViewFeed>::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..CHANGES).for_each(|_| feed.publish(rows(1))));
            let waker = halcyon_base::parking::waker();
            let mut follower = behind(&feed, 0);
            while follower.position() < CHANGES {
                let context = &mut Context::from_waker(&waker);
                match follower.poll_news(context) {
                    Poll::Pending => std::thread::park(),
                    Poll::Ready(()) => {
                        position(follower.next(Duration::ZERO)).expect("news");
                    }
                }
            }
        });
    }

    #[test]
    fn a_slow_follower_is_told_what_is_still_kept() {
        let feed = Arc::<ViewFeed>::default();
        let mut slow = behind(&feed, 0);
        for _ in 0..3 {
            feed.publish(rows(ROWS_KEPT_MAX / 2));
        }
        let lagging = slow.next(Duration::ZERO).map(|_| ()).unwrap_err();
        assert_eq!(lagging, Lagging { wanted: 1, oldest: 2 });
        assert_eq!(position(behind(&feed, 1).next(Duration::ZERO)), Some(2));
        // A position from another process, perhaps.
        assert!(behind(&feed, 17).next(Duration::ZERO).is_err());
    }
}
