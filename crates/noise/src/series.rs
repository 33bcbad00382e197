//! The gaps of one series and their figures. Nothing is ever cut from a series.

use crate::stamps::Stamps;

/// The gaps of one series, in the order of its tuples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    ticks: Vec<u64>,
}

/// Figures of a series, in ticks. Quantiles are values that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of tuples.
    pub tuples: usize,
    /// Sum of all gaps.
    pub total: u64,
    /// Shortest gap.
    pub min: u64,
    /// 0.05th percentile.
    pub p0_05: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.95th percentile.
    pub p99_95: u64,
    /// Longest gap.
    pub max: u64,
    /// Longest gap by the median: how far a series reaches upwards (P2, Figure 5).
    pub span_above: f64,
    /// Median by the shortest gap: how far a series reaches downwards. A shortest gap of zero ticks counts as one.
    pub span_below: f64,
    /// Number of gaps above the bound.
    pub outliers: usize,
    /// Share of all time that lies above the median in gaps above the bound.
    pub lost: f64,
}

impl Series {
    /// The gaps of a thread's stamps.
    pub fn of(stamps: &Stamps) -> Series {
        Series { ticks: stamps.all().windows(2).map(|pair| pair[1] - pair[0]).collect() }
    }

    /// A series of these gaps.
    pub fn from_ticks(ticks: Vec<u64>) -> Series {
        Series { ticks }
    }

    /// The gaps, in ticks.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks
    }

    /// Figures of the series; `None` without tuples. `bound_ticks`: what counts as an outlier.
    pub fn summary(&self, bound_ticks: u64) -> Option<Summary> {
        let mut sorted = self.ticks.clone();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let p50 = quantile(&sorted, 0.5);
        let total: u64 = sorted.iter().sum();
        let above = &sorted[sorted.partition_point(|&gap| gap <= bound_ticks)..];
        let excess: u64 = above.iter().map(|&gap| gap.saturating_sub(p50)).sum();
        Some(Summary {
            tuples: sorted.len(),
            total,
            min,
            p0_05: quantile(&sorted, 0.0005),
            p50,
            p99: quantile(&sorted, 0.99),
            p99_95: quantile(&sorted, 0.9995),
            max,
            span_above: max as f64 / p50.max(1) as f64,
            span_below: p50 as f64 / min.max(1) as f64,
            outliers: above.len(),
            lost: if total == 0 { 0.0 } else { excess as f64 / total as f64 },
        })
    }

    /// For each tuple the mean of the `window` gaps around it; fewer at both ends. O(tuples).
    pub fn running_mean(&self, window: usize) -> Vec<f64> {
        let (before, behind) = (window / 2, window - window / 2);
        let mut means = Vec::with_capacity(self.ticks.len());
        let (mut from, mut to, mut sum) = (0, 0, 0_u64);
        for at in 0..self.ticks.len() {
            let end = (at + behind.max(1)).min(self.ticks.len());
            sum += self.ticks[to..end].iter().sum::<u64>();
            to = end;
            let start = at.saturating_sub(before);
            sum -= self.ticks[from..start].iter().sum::<u64>();
            from = start;
            means.push(sum as f64 / (to - from) as f64);
        }
        means
    }
}

/// The smallest of sorted values that at least a share of `q` of all values do not exceed.
///
/// Panics: without values.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn figures_are_those_of_all_tuples() {
        let mut ticks: Vec<u64> = vec![100; 9_990];
        ticks.extend([50, 90, 200, 300, 400, 500, 600, 700, 5_100, 1_000_100]);
        let summary = Series::from_ticks(ticks).summary(5_000).expect("tuples");
        assert_eq!((summary.tuples, summary.min, summary.max), (10_000, 50, 1_000_100));
        assert_eq!((summary.p0_05, summary.p50, summary.p99), (100, 100, 100));
        // Five of ten thousand lie above the 99.95th percentile.
        assert_eq!(summary.p99_95, 400);
        assert_eq!((summary.span_above, summary.span_below), (10_001.0, 2.0));
        assert_eq!(summary.outliers, 2);
        let total = 9_990.0 * 100.0 + 2_840.0 + 1_005_200.0;
        assert_eq!(summary.total as f64, total);
        assert!((summary.lost - 1_005_000.0 / total).abs() < 1e-12, "{summary:?}");
    }

    #[test]
    fn few_tuples_have_figures_and_none_have_none() {
        assert_eq!(Series::default().summary(1), None);
        let one = Series::from_ticks(vec![7]).summary(1).expect("a tuple");
        assert_eq!((one.min, one.p0_05, one.p50, one.p99_95, one.max), (7, 7, 7, 7, 7));
        assert_eq!(one.lost, 0.0, "one tuple is its own median");
        let zero = Series::from_ticks(vec![0, 0]).summary(1).expect("tuples");
        assert_eq!((zero.lost, zero.span_below), (0.0, 0.0));
    }

    #[test]
    fn running_mean_equals_its_slow_twin() {
        let mut rng = Rng::new(3);
        for window in [1, 2, 3, 10, 1000] {
            let ticks: Vec<u64> = (0..300).map(|_| rng.below(1000)).collect();
            let means = Series::from_ticks(ticks.clone()).running_mean(window);
            for (at, mean) in means.iter().enumerate() {
                let start = at.saturating_sub(window / 2);
                let end = (at + (window - window / 2)).min(ticks.len());
                let slow = ticks[start..end].iter().sum::<u64>() as f64 / (end - start) as f64;
                assert!((mean - slow).abs() < 1e-9, "window {window}, at {at}: {mean} {slow}");
            }
        }
    }
}
