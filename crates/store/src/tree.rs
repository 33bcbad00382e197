//! A B+tree with copy-on-write nodes, from keys to row ids: the inside of every index.
//!
//! Words: an *entry* is a key and a row id; entries are ordered by key, then row, so equal keys
//! need no special case. A *separator* stands between two children: all entries to its left are
//! smaller, none to its right is. A *probe* is a key to search for, without owning memory.
//! Invariants, checked by [`Tree::check`]:
//! 1. Entries of a leaf, separators of an inner node and the tree's entries as a whole ascend.
//! 2. Entries of a child lie between the separators beside it.
//! 3. All leaves have the same depth; no node is empty but the whole tree's.
//! 4. Places of a node beyond its entries hold [`Key::filler`], which sorts behind every key.
//! 5. A node that somebody else holds does not change: it is copied first, with its path.
//!
//! Cost: `get`, `insert`, `remove` O(log n). Keys lie in the node itself; a search in a node looks
//! at one key per cache line first, so that the lines come from memory at the same time.
//! Deletion merges neighbours only when both are rather empty, so a tree that shrinks and grows
//! does not split and merge in turn.

use crate::copies::own;
use halcyon_base::RowId;
use std::cmp::Ordering;
use triomphe::{Arc, ThinArc};

/// In which order a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The tree's order.
    Forward,
    /// The opposite.
    Backward,
}

/// Entries of a leaf.
const LEAF: usize = 32;
/// Children of an inner node.
const FANOUT: usize = 64;
/// A node with fewer entries or children looks for a neighbour to merge with.
const SPARSE: usize = 8;
/// Two neighbours are merged if they have no more than this together.
const MERGED_MAX: usize = 24;

/// How many of a node's `places` are filled when it is built in bulk: room for a few to come.
const fn built(places: usize) -> usize {
    places - places / 8
}

/// What a tree can be searched by.
pub(crate) trait Key: Clone {
    /// A key to search for.
    type Probe<'p>: Copy;
    /// A key that no probe is greater than.
    fn filler() -> Self;
    /// The key as a probe for searches.
    fn probe(&self) -> Self::Probe<'_>;
    /// How this key compares with a probe.
    fn compare(&self, probe: Self::Probe<'_>) -> Ordering;
    /// How many of the first `len` entries, which ascend, have a key below the probe.
    fn count_below<const N: usize>(
        entries: &[TreeEntry<Self>; N],
        len: usize,
        probe: Self::Probe<'_>,
    ) -> usize;
    /// Memory held beyond the key itself.
    fn bytes_outside(&self) -> usize {
        0
    }
}

/// A key and its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TreeEntry<K> {
    key: K,
    row: u32,
}

impl<K: Key> TreeEntry<K> {
    fn filler() -> Self {
        TreeEntry { key: K::filler(), row: u32::MAX }
    }

    /// True if this is the entry of exactly that key and row.
    #[inline]
    fn is(&self, probe: K::Probe<'_>, row: u32) -> bool {
        self.row == row && self.key.compare(probe) == Ordering::Equal
    }
}

/// Counts what is below in three steps without branches: which quarter, which quarter of that, and
/// where within it. The loads of a step do not wait for each other. Relies on invariant 4.
///
/// Three or four comparisons a step: of more the compiler makes vectors by moving every outcome
/// alone, which took 13 instructions a comparison where 2 or 4 do.
#[inline]
fn count_by_quarters<K, const N: usize>(
    entries: &[TreeEntry<K>; N],
    below: impl Fn(&K) -> bool,
) -> usize {
    const { assert!(N.is_multiple_of(16)) };
    let quarter = |start: usize, size: usize| {
        let last = |number: usize| below(&entries[start + number * size - 1].key) as usize;
        start + (last(1) + last(2) + last(3)) * size
    };
    let start = quarter(quarter(0, N / 4), N / 16);
    let rest = &entries[start..start + N / 16];
    start + rest.iter().map(|entry| below(&entry.key) as usize).sum::<usize>()
}

impl Key for u64 {
    type Probe<'p> = u64;

    fn filler() -> Self {
        u64::MAX
    }

    #[inline]
    fn probe(&self) -> u64 {
        *self
    }

    #[inline]
    fn compare(&self, probe: u64) -> Ordering {
        self.cmp(&probe)
    }

    #[inline]
    fn count_below<const N: usize>(
        entries: &[TreeEntry<u64>; N],
        _len: usize,
        probe: u64,
    ) -> usize {
        count_by_quarters(entries, |&key| key < probe)
    }
}

/// A number of 128 bits in two words, so that an entry has 24 bytes rather than 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WideKey {
    high: u64,
    low: u64,
}

impl WideKey {
    #[inline]
    pub(crate) fn from_number(number: u128) -> Self {
        WideKey { high: (number >> 64) as u64, low: number as u64 }
    }

