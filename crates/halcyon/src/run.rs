//! Running a planned statement: catalog check, locks or snapshot, executor, statement atomicity.
//!
//! A statement takes every lock it needs before it runs, in order of partition id, and looks
//! whether the catalog moved meanwhile; if so it is planned again and keeps the locks. Then it
//! runs to its end without waiting for anybody. What it did is undone alone if it fails.
//!
//! The way of a point query, [`Session::query_into`], allocates nothing, hashes nothing and writes
//! no memory that another session writes, except the lock word's slot of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halcyon_query::analytic::BatchStream;
use halcyon_query::catalog::Table;
use halcyon_query::ddl::{Ddl, DdlContext};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::exec::{Clock, Env, Locks, Need, Roots};
use halcyon_query::plan::{Plan, Prepared};
use halcyon_query::point::Scratch;
use halcyon_query::rows::{RowSet, RowSink};
use halcyon_query::utility::Modes;
use halcyon_query::views::{is_streamed, own};
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::{
    CutError, LockError, Lsn, Manager, Mode, PartitionCell, Transaction, WaitLimits, cut_noting,
};

use crate::copy::Copying;
use crate::deadline::Deadline;
use crate::durable::{catalog_change, log_error};
use crate::outcome::{Outcome, Tag};
use crate::params;
use crate::rows::Rows;
use crate::session::{Session, Statement, failed_transaction};
use crate::transaction::{Active, Snapshot};

/// Roots by table of a plan and partition number.
pub(crate) type TableRoots = Vec<Vec<triomphe::Arc<Partition>>>;

/// What a statement came to, before it is dressed for the caller.
///
/// Three words, since every layer of a statement's way hands it on: what is larger is boxed, and
/// the short statements have variants of their own.
pub(crate) enum Ran {
    /// Rows are in the row set given.
    Set {
        /// Rows written, if it writes.
        written: Option<u64>,
    },
    /// So many rows were written, and none are returned. The tag is the statement's.
    Written(u64),
    /// Rows come as they are read.
    Stream(Box<Streamed>),
    /// Data of COPY TO, to be fetched, or its end if it went to a file.
    Copying(Box<(Option<Copying>, Outcome)>),
    /// Something else.
    Other(Box<Outcome>),
}

const _: () = assert!(size_of::<Result<Ran>>() <= 24);

/// Rows that come as they are read.
pub(crate) struct Streamed {
    pub batches: BatchStream,
    /// When that ends, if it is limited.
    pub until: Option<Deadline>,
}

impl Ran {
    /// Rows given or written, as far as they are known.
    pub(crate) fn rows(&self, out: &RowSet) -> u64 {
        match self {
            Ran::Set { written } => written.unwrap_or(out.len() as u64),
            Ran::Written(rows) => *rows,
            Ran::Other(outcome) => match &**outcome {
                Outcome::Done(tag) => tag.rows.unwrap_or(0),
                _ => 0,
            },
            Ran::Stream(_) | Ran::Copying(_) => 0,
        }
    }

    fn stream(batches: BatchStream) -> Ran {
        Ran::Stream(Box::new(Streamed { batches, until: None }))
    }

    fn other(outcome: Outcome) -> Ran {
        Ran::Other(Box::new(outcome))
    }
}

impl Session {
    /// Runs a statement.
    ///
    /// Errors: those of the statement; a transaction block is failed afterwards.
    pub fn run(&mut self, statement: &Statement, params: &[Value]) -> Result<Outcome> {
        let mut out = RowSet::default();
        let ran = self.run_statement(statement, params, &mut out)?;
        Ok(self.dress(statement, ran, out))
    }

    /// What the caller of [`Session::run`] gets.
    pub(crate) fn dress(&mut self, statement: &Statement, ran: Ran, out: RowSet) -> Outcome {
        let tag = statement.tag();
        // Columns are counted references that all sessions share: taken only where there are rows.
        match ran {
            Ran::Set { written } => {
                let rows = Rows::from_set(statement.columns(), out);
                Outcome::Rows { rows, tag, written }
            }
            Ran::Written(rows) => Outcome::Done(Tag::counted(tag, rows)),
            Ran::Stream(streamed) => {
                let columns = statement.columns();
                let rows = Rows::from_stream(columns, *streamed, self.rows_failed());
                Outcome::Rows { rows, tag, written: None }
            }
            Ran::Other(outcome) => *outcome,
            Ran::Copying(copying) => copying.1,
        }
    }

