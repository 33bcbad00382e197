//! The state of a view: its engine, which stands between the rows that the view reads and the rows
//! that it has.
//!
//! Words: the *places* of a group are the rows of the hidden partition that show it: one, or
//! several where a view keeps duplicates.
//!
//! Invariant, checked by [`ViewState::check`]: between two statements the places say for every
//! group of the output where its rows are, and the partition has no other rows, unless the view is
//! stale ([`halcyon_txn::view`]).

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use foldhash::fast::FixedState;
use halcyon_base::ids::TableId;
use halcyon_base::progress;
use halcyon_store::{Partition, RowRef, Value, ValueRef};
use halcyon_txn::CancelToken;
use halcyon_txn::view::ViewMaintainer;
use halcyon_view::program::{RelationId, Type};
use smallvec::SmallVec;

use crate::coding::{ViewColumn, encode};
use crate::engine::ViewEngine;
use crate::error::{Refused, ViewError};
use crate::event_times::EventTimes;
use crate::feed::{RowDelta, ViewFeed};
use crate::journal::{GroupKey, JournalMark, RowPlaces, ViewJournal};
use crate::rows::{PlainRows, RowWriter};

/// An input of a view: a table that the view reads, as a relation of its program.
#[derive(Clone, Debug)]
pub struct ViewInput {
    /// The table.
    pub table: TableId,
    /// The relation that stands for the table in the view's program.
    pub relation: RelationId,
    /// The columns that the program needs, by position in the table.
    pub columns: Vec<u16>,
    /// Types of these columns' words.
    pub types: Vec<Type>,
}

impl ViewInput {
    /// Number of words of an event.
    pub(crate) fn words(&self) -> usize {
        self.types.iter().map(|ty| ty.words()).sum()
    }

    /// The values of a table's row that the program needs.
    #[inline]
    pub(crate) fn project<'v>(&self, row: &[ValueRef<'v>]) -> SmallVec<[ValueRef<'v>; 8]> {
        self.columns.iter().map(|column| row[usize::from(*column)]).collect()
    }

    fn project_stored<'a>(&self, row: RowRef<'a>) -> SmallVec<[ValueRef<'a>; 8]> {
        self.columns.iter().map(|column| row.value(usize::from(*column))).collect()
    }
}

/// One change of the output as the engine reported it: lengths of key, old row and new row in
/// `report`.
struct ReportedChange {
    key: usize,
    old: Option<usize>,
    new: Option<usize>,
}

/// The words of one change of the output.
struct OutputChange<'r> {
    key: &'r [u64],
    old: Option<&'r [u64]>,
    new: Option<&'r [u64]>,
}

/// What the writing of rows records besides the rows.
#[derive(Clone, Copy)]
pub(crate) struct RowsWritten {
    /// Whether changes of places go to the journal, because the writer may be rolled back.
    pub noted: bool,
    /// Whether changed rows go to the journal, for subscribers.
    pub told: bool,
}

impl RowsWritten {
    /// Rows written for good: nothing is recorded.
    pub(crate) const FOR_GOOD: RowsWritten = RowsWritten { noted: false, told: false };
}

/// The state of a running view: its engine, the places of its rows, and the journal of its changes.
/// When which thread may touch the state is said in [`halcyon_txn::view`].
pub(crate) struct ViewState {
    pub engine: ViewEngine,
    /// The inputs as they were when the view was filled: their columns may stand elsewhere in the tables by now, which
    /// the [`MaintainedView`](crate::MaintainedView) of a catalog knows.
    pub inputs: Arc<[ViewInput]>,
    columns: Vec<ViewColumn>,
    /// Whether the last word of an output row says how many times the view has the row.
    repeats: bool,
    places: HashMap<GroupKey, RowPlaces, FixedState>,
    journal: ViewJournal,
    feed: Arc<ViewFeed>,
    /// Times of events.
    pub times: EventTimes,
    /// A buffer for the words of an event.
    event: Vec<u64>,
    reported: Vec<ReportedChange>,
    report: Vec<u64>,
    /// Why the rows could not be brought up to date when a reader last wanted that.
    unsettled: Option<ViewError>,
}

