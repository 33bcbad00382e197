//! Memory that an execution leaves to the next one.
//!
//! Vectors of values with a lifetime are handed from one execution to the next by [`recycle`].

use std::cmp::Ordering;

use halcyon_store::{KeyBuf, ValueRef};

use halcyon_plan::scalar::{Arena, compare_values};

/// Memory of a session for running plans, kept from one statement to the next.
#[derive(Default)]
pub struct Scratch {
    pub(super) arena: Arena,
    pub(super) temp: Arena,
    pub(super) slots: Vec<ValueRef<'static>>,
    pub(super) key_values: Vec<ValueRef<'static>>,
    pub(super) row: Vec<ValueRef<'static>>,
    pub(super) keys: [KeyBuf; 2],
    pub(super) states: Vec<NodeState<'static>>,
    pub(super) counts: Vec<u64>,
    /// Memory of writes, which run plans of this executor for their rows.
    pub(crate) write: Option<Box<crate::scratch::WriteScratch>>,
}

/// The same vector, empty, for values that live otherwise. Keeps its memory: collecting in place
/// reuses it, since the items have one size.
#[inline]
pub(super) fn recycle<'b>(mut values: Vec<ValueRef<'_>>) -> Vec<ValueRef<'b>> {
    values.clear();
    values.into_iter().map(|_| -> ValueRef<'b> { unreachable!("it is empty") }).collect()
}

/// The state of a node that reads all its input before it gives a row (groups, sorts, DISTINCT).
#[derive(Default)]
pub(super) struct NodeState<'a> {
    /// Distinct keys in order of appearance: groups, or distinct rows.
    pub(super) keys: KeySet<'a>,
    /// Values that `DISTINCT` aggregates have seen: (aggregate and group, value).
    pub(super) seen: KeySet<'a>,
    /// Rows to be sorted, one after the other.
    pub(super) rows: Vec<ValueRef<'a>>,
    /// Order of the sorted rows; of rows kept by their keys, the number of the next one with the same key.
    pub(super) order: Vec<u32>,
    /// First and last row of every key, of rows that are kept by their keys.
    pub(super) ends: Vec<(u32, u32)>,
    /// Aggregates, those of a group together.
    pub(super) accumulators: Vec<Accumulator<'a>>,
}

impl NodeState<'_> {
    /// Empty, for another execution.
    pub(super) fn recycled<'b>(self) -> NodeState<'b> {
        let mut accumulators = self.accumulators;
        accumulators.clear();
        let (mut order, mut ends) = (self.order, self.ends);
        order.clear();
        ends.clear();
        NodeState {
            keys: self.keys.recycled(),
            seen: self.seen.recycled(),
            rows: recycle(self.rows),
            order,
            ends,
            accumulators: accumulators
                .into_iter()
                .map(|_| -> Accumulator<'b> { unreachable!("it is empty") })
                .collect(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.seen.clear();
        self.rows.clear();
        self.order.clear();
        self.ends.clear();
        self.accumulators.clear();
    }
}

/// No row: behind the last row of a key.
pub(super) const NO_ROW: u32 = u32::MAX;

impl<'a> NodeState<'a> {
    /// Keeps the last row of `rows` under a key that has `width` values.
    pub(super) fn keep(&mut self, width: usize, key: impl Iterator<Item = ValueRef<'a>>) {
        let row = self.order.len() as u32;
        self.order.push(NO_ROW);
        match self.keys.insert(width, key) {
            (_, true) => self.ends.push((row, row)),
            (number, false) => {
                let (_, last) = &mut self.ends[number];
                self.order[*last as usize] = row;
                *last = row;
            }
        }
    }
}

/// The state of one aggregate over one group.
#[derive(Clone, Copy)]
pub(super) struct Accumulator<'a> {
    /// Rows counted.
    pub(super) count: i64,
    /// Sum of whole numbers and of decimals.
    pub(super) sum: i128,
    /// Sum of floats.
    pub(super) float: f64,
    /// Smallest or greatest.
    pub(super) best: ValueRef<'a>,
}

impl Accumulator<'_> {
    pub(super) const EMPTY: Accumulator<'static> =
        Accumulator { count: 0, sum: 0, float: 0.0, best: ValueRef::Null };
}

/// A set of keys of one width that numbers them; NULLs are equal. Open addressing.
#[derive(Default)]
pub(super) struct KeySet<'a> {
    width: usize,
    count: usize,
    values: Vec<ValueRef<'a>>,
    hashes: Vec<u64>,
    /// Number of the key + 1; 0 is free. A power of two, at most half full.
    table: Vec<u32>,
}

