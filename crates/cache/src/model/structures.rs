//! What operators touch: columns, tables, trees with rows behind them, sorted runs.
//!
//! Writing a line counts as reading the line: time and bandwidth of lines that are written back, and of lines that another
//! core has written, are left out.

use std::ops::Range;

use halcyon_base::rng::Rng;

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a group or of a built row in a hash table: key and value.
pub const SLOT_BYTES: u64 = 16;
/// Bytes of a value of a column that is not compressed.
pub const VALUE_BYTES: u64 = 8;
/// Bytes of a leaf of an index, and entries that it holds when it was built in order (`crates/store/src/tree.rs`).
const LEAF_BYTES: u64 = 64 + 32 * ENTRY_BYTES;
const LEAF_ENTRIES: u64 = 28;
/// Bytes of an inner node: separators, and children behind them; children of a node that was built in order.
const INNER_BYTES: u64 = 64 + 64 * (ENTRY_BYTES + 8);
const INNER_CHILDREN: u64 = 56;
/// Bytes of an entry of a node: key and row.
const ENTRY_BYTES: u64 = 16;

/// Touching a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The next line of a column, which a prefetcher foresees.
    Next(u64),
    /// A line anywhere in a structure.
    Anywhere(u64),
    /// A line whose address only the touch before tells: one in flight.
    After(u64),
}

impl Touch {
    /// Number of the line.
    pub fn line(self) -> u64 {
        match self {
            Touch::Next(line) | Touch::Anywhere(line) | Touch::After(line) => line,
        }
    }
}

/// A column that is read or written from its beginning to its end, over and over.
#[derive(Clone, Debug)]
pub(super) struct Column {
    first_line: u64,
    bytes: u64,
    /// Bytes of a step.
    step: u64,
    at: u64,
}

impl Column {
    /// A column of `bytes` of which a step reads `step`.
    ///
    /// Panics: if the column has no line.
    pub(super) fn new(address: u64, bytes: u64, step: u64) -> Column {
        assert!(bytes >= LINE_BYTES, "a column has a line");
        Column { first_line: address / LINE_BYTES, bytes, step, at: 0 }
    }

    /// The next step; the line, if it is another one than before.
    fn read(&mut self) -> Option<Touch> {
        let (before, line) = (self.at, self.at / LINE_BYTES);
        self.at = if before + self.step >= self.bytes { 0 } else { before + self.step };
        let is_first = before.is_multiple_of(LINE_BYTES);
        is_first.then(|| Touch::Next(self.first_line + line))
    }
}

/// A structure of slots that is visited at random.
#[derive(Clone, Debug)]
pub(super) struct Table {
    first_line: u64,
    slots: u64,
    slot_bytes: u64,
}

impl Table {
    /// A table of so many slots.
    pub(super) fn new(address: u64, slots: u64, slot_bytes: u64) -> Table {
        Table { first_line: address / LINE_BYTES, slots, slot_bytes }
    }

    /// A hash table of so many bytes.
    pub(super) fn of_bytes(address: u64, bytes: u64) -> Table {
        Table::new(address, (bytes / SLOT_BYTES).max(1), SLOT_BYTES)
    }

    fn line(&self, slot: u64) -> u64 {
        self.first_line + slot * self.slot_bytes / LINE_BYTES
    }

    fn lines(&self) -> Range<u64> {
        let lines = (self.slots * self.slot_bytes).div_ceil(LINE_BYTES);
        self.first_line..self.first_line + lines
    }
}

/// A B-tree of keys from 0, full as trees are that were built in order.
#[derive(Clone, Debug)]
struct Tree {
    /// By level from the root to the leaves: address of the first node.
    levels: Vec<u64>,
    end: u64,
}

impl Tree {
    fn new(address: u64, keys: u64) -> Tree {
        let mut counts = vec![keys.max(1).div_ceil(LEAF_ENTRIES)];
        while *counts.last().expect("there are leaves") > 1 {
            counts.push(counts.last().expect("there are leaves").div_ceil(INNER_CHILDREN));
        }
        let (mut levels, mut end) = (Vec::new(), address);
        for (height, count) in counts.iter().enumerate().rev() {
            levels.push(end);
            end += count * if height == 0 { LEAF_BYTES } else { INNER_BYTES };
        }
        Tree { levels, end }
    }

