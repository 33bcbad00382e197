//! What exists: schemas, tables, views, sequences, roles. An immutable value with a version.
//!
//! A DDL transaction changes a copy of its own and publishes it when it commits, before its
//! partition locks are released; everybody else keeps the version they began with and looks
//! again once they hold their locks.
//!
//! Invariants, checked by [`Catalog::check`]:
//! 1. Names are unique among the relations (tables, views, indexes, sequences) of a schema.
//! 2. Every foreign key is mirrored in `referenced_by` of the table it refers to.
//! 3. Every index of a table exists in each of its partitions under the same [`IndexId`] (checked
//!    where a partition is at hand: DDL's tests).
//! 4. A table stands under its name in its schema and under its id in `tables`, as one value.
//! 5. A materialized view stands in `feeds` of every table that it reads, and nowhere else; what it
//!    reads has a smaller id.
//! 6. Partition ids and object ids are never used twice, not even after a rollback: a transaction
//!    may still hold the lock of a partition whose creation it has undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use halcyon_base::ids::{IndexId, PartitionId, TableId};
use halcyon_store::{ColumnDef, IndexDef, KeyColumn, Schema as StoreSchema, ValueRef};
use halcyon_txn::{Log, PartitionCell};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SqlError, SqlState};
use crate::sequence::Position;
use crate::types::SqlType;
use crate::views::{Budget, Materialized};

/// The role that exists from the beginning and may do everything.
pub const SUPERUSER: &str = "halcyon";

/// The grantee that stands for everybody.
pub const PUBLIC: &str = "public";

/// Schemas that always exist; only the first takes objects of users.
pub const SCHEMAS: [&str; 4] = ["public", "pg_catalog", "information_schema", "halcyon"];

/// Object ids below are PostgreSQL's own.
const FIRST_OID: u32 = 16_384;

/// Everything that has a name, at one version.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Grows with every published change.
    pub version: u64,
    /// Schemas by name; `public`, `pg_catalog`, `information_schema` and `halcyon` always exist.
    pub schemas: BTreeMap<String, Arc<Schema>>,
    /// Tables by id, the same values as in their schemas.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// Roles by name.
    pub roles: BTreeMap<String, Arc<Role>>,
    /// Hands out object and partition ids.
    pub ids: Arc<Ids>,
    /// Memory of materialized views.
    pub budget: Arc<Budget>,
    /// What ALTER SYSTEM set, as text by name.
    pub settings: BTreeMap<String, String>,
    /// Whether tables get latches around every access to their storage: only to measure them.
    pub latches: bool,
}

/// Numbers that are handed out once, whatever becomes of the transaction that asked.
pub struct Ids {
    /// Next object id (tables, indexes, sequences, schemas, roles share the range).
    next_oid: AtomicU32,
    /// Next global partition id. 0 is the lock of the catalog itself.
    next_partition: AtomicU32,
    /// Where positions of sequences are written down; nowhere in a database in memory.
    pub(crate) log: Option<Arc<Log>>,
}

impl Default for Ids {
    fn default() -> Self {
        Ids::starting(FIRST_OID, 1, None)
    }
}

impl Ids {
    /// Ids from these on.
    pub(crate) fn starting(oid: u32, partition: u32, log: Option<Arc<Log>>) -> Self {
        Ids { next_oid: AtomicU32::new(oid), next_partition: AtomicU32::new(partition), log }
    }

    /// The object and the partition id that would be next.
    pub(crate) fn next(&self) -> (u32, u32) {
        let load = |next: &AtomicU32| next.load(Ordering::Relaxed);
        (load(&self.next_oid), load(&self.next_partition))
    }

    /// An object id.
    pub fn oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// A partition id.
    pub fn partition(&self) -> PartitionId {
        PartitionId(self.next_partition.fetch_add(1, Ordering::Relaxed))
    }
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
    /// An index of the table named.
    Index {
        /// Table it belongs to.
        table: TableId,
        /// Its id.
        index: IndexId,
    },
}

