//! What is said of all objects of a role: the rights that those have which it will make, another owner, and DROP OWNED.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use halcyon_catalog::{Relation, Role, SUPERUSER, Schema, UserType};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::OwnedStatement;

use super::remove::{drop_relations, drop_schemas};
use super::role::{check_new_owner, for_all_rights, require_role};
use super::{DdlContext, default_rights, fold};

/// Carries out a statement about all objects of roles. Errors: 42704, 42501, 3F000, 2BP01.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &OwnedStatement) -> Result<()> {
    match statement {
        OwnedStatement::Default { roles, schemas, change } => {
            let roles = match roles.as_slice() {
                [] => vec![cx.user().to_owned()],
                named => roles_of(cx, named, "change default privileges of")?,
            };
            let schemas: Vec<String> = schemas.iter().map(fold).collect();
            default_rights::change(cx, &roles, &schemas, change)
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
