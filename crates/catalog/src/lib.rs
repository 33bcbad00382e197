//! What exists: schemas, tables, views, sequences, types, roles. An immutable value with a version.
//!
//! A DDL transaction changes a copy of its own and publishes it when it commits, before its
//! partition locks are released; everybody else keeps the version they began with and looks
//! again once they hold their locks.
//!
//! Invariants, checked by [`Catalog::check`]:
//! 1. Names are unique among the relations (tables, views, indexes, sequences, types) of a schema.
//! 2. Every foreign key is mirrored in `referenced_by` of the table it refers to.
//! 3. Every index of a table exists in each of its partitions under the same [`IndexId`] (checked
//!    where a partition is at hand: DDL's tests).
//! 4. A table stands under its name in its schema and under its id in `tables`, as one value.
//! 5. A materialized view stands in `feeds` of every table that it reads, and nowhere else; what it
//!    reads has a smaller id.
//! 6. Partition ids and object ids are never used twice, not even after a rollback: a transaction
//!    may still hold the lock of a partition whose creation it has undone.

#![forbid(unsafe_code)]

mod collations;
pub mod extensions;
mod ids;
pub mod lock_errors;
pub mod materialized;
mod permission;
mod rights;
pub mod sequence;
pub mod session_vars;
pub mod stored;
mod table;
pub mod temporary;
#[cfg(test)]
mod tests;
mod user_type;
mod view_options;
pub mod violations;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use halcyon_base::ids::{IndexId, TableId};
use serde::{Deserialize, Serialize};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_views::ViewBudget;
use halcyon_workload::Definitions;

pub use collations::OwnCollation;
pub use ids::Ids;
pub use permission::denied;
pub use rights::{DefaultRights, DefaultsOn, Grant, Privilege, Role};
pub use sequence::{Position, Sequence, SequenceOptions};
pub use table::{
    Action, Check, Column, Deferral, Derived, DerivedKey, ForeignKey, Identity, Index, IndexColumn,
    IndexConstraint, OnCommit, Partitioning, Table, TableKind, partition_of,
};

pub use user_type::{Domain, TypeKind, UserType};
pub use view_options::{CheckOption, ViewOptions};

/// The role that exists from the beginning and may do everything.
pub const SUPERUSER: &str = "halcyon";

/// The grantee that stands for everybody.
pub const PUBLIC: &str = "public";

/// Schemas that always exist; only the first takes objects of users.
pub const SCHEMAS: [&str; 4] = ["public", "pg_catalog", "information_schema", "halcyon"];

/// Everything that has a name, at one version.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Grows with every published change.
    pub version: u64,
    /// The version of the shared catalog that this one extends by temporary objects ([`temporary`]);
    /// `None` for a shared one, and for one with changes that are to be shared.
    pub extends: Option<u64>,
    /// Schemas by name; `public`, `pg_catalog`, `information_schema` and `halcyon` always exist.
    pub schemas: BTreeMap<String, Arc<Schema>>,
    /// Tables by id, the same values as in their schemas.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// Types of users by number, the same values as in their schemas.
    pub types: BTreeMap<u32, Arc<UserType>>,
    /// Roles by name.
    pub roles: BTreeMap<String, Arc<Role>>,
    /// Hands out object and partition ids.
    pub ids: Arc<Ids>,
    /// Memory of materialized views.
    pub budget: Arc<ViewBudget>,
    /// What ALTER SYSTEM set, as text by name.
    pub settings: BTreeMap<String, String>,
    /// COMMENT ON DATABASE.
    pub comment: Option<String>,
    /// Workload classes and mappings.
    pub workload: Arc<Definitions>,
    /// Who may use a workload class, by its name: USAGE.
    pub workload_grants: BTreeMap<String, Vec<Grant>>,
    /// An older version whose plans hold for this one, and the version of this one ([`Catalog::plan_version`]).
    pub plans_of: Option<(u64, u64)>,
    /// Whether tables get latches around every access to their storage: only to measure them.
    pub latches: bool,
}

