//! The data's way into Halcyon's tables, and into files.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::errors::ParquetError;
use halcyon::{Outcome, Session};

use super::data::{SCHEMA, TABLES};
use crate::{Failure, Result};

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Failure::Io(error.to_string())
    }
}

/// Bytes of data handed over at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Creates the eight tables and fills them by COPY, a transaction per table. `progress` is called
/// with the table's name and its rows so far.
pub fn load(session: &mut Session, sf: f64, progress: &mut dyn FnMut(&str, u64)) -> Result<()> {
    session.batch(SCHEMA)?;
    for table in &TABLES {
        let text = format!("COPY {} FROM STDIN WITH (FORMAT csv)", table.name);
        let copy = session.prepare(&text)?;
        if !matches!(session.run(&copy, &[])?, Outcome::CopyIn { .. }) {
            return Err(Failure::Engine(format!("{text} asks for no data")));
        }
        let (mut lines, mut rows) = (String::new(), 0);
        table.lines(sf, &mut |line| {
            writeln!(lines, "{line}").expect("writing to memory does not fail");
            rows += 1;
            if lines.len() >= CHUNK_BYTES {
                session.copy_data(lines.as_bytes())?;
                lines.clear();
                progress(table.name, rows);
            }
            Ok(())
        })?;
        session.copy_data(lines.as_bytes())?;
        session.copy_end()?;
        progress(table.name, rows);
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
