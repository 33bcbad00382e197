//! The keys of groups: a hash table from keys to the numbers of groups, counted from zero as they are met.
//!
//! Open addressing with linear probing. A slot has the upper half of a hash and the number of a group plus one, so
//! a probe rarely looks at a key in vain; the lowest bits of that half say where the slot is, so a table grows from its
//! slots alone, from one end to the other. Keys lie one behind the other; the bytes of long texts in [`Texts`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::hash::Hasher;
use crate::layout::{Layout, NULL_TEXT, SHORT};

/// Slots of a table that was just made.
const SLOTS_FIRST: usize = 1 << 10;
/// Bytes of a block of texts, at least; a longer text has one of its own.
const BLOCK_BYTES: usize = 1 << 16;

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

    /// The rows with these values in the columns of their keys.
    pub(crate) fn set(&mut self, layout: &Layout, columns: &[ArrayRef], hasher: &Hasher) {
        layout.encode(columns, hasher, &mut self.keys);
        self.hash(hasher);
    }

    /// The hashes of the keys.
    pub(crate) fn hash(&mut self, hasher: &Hasher) {
        self.hashes.clear();
        self.hashes.extend(self.keys.iter().map(|key| hasher.key(key)));
    }

    /// The same without hashes.
    pub(crate) fn set_keys(&mut self, layout: &Layout, columns: &[ArrayRef], hasher: &Hasher) {
        layout.encode(columns, hasher, &mut self.keys);
    }

    pub(crate) fn size(&self) -> usize {
        self.keys.capacity() * size_of::<[u64; N]>() + self.hashes.capacity() * 8
    }
}

/// Keys of groups and where to find them.
#[derive(Debug)]
pub(crate) struct Keys<const N: usize> {
    layout: Arc<Layout>,
    hasher: Hasher,
    /// As many as a power of two, at most five eighths in use. Zero: free.
    slots: Vec<u64>,
    keys: Vec<[u64; N]>,
    texts: Vec<Texts>,
}

impl<const N: usize> Keys<N> {
    pub(crate) fn new(layout: Arc<Layout>, hasher: Hasher) -> Self {
        let texts = layout.texts().map(|(column, word)| Texts::new(column, word)).collect();
        Keys { layout, hasher, slots: Vec::new(), keys: Vec::new(), texts }
    }