    /// Runs a statement; the rows of small results go to `out`.
    pub(crate) fn run_statement(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        self.cancel.reset();
        let timeout = self.statement_timeout;
        let deadline =
            timeout.map(|timeout| self.shared.deadlines.set(timeout, self.cancel.clone()));
        let watch = self.tallies.begin(statement, &self.entry, &self.shared);
        let caught = catch_unwind(AssertUnwindSafe(|| self.dispatch(statement, params, out)));
        let mut ran = caught.unwrap_or_else(|panic| Err(self.after_panic(panic.as_ref())));
        if deadline.as_ref().is_some_and(Deadline::passed) {
            ran = ran.map_err(Deadline::name);
        }
        if let Ok(Ran::Stream(streamed)) = &mut ran {
            streamed.until = deadline;
        }
        let rows = ran.as_ref().ok().map(|ran| ran.rows(out));
        self.tallies.end(&watch, rows, &self.entry, &self.shared);
        ran
    }

    /// A broken invariant took down a statement: its transaction goes with it.
    pub(crate) fn after_panic(&mut self, panic: &(dyn std::any::Any + Send)) -> SqlError {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        tracing::error!(panic = text, "a statement broke an invariant");
        self.rollback_if_active();
        SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error: {text}"))
            .detail("The transaction was rolled back.")
    }

