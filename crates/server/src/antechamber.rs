//! The antechamber: sockets whose client has not proved who it is.
//!
//! They are few, and each stays for a short time ([`ServerConfig::login_timeout`]). When one more comes,
//! the oldest socket of the address that has most of them goes, so that a flood from one address drives
//! out its own. A client takes one of the places of [`Places`] only once it has proved who it is; the
//! last of them are kept for superusers, who can end sessions when all others are taken.
//!
//! Wrong passwords cost time: each further attempt of the same address at the same role is judged later
//! than the one before, right or wrong ([`Failures::delay`]). The delay has a bound and concerns nobody
//! else, so that it locks nobody out.
//!
//! Invariants, checked by `the_oldest_of_the_address_with_most_sockets_leaves` (1) and
//! `the_last_places_are_for_superusers` (2):
//! 1. No more sockets wait than there is room for, but for those on their way out.
//! 2. No more places are taken than there are, the reserved ones by superusers only.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use halcyon::{SqlError, SqlState};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

#[cfg(doc)]
use crate::config::ServerConfig;

/// Sockets whose client has not logged in.
pub(crate) struct Antechamber {
    most: usize,
    /// By order of arrival.
    waiting: Mutex<(u64, BTreeMap<u64, Waiting>)>,
}

struct Waiting {
    peer: IpAddr,
    leave: Arc<Notify>,
}

/// A socket's presence in the antechamber; dropping it makes room.
pub(crate) struct Presence<'a> {
    antechamber: &'a Antechamber,
    number: u64,
    leave: Arc<Notify>,
}

impl Antechamber {
    /// Room for `most` sockets, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Antechamber { most: most.max(1), waiting: Mutex::default() }
    }

    /// Lets a socket in; another must leave if there is no room.
    pub(crate) fn enter(&self, peer: IpAddr) -> Presence<'_> {
        let leave = Arc::new(Notify::new());
        let mut guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, waiting) = &mut *guard;
        if waiting.len() >= self.most
            && let Some(oldest) = oldest_of_most(waiting)
            && let Some(gone) = waiting.remove(&oldest)
        {
            gone.leave.notify_one();
        }
        *last += 1;
        waiting.insert(*last, Waiting { peer, leave: Arc::clone(&leave) });
        Presence { antechamber: self, number: *last, leave }
    }
}

/// The oldest socket of the address that has most of them.
fn oldest_of_most(waiting: &BTreeMap<u64, Waiting>) -> Option<u64> {
    let mut counts: HashMap<IpAddr, (usize, u64)> = HashMap::new();
    for (number, socket) in waiting {
        counts.entry(socket.peer).or_insert((0, *number)).0 += 1;
    }
    // Of two addresses that have as many, the one whose oldest has waited longer.
    let most = counts.into_values().max_by_key(|(count, oldest)| (*count, u64::MAX - oldest))?;
    Some(most.1)
}

impl Presence<'_> {
    /// Waits until the socket must leave to make room.
    pub(crate) async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        let mut waiting = self.antechamber.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.1.remove(&self.number);
    }
}

/// The places of a server: how many clients may have a session.
pub(crate) struct Places {
    most: usize,
    reserved: usize,
    taken: AtomicUsize,
}

/// A place that is taken; dropping it gives it back.
pub(crate) struct Place(Arc<Places>);

