//! Figures of the rounds, arms, and the drawings.

use std::path::Path;

use halcyon_noise::figures::{Boxes, Facet, Points, Quantiles, Span, Spans};
use halcyon_noise::tsc::Source;
use halcyon_noise::{Attribution, Exits, Place, Summary, Tsc};
use serde_json::{Value, json};

use crate::rows::{Round, Row, Rows, Slot};
use crate::tenants::beside;
use crate::{Family, Ground};
use halcyon_gauge::statistics::median;
use halcyon_gauge::{Arm, Reporter, Result};

/// Causes that an arm tells, by falling time.
const CAUSES: usize = 12;

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
            let row = &rows.rows[at][query];
            match slot.missing.as_ref().or(row.missing.as_ref()) {
                Some(why) if row.rounds.is_empty() => arm.figure("skipped", why.as_str()),
                why => {
                    fill(&mut arm, ground, rows, at, query);
                    why.iter().for_each(|why| arm.figure("rounds_missing", why.as_str()));
                }
            }
            reporter.arm(arm);
        }
    }
}

fn fill(arm: &mut Arm, ground: &Ground<'_>, rows: &Rows, at: usize, query: usize) {
    let (row, foreign_max, tsc) = (&rows.rows[at][query], ground.options.foreign_max, &ground.tsc);
    arm.figure("tuples", row.rounds.first().map_or(0, |round| round.summary.tuples as u64));
    arm.figure("quiet_rounds", row.quiet(foreign_max).len() as u64);
    let foreign: Vec<f64> = row.rounds.iter().filter_map(|round| round.foreign).collect();
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
    if let Some(shield) = &rows.scenarios[at].shield {
        arm.figure("shield", shield.as_str());
    }
    exits(arm, row);
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

/// What left the machine of a cell in the worst of all rounds, whatever their load.
fn exits(arm: &mut Arm, row: &Row) {
    let all = || row.rounds.iter().filter_map(|round| round.exits);
    type Part = (&'static str, fn(Exits) -> u64);
    let parts: [Part; 3] = [
        ("exits_own_max", |exits| exits.own),
        ("exits_for_interrupts_max", |exits| exits.interrupts),
        ("cell_page_faults_max", |exits| exits.page_faults),
    ];
    for (name, of) in parts {
        all().map(of).max().into_iter().for_each(|count| arm.figure(name, count));
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

fn by_round(Round { summary, foreign, exits }: &Round, tsc: &Tsc) -> Value {
    let mut round = json!({
        "foreign_cores": foreign.map(rounded),
        "p50_us": rounded(tsc.us(summary.p50)),
        "p99_95_us": rounded(tsc.us(summary.p99_95)),
        "max_us": rounded(tsc.us(summary.max)),
        "outliers": summary.outliers,
        "lost_percent": rounded(summary.lost * 100.0),
    });
    if let Some(Exits { own, interrupts, page_faults }) = exits {
        round["exits"] =
            json!({ "own": own, "for_interrupts": interrupts, "page_faults": page_faults });
    }
    round
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
    let (spans, boxes) = bars(ground, rows);
    write(folder, "spans.svg", spans.svg())?;
    write(folder, "quantiles.svg", boxes.svg())
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
        .filter(|&at| scenarios(&rows.scenarios[at]) && is_measured(&rows.rows[at]))
        .collect();
    let mut facets = Vec::new();
    for (row, &at) in slots.iter().enumerate() {
        for (column, &query) in chosen.iter().enumerate() {
            let Row { drawn, missing, .. } = &rows.rows[at][query];
            let note = match drawn {
                Some((_, foreign)) => remark(*foreign, ground.options.foreign_max),
                None => missing.clone(),
            };
            facets.push(Facet {
                row,
                column,
                series: drawn.as_ref().map(|(series, _)| series.clone()),
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

/// Whether any workload was measured in a scenario.
fn is_measured(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.drawn.is_some())
}

/// What a drawing says of a round that was not quiet.
fn remark(foreign: f64, foreign_max: f64) -> Option<String> {
    (foreign > foreign_max).then(|| format!("inconclusive: others had {foreign:.1} cores"))
}

/// Spans and percentiles of the series that are drawn, workload by workload.
fn bars(ground: &Ground<'_>, rows: &Rows) -> (Spans, Boxes) {
    let mut spans = Spans {
        title: "Span of each series around its median (P2, Figure 5)".into(),
        bars: Vec::new(),
    };
    let mut boxes =
        Boxes { title: "Percentiles of each series (P2, §2.2)".into(), series: Vec::new() };
    for (query, chosen) in ground.works.iter().enumerate() {
        for (at, slot) in rows.scenarios.iter().enumerate().filter(|(_, slot)| !slot.again) {
            let Some((series, foreign)) = &rows.rows[at][query].drawn else { continue };
            let Some(summary) = series.summary(rows.bound_ticks) else { continue };
            let (group, name) = (chosen.work.name().to_owned(), slot.name.clone());
            let note = remark(*foreign, ground.options.foreign_max).map(|_| "inconclusive".into());
            let Summary { min, p0_05, p50, p99, p99_95, max, .. } = summary;
            boxes.series.push(Quantiles {
                group: group.clone(),
                name: name.clone(),
                load: slot.scenario.load,
                us: [min, p0_05, p50, p99, p99_95, max].map(|ticks| ground.tsc.us(ticks)),
                note: note.clone(),
            });
            let (above, below) = (summary.span_above, summary.span_below);
            spans.bars.push(Span { group, name, above, below, note });
        }
    }
    (spans, boxes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_says_which_round_was_not_quiet() {
        assert_eq!(remark(0.3, 0.2).as_deref(), Some("inconclusive: others had 0.3 cores"));
        assert_eq!(remark(0.1, 0.2), None);
    }
}
