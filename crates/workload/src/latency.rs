//! Latencies: histograms that can be merged, and the last minute of them by the second.
//!
//! A histogram has 32 buckets for each doubling from 512 ns to 73 minutes, so that the middle of a bucket is at most
//! 1.6 % from any value within (HdrHistogram's idea). Its memory is fixed: 4.2 kB; a minute of seconds has 60 of them.
//!
//! What has been counted since the beginning is kept in [`Totals`], a bucket for each doubling, which only grow.
//!
//! Invariant, checked by [`Histogram::check`]: the count of a histogram is the sum of its buckets.

use std::time::Duration;

/// Buckets of a doubling, as a power of two.
const SUB_BITS: u32 = 5;
/// Values below this power of two, in ns, are in the first bucket.
const FIRST_BIT: u32 = 9;
/// Values from this power of two on, in ns, are in the last bucket.
const LAST_BIT: u32 = 42;
/// How many buckets there are.
const BUCKETS: usize = ((LAST_BIT - FIRST_BIT) << SUB_BITS) as usize;
/// Seconds that are kept.
pub const SECONDS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;
/// Values above a quantile that make it trustworthy.
const ABOVE_MIN: f64 = 5.0;

/// Counts of times by length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u32]>,
    count: u64,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, sum_ns: 0 }
    }
}

impl Histogram {
    /// Counts a time.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = &mut self.counts[place(time_ns)];
        // A bucket that is full counts no more, and neither does the sum of all.
        if *bucket < u32::MAX {
            *bucket += 1;
            self.count += 1;
            self.sum_ns = self.sum_ns.saturating_add(time_ns);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            let sum = own.saturating_add(*more);
            self.count += u64::from(sum - *own);
            *own = sum;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
        self.sum_ns = 0;
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count).map(Duration::from_nanos)
    }

    /// The time that `share` (0 to 1) of all values do not exceed, to 1.6 %; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        // Counts are far below 2^53.
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        found.map(|place| Duration::from_nanos(middle(place)))
    }

    /// How many values do not exceed a time, to the bucket's width.
    pub fn within(&self, time: Duration) -> u64 {
        let last = place(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.counts[..=last].iter().copied().map(u64::from).sum()
    }

    /// Panics unless the invariant holds. For tests; O(buckets).
    pub fn check(&self) {
        assert_eq!(self.count, self.counts.iter().copied().map(u64::from).sum::<u64>());
    }
}

/// The bucket of a time.
#[inline]
fn place(time_ns: u64) -> usize {
    let clamped = time_ns.clamp(1 << FIRST_BIT, (1 << LAST_BIT) - 1);
    let bit = clamped.ilog2();
    let sub = (clamped >> (bit - SUB_BITS)) - (1 << SUB_BITS);
    // Below BUCKETS, which is about a thousand.
    (((bit - FIRST_BIT) << SUB_BITS) as usize) + sub as usize
}

/// The middle of a bucket, ns.
fn middle(place: usize) -> u64 {
    let place = place as u64;
    let bit = (place >> SUB_BITS) + u64::from(FIRST_BIT);
    let width = 1 << (bit - u64::from(SUB_BITS));
    let sub = place & ((1 << SUB_BITS) - 1);
    (1 << bit) + sub * width + width / 2
}

/// Doublings from the first bucket to the last.
const DOUBLINGS: usize = (LAST_BIT - FIRST_BIT) as usize;

/// Times counted since the beginning, by doublings. The counts only grow, as scrapers of metrics want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    counts: [u64; DOUBLINGS],
    sum_ns: u128,
}

impl Default for Totals {
    fn default() -> Self {
        Totals { counts: [0; DOUBLINGS], sum_ns: 0 }
    }
}

impl Totals {
    #[inline]
    fn record(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[place(time_ns) >> SUB_BITS] += 1;
        self.sum_ns += u128::from(time_ns);
    }

    /// Adds what another place has counted.
    pub fn merge(&mut self, other: &Totals) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, more)| *own += more);
        self.sum_ns += other.sum_ns;
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times, in seconds.
    pub fn sum_s(&self) -> f64 {
        // A sum of times is shown, and an `f64` has digits enough for that.
        self.sum_ns as f64 / 1e9
    }

    /// The upper ends of the buckets in nanoseconds, each with how many times lay below.
    pub fn below(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut below = 0;
        self.counts.iter().zip(FIRST_BIT + 1..).map(move |(count, bit)| {
            below += count;
            (1 << bit, below)
        })
    }
}

