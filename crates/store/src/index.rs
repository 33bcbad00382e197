//! An index of a partition: its definition, and a tree from keys to row ids.
//!
//! Words: a *key* has all columns of the index, a *prefix* the first of them (or all, or none). A
//! *derived* index is over values that a function computes from a row ([`Derivation`]); the function
//! may leave rows out, whose key is then *absent*.
//! Invariants (checked by [`crate::Partition::check`], which knows the rows): the tree holds exactly
//! one entry per row that is not left out; a unique index holds no two rows of equal key, unless a NULL is in it and
//! NULLs count as distinct.
//! Cost: [`IndexRef::get`] O(log n) without allocation; [`IndexRef::range`] two such searches, then
//! O(1) per row.

use crate::key::{self, KeyBuf, KeyColumn, KeyKind};
use crate::latch::Latch;
use crate::tree::{BytesKey, BytesProbe, Direction, Key, Range, Tree, WideKey};
use crate::value::{Schema, ValueRef};
use halcyon_base::{IndexId, RowId};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::ops::Bound;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The definition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// The index's id in the catalog.
    pub id: IndexId,
    /// The key, most significant column first. In a derived index each `column` is a position among
    /// the derived values.
    pub columns: Vec<KeyColumn>,
    /// The values of the key, if they are not columns of the table.
    pub derivation: Option<Derivation>,
    /// Whether two rows may not have the same key.
    pub unique: bool,
    /// Whether a key with a NULL in it differs from every other (SQL's default).
    pub nulls_distinct: bool,
}

/// The function of a derived index, and the columns that it reads.
#[derive(Clone, Debug)]
pub struct Derivation {
    /// The columns of the table that the function is given, in its order.
    pub inputs: Vec<u16>,
    /// The types of the values that it gives.
    pub values: Arc<Schema>,
    /// The function.
    pub function: Arc<dyn DeriveKey>,
}

/// Two derivations are equal if they share the function.
impl PartialEq for Derivation {
    fn eq(&self, other: &Self) -> bool {
        self.inputs == other.inputs
            && self.values == other.values
            && Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for Derivation {}

// A function of keys has no state that a panic could leave half changed.
impl UnwindSafe for Derivation {}
impl RefUnwindSafe for Derivation {}

/// Computes the keys of a derived index.
///
/// The same inputs must always give the same key: entries are found again by computing it.
pub trait DeriveKey: fmt::Debug + Send + Sync + 'static {
    /// Calls `enter` once with the values of the key of a row whose inputs are these; not at all if the
    /// index leaves the row out.
    ///
    /// Panics: may panic for inputs that have no key. The callers of [`crate::Partition`]'s writes make
    /// sure beforehand that each new row has one.
    fn derive(&self, inputs: &[ValueRef<'_>], enter: &mut dyn FnMut(&[ValueRef<'_>]));

    /// The function itself, for the crate that made it.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl IndexDef {
    /// The columns of the table that decide about a row's entry.
    pub fn inputs(&self) -> impl Iterator<Item = u16> + '_ {
        let (derived, plain) = match &self.derivation {
            Some(derivation) => (&derivation.inputs[..], &[][..]),
            None => (&[][..], &self.columns[..]),
        };
        derived.iter().copied().chain(plain.iter().map(|key| key.column))
    }

    /// The schema that the key's columns are positions in; `table` is that of the partition.
    fn key_schema<'s>(&'s self, table: &'s Schema) -> &'s Schema {
        self.derivation.as_ref().map_or(table, |derivation| &derivation.values)
    }

    fn column_mask(&self) -> u128 {
        self.inputs().fold(0, |mask, column| mask | column_bit(column))
    }
}

/// A row that cannot be stored, because `row` has the same key in the unique index `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The index.
    pub index: IndexId,
    /// The row that has the key.
    pub row: RowId,
}

/// A tree with the kind of key that the definition asks for.
#[derive(Clone)]
enum AnyTree {
    Narrow(Tree<u64>),
    Wide(Tree<WideKey>),
    Bytes(Tree<BytesKey>),
}

/// An index with its tree. Clone shares the tree.
#[derive(Clone)]
pub(crate) struct Index {
    /// The id of `def`, at hand for finding the index.
    id: IndexId,
    def: Arc<IndexDef>,
    /// Bit per table column: the key depends on it. Columns from 127 on share the last bit.
    column_mask: u128,
    tree: AnyTree,
    latch: Latch,
}

