//! Decodes the client's messages; every length and count is checked before it is used.
//!
//! Cost: one pass; parameter values and COPY data are slices of the frame. A malformed message
//! is a [`ProtocolError`], after which the stream cannot be trusted and the connection ends.

use bytes::{Buf, Bytes};
use std::fmt;

/// A message of a client after startup.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// Simple query.
    Query(Bytes),
    /// Prepares a statement under a name; the empty name is reused.
    Parse {
        /// Name of the statement.
        name: String,
        /// The statement's text, which may not be UTF-8.
        query: Bytes,
        /// Object ids of parameter types; 0 leaves one open.
        types: Vec<u32>,
    },
    /// Makes a portal of a statement and parameter values.
    Bind(Bind),
    /// Asks for the description of a statement or portal.
    Describe(Target),
    /// Drops a statement or portal.
    Close(Target),
    /// Runs a portal.
    Execute {
        /// Name of the portal.
        portal: String,
        /// Rows after which the portal is suspended; 0 or less for no limit.
        rows_max: i32,
    },
    /// Asks for the buffered answers.
    Flush,
    /// Ends a pipeline, and with it the skipping after an error.
    Sync,
    /// A piece of COPY data.
    CopyData(Bytes),
    /// COPY data is complete.
    CopyDone,
    /// COPY data cannot be completed, with the reason.
    CopyFail(String),
    /// Password, or a step of SASL.
    Password(Bytes),
    /// The client ends the connection.
    Terminate,
    /// The fast-path function call, which is not offered.
    FunctionCall,
}

/// Parameter values and formats of a portal.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind {
    /// Name of the portal.
    pub portal: String,
    /// Name of the statement.
    pub statement: String,
    /// Formats of the parameters: none (all text), one for all, or one each.
    pub parameter_formats: Vec<i16>,
    /// Values; `None` is NULL.
    pub parameters: Vec<Option<Bytes>>,
    /// Formats of the result's columns: none (all text), one for all, or one each.
    pub result_formats: Vec<i16>,
}

/// A statement or portal by name.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement(String),
    /// A portal.
    Portal(String),
}

