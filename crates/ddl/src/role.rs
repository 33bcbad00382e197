//! Roles, memberships, privileges, passwords.
//!
//! Passwords are kept as SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677): what a client proves can be
//! checked, and nothing that is stored lets anybody log in.

use std::num::NonZeroU32;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::sql::sqlparser::ast::{
    self, AlterRoleOperation, Expr, GrantObjects, GranteeName, GranteesType, ObjectName, Owner,
    Password, Privileges, RoleOption,
};
use ring::rand::SecureRandom;
use ring::{digest, hmac, pbkdf2, rand};

use super::{DdlContext, fold, parts};
use halcyon_catalog::{Catalog, Grant, PUBLIC, Privilege, Relation, Role};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::last;
use halcyon_sql::syntax::{CreateRole, RoleKind};

/// Rounds of PBKDF2, as PostgreSQL has them.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("4096 is not zero");

const SALT_BYTES: usize = 16;

/// The verifier of a password in PostgreSQL's notation:
/// `SCRAM-SHA-256$4096:<salt>$<StoredKey>:<ServerKey>`.
///
/// A text that is a verifier already stays as it is, as dumps of PostgreSQL have them.
pub fn scram_verifier(password: &str) -> String {
    if password.starts_with("SCRAM-SHA-256$") && password.matches('$').count() == 2 {
        return password.to_owned();
    }
    let mut salt = [0; SALT_BYTES];
    rand::SystemRandom::new().fill(&mut salt).expect("the system gives random bytes");
    verifier_with(password, &salt)
}

fn verifier_with(password: &str, salt: &[u8]) -> String {
    let mut salted = [0; digest::SHA256_OUTPUT_LEN];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, ITERATIONS, salt, password.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&key, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let encode = |bytes: &[u8]| STANDARD.encode(bytes);
    format!(
        "SCRAM-SHA-256${ITERATIONS}:{}${}:{}",
        encode(salt),
        encode(stored.as_ref()),
        encode(server.as_ref())
    )
}

/// 42704 unless the role exists.
pub(super) fn require_role(catalog: &Catalog, name: &str) -> Result<()> {
    match catalog.roles.contains_key(name) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("role \"{name}\" does not exist"),
        )),
    }
}

/// 42501 unless the user may create schemas: a superuser, or one who may create databases.
pub(super) fn require_plain_creator(cx: &DdlContext<'_>, what: &str) -> Result<()> {
    let user = cx.catalog.roles.get(cx.user());
    match user.is_some_and(|role| role.superuser || role.create_db) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied to create {what}"),
        )),
    }
}

/// 42501 unless the user may make and change roles.
fn require_role_creator(cx: &DdlContext<'_>, doing: &str) -> Result<()> {
    let user = cx.catalog.roles.get(cx.user());
    match user.is_some_and(|role| role.superuser || role.create_role) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied to {doing} role"),
        )),
    }
}

/// The role that OWNER TO names, if the user may give things to it.
pub(super) fn owner_name(cx: &DdlContext<'_>, owner: &Owner) -> Result<String> {
    let name = match owner {
        Owner::Ident(name) => fold(name),
        Owner::CurrentRole | Owner::CurrentUser => cx.user().to_owned(),
        Owner::SessionUser => cx.env.session.session_user.clone(),
    };
    check_new_owner(cx, &name)?;
    Ok(name)
}

/// 42704, or 42501 unless the user is a member of the role.
pub(super) fn check_new_owner(cx: &DdlContext<'_>, name: &str) -> Result<()> {
    require_role(cx.catalog, name)?;
    match cx.catalog.acts_for(cx.user(), name) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("must be member of role \"{name}\""),
        )),
    }
}

/// CREATE ROLE, CREATE USER, CREATE GROUP.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateRole) -> Result<()> {
    for name in &create.names {
        let name = last(name)?;
        if create.if_not_exists && cx.catalog.roles.contains_key(&name) {
            cx.notice(
                SqlState::DUPLICATE_OBJECT,
                format!("role \"{name}\" already exists, skipping"),
            );
            continue;
        }
        let mut role = fresh(cx, &name)?;
        role.login = create.kind == RoleKind::User;
        set_options(cx, &mut role, &create.options)?;
        cx.catalog.roles.insert(name.clone(), Arc::new(role));
        for group in create.member_of.iter().map(fold) {
            membership(cx, &[group], std::slice::from_ref(&name), true)?;
        }
        for member in create.members.iter().map(fold) {
            membership(cx, std::slice::from_ref(&name), &[member], true)?;
        }
    }
    Ok(())
}

