//! Strings of one segment: Arrow's 16-byte views, and an append-only heap for what a view cannot
//! hold.
//!
//! Words: a *view* is Arrow's `StringView` word: the length in its low 4 bytes, then the string
//! itself if it has at most 12 bytes, else its first 4 bytes, the block's number and the offset
//! there. A *block* is fixed memory filled from the front. A block that a snapshot holds too is
//! *sealed*: the next string starts a new block, and nothing is copied.
//! Invariants, checked by [`Heap::check`] over the views that live rows hold:
//! 1. A long view lies within its block, and within the filled part if the block is the last.
//! 2. A view's prefix is the string's first 4 bytes; bytes of a short view beyond its length are 0.
//! 3. `live_bytes` is the summed length of the long strings of live rows.
//! 4. The bytes of a block below the filled mark never change.
//!
//! Cost: `store` copies the string once, and compaction (see [`Heap::wants_compaction`]) again
//! whenever as much became garbage as is alive: O(1) per byte, amortised.

use crate::vector::{buffer, make_mut};
use arrow_buffer::Buffer;
use triomphe::Arc;

// Views are taken apart as little-endian words, which Arrow's in-memory format is here.
const _: () = assert!(cfg!(target_endian = "little"));

/// The longest string that a view holds itself.
pub(crate) const INLINE_BYTES_MAX: usize = 12;
/// Least and greatest size of a new block, unless one string needs more.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 512..=256 << 10;
/// Below this much waste a heap is never compacted.
const WASTE_BYTES_MIN: u64 = 4096;

/// Blocks of long strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    blocks: Vec<Arc<[u8]>>,
    /// Filled part of the last block.
    filled: u32,
    /// Capacity of all blocks.
    block_bytes: u64,
    live_bytes: u64,
}

/// Length of the string of a view.
#[inline]
fn view_len(view: u128) -> usize {
    view as u32 as usize
}

