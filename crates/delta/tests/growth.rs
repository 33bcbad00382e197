//! Certificates compared with counted operations: what an event costs among many rows, and among
//! eight times as many.
//!
//! The interpreter counts the steps that run ([`Engine::operations`]); no clock is used. Rows have
//! a fixed number of partners, however many rows there are, so only enumerations of whole maps and
//! of groups may make an event dearer, and the certificate says how deeply these are nested. A
//! look-up in an ordered map counts as one step, so O(log n) may not grow at all.

mod common;

use arrow::datatypes::DataType::{self, Date32, Float64, Int32, Int64, Utf8};
use common::queries::{Writer, database};
use common::{Db, Random, ScalarRow, Table, View, encode};
use datafusion::common::ScalarValue as V;
use halcyon_delta::Compiled;
use halcyon_view::{Engine, Executor, Options};

/// Rows of every table at first, and the factor by which their number grows.
const FEW: usize = 48;
const TIMES: usize = 8;
/// Rows that share a value of a column.
const PARTNERS: usize = 4;

/// A value of a column, out of as many as leave [`PARTNERS`] rows to each.
fn value(random: &mut Random, ty: &DataType, nullable: bool, rows: usize) -> V {
    if nullable && random.chance(5) {
        return V::try_from(ty).unwrap();
    }
    let number = random.below(rows / PARTNERS) as i64;
    match ty {
        Int32 => V::Int32(Some(number as i32)),
        Int64 => V::Int64(Some(number)),
        Float64 => V::Float64(Some(number as f64)),
        Utf8 => V::Utf8(Some(format!("text {number}"))),
        Date32 => V::Date32(Some(9000 + number as i32)),
        DataType::Decimal128(p, s) => V::Decimal128(Some(number.into()), *p, *s),
        other => panic!("no test has {other}"),
    }
}

fn row(random: &mut Random, table: &Table, at: usize, rows: usize) -> ScalarRow {
    let fields = table.schema.fields().iter();
    let values = fields.map(|field| value(random, field.data_type(), field.is_nullable(), rows));
    let mut row: ScalarRow = values.collect();
    // There are few brokers: most views over order books group by them.
    if let Ok(brokers) = table.schema.index_of("broker_id") {
        row[brokers] = V::Int64(Some(at as i64 % 8));
    }
    // The first column is a key and stays unique.
    if !table.unique.is_empty() {
        row[0] = V::Int32(Some(at as i32));
    }
    row
}

/// Operations of an event, by base relation, in the middle of some inserts and deletes, with `rows`
/// rows in every table.
fn operations(compiled: &Compiled, db: &Db, rows: usize) -> Vec<f64> {
    const MEASURED: usize = 10;
    let options = Options { executor: Executor::Interpreted, ..Options::default() };
    let mut engine = Engine::new(compiled.program.clone(), options).unwrap();
    engine.begin().unwrap();
    let mut random = Random::new(3);
    let mut counted = vec![0; compiled.inputs.len()];
    for at in 0..rows + MEASURED {
        for table in &db.tables {
            let row = row(&mut random, table, at, rows);
            for (input, counted) in compiled.inputs.iter().zip(&mut counted) {
                if input.table.table() != table.name {
                    continue;
                }
                let mut words = Vec::new();
                for (column, encoding) in &input.columns {
                    encode(&row[*column], *encoding, &mut engine, &mut words);
                }
                let before = engine.operations().expect("the interpreter counts");
                let weights: &[i64] = if at < rows { &[1] } else { &[1, -1] };
                for weight in weights {
                    engine.apply(input.relation, &words, *weight).unwrap();
                    engine.drain_changes(|_| {}).unwrap();
                }
                if at >= rows {
                    *counted += engine.operations().expect("as before") - before;
                }
            }
        }
    }
    counted.iter().map(|count| *count as f64 / (2 * MEASURED) as f64).collect()
}

/// The factor by which an event may become dearer, read off the text of a certificate's class.
fn allowed(class: &str) -> f64 {
    let inner = class.trim_start_matches("O(").trim_end_matches(')');
    let power = |factor: &str| match factor {
        "1" | "log n" => 0,
        factor if factor.starts_with("fan-out") => 0,
        "n" | "groups" => 1,
        "n²" | "groups²" => 2,
        other => panic!("{other} grows faster than anything here should"),
    };
    let power: i32 = inner.split(" · ").map(power).sum();
    (TIMES as f64).powi(power)
}

