//! What exists: schemas, tables, views, sequences, roles. An immutable value with a version.
//!
//! A DDL transaction changes a copy of its own and publishes it when it commits, before its
//! partition locks are released; everybody else keeps the version they began with and looks
//! again once they hold their locks.
//!
//! Invariants, checked by [`Catalog::check`]:
//! 1. Names are unique among the relations (tables, views, indexes, sequences) of a schema.
//! 2. Every foreign key is mirrored in `referenced_by` of the table it refers to.
//! 3. Every index of a table exists in each of its partitions under the same [`IndexId`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use arrow::datatypes::SchemaRef;
use halcyon_base::ids::{IndexId, TableId};
use halcyon_txn::PartitionCell;

use crate::types::SqlType;

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
    /// Next object id to hand out (tables, indexes, sequences, schemas, roles share the range).
    pub next_oid: u32,
    /// Next global partition id.
    pub next_partition: u32,
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
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
    /// COMMENT ON TABLE.
    pub comment: Option<String>,
}

/// How the rows of a table are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct Identity {
    /// ALWAYS refuses explicit values unless OVERRIDING SYSTEM VALUE.
    pub always: bool,
    /// Name of the sequence in the table's schema.
    pub sequence: String,
}

/// An index, unique or not.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its id in every partition; equals the object id.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IndexConstraint {
    PrimaryKey,
    Unique,
}

/// One key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// Position in the table.
    pub column: u16,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name.
    pub name: String,
    /// Condition as SQL text.
    pub expr: String,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// Name.
    pub name: String,
    /// Columns of the referring table.
    pub columns: Vec<u16>,
    /// Table referred to.
    pub target: TableId,
    /// Columns of the target, which have a unique index.
    pub target_columns: Vec<u16>,
    /// ON DELETE.
    pub on_delete: Action,
    /// ON UPDATE.
    pub on_update: Action,
}

/// What happens to referring rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// A view: a stored query.
#[derive(Clone, Debug)]
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
pub struct Sequence {
    /// Object id.
    pub oid: u32,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Start, step and bounds.
    pub options: SequenceOptions,
    /// Last value handed out; [`SequenceOptions::start`] − increment before the first.
    pub last: Arc<AtomicI64>,
    /// Column it belongs to, dropped with it: (table, column).
    pub owned_by: Option<(TableId, u16)>,
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
}

/// Parameters of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SequenceOptions {
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

/// A role: user or group.
#[derive(Clone, Debug)]
pub struct Role {
    /// Object id.
    pub oid: u32,
    /// Name.
    pub name: String,
    /// May log in.
    pub login: bool,
    /// May do everything.
    pub superuser: bool,
    /// SCRAM-SHA-256 verifier in PostgreSQL's notation; no plain password is kept.
    pub verifier: Option<String>,
    /// Roles it is a member of.
    pub member_of: Vec<String>,
}

/// A privilege given to a role (`public` means everybody).
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Privilege {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    References,
    Usage,
}