impl<'a> KeySet<'a> {
    fn recycled<'b>(mut self) -> KeySet<'b> {
        self.clear();
        KeySet {
            width: 0,
            count: 0,
            values: recycle(self.values),
            hashes: self.hashes,
            table: self.table,
        }
    }

    /// O(1) if it is empty: every statement passes here, and one of them had a large set once.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        if self.count > 0 {
            self.count = 0;
            self.hashes.clear();
            self.table.fill(0);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The key of this number.
    pub(super) fn key(&self, number: usize) -> &[ValueRef<'a>] {
        &self.values[number * self.width..(number + 1) * self.width]
    }

    /// The number of a key, and whether it is new.
    pub(super) fn insert(
        &mut self,
        width: usize,
        key: impl Iterator<Item = ValueRef<'a>>,
    ) -> (usize, bool) {
        self.width = width;
        let start = self.count * width;
        self.values.truncate(start);
        self.values.extend(key);
        let hash = self.values[start..].iter().fold(0, |hash, value| mix(hash, *value));
        if (self.count + 1) * 2 > self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at] != 0 {
            let number = self.table[at] as usize - 1;
            if self.hashes[number] == hash && same(self.key(number), &self.values[start..]) {
                self.values.truncate(start);
                return (number, false);
            }
            at = (at + 1) & mask;
        }
        self.count += 1;
        self.table[at] = self.count as u32;
        self.hashes.push(hash);
        (self.count - 1, true)
    }

    /// The number of a key that is in the set.
    pub(super) fn find(&self, key: &[ValueRef<'_>]) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let hash = key.iter().fold(0, |hash, value| mix(hash, *value));
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at] != 0 {
            let number = self.table[at] as usize - 1;
            if self.hashes[number] == hash && same(self.key(number), key) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(16);
        self.table.clear();
        self.table.resize(size, 0);
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (size - 1);
            while self.table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = number as u32 + 1;
        }
    }
}

fn same(left: &[ValueRef<'_>], right: &[ValueRef<'_>]) -> bool {
    left.iter().zip(right).all(|(a, b)| match (a.is_null(), b.is_null()) {
        (false, false) => compare_values(*a, *b) == Ordering::Equal,
        (a, b) => a == b,
    })
}

/// Mixes a value into a hash: equal values alike, whatever their width or sign of zero.
fn mix(hash: u64, value: ValueRef<'_>) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29) ^ word >> 32;
    let wide = |word: u128| fold(word as u64 ^ ((word >> 64) as u64).wrapping_mul(FACTOR));
    let bytes = |bytes: &[u8]| {
        let word = bytes.iter().fold(bytes.len() as u64, |word, byte| {
            (word.rotate_left(5) ^ *byte as u64).wrapping_mul(FACTOR)
        });
        fold(word)
    };
    let float = |value: f64| fold(halcyon_value::float::key(value).to_bits());
    match value {
        ValueRef::Null => fold(FACTOR),
        ValueRef::Bool(value) => fold(value as u64),
        ValueRef::Int16(value) => fold(value as i64 as u64),
        ValueRef::Int32(value) | ValueRef::Date(value) => fold(value as i64 as u64),
        ValueRef::Int64(value)
        | ValueRef::Time(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value) => fold(value as u64),
        ValueRef::Float32(value) => float(value as f64),
        ValueRef::Float64(value) => float(value),
        ValueRef::Decimal(value) => wide(value as u128),
        ValueRef::Interval(value) => wide(value.sort_key() as u128),
        ValueRef::Uuid(value) => wide(u128::from_le_bytes(value)),
        ValueRef::Text(value) => bytes(value.as_bytes()),
        ValueRef::Bytes(value) => bytes(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_in_order_and_nulls_are_equal() {
        let mut set = KeySet::default();
        let mut put = |key: [ValueRef<'static>; 2]| set.insert(2, key.into_iter());
        let (a, b) = (ValueRef::Text("a"), ValueRef::Float64(-0.0));
        assert_eq!(put([a, ValueRef::Null]), (0, true));
        assert_eq!(put([a, b]), (1, true));
        assert_eq!(put([a, ValueRef::Null]), (0, false));
        assert_eq!(put([a, ValueRef::Float64(0.0)]), (1, false));
        for number in 0..1_000 {
            assert_eq!(put([ValueRef::Int64(number), b]), (number as usize + 2, true));
        }
        assert_eq!(put([ValueRef::Int32(7), b]), (9, false));
        assert_eq!(set.len(), 1_002);
        assert_eq!(set.find(&[ValueRef::Int64(7), ValueRef::Float64(0.0)]), Some(9));
        assert_eq!(set.find(&[ValueRef::Int64(7), a]), None);
        assert_eq!(KeySet::default().find(&[a]), None);
    }
}
