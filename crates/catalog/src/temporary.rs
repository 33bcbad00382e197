//! Temporary objects: a schema of one session, which only that session's catalog has.
//!
//! The catalog that all sessions share never has temporary objects, so no log, checkpoint or export meets
//! them, and nothing is left of them when their session ends. A session with temporary objects sees the
//! shared catalog *extended*: with its own schema `pg_temp_<session>` and the tables in it. An extended
//! catalog has a version of its own, and says which version it extends ([`Catalog::extends`]).
//! No permanent object refers to a temporary one: foreign keys between the two are refused, materialized
//! views over temporary tables are too, and a view over temporary tables is temporary itself. So the two
//! parts of an extended catalog come apart again ([`Catalog::without_temporary`]).

use std::sync::Arc;

use halcyon_base::ids::{PartitionId, TableId};
use halcyon_txn::PartitionCell;

pub use crate::table::OnCommit;
use crate::{Catalog, Column, Relation, Schema, Table};

/// The name that stands for the session's own temporary schema.
pub const ALIAS: &str = "pg_temp";

/// How the names of temporary schemas begin; no other schema's name does.
const PREFIX: &str = "pg_temp_";

/// The name of a session's temporary schema.
pub fn schema_of(session: u32) -> String {
    format!("{PREFIX}{session}")
}

/// Whether the schema of this name holds temporary objects.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

/// The session whose temporary schema has this name.
pub fn session_of(schema: &str) -> Option<u32> {
    schema.strip_prefix(PREFIX)?.parse().ok()
}

/// The schema that `name` stands for: [`ALIAS`] stands for the temporary schema in the search path.
pub fn meant<'a>(name: &'a str, search_path: &'a [String]) -> &'a str {
    let own = || search_path.iter().map(String::as_str).find(|schema| is_temporary(schema));
    match name {
        ALIAS => own().unwrap_or(name),
        name => name,
    }
}

impl Table {
    /// Whether it is a temporary table.
    pub fn is_temporary(&self) -> bool {
        is_temporary(&self.schema)
    }
}

/// A table that one statement reads its own intermediate rows as: it is in no catalog that lasts, and what
/// runs the statement brings its rows. `number`: tells it from the statement's others.
pub fn table_of_rows(
    number: u32,
    schema: &str,
    name: &str,
    owner: &str,
    columns: Vec<Column>,
) -> Table {
    let mut table = Table::new(TableId(u32::MAX - number), schema, name, owner, columns);
    table.cells = vec![Arc::new(PartitionCell::unbuilt(PartitionId(u32::MAX - number)))];
    table
}

impl Schema {
    /// The tables in it.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.relations.values().filter_map(|relation| match relation {
            Relation::Table(table) => Some(table),
            _ => None,
        })
    }
}

impl Catalog {
    /// The version of the shared catalog that this one is or extends.
    #[inline]
    pub fn shared_version(&self) -> u64 {
        self.extends.unwrap_or(self.version)
    }

    /// This catalog, which is shared, extended by a temporary schema.
    pub fn extended(&self, version: u64, schema: Option<&Arc<Schema>>) -> Catalog {
        assert!(self.extends.is_none(), "an extended catalog is not extended again");
        let catalog = Catalog { version, extends: Some(self.version), ..self.clone() };
        catalog.with_schemas(schema)
    }

    /// This catalog with other schemas beside its own.
    pub fn with_schemas<'a>(
        mut self,
        schemas: impl IntoIterator<Item = &'a Arc<Schema>>,
    ) -> Catalog {
        for schema in schemas {
            self.tables.extend(schema.tables().map(|table| (table.id, Arc::clone(table))));
            self.schemas.insert(schema.name.clone(), Arc::clone(schema));
        }
        self
    }

    /// Takes a temporary schema out, with all that is in it.
    pub fn without_temporary(mut self, name: &str) -> Catalog {
        if let Some(schema) = self.schemas.remove(name) {
            schema.tables().for_each(|table| drop(self.tables.remove(&table.id)));
        }
        self
    }

    /// Whether nothing but the schema `name` differs from `other`. O(schemas + roles).
    pub fn differs_only_in(&self, other: &Catalog, name: &str) -> bool {
        let schemas = |catalog: &Catalog| -> Vec<*const Schema> {
            let others = catalog.schemas.iter().filter(|(other, _)| *other != name);
            others.map(|(_, schema)| Arc::as_ptr(schema)).collect()
        };
        let roles =
            |catalog: &Catalog| -> Vec<_> { catalog.roles.values().map(Arc::as_ptr).collect() };
        schemas(self) == schemas(other)
            && roles(self) == roles(other)
            && self.settings == other.settings
            && self.has_workload_of(other)
    }
}
