//! Encodes the server's messages into a buffer, which the connection flushes.
//!
//! Messages sent once per statement are encoded by `pgwire`; messages sent once per row or per
//! pipelined message are written here directly.

use bytes::{BufMut, BytesMut};
use halcyon::{ResultColumn, SessionState, Shape, SqlError, SqlType};
use pgwire::messages::data::{FieldDescription, ParameterDescription, RowDescription};
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::ParameterStatus;

use crate::format::Format;

/// The most bytes of one field of an error, so that a statement's text cannot fill the buffer.
const FIELD_BYTES_MAX: usize = 16 * 1024;

/// Severity of a notice or error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Nothing failed: a notice.
    Notice,
    /// Nothing failed, but something may be wrong.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// Messages on their way to the client.
#[derive(Default)]
pub struct Output {
    /// The bytes.
    pub buffer: BytesMut,
}

impl Output {
    /// Encodes a message of `pgwire`.
    pub fn put(&mut self, message: &impl pgwire::messages::Message) {
        message.encode(&mut self.buffer).expect("fields are cut to what a message may hold");
    }

    /// A message without a body: ParseComplete, BindComplete, NoData, ….
    pub fn put_empty(&mut self, kind: u8) {
        self.buffer.put_u8(kind);
        self.buffer.put_u32(4);
    }

    /// CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        self.buffer.put_u8(b'C');
        self.buffer.put_u32(tag.len() as u32 + 5);
        self.buffer.put_slice(tag.as_bytes());
        self.buffer.put_u8(0);
    }

    /// ReadyForQuery.
    pub fn ready(&mut self, state: SessionState) {
        self.buffer.put_u8(b'Z');
        self.buffer.put_u32(5);
        self.buffer.put_u8(match state {
            SessionState::Idle => b'I',
            SessionState::InTransaction => b'T',
            SessionState::Failed => b'E',
        });
    }

    /// ErrorResponse.
    pub fn error(&mut self, severity: Severity, error: &SqlError) {
        self.put(&ErrorResponse::new(fields(severity, error)));
    }

    /// NoticeResponse.
    pub fn notice(&mut self, severity: Severity, notice: &SqlError) {
        self.put(&NoticeResponse::new(fields(severity, notice)));
    }

    /// ParameterStatus.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.put(&ParameterStatus::new(clean(name), clean(value)));
    }

    /// NotificationResponse.
    pub fn notification(&mut self, session: i32, channel: &str, payload: &str) {
        let (channel, payload) = (clean(channel), clean(payload));
        self.buffer.put_u8(b'A');
        self.buffer.put_u32((4 + 4 + channel.len() + 1 + payload.len() + 1) as u32);
        self.buffer.put_i32(session);
        for text in [channel, payload] {
            self.buffer.put_slice(text.as_bytes());
            self.buffer.put_u8(0);
        }
    }

    /// ParameterDescription: types as the client `declared` them, otherwise as they were inferred.
    pub fn parameter_description(&mut self, types: &[SqlType], declared: &[u32]) {
        let mut oids: Vec<u32> = types.iter().map(|ty| ty.oid()).collect();
        for (oid, declared) in oids.iter_mut().zip(declared).filter(|(_, declared)| **declared > 0)
        {
            *oid = *declared;
        }
        self.put(&ParameterDescription::new(oids));
    }

    /// RowDescription, or NoData if there are no columns to describe.
    pub fn row_description(&mut self, columns: &[ResultColumn], formats: &[Format]) {
        let field = |(at, column): (usize, &ResultColumn)| {
            let format = Format::of(formats, at);
            describe(column, format)
        };
        self.put(&RowDescription::new(columns.iter().enumerate().map(field).collect()));
    }

    /// CopyInResponse (`G`) or CopyOutResponse (`H`).
    pub fn copy_response(&mut self, kind: u8, columns: usize, binary: bool) {
        self.buffer.put_u8(kind);
        self.buffer.put_u32(4 + 1 + 2 + 2 * columns as u32);
        self.buffer.put_u8(binary.into());
        self.buffer.put_u16(columns as u16);
        (0..columns).for_each(|_| self.buffer.put_u16(binary.into()));
    }

    /// CopyData.
    pub fn copy_data(&mut self, data: &[u8]) {
        self.buffer.put_u8(b'd');
        self.buffer.put_u32(4 + data.len() as u32);
        self.buffer.put_slice(data);
    }
}

fn describe(column: &ResultColumn, format: Format) -> FieldDescription {
    let (table, attribute) = column.origin.unwrap_or((0, 0));
    let told = column.client_type();
    let modifier = match told.shape {
        // The digits of a calculated number are nobody's choice; PostgreSQL tells those of columns and casts.
        Shape::Value(SqlType::Decimal { .. }) if !column.names_its_type() => -1,
        Shape::Value(ty) => ty.modifier(),
        Shape::Array { element, .. } => element.modifier(),
        _ => -1,
    };
    FieldDescription::new(
        clean(&column.name),
        table as i32,
        attribute as i16,
        told.oid,
        told.length,
        modifier,
        format.code(),
    )
}

fn fields(severity: Severity, error: &SqlError) -> Vec<(u8, String)> {
    let from = error.fields();
    let mut fields = vec![
        (b'S', severity.as_str().to_owned()),
        (b'V', severity.as_str().to_owned()),
        (b'C', from.state.as_str().to_owned()),
        (b'M', clean(&from.message)),
    ];
    let position = from.position.map(|position| position.to_string());
    let optional = [
        (b'D', &from.detail),
        (b'H', &from.hint),
        (b'P', &position),
        (b'W', &from.context),
        (b's', &from.schema),
        (b't', &from.table),
        (b'c', &from.column),
        (b'n', &from.constraint),
    ];
    let given = optional.into_iter().filter_map(|(kind, text)| Some((kind, clean(text.as_ref()?))));
    fields.extend(given);
    fields
}

/// The text without zero bytes, which would end it early, and cut to a bounded length.
fn clean(text: &str) -> String {
    let mut end = text.len().min(FIELD_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon::SqlState;

    #[test]
    fn errors_carry_every_field_and_stay_bounded() {
        let error =
            SqlError::new(SqlState::UNIQUE_VIOLATION, "a\0b".to_owned() + &"x".repeat(1 << 20))
                .detail("d")
                .hint("h")
                .position(7)
                .table("public", "t")
                .constraint("t_pkey");
        let mut output = Output::default();
        output.error(Severity::Error, &error);
        assert!(output.buffer.len() < 2 * FIELD_BYTES_MAX);
        let length = u32::from_be_bytes(output.buffer[1..5].try_into().unwrap()) as usize;
        assert_eq!(length + 1, output.buffer.len());
        let text = String::from_utf8_lossy(&output.buffer).into_owned();
        for field in [
            "SERROR\0",
            "C23505\0",
            "Ma\u{fffd}bx",
            "Dd\0",
            "Hh\0",
            "P7\0",
            "spublic\0",
            "tt\0",
            "nt_pkey\0",
        ] {
            assert!(text.contains(field), "{field:?}");
        }
    }
}
