//! Pieces of memory of equal width with lasting numbers: entries of sliced maps, chunks of lists,
//! tree nodes.
//!
//! Cost: everything O(1). When all segments are full, one new segment is zeroed.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::SEGMENT_WORDS;

/// Numbered pieces of memory, all of one width.
#[derive(Debug)]
pub struct Slab {
    segments: Vec<Box<[u64]>>,
    width: usize,
    /// Logarithm of the number of pieces in a segment.
    bits: u32,
    /// Number of pieces ever given out; the pieces behind them have never been touched.
    used: usize,
    /// First free piece, as its number plus one; each free piece's first word leads to the next in
    /// the same form.
    free: u64,
    live: usize,
}

impl Slab {
    /// Makes a slab of pieces of `width` words, with no piece in use.
    pub fn new(width: usize) -> Self {
        let bits = Self::bits(width);
        Slab { segments: Vec::new(), width, bits, used: 0, free: 0, live: 0 }
    }

    /// Logarithm of the number of pieces in a segment.
    #[inline(always)]
    fn bits(width: usize) -> u32 {
        (SEGMENT_WORDS / width).max(1).ilog2()
    }

    /// The words of a piece whose width the compiler knows: see [`Slab::piece`].
    #[inline(always)]
    pub fn piece_of(&self, piece: usize, width: usize) -> &[u64] {
        let bits = Self::bits(width);
        let at = (piece & ((1 << bits) - 1)) * width;
        &self.segments[piece >> bits][at..at + width]
    }

    /// The words of a piece whose width the compiler knows, to be written.
    #[inline(always)]
    pub fn piece_of_mut(&mut self, piece: usize, width: usize) -> &mut [u64] {
        let bits = Self::bits(width);
        let at = (piece & ((1 << bits) - 1)) * width;
        &mut self.segments[piece >> bits][at..at + width]
    }

    /// Takes a piece into use and returns its number. Its words are those that the last user left.
    pub fn allocate(&mut self) -> usize {
        self.live += 1;
        if let Some(free) = (self.free as usize).checked_sub(1) {
            self.free = self.piece(free)[0];
            return free;
        }
        let piece = self.used;
        self.used += 1;
        if piece >> self.bits == self.segments.len() {
            self.push_segment();
        }
        piece
    }

    fn push_segment(&mut self) {
        self.segments.push(vec![0; self.width << self.bits].into_boxed_slice());
    }

    /// Gives a piece back.
    pub fn free(&mut self, piece: usize) {
        self.live -= 1;
        let next = self.free;
        self.piece_mut(piece)[0] = next;
        self.free = piece as u64 + 1;
    }

    /// Gives all pieces back; their memory stays.
    pub fn clear(&mut self) {
        (self.used, self.free, self.live) = (0, 0, 0);
    }

    /// Takes and touches memory for this number of pieces.
    pub fn reserve(&mut self, pieces: usize) {
        while self.segments.len() << self.bits < pieces {
            self.push_segment();
            let last = self.segments.len() - 1;
            touch(&mut self.segments[last]);
        }
    }

    /// The words of a piece.
    #[inline(always)]
    pub fn piece(&self, piece: usize) -> &[u64] {
        let at = (piece & ((1 << self.bits) - 1)) * self.width;
        &self.segments[piece >> self.bits][at..at + self.width]
    }

    /// The words of a piece, to be written.
    #[inline(always)]
    pub fn piece_mut(&mut self, piece: usize) -> &mut [u64] {
        let at = (piece & ((1 << self.bits) - 1)) * self.width;
        &mut self.segments[piece >> self.bits][at..at + self.width]
    }

    /// Copies words of one piece into another one. `from`, `to`: piece and first word.
    pub fn copy(&mut self, from: (usize, usize), to: (usize, usize), words: usize) {
        for word in 0..words {
            self.piece_mut(to.0)[to.1 + word] = self.piece(from.0)[from.1 + word];
        }
    }

    /// Pieces in use.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.segments.len() * (self.width << self.bits) * 8 + self.segments.capacity() * 16) as u64
    }

    /// Panics unless free and live pieces add up.
    pub fn check(&self) {
        let mut free = 0;
        let mut next = self.free;
        while let Some(piece) = (next as usize).checked_sub(1) {
            free += 1;
            next = self.piece(piece)[0];
        }
        assert_eq!(self.live + free, self.used);
        assert!(self.used <= self.segments.len() << self.bits);
    }
}

/// Writes to every page, so that the kernel provides it now; otherwise it would do so at the first
/// use.
pub fn touch(words: &mut [u64]) {
    const PAGE_WORDS: usize = 512;
    for word in words.iter_mut().step_by(PAGE_WORDS) {
        *core::hint::black_box(word) = 0;
    }
}