    #[inline]
    fn number(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

impl Key for WideKey {
    type Probe<'p> = WideKey;

    fn filler() -> Self {
        WideKey { high: u64::MAX, low: u64::MAX }
    }

    #[inline]
    fn probe(&self) -> WideKey {
        *self
    }

    #[inline]
    fn compare(&self, probe: WideKey) -> Ordering {
        self.number().cmp(&probe.number())
    }

    #[inline]
    fn count_below<const N: usize>(
        entries: &[TreeEntry<WideKey>; N],
        _len: usize,
        probe: WideKey,
    ) -> usize {
        count_by_quarters(entries, |key| key.number() < probe.number())
    }
}

/// Bytes of any number, the first 16 of them in place: most comparisons end there.
///
/// No two keys of a tree are one the beginning of the other (see [`crate::key`]), so zeroes
/// after a short one do not matter.
#[derive(Clone, Debug)]
pub(crate) struct BytesKey {
    head: WideKey,
    /// The bytes from the 17th on.
    tail: Option<ThinArc<(), u8>>,
}

const HEAD_BYTES: usize = 16;

/// The first 16 bytes as a number, filled up with `fill`.
#[inline]
fn head_of(bytes: &[u8], fill: u8) -> WideKey {
    let mut head = [fill; HEAD_BYTES];
    let count = bytes.len().min(HEAD_BYTES);
    head[..count].copy_from_slice(&bytes[..count]);
    WideKey::from_number(u128::from_be_bytes(head))
}

impl BytesKey {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let tail = bytes.get(HEAD_BYTES..).filter(|tail| !tail.is_empty());
        BytesKey {
            head: head_of(bytes, 0),
            tail: tail.map(|tail| ThinArc::from_header_and_slice((), tail)),
        }
    }

    #[inline]
    fn tail(&self) -> &[u8] {
        self.tail.as_ref().map_or(&[], |tail| &tail.slice)
    }
}

impl PartialEq for BytesKey {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head && self.tail() == other.tail()
    }
}

impl Eq for BytesKey {}

impl PartialOrd for BytesKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BytesKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.tail().cmp(other.tail()))
    }
}

/// A place among keys of bytes: that of a key or prefix, or the one behind all keys which start
/// with a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesProbe<'p> {
    head: WideKey,
    tail: &'p [u8],
    after: bool,
}

impl<'p> BytesProbe<'p> {
    /// The place of a key, or of the first key that starts with `prefix`.
    #[inline]
    pub(crate) fn exactly(prefix: &'p [u8]) -> Self {
        let tail = prefix.get(HEAD_BYTES..).unwrap_or(&[]);
        BytesProbe { head: head_of(prefix, 0), tail, after: false }
    }

    /// The place behind the last key that starts with `prefix`.
    #[inline]
    pub(crate) fn after(prefix: &'p [u8]) -> Self {
        let tail = prefix.get(HEAD_BYTES..).unwrap_or(&[]);
        BytesProbe { head: head_of(prefix, u8::MAX), tail, after: true }
    }
}

impl Key for BytesKey {
    type Probe<'p> = BytesProbe<'p>;

    fn filler() -> Self {
        BytesKey { head: WideKey::filler(), tail: None }
    }

    #[inline]
    fn probe(&self) -> BytesProbe<'_> {
        BytesProbe { head: self.head, tail: self.tail(), after: false }
    }

    #[inline]
    fn compare(&self, probe: BytesProbe<'_>) -> Ordering {
        self.head.compare(probe.head).then_with(|| {
            if probe.after && self.tail().starts_with(probe.tail) {
                Ordering::Less
            } else {
                self.tail().cmp(probe.tail)
            }
        })
    }

    #[inline]
    fn count_below<const N: usize>(
        entries: &[TreeEntry<BytesKey>; N],
        len: usize,
        probe: BytesProbe<'_>,
    ) -> usize {
        entries[..len].partition_point(|entry| entry.key.compare(probe) == Ordering::Less)
    }

    fn bytes_outside(&self) -> usize {
        self.tail.as_ref().map_or(0, |tail| tail.slice.len() + 16)
    }
}

/// Position of the first entry that is not below (probe, row).
#[inline]
fn lower<K: Key, const N: usize>(
    entries: &[TreeEntry<K>; N],
    len: usize,
    probe: K::Probe<'_>,
    row: u32,
) -> usize {
    let mut at = K::count_below(entries, len, probe);
    while at < len && entries[at].row < row && entries[at].key.compare(probe) == Ordering::Equal {
        at += 1;
    }
    at
}

/// Puts `item` at `at` of the first `len` places, moving the rest up.
fn insert_at<T>(items: &mut [T], len: usize, at: usize, item: T) {
    items[at..=len].rotate_right(1);
    items[at] = item;
}

/// Takes the item at `at` of the first `len` places, moving the rest down; `filler` fills up.
fn remove_at<T>(items: &mut [T], len: usize, at: usize, filler: T) {
    items[at..len].rotate_left(1);
    items[len - 1] = filler;
}

#[derive(Clone)]
struct Leaf<K> {
    len: usize,
    entries: [TreeEntry<K>; LEAF],
}

#[derive(Clone)]
struct Inner<K> {
    /// Children; separators are one less.
    len: usize,
    separators: [TreeEntry<K>; FANOUT],
    children: Children<K>,
}

