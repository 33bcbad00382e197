//! Numbers for the values of keys that are equal, beside the bounds of a join.

use std::collections::HashMap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;

use crate::plan::value;

type Expr = std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>;

/// The values of a left side's keys, by their bytes.
#[derive(Debug)]
pub(crate) struct Groups {
    form: RowConverter,
    numbers: HashMap<Box<[u8]>, u32>,
    bytes: usize,
}

/// What a value of the table takes beside its bytes.
const ENTRY_BYTES: usize = 48;

impl Groups {
    /// No values yet, of keys whose types are those of arrays.
    fn new(keys: &[ArrayRef]) -> Result<Self> {
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
        Ok(Groups { form: RowConverter::new(fields)?, numbers: HashMap::new(), bytes: 0 })
    }

    /// By row: the number of its keys' values, given to new values; `None` for NULL.
    pub(crate) fn put(
        groups: &mut Option<Groups>,
        keys: &[Expr],
        batch: &RecordBatch,
    ) -> Result<Vec<Option<u32>>> {
        let keys = keys.iter().map(|key| value(key, batch)).collect::<Result<Vec<_>>>()?;
        let groups = match groups {
            Some(groups) => groups,
            None => groups.insert(Groups::new(&keys)?),
        };
        let rows = groups.form.convert_columns(&keys)?;
        let number = |row: usize| {
            if is_null(&keys, row) {
                return None;
            }
            let bytes = rows.row(row);
            let bytes: &[u8] = bytes.as_ref();
            if let Some(&number) = groups.numbers.get(bytes) {
                return Some(number);
            }
            let number = groups.numbers.len() as u32;
            groups.numbers.insert(bytes.into(), number);
            groups.bytes += bytes.len() + ENTRY_BYTES;
            Some(number)
        };
        Ok((0..batch.num_rows()).map(number).collect())
    }

    /// By row: the number of its keys' values; `None` for NULL and values that the left side has not.
    pub(crate) fn find(&self, keys: &[Expr], batch: &RecordBatch) -> Result<Vec<Option<u32>>> {
        let keys = keys.iter().map(|key| value(key, batch)).collect::<Result<Vec<_>>>()?;
        let rows = self.form.convert_columns(&keys)?;
        let number = |row: usize| match is_null(&keys, row) {
            true => None,
            false => self.numbers.get(rows.row(row).as_ref()).copied(),
        };
        Ok((0..batch.num_rows()).map(number).collect())
    }

    /// Values.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Bytes of the values and their table.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn is_null(keys: &[ArrayRef], row: usize) -> bool {
    keys.iter().any(|key| key.is_null(row))
}
