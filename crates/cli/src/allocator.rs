//! The binary's allocator: mimalloc, whose bytes are counted for the limit of memory, and below which large blocks
//! are mapped one by one.

use std::ffi::c_long;

use halcyon::{Counted, Mapped};
use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Counted<Mapped<MiMalloc>> = Counted(Mapped(MiMalloc));

/// After so many milliseconds memory that was freed is given back, at the next occasion. The default is a
/// second: in a small container freed memory would look like memory in use.
const GIVEN_BACK_AFTER_MS: c_long = 10;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings leave out.
const PURGE_DELAY: mi_option_t = 15;

/// Processes that may have less than this do without transparent huge pages: of two megabytes that one small
/// value keeps in use, the rest cannot be given back.
const HUGE_PAGES_FROM: u64 = 4 << 30;

/// Sets the allocator's options.
pub(crate) fn configure() {
    if halcyon::memory_max().is_some_and(|most| most < HUGE_PAGES_FROM) {
        halcyon::without_huge_pages();
    }
    // SAFETY: options may be set at any time; this one is read when memory is freed.
    unsafe { mi_option_set(PURGE_DELAY, GIVEN_BACK_AFTER_MS) }
}

/// Gives memory that mimalloc keeps for the calling thread back to the system now. By itself it does so only when
/// the thread asks it for more.
pub(crate) fn give_back() {
    // SAFETY: `mi_collect` may be called by any thread at any time; it frees what nobody has allocated.
    unsafe { mi_collect(true) }
}