    pub(crate) fn dispatch(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        if statement.prepared.borrow().catalog_version != self.catalog_version() {
            self.replan(statement)?;
        }
        let prepared = statement.prepared.borrow();
        self.refuse_if_failed(&prepared.plan)?;
        if let Plan::Utility(utility) = &prepared.plan {
            let (utility, tag) = (utility.clone(), prepared.tag);
            drop(prepared);
            return self.utility(&utility, tag).map(Ran::other);
        }
        if let Plan::Lines(lines) = &prepared.plan {
            out.reset(1);
            for line in lines {
                out.row(&[ValueRef::Text(line)])?;
            }
            return Ok(Ran::Set { written: None });
        }
        if let Plan::Subscribe { view, from } = &prepared.plan {
            if self.active.is_some() {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SUBSCRIBE cannot run inside a transaction block",
                ));
            }
            let following = self.follow(view, *from)?;
            let columns = 2 + following.column_count();
            self.copying = Some(Copying::Following(Box::new(following)));
            return Ok(Ran::other(Outcome::CopyOut { columns, binary: false }));
        }
        if matches!(prepared.plan, Plan::Empty) {
            return Ok(Ran::other(Outcome::Done(Tag::plain(""))));
        }
        let converted;
        let params = match params::all_fit(params, &prepared.params) {
            true => params,
            false => {
                converted = params::convert(params, &prepared.params)?;
                &converted
            }
        };
        let reads_only = matches!(prepared.plan, Plan::Analytical(_)) && !prepared.locks_rows;
        drop(prepared);
        if self.active.is_none() {
            if reads_only {
                return self.on_own_snapshot(statement, params);
            }
            if let Some(ran) = self.alone(statement, params, out)? {
                return Ok(ran);
            }
        }
        self.in_transaction(statement, params, out)
    }

    /// Runs a point plan or a write as a transaction of its own, with nothing around it that only
    /// longer transactions need: savepoint, private catalog, state kept between statements.
    ///
    /// None if this statement needs more, or its plan is of another catalog than the locks it has
    /// found: [`Session::in_transaction`] is the general way, and this one's slow twin.
    fn alone(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Option<Ran>> {
        let prepared = statement.prepared.borrow();
        if !matches!(prepared.plan, Plan::Point(_) | Plan::Write(_))
            || self.default_modes.read_only == Some(true)
        {
            return Ok(None);
        }
        let env = Env {
            catalog: &self.catalog,
            params,
            session: &self.vars,
            clock: Clock::default(),
            cancel: &self.cancel,
        };
        self.needs.clear();
        let tables = match &prepared.plan {
            Plan::Point(plan) => {
                plan.needs(&env, &mut self.needs)?;
                plan.tables()
            }
            Plan::Write(plan) => {
                plan.needs(&env, &mut self.needs)?;
                plan.tables()
            }
            _ => return Ok(None),
        };
        if prepared.locks_rows {
            self.needs.iter_mut().for_each(|need| need.mode = Mode::Exclusive);
        }
        let alone = self.shared.manager.settled_alone();
        self.freshen(tables, |_| false)?;
        let isolation = self.default_modes.isolation.unwrap_or_default();
        // Every way out before the commit drops it, which rolls it back.
        let mut tx = self.shared.manager.begin(isolation, self.slot());
        tx.begin_statement();
        let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
        lock_needs(&mut tx, tables, &mut self.needs, &mut self.locks, &limits)?;
        // Two views may then be of two moments: the long way looks at that.
        let is_torn = tables.len() > 1 && self.shared.manager.settled_alone() != alone;
        if is_torn || self.shared.version() != prepared.catalog_version {
            return Ok(None);
        }
        let ran = execute(&prepared, &env, &mut tx, &self.locks, &mut self.scratch, out)?;
        tx.end_statement();
        let lsn = tx.try_commit(None).map_err(log_error)?;
        self.make_durable(lsn)?;
        Ok(Some(ran))
    }

    /// Runs a statement in the transaction block, or in a transaction of its own.
    fn in_transaction(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let implicit = self.active.is_none();
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.new_active(self.default_modes),
        };
        active.used = true;
        let ran = match active.read_only() {
            true => self.on_snapshot(&mut active, statement, params, out),
            false => self.under_locks(&mut active, statement, params, out, implicit),
        };
        if self.copy_begins() {
            // COPY FROM STDIN goes on with the data; it has taken the transaction along.
            self.copy_continues(active, implicit);
            return ran;
        }
        match (implicit, &ran) {
            (true, Ok(_)) => self.commit_active(active)?,
            (true, Err(_)) => drop(active),
            (false, _) => {
                active.failed = ran.is_err();
                self.active = Some(active);
            }
        }
        ran
    }

    /// Runs a statement under locks, and undoes what it did if it fails.
    fn under_locks(
        &mut self,
        active: &mut Active,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
        implicit: bool,
    ) -> Result<Ran> {
        active.tx.begin_statement();
        let start = active.tx.savepoint();
        let catalog = active.catalog.clone();
        let ran = self.locked(active, statement, params, out, implicit);
        if self.copy_begins() {
            return ran;
        }
        if ran.is_err() && !implicit {
            active.tx.rollback_to(start);
            active.catalog = catalog;
        }
        active.tx.end_statement();
        ran
    }

    /// Locks what the plan needs, plans again if the catalog moved, and runs it.
    fn locked(
        &mut self,
        active: &mut Active,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
        implicit: bool,
    ) -> Result<Ran> {
        let mut was_torn = false;
        loop {
            let prepared = statement.prepared.borrow();
            let of = match &prepared.plan {
                Plan::Explain { of, .. } => &**of,
                _ => &*prepared,
            };
            if let Plan::Ddl(ddl) = &of.plan {
                if self.lock_catalog(active)? && prepared.catalog_version != self.shared.version() {
                    drop(prepared);
                    self.replan(statement)?;
                    continue;
                }
                return self.change_catalog(active, ddl).map(Ran::other);
            }
            let catalog = active.catalog.as_ref().unwrap_or(&self.catalog);
            let env = Env {
                catalog,
                params,
                session: &self.vars,
                clock: Clock::since(active.started_us),
                cancel: &self.cancel,
            };
            self.needs.clear();
            match &of.plan {
                Plan::Point(plan) => plan.needs(&env, &mut self.needs)?,
                Plan::Analytical(plan) => plan.needs(&env, &mut self.needs)?,
                Plan::Write(plan) => plan.needs(&env, &mut self.needs)?,
                Plan::Copy(plan) => plan.needs(&env, &mut self.needs)?,
                _ => {}
            }
            if of.locks_rows {
                self.needs.iter_mut().for_each(|need| need.mode = Mode::Exclusive);
            }
            let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
            let tables = of.plan.tables();
            let tx = &mut active.tx;
            let held = |table: &Table| tx.holds(&table.cells[0]);
            let alone = self.shared.manager.settled_alone();
            self.freshen(tables, held)?;
            // What a longer transaction has read of a stream's view must stay as it is; and whoever
            // holds several wholly finds the same events in all.
            let repeats = was_torn || !implicit && tx.isolation().keeps_shared_locks();
            let mut streamed = tables.iter().filter(|table| is_streamed(catalog, table)).peekable();
            if repeats && streamed.peek().is_some() {
                for need in &mut self.needs {
                    if is_streamed(catalog, &tables[need.table]) {
                        need.mode = Mode::Exclusive;
                    }
                }
            }
            lock_needs(tx, tables, &mut self.needs, &mut self.locks, &limits)?;
            if repeats {
                streamed.for_each(|table| own(table, tx));
            } else if self.shared.manager.settled_alone() != alone && streamed.count() > 1 {
                was_torn = true;
                continue;
            }
            let version = match &active.catalog {
                Some(own) => own.version,
                None => self.shared.version(),
            };
            if version != prepared.catalog_version {
                drop(prepared);
                self.replan(statement)?;
                continue;
            }
            return match &prepared.plan {
                Plan::Explain { analyze, of } => {
                    let held = (&mut active.tx, &self.locks, self.needs.as_slice());
                    crate::explain::under_locks(of, *analyze, &env, held, &mut self.scratch, out)
                }
                Plan::Copy(_) => {
                    let (copying, outcome) = crate::copy::start(
                        &prepared,
                        &env,
                        &mut active.tx,
                        &self.locks,
                        &mut self.scratch,
                    )?;
                    self.copying = copying;
                    Ok(Ran::other(outcome))
                }
                _ => execute(&prepared, &env, &mut active.tx, &self.locks, &mut self.scratch, out),
            };
        }
    }
}

