//! How a database is set up when it is made or opened.

use halcyon_sql::error::Result;

use crate::settings::SystemSettings;

/// How a database is set up.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Name shown to clients.
    pub name: String,
    /// Cores that an analytical statement may use by default; 0 means all.
    pub threads: usize,
    /// Statements kept ready by the statement cache.
    pub cached_statements: usize,
    /// A reader-writer latch around every access to segments and indexes, which locks make
    /// superfluous here: for measuring what engines that need it pay.
    #[cfg(feature = "latches")]
    pub latches: bool,
    /// Bytes per second that a checkpoint writes at most, unless it is asked for; 0 for no limit.
    pub checkpoint_bytes_per_s: u64,
    /// Settings of the whole database, above what ALTER SYSTEM said.
    pub settings: SystemSettings,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            name: "halcyon".into(),
            threads: 0,
            cached_statements: 4096,
            #[cfg(feature = "latches")]
            latches: false,
            checkpoint_bytes_per_s: 128 << 20,
            settings: SystemSettings::default(),
        }
    }
}

impl DatabaseOptions {
    /// Gives a setting of the whole database a value, as [`SystemSettings::set`] does.
    ///
    /// Errors: 42704 if there is no such setting, 22023.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, value)
    }

    /// As [`DatabaseOptions::set`], to be written in one expression.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self> {
        self.set(name, value)?;
        Ok(self)
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
