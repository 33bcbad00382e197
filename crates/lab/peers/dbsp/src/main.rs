//! dbsp on the events of `halcyon lab views`: circuits as its SQL compiler lays them out, integers
//! throughout, one worker.
//!
//! Usage: `views-dbsp QUERY BATCH SECONDS FILE`. The file holds events: a byte for the relation, a
//! signed byte for the weight, then a 64-bit word per column, little endian; doubles come as integers.
//! Prints `EVENTS CPU_NS` and then a line per row of the view: its columns, separated by blanks.

use std::error::Error;
use std::time::{Duration, Instant};

use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::{Tup2, Tup3, Tup5, Tup7};
use dbsp::{OrdIndexedZSet, OutputHandle, RootCircuit, Stream, ZSetHandle};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Seven columns are enough for every stream; those that are not there are zero.
type Row = Tup7<i64, i64, i64, i64, i64, i64, i64>;
type Rows = Stream<RootCircuit, dbsp::OrdZSet<Row>>;
/// Up to three columns of a group, up to five values.
type Key = Tup3<i64, i64, i64>;
type Values = Tup5<i64, i64, i64, i64, i64>;
type View = Stream<RootCircuit, OrdIndexedZSet<Key, Values>>;

const WIDTHS: &[(&str, &[usize])] = &[
    ("countone", &[5, 5]),
    ("axfinder", &[5, 5]),
    ("pricespread", &[5, 5]),
    ("brokerspread", &[5, 5]),
    ("q1", &[7]),
    ("q3", &[4, 4, 2]),
    ("q4", &[3, 3]),
    ("q6", &[4]),
    ("q11a", &[4, 1]),
    ("q12", &[5, 2]),
    ("q14", &[4, 2]),
    ("q17a", &[3, 1]),
    ("q18a", &[2, 2, 1]),
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, query, batch, seconds, file] = args.as_slice() else {
        return Err("usage: views-dbsp QUERY BATCH SECONDS FILE".into());
    };
    let widths = WIDTHS.iter().find(|(name, _)| name == query).ok_or("no such query")?.1;
    let (texts, events) = read(&std::fs::read(file)?, widths)?;
    let deadline = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let (circuit, (inputs, output)) = RootCircuit::build(|circuit| {
        let (streams, inputs): (Vec<Rows>, Vec<ZSetHandle<Row>>) =
            widths.iter().map(|_| circuit.add_input_zset::<Row>()).unzip();
        Ok((inputs, view(query, &streams, &texts).accumulate_integrate_output()))
    })?;
    let start_ns = cpu_ns();
    let mut taken = 0;
    while taken < events.len() && (taken == 0 || Instant::now() < deadline) {
        let end = events.len().min(taken + batch.parse::<usize>()?);
        for (relation, row, weight) in &events[taken..end] {
            inputs[*relation].push(row.clone(), *weight);
        }
        circuit.transaction()?;
        taken = end;
    }
    println!("{taken} {}", cpu_ns() - start_ns);
    for (key, values, _) in output.consolidate().iter() {
        let Tup3(a, b, c) = key;
        let Tup5(v, w, x, y, z) = values;
        println!("{a} {b} {c} {v} {w} {x} {y} {z}");
    }
    Ok(())
}

trait Output {
    fn accumulate_integrate_output(&self) -> OutputHandle<OrdIndexedZSet<Key, Values>>;
}

impl Output for View {
    /// The whole view, not its changes.
    fn accumulate_integrate_output(&self) -> OutputHandle<OrdIndexedZSet<Key, Values>> {
        self.integrate().output()
    }
}

/// Of the process: the circuit runs on this thread and on helpers of its runtime.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The texts, and the events. The file begins with the texts: their count, then lengths and bytes.
fn read(bytes: &[u8], widths: &[usize]) -> Result<(Vec<String>, Vec<(usize, Row, i64)>)> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count).ok_or("the file ends within a value")?;
        rest = tail;
        Ok::<_, Box<dyn Error>>((head, tail.is_empty()))
    };
    let word = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let text_count = word(take(8)?.0);
    let mut texts = Vec::new();
    for _ in 0..text_count {
        let length = word(take(8)?.0) as usize;
        texts.push(String::from_utf8(take(length)?.0.to_vec())?);
    }
    let mut events = Vec::new();
    let mut ended = bytes.is_empty();
    while !ended {
        let (head, _) = take(2)?;
        let (relation, weight) = (usize::from(head[0]), i64::from(head[1] as i8));
        let mut columns = [0_i64; 7];
        for column in columns.iter_mut().take(widths[relation]) {
            let (bytes, last) = take(8)?;
            *column = word(bytes);
            ended = last;
        }
        let [a, b, c, d, e, f, g] = columns;
        events.push((relation, Tup7(a, b, c, d, e, f, g), weight));
    }
    Ok((texts, events))
}

