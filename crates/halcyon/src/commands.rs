//! Commands that concern the session itself or the whole database: one match over all of them, and
//! roles, prepared statements, CHECKPOINT and BACKUP.

use std::path::Path;

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::ast::DataType;
use halcyon_sql::type_names::cast_type;
use halcyon_sql::utility::Utility;
use halcyon_txn::Pace;

use crate::checkpoint;
use crate::outcome::{Outcome, Tag};
use crate::session::Session;

impl Session {
    /// Carries out a command, except EXECUTE and IMPORT DATABASE, which run other statements.
    pub(crate) fn command(&mut self, utility: &Utility, tag: &'static str) -> Result<Outcome> {
        let done = |name| Ok(Outcome::Done(Tag::plain(name)));
        match utility {
            Utility::Begin(modes) => {
                match self.block {
                    Some(_) => self.notice(SqlError::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    )),
                    None => self.start(*modes),
                }
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
            Utility::SetRole(role) => {
                self.set_role(role.as_deref())?;
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
            Utility::Discard => {
                self.discard()?;
                done(tag)
            }
            Utility::Lock { tables, exclusive } => {
                self.lock_tables(tables, *exclusive)?;
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
            Utility::Nothing(tag) => done(tag),
            Utility::Execute { .. } | Utility::Import(_) => {
                unreachable!("{tag} runs other statements, which commands do not")
            }
        }
    }

    /// CHECKPOINT, and BACKUP TO `folder`. Errors: 42501, 25001; those of writing.
    fn write_checkpoint(&mut self, folder: Option<&str>) -> Result<()> {
        let what = if folder.is_some() { "BACKUP" } else { "CHECKPOINT" };
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = format!("permission denied to execute {what} command");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.block.is_some() {
            // It waits for statements of other transactions, which may wait for this one.
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        match folder {
            None => checkpoint::checkpoint(&self.shared, &Pace::default()),
            Some(folder) => checkpoint::backup(&self.shared, Path::new(folder)),
        }
    }

    fn set_role(&mut self, role: Option<&str>) -> Result<()> {
        let role = role.unwrap_or(&self.vars.session_user).to_owned();
        let catalog = self.current_catalog();
        if !catalog.roles.contains_key(&role) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("role \"{role}\" does not exist"),
            ));
        }
        if !catalog.acts_for(&self.vars.session_user, &role) {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set role \"{role}\""),
            ));
        }
        self.vars.user = role;
        self.apply_settings();
        Ok(())
    }

    fn prepare_named(&mut self, name: &str, types: &[DataType], text: &str) -> Result<()> {
        if self.named.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let types: Vec<_> =
            types.iter().map(|ty| cast_type(ty).map(Some)).collect::<Result<_>>()?;
        let statement = self.prepare_typed(text, &types)?;
        self.named.insert(name.to_owned(), statement);
        Ok(())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.named.clear(),
            Some(name) => {
                self.named.remove(name).ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_SQL_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    )
                })?;
            }
        }
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        if self.block.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        self.named.clear();
        self.vars.user.clone_from(&self.vars.session_user);
        self.vars.sequence_values.lock().clear();
        self.reset_settings();
        Ok(())
    }
}
