//! Temporary tables, views and sequences: where they go, what may refer to them, and which statements
//! concern nothing else.

use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateView, ObjectType, OnCommit as Clause, Query, Statement,
};

use super::{Ddl, DdlContext, NAME_BYTES_MAX, parts};
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::temporary::{ALIAS, OnCommit, is_temporary, schema_of};
use halcyon_catalog::{Catalog, Relation, Schema, Table};
use halcyon_plan::stored_names::relations_of;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Whether a new object of this name is temporary: because the statement says TEMP (`asked`), names the
/// temporary schema, or the search path begins with it.
fn goes_there(session: &SessionVars, name: &[String], asked: bool) -> bool {
    let own = schema_of(session.session_id);
    asked
        || match name {
            [.., schema, _] => *schema == ALIAS || *schema == own,
            _ => session.names_temporary && session.search_path.first() == Some(&own),
        }
}

impl DdlContext<'_> {
    /// Where a new object goes, if the user may create there; its schema is made if that is the session's
    /// temporary one. `asked`: the statement says TEMP. Errors: 3F000, 42501, 42P16, 42622.
    pub(super) fn place_for(&mut self, name: &[String], asked: bool) -> Result<(String, String)> {
        let session = self.env.session;
        if !goes_there(session, name, asked) {
            return self.place(name);
        }
        let own = schema_of(session.session_id);
        if let [.., schema, _] = name
            && *schema != ALIAS
            && *schema != own
        {
            return Err(refused("cannot create temporary relation in non-temporary schema"));
        }
        let name = name.last().expect("a name has parts");
        if name.len() > NAME_BYTES_MAX {
            return Err(super::name_too_long());
        }
        let (oid, owner) = (self.catalog.ids.oid(), self.user().to_owned());
        self.catalog.schemas.entry(own.clone()).or_insert_with(|| {
            let schema = Schema {
                oid,
                name: own.clone(),
                owner,
                relations: Default::default(),
                collations: Default::default(),
                grants: Vec::new(),
                comment: None,
            };
            schema.into()
        });
        Ok((own, name.clone()))
    }
}

/// 42P16.
fn refused(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

/// Where a new view goes: one that reads temporary relations is temporary itself, and the client is told.
///
/// Errors: as [`DdlContext::place_for`].
pub(super) fn place_of_view(
    cx: &mut DdlContext<'_>,
    create: &CreateView,
    query: &Query,
) -> Result<(String, String)> {
    let name = parts(&create.name)?;
    if goes_there(cx.env.session, &name, create.temporary) || !reads_temporary(query) {
        return cx.place_for(&name, create.temporary);
    }
    let shown = name.last().expect("a name has parts");
    let message = format!("view \"{shown}\" will be a temporary view");
    cx.notice(SqlState::SUCCESSFUL_COMPLETION, message);
    cx.place_for(&name, true)
}

/// Whether a query whose relations stand with their schemas reads a temporary one.
fn reads_temporary(query: &Query) -> bool {
    relations_of(query).iter().any(|(schema, _)| is_temporary(schema))
}

/// 0A000 for a materialized view over temporary relations.
pub(super) fn refuse_in_materialized(query: &Query) -> Result<()> {
    match reads_temporary(query) {
        true => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "materialized views must not use temporary tables or views",
        )),
        false => Ok(()),
    }
}

/// What ON COMMIT says. Errors: 42P16 for a table that is not temporary.
pub(super) fn on_commit(table: &Table, create: &CreateTable) -> Result<OnCommit> {
    match create.on_commit {
        None => Ok(OnCommit::PreserveRows),
        Some(_) if !table.is_temporary() => {
            Err(refused("ON COMMIT can only be used on temporary tables"))
        }
        Some(Clause::PreserveRows) => Ok(OnCommit::PreserveRows),
        Some(Clause::DeleteRows) => Ok(OnCommit::DeleteRows),
        Some(Clause::Drop) => Ok(OnCommit::Drop),
    }
}

/// Refuses a foreign key between a temporary and a permanent table, and one to rows that a commit deletes.
///
/// Errors: 42P16, 0A000.
pub(super) fn refuse_reference(table: &Table, target: &Table) -> Result<()> {
    match (table.is_temporary(), target.is_temporary()) {
        (false, true) => {
            Err(refused("constraints on permanent tables may reference only permanent tables"))
        }
        (true, false) => {
            Err(refused("constraints on temporary tables may reference only temporary tables"))
        }
        _ => match (table.on_commit, target.on_commit) {
            (OnCommit::PreserveRows | OnCommit::Drop, OnCommit::DeleteRows) => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "unsupported ON COMMIT and foreign key combination",
            )
            .detail(format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                table.name, target.name
            ))),
            _ => Ok(()),
        },
    }
}

/// 0A000 for SET SCHEMA from or to a temporary schema.
pub(super) fn refuse_move(from: &str, to: &str) -> Result<()> {
    match is_temporary(from) || is_temporary(to) || to == ALIAS {
        true => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot move objects into or out of temporary schemas",
        )),
        false => Ok(()),
    }
}

impl Ddl {
    /// Whether the statement changes temporary objects of the session alone, and reads no rows of other
    /// tables. Such a statement needs no right to change the catalog that all sessions share. Statements for
    /// which that is not plain from their names are taken to concern other objects.
    pub fn is_private(&self, catalog: &Catalog, session: &SessionVars) -> bool {
        let Ddl::Sql(statement) = self else { return false };
        let resolved = |name| {
            let found = catalog.resolve(&parts(name).ok()?, &session.search_path)?;
            is_temporary(&found.schema.name).then_some(found.relation)
        };
        let is_table = |name| matches!(resolved(name), Some(Relation::Table(_)));
        let made = |name, asked| parts(name).is_ok_and(|name| goes_there(session, &name, asked));
        match &**statement {
            Statement::CreateTable(create) => {
                create.query.is_none() && made(&create.name, create.temporary)
            }
            Statement::CreateSequence { temporary, name, owned_by, .. } => {
                owned_by.is_none() && made(name, *temporary)
            }
            Statement::CreateView(create) => {
                !create.materialized && made(&create.name, create.temporary)
            }
            Statement::CreateIndex(create) => is_table(&create.table_name),
            Statement::AlterTable(alter) => is_table(&alter.name),
            Statement::Drop { object_type, names, .. } => {
                // A default of any table may ask a sequence.
                use ObjectType::{Index, Table, View};
                matches!(object_type, Table | View | Index)
                    && names.iter().all(|name| resolved(name).is_some())
            }
            Statement::Truncate(truncate) => {
                truncate.table_names.iter().all(|target| is_table(&target.name))
            }
            _ => false,
        }
    }
}
