//! `information_schema`: the SQL standard's view of tables, columns, constraints and rights.
//!
//! As in PostgreSQL, relations that the asking role has no right on are left out.

mod collations;
mod columns;
mod constraints;
mod domains;
// Lists of columns, several to a line.
#[rustfmt::skip]
mod empty;
mod relations;
mod rights;
mod visible;

use super::table::Def;

/// The views by topic.
pub(crate) fn tables() -> [&'static [Def]; 7] {
    [
        relations::TABLES,
        collations::TABLES,
        columns::TABLES,
        constraints::TABLES,
        domains::TABLES,
        rights::TABLES,
        empty::TABLES,
    ]
}
