//! Operators of the slowdown matrix: the addresses that each touches, and its work for a step.
//!
//! The operators are those that `halcyon lab interference` measures. What is touched
//! follows from the engine's structures, as far as the table says so; nothing was traced, and work is assumed. Sizes are
//! parts of the shared cache (55 MB) and of the private one (256 KB).
//!
//! | operator | a step | touches | ns of work |
//! |---|---|---|---|
//! | scan | a line | the next of a column of 256 MB | 2 |
//! | join | a row | two columns of values; a slot of a hash table that the side's workers share: of a quarter of the private cache, of a half of the shared one, of four times the shared one | 20 |
//! | group | a row | two columns of values; a slot of the worker's own table: of a quarter of the private cache, or of such a size that the tables of a side have half of the shared one | 20 |
//! | sort | a row taken in, and one given out | taken in: two columns, a head of 16 bytes written. Given out: the next head of any of 64 chunks of a million rows (a chunk is as large as the private cache), two values at a place anywhere, two values written. Sorting within a chunk is work | 100 |
//! | look-ups | a look-up | the path in the index of a million rows that the side's workers share (leaves of 28 entries, inner nodes of 56 children; two and three lines of each), and two values | 500 |
//! | view upkeep | an update | of the worker's part of 131,072 rows: path, three values; a slot of the map of its view, which has half as many groups; a line of changes | 1,000 |
//! | TPC-C | an access | in the shares of TPC-C's New-Order (45) and Payment (43), on a warehouse for each worker: an item (26 of 100; 100,000 that all share), stock (26; 100,000 for each worker), a line that is appended (33), warehouse and district (10), a customer (5; 30,000); items, stock and customers as skewed as by NURand; three values of an item, six of other rows, 8 bytes each | 750 |

use super::patterns::{LINE_BYTES, Pattern, table_bytes};
use super::structures::{Choice, Column, Part, Rows, Runs, Table, VALUE_BYTES};

/// Bytes of the machine's shared cache for which numbers of rows are told.
const WHOLE_BYTES: u64 = 55 << 20;
/// Bytes of a scan's column, and rows of the columns that joins and groupings read: beyond any cache.
const SCAN_BYTES: u64 = 256 << 20;
const COLUMN_ROWS: u64 = 16 << 20;
/// Bytes of a head of a sort.
const HEAD_BYTES: u64 = 16;
/// Rows of a sort, rows that are looked up, and rows that a view stands over.
const SORTED_ROWS: u64 = 1 << 20;
const LOOKED_UP_ROWS: u64 = 1 << 20;
const UPDATED_ROWS: u64 = 1 << 17;
/// Rows of TPC-C: items, and as many of stock for each warehouse; customers and districts of a warehouse.
const ITEMS: u64 = 100_000;
const CUSTOMERS: u64 = 30_000;
const DISTRICTS: u64 = 10;
/// Bytes between structures, so that no two begin in one set of a cache.
const GAP_BYTES: u64 = 4096 + 5 * LINE_BYTES;

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// A scan of a column.
    Scan,
    /// A join whose build side the private cache holds.
    JoinSmall,
    /// A join whose build side has half of the shared cache.
    JoinCache,
    /// A join whose build side is four times as large as the shared cache.
    JoinLarge,
    /// Grouping into as many groups as the private cache holds.
    GroupFew,
    /// Grouping into so many groups that the tables of all workers have half of the shared cache.
    GroupMany,
    /// A sort.
    Sort,
    /// Look-ups by key.
    LookUps,
    /// Updates of a table with a view over it.
    ViewUpkeep,
    /// Transactions like TPC-C's.
    Transactions,
}

/// The worker that runs an operator, and the caches that its structures are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Side of the pair: 0 or 1. The sides have data of their own.
    pub side: u64,
    /// Number of the worker on its side.
    pub number: u64,
    /// Workers of the side.
    pub count: u64,
    /// Bytes of the shared cache.
    pub shared_bytes: u64,
    /// Bytes of a private cache.
    pub private_bytes: u64,
}

/// Addresses one behind another.
struct Space(u64);