    /// The way to a key: in each node a line that every search looks at, the entry's, and the child's.
    fn descend(&self, key: u64, touches: &mut Vec<Touch>) {
        let mut after = |address: u64| touches.push(Touch::After(address / LINE_BYTES));
        let leaf = key / LEAF_ENTRIES;
        for (level, &first) in self.levels.iter().enumerate() {
            let Some(below) = u32::try_from(self.levels.len() - 1 - level).ok().filter(|&n| n > 0)
            else {
                let node = first + leaf * LEAF_BYTES;
                after(node + LEAF_BYTES / 2);
                after(node + 64 + key % LEAF_ENTRIES * ENTRY_BYTES);
                continue;
            };
            let child = leaf / INNER_CHILDREN.pow(below - 1);
            let node = first + child / INNER_CHILDREN * INNER_BYTES;
            let at = child % INNER_CHILDREN;
            after(node + INNER_BYTES / 2);
            after(node + 64 + at * ENTRY_BYTES);
            after(node + 64 + 64 * ENTRY_BYTES + at * 8);
        }
    }
}

/// Which rows are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// All equally often.
    Uniform,
    /// Some more often, as TPC-C's NURand has it (clause 2.1.6).
    Skewed,
}

/// Rows in columns of values that are not compressed, and an index of their keys, if they are looked up.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    rows: u64,
    columns: Vec<Table>,
    tree: Option<Tree>,
    choice: Choice,
}

impl Rows {
    /// Rows that are visited by their places.
    pub(super) fn at_places(address: u64, rows: u64, columns: u64) -> Rows {
        let bytes = (rows * VALUE_BYTES).next_multiple_of(LINE_BYTES);
        let column = |number| Table::new(address + number * bytes, rows, VALUE_BYTES);
        Rows {
            rows,
            columns: (0..columns).map(column).collect(),
            tree: None,
            choice: Choice::Uniform,
        }
    }

    /// Rows that are looked up by key; the index lies behind the columns.
    pub(super) fn keyed(address: u64, rows: u64, columns: u64, choice: Choice) -> Rows {
        let rows = Rows::at_places(address, rows, columns);
        let end = rows.end();
        Rows { tree: Some(Tree::new(end, rows.rows)), choice, ..rows }
    }

    /// The address behind all.
    pub(super) fn end(&self) -> u64 {
        let columns = self.columns.iter().map(|column| column.lines().end * LINE_BYTES);
        columns.chain(self.tree.iter().map(|tree| tree.end)).max().unwrap_or(0)
    }

    fn row(&self, random: &mut Rng) -> u64 {
        match self.choice {
            Choice::Uniform => random.below(self.rows),
            // TPC-C has 8,191 for 100,000 items.
            Choice::Skewed => {
                let often = (self.rows / 16).max(1).next_power_of_two();
                (random.below(often) | random.below(self.rows)) % self.rows
            }
        }
    }

    fn visit(&self, random: &mut Rng, touches: &mut Vec<Touch>) {
        let row = self.row(random);
        if let Some(tree) = &self.tree {
            tree.descend(row, touches);
        }
        for (at, column) in self.columns.iter().enumerate() {
            let waits = at == 0 && self.tree.is_some();
            let line = column.line(row);
            touches.push(if waits { Touch::After(line) } else { Touch::Anywhere(line) });
        }
    }
}

/// Sorted runs that are merged: the next head is any run's.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    first_line: u64,
    run_bytes: u64,
    head_bytes: u64,
    /// By run: the byte that is read next.
    at: Vec<u64>,
}

impl Runs {
    /// So many runs of `run_bytes`, each begun somewhere: runs that have been merged for a while do not stand
    /// at the same place.
    pub(super) fn new(address: u64, runs: u64, run_bytes: u64, head_bytes: u64, seed: u64) -> Runs {
        let mut random = Rng::new(seed);
        let heads = run_bytes / head_bytes;
        Runs {
            first_line: address / LINE_BYTES,
            run_bytes,
            head_bytes,
            at: (0..runs).map(|_| random.below(heads) * head_bytes).collect(),
        }
    }

    /// The line of the next head of any run, if it is another one than that run's head before.
    fn next(&mut self, random: &mut Rng) -> Option<Touch> {
        let run = random.below(self.at.len() as u64);
        let at = &mut self.at[usize::try_from(run).expect("a run's number")];
        let before = *at;
        *at = if before + self.head_bytes >= self.run_bytes { 0 } else { before + self.head_bytes };
        let line = self.first_line + (run * self.run_bytes + before) / LINE_BYTES;
        before.is_multiple_of(LINE_BYTES).then_some(Touch::Anywhere(line))
    }
}

/// What a step touches of a structure.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The next bytes of a column.
    Column(Column),
    /// A slot anywhere.
    Table(Table),
    /// A row, by key or place.
    Rows(Rows),
    /// The next head of a merge.
    Runs(Runs),
}