type Slots<N> = [Option<Arc<N>>; FANOUT];

fn no_slots<N>() -> Slots<N> {
    [const { None }; FANOUT]
}

#[derive(Clone)]
enum Children<K> {
    Leaves(Slots<Leaf<K>>),
    Inners(Slots<Inner<K>>),
}

const CHILD: &str = "a child per place below `len`";

#[inline]
fn child<N>(slots: &Slots<N>, at: usize) -> &N {
    slots[at].as_deref().expect(CHILD)
}

#[inline]
fn child_mut<N: Clone>(slots: &mut Slots<N>, at: usize) -> &mut N {
    own(slots[at].as_mut().expect(CHILD))
}

/// The operations of a node that its parent needs.
trait Node<K: Key>: Clone {
    /// Entries or children.
    fn len(&self) -> usize;
    /// Adds an entry. If the node splits, returns the new right neighbour and the separator.
    /// `rightmost`: nothing lies to the right of this node, so keys may be arriving in order.
    fn insert(&mut self, entry: TreeEntry<K>, rightmost: bool)
    -> Option<(TreeEntry<K>, Arc<Self>)>;
    /// Removes an entry; false if it is not there.
    fn remove(&mut self, probe: K::Probe<'_>, row: u32) -> bool;
    /// Appends all entries of the right neighbour; `separator` stood between the two nodes.
    fn absorb(&mut self, separator: TreeEntry<K>, right: &Self);
}

impl<K: Key> Leaf<K> {
    fn empty() -> Self {
        Leaf { len: 0, entries: std::array::from_fn(|_| TreeEntry::filler()) }
    }

    #[inline]
    fn lower(&self, probe: K::Probe<'_>, row: u32) -> usize {
        lower(&self.entries, self.len, probe, row)
    }

    fn insert_at(&mut self, at: usize, entry: TreeEntry<K>) {
        insert_at(&mut self.entries, self.len, at, entry);
        self.len += 1;
    }

    fn split_off(&mut self, keep: usize) -> Self {
        let mut right = Leaf::empty();
        for (to, from) in (keep..self.len).enumerate() {
            right.entries[to] = std::mem::replace(&mut self.entries[from], TreeEntry::filler());
        }
        right.len = self.len - keep;
        self.len = keep;
        right
    }
}

impl<K: Key> Node<K> for Leaf<K> {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn insert(
        &mut self,
        entry: TreeEntry<K>,
        rightmost: bool,
    ) -> Option<(TreeEntry<K>, Arc<Self>)> {
        let at = self.lower(entry.key.probe(), entry.row);
        if self.len < LEAF {
            self.insert_at(at, entry);
            return None;
        }
        let appends = rightmost && at == LEAF;
        let keep = if appends { LEAF } else { LEAF / 2 };
        let mut right = self.split_off(keep);
        if at <= keep && !appends {
            self.insert_at(at, entry);
        } else {
            right.insert_at(at - keep, entry);
        }
        let separator = separator(&self.entries[self.len - 1], &right.entries[0]);
        Some((separator, Arc::new(right)))
    }

    #[inline]
    fn remove(&mut self, probe: K::Probe<'_>, row: u32) -> bool {
        let at = self.lower(probe, row);
        if at == self.len || !self.entries[at].is(probe, row) {
            return false;
        }
        remove_at(&mut self.entries, self.len, at, TreeEntry::filler());
        self.len -= 1;
        true
    }

    fn absorb(&mut self, _separator: TreeEntry<K>, right: &Self) {
        for entry in &right.entries[..right.len] {
            self.entries[self.len] = entry.clone();
            self.len += 1;
        }
    }
}

/// The separator between two entries. Row 0 where the keys differ: a search for the right key then
/// finds the right leaf at once.
fn separator<K: Key>(left: &TreeEntry<K>, right: &TreeEntry<K>) -> TreeEntry<K> {
    let same_key = left.key.compare(right.key.probe()) == Ordering::Equal;
    TreeEntry { key: right.key.clone(), row: if same_key { right.row } else { 0 } }
}

impl<K: Key> Inner<K> {
    fn empty(children: Children<K>) -> Self {
        Inner { len: 0, separators: std::array::from_fn(|_| TreeEntry::filler()), children }
    }

    /// Which child holds (probe, row), if any does.
    #[inline]
    fn child_idx(&self, probe: K::Probe<'_>, row: u32) -> usize {
        let separators = self.len - 1;
        let at = lower(&self.separators, separators, probe, row);
        at + (at < separators && self.separators[at].is(probe, row)) as usize
    }

    /// An empty list of this node's kind of children.
    fn no_children(&self) -> Children<K> {
        match self.children {
            Children::Leaves(_) => Children::Leaves(no_slots()),
            Children::Inners(_) => Children::Inners(no_slots()),
        }
    }

