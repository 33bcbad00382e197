//! One map of a program, whichever structure fits it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::ordered::{Ordered, OrderedPosition};
use super::shape::{Fixed, Wide};
use super::sliced::{SlicePosition, Sliced};
use super::sums::Sums;
use super::table::Table;
use crate::error::EvalError;
use crate::program::{MapDecl, Type};

/// A hash table of whichever widths.
#[derive(Debug)]
pub enum Tables {
    /// Key and value of usual widths, known when compiled.
    T11(Table<Fixed<1, 1>>),
    T12(Table<Fixed<1, 2>>),
    T13(Table<Fixed<1, 3>>),
    T14(Table<Fixed<1, 4>>),
    T21(Table<Fixed<2, 1>>),
    T22(Table<Fixed<2, 2>>),
    T23(Table<Fixed<2, 3>>),
    T24(Table<Fixed<2, 4>>),
    T31(Table<Fixed<3, 1>>),
    T32(Table<Fixed<3, 2>>),
    /// All others.
    Any(Table<Wide>),
}

/// Calls the same of whichever table it is.
macro_rules! tables {
    ($tables:expr, $table:ident => $call:expr) => {
        match $tables {
            Tables::T11($table) => $call,
            Tables::T12($table) => $call,
            Tables::T13($table) => $call,
            Tables::T14($table) => $call,
            Tables::T21($table) => $call,
            Tables::T22($table) => $call,
            Tables::T23($table) => $call,
            Tables::T24($table) => $call,
            Tables::T31($table) => $call,
            Tables::T32($table) => $call,
            Tables::Any($table) => $call,
        }
    };
}

impl Tables {
    /// An empty table.
    pub fn new(key: usize, value: usize) -> Self {
        match (key, value) {
            (1, 1) => Self::T11(Table::new(Fixed)),
            (1, 2) => Self::T12(Table::new(Fixed)),
            (1, 3) => Self::T13(Table::new(Fixed)),
            (1, 4) => Self::T14(Table::new(Fixed)),
            (2, 1) => Self::T21(Table::new(Fixed)),
            (2, 2) => Self::T22(Table::new(Fixed)),
            (2, 3) => Self::T23(Table::new(Fixed)),
            (2, 4) => Self::T24(Table::new(Fixed)),
            (3, 1) => Self::T31(Table::new(Fixed)),
            (3, 2) => Self::T32(Table::new(Fixed)),
            _ => Self::Any(Table::new(Wide { key, value })),
        }
    }

    /// See [`Table::get`].
    #[inline(always)]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        tables!(self, table => table.get(key))
    }

    /// See [`Table::change`].
    #[inline(always)]
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        tables!(self, table => table.change(key, f))
    }

    /// See [`Table::next`].
    pub fn next(&self, position: usize) -> Option<(usize, &[u64], &[u64])> {
        tables!(self, table => table.next(position))
    }

    /// See [`Table::len`].
    pub fn len(&self) -> usize {
        tables!(self, table => table.len())
    }

    /// See [`Table::bytes`].
    pub fn bytes(&self) -> u64 {
        tables!(self, table => table.bytes())
    }

    /// See [`Table::growths`].
    pub fn growths(&self) -> u64 {
        tables!(self, table => table.growths())
    }

    /// See [`Table::reserve`].
    pub fn reserve(&mut self, entries: usize) {
        tables!(self, table => table.reserve(entries));
    }

    /// See [`Table::check`].
    pub fn check(&self) {
        tables!(self, table => table.check());
    }
}

/// A map without order. Values are payloads, and behind them a stamp per watch.
#[derive(Debug)]
pub enum HashMap {
    /// Without a key: one value.
    Single(Box<[u64]>),
    /// With a key.
    Table(Tables),
    /// With slices.
    Sliced(Sliced<Wide>),
}

