//! Workload classes and mappings: their definitions, the brake, and who may use which class.
//!
//! What definitions may say is [`halcyon_workload`]'s business; here names are folded, rights are asked for, and
//! problems become errors of SQL. Who defines classes decides over everybody's work, so only superusers do.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Ident;

use super::{DdlContext, role};
use halcyon_catalog::{Grant, PUBLIC, Privilege};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::syntax::{RuleAction, WorkloadChange, WorkloadKind, WorkloadStatement};
use halcyon_workload::{
    Brake, ClassChange, Definitions, MappingChange, Problem, ProblemKind, RuleDefinition,
};

/// Carries a statement out. Errors: 42501 unless a superuser asks; those of the statement.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &WorkloadStatement) -> Result<()> {
    role::require_superuser(cx, "manage workload").map_err(|refused| {
        refused.hint("A superuser defines workload classes, and lets roles use them by GRANT USAGE ON WORKLOAD CLASS.")
    })?;
    match statement {
        WorkloadStatement::Create { kind, if_not_exists, name, class, settings, wildcard } => {
            let (name, class) = (fold(name), class.as_ref().map(fold));
            let definitions = Arc::make_mut(&mut cx.catalog.workload);
            let created = match (kind, &class) {
                (WorkloadKind::Class, parent) => {
                    definitions.create_class(&name, parent.as_deref(), settings)
                }
                (WorkloadKind::Mapping, class) => {
                    let class = class.as_deref().expect("the grammar demands a class");
                    definitions.create_mapping(&name, class, settings, *wildcard)
                }
            };
            unless(cx, created, ProblemKind::Exists, *if_not_exists).map(|_| ())
        }
        WorkloadStatement::Alter { kind, name, change } => {
            let definitions = Arc::make_mut(&mut cx.catalog.workload);
            alter(definitions, *kind, name.as_ref(), change).map_err(error_of)
        }
        WorkloadStatement::Drop { kind, if_exists, names } => {
            names.iter().try_for_each(|name| drop(cx, *kind, &fold(name), *if_exists))
        }
        WorkloadStatement::Usage { grant, classes, roles } => usage(cx, *grant, classes, roles),
        WorkloadStatement::Brake(word) => {
            Arc::make_mut(&mut cx.catalog.workload).brake = match *word {
                "OFF" => Brake::Off,
                "LIGHT" => Brake::Light,
                _ => Brake::Full,
            };
            Ok(())
        }
    }
}

fn alter(
    definitions: &mut Definitions,
    kind: WorkloadKind,
    name: Option<&Ident>,
    change: &WorkloadChange,
) -> Result<(), Problem> {
    let Some(name) = name.map(fold) else {
        let enabled = matches!(change, WorkloadChange::Enable(true));
        definitions.enable_all_classes(enabled);
        return Ok(());
    };
    match kind {
        WorkloadKind::Class => alter_class(definitions, &name, change),
        WorkloadKind::Mapping => alter_mapping(definitions, &name, change),
    }
}

fn alter_class(
    definitions: &mut Definitions,
    name: &str,
    change: &WorkloadChange,
) -> Result<(), Problem> {
    let mut alter = |change| definitions.alter_class(name, change);
    match change {
        WorkloadChange::Set(settings) => alter(ClassChange::Set(settings)),
        WorkloadChange::Unset(keys) => alter(ClassChange::Unset(keys)),
        WorkloadChange::Enable(enable) => alter(ClassChange::Enable(*enable)),
        WorkloadChange::Class(parent) => {
            alter(ClassChange::Parent(parent.as_ref().map(fold).as_deref()))
        }
        WorkloadChange::AddRule { name: rule, measure, value, action, dry_run } => {
            let (condition, action) = (format!("{measure} {value}"), action_text(action));
            let rule = RuleDefinition { name: fold(rule), condition, action, dry_run: *dry_run };
            alter(ClassChange::AddRule(rule))
        }
        WorkloadChange::DropRule(rule) => alter(ClassChange::DropRule(&fold(rule))),
    }
}

