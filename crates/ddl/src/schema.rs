//! CREATE SCHEMA, also with definitions of what is in the schema, and ALTER SCHEMA.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, ObjectName};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use halcyon_plan::env::Env;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, last, parts};
use halcyon_sql::parse::parse;
use halcyon_sql::syntax::{DdlStatement, Statement, position_of};

use super::{Ddl, DdlContext, names, role};

/// CREATE SCHEMA. Returns the schema's name and its owner, if there was none of this name.
///
/// Errors: 42501, also for an owner that the user is no member of; 42704, 42939, 42P06.
pub(super) fn create(
    cx: &mut DdlContext<'_>,
    name: &ast::SchemaName,
    if_not_exists: bool,
) -> Result<Option<(String, String)>> {
    let (name, owner) = match name {
        ast::SchemaName::Simple(name) => (last(name)?, None),
        ast::SchemaName::UnnamedAuthorization(owner) => (fold(owner), Some(fold(owner))),
        ast::SchemaName::NamedAuthorization(name, owner) => (last(name)?, Some(fold(owner))),
    };
    role::require_plain_creator(cx, "schema")?;
    if let Some(owner) = &owner {
        role::check_new_owner(cx, owner)?;
    }
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if cx.catalog.schemas.contains_key(&name) {
        let message = format!("schema \"{name}\" already exists");
        return match if_not_exists {
            true => {
                cx.notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
                Ok(None)
            }
            false => Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message)),
        };
    }
    let owner = owner.unwrap_or_else(|| cx.user().to_owned());
    let schema = halcyon_catalog::Schema {
        oid: cx.catalog.ids.oid(),
        name: name.clone(),
        owner: owner.clone(),
        relations: Default::default(),
        collations: Default::default(),
        grants: Vec::new(),
        comment: None,
    };
    cx.catalog.schemas.insert(name.clone(), Arc::new(schema));
    Ok(Some((name, owner)))
}

/// CREATE SCHEMA with definitions, which the schema's owner makes in it: sequences first, then tables, views, indexes and
/// rights, whatever their order in the text. Source: PostgreSQL 15, "CREATE SCHEMA".
///
/// Errors: those of the definitions; 42P15 for one that names another schema, 0A000 beside IF NOT EXISTS.
pub(super) fn create_with(
    cx: &mut DdlContext<'_>,
    create: &ast::Statement,
    elements: &str,
) -> Result<()> {
    let ast::Statement::CreateSchema { schema_name, if_not_exists, .. } = create else {
        unreachable!("the parser read CREATE SCHEMA")
    };
    if *if_not_exists {
        let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let texts = divided(elements);
    let mut found = Vec::new();
    for text in &texts {
        for parsed in parse(text).map_err(SqlError::without_position)? {
            let place = place_among(&parsed.statement).ok_or_else(|| {
                SqlError::unsupported("a statement of this kind in CREATE SCHEMA")
            })?;
            found.push((place, parsed.statement));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    let (schema, owner) = self::create(cx, schema_name, false)?.expect("it was not there before");
    let mut session = cx.env.session.clone();
    session.user = owner;
    session.search_path.insert(0, schema.clone());
    for (_, statement) in found {
        if let Some(other) = named_schema(&statement)?.filter(|other| *other != schema) {
            let message = format!(
                "CREATE specifies a schema ({other}) different from the one being created ({schema})"
            );
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_DEFINITION, message));
        }
        let element = match statement {
            Statement::Sql(own) => Ddl::Sql(own),
            Statement::Ddl(own) => Ddl::Own(own),
            _ => unreachable!("what has a place is a definition"),
        };
        let now = Arc::new(cx.catalog.clone());
        let env = Env {
            catalog: &now,
            params: cx.env.params,
            session: &session,
            clock: cx.env.clock.clone(),
            cancel: cx.env.cancel,
            workers: cx.env.workers,
        };
        let within = &mut DdlContext {
            env: &env,
            tx: &mut *cx.tx,
            catalog: &mut *cx.catalog,
            limits: cx.limits,
            datafusion: cx.datafusion,
            notices: &mut *cx.notices,
            pending: cx.pending,
        };
        element.carry_out(within)?;
    }
    Ok(())
}

/// The definitions within the text: each begins with CREATE or GRANT outside of brackets, unless the word is a right, or
/// stands in WITH GRANT OPTION.
fn divided(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let read =
        Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
    let known = if read.is_ok() { tokens } else { Vec::new() };
    let known = known.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let (mut starts, mut depth, mut before) = (vec![0], 0_usize, None);
    for token in known {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                let begins = match word.keyword {
                    Keyword::CREATE => {
                        !is_one_of(before, &[Keyword::GRANT]) && before != Some(&Token::Comma)
                    }
                    Keyword::GRANT => !is_one_of(before, &[Keyword::WITH]),
                    _ => false,
                };
                if begins {
                    let place = position_of(text, token.span.start).unwrap_or(1) as usize;
                    starts.extend(text.char_indices().nth(place - 1).map(|(at, _)| at));
                }
            }
            _ => {}
        }
        before = Some(&token.token);
    }
    starts.push(text.len());
    let parts = starts.windows(2).map(|pair| text[pair[0]..pair[1]].trim());
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_one_of(token: Option<&Token>, words: &[Keyword]) -> bool {
    matches!(token, Some(Token::Word(word)) if words.contains(&word.keyword))
}

