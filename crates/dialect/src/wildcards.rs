//! `a.*` of a table that FROM names with its schema.
//!
//! DataFusion's planner wants the name before the star to be the whole one, PostgreSQL's any name by
//! which a column could be qualified. Stored queries name all tables with their schemas.

use datafusion::sql::sqlparser::ast::{
    ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
};

use halcyon_sql::identifier::parts;

/// Writes the whole name of a table before every star that is qualified by its last part alone.
pub(crate) fn name_whole_tables(select: &mut Select) {
    let mut names: Vec<ObjectName> = Vec::new();
    select.from.iter().for_each(|from| unaliased(from, &mut names));
    for item in &mut select.projection {
        let SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(qualifier),
            _,
        ) = item
        else {
            continue;
        };
        let given = parts(qualifier).unwrap_or_default();
        let [last] = given.as_slice() else { continue };
        let is_meant = |name: &&ObjectName| parts(name).is_ok_and(|all| all.last() == Some(last));
        if let Some(name) = names.iter().find(is_meant) {
            *qualifier = name.clone();
        }
    }
}

/// Adds the names of the tables of a FROM item that have no alias and are named with their schema.
fn unaliased(from: &TableWithJoins, names: &mut Vec<ObjectName>) {
    let relations =
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    for relation in relations {
        match relation {
            TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => {
                names.push(name.clone());
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                unaliased(table_with_joins, names);
            }
            _ => {}
        }
    }
}
