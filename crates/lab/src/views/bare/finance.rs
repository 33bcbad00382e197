//! Queries over order books. Columns: t, id, broker, volume, price.

use std::collections::BTreeMap;

use super::super::events::Event;
use super::super::orderbook::BIDS;
use super::{Answer, Bare, Map, single};

/// An order, in the columns that the queries read.
struct Order {
    t: f64,
    broker: u64,
    volume: f64,
    price: f64,
}

fn order(event: &Event<'_>) -> Order {
    let number = |column: usize| f64::from_bits(event.row[column]);
    Order { t: number(0), broker: event.row[2], volume: number(3), price: number(4) }
}

/// Prices sort as their bits, being positive.
fn bits(number: f64) -> u64 {
    number.to_bits()
}

/// A count and two sums, by some key.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    count: i64,
    first: f64,
    second: f64,
}

impl Sums {
    fn add(&mut self, weight: i64, first: f64, second: f64) -> bool {
        self.count += weight;
        self.first += weight as f64 * first;
        self.second += weight as f64 * second;
        self.count == 0
    }
}

fn add<K: std::hash::Hash + Eq>(map: &mut Map<K, Sums>, key: K, weight: i64, sums: (f64, f64)) {
    use std::collections::hash_map::Entry;
    match map.entry(key) {
        Entry::Vacant(vacant) => {
            vacant.insert(Sums::default()).add(weight, sums.0, sums.1);
        }
        Entry::Occupied(mut entry) => {
            if entry.get_mut().add(weight, sums.0, sums.1) {
                entry.remove();
            }
        }
    }
}

fn by_broker(values: impl Iterator<Item = (u64, i64, f64)>) -> Answer {
    values
        .filter(|&(_, count, _)| count != 0)
        .map(|(broker, _, value)| (vec![broker.to_string()], vec![value]))
        .collect()
}

/// `SELECT COUNT(*) FROM bids`.
#[derive(Default)]
pub struct Countone(i64);

impl Bare for Countone {
    fn apply(&mut self, event: Event<'_>) {
        if event.relation == BIDS {
            self.0 += event.weight;
        }
    }

    fn answer(&self) -> Answer {
        single(vec![self.0 as f64])
    }
}

/// Per broker, orders of the other side whose price is more than 1000 away.
#[derive(Default)]
pub struct Axfinder {
    view: Map<u64, (i64, f64)>,
    /// Per side and broker: by price, how many orders and their volume.
    books: [Map<u64, Map<u64, Sums>>; 2],
}

impl Bare for Axfinder {
    fn apply(&mut self, event: Event<'_>) {
        let order = order(&event);
        let side = event.relation;
        let (mut count, mut volume) = (0, 0.0);
        if let Some(others) = self.books[1 - side].get(&order.broker) {
            for (&price, sums) in others {
                if (f64::from_bits(price) - order.price).abs() > 1000.0 {
                    count += sums.count;
                    volume += sums.first;
                }
            }
        }
        let sign = if side == BIDS { 1.0 } else { -1.0 };
        let view = self.view.entry(order.broker).or_default();
        view.0 += event.weight * count;
        view.1 += sign * event.weight as f64 * (volume - count as f64 * order.volume);
        let book = self.books[side].entry(order.broker).or_default();
        add(book, bits(order.price), event.weight, (order.volume, 0.0));
    }

    fn answer(&self) -> Answer {
        by_broker(self.view.iter().map(|(&broker, &(count, value))| (broker, count, value)))
    }
}

/// Spread between orders of more than a ten-thousandth of their side's volume; evaluated anew at
/// every event.
#[derive(Default)]
pub struct Pricespread {
    /// Per side, by volume: how many orders and their prices.
    books: [Map<u64, Sums>; 2],
    volumes: [f64; 2],
    view: f64,
}

impl Bare for Pricespread {
    fn apply(&mut self, event: Event<'_>) {
        let order = order(&event);
        let book = &mut self.books[event.relation];
        add(book, bits(order.volume), event.weight, (order.price, 0.0));
        self.volumes[event.relation] += event.weight as f64 * order.volume;
        let side = |side: usize| {
            let limit = 0.0001 * self.volumes[side];
            let large =
                self.books[side].iter().filter(|(volume, _)| f64::from_bits(**volume) > limit);
            large.fold((0.0, 0.0), |sums, (_, book)| {
                (sums.0 + book.count as f64, sums.1 + book.first)
            })
        };
        let ((bids, bid_prices), (asks, ask_prices)) = (side(0), side(1));
        self.view = ask_prices * bids - bid_prices * asks;
    }

    fn answer(&self) -> Answer {
        single(vec![self.view])
    }
}

/// Orders of a side by price, each with its volume and its turnover.
#[derive(Default)]
struct Book {
    prices: BTreeMap<u64, Sums>,
    volume: f64,
}

