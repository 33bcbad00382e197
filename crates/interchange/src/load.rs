//! Batches of Arrow into a table: what `register` of Python and bulk ingestion of ADBC do.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::error::ArrowError;
use halcyon::{Session, SqlError, SqlState};

use crate::inputs;
use crate::transactions::in_transaction;

/// The table that takes the batches, and what comes before.
pub struct Destination<'a> {
    /// The table's name as SQL has it, quoted where it must be.
    pub table: &'a str,
    /// The beginning of CREATE TABLE for a new table (`CREATE TEMP TABLE`); `None`: the table exists.
    pub create: Option<&'a str>,
    /// A statement before, as DROP TABLE IF EXISTS.
    pub drop: Option<&'a str>,
}

/// Stores all batches of a reader in one transaction, which stays open if `stays`. Returns the number of rows.
///
/// Errors: 0A000 for a column that SQL has no type for, 22000 for a value that does not fit or an error of the reader;
/// those of the statements and of a commit.
pub fn load(
    session: &mut Session,
    into: &Destination<'_>,
    reader: impl RecordBatchReader,
    stays: bool,
) -> halcyon::Result<u64> {
    let targets = inputs::targets(&reader.schema())?;
    let schema = inputs::schema(&targets);
    let table = into.table;
    in_transaction(session, stays, |session| {
        if let Some(drop) = into.drop {
            session.execute(drop, &[])?;
            session.take_notices();
        }
        let name = |target: &inputs::Target| quoted(&target.name);
        if let Some(create) = into.create {
            let columns = targets.iter().map(|t| format!("{} {}", name(t), t.sql));
            let columns = columns.collect::<Vec<_>>().join(", ");
            session.execute(format!("{create} {table} ({columns})").as_str(), &[])?;
        }
        let columns = targets.iter().map(name).collect::<Vec<_>>().join(", ");
        let copy = session.prepare(&format!("COPY {table} ({columns}) FROM STDIN"))?;
        session.run(&copy, &[])?;
        for batch in reader {
            let batch = batch
                .map_err(of_reader)
                .and_then(|batch: RecordBatch| inputs::convert(&schema, &batch))
                .inspect_err(|_| session.copy_abandon())?;
            session.copy_batch(&batch)?;
        }
        Ok(session.copy_end()?.rows.unwrap_or(0))
    })
}

/// 22000 with the reader's message.
fn of_reader(error: ArrowError) -> SqlError {
    SqlError::new(SqlState::DATA_EXCEPTION, error.to_string())
}

/// An identifier as SQL quotes it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