impl Space {
    /// The address of the next structure, of so many bytes.
    fn take(&mut self, bytes: u64) -> u64 {
        let address = self.0;
        self.0 = (address + bytes).next_multiple_of(LINE_BYTES) + GAP_BYTES;
        address
    }

    fn column(&mut self, bytes: u64, step: u64) -> Part {
        Part::Column(Column::new(self.take(bytes), bytes, step))
    }

    fn hashed(&mut self, bytes: u64) -> Part {
        Part::Table(Table::of_bytes(self.take(bytes), bytes))
    }

    fn keyed(&mut self, rows: u64, columns: u64, choice: Choice) -> Part {
        let rows = Rows::keyed(self.0, rows, columns, choice);
        self.take(rows.end() - self.0);
        Part::Rows(rows)
    }
}

impl Operator {
    /// All operators.
    pub const ALL: [Operator; 10] = [
        Operator::Scan,
        Operator::JoinSmall,
        Operator::JoinCache,
        Operator::JoinLarge,
        Operator::GroupFew,
        Operator::GroupMany,
        Operator::Sort,
        Operator::LookUps,
        Operator::ViewUpkeep,
        Operator::Transactions,
    ];

    /// The operator's name, which is that of the measured matrix.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Scan => "scan",
            Operator::JoinSmall => "join small",
            Operator::JoinCache => "join cache",
            Operator::JoinLarge => "join large",
            Operator::GroupFew => "group few",
            Operator::GroupMany => "group many",
            Operator::Sort => "sort",
            Operator::LookUps => "look-ups",
            Operator::ViewUpkeep => "view upkeep",
            Operator::Transactions => "TPC-C",
        }
    }

    /// Work of a step beside loads, ns: assumed.
    pub fn step_ns(self) -> f64 {
        match self {
            Operator::Scan => 2.0,
            Operator::JoinSmall | Operator::JoinCache | Operator::JoinLarge => 20.0,
            Operator::GroupFew | Operator::GroupMany => 20.0,
            Operator::Sort => 100.0,
            Operator::LookUps => 500.0,
            Operator::ViewUpkeep => 1000.0,
            Operator::Transactions => 750.0,
        }
    }

    /// What a worker touches.
    ///
    /// Panics: if a cache is smaller than a few lines.
    pub fn pattern(self, worker: Worker) -> Pattern {
        let (shared, private) = (worker.shared_bytes, worker.private_bytes);
        let mut common = Space((worker.side + 1) << 44);
        let mut own = Space(common.0 + ((worker.number + 1) << 36));
        let seed = worker.side * 64 + worker.number + 1;
        let parts = match self {
            Operator::Scan => return Pattern::scan(own.take(SCAN_BYTES), SCAN_BYTES),
            Operator::JoinSmall => row(&mut own, common.hashed(private / 4)),
            Operator::JoinCache => row(&mut own, common.hashed(shared / 2)),
            Operator::JoinLarge => row(&mut own, common.hashed(shared * 4)),
            Operator::GroupFew => {
                let table = own.hashed(private / 4);
                row(&mut own, table)
            }
            Operator::GroupMany => {
                let table = own.hashed(shared / 2 / worker.count);
                row(&mut own, table)
            }
            Operator::Sort => sort(&mut own, worker, seed),
            Operator::LookUps => {
                vec![common.keyed(worker.scaled(LOOKED_UP_ROWS), 2, Choice::Uniform)]
            }
            Operator::ViewUpkeep => {
                let rows = (worker.scaled(UPDATED_ROWS) / worker.count).max(2);
                let changes = own.column(worker.scaled(SCAN_BYTES), LINE_BYTES);
                let map = own.hashed(table_bytes(rows / 2));
                vec![own.keyed(rows, 3, Choice::Uniform), map, changes]
            }
            Operator::Transactions => {
                return Pattern::mixed(transactions(&mut common, &mut own, worker), seed);
            }
        };
        Pattern::of(parts, seed)
    }
}

impl Worker {
    /// A number of rows or bytes by the size of the shared cache, at least a hundred.
    fn scaled(self, whole: u64) -> u64 {
        (whole * self.shared_bytes / WHOLE_BYTES).max(100)
    }
}

