//! Circles of waits that pass through advisory locks and through others: a session that waits for an advisory lock may
//! hold partitions, and one that waits for a partition may hold advisory locks.
//!
//! The task or thread that begins either wait looks, once the wait can be seen, for a circle through its session
//! ([`AdvisoryLocks::refuse_circles`]): the last one to begin sees the circle whole. The victim is the one of the
//! circle that has begun last to wait for an advisory lock; circles without such a wait are found elsewhere.
//!
//! The edges are not read at one moment. A circle counts if a second look finds the same waits for advisory locks in
//! it: who waits neither gives locks back nor takes some meanwhile, so that its edges were all there between the looks.

use std::collections::HashMap;
use std::hash::Hash;

use halcyon_base::sync::atomic::Ordering;

use super::AdvisoryLocks;

/// The sessions that a session waits for by other means than advisory locks, directly or through others.
pub(super) type Blockers = Box<dyn Fn(u32) -> Vec<u32> + Send + Sync>;

/// A session's wait for an advisory lock, by its ticket.
type Wait = (u32, u64);

impl<K: Copy + Eq + Hash> AdvisoryLocks<K> {
    /// Has circles be found that pass through other waits: `blockers` gives the sessions for which a session waits
    /// there, and calls no function of these locks. Only the first call has an effect.
    pub fn beside(&self, blockers: impl Fn(u32) -> Vec<u32> + Send + Sync + 'static) {
        let _ = self.beside.set(Box::new(blockers));
    }

    /// Ends waits for advisory locks until there is no circle through a session that has begun to wait, for an advisory
    /// lock or by other means. One load if there are no advisory locks at all.
    pub fn refuse_circles(&self, session: u32) {
        let Some(beside) = self.beside.get() else { return };
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        while let Some(circle) = self.circle_through(session, beside) {
            if self.circle_through(session, beside).as_ref() != Some(&circle) {
                continue;
            }
            let victim = circle.iter().max_by_key(|(_, ticket)| *ticket);
            let &(victim, ticket) = victim.expect("a circle of other waits alone is passed over");
            let mut state = self.state.lock();
            let waiter = state.waiting.get_mut(&victim);
            if let Some(waiter) = waiter.filter(|waiter| waiter.ticket == ticket) {
                waiter.refused = true;
                if let Some(waker) = waiter.waker.take() {
                    waker.wake();
                }
                self.released.notify_all();
            }
        }
    }

    /// The waits for advisory locks in a circle through a session, if there is one with some. Depth first, each
    /// session visited once.
    fn circle_through(&self, start: u32, beside: &Blockers) -> Option<Vec<Wait>> {
        let waits: HashMap<u32, (u64, Vec<u32>)> = {
            let state = self.state.lock();
            let waiting = state.waiting.iter().filter(|(_, waiter)| !waiter.refused);
            waiting
                .map(|(&session, waiter)| {
                    let key = waiter.request.key;
                    let blockers = state.blockers(session, key, waiter.request.shared);
                    (session, (waiter.ticket, blockers))
                })
                .collect()
        };
        if waits.is_empty() {
            return None;
        }
        let blockers = |session: u32| match waits.get(&session) {
            Some((_, blockers)) => blockers.clone(),
            None => beside(session),
        };
        let mut seen = vec![start];
        let mut path = vec![(start, blockers(start))];
        while let Some((_, open)) = path.last_mut() {
            let Some(next) = open.pop() else {
                path.pop();
                continue;
            };
            if next == start {
                let wait = |(session, _): &(u32, _)| Some((*session, waits.get(session)?.0));
                let circle: Vec<Wait> = path.iter().filter_map(wait).collect();
                if !circle.is_empty() {
                    return Some(circle);
                }
            } else if !seen.contains(&next) {
                seen.push(next);
                path.push((next, blockers(next)));
            }
        }
        None
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::{AdvisoryError, AdvisoryRequest};
    use super::*;
    use crate::event::CancelToken;

    #[test]
    fn the_last_wait_for_an_advisory_lock_in_a_circle_is_refused() {
        let locks = Arc::new(AdvisoryLocks::default());
        // Session 2 waits for a partition of session 3's, and session 4 for one of its own, which is none.
        locks.beside(|session| match session {
            2 => vec![3, 5],
            4 => vec![4],
            _ => Vec::new(),
        });
        let request = |key| AdvisoryRequest { key, shared: false, of_transaction: false };
        let never = CancelToken::new();
        assert!(locks.try_lock(1, request(1)) && locks.try_lock(2, request(2)));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| locks.lock(1, request(2), &never, None));
            while locks.state.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            locks.refuse_circles(2);
            locks.refuse_circles(4);
            // Session 3 waits for 1, which waits for 2, which waits for 3.
            let last = locks.lock(3, request(1), &never, Some(Duration::from_secs(60)));
            assert_eq!(last, Err(AdvisoryError::Deadlock));
            locks.release(2);
            assert_eq!(first.join().expect("no panic"), Ok(()));
        });
    }
}
