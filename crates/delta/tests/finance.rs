//! The finance queries over an order book: a generated book, compared with recomputation, and a
//! recorded one where HALCYON_FINANCE names a folder with `standard.csv` and `expected.json`.

mod common;

use std::collections::HashMap;
use std::time::Instant;

use arrow::datatypes::DataType::{Float64, Int64};
use common::{Db, Random, ScalarRow, Table, View};
use datafusion::common::ScalarValue as V;
use halcyon_view::program::RelationId;
use halcyon_view::{Engine, Options};

fn database() -> Db {
    database_of(false)
}

/// Order books whose columns may be NULL, or may not.
fn database_of(nullable: bool) -> Db {
    let columns = [
        ("t", Float64, nullable),
        ("id", Int64, nullable),
        ("broker_id", Int64, nullable),
        ("volume", Float64, nullable),
        ("price", Float64, nullable),
    ];
    let mut tables = vec![Table::new("bids", &columns, &[]), Table::new("asks", &columns, &[])];
    tables.iter_mut().for_each(|table| table.never_negative = vec![3, 4]);
    Db::new(tables)
}

/// Name, query, and a query of the same meaning that DataFusion can run.
const QUERIES: [(&str, &str, &str); 7] = [
    (
        "axfinder",
        "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) FROM bids b, asks a \
         WHERE b.broker_id = a.broker_id AND (a.price - b.price > 1000 OR b.price - a.price > 1000) \
         GROUP BY b.broker_id",
        "",
    ),
    (
        "pricespread",
        "SELECT SUM(a.price - b.price) FROM bids b, asks a \
         WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1) \
         AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)",
        "",
    ),
    (
        "vwap",
        "SELECT SUM(b1.price * b1.volume) FROM bids b1 \
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price), 0)",
        "SELECT SUM(b1.price * b1.volume) FROM bids b1 JOIN (SELECT k.price, \
         COALESCE(SUM(b2.volume), 0) AS v FROM (SELECT DISTINCT price FROM bids) k \
         LEFT JOIN bids b2 ON b2.price > k.price GROUP BY k.price) q ON q.price IS NOT DISTINCT FROM b1.price \
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > q.v",
    ),
    (
        "brokerspread",
        "SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) FROM bids x, bids y \
         WHERE x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id",
        "",
    ),
    (
        "brokervariance",
        "SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) FROM bids x, bids y \
         WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
        "",
    ),
    (
        "missedtrades",
        "SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) FROM bids b, asks a \
         WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > \
         COALESCE((SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price), 0) \
         AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price), 0) \
         GROUP BY b.broker_id",
        "SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) FROM \
         (SELECT b1.* FROM bids b1 JOIN (SELECT k.price, COALESCE(SUM(b2.volume), 0) AS v FROM \
         (SELECT DISTINCT price FROM bids) k LEFT JOIN bids b2 ON b2.price > k.price \
         GROUP BY k.price) q ON q.price IS NOT DISTINCT FROM b1.price \
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > q.v) b, \
         (SELECT a1.* FROM asks a1 JOIN (SELECT k.price, COALESCE(SUM(a2.volume), 0) AS v FROM \
         (SELECT DISTINCT price FROM asks) k LEFT JOIN asks a2 ON a2.price > k.price \
         GROUP BY k.price) q ON q.price IS NOT DISTINCT FROM a1.price \
         WHERE 0.25 * (SELECT SUM(a3.volume) FROM asks a3) > q.v) a GROUP BY b.broker_id",
    ),
    ("countone", "SELECT COUNT(*) FROM bids", ""),
];

