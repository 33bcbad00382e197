//! Everything with an object id, under one roof: relations by id and by name, roles, schemas.
//!
//! Object ids are the catalog's own and never change while the object lives. Those of system tables
//! are fixed ([`mod@super::system_tables`]). Constraints and defaults have no id in the catalog:
//! theirs is a hash of the owning table and the name, equally stable.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use halcyon_base::ids::TableId;

use super::Context;
use super::statics::{Fixed, PG_CATALOG};
use super::table::Def;
use super::view::View as SystemView;
use halcyon_catalog::{
    Catalog, Check, ForeignKey, Grant, Index, Relation, Schema, Sequence, Table, TableKind,
    UserType, View,
};

/// The one database, with the first id that is not PostgreSQL's own: pgAdmin and others hide what has a lower one.
pub(crate) const DATABASE: u32 = 16_384;
/// Owner of what nobody made.
pub(crate) const BOOTSTRAP_ROLE: u32 = 10;

/// A relation, whatever it is.
pub(crate) struct Object {
    pub(crate) oid: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// `None` for system tables: they belong to [`BOOTSTRAP_ROLE`].
    pub(crate) owner: Option<String>,
    pub(crate) what: What,
}

/// What a relation is.
pub(crate) enum What {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    /// An index and its table.
    Index(Arc<Table>, Box<Index>),
    System(System),
}

/// A system table.
pub(crate) struct SystemTable {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: u32,
    pub(crate) system: System,
}

/// Where a system table's rows come from: written on demand, or fixed ones.
#[derive(Clone)]
pub(crate) enum System {
    Written(&'static Def),
    /// A view of schema `halcyon`, which has descriptions.
    View(&'static SystemView),
    Fixed(Fixed),
}

impl System {
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            System::Written(def) => def.schema(),
            System::View(view) => view.def.schema(),
            System::Fixed(table) => Arc::clone(&table.schema),
        }
    }
}

impl Object {
    /// `pg_class.relkind`.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.what {
            What::Table(table) => match table.kind {
                TableKind::Ordinary => "r",
                TableKind::Stream => "f",
                TableKind::Materialized(_) => "m",
            },
            What::View(_) => "v",
            What::Sequence(_) => "S",
            What::Index(..) => "i",
            What::System(_) if is_pg_table(&self.schema, &self.name) => "r",
            What::System(_) => "v",
        }
    }

    /// What is granted on it to others than its owner.
    pub(crate) fn grants(&self) -> &[Grant] {
        match &self.what {
            What::Table(table) => &table.grants,
            What::View(view) => &view.grants,
            What::Sequence(sequence) => &sequence.grants,
            What::Index(..) | What::System(_) => &[],
        }
    }

    pub(crate) fn comment(&self) -> Option<&str> {
        match &self.what {
            What::Table(table) => table.comment.as_deref(),
            What::View(view) => view.comment.as_deref(),
            What::Index(_, index) => index.comment.as_deref(),
            What::Sequence(sequence) => sequence.comment.as_deref(),
            What::System(System::View(view)) => Some(view.about.trim()),
            What::System(System::Written(_) | System::Fixed(_)) => None,
        }
    }

    /// The comment on a column, by position from 0.
    pub(crate) fn column_comment(&self, column: usize) -> Option<&str> {
        match &self.what {
            What::Table(table) => table.columns.get(column)?.comment.as_deref(),
            What::System(System::View(view)) => view.meanings.get(column).map(|text| text.trim()),
            What::View(_) | What::Sequence(_) | What::Index(..) | What::System(_) => None,
        }
    }

    /// How many columns may have comments.
    pub(crate) fn column_count(&self) -> usize {
        match &self.what {
            What::Table(table) => table.columns.len(),
            What::System(system) => system.schema().fields().len(),
            What::View(_) | What::Sequence(_) | What::Index(..) => 0,
        }
    }
}

/// The tables of the catalog with their objects.
pub(crate) fn each_table(context: &Context) -> impl Iterator<Item = (&Object, &Arc<Table>)> {
    context.objects().relations.values().filter_map(|object| match &object.what {
        What::Table(table) => Some((object, table)),
        _ => None,
    })
}

