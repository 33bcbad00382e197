//! Commands that concern the session itself or the whole database: one match over all of them; and
//! the commands on roles, prepared statements, CHECKPOINT and BACKUP.

use std::path::Path;

use halcyon_catalog::{Deferral, Relation, wrong_kind};
use halcyon_plan::user_types::settle_type;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::ast::DataType;
use halcyon_sql::syntax::{Discarded, UpkeepVerb};
use halcyon_sql::type_names::cast_type;
use halcyon_sql::utility::Utility;
use halcyon_txn::Pace;

use crate::checkpoint;
use crate::executed::unknown;
use crate::outcome::{Outcome, Tag};
use crate::session::Session;
use crate::signals::Wish;

impl Session {
    /// Runs a command. EXECUTE, DO, DECLARE and IMPORT DATABASE are not among them, since they run
    /// other statements.
    pub(crate) fn command(&mut self, utility: &Utility, tag: &'static str) -> Result<Outcome> {
        let done = |name| Ok(Outcome::Done(Tag::plain(name)));
        match utility {
            Utility::Begin(modes) => {
                self.begin_block(*modes)?;
                done(tag)
            }
            Utility::Commit { chain } => self.end_block(true, *chain),
            Utility::Rollback { chain } => self.end_block(false, *chain),
            Utility::Savepoint(name) => {
                self.savepoint(name)?;
                done(tag)
            }
            Utility::Release(name) => {
                self.release(name)?;
                done(tag)
            }
            Utility::RollbackTo(name) => {
                self.rollback_to(name)?;
                done(tag)
            }
            Utility::SetTransaction(modes) => {
                self.set_transaction(*modes)?;
                done(tag)
            }
            Utility::SetConstraints { names, deferred } => {
                let deferral = match deferred {
                    true => Deferral::Deferred,
                    false => Deferral::Immediate,
                };
                self.set_constraints(names.as_deref(), deferral)?;
                done(tag)
            }
            Utility::SetSessionTransaction(modes) => {
                self.set_session_transaction(*modes)?;
                done(tag)
            }
            Utility::Set { name, value, local } => {
                self.set_in_transaction(name, value.as_deref(), *local)?;
                done(tag)
            }
            Utility::Reset(Some(name)) => {
                self.set_in_transaction(name, None, false)?;
                done(tag)
            }
            Utility::Reset(None) => {
                self.reset_settings();
                done(tag)
            }
            Utility::Show(name) => self.show(name.as_deref()),
            Utility::SetRole { role, local } => {
                self.set_role(role.as_deref(), *local)?;
                done(tag)
            }
            Utility::Prepare { name, types, text } => {
                self.prepare_named(name, types, text)?;
                done(tag)
            }
            Utility::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                done(tag)
            }
            Utility::Discard(what) => {
                self.discard(*what)?;
                done(tag)
            }
            Utility::Lock { tables, mode } => {
                self.lock_tables(tables, mode)?;
                done(tag)
            }
            Utility::Checkpoint { to } => {
                self.write_checkpoint(to.as_deref())?;
                done(tag)
            }
            Utility::Export(folder) => {
                let rows = self.export(Path::new(folder))?;
                Ok(Outcome::Done(Tag::counted(tag, rows)))
            }
            Utility::AlterSystem { name, value } => {
                self.alter_system(name, value.as_deref())?;
                done(tag)
            }
            Utility::Upkeep { verb, tables, indexes, schemas } => {
                self.refuse_upkeep(*verb)?;
                self.require_objects(tables, indexes, schemas)?;
                if *verb == UpkeepVerb::Refresh {
                    tables.iter().try_for_each(|(name, _)| self.require_own_materialized(name))?;
                }
                done(tag)
            }
            Utility::Fetch { cursor, step, moves_only } => self.fetch(cursor, *step, *moves_only),
            Utility::Close(name) => {
                self.close_cursor(name.as_deref())?;
                done(tag)
            }
            Utility::Listen(channel) => {
                self.entry.signals.wish(Wish::Listen(channel.clone()))?;
                self.carry_out_wishes();
                done(tag)
            }
            Utility::Unlisten(channel) => {
                self.entry.signals.wish(Wish::Unlisten(channel.clone()))?;
                self.carry_out_wishes();
                done(tag)
            }
            Utility::Notify { channel, payload } => {
                let (channel, payload) = (channel.clone(), payload.clone());
                self.entry.signals.wish(Wish::Notify { channel, payload })?;
                self.carry_out_wishes();
                done(tag)
            }
            Utility::Execute { .. }
            | Utility::CreateExecuted(_)
            | Utility::Import(_)
            | Utility::Do(_)
            | Utility::Declare(_) => {
                unreachable!("{tag} runs other statements, which commands do not")
            }
        }
    }

    /// CHECKPOINT, and BACKUP TO `folder`. Errors: 42501, 25001; the errors of writing.
    fn write_checkpoint(&mut self, folder: Option<&str>) -> Result<()> {
        let what = if folder.is_some() { "BACKUP" } else { "CHECKPOINT" };
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = format!("permission denied to execute {what} command");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.block.is_some() {
            // Both wait for statements of other transactions, which may wait for this one.
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        match folder {
            None => checkpoint::checkpoint(&self.shared, &Pace::default()),
            Some(folder) => checkpoint::backup(&self.shared, Path::new(folder)),
        }
    }

    /// SET ROLE and SET LOCAL ROLE, whose effect a rollback undoes. Errors: 22023, 42501.
    pub(crate) fn set_role(&mut self, role: Option<&str>, local: bool) -> Result<()> {
        let role = role.unwrap_or(&self.vars.session_user).to_owned();
        let catalog = self.current_catalog();
        catalog.may_become(&self.vars.session_user, &role)?;
        if local && self.block.is_none() {
            self.notice(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
            return Ok(());
        }
        if let Some(block) = &mut self.block {
            block.roles.note(&self.vars.user, local);
        }
        self.act_as(role);
        Ok(())
    }

    fn prepare_named(&mut self, name: &str, types: &[DataType], text: &str) -> Result<()> {
        if self.named.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let path: Vec<String> = self.vars.search_path.clone();
        let named = |ty: &DataType| {
            let mut ty = ty.clone();
            let find = |name: &[String]| self.catalog.user_type(name, &path).cloned();
            settle_type(&mut ty, &find)?;
            cast_type(&ty).map(Some)
        };
        let types: Vec<_> = types.iter().map(named).collect::<Result<_>>()?;
        let statement = self.prepare_typed(text, &types)?;
        statement.fix_columns();
        self.named.insert(name.to_owned(), statement);
        Ok(())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.named.clear(),
            Some(name) => {
                self.named.remove(name).ok_or_else(|| unknown(name))?;
            }
        }
        Ok(())
    }

    /// Refuses VACUUM in a block, as PostgreSQL does. Errors: 25001.
    fn refuse_upkeep(&self, verb: UpkeepVerb) -> Result<()> {
        match verb == UpkeepVerb::Vacuum && self.block.is_some() {
            true => Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "VACUUM cannot run inside a transaction block",
            )),
            false => Ok(()),
        }
    }

    /// Checks that the objects exist that VACUUM, ANALYZE and the like name.
    ///
    /// Errors: 42P01, 42703, 42809, 3F000.
    fn require_objects(
        &mut self,
        tables: &[(Vec<String>, Vec<String>)],
        indexes: &[Vec<String>],
        schemas: &[String],
    ) -> Result<()> {
        let catalog = self.current_catalog();
        let path = &self.vars.search_path;
        for (name, columns) in tables {
            let table = catalog.find_table(name, path)?;
            for column in columns {
                table.require_column(column)?;
            }
        }
        for name in indexes {
            let found = catalog.require(name, path)?;
            if !matches!(found.relation, Relation::Index { .. }) {
                return Err(wrong_kind(found.name, "index"));
            }
        }
        for name in schemas {
            catalog.schema(name)?;
        }
        Ok(())
    }

    /// Checks that a table is a materialized view of the session's role.
    ///
    /// Errors: 42P01, 42809, 42501.
    fn require_own_materialized(&mut self, name: &[String]) -> Result<()> {
        let catalog = self.current_catalog();
        let table = catalog.find_table(name, &self.vars.search_path)?;
        if table.materialized().is_none() {
            return Err(wrong_kind(&table.name, "materialized view"));
        }
        catalog.require_owner(&self.vars.user, &table.owner, "materialized view", &table.name)
    }

    fn discard(&mut self, what: Discarded) -> Result<()> {
        match what {
            Discarded::All => {}
            Discarded::Sequences => {
                self.vars.sequence_values.lock().clear();
                return Ok(());
            }
            Discarded::Temp => {
                self.discard_temporary();
                return Ok(());
            }
            Discarded::Plans => return Ok(()),
        }
        if self.block.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        self.cursors.close_all();
        self.entry.signals.wish(Wish::Unlisten(None))?;
        self.shared.advisory.unlock_all(self.id);
        self.named.clear();
        self.discard_temporary();
        self.vars.user.clone_from(&self.vars.session_user);
        self.vars.sequence_values.lock().clear();
        self.reset_settings();
        Ok(())
    }
}