    fn split_off(&mut self, keep: usize) -> (TreeEntry<K>, Self) {
        let mut right = Inner::empty(self.no_children());
        match (&mut self.children, &mut right.children) {
            (Children::Leaves(from), Children::Leaves(to)) => move_slots(from, keep, to),
            (Children::Inners(from), Children::Inners(to)) => move_slots(from, keep, to),
            _ => unreachable!("made with the same kind of children"),
        }
        let mut take = |at: usize| std::mem::replace(&mut self.separators[at], TreeEntry::filler());
        let separator = take(keep - 1);
        for (to, from) in (keep..self.len - 1).enumerate() {
            right.separators[to] = take(from);
        }
        right.len = self.len - keep;
        self.len = keep;
        (separator, right)
    }

    /// Adds a child behind the one at `left`.
    fn insert_child(&mut self, left: usize, separator: TreeEntry<K>, right: Right<K>) {
        insert_at(&mut self.separators, self.len - 1, left, separator);
        match (&mut self.children, right) {
            (Children::Leaves(slots), Right::Leaf(leaf)) => {
                insert_at(slots, self.len, left + 1, Some(leaf));
            }
            (Children::Inners(slots), Right::Inner(inner)) => {
                insert_at(slots, self.len, left + 1, Some(inner));
            }
            _ => unreachable!("a child's neighbour is of the child's kind"),
        }
        self.len += 1;
    }

    fn child_len(&self, at: usize) -> usize {
        match &self.children {
            Children::Leaves(slots) => child(slots, at).len(),
            Children::Inners(slots) => child(slots, at).len(),
        }
    }

    /// After a removal below: an empty child goes, a sparse one merges with a neighbour.
    fn tidy(&mut self, at: usize) {
        if self.child_len(at) == 0 {
            self.remove_child(at, at.saturating_sub(1));
            return;
        }
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if left + 1 < self.len && self.child_len(left) + self.child_len(left + 1) <= MERGED_MAX
            {
                let separator = self.separators[left].clone();
                match &mut self.children {
                    Children::Leaves(slots) => merge_into_left(slots, left, separator),
                    Children::Inners(slots) => merge_into_left(slots, left, separator),
                }
                self.remove_child(left + 1, left);
                return;
            }
        }
    }

    fn remove_child(&mut self, at: usize, separator_at: usize) {
        match &mut self.children {
            Children::Leaves(slots) => remove_at(slots, self.len, at, None),
            Children::Inners(slots) => remove_at(slots, self.len, at, None),
        }
        if self.len > 1 {
            remove_at(&mut self.separators, self.len - 1, separator_at, TreeEntry::filler());
        }
        self.len -= 1;
    }
}

/// A node and one of its children.
type ChildPlace<'a, K> = (&'a Inner<K>, usize);

/// A new right neighbour of a child.
enum Right<K> {
    Leaf(Arc<Leaf<K>>),
    Inner(Arc<Inner<K>>),
}

fn move_slots<N>(from: &mut Slots<N>, keep: usize, to: &mut Slots<N>) {
    for (to, from) in to.iter_mut().zip(&mut from[keep..]) {
        *to = from.take();
    }
}

fn merge_into_left<K: Key, N: Node<K>>(slots: &mut Slots<N>, left: usize, separator: TreeEntry<K>) {
    let right = slots[left + 1].take().expect(CHILD);
    child_mut(slots, left).absorb(separator, &right);
}

impl<K: Key> Node<K> for Inner<K> {
    fn len(&self) -> usize {
        self.len
    }

    fn insert(
        &mut self,
        entry: TreeEntry<K>,
        rightmost: bool,
    ) -> Option<(TreeEntry<K>, Arc<Self>)> {
        let at = self.child_idx(entry.key.probe(), entry.row);
        let rightmost = rightmost && at == self.len - 1;
        let (below, right) = match &mut self.children {
            Children::Leaves(slots) => {
                let (separator, leaf) = child_mut(slots, at).insert(entry, rightmost)?;
                (separator, Right::Leaf(leaf))
            }
            Children::Inners(slots) => {
                let (separator, inner) = child_mut(slots, at).insert(entry, rightmost)?;
                (separator, Right::Inner(inner))
            }
        };
        if self.len < FANOUT {
            self.insert_child(at, below, right);
            return None;
        }
        let keep = if rightmost { FANOUT - 1 } else { FANOUT / 2 };
        let (above, mut neighbour) = self.split_off(keep);
        if at < keep {
            self.insert_child(at, below, right);
        } else {
            neighbour.insert_child(at - keep, below, right);
        }
        Some((above, Arc::new(neighbour)))
    }

    fn remove(&mut self, probe: K::Probe<'_>, row: u32) -> bool {
        let at = self.child_idx(probe, row);
        let (removed, left) = match &mut self.children {
            Children::Leaves(slots) => {
                let leaf = child_mut(slots, at);
                (leaf.remove(probe, row), leaf.len)
            }
            Children::Inners(slots) => {
                let inner = child_mut(slots, at);
                (inner.remove(probe, row), inner.len)
            }
        };
        if left < SPARSE {
            self.tidy(at);
        }
        removed
    }

