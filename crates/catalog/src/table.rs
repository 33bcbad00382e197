//! Tables: columns, constraints, indexes, and how rows are spread over partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use halcyon_base::ids::{IndexId, TableId};
use halcyon_base::progress::Object;
use halcyon_collations::{Collation, FIELD_KEY};
use halcyon_store::{ColumnDef, Derivation, IndexDef, KeyColumn, Schema as StoreSchema, ValueRef};
use halcyon_txn::PartitionCell;
use serde::{Deserialize, Serialize};

use super::rights::Grant;
use crate::materialized::MaterializedView;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::quote_ident;
use halcyon_sql::types::SqlType;

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
    /// What a commit does to it, if it is temporary.
    pub on_commit: OnCommit,
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
    Materialized(Arc<MaterializedView>),
}

/// What becomes of a temporary table when a transaction commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// Its rows stay.
    #[default]
    PreserveRows,
    /// Its rows go.
    DeleteRows,
    /// The table goes.
    Drop,
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
    /// Expression of GENERATED ALWAYS AS (…) STORED as SQL text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
    /// The domain that it is of, by its number in the catalog ([`crate::UserType::id`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// COLLATE; `None` for the default collation, and for what is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Collation>,
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
    #[serde(with = "super::ids::index_id")]
    pub id: IndexId,
    /// Name.
    pub name: String,
    /// Key columns in order; none if the index is derived.
    pub columns: Vec<IndexColumn>,
    /// The key's expressions and the condition on rows, if the index is over more than columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<Derived>,
    /// Whether a key may stand once only.
    pub unique: bool,
    /// NULLS NOT DISTINCT: a key with NULL may stand once only, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nulls_not_distinct: bool,
    /// INCLUDE: columns that its definition names behind the key. A look-up has the whole row at hand, so
    /// that they are not stored a second time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included: Vec<u16>,
    /// Operator classes of the key's columns or expressions that are not their types' own, by position. All
    /// order as the types do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operator_classes: BTreeMap<u16, String>,
    /// COLLATE of the key's columns or expressions, by position, where it is another one than theirs. What is
    /// looked up in an index is equality alone, or an order of bytes, so that these are for those who ask.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collations: BTreeMap<u16, Collation>,
    /// PRIMARY KEY or UNIQUE if it was made by a constraint.
    pub constraint: Option<IndexConstraint>,
    /// Whether the constraint is DEFERRABLE. A key may stand in the index several times then, until
    /// the constraint is judged; so `unique` is false. A unique index of a materialized view is judged likewise, once
    /// the view has followed a statement (`Immediate`), though no constraint made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<Deferral>,
    /// COMMENT ON INDEX.
    pub comment: Option<String>,
    /// COMMENT ON CONSTRAINT, if a constraint made the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint_comment: Option<String>,
}

/// What a *derived* index is over: expressions, or rows that satisfy a condition.
///
/// Such an index has no [`Index::columns`]: what reasons about keys of columns (foreign keys, the keys
/// that a query's result has, the order of events in views) passes it over by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Derived {
    /// The key, most significant expression first.
    pub keys: Vec<DerivedKey>,
    /// Condition of the rows that are in the index, as SQL text; `None`: all rows are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Expressions and condition, compiled for the table's columns as they are. Not stored: recovery,
    /// and DDL that changes the table's columns, bind them again.
    #[serde(skip)]
    pub bound: Option<Derivation>,
}

