//! Maps of any width: each has the structure that fits its declaration.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::ordered::{Key, Ordered, OrderedPosition};
use super::shape::{Fixed, Wide};
use super::sliced::{SlicePosition, Sliced};
use super::sums::Sums;
use super::tables::Tables;
use crate::error::EvalError;
use crate::program::{Component, MapDecl, Type};

/// A map without order. A value is a payload with a stamp per watch behind it.
#[derive(Debug)]
pub enum HashMap {
    /// A map without a key: it has one value.
    Single(Box<[u64]>),
    /// A map with a key.
    Table(Tables),
    /// A map whose entries are also enumerated by slices.
    Sliced(Sliced<Wide>),
}

/// Evaluates an expression for the map of whichever structure it is.
macro_rules! maps {
    ($map:expr, $single:ident => $one:expr, $table:ident => $many:expr) => {
        match $map {
            HashMap::Single($single) => $one,
            HashMap::Table($table) => $many,
            HashMap::Sliced($table) => $many,
        }
    };
}

impl HashMap {
    /// An empty map. `stamps`: words behind the payload.
    pub fn new(declared: &MapDecl, stamps: usize) -> Self {
        let key: usize = declared.key.iter().map(|ty| ty.words()).sum();
        let value = Sums::new(&declared.payload).words() + stamps;
        if key == 0 {
            return Self::Single(vec![0; value].into_boxed_slice());
        }
        if !declared.slices.is_empty() {
            let slices = declared.slices.iter().map(|slice| words_of(&declared.key, slice));
            return Self::Sliced(Sliced::new(Wide { key, value }, slices.collect()));
        }
        Self::Table(Tables::new(key, value))
    }

    /// The value of a key, if there is an entry.
    #[inline(always)]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        maps!(self, value => Some(&value[..]), table => table.get(key))
    }

    /// Prefetches the place of a key's entry.
    #[inline(always)]
    pub fn ask_for_place(&self, key: &[u64]) {
        match self {
            Self::Single(_) => {}
            Self::Table(table) => table.ask_for_place(key),
            Self::Sliced(map) => map.ask_for_place(key, false),
        }
    }

    /// Prefetches the entry itself, where the table only leads to it.
    #[inline(always)]
    pub fn ask_for_entry(&self, key: &[u64]) {
        if let Self::Sliced(map) = self {
            map.ask_for_entry(key);
        }
    }

    /// Changes a value as [`Table::change`](super::table::Table::change) does.
    #[inline(always)]
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        maps!(self, value => f(value), table => table.change(key, f))
    }

    /// The next entry, as [`Table::next`](super::table::Table::next). A map without a key always
    /// has one entry.
    #[inline(always)]
    pub fn next(&self, position: usize) -> Option<(usize, &[u64], &[u64])> {
        maps!(
            self,
            value => (position == 0).then_some((1, &[][..], &value[..])),
            table => table.next(position)
        )
    }

    /// Begins an enumeration by a slice.
    pub fn start(&self, slice: usize, values: &[u64]) -> SlicePosition {
        match self {
            Self::Sliced(map) => map.start(slice, values),
            _ => unreachable!("has that slice (Program::check)"),
        }
    }

    /// The next entry of an enumeration by a slice.
    #[inline(always)]
    pub fn step(&self, position: &mut SlicePosition) -> Option<(&[u64], &[u64])> {
        match self {
            Self::Sliced(map) => map.step(position),
            _ => unreachable!("has that slice (Program::check)"),
        }
    }

    /// Number of entries; those with the payload zero that wait for a watch are counted, too.
    pub fn len(&self) -> usize {
        maps!(self, _value => 1, table => table.len())
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        maps!(self, value => 8 * value.len() as u64, table => table.bytes())
    }

    /// How often the map began to grow into a larger table.
    pub fn growths(&self) -> u64 {
        maps!(self, _value => 0, table => table.growths())
    }

    /// Takes and touches memory for this number of entries.
    pub fn reserve(&mut self, entries: usize) {
        maps!(self, _value => (), table => table.reserve(entries));
    }

    /// Panics unless all invariants hold.
    pub fn check(&self) {
        maps!(self, _value => (), table => table.check());
    }
}

/// Returns which words of a key some of its columns have.
fn words_of(key: &[Type], columns: &[u16]) -> Vec<u16> {
    let mut words = Vec::new();
    let mut at = 0;
    for (column, ty) in key.iter().enumerate() {
        let next = at + ty.words() as u16;
        if columns.contains(&(column as u16)) {
            words.extend(at..next);
        }
        at = next;
    }
    words
}

