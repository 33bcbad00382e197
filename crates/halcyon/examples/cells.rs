//! What a view in a cell costs through SQL: events per second of the same view in the process and at the places of
//! cells, by the doors that a program has; one JSON line each.
//!
//! `cargo run --release -p halcyon --example cells -- [--rounds N] [--events N] [--batch N] [--cell CPU]
//! [--view NAME] [--door NAME]`
//!
//! Doors: `handle`, packed events in runs of `--batch`; `single`, a tenth of the same one by one; `insert`, `INSERT … SELECT` from a
//! table. Every round runs all places of a view and a door one after the other, in an order that turns, and checks that
//! all have the same rows. `events_per_s`: from the first event to the end of a SELECT of the view. `ratio`: the median over the
//! rounds of this place's rate over that of `process, operations` in the same round: the same operations, so the difference is the way there and
//! back. `foreign`: cores that other processes had meanwhile.

use std::time::Instant;

use halcyon::{Database, Session, ValueRef};
use halcyon_base::rng::Rng;
use serde_json::json;

/// Name and options of each place.
const PLACES: [(&str, &str); 4] = [
    ("process, operations", "executor = 'operations'"),
    ("process, machine code", "executor = 'compiled'"),
    ("thread", "place = 'thread'"),
    ("cell", "place = 'cell'"),
];
const DOORS: [&str; 3] = ["handle", "single", "insert"];

/// A view with its streams.
struct Sample {
    name: &'static str,
    streams: &'static [(&'static str, &'static str)],
    query: &'static str,
}

const SAMPLES: [Sample; 2] = [
    Sample {
        name: "q6",
        streams: &[(
            "lineitem",
            "shipdate DATE, discount NUMERIC(15, 2), quantity NUMERIC(15, 2), extendedprice NUMERIC(15, 2)",
        )],
        query: "SELECT SUM(extendedprice * discount) AS s FROM lineitem WHERE shipdate >= DATE '1994-01-01' \
                AND shipdate < DATE '1995-01-01' AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
    },
    Sample {
        name: "axfinder",
        streams: &[
            (
                "bids",
                "broker_id BIGINT, volume DOUBLE PRECISION, price DOUBLE PRECISION CHECK (price >= 0)",
            ),
            (
                "asks",
                "broker_id BIGINT, volume DOUBLE PRECISION, price DOUBLE PRECISION CHECK (price >= 0)",
            ),
        ],
        query: "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) AS s FROM bids b, asks a \
                WHERE b.broker_id = a.broker_id AND (a.price - b.price > 1000 OR b.price - a.price > 1000) \
                GROUP BY b.broker_id",
    },
];

impl Sample {
    /// Events: the stream, and the row.
    fn events(&self, count: usize) -> Vec<(usize, Vec<ValueRef<'static>>)> {
        let mut rng = Rng::new(7);
        let event = |_| match self.name {
            "q6" => {
                let money = |number: u64| ValueRef::Decimal(number.into());
                let day = ValueRef::Date(8036 + rng.below(2526) as i32);
                let row =
                    [rng.below(11), 100 + 100 * rng.below(50), 90_000 + rng.below(10_000_000)];
                (0, [vec![day], row.map(money).to_vec()].concat())
            }
            _ => {
                let row = vec![
                    ValueRef::Int64(rng.below(10) as i64),
                    ValueRef::Float64((1 + rng.below(1000)) as f64),
                    ValueRef::Float64((10_000 + rng.below(3_000)) as f64),
                ];
                (rng.below(2) as usize, row)
            }
        };
        (0..count).map(event).collect()
    }
}

struct Setup {
    rounds: usize,
    events: usize,
    batch: usize,
    cell: Option<u64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let setup = Setup {
        rounds: option("--rounds").unwrap_or(5) as usize,
        events: option("--events").unwrap_or(200_000) as usize,
        batch: option("--batch").unwrap_or(1024) as usize,
        cell: option("--cell"),
    };
    let named = |option: &str, name: &str| {
        let at = arguments.iter().position(|argument| argument == option);
        at.is_none_or(|at| arguments.get(at + 1).is_some_and(|wanted| wanted == name))
    };
    for sample in SAMPLES.iter().filter(|sample| named("--view", sample.name)) {
        let events = sample.events(setup.events);
        for door in DOORS.into_iter().filter(|door| named("--door", door)) {
            measure(&setup, sample, door, &events);
        }
    }
}

/// A database with the view at a place. The error says, for people, why that cannot be.
fn database(setup: &Setup, sample: &Sample, options: &str) -> Result<Database, String> {
    let database = Database::in_memory();
    let mut session = database.session();
    for (name, columns) in sample.streams {
        session.batch(&format!("CREATE STREAM {name} ({columns})")).expect("a stream");
    }
    let cpu = setup.cell.filter(|_| options.starts_with("place"));
    let cpu = cpu.map_or_else(String::new, |cpu| format!(", cell_cpu = {cpu}"));
    session
        .batch(&format!("CREATE MATERIALIZED VIEW v WITH ({options}{cpu}) AS {}", sample.query))
        .map_err(|error| {
            format!("{error} {}", error.fields().detail.clone().unwrap_or_default())
        })?;
    Ok(database)
}

