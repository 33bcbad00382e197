//! The public ways to run a statement, and what surrounds each run: the timeout, the counts, and
//! the boundary at which a panic becomes an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use halcyon_base::duty;
use halcyon_base::memory::Entered;
use halcyon_prepare::plan::{Plan, Prepared, Reach};
use halcyon_sql::coerce::{TimeZone, to_text};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::ast::Expr;
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::utility::Utility;
use halcyon_store::{Value, ValueRef};
use halcyon_txn::Isolation;
use halcyon_workload::ClassId;

use crate::acquire::LockWait;
use crate::activity::named_by_rule;
use crate::copying::Copying;
use crate::execute::Ran;
use crate::executed::{unknown, wrong_number};
use crate::memory::{self, grows, keeps};
use crate::outcome::{Outcome, Tag};
use crate::rows::{CountedAs, Rows, Streamed};
use crate::session::Session;
use crate::set::shown_columns;
use crate::statement::Statement;
use crate::suspended::Run;
use crate::transaction::Access;
use crate::workload::InClass;
use halcyon_exec::deadline::Deadline;

/// A source of a statement to run: a prepared [`Statement`], or a text that is looked up in the
/// cache.
pub trait Source {
    /// Calls `run` with the statement.
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T>;
}

impl Source for &Statement {
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T> {
        run(session, self)
    }
}

impl Source for &str {
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T> {
        let statement = session.prepare_passing(self, &[])?;
        run(session, &statement)
    }
}

impl Session {
    /// Runs a statement that returns rows.
    ///
    /// Errors: 02000 if the statement returns no rows; those of the statement.
    pub fn query(&mut self, source: impl Source, params: &[Value]) -> Result<Rows> {
        match source.with(self, |session, statement| session.run(statement, params))? {
            Outcome::Rows { rows, .. } => Ok(rows),
            _ => Err(SqlError::new(SqlState::NO_DATA, "the statement returns no rows")
                .hint("Use execute.")),
        }
    }

    /// Runs a statement and returns how many rows it concerned; rows that it returns are read and
    /// counted.
    pub fn execute(&mut self, source: impl Source, params: &[Value]) -> Result<u64> {
        source.with(self, |session, statement| session.run_counting(statement, params))
    }

    /// Runs a statement without the outcome that [`Session::run`] makes, which costs more than most
    /// statements.
    fn run_counting(&mut self, statement: &Statement, params: &[Value]) -> Result<u64> {
        let mut out = RowSet::default();
        let ran = self.run_statement(statement, params, &mut out)?;
        if let Ran::Written(rows) = ran {
            return Ok(rows);
        }
        match self.dress(statement, ran, out) {
            Outcome::Rows { mut rows, written, .. } => {
                let mut count = 0;
                while rows.next()?.is_some() {
                    count += 1;
                }
                Ok(written.unwrap_or(count))
            }
            Outcome::Done(tag) => Ok(tag.rows.unwrap_or(0)),
            Outcome::CopyIn { .. } | Outcome::CopyOut { .. } => {
                self.copy_abandon();
                Err(SqlError::unsupported("COPY FROM STDIN or TO STDOUT in execute")
                    .hint("Use run, then copy_data and copy_end, or copy_out."))
            }
        }
    }

    /// Runs each statement of `text` in turn, until one fails.
    pub fn batch(&mut self, text: &str) -> Result<()> {
        let texts = self.split(text)?;
        texts.into_iter().try_for_each(|text| self.execute(text, &[]).map(|_| ()))
    }

