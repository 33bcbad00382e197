//! The first half of an aggregation: rows become states of groups, as far as a table that the processor's cache
//! holds can bring them together. A table that is full gives its groups on and begins again, so a group may be
//! given on several times. Rows that find few others of their group are made states one by one for a while.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;

use crate::groups::plan::Aggregation;
use crate::groups::table::Table;
use crate::keys::Rows;

/// Bounds of a [`Front`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Groups of a table that lies in a core's own cache.
    pub(crate) small: usize,
    /// Groups of a table that may be larger, since the small one brought little together.
    pub(crate) large: usize,
    /// Rows that pass before a table is tried again.
    pub(crate) passing: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { small: 1 << 14, large: 1 << 17, passing: 1 << 21 }
    }
}

/// Rows for a group, from which on a small table does its work.
const ROWS_MANY: usize = 4;
/// Three rows for two groups: fewer are not worth a table.
const ROWS_FEW: (usize, usize) = (3, 2);

pub(crate) struct Front<const N: usize> {
    aggregation: Arc<Aggregation>,
    bounds: Bounds,
    table: Table<N>,
    rows: Rows<N>,
    /// Groups at which the table is full.
    groups_max: usize,
    /// Rows that the table has taken in since it was empty.
    taken: usize,
    /// Rows that are still to pass.
    passing: usize,
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

    /// Takes rows in; gives keys and states of groups, if some are to go on.
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<Option<Vec<ArrayRef>>> {
        let mut keys = self.aggregation.keys(batch)?;
        let given = self.aggregation.given(batch)?;
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(batch.num_rows());
            keys.extend(self.table.converted(&given)?);
            return Ok(Some(keys));
        }
        self.rows.set(&self.aggregation.layout, &keys, self.aggregation.hasher());
        self.table.update(&self.rows, &self.aggregation.texts(&keys), &given)?;
        self.taken += batch.num_rows();
        match self.table.len() >= self.groups_max && self.is_full() {
            true => self.empty().map(Some),
            false => Ok(None),
        }
    }

    /// Decides what a table with too many groups does: grow, begin again, or let rows pass.
    fn is_full(&mut self) -> bool {
        let (groups, rows) = (self.table.len(), self.taken);
        if rows >= groups * ROWS_MANY {
            return true;
        }
        if self.groups_max < self.bounds.large {
            self.groups_max = self.bounds.large;
            return false;
        }
        if self.aggregation.may_pass && rows * ROWS_FEW.1 < groups * ROWS_FEW.0 {
            self.passing = self.bounds.passing;
            self.groups_max = self.bounds.small;
        }
        true
    }

    /// Keys and states of all groups in the table, which is empty then.
    pub(crate) fn empty(&mut self) -> Result<Vec<ArrayRef>> {
        self.taken = 0;
        self.table.take_states()
    }

    /// Keys and results of all groups, if none went on before.
    pub(crate) fn results(&mut self) -> Result<Vec<ArrayRef>> {
        self.table.take_results()
    }

    /// Groups in the table.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
