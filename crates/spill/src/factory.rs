//! Spilled files as DataFusion's operators take them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::stream::{self, Stream};
use halcyon_sql::diagnose::external;

use crate::file::{Spill, SpilledFile};

/// Bytes that are written or read at a time. A batch that was read keeps the chunks that it lies in, which its memory is
/// counted by: a merge of many files holds a few chunks of each.
pub const CHUNK: usize = 64 << 10;

/// Statements' files by way of DataFusion's `DiskManager`.
#[derive(Debug)]
struct Files(Arc<Spill>);

impl Spill {
    /// The statement's files as DataFusion's operators make them.
    pub fn factory(self: &Arc<Self>) -> Arc<dyn TempFileFactory> {
        Arc::new(Files(Arc::clone(self)))
    }
}

impl TempFileFactory for Files {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = self.0.file().map_err(external)?;
        Ok(Arc::new(OfOperator(file)))
    }
}

/// A file of one of DataFusion's operators.
struct OfOperator(Arc<SpilledFile>);

impl SpillFile for OfOperator {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let file = Arc::clone(&self.0);
        let chunks = stream::try_unfold(0, move |from| {
            let file = Arc::clone(&file);
            async move {
                let bytes = usize::try_from(file.bytes() - from).unwrap_or(CHUNK).min(CHUNK);
                if bytes == 0 {
                    return Ok(None);
                }
                let chunk = file.read_into(vec![0; bytes], from).await.map_err(external)?;
                Ok(Some((Bytes::from(chunk), from + bytes as u64)))
            }
        });
        Ok(Box::pin(chunks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer { file: Arc::clone(&self.0), pending: Vec::new() }))
    }
}

/// Writes on the calling thread, in chunks.
struct Writer {
    file: Arc<SpilledFile>,
    pending: Vec<u8>,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        if self.pending.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.file.append_here(&self.pending).map_err(io::Error::other)?;
            self.pending.clear();
        }
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        io::Write::flush(self)?;
        // A file that waits to be read keeps no buffer.
        self.pending = Vec::new();
        Ok(())
    }
}
