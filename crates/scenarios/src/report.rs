//! Figures of the rounds, arms, and the drawings.

use std::path::Path;

use halcyon_noise::figures::{Facet, Points, Span, Spans};
use halcyon_noise::tsc::Source;
use halcyon_noise::{Attribution, Place, Series, Summary, Tsc};
use serde_json::{Value, json};

use crate::measured::Measured;
use crate::tenants::beside;
use crate::{Family, Ground, Slot};
use halcyon_gauge::statistics::median;
use halcyon_gauge::{Arm, Reporter, Result};

/// Causes that an arm tells, by falling time.
const CAUSES: usize = 12;

/// One workload in one scenario.
#[derive(Default)]
pub struct Row {
    /// Figures and foreign load of each round.
    rounds: Vec<(Summary, Option<f64>)>,
    /// The series of the quietest round, for the drawings, with its foreign load.
    drawn: Option<(Series, f64)>,
    /// The traced run: figures and causes.
    traced: Option<(Summary, Attribution)>,
    checksums: Vec<u64>,
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
        self.rounds.push((summary, measured.foreign_cores));
        let foreign = measured.foreign_cores.unwrap_or(f64::INFINITY);
        if self.drawn.as_ref().is_none_or(|(_, least)| foreign < *least) {
            self.drawn = Some((measured.series, foreign));
        }
    }

    /// Rounds during which others had at most so many cores.
    fn quiet(&self, foreign_max: f64) -> Vec<&Summary> {
        let quiet = self
            .rounds
            .iter()
            .filter(|(_, foreign)| foreign.is_some_and(|cores| cores <= foreign_max));
        quiet.map(|(summary, _)| summary).collect()
    }

    /// Whether quiet rounds are so many that a figure may be made of them.
    fn is_conclusive(&self, foreign_max: f64) -> bool {
        let quiet = self.quiet(foreign_max).len();
        quiet > 0 && quiet * 2 >= self.rounds.len()
    }

    /// The median of a figure over the quiet rounds, with its spread; `None`: inconclusive.
    fn figure(&self, foreign_max: f64, of: impl Fn(&Summary) -> f64) -> Option<(f64, f64)> {
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
    pub(super) scenarios: Vec<Slot>,
    /// By scenario and workload.
    pub(super) rows: Vec<Vec<Row>>,
    /// The least that each tuple of a workload took in any run, ticks.
    pub(super) least: Vec<Vec<u64>>,
    /// What counts as an outlier, ticks.
    pub(super) bound_ticks: u64,
}

