//! What is said of all objects of a role: the rights that those have which it will make, another owner, and DROP OWNED.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{GrantObjects, Ident, ObjectName};
use halcyon_catalog::{
    Catalog, DefaultRights, DefaultsOn, Grant, Relation, Role, SUPERUSER, Schema, UserType,
};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{OwnedStatement, RightsChange};

use super::remove::{drop_relations, drop_schemas};
use super::role::{
    GrantableKind, change_rights, check_new_owner, for_all_rights, grantees, privileges,
    require_role,
};
use super::{DdlContext, fold};
use halcyon_sql::identifier::last;

/// Carries out a statement about all objects of roles. Errors: 42704, 42501, 3F000, 2BP01.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &OwnedStatement) -> Result<()> {
    match statement {
        OwnedStatement::Default { roles, schemas, change } => {
            let roles = match roles.as_slice() {
                [] => vec![cx.user().to_owned()],
                named => roles_of(cx, named, "change default privileges of")?,
            };
            let schemas: Vec<String> = schemas.iter().map(fold).collect();
            default_rights(cx, &roles, &schemas, change)
        }
        OwnedStatement::Reassign { from, to } => {
            let from = roles_of(cx, from, "reassign objects of")?;
            refuse_first(&from, "reassign ownership of")?;
            let to = role_name(cx, to);
            require_role(cx.catalog, &to)?;
            check_new_owner(cx, &to)?;
            for_all_rights(cx.catalog, |owner, _| {
                if from.contains(owner) {
                    owner.clone_from(&to);
                }
            });
            Ok(())
        }
        OwnedStatement::Drop { of, cascade } => {
            let of = roles_of(cx, of, "drop objects of")?;
            drop_owned(cx, &of, *cascade)
        }
    }
}

fn role_name(cx: &DdlContext<'_>, role: &Ident) -> String {
    match fold(role).as_str() {
        "current_user" | "current_role" if role.quote_style.is_none() => cx.user().to_owned(),
        "session_user" if role.quote_style.is_none() => cx.env.session.session_user.clone(),
        name => name.to_owned(),
    }
}

/// The names of roles for which the user acts. Errors: 42704, 42501.
fn roles_of(cx: &DdlContext<'_>, roles: &[Ident], doing: &str) -> Result<Vec<String>> {
    let one = |role: &Ident| {
        let name = role_name(cx, role);
        require_role(cx.catalog, &name)?;
        match cx.catalog.acts_for(cx.user(), &name) {
            true => Ok(name),
            false => {
                let message = format!("permission denied to {doing} role \"{name}\"");
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .detail(format!("The role must be \"{name}\" or a member of it.")))
            }
        }
    };
    roles.iter().map(one).collect()
}

/// ALTER DEFAULT PRIVILEGES.
fn default_rights(
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
        if old.is_some_and(|old| Arc::ptr_eq(old, own))
            || halcyon_catalog::temporary::is_temporary(&name)
        {
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

/// 2BP01 for the role that a database begins with: system schemas are its.
fn refuse_first(roles: &[String], doing: &str) -> Result<()> {
    if roles.iter().all(|role| role != SUPERUSER) {
        return Ok(());
    }
    let message = format!(
        "cannot {doing} objects owned by role {SUPERUSER} because they are required by the \
         database system"
    );
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message))
}

/// Drops what roles own, and takes what they were granted.
fn drop_owned(cx: &mut DdlContext<'_>, of: &[String], cascade: bool) -> Result<()> {
    refuse_first(of, "drop")?;
    let is_owned = |owner: &String| of.contains(owner);
    let mut wanted = Vec::new();
    for schema in cx.catalog.schemas.values() {
        for (name, relation) in &schema.relations {
            let goes = match relation {
                Relation::Table(table) => is_owned(&table.owner),
                Relation::View(view) => is_owned(&view.owner),
                // With its table.
                Relation::Sequence(own) => own.owned_by.is_none() && is_owned(&own.owner),
                Relation::Type(_) | Relation::Index { .. } => false,
            };
            if goes {
                wanted.push((schema.name.clone(), name.clone()));
            }
        }
    }
    drop_relations(cx, wanted, cascade)?;
    let types = cx.catalog.schemas.values().flat_map(|schema| {
        schema.relations.values().filter_map(|relation| match relation {
            Relation::Type(own) if of.contains(&own.owner) => Some((**own).clone()),
            _ => None,
        })
    });
    let types: Vec<UserType> = types.collect();
    super::user_type::drop_found(cx, types, cascade)?;
    let schemas = cx.catalog.schemas.values().filter(|own| is_owned(&own.owner));
    let named = |own: &Arc<Schema>| ObjectName::from(Ident::with_quote('"', &own.name));
    let schemas: Vec<ObjectName> = schemas.map(named).collect();
    drop_schemas(cx, false, &schemas, cascade)?;
    for_all_rights(cx.catalog, |_, grants| grants.retain(|grant| !of.contains(&grant.grantee)));
    for role in cx.catalog.roles.values_mut() {
        let goes = of.contains(&role.name);
        let empty = role.defaults.iter().any(|known| known.grants.is_empty());
        if goes && !role.defaults.is_empty() || empty {
            let role: &mut Role = Arc::make_mut(role);
            role.defaults.retain(|known| !goes && !known.grants.is_empty());
        }
    }
    Ok(())
}
