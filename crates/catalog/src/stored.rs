//! The catalog as bytes: the whole of it in checkpoints, and in the log what a commit made of it.
//!
//! JSON, by name of field: a later version can read it, and so can a person who has to. Views,
//! defaults and checks are SQL text in the catalog already. What follows from the rest (Arrow schemas,
//! names of indexes) is not stored; partitions are, by their ids. The rows of materialized views are
//! not: they are made anew from what the views read.
//! A change ([`encode_change`]) has what is new or different, wholly, and the names of what is gone. What
//! is different is another value behind its `Arc`, so finding it compares pointers.
//! Invariant, checked by `tables_and_all_about_them_survive`: what [`encode`] writes, [`decode`]
//! and [`Stored::restore`] turn into a catalog that passes [`Catalog::check`] and encodes to the
//! same bytes; the same holds after [`Stored::after`].

use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_base::ids::{PartitionId, TableId};
use halcyon_sql::enums::EnumId;
use halcyon_sql::error::SqlError;
use halcyon_sql::syntax::ViewCell;
use halcyon_txn::{Log, PartitionCell};
use serde::{Deserialize, Serialize};

use crate::materialized::{MaterializedView, ViewGuard};
use crate::sequence::Position;
use crate::table::OnCommit;
use crate::user_type::{StoredType, UserType, registered, unregistered};
use crate::workload::StoredWorkload;
use crate::{
    Catalog, Check, Column, ForeignKey, Grant, Ids, Index, OwnCollation, Partitioning, Relation,
    Role, Schema, Sequence, SequenceOptions, Table, TableKind, View,
};

/// Grows when an older version could not read what is written.
const FORMAT: u32 = 1;

/// A catalog that was read back and has no partitions yet.
#[derive(Serialize, Deserialize)]
pub struct Stored {
    format: u32,
    version: u64,
    next_oid: u32,
    next_partition: u32,
    roles: Vec<Role>,
    schemas: Vec<StoredSchema>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    #[serde(default, skip_serializing_if = "StoredWorkload::is_empty")]
    workload: StoredWorkload,
}

#[derive(Serialize, Deserialize)]
struct StoredSchema {
    oid: u32,
    name: String,
    owner: String,
    grants: Vec<Grant>,
    comment: Option<String>,
    tables: Vec<StoredTable>,
    views: Vec<View>,
    sequences: Vec<StoredSequence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    types: Vec<StoredType>,
    /// All of the schema's, also in a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    collations: Vec<OwnCollation>,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    id: u32,
    name: String,
    columns: Vec<Column>,
    partitioning: Partitioning,
    partitions: Vec<u32>,
    indexes: Vec<Index>,
    checks: Vec<Check>,
    foreign_keys: Vec<ForeignKey>,
    referenced_by: Vec<(u32, String)>,
    #[serde(default, skip_serializing_if = "StoredKind::is_ordinary")]
    kind: StoredKind,
    owner: String,
    grants: Vec<Grant>,
    comment: Option<String>,
}

/// A table that is not written is left out: most are, and older versions knew no others.
#[derive(Default, Serialize, Deserialize)]
enum StoredKind {
    #[default]
    Ordinary,
    Stream,
    Materialized {
        query: String,
        reads: Vec<u32>,
        guards: Vec<ViewGuard>,
        empty_on_restart: bool,
        #[serde(default, skip_serializing_if = "ViewCell::is_process")]
        cell: ViewCell,
    },
}

impl StoredKind {
    fn is_ordinary(&self) -> bool {
        matches!(self, StoredKind::Ordinary)
    }

    fn of(kind: &TableKind) -> Self {
        match kind {
            TableKind::Ordinary => StoredKind::Ordinary,
            TableKind::Stream => StoredKind::Stream,
            TableKind::Materialized(view) => StoredKind::Materialized {
                query: view.query.clone(),
                reads: view.reads.iter().map(|id| id.0).collect(),
                guards: view.guards.clone(),
                empty_on_restart: view.empty_on_restart,
                cell: view.cell,
            },
        }
    }

