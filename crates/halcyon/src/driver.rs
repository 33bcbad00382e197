//! The statement driver: runs every statement that reaches tables or the catalog.
//!
//! It is one loop, [`Session::attempt`]. Each round
//!
//! 1. binds the statement against the catalog of its transaction and for the session's role, if it
//!    was bound for others: binding looks at the role's rights;
//! 2. acquires what the statement reaches ([`Reach`]): locks, the right to change the catalog, or a
//!    cut ([`crate::acquire`]); if its thread is not to wait, the statement is left in the lock's queue and
//!    runs again later ([`crate::suspension`]);
//! 3. looks again: if views over streams are torn ([`crate::stream_views`]), or another catalog was
//!    published during the wait, the next round begins, with the locks kept;
//! 4. runs the plan to its end, waiting for no one; a thread that serves others is relieved of them first
//!    unless the statement has been short of late.
//!
//! Around the loop is the transaction: that of a block ([`Session::in_block`]), in which a failed
//! statement is undone alone; or the statement's own ([`Session::on_its_own`]), without the
//! bookkeeping that only longer transactions need.
//!
//! Cost: a point query or write in a transaction of its own allocates nothing, hashes nothing, and
//! writes no memory that another session writes, except its own slot of the lock word.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use halcyon_base::clock::{self, Moment};
use halcyon_base::duty;
use halcyon_base::ids::{SessionId, TableId};
use halcyon_catalog::temporary::schema_of;
use halcyon_catalog::{Catalog, Table};
use halcyon_ddl::{Ddl, DdlContext};
use halcyon_dialect::locking::Patience;
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Clock, Env, Need};
use halcyon_plan::interrupts::under;
use halcyon_plan::lock_errors;
use halcyon_prepare::change_over::{CHANGED_OVER, HAS_CHANGED_OVER, Limit};
use halcyon_prepare::explain::explained_text;
use halcyon_prepare::explanation::{Learned, companion_line, early_line};
use halcyon_prepare::plan::{Plan, Prepared, Reach};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::RowSet;
use halcyon_sql::stack::with_new_stack;
use halcyon_store::Value;
use halcyon_txn::{Lsn, Mode, Transaction, WaitLimits};

use crate::acquire::{Acquisition, LockSet, LockWait, Locked, Snapshot};
use crate::copying::{self, Copying, Home, Incoming};
use crate::deferral::{Deferrals, settle};
use crate::execute::{Ran, RowAccess, execute, read_only};
use crate::explain::explain;
use crate::outcome::{Outcome, Tag};
use crate::params;
use crate::reading::{Reading, visits_max};
use crate::session::Session;
use crate::statement::Statement;
use crate::suspended::Suspended;
use crate::transaction::{Block, Work};

/// The ground on which a statement runs: its source of rows, its catalog and its transaction's
/// properties.
struct Ground<'a> {
    source: Source<'a>,
    /// The catalog with the transaction's own changes; `None` if the transaction has changed
    /// nothing in it.
    own_catalog: &'a mut Option<Arc<Catalog>>,
    /// Start of the transaction in microseconds since 1970; 0 if that is the start of the
    /// statement.
    started_us: i64,
    /// Whether later statements of the transaction must find the same rows again.
    repeats: bool,
    /// Constraints that a block puts off; `None` if the transaction ends with the statement.
    deferrals: Option<&'a mut Deferrals>,
    /// How long the statement waits for locks before it reads a cut instead; `None` if it has to have them.
    patience: Option<Duration>,
    /// How the statement reads, if it looks rows up.
    reading: Reading,
}

/// How long a look-up of its own transaction waits for a lock: longer than a short write holds one, and so short
/// that nobody sees the wait.
const PATIENCE: Duration = Duration::from_millis(2);

/// The source of a statement's rows.
enum Source<'a> {
    /// Locks that the transaction takes for the statement.
    Locks(&'a mut Transaction),
    /// A cut through the statement's tables, taken for the statement.
    Cut,
    /// The cut of the statement's READ ONLY block.
    Snapshot(&'a Snapshot),
}

impl<'a> Ground<'a> {
    /// The ground of a statement that takes locks.
    fn locks(work: &'a mut Work, repeats: bool) -> Self {
        let Work { tx, catalog, started_us } = work;
        let source = Source::Locks(tx);
        let started_us = *started_us;
        let (own_catalog, deferrals, patience) = (catalog, None, None);
        let reading = Reading::BEGINNING;
        Ground { source, own_catalog, started_us, repeats, deferrals, patience, reading }
    }

    /// The snapshot to which the statement is bound, if there is one already.
    fn snapshot(&self) -> Option<&'a Snapshot> {
        match self.source {
            Source::Snapshot(snapshot) => Some(snapshot),
            Source::Locks(_) | Source::Cut => None,
        }
    }
}