fn fresh(cx: &DdlContext<'_>, name: &str) -> Result<Role> {
    require_role_creator(cx, "create")?;
    if name == PUBLIC || name == "none" || name.starts_with("pg_") {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("role name \"{name}\" is reserved"),
        ));
    }
    if cx.catalog.roles.contains_key(name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("role \"{name}\" already exists"),
        ));
    }
    Ok(Role {
        oid: cx.catalog.ids.oid(),
        name: name.to_owned(),
        login: false,
        superuser: false,
        create_role: false,
        create_db: false,
        verifier: None,
        member_of: Vec::new(),
        comment: None,
        defaults: Vec::new(),
    })
}

/// 42501 unless the user is a superuser. `doing`: what only superusers do.
pub(super) fn require_superuser(cx: &DdlContext<'_>, doing: &str) -> Result<()> {
    match cx.catalog.is_superuser(cx.user()) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("must be superuser to {doing}"),
        )),
    }
}

/// Guards superusers against all other roles: a role that changes one which is a superuser, or which
/// can become one by SET ROLE, could act as one. Every statement that changes an existing role or
/// who is a member of it asks here.
///
/// Errors: 42501.
fn require_right_over(cx: &DdlContext<'_>, role: &str, doing: &str) -> Result<()> {
    match cx.catalog.reaches_superuser(role) {
        true => require_superuser(cx, &format!("{doing} superusers")),
        false => Ok(()),
    }
}

/// Changes a role, or drops it (`None`).
///
/// Errors: 2BP01 if the last superuser who may log in would be none any more: nobody could make
/// another.
fn replace(cx: &mut DdlContext<'_>, name: &str, role: Option<Role>) -> Result<()> {
    let rules = |role: &Role| role.superuser && role.login;
    let before = match role {
        Some(role) => cx.catalog.roles.insert(name.to_owned(), Arc::new(role)),
        None => cx.catalog.roles.remove(name),
    };
    let ruled = before.is_some_and(|role| rules(&role));
    match !ruled || cx.catalog.roles.values().any(|role| rules(role)) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            "the last superuser that may log in cannot be dropped or lose its attributes",
        )
        .hint("Make another superuser with LOGIN first.")),
    }
}

fn verifier(password: &Password) -> Result<Option<String>> {
    let Password::Password(text) = password else { return Ok(None) };
    match text {
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Ok(Some(scram_verifier(text))),
            ast::Value::Null => Ok(None),
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a password is a quoted text")),
        },
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a password is a quoted text")),
    }
}

fn set_options<'o>(
    cx: &DdlContext<'_>,
    role: &mut Role,
    options: impl IntoIterator<Item = &'o RoleOption>,
) -> Result<()> {
    for option in options {
        match option {
            RoleOption::Login(login) => role.login = *login,
            RoleOption::SuperUser(superuser) => {
                if *superuser {
                    require_superuser(cx, "create superusers")?;
                }
                role.superuser = *superuser;
            }
            RoleOption::CreateRole(may) => role.create_role = *may,
            RoleOption::CreateDB(may) => role.create_db = *may,
            RoleOption::Password(password) => role.verifier = verifier(password)?,
            RoleOption::Inherit(true)
            | RoleOption::BypassRLS(false)
            | RoleOption::Replication(false) => {}
            RoleOption::ConnectionLimit(limit) if limit.to_string() == "-1" => {}
            RoleOption::ValidUntil(until) if until.to_string() == "'infinity'" => {}
            other => {
                let error = SqlError::unsupported(format!("the role option {other}"));
                return Err(match other {
                    RoleOption::Inherit(false) => {
                        error.hint("A member of a role always has its privileges.")
                    }
                    RoleOption::ConnectionLimit(_) => {
                        error.hint("The server limits the connections of all roles together.")
                    }
                    _ => error,
                });
            }
        }
    }
    Ok(())
}