/// A namespace of relations.
#[derive(Clone)]
pub struct Schema {
    /// Object id.
    pub oid: u32,
    /// Name.
    pub name: String,
    /// Role that owns it.
    pub owner: String,
    /// Relations by name (indexes stand here too: they share the namespace).
    pub relations: BTreeMap<String, Relation>,
    /// Collations that users have made, by name.
    pub collations: BTreeMap<String, Arc<OwnCollation>>,
    /// What others may do: USAGE and CREATE.
    pub grants: Vec<Grant>,
    /// COMMENT ON SCHEMA.
    pub comment: Option<String>,
}

/// What a relation name may stand for.
#[derive(Clone)]
pub enum Relation {
    /// A table, shared with [`Catalog::tables`].
    Table(Arc<Table>),
    /// A view: a stored query.
    View(Arc<View>),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// A type that a user has defined.
    Type(Arc<UserType>),
    /// An index of the table named.
    Index {
        /// Table it belongs to.
        table: TableId,
        /// Its id.
        index: IndexId,
    },
}

/// A view: a stored query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// Object id.
    pub oid: u32,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The query as SQL text.
    pub query: String,
    /// Column names given to it, or those of the query.
    pub columns: Vec<(String, SqlType)>,
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
    /// COMMENT ON VIEW.
    pub comment: Option<String>,
    /// What WITH (…) says of it.
    #[serde(default, skip_serializing_if = "ViewOptions::is_empty")]
    pub options: ViewOptions,
    /// Defaults of its columns, by their names, as SQL texts: INSERT takes them instead of the table's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
}

impl View {
    /// The role whose rights count for what the view reads and writes, where `user` asks: its owner's, or those of the
    /// user.
    pub fn acting<'a>(&'a self, user: &'a str) -> &'a str {
        match self.options.is_security_invoker() {
            true => user,
            false => &self.owner,
        }
    }
}

impl Relation {
    /// What PostgreSQL calls this kind of relation.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(table) => table.kind.name(),
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Type(own) => own.kind_name(),
            Relation::Index { .. } => "index",
        }
    }

    /// The object id of a table or a view; `None` for others.
    pub fn oid(&self) -> Option<u32> {
        match self {
            Relation::Table(table) => Some(table.id.0),
            Relation::View(view) => Some(view.oid),
            _ => None,
        }
    }

    /// Owner and grants. `None` for an index, as its table's hold, and for a type, which all may use.
    fn rights(&self) -> Option<(&str, &str, &[Grant])> {
        match self {
            Relation::Table(table) => Some((&table.name, &table.owner, &table.grants)),
            Relation::View(view) => Some((&view.name, &view.owner, &view.grants)),
            Relation::Sequence(sequence) => {
                Some((&sequence.name, &sequence.owner, &sequence.grants))
            }
            Relation::Type(_) | Relation::Index { .. } => None,
        }
    }
}

/// A relation that a name was resolved to, with the schema it was found in.
pub struct Found<'a> {
    /// Schema.
    pub schema: &'a Arc<Schema>,
    /// Name in the schema.
    pub name: &'a str,
    /// What it is.
    pub relation: &'a Relation,
}

/// A name as a user would write it.
pub fn display_name(name: &[String]) -> String {
    name.join(".")
}

impl Catalog {
    /// What a new database has: its schemas and one superuser.
    pub fn initial() -> Self {
        let mut catalog = Catalog { version: 1, ..Catalog::default() };
        for name in SCHEMAS {
            let public = |privilege| Grant {
                grantee: PUBLIC.to_owned(),
                grantor: SUPERUSER.to_owned(),
                privilege,
                grantable: false,
            };
            let schema = Schema {
                oid: match name {
                    "pg_catalog" => 11,
                    "public" => 2200,
                    _ => catalog.ids.oid(),
                },
                name: name.to_owned(),
                owner: SUPERUSER.to_owned(),
                relations: BTreeMap::new(),
                collations: BTreeMap::new(),
                grants: vec![public(Privilege::Usage)],
                comment: (name == "public").then(|| "standard public schema".to_owned()),
            };
            catalog.schemas.insert(name.to_owned(), Arc::new(schema));
        }
        let superuser = Role {
            oid: 10,
            name: SUPERUSER.to_owned(),
            login: true,
            superuser: true,
            create_role: true,
            create_db: true,
            verifier: None,
            member_of: Vec::new(),
            comment: None,
            defaults: Vec::new(),
        };
        catalog.roles.insert(superuser.name.clone(), Arc::new(superuser));
        catalog
    }

