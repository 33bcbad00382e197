//! Reads frames from the client's stream.
//!
//! Invariant, checked by `lengths_are_refused_before_their_bytes_arrive`: memory grows with bytes
//! that have arrived, never with a length that was announced.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use halcyon_base::clock::{self, Moment};
use halcyon_base::memory;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frontend::{self, Message, ProtocolError, SMALL_BYTES_MAX};

/// Bytes read from the socket at a time.
const READ_BYTES: usize = 16 * 1024;

/// Messages from this size on ask for memory before their buffer grows.
const LARGE_BYTES: usize = 1 << 20;

/// Why there is no next message.
#[derive(Debug)]
pub enum InputError {
    /// The stream broke.
    Io(io::Error),
    /// The bytes do not follow the protocol.
    Protocol(ProtocolError),
}

impl From<ProtocolError> for InputError {
    fn from(error: ProtocolError) -> Self {
        InputError::Protocol(error)
    }
}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> Self {
        InputError::Io(error)
    }
}

/// Bytes that have arrived and have not been taken as messages yet.
#[derive(Default)]
pub struct Input {
    buffer: BytesMut,
    /// When the last of them came.
    arrived: Option<Moment>,
}

impl Input {
    /// Whether the buffer is empty. (A client that sends data before TLS has begun is refused.)
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// When the last of the bytes came; `None` before the first.
    pub fn arrived(&self) -> Option<Moment> {
        self.arrived
    }

    /// Type of the next message, if its first byte has arrived.
    pub fn peek(&self) -> Option<u8> {
        self.buffer.first().copied()
    }

    /// Whether the next message has arrived as a whole.
    pub fn has_message(&self) -> bool {
        let length = self.length_at(1, u32::MAX);
        matches!(length, Ok(Some(length)) if self.buffer.len() > length)
    }

    /// The next message, if all of it has arrived. Messages with data may have up to `large` bytes.
    pub fn take(&mut self, large: u32) -> Result<Option<Message>, ProtocolError> {
        let Some(&kind) = self.buffer.first() else { return Ok(None) };
        let max = frontend::bytes_max(kind, large)?;
        let Some(length) = self.length_at(1, max)? else { return Ok(None) };
        if self.buffer.len() < 1 + length {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(1 + length).freeze();
        frame.advance(5);
        frontend::decode(kind, frame).map(Some)
    }

    /// The body of the next startup packet, if all of it has arrived; such packets have no type.
    pub fn take_startup(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        let Some(length) = self.length_at(0, SMALL_BYTES_MAX)? else { return Ok(None) };
        if self.buffer.len() < length {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(length).freeze();
        frame.advance(4);
        Ok(Some(frame))
    }

    /// The length field at `offset`, which counts itself, if it has arrived and is within bounds.
    fn length_at(&self, offset: usize, max: u32) -> Result<Option<usize>, ProtocolError> {
        let Some(mut field) = self.buffer.get(offset..offset + 4) else { return Ok(None) };
        let bytes = field.get_u32();
        if !(4..=max).contains(&bytes) {
            return Err(ProtocolError::Length { bytes, max });
        }
        Ok(Some(bytes as usize))
    }

    /// Reads what the client has sent; `false` at the end of the stream. May be cancelled.
    ///
    /// Errors: those of the stream; `OutOfMemory` if a long message would exceed the limit of memory.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        let is_full = self.buffer.capacity() - self.buffer.len() < READ_BYTES;
        if is_full && self.buffer.len() >= LARGE_BYTES && !memory::has_room(2 * self.buffer.len()) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.buffer.reserve(READ_BYTES);
        let count = stream.read_buf(&mut self.buffer).await?;
        self.arrived = Some(clock::now());
        Ok(count > 0)
    }

    /// Waits for the next message; `None` at the end of the stream. May be cancelled.
    pub async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        large: u32,
    ) -> Result<Option<Message>, InputError> {
        loop {
            if let Some(message) = self.take(large)? {
                return Ok(Some(message));
            }
            if !self.fill(stream).await? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_they_end_however_they_arrive() {
        let stream = b"Q\0\0\0\x06a\0S\0\0\0\x04X\0\0\0\x04";
        let mut input = Input::default();
        let mut seen = Vec::new();
        for byte in stream {
            input.buffer.extend_from_slice(&[*byte]);
            seen.extend(input.take(1000).expect("well-formed"));
        }
        let query = Message::Query(Bytes::from_static(b"a"));
        assert_eq!(seen, [query, Message::Sync, Message::Terminate]);
        assert!(input.is_empty());
    }

    #[test]
    fn lengths_are_refused_before_their_bytes_arrive() {
        for (frame, bytes, max) in [
            (&b"Q\x7f\xff\xff\xff"[..], 0x7fff_ffff, 1000),
            (&b"S\0\0\xff\xff"[..], 0xffff, 1000),
            (&b"Q\0\0\0\x03"[..], 3, 1000),
            (&b"Q\xff\xff\xff\xff"[..], u32::MAX, 1000),
        ] {
            let mut input = Input::default();
            input.buffer.extend_from_slice(frame);
            assert_eq!(input.take(1000), Err(ProtocolError::Length { bytes, max }));
        }
    }
}
