//! Order books: messages of an exchange become inserts into and deletes from `bids` and `asks`.
//!
//! The messages are `t, order, action, volume, price`. B and S insert an order into `bids` or `asks`;
//! E takes `volume` from it (the old row is deleted, one with the rest inserted, if there is one); D
//! and F delete it; other actions and unknown orders do nothing. A broker is the order's number
//! modulo ten. Events come in the order of the messages.

use std::collections::HashMap;

use halcyon_base::rng::Rng;

use super::events::{Column, Events, Relation};
use crate::{Failure, Result};

/// Index of `bids`.
pub const BIDS: usize = 0;
/// Index of `asks`.
pub const ASKS: usize = 1;

/// A live order.
#[derive(Clone, Copy, Debug)]
struct Order {
    book: usize,
    t: f64,
    volume: f64,
    price: f64,
}

/// Makes events of messages.
pub struct OrderBook {
    live: HashMap<u64, Order>,
    /// The events that the messages so far have become.
    pub events: Events,
}

impl Default for OrderBook {
    fn default() -> Self {
        let columns = || {
            vec![
                ("t", Column::Double),
                ("id", Column::Int),
                ("broker_id", Column::Int),
                ("volume", Column::Double),
                ("price", Column::Double),
            ]
        };
        let relations = ["bids", "asks"].map(|name| Relation { name, columns: columns() });
        Self { live: HashMap::new(), events: Events::new(relations.to_vec()) }
    }
}

impl OrderBook {
    fn emit(&mut self, id: u64, order: Order, weight: i64) {
        let row = [order.t.to_bits(), id, id % 10, order.volume.to_bits(), order.price.to_bits()];
        self.events.push(order.book, weight, &row);
    }

    /// Adds the events of one message.
    pub fn message(&mut self, t: f64, id: u64, action: char, volume: f64, price: f64) {
        match action {
            'B' | 'S' => {
                let book = if action == 'B' { BIDS } else { ASKS };
                let order = Order { book, t, volume, price };
                self.live.insert(id, order);
                self.emit(id, order, 1);
            }
            'E' => {
                let Some(mut order) = self.live.get(&id).copied() else { return };
                self.emit(id, order, -1);
                order.volume -= volume;
                if order.volume > 0.0 {
                    self.live.insert(id, order);
                    self.emit(id, order, 1);
                } else {
                    self.live.remove(&id);
                }
            }
            'D' | 'F' => {
                if let Some(order) = self.live.remove(&id) {
                    self.emit(id, order, -1);
                }
            }
            _ => {}
        }
    }
}

/// The events of a file of messages. A line that is no message is an error with its number.
pub fn read(text: &str) -> Result<Events> {
    let mut book = OrderBook::default();
    for (index, line) in text.lines().enumerate() {
        let bad = |field: &str| Failure::Io(format!("line {}: no {field} in {line:?}", index + 1));
        let mut fields = line.split(',');
        let mut number = |field: &str| {
            let text = fields.next().ok_or_else(|| bad(field))?;
            Ok::<_, Failure>((text, text.parse::<f64>().map_err(|_| bad(field))))
        };
        let t = number("time")?.1?;
        let id = number("order")?.1?;
        let action = number("action")?.0.chars().next().ok_or_else(|| bad("action"))?;
        let volume = number("volume")?.1?;
        let price = number("price")?.1?;
        book.message(t, id as u64, action, volume, price);
    }
    Ok(book.events)
}

/// Random messages with the same mix as the recorded ones. After the first `live` messages `live`
/// orders are in the books, and about that many remain for `messages` more.
pub fn synthetic(live: usize, messages: usize, seed: u64) -> (Events, usize) {
    let mut rng = Rng::new(seed);
    let mut book = OrderBook::default();
    let mut orders: Vec<u64> = Vec::with_capacity(live + messages);
    let mut next = 1_u64;
    let mut add = |book: &mut OrderBook, orders: &mut Vec<u64>, rng: &mut Rng| {
        let action = if rng.below(2) == 0 { 'B' } else { 'S' };
        let (volume, price) = (1 + rng.below(1000), 100 * (1 + rng.below(live.max(1000) as u64)));
        book.message(next as f64, next, action, volume as f64, price as f64);
        orders.push(next);
        next += 1;
    };
    (0..live).for_each(|_| add(&mut book, &mut orders, &mut rng));
    let filled = book.events.len();
    for _ in 0..messages {
        if rng.below(2) == 0 {
            add(&mut book, &mut orders, &mut rng);
        } else {
            let at = rng.below(orders.len() as u64) as usize;
            let id = orders.swap_remove(at);
            book.message(0.0, id, 'D', 0.0, 0.0);
        }
    }
    (book.events, filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_shrink_orders_and_unknown_orders_do_nothing() {
        let text = "1,5,B,100,7000\n2,5,E,40,0\n3,9,D,0,0\n4,5,X,10,0\n5,5,E,60,0\n6,5,D,0,0\n";
        let events = read(text).expect("good lines");
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.relation, event.weight, f64::from_bits(event.row[3])))
            .collect();
        assert_eq!(seen, [(0, 1, 100.0), (0, -1, 100.0), (0, 1, 60.0), (0, -1, 60.0)]);
        assert!(
            events.iter().all(|event| event.row[2] == 5 && f64::from_bits(event.row[0]) == 1.0)
        );
    }

    #[test]
    fn damaged_line_is_told_with_number_and_field() {
        let error = read("1,5,B,100,7000\n2,5,E,much,0\n").expect_err("no number");
        assert_eq!(error.to_string(), "file: line 2: no volume in \"2,5,E,much,0\"");
    }

    #[test]
    fn synthetic_books_keep_their_size() {
        let (events, filled) = synthetic(1000, 5000, 1);
        assert_eq!((filled, events.len()), (1000, 6000));
        let live: i64 = events.iter().map(|event| event.weight).sum();
        assert!((700..1300).contains(&live), "{live}");
    }
}
