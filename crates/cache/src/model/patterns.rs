//! The addresses that operators touch, tuple by tuple, without the operators.
//!
//! `tests/cachegrind.rs` compares each pattern with a trace of a program that runs the operator
//! (`examples/traced.rs`): both miss a last-level cache equally often, within a few percent.

use halcyon_base::rng::Rng;

use super::structures::{Column, Part, Table};
pub use super::structures::{LINE_BYTES, SLOT_BYTES, Touch};

/// Bytes of a compressed value (a number of an entry in a dictionary).
pub const CODE_BYTES: u64 = 4;
/// Bytes of a dictionary's entry.
pub const ENTRY_BYTES: u64 = 8;

/// An operator as one worker runs it.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What a step may be: a weight, and what is touched.
    steps: Vec<(u64, Vec<Part>)>,
    /// Sum of all weights.
    weights: u64,
    random: Rng,
}

/// Sizes of the structures of a hash table with so many keys: half of its slots are free.
pub fn table_bytes(keys: u64) -> u64 {
    (keys * 2).next_power_of_two() * SLOT_BYTES
}

impl Pattern {
    /// A pattern each of whose steps touches all parts, in their order.
    pub(super) fn of(parts: Vec<Part>, seed: u64) -> Pattern {
        Pattern::mixed(vec![(1, parts)], seed)
    }

    /// A pattern whose steps are of several kinds, drawn by their weights.
    ///
    /// Panics: if all weights are 0.
    pub(super) fn mixed(steps: Vec<(u64, Vec<Part>)>, seed: u64) -> Pattern {
        let weights = steps.iter().map(|step| step.0).sum();
        assert!(weights > 0, "some step is drawn");
        Pattern { steps, weights, random: Rng::new(seed) }
    }

    /// A scan of a column at `address`; a step is a line.
    pub fn scan(address: u64, bytes: u64) -> Pattern {
        Pattern::of(vec![Part::Column(Column::new(address, bytes, LINE_BYTES))], 0)
    }

    /// An aggregation with grouping: of two compressed columns at `address`, the value's dictionary at
    /// `dictionary` and the worker's own hash table of groups behind the columns. A step is a row.
    ///
    /// Source: P4 §3; the aggregation is sensitive by the random visits of dictionary and groups.
    pub fn aggregate(
        address: u64,
        rows: u64,
        dictionary: u64,
        entries: u64,
        groups: u64,
        seed: u64,
    ) -> Pattern {
        let bytes = rows * CODE_BYTES;
        let table = (address + 2 * bytes).next_multiple_of(LINE_BYTES);
        let column = |address| Part::Column(Column::new(address, bytes, CODE_BYTES));
        let parts = vec![
            column(address),
            column(address + bytes),
            Part::Table(Table::new(dictionary, entries, ENTRY_BYTES)),
            Part::Table(hashed(table, groups)),
        ];
        Pattern::of(parts, seed)
    }

    /// The probe side of a hash join: a column of keys at `address`, and a table of `keys` at `table`
    /// that all workers share. A step is a row.
    pub fn probe(address: u64, rows: u64, table: u64, keys: u64, seed: u64) -> Pattern {
        let column = Column::new(address, rows * CODE_BYTES, CODE_BYTES);
        Pattern::of(vec![Part::Column(column), Part::Table(hashed(table, keys))], seed)
    }

    /// The touches of the next step, into `touches`, which is emptied first.
    pub fn step(&mut self, touches: &mut Vec<Touch>) {
        touches.clear();
        let mut drawn = if self.steps.len() > 1 { self.random.below(self.weights) } else { 0 };
        let kind = self.steps.iter().position(|&(weight, _)| {
            let is_it = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_it
        });
        let kind = kind.expect("what is drawn is below the sum of weights");
        for part in &mut self.steps[kind].1 {
            part.step(&mut self.random, touches);
        }
    }

    /// The lines of each structure that is visited at random.
    pub fn tables(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.steps.iter().flat_map(|(_, parts)| parts).flat_map(Part::tables)
    }
}

/// A hash table whose keys lie in half of the slots, spread evenly: a visit of one of the keys is one
/// of every second slot, and touches every line.
fn hashed(address: u64, keys: u64) -> Table {
    Table::of_bytes(address, table_bytes(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &mut Pattern, steps: usize) -> Vec<Touch> {
        let (mut all, mut touches) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            pattern.step(&mut touches);
            all.extend(&touches);
        }
        all
    }

    #[test]
    fn a_scan_reads_line_by_line_and_begins_again() {
        let touched = lines(&mut Pattern::scan(640, 192), 5);
        assert_eq!(touched, [10, 11, 12, 10, 11].map(Touch::Next));
    }

    #[test]
    fn an_aggregation_touches_a_dictionary_and_its_groups_for_every_row() {
        let mut pattern = Pattern::aggregate(0, 64, 1 << 20, 1024, 16, 7);
        let touched = lines(&mut pattern, 64);
        let next = touched.iter().filter(|touch| matches!(touch, Touch::Next(_))).count();
        assert_eq!(next, 2 * 64 * 4 / 64, "each column's lines once");
        assert_eq!(touched.len(), next + 2 * 64);
        let tables: Vec<u64> = pattern.tables().flatten().collect();
        for touch in touched {
            let within = tables.contains(&touch.line());
            assert_eq!(within, matches!(touch, Touch::Anywhere(_)), "{touch:?}");
        }
        assert_eq!(tables.len(), 128 + 8, "8 KiB of entries, 32 slots of groups");
    }

    #[test]
    fn a_probe_visits_one_slot_for_every_row() {
        let mut pattern = Pattern::probe(0, 1600, 1 << 20, 100, 7);
        assert_eq!(lines(&mut pattern, 1600).len(), 100 + 1600);
        assert_eq!(table_bytes(100), 256 * 16);
    }

    #[test]
    fn steps_of_several_kinds_are_drawn_by_their_weights() {
        let kind = |line: u64| vec![Part::Table(Table::new(line * LINE_BYTES, 1, 8))];
        let mut pattern = Pattern::mixed(vec![(3, kind(1)), (0, kind(2)), (1, kind(3))], 7);
        let touched = lines(&mut pattern, 4000);
        let count = |line| touched.iter().filter(|touch| touch.line() == line).count();
        assert!(count(1).abs_diff(3000) < 150, "{}", count(1));
        assert_eq!((count(2), count(1) + count(3)), (0, 4000));
        assert_eq!(pattern.tables().count(), 3);
    }
}
