//! Cursors of a session: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor is a result that is read in pieces. Its rows are computed as they are fetched, from the
//! snapshot that DECLARE took, so later changes of its own transaction are not seen (PostgreSQL:
//! insensitive). A cursor with SCROLL keeps the rows that it has passed; a cursor WITH HOLD keeps
//! its remaining rows when its transaction commits.
//!
//! Invariant, checked by `a_cursor_goes_where_a_list_would`: `position` is 0 before the first row, the
//! number of the row that the cursor stands on, or one more than there are rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_base::{clock, duty};
use halcyon_pgcatalog::CursorRow;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::syntax::{DeclareCursor, Step};

use crate::activity::SessionEntry;
use crate::rows::Rows;

/// The open cursors of a session.
pub(crate) struct Cursors {
    pub by_name: BTreeMap<String, Cursor>,
    /// Shows them to statements.
    entry: Arc<SessionEntry>,
}

impl Cursors {
    /// No cursors of a session.
    pub fn new(entry: &Arc<SessionEntry>) -> Self {
        Cursors { by_name: BTreeMap::new(), entry: Arc::clone(entry) }
    }

    /// Adds a cursor under a name that is free.
    pub fn open(&mut self, name: String, cursor: Cursor) {
        self.by_name.insert(name, cursor);
        self.show();
    }

    /// Closes a cursor. Whether there was one.
    pub fn close(&mut self, name: &str) -> bool {
        let closed = self.by_name.remove(name).is_some();
        self.show();
        closed
    }

    /// Closes the cursors whose time without use is over, and returns their names.
    pub fn close_idle(&mut self) -> Vec<String> {
        let is_over = |cursor: &Cursor| cursor.idle.is_some_and(|idle| idle.left().is_zero());
        let of = self.by_name.iter().filter(|(_, cursor)| is_over(cursor));
        let closed: Vec<String> = of.map(|(name, _)| name.clone()).collect();
        if !closed.is_empty() {
            self.by_name.retain(|name, _| !closed.contains(name));
            self.show();
        }
        closed
    }

    /// How long no cursor closes for want of use; `None`: for ever.
    pub fn idle_left(&self) -> Option<Duration> {
        self.by_name.values().filter_map(|cursor| Some(cursor.idle?.left())).min()
    }

    /// Closes all cursors.
    pub fn close_all(&mut self) {
        self.by_name.clear();
        self.show();
    }

    fn show(&self) {
        let row = |(name, cursor): (&String, &Cursor)| CursorRow {
            name: name.clone(),
            statement: cursor.statement.clone(),
            holds: cursor.holds,
            scrolls: cursor.scrolls,
            declared_us: cursor.declared_us,
        };
        *self.entry.cursors.lock() = self.by_name.iter().map(row).collect();
    }

    /// Lets cursors WITH HOLD read their remaining rows before their transaction commits; closes
    /// all others. Errors: those of the queries.
    pub fn keep_held(&mut self) -> Result<()> {
        if self.by_name.is_empty() {
            return Ok(());
        }
        self.by_name.retain(|_, cursor| cursor.holds);
        self.show();
        for cursor in self.by_name.values_mut().filter(|cursor| cursor.of_block) {
            cursor.keep_rest()?;
            cursor.of_block = false;
        }
        Ok(())
    }

    /// Closes the cursors of a transaction that is rolled back.
    pub fn drop_of_block(&mut self) {
        if !self.by_name.is_empty() {
            self.by_name.retain(|_, cursor| !cursor.of_block);
            self.show();
        }
    }
}

/// An open cursor.
pub(crate) struct Cursor {
    columns: Arc<[ResultColumn]>,
    /// The rows that have not been read; `None` once all have been.
    source: Option<Rows>,
    /// Rows that have been read, from number `first + 1` on, if `keeps`; otherwise empty.
    kept: RowSet,
    first: u64,
    keeps: bool,
    /// Number of rows that have been read from `source`.
    read: u64,
    position: u64,
    scrolls: bool,
    holds: bool,
    failed: bool,
    /// Whether the transaction that declared the cursor is still in progress.
    of_block: bool,
    /// The statement that declared the cursor.
    statement: String,
    declared_us: i64,
    idle: Option<IdleLimit>,
}

/// How long a result may lie unread: IDLE CURSOR LIFETIME of the class of its statement.
#[derive(Clone, Copy, Debug)]
pub struct IdleLimit {
    lifetime: Duration,
    used: Instant,
}

impl IdleLimit {
    /// A limit of a result that has been read just now.
    pub fn new(lifetime: Duration) -> Self {
        IdleLimit { lifetime, used: Instant::now() }
    }

    /// Notes that the result has been read just now.
    pub fn touch(&mut self) {
        self.used = Instant::now();
    }

    /// How long the result may still lie unread; zero if its time is over.
    pub fn left(&self) -> Duration {
        self.lifetime.saturating_sub(self.used.elapsed())
    }
}

impl Cursor {
    /// Makes a cursor that closes when it has not been used for as long as `idle` says.
    pub fn new(
        mut rows: Rows,
        declare: &DeclareCursor,
        of_block: bool,
        idle: Option<IdleLimit>,
    ) -> Self {
        rows.set_aside();
        let columns = rows.columns().clone();
        Cursor {
            kept: RowSet::new(columns.len()),
            columns,
            source: Some(rows),
            first: 0,
            keeps: declare.scrolls,
            read: 0,
            position: 0,
            scrolls: declare.scrolls,
            holds: declare.holds,
            failed: false,
            of_block,
            statement: declare.to_string(),
            declared_us: clock::wall_us(),
            idle,
        }
    }

