//! The engine of a view whose program runs in a cell ([`halcyon_cell`]).
//!
//! Events are collected into batches, sent, and confirmed: an event is confirmed once the cell has
//! worked it off. A batch that was sent is kept by the host until a saved state of the cell has it, so
//! a cell that breaks loses none. Until its events are kept for good ([`CellEngine::keep_sent`]) they
//! can be taken back, by their inverses or, where no cell can get over them, by withdrawing the
//! batches; that is how a statement that fails, or is rolled back, leaves the view as it was.
//!
//! Invariants, checked by `a_cell_that_breaks_now_and_then_leaves_views_as_recomputation_does` in
//! `tests/maintenance.rs`:
//! 1. `sent` has all batches since the last [`CellEngine::keep_sent`], in order; the first `confirmed`
//!    of these have no rejected event.
//! 2. `since` is the position at which the view's rows were the cell's, or none that the cell knows:
//!    then it tells all rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_cell::abi::events::{Batch, Events};
use halcyon_cell::abi::message::Refusal;
use halcyon_cell::{Builder, Cell, CellError, Place, WORDS_MAX};
use halcyon_view::program::{Expr, Program, RelationId};
use halcyon_view::{ApplyError, Change, EvalError};

use crate::error::ViewError;

/// A position from which no cell knows the changes.
const UNKNOWN: u64 = 0;
/// Events of a batch: the cell works on the first batch of a run while the next is written.
const BATCH_EVENTS: usize = 256;
/// How long events that are to be taken back may take to be worked off before the cell is ended
/// instead.
const TAKE_BACK_WITHIN: Duration = Duration::from_millis(500);

/// Never gives a wait up: for work that belongs to no statement.
pub(crate) fn wait_on() -> bool {
    false
}

/// Where a view's program runs, if not in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellChoice {
    /// The place of the cell.
    pub place: Place,
    /// The cell's memory, bytes; `None` for what a cell has by default.
    pub memory_bytes: Option<u64>,
    /// The processor to which the cell is bound.
    pub cpu: Option<u32>,
    /// Whether the view is made even where no cell can be had now: the cell is then tried again at
    /// every use. For databases that are opened.
    pub later: bool,
}

/// Figures of a view's cell, for the system view `halcyon.cells`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellFigures {
    /// The place, as in the view's definition: `cell` or `thread`.
    pub place: &'static str,
    /// `running`; `broken`: the next use starts another one; `unavailable`; `dropped`.
    pub state: &'static str,
    /// The processor to which the cell is bound.
    pub cpu: Option<u32>,
    /// Cells that were started in place of broken ones.
    pub restarts: u64,
    /// Events that the cell has been sent and that were not taken back.
    pub events: u64,
    /// Turns and messages of the running cell; `None` if none runs.
    pub heartbeat: Option<u64>,
    /// Memory of the cell, bytes.
    pub memory_bytes: u64,
    /// Bytes of accepted events that no saved state has.
    pub log_bytes: u64,
    /// The last fault, or why there is no cell.
    pub fault: Option<String>,
}

/// A batch of events that was sent.
struct Sent {
    sequence: u64,
    words: Arc<[u64]>,
}

/// A view's program in a cell.
pub(crate) struct CellEngine {
    program: Program,
    choice: CellChoice,
    /// `None`: no cell could be had yet, or the view is dropped.
    cell: Option<Cell>,
    is_dropped: bool,
    /// Why the last call has failed, if it was for want of a cell.
    missing: Option<ViewError>,
    row_words: Vec<usize>,
    /// Whether events make strings, so that only the cell knows the numbers of strings.
    makes_strings: bool,
    pending: Batch,
    sent: Vec<Sent>,
    confirmed: usize,
    since: u64,
    events: u64,
    memory_bytes: u64,
}

/// Whether an event can make strings that nobody has given.
fn makes_strings(program: &Program) -> bool {
    let mut makes = false;
    program.for_each_expr(&mut |expr| {
        makes |= matches!(expr, Expr::Call { .. } | Expr::Substring { .. });
    });
    makes
}

