//! An allocator that counts: it hands every call to another allocator, and tells
//! [`halcyon_base::memory`] how many bytes were allocated and freed.
//!
//! A binary installs it around the allocator of its choice:
//! `#[global_allocator] static ALLOCATOR: Counted<System> = Counted(System);`. Without it the limit of
//! a database's memory rests on what the system says of the process.
//!
//! Its twin is arithmetic: the sizes that were asked for (`tests/allocator.rs`).
//! Cost: an addition to a thread-local word per call, about a nanosecond.

use std::alloc::{GlobalAlloc, Layout};

use halcyon_base::memory::{GROWING_MIN, foresee, note};

/// An allocator whose bytes are counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<A>(pub A);

/// A size as a count. Sizes are at most `isize::MAX`, as [`Layout`] promises.
#[inline]
const fn count(bytes: usize) -> i64 {
    bytes as i64
}

// What is told to `memory` neither allocates nor unwinds.
// SAFETY: every call is handed to the inner allocator as it is, which keeps the contract.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(count(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the inner allocator's.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(count(layout.size()));
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
        note(count(size) - count(layout.size()));
        if size >= GROWING_MIN && size > layout.size() {
            foresee(count(size));
        }
        // The caller promises a size that is legal.
        // SAFETY: the pointer came from the inner allocator by `alloc` above, with this layout.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