fn key(a: i64, b: i64, c: i64) -> Key {
    Tup3(a, b, c)
}

fn values(v: i64, w: i64, x: i64, y: i64, z: i64) -> Values {
    Tup5(v, w, x, y, z)
}

/// Days from 1970-01-01 to the dates in the queries.
mod date {
    pub const Y1993_07: i64 = 8582;
    pub const Y1993_10: i64 = 8674;
    pub const Y1994: i64 = 8766;
    pub const Y1995: i64 = 9131;
    pub const Y1995_03_15: i64 = 9204;
    pub const Y1995_09: i64 = 9374;
    pub const Y1995_10: i64 = 9404;
    pub const Y1997_09: i64 = 10_105;
}

/// Sums `value` over the rows of a stream by key.
fn sum(rows: &Stream<RootCircuit, OrdIndexedZSet<Key, Values>>) -> View {
    rows.aggregate_linear(|value| value.clone())
}

fn view(query: &str, streams: &[Rows], texts: &[String]) -> View {
    let number = |text: &str| {
        texts.iter().position(|known| known == text).map_or(-1, |number| number as i64)
    };
    match query {
        "countone" => {
            sum(&streams[0].map_index(|_| (key(0, 0, 0), values(1, 0, 0, 0, 0))))
        }
        "axfinder" => {
            let side = |rows: &Rows| rows.map_index(|row| (row.2, Tup2(row.3, row.4)));
            let (bids, asks) = (side(&streams[0]), side(&streams[1]));
            let pairs = bids.join_index(&asks, |&broker, bid, ask| {
                let far = (ask.1 - bid.1).abs() > 1000;
                far.then(|| (key(broker, 0, 0), values(ask.0 - bid.0, 0, 0, 0, 0)))
            });
            sum(&pairs)
        }
        "pricespread" => {
            // Per side: how many orders are large, and the sum of their prices.
            let side = |rows: &Rows| {
                let total = rows
                    .map_index(|row| ((), row.3))
                    .aggregate_linear(|&volume| volume);
                let by_volume = rows
                    .map_index(|row| (row.3, row.4))
                    .aggregate_linear(|&price| Tup2(1_i64, price));
                let by_volume = by_volume.map_index(|(&volume, sums)| ((), Tup2(volume, sums.clone())));
                let large = by_volume.join_index(&total, |_, row, &total| {
                    (10_000 * row.0 > total).then(|| ((), row.1.clone()))
                });
                large.aggregate_linear(|sums| sums.clone())
            };
            let (bids, asks) = (side(&streams[0]), side(&streams[1]));
            bids.join_index(&asks, |_, bid, ask| {
                let spread = ask.1 * bid.0 - bid.1 * ask.0;
                Some((key(0, 0, 0), values(spread, 0, 0, 0, 0)))
            })
        }
        "brokerspread" => {
            let bids = streams[0].map_index(|row| (row.2, Tup2(row.0, row.3 * row.4)));
            let pairs = bids.join_index(&bids, |&broker, x, y| {
                (x.0 > y.0).then(|| (key(broker, 0, 0), values(x.1 - y.1, 0, 0, 0, 0)))
            });
            sum(&pairs)
        }
        "q1" => {
            let lines = streams[0].filter(|row| row.6 <= date::Y1997_09);
            sum(&lines.map_index(|row| {
                let discounted = row.3 * (100 - row.4);
                let charge = discounted * (100 + row.5);
                (key(row.0, row.1, 0), values(row.2, row.3, discounted, charge, 1))
            }))
        }
        "q3" => {
            let building = number("BUILDING");
            let customers = streams[2].filter(move |row| row.1 == building);
            let customers = customers.map_index(|row| (row.0, ()));
            let orders = streams[1].filter(|row| row.2 < date::Y1995_03_15);
            let orders = orders.map_index(|row| (row.1, Tup3(row.0, row.2, row.3)));
            let lines = streams[0].filter(|row| row.3 > date::Y1995_03_15);
            let lines = lines.map_index(|row| (row.0, row.1 * (100 - row.2)));
            let orders = orders
                .join_index(&customers, |_, order, ()| Some((order.0, Tup2(order.1, order.2))));
            sum(&lines.join_index(&orders, |&order, &revenue, row| {
                Some((key(order, row.0, row.1), values(revenue, 0, 0, 0, 0)))
            }))
        }
        "q4" => {
            let late = streams[0].filter(|row| row.1 < row.2).map(|row| row.0).distinct();
            let late = late.map_index(|&order| (order, ()));
            let dates = date::Y1993_07..date::Y1993_10;
            let orders = streams[1].filter(move |row| dates.contains(&row.1));
            let orders = orders.map_index(|row| (row.0, row.2));
            sum(&orders.join_index(&late, |_, &priority, ()| {
                Some((key(priority, 0, 0), values(1, 0, 0, 0, 0)))
            }))
        }
        "q6" => {
            let lines = streams[0].filter(|row| {
                (date::Y1994..date::Y1995).contains(&row.0)
                    && (5..=7).contains(&row.1)
                    && row.2 < 2400
            });
            sum(&lines.map_index(|row| (key(0, 0, 0), values(row.3 * row.1, 0, 0, 0, 0))))
        }
        "q11a" => {
            let suppliers = streams[1].map_index(|row| (row.0, ()));
            let parts = streams[0].map_index(|row| (row.1, Tup2(row.0, row.2 * row.3)));
            sum(&parts.join_index(&suppliers, |_, part, ()| {
                Some((key(part.0, 0, 0), values(part.1, 0, 0, 0, 0)))
            }))
        }
        "q12" => {
            let modes = [number("MAIL"), number("SHIP")];
            let lines = streams[0].filter(move |row| {
                modes.contains(&row.1)
                    && row.3 < row.4
                    && row.2 < row.3
                    && (date::Y1994..date::Y1995).contains(&row.4)
            });
            let lines = lines.map_index(|row| (row.0, row.1));
            let urgent = [number("1-URGENT"), number("2-HIGH")];
            let orders = streams[1].map_index(move |row| (row.0, urgent.contains(&row.1)));
            sum(&lines.join_index(&orders, |_, &mode, &urgent| {
                let urgent = i64::from(urgent);
                Some((key(mode, 0, 0), values(urgent, 1 - urgent, 0, 0, 0)))
            }))
        }
        "q14" => {
            let lines = streams[0]
                .filter(|row| (date::Y1995_09..date::Y1995_10).contains(&row.3))
                .map_index(|row| (row.0, row.1 * (100 - row.2)));
            let promo: Vec<bool> = texts.iter().map(|text| text.starts_with("PROMO")).collect();
            let parts = streams[1].map_index(move |row| (row.0, promo[row.1 as usize]));
            sum(&lines.join_index(&parts, |_, &revenue, &promo| {
                let promoted = i64::from(promo) * revenue;
                Some((key(0, 0, 0), values(promoted, revenue, 0, 0, 0)))
            }))
        }
        "q17a" => {
            let lines = streams[0].map_index(|row| (row.0, Tup2(row.1, row.2)));
            let totals = lines.aggregate_linear(|row| row.0);
            let small = lines.join_index(&totals, |&part, row, &total| {
                (row.0 * 1000 < 5 * total).then_some((part, row.1))
            });
            let parts = streams[1].map_index(|row| (row.0, ()));
            sum(&small.join_index(&parts, |_, &price, ()| {
                Some((key(0, 0, 0), values(price, 0, 0, 0, 0)))
            }))
        }
        "q18a" => {
            let lines = streams[0].map_index(|row| (row.0, row.1));
            let large = lines.aggregate_linear(|&quantity| quantity);
            let large = large.filter(|(_, &quantity)| quantity > 10_000);
            let orders = streams[1].map_index(|row| (row.1, row.0));
            let customers = streams[2].map_index(|row| (row.0, ()));
            let orders = orders
                .join_index(&customers, |&customer, &order, ()| Some((order, customer)))
                .join_index(&large, |&order, &customer, _| Some((order, customer)));
            sum(&lines.join_index(&orders, |_, &quantity, &customer| {
                Some((key(customer, 0, 0), values(quantity, 0, 0, 0, 0)))
            }))
        }
        other => unreachable!("{other} has widths and no circuit"),
    }
}