/// How a client's message breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// No message has this type byte.
    UnknownType(u8),
    /// The length is less than its own four bytes, or more than `max`.
    Length {
        /// The announced length.
        bytes: u32,
        /// The most that is accepted for this type.
        max: u32,
    },
    /// The body ends before `what`.
    Truncated {
        /// The missing part.
        what: &'static str,
    },
    /// The body has bytes behind the message's contents.
    TrailingBytes(usize),
    /// A name that is not UTF-8.
    NotUtf8,
    /// Describe or Close of neither statement nor portal.
    UnknownTarget(u8),
    /// A message that is not allowed at this point.
    Unexpected(&'static str),
    /// The first message is not a startup message of protocol 3.
    Startup(String),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) => write!(f, "invalid frontend message type {byte}"),
            Self::Length { bytes, max } => {
                write!(f, "invalid message length {bytes}; at most {max} are accepted")
            }
            Self::Truncated { what } => {
                write!(f, "insufficient data left in message: no {what}")
            }
            Self::TrailingBytes(count) => {
                write!(f, "invalid message format: {count} bytes too many")
            }
            Self::NotUtf8 => f.write_str("invalid string in message: not UTF-8"),
            Self::UnknownTarget(byte) => {
                write!(f, "invalid target {byte} of Describe or Close")
            }
            Self::Unexpected(what) => write!(f, "unexpected message: {what}"),
            Self::Startup(what) => write!(f, "invalid startup packet: {what}"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// The most bytes of a message without data.
pub const SMALL_BYTES_MAX: u32 = 10_000;

/// The most bytes that a message of type `kind` may announce.
///
/// Errors: [`ProtocolError::UnknownType`].
pub fn bytes_max(kind: u8, large: u32) -> Result<u32, ProtocolError> {
    match kind {
        b'Q' | b'P' | b'B' | b'F' | b'd' | b'f' => Ok(large),
        b'p' => Ok(65_535),
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' => Ok(SMALL_BYTES_MAX.min(large)),
        other => Err(ProtocolError::UnknownType(other)),
    }
}

/// Decodes the body of a message of type `kind`.
pub fn decode(kind: u8, body: Bytes) -> Result<Message, ProtocolError> {
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Message::Query(body.string_bytes("query text")?),
        b'P' => Message::Parse {
            name: body.string("statement name")?,
            query: body.string_bytes("query text")?,
            types: body.list("parameter types", 4, |body| body.0.get_u32())?,
        },
        b'B' => Message::Bind(body.bind()?),
        b'D' => Message::Describe(body.target()?),
        b'C' => Message::Close(body.target()?),
        b'E' => Message::Execute {
            portal: body.string("portal name")?,
            rows_max: body.i32("row limit")?,
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'c' => Message::CopyDone,
        b'd' => Message::CopyData(body.rest()),
        b'f' => Message::CopyFail(lossy(&body.string_bytes("reason")?)),
        b'p' => Message::Password(body.rest()),
        b'F' => {
            body.rest();
            Message::FunctionCall
        }
        other => return Err(ProtocolError::UnknownType(other)),
    };
    match body.0.len() {
        0 => Ok(message),
        left => Err(ProtocolError::TrailingBytes(left)),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The rest of a message's body.
pub(crate) struct Body(pub(crate) Bytes);

impl Body {
    fn need(&self, bytes: usize, what: &'static str) -> Result<(), ProtocolError> {
        if self.0.len() < bytes { Err(ProtocolError::Truncated { what }) } else { Ok(()) }
    }

    fn rest(&mut self) -> Bytes {
        self.0.split_to(self.0.len())
    }

    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, ProtocolError> {
        self.need(4, what)?;
        Ok(self.0.get_i32())
    }

    /// Bytes up to a zero byte, which is consumed.
    pub(crate) fn string_bytes(&mut self, what: &'static str) -> Result<Bytes, ProtocolError> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or(ProtocolError::Truncated { what })?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        Ok(text)
    }

    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, ProtocolError> {
        let bytes = self.string_bytes(what)?;
        String::from_utf8(bytes.into()).map_err(|_| ProtocolError::NotUtf8)
    }

    /// Reads a 16-bit count and as many items of `item_bytes`; the body's length is checked before
    /// memory is taken.
    fn list<T>(
        &mut self,
        what: &'static str,
        item_bytes: usize,
        mut item: impl FnMut(&mut Self) -> T,
    ) -> Result<Vec<T>, ProtocolError> {
        self.need(2, what)?;
        let count = self.0.get_u16() as usize;
        self.need(count * item_bytes, what)?;
        Ok((0..count).map(|_| item(self)).collect())
    }

    fn target(&mut self) -> Result<Target, ProtocolError> {
        self.need(1, "target")?;
        match self.0.get_u8() {
            b'S' => Ok(Target::Statement(self.string("statement name")?)),
            b'P' => Ok(Target::Portal(self.string("portal name")?)),
            other => Err(ProtocolError::UnknownTarget(other)),
        }
    }

    fn bind(&mut self) -> Result<Bind, ProtocolError> {
        let portal = self.string("portal name")?;
        let statement = self.string("statement name")?;
        let parameter_formats = self.list("parameter formats", 2, |body| body.0.get_i16())?;
        self.need(2, "parameter count")?;
        let count = self.0.get_u16() as usize;
        self.need(count * 4, "parameters")?;
        let parameters = (0..count).map(|_| self.parameter()).collect::<Result<_, _>>()?;
        let result_formats = self.list("result formats", 2, |body| body.0.get_i16())?;
        Ok(Bind { portal, statement, parameter_formats, parameters, result_formats })
    }

    fn parameter(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        match self.i32("parameter length")? {
            -1 => Ok(None),
            length @ 0.. => {
                self.need(length as usize, "parameter value")?;
                Ok(Some(self.0.split_to(length as usize)))
            }
            length => Err(ProtocolError::Length { bytes: length as u32, max: i32::MAX as u32 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(kind: u8, body: &[u8]) -> Result<Message, ProtocolError> {
        decode(kind, Bytes::copy_from_slice(body))
    }

    #[test]
    fn well_formed_messages_decode() {
        let cases: [(u8, &[u8], Message); 7] = [
            (b'Q', b"select 1\0", Message::Query(Bytes::from_static(b"select 1"))),
            (
                b'P',
                b"s\0select $1\0\0\x01\0\0\0\x17",
                Message::Parse {
                    name: "s".into(),
                    query: Bytes::from_static(b"select $1"),
                    types: vec![23],
                },
            ),
            (
                b'B',
                b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\0",
                Message::Bind(Bind {
                    portal: String::new(),
                    statement: "s".into(),
                    parameter_formats: vec![1],
                    parameters: vec![Some(Bytes::from_static(b"hi")), None],
                    result_formats: vec![],
                }),
            ),
            (b'D', b"Sa\0", Message::Describe(Target::Statement("a".into()))),
            (b'C', b"P\0", Message::Close(Target::Portal(String::new()))),
            (b'E', b"p\0\0\0\0\x05", Message::Execute { portal: "p".into(), rows_max: 5 }),
            (b'd', b"1\t2\n", Message::CopyData(Bytes::from_static(b"1\t2\n"))),
        ];
        for (kind, body, expected) in cases {
            assert_eq!(decoded(kind, body).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn every_way_to_be_malformed_has_its_error() {
        use ProtocolError as E;
        let cases: [(u8, &[u8], E); 9] = [
            (b'Q', b"select 1", E::Truncated { what: "query text" }),
            (b'Q', b"select 1\0x", E::TrailingBytes(1)),
            (b'P', b"s\0q\0\xff\xff\0", E::Truncated { what: "parameter types" }),
            (b'B', b"\0\0\0\0\0\x01\0\0\0\x09ab", E::Truncated { what: "parameter value" }),
            (
                b'B',
                b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0",
                E::Length { bytes: u32::MAX - 1, max: i32::MAX as u32 },
            ),
            (b'D', b"Xa\0", E::UnknownTarget(b'X')),
            (b'D', b"S\xff\0", E::NotUtf8),
            (b'S', b"x", E::TrailingBytes(1)),
            (b'!', b"", E::UnknownType(b'!')),
        ];
        for (kind, body, expected) in cases {
            assert_eq!(decoded(kind, body), Err(expected));
        }
    }

    #[test]
    fn no_prefix_of_a_message_panics() {
        let body =
            b"portal\0statement\0\0\x02\0\x01\0\0\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\x01";
        for kind in 0..=255u8 {
            for end in 0..body.len() {
                let _ = decoded(kind, &body[..end]);
            }
        }
        assert!(decoded(b'B', body).is_ok());
    }
}