/// A sorted map. Names of variants: the number of words of a key's rest, then the payload's
/// components (I has one word, W two).
#[derive(Debug)]
pub enum OrderedMap {
    /// Structures for usual widths of key and payload, known to the compiler.
    O1I(Ordered<Fixed<1, 1>>),
    O1II(Ordered<Fixed<1, 2>>),
    O1W(Ordered<Fixed<1, 2, 0b1>>),
    O1IW(Ordered<Fixed<1, 3, 0b10>>),
    O1WI(Ordered<Fixed<1, 3, 0b1>>),
    O1WWI(Ordered<Fixed<1, 5, 0b101>>),
    O2I(Ordered<Fixed<2, 1>>),
    O2II(Ordered<Fixed<2, 2>>),
    /// The structure for all other widths.
    Any(Ordered<Wide>),
}

macro_rules! trees {
    ($map:expr, $tree:ident => $body:expr) => {
        match $map {
            OrderedMap::O1I($tree) => $body,
            OrderedMap::O1II($tree) => $body,
            OrderedMap::O1W($tree) => $body,
            OrderedMap::O1IW($tree) => $body,
            OrderedMap::O1WI($tree) => $body,
            OrderedMap::O1WWI($tree) => $body,
            OrderedMap::O2I($tree) => $body,
            OrderedMap::O2II($tree) => $body,
            OrderedMap::Any($tree) => $body,
        }
    };
}
#[cfg(feature = "native")]
pub(crate) use trees;

impl OrderedMap {
    /// Makes an empty map with a tree for each combination of values of the first `prefix` columns.
    pub fn new(declared: &MapDecl, prefix: usize) -> Self {
        let words = |columns: &[Type]| columns.iter().map(|ty| ty.words()).sum::<usize>();
        let (prefix, key) = (words(&declared.key[..prefix]), words(&declared.key[prefix..]));
        let payload = &declared.payload[..];
        let components: Vec<bool> =
            payload.iter().map(|component| *component == Component::Int).collect();
        match (key, &components[..]) {
            (1, [true]) => Self::O1I(Ordered::new(prefix, Fixed, payload)),
            (1, [true, true]) => Self::O1II(Ordered::new(prefix, Fixed, payload)),
            (1, [false]) => Self::O1W(Ordered::new(prefix, Fixed, payload)),
            (1, [true, false]) => Self::O1IW(Ordered::new(prefix, Fixed, payload)),
            (1, [false, true]) => Self::O1WI(Ordered::new(prefix, Fixed, payload)),
            (1, [false, false, true]) => Self::O1WWI(Ordered::new(prefix, Fixed, payload)),
            (2, [true]) => Self::O2I(Ordered::new(prefix, Fixed, payload)),
            (2, [true, true]) => Self::O2II(Ordered::new(prefix, Fixed, payload)),
            _ => {
                let value = Sums::new(payload).words();
                Self::Any(Ordered::new(prefix, Wide { key, value }, payload))
            }
        }
    }

    /// See [`Ordered::get`].
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        trees!(self, tree => tree.get(key))
    }

    /// See [`Ordered::add`].
    #[inline(always)]
    pub fn add(&mut self, key: &[u64], delta: &[u64]) -> Result<(), EvalError> {
        trees!(self, tree => tree.add(key, delta))
    }

    /// See [`Ordered::range_sum`].
    #[inline(always)]
    pub fn range_sum(&self, prefix: &[u64], low: &[u64], high: Option<&[u64]>, sum: &mut [u64]) {
        trees!(self, tree => tree.range_sum(prefix, low, high, sum));
    }

    /// See [`Ordered::start`].
    #[inline]
    pub fn start(&self, prefix: &[u64], low: &[u64]) -> OrderedPosition {
        trees!(self, tree => tree.start(prefix, low))
    }

    /// See [`Ordered::step`].
    #[inline]
    pub fn step(&self, position: &mut OrderedPosition, key: &mut Key) -> Option<&[u64]> {
        trees!(self, tree => tree.step(position, key))
    }

    /// See [`Ordered::first_from`].
    pub fn first_from(&self, prefix: &[u64], low: &[u64]) -> Option<&[u64]> {
        trees!(self, tree => tree.first_from(prefix, low))
    }

    /// See [`Ordered::last_below`].
    pub fn last_below(&self, prefix: &[u64], high: Option<&[u64]>) -> Option<&[u64]> {
        trees!(self, tree => tree.last_below(prefix, high))
    }

    /// See [`Ordered::search`].
    pub fn search(
        &self,
        prefix: &[u64],
        bounds: (&[u64], Option<&[u64]>),
        component: usize,
        limit: i128,
        descending: bool,
    ) -> Option<&[u64]> {
        trees!(self, tree => tree.search(prefix, bounds, component, limit, descending))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        trees!(self, tree => tree.len())
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        trees!(self, tree => tree.bytes())
    }

    /// Takes and touches memory for this number of entries.
    pub fn reserve(&mut self, entries: usize) {
        trees!(self, tree => tree.reserve(entries));
    }

    /// Panics unless all invariants hold.
    pub fn check(&self) {
        trees!(self, tree => tree.check());
    }
}