    fn restore(self) -> TableKind {
        match self {
            StoredKind::Ordinary => TableKind::Ordinary,
            StoredKind::Stream => TableKind::Stream,
            StoredKind::Materialized { query, reads, guards, empty_on_restart, cell } => {
                TableKind::Materialized(Arc::new(MaterializedView {
                    query,
                    reads: reads.into_iter().map(TableId).collect(),
                    guards,
                    empty_on_restart,
                    cell,
                    maintained: None,
                }))
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredSequence {
    oid: u32,
    name: String,
    options: SequenceOptions,
    position: u32,
    last: i64,
    owned_by: Option<(u32, u16)>,
    owner: String,
    grants: Vec<Grant>,
    comment: Option<String>,
}

/// What a commit makes of the catalog. `change` is its format, and stands first in the bytes.
#[derive(Serialize, Deserialize)]
struct Change {
    change: u32,
    version: u64,
    next_oid: u32,
    next_partition: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles_gone: Vec<String>,
    /// With the relations that are new or different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    schemas: Vec<StoredSchema>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    schemas_gone: Vec<String>,
    /// Schema and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    relations_gone: Vec<(String, String)>,
    settings: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    /// All of the database's; `None` if nothing is new or different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<StoredWorkload>,
}

/// How the bytes of a [`Change`] begin; those of a whole catalog begin with its format.
const CHANGE: &[u8] = b"{\"change\":";

/// What is to be stored to turn `before` into `after`.
pub fn encode_change(before: &Catalog, after: &Catalog) -> Vec<u8> {
    let (next_oid, next_partition) = after.ids.next();
    let mut change = Change {
        change: FORMAT,
        version: after.version,
        next_oid,
        next_partition,
        roles: Vec::new(),
        roles_gone: gone(&before.roles, &after.roles),
        schemas: Vec::new(),
        schemas_gone: gone(&before.schemas, &after.schemas),
        relations_gone: Vec::new(),
        settings: after.settings.clone(),
        comment: after.comment.clone(),
        workload: StoredWorkload::of_change(before, after),
    };
    for (name, role) in &after.roles {
        if !before.roles.get(name).is_some_and(|old| Arc::ptr_eq(old, role)) {
            change.roles.push((**role).clone());
        }
    }
    for (name, schema) in &after.schemas {
        let old = before.schemas.get(name);
        if old.is_some_and(|old| Arc::ptr_eq(old, schema)) {
            continue;
        }
        let same = |name: &str, relation: &Relation| {
            old.and_then(|old| old.relations.get(name)).is_some_and(|old| is_same(old, relation))
        };
        change.schemas.push(stored_schema(after, schema, |name, relation| !same(name, relation)));
        let relations = old.iter().flat_map(|old| &old.relations);
        for (relation, was) in relations {
            let is_gone = !schema.relations.get(relation).is_some_and(is_stored);
            if is_stored(was) && is_gone {
                change.relations_gone.push((name.clone(), relation.clone()));
            }
        }
    }
    serde_json::to_vec(&change).expect("names and numbers are JSON")
}

/// Names that only `before` has.
fn gone<T>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>) -> Vec<String> {
    before.keys().filter(|name| !after.contains_key(*name)).cloned().collect()
}

/// Whether it is stored under its own name; an index is its table's.
fn is_stored(relation: &Relation) -> bool {
    !matches!(relation, Relation::Index { .. })
}

fn is_same(old: &Relation, new: &Relation) -> bool {
    match (old, new) {
        (Relation::Table(old), Relation::Table(new)) => Arc::ptr_eq(old, new),
        (Relation::View(old), Relation::View(new)) => Arc::ptr_eq(old, new),
        (Relation::Sequence(old), Relation::Sequence(new)) => Arc::ptr_eq(old, new),
        (Relation::Type(old), Relation::Type(new)) => Arc::ptr_eq(old, new),
        _ => false,
    }
}

/// The catalog as bytes.
pub fn encode(catalog: &Catalog) -> Vec<u8> {
    let (next_oid, next_partition) = catalog.ids.next();
    let stored = Stored {
        format: FORMAT,
        version: catalog.version,
        next_oid,
        next_partition,
        roles: catalog.roles.values().map(|role| (**role).clone()).collect(),
        schemas: catalog
            .schemas
            .values()
            .map(|schema| stored_schema(catalog, schema, |_, _| true))
            .collect(),
        settings: catalog.settings.clone(),
        comment: catalog.comment.clone(),
        workload: StoredWorkload::of(catalog),
    };
    serde_json::to_vec(&stored).expect("names and numbers are JSON")
}

/// Reads what [`encode`] wrote. Errors: what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Stored, String> {
    require_format("the catalog", bytes)?;
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Looks at the format before all else: another one may have other fields.
fn require_format(what: &str, bytes: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Format {
        #[serde(alias = "change")]
        format: u32,
    }
    let Format { format } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match format {
        FORMAT => Ok(()),
        other => Err(format!("{what} has format {other}, this version reads {FORMAT}")),
    }
}

/// A schema of the catalog with the relations that are `wanted`.
fn stored_schema(
    catalog: &Catalog,
    schema: &Schema,
    wanted: impl Fn(&str, &Relation) -> bool,
) -> StoredSchema {
    let mut stored = StoredSchema {
        oid: schema.oid,
        name: schema.name.clone(),
        owner: schema.owner.clone(),
        grants: schema.grants.clone(),
        comment: schema.comment.clone(),
        tables: Vec::new(),
        views: Vec::new(),
        sequences: Vec::new(),
        types: Vec::new(),
        collations: schema.collations.values().map(|own| (**own).clone()).collect(),
    };
    for (_, relation) in schema.relations.iter().filter(|(name, relation)| wanted(name, relation)) {
        match relation {
            Relation::Table(table) => stored.tables.push(stored_table(catalog, table)),
            Relation::View(view) => {
                let mut view = (**view).clone();
                view.change_types(|ty| unregistered(ty, catalog));
                stored.views.push(view);
            }
            Relation::Type(own) => stored.types.push(own.stored(catalog)),
            Relation::Sequence(sequence) => stored.sequences.push(stored_sequence(sequence)),
            // It is one of its table's.
            Relation::Index { .. } => {}
        }
    }
    stored
}

fn stored_table(catalog: &Catalog, table: &Table) -> StoredTable {
    let mut table = table.clone();
    table.change_types(|ty| unregistered(ty, catalog));
    StoredTable {
        id: table.id.0,
        name: table.name.clone(),
        columns: table.columns,
        partitioning: table.partitioning.clone(),
        partitions: table.cells.iter().map(|cell| cell.id.0).collect(),
        indexes: table.indexes,
        checks: table.checks.clone(),
        foreign_keys: table.foreign_keys.clone(),
        referenced_by: table.referenced_by.iter().map(|(id, key)| (id.0, key.clone())).collect(),
        kind: StoredKind::of(&table.kind),
        owner: table.owner.clone(),
        grants: table.grants.clone(),
        comment: table.comment.clone(),
    }
}

fn stored_sequence(sequence: &Sequence) -> StoredSequence {
    let (position, last) = sequence.position.stored();
    StoredSequence {
        oid: sequence.oid,
        name: sequence.name.clone(),
        options: sequence.options,
        position,
        last,
        owned_by: sequence.owned_by.map(|(table, column)| (table.0, column)),
        owner: sequence.owner.clone(),
        grants: sequence.grants.clone(),
        comment: sequence.comment.clone(),
    }
}

impl Stored {
    /// Where its sequences stand, by their names in the log.
    pub fn positions(&self) -> BTreeMap<u32, i64> {
        let sequences = self.schemas.iter().flat_map(|schema| &schema.sequences);
        sequences.map(|sequence| (sequence.position, sequence.last)).collect()
    }

    /// The catalog after a commit, by what [`encode_change`] or [`encode`] made of it.
    ///
    /// Errors: what is wrong with the bytes.
    pub fn after(mut self, bytes: &[u8]) -> Result<Stored, String> {
        if !bytes.starts_with(CHANGE) {
            return decode(bytes);
        }
        require_format("a change of the catalog", bytes)?;
        let change: Change = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        (self.version, self.settings) = (change.version, change.settings);
        self.comment = change.comment;
        self.workload = change.workload.unwrap_or(self.workload);
        (self.next_oid, self.next_partition) = (change.next_oid, change.next_partition);
        self.roles.retain(|role| {
            let replaced = change.roles.iter().any(|new| new.name == role.name);
            !replaced && !change.roles_gone.contains(&role.name)
        });
        self.roles.extend(change.roles);
        self.schemas.retain(|schema| !change.schemas_gone.contains(&schema.name));
        for (schema, name) in &change.relations_gone {
            if let Some(schema) = self.schemas.iter_mut().find(|found| found.name == *schema) {
                schema.forget(name);
            }
        }
        for new in change.schemas {
            match self.schemas.iter_mut().find(|schema| schema.name == new.name) {
                Some(schema) => schema.change(new),
                None => self.schemas.push(new),
            }
        }
        Ok(self)
    }

    /// The catalog. `positions` overrule where sequences stand, `cell` finds the partitions.
    ///
    /// Errors: those of `cell`; 54000 for more enumerations than a process has room for.
    pub fn restore<E: From<SqlError>>(
        mut self,
        positions: &BTreeMap<u32, i64>,
        log: Option<Arc<Log>>,
        mut cell: impl FnMut(PartitionId, &Table) -> Result<Arc<PartitionCell>, E>,
    ) -> Result<Catalog, E> {
        // The log may name sequences that were undone; their numbers must not come again either.
        let named = positions.last_key_value().map_or(0, |(id, _)| id + 1);
        let next_oid = self.next_oid.max(named);
        let mut catalog = Catalog {
            version: self.version,
            settings: self.settings,
            comment: self.comment,
            ids: Arc::new(Ids::starting(next_oid, self.next_partition, log.clone())),
            ..Catalog::default()
        };
        self.workload.restore(&mut catalog);
        let roles = self.roles.into_iter().map(|role| (role.name.clone(), Arc::new(role)));
        catalog.roles = roles.collect();
        let mut enums = BTreeMap::new();
        let types = self
            .schemas
            .iter_mut()
            .flat_map(|schema| schema.types.drain(..).map(|own| (schema.name.clone(), own)));
        let mut types: Vec<(String, StoredType)> = types.collect();
        types.sort_by_key(|(_, own)| own.is_domain());
        let types =
            types.into_iter().map(|(schema, own)| UserType::restore(&schema, own, &mut enums));
        let types = types.collect::<Result<Vec<UserType>, SqlError>>()?;
        for stored in self.schemas {
            let name = stored.name.clone();
            let schema = Schema {
                oid: stored.oid,
                name: name.clone(),
                owner: stored.owner,
                relations: BTreeMap::new(),
                collations: stored
                    .collations
                    .into_iter()
                    .map(|own| (own.collation.name.clone(), Arc::new(own)))
                    .collect(),
                grants: stored.grants,
                comment: stored.comment,
            };
            catalog.schemas.insert(name.clone(), Arc::new(schema));
            for table in stored.tables {
                let table = restore_table(&name, table, &enums, &mut cell)?;
                for index in &table.indexes {
                    let relation = Relation::Index { table: table.id, index: index.id };
                    catalog.put(&name, &index.name, relation);
                }
                catalog.put(&name, &table.name.clone(), Relation::Table(Arc::new(table)));
            }
            for mut view in stored.views {
                view.change_types(|ty| registered(ty, &enums));
                catalog.put(&name, &view.name.clone(), Relation::View(Arc::new(view)));
            }
            for sequence in stored.sequences {
                let last = positions.get(&sequence.position).copied().unwrap_or(sequence.last);
                let position = Position::restored(sequence.position, last, log.clone());
                let sequence = restore_sequence(&name, sequence, position);
                let relation_name = sequence.name.clone();
                catalog.put(&name, &relation_name, Relation::Sequence(Arc::new(sequence)));
            }
        }
        for own in types {
            catalog.put_type(own);
        }
        catalog.find_feeds();
        Ok(catalog)
    }
}

impl StoredSchema {
    fn forget(&mut self, name: &str) {
        self.tables.retain(|table| table.name != name);
        self.views.retain(|view| view.name != name);
        self.sequences.retain(|sequence| sequence.name != name);
        self.types.retain(|own| own.name != name);
    }

    /// Takes over what `new` has.
    fn change(&mut self, new: StoredSchema) {
        let tables = new.tables.iter().map(|table| &table.name);
        let views = new.views.iter().map(|view| &view.name);
        let sequences = new.sequences.iter().map(|sequence| &sequence.name);
        let types = new.types.iter().map(|own| &own.name);
        tables.chain(views).chain(sequences).chain(types).for_each(|name| self.forget(name));
        self.tables.extend(new.tables);
        self.views.extend(new.views);
        self.sequences.extend(new.sequences);
        self.types.extend(new.types);
        (self.oid, self.owner) = (new.oid, new.owner);
        (self.grants, self.comment) = (new.grants, new.comment);
        self.collations = new.collations;
    }
}

fn restore_table<E>(
    schema: &str,
    stored: StoredTable,
    enums: &BTreeMap<u32, EnumId>,
    cell: &mut impl FnMut(PartitionId, &Table) -> Result<Arc<PartitionCell>, E>,
) -> Result<Table, E> {
    let mut table = Table {
        id: TableId(stored.id),
        schema: schema.to_owned(),
        name: stored.name,
        columns: stored.columns,
        arrow: Arc::new(arrow::datatypes::Schema::empty()),
        partitioning: stored.partitioning,
        cells: Vec::new(),
        indexes: stored.indexes,
        checks: stored.checks,
        foreign_keys: stored.foreign_keys,
        referenced_by: stored
            .referenced_by
            .into_iter()
            .map(|(id, key)| (TableId(id), key))
            .collect(),
        kind: stored.kind.restore(),
        feeds: Vec::new(),
        on_commit: OnCommit::default(),
        owner: stored.owner,
        grants: stored.grants,
        comment: stored.comment,
    };
    table.change_types(|ty| registered(ty, enums));
    table.refresh_arrow();
    for id in stored.partitions {
        let found = cell(PartitionId(id), &table)?;
        table.cells.push(found);
    }
    Ok(table)
}

fn restore_sequence(schema: &str, stored: StoredSequence, position: Arc<Position>) -> Sequence {
    Sequence {
        oid: stored.oid,
        schema: schema.to_owned(),
        name: stored.name,
        options: stored.options,
        position,
        owned_by: stored.owned_by.map(|(table, column)| (TableId(table), column)),
        owner: stored.owner,
        grants: stored.grants,
        comment: stored.comment,
    }
}