/// One expression of the key of a derived index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedKey {
    /// The expression as SQL text.
    pub expr: String,
    /// Whether the text is a column's name or a call, which need no brackets in CREATE INDEX.
    pub stands_alone: bool,
    /// Type of its values.
    pub ty: SqlType,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
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
    /// NOT VALID: rows that were there need not satisfy it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_valid: bool,
    /// COMMENT ON CONSTRAINT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Name.
    pub name: String,
    /// Columns of the referring table.
    pub columns: Vec<u16>,
    /// Table referred to.
    #[serde(with = "super::ids::table_id")]
    pub target: TableId,
    /// Columns of the target, which have a unique index.
    pub target_columns: Vec<u16>,
    /// ON DELETE.
    pub on_delete: Action,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_delete_columns: Vec<u16>,
    /// ON UPDATE.
    pub on_update: Action,
    /// Whether the constraint is DEFERRABLE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<Deferral>,
    /// MATCH FULL: all columns of the referring row are NULL, or none is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// NOT VALID: rows that were there may refer to nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_valid: bool,
    /// COMMENT ON CONSTRAINT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl ForeignKey {
    /// The columns of a referring row that SET NULL and SET DEFAULT set, when the row referred to is deleted or changed.
    pub fn set_columns(&self, deleted: bool) -> &[u16] {
        match deleted && !self.on_delete_columns.is_empty() {
            true => &self.on_delete_columns,
            false => &self.columns,
        }
    }
}

/// When a DEFERRABLE constraint is judged, unless SET CONSTRAINTS says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deferral {
    /// At the end of each statement: INITIALLY IMMEDIATE.
    Immediate,
    /// At the end of the transaction: INITIALLY DEFERRED.
    Deferred,
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

