//! COPY FROM STDIN and TO STDOUT.

use halcyon::{SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Failure, lasting};
use crate::rows::FLUSH_BYTES;
use crate::wire::frontend::{Message, ProtocolError};

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Takes data until the client ends the COPY.
    ///
    /// After an error the client may go on sending for a while; such messages are ignored
    /// wherever they arrive.
    pub(super) async fn copy_in(&mut self, columns: usize, binary: bool) -> Result<(), Failure> {
        self.output.copy_response(b'G', columns, binary);
        self.flush().await?;
        loop {
            let message = match self.receive().await {
                Ok(message) => message,
                Err(end) => {
                    self.session.copy_abandon();
                    return Err(end.into());
                }
            };
            match message {
                Message::CopyData(data) => lasting(|| self.session.copy_data(&data))?,
                Message::CopyDone => {
                    let tag = lasting(|| self.session.copy_end())?;
                    self.tell_changes();
                    self.output.command_complete(&tag.to_string());
                    return Ok(());
                }
                Message::CopyFail(reason) => {
                    self.session.copy_abandon();
                    return Err(SqlError::new(
                        SqlState::QUERY_CANCELED,
                        format!("COPY from stdin failed: {reason}"),
                    )
                    .into());
                }
                // Clients that pipeline send these messages during a COPY, too.
                Message::Flush | Message::Sync => {}
                _ => {
                    self.session.copy_abandon();
                    let what = "neither data nor end during COPY from stdin";
                    return Err(Failure::End(ProtocolError::Unexpected(what).into()));
                }
            }
        }
    }

    /// Sends data, each row in a message of its own, as drivers expect.
    pub(super) async fn copy_out(&mut self, columns: usize, binary: bool) -> Result<(), Failure> {
        self.output.copy_response(b'H', columns, binary);
        loop {
            let output = &mut self.output;
            let session = &mut self.session;
            let tag = lasting(|| {
                while output.buffer.len() < FLUSH_BYTES {
                    let before = output.buffer.len();
                    if let Some(tag) = session.copy_out(|row| output.copy_data(row))? {
                        return Ok(Some(tag));
                    }
                    // A subscription without changes at the moment: the buffer is sent.
                    if output.buffer.len() == before {
                        break;
                    }
                }
                Ok::<_, SqlError>(None)
            })?;
            if let Some(tag) = tag {
                self.output.put_empty(b'c');
                self.tell_changes();
                self.output.command_complete(&tag.to_string());
                return Ok(());
            }
            self.flush().await?;
        }
    }
}