/// The error of a rejected event's code.
fn rejected(code: u64) -> ViewError {
    match code {
        1 => ViewError::Engine(ApplyError::Eval(EvalError::Overflow)),
        2 => ViewError::Engine(ApplyError::Eval(EvalError::OutOfRange)),
        3 => ViewError::Engine(ApplyError::Eval(EvalError::DivisionByZero)),
        4 => ViewError::CellFull,
        _ => ViewError::CellRejected,
    }
}

/// The error that a cell has told as text while it computed rows.
fn of_text(text: &str) -> ViewError {
    let known = [EvalError::Overflow, EvalError::OutOfRange, EvalError::DivisionByZero];
    let found = known.into_iter().map(ApplyError::Eval).find(|error| error.to_string() == text);
    found.map_or(ViewError::CellRejected, ViewError::Engine)
}

impl CellEngine {
    /// Loads a program into a new cell.
    ///
    /// Errors: [`ViewError::CellUnavailable`] unless the choice says that a cell may come later;
    /// [`ViewError::CellProgram`] for a program that no cell can run; [`ViewError::CellDown`].
    pub fn new(program: Program, choice: CellChoice) -> Result<CellEngine, ViewError> {
        let row_words = halcyon_cell::abi::events::row_words(&program);
        let mut engine = CellEngine {
            makes_strings: makes_strings(&program),
            program,
            choice,
            cell: None,
            is_dropped: false,
            missing: None,
            row_words,
            pending: Batch::default(),
            sent: Vec::new(),
            confirmed: 0,
            since: UNKNOWN,
            events: 0,
            memory_bytes: Builder::memory_of(choice.memory_bytes),
        };
        match engine.cell() {
            Err(ViewError::CellUnavailable(_)) if choice.later => {}
            started => drop(started?),
        }
        Ok(engine)
    }

    /// The cell, which is started if there is none yet.
    fn cell(&mut self) -> Result<&mut Cell, ViewError> {
        if self.cell.is_none() {
            let mut builder = Cell::builder().place(self.choice.place).memory(self.memory_bytes);
            if let Some(cpu) = self.choice.cpu {
                builder = builder.cpu(cpu);
            }
            let mut cell = builder.start()?;
            cell.load(&self.program)?;
            // The strings of the program get their numbers first.
            cell.intern(&[""])?;
            (self.cell, self.since) = (Some(cell), UNKNOWN);
        }
        Ok(self.cell.as_mut().expect("it was started"))
    }

