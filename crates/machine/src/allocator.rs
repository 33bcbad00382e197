//! An allocator that counts: it hands every call to another allocator, and tells
//! [`halcyon_base::memory`] how many bytes were allocated and freed.
//!
//! A binary installs it around the allocator of its choice:
//! `#[global_allocator] static ALLOCATOR: Counted<System> = Counted(System);`. Without it the limit of
//! a database's memory rests on what the system says of the process.
//!
//! Its twin is arithmetic: the sizes that were asked for (`tests/allocator.rs`).
//! A large block is asked for before it is allocated: its statement may be refused, and held until there is room.
//! While a large block is moved to grow, both count.
//! Cost: an addition to a thread-local word per call, and a look at the size (`docs/testing.md` has the command
//! that measures it).

use std::alloc::{GlobalAlloc, Layout};

use halcyon_base::memory::{GROWING_MIN, LARGE_BLOCK, ask, foresee, note};

/// An allocator whose bytes are counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<A>(pub A);

/// A size as a count. Sizes are at most `isize::MAX`, as [`Layout`] promises.
#[inline]
const fn count(bytes: usize) -> i64 {
    bytes as i64
}

/// Counts a block that is about to be allocated.
#[inline]
fn count_block(bytes: usize) {
    if bytes >= LARGE_BLOCK {
        ask(count(bytes));
    }
    note(count(bytes));
}

// What is told to `memory` neither allocates nor unwinds.
// SAFETY: every call is handed to the inner allocator as it is, which keeps the contract.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_block(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the inner allocator's.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_block(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the inner allocator's.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-count(layout.size()));
        // SAFETY: the pointer came from the inner allocator by `alloc` above, with this layout.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grows = size >= LARGE_BLOCK && size > layout.size();
        if grows {
            count_block(size);
        } else {
            note(count(size) - count(layout.size()));
        }
        if grows && size >= GROWING_MIN {
            foresee(count(size));
        }
        // The caller promises a size that is legal.
        // SAFETY: the pointer came from the inner allocator by `alloc` above, with this layout.
        let moved = unsafe { self.0.realloc(pointer, layout, size) };
        if grows {
            note(-count(layout.size()));
        }
        moved
    }
}