/// A quantile with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The quantile.
    pub value: Duration,
    /// Values that it was taken of.
    pub samples: u64,
    /// Seconds to which these belong, the running one included.
    pub seconds: u32,
    /// Whether these were enough.
    pub is_enough: bool,
}

/// Latencies of the last minute, by the second in which they ended.
#[derive(Clone, Debug)]
pub struct Windows {
    seconds: Vec<(u64, Histogram)>,
    totals: Totals,
}

impl Default for Windows {
    fn default() -> Self {
        let seconds = vec![(0, Histogram::default()); SECONDS];
        Windows { seconds, totals: Totals::default() }
    }
}

impl Windows {
    /// Counts a latency that ended now (the caller's time, ns).
    pub fn record(&mut self, now_ns: u64, latency: Duration) {
        self.totals.record(latency);
        if let Some(histogram) = self.second(now_ns / SECOND_NS) {
            histogram.record(latency);
        }
    }

    /// Adds what another place has counted in the same time.
    pub fn merge(&mut self, other: &Windows) {
        for (second, histogram) in
            other.seconds.iter().filter(|(_, histogram)| histogram.count() > 0)
        {
            if let Some(own) = self.second(*second) {
                own.merge(histogram);
            }
        }
        self.totals.merge(&other.totals);
    }

    /// Everything since the beginning.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The histogram of a second; `None` if the second is more than a minute older than what is kept.
    fn second(&mut self, second: u64) -> Option<&mut Histogram> {
        let place = usize::try_from(second % SECONDS as u64).ok()?;
        let (kept, histogram) = self.seconds.get_mut(place)?;
        if *kept > second {
            return None;
        }
        if *kept < second {
            histogram.clear();
            *kept = second;
        }
        Some(histogram)
    }

    /// The newest seconds first, with their age in seconds.
    fn newest(&self, now_ns: u64) -> impl Iterator<Item = (u32, &Histogram)> {
        let now = now_ns / SECOND_NS;
        (0..SECONDS as u32).filter_map(move |age| {
            let second = now.checked_sub(u64::from(age))?;
            let (kept, histogram) = &self.seconds[usize::try_from(second % SECONDS as u64).ok()?];
            (*kept == second).then_some((age, histogram))
        })
    }

    /// Everything of the last so many seconds, the running one included.
    pub fn last(&self, now_ns: u64, seconds: u32) -> Histogram {
        let mut all = Histogram::default();
        self.newest(now_ns)
            .filter(|(age, _)| *age < seconds)
            .for_each(|(_, histogram)| all.merge(histogram));
        all
    }

    /// The quantile over the shortest window that has five values above it, which is 500 values for P99; over the whole
    /// minute if that has fewer. `None` without values.
    pub fn quantile(&self, now_ns: u64, share: f64) -> Option<Measured> {
        let wanted = (ABOVE_MIN / (1.0 - share.clamp(0.0, 0.9999))).round() as u64;
        let mut all = Histogram::default();
        let mut seconds = 0;
        for (age, histogram) in self.newest(now_ns) {
            all.merge(histogram);
            seconds = age + 1;
            if all.count() >= wanted {
                break;
            }
        }
        let samples = all.count();
        let value = all.quantile(share)?;
        Some(Measured { value, samples, seconds, is_enough: samples >= wanted })
    }