impl Session {
    /// Runs a statement that reaches tables or the catalog.
    /// Errors: those of the statement. In a transaction block the changes of this statement are
    /// undone and the block counts as failed; a transaction of the statement's own is rolled back.
    /// statement are undone; a transaction of the statement's own is rolled back.
    pub(crate) fn drive(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        match self.block.take() {
            Some(block) => self.in_block(block, statement, params, out),
            None => self.on_its_own(statement, params, out),
        }
    }

    /// Runs a statement outside transaction blocks: in a transaction of its own, or on a cut if the
    /// statement reads whole tables or the session's transactions are READ ONLY by default.
    ///
    /// A look-up whose lock somebody else keeps for longer than [`PATIENCE`] reads a cut as well: it is
    /// serializable at the cut, and no client's open transaction holds it up.
    fn on_its_own(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let resumed = self.suspended.take().and_then(|suspended| suspended.work);
        let reach = statement.prepared().reach();
        self.vars.read_only = self.in_force.default_modes.read_only == Some(true);
        if reach == Reach::Snapshot || self.vars.read_only {
            return self.on_cut(Reading::BEGINNING, 0, statement, params, out);
        }
        // Each exit before the commit drops the transaction, which rolls it back.
        let mut work = match resumed {
            Some(work) => work,
            None => {
                let began = self.entry.statement_began().unwrap_or_else(clock::now);
                self.begin_work(self.in_force.default_modes, began)
            }
        };
        work.tx.begin_statement();
        let patience = statement.prepared().looks_up().then_some(PATIENCE);
        let ground = Ground { patience, reading: Reading::Few, ..Ground::locks(&mut work, false) };
        let ran = self.attempt(ground, statement, params, out);
        if let Some(reading) = Reading::over_a_cut(&ran, patience.is_some()) {
            drop(work);
            return duty::relieved(|| self.on_cut(reading, 0, statement, params, out));
        }
        let ran = ran.inspect_err(|error| self.count_loss(error))?;
        if let Ran::Queued = ran {
            self.suspend(Some(work));
            return Ok(ran);
        }
        if self.copy_begins(&ran) {
            self.copy_goes_on(Home::Own(work));
            return Ok(ran);
        }
        work.tx.end_statement();
        self.commit_work(work)?;
        self.losses = 0;
        Ok(ran)
    }

    /// Runs a statement that reads on a cut through its tables, in a transaction that began at `started_us`.
    fn on_cut(
        &mut self,
        reading: Reading,
        started_us: i64,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        reading.until_done(|reading| {
            let (source, own_catalog) = (Source::Cut, &mut None);
            let (repeats, deferrals, patience) = (false, None, None);
            let ground =
                Ground { source, own_catalog, started_us, repeats, deferrals, patience, reading };
            self.attempt(ground, statement, params, out)
        })
    }

    /// Runs a statement of a block on a cut. The block's own changes are at rest meanwhile: who takes a cut through
    /// them waits neither for the statement's end nor for a block that waits for this one.
    fn on_cut_beside(
        &mut self,
        reading: Reading,
        work: &mut Work,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let started_us = work.started_us;
        work.tx.resting(|| self.on_cut(reading, started_us, statement, params, out))
    }