    fn absorb(&mut self, separator: TreeEntry<K>, right: &Self) {
        self.separators[self.len - 1] = separator;
        for (at, between) in right.separators[..right.len - 1].iter().enumerate() {
            self.separators[self.len + at] = between.clone();
        }
        match (&mut self.children, &right.children) {
            (Children::Leaves(to), Children::Leaves(from)) => {
                to[self.len..self.len + right.len].clone_from_slice(&from[..right.len]);
            }
            (Children::Inners(to), Children::Inners(from)) => {
                to[self.len..self.len + right.len].clone_from_slice(&from[..right.len]);
            }
            _ => unreachable!("neighbours have children of the same kind"),
        }
        self.len += right.len;
    }
}

#[derive(Clone)]
enum Root<K> {
    Empty,
    Leaf(Arc<Leaf<K>>),
    Inner(Arc<Inner<K>>),
}

/// The tree. Clone shares all nodes.
#[derive(Clone)]
pub(crate) struct Tree<K> {
    root: Root<K>,
    len: u64,
}

impl<K> Default for Tree<K> {
    fn default() -> Self {
        Tree { root: Root::Empty, len: 0 }
    }
}

impl<K: Key> Tree<K> {
    /// Entries held.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The first row of a key.
    #[inline]
    pub(crate) fn get(&self, probe: K::Probe<'_>) -> Option<RowId> {
        let (leaf, aside) = self.leaf_and_aside(probe)?;
        let at = leaf.lower(probe, 0);
        let entry = match at < leaf.len {
            true => &leaf.entries[at],
            // Behind all entries of the leaf. The next leaf has the key only if the separator
            // between the two does, which happens where a key's first entries have gone.
            false => {
                let (inner, at) = aside?;
                if inner.separators[at].key.compare(probe) != Ordering::Equal {
                    return None;
                }
                &edge_leaf(inner, at + 1, |_| 0).entries[0]
            }
        };
        (entry.key.compare(probe) == Ordering::Equal).then_some(RowId(entry.row))
    }

    /// The leaf that holds a key's first entry, if any does, and the place of the separator behind
    /// it: the lowest node on the way that goes on to the right.
    #[inline]
    fn leaf_and_aside(&self, probe: K::Probe<'_>) -> Option<(&Leaf<K>, Option<ChildPlace<'_, K>>)> {
        let mut inner = match &self.root {
            Root::Empty => return None,
            Root::Leaf(leaf) => return Some((leaf, None)),
            Root::Inner(inner) => &**inner,
        };
        let mut aside = None;
        loop {
            let at = inner.child_idx(probe, 0);
            if at + 1 < inner.len {
                aside = Some((inner, at));
            }
            match &inner.children {
                Children::Leaves(slots) => return Some((child(slots, at), aside)),
                Children::Inners(slots) => inner = child(slots, at),
            }
        }
    }

    /// True if the entry is there.
    pub(crate) fn contains(&self, probe: K::Probe<'_>, row: RowId) -> bool {
        self.leaf_of(probe, row.0).is_some_and(|leaf| {
            let at = leaf.lower(probe, row.0);
            at < leaf.len && leaf.entries[at].is(probe, row.0)
        })
    }

