//! Rows by their keys: the words of [`crate::layout`], their hashes, and the long texts that words do not tell apart.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use crate::hash::Hasher;
use crate::layout::{Layout, NULL_TEXT, SHORT};

/// Rows whose keys are hashed.
#[derive(Debug)]
pub(crate) struct Rows<const N: usize> {
    pub(crate) keys: Vec<[u64; N]>,
    pub(crate) hashes: Vec<u64>,
}

impl<const N: usize> Rows<N> {
    pub(crate) fn new() -> Self {
        Rows { keys: Vec::new(), hashes: Vec::new() }
    }

    /// The hashes of the keys.
    pub(crate) fn hash(&mut self, hasher: &Hasher) {
        self.hashes.clear();
        self.hashes.extend(self.keys.iter().map(|key| hasher.key(key)));
    }

    /// The rows with these values in the columns of their keys, not hashed.
    pub(crate) fn set_keys(&mut self, layout: &Layout, columns: &[ArrayRef], hasher: &Hasher) {
        layout.encode(columns, hasher, &mut self.keys);
    }
}

/// Whether a text with this first word is long.
pub(crate) fn is_long(first: u64) -> bool {
    first != NULL_TEXT && first as u32 > SHORT
}

/// A column of texts, of which the long ones are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Long<'a> {
    views: &'a [u128],
    buffers: &'a [Buffer],
}

impl<'a> Long<'a> {
    pub(crate) fn of(texts: &'a ArrayRef) -> Self {
        match texts.data_type() {
            DataType::Utf8View => {
                let texts = texts.as_string_view();
                Long { views: texts.views(), buffers: texts.data_buffers() }
            }
            _ => {
                let texts = texts.as_binary_view();
                Long { views: texts.views(), buffers: texts.data_buffers() }
            }
        }
    }

    /// The bytes of a row's text, which is long.
    #[inline(always)]
    pub(crate) fn bytes(&self, row: usize) -> &'a [u8] {
        let view = self.views[row];
        let (length, from) = (view as u32 as usize, (view >> 96) as usize);
        &self.buffers[(view >> 64) as u32 as usize][from..from + length]
    }
}