    /// Runs a statement in the transaction block, and undoes the statement if it fails.
    ///
    /// Where reads need not repeat (READ COMMITTED), what reads tables that the block has not locked reads them as on its
    /// own: a cut at once, after [`PATIENCE`], or once a look-up has visited many rows.
    fn in_block(
        &mut self,
        mut block: Box<Block>,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        block.used = true;
        self.suspended = None;
        self.vars.read_only = block.read_only();
        if block.refuses_writes {
            let prepared = statement.prepared();
            if !prepared.plan.reads_only() {
                let refused = Err(read_only(prepared.tag));
                drop(prepared);
                return self.end_in_block(block, refused);
            }
        }
        if block.reads_snapshot() {
            let ran = self.on_snapshot(&mut block, statement, params, out);
            return self.end_in_block(block, ran);
        }
        let Block { work, deferrals, .. } = &mut *block;
        work.tx.begin_statement();
        let (start, catalog) = (work.tx.savepoint(), work.catalog.clone());
        let repeats = work.tx.isolation().keeps_shared_locks();
        let (is_free, reach, looks_up) = {
            let prepared = statement.prepared();
            (!repeats && reads_others(work, &prepared), prepared.reach(), prepared.looks_up())
        };
        self.locked.needs.clear();
        let attempt = || {
            #[cfg(feature = "testing")]
            crate::testing::panic_if_asked();
            if is_free && reach == Reach::Snapshot {
                return self.on_cut_beside(Reading::BEGINNING, work, statement, params, out);
            }
            if !(is_free && looks_up) {
                return self.under_locks(work, deferrals, repeats, statement, params, out);
            }
            let mut ground = Ground::locks(work, repeats);
            ground.deferrals = Some(deferrals);
            (ground.patience, ground.reading) = (Some(PATIENCE), Reading::Few);
            let ran = self.attempt(ground, statement, params, out);
            let Some(reading) = Reading::over_a_cut(&ran, true) else { return ran };
            self.locked.needs.clear();
            // The statement's locks are given back.
            work.tx.end_statement();
            work.tx.begin_statement();
            duty::relieved(|| self.on_cut_beside(reading, work, statement, params, out))
        };
        let ran = match catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(ran) => ran,
            Err(panic) => {
                // Its rollback undoes SET and SET ROLE, too.
                self.block = Some(block);
                resume_unwind(panic)
            }
        };
        if let Ok(Ran::Queued) = ran {
            work.tx.rest();
            self.block = Some(block);
            self.suspend(None);
            return ran;
        }
        if self.in_force.early_locks {
            self.note_block_locks(&mut work.tx, statement, repeats);
            if work.tx.take_in_circle() {
                self.block_locks.meet_circle();
            }
            if ran.is_err() {
                self.block_locks.learn_companions(&|slot| self.tallies.plan(slot));
            }
        }
        if ran.as_ref().is_ok_and(|ran| self.copy_begins(ran)) {
            self.copy_goes_on(Home::Block(block, start));
            return ran;
        }
        if ran.is_err() {
            let lasts = work.tx.change_count() > CHANGES_OF_SHORT_UNDO;
            duty::relieved_if(lasts, || work.tx.rollback_to(start));
            work.catalog = catalog;
        }
        work.tx.end_statement();
        self.end_in_block(block, ran)
    }

    /// Runs a statement of a block under locks of the block.
    fn under_locks(
        &mut self,
        work: &mut Work,
        deferrals: &mut Deferrals,
        repeats: bool,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let mut needs = None;
        let ran = Reading::BEGINNING.until_done(|reading| {
            if reading == Reading::Scan {
                // A scan locks what the look-up has locked, but counts tables in another order.
                needs = Some(std::mem::take(&mut self.locked.needs));
            }
            let mut ground = Ground::locks(work, repeats);
            (ground.deferrals, ground.reading) = (Some(&mut *deferrals), reading);
            self.attempt(ground, statement, params, out)
        });
        if let Some(needs) = needs {
            self.locked.needs = needs;
        }
        ran
    }

    /// Puts a statement aside whose transaction stands in a queue: its own, or that of the block.
    pub(crate) fn suspend(&mut self, work: Option<Work>) {
        self.suspended = Some(Box::new(Suspended { run: None, work }));
    }

    /// What EXPLAIN says of what the explained text's plan has learned: tables to lock early, and whether its last run
    /// went on as a scan, unless this one `scans`.
    fn learned(&self, text: &str, catalog: &Arc<Catalog>, scans: bool) -> Learned {
        let change_over = scans.then_some(CHANGED_OVER);
        // The plan that other sessions run is the one of the text without EXPLAIN.
        let Ok(bound) = self.bind(explained_text(text), &[], catalog) else {
            return Learned { early: Vec::new(), change_over };
        };
        let has_changed_over = bound.prepared.change_over.has_changed_over();
        let change_over = change_over.or(has_changed_over.then_some(HAS_CHANGED_OVER));
        let tables = bound.prepared.plan.tables().iter().enumerate();
        let early = tables.filter(|(number, _)| bound.prepared.early.is_early(*number));
        let ahead = bound.prepared.companions.tables().into_iter();
        let ahead = ahead.filter_map(|(id, mode)| Some((catalog.tables.get(&id)?, mode)));
        let early = early.map(|(_, table)| early_line(table));
        let early = early.chain(ahead.map(|(table, mode)| companion_line(table, mode))).collect();
        Learned { early, change_over }
    }

    /// Notes what a statement of the block has locked, and lets the plans before it learn if it wanted to
    /// write what they have read, and met others who had read it too.
    fn note_block_locks(
        &mut self,
        tx: &mut Transaction,
        statement: &Statement,
        keeps_shared: bool,
    ) {
        let (prepared, slot) = (statement.prepared(), statement.tally.get());
        self.block_locks.note(slot, &prepared, &self.locked.needs, keeps_shared);
        if let Some(partition) = tx.take_contended_upgrade() {
            let plans = |slot| self.tallies.plan(slot);
            let has = |table: &&Arc<Table>| table.cells.iter().any(|cell| cell.id == partition);
            if let Some(table) = prepared.plan.tables().iter().find(has) {
                self.block_locks.learn(table.id, &plans);
            };
        }
    }

    /// Runs a statement of a READ ONLY block on the block's cut through the whole database, which
    /// the first statement takes.
    fn on_snapshot(
        &mut self,
        block: &mut Block,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        if block.snapshot.is_none() {
            block.snapshot = Some(self.take_snapshot()?);
        }
        let snapshot = block.snapshot.as_ref().expect("just taken");
        let Work { catalog: own_catalog, started_us, .. } = &mut block.work;
        let started_us = *started_us;
        Reading::BEGINNING.until_done(|reading| {
            let (repeats, deferrals, patience) = (true, None, None);
            let (source, own_catalog) = (Source::Snapshot(snapshot), &mut *own_catalog);
            let ground =
                Ground { source, own_catalog, started_us, repeats, deferrals, patience, reading };
            self.attempt(ground, statement, params, out)
        })
    }

    /// Gives the block back to the session after a statement.
    fn end_in_block(&mut self, mut block: Box<Block>, ran: Result<Ran>) -> Result<Ran> {
        if let Err(error) = &ran {
            self.count_loss(error);
            self.fail_block(&mut block);
        }
        self.block = Some(block);
        ran
    }

    /// Counts a transaction that fell victim to others.
    fn count_loss(&mut self, error: &SqlError) {
        if error.state() == SqlState::DEADLOCK_DETECTED {
            self.losses = self.losses.saturating_add(1);
        }
    }

    /// The driver's loop: see the head of this module.
    fn attempt(
        &mut self,
        mut ground: Ground<'_>,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<Ran> {
        let mut converted = Vec::new();
        let mut owns = ground.repeats;
        loop {
            self.renew(ground.own_catalog);
            let is_locked = ground.snapshot().is_none();
            let catalog = match ground.snapshot() {
                Some(snapshot) => &snapshot.catalog,
                None => ground.own_catalog.as_ref().unwrap_or(&self.catalog),
            };
            let bound = statement.bound.borrow();
            let prepared = &bound.prepared;
            if !prepared.holds_for(catalog.plan_version(), &self.vars.user) {
                drop(bound);
                self.bind_again(statement, catalog)?;
                continue;
            }
            let scan = match ground.reading {
                Reading::Scan => self.scanning(prepared, catalog),
                Reading::Few | Reading::Many { .. } => None,
            };
            let prepared = scan.as_ref().unwrap_or(prepared);
            let may_await = self.may_await(prepared);
            let zone = &self.vars.time_zone;
            let params = match bound.has_constants() {
                // The literals fit, since the plan was looked up by them; there are no other
                // parameters.
                true => {
                    params::fit(params, &[], zone, &mut converted).map(|_| &bound.constants[..])?
                }
                false => params::fit(params, &prepared.params, zone, &mut converted)?,
            };
            let learned = match &prepared.plan {
                Plan::Explain { .. } => self.learned(&prepared.text, catalog, scan.is_some()),
                _ => Learned::default(),
            };
            let env = Env {
                catalog,
                params,
                session: &self.vars,
                clock: Clock::since(ground.started_us)
                    .of_statement_at(self.entry.statement_began()),
                cancel: &self.cancel,
                workers: Some(&self.shared.datafusion),
            };
            let (timeout, wait) = match prepared.patience {
                Patience::Waits => {
                    let limits = [self.in_force.lock_timeout, ground.patience];
                    (limits.into_iter().flatten().min(), self.lock_wait)
                }
                Patience::Fails | Patience::Skips => (Some(Duration::ZERO), LockWait::Blocks),
            };
            let limits = WaitLimits { timeout, cancel: &self.cancel };
            let session = SessionId(self.id);
            let acquisition = Acquisition { shared: &self.shared, session, limits, wait };
            let acquired = {
                let learns = self.in_force.early_locks;
                let early = ground.repeats && learns;
                // Who waits for a limited time is told of the tables of its own statement alone.
                let is_first = learns && timeout.is_none() && self.block_locks.are_none();
                let ahead = match is_first
                    && ground.deferrals.is_some()
                    && !prepared.companions.is_cold()
                {
                    true => prepared.companions.tables(),
                    false => Vec::new(),
                };
                if !ahead.is_empty() {
                    self.block_locks.note_ahead();
                }
                let way = LockWay { owns, early, repeats: ground.repeats, ahead: &ahead };
                acquire(&mut ground.source, prepared, &env, &acquisition, &mut self.locked, way)
            };
            let acquired = match acquired {
                Ok(acquired) => acquired,
                Err(error) => return not_obtained(prepared, error, out),
            };
            let (mut access, lsn) = match acquired {
                Acquired::Rows(access, lsn) => (access, lsn),
                Acquired::Torn => {
                    owns = true;
                    continue;
                }
                Acquired::Queued => return Ok(Ran::Queued),
            };
            let owned = ground.own_catalog.is_some();
            if is_locked && !self.shared.is_current(catalog, owned) {
                continue;
            }
            let checks = prepared.subject().plan.deferrable();
            let since = match &mut access {
                RowAccess::Locked(tx, _) if !checks.is_empty() => Some(tx.savepoint()),
                _ => None,
            };
            let pending = match (&access, &ground.deferrals) {
                (RowAccess::Locked(tx, _), Some(deferrals)) if deferrals.any_waits() => {
                    deferrals.pending_tables(catalog, tx)
                }
                _ => Vec::new(),
            };
            let subject = prepared.subject();
            let Some(visits_max) =
                visits_max(ground.reading, self.in_force.point_visits, subject, &access)
            else {
                subject.change_over.note(Limit::InAll, true);
                return Ok(Ran::TooMany(0));
            };
            let outputs = Outputs {
                scratch: &mut self.scratch,
                copying: &mut self.copying,
                notices: &mut self.notices,
                learned: &learned,
                visits_max,
                shares_changes: owned && catalog.extends.is_none(),
                rows: out,
            };
            let stretch = Stretch::begin(prepared);
            if may_await {
                self.entry.awaiting.lock().offer();
            }
            let performed = duty::relieved_if(stretch.lasts(), || {
                perform(prepared, &env, &acquisition, access, &pending, outputs)
            });
            if may_await && self.awaits() {
                return Ok(Ran::Queued);
            }
            let (ran, changed) = performed?;
            if visits_max != u32::MAX {
                subject.change_over.note(ground.reading.limit(), matches!(ran, Ran::TooMany(_)));
            }
            let judges = !matches!(self.copying, Some(Copying::Beginning(..)));
            if let (Some(since), Source::Locks(tx), true) = (since, &mut ground.source, judges) {
                let deferrals = ground.deferrals.as_deref_mut();
                duty::relieved_if(stretch.lasts(), || {
                    settle(checks, since, deferrals, catalog, tx, &limits)
                })?;
            }
            stretch.end(prepared);
            if let Some(changed) = changed {
                let is_temporary = changed.schemas.contains_key(&schema_of(self.id));
                *ground.own_catalog = Some(changed);
                self.search_temporary(is_temporary);
            }
            if let (Some(lsn), false) = (lsn, matches!(ran, Ran::TooMany(_))) {
                self.make_durable(lsn)?;
            }
            return Ok(ran);
        }
    }

    /// Whether the statement has just begun a COPY FROM STDIN, which takes the transaction along.
    fn copy_begins(&self, ran: &Ran) -> bool {
        matches!(ran, Ran::Other(_)) && matches!(self.copying, Some(Copying::Beginning(..)))
    }

    /// Gives a COPY FROM STDIN that has begun its transaction.
    fn copy_goes_on(&mut self, home: Home) {
        let Some(Copying::Beginning(prepared, input)) = self.copying.take() else {
            unreachable!("the caller has looked");
        };
        let locks = std::mem::take(&mut self.locked.locks);
        let mut home = home;
        let since = home.work().tx.savepoint();
        home.work().tx.rest();
        let incoming = Incoming {
            prepared,
            input: *input,
            home,
            locks,
            since,
            deadline: None,
            in_class: None,
        };
        self.copying = Some(Copying::In(Box::new(incoming)));
    }
}

