//! Prefetch hints: memory is asked for data that will be looked at, without waiting for it.

/// How many events before its turn an event's places in tables are asked for, and how many before it
/// the entries to which they lead.
pub const PLACES_AHEAD: usize = 16;
/// See [`PLACES_AHEAD`].
pub const ENTRIES_AHEAD: usize = 8;

/// Whether asking has any effect.
pub const HELPS: bool = cfg!(all(feature = "native", target_arch = "x86_64"));

/// Asks for the cache line of a word. Without machine code's feature, or on another processor, it does
/// nothing: a load in safe code is one that the processor has to finish, which cost more than it
/// brought.
#[cfg(all(feature = "native", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "no safe function of the standard library does it")]
#[inline(always)]
pub fn ask_for(word: &u64) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint may be given for any address, and all processors of this architecture know it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(word).cast()) }
}

/// Asks for a few words side by side: for the one or two cache lines that they lie in.
#[inline(always)]
pub fn ask_for_all(words: &[u64]) {
    let [first, .., last] = words else { return words.iter().for_each(ask_for) };
    ask_for(first);
    let line = |word: &u64| core::ptr::from_ref(word) as usize / 64;
    if line(first) != line(last) {
        ask_for(last);
    }
}

/// Does nothing here.
#[cfg(not(all(feature = "native", target_arch = "x86_64")))]
#[inline(always)]
pub fn ask_for(_: &u64) {}