/// ALTER ROLE. A role may change its own password; all else needs CREATEROLE.
pub(super) fn alter(
    cx: &mut DdlContext<'_>,
    name: &str,
    operation: &AlterRoleOperation,
) -> Result<()> {
    require_role(cx.catalog, name)?;
    let own_password = matches!(operation, AlterRoleOperation::WithOptions { options }
        if name == cx.user() && options.iter().all(|o| matches!(o, RoleOption::Password(_))));
    if !own_password {
        require_role_creator(cx, "alter")?;
        require_right_over(cx, name, "alter")?;
    }
    match operation {
        AlterRoleOperation::WithOptions { options } => {
            let mut role = (*cx.catalog.roles[name]).clone();
            if options.iter().any(|option| matches!(option, RoleOption::SuperUser(_))) {
                require_superuser(cx, "alter superuser attribute")?;
            }
            set_options(cx, &mut role, options)?;
            replace(cx, name, Some(role))
        }
        AlterRoleOperation::RenameRole { role_name } => rename(cx, name, &fold(role_name)),
        other => Err(SqlError::unsupported(format!("ALTER ROLE … {other}"))),
    }
}

/// COMMENT ON ROLE. Errors: 42704, 42501.
pub(super) fn comment(cx: &mut DdlContext<'_>, name: &str, text: Option<String>) -> Result<()> {
    require_role(cx.catalog, name)?;
    require_role_creator(cx, "comment on")?;
    require_right_over(cx, name, "comment on")?;
    let role = cx.catalog.roles.get_mut(name).expect("it was just found");
    Arc::make_mut(role).comment = text;
    Ok(())
}

fn rename(cx: &mut DdlContext<'_>, from: &str, to: &str) -> Result<()> {
    fresh(cx, to)?;
    if from == cx.env.session.session_user {
        return Err(SqlError::unsupported("renaming the session's own role"));
    }
    let old = cx.catalog.roles.remove(from).expect("the caller has found it");
    let role = Role { name: to.to_owned(), ..(*old).clone() };
    cx.catalog.roles.insert(to.to_owned(), Arc::new(role));
    let change = |name: &mut String| {
        if name == from {
            *name = to.to_owned();
        }
    };
    for role in cx.catalog.roles.values_mut() {
        if role.member_of.iter().any(|group| group == from) {
            Arc::make_mut(role).member_of.iter_mut().for_each(change);
        }
    }
    for_all_rights(cx.catalog, |owner, grants| {
        change(owner);
        for grant in grants {
            change(&mut grant.grantee);
            change(&mut grant.grantor);
        }
    });
    Ok(())
}

/// Visits owner and grants of every schema and relation, the rights that objects to come will have, and the grants of
/// workload classes, which nobody owns.
pub(super) fn for_all_rights(
    catalog: &mut Catalog,
    mut visit: impl FnMut(&mut String, &mut Vec<Grant>),
) {
    for role in catalog.roles.values_mut().filter(|role| !role.defaults.is_empty()) {
        let mut name = role.name.clone();
        for known in &mut Arc::make_mut(role).defaults {
            visit(&mut name, &mut known.grants);
        }
    }
    for grants in catalog.workload_grants.values_mut() {
        visit(&mut String::new(), grants);
    }
    let schemas: Vec<String> = catalog.schemas.keys().cloned().collect();
    for schema in schemas {
        let own = catalog.schema_mut(&schema);
        visit(&mut own.owner, &mut own.grants);
        let relations: Vec<(String, Relation)> =
            own.relations.iter().map(|(name, relation)| (name.clone(), relation.clone())).collect();
        for (name, relation) in relations {
            change_rights(catalog, &schema, &name, relation, &mut visit);
        }
    }
}

pub(super) fn change_rights(
    catalog: &mut Catalog,
    schema: &str,
    name: &str,
    relation: Relation,
    mut change: impl FnMut(&mut String, &mut Vec<Grant>),
) {
    let changed = match relation {
        Relation::Table(mut table) => {
            let own = Arc::make_mut(&mut table);
            change(&mut own.owner, &mut own.grants);
            Relation::Table(table)
        }
        Relation::View(mut view) => {
            let own = Arc::make_mut(&mut view);
            change(&mut own.owner, &mut own.grants);
            Relation::View(view)
        }
        Relation::Sequence(mut sequence) => {
            let own = Arc::make_mut(&mut sequence);
            change(&mut own.owner, &mut own.grants);
            Relation::Sequence(sequence)
        }
        Relation::Type(mut own) => {
            change(&mut Arc::make_mut(&mut own).owner, &mut Vec::new());
            Relation::Type(own)
        }
        index @ Relation::Index { .. } => index,
    };
    catalog.put(schema, name, changed);
}