fn alter_mapping(
    definitions: &mut Definitions,
    name: &str,
    change: &WorkloadChange,
) -> Result<(), Problem> {
    let mut alter = |change| definitions.alter_mapping(name, change);
    match change {
        WorkloadChange::Set(settings) => alter(MappingChange::Set(settings)),
        WorkloadChange::Unset(keys) => alter(MappingChange::Unset(keys)),
        WorkloadChange::Enable(enable) => alter(MappingChange::Enable(*enable)),
        WorkloadChange::Class(Some(class)) => alter(MappingChange::Class(&fold(class))),
        WorkloadChange::Class(None)
        | WorkloadChange::AddRule { .. }
        | WorkloadChange::DropRule(_) => unreachable!("the grammar knows no such mapping"),
    }
}

/// An action as definitions have it: the name of a class in quotes.
fn action_text(action: &RuleAction) -> String {
    match action {
        RuleAction::Switch(class) => {
            format!("SWITCH TO \"{}\"", fold(class).replace('"', "\"\""))
        }
        other => other.to_string(),
    }
}

fn drop(cx: &mut DdlContext<'_>, kind: WorkloadKind, name: &str, if_exists: bool) -> Result<()> {
    let definitions = Arc::make_mut(&mut cx.catalog.workload);
    let dropped = match kind {
        WorkloadKind::Class => definitions.drop_class(name),
        WorkloadKind::Mapping => definitions.drop_mapping(name),
    };
    let is_dropped = unless(cx, dropped, ProblemKind::Missing, if_exists)?;
    if is_dropped && kind == WorkloadKind::Class {
        cx.catalog.workload_grants.remove(name);
    }
    Ok(())
}

/// Whether a change was made. A problem of the kind `passed` is a notice if `passes`, else an error.
fn unless(
    cx: &mut DdlContext<'_>,
    changed: Result<(), Problem>,
    passed: ProblemKind,
    passes: bool,
) -> Result<bool> {
    match changed {
        Ok(()) => Ok(true),
        Err(problem) if passes && problem.kind == passed => {
            let message = format!("{}, skipping", problem.message);
            cx.notice(error_of(problem).state(), message);
            Ok(false)
        }
        Err(problem) => Err(error_of(problem)),
    }
}

/// GRANT or REVOKE of USAGE. Errors: 42704 for a class or a role that is not there.
fn usage(cx: &mut DdlContext<'_>, grant: bool, classes: &[Ident], roles: &[Ident]) -> Result<()> {
    let roles: Vec<String> = roles.iter().map(fold).collect();
    for name in roles.iter().filter(|name| *name != PUBLIC) {
        role::require_role(cx.catalog, name)?;
    }
    let grantor = cx.user().to_owned();
    for class in classes.iter().map(fold) {
        if !cx.catalog.workload.has_class(&class) {
            let message = format!("workload class \"{class}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let mut grants = cx.catalog.workload_grants.remove(&class).unwrap_or_default();
        grants.retain(|own| !roles.contains(&own.grantee));
        let (privilege, grantable) = (Privilege::Usage, false);
        grants.extend(roles.iter().filter(|_| grant).map(|grantee| Grant {
            grantee: grantee.clone(),
            grantor: grantor.clone(),
            privilege,
            grantable,
        }));
        if !grants.is_empty() {
            cx.catalog.workload_grants.insert(class, grants);
        }
    }
    Ok(())
}

/// A problem as SQL tells it.
fn error_of(problem: Problem) -> SqlError {
    let state = match problem.kind {
        ProblemKind::UnknownKey | ProblemKind::BadValue => SqlState::INVALID_PARAMETER_VALUE,
        ProblemKind::Exists => SqlState::DUPLICATE_OBJECT,
        ProblemKind::Missing | ProblemKind::UnknownClass => SqlState::UNDEFINED_OBJECT,
        ProblemKind::InUse => SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        ProblemKind::Syntax => SqlState::SYNTAX_ERROR,
        ProblemKind::TooDeep | ProblemKind::Limit => SqlState::PROGRAM_LIMIT_EXCEEDED,
        _ => SqlState::INVALID_OBJECT_DEFINITION,
    };
    let mut error = SqlError::new(state, problem.message);
    if let Some(detail) = problem.detail {
        error = error.detail(detail);
    }
    match problem.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