/// Runs a plan under locks.
pub(crate) fn execute(
    prepared: &Prepared,
    env: &Env<'_>,
    tx: &mut Transaction,
    locks: &Locks,
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    match &prepared.plan {
        Plan::Point(plan) => {
            out.reset(prepared.columns.len());
            plan.run(env, Roots::Locked(tx, locks), out, scratch)?;
            Ok(Ran::Set { written: None })
        }
        Plan::Analytical(plan) => {
            plan.start(env, locked_roots(tx, locks, plan.tables())).map(Ran::stream)
        }
        Plan::Write(plan) => {
            let returns = !prepared.columns.is_empty();
            out.reset(prepared.columns.len());
            let sink: Option<&mut dyn RowSink> = if returns { Some(out) } else { None };
            let written = plan.run(env, tx, locks, scratch, sink)?;
            match returns {
                true => Ok(Ran::Set { written: Some(written) }),
                false => Ok(Ran::Written(written)),
            }
        }
        _ => unreachable!("{} has its own way", prepared.tag),
    }
}

/// Runs a plan that only reads, on roots of a snapshot.
fn execute_on_snapshot(
    prepared: &Prepared,
    env: &Env<'_>,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    let roots = snapshot.roots_of(prepared.plan.tables());
    match &prepared.plan {
        Plan::Point(plan) => {
            out.reset(prepared.columns.len());
            plan.run(env, Roots::Snapshot(&roots), out, scratch)?;
            Ok(Ran::Set { written: None })
        }
        Plan::Analytical(plan) => plan.start(env, roots).map(Ran::stream),
        Plan::Explain { analyze, of } if of.plan.reads_only() => {
            let roots = snapshot.roots_of(of.plan.tables());
            crate::explain::on_snapshot(of, *analyze, env, roots, scratch, out)
        }
        Plan::Copy(plan) if plan.reads_only() => {
            let begun = crate::copy::start_on_snapshot(plan, env, roots, scratch)?;
            Ok(Ran::Copying(Box::new(begun)))
        }
        _ => Err(SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {} in a read-only transaction", prepared.tag),
        )),
    }
}

/// The roots of locked partitions, with the transaction's own changes.
pub(crate) fn locked_roots(tx: &Transaction, locks: &Locks, tables: &[Arc<Table>]) -> TableRoots {
    let root = |table: usize, partition: usize| {
        let handle = locks.get(table, partition as u32).expect("the plan declared this need");
        tx.root(handle)
    };
    let of_table = |(at, table): (usize, &Arc<Table>)| {
        (0..table.cells.len()).map(|partition| root(at, partition)).collect()
    };
    tables.iter().enumerate().map(of_table).collect()
}

