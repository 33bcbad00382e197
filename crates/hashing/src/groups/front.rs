//! The first half of an aggregation: rows become states of groups, as far as a table that the processor's cache
//! holds can bring them together. A table that is full gives its groups on and begins again, so a group may be
//! given on several times. Rows that find few others of their group are made states one by one for a while.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;

use crate::groups::plan::{Aggregation, Stage};
use crate::groups::table::{Chunk, Table};
use crate::keys::Rows;

/// Bounds of a [`Front`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Groups of a table that lies in a core's own cache.
    pub(crate) small: usize,
    /// Groups of a table that may be larger, since what it brings together need not go through an exchange.
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

/// What a [`Front`] gives on.
pub(crate) enum Given<const N: usize> {
    Nothing,
    /// Keys and states of rows that pass.
    Rows(Vec<ArrayRef>),
    /// The groups of a table that is full.
    Groups(Chunk<N>),
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
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<Given<N>> {
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
        match self.table.len() >= self.groups_max && self.is_full() {
            true => self.chunk().map(Given::Groups),
            false => Ok(Given::Nothing),
        }
    }

    /// Decides what a table with too many groups does: grow, begin again, or let rows pass.
    ///
    /// What is given on within the operator costs little, so a table that does not halve its rows is not worth it. What
    /// goes through an exchange costs more: there a large table is tried, unless nearly all rows differ. Of values that
    /// are drawn at random, those that make 106 rows of 100 groups in a small table are more than ten times as many as
    /// it has room for.
    fn is_full(&mut self) -> bool {
        let (groups, rows) = (self.table.len(), self.taken);
        if rows >= groups * ROWS_MANY {
            return true;
        }
        let is_large = self.groups_max > self.bounds.small;
        let (least, of) = match (self.aggregation.stage, is_large) {
            (Stage::Whole, _) => (200, 100),
            (_, false) => (106, 100),
            (_, true) => (150, 100),
        };
        if self.aggregation.may_pass && rows * of < groups * least {
            self.passing = self.bounds.passing;
            self.groups_max = self.bounds.small;
            return true;
        }
        if self.aggregation.stage != Stage::Whole && !is_large {
            self.groups_max = self.bounds.large;
            return false;
        }
        true
    }

    /// The groups in the table, which is empty then, as rows for another.
    pub(crate) fn chunk(&mut self) -> Result<Chunk<N>> {
        self.taken = 0;
        self.table.take_chunk()
    }

    /// Keys and states of all groups in the table, which is empty then.
    pub(crate) fn states(&mut self) -> Result<Vec<ArrayRef>> {
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