/// DROP ROLE.
pub(super) fn drop(cx: &mut DdlContext<'_>, if_exists: bool, names: &[ObjectName]) -> Result<()> {
    for name in names {
        let name = last(name)?;
        require_role_creator(cx, "drop")?;
        if let Err(missing) = require_role(cx.catalog, &name) {
            if !if_exists {
                return Err(missing);
            }
            cx.notice(missing.state(), format!("{}, skipping", missing.message()));
            continue;
        }
        if name == cx.user() || name == cx.env.session.session_user {
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
        }
        require_right_over(cx, &name, "drop")?;
        refuse_needed(cx, &name)?;
        replace(cx, &name, None)?;
        for role in cx.catalog.roles.values_mut() {
            if role.member_of.contains(&name) {
                Arc::make_mut(role).member_of.retain(|group| *group != name);
            }
        }
    }
    Ok(())
}

/// 2BP01 if the role owns something or was granted something.
fn refuse_needed(cx: &mut DdlContext<'_>, name: &str) -> Result<()> {
    let mut needed = false;
    for_all_rights(&mut cx.catalog.clone(), |owner, grants| {
        needed |= owner == name || grants.iter().any(|grant| grant.grantee == name);
    });
    match needed {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("role \"{name}\" cannot be dropped because some objects depend on it"),
        )
        .hint("Give its objects another owner, and revoke what it was granted.")),
    }
}

/// GRANT or REVOKE of membership.
pub(super) fn membership(
    cx: &mut DdlContext<'_>,
    roles: &[String],
    members: &[String],
    grant: bool,
) -> Result<()> {
    require_role_creator(cx, "grant")?;
    for role in roles {
        require_role(cx.catalog, role)?;
        require_right_over(cx, role, "alter")?;
        for member in members {
            if member == PUBLIC {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    "role \"public\" does not exist",
                ));
            }
            require_role(cx.catalog, member)?;
            if grant && cx.catalog.is_member(role, member) {
                return Err(SqlError::new(
                    SqlState::INVALID_GRANT_OPERATION,
                    format!("role \"{role}\" is a member of role \"{member}\""),
                ));
            }
            let own = cx.catalog.roles.get_mut(member).expect("it was just found");
            let own = Arc::make_mut(own);
            own.member_of.retain(|group| group != role);
            if grant {
                own.member_of.push(role.clone());
            }
        }
    }
    Ok(())
}

/// GRANT.
pub(super) fn grant(cx: &mut DdlContext<'_>, grant: &ast::Grant) -> Result<&'static str> {
    let Some(objects) = &grant.objects else {
        membership(cx, &granted_roles(&grant.privileges)?, &grantees(cx, &grant.grantees)?, true)?;
        return Ok("GRANT ROLE");
    };
    let to = grantees(cx, &grant.grantees)?;
    change(cx, objects, &grant.privileges, |grants, privileges, grantor| {
        for grantee in &to {
            for privilege in privileges {
                grants.retain(|own| own.grantee != *grantee || own.privilege != *privilege);
                grants.push(Grant {
                    grantee: grantee.clone(),
                    grantor: grantor.to_owned(),
                    privilege: *privilege,
                    grantable: grant.with_grant_option,
                });
            }
        }
    })?;
    Ok("GRANT")
}

/// REVOKE.
pub(super) fn revoke(cx: &mut DdlContext<'_>, revoke: &ast::Revoke) -> Result<&'static str> {
    let Some(objects) = &revoke.objects else {
        let roles = granted_roles(&revoke.privileges)?;
        membership(cx, &roles, &grantees(cx, &revoke.grantees)?, false)?;
        return Ok("REVOKE ROLE");
    };
    let from = grantees(cx, &revoke.grantees)?;
    change(cx, objects, &revoke.privileges, |grants, privileges, _| {
        grants.retain(|own| !from.contains(&own.grantee) || !privileges.contains(&own.privilege));
    })?;
    Ok("REVOKE")
}

fn granted_roles(privileges: &Privileges) -> Result<Vec<String>> {
    let Privileges::Actions(actions) = privileges else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a role is missing"));
    };
    let role = |action: &ast::Action| match action {
        ast::Action::Role { role } => last(role),
        other => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("role \"{}\" does not exist", other.to_string().to_lowercase()),
        )),
    };
    actions.iter().map(role).collect()
}