/// The view of a string of at most 12 bytes.
#[inline]
fn inline_view(bytes: &[u8]) -> u128 {
    let mut word = [0u8; 16];
    word[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    word[4..4 + bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(word)
}

#[inline]
fn block_idx(view: u128) -> usize {
    (view >> 64) as u32 as usize
}

#[inline]
fn offset(view: u128) -> usize {
    (view >> 96) as usize
}

impl Heap {
    /// Keeps a string and returns its view.
    ///
    /// Panics: if it is longer than 2^31 - 1 bytes, Arrow's limit.
    #[inline]
    pub(crate) fn store(&mut self, bytes: &[u8]) -> u128 {
        if bytes.len() <= INLINE_BYTES_MAX { inline_view(bytes) } else { self.store_long(bytes) }
    }

    fn store_long(&mut self, bytes: &[u8]) -> u128 {
        assert!(bytes.len() <= i32::MAX as usize, "a string has at most 2^31 - 1 bytes");
        let start = self.reserve(bytes.len());
        let block = self.blocks.last_mut().expect("reserve leaves a block");
        make_mut(block)[start..start + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len() as u32;
        self.live_bytes += bytes.len() as u64;
        let prefix = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.len() as u128
            | (prefix as u128) << 32
            | ((self.blocks.len() - 1) as u128) << 64
            | (start as u128) << 96
    }

    /// Makes the last block one of our own with room for `bytes` more; returns its filled mark.
    fn reserve(&mut self, bytes: usize) -> usize {
        let fits = self
            .blocks
            .last()
            .is_some_and(|block| block.len() - self.filled as usize >= bytes && block.is_unique());
        if !fits {
            let wanted = (self.live_bytes as usize / 2)
                .clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end())
                .max(bytes);
            self.begin_block(wanted);
        }
        self.filled as usize
    }

    fn begin_block(&mut self, capacity: usize) {
        self.blocks.push(Arc::from(vec![0u8; capacity]));
        self.block_bytes += capacity as u64;
        self.filled = 0;
    }

    /// Makes sure that `bytes` of strings to come lie in one block.
    pub(crate) fn reserve_for_load(&mut self, bytes: usize) {
        if bytes > *BLOCK_BYTES.start() {
            let room = self.blocks.last().map_or(0, |block| block.len() - self.filled as usize);
            if room < bytes || !self.blocks.last().is_some_and(Arc::is_unique) {
                self.begin_block(bytes);
            }
        }
    }

    /// The string of a view that a live row holds.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, view: &'a u128) -> &'a [u8] {
        let len = view_len(*view);
        if len <= INLINE_BYTES_MAX {
            &bytemuck::bytes_of(view)[4..4 + len]
        } else {
            &self.blocks[block_idx(*view)][offset(*view)..offset(*view) + len]
        }
    }

    /// Notes that no row holds this view any more.
    #[inline]
    pub(crate) fn release(&mut self, view: u128) {
        if view_len(view) > INLINE_BYTES_MAX {
            self.live_bytes -= view_len(view) as u64;
        }
    }

    /// True once more than half of the memory is waste, so that copying the rest is paid for.
    #[inline]
    pub(crate) fn wants_compaction(&self) -> bool {
        self.block_bytes > 2 * self.live_bytes + WASTE_BYTES_MIN
    }

    /// An empty heap with one block for the live strings of this one, to compact into.
    pub(crate) fn for_compaction(&self) -> Heap {
        let mut heap = Heap::default();
        if self.live_bytes > 0 {
            heap.begin_block((self.live_bytes + self.live_bytes / 8) as usize);
        }
        heap
    }

    /// The blocks as Arrow buffers, without copying; a view's block number is the position here.
    pub(crate) fn buffers(&self) -> std::sync::Arc<[Buffer]> {
        self.blocks.iter().map(buffer).collect()
    }

    /// Memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Panics unless the invariants hold for `views`, those of all live rows. O(bytes).
    pub(crate) fn check(&self, views: impl Iterator<Item = u128>) {
        assert_eq!(
            self.block_bytes,
            self.blocks.iter().map(|block| block.len() as u64).sum::<u64>()
        );
        assert!(self.filled as usize <= self.blocks.last().map_or(0, |block| block.len()));
        let mut live_bytes = 0;
        for view in views {
            let len = view_len(view);
            if len <= INLINE_BYTES_MAX {
                assert_eq!(inline_view(self.bytes(&view)), view, "padding of a short view");
                continue;
            }
            live_bytes += len as u64;
            let prefix = ((view >> 32) as u32).to_le_bytes();
            assert!(self.bytes(&view).starts_with(&prefix), "prefix of a long view");
            let is_last = block_idx(view) == self.blocks.len() - 1;
            assert!(!is_last || offset(view) + len <= self.filled as usize);
        }
        assert_eq!(live_bytes, self.live_bytes);
    }

    #[cfg(test)]
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_length_come_back() {
        let mut heap = Heap::default();
        let strings: Vec<Vec<u8>> = (0..2000usize).map(|len| vec![len as u8; len]).collect();
        let views: Vec<u128> = strings.iter().map(|string| heap.store(string)).collect();
        for (string, view) in strings.iter().zip(&views) {
            assert_eq!(heap.bytes(view), string);
        }
        heap.check(views.iter().copied());
        assert!(heap.block_count() < 40, "blocks grow with the heap");
    }

    #[test]
    fn block_held_by_a_snapshot_is_sealed_and_not_copied() {
        let mut heap = Heap::default();
        let first = heap.store(b"long enough for the heap");
        let snapshot = heap.clone();
        let second = heap.store(b"written after the snapshot");
        assert_eq!((snapshot.block_count(), heap.block_count()), (1, 2));
        assert!(Arc::ptr_eq(&snapshot.blocks[0], &heap.blocks[0]));
        assert_eq!(snapshot.bytes(&first), heap.bytes(&first));
        drop(snapshot);
        let third = heap.store(b"and into the same block again");
        assert_eq!(heap.block_count(), 2);
        heap.check([first, second, third].into_iter());
    }

    #[test]
    fn waste_asks_for_compaction() {
        let mut heap = Heap::default();
        let keep = heap.store(&[1; 100]);
        let mut view = heap.store(&[2; 100]);
        for _ in 0..100 {
            assert!(heap.memory_bytes() <= 2 * 200 + WASTE_BYTES_MIN || heap.wants_compaction());
            heap.release(view);
            view = heap.store(&[3; 100]);
        }
        assert!(heap.wants_compaction());
        let mut compacted = heap.for_compaction();
        let moved = [keep, view].map(|view| compacted.store(heap.bytes(&view)));
        compacted.check(moved.into_iter());
        assert!(!compacted.wants_compaction());
    }
}
