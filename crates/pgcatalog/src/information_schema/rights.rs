//! What roles may do, and which roles act for others.

use super::visible::{TABLE_PRIVILEGE_LIST, yes};
use crate::Context;
use crate::objects::{Object, What};
use crate::view::{Name, Text, row, system_tables};
use halcyon_catalog::Privilege;

system_tables! {
    table_privileges: TablePrivilegesRow from table_privileges,
        role_table_grants from role_table_grants
    {
        grantor: Name,
        grantee: Name,
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        privilege_type: Text,
        is_grantable: Text,
        with_hierarchy: Text,
    }

    column_privileges: ColumnPrivilegesRow from column_privileges {
        grantor: Name,
        grantee: Name,
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        column_name: Name,
        privilege_type: Text,
        is_grantable: Text,
    }

    applicable_roles: ApplicableRolesRow from applicable_roles {
        grantee: Name,
        role_name: Name,
        is_grantable: Text = Text::from("NO"),
    }

    enabled_roles: EnabledRolesRow from enabled_roles {
        role_name: Name,
    }
}

/// Calls `each` with (grantor, grantee, relation, privilege, grantable) of what the session's
/// roles may see: what they own, gave or were given, and what everybody may.
fn each_grant(
    context: &Context,
    with_public: bool,
    mut each: impl FnMut(&str, &str, &Object, Privilege, bool),
) {
    let user = &context.session.user;
    let mine = |name: &str| context.catalog.acts_for(user, name);
    for object in context.objects().relations.values() {
        if !matches!(object.what, What::Table(_) | What::View(_)) {
            continue;
        }
        let owner = context.owner_name(object);
        if mine(&owner) {
            for privilege in TABLE_PRIVILEGE_LIST {
                each(&owner, &owner, object, *privilege, true);
            }
        }
        for grant in object.grants().iter().filter(|grant| grant.grantee != owner) {
            let everybody = grant.grantee == "public";
            if (everybody && with_public)
                || (!everybody && (mine(&grant.grantee) || mine(&grant.grantor)))
            {
                let grantee = if everybody { "PUBLIC" } else { &grant.grantee };
                each(&grant.grantor, grantee, object, grant.privilege, grant.grantable);
            }
        }
    }
}

fn privilege_rows(context: &Context, with_public: bool, rows: &mut Vec<TablePrivilegesRow>) {
    let database = &context.session.database;
    each_grant(context, with_public, |grantor, grantee, object, privilege, grantable| {
        row!(rows; TablePrivilegesRow {
            grantor: grantor.to_owned(),
            grantee: grantee.to_owned(),
            table_catalog: database,
            table_schema: &object.schema,
            table_name: &object.name,
            privilege_type: privilege.name(),
            is_grantable: yes(grantable),
            with_hierarchy: yes(privilege == Privilege::Select),
        });
    });
}

fn table_privileges(context: &Context, rows: &mut Vec<TablePrivilegesRow>) {
    privilege_rows(context, true, rows);
}

fn role_table_grants(context: &Context, rows: &mut Vec<TablePrivilegesRow>) {
    privilege_rows(context, false, rows);
}

fn column_privileges(context: &Context, rows: &mut Vec<ColumnPrivilegesRow>) {
    let database = &context.session.database;
    each_grant(context, true, |grantor, grantee, object, privilege, grantable| {
        if matches!(privilege, Privilege::Delete | Privilege::Truncate) {
            return;
        }
        let names: Vec<&String> = match &object.what {
            What::Table(table) => table.columns.iter().map(|column| &column.name).collect(),
            What::View(view) => view.columns.iter().map(|(name, _)| name).collect(),
            _ => return,
        };
        for name in names {
            row!(rows; ColumnPrivilegesRow {
                grantor: grantor.to_owned(),
                grantee: grantee.to_owned(),
                table_catalog: database,
                table_schema: &object.schema,
                table_name: &object.name,
                column_name: name,
                privilege_type: privilege.name(),
                is_grantable: yes(grantable),
            });
        }
    });
}

fn applicable_roles(context: &Context, rows: &mut Vec<ApplicableRolesRow>) {
    for role in context.catalog.roles.values() {
        if context.catalog.acts_for(&context.session.user, &role.name) {
            for group in &role.member_of {
                row!(rows; ApplicableRolesRow {
                    grantee: &role.name,
                    role_name: group,
                });
            }
        }
    }
}

fn enabled_roles(context: &Context, rows: &mut Vec<EnabledRolesRow>) {
    for role in context.catalog.roles.values() {
        if context.catalog.acts_for(&context.session.user, &role.name) {
            row!(rows; EnabledRolesRow {
                role_name: &role.name,
            });
        }
    }
}