/// Whether a system table is a table in PostgreSQL.
pub(crate) fn is_pg_table(schema: &str, name: &str) -> bool {
    schema == "pg_catalog" && !is_pg_view(name)
}

/// Whether a system table is one that superusers alone may read, as in PostgreSQL: its rows have what others must not know.
pub(crate) fn is_secret(schema: &str, name: &str) -> bool {
    const SECRET: &[&str] =
        &["pg_authid", "pg_shadow", "pg_statistic", "pg_statistic_ext_data", "pg_user_mapping"];
    schema == "pg_catalog" && SECRET.contains(&name)
}

/// Names of `pg_catalog` that are views in PostgreSQL.
fn is_pg_view(name: &str) -> bool {
    #[rustfmt::skip]
    const VIEWS: &[&str] = &[
        "pg_roles", "pg_user", "pg_group", "pg_shadow", "pg_tables", "pg_views", "pg_indexes",
        "pg_sequences", "pg_settings", "pg_locks", "pg_matviews", "pg_policies", "pg_rules",
        "pg_available_extensions", "pg_prepared_statements", "pg_cursors", "pg_timezone_names",
        "pg_timezone_abbrevs",
        "pg_replication_slots", "pg_publication_tables", "pg_get_keywords", "pg_prepared_xacts",
        "pg_available_extension_versions", "pg_seclabels", "pg_user_mappings",
    ];
    name.starts_with("pg_stat") && name != "pg_statistic" && !name.starts_with("pg_statistic_ext")
        || VIEWS.contains(&name)
}

/// The catalog's objects, arranged for look-up.
pub(crate) struct Objects {
    /// Relations by id, system tables included.
    pub(crate) relations: BTreeMap<u32, Object>,
    by_name: HashMap<(String, String), u32>,
}

impl Objects {
    /// Arranges the system tables and a catalog's objects. O(objects).
    pub(crate) fn of(catalog: &Catalog, system_tables: &[SystemTable]) -> Objects {
        let mut objects = Objects { relations: BTreeMap::new(), by_name: HashMap::new() };
        for table in system_tables {
            objects.add(Object {
                oid: table.oid,
                schema: table.schema.to_owned(),
                name: table.name.to_owned(),
                owner: None,
                what: What::System(table.system.clone()),
            });
        }
        for schema in catalog.schemas.values() {
            for (name, relation) in &schema.relations {
                objects.add_relation(catalog, schema, name, relation);
            }
        }
        objects
    }

    fn add_relation(&mut self, catalog: &Catalog, schema: &Schema, name: &str, what: &Relation) {
        let (oid, owner, what) = match what {
            Relation::Table(table) => {
                (table.id.0, table.owner.clone(), What::Table(Arc::clone(table)))
            }
            Relation::View(view) => (view.oid, view.owner.clone(), What::View(Arc::clone(view))),
            Relation::Sequence(sequence) => {
                (sequence.oid, sequence.owner.clone(), What::Sequence(Arc::clone(sequence)))
            }
            Relation::Type(_) => return,
            Relation::Index { table, index } => {
                let table = catalog.tables.get(table).expect("an index stands with its table");
                let Some(found) = table.indexes.iter().find(|i| i.id == *index) else { return };
                (
                    index.0,
                    table.owner.clone(),
                    What::Index(Arc::clone(table), Box::new(found.clone())),
                )
            }
        };
        let (schema, name) = (schema.name.clone(), name.to_owned());
        self.add(Object { oid, schema, name, owner: Some(owner), what });
    }

    fn add(&mut self, object: Object) {
        self.by_name.insert((object.schema.clone(), object.name.clone()), object.oid);
        self.relations.insert(object.oid, object);
    }

    /// A relation by id.
    pub(crate) fn get(&self, oid: u32) -> Option<&Object> {
        self.relations.get(&oid)
    }

    /// A relation by schema and name.
    pub(crate) fn named(&self, schema: &str, name: &str) -> Option<&Object> {
        self.get(*self.by_name.get(&(schema.to_owned(), name.to_owned()))?)
    }
}

/// The id of `information_schema` where the rows of [`crate::exported`] come from, which name it.
const INFORMATION_SCHEMA: u32 = 13283;

