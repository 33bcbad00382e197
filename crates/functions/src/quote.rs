//! `quote_ident`, `quote_literal`, `quote_nullable`: texts as SQL writes them.

use super::{Gives, Kind, Row, text};
use halcyon_sql::identifier::{quote_ident, quote_literal};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "quote_ident",
        "The text as a name in SQL, in quotes if the name needs some.",
        &[Kind::Text],
        Gives::Text,
        |args| Ok(text(quote_ident(args.text(0)))),
    ),
    Row::new(
        "quote_literal",
        "The value as a constant in SQL, in quotes.",
        &[Kind::Written],
        Gives::Text,
        |args| Ok(text(quote_literal(args.text(0)))),
    ),
    Row::new(
        "quote_nullable",
        "The value as a constant in SQL, in quotes; NULL is the word.",
        &[Kind::Written],
        Gives::Text,
        |args| {
            Ok(match args.is_null(0) {
                true => text("NULL"),
                false => text(quote_literal(args.text(0))),
            })
        },
    )
    .of_null(),
];