/// Takes the locks that `needs` name, in order of partition id, the stronger first. `locks` holds
/// these afterwards, and no others.
fn lock_needs(
    tx: &mut Transaction,
    tables: &[Arc<Table>],
    needs: &mut Vec<Need>,
    locks: &mut Locks,
    limits: &WaitLimits<'_>,
) -> Result<()> {
    if let [Need { table, partition: Some(partition), mode }] = needs[..] {
        let cell = &tables[table].cells[partition as usize];
        let locked = tx.lock(cell, mode, limits);
        let handle = locked.map_err(|error| lock_error(error, &tables[table]))?;
        locks.set_only(table, partition, handle);
        return Ok(());
    }
    locks.reset(tables);
    let at = |need: &Need| {
        let partition = need.partition.expect("spread out") as usize;
        (tables[need.table].cells[partition].id, need.mode == Mode::Shared)
    };
    if needs.iter().any(|need| need.partition.is_none()) {
        spread(tables, needs);
    }
    if needs.len() > 1 {
        needs.sort_unstable_by_key(at);
    }
    for need in needs.iter() {
        let partition = need.partition.expect("spread out");
        let cell = &tables[need.table].cells[partition as usize];
        let handle = tx
            .lock(cell, need.mode, limits)
            .map_err(|error| lock_error(error, &tables[need.table]))?;
        locks.set(need.table, partition, handle);
    }
    Ok(())
}

/// Replaces needs of whole tables by needs of each of their partitions.
fn spread(tables: &[Arc<Table>], needs: &mut Vec<Need>) {
    for at in 0..needs.len() {
        let need = needs[at];
        if need.partition.is_none() {
            let count = tables[need.table].cells.len() as u32;
            needs[at].partition = Some(0);
            needs.extend((1..count).map(|partition| Need { partition: Some(partition), ..need }));
        }
    }
}

fn lock_error(error: LockError, table: &Table) -> SqlError {
    let state = error.sql_state();
    match error {
        LockError::Deadlock(deadlock) => SqlError::new(state, "deadlock detected")
            .detail(deadlock.to_string())
            .hint("Run the transaction again."),
        LockError::Timeout => SqlError::new(state, "canceling statement due to lock timeout")
            .detail(format!("It waited for table \"{}\".", table.name))
            .table(&table.schema, &table.name),
        LockError::Cancelled => cancelled(),
    }
}

fn cut_error(error: CutError) -> SqlError {
    match error {
        CutError::Timeout => {
            SqlError::new(error.sql_state(), "canceling statement due to lock timeout")
                .detail("A statement that writes one of the tables ran longer than lock_timeout.")
        }
        CutError::Cancelled => cancelled(),
    }
}

pub(crate) fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

impl Session {
    /// An analytical SELECT outside transaction blocks: a snapshot of its tables, no lock.
    fn on_own_snapshot(&mut self, statement: &Statement, params: &[Value]) -> Result<Ran> {
        loop {
            self.refresh_catalog();
            let prepared = statement.prepared.borrow();
            let Plan::Analytical(plan) = &prepared.plan else {
                // Planned again meanwhile, it has become another kind of plan.
                drop(prepared);
                return self.in_transaction(statement, params, &mut RowSet::default());
            };
            let alone = self.shared.manager.settled_alone();
            self.freshen(plan.tables(), |_| false)?;
            let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
            let (roots, lsn) = cut_tables(&self.shared.manager, plan.tables(), &limits)?;
            if self.shared.manager.settled_alone() != alone {
                continue;
            }
            if self.shared.version() != prepared.catalog_version {
                drop(prepared);
                self.replan(statement)?;
                continue;
            }
            let env = Env {
                catalog: &self.catalog,
                params,
                session: &self.vars,
                clock: Clock::default(),
                cancel: &self.cancel,
            };
            let batches = plan.start(&env, roots)?;
            self.make_durable(lsn)?;
            return Ok(Ran::stream(batches));
        }
    }

