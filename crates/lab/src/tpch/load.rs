//! The data's way into Halcyon's tables, and into files.

use std::fs::{self, File};
use std::path::Path;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::errors::ParquetError;
use halcyon::Session;

use super::data::{SCHEMA, TABLES};
use crate::{Failure, Result};

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Failure::Io(error.to_string())
    }
}

/// Creates the eight tables and fills them, in one transaction per table. `progress` is called
/// with the table's name and its rows so far.
pub fn load(session: &mut Session, sf: f64, progress: &mut dyn FnMut(&str, u64)) -> Result<()> {
    session.batch(SCHEMA)?;
    for table in &TABLES {
        let mut rows = 0;
        session.execute("BEGIN", &[])?;
        for batch in table.batches(sf) {
            rows += session.append(table.name, &batch?)?;
            progress(table.name, rows);
        }
        session.execute("COMMIT", &[])?;
    }
    Ok(())
}

/// Writes the tables to `folder`, a Parquet file each.
pub fn export(folder: &Path, sf: f64) -> Result<()> {
    fs::create_dir_all(folder)?;
    for table in &TABLES {
        let file = File::create(folder.join(format!("{}.parquet", table.name)))?;
        let mut writer = ArrowWriter::try_new(file, (table.schema)(), None)?;
        for batch in table.batches(sf) {
            writer.write(&batch?)?;
        }
        writer.close()?;
    }
    Ok(())
}