/// The place of a definition among those of a schema; `None` for what is no such definition.
fn place_among(statement: &Statement) -> Option<u8> {
    match statement {
        Statement::Ddl(own) => matches!(**own, DdlStatement::CreateSequence { .. }).then_some(0),
        Statement::Sql(own) => match &**own {
            ast::Statement::CreateSequence { .. } => Some(0),
            ast::Statement::CreateTable(create) => create.query.is_none().then_some(1),
            ast::Statement::CreateView(view) => (!view.materialized).then_some(2),
            ast::Statement::CreateIndex(_) => Some(3),
            ast::Statement::Grant(_) => Some(4),
            _ => None,
        },
        _ => None,
    }
}

/// The schema that a definition names for what it makes, or for the table of an index.
fn named_schema(statement: &Statement) -> Result<Option<String>> {
    let name: &ObjectName = match statement {
        Statement::Ddl(own) => match &**own {
            DdlStatement::CreateSequence { name, .. } => name,
            _ => return Ok(None),
        },
        Statement::Sql(own) => match &**own {
            ast::Statement::CreateSequence { name, .. } => name,
            ast::Statement::CreateTable(create) => &create.name,
            ast::Statement::CreateView(view) => &view.name,
            ast::Statement::CreateIndex(index) => &index.table_name,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let name = parts(name)?;
    Ok(name.len().checked_sub(2).map(|at| name[at].clone()))
}

/// ALTER SCHEMA.
pub(super) fn alter(cx: &mut DdlContext<'_>, alter: &ast::AlterSchema) -> Result<()> {
    let name = last(&alter.name)?;
    let Some(schema) = cx.catalog.schemas.get(&name).cloned() else {
        return match alter.if_exists {
            true => Ok(()),
            false => Err(halcyon_catalog::undefined_schema(&name)),
        };
    };
    cx.catalog.require_owner(cx.user(), &schema.owner, "schema", &name)?;
    for operation in &alter.operations {
        match operation {
            ast::AlterSchemaOperation::OwnerTo { owner } => {
                let owner = role::owner_name(cx, owner)?;
                cx.catalog.schema_mut(&name).owner = owner;
            }
            ast::AlterSchemaOperation::Rename { name: new } => {
                names::rename_schema(cx, &name, &last(new)?)?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER SCHEMA … {other}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::divided;

    #[test]
    fn definitions_begin_with_create_and_grant_outside_of_brackets() {
        let text = "CREATE TABLE t (\"create\" int, b text DEFAULT 'create') GRANT CREATE, USAGE ON SCHEMA s TO p \
                    WITH GRANT OPTION CREATE VIEW v AS SELECT 1";
        let found = divided(text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].starts_with("GRANT CREATE") && found[1].ends_with("OPTION"));
        assert_eq!(divided(""), [""; 0]);
        assert_eq!(divided("é 'create' x"), ["é 'create' x"]);
        assert_eq!(
            divided("'é' create 'x"),
            ["'é' create 'x"],
            "what is no text of tokens stays whole"
        );
    }
}
