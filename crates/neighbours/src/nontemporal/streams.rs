//! A scan and an output by instructions that are meant to leave the caches alone, and their plain twins.
//!
//! `prefetchnta` fetches a line that is used once (what a processor does about that is its own affair: Intel's
//! older ones fill one way of the last cache, newer ones none, AMD's manual calls the hint
//! implementation-specific); streaming stores write whole lines past the caches. Elsewhere than on x86-64 both
//! are their twins, and [`AVAILABLE`] says so.
//!
//! Unsafe: the intrinsics. Measured gain: the page of the experiment tells it, or that there is none.
#![allow(unsafe_code)]

/// Whether the instructions exist on this kind of processor.
pub const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Words of a line.
const LINE_WORDS: usize = 8;
/// How far ahead the scan fetches: lines that arrive while so many are summed.
const AHEAD_WORDS: usize = 16 * LINE_WORDS;

/// The sum of words, wrapping.
pub fn sum(words: &[u64]) -> u64 {
    sum_by(words, |_| {})
}

/// The sum of words, each line fetched ahead without a wish to keep it.
pub fn sum_non_temporal(words: &[u64]) -> u64 {
    sum_by(words, |line| prefetch(line.as_ptr().wrapping_add(AHEAD_WORDS)))
}

#[inline(always)]
fn sum_by(words: &[u64], before: impl Fn(&[u64])) -> u64 {
    let lines = words.chunks_exact(LINE_WORDS);
    let rest = lines.remainder().iter().fold(0, |sum: u64, &word| sum.wrapping_add(word));
    lines.fold(rest, |sum, line| {
        before(line);
        line.iter().fold(sum, |sum, &word| sum.wrapping_add(word))
    })
}

/// Writes `first` and the numbers behind it, wrapping.
pub fn fill(words: &mut [u64], first: u64) {
    for (word, number) in words.iter_mut().zip(0_u64..) {
        *word = first.wrapping_add(number);
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(address: *const u64) {
    use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
    // SAFETY: of every x86-64 processor; a prefetch changes nothing that can be read, at any address.
    unsafe { _mm_prefetch::<_MM_HINT_NTA>(address.cast()) }
}

/// Writes as [`fill`] does, past the caches; what was written is visible to other threads as if by plain stores.
#[cfg(target_arch = "x86_64")]
pub fn fill_streaming(words: &mut [u64], first: u64) {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
    for (word, number) in words.iter_mut().zip(0_u64..) {
        let value = i64::from_ne_bytes(first.wrapping_add(number).to_ne_bytes());
        // SAFETY: of every x86-64 processor; `word` is borrowed for writing and aligned, and takes any bits.
        unsafe { _mm_stream_si64(std::ptr::from_mut(word).cast(), value) }
    }
    // The fence orders the stores above, which Rust's memory model does not know of, before what comes behind.
    // SAFETY: of every x86-64 processor; a fence touches no memory.
    unsafe { _mm_sfence() }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const u64) {}

/// Writes as [`fill`] does: this kind of processor has no streaming stores that we know of.
#[cfg(not(target_arch = "x86_64"))]
pub fn fill_streaming(words: &mut [u64], first: u64) {
    fill(words, first);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same_at_every_length_and_place() {
        let mut random = halcyon_base::rng::Rng::new(5);
        let words: Vec<u64> = (0..4000).map(|_| random.below(u64::MAX)).collect();
        for length in (0..70).chain([511, 512, 513, 3900]) {
            for place in 0..9 {
                let part = &words[place..place + length];
                let wanted = part.iter().fold(0, |sum: u64, &word| sum.wrapping_add(word));
                assert_eq!(
                    (sum(part), sum_non_temporal(part)),
                    (wanted, wanted),
                    "{length} {place}"
                );
                let (mut plain, mut streamed) = (words.clone(), words.clone());
                let first = u64::MAX - 20;
                fill(&mut plain[place..place + length], first);
                fill_streaming(&mut streamed[place..place + length], first);
                assert_eq!(plain, streamed, "{length} {place}");
                if length > 0 {
                    let last = first.wrapping_add(length as u64 - 1);
                    assert_eq!((plain[place], plain[place + length - 1]), (first, last));
                }
                assert_eq!(plain[..place], words[..place]);
                assert_eq!(plain[place + length..], words[place + length..]);
            }
        }
    }
}
