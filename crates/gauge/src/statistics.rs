//! Quantiles of latencies, and the slope of a series that a few bad values do not move.

/// The smallest value that at least a share of `q` of all values do not exceed; `None` without values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// A slope and the bounds between which it lies with 95 % confidence, per unit of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The median of the slopes between any two points.
    pub median: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// The Theil–Sen slope of points `(x, y)` with different `x`, with Sen's bounds of confidence (Sen 1968, by
/// the normal approximation of Kendall's statistic). `None` for fewer than two points.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<Slope> {
    let mut slopes = Vec::new();
    for (at, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().map(|(next_x, next_y)| (next_y - y) / (next_x - x)));
    }
    slopes.sort_by(f64::total_cmp);
    let (count, pairs) = (points.len() as f64, slopes.len() as f64);
    let spread = 1.96 * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let below = ((pairs - spread) / 2.0).floor().max(0.0) as usize;
    Some(Slope {
        median: median(&slopes)?,
        low: *slopes.get(below)?,
        high: *slopes.get(slopes.len() - 1 - below)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!(quantile(&values, 1.0), Some(100.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!((mean(&values), mean(&[])), (Some(50.5), None));
        assert_eq!((median(&[4.0, 1.0]), median(&[3.0, 9.0, 1.0])), (Some(2.5), Some(3.0)));
    }

    #[test]
    fn a_line_has_its_slope_in_spite_of_one_wild_point() {
        let mut points: Vec<_> =
            (0..12).map(|x| (f64::from(x), 8.0 + 3.0 * f64::from(x))).collect();
        let straight = Slope { median: 3.0, low: 3.0, high: 3.0 };
        assert_eq!(theil_sen(&points), Some(straight));
        points[5].1 = 1_000.0;
        let bent = theil_sen(&points).expect("twelve points");
        assert_eq!(bent.median, 3.0);
        assert!(bent.low <= 3.0 && bent.high >= 3.0, "{bent:?}");
    }

    #[test]
    fn bounds_of_noise_around_a_level_hold_zero_and_those_of_a_rise_do_not() {
        let noise = [0.3, -0.4, 0.1, -0.2, 0.4, -0.1, 0.2, -0.3, 0.0, 0.2];
        let with_slope = |slope: f64| -> Slope {
            let points: Vec<_> =
                (0..10).map(|x| (x as f64, 8.0 + slope * x as f64 + noise[x])).collect();
            theil_sen(&points).expect("ten points")
        };
        let level = with_slope(0.0);
        assert!(level.low < 0.0 && level.high > 0.0, "{level:?}");
        let rise = with_slope(0.5);
        assert!(rise.low > 0.0 && (rise.median - 0.5).abs() < 0.1, "{rise:?}");
        assert_eq!(theil_sen(&[(1.0, 1.0)]), None);
    }
}
