//! A hash table of any widths: the compiler knows the usual ones.

use super::shape::{Fixed, Wide};
use super::table::Table;

/// A hash table of keys and values of any widths.
#[derive(Debug)]
pub enum Tables {
    /// Tables for usual widths of key and value, known to the compiler.
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
    /// The table for all other widths.
    Any(Table<Wide>),
}

/// Evaluates an expression for the table of whichever widths it is.
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
#[cfg(feature = "native")]
pub(crate) use tables;

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

    /// See [`Table::ask_for_place`].
    #[inline(always)]
    pub fn ask_for_place(&self, key: &[u64]) {
        tables!(self, table => table.ask_for_place(key));
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
