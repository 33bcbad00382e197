//! Which views use which relations, as their texts say.

use halcyon_catalog::{Catalog, Relation};
use halcyon_plan::stored_names::used_by;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Views of both kinds, with the relations that each uses directly.
fn views(catalog: &Catalog) -> impl Iterator<Item = ((String, String), Vec<(String, String)>)> {
    let relations = catalog.schemas.values().flat_map(|schema| schema.relations.values());
    relations.filter_map(|relation| {
        let (schema, name, query) = match relation {
            Relation::View(view) => (&view.schema, &view.name, &view.query),
            Relation::Table(table) => (&table.schema, &table.name, &table.materialized()?.query),
            _ => return None,
        };
        Some(((schema.clone(), name.clone()), used_by(query)))
    })
}

/// Views that use a relation directly: (schema, name).
pub(super) fn users_of(catalog: &Catalog, schema: &str, name: &str) -> Vec<(String, String)> {
    let wanted = (schema.to_owned(), name.to_owned());
    views(catalog).filter(|(_, uses)| uses.contains(&wanted)).map(|(view, _)| view).collect()
}

/// Views that use any relation of a schema directly.
pub(super) fn users_of_schema(catalog: &Catalog, schema: &str) -> Vec<(String, String)> {
    let uses_it = |uses: &[(String, String)]| uses.iter().any(|(used, _)| used == schema);
    views(catalog).filter(|(_, uses)| uses_it(uses)).map(|(view, _)| view).collect()
}

/// 2BP01 if views would lose what their text names.
pub(super) fn refuse_if_used(users: &[(String, String)], kind: &str, name: &str) -> Result<()> {
    match users.first() {
        None => Ok(()),
        Some((_, view)) => Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot change {kind} {name} because other objects depend on it"),
        )
        .detail(format!("view {view} depends on {kind} {name}"))
        .hint("Drop the view first and create it again.")),
    }
}
