//! The engine of one view: a program under an executor, with the events in and the rows out.

use alloc::vec::Vec;

use crate::dictionary::Dictionary;
use crate::error::{ApplyError, ProgramError};
use crate::interpret::Interpreter;
use crate::machine::Machine;
use crate::maps::hint::{ENTRIES_AHEAD, PLACES_AHEAD};
use crate::program::{Expr, Program, RelationId};
use crate::value::Environment;

/// An executor of programs. All executors give the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// Quick, with bounded latency: machine code where the crate is built with `native` and the
    /// processor is known, otherwise [`Executor::Operations`].
    #[default]
    Compiled,
    /// Small operations, in safe code and without an operating system; latency is bounded too.
    Operations,
    /// The reference, slow and simple.
    Interpreted,
}

/// Choices for the run of a program.
#[derive(Default)]
pub struct Options {
    /// The executor.
    pub executor: Executor,
    /// Memory that maps and strings may take, in bytes; `None` for no limit.
    pub memory_bytes_max: Option<u64>,
}

/// A change of one row of the view, for a group whose row differs from the one last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Words of the group's key, which a change leaves as it is.
    pub key: &'a [u64],
    /// The row at the last call of [`Engine::drain_changes`]; `None` if the group had none.
    pub old: Option<&'a [u64]>,
    /// The row now; `None` if the group has none.
    pub new: Option<&'a [u64]>,
}

/// Statistics of an engine: the number of events, and its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events applied without an error.
    pub events: u64,
    /// Statistics by map of the program.
    pub maps: Vec<MapStatistics>,
}

/// Statistics of one map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapStatistics {
    /// Name of the map.
    pub name: alloc::string::String,
    /// Entries whose payload is not zero.
    pub entries: u64,
    /// Memory, in bytes.
    pub bytes: u64,
    /// How often the map began to grow into a larger table.
    pub growths: u64,
}

/// The engine of one view: it takes events and tells how the view's rows change.
pub struct Engine {
    program: Program,
    env: Environment,
    state: ExecutorState,
    events: u64,
    memory_bytes_max: u64,
    /// Words of a row, by base relation.
    row_words: Vec<usize>,
}

/// An executor's state for one program.
#[cfg_attr(
    feature = "native",
    expect(clippy::large_enum_variant, reason = "one per view, and every event goes through it")
)]
enum ExecutorState {
    Compiled(Machine),
    Interpreted(Interpreter),
}

