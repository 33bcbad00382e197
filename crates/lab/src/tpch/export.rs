//! The data as files, for engines that run elsewhere.

use std::fs::{self, File};
use std::path::Path;

use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::data::ARROW_TABLES;
use crate::{Failure, Result};

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Failure::Io(error.to_string())
    }
}

/// Writes the tables to `folder`, a Parquet file each.
pub fn export(folder: &Path, sf: f64) -> Result<()> {
    fs::create_dir_all(folder)?;
    for table in &ARROW_TABLES {
        let file = File::create(folder.join(format!("{}.parquet", table.name)))?;
        let mut writer = ArrowWriter::try_new(file, (table.schema)(), None)?;
        for batch in table.batches(sf) {
            writer.write(&batch?)?;
        }
        writer.close()?;
    }
    Ok(())
}
