//! The stamps of one series, in memory that was touched before the first of them.

use std::io;

use crate::counters::{Counters, Reading};
use crate::tsc::stamp;

/// Gapless stamps of a series of tuples: stamp `i` ends tuple `i - 1` and begins tuple `i`.
///
/// Shape: `tuples + 1` stamps, in ticks of [`crate::tsc::stamp`]. Cost: one reading of the clock and one store for each
/// tuple; no allocation, and no page fault.
#[derive(Debug)]
pub struct Stamps {
    at: Vec<u64>,
    used: usize,
    /// Gaps above this many ticks are asked about.
    bound_ticks: u64,
    counters: Option<Counters>,
}

impl Stamps {
    /// Room for the stamps of so many tuples.
    pub fn new(tuples: usize) -> Stamps {
        // Zeros would be pages that nobody has touched yet.
        Stamps { at: vec![u64::MAX; tuples + 1], used: 0, bound_ticks: u64::MAX, counters: None }
    }

    /// Room for the stamps of so many tuples; behind every gap above `bound_ticks` the kernel's counters of the calling
    /// thread are read, which takes about a microsecond of the next tuple.
    ///
    /// Errors: the operating system's, where it has no such counters.
    pub fn counting(tuples: usize, bound_ticks: u64) -> io::Result<Stamps> {
        let counters = Counters::of_this_thread()?;
        Ok(Stamps { bound_ticks, counters: Some(counters), ..Stamps::new(tuples) })
    }

    /// Sets the first stamp: the beginning of the first tuple. Does nothing if the series has begun.
    #[inline]
    pub fn begin(&mut self) {
        if self.used == 0 {
            self.at[0] = stamp();
            self.used = 1;
        }
    }

    /// Sets the stamp at the end of a tuple.
    ///
    /// Panics: if the series has not begun, or there is no room.
    #[inline(always)]
    pub fn stamp(&mut self) {
        let now = stamp();
        let before = self.at[self.used - 1];
        self.at[self.used] = now;
        self.used += 1;
        if now.saturating_sub(before) > self.bound_ticks {
            self.ask();
        }
    }

    /// Takes stamps that were set elsewhere: the beginning of a tuple, and the end of each. The beginning is that of the
    /// series if the series has not begun; else it is left out, and what lies before belongs to the first of these tuples.
    ///
    /// Panics: if there is no room.
    pub fn extend(&mut self, stamps: &[u64]) {
        let new = if self.used == 0 { stamps } else { stamps.get(1..).unwrap_or_default() };
        self.at[self.used..self.used + new.len()].copy_from_slice(new);
        self.used += new.len();
    }

    #[cold]
    fn ask(&mut self) {
        let tuple = self.used - 2;
        if let Some(counters) = &mut self.counters {
            counters.read(tuple);
        }
    }

    /// Forgets all stamps and readings; the memory stays.
    pub fn clear(&mut self) {
        self.used = 0;
        if let Some(counters) = &mut self.counters {
            counters.clear();
        }
    }

    /// Number of whole tuples.
    pub fn tuples(&self) -> usize {
        self.used.saturating_sub(1)
    }

    /// Room for so many more tuples.
    pub fn room(&self) -> usize {
        self.at.len() - self.used.max(1)
    }

    /// All stamps, in order.
    pub fn all(&self) -> &[u64] {
        &self.at[..self.used]
    }

    /// Time from the first stamp to the last, ticks.
    pub fn total_ticks(&self) -> u64 {
        match self.all() {
            [first, .., last] => last - first,
            _ => 0,
        }
    }

    /// Readings of the kernel's counters, of series that were made by [`Stamps::counting`].
    pub fn readings(&self) -> &[Reading] {
        self.counters.as_ref().map_or(&[], Counters::readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_tuple_is_the_start_of_the_next() {
        let mut stamps = Stamps::new(3);
        assert_eq!((stamps.tuples(), stamps.room(), stamps.total_ticks()), (0, 3, 0));
        stamps.begin();
        stamps.begin();
        (0..3).for_each(|_| stamps.stamp());
        assert_eq!((stamps.tuples(), stamps.room()), (3, 0));
        let gaps: u64 = stamps.all().windows(2).map(|pair| pair[1] - pair[0]).sum();
        assert_eq!(gaps, stamps.total_ticks(), "nothing hides between tuples");
        stamps.clear();
        assert_eq!(stamps.tuples(), 0);
    }

    #[test]
    fn stamps_of_another_place_are_gapless_as_well() {
        let mut stamps = Stamps::new(4);
        stamps.extend(&[10, 12, 15]);
        stamps.extend(&[20, 21, 25]);
        assert_eq!(stamps.all(), [10, 12, 15, 21, 25]);
        assert_eq!((stamps.tuples(), stamps.room()), (4, 0));
        stamps.extend(&[]);
        assert_eq!(stamps.tuples(), 4);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_stamp_without_room_is_refused() {
        let mut stamps = Stamps::new(1);
        stamps.begin();
        stamps.stamp();
        stamps.stamp();
    }
}