/// The mask bit of a column; see [`Index::column_mask`].
#[inline]
pub(crate) fn column_bit(column: u16) -> u128 {
    1 << column.min(127)
}

/// The key as the tree of narrow keys takes it.
#[inline]
fn narrow(number: u128) -> u64 {
    (number >> 64) as u64
}

impl Index {
    /// An index without entries.
    pub(crate) fn new(def: IndexDef, schema: &Schema, latched: bool) -> Self {
        let column_mask = def.column_mask();
        let tree = match key::kind(def.key_schema(schema), &def.columns) {
            KeyKind::Narrow => AnyTree::Narrow(Tree::default()),
            KeyKind::Wide => AnyTree::Wide(Tree::default()),
            KeyKind::Bytes => AnyTree::Bytes(Tree::default()),
        };
        let latch = Latch::new(latched);
        Index { id: def.id, def: Arc::new(def), column_mask, tree, latch }
    }

    #[inline]
    pub(crate) fn id(&self) -> IndexId {
        self.id
    }

    #[inline]
    pub(crate) fn def(&self) -> &IndexDef {
        &self.def
    }

    /// True if the key depends on a column of the mask (or may be, past column 126).
    #[inline]
    pub(crate) fn covers(&self, column_mask: u128) -> bool {
        self.column_mask & column_mask != 0
    }

    fn kind(&self) -> KeyKind {
        match self.tree {
            AnyTree::Narrow(_) => KeyKind::Narrow,
            AnyTree::Wide(_) => KeyKind::Wide,
            AnyTree::Bytes(_) => KeyKind::Bytes,
        }
    }