    /// The relation that a name of one, two or three parts stands for. The third part from the
    /// right is the database's name and is not looked at.
    pub fn resolve(&self, name: &[String], search_path: &[String]) -> Option<Found<'_>> {
        let (relation, schema) = match name {
            [relation] => (relation, None),
            [.., schema, relation] => (relation, Some(temporary::meant(schema, search_path))),
            [] => return None,
        };
        let find = |schema: &str| {
            let schema = self.schemas.get(schema)?;
            let (name, relation) = schema.relations.get_key_value(relation)?;
            Some(Found { schema, name, relation })
        };
        match schema {
            Some(schema) => find(schema),
            None => search_path.iter().find_map(|schema| find(schema)),
        }
    }

    /// The relation, or 42P01 (3F000 if even the schema does not exist).
    pub fn require(&self, name: &[String], search_path: &[String]) -> Result<Found<'_>> {
        self.resolve(name, search_path).ok_or_else(|| self.undefined(name, "relation"))
    }

    fn undefined(&self, name: &[String], kind: &str) -> SqlError {
        if let [.., schema, _] = name
            && !self.schemas.contains_key(schema)
        {
            return undefined_schema(schema);
        }
        SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("{kind} \"{}\" does not exist", display_name(name)),
        )
    }

    /// The table. Errors: 42P01, 42809.
    pub fn find_table(&self, name: &[String], search_path: &[String]) -> Result<Arc<Table>> {
        match self.require(name, search_path)? {
            Found { relation: Relation::Table(table), .. } => Ok(table.clone()),
            found => Err(wrong_kind(found.name, "table")),
        }
    }

    /// Materialized views that follow from a table, directly or through others, in an order in
    /// which each stands after those that it reads.
    pub fn fed_by(&self, table: &Table) -> Vec<Arc<Table>> {
        let mut fed = BTreeSet::new();
        let mut open: Vec<TableId> = table.feeds.clone();
        while let Some(id) = open.pop() {
            if fed.insert(id) {
                open.extend(&self.table(id).feeds);
            }
        }
        fed.into_iter().map(|id| self.table(id).clone()).collect()
    }

    /// The sequence. Errors: 42P01, 42809.
    pub fn find_sequence(&self, name: &[String], search_path: &[String]) -> Result<Arc<Sequence>> {
        match self.require(name, search_path)? {
            Found { relation: Relation::Sequence(sequence), .. } => Ok(sequence.clone()),
            found => Err(wrong_kind(found.name, "sequence")),
        }
    }

    /// The sequence in the schema. Panics if there is none: identity columns own theirs.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<&Arc<Sequence>> {
        match self.schemas.get(schema)?.relations.get(name)? {
            Relation::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    /// The table by id. Panics if there is none: ids come from this catalog.
    pub fn table(&self, id: TableId) -> &Arc<Table> {
        self.tables.get(&id).expect("a table id of this catalog")
    }

    /// The schema by name. Errors: 3F000.
    pub fn schema(&self, name: &str) -> Result<&Arc<Schema>> {
        self.schemas.get(name).ok_or_else(|| undefined_schema(name))
    }

    /// Where an object of this name would be created: schema and name.
    ///
    /// Errors: 3F000 if there is no such schema, or none of the search path exists; 42501 for the
    /// system's own.
    pub fn creation_place(
        &self,
        name: &[String],
        search_path: &[String],
    ) -> Result<(String, String)> {
        let (schema, relation) = match name {
            [relation] => {
                // The system's own schemas may stand in the path (one is called like the superuser);
                // nothing is created there.
                let first = search_path.iter().find(|schema| {
                    self.schemas.contains_key(*schema)
                        && !SCHEMAS[1..].contains(&schema.as_str())
                        && !temporary::is_temporary(schema)
                });
                let schema = first.ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_SCHEMA_NAME,
                        "no schema has been selected to create in",
                    )
                })?;
                (schema, relation)
            }
            [.., schema, relation] => (&self.schema(schema)?.name, relation),
            [] => return Err(SqlError::new(SqlState::INVALID_NAME, "a name is missing")),
        };
        if SCHEMAS[1..].contains(&schema.as_str()) {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create \"{schema}.{relation}\""),
            )
            .detail("System catalog modifications are currently disallowed."));
        }
        Ok((schema.clone(), relation.clone()))
    }

    /// 42P07 if the name is taken in the schema.
    pub fn refuse_taken(&self, schema: &str, name: &str) -> Result<()> {
        match self.schema(schema)?.relations.get(name) {
            Some(Relation::Type(_)) => Err(SqlError::new(
                SqlState::DUPLICATE_OBJECT,
                format!("type \"{name}\" already exists"),
            )
            .hint(
                "A relation has an associated type of the same name, so you must use a name that \
                 doesn't conflict with any existing type.",
            )),
            Some(_) => Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            )),
            None => Ok(()),
        }
    }

    /// A name that is not taken in the schema: `stem`, else `stem1`, `stem2`, ….
    pub fn free_name(&self, schema: &str, stem: &str, also_taken: &[String]) -> String {
        let taken = |name: &str| {
            also_taken.iter().any(|other| other == name)
                || self.schemas.get(schema).is_some_and(|s| s.relations.contains_key(name))
        };
        if !taken(stem) {
            return stem.to_owned();
        }
        (1..)
            .map(|number| format!("{stem}{number}"))
            .find(|name| !taken(name))
            .expect("numbers do not end")
    }

    // ------------------------------------------------------------------ changes

    /// The schema, to be changed. Panics if there is none: its name has been resolved.
    pub fn schema_mut(&mut self, name: &str) -> &mut Schema {
        Arc::make_mut(self.schemas.get_mut(name).expect("the schema's name was resolved"))
    }

    /// Puts a relation into its schema, in place of one of the same name.
    pub fn put(&mut self, schema: &str, name: &str, relation: Relation) {
        if let Relation::Table(table) = &relation {
            self.tables.insert(table.id, table.clone());
        }
        if let Relation::Type(own) = &relation {
            self.types.insert(own.id, own.clone());
        }
        self.schema_mut(schema).relations.insert(name.to_owned(), relation);
    }

    /// Notes at every table which views read it. O(tables): for a catalog that was read back.
    pub(crate) fn find_feeds(&mut self) {
        let views: Vec<_> = self
            .tables
            .values()
            .filter_map(|table| table.materialized().map(|view| (table.id, view.reads.clone())))
            .collect();
        for (view, reads) in views {
            for read in reads {
                self.change_table(read, |table| table.feeds.push(view));
            }
        }
    }

    /// Takes a relation out of its schema.
    pub fn remove(&mut self, schema: &str, name: &str) -> Option<Relation> {
        let relation = self.schema_mut(schema).relations.remove(name);
        if let Some(Relation::Table(table)) = &relation {
            self.tables.remove(&table.id);
        }
        if let Some(Relation::Type(own)) = &relation {
            self.types.remove(&own.id);
        }
        relation
    }

    /// Changes a table, wherever it stands; its name and schema stay.
    pub fn change_table<R>(&mut self, id: TableId, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = (**self.table(id)).clone();
        let result = change(&mut table);
        let (schema, name) = (table.schema.clone(), table.name.clone());
        self.put(&schema, &name, Relation::Table(Arc::new(table)));
        result
    }

    /// Panics unless invariants 1, 2 and 4 hold. O(objects): for tests.
    pub fn check(&self) {
        self.check_workload();
        let mut oids = BTreeSet::new();
        let (mut tables, mut types) = (0, 0);
        for (schema_name, schema) in &self.schemas {
            assert_eq!(*schema_name, schema.name);
            assert!(oids.insert(schema.oid), "oid {} twice", schema.oid);
            for (name, relation) in &schema.relations {
                match relation {
                    Relation::Table(table) => {
                        tables += 1;
                        assert!(oids.insert(table.id.0), "oid {} twice", table.id);
                        assert!(table.name == *name && table.schema == *schema_name);
                        assert!(Arc::ptr_eq(table, self.table(table.id)), "table {name} twice");
                        self.check_table(table);
                    }
                    Relation::View(view) => {
                        assert!(oids.insert(view.oid), "oid {} twice", view.oid);
                        assert!(view.name == *name && view.schema == *schema_name);
                    }
                    Relation::Sequence(sequence) => {
                        assert!(oids.insert(sequence.oid), "oid {} twice", sequence.oid);
                        assert!(sequence.name == *name && sequence.schema == *schema_name);
                        if let Some((owner, column)) = sequence.owned_by {
                            assert!((column as usize) < self.table(owner).columns.len());
                        }
                    }
                    Relation::Type(own) => {
                        types += 1;
                        assert!(Arc::ptr_eq(own, &self.types[&own.id]), "type {name} twice");
                        assert!(oids.insert(own.id), "oid {} twice", own.id);
                        assert!(own.name == *name && own.schema == *schema_name);
                    }
                    Relation::Index { table, index } => {
                        assert!(oids.insert(index.0), "oid {} twice", index.0);
                        let table = self.table(*table);
                        let index = table.index(*index).expect("a named index is its table's");
                        assert!(index.name == *name && table.schema == *schema_name);
                    }
                }
            }
        }
        assert_eq!(tables, self.tables.len(), "a table without a name");
        assert_eq!(types, self.types.len(), "a type without a name");
    }

    fn check_table(&self, table: &Table) {
        let width = table.columns.len() as u16;
        assert_eq!(table.arrow.fields().len(), table.columns.len());
        assert!(!table.cells.is_empty());
        assert_eq!(table.partition_column().is_none(), table.partitioning == Partitioning::Single);
        let schema = &self.schemas[&table.schema];
        for index in &table.indexes {
            assert!(schema.relations.contains_key(&index.name), "index {} is lost", index.name);
            assert!(index.columns.iter().all(|key| key.column < width));
            assert_eq!(index.columns.is_empty(), index.derived.is_some());
            if let (true, Some(column)) = (index.says_unique(), table.partition_column()) {
                let derived = index.derived.is_some() && index.inputs().any(|at| at == column);
                assert!(derived || index.columns.iter().any(|key| key.column == column));
            }
        }
        for key in &table.foreign_keys {
            let target = self.table(key.target);
            let mirrored = (table.id, key.name.clone());
            assert!(target.referenced_by.contains(&mirrored), "{} is not mirrored", key.name);
            assert!(
                target.indexes.iter().any(|i| i.unique && i.covers_exactly(&key.target_columns))
            );
            assert_eq!(key.columns.len(), key.target_columns.len());
        }
        for (referrer, name) in &table.referenced_by {
            let keys = &self.table(*referrer).foreign_keys;
            assert!(keys.iter().any(|key| key.target == table.id && key.name == *name));
        }
        if let Some(view) = table.materialized() {
            for read in &view.reads {
                assert!(*read < table.id, "{} reads what is younger", table.name);
                assert!(self.table(*read).feeds.contains(&table.id), "{} is not fed", table.name);
            }
        }
        assert!(table.feeds.is_sorted());
        for fed in &table.feeds {
            let view = self.table(*fed).materialized().expect("only views are fed");
            assert!(view.reads.contains(&table.id));
        }
        for column in &table.columns {
            if let Some(identity) = &column.identity {
                assert!(self.sequence(&table.schema, &identity.sequence).is_some());
            }
        }
    }
}

/// 3F000.
pub fn undefined_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// 42809: the relation is of another kind.
pub fn wrong_kind(name: &str, wanted: &str) -> SqlError {
    let article = if wanted == "index" { "an" } else { "a" };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {article} {wanted}"))
}
