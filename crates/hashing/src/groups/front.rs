//! The first half of an aggregation: rows become states of groups, as far as a table that the processor's caches
//! hold can bring them together. A table that is full gives its groups on and begins again, so a group may be
//! given on several times. Rows that find few others of their group are made states one by one for a while.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;

use crate::groups::plan::{Aggregation, Stage};
use crate::groups::table::Table;
use crate::keys::Rows;

/// Bounds of a [`Front`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Groups of a table that lies in a core's own cache.
    pub(crate) small: usize,
    /// Groups at which a table that brings few rows together is given up.
    pub(crate) medium: usize,
    /// Groups of the largest table, which lies in the cache that cores share.
    pub(crate) large: usize,
    /// Rows that pass before a table is tried again.
    pub(crate) passing: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { small: 1 << 14, medium: 1 << 17, large: 1 << 19, passing: 1 << 21 }
    }
}

/// Rows for a group, from which on a small table does its work: it is emptied and stays small.
const ROWS_MANY: usize = 4;

pub(crate) struct Front<const N: usize> {
    aggregation: Arc<Aggregation>,
    bounds: Bounds,
    pub(crate) table: Table<N>,
    rows: Rows<N>,
    /// Groups at which the table is looked at.
    groups_max: usize,
    /// Rows that the table has taken in since it was empty.
    taken: usize,
    /// Rows that are still to pass.
    passing: usize,
}

/// What becomes of rows.
pub(crate) enum Given {
    /// They are in the table.
    Nothing,
    /// They pass: keys and states.
    Rows(Vec<ArrayRef>),
    /// They are in the table, which is full: its groups are to be given on.
    Table,
}

impl<const N: usize> Front<N> {
    pub(crate) fn new(aggregation: &Arc<Aggregation>, bounds: Bounds) -> Result<Self> {
        Ok(Front {
            table: aggregation.table()?,
            aggregation: Arc::clone(aggregation),
            bounds,
            rows: Rows::new(),
            groups_max: bounds.small,
            taken: 0,
            passing: 0,
        })
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.table.size() + self.rows.size()
    }

    /// Takes rows in.
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<Given> {
        let mut keys = self.aggregation.keys(batch)?;
        let given = self.aggregation.given(batch)?;
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(batch.num_rows());
            keys.extend(self.table.converted(&given)?);
            return Ok(Given::Rows(keys));
        }
        self.rows.set(&self.aggregation.layout, &keys, self.aggregation.hasher());
        self.table.update(&self.rows, &self.aggregation.texts(&keys), &given)?;
        self.taken += batch.num_rows();
        if self.table.len() < self.groups_max || !self.is_full() {
            return Ok(Given::Nothing);
        }
        self.taken = 0;
        self.groups_max = self.bounds.small;
        self.table.begin();
        Ok(Given::Table)
    }

    /// Decides what a table with so many groups does: grow, begin again, or begin again and let rows pass.
    ///
    /// Within one operator nothing is won by giving groups on before the largest table is full. In front of an exchange,
    /// rows that nearly all differ go on at once: of values drawn at random, those that make 106 rows of 100 groups
    /// in the small table are ten times as many as it has room for.
    fn is_full(&mut self) -> bool {
        let (groups, rows) = (self.table.len(), self.taken);
        let brings = |of_hundred: usize| rows * 100 >= groups * of_hundred;
        if brings(100 * ROWS_MANY) && self.groups_max == self.bounds.small {
            return true;
        }
        let is_whole = self.aggregation.stage == Stage::Whole;
        let next = match groups {
            _ if groups >= self.bounds.large => None,
            _ if is_whole => Some(self.bounds.large),
            _ if groups >= self.bounds.medium => brings(150).then_some(self.bounds.large),
            _ => brings(106).then_some(self.bounds.medium),
        };
        match next {
            Some(next) => {
                self.groups_max = next;
                false
            }
            None => {
                if self.aggregation.may_pass && !brings(150) {
                    self.passing = self.bounds.passing;
                }
                true
            }
        }
    }
}