    /// Notes for the system view why there is no cell.
    fn told<T>(&mut self, result: Result<T, ViewError>) -> Result<T, ViewError> {
        match &result {
            Ok(_) => self.missing = None,
            Err(error @ (ViewError::CellUnavailable(_) | ViewError::CellDown(_))) => {
                self.missing = Some(error.clone());
            }
            Err(_) => {}
        }
        result
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The string of a number, if the host knows it.
    pub fn text(&self, number: i64) -> Option<&str> {
        self.cell.as_ref()?.text(number)
    }

    /// The number of a string.
    pub fn intern(&mut self, text: &str) -> Result<i64, ViewError> {
        if self.is_dropped {
            return Ok(0);
        }
        let is_asked = self.makes_strings;
        if is_asked {
            self.flush()?;
        }
        let number = self.cell().and_then(|cell| match is_asked {
            true => Ok(cell.intern(&[text])?[0]),
            false => Ok(cell.intern_unasked(text)?),
        });
        self.told(number)
    }

    /// Puts an event into the batch, which is sent once it is full.
    pub fn send(
        &mut self,
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result<(), ViewError> {
        if self.is_dropped {
            return Ok(());
        }
        if row.len() >= WORDS_MAX {
            return Err(ViewError::CellRejected);
        }
        if self.pending.words().len() + row.len() >= WORDS_MAX {
            self.flush()?;
        }
        let pushed = self.pending.push(&self.row_words, relation, row, weight);
        pushed.expect("an event of the program");
        if self.pending.len() >= BATCH_EVENTS {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the batch.
    fn flush(&mut self) -> Result<(), ViewError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (words, count) = (Arc::<[u64]>::from(self.pending.words()), self.pending.len());
        self.pending.clear();
        let fed = self.cell().map(|cell| {
            let fed = cell.feed_words(Arc::clone(&words));
            (cell.sequence(), fed)
        });
        let fed = match fed {
            // The host has the batch even if no cell can be kept running.
            Ok((sequence, fed @ (Ok(_) | Err(CellError::Down(_) | CellError::Unavailable(_))))) => {
                self.events += count as u64;
                self.sent.push(Sent { sequence, words });
                fed.map(|_| ()).map_err(ViewError::from)
            }
            Ok((_, fed)) => fed.map(|_| ()).map_err(ViewError::from),
            Err(error) => Err(error),
        };
        self.told(fed)
    }

    /// Waits until everything that was sent has been worked off.
    ///
    /// Errors: the first event that was rejected; [`ViewError::CellDown`]; [`ViewError::Cancelled`].
    pub fn confirm(&mut self, give_up: &dyn Fn() -> bool) -> Result<(), ViewError> {
        self.flush()?;
        let Some(last) = self.sent.last().map(|sent| sent.sequence) else { return Ok(()) };
        if self.confirmed == self.sent.len() {
            return Ok(());
        }
        let confirmed = self.cell().and_then(|cell| Ok(cell.confirm(last, give_up)?));
        self.told(confirmed)?;
        self.require_applied()
    }

    /// Errors: an event that was sent and is not confirmed yet was rejected.
    fn require_applied(&mut self) -> Result<(), ViewError> {
        let (Some(first), Some(cell)) = (self.sent.get(self.confirmed), &self.cell) else {
            return Ok(());
        };
        if let Some((_, _, code)) = cell.rejected_from(first.sequence).first() {
            return Err(rejected(*code));
        }
        self.confirmed = self.sent.len();
        Ok(())
    }

    /// A mark behind what was sent.
    pub fn mark(&self) -> usize {
        debug_assert!(self.pending.is_empty(), "a statement confirms its events");
        self.sent.len()
    }

    /// Takes back what was sent behind a mark.
    pub fn take_back_to(&mut self, mark: usize) {
        self.pending.clear();
        let taken = self.sent.split_off(mark.min(self.sent.len()));
        self.confirmed = self.confirmed.min(self.sent.len());
        let (Some(last), Some(cell)) = (taken.last(), &mut self.cell) else { return };
        for sent in &taken {
            self.events -= Events::new(&sent.words, &self.row_words).count() as u64;
        }
        let begun = Instant::now();
        let worked_off = cell.confirm(last.sequence, &|| begun.elapsed() > TAKE_BACK_WITHIN);
        let applied: Vec<u64> = match worked_off {
            Ok(()) => taken.iter().map(|sent| sent.sequence).collect(),
            Err(error) => {
                tracing::warn!(%error, "batches of a view's cell are withdrawn");
                let sequences: Vec<u64> = taken.iter().map(|sent| sent.sequence).collect();
                cell.withdraw(&sequences)
            }
        };
        let rejected = cell.rejected_from(taken[0].sequence);
        let is_rejected = |sequence: u64, event: usize| {
            rejected.iter().any(|(number, at, _)| {
                *number == sequence && at.is_none_or(|at| at == event as u64)
            })
        };
        for sent in taken.iter().rev().filter(|sent| applied.contains(&sent.sequence)) {
            let events: Vec<_> = Events::new(&sent.words, &self.row_words).enumerate().collect();
            let mut inverses = Batch::default();
            for (at, (relation, row, weight)) in events.into_iter().rev() {
                if !is_rejected(sent.sequence, at) {
                    let pushed = inverses.push(&self.row_words, relation, row, -weight);
                    pushed.expect("the inverse of an event");
                }
            }
            if let Err(error) = cell.take_back(&inverses) {
                // The host has the inverses, and the next cell gets them.
                tracing::warn!(%error, "a view's cell breaks while events are taken back");
            }
        }
    }

    /// Says that the view's rows are the cell's.
    pub fn rows_are_settled(&mut self) {
        self.since = self.cell.as_mut().map_or(UNKNOWN, Cell::settled);
    }

    /// Says that the view's rows have to be compared with all of the cell's.
    pub fn rows_are_unknown(&mut self) {
        self.since = UNKNOWN;
    }

    /// Says that what was sent stays.
    pub fn keep_sent(&mut self) {
        self.sent.clear();
        self.confirmed = 0;
        if let Some(cell) = &mut self.cell {
            cell.forget_rejections();
        }
    }

    /// Tells changed rows, or all rows and true.
    pub fn drain_changes(
        &mut self,
        give_up: &dyn Fn() -> bool,
        mut each: impl FnMut(Change<'_>),
    ) -> Result<bool, ViewError> {
        if self.is_dropped {
            return Ok(false);
        }
        self.flush()?;
        let since = self.since;
        let changes = self.cell().and_then(|cell| Ok(cell.changes(since, give_up)?));
        let changes = self.told(changes)?;
        self.require_applied()?;
        self.since = changes.sequence;
        changes.iter().for_each(&mut each);
        Ok(changes.is_all)
    }

    /// The row of a group.
    pub fn row(&mut self, key: &[u64], out: &mut Vec<u64>) -> Result<bool, ViewError> {
        out.clear();
        if self.is_dropped {
            return Ok(false);
        }
        self.flush()?;
        let row = self.cell().and_then(|cell| Ok(cell.row(key, &wait_on)?));
        let row = self.told(row)?;
        out.extend(row.iter().flatten());
        Ok(row.is_some())
    }

    pub fn for_each_row(&mut self, mut each: impl FnMut(&[u64])) -> Result<(), ViewError> {
        let rows = self.cell()?.read()?;
        rows.iter().for_each(&mut each);
        Ok(())
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub fn event_count(&self) -> u64 {
        self.events
    }

    /// Ends the cell, because the view is dropped. Events that come all the same go nowhere.
    pub fn drop_cell(&mut self) {
        self.is_dropped = true;
        self.pending.clear();
        self.sent.clear();
        if let Some(fault) = self.cell.take().and_then(Cell::stop) {
            tracing::debug!(%fault, "the cell of a dropped view did not end as asked");
        }
    }

    /// Ends the running cell by force. For tests.
    pub fn break_cell(&mut self) {
        self.cell.iter_mut().for_each(Cell::kill);
    }

    /// Makes the running cell read memory that is not there: a fault at some moment from now on. For tests.
    pub fn crash_cell(&mut self) {
        if let Some(Err(error)) = self.cell.as_mut().map(|cell| cell.probe(0x7fff_0000_0000)) {
            tracing::debug!(%error, "a cell that was to crash could not be asked to");
        }
    }

    /// The cell in numbers.
    pub fn figures(&mut self) -> CellFigures {
        let heartbeat = self.cell.as_mut().and_then(Cell::heartbeat);
        let missing = self.missing.as_ref().map(ToString::to_string);
        let fault = self.cell.as_ref().and_then(Cell::fault).map(|fault| fault.to_string());
        CellFigures {
            place: match self.choice.place {
                Place::Machine => "cell",
                Place::Thread => "thread",
            },
            state: match (&self.cell, heartbeat) {
                _ if self.is_dropped => "dropped",
                (None, _) => "unavailable",
                (Some(_), None) => "broken",
                (Some(_), Some(_)) => "running",
            },
            cpu: self.choice.cpu,
            restarts: self.cell.as_ref().map_or(0, Cell::restarts),
            events: self.events,
            heartbeat,
            memory_bytes: self.memory_bytes,
            log_bytes: self.cell.as_ref().map_or(0, Cell::log_bytes),
            fault: missing.or(fault),
        }
    }
}

impl From<CellError> for ViewError {
    fn from(error: CellError) -> Self {
        match error {
            CellError::Unavailable(reason) => ViewError::CellUnavailable(reason),
            CellError::Program(error) => ViewError::CellProgram(error.to_string()),
            CellError::Refused(Refusal::Program, text) => ViewError::CellProgram(text),
            CellError::Refused(Refusal::Memory, _) => ViewError::CellFull,
            CellError::Refused(Refusal::Rows, text) => of_text(&text),
            CellError::Refused(..) | CellError::NoEvents => ViewError::CellRejected,
            CellError::TooLarge { .. } => ViewError::CellTooLarge,
            CellError::GivenUp => ViewError::Cancelled,
            other => ViewError::CellDown(other.to_string()),
        }
    }
}
