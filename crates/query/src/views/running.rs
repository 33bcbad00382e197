//! A view's engine between the rows that it follows and the rows that it makes.
//!
//! Words: a row's *places* are the rows of the hidden partition that show it: one, or several where
//! a view keeps duplicates. The *journal* has what the transaction that owns the view has done to
//! it, so that it can be taken back: events by their inverses, places by what they were. The rows
//! of the partition are not its business: the transaction undoes them like any others.
//!
//! Invariants, checked by `random_statements_leave_views_as_recomputation_does`:
//! 1. Between two statements the places say of every group of the output where its row lies, and
//!    the partition has no other rows; unless the view is stale (see [`super::cell`]).
//! 2. The journal above a mark, taken back latest first, gives the state at the mark: every event
//!    is exact in both directions.

use std::collections::HashMap;

use datafusion::common::hash_utils::RandomState;
use halcyon_base::ids::{RowId, TableId};
use halcyon_store::{Value, ValueRef};
use halcyon_view::program::{RelationId, Type};
use halcyon_view::{ApplyError, Engine, EvalError};
use smallvec::SmallVec;

use super::coding::{Output, encode};
use super::tally::Tally;
use crate::error::{Result, SqlError, SqlState};

/// A table that the view reads.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// The table.
    pub table: TableId,
    /// What the program calls it.
    pub relation: RelationId,
    /// The columns that the program needs, by position in the table.
    pub columns: Vec<u16>,
    /// Types of their words.
    pub types: Vec<Type>,
}

impl Input {
    /// Words of an event.
    pub fn words(&self) -> usize {
        self.types.iter().map(|ty| ty.words()).sum()
    }
}

type Key = SmallVec<[u64; 2]>;
type Places = SmallVec<[RowId; 1]>;

/// Where a view's rows are written.
pub(super) trait Sink {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId;
    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]);
    fn delete(&mut self, id: RowId);
}

/// A row of a view that came, went or became another.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDelta {
    /// What it was; `None` if it is new.
    pub old: Option<Vec<Value>>,
    /// What it is; `None` if it is gone.
    pub new: Option<Vec<Value>>,
}

/// A position in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    events: usize,
    moved: usize,
    told: usize,
}

#[derive(Default)]
struct Journal {
    events: Vec<(RelationId, i8)>,
    /// Rows of the events, one after the other.
    words: Vec<u64>,
    /// Places of a group before they changed.
    moved: Vec<(Key, Places)>,
    /// For subscribers.
    told: Vec<RowDelta>,
}

/// One change of the output, as the engine reported it: lengths of key, old and new row in `words`.
struct Reported {
    key: usize,
    old: Option<usize>,
    new: Option<usize>,
}

/// The state of a view.
pub(super) struct Running {
    pub engine: Engine,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    /// The last word of a row says how often it is there.
    repeats: bool,
    places: HashMap<Key, Places, RandomState>,
    journal: Journal,
    /// Time per event, and how many.
    pub tally: Tally,
    /// Scratch: the words of an event.
    event: Vec<u64>,
    reported: Vec<Reported>,
    report: Vec<u64>,
}

impl Running {
    pub fn new(engine: Engine, inputs: Vec<Input>, outputs: Vec<Output>) -> Self {
        let repeats = engine.program().output_repeats;
        Running {
            engine,
            inputs,
            outputs,
            repeats,
            places: HashMap::default(),
            journal: Journal::default(),
            tally: Tally::default(),
            event: Vec::new(),
            reported: Vec::new(),
            report: Vec::new(),
        }
    }