/// A table: columns, constraints, and the partitions its rows live in.
#[derive(Clone)]
pub struct Table {
    /// Identity that survives renames; equals the object id.
    pub id: TableId,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in order; dropped columns are removed and partitions rewritten.
    pub columns: Vec<Column>,
    /// The columns as DataFusion sees them.
    pub arrow: SchemaRef,
    /// How rows are spread over `cells`.
    pub partitioning: Partitioning,
    /// The partitions, in partition-number order.
    pub cells: Vec<Arc<PartitionCell>>,
    /// Indexes, those of constraints included.
    pub indexes: Vec<Index>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// FOREIGN KEY constraints of this table.
    pub foreign_keys: Vec<ForeignKey>,
    /// Foreign keys that refer to this table: (referring table, constraint name).
    pub referenced_by: Vec<(TableId, String)>,
    /// What it is to those who write it.
    pub kind: TableKind,
    /// Materialized views that read it, by ascending id.
    pub feeds: Vec<TableId>,
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
    /// COMMENT ON TABLE.
    pub comment: Option<String>,
}

/// Where the rows of a table come from.
#[derive(Clone, Default)]
pub enum TableKind {
    /// From INSERT, and they stay.
    #[default]
    Ordinary,
    /// From INSERT, and they pass: only materialized views see them. Its partition stays empty and
    /// is there to be locked.
    Stream,
    /// From other tables, by a query.
    Materialized(Arc<Materialized>),
}

/// How the rows of a table are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioning {
    /// One partition.
    Single,
    /// By hash of one column, an integer modulo the number of partitions.
    Column {
        /// Position of the column.
        column: u16,
    },
}

/// A column.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: SqlType,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// DEFAULT expression as SQL text.
    pub default: Option<String>,
    /// GENERATED … AS IDENTITY.
    pub identity: Option<Identity>,
    /// COMMENT ON COLUMN.
    pub comment: Option<String>,
}

/// GENERATED ALWAYS or BY DEFAULT AS IDENTITY, with the sequence that feeds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// ALWAYS refuses explicit values unless OVERRIDING SYSTEM VALUE.
    pub always: bool,
    /// Name of the sequence in the table's schema.
    pub sequence: String,
}

/// An index, unique or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    /// Its id in every partition; equals the object id.
    #[serde(with = "crate::stored::index_id")]
    pub id: IndexId,
    /// Name.
    pub name: String,
    /// Key columns in order.
    pub columns: Vec<IndexColumn>,
    /// Whether a key may stand once only.
    pub unique: bool,
    /// PRIMARY KEY or UNIQUE if it was made by a constraint.
    pub constraint: Option<IndexConstraint>,
    /// COMMENT ON INDEX.
    pub comment: Option<String>,
}

/// Which constraint made an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum IndexConstraint {
    PrimaryKey,
    Unique,
}

/// One key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    /// Position in the table.
    pub column: u16,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    /// Name.
    pub name: String,
    /// Condition as SQL text.
    pub expr: String,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Name.
    pub name: String,
    /// Columns of the referring table.
    pub columns: Vec<u16>,
    /// Table referred to.
    #[serde(with = "crate::stored::table_id")]
    pub target: TableId,
    /// Columns of the target, which have a unique index.
    pub target_columns: Vec<u16>,
    /// ON DELETE.
    pub on_delete: Action,
    /// ON UPDATE.
    pub on_update: Action,
}

/// What happens to referring rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Action {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Action {
    /// SQL's words for it.
    pub fn name(self) -> &'static str {
        match self {
            Action::NoAction => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }
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
}

/// A sequence. Its position is outside transactions, as in PostgreSQL: gaps, but no waiting.
#[derive(Clone)]
pub struct Sequence {
    /// Object id.
    pub oid: u32,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Start, step and bounds.
    pub options: SequenceOptions,
    /// Where it stands.
    pub position: Arc<Position>,
    /// Column it belongs to, dropped with it: (table, column).
    pub owned_by: Option<(TableId, u16)>,
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
    /// COMMENT ON SEQUENCE.
    pub comment: Option<String>,
}

