//! COPY FROM STDIN and TO STDOUT, and SUBSCRIBE, whose changes come as the data of a COPY.

use std::future::poll_fn;

use halcyon::{Session, SqlError, SqlState};
use halcyon_traces::Phase;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, End, Failure, ended_by_others, lasting, running};
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
        let mut began = None;
        loop {
            if self.traced.is_recording() && !self.input.has_message() {
                self.traced.ran(began.take(), &self.session);
                self.traced.enter(Phase::Client);
            }
            let received = self.receive().await;
            if began.is_none() {
                began = self.traced.runs();
            }
            let message = match received {
                Ok(message) => message,
                Err(end) => {
                    self.session.copy_abandon();
                    return Err(end.into());
                }
            };
            match message {
                Message::CopyData(data) => lasting(|| self.session.copy_data(&data))?,
                Message::CopyDone => {
                    let ended = lasting(|| self.session.copy_end());
                    self.traced.ran(began, &self.session);
                    let tag = ended?;
                    self.traced.wrote(tag.rows);
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
        if self.session.is_following() {
            return self.follow().await;
        }
        loop {
            let output = &mut self.output;
            let session = &mut self.session;
            let began = self.traced.runs();
            let tag = lasting(|| {
                while output.buffer.len() < FLUSH_BYTES {
                    if let Some(tag) = session.copy_out(|row| output.copy_data(row))? {
                        return Ok(Some(tag));
                    }
                }
                Ok::<_, SqlError>(None)
            });
            self.traced.ran(began, &self.session);
            if let Some(tag) = tag? {
                self.traced.wrote(tag.rows);
                self.output.put_empty(b'c');
                self.tell_changes();
                self.output.command_complete(&tag.to_string());
                return Ok(());
            }
            self.flush().await?;
        }
    }

    /// Sends the changes of a view until the client cancels or is gone. Between changes it has no thread, and its lane
    /// counts it as one that waits.
    async fn follow(&mut self) -> Result<(), Failure> {
        loop {
            if self.session.is_ending() || self.shared.ends_idle() {
                return Err(End::Fatal(ended_by_others()).into());
            }
            let (output, session) = (&mut self.output, &mut self.session);
            let began = self.traced.runs();
            let told = running(|| session.copy_out(|row| output.copy_data(row)));
            self.traced.ran(began, &self.session);
            told?;
            if !self.output.buffer.is_empty() {
                self.flush().await?;
                continue;
            }
            self.attention.rests();
            let late = tokio::time::sleep(Session::CHANGES_WAIT);
            tokio::select! {
                () = poll_fn(|context| self.session.poll_changes(context)) => {}
                () = self.woken.notified() => {}
                () = late => {}
            }
            self.attention.works(false, false);
        }
    }
}
