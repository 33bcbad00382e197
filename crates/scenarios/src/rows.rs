//! What was measured: the runs of each workload in each scenario, and which of them make a figure.

use halcyon_gauge::statistics::median;
use halcyon_noise::{Attribution, Exits, Scenario, Series, Summary};

use crate::Ground;
use crate::measured::Measured;
use crate::tenants::Operations;

/// A scenario of this run.
pub struct Slot {
    /// Name; the repetition of the first scenario has one of its own.
    pub name: String,
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Whether this is the first scenario once more.
    pub again: bool,
    /// The reason why the scenario was not measured, at least in one round.
    pub missing: Option<String>,
    /// What became of the shield that the scenario wants.
    pub shield: Option<String>,
    /// Operations of the tenants, by round.
    pub operations: Vec<Operations>,
}

/// One workload in one scenario.
#[derive(Default)]
pub struct Row {
    /// The rounds, in order.
    pub rounds: Vec<Round>,
    /// The series of the quietest round, for the drawings, with its foreign load.
    pub drawn: Option<(Series, f64)>,
    /// The traced run: figures and causes.
    pub traced: Option<(Summary, Attribution)>,
    /// Checksums of all runs.
    pub checksums: Vec<u64>,
    /// The reason why the workload is not measured in this scenario.
    pub missing: Option<String>,
}

/// One round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Figures of the series.
    pub summary: Summary,
    /// Cores that other processes had meanwhile, if that can be told.
    pub foreign: Option<f64>,
    /// What left the machine of a cell.
    pub exits: Option<Exits>,
}

impl Row {
    /// Adds a run.
    pub fn add(&mut self, measured: Measured, bound_ticks: u64) {
        let Some(summary) = measured.series.summary(bound_ticks) else { return };
        self.checksums.push(measured.checksum);
        if let Some(attribution) = measured.attribution {
            self.traced = Some((summary, attribution));
            return;
        }
        let Measured { foreign_cores: foreign, exits, .. } = measured;
        self.rounds.push(Round { summary, foreign, exits });
        let foreign = foreign.unwrap_or(f64::INFINITY);
        if self.drawn.as_ref().is_none_or(|(_, least)| foreign < *least) {
            self.drawn = Some((measured.series, foreign));
        }
    }

    /// Rounds during which others had at most so many cores.
    pub fn quiet(&self, foreign_max: f64) -> Vec<&Summary> {
        let is_quiet = |round: &&Round| round.foreign.is_some_and(|cores| cores <= foreign_max);
        self.rounds.iter().filter(is_quiet).map(|round| &round.summary).collect()
    }

    /// Whether quiet rounds are so many that a figure may be made of them.
    fn is_conclusive(&self, foreign_max: f64) -> bool {
        let quiet = self.quiet(foreign_max).len();
        quiet > 0 && quiet * 2 >= self.rounds.len()
    }

    /// The median of a figure over the quiet rounds, with its spread; `None`: inconclusive.
    pub fn figure(&self, foreign_max: f64, of: impl Fn(&Summary) -> f64) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.quiet(foreign_max).into_iter().map(of).collect();
        if !self.is_conclusive(foreign_max) {
            return None;
        }
        let middle = median(&values)?;
        let spread = values.iter().copied().fold(f64::MIN, f64::max)
            - values.iter().copied().fold(f64::MAX, f64::min);
        Some((middle, if middle > 0.0 { spread / middle } else { 0.0 }))
    }
}

/// All workloads in all scenarios.
pub struct Rows {
    /// The scenarios, the first of them once more at the end.
    pub scenarios: Vec<Slot>,
    /// By scenario and workload.
    pub rows: Vec<Vec<Row>>,
    /// The least that each tuple of a workload took in any run, ticks.
    pub least: Vec<Vec<u64>>,
    /// What counts as an outlier, ticks.
    pub bound_ticks: u64,
}

impl Rows {
    /// No runs yet; the first scenario comes once more at the end.
    pub fn new(ground: &Ground<'_>, scenarios: &[&'static Scenario]) -> Rows {
        let slot = |(scenario, again): (&'static Scenario, bool)| Slot {
            name: format!("{}{}", scenario.name, if again { " again" } else { "" }),
            scenario,
            again,
            missing: None,
            shield: None,
            operations: Vec::new(),
        };
        let again = scenarios.first().map(|first| (*first, true));
        let all = scenarios.iter().map(|scenario| (*scenario, false)).chain(again);
        let scenarios: Vec<Slot> = all.map(slot).collect();
        let rows = scenarios
            .iter()
            .map(|_| ground.works.iter().map(|_| Row::default()).collect())
            .collect();
        let least = ground.works.iter().map(|_| Vec::new()).collect();
        Rows { scenarios, rows, least, bound_ticks: ground.tsc.ticks(ground.options.bound_us) }
    }

    /// Adds a run of a workload in a scenario.
    pub fn add(&mut self, scenario: usize, query: usize, measured: Measured) {
        let (least, ticks) = (&mut self.least[query], measured.series.ticks());
        least.resize(ticks.len(), u64::MAX);
        least.iter_mut().zip(ticks).for_each(|(least, &ticks)| *least = ticks.min(*least));
        self.rows[scenario][query].add(measured, self.bound_ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(series: Series, foreign_cores: Option<f64>) -> Measured {
        Measured { series, checksum: 7, foreign_cores, attribution: None, exits: None }
    }

    fn row(foreign: &[f64]) -> Row {
        let mut row = Row::default();
        for (at, &cores) in foreign.iter().enumerate() {
            let ticks = vec![100 * (at as u64 + 1); 10];
            let series = Series::from_ticks(ticks);
            row.add(measured(series, Some(cores)), 50);
        }
        row
    }

    #[test]
    fn a_figure_is_made_of_quiet_rounds_alone_and_of_at_least_half_of_them() {
        let p50 = |summary: &Summary| summary.p50 as f64;
        assert_eq!(row(&[0.1, 0.9, 0.0]).figure(0.2, p50), Some((200.0, 1.0)));
        assert_eq!(row(&[0.9, 0.9, 0.0]).figure(0.2, p50), None, "one of three");
        assert_eq!(row(&[]).figure(0.2, p50), None);
        let (series, foreign) = row(&[0.9, 0.3, 0.4]).drawn.expect("a round");
        assert_eq!((series.ticks()[0], foreign), (200, 0.3), "the quietest is drawn");
    }

    #[test]
    fn a_round_whose_foreign_load_is_unknown_is_not_quiet() {
        let mut row = Row::default();
        let series = Series::from_ticks(vec![1]);
        row.add(measured(series, None), 50);
        assert!(!row.is_conclusive(1e9));
    }
}
