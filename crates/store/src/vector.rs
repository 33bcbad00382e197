//! Vectors of words with copy-on-write, one per column of a segment.
//!
//! A vector does not know its SQL type, only how wide its words are; [`crate::segment`] gives them
//! meaning. Floats are kept by their bits, decimals, intervals, UUIDs and string views as 16-byte
//! words.
//! Invariants, checked by `partition_behaves_as_a_map_of_rows_and_snapshots_stay` and
//! `snapshot_shares_everything_and_an_update_copies_one_vector`:
//! 1. A vector's memory never changes while another holder exists: every write goes through
//!    [`make_mut`].
//! 2. Words that no row uses keep old contents and are never read.
//!
//! Cost: a write is one load (is this the only owner?) beside the store, or a copy of the vector.

use arrow_buffer::{BooleanBuffer, Buffer};
use bytemuck::Pod;
use bytes::Bytes;
use triomphe::Arc;

use crate::copies;

/// The vector for writing: itself if there is no other holder, else a copy.
#[inline]
pub(crate) fn make_mut<T: Copy>(vector: &mut Arc<[T]>) -> &mut [T] {
    if !vector.is_unique() {
        copy(vector);
    }
    Arc::get_mut(vector).expect("nobody else can hold a vector just copied")
}

#[cold]
#[inline(never)]
fn copy<T: Copy>(vector: &mut Arc<[T]>) {
    copies::note(size_of_val(&vector[..]));
    *vector = Arc::from(&vector[..]);
}

/// The bit at `at` of a bitmap.
#[inline]
pub(crate) fn bit(words: &[u64], at: usize) -> bool {
    words[at / 64] >> (at % 64) & 1 != 0
}

/// Sets the bit at `at` of a bitmap.
#[inline]
pub(crate) fn set_bit(words: &mut [u64], at: usize, value: bool) {
    let mask = 1 << (at % 64);
    let word = &mut words[at / 64];
    *word = if value { *word | mask } else { *word & !mask };
}

/// The position behind the last bit that is set.
pub(crate) fn end_of_bits(words: &[u64]) -> usize {
    let last = words.iter().rposition(|&word| word != 0);
    last.map_or(0, |last| last * 64 + 64 - words[last].leading_zeros() as usize)
}

/// Positions of the bits that are set.
pub(crate) fn set_bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(word_idx, &word)| {
        std::iter::successors((word != 0).then_some(word), |rest| {
            let rest = rest & (rest - 1);
            (rest != 0).then_some(rest)
        })
        .map(move |rest| word_idx * 64 + rest.trailing_zeros() as usize)
    })
}

/// A vector seen as bytes, for Arrow: keeps it alive and unchanged.
struct Owner<T>(Arc<[T]>);

impl<T: Pod> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// The vector's memory as an Arrow buffer, without copying.
pub(crate) fn buffer<T: Pod + Send + Sync>(vector: &Arc<[T]>) -> Buffer {
    Buffer::from(Bytes::from_owner(Owner(Arc::clone(vector))))
}

/// The first `len` bits of a bitmap as Arrow's, without copying.
pub(crate) fn bits_buffer(words: &Arc<[u64]>, len: usize) -> BooleanBuffer {
    BooleanBuffer::new(buffer(words), 0, len)
}

/// The bits of `words` at the positions set in `keep`, moved together.
pub(crate) fn gather_bits(words: &[u64], keep: &[u64], capacity: usize) -> Arc<[u64]> {
    let mut gathered = vec![0u64; capacity.div_ceil(64)];
    for (to, from) in set_bits(keep).enumerate() {
        set_bit(&mut gathered, to, bit(words, from));
    }
    Arc::from(gathered)
}

/// How wide the words of a vector are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// One bit.
    Bit,
    /// Two bytes.
    W2,
    /// Four bytes.
    W4,
    /// Eight bytes.
    W8,
    /// Sixteen bytes.
    W16,
}

/// Words of one width.
#[derive(Clone, Debug)]
pub(crate) enum Vector {
    /// Bits, 64 to a word.
    Bits(Arc<[u64]>),
    /// Two-byte words.
    W2(Arc<[i16]>),
    /// Four-byte words.
    W4(Arc<[i32]>),
    /// Eight-byte words.
    W8(Arc<[i64]>),
    /// Sixteen-byte words.
    W16(Arc<[u128]>),
}