/// Calls the same of whichever map it is.
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

    /// As [`Table::change`].
    #[inline(always)]
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        maps!(self, value => f(value), table => table.change(key, f))
    }

    /// As [`Table::next`]. The single value is an entry, whatever it is.
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

    /// Goes on with it.
    #[inline(always)]
    pub fn step(&self, position: &mut SlicePosition) -> Option<(&[u64], &[u64])> {
        match self {
            Self::Sliced(map) => map.step(position),
            _ => unreachable!("has that slice (Program::check)"),
        }
    }

    /// Entries, including those whose payload is zero while somebody has still to be told.
    pub fn len(&self) -> usize {
        maps!(self, _value => 1, table => table.len())
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        maps!(self, value => 8 * value.len() as u64, table => table.bytes())
    }

    /// How often it began to grow into a larger table.
    pub fn growths(&self) -> u64 {
        maps!(self, _value => 0, table => table.growths())
    }

    /// Memory for so many entries, touched now.
    pub fn reserve(&mut self, entries: usize) {
        maps!(self, _value => (), table => table.reserve(entries));
    }

    /// Panics unless all invariants hold.
    pub fn check(&self) {
        maps!(self, _value => (), table => table.check());
    }
}

/// Words of some columns of a key.
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

/// A sorted map.
#[derive(Debug)]
pub enum OrderedMap {
    /// Key and payload of usual widths, known when compiled.
    O11(Ordered<Fixed<1, 1>>),
    O12(Ordered<Fixed<1, 2>>),
    O21(Ordered<Fixed<2, 1>>),
    O22(Ordered<Fixed<2, 2>>),
    /// All others.
    Any(Ordered<Wide>),
}

macro_rules! trees {
    ($map:expr, $tree:ident => $body:expr) => {
        match $map {
            OrderedMap::O11($tree) => $body,
            OrderedMap::O12($tree) => $body,
            OrderedMap::O21($tree) => $body,
            OrderedMap::O22($tree) => $body,
            OrderedMap::Any($tree) => $body,
        }
    };
}

impl OrderedMap {
    /// An empty map.
    pub fn new(declared: &MapDecl) -> Self {
        let key: usize = declared.key.iter().map(|ty| ty.words()).sum();
        let payload = &declared.payload[..];
        match (key, Sums::new(payload).words()) {
            (1, 1) => Self::O11(Ordered::new(Fixed, payload)),
            (1, 2) => Self::O12(Ordered::new(Fixed, payload)),
            (2, 1) => Self::O21(Ordered::new(Fixed, payload)),
            (2, 2) => Self::O22(Ordered::new(Fixed, payload)),
            (_, value) => Self::Any(Ordered::new(Wide { key, value }, payload)),
        }
    }

    /// See [`Ordered::get`].
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        trees!(self, tree => tree.get(key))
    }

    /// See [`Ordered::add`].
    #[inline]
    pub fn add(&mut self, key: &[u64], delta: &[u64]) -> Result<(), EvalError> {
        trees!(self, tree => tree.add(key, delta))
    }

    /// See [`Ordered::range_sum`].
    #[inline]
    pub fn range_sum(&self, low: &[u64], high: Option<&[u64]>, sum: &mut [u64]) {
        trees!(self, tree => tree.range_sum(low, high, sum));
    }

    /// See [`Ordered::start`].
    #[inline]
    pub fn start(&self, low: &[u64]) -> OrderedPosition {
        trees!(self, tree => tree.start(low))
    }

    /// See [`Ordered::step`].
    #[inline]
    pub fn step(&self, position: &mut OrderedPosition) -> Option<(&[u64], &[u64])> {
        trees!(self, tree => tree.step(position))
    }

    /// See [`Ordered::last_below`].
    pub fn last_below(&self, high: Option<&[u64]>) -> Option<&[u64]> {
        trees!(self, tree => tree.last_below(high))
    }

    /// See [`Ordered::search`].
    pub fn search(
        &self,
        low: &[u64],
        high: Option<&[u64]>,
        component: usize,
        limit: i128,
        descending: bool,
    ) -> Option<&[u64]> {
        trees!(self, tree => tree.search(low, high, component, limit, descending))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        trees!(self, tree => tree.len())
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        trees!(self, tree => tree.bytes())
    }

    /// Memory for so many entries, touched now.
    pub fn reserve(&mut self, entries: usize) {
        trees!(self, tree => tree.reserve(entries));
    }

    /// Panics unless all invariants hold.
    pub fn check(&self) {
        trees!(self, tree => tree.check());
    }
}