    /// A statement of a READ ONLY transaction: reads the transaction's snapshot, takes no lock.
    fn on_snapshot(
        &mut self,
        active: &mut Active,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let snapshot = match active.snapshot.take() {
            Some(snapshot) => snapshot,
            None => self.take_snapshot()?,
        };
        if statement.prepared.borrow().catalog_version != snapshot.catalog.version {
            let prepared = self.plan_for(statement, &snapshot.catalog)?;
            *statement.prepared.borrow_mut() = prepared;
        }
        let prepared = statement.prepared.borrow();
        let env = Env {
            catalog: &snapshot.catalog,
            params,
            session: &self.vars,
            clock: Clock::since(active.started_us),
            cancel: &self.cancel,
        };
        let ran = execute_on_snapshot(&prepared, &env, &snapshot, &mut self.scratch, out);
        active.snapshot = Some(snapshot);
        match ran? {
            Ran::Copying(begun) => {
                let (copying, outcome) = *begun;
                self.copying = copying;
                Ok(Ran::other(outcome))
            }
            ran => Ok(ran),
        }
    }

    /// Every partition of the database at one cut.
    pub(crate) fn take_snapshot(&mut self) -> Result<Snapshot> {
        loop {
            self.refresh_catalog();
            let catalog = self.catalog.clone();
            let alone = self.shared.manager.settled_alone();
            self.freshen(catalog.tables.values(), |_| false)?;
            let mut cells: Vec<Arc<PartitionCell>> =
                catalog.tables.values().flat_map(|table| table.cells.iter().cloned()).collect();
            cells.sort_unstable_by_key(|cell| cell.id);
            let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
            let (roots, lsn) =
                cut_noting(&self.shared.manager, &cells, &limits, |lsn| lsn).map_err(cut_error)?;
            let is_whole = self.shared.manager.settled_alone() == alone;
            if is_whole && self.shared.version() == catalog.version {
                self.make_durable(lsn)?;
                let roots = cells.iter().map(|cell| cell.id).zip(roots).collect();
                return Ok(Snapshot { catalog, roots });
            }
        }
    }

    /// Makes this transaction the one that changes the catalog. True if it just became so.
    pub(crate) fn lock_catalog(&mut self, active: &mut Active) -> Result<bool> {
        let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
        active.tx.lock(&self.shared.ddl, Mode::Exclusive, &limits).map_err(|error| {
            let state = error.sql_state();
            match error {
                LockError::Cancelled => cancelled(),
                LockError::Deadlock(deadlock) => {
                    SqlError::new(state, "deadlock detected").detail(deadlock.to_string())
                }
                LockError::Timeout => {
                    SqlError::new(state, "canceling statement due to lock timeout")
                        .detail("Another transaction is changing the catalog.")
                }
            }
        })?;
        if active.catalog.is_none() {
            self.refresh_catalog();
        }
        Ok(active.catalog.is_none())
    }