impl Places {
    /// `most` places, the last `reserved` of them for superusers.
    pub(crate) fn new(most: usize, reserved: usize) -> Arc<Self> {
        Arc::new(Places { most, reserved: reserved.min(most), taken: AtomicUsize::new(0) })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place. Errors: 53300 if there is none, or only those that are kept for superusers.
    pub(crate) fn take(self: &Arc<Self>, superuser: bool) -> Result<Place, SqlError> {
        let open = if superuser { self.most } else { self.most - self.reserved };
        let next = |taken| (taken < open).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(Place(Arc::clone(self))),
            Err(taken) if taken < self.most => Err(SqlError::new(
                SqlState::TOO_MANY_CONNECTIONS,
                "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            )),
            Err(_) => Err(SqlError::new(
                SqlState::TOO_MANY_CONNECTIONS,
                "sorry, too many clients already",
            )
            .detail(format!("The server takes {} connections.", self.most))),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Pairs of address and role that are remembered at once.
const PAIRS_MAX: usize = 4_096;
/// Delay after the first wrong password; each further one doubles it.
const DELAY_FIRST: Duration = Duration::from_millis(100);
/// Longest delay.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Time without a wrong password after which a pair is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// Wrong passwords of late, by address and role.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<(IpAddr, String), Failed>>);

struct Failed {
    count: u32,
    last: Instant,
}

impl Failures {
    /// How long the next attempt of `peer` at `role` waits before it is judged.
    pub(crate) fn delay(&self, peer: IpAddr, role: &str) -> Duration {
        let pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pairs.get(&(peer, role.to_owned())) {
            Some(failed) if failed.last.elapsed() < FORGOTTEN_AFTER => {
                let doubled = 1 << (failed.count - 1).min(16);
                (DELAY_FIRST * doubled).min(DELAY_MAX)
            }
            _ => Duration::ZERO,
        }
    }

    /// Notes a wrong password.
    pub(crate) fn wrong(&self, peer: IpAddr, role: &str) {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (peer, role.to_owned());
        if pairs.len() >= PAIRS_MAX && !pairs.contains_key(&key) {
            pairs.retain(|_, failed| failed.last.elapsed() < FORGOTTEN_AFTER);
            let oldest = pairs.iter().min_by_key(|(_, failed)| failed.last);
            if pairs.len() >= PAIRS_MAX
                && let Some(oldest) = oldest.map(|(pair, _)| pair.clone())
            {
                pairs.remove(&oldest);
            }
        }
        let failed = pairs.entry(key).or_insert(Failed { count: 0, last: Instant::now() });
        *failed = Failed { count: failed.count.saturating_add(1), last: Instant::now() };
    }

    /// Notes a right password, which makes good the wrong ones.
    pub(crate) fn right(&self, peer: IpAddr, role: &str) {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !pairs.is_empty() {
            pairs.remove(&(peer, role.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn has_to_leave(presence: &Presence<'_>) -> bool {
        let waiting = presence.antechamber.waiting.lock().expect("no test panics with it");
        !waiting.1.contains_key(&presence.number)
    }

    #[test]
    fn the_oldest_of_the_address_with_most_sockets_leaves() {
        let antechamber = Antechamber::new(4);
        let alone = antechamber.enter(address(1));
        let flood: Vec<_> = (0..10).map(|_| antechamber.enter(address(2))).collect();
        assert!(!has_to_leave(&alone), "one socket of an address stays");
        let stay: Vec<_> = flood.iter().map(|presence| !has_to_leave(presence)).collect();
        assert_eq!(stay, [[false; 7].as_slice(), &[true; 3]].concat());
        drop(flood);
        let later = antechamber.enter(address(3));
        assert!(!has_to_leave(&alone) && !has_to_leave(&later));
        let count = antechamber.waiting.lock().expect("no test panics with it").1.len();
        assert_eq!(count, 2, "sockets that have gone take no room");
    }

    #[test]
    fn the_last_places_are_for_superusers() {
        let places = Places::new(3, 1);
        let held = [places.take(false), places.take(false)];
        assert!(held.iter().all(Result::is_ok));
        let refused = places.take(false).err().expect("only the reserved place is left");
        assert!(refused.message().contains("reserved"), "{refused}");
        let superuser = places.take(true);
        assert!(superuser.is_ok() && places.taken() == 3);
        for superuser in [false, true] {
            let refused = places.take(superuser).err().expect("no place is left");
            assert_eq!(refused.message(), "sorry, too many clients already");
        }
        drop(superuser);
        assert!(places.take(true).is_ok() && places.take(false).is_err());
    }

    #[test]
    fn delays_grow_to_a_bound_and_concern_one_address_and_role() {
        let failures = Failures::default();
        let mut before = Duration::ZERO;
        for _ in 0..30 {
            let delay = failures.delay(address(1), "ann");
            assert!(delay >= before && delay <= DELAY_MAX);
            before = delay;
            failures.wrong(address(1), "ann");
        }
        assert_eq!(before, DELAY_MAX);
        assert_eq!(failures.delay(address(1), "bob"), Duration::ZERO);
        assert_eq!(failures.delay(address(2), "ann"), Duration::ZERO);
        failures.right(address(1), "ann");
        assert_eq!(failures.delay(address(1), "ann"), Duration::ZERO);
    }

    #[test]
    fn a_bounded_number_of_pairs_is_remembered() {
        let failures = Failures::default();
        for role in 0..PAIRS_MAX + 10 {
            failures.wrong(address(1), &role.to_string());
        }
        assert_eq!(failures.0.lock().expect("no test panics with it").len(), PAIRS_MAX);
    }
}