impl Part {
    /// The touches of a step, behind those that are there.
    pub(super) fn step(&mut self, random: &mut Rng, touches: &mut Vec<Touch>) {
        match self {
            Part::Column(column) => touches.extend(column.read()),
            Part::Table(table) => {
                let slot = random.below(table.slots);
                touches.push(Touch::Anywhere(table.line(slot)));
            }
            Part::Rows(rows) => rows.visit(random, touches),
            Part::Runs(runs) => touches.extend(runs.next(random)),
        }
    }

    /// Lines that are visited again and again, at random.
    pub(super) fn tables(&self) -> Vec<Range<u64>> {
        match self {
            Part::Column(_) | Part::Runs(_) => Vec::new(),
            Part::Table(table) => vec![table.lines()],
            Part::Rows(rows) => {
                let tree = rows
                    .tree
                    .iter()
                    .map(|tree| tree.levels[0] / LINE_BYTES..tree.end.div_ceil(LINE_BYTES));
                rows.columns.iter().map(Table::lines).chain(tree).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descended(tree: &Tree, key: u64) -> Vec<u64> {
        let mut touches = Vec::new();
        tree.descend(key, &mut touches);
        touches.iter().map(|touch| touch.line()).collect()
    }

    #[test]
    fn a_tree_is_descended_from_one_root_to_a_leaf_of_the_key() {
        // 3,500 leaves, 63 and 2 inner nodes, a root.
        let tree = Tree::new(1 << 20, 98_000);
        assert_eq!(tree.levels.len(), 4);
        let nodes = 3500 * LEAF_BYTES + 66 * INNER_BYTES;
        assert_eq!(tree.end, (1 << 20) + nodes);
        let (first, near, far) =
            (descended(&tree, 0), descended(&tree, 27), descended(&tree, 97_999));
        assert_eq!(first.len(), 3 * 3 + 2);
        assert_eq!(first[..9], near[..9], "one leaf, one way");
        assert_eq!(first[0], far[0], "one root");
        assert_ne!(first[3], far[3], "other nodes below");
        assert!(far[10] * LINE_BYTES < tree.end && far[9] * LINE_BYTES >= tree.end - LEAF_BYTES);
        assert_eq!(descended(&Tree::new(0, 5), 4).len(), 2, "a leaf that is the root");
    }

    #[test]
    fn a_row_by_key_waits_for_the_tree_and_a_row_by_place_does_not() {
        let (mut random, mut touches) = (Rng::new(1), Vec::new());
        Rows::keyed(0, 20, 3, Choice::Uniform).visit(&mut random, &mut touches);
        let waits = touches.iter().filter(|touch| matches!(touch, Touch::After(_))).count();
        assert_eq!((waits, touches.len()), (3, 5), "a leaf's two lines, a value, two more");
        touches.clear();
        Rows::at_places(0, 20, 3).visit(&mut random, &mut touches);
        assert!(touches.iter().all(|touch| matches!(touch, Touch::Anywhere(_))), "{touches:?}");
    }

    #[test]
    fn a_skewed_choice_has_favourites_and_reaches_all_rows() {
        let visits = |choice| {
            let rows = Rows::keyed(0, 1600, 1, choice);
            let (mut random, mut counts) = (Rng::new(7), vec![0_u32; 1600]);
            (0..160_000).for_each(|_| counts[rows.row(&mut random) as usize] += 1);
            counts.sort_unstable();
            (counts[0], counts[1440..].iter().sum::<u32>())
        };
        let (uniform, skewed) = (visits(Choice::Uniform), visits(Choice::Skewed));
        assert!(uniform.0 > 0 && uniform.1 < 25_000, "a tenth has a tenth: {uniform:?}");
        assert!(skewed.1 > 60_000, "a tenth has more than a third: {skewed:?}");
    }

    #[test]
    fn heads_of_runs_are_read_one_behind_another_in_each_run() {
        let mut runs = Runs::new(0, 4, 256, 16, 3);
        let (mut random, mut lines) = (Rng::new(1), Vec::new());
        for _ in 0..16 * 4 * 10 {
            lines.extend(runs.next(&mut random).map(|touch| touch.line()));
        }
        assert!(lines.len().abs_diff(160) < 8, "a line for four heads: {}", lines.len());
        for run in 0..4 {
            let own: Vec<u64> = lines.iter().copied().filter(|line| line / 4 == run).collect();
            assert!(own.windows(2).all(|two| (two[0] + 1) % 4 == two[1] % 4), "{own:?}");
        }
    }
}