/// Names of figures, and how each follows from a summary.
type Measure = (&'static str, fn(&Summary, &Tsc) -> f64);

const MEASURES: [Measure; 9] = [
    ("min_us", |summary, tsc| tsc.us(summary.min)),
    ("p0_05_us", |summary, tsc| tsc.us(summary.p0_05)),
    ("p50_us", |summary, tsc| tsc.us(summary.p50)),
    ("p99_us", |summary, tsc| tsc.us(summary.p99)),
    ("p99_95_us", |summary, tsc| tsc.us(summary.p99_95)),
    ("max_us", |summary, tsc| tsc.us(summary.max)),
    ("span_above", |summary, _| summary.span_above),
    ("span_below", |summary, _| summary.span_below),
    ("lost_percent", |summary, _| summary.lost * 100.0),
];

/// What the machine and the clock are, as an arm of its own.
pub fn machine(ground: &Ground<'_>, reporter: &mut Reporter) {
    let mut arm = Arm::new("noise", "machine", json!({ "cpu": ground.cpu }));
    let tsc = &ground.tsc;
    arm.figure(
        "clock",
        match tsc.source {
            Source::Counter { invariant: true } => "time-stamp counter, invariant",
            Source::Counter { invariant: false } => "time-stamp counter whose rate may change",
            Source::Monotonic => "monotonic clock",
        },
    );
    arm.rounded("ticks_per_us", tsc.ticks_per_us);
    arm.figure("step_ticks", tsc.step_ticks);
    arm.rounded("stamp_us", tsc.us(tsc.stamp_ticks));
    arm.figure("tenants", format!("{}, {} of each kind", ground.load.name(), ground.tenants_each));
    arm.figure("processors", std::thread::available_parallelism().map_or(1, usize::from) as u64);
    reporter.arm(arm);
}

/// Adds the figures of one series.
pub fn summary(arm: &mut Arm, summary: &Summary, tsc: &Tsc) {
    arm.figure("tuples", summary.tuples as u64);
    MEASURES.iter().for_each(|(name, of)| arm.rounded(name, of(summary, tsc)));
}

/// Prints an arm for each workload in each scenario.
pub fn arms(ground: &Ground<'_>, rows: &Rows, reporter: &mut Reporter) {
    for (at, slot) in rows.scenarios.iter().enumerate() {
        for (query, chosen) in ground.works.iter().enumerate() {
            let name = chosen.work.name();
            let engine = if slot.scenario.place == Place::Cell { "cell" } else { "native" };
            let params =
                json!({ "scenario": slot.name, "query": name, "rounds": ground.options.rounds });
            let mut arm = Arm::new("noise", engine, params);
            match &slot.missing {
                Some(why) => arm.figure("skipped", why.as_str()),
                None => fill(&mut arm, ground, rows, at, query),
            }
            reporter.arm(arm);
        }
    }
}

fn fill(arm: &mut Arm, ground: &Ground<'_>, rows: &Rows, at: usize, query: usize) {
    let (row, foreign_max, tsc) = (&rows.rows[at][query], ground.options.foreign_max, &ground.tsc);
    arm.figure("tuples", row.rounds.first().map_or(0, |(summary, _)| summary.tuples as u64));
    arm.figure("quiet_rounds", row.quiet(foreign_max).len() as u64);
    let foreign: Vec<f64> = row.rounds.iter().filter_map(|(_, foreign)| *foreign).collect();
    if let Some(cores) = median(&foreign) {
        arm.rounded("foreign_cores", cores);
    }
    for (name, of) in MEASURES {
        match row.figure(foreign_max, |summary| of(summary, tsc)) {
            None => arm.figure(name, "inconclusive"),
            Some((value, spread)) => {
                arm.rounded(name, value);
                arm.rounded(&format!("{name}_spread"), spread);
            }
        }
    }
    versus(arm, ground, rows, at, query);
    tenants(arm, rows, at);
    arm.figure(
        "by_round",
        Value::Array(row.rounds.iter().map(|round| by_round(round, tsc)).collect()),
    );
    if let Some((summary, attribution)) = &row.traced {
        arm.figure("traced", traced(summary, attribution, tsc));
    }
    let first = rows.rows.iter().find_map(|rows| rows[query].checksums.first());
    if row.checksums.iter().any(|checksum| Some(checksum) != first) {
        arm.check =
            format!("the same tuples gave other answers: {:?}, not {first:?}", row.checksums);
    }
}

/// Ratios to the same workload in other scenarios; the A/A difference for the repetition of the first one.
fn versus(arm: &mut Arm, ground: &Ground<'_>, rows: &Rows, at: usize, query: usize) {
    let (slot, foreign_max) = (&rows.scenarios[at], ground.options.foreign_max);
    let other = match slot.again {
        true => Some(0),
        false => rows
            .scenarios
            .iter()
            .position(|other| other.name == "load" && slot.name != "load" && slot.scenario.load),
    };
    let Some(other) = other else { return };
    type Part = (&'static str, fn(&Summary) -> f64);
    let pairs: [Part; 4] = [
        ("p50", |summary| summary.p50 as f64),
        ("p99_95", |summary| summary.p99_95 as f64),
        ("max", |summary| summary.max as f64),
        ("lost", |summary| summary.lost),
    ];
    for (name, of) in pairs {
        let name = format!("{name}_by_{}", rows.scenarios[other].name.replace('-', "_"));
        let figures = (
            rows.rows[at][query].figure(foreign_max, of),
            rows.rows[other][query].figure(foreign_max, of),
        );
        match figures {
            (Some((this, _)), Some((that, _))) if that > 0.0 => arm.rounded(&name, this / that),
            (Some(_), Some(_)) => arm.figure(&name, "nothing to compare with"),
            _ => arm.figure(&name, "inconclusive"),
        }
    }
}

/// Operations of the tenants, and how quick they were beside those of the scenario with load alone.
fn tenants(arm: &mut Arm, rows: &Rows, at: usize) {
    let Some(last) = rows.scenarios[at].operations.last() else { return };
    arm.figure("tenants_per_s", json!(last));
    let load = rows.scenarios.iter().find(|slot| slot.name == "load");
    let pairs = load
        .into_iter()
        .flat_map(|load| rows.scenarios[at].operations.iter().zip(&load.operations));
    let ratios: Vec<f64> = pairs.filter_map(|(these, those)| beside(these, those)).collect();
    if let (Some(ratio), false) = (median(&ratios), rows.scenarios[at].name == "load") {
        arm.rounded("tenants_by_load", ratio);
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn by_round((summary, foreign): &(Summary, Option<f64>), tsc: &Tsc) -> Value {
    json!({
        "foreign_cores": foreign.map(rounded),
        "p50_us": rounded(tsc.us(summary.p50)),
        "p99_95_us": rounded(tsc.us(summary.p99_95)),
        "max_us": rounded(tsc.us(summary.max)),
        "outliers": summary.outliers,
        "lost_percent": rounded(summary.lost * 100.0),
    })
}

fn traced(summary: &Summary, attribution: &Attribution, tsc: &Tsc) -> Value {
    let cause = |(name, tally): &(&str, halcyon_noise::Tally)| {
        json!({
            "cause": name,
            "count": tally.count,
            "total_us": rounded(tsc.us(tally.total_ticks)),
            "worst_us": rounded(tsc.us(tally.worst_ticks)),
        })
    };
    let causes = attribution.by_excess();
    json!({
        "asked": attribution.asked,
        "outliers": attribution.outliers(),
        "named_share": rounded(attribution.named_share()),
        "p50_us": rounded(tsc.us(summary.p50)),
        "max_us": rounded(tsc.us(summary.max)),
        "causes": causes.iter().take(CAUSES).map(cause).collect::<Vec<_>>(),
        "further_causes": causes.len().saturating_sub(CAUSES),
    })
}

/// Draws the paper's figures into a folder.
pub fn figures(ground: &Ground<'_>, rows: &Rows, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let native = |slot: &Slot| !slot.again && slot.scenario.place == Place::Native;
    let cell = |slot: &Slot| slot.scenario.place == Place::Cell;
    type Drawing<'a> = (&'a str, &'a str, Family, &'a dyn Fn(&Slot) -> bool);
    let all: [Drawing<'_>; 4] = [
        ("finance.svg", "Finance queries (P2, Figure 3)", Family::Finance, &native),
        ("tpch.svg", "TPC-H queries (P2, Figure 4)", Family::Tpch, &native),
        ("plain.svg", "A bare loop, and updates of a hash map", Family::Plain, &native),
        ("cell.svg", "Finance queries in a cell (P2, Figure 6)", Family::Finance, &cell),
    ];
    for (file, title, family, scenarios) in all {
        write(folder, file, points(ground, rows, title, family, scenarios).svg())?;
    }
    write(folder, "spans.svg", spans(ground, rows, &native).svg())
}

fn write(folder: &Path, file: &str, svg: Option<String>) -> Result<()> {
    match svg {
        Some(text) => Ok(std::fs::write(folder.join(file), text)?),
        None => Ok(()),
    }
}

fn points(
    ground: &Ground<'_>,
    rows: &Rows,
    title: &str,
    family: Family,
    scenarios: &dyn Fn(&Slot) -> bool,
) -> Points {
    let chosen: Vec<usize> = (0..ground.works.len())
        .filter(|&query| ground.works[query].work.family() == family)
        .collect();
    let slots: Vec<usize> = (0..rows.scenarios.len())
        .filter(|&at| scenarios(&rows.scenarios[at]) && rows.scenarios[at].missing.is_none())
        .collect();
    let mut facets = Vec::new();
    for (row, &at) in slots.iter().enumerate() {
        for (column, &query) in chosen.iter().enumerate() {
            let drawn = rows.rows[at][query].drawn.as_ref();
            let note = drawn.and_then(|(_, foreign)| remark(*foreign, ground.options.foreign_max));
            facets.push(Facet {
                row,
                column,
                series: drawn.map(|(series, _)| series.clone()),
                note,
            });
        }
    }
    Points {
        title: title.into(),
        rows: slots.iter().map(|&at| rows.scenarios[at].name.clone()).collect(),
        columns: chosen.iter().map(|&query| ground.works[query].work.name().to_owned()).collect(),
        facets,
        ticks_per_us: ground.tsc.ticks_per_us,
    }
}

/// What a drawing says of a round that was not quiet.
fn remark(foreign: f64, foreign_max: f64) -> Option<String> {
    (foreign > foreign_max).then(|| format!("inconclusive: others had {foreign:.1} cores"))
}

fn spans(ground: &Ground<'_>, rows: &Rows, scenarios: &dyn Fn(&Slot) -> bool) -> Spans {
    let mut bars = Vec::new();
    for (query, chosen) in ground.works.iter().enumerate() {
        let name = chosen.work.name();
        for (at, slot) in rows.scenarios.iter().enumerate().filter(|(_, slot)| scenarios(slot)) {
            let Some((series, foreign)) = &rows.rows[at][query].drawn else { continue };
            let Some(summary) = series.summary(rows.bound_ticks) else { continue };
            bars.push(Span {
                group: name.to_owned(),
                name: slot.name.clone(),
                above: summary.span_above,
                below: summary.span_below,
                note: remark(*foreign, ground.options.foreign_max).map(|_| "inconclusive".into()),
            });
        }
    }
    Spans { title: "Span of each series around its median (P2, Figure 5)".into(), bars }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(foreign: &[f64]) -> Row {
        let mut row = Row::default();
        for (at, &cores) in foreign.iter().enumerate() {
            let ticks = vec![100 * (at as u64 + 1); 10];
            let series = Series::from_ticks(ticks);
            row.add(
                Measured { series, checksum: 7, foreign_cores: Some(cores), attribution: None },
                50,
            );
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
        assert_eq!(remark(0.3, 0.2).as_deref(), Some("inconclusive: others had 0.3 cores"));
        assert_eq!(remark(0.1, 0.2), None);
    }

    #[test]
    fn a_round_whose_foreign_load_is_unknown_is_not_quiet() {
        let mut row = Row::default();
        let series = Series::from_ticks(vec![1]);
        row.add(Measured { series, checksum: 7, foreign_cores: None, attribution: None }, 50);
        assert!(!row.is_conclusive(1e9));
    }
}
