//! Operators small enough to be traced: `traced scan BYTES`, `traced aggregate ROWS ENTRIES GROUPS`,
//! `traced join ROWS KEYS`, `traced nothing`. Each prints a sum, so that nothing is left out.
//!
//! `tests/cachegrind.rs` runs them under valgrind.

use halcyon_base::rng::Rng;

const TAKEN: u64 = 1 << 63;

/// A hash table of keys and values, open addressing; half of the slots are free.
struct Table {
    slots: Vec<[u64; 2]>,
}

impl Table {
    fn new(keys: usize) -> Table {
        Table { slots: vec![[0; 2]; (keys * 2).next_power_of_two()] }
    }

    /// The value of a key, which begins as 0.
    #[inline]
    fn at(&mut self, key: u64) -> &mut u64 {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: multiplicative, the upper bits.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> (64 - self.slots.len().trailing_zeros())) as usize;
        while self.slots[slot][0] != key | TAKEN && self.slots[slot][0] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot][0] = key | TAKEN;
        &mut self.slots[slot][1]
    }
}

fn codes(rows: usize, below: u64, seed: u64) -> Vec<u32> {
    let mut random = Rng::new(seed);
    (0..rows).map(|_| random.below(below) as u32).collect()
}

fn aggregate(rows: usize, entries: u64, groups: u64) -> u64 {
    let dictionary: Vec<u64> = (0..entries).collect();
    let (values, keys) = (codes(rows, entries, 1), codes(rows, groups, 2));
    let mut table = Table::new(groups as usize);
    for (&value, &key) in values.iter().zip(&keys) {
        *table.at(u64::from(key)) += dictionary[value as usize];
    }
    table.slots.iter().map(|slot| slot[1]).sum()
}

fn join(rows: usize, count: u64) -> u64 {
    let mut table = Table::new(count as usize);
    for key in 0..count {
        *table.at(key) = key * 3;
    }
    codes(rows, count, 3).iter().map(|&key| *table.at(u64::from(key))).sum()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let sum = match words[0].as_str() {
        "nothing" => 0,
        "scan" => {
            let column = vec![7_u32; number(1) as usize / 4];
            (0..4).map(|_| column.iter().map(|&value| u64::from(value)).sum::<u64>()).sum()
        }
        "aggregate" => aggregate(number(1) as usize, number(2), number(3)),
        "join" => join(number(1) as usize, number(2)),
        other => panic!("no operator {other}"),
    };
    println!("{sum}");
}
