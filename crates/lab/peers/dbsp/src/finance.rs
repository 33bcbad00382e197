//! Queries over order books. The numbers of both data sets are whole, so sums are exact.
//!
//! dbsp joins and groups by equal keys. Where a query compares with a total or with a sum over better
//! prices, the circuit uses what dbsp has for ordered keys: [`Stream::window`], which emits what
//! crosses a bound that moves, and rolling aggregates, which compute sums over a range of keys anew
//! for every key whose range a change touches.

use dbsp::operator::input::ZSetStream;
use dbsp::operator::time_series::{RelOffset, RelRange};
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::{Tup2, Tup3, Tup5};
use dbsp::{RootCircuit, Stream, TypedBox};

use crate::circuit::{Feed, Indexed, Parts, Program, Row, table, view};

/// Time, number, broker, volume, price.
type Order = Tup5<i64, i64, i64, i64, i64>;
type Orders = ZSetStream<Order>;

/// The circuit of a query over order books.
pub fn program(query: &str) -> Option<Program> {
    Some(match query {
        "axfinder" => axfinder,
        "pricespread" => pricespread,
        "vwap" => vwap,
        "brokerspread" => brokerspread,
        "brokervariance" => brokervariance,
        "missedtrades" => missedtrades,
        "countone" => countone,
        _ => return None,
    })
}

fn order(row: &[u64]) -> Order {
    let whole = |word: u64| {
        let number = f64::from_bits(word);
        assert!(number as i64 as f64 == number, "{number} is not whole, as the circuits need it");
        number as i64
    };
    Tup5(whole(row[0]), row[1] as i64, row[2] as i64, whole(row[3]), whole(row[4]))
}

fn books(circuit: &RootCircuit) -> ((Orders, Orders), Vec<Box<dyn Feed>>) {
    let (bids, bids_feed) = table(circuit, order);
    let (asks, asks_feed) = table(circuit, order);
    ((bids, asks), vec![bids_feed, asks_feed])
}

fn by_broker(broker: &i64, value: f64) -> Row {
    (vec![broker.to_string()], vec![value])
}

fn single(value: f64) -> Row {
    (Vec::new(), vec![value])
}

fn axfinder(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, asks), tables) = books(circuit);
    let side = |orders: &Orders| orders.map_index(|order| (order.2, Tup2(order.4, order.3)));
    let pairs = side(&bids).join_index(&side(&asks), |&broker, bid, ask| {
        ((ask.0 - bid.0).abs() > 1000).then(|| (broker, ask.1 - bid.1))
    });
    let sums = pairs.aggregate_linear(|&volume| volume);
    (tables, view(&sums, |broker, &sum| by_broker(broker, sum as f64)))
}

/// The sum of all volumes of a side.
fn volume(orders: &Orders) -> Stream<RootCircuit, i64> {
    let change = orders.apply(|batch| {
        batch.iter().map(|(order, (), weight)| (order.3 * weight) as isize).sum::<isize>()
    });
    change.integrate().apply(|&total| total as i64)
}

/// The rows whose key is less than a bound that moves with a total.
fn below<V: dbsp::DBData>(
    rows: &Indexed<i64, V>,
    total: &Stream<RootCircuit, i64>,
    bound: fn(i64) -> i64,
) -> Indexed<i64, V> {
    let bounds = total.apply(move |&total| (TypedBox::new(i64::MIN), TypedBox::new(bound(total))));
    rows.window((true, false), &bounds)
}

fn pricespread(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, asks), tables) = books(circuit);
    // Per side: how many orders are large, and the sum of their prices. A window may shrink at its
    // upper end only, so large volumes come first.
    let large = |orders: &Orders| {
        let by_volume = orders.map_index(|order| (-order.3, order.4));
        let large =
            below(&by_volume, &volume(orders), |total| -((0.0001 * total as f64).floor() as i64));
        let prices = large.map_index(|(_, &price)| ((), price));
        prices.aggregate_linear(|&price| Tup2(1_i64, price))
    };
    let spread = large(&bids)
        .join_index(&large(&asks), |(), bid, ask| Some(((), ask.1 * bid.0 - bid.1 * ask.0)));
    (tables, view(&spread, |(), &spread| single(spread as f64)))
}

