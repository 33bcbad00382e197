//! Results as streams of record batches for other libraries.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use halcyon::{ResultColumn, SqlError, SqlType};

use crate::lists;

/// Record batches of a schema, one by one, for another library.
pub struct Batches<I> {
    /// The schema of all batches.
    pub schema: SchemaRef,
    /// The batches.
    pub batches: I,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> Iterator for Batches<I> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> RecordBatchReader for Batches<I> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The schema of a result as other libraries see it.
pub fn shown(columns: &[ResultColumn]) -> SchemaRef {
    let field = |column: &ResultColumn| {
        let ty = column.ty.unwrap_or(SqlType::Text);
        let field = ty.field(&column.name, column.field.is_nullable());
        field.with_data_type(ty.shown_arrow())
    };
    let shown = columns.iter().map(field).collect::<Vec<_>>();
    lists::schema(columns, &Schema::new(shown))
}

/// The batches of a result, in the schema that [`shown`] gives, computed as they are asked for. `next` gives the
/// engine's batches.
pub fn batches(
    columns: Arc<[ResultColumn]>,
    mut next: impl FnMut() -> Option<halcyon::Result<RecordBatch>>,
) -> Batches<impl Iterator<Item = Result<RecordBatch, ArrowError>>> {
    let schema = shown(&columns);
    let of = schema.clone();
    let batches = std::iter::from_fn(move || {
        next().map(|batch| lists::with_lists(&of, &columns, &batch.map_err(external)?))
    });
    Batches { schema, batches }
}

/// An error of the engine as one of Arrow's streams.
pub fn external(error: SqlError) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// The type without a view: texts and bytes one behind the other.
pub fn plain(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}
