//! Blocks of the mapping allocator are whole wherever they lie, as those of the allocator within, and large ones
//! are given back when they are freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use halcyon_base::rng::Rng;
use halcyon_machine::Mapped;
use halcyon_machine::limit::resident;

const MB: usize = 1 << 20;

/// A block of an allocator, freed when dropped.
struct Block<'a, A: GlobalAlloc> {
    allocator: &'a A,
    layout: Layout,
    pointer: *mut u8,
}

impl<'a, A: GlobalAlloc> Block<'a, A> {
    fn new(allocator: &'a A, bytes: usize, align: usize, zeroed: bool) -> Self {
        let layout = Layout::from_size_align(bytes, align).expect("a layout");
        // SAFETY: no size is zero.
        let pointer = unsafe {
            if zeroed { allocator.alloc_zeroed(layout) } else { allocator.alloc(layout) }
        };
        assert!(!pointer.is_null() && (pointer as usize).is_multiple_of(align));
        Block { allocator, layout, pointer }
    }

    fn resize(&mut self, bytes: usize) {
        // SAFETY: the block came from this allocator with this layout; no size is zero.
        self.pointer = unsafe { self.allocator.realloc(self.pointer, self.layout, bytes) };
        assert!(!self.pointer.is_null());
        self.layout = Layout::from_size_align(bytes, self.layout.align()).expect("a layout");
    }

    /// Some bytes of the block: the first, the last, and some between.
    fn places(&self) -> impl Iterator<Item = usize> + use<A> {
        let size = self.layout.size();
        (0..size).step_by(64 << 10).chain([size - 1])
    }

    fn write(&mut self, seed: u8) {
        for at in self.places() {
            // SAFETY: the place is within the block.
            unsafe { self.pointer.add(at).write(seed.wrapping_add((at >> 10) as u8)) }
        }
    }

    fn read(&self) -> Vec<u8> {
        // SAFETY: the places are within the block and have been written, or are zeros.
        self.places().map(|at| unsafe { self.pointer.add(at).read() }).collect()
    }
}

impl<A: GlobalAlloc> Drop for Block<'_, A> {
    fn drop(&mut self) {
        // SAFETY: the block came from this allocator with this layout.
        unsafe { self.allocator.dealloc(self.pointer, self.layout) }
    }
}

#[test]
fn blocks_are_those_of_the_allocator_within() {
    let mapped = Mapped(System);
    let mut random = Rng::new(11);
    let mut below = |end: usize| usize::try_from(random.below(end as u64)).expect("small");
    for round in 0..200_u8 {
        let (first, then) = (1 + below(12 * MB), 1 + below(12 * MB));
        let align = [1, 16, 4096, 1 << 16][below(4)];
        let mut block = Block::new(&mapped, first, align, false);
        let mut twin = Block::new(&System, first, align, false);
        block.write(round);
        twin.write(round);
        assert_eq!(block.read(), twin.read());
        let kept = (first.min(then) - 1) / (64 << 10);
        block.resize(then);
        twin.resize(then);
        assert_eq!(block.read()[..kept], twin.read()[..kept]);
        assert!(Block::new(&mapped, first, align, true).read().iter().all(|byte| *byte == 0));
    }
}

/// Bytes that are resident beside what was at first, once a buffer has grown to 256 MB by doubling and is freed; and
/// how long that took.
fn growth(allocator: &impl GlobalAlloc) -> (u64, f64) {
    let before = resident().expect("the system tells");
    let began = Instant::now();
    let mut block = Block::new(allocator, MB, 1, false);
    block.write(1);
    while block.layout.size() < 256 * MB {
        block.resize(2 * block.layout.size());
        block.write(1);
    }
    black_box(block.read());
    drop(block);
    let seconds = began.elapsed().as_secs_f64();
    (resident().expect("the system tells").saturating_sub(before), seconds)
}

#[test]
fn a_large_block_is_given_back_when_it_is_freed() {
    let (kept, mapped) = growth(&Mapped(System));
    let (_, within) = growth(&System);
    println!("{{\"kept_bytes\": {kept}, \"mapped_s\": {mapped:.4}, \"system_s\": {within:.4}}}");
    assert!(kept < 16 << 20, "{kept} bytes");
}