/// A row of two columns, and its slot of a hash table.
fn row(own: &mut Space, table: Part) -> Vec<Part> {
    let mut column = || own.column(COLUMN_ROWS * VALUE_BYTES, VALUE_BYTES);
    vec![column(), column(), table]
}

fn sort(own: &mut Space, worker: Worker, seed: u64) -> Vec<Part> {
    let (rows, chunk) = (worker.scaled(SORTED_ROWS), worker.private_bytes);
    let chunks = (rows * HEAD_BYTES / chunk).max(2);
    let runs = Runs::new(own.take(chunks * chunk), chunks, chunk, HEAD_BYTES, seed);
    let places = Rows::at_places(own.0, rows, 2);
    own.take(places.end() - own.0);
    let mut column = |bytes| own.column(rows * bytes, bytes);
    vec![
        column(VALUE_BYTES),
        column(VALUE_BYTES),
        column(HEAD_BYTES),
        Part::Runs(runs),
        Part::Rows(places),
        column(2 * VALUE_BYTES),
    ]
}

/// Accesses of New-Order and Payment, in a hundred: an order has ten lines, each with an item, stock and a line of the order;
/// both transactions have a warehouse, a district and a customer, and append an order (two rows) or a payment.
fn transactions(common: &mut Space, own: &mut Space, worker: Worker) -> Vec<(u64, Vec<Part>)> {
    let stock = worker.scaled(ITEMS);
    vec![
        (26, vec![common.keyed(worker.scaled(ITEMS), 3, Choice::Skewed)]),
        (26, vec![own.keyed(stock, 6, Choice::Skewed)]),
        (33, vec![own.column(worker.scaled(SCAN_BYTES), LINE_BYTES)]),
        (10, vec![own.keyed(1 + DISTRICTS, 6, Choice::Uniform)]),
        (5, vec![own.keyed(worker.scaled(CUSTOMERS), 6, Choice::Skewed)]),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::cache::{Cache, Found};
    use super::super::patterns::Touch;
    use super::*;

    /// Share of touches that may be the first of their lines after half of all steps.
    const FIRST: f64 = 0.001;

    fn worker(side: u64, number: u64) -> Worker {
        Worker { side, number, count: 2, shared_bytes: 55 << 14, private_bytes: 16 << 10 }
    }

    fn touches(operator: Operator, worker: Worker, steps: usize) -> Vec<Touch> {
        let (mut pattern, mut all, mut touches) =
            (operator.pattern(worker), Vec::new(), Vec::new());
        for _ in 0..steps {
            pattern.step(&mut touches);
            all.extend(&touches);
        }
        all
    }

    /// Misses of so many touches of structures in a cache of `bytes` that had as many before; by touches.
    fn missed(operator: Operator, bytes: u64, steps: usize) -> f64 {
        let all = touches(operator, worker(0, 0), 2 * steps);
        let all = all.iter().filter(|touch| !matches!(touch, Touch::Next(_)));
        let lines: Vec<u64> = all.map(|touch| touch.line()).collect();
        let mut cache = Cache::new(bytes, 20, LINE_BYTES);
        let mut misses = |lines: &[u64]| {
            let full = cache.full();
            lines.iter().filter(|&&line| cache.touch(line, full, 0) != Found::Hit).count() as f64
        };
        let (before, after) = lines.split_at(lines.len() / 2);
        misses(before);
        misses(after) / after.len() as f64
    }

    #[test]
    fn patterns_follow_from_side_and_worker_and_sides_share_nothing() {
        for operator in Operator::ALL {
            let of = |side, number| touches(operator, worker(side, number), 2000);
            assert_eq!(of(0, 1), of(0, 1), "{operator:?}");
            let lines = |side| -> HashSet<u64> {
                (0..2).flat_map(|number| of(side, number)).map(|touch| touch.line()).collect()
            };
            assert!(lines(0).is_disjoint(&lines(1)), "{operator:?}");
            let own: [HashSet<u64>; 2] = [of(0, 0), of(0, 1)]
                .map(|touches| touches.iter().map(|touch| touch.line()).collect());
            let shares = [
                Operator::JoinSmall,
                Operator::JoinCache,
                Operator::JoinLarge,
                Operator::LookUps,
                Operator::Transactions,
            ];
            let shared = !own[0].is_disjoint(&own[1]);
            assert_eq!(shared, shares.contains(&operator), "{operator:?}");
        }
    }

    #[test]
    fn structures_of_one_worker_do_not_overlap() {
        for operator in Operator::ALL {
            let pattern = operator.pattern(worker(0, 0));
            let mut seen = HashSet::new();
            for table in pattern.tables() {
                assert!(table.clone().all(|line| seen.insert(line)), "{operator:?} {table:?}");
            }
            let next = touches(operator, worker(0, 0), 5000);
            let mut next = next.iter().filter(|touch| matches!(touch, Touch::Next(_)));
            assert!(next.all(|touch| !seen.contains(&touch.line())), "{operator:?}");
        }
    }

    #[test]
    fn what_fits_is_missed_no_more_once_it_was_touched_and_of_four_times_as_much_three_quarters_are()
     {
        let shared = worker(0, 0).shared_bytes;
        // Each line of half of the cache a dozen times.
        let steps = 12 * (shared / 2 / LINE_BYTES) as usize;
        for operator in [Operator::JoinSmall, Operator::JoinCache, Operator::GroupFew] {
            assert!(missed(operator, shared, steps) < FIRST, "{operator:?}");
        }
        let large = missed(Operator::JoinLarge, shared, steps);
        assert!((large - 0.75).abs() < 0.02, "{large}");
        // The table of one of two workers: a quarter of the cache. In an eighth, every second line is missing.
        let half = missed(Operator::GroupMany, shared / 8, steps);
        assert!((half - 0.5).abs() < 0.02, "{half}");
        assert!(missed(Operator::GroupMany, shared, steps) < FIRST);
        assert!(missed(Operator::ViewUpkeep, shared, steps / 4) < FIRST);
    }

    #[test]
    fn look_ups_miss_leaf_and_values_of_what_does_not_fit_and_hit_the_upper_levels() {
        let shared = worker(0, 0).shared_bytes;
        let pattern = Operator::LookUps.pattern(worker(0, 0));
        let lines: u64 = pattern.tables().map(|table| table.end - table.start).sum();
        let bytes = lines * LINE_BYTES;
        assert!(bytes > shared / 2 && bytes < shared, "{bytes} bytes of {shared}");
        let (fits, does_not) = (
            missed(Operator::LookUps, shared, 60_000),
            missed(Operator::LookUps, shared / 8, 60_000),
        );
        assert!(fits < FIRST, "{fits}");
        // Of ten touches six are of two inner levels, two of a leaf, and two are values.
        let most = 4.0 / per_step(Operator::LookUps);
        assert!(does_not > most / 2.0 && does_not < most, "{does_not} {most}");
    }

    fn per_step(operator: Operator) -> f64 {
        touches(operator, worker(0, 0), 1000).len() as f64 / 1000.0
    }

    #[test]
    fn every_line_of_a_scan_is_missed_and_streams_are_as_wide_as_they_are_told_to_be() {
        let next = |operator| {
            let all = touches(operator, worker(0, 0), 8000);
            all.iter().filter(|touch| matches!(touch, Touch::Next(_))).count()
        };
        assert_eq!(next(Operator::Scan), 8000);
        let lines: HashSet<u64> =
            touches(Operator::Scan, worker(0, 0), 8000).iter().map(|touch| touch.line()).collect();
        assert_eq!(lines.len(), 8000);
        assert_eq!(next(Operator::JoinCache), 2 * 1000);
        // Two columns, heads, and two values written: 8, 8, 16 and 16 bytes of a line.
        assert_eq!(next(Operator::Sort), 1000 + 1000 + 2000 + 2000);
        assert_eq!(next(Operator::LookUps), 0);
        assert_eq!(next(Operator::ViewUpkeep), 8000);
        assert!(next(Operator::Transactions).abs_diff(8000 * 33 / 100) < 200);
    }
}
