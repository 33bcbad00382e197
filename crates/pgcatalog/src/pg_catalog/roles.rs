//! Tables of roles, memberships, the database and its schemas.

use crate::objects;
use crate::view::{Acl, Char, Moment, Name, Oid, Oids, Text, Texts, row, system_tables};
use crate::{Context, describe};
use halcyon_catalog::{DefaultsOn, Role};

system_tables! {
    pg_namespace: NamespaceRow from namespace {
        oid: Oid,
        nspname: Name,
        nspowner: Oid,
        nspacl: Option<Acl>,
    }

    pg_default_acl: DefaultAclRow from default_acl {
        oid: Oid,
        defaclrole: Oid,
        defaclnamespace: Oid,
        defaclobjtype: Char,
        defaclacl: Acl,
    }

    pg_roles: RolesRow from roles {
        rolname: Name,
        rolsuper: bool,
        rolinherit: bool = true,
        rolcreaterole: bool,
        rolcreatedb: bool,
        rolcanlogin: bool,
        rolreplication: bool,
        rolconnlimit: i32 = -1,
        rolpassword: Text,
        rolvaliduntil: Option<Moment> = None,
        rolbypassrls: bool,
        rolconfig: Option<Texts> = None,
        oid: Oid,
    }

    pg_authid: AuthidRow from authid {
        oid: Oid,
        rolname: Name,
        rolsuper: bool,
        rolinherit: bool = true,
        rolcreaterole: bool,
        rolcreatedb: bool,
        rolcanlogin: bool,
        rolreplication: bool,
        rolbypassrls: bool,
        rolconnlimit: i32 = -1,
        rolpassword: Option<Text>,
        rolvaliduntil: Option<Moment> = None,
    }

    pg_auth_members: AuthMembersRow from auth_members {
        roleid: Oid,
        member: Oid,
        grantor: Oid,
        admin_option: bool = false,
    }

    pg_user: UserRow from user {
        usename: Name,
        usesysid: Oid,
        usecreatedb: bool,
        usesuper: bool,
        userepl: bool,
        usebypassrls: bool,
        passwd: Text,
        valuntil: Option<Moment> = None,
        useconfig: Option<Texts> = None,
    }

    pg_shadow: ShadowRow from shadow {
        usename: Name,
        usesysid: Oid,
        usecreatedb: bool,
        usesuper: bool,
        userepl: bool,
        usebypassrls: bool,
        passwd: Option<Text>,
        valuntil: Option<Moment> = None,
        useconfig: Option<Texts> = None,
    }

    pg_group: GroupRow from group {
        groname: Name,
        grosysid: Oid,
        grolist: Oids,
    }

    pg_database: DatabaseRow from database {
        oid: Oid,
        datname: Name,
        datdba: Oid,
        encoding: i32,
        datlocprovider: Char = Char("c"),
        datistemplate: bool = false,
        datallowconn: bool = true,
        datconnlimit: i32 = -1,
        datfrozenxid: i64 = 0,
        datminmxid: i64 = 0,
        dattablespace: Oid,
        datcollate: Text = Text::from("C"),
        datctype: Text = Text::from("C"),
        daticulocale: Option<Text> = None,
        datcollversion: Option<Text> = None,
        datacl: Option<Acl> = None,
    }

    pg_tablespace: TablespaceRow from tablespace {
        oid: Oid,
        spcname: Name = Name("pg_default".to_owned()),
        spcowner: Oid,
        spcacl: Option<Acl> = None,
        spcoptions: Option<Texts> = None,
    }
}

/// `pg_default`, the one tablespace.
const DEFAULT_TABLESPACE: u32 = 1663;
/// UTF8 in PostgreSQL's numbering of encodings.
const UTF8: i32 = 6;
/// Shown instead of a secret.
const HIDDEN: &str = "********";

fn namespace(context: &Context, rows: &mut Vec<NamespaceRow>) {
    for schema in context.catalog.schemas.values() {
        let owner = objects::role_oid(&context.catalog, &schema.owner);
        let acl = describe::acl(&schema.owner, &schema.grants, "UC");
        row!(rows; NamespaceRow {
            oid: objects::schema_oid(schema),
            nspname: &schema.name,
            nspowner: owner,
            nspacl: acl,
        });
    }
}

