//! CREATE, ALTER, DROP, TRUNCATE, COMMENT, GRANT, REVOKE.
//!
//! A DDL statement is carried out from its syntax tree against the transaction's private copy of
//! the catalog. Nothing is bound beforehand: the statement runs once, and names are resolved when
//! it runs.
//!
//! Invariants, checked by `catalog_changes_are_seen_when_they_commit_and_undone_when_not` (1 and 3)
//! and by [`Catalog::check`], which every test that ends with `Database::check` runs (2):
//! 1. A partition that others may see is locked exclusively before it is changed, and changed
//!    through [`Transaction::alter`], so that undoing is putting the old root back.
//! 2. After a statement [`Catalog::check`] holds; after a failed one the caller drops the copy.
//! 3. Partitions that a statement creates are reachable through its catalog copy alone until commit.
//!
//! Cost: catalog changes O(objects of the schema); changes of columns O(rows), by whole vectors
//! where the store can.

#![forbid(unsafe_code)]

mod alter;
mod alter_identity;
mod alter_key;
mod alter_view;
mod collation;
mod collation_uses;
mod column_names;
mod columns;
mod comment;
mod constraint;
mod default_rights;
mod dependents;
pub mod export;
mod extension;
mod feeds;
mod identity;
mod identity_name;
mod index;
mod labels;
mod like;
mod materialized;
mod names;
mod own;
mod owned;
mod remove;
mod renamed;
mod role;
mod schema;
mod sequence;
mod table;
mod temporary;
mod truncate;
mod type_uses;
mod user_type;
mod using_index;
mod view;
mod view_uses;
pub mod views;
mod workload;
mod workload_export;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use halcyon_base::ids::TableId;
use halcyon_base::progress::{self, Phase, Unit};
use halcyon_store::{Partition, ValueRef};
use halcyon_txn::{LockHandle, Mode, PartitionCell, Transaction, WaitLimits};

use halcyon_catalog::temporary::is_temporary;
use halcyon_catalog::{Catalog, Found, Relation, Table};
use halcyon_derived::row_schema;
use halcyon_plan::bind::Binder;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::Env;
use halcyon_plan::lock_errors;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::syntax::DdlStatement;

pub use remove::drop_at_commit;
pub use role::scram_verifier;

/// The outcome of a DDL statement: its tag, and the number of rows if the tag has one.
pub type Done = (&'static str, Option<u64>);

/// A DDL statement, ready to run.
#[derive(Clone, Debug)]
pub enum Ddl {
    /// A statement that the SQL parser has a tree for.
    Sql(Box<Statement>),
    /// A statement that only our own parser knows.
    Own(Box<DdlStatement>),
}

/// What a DDL statement may touch.
pub struct DdlContext<'a> {
    /// The session, the clock, and the catalog as it was before the statement.
    pub env: &'a Env<'a>,
    /// The transaction it is part of.
    pub tx: &'a mut Transaction,
    /// The transaction's private copy of the catalog.
    pub catalog: &'a mut Catalog,
    /// How long to wait for locks.
    pub limits: WaitLimits<'a>,
    /// Functions and planners.
    pub datafusion: &'a DataFusion,
    /// Takes notices for the client.
    pub notices: &'a mut Vec<SqlError>,
    /// Tables with changed rows whose DEFERRABLE constraints wait to be judged.
    pub pending: &'a [TableId],
}

/// Binds a DDL statement of the SQL parser, and gives its command tag; `None` if it is of another
/// kind.
pub fn bind(statement: &Statement) -> Option<(Ddl, &'static str)> {
    let tag = match statement {
        Statement::CreateTable(table) if table.query.is_some() => "SELECT",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateView(view) if view.materialized => "CREATE MATERIALIZED VIEW",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateSequence { .. } => "CREATE SEQUENCE",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::AlterSchema(_) => "ALTER SCHEMA",
        Statement::Drop { object_type, .. } => remove::tag(object_type)?,
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::Grant(grant) if grant.objects.is_none() => "GRANT ROLE",
        Statement::Grant(_) => "GRANT",
        Statement::Revoke(revoke) if revoke.objects.is_none() => "REVOKE ROLE",
        Statement::Revoke(_) => "REVOKE",
        Statement::CreateExtension(_) => "CREATE EXTENSION",
        Statement::DropExtension(_) => "DROP EXTENSION",
        _ => return None,
    };
    Some((Ddl::Sql(Box::new(statement.clone())), tag))
}

