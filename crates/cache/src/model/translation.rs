//! Translation of addresses: the buffer of pages that were translated, and the entry of a page's table that is
//! fetched through the caches when the page is not in it.

use super::cache::{Cache, Found};
use super::patterns::LINE_BYTES;

/// Bytes of a page's entry in the table of pages.
const ENTRY_BYTES: u64 = 8;
/// The first line of the tables of pages, beyond everything that operators touch.
const TABLES: u64 = (1 << 56) / LINE_BYTES;

/// Sizes and times of a core's translation.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// Pages that the buffer knows.
    pub entries: u32,
    /// Ways of the buffer.
    pub ways: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Time of a walk whose entry lies in the private cache, ns.
    pub walk_ns: f64,
    /// Walks that a core has in flight.
    pub walks_in_flight: f64,
}

impl Translation {
    /// Broadwell's with pages of 4 KiB: a second-level buffer of 1,536 entries and 6 ways, two walkers (Intel's
    /// optimisation manual). The buffer before it (64 entries) is left out, and upper levels of the tables,
    /// whose few entries processors keep apart. The time of a walk is assumed: a load from the private cache, 12
    /// cycles.
    pub fn broadwell() -> Translation {
        Translation { entries: 1536, ways: 6, page_bytes: 4096, walk_ns: 4.0, walks_in_flight: 2.0 }
    }

    /// An empty buffer.
    pub(super) fn buffer(self) -> Cache {
        Cache::new(u64::from(self.entries), self.ways, 1)
    }

    /// The line of the table's entry for a line, if its page is not in the buffer, where it is then.
    pub(super) fn walk(self, buffer: &mut Cache, line: u64) -> Option<u64> {
        let page = line / (self.page_bytes / LINE_BYTES);
        let is_known = buffer.touch(page, buffer.full(), 0) == Found::Hit;
        (!is_known).then(|| TABLES + page * ENTRY_BYTES / LINE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_the_buffer_knows_are_not_walked_and_eight_pages_share_a_line_of_the_table() {
        let translation = Translation::broadwell();
        let mut buffer = translation.buffer();
        let mut walk = |byte: u64| translation.walk(&mut buffer, byte / LINE_BYTES);
        assert_eq!(walk(0), Some(TABLES));
        assert_eq!((walk(64), walk(4095)), (None, None));
        assert_eq!((walk(4096), walk(7 * 4096)), (Some(TABLES), Some(TABLES)));
        assert_eq!(walk(8 * 4096), Some(TABLES + 1));
        for page in 0..1536 {
            walk(page * 4096);
        }
        assert!((0..1536).all(|page| walk(page * 4096).is_none()), "as many as it knows");
        let mut twice = || (0..3072).filter(|page| walk(page * 4096).is_some()).count();
        twice();
        assert_eq!(twice(), 3072, "more than it knows, in turn");
    }
}