    /// Encodes the key of a row whose table columns have these values; an absent key if the index leaves
    /// the row out.
    #[inline]
    pub(crate) fn encode<'v>(
        &self,
        schema: &Schema,
        buf: &mut KeyBuf,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) {
        if let Some(derivation) = &self.def.derivation {
            return self.encode_derived(derivation, buf, value);
        }
        let columns = &self.def.columns[..];
        buf.encode(self.kind(), schema, columns, |at| value(columns[at].column as usize));
    }

    fn encode_derived<'v>(
        &self,
        derivation: &Derivation,
        buf: &mut KeyBuf,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) {
        let inputs = derivation.inputs.iter().map(|column| value(*column as usize));
        let inputs: SmallVec<[ValueRef<'_>; 8]> = inputs.collect();
        let columns = &self.def.columns[..];
        buf.set_absent();
        derivation.function.derive(&inputs, &mut |values| {
            let value = |at: usize| values[columns[at].column as usize];
            buf.encode(self.kind(), &derivation.values, columns, value);
        });
    }

    /// True if two rows of this key cannot be.
    #[inline]
    pub(crate) fn forbids_second(&self, key: &KeyBuf) -> bool {
        self.def.unique && !key.is_absent() && !(self.def.nulls_distinct && key.has_null())
    }

    /// The first row with this whole key.
    #[inline]
    pub(crate) fn get(&self, key: &KeyBuf) -> Option<RowId> {
        let _held = self.latch.read();
        match &self.tree {
            AnyTree::Narrow(tree) => tree.get(narrow(key.number())),
            AnyTree::Wide(tree) => tree.get(WideKey::from_number(key.number())),
            AnyTree::Bytes(tree) => tree.get(BytesProbe::exactly(key.bytes())),
        }
    }

    /// True if the row is there under this key.
    pub(crate) fn contains(&self, key: &KeyBuf, row: RowId) -> bool {
        match &self.tree {
            AnyTree::Narrow(tree) => tree.contains(narrow(key.number()), row),
            AnyTree::Wide(tree) => tree.contains(WideKey::from_number(key.number()), row),
            AnyTree::Bytes(tree) => tree.contains(BytesProbe::exactly(key.bytes()), row),
        }
    }

    /// The conflict that a row of this key would be in; `own` is the row itself if it is there
    /// already.
    #[inline]
    pub(crate) fn conflict(&self, key: &KeyBuf, own: Option<RowId>) -> Result<(), Conflict> {
        if !self.forbids_second(key) {
            return Ok(());
        }
        let other = match own {
            None => self.get(key),
            Some(own) => self.prefix(key).find(|&row| row != own),
        };
        other.map_or(Ok(()), |row| Err(Conflict { index: self.def.id, row }))
    }

    /// Adds an entry, if the index is to have one.
    #[inline]
    pub(crate) fn insert(&mut self, key: &KeyBuf, row: RowId) {
        if key.is_absent() {
            return;
        }
        let _held = self.latch.write();
        match &mut self.tree {
            AnyTree::Narrow(tree) => tree.insert(narrow(key.number()), row),
            AnyTree::Wide(tree) => tree.insert(WideKey::from_number(key.number()), row),
            AnyTree::Bytes(tree) => tree.insert(BytesKey::new(key.bytes()), row),
        }
    }

    /// Removes an entry, if the index was to have one.
    ///
    /// Panics: if there is no such entry.
    #[inline]
    pub(crate) fn remove(&mut self, key: &KeyBuf, row: RowId) {
        if key.is_absent() {
            return;
        }
        let _held = self.latch.write();
        let removed = match &mut self.tree {
            AnyTree::Narrow(tree) => tree.remove(narrow(key.number()), row),
            AnyTree::Wide(tree) => tree.remove(WideKey::from_number(key.number()), row),
            AnyTree::Bytes(tree) => tree.remove(BytesProbe::exactly(key.bytes()), row),
        };
        assert!(removed, "index {} has no entry for row {row}", self.def.id);
    }

    /// Adds the entries of many rows at once. `encode` encodes the key of a row.
    ///
    /// Errors: [`Conflict`] with the row that was there, or with one of `rows` if two of them have
    /// the same key; nothing has changed then.
    pub(crate) fn insert_many(
        &mut self,
        rows: &[RowId],
        encode: impl Fn(&Index, RowId, &mut KeyBuf),
    ) -> Result<(), Conflict> {
        let mut buf = KeyBuf::new();
        let this = self.clone_empty();
        let mut may_repeat = vec![];
        let mut note = |row: RowId, buf: &KeyBuf| {
            if this.def.unique && !this.forbids_second(buf) {
                may_repeat.push(row);
            }
        };
        macro_rules! run {
            ($tree:expr, $key:expr) => {{
                let entries = rows.iter().filter_map(|&row| {
                    encode(&this, row, &mut buf);
                    note(row, &buf);
                    (!buf.is_absent()).then(|| ($key(&buf), row))
                });
                let mut entries: Vec<_> = entries.collect();
                sort_entries(&mut entries);
                may_repeat.sort_unstable();
                let unique = this.def.unique.then_some(&may_repeat[..]);
                insert_sorted($tree, entries, unique)
            }};
        }
        let result = match &mut self.tree {
            AnyTree::Narrow(tree) => run!(tree, |buf: &KeyBuf| narrow(buf.number())),
            AnyTree::Wide(tree) => run!(tree, |buf: &KeyBuf| WideKey::from_number(buf.number())),
            AnyTree::Bytes(tree) => run!(tree, |buf: &KeyBuf| BytesKey::new(buf.bytes())),
        };
        result.map_err(|row| Conflict { index: self.def.id, row })
    }

    /// The same definition without entries.
    pub(crate) fn clone_empty(&self) -> Index {
        let tree = match self.tree {
            AnyTree::Narrow(_) => AnyTree::Narrow(Tree::default()),
            AnyTree::Wide(_) => AnyTree::Wide(Tree::default()),
            AnyTree::Bytes(_) => AnyTree::Bytes(Tree::default()),
        };
        let def = Arc::clone(&self.def);
        let latch = self.latch.clone();
        Index { id: self.id, def, column_mask: self.column_mask, tree, latch }
    }

    /// The same entries under a definition, where columns of the table moved.
    pub(crate) fn with_columns(&self, column: impl Fn(u16) -> u16) -> Index {
        let mut def = IndexDef::clone(&self.def);
        match &mut def.derivation {
            Some(derivation) => {
                derivation.inputs.iter_mut().for_each(|input| *input = column(*input));
            }
            None => def.columns.iter_mut().for_each(|key| key.column = column(key.column)),
        }
        let column_mask = def.column_mask();
        let (tree, latch) = (self.tree.clone(), self.latch.clone());
        Index { id: self.id, def: Arc::new(def), column_mask, tree, latch }
    }

    /// Rows whose key starts with `prefix`.
    pub(crate) fn prefix(&self, prefix: &KeyBuf) -> Cursor<'_> {
        self.range(Bound::Included(prefix), Bound::Included(prefix), Direction::Forward)
    }

    /// Rows between two prefixes; see [`IndexRef::range`].
    pub(crate) fn range(
        &self,
        lower: Bound<&KeyBuf>,
        upper: Bound<&KeyBuf>,
        direction: Direction,
    ) -> Cursor<'_> {
        let _held = self.latch.read();
        let numbers = || Some((number_from(lower)?, number_to(upper)));
        let rows = match &self.tree {
            AnyTree::Narrow(tree) => AnyRange::Narrow(match numbers() {
                Some((from, to)) => tree.range(narrow(from), to.map(narrow), direction),
                None => Range::empty(tree),
            }),
            AnyTree::Wide(tree) => AnyRange::Wide(match numbers() {
                Some((from, to)) => {
                    let (from, to) = (WideKey::from_number(from), to.map(WideKey::from_number));
                    tree.range(from, to, direction)
                }
                None => Range::empty(tree),
            }),
            AnyTree::Bytes(tree) => {
                let from = match lower {
                    Bound::Unbounded => BytesProbe::exactly(&[]),
                    Bound::Included(prefix) => BytesProbe::exactly(prefix.bytes()),
                    Bound::Excluded(prefix) => BytesProbe::after(prefix.bytes()),
                };
                let to = match upper {
                    Bound::Unbounded => None,
                    Bound::Included(prefix) => Some(BytesProbe::after(prefix.bytes())),
                    Bound::Excluded(prefix) => Some(BytesProbe::exactly(prefix.bytes())),
                };
                AnyRange::Bytes(tree.range(from, to, direction))
            }
        };
        Cursor { rows, latch: &self.latch }
    }

    #[cfg(all(test, feature = "latches"))]
    pub(crate) fn latch(&self) -> &Latch {
        &self.latch
    }

    /// Entries held.
    pub(crate) fn len(&self) -> u64 {
        match &self.tree {
            AnyTree::Narrow(tree) => tree.len(),
            AnyTree::Wide(tree) => tree.len(),
            AnyTree::Bytes(tree) => tree.len(),
        }
    }

    /// Memory held, in bytes. What snapshots share is counted by each of them.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.tree {
            AnyTree::Narrow(tree) => tree.bytes(),
            AnyTree::Wide(tree) => tree.bytes(),
            AnyTree::Bytes(tree) => tree.bytes(),
        }
    }

    /// Panics unless the tree's invariants hold. O(entries).
    pub(crate) fn check(&self) {
        match &self.tree {
            AnyTree::Narrow(tree) => tree.check(),
            AnyTree::Wide(tree) => tree.check(),
            AnyTree::Bytes(tree) => tree.check(),
        }
    }
}

