//! `pg_catalog`: the tables that PostgreSQL's tools read, from Halcyon's catalog.

mod activity;
mod attributes;
mod collations;
mod constraints;
mod descriptions;
// Lists of columns, several to a line.
#[rustfmt::skip]
mod empty;
mod extensions;
mod progress;
mod reads;
mod relations;
mod roles;
mod types;
mod zones;

use super::table::Def;

pub(crate) use constraints::unique_index;

/// The tables by topic.
pub(crate) fn tables() -> [&'static [Def]; 12] {
    [
        relations::TABLES,
        attributes::TABLES,
        collations::TABLES,
        constraints::TABLES,
        descriptions::TABLES,
        roles::TABLES,
        activity::TABLES,
        progress::TABLES,
        types::TABLES,
        zones::TABLES,
        extensions::TABLES,
        empty::TABLES,
    ]
}

/// Whether a table of `pg_catalog` never has rows.
pub(crate) fn is_always_empty(name: &str) -> bool {
    empty::TABLES.iter().any(|def| def.name == name)
}
