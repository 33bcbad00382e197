//! The engine of a view, wherever its program runs: in this process, or in a cell.

use halcyon_view::program::{Program, RelationId};
use halcyon_view::{Change, Dictionary, Engine};

use crate::error::ViewError;
use crate::placed::CellEngine;

/// The engine of one view.
#[expect(clippy::large_enum_variant, reason = "one per view, and every event goes through it")]
pub(crate) enum ViewEngine {
    /// The program runs in this process: every call is complete when it returns.
    Process(Engine),
    /// The program runs in a cell: events are sent, and are complete once they are confirmed.
    Cell(Box<CellEngine>),
}

/// The strings by whose numbers texts stand in the rows of a view.
#[derive(Clone, Copy)]
pub(crate) enum Texts<'a> {
    /// The dictionary of an engine of this process.
    Process(&'a Dictionary),
    /// The strings that the host knows of a cell.
    Cell(&'a CellEngine),
}

impl<'a> Texts<'a> {
    /// The string of a number.
    ///
    /// Errors: [`ViewError::OutOfRange`] for a number that is none of a cell's strings.
    #[inline]
    pub fn text(self, number: i64) -> Result<&'a str, ViewError> {
        match self {
            Texts::Process(dictionary) => Ok(dictionary.text(number)),
            Texts::Cell(cell) => cell.text(number).ok_or(ViewError::OutOfRange),
        }
    }
}

impl ViewEngine {
    /// The program.
    pub fn program(&self) -> &Program {
        match self {
            ViewEngine::Process(engine) => engine.program(),
            ViewEngine::Cell(cell) => cell.program(),
        }
    }

    /// The strings of rows.
    #[inline]
    pub fn texts(&self) -> Texts<'_> {
        match self {
            ViewEngine::Process(engine) => Texts::Process(engine.dictionary()),
            ViewEngine::Cell(cell) => Texts::Cell(cell),
        }
    }

    /// The number of a string. Errors: those of a cell.
    #[inline]
    pub fn intern(&mut self, text: &str) -> Result<i64, ViewError> {
        match self {
            ViewEngine::Process(engine) => Ok(engine.intern(text)),
            ViewEngine::Cell(cell) => cell.intern(text),
        }
    }

    /// Inserts the row of programs that have one, before any event. A cell does so by itself.
    pub fn begin(&mut self) -> Result<(), ViewError> {
        match self {
            ViewEngine::Process(engine) => Ok(engine.begin()?),
            ViewEngine::Cell(_) => Ok(()),
        }
    }

    /// Applies one event ([`Engine::apply`]), or sends it to the cell.
    #[inline]
    pub fn apply(
        &mut self,
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result<(), ViewError> {
        match self {
            ViewEngine::Process(engine) => Ok(engine.apply(relation, row, weight)?),
            ViewEngine::Cell(cell) => cell.send(relation, row, weight),
        }
    }

    /// Applies events ([`Engine::apply_all`]), or sends them to the cell.
    ///
    /// Errors: with the number of events before the one that failed.
    #[inline]
    pub fn apply_all<'r>(
        &mut self,
        events: impl Iterator<Item = Option<(RelationId, &'r [u64], i64)>> + Clone,
    ) -> Result<(), (usize, ViewError)> {
        match self {
            ViewEngine::Process(engine) => {
                engine.apply_all(events).map_err(|(met, error)| (met, error.into()))
            }
            ViewEngine::Cell(cell) => {
                for (met, (relation, row, weight)) in events.flatten().enumerate() {
                    cell.send(relation, row, weight).map_err(|error| (met, error))?;
                }
                Ok(())
            }
        }
    }

    /// Whether events are sent, and have to be confirmed.
    #[inline]
    pub fn is_cell(&self) -> bool {
        matches!(self, ViewEngine::Cell(_))
    }

    /// Waits until all events that were sent have been applied.
    ///
    /// Errors: the first event that the cell has rejected; the caller takes back what was sent.
    #[inline]
    pub fn confirm(&mut self, give_up: &dyn Fn() -> bool) -> Result<(), ViewError> {
        match self {
            ViewEngine::Process(_) => Ok(()),
            ViewEngine::Cell(cell) => cell.confirm(give_up),
        }
    }

    /// A mark behind the events that were sent and can still be taken back.
    pub fn mark(&self) -> usize {
        match self {
            ViewEngine::Process(_) => 0,
            ViewEngine::Cell(cell) => cell.mark(),
        }
    }

    /// Takes the events back that were sent behind a mark; does nothing in this process, where a
    /// journal has them.
    pub fn take_back_to(&mut self, mark: usize) {
        if let ViewEngine::Cell(cell) = self {
            cell.take_back_to(mark);
        }
    }

    /// Says that the view's rows are those of the engine, although changes are noted.
    pub fn rows_are_settled(&mut self) {
        if let ViewEngine::Cell(cell) = self {
            cell.rows_are_settled();
        }
    }

    /// Says that nobody knows how the view's rows differ from those of the engine.
    pub fn rows_are_unknown(&mut self) {
        if let ViewEngine::Cell(cell) = self {
            cell.rows_are_unknown();
        }
    }

    /// Says that nobody will take back what was sent so far.
    #[inline]
    pub fn keep_sent(&mut self) {
        if let ViewEngine::Cell(cell) = self {
            cell.keep_sent();
        }
    }

    /// Reports changed rows ([`Engine::drain_changes`]); true if the report has all rows instead,
    /// without old ones, because the changes are not known.
    ///
    /// Errors: an expression of the view fails; those of [`ViewEngine::confirm`].
    pub fn drain_changes(
        &mut self,
        give_up: &dyn Fn() -> bool,
        each: impl FnMut(Change<'_>),
    ) -> Result<bool, ViewError> {
        match self {
            ViewEngine::Process(engine) => {
                engine.drain_changes(each)?;
                Ok(false)
            }
            ViewEngine::Cell(cell) => cell.drain_changes(give_up, each),
        }
    }

    /// The row of a group ([`Engine::row`]).
    pub fn row(&mut self, key: &[u64], out: &mut Vec<u64>) -> Result<bool, ViewError> {
        match self {
            ViewEngine::Process(engine) => Ok(engine.row(key, out)?),
            ViewEngine::Cell(cell) => cell.row(key, out),
        }
    }

    /// Memory of maps and strings, in bytes; of a cell all that it has, which is fixed.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            ViewEngine::Process(engine) => engine.memory_bytes(),
            ViewEngine::Cell(cell) => cell.memory_bytes(),
        }
    }

    /// Entries of all maps; 0 of a cell, whose memory does not grow.
    pub fn entry_count(&self) -> u64 {
        match self {
            ViewEngine::Process(engine) => engine.entry_count(),
            ViewEngine::Cell(_) => 0,
        }
    }

    /// Events applied.
    pub fn event_count(&self) -> u64 {
        match self {
            ViewEngine::Process(engine) => engine.statistics().events,
            ViewEngine::Cell(cell) => cell.event_count(),
        }
    }

    /// Calls `each` for every row, in no order.
    pub fn for_each_row(&mut self, each: impl FnMut(&[u64])) -> Result<(), ViewError> {
        match self {
            ViewEngine::Process(engine) => Ok(engine.for_each_row(each)?),
            ViewEngine::Cell(cell) => cell.for_each_row(each),
        }
    }

    /// Panics unless all invariants hold that this process can see. For tests.
    pub fn check(&self) {
        if let ViewEngine::Process(engine) = self {
            engine.check();
        }
    }
}
