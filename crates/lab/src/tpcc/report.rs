//! `halcyon lab report tpcc`: figures and tables of recorded runs, as P1 has them.
//!
//! A *record* is a file of JSON objects, one per line, as `halcyon lab tpcc --record FILE` appends
//! them: first the machine and the day, then an object per arm. Arms recorded several times count
//! as one, by their median; the spread shown is the larger of the spread between those records and
//! that between an arm's own rounds.
//!
//! Figures: one per mix (throughput against clients; with databases of one's own as the limit:
//! P1 Figures 3 and 6 to 8), one of isolation levels (Figure 4), one of latches (Figure 5).
//! The page keeps its prose: only the part between its two marks is rewritten.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use crate::chart::{Chart, Series, grouped};
use crate::measure::Rounds;
use crate::{Failure, Result};

/// Options of `halcyon lab report tpcc`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Recorded runs
    #[arg(long, required = true, value_delimiter = ',')]
    pub records: Vec<PathBuf>,
    /// The page whose figures are written; SVG files go into a folder of its name beside it
    #[arg(long, default_value = "docs/experiments/tpcc.md")]
    pub page: PathBuf,
}

const BEGIN: &str = "<!-- figures: written by halcyon lab report tpcc -->";
const END: &str = "<!-- end of figures -->";

/// The identity of an arm, in the order by which tables are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    mix: String,
    engine: String,
    isolation: String,
    partitions: u64,
    latches: bool,
    ideal: bool,
    reads: String,
    form: String,
    durability: String,
    clients: u64,
}

/// The figures of an arm.
#[derive(Default)]
struct Figures {
    rates: Rounds,
    spread: f64,
    aborts_percent: f64,
    new_order_us_p99: Option<f64>,
    latency_us_max: f64,
}

/// All records.
#[derive(Default)]
struct Records {
    machines: Vec<String>,
    arms: BTreeMap<Key, Figures>,
    wrong: Vec<String>,
}

/// Reads the records and writes page and figures.
pub fn run(options: &Options) -> Result<()> {
    let mut records = Records::default();
    for path in &options.records {
        let text = fs::read_to_string(path)?;
        text.lines().filter(|line| !line.is_empty()).try_for_each(|line| records.add(line))?;
    }
    let folder = options.page.with_extension("");
    fs::create_dir_all(&folder)?;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("figures");
    let mut body = String::new();
    for machine in &records.machines {
        writeln!(body, "- {machine}").expect("text");
    }
    if !records.wrong.is_empty() {
        writeln!(body, "\n**Failed arms:** {}", records.wrong.join("; ")).expect("text");
    }
    for (file, chart) in records.charts() {
        if let Some(svg) = chart.svg() {
            fs::write(folder.join(file), svg)?;
            writeln!(body, "\n![{}]({name}/{file})", chart.title).expect("text");
        }
    }
    body.push_str(&records.table());
    write_between_marks(&options.page, &body)
}

fn write_between_marks(page: &Path, body: &str) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        let what = format!("{} has no lines {BEGIN} and {END}", page.display());
        return Err(Failure::Io(what));
    };
    let head = &text[..begin + BEGIN.len()];
    fs::write(page, format!("{head}\n\n{}\n\n{}", body.trim(), &text[end..]))?;
    Ok(())
}