/// Whether a statement reads nothing that the transaction has locked or defined, nor what its changes may bear on.
fn reads_others(work: &Work, prepared: &Prepared) -> bool {
    let is_free = |table: &Arc<Table>| {
        let is_plain = table.materialized().is_none() && !table.is_stream();
        is_plain && !table.cells.iter().any(|cell| work.tx.holds(cell))
    };
    work.catalog.is_none() && prepared.plan.tables().iter().all(is_free)
}

/// What becomes of a statement that did not get its locks: nothing is read, or it fails.
fn not_obtained(prepared: &Prepared, error: SqlError, out: &mut RowSet) -> Result<Ran> {
    match prepared.patience {
        _ if error.state() != SqlState::LOCK_NOT_AVAILABLE => Err(error),
        Patience::Waits => Err(error),
        Patience::Fails => Err(lock_errors::at_once(error)),
        Patience::Skips => {
            out.reset(prepared.columns.len());
            Ok(Ran::Set { written: None })
        }
    }
}

/// How a statement takes its locks.
#[derive(Clone, Copy)]
struct LockWay<'a> {
    /// The statement's transaction becomes the owner of the views over streams that it locks.
    owns: bool,
    /// Tables are locked early that the plan has learned to lock so.
    early: bool,
    /// Shared locks are kept to the transaction's end.
    repeats: bool,
    /// Tables of later statements, which are locked with this one.
    ahead: &'a [(TableId, Mode)],
}