/// Parameters of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SequenceOptions {
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

/// A role: user or group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    /// Object id.
    pub oid: u32,
    /// Name.
    pub name: String,
    /// May log in.
    pub login: bool,
    /// May do everything.
    pub superuser: bool,
    /// May create roles.
    pub create_role: bool,
    /// May create databases; kept for clients that ask.
    pub create_db: bool,
    /// SCRAM-SHA-256 verifier in PostgreSQL's notation; no plain password is kept.
    pub verifier: Option<String>,
    /// Roles it is a member of.
    pub member_of: Vec<String>,
}

/// A privilege given to a role (`public` means everybody).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who may.
    pub grantee: String,
    /// Who gave it.
    pub grantor: String,
    /// What.
    pub privilege: Privilege,
    /// May be passed on.
    pub grantable: bool,
}

/// What may be granted on a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Privilege {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    References,
    Usage,
    Create,
}

impl Privilege {
    /// SQL's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::References => "REFERENCES",
            Privilege::Usage => "USAGE",
            Privilege::Create => "CREATE",
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
            Relation::Index { .. } => "index",
        }
    }

    /// Owner and grants. `None` for an index: its table's hold.
    fn rights(&self) -> Option<(&str, &str, &[Grant])> {
        match self {
            Relation::Table(table) => Some((&table.name, &table.owner, &table.grants)),
            Relation::View(view) => Some((&view.name, &view.owner, &view.grants)),
            Relation::Sequence(sequence) => {
                Some((&sequence.name, &sequence.owner, &sequence.grants))
            }
            Relation::Index { .. } => None,
        }
    }
}

impl TableKind {
    /// What PostgreSQL calls such a relation, and we a stream.
    pub fn name(&self) -> &'static str {
        match self {
            TableKind::Ordinary => "table",
            TableKind::Stream => "stream",
            TableKind::Materialized(_) => "materialized view",
        }
    }
}

impl std::fmt::Debug for Table {
    /// The name: all else is long, and found in the catalog.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}.{})", self.schema, self.name)
    }
}

impl Table {
    /// The definition, if it is a materialized view.
    pub fn materialized(&self) -> Option<&Arc<Materialized>> {
        match &self.kind {
            TableKind::Materialized(view) => Some(view),
            _ => None,
        }
    }

    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, TableKind::Stream)
    }

    /// Position of the column of this name.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.columns.iter().position(|column| column.name == name).map(|at| at as u16)
    }

    /// Position of the column of this name. Errors: 42703.
    pub fn require_column(&self, name: &str) -> Result<u16> {
        self.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// The index by id.
    pub fn index(&self, id: IndexId) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The index of the primary key.
    pub fn primary_key(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.constraint == Some(IndexConstraint::PrimaryKey))
    }

    /// Schema and name with a dot between.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Which partition a row belongs to; `value` is that of the column it is partitioned by.
    ///
    /// Integers and decimals go by their (unscaled) value modulo the number of partitions, other
    /// types by a hash of their bytes; NULL goes to the first.
    #[inline]
    pub fn partition_of(&self, value: ValueRef<'_>) -> u32 {
        partition_of(value, self.cells.len() as u32)
    }

    /// The column whose value says where a row lives; `None` with one partition.
    #[inline]
    pub fn partition_column(&self) -> Option<u16> {
        match self.partitioning {
            Partitioning::Single => None,
            Partitioning::Column { column } => Some(column),
        }
    }

    /// The columns as a partition keeps them.
    pub fn store_schema(&self) -> Arc<StoreSchema> {
        let column =
            |column: &Column| ColumnDef { ty: column.ty.storage(), nullable: !column.not_null };
        StoreSchema::new(self.columns.iter().map(column).collect())
    }

    /// Brings `arrow` in line with `columns`.
    pub fn refresh_arrow(&mut self) {
        let fields: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.ty.field(&column.name, !column.not_null))
            .collect();
        self.arrow = Arc::new(ArrowSchema::new(fields));
    }
}