pub(super) fn grantees(cx: &DdlContext<'_>, grantees: &[ast::Grantee]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for grantee in grantees {
        let name = match (&grantee.grantee_type, &grantee.name) {
            (GranteesType::Public, _) => PUBLIC.to_owned(),
            (_, Some(GranteeName::ObjectName(name))) => last(name)?,
            _ => return Err(SqlError::unsupported(format!("the grantee {grantee}"))),
        };
        let name = match name.as_str() {
            "current_user" | "current_role" => cx.user().to_owned(),
            "session_user" => cx.env.session.session_user.clone(),
            _ => name,
        };
        if name != PUBLIC {
            require_role(cx.catalog, &name)?;
        }
        found.push(name);
    }
    Ok(found)
}

/// What kind of object privileges are given on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum GrantableKind {
    Table,
    Sequence,
    Schema,
}

pub(super) fn privileges(privileges: &Privileges, kind: GrantableKind) -> Result<Vec<Privilege>> {
    use Privilege::*;
    let all: &[Privilege] = match kind {
        GrantableKind::Table => &[Select, Insert, Update, Delete, Truncate, References],
        GrantableKind::Sequence => &[Usage, Select, Update],
        GrantableKind::Schema => &[Usage, Create],
    };
    let Privileges::Actions(actions) = privileges else { return Ok(all.to_vec()) };
    let mut found = Vec::new();
    for action in actions {
        let privilege = match action {
            ast::Action::Select { columns: None } => Select,
            ast::Action::Insert { columns: None } => Insert,
            ast::Action::Update { columns: None } => Update,
            ast::Action::References { columns: None } => References,
            ast::Action::Delete => Delete,
            ast::Action::Truncate => Truncate,
            ast::Action::Usage => Usage,
            ast::Action::Create { .. } => Create,
            ast::Action::Trigger | ast::Action::Temporary | ast::Action::Connect => continue,
            ast::Action::Execute { .. } => {
                let message = "invalid privilege type EXECUTE for this object";
                return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
            }
            other => return Err(SqlError::unsupported(format!("the privilege {other}"))),
        };
        if !all.contains(&privilege) {
            return Err(SqlError::new(
                SqlState::INVALID_GRANT_OPERATION,
                format!("invalid privilege type {} for this object", privilege.name()),
            ));
        }
        found.push(privilege);
    }
    Ok(found)
}

