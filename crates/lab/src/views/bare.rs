//! The views by hand: DBToaster's plan for each query over hash maps, to which the engine's
//! distance is measured. Nested loops over slices where DBToaster has them; deletions are negative
//! weights.

pub mod finance;
pub mod tpch;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::events::{Event, Events};

/// The answer of a view: for each group its values. Dates are days, texts themselves.
pub type Answer = BTreeMap<Vec<String>, Vec<f64>>;

/// A view by hand.
pub trait Bare {
    /// Learns the numbers of texts; before the first event.
    fn prepare(&mut self, _events: &Events) {}
    /// Takes one event.
    fn apply(&mut self, event: Event<'_>);
    /// The view, without groups that have no rows.
    fn answer(&self) -> Answer;
}

/// A map with a quick hash function: that of the standard library's map is not the quickest.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// Multiplies and folds every word.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }
}

/// The only row of a view without groups.
fn single(values: Vec<f64>) -> Answer {
    BTreeMap::from([(Vec::new(), values)])
}