/// Returns what was counted for every relation; panics if it grew faster than the certificate says.
fn check(db: &Db, sql: &str) -> Vec<String> {
    let compiled = View::new(db, sql).unwrap_or_else(|error| panic!("{sql}\n{error}")).compiled;
    let few = operations(&compiled, db, FEW);
    let many = operations(&compiled, db, FEW * TIMES);
    let mut told = Vec::new();
    for ((event, few), many) in compiled.certificate.events.iter().zip(few).zip(many) {
        let class = event.class.to_string();
        let line = format!("{}: {class}, {few:.1} operations, then {many:.1}", event.relation);
        assert!(
            many <= (few + 4.0) * allowed(&class) * 1.5,
            "{sql}\n{line}\n{}\n{}",
            compiled.certificate,
            compiled.program
        );
        told.push(line);
    }
    told
}

/// Order books whose columns may be NULL, or may not.
fn books(nullable: bool) -> Db {
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

/// The finance queries have an order to search in, whether or not their columns may be NULL.
#[test]
fn orders_are_searched_under_nulls_too() {
    for sql in [
        "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) FROM bids b, asks a \
         WHERE b.broker_id = a.broker_id AND (a.price - b.price > 1000 OR b.price - a.price > 1000) \
         GROUP BY b.broker_id",
        "SELECT SUM(a.price - b.price) FROM bids b, asks a \
         WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1) \
         AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)",
        "SELECT SUM(b1.price * b1.volume) FROM bids b1 \
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price), 0)",
        "SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) FROM bids x, bids y \
         WHERE x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id",
        "SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) FROM bids x, bids y \
         WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
        "SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) FROM bids b, asks a \
         WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > \
         COALESCE((SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price), 0) \
         AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price), 0) \
         GROUP BY b.broker_id",
        "SELECT COUNT(*) FROM bids",
    ] {
        for nullable in [false, true] {
            let told = check(&books(nullable), sql).join("; ");
            println!("{nullable} {told}\n    {sql}");
            assert!(!told.contains("O(n"), "{sql}\n{told}");
        }
    }
}

/// Products of a sum that are not factored are enumerated, and the certificate says so.
#[test]
fn enumerations_within_each_other_are_told() {
    let db = books(true);
    let told = check(&db, "SELECT SUM(a.id * b.id) FROM bids a, asks b");
    assert!(told.iter().all(|line| line.contains("O(n)")), "{told:?}");
    let told = check(&db, "SELECT SUM(a.id * b.id * c.id) FROM bids a, asks b, bids c");
    assert!(told.iter().any(|line| line.contains("O(n²)")), "{told:?}");
    let told = check(&db, "SELECT SUM(a.price * b.price) FROM bids a, asks b");
    assert!(told.iter().all(|line| line.contains("O(1)")), "{told:?}");
}

/// The power of a sum, and a product of sums that have nothing in common: the length of a program
/// may grow only polynomially with the number of factors, here with the fourth degree. (Written
/// out, seven factors of three summands are two thousand products.)
#[test]
fn programs_of_products_of_sums_grow_slowly() {
    let columns: Vec<String> = (0..12).map(|at| format!("x{at}")).collect();
    let columns: Vec<_> = columns.iter().map(|name| (name.as_str(), Float64, true)).collect();
    let db = Db::new(["a", "b", "c"].map(|name| Table::new(name, &columns, &[])).into());
    for of_one_sum in [true, false] {
        let length = |count: usize| {
            let factor = |at: usize| {
                let at = if of_one_sum { 0 } else { at };
                format!("(a.x{at} - b.x{at} + c.x{at})")
            };
            let product = (0..count).map(factor).collect::<Vec<_>>().join(" * ");
            let sql = format!("SELECT SUM({product}) FROM a, b, c");
            let view = View::new(&db, &sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
            view.compiled.program.to_string().len()
        };
        let (few, many) = (length(3), length(12));
        println!("{few} characters of 3 factors, {many} of 12");
        assert!(many < few * 4_usize.pow(4), "{few} characters of 3 factors, {many} of 12");
    }
}

#[test]
fn certificates_of_random_views_hold() {
    let mut checked = 0;
    for seed in 1..=24 {
        let mut random = Random::new(seed);
        let db = database(&mut random);
        let sql = Writer::new(&db, &mut random).query();
        if db.recompute(&sql).is_ok() && View::new(&db, &sql).is_ok() {
            let told = check(&db, &sql);
            if std::env::var("HALCYON_PROGRAMS").is_ok() {
                println!("seed {seed}: {sql}\n    {}", told.join("; "));
            }
            checked += 1;
        }
    }
    println!("{checked} certificates held");
    assert!(checked > 12, "{checked} queries");
}
