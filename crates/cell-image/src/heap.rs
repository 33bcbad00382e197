//! The heap of a cell: blocks of powers of two, cut from one region from front to back, and kept in
//! lists when they are given back.
//!
//! Both operations take constant time and touch no memory but the block. Blocks of one size are never
//! joined to larger ones: the heap's use is at most the sum of the greatest uses of all sizes, and a
//! table that doubles leaves no more behind than it has itself.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

/// The smallest block holds a link to the next one, and a bit more.
const BLOCK_BYTES_MIN: usize = 16;
/// Blocks are aligned to their size, but not beyond a page.
const ALIGN_MAX: usize = 4096;

/// A heap over one region, for one thread.
pub struct Heap(UnsafeCell<State>);

struct State {
    start: usize,
    next: usize,
    end: usize,
    /// The first free block of each size, by the size's logarithm; 0 if there is none.
    free: [usize; usize::BITS as usize],
}

// SAFETY: a heap may lie in a static variable of a program that has one thread and no interrupts, which
// a cell is; every other program uses it from one thread by its own choice (`Heap::set`).
unsafe impl Sync for Heap {}

/// The size of the block for a layout. `None`: there is no such block.
fn block_bytes(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN_MAX {
        return None;
    }
    layout.size().max(layout.align()).max(BLOCK_BYTES_MIN).checked_next_power_of_two()
}

impl Heap {
    /// A heap without memory.
    pub const fn new() -> Self {
        let free = [0; usize::BITS as usize];
        Heap(UnsafeCell::new(State { start: 0, next: 0, end: 0, free }))
    }

    /// Gives the heap its memory.
    ///
    /// # Safety
    /// The `bytes` from `start` are mapped, writable, and nobody else's for as long as the heap is
    /// used; the heap is used from one thread alone, and has no memory yet.
    pub unsafe fn set(&self, start: *mut u8, bytes: usize) {
        let start = start.expose_provenance();
        // SAFETY: one thread alone uses the heap.
        let state = unsafe { &mut *self.0.get() };
        *state = State { start, next: start, end: start + bytes, ..Heap::new().0.into_inner() };
    }

    /// Bytes that have been cut from the region, whether in use now or not, and bytes of the region.
    pub fn used(&self) -> (u64, u64) {
        // SAFETY: one thread alone uses the heap, so nobody changes the numbers meanwhile.
        let state = unsafe { &*self.0.get() };
        ((state.next - state.start) as u64, (state.end - state.start) as u64)
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks lie within the region, are aligned, and a block is given out again only after it has
// been given back: it is in at most one list, and only while it is free.
unsafe impl GlobalAlloc for Heap {
    // SAFETY: as the trait asks, which the note at the head of this block answers.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(bytes) = block_bytes(layout) else { return ptr::null_mut() };
        // SAFETY: one thread alone uses the heap, and this reference ends with the call.
        let state = unsafe { &mut *self.0.get() };
        let first = &mut state.free[bytes.trailing_zeros() as usize];
        if *first != 0 {
            let block: *mut usize = ptr::with_exposed_provenance_mut(*first);
            // SAFETY: a free block holds the link that `dealloc` has written there.
            *first = unsafe { block.read() };
            return block.cast();
        }
        let start = state.next.next_multiple_of(bytes.min(ALIGN_MAX));
        match start.checked_add(bytes) {
            Some(end) if end <= state.end => {
                state.next = end;
                ptr::with_exposed_provenance_mut(start)
            }
            _ => ptr::null_mut(),
        }
    }

    // SAFETY: as the trait asks: the block came from `alloc` with this layout.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(bytes) = block_bytes(layout) else { return };
        // SAFETY: one thread alone uses the heap, and this reference ends with the call.
        let state = unsafe { &mut *self.0.get() };
        let first = &mut state.free[bytes.trailing_zeros() as usize];
        // SAFETY: the caller gives the block back, which is aligned to 16 bytes and holds a link.
        unsafe { block.cast::<usize>().write(*first) };
        *first = block.expose_provenance();
    }