/// Changes the grants of the objects named.
fn change(
    cx: &mut DdlContext<'_>,
    objects: &GrantObjects,
    wanted: &Privileges,
    mut apply: impl FnMut(&mut Vec<Grant>, &[Privilege], &str),
) -> Result<()> {
    let user = cx.user().to_owned();
    let (kind, relations): (GrantableKind, Vec<(String, String)>) = match objects {
        GrantObjects::Schemas(names) => {
            let privileges = privileges(wanted, GrantableKind::Schema)?;
            for name in names {
                let name = last(name)?;
                let schema = cx.catalog.schema(&name)?;
                let (owner, grants) = (schema.owner.clone(), schema.grants.clone());
                require_grantor(cx, &owner, &grants, &privileges, "schema", &name)?;
                apply(&mut cx.catalog.schema_mut(&name).grants, &privileges, &user);
            }
            return Ok(());
        }
        GrantObjects::Databases(_) => return Ok(()),
        GrantObjects::Tables(names) | GrantObjects::Views(names) => {
            (GrantableKind::Table, resolve(cx, names)?)
        }
        GrantObjects::Sequences(names) => (GrantableKind::Sequence, resolve(cx, names)?),
        GrantObjects::AllTablesInSchema { schemas }
        | GrantObjects::AllViewsInSchema { schemas } => {
            let table =
                |relation: &Relation| matches!(relation, Relation::Table(_) | Relation::View(_));
            (GrantableKind::Table, all_in(cx, schemas, table)?)
        }
        GrantObjects::AllSequencesInSchema { schemas } => {
            let sequence = |relation: &Relation| matches!(relation, Relation::Sequence(_));
            (GrantableKind::Sequence, all_in(cx, schemas, sequence)?)
        }
        // There are none: whatever is said of all of them holds.
        GrantObjects::AllFunctionsInSchema { schemas } => {
            let is_other = |action: &&ast::Action| !matches!(action, ast::Action::Execute { .. });
            if let Privileges::Actions(actions) = wanted
                && let Some(other) = actions.iter().find(is_other)
            {
                let message = format!("invalid privilege type {other} for function");
                return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
            }
            for name in schemas {
                cx.catalog.schema(&last(name)?)?;
            }
            return Ok(());
        }
        other => return Err(SqlError::unsupported(format!("privileges on {other}"))),
    };
    for (schema, name) in relations {
        let relation = cx.catalog.schemas[&schema].relations[&name].clone();
        let kind = match relation {
            Relation::Sequence(_) => GrantableKind::Sequence,
            _ => kind,
        };
        let privileges = privileges(wanted, kind)?;
        let (owner, grants) = match &relation {
            Relation::Table(table) => (&table.owner, &table.grants),
            Relation::View(view) => (&view.owner, &view.grants),
            Relation::Sequence(sequence) => (&sequence.owner, &sequence.grants),
            Relation::Type(_) | Relation::Index { .. } => {
                return Err(halcyon_catalog::wrong_kind(&name, "table"));
            }
        };
        require_grantor(cx, owner, grants, &privileges, relation.kind(), &name)?;
        change_rights(cx.catalog, &schema, &name, relation, |_, grants| {
            apply(grants, &privileges, &user);
        });
    }
    Ok(())
}

/// 42501 unless the user owns the object or holds every privilege with GRANT OPTION.
fn require_grantor(
    cx: &DdlContext<'_>,
    owner: &str,
    grants: &[Grant],
    privileges: &[Privilege],
    kind: &str,
    name: &str,
) -> Result<()> {
    let may_pass_on = |privilege: &Privilege| {
        grants.iter().any(|grant| {
            grant.grantable
                && grant.privilege == *privilege
                && cx.catalog.acts_for(cx.user(), &grant.grantee)
        })
    };
    match cx.catalog.acts_for(cx.user(), owner) || privileges.iter().all(may_pass_on) {
        true => Ok(()),
        false => Err(halcyon_catalog::denied(kind, name)),
    }
}

fn resolve(cx: &DdlContext<'_>, names: &[ObjectName]) -> Result<Vec<(String, String)>> {
    let find = |name: &ObjectName| {
        let name = parts(name)?;
        let found = cx.catalog.require(&name, cx.search_path())?;
        Ok((found.schema.name.clone(), found.name.to_owned()))
    };
    names.iter().map(find).collect()
}

fn all_in(
    cx: &DdlContext<'_>,
    schemas: &[ObjectName],
    wanted: impl Fn(&Relation) -> bool,
) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for name in schemas {
        let schema = cx.catalog.schema(&last(name)?)?;
        for (name, relation) in &schema.relations {
            if wanted(relation) {
                found.push((schema.name.clone(), name.clone()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector: RFC 7677 §3 (user "user", password "pencil").
    #[test]
    fn verifier_agrees_with_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = verifier_with("pencil", &salt);
        let (head, keys) = verifier.rsplit_once('$').expect("three parts");
        assert_eq!(head, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==");
        let (stored, server) = keys.split_once(':').expect("two keys");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let auth = format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
             c=biws,r={nonce}"
        );
        let server = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(server).expect("base64"));
        let signature = hmac::sign(&server, auth.as_bytes());
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        // The client's proof, undone by its signature, hashes to the stored key.
        let stored = STANDARD.decode(stored).expect("base64");
        let proof =
            STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").expect("base64");
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &stored), auth.as_bytes());
        let client: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        assert_eq!(digest::digest(&digest::SHA256, &client).as_ref(), stored);
    }

    #[test]
    fn no_two_verifiers_of_a_password_are_alike_and_none_holds_it() {
        let (a, b) = (scram_verifier("secret"), scram_verifier("secret"));
        assert_ne!(a, b);
        assert!(!a.contains("secret"));
        assert_eq!(scram_verifier(&a), a);
    }
}