/// A schema's object id as clients see it.
pub(crate) fn schema_oid(schema: &Schema) -> u32 {
    match schema.name.as_str() {
        "pg_catalog" => PG_CATALOG,
        "information_schema" => INFORMATION_SCHEMA,
        _ => schema.oid,
    }
}

/// The id of a schema by name; 0 if there is none.
pub(crate) fn namespace(catalog: &Catalog, name: &str) -> u32 {
    catalog.schemas.get(name).map_or(0, |schema| schema_oid(schema))
}

/// The id of a role by name; that of the bootstrap role if it is gone.
pub(crate) fn role_oid(catalog: &Catalog, name: &str) -> u32 {
    catalog.roles.get(name).map_or(BOOTSTRAP_ROLE, |role| role.oid)
}

/// A name that is stable across versions for what has no id of its own. 30 bits, never 0, above
/// every id that the catalog hands out.
fn hashed(table: &Table, kind: &str, name: &str) -> u32 {
    hash_of(table.id.0, kind, name)
}

fn hash_of(owner: u32, kind: &str, name: &str) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = owner.to_le_bytes();
    for byte in bytes.iter().chain(kind.as_bytes()).chain(b"\0").chain(name.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    0x4000_0000 | ((hash ^ (hash >> 32)) as u32 & 0x3fff_ffff)
}

/// Id of the type of a relation's rows, which tools ask for relations that have some; no type here has that id.
pub(crate) fn row_type_oid(object: &Object) -> u32 {
    match object.kind() {
        "i" | "S" => 0,
        _ => hash_of(object.oid, "row type", ""),
    }
}

/// Id of a CHECK constraint.
pub(crate) fn check_oid(table: &Table, check: &Check) -> u32 {
    hashed(table, "check", &check.name)
}

/// Id of a CHECK of a domain.
pub(crate) fn domain_check_oid(domain: &UserType, check: &Check) -> u32 {
    hash_of(domain.id, "domain check", &check.name)
}

/// Id of a label of an enumeration.
pub(crate) fn label_oid(enumeration: &UserType, label: &str) -> u32 {
    hash_of(enumeration.id, "label", label)
}

/// Id of a FOREIGN KEY constraint.
pub(crate) fn foreign_key_oid(table: &Table, key: &ForeignKey) -> u32 {
    hashed(table, "foreign key", &key.name)
}

/// Ids and comments of the constraints of tables and domains that have comments.
pub(crate) fn constraint_comments(catalog: &Catalog) -> Vec<(u32, &str)> {
    let mut found: Vec<(u32, Option<&String>)> = Vec::new();
    for table in catalog.tables.values() {
        let checks = table.checks.iter();
        found.extend(checks.map(|check| (check_oid(table, check), check.comment.as_ref())));
        let keys = table.foreign_keys.iter();
        found.extend(keys.map(|key| (foreign_key_oid(table, key), key.comment.as_ref())));
        let indexes = table.indexes.iter();
        found.extend(indexes.map(|index| (index.id.0, index.constraint_comment.as_ref())));
    }
    for own in catalog.types.values() {
        let checks = own.domain().into_iter().flat_map(|domain| &domain.checks);
        found.extend(checks.map(|check| (domain_check_oid(own, check), check.comment.as_ref())));
    }
    found.into_iter().filter_map(|(oid, comment)| Some((oid, comment?.as_str()))).collect()
}

/// Id of a column's default.
pub(crate) fn default_oid(table: &Table, column: &str) -> u32 {
    hashed(table, "default", column)
}

/// As [`default_oid`], of a view's column.
pub(crate) fn view_default_oid(view: &View, column: &str) -> u32 {
    hash_of(view.oid, "default", column)
}

/// The table that a partition belongs to.
pub(crate) fn table_of(context: &Context, partition: u32) -> Option<TableId> {
    let holds = |cells: &[std::sync::Arc<halcyon_txn::PartitionCell>]| {
        cells.iter().any(|cell| cell.id.0 == partition)
    };
    context.catalog.tables.values().find(|table| holds(&table.cells)).map(|table| table.id)
}