/// See [`Table::partition_of`].
#[inline]
pub fn partition_of(value: ValueRef<'_>, partitions: u32) -> u32 {
    if partitions <= 1 {
        return 0;
    }
    let modulo = |number: i128| number.rem_euclid(partitions as i128) as u32;
    match value {
        ValueRef::Null => 0,
        ValueRef::Int16(value) => modulo(value as i128),
        ValueRef::Int32(value) => value.rem_euclid(partitions as i32) as u32,
        ValueRef::Int64(value) => value.rem_euclid(partitions as i64) as u32,
        ValueRef::Decimal(value) => modulo(value),
        ValueRef::Bool(value) => value as u32 % partitions,
        ValueRef::Date(value) => modulo(value as i128),
        ValueRef::Time(value) | ValueRef::Timestamp(value) | ValueRef::TimestampTz(value) => {
            modulo((value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i128 >> 32)
        }
        ValueRef::Text(value) => (hash(value.as_bytes()) % partitions as u64) as u32,
        ValueRef::Bytes(value) => (hash(value) % partitions as u64) as u32,
        ValueRef::Uuid(value) => (hash(&value) % partitions as u64) as u32,
        ValueRef::Float32(_) | ValueRef::Float64(_) | ValueRef::Interval(_) => {
            unreachable!("CREATE TABLE refuses to partition by values without one spelling")
        }
    }
}

/// FNV-1a. The same in every process, because rows stay where it sent them.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Index {
    /// The index as a partition keeps it.
    pub fn def(&self) -> IndexDef {
        let key = |column: &IndexColumn| KeyColumn {
            column: column.column,
            descending: column.descending,
            nulls_first: column.nulls_first,
        };
        IndexDef {
            id: self.id,
            columns: self.columns.iter().map(key).collect(),
            unique: self.unique,
            nulls_distinct: true,
        }
    }

    /// Whether the key is made of exactly these columns, in any order.
    pub fn covers_exactly(&self, columns: &[u16]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().all(|key| columns.contains(&key.column))
            && columns.iter().all(|column| self.columns.iter().any(|key| key.column == *column))
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
        };
        catalog.roles.insert(superuser.name.clone(), Arc::new(superuser));
        catalog
    }

    /// The relation that a name of one, two or three parts stands for. The third part from the
    /// right is the database's name and is not looked at.
    pub fn resolve(&self, name: &[String], search_path: &[String]) -> Option<Found<'_>> {
        let (relation, schema) = match name {
            [relation] => (relation, None),
            [.., schema, relation] => (relation, Some(schema)),
            [] => return None,
        };
        let find = |schema: &String| {
            let schema = self.schemas.get(schema)?;
            let (name, relation) = schema.relations.get_key_value(relation)?;
            Some(Found { schema, name, relation })
        };
        match schema {
            Some(schema) => find(schema),
            None => search_path.iter().find_map(find),
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
                    self.schemas.contains_key(*schema) && !SCHEMAS[1..].contains(&schema.as_str())
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
        match self.schema(schema)?.relations.contains_key(name) {
            true => Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            )),
            false => Ok(()),
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

    // ------------------------------------------------------------------ rights

    /// Whether `user` is `role` or a member of it, directly or through others; superusers are
    /// members of all.
    pub fn acts_for(&self, user: &str, role: &str) -> bool {
        if user == role || role == PUBLIC {
            return true;
        }
        let (mut seen, mut open) = (BTreeSet::new(), vec![user]);
        while let Some(name) = open.pop() {
            let Some(found) = self.roles.get(name) else { continue };
            if name == role || (name == user && found.superuser) {
                return true;
            }
            if seen.insert(name) {
                open.extend(found.member_of.iter().map(String::as_str));
            }
        }
        false
    }

    /// Whether `user` is a superuser.
    pub fn is_superuser(&self, user: &str) -> bool {
        self.roles.get(user).is_some_and(|role| role.superuser)
    }

    /// Whether grants (or ownership) let `user` do this.
    pub fn permits(&self, user: &str, owner: &str, grants: &[Grant], wish: Privilege) -> bool {
        self.acts_for(user, owner)
            || grants
                .iter()
                .any(|grant| grant.privilege == wish && self.acts_for(user, &grant.grantee))
    }

    /// 42501 unless `user` may do this to the relation, and use its schema.
    pub fn require_privilege(&self, user: &str, found: &Found<'_>, wish: Privilege) -> Result<()> {
        if self.is_superuser(user) {
            return Ok(());
        }
        self.require_schema(user, found.schema, Privilege::Usage)?;
        let relation = match found.relation {
            Relation::Index { table, .. } => Relation::Table(self.table(*table).clone()),
            other => other.clone(),
        };
        let (name, owner, grants) = relation.rights().expect("indexes were replaced by tables");
        match self.permits(user, owner, grants, wish) {
            true => Ok(()),
            false => Err(denied(relation.kind(), name)),
        }
    }

    /// 42501 unless `user` may do this to the table; its schema's USAGE is asked for too.
    pub fn require_on_table(&self, user: &str, table: &Table, wish: Privilege) -> Result<()> {
        if self.is_superuser(user) || table.owner == user {
            return Ok(());
        }
        self.require_schema(user, self.schema(&table.schema)?, Privilege::Usage)?;
        match self.permits(user, &table.owner, &table.grants, wish) {
            true => Ok(()),
            false => Err(denied(table.kind.name(), &table.name)),
        }
    }

    /// 42501 unless `user` may do this to the schema.
    pub fn require_schema(&self, user: &str, schema: &Schema, wish: Privilege) -> Result<()> {
        match self.permits(user, &schema.owner, &schema.grants, wish) {
            true => Ok(()),
            false => Err(denied("schema", &schema.name)),
        }
    }

    /// 42501 unless `user` owns it (or is a member of the owner).
    pub fn require_owner(&self, user: &str, owner: &str, kind: &str, name: &str) -> Result<()> {
        match self.acts_for(user, owner) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("must be owner of {kind} {name}"),
            )),
        }
    }

    /// Panics unless invariants 1, 2 and 4 hold. O(objects): for tests.
    pub fn check(&self) {
        let mut oids = BTreeSet::new();
        let mut tables = 0;
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
            if let (true, Some(column)) = (index.unique, table.partition_column()) {
                assert!(index.columns.iter().any(|key| key.column == column));
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

/// 42501.
pub fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|part| part.to_string()).collect()
    }

    fn sequence(catalog: &Catalog, schema: &str, name: &str) -> Relation {
        Relation::Sequence(Arc::new(Sequence {
            oid: catalog.ids.oid(),
            schema: schema.to_owned(),
            name: name.to_owned(),
            options: SequenceOptions { start: 1, increment: 1, min: 1, max: 9, cycle: false },
            position: Position::new(&catalog.ids, 0),
            owned_by: None,
            owner: "alice".to_owned(),
            grants: Vec::new(),
            comment: None,
        }))
    }

    fn role(catalog: &mut Catalog, name: &str, member_of: &[&str]) {
        let role = Role {
            oid: catalog.ids.oid(),
            name: name.to_owned(),
            login: true,
            superuser: false,
            create_role: false,
            create_db: false,
            verifier: None,
            member_of: names(member_of),
        };
        catalog.roles.insert(name.to_owned(), Arc::new(role));
    }

    #[test]
    fn names_are_resolved_along_the_search_path() {
        let mut catalog = Catalog::initial();
        let own =
            Schema { name: "own".into(), oid: 5, ..(**catalog.schema("public").unwrap()).clone() };
        catalog.schemas.insert("own".into(), Arc::new(own));
        catalog.put("public", "s", sequence(&catalog.clone(), "public", "s"));
        catalog.put("own", "s", sequence(&catalog.clone(), "own", "s"));
        catalog.check();
        let schema_of = |name: &[&str], path: &[&str]| {
            catalog.resolve(&names(name), &names(path)).map(|found| found.schema.name.clone())
        };
        assert_eq!(schema_of(&["s"], &["own", "public"]).as_deref(), Some("own"));
        assert_eq!(schema_of(&["s"], &["none", "public"]).as_deref(), Some("public"));
        assert_eq!(schema_of(&["db", "own", "s"], &[]).as_deref(), Some("own"));
        assert_eq!(schema_of(&["s"], &[]), None);
        let state = |name: &[&str]| {
            catalog.find_table(&names(name), &names(&["own"])).map(|_| ()).unwrap_err().state()
        };
        assert_eq!(state(&["x"]), SqlState::UNDEFINED_TABLE);
        assert_eq!(state(&["x", "y"]), SqlState::INVALID_SCHEMA_NAME);
        assert_eq!(state(&["s"]), SqlState::WRONG_OBJECT_TYPE);
        let place = |name: &[&str], path: &[&str]| {
            catalog.creation_place(&names(name), &names(path)).map_err(|error| error.state())
        };
        assert_eq!(place(&["t"], &["none", "own"]), Ok(("own".into(), "t".into())));
        assert_eq!(place(&["t"], &["none"]), Err(SqlState::INVALID_SCHEMA_NAME));
        assert_eq!(place(&["pg_catalog", "t"], &[]), Err(SqlState::INSUFFICIENT_PRIVILEGE));
        assert_eq!(catalog.free_name("own", "s", &names(&["s1"])), "s2");
        assert_eq!(
            catalog.refuse_taken("own", "s").unwrap_err().state(),
            SqlState::DUPLICATE_TABLE
        );
    }

    #[test]
    fn privileges_come_by_ownership_grant_and_membership() {
        let mut catalog = Catalog::initial();
        role(&mut catalog, "alice", &[]);
        role(&mut catalog, "staff", &[]);
        role(&mut catalog, "bob", &["team"]);
        role(&mut catalog, "team", &["staff", "team"]);
        let grant = |grantee: &str| Grant {
            grantee: grantee.to_owned(),
            grantor: "alice".to_owned(),
            privilege: Privilege::Usage,
            grantable: false,
        };
        catalog.put("public", "s", sequence(&catalog.clone(), "public", "s"));
        let may = |catalog: &Catalog, user| {
            let found = catalog.require(&names(&["s"]), &names(&["public"]))?;
            catalog.require_privilege(user, &found, Privilege::Usage)
        };
        assert!(may(&catalog, SUPERUSER).is_ok() && may(&catalog, "alice").is_ok());
        let error = may(&catalog, "bob").unwrap_err();
        assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(error.message(), "permission denied for sequence s");
        for (grantee, bob) in [("staff", true), (PUBLIC, true), ("nobody", false)] {
            let mut granted = catalog.clone();
            let Some(Relation::Sequence(mut sequence)) = granted.remove("public", "s") else {
                panic!("it was put there")
            };
            Arc::make_mut(&mut sequence).grants.push(grant(grantee));
            granted.put("public", "s", Relation::Sequence(sequence));
            assert_eq!(may(&granted, "bob").is_ok(), bob, "{grantee}");
        }
        catalog.schema_mut("public").grants.clear();
        let error = may(&catalog, "alice").unwrap_err();
        assert_eq!(error.message(), "permission denied for schema public");
        assert!(catalog.require_owner("bob", "staff", "table", "t").is_ok());
        assert!(catalog.require_owner("alice", "staff", "table", "t").is_err());
    }

    #[test]
    fn integers_are_spread_by_remainder_and_null_goes_first() {
        assert_eq!(partition_of(ValueRef::Int32(7), 4), 3);
        assert_eq!(partition_of(ValueRef::Int64(-1), 4), 3);
        assert_eq!(partition_of(ValueRef::Int16(-1), 4), 3);
        assert_eq!(partition_of(ValueRef::Null, 4), 0);
        assert_eq!(partition_of(ValueRef::Text("x"), 1), 0);
        let spread: BTreeSet<u32> =
            (0..100).map(|n| partition_of(ValueRef::Text(&format!("key{n}")), 4)).collect();
        assert_eq!(spread.len(), 4);
    }
}
