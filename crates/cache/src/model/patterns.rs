//! The addresses that operators touch, tuple by tuple, without the operators.
//!
//! `tests/cachegrind.rs` compares each pattern with a trace of a program that runs the operator
//! (`examples/traced.rs`): both miss a last-level cache equally often, within a few percent.

use halcyon_base::rng::Rng;

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a compressed value (a number of an entry in a dictionary).
pub const CODE_BYTES: u64 = 4;
/// Bytes of a dictionary's entry.
pub const ENTRY_BYTES: u64 = 8;
/// Bytes of a group or of a built row in a hash table: key and value.
pub const SLOT_BYTES: u64 = 16;

/// Touching a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The next line of a column, which a prefetcher foresees.
    Next(u64),
    /// A line anywhere in a structure.
    Anywhere(u64),
}

impl Touch {
    /// Number of the line.
    pub fn line(self) -> u64 {
        match self {
            Touch::Next(line) | Touch::Anywhere(line) => line,
        }
    }
}

/// A column that is read from its beginning to its end, over and over.
#[derive(Clone, Debug)]
struct Column {
    first_line: u64,
    bytes: u64,
    at: u64,
}

impl Column {
    fn new(address: u64, bytes: u64) -> Column {
        assert!(bytes >= LINE_BYTES, "a column has a line");
        Column { first_line: address / LINE_BYTES, bytes, at: 0 }
    }

    /// Reads `step` bytes; the line, if it is another one than before.
    fn read(&mut self, step: u64) -> Option<Touch> {
        let (before, line) = (self.at, self.at / LINE_BYTES);
        self.at = if before + step >= self.bytes { 0 } else { before + step };
        let is_first = before.is_multiple_of(LINE_BYTES);
        is_first.then(|| Touch::Next(self.first_line + line))
    }
}

/// A structure of slots that is visited at random.
#[derive(Clone, Debug)]
struct Table {
    first_line: u64,
    slots: u64,
    slot_bytes: u64,
}

impl Table {
    fn at(&self, slot: u64) -> Touch {
        Touch::Anywhere(self.first_line + slot * self.slot_bytes / LINE_BYTES)
    }

    fn any(&self, random: &mut Rng) -> Touch {
        self.at(random.below(self.slots))
    }
}

/// An operator as one worker runs it.
#[derive(Clone, Debug)]
pub struct Pattern {
    columns: Vec<Column>,
    /// Bytes that a step reads of every column.
    step: u64,
    tables: Vec<Table>,
    random: Rng,
}

/// Sizes of the structures of a hash table with so many keys: half of its slots are free.
pub fn table_bytes(keys: u64) -> u64 {
    (keys * 2).next_power_of_two() * SLOT_BYTES
}

impl Pattern {
    /// A scan of a column at `address`; a step is a line.
    pub fn scan(address: u64, bytes: u64) -> Pattern {
        Pattern {
            columns: vec![Column::new(address, bytes)],
            step: LINE_BYTES,
            tables: Vec::new(),
            random: Rng::new(0),
        }
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
        Pattern {
            columns: vec![Column::new(address, bytes), Column::new(address + bytes, bytes)],
            step: CODE_BYTES,
            tables: vec![
                Table {
                    first_line: dictionary / LINE_BYTES,
                    slots: entries,
                    slot_bytes: ENTRY_BYTES,
                },
                Table::of_hash(table, groups),
            ],
            random: Rng::new(seed),
        }
    }

    /// The probe side of a hash join: a column of keys at `address`, and a table of `keys` at `table`
    /// that all workers share. A step is a row.
    pub fn probe(address: u64, rows: u64, table: u64, keys: u64, seed: u64) -> Pattern {
        Pattern {
            columns: vec![Column::new(address, rows * CODE_BYTES)],
            step: CODE_BYTES,
            tables: vec![Table::of_hash(table, keys)],
            random: Rng::new(seed),
        }
    }

    /// The touches of the next step, into `touches`, which is emptied first.
    pub fn step(&mut self, touches: &mut Vec<Touch>) {
        touches.clear();
        for column in &mut self.columns {
            touches.extend(column.read(self.step));
        }
        for table in &self.tables {
            touches.push(table.any(&mut self.random));
        }
    }

    /// The lines of each table.
    pub fn tables(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.tables.iter().map(|table| {
            let lines = (table.slots * table.slot_bytes).div_ceil(LINE_BYTES);
            table.first_line..table.first_line + lines
        })
    }
}

impl Table {
    /// A hash table whose keys lie in half of the slots, spread evenly: a visit of one of the keys is one
    /// of every second slot, and touches every line.
    fn of_hash(address: u64, keys: u64) -> Table {
        let slots = table_bytes(keys) / SLOT_BYTES;
        Table { first_line: address / LINE_BYTES, slots, slot_bytes: SLOT_BYTES }
    }
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
}
