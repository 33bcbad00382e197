//! Handles for programs that use no SQL: of streams, to give them events; of materialized views, to
//! read rows by key.

use std::ops::Range;
use std::sync::Arc;

use halcyon_catalog::Table;
use halcyon_ddl::views::{PackedPlan, StreamPlan};
use halcyon_exec::view_errors::view_error;
use halcyon_plan::env::{Clock, Env};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_store::{Value, ValueRef};
use halcyon_txn::{Isolation, Mode, WaitLimits};
use halcyon_views::{MaintainedView, PackedEvents, Taken};

use crate::database::Database;
use crate::durable::log_error;
use crate::session::Session;
use halcyon_plan::lock_errors;

/// A handle of a stream. An event given to it costs little more than the work of the views over the
/// stream.
///
/// An event is accepted when the call returns: every later reader of a view sees it. A view's rows
/// are brought up to date when they are read, so the first reader after many events waits for that.
pub struct Stream(Streams);

/// A handle of several streams, for packed events of all of them in the order in which they came.
///
/// ```
/// # fn main() -> halcyon::Result<()> {
/// use halcyon::ValueRef::Int64;
/// let db = halcyon::Database::in_memory();
/// db.session().batch(
///     "CREATE STREAM bids (price BIGINT NOT NULL); CREATE STREAM asks (price BIGINT NOT NULL);
///      CREATE MATERIALIZED VIEW crossed AS
///      SELECT COUNT(*) AS n FROM bids b, asks a WHERE b.price >= a.price",
/// )?;
/// let mut book = db.streams(&["bids", "asks"])?;
/// let mut events = book.packed();
/// book.pack(0, &[Int64(101)], 1, &mut events)?;
/// book.pack(1, &[Int64(100)], 1, &mut events)?;
/// book.take(&events, 0..2)?;
/// assert_eq!(db.view("crossed")?.row(&[])?, Some(vec![halcyon::Value::Int64(1)]));
/// # Ok(())
/// # }
/// ```
pub struct Streams {
    session: Session,
    names: Vec<Vec<String>>,
    plan: PackedPlan,
}

impl Database {
    /// A handle of the stream of this name (`name` or `schema.name`), as the first superuser.
    ///
    /// Errors: 42P01, 42809.
    pub fn stream(&self, name: &str) -> Result<Stream> {
        self.session().into_stream(name)
    }

    /// A handle of the streams of these names, as the first superuser; the handle identifies the
    /// streams by their positions in this list.
    ///
    /// Errors: 42P01, 42809.
    pub fn streams(&self, names: &[&str]) -> Result<Streams> {
        self.session().into_streams(names)
    }

    /// A handle of the materialized view of this name, to read its rows by key without SQL.
    ///
    /// Errors: 42P01, 42809.
    pub fn view(&self, name: &str) -> Result<ViewReader> {
        let session = self.session();
        let table = session.shared.catalog().find_table(&parts(name), &session.vars.search_path)?;
        let view = table.materialized().cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a materialized view"),
            )
        })?;
        Ok(ViewReader { session, view: view.maintained().clone(), table })
    }
}

/// The environment in which CHECKs are evaluated.
fn env(session: &Session) -> Env<'_> {
    Env {
        catalog: &session.catalog,
        params: &[],
        session: &session.vars,
        clock: Clock::default(),
        cancel: &session.cancel,
        workers: None,
    }
}

/// The parts of a dotted name in the form in which the catalog has them.
fn parts(name: &str) -> Vec<String> {
    name.split('.').map(str::to_owned).collect()
}

impl Session {
    /// A handle of a stream that acts for this session's role.
    ///
    /// Errors: 42P01, 42809, 42501.
    pub fn into_stream(self, name: &str) -> Result<Stream> {
        self.into_streams(&[name]).map(Stream)
    }

