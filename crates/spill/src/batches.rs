//! Batches of rows in a file, in Arrow's format of messages (IPC): appended one after the other, read in any order.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use datafusion::common::{Result, internal_datafusion_err};
use halcyon_sql::diagnose::external;

use crate::compact::compacted;
use crate::file::{Extent, Spill, SpilledFile};

/// A batch in a file.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    extent: Extent,
    /// Rows.
    pub rows: usize,
}

impl Piece {
    /// Bytes in the file.
    pub fn bytes(&self) -> usize {
        self.extent.bytes
    }
}

/// A file to which batches of one schema are appended.
pub struct BatchWriter {
    file: Arc<SpilledFile>,
    schema: SchemaRef,
    /// The schema of the messages, as their first one says it.
    header: Buffer,
    ipc: StreamWriter<Vec<u8>>,
}

/// Whether batches of a schema can be put into files.
pub fn can_hold(schema: &Schema) -> bool {
    fn is_plain(field: &Field) -> bool {
        match field.data_type() {
            // Its values would have to be read before its keys.
            DataType::Dictionary(..) | DataType::RunEndEncoded(..) => false,
            DataType::List(inner)
            | DataType::LargeList(inner)
            | DataType::ListView(inner)
            | DataType::LargeListView(inner)
            | DataType::FixedSizeList(inner, _)
            | DataType::Map(inner, _) => is_plain(inner),
            DataType::Struct(fields) => fields.iter().all(|field| is_plain(field)),
            DataType::Union(fields, _) => fields.iter().all(|(_, field)| is_plain(field)),
            _ => true,
        }
    }
    schema.fields().iter().all(|field| is_plain(field))
}

impl BatchWriter {
    /// A new file. Errors: 58030, 53100.
    pub fn new(spill: &Arc<Spill>, schema: &SchemaRef) -> Result<Self> {
        let file = spill.file().map_err(external)?;
        let mut ipc = StreamWriter::try_new(Vec::new(), schema)?;
        let header = std::mem::take(ipc.get_mut());
        let (schema, header) = (Arc::clone(schema), Buffer::from_vec(header));
        Ok(BatchWriter { file, schema, header, ipc })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends a batch of the schema.
    ///
    /// Errors: 53400, 53100, 58030.
    pub async fn append(&mut self, batch: &RecordBatch) -> Result<Piece> {
        let columns = batch.columns().iter().map(compacted).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.ipc.write(&batch)?;
        let message = std::mem::take(self.ipc.get_mut());
        let (extent, mut message) = self.file.append(message).await.map_err(external)?;
        message.clear();
        *self.ipc.get_mut() = message;
        Ok(Piece { extent, rows: batch.num_rows() })
    }

    /// The file, to be read; nothing is appended any more.
    pub fn finish(self) -> Batches {
        Batches { file: self.file, schema: self.schema, header: self.header }
    }
}

/// A file of batches that can be read by several readers.
#[derive(Clone, Debug)]
pub struct Batches {
    file: Arc<SpilledFile>,
    schema: SchemaRef,
    header: Buffer,
}

impl Batches {
    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A reader.
    pub fn reader(&self) -> Result<BatchReader> {
        let mut decoder = StreamDecoder::new();
        let mut header = self.header.clone();
        match decoder.decode(&mut header)? {
            None => Ok(BatchReader { batches: self.clone(), decoder }),
            Some(_) => Err(internal_datafusion_err!("a file begins with its schema")),
        }
    }
}

/// Reads batches.
#[derive(Debug)]
pub struct BatchReader {
    batches: Batches,
    decoder: StreamDecoder,
}

impl BatchReader {
    /// The batch of a piece. Errors: 58030.
    pub async fn read(&mut self, piece: &Piece) -> Result<RecordBatch> {
        let mut message = self.batches.file.read(piece.extent).await.map_err(external)?;
        let Some(batch) = self.decoder.decode(&mut message)? else {
            return Err(internal_datafusion_err!("a piece is a batch"));
        };
        let (_, columns, rows) = batch.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.batches.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

#[cfg(test)]
mod tests;