    // SAFETY: as the trait asks: the block came from `alloc` with this layout.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size makes a layout.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if block_bytes(layout).is_some() && block_bytes(layout) == block_bytes(new) {
            return block;
        }
        // SAFETY: the caller's promises hold for both steps; the blocks do not overlap.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                ptr::copy_nonoverlapping(block, to, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use halcyon_base::rng::Rng;

    /// Random blocks are taken, changed in size and given back; each must hold what was last written
    /// to it (a twin in vectors says what), so no two may overlap.
    #[test]
    fn blocks_hold_what_was_written_to_them() {
        let mut memory = vec![0_u64; 1 << 17];
        let heap = Heap::new();
        // SAFETY: the vector's memory is mapped, is not touched in any other way until the end, and
        // this thread alone uses the heap.
        unsafe { heap.set(memory.as_mut_ptr().cast(), memory.len() * 8) };
        let mut rng = Rng::new(1);
        let mut twin: Vec<(*mut u8, Layout, Vec<u8>)> = Vec::new();
        let (mut full, mut grown) = (0, 0);
        for round in 0..40_000 {
            let align = 1 << rng.below(8);
            let most = [16, 300, 9000][rng.below(3) as usize];
            let size = 1 + rng.below(most) as usize;
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let fill = vec![round as u8; size];
            match rng.below(3) {
                0 if twin.len() < 150 => {
                    // SAFETY: the layout has a size.
                    let block = unsafe { heap.alloc(layout) };
                    if block.is_null() {
                        full += 1;
                        continue;
                    }
                    assert!((block as usize).is_multiple_of(align));
                    // SAFETY: the block has so many bytes.
                    unsafe { ptr::copy_nonoverlapping(fill.as_ptr(), block, size) };
                    twin.push((block, layout, fill));
                }
                choice if !twin.is_empty() => {
                    let at = rng.below(twin.len() as u64) as usize;
                    let (block, layout, expected) = twin.swap_remove(at);
                    // SAFETY: the block is in use and has so many bytes.
                    let found = unsafe { core::slice::from_raw_parts(block, layout.size()) };
                    assert_eq!(found, expected);
                    if choice == 1 {
                        // SAFETY: the block is in use, with this layout; the new size is not zero.
                        let moved = unsafe { heap.realloc(block, layout, size) };
                        if moved.is_null() {
                            twin.push((block, layout, expected));
                            continue;
                        }
                        let kept = size.min(layout.size());
                        // SAFETY: the block has so many bytes.
                        let found = unsafe { core::slice::from_raw_parts(moved, kept) };
                        assert_eq!(found, &expected[..kept]);
                        grown += 1;
                        let layout = Layout::from_size_align(size, layout.align()).expect("one");
                        // SAFETY: the block has so many bytes.
                        unsafe { ptr::copy_nonoverlapping(fill.as_ptr(), moved, size) };
                        twin.push((moved, layout, fill));
                    } else {
                        // SAFETY: the block is in use, with this layout, and is not used again.
                        unsafe { heap.dealloc(block, layout) };
                    }
                }
                _ => {}
            }
        }
        assert!(grown > 1000, "{grown} {full}");
        let (used, bytes) = heap.used();
        assert!(used <= bytes && bytes == memory.len() as u64 * 8);
    }

    #[test]
    fn a_full_heap_and_strange_alignments_give_no_block() {
        let mut memory = vec![0_u64; 64];
        let heap = Heap::default();
        // SAFETY: as above.
        unsafe { heap.set(memory.as_mut_ptr().cast(), 512) };
        let layout = |size, align| Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the layouts have sizes.
        unsafe {
            assert!(heap.alloc(layout(1024, 8)).is_null());
            assert!(heap.alloc(layout(16, 8192)).is_null());
            assert!(heap.alloc(layout(usize::MAX / 2 - 8, 8)).is_null());
        }
    }
}
