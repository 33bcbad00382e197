//! Rights that objects have from their beginning: ALTER DEFAULT PRIVILEGES.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::GrantObjects;
use halcyon_catalog::temporary::is_temporary;
use halcyon_catalog::{Catalog, DefaultRights, DefaultsOn, Grant, Relation};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::last;
use halcyon_sql::syntax::RightsChange;

use super::DdlContext;
use super::role::{GrantableKind, change_rights, grantees, privileges};

/// Changes what objects get that roles will make in schemas, anywhere if none is named.
///
/// Errors: 0LP01, 3F000, 42704.
pub(super) fn change(
    cx: &mut DdlContext<'_>,
    roles: &[String],
    schemas: &[String],
    change: &RightsChange,
) -> Result<()> {
    let (objects, wanted, others) = match change {
        RightsChange::Grant(grant) => (&grant.objects, &grant.privileges, &grant.grantees),
        RightsChange::Revoke(revoke) => (&revoke.objects, &revoke.privileges, &revoke.grantees),
    };
    let kind = match objects {
        Some(GrantObjects::Tables(names)) => match names.as_slice() {
            [name] => last(name)?,
            _ => String::new(),
        },
        _ => String::new(),
    };
    let (on, kind) = match kind.as_str() {
        "tables" => (DefaultsOn::Tables, GrantableKind::Table),
        "sequences" => (DefaultsOn::Sequences, GrantableKind::Sequence),
        "schemas" if !schemas.is_empty() => {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        "schemas" => (DefaultsOn::Schemas, GrantableKind::Schema),
        // There are no functions, and types have no rights.
        "functions" | "routines" | "types" => return Ok(()),
        other => {
            let message = format!("default privileges on \"{other}\" are unknown");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .hint("Name TABLES, SEQUENCES, SCHEMAS, FUNCTIONS or TYPES."));
        }
    };
    let privileges = privileges(wanted, kind)?;
    let others = grantees(cx, others)?;
    for schema in schemas {
        cx.catalog.schema(schema)?;
    }
    let places: Vec<Option<String>> = match schemas {
        [] => vec![None],
        named => named.iter().cloned().map(Some).collect(),
    };
    for role in roles {
        for place in &places {
            let oid = cx.catalog.ids.oid();
            let own = Arc::make_mut(cx.catalog.roles.get_mut(role).expect("it was just found"));
            let at = own.defaults.iter().position(|known| known.on == on && known.schema == *place);
            let at = at.unwrap_or_else(|| {
                let grants = Vec::new();
                own.defaults.push(DefaultRights { oid, schema: place.clone(), on, grants });
                own.defaults.len() - 1
            });
            let grants = &mut own.defaults[at].grants;
            grants.retain(|given| {
                !others.contains(&given.grantee) || !privileges.contains(&given.privilege)
            });
            if let RightsChange::Grant(grant) = change {
                for grantee in &others {
                    grants.extend(privileges.iter().map(|privilege| Grant {
                        grantee: grantee.clone(),
                        grantor: role.clone(),
                        privilege: *privilege,
                        grantable: grant.with_grant_option,
                    }));
                }
            }
            own.defaults.retain(|known| !known.grants.is_empty());
        }
    }
    Ok(())
}

/// Takes a schema that has another name now, or is gone, out of default rights.
pub(super) fn schema_is_gone(catalog: &mut Catalog, name: &str, new: Option<&str>) {
    let is_it = |known: &DefaultRights| known.schema.as_deref() == Some(name);
    for role in catalog.roles.values_mut() {
        if role.defaults.iter().any(is_it) {
            let role = Arc::make_mut(role);
            match new {
                None => role.defaults.retain(|known| !is_it(known)),
                Some(new) => {
                    let renamed = role.defaults.iter_mut().filter(|known| is_it(known));
                    renamed.for_each(|known| known.schema = Some(new.to_owned()));
                }
            }
        }
    }
}

/// Gives the objects that a statement has made what their owners' default rights say. `before`: the catalog as the
/// statement met it.
///
/// Every statement that makes objects comes by here ([`super::Ddl::run`]), so none has to think of it.
pub(super) fn give(before: &Catalog, catalog: &mut Catalog) {
    if catalog.roles.values().all(|role| role.defaults.is_empty()) {
        return;
    }
    let names: Vec<String> = catalog.schemas.keys().cloned().collect();
    for name in names {
        let old = before.schemas.get(&name);
        let own = &catalog.schemas[&name];
        if old.is_some_and(|old| Arc::ptr_eq(old, own)) || is_temporary(&name) {
            continue;
        }
        if before.schemas.values().all(|old| old.oid != own.oid) {
            let given = catalog.default_rights(&own.owner, None, DefaultsOn::Schemas);
            if !given.is_empty() {
                catalog.schema_mut(&name).grants.extend(given);
            }
        }
        let own = Arc::clone(&catalog.schemas[&name]);
        for (relation_name, relation) in &own.relations {
            let Some((oid, owner, on)) = made(relation) else { continue };
            let was = |catalog: &Catalog| {
                let known = catalog.schemas.values().flat_map(|schema| schema.relations.values());
                known.filter_map(made).any(|(other, ..)| other == oid)
            };
            let known = old.and_then(|old| old.relations.get(relation_name)).and_then(made);
            if known.is_some_and(|(other, ..)| other == oid) {
                continue;
            }
            let given = catalog.default_rights(owner, Some(&name), on);
            // It may have moved here, or have another name.
            if !given.is_empty() && !was(before) {
                let relation = relation.clone();
                change_rights(catalog, &name, relation_name, relation, |_, grants| {
                    grants.extend(given.iter().cloned());
                });
            }
        }
    }
}

/// Number, owner and kind of what may have rights of its own.
fn made(relation: &Relation) -> Option<(u32, &str, DefaultsOn)> {
    match relation {
        Relation::Table(table) => Some((table.id.0, &table.owner, DefaultsOn::Tables)),
        Relation::View(view) => Some((view.oid, &view.owner, DefaultsOn::Tables)),
        Relation::Sequence(own) => Some((own.oid, &own.owner, DefaultsOn::Sequences)),
        Relation::Type(_) | Relation::Index { .. } => None,
    }
}