    /// The share of the last minute's values that do not exceed a time, 0 to 1; `None` without values.
    pub fn attainment(&self, now_ns: u64, target: Duration) -> Option<f64> {
        let all = self.last(now_ns, SECONDS as u32);
        (all.count() > 0).then(|| all.within(target) as f64 / all.count() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn every_time_from_a_microsecond_to_an_hour_is_kept_to_two_percent() {
        let mut time_ns = 1_000_u64;
        while time_ns <= 3_600 * SECOND_NS {
            let kept = middle(place(time_ns)) as f64;
            assert!((kept / time_ns as f64 - 1.0).abs() <= 0.02, "{time_ns} {kept}");
            time_ns += 1 + time_ns / 997;
        }
        assert_eq!((place(0), place(u64::MAX)), (0, BUCKETS - 1));
        assert!((0..BUCKETS - 1).all(|at| middle(at) < middle(at + 1) && place(middle(at)) == at));
    }

    #[test]
    fn totals_keep_what_the_windows_forget() {
        let mut windows = Windows::default();
        for second in 0..200 {
            windows.record(second * SECOND_NS, Duration::from_micros(3));
            windows.record(second * SECOND_NS, Duration::from_millis(40));
        }
        let mut twice = windows.clone();
        twice.merge(&windows);
        let totals = twice.totals();
        assert_eq!(totals.count(), 800);
        assert!((totals.sum_s() - 400.0 * 0.040_003).abs() < 1e-9);
        let below = |ns: u64| totals.below().find(|(end, _)| *end >= ns).expect("an end").1;
        assert_eq!(
            (below(2_000), below(4_000), below(30_000_000), below(60_000_000)),
            (0, 400, 400, 800)
        );
        assert!(totals.below().map(|(_, count)| count).is_sorted());
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut rng = Rng::new(1);
        for round in 0..50 {
            let mut histogram = Histogram::default();
            let mut values: Vec<u64> = (0..1 + rng.below(2_000))
                .map(|_| 1_000 + rng.below(1 << (12 + round % 28)))
                .collect();
            values.iter().for_each(|value| histogram.record(Duration::from_nanos(*value)));
            histogram.check();
            values.sort_unstable();
            for share in [0.0, 0.5, 0.95, 0.99, 0.999, 1.0] {
                let rank = ((values.len() as f64 * share).ceil() as usize).max(1) - 1;
                let found = histogram.quantile(share).unwrap().as_nanos() as f64;
                assert!((found / values[rank] as f64 - 1.0).abs() <= 0.02);
            }
        }
    }

    #[test]
    fn merging_is_as_good_as_counting_together() {
        let (mut left, mut right, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        let mut rng = Rng::new(2);
        for _ in 0..1_000 {
            let time = Duration::from_micros(rng.below(100_000));
            both.record(time);
            if rng.below(3) == 0 { left.record(time) } else { right.record(time) }
        }
        left.merge(&right);
        left.check();
        assert_eq!(left, both);
        assert_eq!(left.within(Duration::from_secs(1)), 1_000);
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().mean(), None);
    }

    #[test]
    fn the_window_is_as_long_as_the_quantile_needs() {
        let mut windows = Windows::default();
        let now = |second: u64| second * SECOND_NS + 7;
        for second in 0..100 {
            for _ in 0..50 {
                windows
                    .record(now(second), Duration::from_millis(if second < 95 { 10 } else { 20 }));
            }
        }
        let measured = |share: f64| windows.quantile(now(99), share).unwrap();
        assert_eq!(
            (measured(0.5).seconds, measured(0.95).seconds, measured(0.99).seconds),
            (1, 2, 10)
        );
        assert!(measured(0.99).is_enough && !measured(0.999).is_enough);
        assert_eq!((measured(0.999).seconds, measured(0.999).samples), (60, 3_000));
        let share = windows.attainment(now(99), Duration::from_millis(15)).unwrap();
        assert!((share - 55.0 / 60.0).abs() < 1e-9);
        // A minute later nothing is left; an old second is not counted any more.
        assert_eq!(windows.quantile(now(200), 0.5), None);
        windows.record(now(200), Duration::from_millis(1));
        windows.record(now(20), Duration::from_millis(1));
        assert_eq!(windows.last(now(200), 60).count(), 1);
    }

    #[test]
    fn windows_of_several_places_are_merged_by_the_second() {
        let mut all = Windows::default();
        for place in 0..3 {
            let mut own = Windows::default();
            own.record(5 * SECOND_NS, Duration::from_millis(1));
            own.record((6 + place) * SECOND_NS, Duration::from_millis(1));
            all.merge(&own);
        }
        assert_eq!(all.last(8 * SECOND_NS, 1).count(), 1);
        assert_eq!(all.last(8 * SECOND_NS, 4).count(), 6);
    }
}