impl Deferral {
    /// SQL's words for a constraint that is judged then, with a blank before them; nothing for one
    /// that is not DEFERRABLE.
    pub fn words(this: Option<Deferral>) -> &'static str {
        match this {
            None => "",
            Some(Deferral::Immediate) => " DEFERRABLE",
            Some(Deferral::Deferred) => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

impl Check {
    /// A constraint of this name and condition, which is SQL text.
    pub fn new(name: String, expr: String) -> Check {
        Check { name, expr, not_valid: false, comment: None }
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

impl Column {
    /// A column that takes what a query's column of this field and type gives.
    pub fn of_result(name: impl Into<String>, ty: SqlType, field: &Field) -> Column {
        let spelled = field.metadata().get(FIELD_KEY);
        let collation = spelled.and_then(|text| Collation::of_spelled(text));
        Column { collation, ..Column::new(name, ty) }
    }

    /// Its Arrow field.
    pub fn field(&self) -> Field {
        let mut field = self.ty.field(&self.name, !self.not_null);
        if let Some(collation) = &self.collation {
            field.metadata_mut().insert(FIELD_KEY.to_owned(), collation.spelled());
        }
        field
    }

    /// A column of a name and a type, and nothing else that a definition may say.
    pub fn new(name: impl Into<String>, ty: SqlType) -> Column {
        Column {
            name: name.into(),
            ty,
            not_null: false,
            default: None,
            identity: None,
            generated: None,
            domain: None,
            collation: None,
            comment: None,
        }
    }
}

impl Table {
    /// An ordinary table of columns alone, without a partition yet.
    pub fn new(id: TableId, schema: &str, name: &str, owner: &str, columns: Vec<Column>) -> Table {
        let mut table = Table {
            id,
            schema: schema.to_owned(),
            name: name.to_owned(),
            columns,
            arrow: Arc::new(ArrowSchema::empty()),
            partitioning: Partitioning::Single,
            cells: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            kind: TableKind::Ordinary,
            feeds: Vec::new(),
            on_commit: OnCommit::default(),
            owner: owner.to_owned(),
            grants: Vec::new(),
            comment: None,
        };
        table.refresh_arrow();
        table
    }

    /// The definition, if it is a materialized view.
    pub fn materialized(&self) -> Option<&Arc<MaterializedView>> {
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

    /// Whether values of a column are computed from those of others.
    pub fn has_generated(&self) -> bool {
        self.columns.iter().any(|column| column.generated.is_some())
    }

    /// The index by id.
    pub fn index(&self, id: IndexId) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The index of the primary key.
    pub fn primary_key(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.constraint == Some(IndexConstraint::PrimaryKey))
    }

    /// Names and comments of the constraints that have comments.
    pub fn constraint_comments(&self) -> impl Iterator<Item = (&String, &String)> {
        let checks = self.checks.iter().map(|check| (&check.name, &check.comment));
        let keys = self.foreign_keys.iter().map(|key| (&key.name, &key.comment));
        let indexes = self.indexes.iter().map(|index| (&index.name, &index.constraint_comment));
        let all = checks.chain(keys).chain(indexes);
        all.filter_map(|(name, comment)| Some((name, comment.as_ref()?)))
    }

    /// The table as others see it in the progress of a statement.
    pub fn shown(&self) -> Object {
        Object::new(&self.schema, &self.name, self.id.0)
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
        let fields: Vec<_> = self.columns.iter().map(Column::field).collect();
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
    /// An index over columns alone, that no constraint made and that allows a key any number of times.
    pub fn new(id: IndexId, name: String, columns: Vec<IndexColumn>) -> Index {
        Index {
            id,
            name,
            columns,
            derived: None,
            unique: false,
            nulls_not_distinct: false,
            included: Vec::new(),
            operator_classes: BTreeMap::new(),
            collations: BTreeMap::new(),
            constraint: None,
            deferral: None,
            comment: None,
            constraint_comment: None,
        }
    }

    /// NULLS NOT DISTINCT with a blank before it, if the index says so.
    pub fn nulls_words(&self) -> &'static str {
        if self.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" }
    }

    /// The index as a partition keeps it.
    ///
    /// Panics: if the index is derived and has not been bound.
    pub fn def(&self) -> IndexDef {
        if let Some(derived) = &self.derived {
            return self.derived_def(derived);
        }
        let key = |column: &IndexColumn| KeyColumn {
            column: column.column,
            descending: column.descending,
            nulls_first: column.nulls_first,
        };
        IndexDef {
            id: self.id,
            columns: self.columns.iter().map(key).collect(),
            derivation: None,
            unique: self.unique,
            nulls_distinct: !self.nulls_not_distinct,
        }
    }

    fn derived_def(&self, derived: &Derived) -> IndexDef {
        let key = |(at, key): (usize, &DerivedKey)| KeyColumn {
            column: at as u16,
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        IndexDef {
            id: self.id,
            columns: derived.keys.iter().enumerate().map(key).collect(),
            derivation: Some(derived.bound.clone().expect("a derived index has been bound")),
            unique: self.unique,
            nulls_distinct: !self.nulls_not_distinct,
        }
    }

    /// The columns of the table that decide about a row's entry.
    ///
    /// Panics: if the index is derived and has not been bound.
    pub fn inputs(&self) -> impl Iterator<Item = u16> + '_ {
        let bound = |derived: &'_ Derived| {
            derived.bound.as_ref().expect("a derived index has been bound").inputs.clone()
        };
        let derived = self.derived.as_ref().map(bound).unwrap_or_default();
        derived.into_iter().chain(self.columns.iter().map(|key| key.column))
    }

    /// Whether a key may stand once only, now or when a DEFERRABLE constraint is judged.
    pub fn says_unique(&self) -> bool {
        self.unique || self.deferral.is_some()
    }

    /// Whether the key is made of exactly these columns, in any order.
    pub fn covers_exactly(&self, columns: &[u16]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().all(|key| columns.contains(&key.column))
            && columns.iter().all(|column| self.columns.iter().any(|key| key.column == *column))
    }
}

impl DerivedKey {
    /// The column that the key is, if it is nothing more.
    pub fn column(&self, table: &Table) -> Option<u16> {
        let is_it = |column: &Column| quote_ident(&column.name) == self.expr;
        let found = table.columns.iter().position(is_it).filter(|_| self.stands_alone);
        found.map(|at| at as u16)
    }

    /// The expression as definitions show it: names and calls stand alone, all else in brackets.
    pub fn shown(&self) -> String {
        match self.stands_alone {
            true => self.expr.clone(),
            false => format!("({})", self.expr),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