/// Makes needs of tables that are locked early exclusive.
#[cold]
fn lock_early(prepared: &Prepared, needs: &mut [Need]) {
    for need in needs.iter_mut().filter(|need| prepared.early.is_early(need.table)) {
        need.mode = Mode::Exclusive;
    }
}

/// What has become of step 2.
enum Acquired<'a> {
    /// The statement's access to rows, and for a cut of its own the position up to which the log must be
    /// durable before anyone is told of these rows.
    Rows(RowAccess<'a>, Option<Lsn>),
    /// Views over streams are torn.
    Torn,
    /// The transaction stands in the queue of a lock.
    Queued,
}

/// Step 2 of the loop.
#[inline]
fn acquire<'p>(
    source: &'p mut Source<'_>,
    prepared: &Prepared,
    env: &Env<'_>,
    acquisition: &Acquisition<'_>,
    locked: &'p mut LockSet,
    way: LockWay<'_>,
) -> Result<Acquired<'p>> {
    let tables = prepared.subject().plan.tables();
    match source {
        Source::Locks(tx) => {
            locked.needs.clear();
            let taken = if let Plan::Ddl(ddl) = &prepared.plan {
                let is_private = ddl.is_private(env.catalog, env.session);
                match is_private || acquisition.lock_catalog(tx)? {
                    true => Locked::Whole,
                    false => Locked::Queued,
                }
            } else {
                prepared.needs(env, &mut locked.needs)?;
                if way.early && prepared.early.any() {
                    lock_early(prepared, &mut locked.needs);
                }
                if !way.ahead.is_empty() {
                    let ahead = way.ahead.iter().copied();
                    let ahead = ahead.filter(|(_, mode)| way.repeats || *mode == Mode::Exclusive);
                    if !acquisition.lock_ahead(tx, env.catalog, ahead, tables, &locked.needs)? {
                        return Ok(Acquired::Queued);
                    }
                }
                acquisition.lock(tx, env.catalog, tables, locked, way.owns)?
            };
            Ok(match taken {
                Locked::Whole => Acquired::Rows(RowAccess::Locked(tx, locked), None),
                Locked::Torn => Acquired::Torn,
                Locked::Queued => Acquired::Queued,
            })
        }
        Source::Cut => Ok(match acquisition.cut(env.catalog, tables)? {
            Some((roots, lsn)) => Acquired::Rows(RowAccess::Cut(roots), Some(lsn)),
            None => Acquired::Torn,
        }),
        Source::Snapshot(snapshot) => {
            Ok(Acquired::Rows(RowAccess::Cut(snapshot.roots_of(tables)), None))
        }
    }
}

