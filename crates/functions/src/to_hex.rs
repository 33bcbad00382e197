//! `to_hex`: a number in hexadecimal digits.

use super::{Gives, Kind, Row, error, text};
use datafusion::common::ScalarValue;
use halcyon_sql::error::SqlState;

pub(super) const ROWS: &[Row] = &[Row::new(
    "to_hex",
    "The bits of an integer in hexadecimal digits.",
    &[Kind::Each],
    Gives::Text,
    |args| {
        Ok(text(match &args.values[0] {
            ScalarValue::Int64(Some(value)) => format!("{value:x}"),
            ScalarValue::Int32(Some(value)) => format!("{value:x}"),
            ScalarValue::Int16(Some(value)) => format!("{:x}", i32::from(*value)),
            other => {
                let shown = halcyon_sql::values::shown_type(&other.data_type());
                let message = format!("function to_hex({shown}) does not exist");
                return Err(error(SqlState::UNDEFINED_FUNCTION, message));
            }
        }))
    },
)];