/// The first number of a range. None if the range is empty.
fn number_from(lower: Bound<&KeyBuf>) -> Option<u128> {
    match lower {
        Bound::Unbounded => Some(0),
        Bound::Included(prefix) => Some(prefix.number()),
        Bound::Excluded(prefix) => prefix.number_after(),
    }
}

/// The first number after a range. None if the range has no end.
fn number_to(upper: Bound<&KeyBuf>) -> Option<u128> {
    match upper {
        Bound::Unbounded => None,
        Bound::Included(prefix) => prefix.number_after(),
        Bound::Excluded(prefix) => Some(prefix.number()),
    }
}

/// Sorts by key and row; runs that come sorted, as serial keys do, cost one pass.
fn sort_entries<K: Key + Ord>(entries: &mut [(K, RowId)]) {
    if !entries.is_sorted() {
        entries.sort_unstable();
    }
}

/// Adds sorted entries to a tree: by a new tree if they are many, else one by one. `unique` is
/// given for a unique index, with the rows of `entries` whose key may repeat, sorted.
///
/// Errors: a row that has a key which may not repeat; nothing has changed then.
fn insert_sorted<K: Key + Ord>(
    tree: &mut Tree<K>,
    entries: Vec<(K, RowId)>,
    unique: Option<&[RowId]>,
) -> Result<(), RowId> {
    if let Some(may_repeat) = unique {
        let binding = |row: RowId| may_repeat.binary_search(&row).is_err();
        if let Some(pair) =
            entries.windows(2).find(|pair| pair[0].0 == pair[1].0 && binding(pair[1].1))
        {
            return Err(pair[0].1);
        }
        // Serial keys come behind all that are there: one search instead of one per row.
        let overlaps = entries.first().is_some_and(|first| tree.has_from(first.0.probe()));
        if overlaps {
            let taken = entries.iter().filter(|entry| binding(entry.1));
            if let Some(row) = taken.filter_map(|entry| tree.get(entry.0.probe())).next() {
                return Err(row);
            }
        }
    }
    if entries.len() as u64 >= tree.len() / 4 {
        *tree = Tree::from_sorted(merge(tree.entries(), entries.into_iter()));
    } else {
        for (key, row) in entries {
            tree.insert(key, row);
        }
    }
    Ok(())
}

