//! Outliers by cause: how often, how long, the worst and the last.

use std::collections::BTreeMap;

/// What one cause took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of outliers.
    pub count: u64,
    /// Sum of their excess, ticks.
    pub total_ticks: u64,
    /// The longest outlier, ticks, with the ordinary time of a tuple in it.
    pub worst_ticks: u64,
    /// When the last one ended: a stamp.
    pub last_at: u64,
}

/// The outliers of one series by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Who was asked: the kernel's trace, or counters in its place and why.
    pub asked: String,
    /// Gaps above this are outliers, ticks.
    pub bound_ticks: u64,
    /// By the name of the cause.
    pub causes: BTreeMap<String, Tally>,
    /// Outliers of which nothing is known: the trace had lost events, or had not begun.
    pub unknown: Tally,
}

impl Tally {
    fn add(&mut self, gap: u64, excess: u64, at: u64) {
        self.count += 1;
        self.total_ticks += excess;
        self.worst_ticks = self.worst_ticks.max(gap);
        self.last_at = self.last_at.max(at);
    }
}

impl Attribution {
    /// No outliers yet.
    pub fn new(asked: impl Into<String>, bound_ticks: u64) -> Attribution {
        Attribution { asked: asked.into(), bound_ticks, ..Attribution::default() }
    }

    /// Adds an outlier that ended at stamp `at`; `None`: nothing is known of it.
    pub fn add(&mut self, cause: Option<String>, gap: u64, excess: u64, at: u64) {
        match cause {
            Some(name) => self.causes.entry(name).or_default().add(gap, excess, at),
            None => self.unknown.add(gap, excess, at),
        }
    }

    /// Number of outliers.
    pub fn outliers(&self) -> u64 {
        self.unknown.count + self.causes.values().map(|tally| tally.count).sum::<u64>()
    }

    /// Share of all excess that has a cause with a name; 1 without outliers.
    pub fn named_share(&self) -> f64 {
        let named: u64 = self.causes.values().map(|tally| tally.total_ticks).sum();
        match named + self.unknown.total_ticks {
            0 => 1.0,
            all => named as f64 / all as f64,
        }
    }

    /// Causes by falling excess.
    pub fn by_excess(&self) -> Vec<(&str, Tally)> {
        let mut all: Vec<_> =
            self.causes.iter().map(|(name, tally)| (name.as_str(), *tally)).collect();
        all.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.total_ticks));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_lessens_the_share_that_has_a_name() {
        let mut all = Attribution::new("trace", 10);
        assert_eq!((all.named_share(), all.outliers()), (1.0, 0));
        all.add(Some("a".into()), 40, 30, 5);
        all.add(Some("b".into()), 100, 90, 7);
        all.add(Some("a".into()), 20, 10, 6);
        all.add(None, 80, 70, 9);
        assert_eq!((all.named_share(), all.outliers()), (0.65, 4));
        let a = Tally { count: 2, total_ticks: 40, worst_ticks: 40, last_at: 6 };
        assert_eq!(all.by_excess()[1], ("a", a));
    }
}
