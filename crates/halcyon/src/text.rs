//! Values as the text that PostgreSQL prints for them.

use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;

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
}

impl Session {
    /// The format of this session's results; to be fetched again once the setting `TimeZone` has
    /// changed.
    pub fn text_format(&self) -> TextFormat {
        TextFormat { zone: TimeZone::parse(&self.vars.time_zone).unwrap_or_default() }
    }
}

impl TextFormat {
    /// Appends the text of a value of type `ty`; nothing for NULL.
    pub fn write(&self, value: ValueRef<'_>, ty: SqlType, out: &mut String) {
        coerce::write(value, ty, &self.zone, out);
    }

    /// The text of a value of type `ty`.
    pub fn text(&self, value: ValueRef<'_>, ty: SqlType) -> String {
        coerce::to_text(value, ty, &self.zone)
    }
}
