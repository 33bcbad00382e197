//! Bulk ingestion: batches into a table that a statement's options name.

use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use halcyon_interchange::load::{Destination, load, quoted};

use crate::binding::Given;
use crate::errors::{Result, invalid, out_of_turn, told};
use crate::options::{not_found, text, truth, truth_text};
use crate::sessions::State;

/// The table that batches go into.
#[derive(Default)]
pub struct Target {
    /// Its name; without one the statement is SQL.
    pub table: Option<String>,
    mode: Option<IngestMode>,
    catalog: Option<String>,
    schema: Option<String>,
    temporary: bool,
}

impl Target {
    /// Sets one of the options of ingestion.
    pub fn set(&mut self, key: &OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref();
        let filled = |value| text(name, value).map(|text| Some(text).filter(|t| !t.is_empty()));
        match key {
            OptionStatement::IngestMode => self.mode = Some(IngestMode::try_from(&value)?),
            OptionStatement::TargetTable => self.table = filled(value)?,
            OptionStatement::TargetCatalog => self.catalog = filled(value)?,
            OptionStatement::TargetDbSchema => self.schema = filled(value)?,
            OptionStatement::Temporary => self.temporary = truth(name, value)?,
            _ => return Err(invalid(format!("\"{name}\" is no option of ingestion"))),
        }
        Ok(())
    }

    /// One of the options of ingestion as text.
    pub fn get(&self, key: &OptionStatement) -> Result<String> {
        let found = match key {
            OptionStatement::IngestMode => Some(self.mode.unwrap_or(IngestMode::Create).into()),
            OptionStatement::TargetTable => self.table.clone(),
            OptionStatement::TargetCatalog => self.catalog.clone(),
            OptionStatement::TargetDbSchema => self.schema.clone(),
            OptionStatement::Temporary => Some(truth_text(self.temporary)),
            _ => None,
        };
        found.ok_or_else(|| not_found(key.as_ref()))
    }

    /// Stores the batches, all or none. Returns the number of rows.
    ///
    /// Errors: invalid state without batches or for a temporary table of a schema; not found for another catalog or,
    /// in the mode that appends, a table that does not exist; already exists for one that does, in the mode that
    /// creates.
    pub fn take(&self, state: &mut State, given: Option<Given>) -> Result<u64> {
        let table = self.table.as_deref().unwrap_or_default();
        let given = given.ok_or_else(|| out_of_turn("no batches are bound for ingestion"))?;
        if self.temporary && (self.schema.is_some() || self.catalog.is_some()) {
            return Err(out_of_turn("a temporary table has neither a schema nor a catalog"));
        }
        if let Some(catalog) = &self.catalog {
            state.require_catalog(catalog)?;
        }
        let mode = self.mode.unwrap_or(IngestMode::Create);
        let plain = match &self.schema {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(table)),
            None => quoted(table),
        };
        let of_session = format!("pg_temp.{}", quoted(table));
        let existing = if self.temporary { &of_session } else { &plain };
        let drop = format!("DROP TABLE IF EXISTS {existing}");
        let create = match (mode, self.temporary) {
            (IngestMode::Append, _) => None,
            (IngestMode::CreateAppend, true) => Some("CREATE TEMP TABLE IF NOT EXISTS"),
            (IngestMode::CreateAppend, false) => Some("CREATE TABLE IF NOT EXISTS"),
            (_, true) => Some("CREATE TEMP TABLE"),
            (_, false) => Some("CREATE TABLE"),
        };
        let destination = Destination {
            table: if create.is_none() { existing } else { &plain },
            create,
            drop: (mode == IngestMode::Replace).then_some(drop.as_str()),
        };
        let stays = !state.autocommit;
        let done = load(&mut state.session, &destination, given, stays).map_err(told);
        // A notice that the table exists already says nothing new.
        state.session.take_notices();
        done
    }
}
