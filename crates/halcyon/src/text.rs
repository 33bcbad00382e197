//! Values as the text that PostgreSQL prints for them.

use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;
use halcyon_value::float;

use crate::session::Session;

/// The format of values as text: PostgreSQL's, with timestamps in a session's time zone.
///
/// ```
/// use halcyon::{SqlType, TextFormat, ValueRef};
/// let format = TextFormat::default();
/// assert_eq!(format.text(ValueRef::Date(0), SqlType::Date), "1970-01-01");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TextFormat {
    zone: TimeZone,
    /// Digits that numbers with a floating point have beside 15, or 6; `None`: as many as they need.
    digits: Option<i8>,
}

impl Session {
    /// The format of this session's results; to be fetched again once the setting `TimeZone` has
    /// changed, or [`Session::has_other_digits`].
    pub fn text_format(&self) -> TextFormat {
        let zone = TimeZone::parse(&self.vars.time_zone).unwrap_or_default();
        TextFormat { zone, digits: self.in_force.float_digits }
    }

    /// Whether `extra_float_digits` has changed since a format was fetched.
    pub fn has_other_digits(&self, format: &TextFormat) -> bool {
        self.in_force.float_digits != format.digits
    }
}

impl TextFormat {
    /// Appends the text of a value of type `ty`; nothing for NULL.
    pub fn write(&self, value: ValueRef<'_>, ty: SqlType, out: &mut String) {
        let digits = |least: i8, extra: i8| usize::try_from(least + extra).unwrap_or(1);
        match (value, self.digits) {
            (ValueRef::Float64(value), Some(extra)) => {
                float::write_rounded(value, digits(15, extra), out);
            }
            (ValueRef::Float32(value), Some(extra)) => {
                float::write_rounded(value.into(), digits(6, extra), out);
            }
            _ => coerce::write(value, ty, &self.zone, out),
        }
    }

    /// The text of a value of type `ty`.
    pub fn text(&self, value: ValueRef<'_>, ty: SqlType) -> String {
        let mut out = String::new();
        self.write(value, ty, &mut out);
        out
    }
}
