//! Values on the wire: text or binary, sent ([`encode`], [`batch`]) and received ([`parameter`]).

pub mod batch;
pub mod encode;
pub mod numeric;
pub mod parameter;

use halcyon::{SqlError, SqlState};

/// The format of a value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text that PostgreSQL prints.
    Text,
    /// The bytes that PostgreSQL's `typsend` gives.
    Binary,
}

/// Days and microseconds from 1970-01-01 to 2000-01-01, from which the wire counts.
pub use halcyon_value::calendar::{
    POSTGRES_EPOCH_DAYS as EPOCH_DAYS, POSTGRES_EPOCH_US as EPOCH_US,
};

impl Format {
    /// The protocol's code of the format.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }

    /// Formats by code. Errors: 22023 if a code is neither 0 nor 1.
    pub fn from_codes(codes: &[i16]) -> Result<Vec<Format>, SqlError> {
        let format = |code: &i16| match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {other}"),
            )),
        };
        codes.iter().map(format).collect()
    }

    /// The format of column `at`: `formats` names none (all are text), one for all, or one for
    /// each.
    pub fn of(formats: &[Format], at: usize) -> Format {
        match formats {
            [] => Format::Text,
            [all] => *all,
            each => each[at],
        }
    }
}
