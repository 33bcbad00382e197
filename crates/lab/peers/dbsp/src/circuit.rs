//! What goes into circuits and what comes out of them.

use std::collections::HashMap;

use dbsp::operator::input::ZSetStream;
use dbsp::typed_batch::{IndexedZSetReader, SpineSnapshot};
use dbsp::utils::Tup2;
use dbsp::{DBData, OrdIndexedZSet, OutputHandle, RootCircuit, Stream, ZSetHandle, ZWeight};

/// Changes of rows by key.
pub type Indexed<K, V> = Stream<RootCircuit, OrdIndexedZSet<K, V>>;

/// A row of the answer: its group and its values.
pub type Row = (Vec<String>, Vec<f64>);

/// Builds the circuit of a query: its tables, in the order of the lab's streams, and its view.
/// Texts are those that text columns number.
pub type Program = fn(&mut RootCircuit, &[String]) -> Parts;

/// Tables and view of a circuit.
pub type Parts = (Vec<Box<dyn Feed>>, Box<dyn View>);

/// Rows on their way into the circuit.
pub trait Feed {
    /// Adds an insert or delete to the batch.
    fn push(&mut self, row: &[u64], weight: i64);
    /// Gives the batch to the circuit.
    fn flush(&mut self);
}

struct Table<R: DBData> {
    handle: ZSetHandle<R>,
    decode: fn(&[u64]) -> R,
    batch: Vec<Tup2<R, ZWeight>>,
}

impl<R: DBData> Feed for Table<R> {
    fn push(&mut self, row: &[u64], weight: i64) {
        self.batch.push(Tup2((self.decode)(row), weight));
    }

    fn flush(&mut self) {
        match self.batch.len() {
            0 => {}
            // A single row goes without a vector of its own.
            1 => {
                let Tup2(row, weight) = self.batch.pop().expect("there is one");
                self.handle.push(row, weight);
            }
            _ => self.handle.append(&mut self.batch),
        }
    }
}

/// A table of the circuit, with the row that a lab's row is in it.
pub fn table<R: DBData>(
    circuit: &RootCircuit,
    decode: fn(&[u64]) -> R,
) -> (ZSetStream<R>, Box<dyn Feed>) {
    let (rows, handle) = circuit.add_input_zset::<R>();
    (rows, Box::new(Table { handle, decode, batch: Vec::new() }))
}

/// A view, outside of the circuit: what a program that embeds it would keep.
pub trait View {
    /// Takes the changes of the last transaction.
    fn refresh(&mut self);
    /// All rows.
    fn rows(&self) -> Vec<Row>;
}

struct Kept<K: DBData, V: DBData, S> {
    changes: OutputHandle<SpineSnapshot<OrdIndexedZSet<K, V>>>,
    rows: HashMap<K, V>,
    show: S,
}

impl<K: DBData, V: DBData, S: Fn(&K, &V) -> Row> View for Kept<K, V, S> {
    fn refresh(&mut self) {
        let Some(changes) = self.changes.take_from_worker(0) else { return };
        for (key, value, weight) in changes.iter() {
            // Changes come sorted: the new value of a group before or after the old one goes.
            if weight > 0 {
                self.rows.insert(key, value);
            } else if self.rows.get(&key) == Some(&value) {
                self.rows.remove(&key);
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(|(key, value)| (self.show)(key, value)).collect()
    }
}

/// The view of a stream with one row per key.
pub fn view<K: DBData, V: DBData>(
    rows: &Indexed<K, V>,
    show: impl Fn(&K, &V) -> Row + 'static,
) -> Box<dyn View> {
    let changes = rows.accumulate_output();
    Box::new(Kept { changes, rows: HashMap::new(), show })
}
