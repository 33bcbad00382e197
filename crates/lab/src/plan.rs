//! Planning: the time from a statement's text to its plan, phase by phase, beside PostgreSQL's planner.
//!
//! Statements are those of TPC-C and TPC-H as their experiments send them, and look-ups and writes by key
//! of the table of `lab point`; parameters stand in the texts as constants. The tables have no rows:
//! neither engine chooses by their number before a statement runs, and PostgreSQL plans fastest so.
//!
//! Both engines say themselves how long planning took: `EXPLAIN (SUMMARY)`, on one connection, `--repeat`
//! times each, the first time left out. PostgreSQL's figure is of its planner alone; Halcyon's begins with
//! the text. Nothing of Halcyon's comes from a cache: EXPLAIN plans anew each time.
//!
//! Figures, in microseconds: per arm and group the `median_us` and the `worst_us` over its statements, of
//! each statement's median, and `worst`, the name of that statement; Halcyon's phases (`parse_us`,
//! `bind_us`, `meaning_us`, `optimize_us`) as the median over statements; `STATEMENT_us` for each with
//! `--each`.
//!
//! Checked: statements of the groups `point` and `tpcc` have no vectorised part.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use halcyon::{Database, Session, SqlType, ValueRef};
use serde_json::json;
use tokio_postgres::SimpleQueryMessage;

use crate::measure::Rounds;
use crate::{Arm, Failure, Reporter, Result, postgres, tpcc, tpch};

/// Options of `halcyon lab plan`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Times each statement is planned
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..))]
    pub repeat: u32,
    /// Only these groups of statements
    #[arg(long, value_enum, value_delimiter = ',')]
    pub groups: Vec<Group>,
    /// A figure for each statement, too
    #[arg(long)]
    pub each: bool,
}

/// Groups of statements.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// SELECT, UPDATE, INSERT and DELETE of one row by key
    Point,
    /// The statements of the five transactions of TPC-C
    Tpcc,
    /// The 22 queries of TPC-H
    Tpch,
}

/// A statement: its name, and its text with `$n` for parameters.
type Named = (String, String);

const POINT_TABLE: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, \
                           amount INTEGER NOT NULL, price NUMERIC(9,2) NOT NULL)";

const POINT: [(&str, &str); 6] = [
    ("select", "SELECT name, amount, price FROM item WHERE id = $1"),
    ("select_all", "SELECT * FROM item WHERE id = $1"),
    ("select_in", "SELECT id, name FROM item WHERE id IN ($1, $2, $3) ORDER BY id"),
    ("update", "UPDATE item SET amount = amount + $1 WHERE id = $2"),
    ("insert", "INSERT INTO item (id, name, amount, price) VALUES ($1, $2, $3, $4)"),
    ("delete", "DELETE FROM item WHERE id = $1"),
];

impl Group {
    fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// The statements that make the tables.
    fn schema(self) -> Vec<String> {
        match self {
            Group::Point => vec![POINT_TABLE.to_owned()],
            Group::Tpcc => tpcc::tables_for_planning(),
            Group::Tpch => vec![halcyon_tpch::SCHEMA.to_owned()],
        }
    }

    fn statements(self) -> Vec<Named> {
        match self {
            Group::Point => {
                POINT.map(|(name, text)| (name.to_owned(), text.to_owned())).into_iter().collect()
            }
            Group::Tpcc => tpcc::statements_for_planning(),
            Group::Tpch => {
                (1..=22).map(|n| (format!("q{n:02}"), tpch::query(n).to_owned())).collect()
            }
        }
    }
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let groups = match options.groups.as_slice() {
        [] => Group::value_variants(),
        chosen => chosen,
    };
    for group in groups {
        let database = Database::in_memory();
        let mut session = database.session();
        for text in group.schema() {
            session.batch(&text)?;
        }
        let mut texts = Vec::new();
        for (name, text) in group.statements() {
            let params = session.prepare(&text)?.params();
            texts.push((name, with_constants(&text, &params)));
        }
        reporter.progress(format_args!("{}: {} statements", group.name(), texts.len()));
        reporter.arm(halcyon(*group, &mut session, &texts, options)?);
        match postgres::missing() {
            Some(missing) => reporter.progress(format_args!("postgres is left out: it {missing}")),
            None => reporter.arm(in_postgres(*group, &texts, options)?),
        }
    }
    Ok(())
}

/// The text with a constant of its type for each parameter.
fn with_constants(text: &str, types: &[SqlType]) -> String {
    let mut parts = text.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = part[..digits].parse().expect("a parameter has a number");
        let constant = match types[number - 1] {
            SqlType::Timestamp => "TIMESTAMP '2026-01-02 03:04:05'".to_owned(),
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => "'AB'".to_owned(),
            SqlType::Decimal { .. } => "1.5".to_owned(),
            _ => number.to_string(),
        };
        write!(whole, "{constant}{}", &part[digits..]).expect("text");
    }
    whole
}

/// Times of planning one statement: whole, and each phase that the engine names.
#[derive(Default)]
struct Times {
    whole: Rounds,
    phases: [Rounds; PHASES.len()],
}

/// Phases as EXPLAIN names them.
const PHASES: [&str; 4] = ["parse", "bind", "meaning", "optimize"];