    /// Applies one event of an input: the values of its columns, with weight 1 or −1.
    ///
    /// Errors: 22003, 22012 and what else an expression can fail at; nothing has changed then.
    #[inline]
    pub fn event(&mut self, input: usize, row: &[ValueRef<'_>], weight: i8) -> Result<()> {
        let Input { relation, types, .. } = &self.inputs[input];
        self.event.clear();
        for (ty, value) in types.iter().zip(row) {
            encode(&mut self.engine, *ty, *value, &mut self.event)?;
        }
        self.engine.apply(*relation, &self.event, weight.into()).map_err(apply_error)
    }

    /// The words of an event, behind what is in `words`. Errors: 22003; some may be there then.
    pub fn pack(&mut self, input: usize, row: &[ValueRef<'_>], words: &mut Vec<u64>) -> Result<()> {
        for (ty, value) in self.inputs[input].types.iter().zip(row) {
            encode(&mut self.engine, *ty, *value, words)?;
        }
        Ok(())
    }

    /// As [`Running::event`], and notes it in the journal.
    pub fn event_noted(&mut self, input: usize, row: &[ValueRef<'_>], weight: i8) -> Result<()> {
        self.event(input, row, weight)?;
        let relation = self.inputs[input].relation;
        self.journal.events.push((relation, weight));
        self.journal.words.extend_from_slice(&self.event);
        Ok(())
    }

    pub fn mark(&self) -> Mark {
        let Journal { events, moved, told, .. } = &self.journal;
        Mark { events: events.len(), moved: moved.len(), told: told.len() }
    }

    /// Takes back what the journal has above a mark.
    pub fn undo_to(&mut self, mark: Mark) {
        let journal = &mut self.journal;
        while journal.events.len() > mark.events {
            let (relation, weight) = journal.events.pop().expect("counted above");
            let columns = &self.engine.program().relations[usize::from(relation.0)].columns;
            let width: usize = columns.iter().map(|ty| ty.words()).sum();
            let from = journal.words.len() - width;
            let row = &journal.words[from..];
            let undone = self.engine.apply(relation, row, -i64::from(weight));
            undone.expect("sums that were there before fit");
            journal.words.truncate(from);
        }
        for (key, places) in journal.moved.drain(mark.moved..).rev() {
            match places.is_empty() {
                true => drop(self.places.remove(&key)),
                false => drop(self.places.insert(key, places)),
            }
        }
        journal.told.truncate(mark.told);
        // What differs from the last report differs no more, or its report failed and is void.
        let drained = self.engine.drain_changes(|_| {});
        drained.expect("a row that was there before can be computed");
    }

    /// Forgets the journal, and gives what subscribers are to be told.
    pub fn forget(&mut self) -> Vec<RowDelta> {
        self.journal.events.clear();
        self.journal.words.clear();
        self.journal.moved.clear();
        std::mem::take(&mut self.journal.told)
    }

    /// Brings the rows up to date with the engine. `noted`: the places that change go to the
    /// journal. `tells`: so do the rows, for subscribers. `judge` sees every new row first.
    ///
    /// Errors: an expression over aggregates fails, a value does not fit its column, or what
    /// `judge` says; the caller undoes what was done.
    pub fn write(
        &mut self,
        sink: &mut impl Sink,
        noted: bool,
        tells: bool,
        mut judge: impl FnMut(&[ValueRef<'_>]) -> Result<()>,
    ) -> Result<()> {
        self.reported.clear();
        self.report.clear();
        let (reported, report) = (&mut self.reported, &mut self.report);
        let drained = self.engine.drain_changes(|change| {
            report.extend_from_slice(change.key);
            report.extend_from_slice(change.old.unwrap_or_default());
            report.extend_from_slice(change.new.unwrap_or_default());
            reported.push(Reported {
                key: change.key.len(),
                old: change.old.map(<[u64]>::len),
                new: change.new.map(<[u64]>::len),
            });
        });
        drained.map_err(apply_error)?;
        let reported = std::mem::take(&mut self.reported);
        let report = std::mem::take(&mut self.report);
        let mut rest = report.as_slice();
        let written = reported.iter().try_for_each(|lengths| {
            let (key, tail) = rest.split_at(lengths.key);
            let (old, tail) = tail.split_at(lengths.old.unwrap_or(0));
            let (new, tail) = tail.split_at(lengths.new.unwrap_or(0));
            rest = tail;
            let (old, new) = (lengths.old.map(|_| old), lengths.new.map(|_| new));
            self.write_one(key, old, new, sink, noted, tells, &mut judge)
        });
        (self.reported, self.report) = (reported, report);
        written
    }

    /// Writes the row that a view has before the first event: an aggregate without GROUP BY has
    /// one over nothing, too, and the engine reports only what differs from it.
    pub fn write_first(&mut self, sink: &mut impl Sink) -> Result<()> {
        let program = self.engine.program();
        let derived = program.relations[usize::from(program.output.0)].derived.as_ref();
        let map = derived.expect("the output is derived").map;
        if !program.maps[usize::from(map.0)].key.is_empty() {
            return Ok(());
        }
        let mut row = Vec::new();
        if self.engine.row(&[], &mut row).map_err(apply_error)? {
            self.write_one(&[], None, Some(&row), sink, false, false, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a change is three slices; the rest is `write`'s"
    )]
    fn write_one(
        &mut self,
        key: &[u64],
        old: Option<&[u64]>,
        new: Option<&[u64]>,
        sink: &mut impl Sink,
        noted: bool,
        tells: bool,
        judge: &mut impl FnMut(&[ValueRef<'_>]) -> Result<()>,
    ) -> Result<()> {
        let Running { engine, outputs, places, journal, repeats, .. } = self;
        let (before, after) = (copies(old, *repeats), copies(new, *repeats));
        let mut values: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
        if let Some(row) = new {
            for output in outputs.iter() {
                values.push(output.decode(engine, row)?);
            }
            judge(&values)?;
        }
        if tells {
            let owned = |row: &[u64]| -> Result<Vec<Value>> {
                outputs.iter().map(|output| Ok(output.decode(engine, row)?.to_owned())).collect()
            };
            for copy in 0..before.max(after) {
                journal.told.push(RowDelta {
                    old: old.filter(|_| copy < before).map(owned).transpose()?,
                    new: new.filter(|_| copy < after).map(owned).transpose()?,
                });
            }
        }
        let known = places.get_mut(key);
        if noted && before != after {
            let was = known.as_ref().map(|places| Places::clone(places)).unwrap_or_default();
            journal.moved.push((Key::from_slice(key), was));
        }
        let mut fresh = Places::new();
        let lying = known.unwrap_or(&mut fresh);
        debug_assert_eq!(lying.len(), before, "the partition has what was reported");
        if let (Some(old), Some(new)) = (old, new) {
            let differs = |at: &usize| outputs[*at].words(old) != outputs[*at].words(new);
            let columns: SmallVec<[u16; 8]> =
                (0..outputs.len()).filter(differs).map(|at| at as u16).collect();
            if !columns.is_empty() {
                let changed: SmallVec<[ValueRef<'_>; 8]> =
                    columns.iter().map(|column| values[usize::from(*column)]).collect();
                for id in lying.iter().take(after) {
                    sink.update(*id, &columns, &changed);
                }
            }
        }
        while lying.len() > after {
            sink.delete(lying.pop().expect("longer than something"));
        }
        while lying.len() < after {
            lying.push(sink.insert(&values));
        }
        if !fresh.is_empty() {
            places.insert(Key::from_slice(key), fresh);
        } else if after == 0 {
            places.remove(key);
        }
        Ok(())
    }

    /// The row of a group, by the words of its key.
    pub fn row(&mut self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>> {
        let program = self.engine.program();
        let derived = program.relations[usize::from(program.output.0)].derived.as_ref();
        let map = derived.expect("the output is derived").map;
        let types = program.maps[usize::from(map.0)].key.clone();
        if types.len() != key.len() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("the view has a key of {} columns, not {}", types.len(), key.len()),
            ));
        }
        let mut words = Vec::new();
        for (ty, value) in types.iter().zip(key) {
            encode(&mut self.engine, *ty, *value, &mut words)?;
        }
        let mut row = Vec::new();
        if !self.engine.row(&words, &mut row).map_err(apply_error)? {
            return Ok(None);
        }
        let value = |output: &Output| Ok(output.decode(&self.engine, &row)?.to_owned());
        self.outputs.iter().map(value).collect::<Result<_>>().map(Some)
    }

    /// Panics unless what must hold of maps and places does. O(entries): for tests.
    pub fn check(&mut self) {
        self.engine.check();
        let mut rows = 0;
        let repeats = self.repeats;
        let told = self.engine.for_each_row(|row| rows += copies(Some(row), repeats));
        told.expect("the rows were computed before");
        assert_eq!(rows, self.places.values().map(|places| places.len()).sum::<usize>());
    }
}

/// How often a row is there.
fn copies(row: Option<&[u64]>, repeats: bool) -> usize {
    match (row, repeats) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(row), true) => {
            let count = *row.last().expect("the last column counts") as i64;
            // A stream may delete what was never inserted: such rows are owed, not there.
            usize::try_from(count).unwrap_or(0)
        }
    }
}

/// What went wrong in a view, as the client is told.
pub(super) fn apply_error(error: ApplyError) -> SqlError {
    let state = match &error {
        ApplyError::Eval(EvalError::DivisionByZero) => SqlState::DIVISION_BY_ZERO,
        ApplyError::Eval(EvalError::Function(_)) => SqlState::INTERNAL_ERROR,
        ApplyError::MemoryBudget { .. } => SqlState::OUT_OF_MEMORY,
        _ => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
    };
    SqlError::new(state, error.to_string())
}
