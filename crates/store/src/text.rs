//! The only unsafe code of this crate: text read back is not validated again.
//!
//! Every string that a text column holds came in as `&str` (or in an Arrow string array, which is
//! valid by construction), was copied byte for byte, and cannot have changed since (invariant 4 of
//! [`crate::heap`]; views live in vectors that only [`crate::segment`] writes). So the bytes of a
//! live row's view are UTF-8.
//!
//! Gain (2026-11-21, Xeon 2.8 GHz, `--example point`): reading 31-byte texts row by row takes 4.0 ns
//! each, checked 13.8; handing two text columns to Arrow below 0.01 ns per row, checked 32.
//! Safe twins: [`checked_str`], [`checked_array`]; builds with debug assertions, so all tests, use
//! these or compare with them.

#![allow(unsafe_code)]

use arrow::array::{BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// The text of a stored string.
///
/// # Safety
/// `bytes` were stored from a `&str` and not changed since.
#[inline]
pub(crate) unsafe fn stored_str(bytes: &[u8]) -> &str {
    debug_assert_eq!(checked_str(bytes).as_bytes(), bytes);
    // SAFETY: the caller promises that these are the bytes of a `&str`.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

/// [`stored_str`] with a check: its safe twin.
pub(crate) fn checked_str(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("stored text came in as text")
}

/// An Arrow array over views and blocks.
///
/// # Safety
/// Every view of `views`, those of NULLs included, is 0 or was returned by the heap whose blocks
/// are `blocks`, for a string that was stored from a `&str`.
pub(crate) unsafe fn string_array(
    views: ScalarBuffer<u128>,
    blocks: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> StringViewArray {
    if cfg!(debug_assertions) {
        return checked_array(views, blocks, nulls);
    }
    // SAFETY: `Heap::store` makes views as Arrow wants them (invariants 1 and 2 of the heap), and
    // the caller promises that the bytes they stand for came from a `&str`.
    unsafe { StringViewArray::new_unchecked(views, blocks, nulls) }
}

/// [`string_array`] with a check: its safe twin.
pub(crate) fn checked_array(
    views: ScalarBuffer<u128>,
    blocks: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> StringViewArray {
    StringViewArray::new(views, blocks, nulls)
}

/// An Arrow array of byte strings over views and blocks.
///
/// # Safety
/// As [`string_array`], but the strings may be any bytes.
pub(crate) unsafe fn binary_array(
    views: ScalarBuffer<u128>,
    blocks: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> BinaryViewArray {
    if cfg!(debug_assertions) {
        return BinaryViewArray::new(views, blocks, nulls);
    }
    // SAFETY: `Heap::store` makes views as Arrow wants them (invariants 1 and 2 of the heap).
    unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) }
}