    /// Adds an entry that is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, row: RowId) {
        let entry = TreeEntry { key, row: row.0 };
        self.len += 1;
        match &mut self.root {
            Root::Empty => {
                let mut leaf = Leaf::empty();
                leaf.insert_at(0, entry);
                self.root = Root::Leaf(Arc::new(leaf));
            }
            Root::Leaf(leaf) => {
                if let Some((separator, right)) = own(leaf).insert(entry, true) {
                    let left = leaf.clone();
                    self.grow(separator, Children::Leaves(pair(left, right)));
                }
            }
            Root::Inner(inner) => {
                if let Some((separator, right)) = own(inner).insert(entry, true) {
                    let left = inner.clone();
                    self.grow(separator, Children::Inners(pair(left, right)));
                }
            }
        }
    }

    /// Puts a root above two nodes.
    fn grow(&mut self, separator: TreeEntry<K>, children: Children<K>) {
        let mut root = Inner::empty(children);
        root.separators[0] = separator;
        root.len = 2;
        self.root = Root::Inner(Arc::new(root));
    }

    /// Removes an entry; false if it is not there.
    pub(crate) fn remove(&mut self, probe: K::Probe<'_>, row: RowId) -> bool {
        let removed = match &mut self.root {
            Root::Empty => false,
            Root::Leaf(leaf) => own(leaf).remove(probe, row.0),
            Root::Inner(inner) => own(inner).remove(probe, row.0),
        };
        self.len -= removed as u64;
        self.shrink();
        removed
    }

    /// Removes roots that have a single child.
    fn shrink(&mut self) {
        loop {
            self.root = match &self.root {
                Root::Leaf(leaf) if leaf.len == 0 => Root::Empty,
                Root::Inner(inner) if inner.len == 0 => Root::Empty,
                Root::Inner(inner) if inner.len == 1 => match &inner.children {
                    Children::Leaves(slots) => Root::Leaf(slots[0].clone().expect(CHILD)),
                    Children::Inners(slots) => Root::Inner(slots[0].clone().expect(CHILD)),
                },
                _ => return,
            };
        }
    }

    /// The leaf that holds (probe, row), if any does.
    #[inline]
    fn leaf_of(&self, probe: K::Probe<'_>, row: u32) -> Option<&Leaf<K>> {
        let mut inner = match &self.root {
            Root::Empty => return None,
            Root::Leaf(leaf) => return Some(leaf),
            Root::Inner(inner) => &**inner,
        };
        loop {
            let at = inner.child_idx(probe, row);
            match &inner.children {
                Children::Leaves(slots) => return Some(child(slots, at)),
                Children::Inners(slots) => inner = child(slots, at),
            }
        }
    }

    /// The leaf after the one that (probe, row) belongs to.
    fn next_leaf(&self, probe: K::Probe<'_>, row: u32) -> Option<&Leaf<K>> {
        let turn = self.last_turn(|inner| {
            let at = inner.child_idx(probe, row);
            (at, (at + 1 < inner.len).then_some(at + 1))
        });
        turn.map(|(inner, at)| edge_leaf(inner, at, |_| 0))
    }

    /// The leaf before the one that (probe, row) belongs to.
    fn previous_leaf(&self, probe: K::Probe<'_>, row: u32) -> Option<&Leaf<K>> {
        let turn = self.last_turn(|inner| {
            let at = inner.child_idx(probe, row);
            (at, at.checked_sub(1))
        });
        turn.map(|(inner, at)| edge_leaf(inner, at, |inner| inner.len - 1))
    }

    /// Walks down by the first number that `turn` returns, and remembers the lowest node where it
    /// returned a second one.
    fn last_turn(
        &self,
        turn: impl Fn(&Inner<K>) -> (usize, Option<usize>),
    ) -> Option<(&Inner<K>, usize)> {
        let Root::Inner(root) = &self.root else {
            return None;
        };
        let mut inner = &**root;
        let mut last = None;
        loop {
            let (at, aside) = turn(inner);
            last = aside.map(|aside| (inner, aside)).or(last);
            match &inner.children {
                Children::Leaves(_) => return last,
                Children::Inners(slots) => inner = child(slots, at),
            }
        }
    }

    /// The last leaf.
    fn last_leaf(&self) -> Option<&Leaf<K>> {
        match &self.root {
            Root::Empty => None,
            Root::Leaf(leaf) => Some(leaf),
            Root::Inner(inner) => Some(edge_leaf(inner, inner.len - 1, |inner| inner.len - 1)),
        }
    }

    /// The place of the first entry that is not below the probe.
    fn seek(&self, probe: K::Probe<'_>) -> Option<(&Leaf<K>, usize)> {
        let leaf = self.leaf_of(probe, 0)?;
        let at = leaf.lower(probe, 0);
        if at < leaf.len {
            return Some((leaf, at));
        }
        self.next_leaf(probe, 0).map(|leaf| (leaf, 0))
    }

    /// True if there is an entry that is not below the probe.
    pub(crate) fn has_from(&self, probe: K::Probe<'_>) -> bool {
        self.seek(probe).is_some()
    }

    /// Rows of the entries from `from` (included) to `to` (excluded), in either direction.
    pub(crate) fn range(
        &self,
        from: K::Probe<'_>,
        to: Option<K::Probe<'_>>,
        direction: Direction,
    ) -> Range<'_, K> {
        let Some(first) = self.seek(from) else {
            return Range::empty(self);
        };
        let is_empty = |to| first.0.entries[first.1].key.compare(to) != Ordering::Less;
        if to.is_some_and(is_empty) {
            return Range::empty(self);
        }
        let end = to.and_then(|to| self.seek(to));
        match direction {
            Direction::Forward => Range { tree: self, place: Some(first), stop: end, direction },
            Direction::Backward => {
                let place = end.or_else(|| self.last_leaf().map(|leaf| (leaf, leaf.len)));
                Range { tree: self, place, stop: Some(first), direction }
            }
        }
    }

    /// All entries, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (K, RowId)> + '_ {
        let mut leaf = match &self.root {
            Root::Empty => None,
            Root::Leaf(leaf) => Some(&**leaf),
            Root::Inner(inner) => Some(edge_leaf(inner, 0, |_| 0)),
        };
        let mut at = 0;
        std::iter::from_fn(move || {
            let current = leaf?;
            let entry = &current.entries[at];
            at += 1;
            if at == current.len {
                leaf = self.next_leaf(entry.key.probe(), entry.row);
                at = 0;
            }
            Some((entry.key.clone(), RowId(entry.row)))
        })
    }

    /// A tree of entries that come in order.
    pub(crate) fn from_sorted(entries: impl Iterator<Item = (K, RowId)>) -> Self {
        let mut len = 0;
        let mut leaves: Vec<(TreeEntry<K>, Arc<Leaf<K>>)> = vec![];
        let mut leaf = Leaf::empty();
        let mut last: Option<TreeEntry<K>> = None;
        let mut first_separator = None;
        for (key, row) in entries {
            let entry = TreeEntry { key, row: row.0 };
            len += 1;
            if leaf.len == built(LEAF) {
                let full = std::mem::replace(&mut leaf, Leaf::empty());
                leaves.push((
                    first_separator.take().unwrap_or_else(TreeEntry::filler),
                    Arc::new(full),
                ));
            }
            if leaf.len == 0 {
                first_separator = last.as_ref().map(|last| separator(last, &entry));
            }
            last = Some(entry.clone());
            leaf.insert_at(leaf.len, entry);
        }
        if leaf.len > 0 {
            leaves.push((first_separator.unwrap_or_else(TreeEntry::filler), Arc::new(leaf)));
        }
        Tree { root: root_above(leaves), len }
    }

    /// Memory held, in bytes. What snapshots share is counted by each of them. O(entries) for keys
    /// of bytes, else O(inner nodes).
    pub(crate) fn bytes(&self) -> u64 {
        match &self.root {
            Root::Empty => 0,
            Root::Leaf(leaf) => leaf_bytes(leaf),
            Root::Inner(inner) => inner_bytes(inner),
        }
    }

    /// Panics unless the invariants hold. O(entries).
    pub(crate) fn check(&self) {
        let entries = match &self.root {
            Root::Empty => 0,
            Root::Leaf(leaf) => check_leaf(leaf, None, None),
            Root::Inner(inner) => {
                assert!(inner.len > 1, "a root has something to choose from");
                check_inner(inner, None, None).0
            }
        };
        assert_eq!(entries, self.len);
    }

    /// Addresses of all nodes: they differ exactly for nodes that were copied.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> std::collections::BTreeSet<usize> {
        fn walk<K>(inner: &Inner<K>, found: &mut std::collections::BTreeSet<usize>) {
            found.insert(inner as *const _ as usize);
            match &inner.children {
                Children::Leaves(slots) => {
                    let leaves = slots.iter().flatten().map(|leaf| &**leaf as *const _ as usize);
                    found.extend(leaves);
                }
                Children::Inners(slots) => slots.iter().flatten().for_each(|c| walk(c, found)),
            }
        }
        let mut found = std::collections::BTreeSet::new();
        match &self.root {
            Root::Empty => {}
            Root::Leaf(leaf) => _ = found.insert(&**leaf as *const _ as usize),
            Root::Inner(inner) => walk(inner, &mut found),
        }
        found
    }
}

