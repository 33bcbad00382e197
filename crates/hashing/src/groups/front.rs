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
    /// Groups of the largest table in front of an exchange.
    pub(crate) large: usize,
    /// Groups of the largest table within one operator.
    pub(crate) whole: usize,
    /// Rows that pass before a table is tried again.
    pub(crate) passing: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { small: 1 << 14, large: 1 << 19, whole: 1 << 22, passing: 1 << 21 }
    }
}

/// Percent by which a growing table must bring more rows together than the small one did, to go on growing.
const GAIN: usize = 115;
/// Rows of a hundred groups from which on a table is worth more than none.
const ROWS_SOME: usize = 150;

pub(crate) struct Front<const N: usize> {
    aggregation: Arc<Aggregation>,
    bounds: Bounds,
    pub(crate) table: Table<N>,
    rows: Rows<N>,
    /// Groups at which the table is looked at.
    groups_max: usize,
    /// Rows that the table has taken in since it was empty.
    taken: usize,
    /// What `taken` was at the small table's size, and at twice that.
    taken_at: [usize; 2],
    /// Whether a larger table was seen to bring no more together.
    stays_small: bool,
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
            taken_at: [0; 2],
            stays_small: false,
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
        self.table.update(&self.rows, &self.aggregation.long_texts(&keys), &given)?;
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
    /// Of rows that come in the order of their groups, a table of any size brings together the same: the small one is
    /// quickest. Of values drawn at random a table brings together more, the more of them it has: that is seen when it has
    /// four times as many groups as the small one, by the rows that made the last half of them.
    fn is_full(&mut self) -> bool {
        let (groups, rows, small) = (self.table.len(), self.taken, self.bounds.small);
        let largest = match self.aggregation.stage {
            Stage::Whole => self.bounds.whole,
            _ => self.bounds.large,
        };
        let brings_some = rows * 100 >= groups * ROWS_SOME;
        if self.stays_small {
            self.stays_small = brings_some;
            return true;
        }
        if groups >= largest {
            self.passing =
                if self.aggregation.may_pass && !brings_some { self.bounds.passing } else { 0 };
            return true;
        }
        if groups < small * 4 {
            let is_second = self.groups_max > small;
            self.taken_at[usize::from(is_second)] = rows;
            self.groups_max = if is_second { small * 4 } else { small * 2 };
            return false;
        }
        if self.groups_max > small * 4 {
            return false;
        }
        // Rows for as many groups as two small tables have, at first and of late.
        let (first, last) = (self.taken_at[0] * 2, rows - self.taken_at[1]);
        let gains = last * 100 >= first * GAIN;
        if !gains && brings_some {
            self.stays_small = true;
            return true;
        }
        if !gains && self.aggregation.stage != Stage::Whole && self.aggregation.may_pass {
            self.passing = self.bounds.passing;
            return true;
        }
        self.groups_max = largest;
        false
    }
}