/// Merges two sorted runs.
fn merge<K: Key + Ord>(
    left: impl Iterator<Item = (K, RowId)>,
    right: impl Iterator<Item = (K, RowId)>,
) -> impl Iterator<Item = (K, RowId)> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if a <= b => left.next(),
        (_, Some(_)) => right.next(),
        _ => left.next(),
    })
}

enum AnyRange<'a> {
    Narrow(Range<'a, u64>),
    Wide(Range<'a, WideKey>),
    Bytes(Range<'a, BytesKey>),
}

/// Row ids of an index range, in order. Holds no memory of its own.
pub struct Cursor<'a> {
    rows: AnyRange<'a>,
    latch: &'a Latch,
}

impl Iterator for Cursor<'_> {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        let _held = self.latch.read();
        match &mut self.rows {
            AnyRange::Narrow(rows) => rows.next(),
            AnyRange::Wide(rows) => rows.next(),
            AnyRange::Bytes(rows) => rows.next(),
        }
    }
}

/// An index of a partition, for reading.
#[derive(Clone, Copy)]
pub struct IndexRef<'a> {
    pub(crate) index: &'a Index,
    pub(crate) schema: &'a Schema,
}

impl<'a> IndexRef<'a> {
    /// What the index is over.
    pub fn def(&self) -> &'a IndexDef {
        self.index.def()
    }

    /// Entries held: one per row of the partition, but for rows that a derived index leaves out.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Encodes the key of the row whose table columns have these values. False if the index leaves the
    /// row out; then there is no key.
    pub fn encode_row(&self, row: &[ValueRef<'_>], key: &mut KeyBuf) -> bool {
        self.index.encode(self.schema, key, |column| row[column]);
        !key.is_absent()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// Encodes the values of the first key columns (of all for a whole key) into `key`.
    ///
    /// Panics: if there are more values than key columns, or one is of another type than its
    /// column.
    #[inline]
    pub fn encode(&self, values: &[ValueRef<'_>], key: &mut KeyBuf) {
        let def = self.def();
        let columns = &def.columns[..values.len()];
        key.encode(self.index.kind(), def.key_schema(self.schema), columns, |at| values[at]);
    }

    /// The row with this whole key; if the index lets keys repeat, the first of them.
    ///
    /// NULL: equals NULL here. A caller who wants SQL's `=` asks [`KeyBuf::has_null`] before.
    #[inline]
    pub fn get(&self, key: &KeyBuf) -> Option<RowId> {
        self.index.get(key)
    }

    /// Rows whose key starts with `prefix`, in the index's order.
    pub fn prefix(&self, prefix: &KeyBuf) -> Cursor<'a> {
        self.index.prefix(prefix)
    }

    /// Rows between two prefixes, in the index's order or the opposite.
    ///
    /// A bound speaks of all keys that start with it: `Included` takes them in, `Excluded` leaves
    /// them out, at either end. `lower` and `upper` are meant in the index's order, so for a
    /// descending column `lower` has the larger value. Rows of equal key come in the order of
    /// their ids. NULLs are keys like others: `a < 5` over an ascending nullable column needs
    /// a lower bound, `Excluded` NULL if NULLs come first.
    pub fn range(
        &self,
        lower: Bound<&KeyBuf>,
        upper: Bound<&KeyBuf>,
        direction: Direction,
    ) -> Cursor<'a> {
        self.index.range(lower, upper, direction)
    }
}