impl Engine {
    /// Makes an engine with empty maps, ready for the first event.
    ///
    /// Errors: the program breaks a rule of [`Program::check`].
    pub fn new(program: Program, options: Options) -> Result<Engine, ProgramError> {
        program.check()?;
        let mut env = Environment::default();
        program.for_each_expr(&mut |expr| {
            if let Expr::Text(text) = expr {
                env.dictionary.intern(text);
            }
        });
        let state = match options.executor {
            Executor::Compiled => ExecutorState::Compiled(Machine::new(&program, &mut env, true)?),
            Executor::Operations => {
                ExecutorState::Compiled(Machine::new(&program, &mut env, false)?)
            }
            Executor::Interpreted => ExecutorState::Interpreted(Interpreter::new(&program)),
        };
        let memory_bytes_max = options.memory_bytes_max.unwrap_or(u64::MAX);
        let base = program.relations.iter().take_while(|relation| relation.derived.is_none());
        let words = base.map(|relation| relation.columns.iter().map(|ty| ty.words()).sum());
        let row_words = words.collect();
        Ok(Engine { program, env, state, events: 0, memory_bytes_max, row_words })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The strings whose numbers stand in rows.
    pub fn dictionary(&self) -> &Dictionary {
        &self.env.dictionary
    }

    /// The number of a string.
    pub fn intern(&mut self, text: &str) -> i64 {
        self.env.dictionary.intern(text)
    }

    /// Applies one row inserted into (`weight` 1) or deleted from (−1) a base relation; a weight of
    /// another size stands for that many rows. `row`: the words of the relation's columns.
    ///
    /// Errors: see [`ApplyError`]; nothing has changed then.
    /// Panics: if there is no such base relation, or the row is not of its width.
    #[inline]
    pub fn apply(
        &mut self,
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result<(), ApplyError> {
        let words = self.row_words.get(usize::from(relation.0)).expect("a base relation's event");
        assert_eq!(row.len(), *words, "a row has the words of its columns");
        if self.memory_bytes_max != u64::MAX && self.memory_bytes() > self.memory_bytes_max {
            return Err(ApplyError::MemoryBudget { bytes_max: self.memory_bytes_max });
        }
        match &mut self.state {
            ExecutorState::Compiled(state) => state.apply(&mut self.env, relation, row, weight)?,
            ExecutorState::Interpreted(state) => {
                state.apply(&self.program, &mut self.env, relation, row, weight)?;
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Applies events one after the other, as [`Engine::apply`] does each; items that are `None`
    /// are skipped.
    ///
    /// Many events at once are cheaper than one by one: while events are applied, the entries that
    /// later events will look up are prefetched from memory.
    ///
    /// Errors: the error of the first event that fails, with the number of items before that event,
    /// which stay applied.
    /// Panics: as [`Engine::apply`].
    #[inline]
    pub fn apply_all<'r>(
        &mut self,
        events: impl Iterator<Item = Option<(RelationId, &'r [u64], i64)>> + Clone,
    ) -> Result<(), (usize, ApplyError)> {
        let looks_ahead = match &mut self.state {
            ExecutorState::Compiled(state) => state.looks_ahead(),
            ExecutorState::Interpreted(_) => false,
        };
        if !looks_ahead {
            return self.apply_each(events, |_| ());
        }
        let (mut places, mut entries) = (events.clone(), events.clone());
        places.by_ref().take(PLACES_AHEAD).for_each(|event| self.ask_for_places(event));
        entries.by_ref().take(ENTRIES_AHEAD).for_each(|event| self.ask_for_entries(event));
        self.apply_each(events, |engine| {
            places.next().into_iter().for_each(|event| engine.ask_for_places(event));
            entries.next().into_iter().for_each(|event| engine.ask_for_entries(event));
        })
    }

    #[inline(always)]
    fn apply_each<'r>(
        &mut self,
        events: impl Iterator<Item = Option<(RelationId, &'r [u64], i64)>>,
        mut before: impl FnMut(&Self),
    ) -> Result<(), (usize, ApplyError)> {
        for (met, event) in events.enumerate() {
            before(self);
            if let Some((relation, row, weight)) = event {
                self.apply(relation, row, weight).map_err(|error| (met, error))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn ask_for_places(&self, event: Option<(RelationId, &[u64], i64)>) {
        if let (ExecutorState::Compiled(state), Some((relation, row, _))) = (&self.state, event) {
            state.ask_for_places(relation, row);
        }
    }

    #[inline(always)]
    fn ask_for_entries(&self, event: Option<(RelationId, &[u64], i64)>) {
        if let (ExecutorState::Compiled(state), Some((relation, row, _))) = (&self.state, event) {
            state.ask_for_entries(relation, row);
        }
    }

    /// Inserts the row of [`Program::one_row`], for programs that have such a relation; does
    /// nothing for others. To be called once, before any other event.
    ///
    /// Errors: as [`Engine::apply`].
    pub fn begin(&mut self) -> Result<(), ApplyError> {
        if let Some(one_row) = self.program.one_row {
            self.apply(one_row, &[], 1)?;
            // The row belongs to no table, so it counts as no event.
            self.events -= 1;
        }
        Ok(())
    }

    /// Reports every output row that differs from the last reported one, in no particular order.
    ///
    /// Errors: an expression of the view fails (division by zero in an expression over aggregates).
    /// The rows reported until then are void: all changes stay noted, to be reported by a call
    /// after the event has been taken back.
    pub fn drain_changes(&mut self, mut each: impl FnMut(Change<'_>)) -> Result<(), ApplyError> {
        let mut each = |key: &[u64], old: Option<&[u64]>, new: Option<&[u64]>| {
            each(Change { key, old, new });
        };
        match &mut self.state {
            ExecutorState::Compiled(state) => state.drain(&mut self.env, &mut each),
            ExecutorState::Interpreted(state) => {
                state.drain(&self.program, &mut self.env, &mut each)
            }
        }
    }

    /// Whether some group was touched since the last [`Engine::drain_changes`]; its row may still
    /// be the same.
    pub fn has_changes(&self) -> bool {
        match &self.state {
            ExecutorState::Compiled(state) => state.has_changes(),
            ExecutorState::Interpreted(state) => state.has_changes(&self.program),
        }
    }

    /// Number of groups that were touched since the last [`Engine::drain_changes`]; the rows of some
    /// may still be the same.
    pub fn noted_groups(&self) -> usize {
        match &self.state {
            ExecutorState::Compiled(state) => state.noted_groups(),
            ExecutorState::Interpreted(state) => state.noted_groups(&self.program),
        }
    }

    /// Calls `each` for every row of the view as it is now, in no particular order.
    ///
    /// Errors: an expression of the view fails.
    pub fn for_each_row(&mut self, mut each: impl FnMut(&[u64])) -> Result<(), ApplyError> {
        self.for_each_keyed_row(|_, row| each(row))
    }

    /// Calls `each` with the words of its group's key for every row of the view as it is now, in no
    /// particular order. Keys are as in [`Change::key`].
    ///
    /// Errors: an expression of the view fails.
    pub fn for_each_keyed_row(
        &mut self,
        mut each: impl FnMut(&[u64], &[u64]),
    ) -> Result<(), ApplyError> {
        match &mut self.state {
            ExecutorState::Compiled(state) => state.for_each_row(&mut self.env, &mut each),
            ExecutorState::Interpreted(state) => {
                state.for_each_row(&self.program, &mut self.env, &mut each)
            }
        }
    }

    /// Puts the row of a group, given the words of its key, into `out` in place of the contents;
    /// returns whether the group has a row.
    ///
    /// Errors: an expression of the view fails.
    pub fn row(&mut self, key: &[u64], out: &mut Vec<u64>) -> Result<bool, ApplyError> {
        out.clear();
        match &mut self.state {
            ExecutorState::Compiled(state) => state.row(&self.program, &mut self.env, key, out),
            ExecutorState::Interpreted(state) => {
                let row = state.output_row(&self.program, &mut self.env, key)?;
                out.extend(row.iter().flatten());
                Ok(row.is_some())
            }
        }
    }

    /// Takes memory for this number of entries of a map (given by its index in the program) and
    /// touches it now, so that the map can grow to that size without asking the allocator and
    /// without page faults. Does nothing in the interpreter.
    pub fn reserve(&mut self, map: usize, entries: usize) {
        if let ExecutorState::Compiled(state) = &mut self.state {
            state.reserve(map, entries);
        }
    }

    /// Statistics of events and maps.
    pub fn statistics(&self) -> Statistics {
        let map = |(index, declared): (usize, &crate::program::MapDecl)| match &self.state {
            ExecutorState::Compiled(state) => MapStatistics {
                name: declared.name.clone(),
                entries: state.len(index),
                bytes: state.bytes(index),
                growths: state.growths(index),
            },
            ExecutorState::Interpreted(state) => MapStatistics {
                name: declared.name.clone(),
                entries: state.len(index),
                bytes: state.bytes(&self.program, index),
                growths: 0,
            },
        };
        let maps = self.program.maps.iter().enumerate().map(map).collect();
        Statistics { events: self.events, maps }
    }

    /// Bytes of the triggers' machine code; the error says, for people, why there is none.
    pub fn machine_code(&self) -> Result<usize, &str> {
        match &self.state {
            ExecutorState::Compiled(state) => state.machine_code(),
            ExecutorState::Interpreted(_) => Err("not asked for"),
        }
    }

    /// Steps of statements and of derived rows that have run so far, those of failed events
    /// included. An enumeration counts as many steps as it has entries; a look-up, a range sum and
    /// a search count one. Only the interpreter counts. For tests of what an event costs.
    pub fn operations(&self) -> Option<u64> {
        match &self.state {
            ExecutorState::Compiled(_) => None,
            ExecutorState::Interpreted(state) => Some(state.operations()),
        }
    }

    /// Number of entries of all maps together.
    pub fn entry_count(&self) -> u64 {
        let maps = 0..self.program.maps.len();
        match &self.state {
            ExecutorState::Compiled(state) => maps.map(|map| state.len(map)).sum(),
            ExecutorState::Interpreted(state) => maps.map(|map| state.len(map)).sum(),
        }
    }

    /// Memory of maps and strings, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let maps = 0..self.program.maps.len();
        let maps: u64 = match &self.state {
            ExecutorState::Compiled(state) => state.memory_bytes(),
            ExecutorState::Interpreted(state) => {
                maps.map(|map| state.bytes(&self.program, map)).sum()
            }
        };
        maps + self.env.dictionary.memory_bytes()
    }

    /// Entries of a map, sorted by key: words of the key, words of the sums (two for components of
    /// 128 bits, floating-point ones among them). For tests.
    pub fn entries(&self, map: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
        match &self.state {
            ExecutorState::Compiled(state) => state.entries(&self.program, map),
            ExecutorState::Interpreted(state) => state.entries(&self.program, map),
        }
    }

    /// Calls `each` for every entry of a map: the words of its key, in the form in which this kind of
    /// executor stores it, and the words of its sums. With the dictionary's strings in the order of
    /// their numbers, the entries of all maps are all that an engine knows ([`Engine::restore`]).
    pub fn for_each_entry(&self, map: usize, each: &mut dyn FnMut(&[u64], &[u64])) {
        match &self.state {
            ExecutorState::Compiled(state) => state.for_each_stored(map, each),
            ExecutorState::Interpreted(state) => state.for_each_stored(&self.program, map, each),
        }
    }

    /// Puts an entry back that [`Engine::for_each_entry`] of an engine with the same program and the
    /// same executor has told. For engines that have applied no event and have the strings of the
    /// other engine; once all entries are back, [`Engine::forget_changes`] ends the restoring.
    ///
    /// Errors: the words are not as many as the map has, or the sums do not fit.
    pub fn restore(&mut self, map: usize, key: &[u64], sums: &[u64]) -> Result<(), ApplyError> {
        match &mut self.state {
            ExecutorState::Compiled(state) => state.restore(map, key, sums),
            ExecutorState::Interpreted(state) => state.restore(&self.program, map, key, sums),
        }
    }

    /// Forgets what [`Engine::drain_changes`] would report, without computing rows.
    pub fn forget_changes(&mut self) {
        match &mut self.state {
            ExecutorState::Compiled(state) => state.forget_changes(),
            ExecutorState::Interpreted(state) => state.forget_changes(),
        }
    }

    /// Panics unless all invariants of all maps hold. O(entries): for tests.
    pub fn check(&self) {
        match &self.state {
            ExecutorState::Compiled(state) => state.check(),
            ExecutorState::Interpreted(state) => state.check(&self.program),
        }
    }
}