/// A text of an object; empty if it is not there.
fn text(of: &Map<String, Value>, name: &str) -> String {
    of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(of: &Map<String, Value>, name: &str) -> f64 {
    of.get(name).and_then(Value::as_f64).unwrap_or_default()
}

impl Records {
    fn add(&mut self, line: &str) -> Result<()> {
        let bad = |what: &dyn std::fmt::Display| Failure::Io(format!("no record: {what}: {line}"));
        let object: Map<String, Value> = serde_json::from_str(line).map_err(|e| bad(&e))?;
        if let Some(machine) = object.get("machine").and_then(Value::as_str) {
            if !self.machines.iter().any(|known| known == machine) {
                self.machines.push(machine.to_owned());
            }
            return Ok(());
        }
        let part = |name: &str| object.get(name).and_then(Value::as_object);
        let (Some(params), Some(figures)) = (part("params"), part("figures")) else {
            return Err(bad(&"params or figures are missing"));
        };
        let key = Key::of(&text(&object, "engine"), params);
        let check = text(&object, "check");
        if check != "ok" {
            self.wrong.push(format!("{} ({} clients): {check}", key.name(), key.clients));
            return Ok(());
        }
        self.arms.entry(key).or_default().add(figures);
        Ok(())
    }

    /// Figures by file name.
    fn charts(&self) -> Vec<(&'static str, Chart)> {
        let mixes = [
            ("standard.svg", "standard", "Standard mix: 8 % reads"),
            ("50-50.svg", "50-50", "50 % reads"),
            ("80-20.svg", "80-20", "80 % reads"),
            ("100-0.svg", "100-0", "Only reads"),
        ];
        let mut charts = Vec::new();
        for (file, mix, title) in mixes {
            let wanted = |key: &Key| key.mix == mix && key.is_usual();
            charts.push((file, self.chart(title, &wanted)));
        }
        let levels = |key: &Key| {
            key.mix == "standard" && !key.isolation.is_empty() && !key.ideal && !key.latches
        };
        charts.push(("isolation.svg", self.chart("Isolation levels, standard mix", &levels)));
        let latched: Vec<(&str, u64)> = self
            .arms
            .keys()
            .filter(|key| key.latches)
            .map(|key| (key.mix.as_str(), key.partitions))
            .collect();
        let latches = |key: &Key| {
            key.engine == "halcyon"
                && latched.contains(&(key.mix.as_str(), key.partitions))
                && (key.latches || key.is_usual())
        };
        let mut chart = self.chart("A latch around every access to segments and indexes", &latches);
        chart.series.retain(|series| !series.dashed);
        charts.push(("latches.svg", chart));
        charts
    }

    fn chart(&self, title: &str, wanted: &dyn Fn(&Key) -> bool) -> Chart {
        let mut series: BTreeMap<(String, String), Series> = BTreeMap::new();
        let several = {
            let mut mixes: Vec<&str> =
                self.arms.keys().filter(|key| wanted(key)).map(|key| key.mix.as_str()).collect();
            mixes.dedup();
            mixes.len() > 1
        };
        for (key, figures) in self.arms.iter().filter(|(key, _)| wanted(key)) {
            let mix = if several { format!("{}: ", key.mix) } else { String::new() };
            let name = mix + &key.name();
            let line = series.entry((key.mix.clone(), name.clone())).or_insert_with(|| Series {
                name,
                dashed: key.ideal,
                points: Vec::new(),
            });
            line.points.push((key.clients as u32, figures.rates.median(), figures.spread()));
        }
        Chart { title: title.to_owned(), series: series.into_values().collect() }
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "\n| mix | engine | clients | tx/s | spread | × one client | aborts % | \
             New-Order p99 µs | slowest µs |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for (key, figures) in &self.arms {
            // There are as many separate databases as clients; one of them is the usual arm.
            let one = self.arms.get(&Key { clients: 1, ideal: false, ..key.clone() });
            let scaling = one.map_or("".into(), |one| {
                format!("{:.2}", figures.rates.median() / one.rates.median())
            });
            let p99 = figures.new_order_us_p99.map_or("".into(), |us| format!("{us:.0}"));
            writeln!(
                text,
                "| {} | {} | {} | {} | {:.0} % | {scaling} | {:.2} | {p99} | {} |",
                key.mix,
                key.name(),
                key.clients,
                grouped(figures.rates.median()),
                figures.spread() * 100.0,
                figures.aborts_percent,
                grouped(figures.latency_us_max),
            )
            .expect("text");
        }
        text
    }
}

impl Key {
    fn of(engine: &str, params: &Map<String, Value>) -> Self {
        let flag = |name: &str| params.get(name).and_then(Value::as_bool).unwrap_or_default();
        let whole = |name: &str| params.get(name).and_then(Value::as_u64);
        Key {
            mix: text(params, "mix"),
            engine: engine.to_owned(),
            isolation: text(params, "isolation"),
            partitions: whole("partitions").unwrap_or(1),
            latches: text(params, "latches") == "on",
            ideal: flag("ideal"),
            reads: text(params, "reads"),
            form: text(params, "form"),
            durability: text(params, "durability"),
            clients: whole("clients").unwrap_or(1),
        }
    }

