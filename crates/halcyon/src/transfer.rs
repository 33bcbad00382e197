//! EXPORT DATABASE and IMPORT DATABASE: a whole database as SQL scripts and Parquet files.
//!
//! The rows are those of one snapshot; sequences are read after it, so no exported row has a value
//! that an importing database's sequence would give out again. An export is written beside its
//! target and then renamed, so a folder of the target's name is complete. An import is one
//! transaction.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use halcyon_base::progress::{self, Kind, Phase, Unit};
use halcyon_catalog::temporary::schema_of;
use halcyon_catalog::{Catalog, Table, TableKind};
use halcyon_copy::DataPlace;
use halcyon_copy::folder::{
    CHECKSUMS, beside, bytes_of_rows, claim, missing, refuse_filled, summed, sync, verify, write,
};
use halcyon_ddl::export::{self, Export, FINISH, LOAD, RIGHTS, SCHEMA};
use halcyon_plan::env::{Clock, Env, Roots};
use halcyon_prepare::plan::{Plan, Prepared, Reach};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::RowSet;
use halcyon_sql::utility::{Modes, Utility};
use halcyon_txn::Isolation;

use crate::acquire::Snapshot;
use crate::checkpoint::refuse_within;
use crate::durable::io_error;
use crate::execute::Ran;
use crate::session::Session;
use crate::statement::{Statement, split_statements};
use halcyon_plan::lock_errors::cancelled;

impl Session {
    /// EXPORT DATABASE TO: writes scripts and Parquet files; returns the number of rows.
    ///
    /// Errors: 42501, 25001, 58P02 if the folder exists and is not empty, 55006 if another export
    /// writes it, 22023 if it lies in the database's own, 57014, 53100, 58030; no files remain then.
    pub(crate) fn export(&mut self, folder: &Path) -> Result<u64> {
        self.may_transfer("EXPORT DATABASE")?;
        if let Some(durable) = &self.shared.durable {
            refuse_within(durable, folder)?;
        }
        refuse_filled(folder)?;
        let beside = beside(folder)?;
        let fail = |error: std::io::Error| io_error(&beside.display().to_string(), &error);
        let _lock = claim(&beside, folder)?;
        let exported = self.write_export(&beside).and_then(|rows| {
            refuse_filled(folder)?;
            // An empty folder is replaced by the rename.
            fs::rename(&beside, folder).map_err(fail)?;
            sync(folder.parent().filter(|parent| *parent != Path::new("")))?;
            Ok(rows)
        });
        if exported.is_err() {
            let _ = fs::remove_dir_all(&beside);
        }
        exported
    }

    fn write_export(&mut self, folder: &Path) -> Result<u64> {
        let snapshot = self.take_snapshot()?;
        let shared = Catalog::clone(&snapshot.catalog).without_temporary(&schema_of(self.id));
        let Export { scripts, tables } = export::export(&shared);
        for (name, text) in scripts {
            write(&folder.join(name), &text)?;
        }
        let work = progress::begin(Kind::Export, None);
        let is_written = |table: &&Arc<Table>| matches!(table.kind, TableKind::Ordinary);
        let written: Vec<_> = shared.tables.values().filter(is_written).cloned().collect();
        let roots = snapshot.roots_of(&written).into_iter().flatten();
        let all = roots.map(|root| root.row_count()).sum();
        work.stage(Phase::WritingTables, Unit::Rows, Some(all));
        let _within = work.enter();
        let (mut rows, mut sums) = (0, String::new());
        for table in tables {
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let path = folder.join(&table.file);
            // With one core the same rows always come in the same order.
            let threads = std::mem::replace(&mut self.vars.threads, 1);
            let copied = self.copy_out_of(&snapshot, &table.name, &path);
            self.vars.threads = threads;
            rows += copied?;
            let (bytes, sum) = summed(&path)?;
            let _ = writeln!(sums, "{sum:08x} {bytes} {}", table.file);
            sync(Some(&path))?;
        }
        write(&folder.join(CHECKSUMS), &sums)?;
        sync(Some(folder))?;
        Ok(rows)
    }

    fn copy_out_of(&mut self, snapshot: &Snapshot, table: &str, path: &Path) -> Result<u64> {
        let file = path.display().to_string().replace('\'', "''");
        let text = format!("COPY {table} TO '{file}' (FORMAT parquet)");
        let prepared = self.bind(&text, &[], &snapshot.catalog)?.prepared;
        let Plan::Copy(plan) = &prepared.plan else { unreachable!("the text is a COPY") };
        let roots = snapshot.roots_of(plan.tables());
        let env = Env {
            catalog: &snapshot.catalog,
            params: &[],
            session: &self.vars,
            clock: Clock::default(),
            cancel: &self.cancel,
            workers: Some(&self.shared.datafusion),
        };
        plan.run_to_file(&env, Roots::Snapshot(&roots), &mut self.scratch)
    }