/// Evaluates the body with `$words` bound to the vector's words, whatever their width.
macro_rules! each_width {
    ($vector:expr, $words:ident => $body:expr) => {
        match $vector {
            Vector::Bits($words) => $body,
            Vector::W2($words) => $body,
            Vector::W4($words) => $body,
            Vector::W8($words) => $body,
            Vector::W16($words) => $body,
        }
    };
}

fn zeroes<T: Pod>(count: usize) -> Arc<[T]> {
    std::iter::repeat_n(T::zeroed(), count).collect()
}

fn grown<T: Pod>(words: &[T], count: usize) -> Arc<[T]> {
    let more = count.saturating_sub(words.len());
    words.iter().copied().chain(std::iter::repeat_n(T::zeroed(), more)).collect()
}

fn gathered<T: Copy>(words: &[T], keep: &[u64]) -> Arc<[T]> {
    let kept: Vec<T> = set_bits(keep).map(|at| words[at]).collect();
    Arc::from(kept)
}

fn move_word<T: Copy>(words: &mut Arc<[T]>, from: usize, to: usize) {
    make_mut(words)[to] = words[from];
}

macro_rules! accessor {
    ($get:ident, $get_mut:ident, $variant:ident, $word:ty) => {
        #[doc = concat!("The words; panics unless they are `", stringify!($word), "`.")]
        #[inline]
        pub(crate) fn $get(&self) -> &[$word] {
            match self {
                Vector::$variant(words) => words,
                other => other.wrong_width(),
            }
        }

        #[doc = concat!("The words for writing; panics unless they are `", stringify!($word), "`.")]
        #[inline]
        pub(crate) fn $get_mut(&mut self) -> &mut [$word] {
            match self {
                Vector::$variant(words) => make_mut(words),
                other => other.wrong_width(),
            }
        }
    };
}

impl Vector {
    /// A vector for `capacity` rows, all zero.
    pub(crate) fn new(width: Width, capacity: usize) -> Self {
        match width {
            Width::Bit => Vector::Bits(zeroes(capacity.div_ceil(64))),
            Width::W2 => Vector::W2(zeroes(capacity)),
            Width::W4 => Vector::W4(zeroes(capacity)),
            Width::W8 => Vector::W8(zeroes(capacity)),
            Width::W16 => Vector::W16(zeroes(capacity)),
        }
    }

    accessor!(bits, bits_mut, Bits, u64);
    accessor!(w2, w2_mut, W2, i16);
    accessor!(w4, w4_mut, W4, i32);
    accessor!(w8, w8_mut, W8, i64);
    accessor!(w16, w16_mut, W16, u128);

    #[cold]
    fn wrong_width(&self) -> ! {
        panic!("a vector of {:?} was asked for words of another width", self.width())
    }

    /// How wide the words are.
    pub(crate) fn width(&self) -> Width {
        match self {
            Vector::Bits(_) => Width::Bit,
            Vector::W2(_) => Width::W2,
            Vector::W4(_) => Width::W4,
            Vector::W8(_) => Width::W8,
            Vector::W16(_) => Width::W16,
        }
    }

