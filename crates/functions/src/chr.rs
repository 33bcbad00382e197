//! `chr`: the character of a number.

use super::{Gives, Kind, Row, error, text};
use halcyon_sql::error::SqlState;

pub(super) const ROWS: &[Row] =
    &[Row::new("chr", "The character with this number.", &[Kind::Integer], Gives::Text, |args| {
        let number = args.integer(0);
        let refused = |state, message| Err(error(state, message));
        match number {
            ..0 => refused(SqlState::INVALID_PARAMETER_VALUE, "character number must be positive"),
            0 => refused(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"),
            number => match u32::try_from(number).ok().and_then(char::from_u32) {
                Some(character) => Ok(text(character)),
                None => Err(error(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!("requested character not valid for encoding: {number}"),
                )),
            },
        }
    })];
