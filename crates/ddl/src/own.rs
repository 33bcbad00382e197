//! Carries out the definitions that the SQL parser has no tree for ([`DdlStatement`]).

use super::sequence::Wish;
use super::{
    DdlContext, Done, alter, alter_identity, alter_view, collation, comment, materialized, owned,
    role, schema, sequence, user_type, workload,
};
use halcyon_sql::error::{Result, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::syntax::DdlStatement;

/// Carries a definition out. Errors: those of the statement, as of [`super::Ddl::run`].
pub(super) fn run(statement: &DdlStatement, cx: &mut DdlContext<'_>) -> Result<Done> {
    match statement {
        DdlStatement::CreateStream(create) => return materialized::create_stream(cx, create),
        DdlStatement::CreateMaterializedView(create) => return materialized::create(cx, create),
        DdlStatement::CreateAssertion { name, query } => {
            return materialized::create_assertion(cx, &parts(name)?, query);
        }
        DdlStatement::DropAssertion { name, if_exists } => {
            return materialized::drop_assertion(cx, &parts(name)?, *if_exists);
        }
        DdlStatement::CreateRole(create) => role::create(cx, create)?,
        DdlStatement::AlterRole { name, operation } => role::alter(cx, &fold(name), operation)?,
        DdlStatement::Membership { roles, members, grant } => {
            let names = |idents: &[_]| idents.iter().map(fold).collect::<Vec<_>>();
            role::membership(cx, &names(roles), &names(members), *grant)?;
        }
        DdlStatement::CreateSchema { create, elements } => {
            schema::create_with(cx, create, elements)?;
        }
        DdlStatement::CreateSequence { name, if_not_exists, options } => {
            let owned_by = options.owned_by.as_ref();
            let name = cx.place_for(&parts(name)?, false)?;
            sequence::create(cx, name, *if_not_exists, &Wish::of(options)?, owned_by)?;
        }
        DdlStatement::AlterIdentities(statement) => alter_identity::run(cx, statement)?,
        DdlStatement::AlterSequence { name, if_exists, options } => {
            let name = parts(name)?;
            if !is_missing(cx, &name, *if_exists) {
                let owned_by = options.owned_by.as_ref().map(parts).transpose()?;
                sequence::alter(cx, &name, &Wish::of(options)?, owned_by.as_deref())?;
            }
        }
        DdlStatement::Comment(statement) => comment::comment_on(cx, statement)?,
        DdlStatement::Type(statement) => user_type::run(cx, statement)?,
        DdlStatement::Collation(statement) => collation::run(cx, statement)?,
        DdlStatement::Owned(statement) => owned::run(cx, statement)?,
        DdlStatement::Workload(statement) => workload::run(cx, statement)?,
        DdlStatement::AlterView { name, if_exists, change } => {
            let name = parts(name)?;
            match is_missing(cx, &name, *if_exists) {
                false => alter_view::alter(cx, &name, change)?,
                true => cx.notice(
                    SqlState::UNDEFINED_TABLE,
                    format!("relation \"{}\" does not exist, skipping", name.join(".")),
                ),
            }
        }
        DdlStatement::Move { kind, name, if_exists, to } => {
            let name = parts(name)?;
            if !is_missing(cx, &name, *if_exists) {
                alter::relocate(cx, *kind, &name, to)?;
            }
        }
    }
    Ok((statement.tag(), None))
}

/// Whether the relation is not there, and need not be.
fn is_missing(cx: &DdlContext<'_>, name: &[String], if_exists: bool) -> bool {
    if_exists && cx.catalog.resolve(name, cx.search_path()).is_none()
}