impl Book {
    fn apply(&mut self, weight: i64, order: &Order) {
        let sums = self.prices.entry(bits(order.price)).or_default();
        if sums.add(weight, order.volume, order.volume * order.price) {
            self.prices.remove(&bits(order.price));
        }
        self.volume += weight as f64 * order.volume;
    }

    /// The prices above which less than a quarter of the volume lies, best price first.
    fn best_quarter(&self) -> impl Iterator<Item = (u64, Sums)> {
        let mut above = 0.0;
        self.prices.iter().rev().map_while(move |(&price, &sums)| {
            let within = 0.25 * self.volume > above;
            above += sums.first;
            within.then_some((price, sums))
        })
    }
}

/// Turnover of the best quarter of the bids' volume; evaluated anew at every event.
#[derive(Default)]
pub struct Vwap {
    bids: Book,
    view: f64,
}

impl Bare for Vwap {
    fn apply(&mut self, event: Event<'_>) {
        if event.relation == BIDS {
            self.bids.apply(event.weight, &order(&event));
            self.view = self.bids.best_quarter().map(|(_, sums)| sums.second).sum();
        }
    }

    fn answer(&self) -> Answer {
        single(vec![self.view])
    }
}

/// Pairs of earlier and later bids of a broker.
#[derive(Default)]
pub struct Brokerspread {
    view: Map<u64, (i64, f64)>,
    /// Per broker: by time, how many bids and their turnover.
    bids: Map<u64, Map<u64, Sums>>,
}

impl Bare for Brokerspread {
    fn apply(&mut self, event: Event<'_>) {
        if event.relation != BIDS {
            return;
        }
        let order = order(&event);
        let turnover = order.volume * order.price;
        let bids = self.bids.entry(order.broker).or_default();
        let (mut count, mut value) = (0, 0.0);
        for (&t, sums) in bids.iter() {
            let t = f64::from_bits(t);
            if t < order.t {
                count += sums.count;
                value += sums.count as f64 * turnover - sums.first;
            } else if t > order.t {
                count += sums.count;
                value += sums.first - sums.count as f64 * turnover;
            }
        }
        let view = self.view.entry(order.broker).or_default();
        view.0 += event.weight * count;
        view.1 += event.weight as f64 * value;
        add(bids, bits(order.t), event.weight, (turnover, 0.0));
    }

    fn answer(&self) -> Answer {
        by_broker(self.view.iter().map(|(&broker, &(count, value))| (broker, count, value)))
    }
}

/// Half the square of each broker's turnover.
#[derive(Default)]
pub struct Brokervariance {
    turnover: Map<u64, (i64, f64)>,
}

impl Bare for Brokervariance {
    fn apply(&mut self, event: Event<'_>) {
        if event.relation == BIDS {
            let order = order(&event);
            let sums = self.turnover.entry(order.broker).or_default();
            sums.0 += event.weight;
            sums.1 += event.weight as f64 * order.volume * order.price;
        }
    }

    fn answer(&self) -> Answer {
        let values = self.turnover.iter();
        by_broker(values.map(|(&broker, &(count, sum))| (broker, count, 0.5 * sum * sum)))
    }
}

/// Turnover of asks against bids, both of the best quarter of their side; evaluated anew at every
/// event.
#[derive(Default)]
pub struct Missedtrades {
    books: [Book; 2],
    /// Per side: by price and broker, how many orders and their turnover.
    brokers: [Map<u64, Map<u64, Sums>>; 2],
    view: Answer,
}

impl Missedtrades {
    fn evaluate(&self) -> Answer {
        let asks = self.books[1]
            .best_quarter()
            .fold((0, 0.0), |sums, (_, book)| (sums.0 + book.count, sums.1 + book.second));
        let mut bids: Map<u64, (i64, f64)> = Map::default();
        for (price, _) in self.books[0].best_quarter() {
            for (&broker, sums) in &self.brokers[0][&price] {
                let bid = bids.entry(broker).or_default();
                bid.0 += sums.count;
                bid.1 += sums.first;
            }
        }
        let values = bids.iter().map(|(&broker, &(count, turnover))| {
            (broker, count * asks.0, asks.1 * count as f64 - turnover * asks.0 as f64)
        });
        by_broker(values)
    }
}

impl Bare for Missedtrades {
    fn apply(&mut self, event: Event<'_>) {
        let order = order(&event);
        self.books[event.relation].apply(event.weight, &order);
        let brokers = self.brokers[event.relation].entry(bits(order.price)).or_default();
        add(brokers, order.broker, event.weight, (order.volume * order.price, 0.0));
        self.view = self.evaluate();
    }

    fn answer(&self) -> Answer {
        self.view.clone()
    }
}
