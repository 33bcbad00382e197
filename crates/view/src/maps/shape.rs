//! How many words keys and values take: known when compiled for the usual widths, so that loops over
//! them disappear, known at run time for the rest.

/// Widths of keys and values, in words.
pub trait Shape: Copy {
    /// Words of a key.
    fn key(self) -> usize;
    /// Words of a value.
    fn value(self) -> usize;
    /// Words of both.
    #[inline(always)]
    fn entry(self) -> usize {
        self.key() + self.value()
    }
}

/// Known when compiled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed<const KEY: usize, const VALUE: usize>;

impl<const KEY: usize, const VALUE: usize> Shape for Fixed<KEY, VALUE> {
    #[inline(always)]
    fn key(self) -> usize {
        KEY
    }
    #[inline(always)]
    fn value(self) -> usize {
        VALUE
    }
}

/// Known at run time.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    /// Words of a key.
    pub key: usize,
    /// Words of a value.
    pub value: usize,
}

impl Shape for Wide {
    #[inline(always)]
    fn key(self) -> usize {
        self.key
    }
    #[inline(always)]
    fn value(self) -> usize {
        self.value
    }
}

/// Whether two runs of words are equal; a loop, which is unrolled where the width is known.
#[inline(always)]
pub fn same(a: &[u64], b: &[u64], words: usize) -> bool {
    let (a, b) = (&a[..words], &b[..words]);
    let mut difference = 0;
    for word in 0..words {
        difference |= a[word] ^ b[word];
    }
    difference == 0
}

/// Whether all words are zero.
#[inline(always)]
pub fn is_zero(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}
