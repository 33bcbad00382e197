//! Who and where: roles, memberships, the database, schemas.

use crate::objects;
use crate::table::{Def, Rows, row};
use crate::{Context, describe};
use halcyon_catalog::Role;

use super::columns;

/// The tables.
pub(super) const TABLES: &[Def] = &[
    Def { name: "pg_namespace", columns: columns::NAMESPACE, fill: namespace },
    Def { name: "pg_roles", columns: columns::ROLES, fill: roles },
    Def { name: "pg_authid", columns: columns::AUTHID, fill: authid },
    Def { name: "pg_auth_members", columns: columns::AUTH_MEMBERS, fill: auth_members },
    Def { name: "pg_user", columns: columns::USER, fill: user },
    Def { name: "pg_shadow", columns: columns::SHADOW, fill: shadow },
    Def { name: "pg_group", columns: columns::GROUP, fill: group },
    Def { name: "pg_database", columns: columns::DATABASE, fill: database },
    Def { name: "pg_tablespace", columns: columns::TABLESPACE, fill: tablespace },
    Def { name: "pg_shdescription", columns: columns::SHDESCRIPTION, fill: shdescription },
];

/// `pg_default`, the one tablespace.
const DEFAULT_TABLESPACE: u32 = 1663;
/// UTF8 in PostgreSQL's numbering of encodings.
const UTF8: i32 = 6;
/// Shown instead of a secret.
const HIDDEN: &str = "********";

fn namespace(context: &Context, rows: &mut Rows) {
    for schema in context.catalog.schemas.values() {
        let owner = objects::role_oid(&context.catalog, &schema.owner);
        let acl = describe::acl(&schema.owner, &schema.grants, "UC");
        row!(rows; objects::schema_oid(schema), &schema.name, owner, acl);
    }
}

fn roles(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values() {
        let all = role.superuser;
        row!(rows;
            &role.name, all, true, role.create_role, role.create_db, role.login, all, -1, HIDDEN, (), all, (), role.oid);
    }
}

/// Verifiers are told to superusers only; others see that there is one.
fn secret(context: &Context, role: &Role) -> Option<String> {
    let verifier = role.verifier.as_ref()?;
    Some(if context.is_superuser() { verifier.clone() } else { HIDDEN.to_owned() })
}

fn authid(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values() {
        let all = role.superuser;
        row!(rows;
            role.oid, &role.name, all, true, role.create_role, role.create_db, role.login, all, all, -1,
            secret(context, role), ());
    }
}

fn auth_members(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values() {
        for group in &role.member_of {
            let group = objects::role_oid(&context.catalog, group);
            row!(rows; group, role.oid, objects::BOOTSTRAP_ROLE, false);
        }
    }
}

fn user(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values().filter(|role| role.login) {
        let all = role.superuser;
        row!(rows; &role.name, role.oid, role.create_db, all, all, all, HIDDEN, (), ());
    }
}

fn shadow(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values().filter(|role| role.login) {
        let all = role.superuser;
        row!(rows; &role.name, role.oid, role.create_db, all, all, all, secret(context, role), (), ());
    }
}

fn group(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values().filter(|role| !role.login) {
        let members: Vec<i64> = (context.catalog.roles.values())
            .filter(|member| member.member_of.contains(&role.name))
            .map(|member| i64::from(member.oid))
            .collect();
        row!(rows; &role.name, role.oid, members);
    }
}

fn database(context: &Context, rows: &mut Rows) {
    let owner = objects::role_oid(&context.catalog, &context.bootstrap_name());
    row!(rows;
        objects::DATABASE, &context.session.database, owner, UTF8, "c", false, true, -1, 0_i64,
        0_i64, DEFAULT_TABLESPACE, "C", "C", (), (), ());
}

fn tablespace(_: &Context, rows: &mut Rows) {
    row!(rows; DEFAULT_TABLESPACE, "pg_default", objects::BOOTSTRAP_ROLE, (), ());
}

fn shdescription(_: &Context, _: &mut Rows) {}