    /// The columns of its rows.
    pub fn columns(&self) -> &Arc<[ResultColumn]> {
        &self.columns
    }

    /// Moves by a step and puts the rows of the step into `out`; without `out` the rows are only
    /// counted.
    ///
    /// Errors: 55000 backward without SCROLL, and after any error; the errors of the query, as its rows are read.
    pub fn go(&mut self, name: &str, step: Step, out: Option<&mut RowSet>) -> Result<u64> {
        if self.failed {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let gone = self.step(step, out);
        self.failed = gone.is_err();
        self.idle.iter_mut().for_each(IdleLimit::touch);
        // Nobody reads until the next FETCH.
        if let Some(rows) = &mut self.source {
            rows.set_aside();
        }
        gone
    }

    fn step(&mut self, step: Step, out: Option<&mut RowSet>) -> Result<u64> {
        match step {
            Step::By(0) | Step::Relative(0) => self.again(out),
            Step::By(rows) if rows > 0 => self.forward(rows.unsigned_abs(), out),
            Step::By(rows) => self.backward(rows.unsigned_abs(), out),
            Step::ToEnd => self.forward(u64::MAX, out),
            Step::ToBegin => self.backward(u64::MAX, out),
            Step::Relative(rows) if rows > 0 => self.single(rows.unsigned_abs(), out),
            Step::Relative(rows) => self.single_back(rows.unsigned_abs(), out),
            Step::Absolute(row) if row >= 0 => self.to(row.unsigned_abs(), out),
            Step::Absolute(row) => {
                self.require_scroll()?;
                self.forward(u64::MAX, None)?;
                self.single_back(row.unsigned_abs(), out)
            }
        }
    }

    fn to(&mut self, row: u64, out: Option<&mut RowSet>) -> Result<u64> {
        match row.cmp(&self.position) {
            std::cmp::Ordering::Greater => self.single(row - self.position, out),
            std::cmp::Ordering::Equal if row == 0 => Ok(0),
            std::cmp::Ordering::Equal => self.again(out),
            std::cmp::Ordering::Less => self.single_back(self.position - row, out),
        }
    }

    /// Moves forward by so many rows and gives the last of them.
    fn single(&mut self, rows: u64, out: Option<&mut RowSet>) -> Result<u64> {
        self.forward(rows - 1, None)?;
        self.forward(1, out)
    }

    fn single_back(&mut self, rows: u64, out: Option<&mut RowSet>) -> Result<u64> {
        self.backward(rows - 1, None)?;
        self.backward(1, out)
    }

    /// Gives the row at the present position once more.
    fn again(&mut self, out: Option<&mut RowSet>) -> Result<u64> {
        self.require_scroll()?;
        match self.position {
            row if row > self.first && row <= self.read => {
                self.give(row, out)?;
                Ok(1)
            }
            _ => Ok(0),
        }
    }

    fn forward(&mut self, rows: u64, mut out: Option<&mut RowSet>) -> Result<u64> {
        let mut gone = 0;
        while gone < rows {
            let next = self.position + 1;
            if next <= self.read {
                self.give(next, out.as_deref_mut())?;
            } else if !self.pull(out.as_deref_mut())? {
                self.position = self.read + 1;
                break;
            }
            self.position = next;
            gone += 1;
        }
        Ok(gone)
    }

    fn backward(&mut self, rows: u64, mut out: Option<&mut RowSet>) -> Result<u64> {
        self.require_scroll()?;
        let mut gone = 0;
        while gone < rows && self.position > 0 {
            self.position -= 1;
            if self.position == 0 {
                break;
            }
            self.give(self.position, out.as_deref_mut())?;
            gone += 1;
        }
        Ok(gone)
    }

    /// Puts a kept row into `out`.
    fn give(&self, row: u64, out: Option<&mut RowSet>) -> Result<()> {
        let Some(out) = out else { return Ok(()) };
        let at = usize::try_from(row - self.first - 1).expect("kept rows fit memory");
        out.push_row((0..self.columns.len()).map(|column| self.kept.value(at, column)))
    }

    /// Reads one row of the query, keeps it if the cursor must, and puts it into `out`; false at
    /// the end.
    fn pull(&mut self, out: Option<&mut RowSet>) -> Result<bool> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let Some(row) = source.next()? else {
            self.source = None;
            return Ok(false);
        };
        if self.keeps {
            self.kept.push_row((0..row.len()).map(|column| row.value(column)))?;
        }
        if let Some(out) = out {
            out.push_row((0..row.len()).map(|column| row.value(column)))?;
        }
        self.read += 1;
        Ok(true)
    }

    /// Reads the rest of the query, so that its snapshot is no longer needed.
    pub fn keep_rest(&mut self) -> Result<()> {
        if !self.keeps {
            (self.keeps, self.first) = (true, self.read);
        }
        duty::relieved(|| {
            while self.pull(None)? {}
            Ok(())
        })
    }

    fn require_scroll(&self) -> Result<()> {
        if self.scrolls {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "cursor can only scan forward",
        )
        .hint("Declare it with SCROLL option to enable backward scan."))
    }
}