impl ViewMaintainer for ViewState {
    fn settle(&mut self, rows: &mut Partition) -> bool {
        let told = self.feed.is_followed();
        let written = RowsWritten { noted: false, told };
        if let Err(error) = self.write(&mut PlainRows(rows), written, None, never_refused) {
            // The view keeps its previous rows; a later event may make the rows computable again.
            let error = error.view();
            tracing::warn!(%error, "a view's rows cannot be computed");
            self.unsettled = Some(error);
            self.engine.rows_are_unknown();
            return false;
        }
        self.unsettled = None;
        self.engine.keep_sent();
        let changes = self.journal.forget();
        if told {
            self.feed.publish(changes);
        }
        true
    }

    fn ended(&mut self, committed: bool) {
        self.engine.keep_sent();
        let changes = self.journal.forget();
        if committed && !changes.is_empty() {
            self.feed.publish(changes);
        }
    }
}

/// Errors: [`ViewError::Cancelled`] if the statement is cancelled. Work that belongs to no
/// statement has no token.
#[inline]
pub(crate) fn go_on(cancel: Option<&CancelToken>) -> Result<(), ViewError> {
    match cancel.is_some_and(CancelToken::is_cancelled) {
        true => Err(ViewError::Cancelled),
        false => Ok(()),
    }
}

