//! An allocator that has large blocks mapped by the system, each by itself, and leaves the others to an
//! allocator within.
//!
//! Allocators keep what was freed for a while. Of large blocks that is too much where memory is limited: a statement
//! that ends leaves hundreds of megabytes resident which nobody has, and the next one's come on top. A mapped block
//! is gone when it is freed, and it grows without being copied.
//!
//! Its twin is the allocator within (`tests/mapped.rs`).
//! Measured there: 256 MB that a buffer has grown to by doubling are given back at once, in a third of the time that
//! the system's allocator takes with copies of its own.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

/// Blocks from this size on are mapped.
const MAPPED_MIN: usize = 4 << 20;
/// The least alignment that every mapping has.
const PAGE: usize = 4096;

/// An allocator that has large blocks mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped<A>(pub A);

/// Whether a block is mapped: the same for all of its life.
#[inline]
const fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_MIN && layout.align() <= PAGE
}

/// A mapping of zeros; null if the system has none.
#[cold]
fn map(bytes: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the system has room, touches nothing that is there.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { ptr::null_mut() } else { mapped.cast() }
}

// Blocks are mapped and unmapped whole, and moved by the system or by a copy; sizes above zero and below
// `isize::MAX` are what the system takes.
// SAFETY: `is_mapped` tells of each layout where its block is, and a page's alignment is all that mapped ones ask.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Mapped<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_mapped(layout) {
            true => map(layout.size()),
            // SAFETY: the caller keeps the contract of `alloc`, which is the inner allocator's.
            false => unsafe { self.0.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_mapped(layout) {
            true => map(layout.size()),
            // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the inner allocator's.
            false => unsafe { self.0.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: the block is a mapping of this size, which nobody uses any longer.
            unsafe { libc::munmap(pointer.cast(), layout.size()) };
        } else {
            // SAFETY: the pointer came from the inner allocator, with this layout.
            unsafe { self.0.dealloc(pointer, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is legal with this alignment.
        let to = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_mapped(layout), is_mapped(to)) {
            (false, false) => {
                // SAFETY: the pointer came from the inner allocator, with this layout.
                unsafe { self.0.realloc(pointer, layout, size) }
            }
            (true, true) => {
                // SAFETY: the block is a mapping of this size; where it moves, the old place is used no longer.
                let moved = unsafe {
                    libc::mremap(pointer.cast(), layout.size(), size, libc::MREMAP_MAYMOVE)
                };
                if moved == libc::MAP_FAILED { ptr::null_mut() } else { moved.cast() }
            }
            _ => {
                // SAFETY: as the two calls' own contracts; the smaller of the sizes is within both blocks.
                unsafe {
                    let moved = self.alloc(to);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size));
                        self.dealloc(pointer, layout);
                    }
                    moved
                }
            }
        }
    }
}