impl Ddl {
    /// Whether plans that were made before the statement hold after it: it changes nothing that they look at.
    pub fn keeps_plans(&self) -> bool {
        matches!(self, Ddl::Own(own) if matches!(**own, DdlStatement::Workload(_)))
    }

    /// Carries the statement out.
    ///
    /// Errors: those of the statement; catalog copy and partitions are then to be taken back by
    /// the caller (drop the copy, go back to the savepoint).
    pub fn run(&self, cx: &mut DdlContext<'_>) -> Result<Done> {
        let before = cx.catalog.clone();
        let done = self.carry_out(cx)?;
        default_rights::give(&before, cx.catalog);
        Ok(done)
    }

    fn carry_out(&self, cx: &mut DdlContext<'_>) -> Result<Done> {
        let statement = match self {
            Ddl::Sql(statement) => statement,
            Ddl::Own(statement) => return own::run(statement, cx),
        };
        let plain = |tag| (tag, None);
        match &**statement {
            Statement::CreateTable(create) => table::create(cx, create),
            Statement::CreateIndex(create) => {
                index::create(cx, create).map(|()| plain("CREATE INDEX"))
            }
            Statement::CreateView(create) if create.materialized => {
                Err(materialized::refused(create))
            }
            Statement::CreateView(create) => {
                view::create(cx, create).map(|()| plain("CREATE VIEW"))
            }
            Statement::CreateSequence {
                temporary,
                if_not_exists,
                name,
                data_type,
                sequence_options,
                owned_by,
            } => {
                let wish = sequence::Wish::from_ast(data_type.as_ref(), sequence_options)?;
                let name = cx.place_for(&parts(name)?, *temporary)?;
                sequence::create(cx, name, *if_not_exists, &wish, owned_by.as_ref())?;
                Ok(plain("CREATE SEQUENCE"))
            }
            Statement::CreateSchema { schema_name, if_not_exists, .. } => {
                schema::create(cx, schema_name, *if_not_exists).map(|_| plain("CREATE SCHEMA"))
            }
            Statement::AlterTable(alter) => alter::alter(cx, alter).map(|()| plain("ALTER TABLE")),
            Statement::AlterSchema(alter) => {
                schema::alter(cx, alter).map(|()| plain("ALTER SCHEMA"))
            }
            Statement::Drop { object_type, if_exists, names, cascade, .. } => {
                let tag = remove::tag(object_type).expect("bind took it");
                remove::drop(cx, object_type, *if_exists, names, *cascade).map(|()| plain(tag))
            }
            Statement::Truncate(truncate) => {
                truncate::truncate(cx, truncate).map(|()| plain("TRUNCATE TABLE"))
            }
            Statement::Grant(grant) => role::grant(cx, grant).map(plain),
            Statement::Revoke(revoke) => role::revoke(cx, revoke).map(plain),
            Statement::CreateExtension(create) => {
                extension::create(cx, create).map(|()| plain("CREATE EXTENSION"))
            }
            Statement::DropExtension(drop) => {
                extension::drop(cx, drop).map(|()| plain("DROP EXTENSION"))
            }
            other => Err(SqlError::unsupported(first_words(other))),
        }
    }
}

