//! A table of groups: their keys, and the state of each aggregate for each group.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::keys::{Keys, Rows, Taken, TextsOf};

/// What an aggregate is given for a batch of rows.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) values: Vec<ArrayRef>,
    /// The rows that FILTER (WHERE …) lets pass.
    pub(crate) filter: Option<ArrayRef>,
}

impl Given {
    fn filter(&self) -> Option<&BooleanArray> {
        self.filter.as_ref().map(|filter| filter.as_boolean())
    }
}

/// New states of these aggregates.
///
/// Errors: those of the aggregates.
pub(crate) fn accumulators(
    aggregates: &[Arc<AggregateFunctionExpr>],
) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
    let new = |aggregate: &Arc<AggregateFunctionExpr>| -> Result<Box<dyn GroupsAccumulator>> {
        if aggregate.groups_accumulator_supported() {
            return aggregate.create_groups_accumulator();
        }
        let aggregate = Arc::clone(aggregate);
        let one = move || aggregate.create_accumulator();
        Ok(Box::new(GroupsAccumulatorAdapter::new(one)))
    };
    aggregates.iter().map(new).collect()
}

/// Keys and states of groups, of which one may come several times.
pub(crate) struct Chunk<const N: usize> {
    pub(crate) rows: Rows<N>,
    /// The texts of the keys.
    pub(crate) texts: Vec<ArrayRef>,
    pub(crate) states: Vec<ArrayRef>,
}

/// Groups that are given out in one step.
const GROUPS_STEP: usize = 1 << 18;

pub(crate) struct Table<const N: usize> {
    keys: Keys<N>,
    /// The keys while groups are given out.
    taken: Option<Taken<N>>,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of a batch, kept for its memory.
    groups: Vec<usize>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(keys: Keys<N>, states: Vec<Box<dyn GroupsAccumulator>>) -> Self {
        Table { keys, taken: None, states, groups: Vec::new() }
    }

    /// Groups that can be found.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether groups are given out.
    pub(crate) fn is_giving(&self) -> bool {
        self.taken.is_some()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let states: usize = self.states.iter().map(|state| state.size()).sum();
        let taken = self.taken.as_ref().map_or(0, Taken::size);
        self.keys.size() + taken + states + self.groups.capacity() * size_of::<usize>()
    }

    /// Takes rows in. `given`: by aggregate.
    pub(crate) fn update(
        &mut self,
        rows: &Rows<N>,
        texts: &impl TextsOf,
        given: &[Given],
    ) -> Result<()> {
        self.keys.find(rows, texts, &mut self.groups);
        for (state, given) in self.states.iter_mut().zip(given) {
            state.update_batch(&given.values, &self.groups, given.filter(), self.keys.len())?;
        }
        Ok(())
    }

    /// Takes states of groups in. `given`: columns of states, by aggregate.
    pub(crate) fn merge(
        &mut self,
        rows: &Rows<N>,
        texts: &impl TextsOf,
        given: &[Vec<ArrayRef>],
    ) -> Result<()> {
        self.keys.find(rows, texts, &mut self.groups);
        for (state, given) in self.states.iter_mut().zip(given) {
            state.merge_batch(given, &self.groups, self.keys.len())?;
        }
        Ok(())
    }

    /// The states of rows that make a group each.
    pub(crate) fn converted(&self, given: &[Given]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for (state, given) in self.states.iter().zip(given) {
            columns.extend(state.convert_to_state(&given.values, given.filter())?);
        }
        Ok(columns)
    }

    /// Begins to give out all groups; the table takes nothing in until all are.
    pub(crate) fn begin(&mut self) {
        self.taken = Some(self.keys.take());
        self.groups = Vec::new();
    }

    /// Keys and results of the next groups; `None` once all were given.
    pub(crate) fn next_results(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some((taken, emit, count)) = self.next_groups() else { return Ok(None) };
        let mut columns = taken.columns(count)?;
        for state in &mut self.states {
            columns.push(state.evaluate(emit)?);
        }
        Ok(Some(columns))
    }

    /// Keys and states of the next groups; `None` once all were given.
    pub(crate) fn next_states(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some((taken, emit, count)) = self.next_groups() else { return Ok(None) };
        let mut columns = taken.columns(count)?;
        for state in &mut self.states {
            columns.extend(state.state(emit)?);
        }
        Ok(Some(columns))
    }

    /// Keys and states of the next groups as rows for another table; `None` once all were given.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Chunk<N>>> {
        let Some((taken, emit, count)) = self.next_groups() else { return Ok(None) };
        let (rows, texts) = taken.rows(count)?;
        let mut states = Vec::new();
        for state in &mut self.states {
            states.extend(state.state(emit)?);
        }
        Ok(Some(Chunk { rows, texts, states }))
    }

    /// What the next groups are given out with.
    fn next_groups(&mut self) -> Option<(&mut Taken<N>, EmitTo, usize)> {
        if self.taken.as_ref().is_some_and(|taken| taken.left() == 0) {
            self.taken = None;
        }
        let taken = self.taken.as_mut()?;
        let emit = match taken.left() {
            0..=GROUPS_STEP => EmitTo::All,
            _ => EmitTo::First(GROUPS_STEP),
        };
        Some((taken, emit, GROUPS_STEP))
    }
}