fn halcyon(group: Group, session: &mut Session, texts: &[Named], options: &Options) -> Result<Arm> {
    let mut arm = arm(group, "halcyon", options);
    let mut all = Vec::new();
    for (name, text) in texts {
        let mut times = Times::default();
        for round in 0..=options.repeat {
            let lines = explained(session, text)?;
            let vectorised = lines.iter().any(|line| line.starts_with("Executor: analytical"));
            if vectorised && group != Group::Tpch {
                arm.check = format!("{name} is vectorised");
            }
            let line = lines.iter().find(|line| line.starts_with("Planning time: "));
            let line = line.ok_or_else(|| Failure::Engine("EXPLAIN shows no time".into()))?;
            if round > 0 {
                times.take(line)?;
            }
        }
        all.push((name, times));
    }
    figures(&mut arm, &all, options.each);
    for (at, phase) in PHASES.iter().enumerate() {
        let mut medians = Rounds::default();
        all.iter().for_each(|(_, times)| medians.push(times.phases[at].median()));
        arm.rounded(&format!("{phase}_us"), medians.median());
    }
    Ok(arm)
}

fn explained(session: &mut Session, text: &str) -> Result<Vec<String>> {
    let mut rows = session.query(format!("EXPLAIN (SUMMARY) {text}").as_str(), &[])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        if let ValueRef::Text(line) = row.value(0) {
            lines.push(line.to_owned());
        }
    }
    Ok(lines)
}

impl Times {
    /// Takes a line as `Planning time: 0.123 ms (parse 0.010, bind 0.050, …)`.
    fn take(&mut self, line: &str) -> Result<()> {
        let number = |text: &str| {
            let shown = text.trim_end_matches([',', ')']);
            let found = shown.parse::<f64>();
            found.map_err(|_| Failure::Engine(format!("{text} is no time in {line}")))
        };
        let mut words = line.split(' ').skip(2);
        self.whole.push(number(words.next().unwrap_or_default())? * 1e3);
        let words: Vec<&str> = words.skip(1).collect();
        for (at, phase) in PHASES.iter().enumerate() {
            let named = words.iter().position(|word| word.trim_start_matches('(') == *phase);
            if let Some(value) = named.and_then(|named| words.get(named + 1)) {
                self.phases[at].push(number(value)? * 1e3);
            }
        }
        Ok(())
    }
}

fn in_postgres(group: Group, texts: &[Named], options: &Options) -> Result<Arm> {
    let server = postgres::Server::start(&std::env::temp_dir(), &["fsync=off", "jit=off"])?;
    let (runtime, client) = server.connect()?;
    for text in group.schema() {
        runtime.block_on(client.batch_execute(&text))?;
    }
    let mut all = Vec::new();
    for (name, text) in texts {
        let mut times = Times::default();
        for round in 0..=options.repeat {
            let text = format!("EXPLAIN (SUMMARY) {text}");
            let lines = runtime.block_on(client.simple_query(&text))?;
            let mut lines = lines.iter().filter_map(|line| match line {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            let line = lines.find(|line| line.starts_with("Planning Time: "));
            let line = line.ok_or_else(|| Failure::Engine("EXPLAIN shows no time".into()))?;
            if round > 0 {
                times.take(line)?;
            }
        }
        all.push((name, times));
    }
    let mut arm = arm(group, "postgres", options);
    figures(&mut arm, &all, options.each);
    Ok(arm)
}

fn arm(group: Group, engine: &str, options: &Options) -> Arm {
    Arm::new("plan", engine, json!({ "group": group.name(), "repeat": options.repeat }))
}

fn figures(arm: &mut Arm, all: &[(&String, Times)], each: bool) {
    let mut medians = Rounds::default();
    let mut worst = ("", 0.0);
    for (name, times) in all {
        let median = times.whole.median();
        medians.push(median);
        if median > worst.1 {
            worst = (name, median);
        }
        if each {
            arm.rounded(&format!("{name}_us"), median);
        }
    }
    arm.rounded("median_us", medians.median());
    arm.rounded("worst_us", worst.1);
    arm.figure("worst", worst.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_constants_of_their_types() {
        let money = SqlType::Decimal { precision: 9, scale: 2 };
        let types = [SqlType::Integer, SqlType::Text, money];
        let text = with_constants("a = $1 AND b = $2 OR c = $3", &types);
        assert_eq!(text, "a = 1 AND b = 'AB' OR c = 1.5");
    }

    #[test]
    fn times_are_read_from_a_line() {
        let mut times = Times::default();
        let line =
            "Planning time: 0.123 ms (parse 0.010, bind 0.050, meaning 0.040, optimize 0.02)";
        times.take(line).expect("a line of ours");
        let phases: Vec<f64> = times.phases.iter().map(Rounds::median).collect();
        assert_eq!((times.whole.median(), phases), (123.0, vec![10.0, 50.0, 40.0, 20.0]));
        times.take("Planning Time: 1.000 ms").expect("a line of PostgreSQL's");
        assert_eq!(times.whole.best(), 123.0);
        assert!(times.take("Planning time: soon").is_err());
    }

    #[test]
    fn every_statement_is_planned() {
        let options = Options { repeat: 2, groups: vec![Group::Point, Group::Tpcc], each: false };
        for group in options.groups.clone() {
            let database = Database::in_memory();
            let mut session = database.session();
            group.schema().iter().for_each(|text| session.batch(text).expect("a table"));
            let texts: Vec<Named> = (group.statements().into_iter())
                .map(|(name, text)| {
                    let params = session.prepare(&text).expect("a statement").params();
                    (name, with_constants(&text, &params))
                })
                .collect();
            let arm = halcyon(group, &mut session, &texts, &options).expect("plans");
            assert_eq!(arm.check, "ok");
            assert!(arm.figures["median_us"].as_f64().is_some_and(|us| us > 0.0));
        }
    }
}
