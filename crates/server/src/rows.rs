//! Rows between a statement and its client.

use std::task::{Context, Poll, Waker};

use arrow::array::RecordBatch;
use bytes::BytesMut;
use halcyon::{Result, Rows, TextFormat};

use crate::format::Format;
use crate::format::encode::RowEncoder;

/// Bytes at which the buffer is sent to the client, before further rows are read: no more of a
/// result is ever held, except one row and one batch.
pub(crate) const FLUSH_BYTES: usize = 64 * 1024;

/// A result that is being sent, perhaps in pieces (portals with a row limit).
pub(crate) struct RowStream {
    rows: Rows,
    encoder: RowEncoder,
    /// The batch being sent, with its next row; only streamed results have one.
    batch: Option<(RecordBatch, usize)>,
}

/// Why encoding paused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// The buffer is full.
    Full,
    /// The requested number of rows is encoded.
    Limit,
    /// The next rows are still to be computed ([`RowStream::poll_ready`]).
    Waits,
    /// There are no more rows.
    End,
}

impl RowStream {
    pub(crate) fn new(rows: Rows, formats: &[Format], text_format: TextFormat) -> Self {
        let encoder = RowEncoder::new(rows.columns(), formats, text_format);
        RowStream { rows, encoder, batch: None }
    }

    /// Ready once reading on does not wait for the statement.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &self.batch {
            Some((batch, next)) if *next < batch.num_rows() => Poll::Ready(()),
            _ => self.rows.poll_ready(context),
        }
    }

    /// Encodes rows until `sent` has reached `limit`, the buffer is full, the result ends, or the statement still
    /// computes what comes next.
    ///
    /// Errors: the statement's.
    pub(crate) fn encode(
        &mut self,
        out: &mut BytesMut,
        sent: &mut u64,
        limit: u64,
    ) -> Result<Paused> {
        if !self.rows.is_streamed() {
            return self.encode_rows(out, sent, limit);
        }
        let paused = self.encode_batches(out, sent, limit);
        if let Ok(Paused::Limit) = paused {
            // The client may never ask for the rest.
            self.rows.set_aside();
        }
        paused
    }

    fn encode_rows(&mut self, out: &mut BytesMut, sent: &mut u64, limit: u64) -> Result<Paused> {
        while *sent < limit {
            if out.len() >= FLUSH_BYTES {
                return Ok(Paused::Full);
            }
            let Some(row) = self.rows.next()? else { return Ok(Paused::End) };
            self.encoder.row(out, |column| row.value(column));
            *sent += 1;
        }
        Ok(Paused::Limit)
    }

    fn encode_batches(&mut self, out: &mut BytesMut, sent: &mut u64, limit: u64) -> Result<Paused> {
        while *sent < limit {
            if out.len() >= FLUSH_BYTES {
                return Ok(Paused::Full);
            }
            if self.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending() {
                return Ok(Paused::Waits);
            }
            match &mut self.batch {
                Some((batch, next)) if *next < batch.num_rows() => {
                    let wanted = usize::try_from(limit - *sent).unwrap_or(usize::MAX);
                    let count = self.encoder.batch(out, batch, *next, wanted, FLUSH_BYTES);
                    *next += count;
                    *sent += count as u64;
                }
                _ => match self.rows.next_batch()? {
                    Some(batch) => self.batch = Some((batch, 0)),
                    None => return Ok(Paused::End),
                },
            }
        }
        Ok(Paused::Limit)
    }
}