/// Changes whose undoing is over within some 100 microseconds.
const CHANGES_OF_SHORT_UNDO: usize = 500;

/// The time in which a statement runs, on a thread that serves others too.
#[derive(Clone, Copy)]
enum Stretch {
    /// The thread serves nobody else.
    Free,
    /// The statement has been short of late.
    Short(Moment),
    /// The thread is to be relieved.
    Lasts(Moment),
}

impl Stretch {
    #[inline]
    fn begin(prepared: &Prepared) -> Self {
        match (duty::is_on_duty(), prepared.reach()) {
            (false, _) => Stretch::Free,
            (true, Reach::Locks) if prepared.stretch.is_short() => Stretch::Short(clock::now()),
            (true, _) => Stretch::Lasts(clock::now()),
        }
    }

    fn lasts(self) -> bool {
        matches!(self, Stretch::Lasts(_))
    }

    /// Notes how long it was, which decides where the statement runs next time.
    #[inline]
    fn end(self, prepared: &Prepared) {
        if let Stretch::Short(began) | Stretch::Lasts(began) = self {
            prepared.stretch.note(clock::now().since(began));
        }
    }
}

/// Destinations of a statement's output besides tables and the catalog.
struct Outputs<'a> {
    scratch: &'a mut Scratch,
    copying: &'a mut Option<Copying>,
    notices: &'a mut Vec<SqlError>,
    /// What EXPLAIN says of what the plan has learned.
    learned: &'a Learned,
    /// Visits of a look-up.
    visits_max: u32,
    /// Whether the transaction has changed the shared catalog before.
    shares_changes: bool,
    rows: &'a mut RowSet,
}