fn pair<N>(left: Arc<N>, right: Arc<N>) -> Slots<N> {
    let mut slots: Slots<N> = no_slots();
    slots[0] = Some(left);
    slots[1] = Some(right);
    slots
}

/// The leaf reached through the child at `at` and then always the one that `choose` says.
fn edge_leaf<K>(inner: &Inner<K>, at: usize, choose: impl Fn(&Inner<K>) -> usize) -> &Leaf<K> {
    let (mut inner, mut at) = (inner, at);
    loop {
        match &inner.children {
            Children::Leaves(slots) => return child(slots, at),
            Children::Inners(slots) => inner = child(slots, at),
        }
        at = choose(inner);
    }
}

/// Builds inner nodes level by level; each node comes with the separator to its left.
fn root_above<K: Key>(leaves: Vec<(TreeEntry<K>, Arc<Leaf<K>>)>) -> Root<K> {
    if leaves.len() <= 1 {
        return leaves.into_iter().next().map_or(Root::Empty, |(_, leaf)| Root::Leaf(leaf));
    }
    let mut level = level_above(leaves, Children::Leaves);
    while level.len() > 1 {
        level = level_above(level, Children::Inners);
    }
    level.pop().map_or(Root::Empty, |(_, root)| Root::Inner(root))
}

fn level_above<K: Key, N>(
    nodes: Vec<(TreeEntry<K>, Arc<N>)>,
    children: impl Fn(Slots<N>) -> Children<K>,
) -> Vec<(TreeEntry<K>, Arc<Inner<K>>)> {
    let mut level = Vec::with_capacity(nodes.len().div_ceil(built(FANOUT)));
    let mut nodes = nodes.into_iter().peekable();
    while nodes.peek().is_some() {
        let mut slots: Slots<N> = no_slots();
        let mut separators: Vec<TreeEntry<K>> = vec![];
        for ((separator, node), slot) in nodes.by_ref().take(built(FANOUT)).zip(&mut slots) {
            separators.push(separator);
            *slot = Some(node);
        }
        let mut inner = Inner::empty(children(slots));
        inner.len = separators.len();
        let mut separators = separators.into_iter();
        let left = separators.next().unwrap_or_else(TreeEntry::filler);
        for (at, separator) in separators.enumerate() {
            inner.separators[at] = separator;
        }
        level.push((left, Arc::new(inner)));
    }
    level
}

fn leaf_bytes<K: Key>(leaf: &Leaf<K>) -> u64 {
    let outside: usize =
        leaf.entries[..leaf.len].iter().map(|entry| entry.key.bytes_outside()).sum();
    (size_of::<Leaf<K>>() + outside) as u64
}