    /// For how many rows there is room.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Vector::Bits(words) => words.len() * 64,
            Vector::W2(words) => words.len(),
            Vector::W4(words) => words.len(),
            Vector::W8(words) => words.len(),
            Vector::W16(words) => words.len(),
        }
    }

    /// Makes room for `capacity` rows; what is there stays.
    pub(crate) fn grow(&mut self, capacity: usize) {
        match self {
            Vector::Bits(words) => *words = grown(words, capacity.div_ceil(64)),
            Vector::W2(words) => *words = grown(words, capacity),
            Vector::W4(words) => *words = grown(words, capacity),
            Vector::W8(words) => *words = grown(words, capacity),
            Vector::W16(words) => *words = grown(words, capacity),
        }
    }

    /// Memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        each_width!(self, words => size_of_val::<[_]>(words))
    }

    /// The memory as an Arrow buffer, without copying.
    pub(crate) fn buffer(&self) -> Buffer {
        each_width!(self, words => buffer(words))
    }

    /// The `count` words at the positions set in `keep`, moved together.
    pub(crate) fn gather(&self, keep: &[u64], count: usize) -> Vector {
        match self {
            Vector::Bits(words) => Vector::Bits(gather_bits(words, keep, count)),
            Vector::W2(words) => Vector::W2(gathered(words, keep)),
            Vector::W4(words) => Vector::W4(gathered(words, keep)),
            Vector::W8(words) => Vector::W8(gathered(words, keep)),
            Vector::W16(words) => Vector::W16(gathered(words, keep)),
        }
    }

    /// Moves the first words to the places given, which ascend; `places[n] >= n` then.
    pub(crate) fn spread(&mut self, places: &[usize]) {
        // From the last on, so that no word is overwritten before it has moved.
        let moves = || places.iter().enumerate().rev();
        match self {
            Vector::Bits(words) => {
                let words = make_mut(words);
                for (from, &to) in moves() {
                    let value = bit(words, from);
                    set_bit(words, to, value);
                }
            }
            Vector::W2(words) => moves().for_each(|(from, &to)| move_word(words, from, to)),
            Vector::W4(words) => moves().for_each(|(from, &to)| move_word(words, from, to)),
            Vector::W8(words) => moves().for_each(|(from, &to)| move_word(words, from, to)),
            Vector::W16(words) => moves().for_each(|(from, &to)| move_word(words, from, to)),
        }
    }

    /// Where the words lie: differs exactly if a copy was made.
    pub(crate) fn address(&self) -> usize {
        each_width!(self, words => words[..].as_ptr() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sole_owner_writes_in_place_and_others_keep_what_they_saw() {
        let mut vector = Vector::new(Width::W8, 64);
        let place = vector.address();
        vector.w8_mut()[3] = 7;
        assert_eq!(vector.address(), place);
        let snapshot = vector.clone();
        vector.w8_mut()[3] = 8;
        assert_ne!(vector.address(), place);
        assert_eq!((snapshot.w8()[3], vector.w8()[3]), (7, 8));
        drop(snapshot);
        let place = vector.address();
        vector.w8_mut()[3] = 9;
        assert_eq!(vector.address(), place);
    }

    #[test]
    fn arrow_buffer_is_the_vector_itself() {
        let mut vector = Vector::new(Width::W4, 64);
        vector.w4_mut()[1] = 5;
        let buffer = vector.buffer();
        assert_eq!(buffer.as_ptr() as usize, vector.address());
        vector.w4_mut()[1] = 6;
        assert_eq!(buffer.typed_data::<i32>()[1], 5);
    }

    #[test]
    fn every_width_grows_and_gathers() {
        for width in [Width::Bit, Width::W2, Width::W4, Width::W8, Width::W16] {
            let mut vector = Vector::new(width, 64);
            match width {
                Width::Bit => set_bit(vector.bits_mut(), 63, true),
                Width::W2 => vector.w2_mut()[63] = 1,
                Width::W4 => vector.w4_mut()[63] = 1,
                Width::W8 => vector.w8_mut()[63] = 1,
                Width::W16 => vector.w16_mut()[63] = 1,
            }
            vector.grow(256);
            assert_eq!((vector.width(), vector.capacity()), (width, 256));
            let kept = vector.gather(&[1 << 63 | 1, 0, 0, 0], 2);
            let second = match width {
                Width::Bit => bit(kept.bits(), 1) as u128,
                Width::W2 => kept.w2()[1] as u128,
                Width::W4 => kept.w4()[1] as u128,
                Width::W8 => kept.w8()[1] as u128,
                Width::W16 => kept.w16()[1],
            };
            assert_eq!(second, 1, "{width:?}");
        }
    }

    #[test]
    fn set_bits_are_listed_in_order() {
        let words = [1 | 1 << 63, 0, u64::MAX, 0];
        let listed: Vec<_> = set_bits(&words).collect();
        assert_eq!(listed[..3], [0, 63, 128]);
        assert_eq!(listed.len(), 66);
        assert_eq!((end_of_bits(&words), end_of_bits(&[0, 0])), (192, 0));
    }
}
