//! Options with which a database is made or opened.

use std::path::Path;
use std::sync::Arc;

use halcyon_plan::workers::Workers;
use halcyon_spill::SpillFolder;
use halcyon_sql::error::Result;

use crate::settings::SystemSettings;

/// The options of a database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Name shown to clients.
    pub name: String,
    /// Cores that an analytical statement may use by default; 0 for as many as there are workers.
    pub threads: usize,
    /// The workers that analytical statements run on. They are started by the first one.
    pub workers: Workers,
    /// Number of statements that the statement cache keeps.
    pub cached_statements: usize,
    /// Whether a reader-writer latch guards every access to segments and indexes. Locks make it
    /// superfluous here: for measuring what it costs engines that need it.
    #[cfg(feature = "latches")]
    pub latches: bool,
    /// The most bytes per second that a checkpoint in the background writes; 0 for no limit.
    pub checkpoint_bytes_per_s: u64,
    /// The folder into which sorts, groups and joins spill what exceeds their memory
    /// ([`DatabaseOptions::spill_into`]). `None`: such statements fail (53200).
    pub spill: Option<Arc<SpillFolder>>,
    /// Settings of the whole database; they take precedence over ALTER SYSTEM.
    pub settings: SystemSettings,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            name: "halcyon".into(),
            threads: 0,
            workers: Workers::default(),
            cached_statements: 4096,
            #[cfg(feature = "latches")]
            latches: false,
            checkpoint_bytes_per_s: 128 << 20,
            spill: None,
            settings: SystemSettings::default(),
        }
    }
}

impl DatabaseOptions {
    /// Sets a setting of the whole database, as [`SystemSettings::set`] does.
    ///
    /// Errors: 42704 if no such setting exists, 22023.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, value)
    }

    /// Sets a setting as [`DatabaseOptions::set`] does, and returns the options.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Lets statements spill into a folder, which is made if it is not there: it gets a sub-folder of this process's
    /// own, and what crashed processes have left is cleared. Limits: settings `spill_limit` and `temp_file_limit`.
    ///
    /// Errors: 58030, 53100, with the folder's name.
    pub fn spill_into(&mut self, folder: impl AsRef<Path>) -> Result<()> {
        self.spill = Some(SpillFolder::open(folder.as_ref())?);
        Ok(())
    }

    /// Whether partitions are latched.
    #[cfg(feature = "latches")]
    pub(crate) fn has_latches(&self) -> bool {
        self.latches
    }

    /// Whether partitions are latched: never in this build.
    #[cfg(not(feature = "latches"))]
    pub(crate) fn has_latches(&self) -> bool {
        false
    }
}