    /// IMPORT DATABASE FROM: runs the scripts of a folder in one transaction; returns the number of
    /// rows.
    ///
    /// Errors: 42501, 25001, 58P01 if a file is missing, XX001 and 22P04 if a file is damaged; the
    /// error of a statement, with its script. The import is undone then.
    pub(crate) fn import(&mut self, folder: &Path) -> Result<u64> {
        self.may_transfer("IMPORT DATABASE")?;
        let mut scripts = Vec::new();
        for name in [SCHEMA, LOAD, FINISH, RIGHTS] {
            match fs::read_to_string(folder.join(name)) {
                Ok(text) => scripts.push((name, text)),
                // Exports of other systems have two scripts, those of earlier versions three.
                Err(error)
                    if [FINISH, RIGHTS].contains(&name) && error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(missing(&folder.join(name), &error)),
            }
        }
        let (work, bytes) = (progress::begin(Kind::Import, None), bytes_of_rows(folder));
        let _within = work.enter();
        work.stage(Phase::CheckingFiles, Unit::Bytes, Some(bytes));
        verify(folder)?;
        work.stage(Phase::RunningScripts, Unit::Bytes, Some(bytes));
        let modes = Modes { isolation: Some(Isolation::Serializable), read_only: Some(false) };
        self.start(modes);
        self.vars.copy_folder = Some(folder.to_owned());
        let imported = scripts.iter().try_fold(0, |rows, (name, text)| {
            let ran = self.run_script(text);
            ran.map(|more| rows + more).map_err(|error| in_script(error, name))
        });
        self.vars.copy_folder = None;
        // Notices that a schema or a role exists already are dropped.
        self.take_notices();
        match imported {
            Ok(rows) => self.finish_commit().map(|()| rows),
            Err(error) => {
                self.rollback_block();
                Err(error)
            }
        }
    }

    /// Runs the statements of a script; returns how many rows COPY stored.
    fn run_script(&mut self, text: &str) -> Result<u64> {
        let mut rows = 0;
        for text in split_statements(text)? {
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let statement = self.prepare(text).map_err(|error| in_statement(error, text))?;
            rows += self.run_one(&statement).map_err(|error| in_statement(error, text))?;
        }
        Ok(rows)
    }

    fn run_one(&mut self, statement: &Statement) -> Result<u64> {
        let prepared = Arc::clone(&statement.prepared());
        refuse_in_script(&prepared)?;
        if prepared.reach() == Reach::Session {
            return Ok(0);
        }
        let mut out = RowSet::default();
        let ran = self.drive(statement, &[], &mut out)?;
        let count = ran.rows(&out);
        if let Ran::Stream(streamed) = ran {
            let mut rows = self.streamed_rows(statement.columns(), *streamed, None);
            while rows.next()?.is_some() {}
        }
        Ok(if matches!(prepared.plan, Plan::Copy(_)) { count } else { 0 })
    }

    fn may_transfer(&self, what: &str) -> Result<()> {
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = format!("permission denied to execute {what}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.block.is_some() {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        Ok(())
    }
}

/// Refuses statements that have no place in a script: it may not end the transaction, which is the
/// import's, nor talk to a client. Errors: 0A000.
fn refuse_in_script(prepared: &Prepared) -> Result<()> {
    match &prepared.plan {
        Plan::Utility(Utility::Upkeep { .. }) => Ok(()),
        Plan::Utility(_) | Plan::Subscribe { .. } => {
            let what = format!("{} in a script of IMPORT DATABASE", prepared.tag);
            Err(SqlError::unsupported(what))
        }
        Plan::Copy(copy) if copy.reads_only() || *copy.place() == DataPlace::Client => {
            Err(SqlError::unsupported("COPY but from a file in a script of IMPORT DATABASE"))
        }
        _ => Ok(()),
    }
}

fn in_statement(error: SqlError, text: &str) -> SqlError {
    let first = text.lines().find(|line| !line.starts_with("--") && !line.is_empty());
    let first: String = first.unwrap_or_default().chars().take(100).collect();
    match &error.fields().context {
        Some(context) => {
            let context = format!("{context}\nstatement: {first}");
            error.context(context)
        }
        None => error.context(format!("statement: {first}")),
    }
}

fn in_script(error: SqlError, name: &str) -> SqlError {
    let context = match &error.fields().context {
        Some(context) => format!("{context}\nscript: {name}"),
        None => format!("script: {name}"),
    };
    // A position would count in the script's text, which the client does not have.
    let error = error.without_position().context(context);
    match error.fields().detail {
        Some(_) => error,
        None => error.detail("Nothing was imported."),
    }
}