    /// A handle of several streams that acts for this session's role.
    ///
    /// Errors: 42P01, 42809, 42501.
    pub fn into_streams(mut self, names: &[&str]) -> Result<Streams> {
        let names: Vec<_> = names.iter().map(|name| parts(name)).collect();
        // The handle's plans are those of the shared catalog.
        self.discard_temporary();
        self.refresh_catalog();
        let plan = PackedPlan::bind(&self.binder_now(), &names)?;
        Ok(Streams { session: self, names, plan })
    }
}

impl Stream {
    /// Gives the views the event that a tuple is inserted.
    ///
    /// Errors: 42601, 42804 for a row that does not fit the stream's columns, 23502, 23514, 22003,
    /// 53200; no view has applied the event then.
    pub fn insert(&mut self, row: &[ValueRef<'_>]) -> Result<()> {
        self.event(row, 1)
    }

    /// Gives the views the event that a tuple is deleted. A stream keeps no tuples, so it is not
    /// checked that the tuple was ever inserted: sums become smaller, and a group with fewer
    /// inserts than deletes is not shown until the two are equal.
    ///
    /// Errors: as [`Stream::insert`].
    pub fn delete(&mut self, row: &[ValueRef<'_>]) -> Result<()> {
        self.event(row, -1)
    }

    #[inline]
    fn event(&mut self, row: &[ValueRef<'_>], weight: i8) -> Result<()> {
        let Streams { session, plan, .. } = self.0.bound()?;
        let plan = plan.stream_mut(0);
        plan.verify(row, &env(session))?;
        if plan.event(row, weight)? {
            return Ok(());
        }
        self.batch(&[(row.to_vec(), weight)])
    }

    /// Gives the views several events, all or none: rows with weight 1 for an insert, −1 for a
    /// delete.
    ///
    /// Errors: as [`Stream::insert`]; no view has applied any of the events then.
    pub fn batch(&mut self, events: &[(Vec<ValueRef<'_>>, i8)]) -> Result<()> {
        self.transact(events).map_err(|error| self.0.session.without_hidden_rows(error))
    }

    /// Gives the views events in a transaction of their own.
    fn transact(&mut self, events: &[(Vec<ValueRef<'_>>, i8)]) -> Result<()> {
        loop {
            let Streams { session, plan, .. } = self.0.bound()?;
            let env = env(session);
            let stream = &plan.streams()[0];
            events.iter().try_for_each(|(row, _)| stream.verify(row, &env))?;
            let limits =
                WaitLimits { timeout: session.in_force.lock_timeout, cancel: &session.cancel };
            let mut tx = session.shared.manager.begin(Isolation::ReadCommitted, session.slot());
            tx.begin_statement();
            StreamPlan::lock(plan.streams(), &mut tx, &limits)?;
            if plan.version() != session.shared.version() {
                continue;
            }
            stream.events_in(events, &mut tx, &env)?;
            tx.end_statement();
            let lsn = tx.try_commit(None).map_err(log_error)?;
            return session.make_durable(lsn);
        }
    }

    /// An empty list of packed events of this stream. A program that has many events at hand
    /// verifies and encodes them once, ahead of time, with [`Stream::pack`].
    pub fn packed(&self) -> PackedEvents {
        self.0.packed()
    }

    /// Appends an event to packed ones: a row with weight 1 for an insert, −1 for a delete.
    ///
    /// Errors: as [`Streams::pack`].
    pub fn pack(
        &mut self,
        row: &[ValueRef<'_>],
        weight: i8,
        events: &mut PackedEvents,
    ) -> Result<()> {
        self.0.pack(0, row, weight, events)
    }

    /// Gives the views a run of packed events, in order and at one moment: readers see all or none.
    ///
    /// Errors: as [`Streams::take`]. Panics if `events` does not have the range.
    #[inline]
    pub fn take(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<()> {
        self.0.take(events, range)
    }
}

impl Streams {
    /// The handle, bound to the catalog as it is now.
    #[inline]
    fn bound(&mut self) -> Result<&mut Self> {
        if self.plan.version() != self.session.shared.version() {
            self.rebind()?;
        }
        Ok(self)
    }

    #[cold]
    fn rebind(&mut self) -> Result<()> {
        self.session.refresh_catalog();
        self.plan.rebind(&self.session.binder_now(), &self.names)
    }

    /// An empty list of packed events of these streams, for [`Streams::pack`].
    pub fn packed(&self) -> PackedEvents {
        self.plan.packed()
    }

    /// Appends an event of a stream, given by its position among the handle's, to packed ones: a
    /// row with weight 1 for an insert, −1 for a delete.
    ///
    /// Errors: as [`Stream::insert`]; 0A000 if a guard, or a view over a view, follows from a
    /// stream; 55000 if CHECKs or views have changed since the earlier events were packed. Panics
    /// if there is no such stream.
    pub fn pack(
        &mut self,
        stream: usize,
        row: &[ValueRef<'_>],
        weight: i8,
        events: &mut PackedEvents,
    ) -> Result<()> {
        let Streams { session, plan, .. } = self.bound()?;
        plan.pack(stream, row, weight, &env(session), events)
    }

    /// Gives the views a run of packed events, in order and at one moment: readers see all or none.
    ///
    /// Errors: 22003, 53200, and 0A000 and 55000 as in [`Streams::pack`]; no view has applied any
    /// of the events then. Panics if `events` does not have the range.
    #[inline]
    pub fn take(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<()> {
        match self.bound()?.plan.take(events, range.clone())? {
            Taken::All => Ok(()),
            Taken::NoneWhileOwned => self.take_owned(events, range),
        }
    }

    /// Applies a run as [`Streams::take`] does, while a transaction owns a view: waits for the
    /// transaction's end.
    #[cold]
    fn take_owned(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<()> {
        loop {
            let session = &self.session;
            let limits =
                WaitLimits { timeout: session.in_force.lock_timeout, cancel: &session.cancel };
            let mut tx = session.shared.manager.begin(Isolation::ReadCommitted, session.slot());
            tx.begin_statement();
            StreamPlan::lock(self.plan.streams(), &mut tx, &limits)?;
            let mut taken = None;
            if self.plan.version() == session.shared.version() {
                taken = Some(self.plan.take(events, range.clone()));
            }
            tx.end_statement();
            let lsn = tx.try_commit(None).map_err(log_error)?;
            session.make_durable(lsn)?;
            match taken {
                Some(Ok(Taken::All)) => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok(Taken::NoneWhileOwned)) | None => self.rebind()?,
            }
        }
    }
}

/// A handle of a materialized view.
pub struct ViewReader {
    session: Session,
    view: Arc<MaintainedView>,
    table: Arc<Table>,
}

impl ViewReader {
    /// The row of a group: its columns, as SELECT shows them. `key`: the values of GROUP BY in
    /// their order; empty for a view of one row.
    ///
    /// Waits while a transaction that has changed the view is in progress.
    /// Errors: 22023 for a key of another width; 40P01 and 55P03 from the wait.
    pub fn row(&mut self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>> {
        let session = &self.session;
        if session.shared.durable.is_none()
            && let Some(row) = self.view.row_if_open(key).map_err(view_error)?
        {
            return Ok(row);
        }
        let limits = WaitLimits { timeout: session.in_force.lock_timeout, cancel: &session.cancel };
        let mut tx = session.shared.manager.begin(Isolation::ReadCommitted, session.slot());
        tx.begin_statement();
        let locked = tx.lock(&self.table.cells[0], Mode::Shared, &limits);
        locked.map_err(|error| lock_errors::of_table(error, &self.table))?;
        let row = self.view.row(key).map_err(view_error)?;
        tx.end_statement();
        let lsn = tx.try_commit(None).map_err(log_error)?;
        session.make_durable(lsn)?;
        Ok(row)
    }

    /// The view's program with events that were packed for this view alone, for a cell: for measurements. `None`: other
    /// views read the streams too.
    pub fn script(&self, events: &PackedEvents) -> Option<halcyon_views::Script> {
        self.view.script(events)
    }

    /// A number that follows from the view's rows in whatever order: that of a cell with the same events.
    pub fn checksum(&self) -> Result<u64> {
        self.view.checksum().map_err(view_error)
    }
}
