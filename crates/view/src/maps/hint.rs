//! Prefetch hints: they ask the memory for data that will be read soon, and wait for nothing.

/// How many events ahead of its turn the places of an event's entries are asked for, and how many
/// events ahead the entries to which they lead.
pub const PLACES_AHEAD: usize = 16;
/// How many events ahead entries are asked for: see [`PLACES_AHEAD`].
pub const ENTRIES_AHEAD: usize = 8;

/// Whether hints have any effect in this build.
pub const HELPS: bool = cfg!(all(feature = "native", target_arch = "x86_64"));

/// Asks for the cache line of a word. Does nothing without the feature `native` or on another
/// processor: safe code could only load the word, and a load has to finish, which cost more than it
/// brought.
#[cfg(all(feature = "native", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "no safe function of the standard library does it")]
#[inline(always)]
pub fn ask_for(word: &u64) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint may be given for any address, and all processors of this architecture know it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(word).cast()) }
}

/// Asks for a few words side by side: for the one or two cache lines in which they lie.
#[inline(always)]
pub fn ask_for_all(words: &[u64]) {
    let [first, .., last] = words else { return words.iter().for_each(ask_for) };
    ask_for(first);
    let line = |word: &u64| core::ptr::from_ref(word) as usize / 64;
    if line(first) != line(last) {
        ask_for(last);
    }
}

/// Does nothing in this build.
#[cfg(not(all(feature = "native", target_arch = "x86_64")))]
#[inline(always)]
pub fn ask_for(_: &u64) {}