/// Step 4 of the loop. Returns the statement's result, and the catalog if the statement has changed
/// it.
#[inline]
fn perform(
    prepared: &Arc<Prepared>,
    env: &Env<'_>,
    acquisition: &Acquisition<'_>,
    access: RowAccess<'_>,
    pending: &[TableId],
    to: Outputs<'_>,
) -> Result<(Ran, Option<Arc<Catalog>>)> {
    let ran = match (&prepared.plan, access) {
        (Plan::Ddl(ddl), RowAccess::Locked(tx, _)) => {
            let (outcome, mut after) =
                change_catalog(ddl, tx, env, acquisition, pending, to.notices)?;
            let own = schema_of(env.session.session_id);
            let is_private = after.differs_only_in(env.catalog, &own);
            assert!(is_private || !ddl.is_private(env.catalog, env.session), "no lock was taken");
            let extends = is_private && !to.shares_changes;
            after.extends = extends.then(|| env.catalog.shared_version());
            let after = Arc::new(after);
            return Ok((Ran::other(outcome), Some(after)));
        }
        (Plan::Ddl(_), RowAccess::Cut(_)) => return Err(read_only(prepared.tag)),
        (Plan::Explain { asked, of }, access) => {
            let planning = asked.summary.then_some(prepared.planning);
            let (visits_max, learned) = (to.visits_max, to.learned);
            explain(of, *asked, planning, env, access, visits_max, to.scratch, learned, to.rows)?
        }
        (Plan::Copy(_), access) => copying::begin(prepared, env, access, to.scratch, to.copying)?,
        (_, access) => execute(prepared, env, access, to.visits_max, to.scratch, to.rows)?,
    };
    Ok((ran, None))
}

/// Runs a DDL statement on a copy of the transaction's catalog, and returns the copy.
fn change_catalog(
    ddl: &Ddl,
    tx: &mut Transaction,
    env: &Env<'_>,
    acquisition: &Acquisition<'_>,
    pending: &[TableId],
    notices: &mut Vec<SqlError>,
) -> Result<(Outcome, Catalog)> {
    let shared = acquisition.shared;
    let mut after = Catalog::clone(env.catalog);
    let mut told = Vec::new();
    let mut cx = DdlContext {
        env,
        tx,
        catalog: &mut after,
        limits: acquisition.limits,
        datafusion: &shared.datafusion,
        notices: &mut told,
        pending,
    };
    let (name, rows) = under(env.cancel, || with_new_stack(|| ddl.run(&mut cx)))?;
    after.version = shared.fresh_version();
    if ddl.keeps_plans() {
        after.keep_plans_of(env.catalog);
    }
    notices.append(&mut told);
    Ok((Outcome::Done(Tag { name, rows }), after))
}