/// The open orders by number, each with the table that holds it.
#[derive(Default)]
struct Book {
    orders: HashMap<i64, (&'static str, ScalarRow)>,
}

impl Book {
    /// The events of one message.
    fn message(&mut self, t: f64, id: i64, action: &str, volume: f64, price: f64) -> Vec<Event> {
        let row = |volume: f64| -> ScalarRow {
            vec![
                V::Float64(Some(t)),
                V::Int64(Some(id)),
                V::Int64(Some(id % 10)),
                V::Float64(Some(volume)),
                V::Float64(Some(price)),
            ]
        };
        match action {
            "B" | "S" => {
                let table = if action == "B" { "bids" } else { "asks" };
                self.orders.insert(id, (table, row(volume)));
                vec![(table, row(volume), 1)]
            }
            "E" | "D" | "F" => {
                let Some((table, old)) = self.orders.remove(&id) else { return Vec::new() };
                let mut events = vec![(table, old.clone(), -1)];
                let V::Float64(Some(before)) = old[3] else { unreachable!() };
                if action == "E" && before > volume {
                    let mut new = old;
                    new[3] = V::Float64(Some(before - volume));
                    self.orders.insert(id, (table, new.clone()));
                    events.push((table, new, 1));
                }
                events
            }
            _ => Vec::new(),
        }
    }
}

type Event = (&'static str, ScalarRow, i64);

fn apply(db: &mut Db, event: &Event) {
    let (name, row, weight) = event;
    let table = db.tables.iter_mut().find(|table| table.name == *name).unwrap();
    if *weight > 0 {
        table.rows.push(row.clone());
    } else {
        let at = table.rows.iter().position(|other| other == row).unwrap();
        table.rows.swap_remove(at);
    }
}

fn generated(seed: u64, messages: usize) -> Vec<Event> {
    let mut random = Random::new(seed);
    let mut book = Book::default();
    let mut events = Vec::new();
    for at in 0..messages as i64 {
        let action = *random.pick(&["B", "B", "S", "S", "S", "D", "E"]);
        let id =
            if action == "B" || action == "S" { at } else { random.below(at as usize + 1) as i64 };
        let (volume, price) = (1.0 + random.below(9) as f64, 500.0 * random.below(8) as f64);
        events.extend(book.message((at / 3) as f64, id, action, 10.0 * volume, 10_000.0 + price));
    }
    events
}

#[test]
fn views_over_a_generated_book_equal_recomputation() {
    compare(&database, &|event| event);
}

/// Some orders, chosen by their numbers, have NULL as volume, price or broker.
#[test]
fn views_over_a_book_with_nulls_equal_recomputation() {
    compare(&|| database_of(true), &|(table, mut row, weight)| {
        let V::Int64(Some(id)) = row[1] else { unreachable!("every order has a number") };
        for (column, by, null) in [(2, 11, V::Int64(None)), (3, 7, V::Float64(None))] {
            if id % by == 3 {
                row[column] = null;
            }
        }
        if id % 5 == 1 {
            row[4] = V::Float64(None);
        }
        (table, row, weight)
    });
}

/// Compares the views of all queries with recomputation, over events that `changed` may alter.
fn compare(database: &dyn Fn() -> Db, changed: &dyn Fn(Event) -> Event) {
    for (name, sql, same) in QUERIES {
        let mut db = database();
        let mut view = View::new(&db, sql).unwrap_or_else(|e| panic!("{name}: {e}"));
        let events: Vec<Event> = generated(7, 220).into_iter().map(changed).collect();
        for (at, event) in events.iter().enumerate() {
            apply(&mut db, event);
            view.apply(event.0, &event.1, event.2).unwrap_or_else(|e| panic!("{name}: {e}"));
            if at % 20 == 19 {
                let same = if same.is_empty() { sql } else { same };
                view.check_against(&db, same).unwrap_or_else(|e| panic!("{name}, event {at}: {e}"));
            }
        }
        if std::env::var("HALCYON_PROGRAMS").is_ok() {
            println!("{name}\n{}\n{}", view.compiled.program, view.compiled.certificate);
        }
    }
}

/// The numbers of a query in `expected.json`, by key; a query without keys has the empty key.
fn expected(json: &str, query: &str) -> Vec<(String, f64)> {
    let json = &json[json.find("\"standard\"").unwrap()..];
    let at = json.find(&format!("\"{query}\"")).unwrap();
    let rest = json[at..].split_once(':').unwrap().1.trim_start();
    let Some(inner) = rest.strip_prefix('{') else {
        let end = rest.find([',', '}', '\n']).unwrap();
        return vec![(String::new(), rest[..end].trim().parse().unwrap())];
    };
    let pair = |pair: &str| {
        let (key, value) = pair.split_once(':').unwrap();
        (key.trim().trim_matches('"').to_owned(), value.trim().parse().unwrap())
    };
    inner[..inner.find('}').unwrap()].split(',').map(pair).collect()
}

/// The events of `standard.csv`.
fn recorded(folder: &str) -> Vec<Event> {
    let mut book = Book::default();
    let mut events = Vec::new();
    for line in std::fs::read_to_string(format!("{folder}/standard.csv")).unwrap().lines() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |at: usize| fields[at].parse::<f64>().unwrap();
        let id = fields[1].parse().unwrap();
        events.extend(book.message(number(0), id, fields[2], number(3), number(4)));
    }
    events
}

#[test]
fn the_recorded_book_gives_the_expected_results() {
    let Ok(folder) = std::env::var("HALCYON_FINANCE") else { return };
    let events = recorded(&folder);
    let json = std::fs::read_to_string(format!("{folder}/expected.json")).unwrap();
    for (name, sql, _) in QUERIES {
        let start = Instant::now();
        let mut view = View::new(&database(), sql).unwrap();
        for (table, row, weight) in &events {
            view.apply(table, row, *weight).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        println!("{name}: {} events in {:?}", events.len(), start.elapsed());
        let rows = view.rows();
        let found: Vec<(String, f64)> = rows
            .iter()
            .map(|row| match row.split_once('|') {
                Some((key, value)) => (key.to_owned(), value.parse().unwrap()),
                None => (String::new(), row.parse().unwrap()),
            })
            .collect();
        if name == "countone" {
            continue;
        }
        for (key, value) in expected(&json, name) {
            let own = found.iter().find(|(own, _)| *own == key);
            let own = own.unwrap_or_else(|| panic!("{name}: no group {key}")).1;
            assert!((own - value).abs() <= value.abs() * 1e-8, "{name} {key}: {own}, not {value}");
        }
        for (key, value) in found {
            let known = expected(&json, name).iter().any(|(own, _)| *own == key);
            assert!(known || value == 0.0, "{name}: group {key} has {value}");
        }
    }
}

/// Events of a view in the form that its engine takes.
fn prepared(view: &View, events: &[Event]) -> Vec<(RelationId, Vec<u64>, i64)> {
    let word = |column: &V| match column {
        V::Float64(Some(value)) => value.to_bits(),
        V::Int64(Some(value)) => *value as u64,
        other => panic!("no order has {other:?}"),
    };
    let mut prepared = Vec::new();
    for (table, row, weight) in events {
        for input in view.compiled.inputs.iter().filter(|i| i.table.table() == *table) {
            let words = input.columns.iter().map(|(at, _)| word(&row[*at])).collect();
            prepared.push((input.relation, words, *weight));
        }
    }
    prepared
}

/// The nanoseconds of each event, the least of some passes. Each pass has a new engine in memory
/// that has never been touched.
fn least_ns(view: &View, events: &[(RelationId, Vec<u64>, i64)], passes: usize) -> Vec<u64> {
    let mut least = vec![u64::MAX; events.len()];
    let mut engines = Vec::new();
    for _ in 0..passes {
        let program = view.compiled.program.clone();
        engines.push(Engine::new(program, Options::default()).unwrap());
        let engine = engines.last_mut().unwrap();
        for ((relation, words, weight), least) in events.iter().zip(&mut least) {
            let start = Instant::now();
            engine.apply(*relation, words, *weight).unwrap();
            *least = (start.elapsed().as_nanos() as u64).min(*least);
        }
    }
    least
}

/// Prints how long events of the recorded book take. Asserts nothing: machines differ.
#[test]
fn the_recorded_book_takes_its_time() {
    let Ok(folder) = std::env::var("HALCYON_FINANCE") else { return };
    let events = recorded(&folder);
    for (name, sql, _) in QUERIES {
        let view = View::new(&database(), sql).unwrap();
        let mut least = least_ns(&view, &prepared(&view, &events), 15);
        let slowest = (0..least.len()).max_by_key(|at| least[*at]).unwrap();
        let sum: u64 = least.iter().sum();
        least.sort_unstable();
        let at = |share: f64| least[(least.len() as f64 * share) as usize];
        println!(
            "{name}: p50 {} ns, p99 {}, p99.9 {}, slowest {} (event {slowest}), mean {}",
            at(0.5),
            at(0.99),
            at(0.999),
            least[least.len() - 1],
            sum / least.len() as u64,
        );
    }
}

/// A large order at the best price, which comes and goes, moves a threshold over a quarter of all
/// prices and back. That takes a search and sums over ranges, however many prices it passes; a
/// program that went from price to price would take 100 times as long for 100 times as many prices.
#[test]
fn a_threshold_may_pass_all_prices_at_once() {
    for name in ["vwap", "missedtrades"] {
        let (_, sql, _) = QUERIES.into_iter().find(|(own, ..)| *own == name).unwrap();
        let view = View::new(&database(), sql).unwrap();
        let slowest = |prices: i64| {
            let mut book = Book::default();
            let mut events = Vec::new();
            for id in 0..prices {
                let action = if id % 2 == 0 { "B" } else { "S" };
                events.extend(book.message(0.0, id, action, 10.0, 10_000.0 + id as f64));
            }
            let filled = prepared(&view, &events).len();
            for id in prices..prices + 20 {
                let action = if id % 2 == 0 { "B" } else { "S" };
                let volume = 10.0 * prices as f64;
                events.extend(book.message(
                    0.0,
                    id,
                    action,
                    volume,
                    10_000.0 + 2.0 * prices as f64,
                ));
                events.extend(book.message(0.0, id, "D", 0.0, 0.0));
            }
            let least = least_ns(&view, &prepared(&view, &events), 4);
            least[filled..].iter().copied().max().unwrap()
        };
        let (few, many) = (slowest(500), slowest(50_000));
        println!("{name}: {few} ns among 500 prices, {many} among 50,000");
        assert!(many < 30 * few, "{name}: {few} ns among 500 prices, {many} among 50,000");
    }
}
