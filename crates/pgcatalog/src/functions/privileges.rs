//! `has_…_privilege`: who may do what, from the grants of the catalog.

use super::*;
use crate::SCHEMAS;
use crate::objects::{self, Object};
use halcyon_catalog::Privilege;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    define("has_table_privilege", (2, 3), Gives::Bool, BOUND, on_relation),
    define("has_sequence_privilege", (2, 3), Gives::Bool, BOUND, on_relation),
    define("has_any_column_privilege", (2, 3), Gives::Bool, BOUND, on_relation),
    define("has_column_privilege", (3, 4), Gives::Bool, BOUND, |c, args| {
        // Grants are per relation: the column decides nothing.
        let at = args.len() - 2;
        let kept: Vec<_> = (args.iter().enumerate()).filter(|(i, _)| *i != at).collect();
        let kept: Vec<Arg<'_>> = kept.into_iter().map(|(_, arg)| Arg(arg.0, arg.1)).collect();
        on_relation(c, &kept)
    }),
    define("has_schema_privilege", (2, 3), Gives::Bool, BOUND, on_schema),
    define("has_database_privilege", (2, 3), Gives::Bool, BOUND, on_database),
    define("has_function_privilege", (2, 3), Gives::Bool, BOUND, everybody),
    define("has_type_privilege", (2, 3), Gives::Bool, BOUND, everybody),
    define("has_language_privilege", (2, 3), Gives::Bool, BOUND, everybody),
    define("has_tablespace_privilege", (2, 3), Gives::Bool, BOUND, everybody),
    define("pg_has_role", (2, 3), Gives::Bool, BOUND, has_role),
];

/// The role asked about, the object and the privileges: the role may be left out.
fn split<'a, 'b>(
    context: &'a Context,
    args: &'b [Arg<'a>],
) -> Result<Option<(String, &'b Arg<'a>, &'a str)>> {
    let (role, rest) = match args {
        [object, privileges] => (Some(context.session.user.clone()), [object, privileges]),
        [role, object, privileges] => (role_name(context, role)?, [object, privileges]),
        _ => (None, [&args[0], &args[0]]),
    };
    let privileges = rest[1].0.try_as_str().flatten();
    Ok(role.zip(privileges).map(|(role, privileges)| (role, rest[0], privileges)))
}

fn role_name(context: &Context, arg: &Arg<'_>) -> Result<Option<String>> {
    let Some(name) = arg.text() else {
        let oid = arg.oid();
        let role = context.catalog.roles.values().find(|role| Some(role.oid) == oid);
        return Ok(role.map(|role| role.name.clone()));
    };
    if context.catalog.roles.contains_key(name) || name == "public" {
        return Ok(Some(name.to_owned()));
    }
    Err(error(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
}

/// `SELECT, UPDATE WITH GRANT OPTION`: any of them suffices.
fn parse(text: &str) -> Result<Vec<(Option<Privilege>, bool)>> {
    let one = |word: &str| {
        let word = word.trim().to_ascii_uppercase();
        let (word, with_grant) = match word.strip_suffix(" WITH GRANT OPTION") {
            Some(word) => (word.trim().to_owned(), true),
            None => (word, false),
        };
        let privilege = match word.as_str() {
            "SELECT" => Some(Privilege::Select),
            "INSERT" => Some(Privilege::Insert),
            "UPDATE" => Some(Privilege::Update),
            "DELETE" => Some(Privilege::Delete),
            "TRUNCATE" => Some(Privilege::Truncate),
            "REFERENCES" => Some(Privilege::References),
            "USAGE" => Some(Privilege::Usage),
            "CREATE" => Some(Privilege::Create),
            // Halcyon has no triggers; nobody but the owner may what nobody can grant.
            "TRIGGER" | "RULE" | "CONNECT" | "TEMP" | "TEMPORARY" | "EXECUTE" | "MEMBER"
            | "SET" | "MAINTAIN" => None,
            other => {
                let message = format!("unrecognized privilege type: \"{other}\"");
                return Err(error(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        Ok((privilege, with_grant))
    };
    text.split(',').map(one).collect()
}

fn on_relation(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((role, object, privileges)) = split(context, args)? else {
        return Ok(ScalarValue::Null);
    };
    let privileges = parse(privileges)?;
    let Some(oid) = super::definitions::relation_oid(context, object)? else {
        return Ok(ScalarValue::Null);
    };
    let Some(object) = context.objects().get(oid) else { return Ok(ScalarValue::Null) };
    let may = |(privilege, with_grant): &(Option<Privilege>, bool)| match privilege {
        Some(privilege) => context.may(&role, object, *privilege, *with_grant),
        None => owns(context, &role, object),
    };
    Ok(truth(privileges.iter().any(may)))
}

fn owns(context: &Context, role: &str, object: &Object) -> bool {
    context.catalog.acts_for(role, &context.owner_name(object))
}

fn on_schema(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((role, schema, privileges)) = split(context, args)? else {
        return Ok(ScalarValue::Null);
    };
    let schemas = &context.catalog.schemas;
    let schema = match (schema.text(), schema.oid()) {
        (Some(name), _) if schemas.contains_key(name) => schemas.get(name),
        (Some(name), None) => {
            let message = format!("schema \"{name}\" does not exist");
            return Err(error(SqlState::INVALID_SCHEMA_NAME, message));
        }
        (_, oid) => schemas.values().find(|s| Some(objects::schema_oid(s)) == oid),
    };
    let Some(schema) = schema else { return Ok(ScalarValue::Null) };
    let may = |(privilege, with_grant): &(Option<Privilege>, bool)| match privilege {
        // The system's schemas are open to everybody's eyes.
        Some(Privilege::Usage) if SCHEMAS.contains(&schema.name.as_str()) => !with_grant,
        Some(privilege) => {
            context.permits(&role, &schema.owner, &schema.grants, *privilege, *with_grant)
        }
        None => false,
    };
    Ok(truth(parse(privileges)?.iter().any(may)))
}

/// Every role that is logged in may connect; only superusers may create schemas.
fn on_database(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((role, _, privileges)) = split(context, args)? else { return Ok(ScalarValue::Null) };
    parse(privileges)?;
    let superuser = context.catalog.is_superuser(&role);
    let only_create = privileges.split(',').all(|p| p.trim().eq_ignore_ascii_case("create"));
    Ok(truth(superuser || !only_create))
}

fn everybody(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((_, _, privileges)) = split(context, args)? else { return Ok(ScalarValue::Null) };
    parse(privileges)?;
    Ok(truth(true))
}

fn has_role(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((role, group, _)) = split(context, args)? else { return Ok(ScalarValue::Null) };
    let Some(group) = role_name(context, group)? else { return Ok(ScalarValue::Null) };
    Ok(truth(context.catalog.acts_for(&role, &group)))
}