fn inner_bytes<K: Key>(inner: &Inner<K>) -> u64 {
    let below: u64 = match &inner.children {
        Children::Leaves(slots) => slots.iter().flatten().map(|leaf| leaf_bytes(leaf)).sum(),
        Children::Inners(slots) => slots.iter().flatten().map(|inner| inner_bytes(inner)).sum(),
    };
    size_of::<Inner<K>>() as u64 + below
}

fn below<K: Key>(left: &TreeEntry<K>, right: &TreeEntry<K>) -> bool {
    left.key.compare(right.key.probe()).then(left.row.cmp(&right.row)) == Ordering::Less
}

/// Checks that entries ascend, lie in `from..to` and are followed by fillers.
fn check_entries<K: Key>(
    entries: &[TreeEntry<K>],
    len: usize,
    from: Option<&TreeEntry<K>>,
    to: Option<&TreeEntry<K>>,
) {
    let (used, unused) = entries.split_at(len);
    assert!(used.windows(2).all(|pair| below(&pair[0], &pair[1])), "entries ascend");
    if let (Some(first), Some(from)) = (used.first(), from) {
        assert!(!below(first, from), "nothing is left of the left separator");
    }
    if let (Some(last), Some(to)) = (used.last(), to) {
        assert!(below(last, to), "nothing is right of the right separator");
    }
    let filler = K::filler();
    assert!(unused.iter().all(|entry| entry.is(filler.probe(), u32::MAX)), "fillers follow");
}

fn check_leaf<K: Key>(
    leaf: &Leaf<K>,
    from: Option<&TreeEntry<K>>,
    to: Option<&TreeEntry<K>>,
) -> u64 {
    assert!(leaf.len > 0, "no leaf is empty");
    check_entries(&leaf.entries, leaf.len, from, to);
    leaf.len as u64
}

/// Returns entries and height.
fn check_inner<K: Key>(
    inner: &Inner<K>,
    from: Option<&TreeEntry<K>>,
    to: Option<&TreeEntry<K>>,
) -> (u64, usize) {
    assert!(inner.len > 0, "no inner node is empty");
    check_entries(&inner.separators, inner.len - 1, from, to);
    let mut entries = 0;
    let mut heights = vec![];
    for at in 0..FANOUT {
        let from = at.checked_sub(1).map(|left| &inner.separators[left]).or(from);
        let to = if at + 1 < inner.len { Some(&inner.separators[at]) } else { to };
        match &inner.children {
            Children::Leaves(slots) => {
                assert_eq!(slots[at].is_some(), at < inner.len);
                entries += slots[at].as_ref().map_or(0, |leaf| check_leaf(leaf, from, to));
            }
            Children::Inners(slots) => {
                assert_eq!(slots[at].is_some(), at < inner.len);
                if let Some(below) = &slots[at] {
                    let (count, height) = check_inner(below, from, to);
                    entries += count;
                    heights.push(height);
                }
            }
        }
    }
    assert!(heights.windows(2).all(|pair| pair[0] == pair[1]), "leaves have one depth");
    (entries, heights.first().map_or(1, |height| height + 1))
}

/// Rows of a range of entries. Both ends are places, so no key is compared on the way.
pub(crate) struct Range<'a, K> {
    tree: &'a Tree<K>,
    /// Forward: where the next entry lies. Backward: behind the next entry.
    place: Option<(&'a Leaf<K>, usize)>,
    /// The range ends where `place` comes here; without it, at the tree's end.
    stop: Option<(&'a Leaf<K>, usize)>,
    direction: Direction,
}

impl<'a, K: Key> Range<'a, K> {
    /// A range of nothing.
    pub(crate) fn empty(tree: &'a Tree<K>) -> Self {
        Range { tree, place: None, stop: None, direction: Direction::Forward }
    }

    /// True if the range ends at this place.
    #[inline]
    fn ends_at(&self, leaf: &Leaf<K>, at: usize) -> bool {
        self.stop.is_some_and(|(stop, stop_at)| at == stop_at && std::ptr::eq(leaf, stop))
    }

    #[inline]
    fn forward(&mut self) -> Option<RowId> {
        let (leaf, at) = self.place?;
        if self.ends_at(leaf, at) {
            self.place = None;
            return None;
        }
        let entry = &leaf.entries[at];
        self.place = if at + 1 < leaf.len {
            Some((leaf, at + 1))
        } else {
            self.tree.next_leaf(entry.key.probe(), entry.row).map(|leaf| (leaf, 0))
        };
        Some(RowId(entry.row))
    }

    #[inline]
    fn backward(&mut self) -> Option<RowId> {
        let (leaf, at) = self.place?;
        if self.ends_at(leaf, at) {
            self.place = None;
            return None;
        }
        if at == 0 {
            let first = &leaf.entries[0];
            self.place =
                self.tree.previous_leaf(first.key.probe(), first.row).map(|leaf| (leaf, leaf.len));
            return self.backward();
        }
        self.place = Some((leaf, at - 1));
        Some(RowId(leaf.entries[at - 1].row))
    }
}

impl<K: Key> Iterator for Range<'_, K> {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        match self.direction {
            Direction::Forward => self.forward(),
            Direction::Backward => self.backward(),
        }
    }
}