/// The first words of a statement that is not supported, for the error message.
fn first_words(statement: &Statement) -> String {
    statement.to_string().split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

impl DdlContext<'_> {
    /// A binder that sees the catalog as it is now, changes of this statement included.
    fn binder_now(
        &self,
        now: &Arc<Catalog>,
        run: impl FnOnce(&Binder<'_>) -> Result<()>,
    ) -> Result<()> {
        run(&Binder::new(now, self.env.session, self.datafusion))
    }

    /// A binder that sees the catalog as it was before the statement.
    fn binder(&self) -> Binder<'_> {
        Binder::new(self.env.catalog, self.env.session, self.datafusion)
    }

    fn user(&self) -> &str {
        &self.env.session.user
    }

    fn search_path(&self) -> &[String] {
        &self.env.session.search_path
    }

    /// Tells the client something that is no error.
    fn notice(&mut self, state: SqlState, message: impl Into<String>) {
        self.notices.push(SqlError::new(state, message));
    }

    /// Resolves a name and sees that its owner is asking. Errors: 42P01, 42501.
    fn owned(&self, name: &[String]) -> Result<Found<'_>> {
        let found = self.catalog.require(name, self.search_path())?;
        let (owner, kind) = match found.relation {
            Relation::Table(table) => (&table.owner, table.kind.name()),
            Relation::View(view) => (&view.owner, "view"),
            Relation::Sequence(sequence) => (&sequence.owner, "sequence"),
            Relation::Type(own) => (&own.owner, own.kind_name()),
            Relation::Index { table, .. } => (&self.catalog.table(*table).owner, "index"),
        };
        self.catalog.require_owner(self.user(), owner, kind, found.name)?;
        Ok(found)
    }

    /// The table of this name, if its owner is asking. Errors: 42P01, 42809, 42501.
    fn owned_table(&self, name: &[String]) -> Result<Arc<Table>> {
        match self.owned(name)?.relation {
            Relation::Table(table) => Ok(table.clone()),
            _ => Err(halcyon_catalog::wrong_kind(&name[name.len() - 1], "table")),
        }
    }

    /// Where a new object that cannot be temporary goes, if the user may create there. Errors: 3F000, 42501.
    fn place(&self, name: &[String]) -> Result<(String, String)> {
        let (schema, name) = self.catalog.creation_place(name, self.search_path())?;
        if name.len() > NAME_BYTES_MAX {
            return Err(name_too_long());
        }
        if is_temporary(&schema) {
            return Err(SqlError::unsupported(format!("\"{name}\" in a temporary schema"))
                .hint("Tables, views and sequences can be temporary, and nothing else can."));
        }
        let place = self.catalog.schema(&schema)?;
        self.catalog.require_schema(self.user(), place, halcyon_catalog::Privilege::Create)?;
        Ok((schema, name))
    }

    /// Errors: 55006 if a statement that begins with `verb` would change a table whose changed rows
    /// wait to be judged.
    fn refuse_pending(&self, table: &Table, verb: &str) -> Result<()> {
        match self.pending.contains(&table.id) {
            true => Err(SqlError::new(
                SqlState::OBJECT_IN_USE,
                format!("cannot {verb} \"{}\" because it has pending trigger events", table.name),
            )),
            false => Ok(()),
        }
    }

    /// Locks every partition of a table exclusively, in order of id.
    fn lock(&mut self, table: &Table) -> Result<Vec<LockHandle>> {
        let handles = self.lock_cells(&table.cells, Mode::Exclusive)?;
        crate::views::own(table, self.tx);
        Ok(handles)
    }

    fn lock_cells(&mut self, cells: &[Arc<PartitionCell>], mode: Mode) -> Result<Vec<LockHandle>> {
        let lock = |cell| self.tx.lock(cell, mode, &self.limits).map_err(lock_errors::of_any);
        cells.iter().map(lock).collect()
    }

    /// Rows of a table, which is locked for that.
    fn count_rows(&mut self, table: &Table) -> Result<u64> {
        let handles = self.lock(table)?;
        Ok(handles.into_iter().map(|handle| self.tx.read(handle).row_count()).sum())
    }

    /// Begins the stage of a statement in which it visits each row of a table, which is locked for that.
    fn stage_over(&mut self, table: &Table, phase: Phase) -> Result<()> {
        let rows = self.count_rows(table)?;
        progress::stage(phase, Unit::Rows, Some(rows));
        Ok(())
    }

    /// Shows each row of a table, which is locked for that, until `see` says that it has seen enough. The transaction is
    /// at rest meanwhile: who takes a cut does not wait.
    fn see_rows(
        &mut self,
        table: &Table,
        mut see: impl FnMut(&[ValueRef<'_>]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let roots: Vec<_> =
            self.lock(table)?.into_iter().map(|handle| self.tx.root(handle)).collect();
        let told = progress::Rows::default();
        self.tx.resting(|| {
            for row in roots.iter().flat_map(|root| root.rows()) {
                told.next();
                let values: Vec<ValueRef<'_>> = row.values().collect();
                if see(&values)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Changes every partition of a table; the old roots come back if the statement is undone.
    fn alter_all(
        &mut self,
        table: &Table,
        mut change: impl FnMut(&mut Partition) -> Result<()>,
    ) -> Result<()> {
        for handle in self.lock(table)? {
            self.tx.alter(handle, &mut change)?;
        }
        Ok(())
    }
}

/// Longest name of an object.
pub const NAME_BYTES_MAX: usize = 255;

/// 42622.
fn name_too_long() -> SqlError {
    SqlError::new(SqlState::NAME_TOO_LONG, format!("a name has more than {NAME_BYTES_MAX} bytes"))
}

fn depends(on: &str, what: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {on} because other objects depend on it"),
    )
    .detail(format!("{what} depends on {on}"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