/// Prices sort from the best, the highest, on.
fn rank(price: i64) -> u64 {
    i64::MAX as u64 - price as u64
}

/// Ranks of the prices above which less than a quarter of the side's volume lies, each with the
/// volume and the turnover at that price.
fn best_quarter(orders: &Orders) -> Stream<RootCircuit, dbsp::OrdIndexedZSet<u64, i64>> {
    let prices = orders
        .map_index(|order| (rank(order.4), Tup2(order.3, order.3 * order.4)))
        .aggregate_linear(|sums| sums.clone());
    let above = prices.partitioned_rolling_aggregate_linear(
        |sums| ((), sums.0),
        |&volume| volume,
        |volume| volume,
        RelRange::new(RelOffset::Before(u64::MAX), RelOffset::Before(1)),
    );
    let above = above.map_index(|((), row)| (row.0, row.1.unwrap_or(0)));
    let ranked = prices.join_index(&above, |&rank, sums, &above| Some((above, Tup2(rank, sums.1))));
    // 4 × above < total.
    let best = below(&ranked, &volume(orders), |total| (total - 1).div_euclid(4) + 1);
    best.map_index(|(_, row)| (row.0, row.1))
}

fn vwap(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, _asks), tables) = books(circuit);
    let best = best_quarter(&bids).map_index(|(_, &turnover)| ((), turnover));
    let sum = best.aggregate_linear(|&turnover| turnover);
    (tables, view(&sum, |(), &sum| single(sum as f64)))
}

fn brokerspread(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, _asks), tables) = books(circuit);
    let bids = bids.map_index(|order| (order.2, Tup2(order.0, order.3 * order.4)));
    let pairs = bids
        .join_index(&bids, |&broker, x, y| (x.0 > y.0).then(|| (broker, i128::from(x.1 - y.1))));
    let sums = pairs.aggregate_linear(|&spread| spread);
    (tables, view(&sums, |broker, &sum| by_broker(broker, sum as f64)))
}

fn brokervariance(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, _asks), tables) = books(circuit);
    // The product of sums instead of the sum of products, as the view by hand has it.
    let turnover = bids
        .map_index(|order| (order.2, order.3 * order.4))
        .aggregate_linear(|&turnover| i128::from(turnover));
    let squares = turnover.map_index(|(&broker, &turnover)| (broker, turnover * turnover));
    (tables, view(&squares, |broker, &square| by_broker(broker, 0.5 * square as f64)))
}

fn missedtrades(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, asks), tables) = books(circuit);
    // The orders of the best quarter: broker and turnover.
    let best = |orders: &Orders| {
        let by_price = orders.map_index(|order| (rank(order.4), Tup2(order.2, order.3 * order.4)));
        by_price.join_index(&best_quarter(orders), |_, order, _| Some((order.0, order.1)))
    };
    let bids = best(&bids).aggregate_linear(|&turnover| Tup2(1_i64, turnover));
    let bids = bids.map_index(|(&broker, sums)| ((), Tup3(broker, sums.0, sums.1)));
    let asks = best(&asks).map_index(|(_, &turnover)| ((), turnover));
    let asks = asks.aggregate_linear(|&turnover| Tup2(1_i64, turnover));
    let missed = bids.join_index(&asks, |(), bid, ask| {
        let Tup3(broker, count, turnover) = bid;
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        Some((*broker, product(ask.1, *count) - product(*turnover, ask.0)))
    });
    (tables, view(&missed, |broker, &sum| by_broker(broker, sum as f64)))
}

fn countone(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let ((bids, _asks), tables) = books(circuit);
    let count = bids.map_index(|_| ((), ())).aggregate_linear(|()| 1_i64);
    (tables, view(&count, |(), &count| single(count as f64)))
}