    /// Runs a DDL statement on the transaction's own copy of the catalog.
    fn change_catalog(&mut self, active: &mut Active, ddl: &Ddl) -> Result<Outcome> {
        let before = active.catalog.as_ref().unwrap_or(&self.catalog).clone();
        let mut after = (*before).clone();
        let env = Env {
            catalog: &before,
            params: &[],
            session: &self.vars,
            clock: Clock::since(active.started_us),
            cancel: &self.cancel,
        };
        let mut notices = Vec::new();
        let mut cx = DdlContext {
            env: &env,
            tx: &mut active.tx,
            catalog: &mut after,
            limits: WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel },
            datafusion: &self.shared.datafusion,
            notices: &mut notices,
        };
        let (name, rows) = ddl.run(&mut cx)?;
        after.version = self.shared.fresh_version();
        active.catalog = Some(Arc::new(after));
        notices.into_iter().for_each(|notice| self.notice(notice));
        Ok(Outcome::Done(Tag { name, rows }))
    }

    /// Boxed, since every statement takes it out of the session and puts it back: one allocation
    /// a transaction, and a word to move instead of four cache lines.
    pub(crate) fn new_active(&self, modes: Modes) -> Box<Active> {
        let isolation = modes.isolation.unwrap_or_default();
        Box::new(Active::new(self.shared.manager.begin(isolation, self.slot()), modes))
    }

    /// Begins a transaction block.
    pub(crate) fn start(&mut self, modes: Modes) {
        let defaults = self.default_modes;
        let modes = Modes {
            isolation: modes.isolation.or(defaults.isolation),
            read_only: modes.read_only.or(defaults.read_only),
        };
        let mut active = self.new_active(modes);
        active.started_us = halcyon_base::clock::wall_us();
        self.active = Some(active);
    }

    /// Commits the transaction block.
    pub(crate) fn finish_commit(&mut self) -> Result<()> {
        let mut active = self.active.take().expect("a transaction in progress");
        if active.is_failed() {
            drop(active);
            return Err(failed_transaction());
        }
        let local = std::mem::take(&mut active.local);
        let committed = self.commit_active(active);
        self.restore(local);
        committed
    }

    /// Commits, and publishes the catalog before anybody else can have the locks.
    #[expect(
        clippy::boxed_local,
        reason = "a transaction is large, and lies in a box from its begin"
    )]
    pub(crate) fn commit_active(&mut self, active: Box<Active>) -> Result<()> {
        let Active { mut tx, catalog, .. } = *active;
        let mut change = None;
        if let Some(catalog) = catalog {
            if self.shared.durable.is_some() {
                change = Some(catalog_change(&self.shared.catalog(), &catalog));
            }
            let shared = self.shared.clone();
            tx.on_commit(move || shared.publish(catalog));
        }
        let lsn = tx.try_commit(change).map_err(log_error)?;
        self.make_durable(lsn)
    }

    /// Waits until what was changed or read is durable, if this session wants to.
    ///
    /// Errors: 53100, 58030; whether it will be there after a crash is not known then.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<()> {
        let Some(durable) = &self.shared.durable else {
            return Ok(());
        };
        let lsn = match self.vars.sequence_values.lock().is_empty() {
            true => lsn,
            false => lsn.max(durable.log.last_sequence()),
        };
        if lsn == Lsn::default() {
            return Ok(());
        }
        if !self.synchronous {
            durable.log.soon();
            return Ok(());
        }
        self.entry.set_syncing(true);
        let waited = durable.log.wait(lsn).map_err(log_error);
        self.entry.set_syncing(false);
        waited
    }

    /// Rolls back the transaction block, if there is one.
    pub(crate) fn rollback_if_active(&mut self) {
        self.copying = None;
        let Some(active) = self.active.take() else { return };
        let Active { tx, settings_before, .. } = *active;
        if let Some(settings) = settings_before {
            self.settings = settings;
            self.apply_settings();
        }
        tx.rollback();
    }

    /// Ends what SET LOCAL covered, the last first.
    fn restore(&mut self, local: Vec<(String, Option<String>)>) {
        for (name, value) in local.into_iter().rev() {
            self.change_setting(&name, value.as_deref()).expect("it had this value before");
        }
    }

    /// LOCK TABLE.
    pub(crate) fn lock_tables(&mut self, names: &[Vec<String>], exclusive: bool) -> Result<()> {
        let mut active = self.active.take().ok_or_else(|| {
            SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            )
        })?;
        active.used = true;
        let locked = self.lock_named(&mut active, names, exclusive);
        active.failed = locked.is_err();
        self.active = Some(active);
        locked
    }

    fn lock_named(
        &mut self,
        active: &mut Active,
        names: &[Vec<String>],
        exclusive: bool,
    ) -> Result<()> {
        self.refresh_catalog();
        let catalog = active.catalog.as_ref().unwrap_or(&self.catalog).clone();
        let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
        let find = |name: &Vec<String>| catalog.find_table(name, &self.vars.search_path);
        let tables = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        let mut needs: Vec<Need> =
            (0..tables.len()).map(|table| Need { table, partition: None, mode }).collect();
        let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
        active.tx.begin_statement();
        let locked = lock_needs(&mut active.tx, &tables, &mut needs, &mut self.locks, &limits);
        active.tx.end_statement();
        locked
    }
}

/// The roots of `tables` at one cut, by table and partition number, and the end of the log that
/// holds what is in them.
fn cut_tables(
    manager: &Manager,
    tables: &[Arc<Table>],
    limits: &WaitLimits<'_>,
) -> Result<(TableRoots, Lsn)> {
    let cells: Vec<_> = tables.iter().flat_map(|table| table.cells.iter().cloned()).collect();
    let (roots, lsn) = cut_noting(manager, &cells, limits, |lsn| lsn).map_err(cut_error)?;
    let mut roots = roots.into_iter();
    let of_table = |table: &Arc<Table>| roots.by_ref().take(table.cells.len()).collect();
    Ok((tables.iter().map(of_table).collect(), lsn))
}
