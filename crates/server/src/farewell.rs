//! The end of a connection with a message that tells the client why.

use std::io;
use std::time::Duration;

use halcyon::{SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::socket::Stream;
use crate::wire::backend::{Output, Severity};
use crate::wire::frontend::ProtocolError;
use crate::wire::input::Input;

/// The time that a client gets to read why its connection ends.
const FAREWELL: Duration = Duration::from_millis(500);
/// Reads of what the client goes on sending meanwhile, some megabytes in all: a socket that is closed with
/// bytes unread may take the message back.
const READS_OF_REST: usize = 256;

/// Tells the client why its connection ends, and waits a little for the client to close its end:
/// closing this end with unread data would discard the message.
pub(crate) async fn fatal<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut Stream<S>,
    output: &mut Output,
    error: &SqlError,
) {
    tracing::debug!(%error, "connection refused or ended");
    output.error(Severity::Fatal, error);
    let farewell = async {
        stream.write_all(&output.buffer).await?;
        stream.shutdown().await?;
        for _ in 0..READS_OF_REST {
            if !Input::default().fill(stream).await? {
                break;
            }
        }
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

/// 08P01: the error of a breach of the protocol, after which a connection ends.
pub(crate) fn violation(error: &ProtocolError) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, error.to_string())
}