/// A judge that approves every row.
fn never_refused(_: &[ValueRef<'_>]) -> Result<(), Infallible> {
    Ok(())
}

impl ViewState {
    pub(crate) fn new(
        engine: ViewEngine,
        inputs: Arc<[ViewInput]>,
        columns: Vec<ViewColumn>,
        feed: Arc<ViewFeed>,
    ) -> Self {
        let repeats = engine.program().output_repeats;
        ViewState {
            engine,
            inputs,
            columns,
            repeats,
            places: HashMap::default(),
            journal: ViewJournal::default(),
            feed,
            times: EventTimes::default(),
            event: Vec::new(),
            reported: Vec::new(),
            report: Vec::new(),
            unsettled: None,
        }
    }

    /// Applies the rows of a partition of an input, as inserts.
    pub(crate) fn fill(
        &mut self,
        table: TableId,
        root: &Partition,
        cancel: &CancelToken,
    ) -> Result<(), ViewError> {
        let inputs = Arc::clone(&self.inputs);
        let told = progress::Rows::default();
        for (at, input) in inputs.iter().enumerate().filter(|(_, input)| input.table == table) {
            for row in root.rows() {
                go_on(Some(cancel))?;
                told.next();
                self.event(at, &input.project_stored(row), 1)?;
            }
        }
        Ok(())
    }

    /// Applies one event of an input: the values of the input's columns, with weight 1 or −1.
    ///
    /// Errors: those of the engine; values without words. Nothing has changed then.
    #[inline]
    pub(crate) fn event(
        &mut self,
        input: usize,
        row: &[ValueRef<'_>],
        weight: i8,
    ) -> Result<(), ViewError> {
        let ViewInput { relation, types, .. } = &self.inputs[input];
        self.event.clear();
        for (ty, value) in types.iter().zip(row) {
            encode(&mut self.engine, *ty, *value, &mut self.event)?;
        }
        self.engine.apply(*relation, &self.event, weight.into())
    }

    /// Appends the words of an event. Errors: values without words; `words` may have some of the
    /// event then.
    pub(crate) fn pack(
        &mut self,
        input: usize,
        row: &[ValueRef<'_>],
        words: &mut Vec<u64>,
    ) -> Result<(), ViewError> {
        for (ty, value) in self.inputs[input].types.iter().zip(row) {
            encode(&mut self.engine, *ty, *value, words)?;
        }
        Ok(())
    }

    /// Applies one event as [`ViewState::event`] does, and notes it in the journal.
    pub(crate) fn event_noted(
        &mut self,
        input: usize,
        row: &[ValueRef<'_>],
        weight: i8,
    ) -> Result<(), ViewError> {
        self.event(input, row, weight)?;
        if !self.engine.is_cell() {
            self.journal.note_event(self.inputs[input].relation, &self.event, weight);
        }
        Ok(())
    }

    /// Takes back what a cell has been sent by events that belong to no transaction and failed.
    pub(crate) fn take_back_sent(&mut self) {
        self.engine.take_back_to(0);
    }

    /// A mark at the journal's present end.
    pub(crate) fn mark(&self) -> JournalMark {
        self.journal.mark(&self.engine)
    }

    /// Takes back the changes that the journal has above a mark.
    pub(crate) fn undo_to(&mut self, mark: JournalMark) {
        self.journal.undo_events(mark, &mut self.engine);
        for (key, places) in self.journal.take_moved(mark) {
            match places.is_empty() {
                true => drop(self.places.remove(&key)),
                false => drop(self.places.insert(key, places)),
            }
        }
        // Changes since the last report are gone now, or belong to a report that failed and is
        // void.
        match &mut self.engine {
            ViewEngine::Process(engine) => {
                let drained = engine.drain_changes(|_| {});
                drained.expect("a row that was there before can be computed");
            }
            // The owner's first change came while the rows lacked events.
            cell if self.unsettled.is_some() => cell.rows_are_unknown(),
            cell => cell.rows_are_settled(),
        }
    }

    /// Writes the first rows of an empty partition: see [`ViewState::write`].
    pub(crate) fn write_for_good(
        &mut self,
        rows: &mut Partition,
        cancel: &CancelToken,
    ) -> Result<(), ViewError> {
        let rows = &mut PlainRows(rows);
        let written = self.write(rows, RowsWritten::FOR_GOOD, Some(cancel), never_refused);
        written.map_err(Refused::view)
    }

    /// Brings the rows up to date with the engine. `judge` approves every new row first.
    ///
    /// Errors: an expression over aggregates fails, a value does not fit its column, `judge`
    /// refuses, or [`ViewError::Cancelled`]; the caller undoes the changes made so far.
    pub(crate) fn write<E>(
        &mut self,
        rows: &mut impl RowWriter,
        written: RowsWritten,
        cancel: Option<&CancelToken>,
        mut judge: impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), Refused<E>> {
        let is_all = self.take_report(cancel)?;
        let reported = std::mem::take(&mut self.reported);
        let report = std::mem::take(&mut self.report);
        let mut rest = report.as_slice();
        let done = reported.iter().try_for_each(|lengths| {
            go_on(cancel)?;
            let (key, tail) = rest.split_at(lengths.key);
            let (old, tail) = tail.split_at(lengths.old.unwrap_or(0));
            let (new, tail) = tail.split_at(lengths.new.unwrap_or(0));
            rest = tail;
            let change =
                OutputChange { key, old: lengths.old.map(|_| old), new: lengths.new.map(|_| new) };
            match is_all {
                true => self.write_whole(&change, rows, written, &mut judge),
                false => self.write_one(&change, rows, written, &mut judge),
            }
        });
        let done = done.and_then(|()| match is_all {
            true => self.delete_others(&reported, &report, rows, written),
            false => Ok(()),
        });
        (self.reported, self.report) = (reported, report);
        done
    }

    /// Copies the engine's report of output changes into `reported` and `report`; true if these are
    /// all rows.
    fn take_report(&mut self, cancel: Option<&CancelToken>) -> Result<bool, ViewError> {
        self.reported.clear();
        self.report.clear();
        let (reported, report) = (&mut self.reported, &mut self.report);
        let give_up = || cancel.is_some_and(CancelToken::is_cancelled);
        self.engine.drain_changes(&give_up, |change| {
            report.extend_from_slice(change.key);
            report.extend_from_slice(change.old.unwrap_or_default());
            report.extend_from_slice(change.new.unwrap_or_default());
            reported.push(ReportedChange {
                key: change.key.len(),
                old: change.old.map(<[u64]>::len),
                new: change.new.map(<[u64]>::len),
            });
        })
    }

    /// Writes the row that a view has before the first event: an aggregate without GROUP BY has a
    /// row over no rows, and the engine reports only how it changes.
    pub(crate) fn write_first(&mut self, rows: &mut Partition) -> Result<(), ViewError> {
        if !self.key_types().is_empty() {
            return Ok(());
        }
        let mut row = Vec::new();
        if self.engine.row(&[], &mut row)? {
            let change = OutputChange { key: &[], old: None, new: Some(&row) };
            let rows = &mut PlainRows(rows);
            let written = self.write_one(&change, rows, RowsWritten::FOR_GOOD, &mut never_refused);
            written.map_err(Refused::view)?;
        }
        Ok(())
    }

    /// Types of the columns of a group's key.
    fn key_types(&self) -> &[Type] {
        let program = self.engine.program();
        let derived = program.relations[usize::from(program.output.0)].derived.as_ref();
        let map = derived.expect("the output is derived").map;
        &program.maps[usize::from(map.0)].key
    }

    fn write_one<E>(
        &mut self,
        change: &OutputChange<'_>,
        rows: &mut impl RowWriter,
        written: RowsWritten,
        judge: &mut impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), Refused<E>> {
        let ViewState { engine, columns, places, journal, repeats, .. } = self;
        let OutputChange { key, old, new } = *change;
        let (before, after) = (copies(old, *repeats), copies(new, *repeats));
        let mut values: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
        if let Some(row) = new {
            for column in columns.iter() {
                values.push(column.decode(engine.texts(), row)?);
            }
            judge(&values).map_err(Refused::Judge)?;
        }
        if written.told {
            let owned = |row: &[u64]| -> Result<Vec<Value>, ViewError> {
                let texts = engine.texts();
                columns.iter().map(|column| Ok(column.decode(texts, row)?.to_owned())).collect()
            };
            for copy in 0..before.max(after) {
                journal.told.push(RowDelta {
                    old: old.filter(|_| copy < before).map(owned).transpose()?,
                    new: new.filter(|_| copy < after).map(owned).transpose()?,
                });
            }
        }
        let known = places.get_mut(key);
        if written.noted && before != after {
            let was = known.as_ref().map(|places| RowPlaces::clone(places)).unwrap_or_default();
            journal.moved.push((GroupKey::from_slice(key), was));
        }
        let mut fresh = RowPlaces::new();
        let lying = known.unwrap_or(&mut fresh);
        debug_assert_eq!(lying.len(), before, "the partition has what was reported");
        if let (Some(old), Some(new)) = (old, new) {
            update_columns(columns, (old, new), &values, &lying[..before.min(after)], rows);
        }
        while lying.len() > after {
            rows.delete(lying.pop().expect("longer than something"));
        }
        while lying.len() < after {
            lying.push(rows.insert(&values));
        }
        if !fresh.is_empty() {
            places.insert(GroupKey::from_slice(key), fresh);
        } else if after == 0 {
            places.remove(key);
        }
        Ok(())
    }

    /// Writes a row of a report of all rows: what the row was before stands in the partition.
    fn write_whole<E>(
        &mut self,
        change: &OutputChange<'_>,
        rows: &mut impl RowWriter,
        written: RowsWritten,
        judge: &mut impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), Refused<E>> {
        let ViewState { engine, columns, places, journal, repeats, .. } = self;
        let mut values: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
        if let Some(row) = change.new {
            for column in columns.iter() {
                values.push(column.decode(engine.texts(), row)?);
            }
            judge(&values).map_err(Refused::Judge)?;
        }
        let new = || values.iter().map(|value| value.to_owned()).collect::<Vec<Value>>();
        let after = copies(change.new, *repeats);
        let key = GroupKey::from_slice(change.key);
        let mut lying = places.remove(&key).unwrap_or_default();
        if written.noted && lying.len() != after {
            journal.moved.push((key.clone(), lying.clone()));
        }
        let every: SmallVec<[u16; 8]> = (0..).take(columns.len()).collect();
        let mut tell = |old: Option<Vec<Value>>, new: Option<Vec<Value>>| {
            if written.told && old != new {
                journal.told.push(RowDelta { old, new });
            }
        };
        for id in lying.iter().take(after) {
            let old = rows.row(*id);
            let is_same = old.iter().map(Value::as_ref).eq(values.iter().copied());
            if !is_same {
                rows.update(*id, &every, &values);
            }
            tell(Some(old), Some(new()));
        }
        while lying.len() > after {
            let id = lying.pop().expect("longer than something");
            tell(Some(rows.row(id)), None);
            rows.delete(id);
        }
        while lying.len() < after {
            tell(None, Some(new()));
            lying.push(rows.insert(&values));
        }
        if !lying.is_empty() {
            places.insert(key, lying);
        }
        Ok(())
    }

    /// Deletes the rows of groups that a report of all rows does not have.
    fn delete_others<E>(
        &mut self,
        reported: &[ReportedChange],
        report: &[u64],
        rows: &mut impl RowWriter,
        written: RowsWritten,
    ) -> Result<(), Refused<E>> {
        let mut rest = report;
        let keys: HashSet<&[u64], FixedState> = reported
            .iter()
            .map(|lengths| {
                let (key, tail) = rest.split_at(lengths.key);
                rest = &tail[lengths.old.unwrap_or(0) + lengths.new.unwrap_or(0)..];
                key
            })
            .collect();
        let gone: Vec<GroupKey> =
            self.places.keys().filter(|key| !keys.contains(&key[..])).cloned().collect();
        for key in gone {
            let change = OutputChange { key: &key, old: None, new: None };
            self.write_whole(&change, rows, written, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    /// Why the rows lack events that readers wanted to see.
    pub(crate) fn unsettled(&self) -> Option<&ViewError> {
        self.unsettled.as_ref()
    }

    /// The row of a group, given its key. Errors: a key of another width; those of the engine.
    pub(crate) fn row(&mut self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>, ViewError> {
        let types = self.key_types().to_vec();
        if types.len() != key.len() {
            return Err(ViewError::KeyWidth { expected: types.len(), given: key.len() });
        }
        let mut words = Vec::new();
        for (ty, value) in types.iter().zip(key) {
            encode(&mut self.engine, *ty, *value, &mut words)?;
        }
        let mut row = Vec::new();
        if !self.engine.row(&words, &mut row)? {
            return Ok(None);
        }
        let texts = self.engine.texts();
        let value = |column: &ViewColumn| Ok(column.decode(texts, &row)?.to_owned());
        self.columns.iter().map(value).collect::<Result<_, _>>().map(Some)
    }

    /// Panics unless the invariants of the maps and the places hold. O(entries): for tests.
    pub(crate) fn check(&mut self) {
        self.engine.check();
        let mut rows = 0;
        let repeats = self.repeats;
        let told = self.engine.for_each_row(|row| rows += copies(Some(row), repeats));
        told.expect("the rows were computed before");
        assert_eq!(rows, self.places.values().map(|places| places.len()).sum::<usize>());
    }
}

/// Writes the columns in which two rows differ, at every place.
fn update_columns(
    columns: &[ViewColumn],
    (old, new): (&[u64], &[u64]),
    values: &[ValueRef<'_>],
    places: &[halcyon_base::ids::RowId],
    rows: &mut impl RowWriter,
) {
    let mut changed: SmallVec<[u16; 8]> = SmallVec::new();
    let mut changed_values: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
    for ((column, value), at) in columns.iter().zip(values).zip(0..) {
        if column.words(old) != column.words(new) {
            changed.push(at);
            changed_values.push(*value);
        }
    }
    if !changed.is_empty() {
        places.iter().for_each(|id| rows.update(*id, &changed, &changed_values));
    }
}

/// How many times the view has a row.
fn copies(row: Option<&[u64]>, repeats: bool) -> usize {
    match (row, repeats) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(row), true) => {
            let count = row.last().expect("the last column counts").cast_signed();
            // A stream may delete a row that was never inserted: such a row is owed, and the view
            // does not show it.
            usize::try_from(count).unwrap_or(0)
        }
    }
}
