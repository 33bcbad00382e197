//! What collations need of texts: the keys by which they are compared, and letters of languages that have their own.
//! No statement can call these; `halcyon_collated` puts them into plans.

use datafusion::common::ScalarValue;
use halcyon_collations::{LocaleError, casing, text_of_key, with_order};

use super::{Arguments, Gives, Kind, Row, error, text};
use halcyon_sql::error::{SqlError, SqlState};

/// The key of a text in the order of a locale.
pub const KEY: &str = "collation\u{1}key";
/// The text of a key.
pub const TEXT: &str = "collation\u{1}text";
/// `lower` in a language.
pub const LOWER: &str = "collation\u{1}lower";
/// `upper` in a language.
pub const UPPER: &str = "collation\u{1}upper";

/// How much longer than its text a key may be; for the question whether there is memory for it.
const KEY_FACTOR: u64 = 8;

const TWO_TEXTS: &[Kind] = &[Kind::Text, Kind::Text];

pub(super) const ROWS: &[Row] = &[
    Row::new(KEY, "What a text is ordered by in a locale.", TWO_TEXTS, Gives::Bytes, |args| {
        let (of, locale) = (args.text(0), args.text(1));
        SqlError::unless_value_refused(of.len() as u64 * KEY_FACTOR)?;
        let key = with_order(locale, |order| order.key(of));
        key.map(|key| ScalarValue::BinaryView(Some(key)))
            .map_err(|problem| refused(locale, &problem))
    }),
    Row::new(TEXT, "The text that is ordered by a key.", &[Kind::Bytes], Gives::Text, |args| {
        let of = |key: &[u8]| text_of_key(key).map(text);
        bytes(args)
            .and_then(of)
            .ok_or_else(|| error(SqlState::INVALID_PARAMETER_VALUE, "not a key"))
    }),
    Row::new(LOWER, "The text in lower case.", TWO_TEXTS, Gives::Text, |args| {
        Ok(text(casing::lower(args.text(0), args.text(1))))
    }),
    Row::new(UPPER, "The text in upper case.", TWO_TEXTS, Gives::Text, |args| {
        Ok(text(casing::upper(args.text(0), args.text(1))))
    }),
];

fn bytes<'a>(args: &'a Arguments<'_>) -> Option<&'a [u8]> {
    match args.values.first() {
        Some(ScalarValue::BinaryView(Some(bytes)) | ScalarValue::Binary(Some(bytes))) => {
            Some(bytes)
        }
        _ => None,
    }
}

/// Why there is no order for a locale, as PostgreSQL tells it.
pub fn refused(locale: &str, problem: &LocaleError) -> SqlError {
    match problem {
        LocaleError::Malformed => error(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("could not open collator for locale \"{locale}\": U_ILLEGAL_ARGUMENT_ERROR"),
        ),
        LocaleError::Unsupported(setting) => {
            SqlError::unsupported(format!("setting \"{setting}\" of locale \"{locale}\""))
        }
    }
}
