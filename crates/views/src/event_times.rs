//! Times of events: a histogram with eight buckets per power of two, so that a quantile is right to
//! an eighth, and the exact maximum.

/// Number of buckets: eight for each of 64 powers of two.
const BUCKETS: usize = 64 * 8;

/// A histogram of the times of events, in nanoseconds.
pub(crate) struct EventTimes {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Default for EventTimes {
    fn default() -> Self {
        EventTimes { buckets: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }
}

/// The bucket that a time belongs to.
fn bucket(ns: u64) -> usize {
    if ns < 8 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() as usize;
    (power - 2) * 8 + (ns >> (power - 3) & 7) as usize
}

/// The longest time that belongs to a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (power, step) = (bucket / 8 + 2, (bucket % 8) as u64);
    let width = 1u64 << (power - 3);
    (8 + step) * width + (width - 1)
}

impl EventTimes {
    /// Notes `events` events that took `ns` each.
    pub fn note(&mut self, ns: u64, events: u64) {
        self.buckets[bucket(ns)] += events;
        self.count += events;
        self.max = self.max.max(ns);
    }

    /// The time that this share of all events did not exceed; `None` before the first event.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(upper(at).min(self.max))
    }

    /// The longest time; `None` before the first event.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_an_eighth_wide_at_most() {
        let mut before = 0;
        for ns in (0..10_000).chain((14..63).map(|power| 1 << power)).chain([u64::MAX]) {
            let at = bucket(ns);
            assert!(at >= before && at < BUCKETS, "{ns}");
            assert!(upper(at) >= ns && upper(at) - ns <= ns / 8, "{ns}: {}", upper(at));
            before = at;
        }
    }

    #[test]
    fn quantiles_are_of_all_events() {
        let mut times = EventTimes::default();
        assert_eq!((times.quantile(0.5), times.max()), (None, None));
        times.note(100, 98);
        times.note(1_000, 1);
        times.note(50_000, 1);
        assert!((100..=112).contains(&times.quantile(0.5).unwrap()));
        assert!((1_000..=1_124).contains(&times.quantile(0.99).unwrap()));
        assert_eq!((times.quantile(1.0), times.max()), (Some(50_000), Some(50_000)));
    }
}
