//! Where collations of users are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_catalog::{Catalog, Relation, Table};
use halcyon_collations::Collation;
use halcyon_sql::error::Result;

use super::{depends, type_uses};

/// Errors: 2BP01 for a collation that something has, or names.
pub(super) fn refuse_used(catalog: &Catalog, own: &Collation) -> Result<()> {
    let column = columns_of(catalog, own).into_iter().next();
    let column = column.map(|(table, at)| type_uses::shown_column(catalog.table(table), at));
    match column.or_else(|| mentioning(catalog, own)) {
        Some(user) => Err(depends(&format!("collation {}", own.name), &user)),
        None => Ok(()),
    }
}

/// The columns that have a collation.
pub(super) fn columns_of(catalog: &Catalog, own: &Collation) -> Vec<(TableId, u16)> {
    let of_table = |table: &Arc<Table>| {
        let columns = (0u16..).zip(&table.columns);
        let its = columns.filter(|(_, column)| column.collation.as_ref() == Some(own));
        its.map(|(at, _)| (table.id, at)).collect::<Vec<_>>()
    };
    catalog.tables.values().flat_map(of_table).collect()
}

/// Something that names a collation and is not a column: an index, a domain, a stored expression or query.
fn mentioning(catalog: &Catalog, own: &Collation) -> Option<String> {
    let mentions =
        |text: &str| text.to_ascii_lowercase().contains("collate") && has_name(text, &own.name);
    let relations = catalog.schemas.values().flat_map(|schema| &schema.relations);
    for (name, relation) in relations {
        let uses = match relation {
            Relation::Table(table) => {
                let texts = table.checks.iter().map(|check| &check.expr);
                let columns = table.columns.iter();
                let columns = columns.flat_map(|column| [&column.default, &column.generated]);
                let derived = table.indexes.iter().flat_map(|index| &index.derived);
                let keys = derived.flat_map(|derived| {
                    derived.keys.iter().map(|key| &key.expr).chain(&derived.predicate)
                });
                let query = table.materialized().map(|view| &view.query);
                let mut texts = texts.chain(columns.flatten()).chain(keys).chain(query);
                let in_index = |collations: &BTreeMap<u16, Collation>| {
                    collations.values().any(|other| other == own)
                };
                texts.any(|text| mentions(text))
                    || table.indexes.iter().any(|index| in_index(&index.collations))
            }
            Relation::View(view) => mentions(&view.query),
            Relation::Type(ty) => ty.domain().is_some_and(|domain| {
                domain.collation.as_ref() == Some(own)
                    || domain.checks.iter().any(|check| mentions(&check.expr))
            }),
            Relation::Sequence(_) | Relation::Index { .. } => false,
        };
        if uses {
            return Some(format!("{} {name}", relation.kind()));
        }
    }
    None
}

/// Whether a text has this name as a word, with or without quotes.
fn has_name(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::has_name;

    #[test]
    fn names_are_whole_words() {
        assert!(has_name("a COLLATE x", "x") && has_name("a COLLATE s.\"x\" < b", "x"));
        assert!(!has_name("a COLLATE \"en-x-icu\"", "x") && !has_name("a COLLATE xx", "x"));
    }
}