    /// Groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn size(&self) -> usize {
        let texts: usize = self.texts.iter().map(Texts::size).sum();
        self.slots.capacity() * 8 + self.keys.capacity() * size_of::<[u64; N]>() + texts
    }

    /// The number of each row's group into `groups`; rows with new keys begin groups. `texts`: the rows' texts.
    pub(crate) fn find(&mut self, rows: &Rows<N>, texts: &impl TextsOf, groups: &mut Vec<usize>) {
        groups.clear();
        groups.reserve(rows.keys.len());
        // Rows in the order of their keys are common: a row is first tried on the group of the one before.
        let mut last = usize::MAX;
        for (row, (key, &hash)) in rows.keys.iter().zip(&rows.hashes).enumerate() {
            let again = self.keys.get(last).is_some_and(|before| before == key);
            if !again || !self.has_same_texts(last, key, row, texts) {
                last = self.group(key, hash, row, texts);
            }
            groups.push(last);
        }
    }

    #[inline]
    fn group(&mut self, key: &[u64; N], hash: u64, row: usize, texts: &impl TextsOf) -> usize {
        if self.keys.len() * 8 >= self.slots.len() * 5 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                let group = self.keys.len();
                self.slots[at] = slot_of(hash, group);
                self.keys.push(*key);
                for (number, kept) in self.texts.iter_mut().enumerate() {
                    kept.push(key, || texts.text(number, row));
                }
                return group;
            }
            if (slot ^ hash) >> 32 == 0 {
                let group = (slot as u32 - 1) as usize;
                if self.keys[group] == *key && self.has_same_texts(group, key, row, texts) {
                    return group;
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether a group's long texts are a row's, whose words are the same.
    #[inline]
    fn has_same_texts(
        &self,
        group: usize,
        key: &[u64; N],
        row: usize,
        texts: &impl TextsOf,
    ) -> bool {
        let mut all = self.texts.iter().enumerate();
        all.all(|(number, kept)| {
            !is_long(key[kept.word]) || kept.bytes(group, key) == texts.text(number, row)
        })
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_FIRST);
        let before = std::mem::replace(&mut self.slots, vec![0; slots]);
        let mask = slots - 1;
        for slot in before.into_iter().filter(|&slot| slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// All keys, to be given out in the order of groups; the table is empty then.
    pub(crate) fn take(&mut self) -> Taken<N> {
        self.slots.fill(0);
        Taken {
            layout: Arc::clone(&self.layout),
            hasher: self.hasher,
            keys: std::mem::take(&mut self.keys),
            texts: self.texts.iter_mut().map(Texts::take).collect(),
            from: 0,
        }
    }
}

/// Keys that were taken out of a table.
#[derive(Debug)]
pub(crate) struct Taken<const N: usize> {
    layout: Arc<Layout>,
    hasher: Hasher,
    keys: Vec<[u64; N]>,
    texts: Vec<TakenTexts>,
    /// Keys that were given.
    from: usize,
}

impl<const N: usize> Taken<N> {
    /// Keys that are left.
    pub(crate) fn left(&self) -> usize {
        self.keys.len() - self.from
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let texts: usize = self.texts.iter().map(|texts| texts.bytes).sum();
        self.keys.capacity() * size_of::<[u64; N]>() + texts
    }

    /// The columns of the next keys, at most `count`.
    pub(crate) fn columns(&mut self, count: usize) -> Result<Vec<ArrayRef>> {
        let (from, count) = (self.from, count.min(self.left()));
        self.from += count;
        let keys = &self.keys[from..from + count];
        let layout = &self.layout;
        let column = |number: usize| match self.texts.iter().find(|texts| texts.column == number) {
            Some(texts) => texts.column(keys, from, layout.ty(number)),
            None => Ok(layout.decode(number, keys)),
        };
        (0..layout.columns()).map(column).collect()
    }

    /// The next keys as rows, at most `count`, and their texts, in the order of [`Layout::texts`].
    pub(crate) fn rows(&mut self, count: usize) -> Result<(Rows<N>, Vec<ArrayRef>)> {
        let (from, count) = (self.from, count.min(self.left()));
        self.from += count;
        let keys = &self.keys[from..from + count];
        let texts = self.texts.iter();
        let texts = texts.map(|texts| texts.column(keys, from, self.layout.ty(texts.column)));
        let texts = texts.collect::<Result<_>>()?;
        let hashes = keys.iter().map(|key| self.hasher.key(key)).collect();
        Ok((Rows { keys: keys.to_vec(), hashes }, texts))
    }
}

/// A column of texts that was taken out of a table.
#[derive(Debug)]
struct TakenTexts {
    column: usize,
    word: usize,
    places: Vec<u64>,
    blocks: Vec<Buffer>,
    bytes: usize,
}

impl TakenTexts {
    /// The column of these keys, the first of which is number `from`.
    fn column<const N: usize>(
        &self,
        keys: &[[u64; N]],
        from: usize,
        ty: &DataType,
    ) -> Result<ArrayRef> {
        let view = |(key, &place): (&[u64; N], &u64)| match key[self.word] {
            NULL_TEXT => 0,
            first if is_long(first) => u128::from(place) << 64 | u128::from(first),
            first => u128::from(key[self.word + 1]) << 64 | u128::from(first),
        };
        let views: Vec<u128> = keys.iter().zip(&self.places[from..]).map(view).collect();
        let is_null = |key: &[u64; N]| key[self.word] == NULL_TEXT;
        let nulls = keys.iter().any(is_null);
        let nulls = nulls.then(|| keys.iter().map(|key| !is_null(key)).collect::<NullBuffer>());
        let (views, blocks) = (ScalarBuffer::from(views), self.blocks.clone());
        Ok(match ty {
            DataType::Utf8View => Arc::new(StringViewArray::try_new(views, blocks, nulls)?),
            _ => Arc::new(BinaryViewArray::try_new(views, blocks, nulls)?),
        })
    }
}

fn slot_of(hash: u64, group: usize) -> u64 {
    let number = u32::try_from(group + 1).expect("fewer than four thousand million groups");
    hash >> 32 << 32 | u64::from(number)
}

pub(crate) fn is_long(first: u64) -> bool {
    first != NULL_TEXT && first as u32 > SHORT
}

/// The long texts in the keys of rows that are looked up.
pub(crate) trait TextsOf {
    /// The bytes of a row's long text in one of the columns that are texts, in the order of [`Layout::texts`].
    fn text(&self, column: usize, row: usize) -> &[u8];
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

/// Texts in columns as long as the rows.
impl TextsOf for Vec<Long<'_>> {
    #[inline(always)]
    fn text(&self, column: usize, row: usize) -> &[u8] {
        self[column].bytes(row)
    }
}

/// The bytes of a column of long texts. They stay where they were put until all are taken.
#[derive(Debug)]
struct Texts {
    column: usize,
    /// The first word of the column in a key.
    word: usize,
    /// By group: block and offset of a long text, as a view of Arrow has them.
    places: Vec<u64>,
    blocks: Vec<Vec<u8>>,
}

impl Texts {
    fn new(column: usize, word: usize) -> Self {
        Texts { column, word, places: Vec::new(), blocks: Vec::new() }
    }

    fn size(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Vec::capacity).sum();
        self.places.capacity() * 8 + blocks
    }

    fn push<'t, const N: usize>(&mut self, key: &[u64; N], text: impl FnOnce() -> &'t [u8]) {
        if !is_long(key[self.word]) {
            self.places.push(0);
            return;
        }
        let bytes = text();
        let has_room =
            self.blocks.last().is_some_and(|block| block.capacity() - block.len() >= bytes.len());
        if !has_room {
            self.blocks.push(Vec::with_capacity(bytes.len().max(BLOCK_BYTES)));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        self.places.push((block.len() as u64) << 32 | number as u64);
        block.extend_from_slice(bytes);
    }

    /// The long text of a group with this key.
    fn bytes<const N: usize>(&self, group: usize, key: &[u64; N]) -> &[u8] {
        let (place, length) = (self.places[group], key[self.word] as u32 as usize);
        let from = (place >> 32) as usize;
        &self.blocks[place as u32 as usize][from..from + length]
    }

    fn take(&mut self) -> TakenTexts {
        let bytes = self.size();
        let blocks = std::mem::take(&mut self.blocks);
        TakenTexts {
            column: self.column,
            word: self.word,
            places: std::mem::take(&mut self.places),
            blocks: blocks.into_iter().map(Buffer::from_vec).collect(),
            bytes,
        }
    }
}