fn default_acl(context: &Context, rows: &mut Vec<DefaultAclRow>) {
    for role in context.catalog.roles.values() {
        for known in &role.defaults {
            let (letter, all) = match known.on {
                DefaultsOn::Tables => ("r", "arwdDxt"),
                DefaultsOn::Sequences => ("S", "rwU"),
                DefaultsOn::Schemas => ("n", "UC"),
            };
            let schema = known.schema.as_deref();
            let schema = schema.and_then(|name| context.catalog.schemas.get(name));
            let mut acl = describe::acl(&role.name, &known.grants, all).unwrap_or_default();
            if schema.is_some() {
                // Such rights are added to those that hold everywhere, of which the owner's are.
                acl.remove(0);
            }
            row!(rows; DefaultAclRow {
                oid: known.oid,
                defaclrole: objects::role_oid(&context.catalog, &role.name),
                defaclnamespace: schema.map_or(0, |schema| objects::schema_oid(schema)),
                defaclobjtype: letter,
                defaclacl: acl,
            });
        }
    }
}

fn roles(context: &Context, rows: &mut Vec<RolesRow>) {
    for role in context.catalog.roles.values() {
        let all = role.superuser;
        row!(rows; RolesRow {
            rolname: &role.name,
            rolsuper: all,
            rolcreaterole: role.create_role,
            rolcreatedb: role.create_db,
            rolcanlogin: role.login,
            rolreplication: all,
            rolpassword: HIDDEN,
            rolbypassrls: all,
            oid: role.oid,
        });
    }
}

/// Verifiers are told to superusers only; others see that there is one.
fn secret(context: &Context, role: &Role) -> Option<String> {
    let verifier = role.verifier.as_ref()?;
    Some(if context.is_superuser() { verifier.clone() } else { HIDDEN.to_owned() })
}

fn authid(context: &Context, rows: &mut Vec<AuthidRow>) {
    for role in context.catalog.roles.values() {
        let all = role.superuser;
        row!(rows; AuthidRow {
            oid: role.oid,
            rolname: &role.name,
            rolsuper: all,
            rolcreaterole: role.create_role,
            rolcreatedb: role.create_db,
            rolcanlogin: role.login,
            rolreplication: all,
            rolbypassrls: all,
            rolpassword: secret(context, role),
        });
    }
}

fn auth_members(context: &Context, rows: &mut Vec<AuthMembersRow>) {
    for role in context.catalog.roles.values() {
        for group in &role.member_of {
            let group = objects::role_oid(&context.catalog, group);
            row!(rows; AuthMembersRow {
                roleid: group,
                member: role.oid,
                grantor: objects::BOOTSTRAP_ROLE,
            });
        }
    }
}

fn user(context: &Context, rows: &mut Vec<UserRow>) {
    for role in context.catalog.roles.values().filter(|role| role.login) {
        let all = role.superuser;
        row!(rows; UserRow {
            usename: &role.name,
            usesysid: role.oid,
            usecreatedb: role.create_db,
            usesuper: all,
            userepl: all,
            usebypassrls: all,
            passwd: HIDDEN,
        });
    }
}

fn shadow(context: &Context, rows: &mut Vec<ShadowRow>) {
    for role in context.catalog.roles.values().filter(|role| role.login) {
        let all = role.superuser;
        row!(rows; ShadowRow {
            usename: &role.name,
            usesysid: role.oid,
            usecreatedb: role.create_db,
            usesuper: all,
            userepl: all,
            usebypassrls: all,
            passwd: secret(context, role),
        });
    }
}

fn group(context: &Context, rows: &mut Vec<GroupRow>) {
    for role in context.catalog.roles.values().filter(|role| !role.login) {
        let members: Vec<i64> = (context.catalog.roles.values())
            .filter(|member| member.member_of.contains(&role.name))
            .map(|member| i64::from(member.oid))
            .collect();
        row!(rows; GroupRow {
            groname: &role.name,
            grosysid: role.oid,
            grolist: members,
        });
    }
}

fn database(context: &Context, rows: &mut Vec<DatabaseRow>) {
    let owner = objects::role_oid(&context.catalog, &context.bootstrap_name());
    row!(rows; DatabaseRow {
        oid: objects::DATABASE,
        datname: &context.session.database,
        datdba: owner,
        encoding: UTF8,
        dattablespace: DEFAULT_TABLESPACE,
    });
}

fn tablespace(_: &Context, rows: &mut Vec<TablespaceRow>) {
    row!(rows; TablespaceRow {
        oid: DEFAULT_TABLESPACE,
        spcowner: objects::BOOTSTRAP_ROLE,
    });
}
