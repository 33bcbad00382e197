//! Hashes of keys: multiplications of 64 by 64 bits whose halves are folded, as in wyhash and foldhash.
//!
//! The seed is of the process, so nobody outside can choose keys that meet in one place of a table.

use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::LazyLock;

/// An odd number without pattern: the fraction of the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes with the seed of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
        Hasher { seed: *SEED }
    }

    /// The hash of a key: all bits depend on all words. Two words are multiplied with each other, each under a secret of
    /// its place, so that a key of four words waits for two multiplications.
    #[inline(always)]
    pub(crate) fn key<const N: usize>(&self, key: &[u64; N]) -> u64 {
        let secret = |place: usize| self.seed.rotate_left(place as u32 * 7) ^ FACTOR;
        let (pairs, last) = key.as_chunks::<2>();
        let mut hash = self.seed;
        for (place, [a, b]) in pairs.iter().enumerate() {
            hash ^= fold(a ^ secret(2 * place), b ^ secret(2 * place + 1));
        }
        for word in last {
            hash ^= fold(word ^ secret(N), FACTOR);
        }
        fold(hash, FACTOR)
    }

    /// The hash of a text.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut hash = self.seed ^ bytes.len() as u64;
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word), FACTOR);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(hash ^ u64::from_le_bytes(last), FACTOR)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
