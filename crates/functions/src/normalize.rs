//! `normalize` and `is_normalized`: normal forms of Unicode.

use super::{Arguments, Gives, Kind, Row, error, text};
use datafusion::common::ScalarValue;
use halcyon_collations::NormalForm;
use halcyon_sql::error::{Result, SqlState};

const TEXTS: &[Kind] = &[Kind::Text, Kind::Text];

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "normalize",
        "The text in a normal form of Unicode: NFC, or the one named.",
        TEXTS,
        Gives::Text,
        |args| Ok(text(form(args)?.of(args.text(0)))),
    )
    .optional(1),
    Row::new(
        "is_normalized",
        "Whether the text is in a normal form of Unicode: NFC, or the one named.",
        TEXTS,
        Gives::Bool,
        |args| {
            let is = form(args)?.of(args.text(0)) == args.text(0);
            Ok(ScalarValue::Boolean(Some(is)))
        },
    )
    .optional(1),
];

/// The form that the second argument names. Errors: 22023.
fn form(args: &Arguments<'_>) -> Result<NormalForm> {
    if !args.has(1) {
        return Ok(NormalForm::Nfc);
    }
    let name = args.text(1);
    NormalForm::of_name(name).ok_or_else(|| {
        error(SqlState::INVALID_PARAMETER_VALUE, format!("invalid normalization form: {name}"))
    })
}