    /// The engine's name, with what sets this arm apart from the engine's usual one.
    fn name(&self) -> String {
        let mut name = self.engine.clone();
        if self.partitions > 1 {
            write!(name, ", {} partitions", self.partitions).expect("text");
        }
        for (set, words) in [
            (self.ideal, ", a database each"),
            (self.latches, ", latches"),
            (self.isolation == "read-committed", ", read committed"),
            (self.reads == "snapshot", ", snapshots"),
            (self.form == "one-shot", ", one-shot"),
            (self.durability == "async", ", log"),
            (self.durability == "sync", ", log before answer"),
        ] {
            name.push_str(if set { words } else { "" });
        }
        name
    }

    /// Whether it belongs into the figures of mixes.
    fn is_usual(&self) -> bool {
        !self.latches && self.isolation != "read-committed"
    }
}

impl Figures {
    fn add(&mut self, figures: &Map<String, Value>) {
        self.rates.push(number(figures, "tx_per_s"));
        self.spread = self.spread.max(number(figures, "tx_spread"));
        self.aborts_percent = self.aborts_percent.max(number(figures, "aborts_percent"));
        if figures.contains_key("new_order_latency_us_p99") {
            self.new_order_us_p99 = Some(number(figures, "new_order_latency_us_p99"));
        }
        let slowest = figures.keys().filter(|name| name.ends_with("_latency_us_max"));
        let slowest = slowest.map(|name| number(figures, name)).fold(0.0, f64::max);
        self.latency_us_max = self.latency_us_max.max(slowest);
    }

    fn spread(&self) -> f64 {
        self.spread.max(self.rates.spread())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(engine: &str, clients: u32, rate: u32, more: &str) -> String {
        format!(
            r#"{{"engine":"{engine}","params":{{"mix":"standard","clients":{clients}{more}}},
            "figures":{{"tx_per_s":{rate},"tx_spread":0.1,"payment_latency_us_max":7.5}},
            "check":"ok"}}"#
        )
        .replace('\n', " ")
    }

    #[test]
    fn a_page_gets_figures_between_its_marks_and_keeps_its_prose() {
        let folder = std::env::temp_dir().join(format!("halcyon-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (page, record) = (folder.join("tpcc.md"), folder.join("record.jsonl"));
        fs::write(&page, format!("# before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        let lines = [
            r#"{"machine":"two cores, a Tuesday"}"#.to_owned(),
            arm("halcyon", 1, 10_000, ""),
            arm("halcyon", 2, 30_000, r#","partitions":4"#),
            arm("halcyon", 1, 15_000, r#","partitions":4"#),
            arm("halcyon", 1, 17_000, r#","partitions":4"#),
            arm("h2", 1, 5_000, "").replace(r#""check":"ok""#, r#""check":"3.3.2.1""#),
        ];
        fs::write(&record, lines.join("\n")).unwrap();
        run(&Options { records: vec![record], page: page.clone() }).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("# before\n") && text.ends_with("after\n"), "{text}");
        assert!(text.contains("two cores, a Tuesday") && !text.contains("old"), "{text}");
        assert!(text.contains("| standard | halcyon, 4 partitions | 1 | 16,000 |"), "{text}");
        assert!(text.contains("| 30,000 | 10 % | 1.88 |"), "{text}");
        assert!(text.contains("h2 (1 clients): 3.3.2.1"), "{text}");
        let svg = fs::read_to_string(folder.join("tpcc/standard.svg")).unwrap();
        assert!(svg.contains("halcyon, 4 partitions"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_page_without_marks_is_left_alone() {
        let page = std::env::temp_dir().join(format!("halcyon-page-{}.md", std::process::id()));
        fs::write(&page, "no marks").unwrap();
        assert!(write_between_marks(&page, "x").is_err());
        assert_eq!(fs::read_to_string(&page).unwrap(), "no marks");
        fs::remove_file(page).unwrap();
    }
}
