//! The caches of valgrind's cachegrind: one of instructions, one of data, and a last-level cache behind
//! both. By cachegrind's manual, a reference that straddles two lines looks for both and is one miss; a
//! modification counts as a read; every cache fetches lines that are written.

use super::cache::{Cache, Found};
use super::trace::{Kind, Reference};

/// Size, ways and line of a cache, as `--LL=` takes them.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes.
    pub bytes: u64,
    /// Ways.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u64,
}

impl Shape {
    fn cache(self) -> Cache {
        Cache::new(self.bytes, self.ways, self.line_bytes)
    }
}

/// References and misses of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub data: u64,
    /// Misses of the first cache.
    pub first_misses: u64,
    /// Misses of the last-level cache.
    pub last_misses: u64,
}

/// The hierarchy.
pub struct Hierarchy {
    instructions: Cache,
    data: Cache,
    last: Cache,
    line_bytes: u64,
    /// What was counted of data.
    pub counts: Counts,
}

impl Hierarchy {
    /// Empty caches.
    ///
    /// Panics: if the lines are not of one size.
    pub fn new(instructions: Shape, data: Shape, last: Shape) -> Hierarchy {
        let line_bytes = last.line_bytes;
        assert!(instructions.line_bytes == line_bytes && data.line_bytes == line_bytes);
        Hierarchy {
            instructions: instructions.cache(),
            data: data.cache(),
            last: last.cache(),
            line_bytes,
            counts: Counts::default(),
        }
    }

    /// Makes a reference.
    pub fn refer(&mut self, reference: Reference) {
        let first = reference.address / self.line_bytes;
        let end = (reference.address + u64::from(reference.bytes) - 1) / self.line_bytes;
        let is_data = reference.kind != Kind::Fetch;
        self.counts.data += u64::from(is_data);
        let near = if is_data { &mut self.data } else { &mut self.instructions };
        if !misses(near, first, end) {
            return;
        }
        self.counts.first_misses += u64::from(is_data);
        let missed = misses(&mut self.last, first, end);
        self.counts.last_misses += u64::from(is_data && missed);
    }
}

/// Whether one of the lines is missing; all of them are there afterwards.
fn misses(cache: &mut Cache, first: u64, end: u64) -> bool {
    let mask = cache.full();
    // All lines are looked for, also behind one that is missing.
    (first..=end).filter(|&line| cache.touch(line, mask, 0) != Found::Hit).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_of_one_reference_are_one_miss_and_instructions_share_the_last_cache() {
        let shape = |bytes| Shape { bytes, ways: 1, line_bytes: 64 };
        let mut caches = Hierarchy::new(shape(64), shape(64), shape(256));
        let mut refer = |kind, address| caches.refer(Reference { kind, address, bytes: 8 });
        refer(Kind::Load, 60);
        refer(Kind::Store, 64);
        refer(Kind::Modify, 0);
        refer(Kind::Fetch, 256);
        refer(Kind::Load, 0);
        refer(Kind::Load, 128);
        refer(Kind::Load, 0);
        // 60..68 misses both; 64 is in the first cache; 0 in the last; the instruction evicts 0 there, and
        // 0 is still in the first cache; 128 misses both; 0 misses both.
        assert_eq!(caches.counts, Counts { data: 6, first_misses: 4, last_misses: 3 });
    }
}