    /// Runs a prepared statement that returns few rows into `out`, whose memory is reused: a point
    /// query allocates nothing in this way.
    pub fn query_into(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<()> {
        match self.run_statement(statement, params, out)? {
            Ran::Set { .. } => Ok(()),
            Ran::Stream(streamed) => {
                let mut rows = self.counted_rows(statement, *streamed);
                out.reset(rows.columns().len());
                while let Some(row) = rows.next()? {
                    out.push_row((0..row.len()).map(|column| row.value(column)))?;
                }
                Ok(())
            }
            Ran::Written(_) | Ran::Other(_) | Ran::Queued | Ran::TooMany(_) => {
                Err(SqlError::new(SqlState::NO_DATA, "the statement returns no rows"))
            }
        }
    }

    /// Runs a statement.
    ///
    /// Errors: those of the statement; a transaction block counts as failed then.
    pub fn run(&mut self, statement: &Statement, params: &[Value]) -> Result<Outcome> {
        let mut out = RowSet::default();
        let ran = self.run_statement(statement, params, &mut out)?;
        Ok(self.dress(statement, ran, out))
    }

    /// The columns of the rows that a statement will return if it is run now; empty if it returns
    /// none.
    ///
    /// For SHOW, FETCH and EXECUTE these depend on settings, cursors and prepared statements of the
    /// session.
    pub fn columns(&self, statement: &Statement) -> Arc<[ResultColumn]> {
        let prepared = statement.prepared();
        let none = || Arc::from([]);
        match &prepared.plan {
            Plan::Utility(Utility::Show(name)) => shown_columns(name.as_deref()),
            Plan::Utility(Utility::Fetch { cursor, moves_only: false, .. }) => {
                self.cursor_columns(cursor).unwrap_or_else(none)
            }
            Plan::Utility(Utility::Execute { name, .. }) => {
                self.named.get(name).map_or_else(none, |named| self.columns(named))
            }
            _ => prepared.columns.clone(),
        }
    }

    /// Makes the outcome for a caller of [`Session::run`].
    pub(crate) fn dress(&mut self, statement: &Statement, ran: Ran, out: RowSet) -> Outcome {
        let tag = statement.tag();
        // Columns are reference-counted, and the count is shared by all sessions: they are cloned
        // only for rows.
        match ran {
            Ran::Set { written } => {
                let rows = Rows::from_set(statement.columns(), out);
                Outcome::Rows { rows, tag, written }
            }
            Ran::Written(rows) => Outcome::Done(Tag::counted(tag, rows)),
            Ran::Stream(streamed) => {
                let rows = self.counted_rows(statement, *streamed);
                Outcome::Rows { rows, tag, written: None }
            }
            Ran::Other(outcome) => *outcome,
            Ran::Queued | Ran::TooMany(_) => {
                unreachable!("the thread waits, or the statement goes on")
            }
        }
    }

    /// Runs `work` in a transaction and commits; begins again if the transaction fell victim to
    /// others.
    ///
    /// `work` may run several times, so it must not have effects outside the database. Retries on
    /// 40001 and 40P01, with growing pauses. Errors: those of `work`; the transaction is rolled
    /// back.
    pub fn transaction<T>(&mut self, mut work: impl FnMut(&mut Session) -> Result<T>) -> Result<T> {
        let mut pause_us = 20;
        loop {
            self.begin(Isolation::Serializable, Access::ReadWrite)?;
            let done = work(self).and_then(|value| self.commit().map(|()| value));
            match done {
                Ok(value) => return Ok(value),
                Err(error) => {
                    self.rollback_block();
                    let retry = [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED];
                    if !retry.contains(&error.state()) {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(self.jitter(pause_us)));
            pause_us = (pause_us * 2).min(20_000);
        }
    }

    /// Rows of a statement that [`Tallies`](crate::activity::Tallies) count.
    fn counted_rows(&self, statement: &Statement, streamed: Streamed) -> Rows {
        let counted = CountedAs {
            shared: Arc::clone(&self.shared),
            text: statement.counted_as.borrow().clone(),
            executor: statement.prepared().plan.executor(),
        };
        self.streamed_rows(statement.columns(), streamed, Some(counted))
    }

    /// Runs a statement; the rows of a small result go to `out`. The thread waits for locks.
    fn run_statement(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let (run, _entered) = self.begin_run(statement);
        // The statement may be run by another one that does not wait.
        let wait = std::mem::replace(&mut self.lock_wait, LockWait::Blocks);
        let ran = self.dispatched(statement, params, out);
        self.lock_wait = wait;
        self.end_run(run, ran, out)
    }

    /// Begins a run of a statement: its time, its account, its counts.
    #[inline]
    pub(crate) fn begin_run(&mut self, statement: &Statement) -> (Run, Entered) {
        self.carry_out_wishes();
        self.close_idle_cursors();
        let wishes = self.entry.signals.wish_count();
        self.cancel.reset();
        self.choose_class(&statement.prepared());
        if self.block.is_none() {
            self.shared.datafusion.executions().take_back(self.id);
        }
        let entered = self.begin_account(writes(&statement.prepared().plan));
        let planned = statement.planned.take();
        let timeouts = [self.in_force.statement_timeout, self.class.timeout];
        let timeout = timeouts.into_iter().flatten().min();
        let timeout = timeout.map(|time| time.saturating_sub(planned));
        let deadline =
            timeout.map(|timeout| self.shared.deadlines.set(timeout, self.cancel.clone()));
        self.notices.extend(statement.prepared().warnings());
        let watch = self.tallies.begin(statement, &self.entry, &self.shared.statements);
        let in_class = self.begin_in_class(&statement.prepared(), &watch);
        (Run { wishes, deadline, watch, in_class }, entered)
    }

    /// Runs a statement within its run; a panic in it becomes an error.
    #[inline]
    pub(crate) fn dispatched(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let caught = catch_unwind(AssertUnwindSafe(|| self.dispatch(statement, params, out)));
        caught.unwrap_or_else(|panic| Err(self.after_panic(panic.as_ref())))
    }

    /// Ends a run of a statement, with what has come of it.
    #[inline]
    pub(crate) fn end_run(&mut self, run: Run, ran: Result<Ran>, out: &RowSet) -> Result<Ran> {
        let Run { wishes, deadline, watch, mut in_class } = run;
        // A statement that was refused before it went on leaves its place at the gate.
        self.at_gate = None;
        let admitted = self.admitted.take();
        match &mut in_class {
            Some(in_class) => in_class.admitted = admitted,
            None => drop(admitted),
        }
        let account = self.account.id();
        let mut ran = ran.map_err(|error| memory::named(error, account));
        if deadline.as_ref().is_some_and(Deadline::passed) {
            ran = ran.map_err(Deadline::name);
        }
        let ran = ran.map_err(|error| named_by_rule(error, &self.entry));
        let mut ran = ran.map_err(|error| self.without_hidden_rows(error));
        match (&mut ran, &mut self.copying) {
            (Ok(Ran::Stream(streamed)), _) => {
                streamed.until = deadline;
                let class = ClassId(streamed.batches.class());
                in_class.iter_mut().for_each(|own| own.switch(class));
                streamed.in_class = in_class.take();
            }
            (Ok(_), Some(Copying::In(copy))) => {
                copy.deadline = deadline;
                copy.in_class = in_class.take();
            }
            (Ok(_), _) => {}
            (Err(_), _) => {
                self.entry.signals.forget_wishes(wishes);
                in_class.iter().for_each(InClass::fail);
            }
        }
        drop(in_class);
        if self.block.is_none() && !matches!(ran, Ok(Ran::Stream(_))) {
            self.shared.advisory.end_transaction(self.id);
        }
        let rows = ran.as_ref().ok().map(|ran| ran.rows(out));
        self.tallies.end(&watch, rows, &self.entry, &self.shared.statements);
        ran
    }

    fn dispatch(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let prepared = statement.prepared();
        self.refuse_plan_if_failed(&prepared.plan)?;
        let reach = prepared.reach();
        if grows(&prepared) {
            self.shared.memory.require_room()?;
        }
        if keeps(&prepared) {
            self.shared.memory.require_room_to_keep()?;
        }
        if !self.pass_gate(&prepared)? {
            drop(prepared);
            self.suspend(None);
            return Ok(Ran::Queued);
        }
        drop(prepared);
        match reach {
            Reach::Session => {
                // Statements within this one are run to their end.
                self.lock_wait = LockWait::Blocks;
                self.run_here(statement, params, out)
            }
            Reach::Catalog | Reach::Locks => self.drive(statement, params, out),
            Reach::Snapshot => duty::relieved(|| self.drive(statement, params, out)),
        }
    }

    /// Runs a statement that reaches neither tables nor the catalog.
    fn run_here(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let catalog = self.current_catalog();
        if !statement.prepared().holds_for(catalog.plan_version(), &self.vars.user) {
            self.bind_again(statement, &catalog)?;
        }
        // The statement may run other statements, possibly itself.
        let prepared = Arc::clone(&statement.prepared());
        duty::relieved_if(lasts(&prepared.plan), || self.run_plan_here(&prepared, params, out))
    }

    fn run_plan_here(
        &mut self,
        prepared: &Prepared,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        match &prepared.plan {
            Plan::Utility(Utility::Execute { name, arguments }) => {
                self.execute_named(name, arguments).map(Ran::other)
            }
            Plan::Utility(Utility::CreateExecuted(create)) => {
                self.create_executed(create).map(Ran::other)
            }
            Plan::Explain { of, .. } => match &of.plan {
                Plan::Utility(Utility::Execute { name, arguments }) => {
                    self.explain_executed(&prepared.text, name, arguments).map(Ran::other)
                }
                _ => unreachable!("it names the locks of its statement"),
            },
            Plan::Utility(Utility::Import(folder)) => {
                let rows = self.import(Path::new(folder))?;
                Ok(Ran::other(Outcome::Done(Tag::counted(prepared.tag, rows))))
            }
            Plan::Utility(Utility::Do(block)) => {
                self.run_block(block)?;
                Ok(Ran::other(Outcome::Done(Tag::plain(prepared.tag))))
            }
            Plan::Utility(Utility::Declare(declare)) => {
                self.declare(declare, &prepared.params, params)?;
                Ok(Ran::other(Outcome::Done(Tag::plain(prepared.tag))))
            }
            Plan::Utility(utility) => self.command(utility, prepared.tag).map(Ran::other),
            Plan::Lines(lines) => Ran::lines(lines, out),
            Plan::Subscribe { view, from } => {
                let following = self.follow(view, *from)?;
                let columns = 2 + following.column_count();
                self.copying = Some(Copying::Following(Box::new(following)));
                Ok(Ran::other(Outcome::CopyOut { columns, binary: false }))
            }
            Plan::Empty => Ok(Ran::other(Outcome::Done(Tag::plain("")))),
            _ => unreachable!("{} reaches more than the session", prepared.tag),
        }
    }

    /// EXECUTE. Errors: 26000 if no such statement exists; those of the statement.
    fn execute_named(&mut self, name: &str, arguments: &[Expr]) -> Result<Outcome> {
        let statement = self.named.remove(name).ok_or_else(|| unknown(name))?;
        let count = statement.params().len();
        let outcome = self.constants(arguments).and_then(|params| {
            if params.len() != count {
                return Err(wrong_number(name, count, params.len()));
            }
            match self.with_digits_of(&statement, &params)? {
                Some(wider) => self.run(&wider, &params),
                None => self.run(&statement, &params),
            }
        });
        self.named.insert(name.to_owned(), statement);
        outcome
    }

    /// Values of constant expressions. Decimals are texts: a parameter may have another number of places.
    pub(crate) fn constants(&mut self, expressions: &[Expr]) -> Result<Vec<Value>> {
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = expressions.iter().map(ToString::to_string).collect();
        let mut rows = self.query(format!("SELECT {}", list.join(", ")).as_str(), &[])?;
        let columns = Arc::clone(rows.columns());
        let row = rows.next()?.expect("a SELECT without FROM has one row");
        let value = |column: usize| match (row.value(column), columns[column].ty) {
            (value @ ValueRef::Decimal(_), Some(ty)) => {
                Value::Text(to_text(value, ty, &TimeZone::UTC))
            }
            (value, _) => value.to_owned(),
        };
        Ok((0..row.len()).map(value).collect())
    }
}

/// Whether most of what a statement takes is what it leaves in tables.
fn writes(plan: &Plan) -> bool {
    match plan {
        Plan::Write(_) | Plan::Ddl(_) => true,
        Plan::Copy(copy) => copy.is_from(),
        Plan::Explain { asked, of } => asked.analyze && writes(&of.plan),
        // Statements that run within another begin an account of their own.
        Plan::Utility(
            Utility::Execute { .. }
            | Utility::CreateExecuted(_)
            | Utility::Import(_)
            | Utility::Do(_),
        ) => true,
        _ => false,
    }
}

/// Whether a statement that reaches neither tables nor the catalog may wait or compute for long.
fn lasts(plan: &Plan) -> bool {
    match plan {
        Plan::Utility(utility) => match utility {
            // COMMIT and ROLLBACK know by their transaction, EXECUTE by its statement.
            Utility::Begin(_)
            | Utility::Commit { .. }
            | Utility::Rollback { .. }
            | Utility::Savepoint(_)
            | Utility::Release(_)
            | Utility::SetTransaction(_)
            | Utility::SetSessionTransaction(_)
            | Utility::Set { .. }
            | Utility::Reset(_)
            | Utility::Show(_)
            | Utility::SetRole { .. }
            | Utility::Execute { .. }
            | Utility::CreateExecuted(_)
            | Utility::Deallocate(_)
            | Utility::Listen(_)
            | Utility::Unlisten(_)
            | Utility::Notify { .. } => false,
            Utility::RollbackTo(_)
            | Utility::SetConstraints { .. }
            | Utility::Prepare { .. }
            | Utility::Discard(_)
            | Utility::Lock { .. }
            | Utility::Checkpoint { .. }
            | Utility::Export(_)
            | Utility::Import(_)
            | Utility::Do(_)
            | Utility::AlterSystem { .. }
            | Utility::Upkeep { .. }
            | Utility::Declare(_)
            | Utility::Fetch { .. }
            | Utility::Close(_) => true,
        },
        Plan::Lines(_) | Plan::Empty => false,
        _ => true,
    }
}
