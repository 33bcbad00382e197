//! Shared memory as atomic words.

#![cfg_attr(
    not(shuttle),
    expect(unsafe_code, reason = "memory that two sides share becomes words")
)]

#[cfg(not(shuttle))]
use crate::sync::AtomicU64;

/// The memory at an address as atomic words.
///
/// # Safety
/// `start` is aligned to 8 bytes, and the `words` × 8 bytes from there are mapped, readable and
/// writable for as long as `'a`; this program touches them in no other way than through such words.
/// What other programs or virtual machines write there is no matter: every value of a word is valid.
#[cfg(not(shuttle))]
pub unsafe fn words<'a>(start: *mut u8, words: usize) -> &'a [AtomicU64] {
    debug_assert!(start.cast::<u64>().is_aligned());
    // SAFETY: the caller promises aligned, mapped memory that only atomics touch; `AtomicU64` has the
    // layout of `u64`, and all its values are valid.
    unsafe { core::slice::from_raw_parts(start.cast::<AtomicU64>(), words) }
}

/// Words of the model checker are no memory: no cell runs in a build for it.
///
/// # Safety
/// None is needed: there is no return.
#[cfg(shuttle)]
#[expect(unsafe_code, reason = "the same signature as that of builds with cells")]
pub unsafe fn words<'a>(_: *mut u8, _: usize) -> &'a [crate::sync::AtomicU64] {
    unreachable!("a build for the model checker has no cells")
}
