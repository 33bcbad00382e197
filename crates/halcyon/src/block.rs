//! Transaction blocks: BEGIN, COMMIT, ROLLBACK, savepoints, modes, and LOCK TABLE.

use std::sync::Arc;

use halcyon_base::{clock, duty};
use halcyon_catalog::{Catalog, Privilege};
use halcyon_exec::deferrable::DeferrableCheck;
use halcyon_plan::env::Need;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::ast::LockTableMode;
use halcyon_sql::utility::Modes;
use halcyon_txn::{Isolation, Mode, WaitLimits};

use crate::acquire::{LockWait, lock_needs};
use crate::deferral::Deferrals;
use crate::outcome::{Outcome, Tag};
use crate::session::{Session, SessionState, failed_transaction};
use crate::transaction::{Access, Block, Work};

impl Session {
    /// Begins a transaction. Errors: 25001 if one is in progress.
    pub fn begin(&mut self, isolation: Isolation, access: Access) -> Result<()> {
        if self.block.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
        }
        let read_only = Some(access == Access::ReadOnly);
        self.start(Modes { isolation: Some(isolation), read_only });
        Ok(())
    }

    /// Begins a transaction with the session's default modes, if none is in progress.
    pub fn begin_default(&mut self) {
        if self.block.is_none() {
            self.start(Modes::default());
        }
    }

    /// Begins a transaction that spans the statements of one message, if none is in progress: BEGIN makes it a block of
    /// its own, and savepoints and chains are refused in it.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            self.start(Modes::default());
            self.block.as_mut().expect("just begun").implicit = true;
        }
    }

    /// BEGIN: in a block of its own a notice. Errors: 25001 for modes that the statements before it exclude.
    pub(crate) fn begin_block(&mut self, modes: Modes) -> Result<()> {
        match &mut self.block {
            None => self.start(modes),
            Some(block) if block.implicit => {
                block.implicit = false;
                self.set_transaction(modes)?;
            }
            Some(_) => self.notice(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            )),
        }
        Ok(())
    }

    /// Commits the transaction.
    ///
    /// Errors: 25P01 if no transaction is in progress; 25P02 if it had failed, in which case it is
    /// rolled back.
    pub fn commit(&mut self) -> Result<()> {
        match self.state() {
            SessionState::Idle => Err(no_transaction()),
            SessionState::Failed => {
                self.rollback_block();
                Err(failed_transaction())
            }
            SessionState::InTransaction => self.finish_commit(),
        }
    }

    /// Rolls the transaction back. Errors: 25P01 if none is in progress.
    pub fn rollback(&mut self) -> Result<()> {
        if self.block.is_none() {
            return Err(no_transaction());
        }
        self.rollback_block();
        Ok(())
    }

    /// Begins a transaction block.
    pub(crate) fn start(&mut self, modes: Modes) {
        let defaults = self.in_force.default_modes;
        let modes = Modes {
            isolation: modes.isolation.or(defaults.isolation),
            read_only: modes.read_only.or(defaults.read_only),
        };
        let mut work = self.begin_work(modes, clock::now());
        work.started_us = clock::wall_us();
        let read_only = modes.read_only == Some(true);
        self.entry.begin_block(work.tx.id(), read_only);
        self.block_locks.clear();
        // The block is boxed, since every statement takes it out of the session and puts it back:
        // that costs one allocation per transaction, and moves one word instead of four cache
        // lines.
        self.block = Some(Box::new(Block::new(work, modes)));
    }

    /// Commits the transaction block.
    pub(crate) fn finish_commit(&mut self) -> Result<()> {
        if self.entry.has_failed() {
            self.rollback_block();
            return Err(failed_transaction());
        }
        if let Err(error) = self.cursors.keep_held() {
            self.rollback_block();
            return Err(error);
        }
        if self.block.as_ref().is_some_and(|block| block.deferrals.any_waits()) {
            let mut block = self.block.take().expect("just looked at");
            let judged = self.judge_all(&mut block);
            self.block = Some(block);
            if let Err(error) = judged {
                let error = self.without_hidden_rows(error);
                self.rollback_block();
                return Err(error);
            }
        }
        let Block { work, local, roles, .. } =
            *self.block.take().expect("a transaction in progress");
        let committed = self.commit_work(work);
        self.restore(local);
        if let Some(role) = roles.commit {
            self.act_as(role);
        }
        match committed {
            Ok(()) => {
                self.losses = 0;
                self.block_locks.judge(&|slot| self.tallies.plan(slot));
            }
            Err(_) => self.entry.signals.forget_wishes(0),
        }
        self.shared.advisory.end_transaction(self.id);
        committed
    }

    /// Judges what waits for the end of the block. Errors: 23503, 23505; those of a wait for locks.
    fn judge_all(&mut self, block: &mut Block) -> Result<()> {
        self.judge_waiting(block, |_, _| true)
    }

    /// Judges those of the constraints that wait which are due. Errors: as [`Session::judge_all`].
    pub(crate) fn judge_waiting(
        &mut self,
        block: &mut Block,
        is_due: impl Fn(&Deferrals, &DeferrableCheck) -> bool,
    ) -> Result<()> {
        if !block.deferrals.any_waits() {
            return Ok(());
        }
        self.renew(&mut block.work.catalog);
        let catalog: Arc<Catalog> = block.work.catalog.as_ref().unwrap_or(&self.catalog).clone();
        let limits = WaitLimits { timeout: self.in_force.lock_timeout, cancel: &self.cancel };
        let Block { work, deferrals, .. } = block;
        work.tx.begin_statement();
        let judged = duty::relieved(|| deferrals.judge(&catalog, &mut work.tx, &limits, is_due));
        work.tx.end_statement();
        judged
    }

    /// Restores the settings' values from before SET LOCAL, the last change first.
    fn restore(&mut self, local: Vec<(String, Option<String>)>) {
        for (name, value) in local.into_iter().rev() {
            self.change_setting(&name, value.as_deref()).expect("it had this value before");
        }
    }

    /// SAVEPOINT. Errors: 25P01 outside blocks.
    pub(crate) fn savepoint(&mut self, name: &str) -> Result<()> {
        let (wishes, role) = (self.entry.signals.wish_count(), self.vars.user.clone());
        self.in_progress("SAVEPOINT")?.savepoint(name, wishes, &role);
        Ok(())
    }

    /// RELEASE SAVEPOINT. Errors: 25P01 outside blocks, 3B001.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        self.in_progress("RELEASE SAVEPOINT")?.release(name)
    }

    /// ROLLBACK TO SAVEPOINT; the block no longer counts as failed. Errors: 25P01 outside blocks,
    /// 3B001.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let before = self.in_progress("ROLLBACK TO SAVEPOINT")?.rollback_to(name)?;
        self.act_as(before.role);
        self.entry.signals.forget_wishes(before.wishes);
        self.entry.begin_stretch();
        Ok(())
    }

    /// The transaction block in progress, which a BEGIN began. Errors: 25P01 outside such blocks.
    fn in_progress(&mut self, what: &str) -> Result<&mut Block> {
        let block = self.block.as_deref_mut().filter(|block| !block.implicit);
        block.ok_or_else(|| outside_block(what))
    }

    /// COMMIT and ROLLBACK. With `chain` the next block begins, with the same modes.
    pub(crate) fn end_block(&mut self, commit: bool, chain: bool) -> Result<Outcome> {
        let command = if commit { "COMMIT" } else { "ROLLBACK" };
        if self.block.as_ref().is_none_or(|block| block.implicit) {
            if chain {
                return Err(outside_block(&format!("{command} AND CHAIN")));
            }
            self.notice(no_transaction());
        }
        let Some(block) = &self.block else { return Ok(Outcome::Done(Tag::plain(command))) };
        let (modes, failed) = (block.modes, self.entry.has_failed());
        let tag = match commit && !failed {
            true => {
                self.finish_commit()?;
                "COMMIT"
            }
            false => {
                self.rollback_block();
                "ROLLBACK"
            }
        };
        if chain {
            self.start(modes);
        }
        Ok(Outcome::Done(Tag::plain(tag)))
    }

    /// SET TRANSACTION; outside blocks a notice. A block that has run a statement may still be made READ ONLY: it goes on
    /// under locks, and refuses to write.
    /// Errors: 25001 for other modes once the block has run a statement or has savepoints.
    pub(crate) fn set_transaction(&mut self, modes: Modes) -> Result<()> {
        let Some(block) = &mut self.block else {
            self.notice(outside_block("SET TRANSACTION"));
            return Ok(());
        };
        let isolation = modes.isolation.filter(|new| *new != block.isolation());
        let read_only = modes.read_only.filter(|new| *new != block.read_only());
        let refused = match (isolation, read_only) {
            _ if !block.is_under_way() => None,
            (Some(_), _) => Some("SET TRANSACTION ISOLATION LEVEL must be called before any query"),
            (_, Some(false)) => Some("transaction read-write mode must be set before any query"),
            _ => None,
        };
        if let Some(message) = refused {
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if block.is_under_way() {
            block.refuses_writes |= read_only == Some(true);
        } else if isolation.is_some() || read_only.is_some() {
            let modes = Modes {
                isolation: modes.isolation.or(block.modes.isolation),
                read_only: modes.read_only.or(block.modes.read_only),
            };
            self.begin_again(modes);
        }
        Ok(())
    }

    /// Begins the block, which has done nothing but settings, again with other modes.
    fn begin_again(&mut self, modes: Modes) {
        let block = self.block.as_mut().expect("a transaction in progress");
        let (local, roles) = (std::mem::take(&mut block.local), std::mem::take(&mut block.roles));
        let (settings, implicit) = (block.settings_before.take(), block.implicit);
        self.rollback_block();
        self.start(modes);
        let block = self.block.as_mut().expect("just begun");
        (block.local, block.roles) = (local, roles);
        (block.settings_before, block.implicit) = (settings, implicit);
    }

    /// LOCK TABLE. Errors: 25P01 outside blocks, 42P01, 42501; the errors of a wait for locks.
    pub(crate) fn lock_tables(
        &mut self,
        names: &[Vec<String>],
        mode: &LockTableMode,
    ) -> Result<()> {
        let mut block = self.block.take().ok_or_else(|| outside_block("LOCK TABLE"))?;
        block.used = true;
        block.work.tx.begin_statement();
        let locked = self.lock_named(&mut block.work, names, mode);
        block.work.tx.end_statement();
        if locked.is_err() {
            self.fail_block(&mut block);
        }
        self.block = Some(block);
        locked
    }

    fn lock_named(
        &mut self,
        work: &mut Work,
        names: &[Vec<String>],
        asked: &LockTableMode,
    ) -> Result<()> {
        use LockTableMode::{AccessShare, RowShare, Share};
        let mode = match asked {
            AccessShare | RowShare | Share => Mode::Shared,
            _ => Mode::Exclusive,
        };
        loop {
            self.renew(&mut work.catalog);
            let catalog = work.catalog.as_ref().unwrap_or(&self.catalog);
            let find = |name: &Vec<String>| catalog.find_table(name, &self.vars.search_path);
            let tables = names.iter().map(find).collect::<Result<Vec<_>>>()?;
            for table in &tables {
                catalog.require_any_on_table(&self.vars.user, table, rights_to_lock(asked))?;
            }
            let whole = (0..tables.len()).map(|table| Need { table, partition: None, mode });
            self.locked.needs.clear();
            self.locked.needs.extend(whole);
            let limits = WaitLimits { timeout: self.in_force.lock_timeout, cancel: &self.cancel };
            lock_needs(&mut work.tx, &tables, &mut self.locked, &limits, LockWait::Blocks)?;
            // The names may mean other tables after the wait.
            if self.shared.is_current(catalog, work.catalog.is_some()) {
                return Ok(());
            }
        }
    }
}

/// The rights of which one lets a role lock a table in a mode: those of PostgreSQL 15.
fn rights_to_lock(mode: &LockTableMode) -> &'static [Privilege] {
    use Privilege::{Delete, Insert, Select, Truncate, Update};
    match mode {
        LockTableMode::AccessShare => &[Select],
        LockTableMode::RowExclusive => &[Insert, Update, Delete, Truncate],
        _ => &[Update, Delete, Truncate],
    }
}

fn no_transaction() -> SqlError {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}

/// 25P01.
pub(crate) fn outside_block(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}