/// The view's rows as text, sorted.
fn rows(session: &mut Session) -> Vec<String> {
    let mut rows = session.query("SELECT * FROM v", &[]).expect("the view can be read");
    let mut found = Vec::new();
    while let Some(row) = rows.next().expect("the view can be read") {
        let values = (0..row.len()).map(|column| format!("{:?}", row.value(column).to_owned()));
        found.push(values.collect::<Vec<_>>().join(" "));
    }
    found.sort();
    found
}

/// Events per second, and the rows behind them.
fn run(
    setup: &Setup,
    sample: &Sample,
    door: &str,
    options: &str,
    events: &[(usize, Vec<ValueRef<'_>>)],
) -> Result<(f64, Vec<String>), String> {
    let database = database(setup, sample, options)?;
    let mut session = database.session();
    let names: Vec<&str> = sample.streams.iter().map(|(name, _)| *name).collect();
    let mut streams = database.streams(&names).expect("streams");
    let mut packed = streams.packed();
    // One by one a cell takes a round trip for each.
    let events = if door == "single" { &events[..events.len() / 10] } else { events };
    match door {
        "insert" => {
            for (stream, (name, columns)) in sample.streams.iter().enumerate() {
                session.batch(&format!("CREATE TABLE {name}_kept ({columns})")).expect("a table");
                let mut rows =
                    events.iter().filter(|(of, _)| *of == stream).map(|(_, row)| row).peekable();
                while rows.peek().is_some() {
                    let some: Vec<String> =
                        rows.by_ref().take(1000).map(|row| tuple(row)).collect();
                    let sql = format!("INSERT INTO {name}_kept VALUES {}", some.join(", "));
                    session.batch(&sql).expect("rows");
                }
            }
        }
        _ => {
            for (stream, row) in events {
                streams.pack(*stream, row, 1, &mut packed).expect("an event");
            }
        }
    }
    let begin = Instant::now();
    match door {
        "insert" => {
            for name in names {
                let sql = format!("INSERT INTO {name} SELECT * FROM {name}_kept");
                session.batch(&sql).expect("events");
            }
        }
        _ => {
            let step = if door == "single" { 1 } else { setup.batch };
            for first in (0..events.len()).step_by(step) {
                let run = first..(first + step).min(events.len());
                streams.take(&packed, run).expect("accepted");
            }
        }
    }
    let found = rows(&mut session);
    Ok((events.len() as f64 / begin.elapsed().as_secs_f64(), found))
}

/// A row as SQL.
fn tuple(row: &[ValueRef<'_>]) -> String {
    let value = |value: &ValueRef<'_>| match value {
        ValueRef::Date(days) => format!("DATE '1970-01-01' + {days}"),
        ValueRef::Decimal(cents) => format!("{}.{:02}", cents / 100, cents % 100),
        ValueRef::Int64(number) => number.to_string(),
        ValueRef::Float64(number) => number.to_string(),
        other => unreachable!("{other:?} is in no sample"),
    };
    format!("({})", row.iter().map(value).collect::<Vec<_>>().join(", "))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn spread(values: &[f64]) -> [f64; 2] {
    [values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max)]
}

/// Processor seconds of the whole machine and of this process, from /proc; `None` elsewhere.
fn processor_seconds() -> Option<[f64; 2]> {
    let ticks = |text: &str, fields: &[usize]| -> Option<f64> {
        let words: Vec<&str> = text.split_whitespace().collect();
        fields.iter().map(|at| words.get(*at)?.parse::<f64>().ok()).sum()
    };
    let all = std::fs::read_to_string("/proc/stat").ok()?;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, own) = own.rsplit_once(')')?;
    Some([ticks(all.lines().next()?, &[1, 2, 3, 6, 7])? / 100.0, ticks(own, &[11, 12])? / 100.0])
}

fn measure(setup: &Setup, sample: &Sample, door: &str, events: &[(usize, Vec<ValueRef<'_>>)]) {
    let mut rates: [Vec<f64>; PLACES.len()] = Default::default();
    let (before, began) = (processor_seconds(), Instant::now());
    let mut expected = None;
    for round in 0..setup.rounds {
        for turn in 0..PLACES.len() {
            let at = (turn + round) % PLACES.len();
            let (place, options) = PLACES[at];
            match run(setup, sample, door, options, events) {
                Ok((rate, rows)) => {
                    rates[at].push(rate);
                    let first = expected.get_or_insert_with(|| rows.clone());
                    assert_eq!(*first, rows, "{} {door} {place}", sample.name);
                }
                Err(why) if round == 0 => {
                    println!(
                        "{}",
                        json!({ "experiment": "cells", "place": place, "skipped": why })
                    );
                }
                Err(_) => {}
            }
        }
    }
    let foreign = before.zip(processor_seconds()).map(|(before, after)| {
        let used = |at: usize| after[at] - before[at];
        (used(0) - used(1)) / began.elapsed().as_secs_f64()
    });
    for ((place, _), own) in PLACES.iter().zip(&rates).filter(|(_, own)| !own.is_empty()) {
        let ratios: Vec<f64> = own.iter().zip(&rates[0]).map(|(own, base)| own / base).collect();
        let line = json!({
            "experiment": "cells", "view": sample.name, "door": door, "place": place,
            "events": setup.events, "batch": setup.batch, "rounds": own.len(),
            "events_per_s": median(own), "events_per_s_spread": spread(own),
            "ratio": median(&ratios), "ratio_spread": spread(&ratios), "foreign": foreign,
        });
        println!("{line}");
    }
}
