//! A table of groups: their keys, and the state of each aggregate for each group.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::keys::{Keys, Rows, TextsOf};

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

pub(crate) struct Table<const N: usize> {
    keys: Keys<N>,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of a batch, kept for its memory.
    groups: Vec<usize>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(keys: Keys<N>, states: Vec<Box<dyn GroupsAccumulator>>) -> Self {
        Table { keys, states, groups: Vec::new() }
    }

    /// Groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let states: usize = self.states.iter().map(|state| state.size()).sum();
        self.keys.size() + states + self.groups.capacity() * size_of::<usize>()
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

    /// Keys and states of all groups; the table is empty then.
    pub(crate) fn take_states(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = self.keys.take()?;
        for state in &mut self.states {
            columns.extend(state.state(EmitTo::All)?);
        }
        Ok(columns)
    }

    /// Keys and states of all groups as rows for another table; this one is empty then.
    pub(crate) fn take_chunk(&mut self) -> Result<Chunk<N>> {
        let (rows, texts) = self.keys.take_rows(true)?;
        let mut states = Vec::new();
        for state in &mut self.states {
            states.extend(state.state(EmitTo::All)?);
        }
        Ok(Chunk { rows, texts, states })
    }

    /// Keys and results of all groups; the table is empty then, and without memory.
    pub(crate) fn take_results(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = self.keys.take()?;
        for state in &mut self.states {
            columns.push(state.evaluate(EmitTo::All)?);
        }
        self.keys.shrink();
        self.groups = Vec::new();
        Ok(columns)
    }
}
